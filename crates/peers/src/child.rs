//! Peers run in processes of their own, one after the other: so that two OpenMP runtimes never meet, no idle workers of one disturb
//! another's turn, and the processor time of a process is that of one peer.

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

/// The child that runs, for those who stop it.
#[derive(Clone, Default)]
pub(crate) struct Current(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    child: Option<Child>,
    /// Ctrl-C was pressed: no other peer starts.
    stopped: bool,
}

/// Why a child gave nothing.
#[derive(Debug)]
pub(crate) enum Failure {
    Stopped,
    Failed(String),
}

impl Current {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the child that runs, and lets none start any more; whether that was so already.
    pub(crate) fn stop(&self) -> bool {
        let mut state = self.state();
        let before = std::mem::replace(&mut state.stopped, true);
        if let Some(child) = &mut state.child {
            // It may have ended by itself.
            let _ = child.kill();
        }
        before
    }

    /// Measures `job` in a child process.
    pub(crate) fn measure(&self, job: &Job, setting: &Setting) -> Result<Vec<Sample>, Failure> {
        let (case, peer, workers) = (&job.case, &job.peer, job.workers);
        let samples = self.run(job, setting);
        match self.state().stopped {
            true => Err(Failure::Stopped),
            false => samples.map_err(|why| {
                Failure::Failed(format!("{case}, {peer}, {workers} workers: {why}"))
            }),
        }
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
            // What cannot be read is not shown.
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
                // Its time is over.
                let _ = child.kill();
            }
            // Its output has ended, so that it ends itself, or was killed.
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

/// The program of a child process: `job` follows [`WORD`], as JSON.
pub(crate) fn main(job: &str) -> ExitCode {
    // A parent that is killed takes its child along.
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
