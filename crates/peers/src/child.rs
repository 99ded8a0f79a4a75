//! Peers run in processes of their own, one after the other: so that two OpenMP runtimes never meet, nobody's idle workers disturb
//! another's turn, and the processor time of a process is that of one peer.

use crate::cases::{self, Job};
use crate::peers::{self, Setting};
use crate::samples::Sample;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The first argument of a child process.
pub(crate) const WORD: &str = "__measure";

/// A child that takes longer is ended.
const PATIENCE: Duration = Duration::from_secs(240);

/// The child that runs, for those who stop it.
#[derive(Clone, Default)]
pub(crate) struct Current(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    child: Option<Child>,
    /// Ctrl-C was pressed: nobody else starts.
    stopped: bool,
    /// Raised when a child has ended.
    turn: u64,
}

/// Why a child gave nothing.
#[derive(Debug)]
pub(crate) enum Failure {
    Stopped,
    Failed(String),
}

impl Current {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    pub(crate) fn is_stopped(&self) -> bool {
        self.state().stopped
    }

    /// Measures `job` in a child process.
    pub(crate) fn measure(
        &self,
        case: &str,
        job: &Job,
        setting: &Setting,
    ) -> Result<Vec<Sample>, Failure> {
        let failed = |why: String| {
            Failure::Failed(format!(
                "{case}, {}, {} workers: {why}",
                job.peer.name, job.workers
            ))
        };
        let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
        let mut command = Command::new(program);
        command.args([
            WORD,
            case,
            &job.peer.name,
            &job.workers.to_string(),
            if job.quick { "quick" } else { "full" },
            if job.first { "first" } else { "later" },
        ]);
        command
            .arg(job.rate.to_string())
            .args(&job.params)
            .envs(setting.environment.iter().copied());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let (mut out, mut err, turn) = {
            let mut state = self.state();
            if state.stopped {
                return Err(Failure::Stopped);
            }
            let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
            let pipes = (
                child.stdout.take().expect("it is piped"),
                child.stderr.take().expect("it is piped"),
            );
            state.child = Some(child);
            (pipes.0, pipes.1, state.turn)
        };
        self.limit(turn);
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            // What cannot be read is not shown.
            let _ = err.read_to_string(&mut text);
            text
        });
        let samples = read(&mut out);
        let ended = {
            let mut state = self.state();
            state.turn += 1;
            self.0.1.notify_all();
            // Its output has ended, so that it ends itself, or was killed.
            state.child.take().expect("set above").wait()
        };
        let errors = errors.join().unwrap_or_default();
        if self.is_stopped() {
            return Err(Failure::Stopped);
        }
        match ended {
            Ok(status) if status.success() => samples.map_err(failed),
            Ok(status) => Err(failed(format!(
                "{status}{}{}",
                if errors.is_empty() { "" } else { ": " },
                errors.trim_end()
            ))),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Ends the child of this turn when its time is over.
    fn limit(&self, turn: u64) {
        let this = self.clone();
        std::thread::spawn(move || {
            let (state, ended) = (this.state(), &this.0.1);
            let over = ended.wait_timeout_while(state, PATIENCE, |state| state.turn == turn);
            let (mut state, waited) = over.unwrap_or_else(PoisonError::into_inner);
            if waited.timed_out()
                && let Some(child) = &mut state.child
            {
                let _ = child.kill();
            }
        });
    }
}

fn read(out: &mut impl Read) -> Result<Vec<Sample>, String> {
    let mut samples = Vec::new();
    for line in BufReader::new(out).lines() {
        samples.push(line.map_err(|error| error.to_string())?.parse()?);
    }
    Ok(samples)
}

/// The program of a child process: `arguments` follow [`WORD`].
pub(crate) fn main(arguments: &[String]) -> ExitCode {
    // A parent that is killed takes its child along.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    match measure(arguments) {
        Ok(samples) => {
            let mut out = std::io::stdout().lock();
            let written = samples
                .iter()
                .try_for_each(|sample| writeln!(out, "{sample}"));
            if written.is_ok() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &[String]) -> Result<Vec<Sample>, String> {
    let [case, peer, workers, length, turn, rate, params @ ..] = arguments else {
        return Err("this word is for the program itself".to_owned());
    };
    let case = cases::find(case).ok_or("no such case")?;
    let job = Job {
        peer: peers::find(peer).ok_or("no such peer")?,
        workers: workers.parse().map_err(|_| "no number of workers")?,
        quick: length == "quick",
        first: turn == "first",
        rate: rate.parse().map_err(|_| "no rate")?,
        params: params.to_vec(),
    };
    (case.measure)(&job)
}
