//! Each turn of a peer is a process of its own, and turns follow one another. So two OpenMP runtimes never meet, idle workers of one peer
//! do not disturb the next, and the processor time of a process is that of one peer.

use crate::Fallible;
use crate::cases::{self, Job};
use crate::peers::{self, Setting};
use crate::samples::Sample;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// The first argument of a child process.
pub(crate) const WORD: &str = "__measure";

/// A child that takes longer is ended.
const PATIENCE: Duration = Duration::from_secs(240);

/// The child process that runs, which the handler of Ctrl-C can end.
#[derive(Clone, Default)]
pub(crate) struct Current(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    child: Option<Child>,
    /// Ctrl-C was pressed: no further child starts.
    stopped: bool,
}

impl Current {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the child that runs; no further child starts. Returns whether an earlier call did so already.
    pub(crate) fn stop(&self) -> bool {
        let mut state = self.state();
        let before = std::mem::replace(&mut state.stopped, true);
        if let Some(child) = &mut state.child {
            // It may have ended by itself.
            let _ = child.kill();
        }
        before
    }

    /// Returns whether [`stop`](Self::stop) was called.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state().stopped
    }

    /// Measures `job` in a child process and returns its samples.
    ///
    /// # Errors
    /// A line for people, if the child failed or was stopped.
    pub(crate) fn measure(&self, job: &Job, setting: &Setting) -> Result<Vec<Sample>, String> {
        let (case, peer, workers) = (&job.case, &job.peer, job.workers);
        let samples = self.run(job, setting);
        samples.map_err(|why| format!("{case}, {peer}, {workers} workers: {why}"))
    }

    fn run(&self, job: &Job, setting: &Setting) -> Fallible<Vec<Sample>> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args([WORD, &serde_json::to_string(job)?])
            .envs(setting.environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let (mut out, mut err) = {
            let mut state = self.state();
            if state.stopped {
                return Err("stopped".into());
            }
            let child = state.child.insert(command.spawn()?);
            let (out, err) = (child.stdout.take(), child.stderr.take());
            (out.expect("it is piped"), err.expect("it is piped"))
        };
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            // An error message that cannot be read is not shown.
            let _ = err.read_to_string(&mut text);
            text
        });
        let (sender, samples) = mpsc::channel();
        std::thread::spawn(move || sender.send(read(&mut out)));
        let samples = samples.recv_timeout(PATIENCE);
        let ended = {
            let mut state = self.state();
            let mut child = state.child.take().expect("set above");
            if samples.is_err() {
                // The child has taken longer than `PATIENCE`.
                let _ = child.kill();
            }
            // The child's output has ended, so it ends by itself; or it was killed.
            child.wait()
        };
        let errors = errors.join().unwrap_or_default();
        let status = ended?;
        if status.success() {
            return samples?;
        }
        let colon = if errors.is_empty() { "" } else { ": " };
        Err(format!("{status}{colon}{}", errors.trim_end()).into())
    }
}

fn read(out: &mut impl Read) -> Fallible<Vec<Sample>> {
    let lines = BufReader::new(out).lines();
    let samples = lines.map(|line| Ok(serde_json::from_str(&line?)?));
    samples.collect()
}

/// Runs the program of a child process and returns its exit code. `job` is the argument behind [`WORD`]: a [`Job`] as JSON.
pub(crate) fn main(job: &str) -> ExitCode {
    // The child ends with its parent, even if the parent is killed.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    match measure(job) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn measure(job: &str) -> Fallible<()> {
    let job: Job = serde_json::from_str(job)?;
    let case = cases::find(&job.case).ok_or("no such case")?;
    let peer = peers::find(&job.peer).ok_or("no such peer")?;
    let mut out = std::io::stdout().lock();
    for sample in (case.measure)(&job, &peer)? {
        writeln!(out, "{}", serde_json::to_string(&sample)?)?;
    }
    Ok(())
}
