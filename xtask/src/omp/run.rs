//! One run of a program: how it ended, what it said, and how long it took.

use std::io::{Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Code(i32),
    Signal(i32),
    /// It was stopped at the limit.
    TooLong,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Code(code) => write!(f, "code {code}"),
            Outcome::Signal(signal) => write!(f, "signal {signal}"),
            Outcome::TooLong => write!(f, "too long"),
        }
    }
}

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) outcome: Outcome,
    /// Standard output and standard error as they came.
    pub(crate) output: String,
    /// Seconds from the start to the end.
    pub(crate) wall: f64,
    /// Seconds of processors, of all of its threads.
    pub(crate) cpu: f64,
}

/// Runs `command` for at most `limit`; then its process group is killed.
///
/// # Errors
/// If it cannot be started.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Result<Ran, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |error: &dyn std::fmt::Display| format!("{name}: {error}");
    let mut file = tempfile::tempfile().map_err(|error| failed(&error))?;
    let copy = || file.try_clone().map_err(|error| failed(&error));
    command
        .stdin(Stdio::null())
        .stdout(copy()?)
        .stderr(copy()?)
        .process_group(0);
    let start = Instant::now();
    let mut child = command.spawn().map_err(|error| failed(&error))?;
    let pid = Pid::from_child(&child);
    let (ended, end) = channel::<()>();
    let (late, wall) = std::thread::scope(|scope| {
        let watch = scope.spawn(move || {
            let late = end.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            if late {
                // It has not been waited for, so the number is still its own.
                _ = kill_process_group(pid, Signal::KILL);
            }
            late
        });
        // The child stays a zombie, whose times can still be read.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(pid), options).is_err_and(|error| error == rustix::io::Errno::INTR)
        {
        }
        let wall = start.elapsed().as_secs_f64();
        drop(ended);
        (watch.join().unwrap_or(false), wall)
    });
    let cpu = cpu_seconds(pid).unwrap_or(0.0);
    let status = child.wait().map_err(|error| failed(&error))?;
    let mut bytes = Vec::new();
    file.rewind()
        .and_then(|()| file.read_to_end(&mut bytes))
        .map_err(|error| failed(&error))?;
    let outcome = match (late, status.code(), status.signal()) {
        (true, _, _) => Outcome::TooLong,
        (false, Some(code), _) => Outcome::Code(code),
        (false, None, signal) => Outcome::Signal(signal.unwrap_or(0)),
    };
    let output = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Ran {
        outcome,
        output,
        wall,
        cpu,
    })
}

/// Returns the processor time of a process that has not been waited for.
fn cpu_seconds(pid: Pid) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name stands in parentheses and may have spaces; behind it the times are the 12th and 13th words.
    let mut words = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || words.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Ran {
        run(Command::new("sh").args(["-c", script]), limit).expect("a shell")
    }

    #[test]
    fn ends_are_told_apart() {
        let long = Duration::from_secs(20);
        let ran = shell("echo out; echo err >&2; exit 3", long);
        assert_eq!(
            (ran.outcome, ran.output.as_str()),
            (Outcome::Code(3), "out\nerr\n")
        );
        assert_eq!(shell("kill -9 $$", long).outcome, Outcome::Signal(9));
        let late = shell("sleep 30 & sleep 30", Duration::from_millis(100));
        assert_eq!(late.outcome, Outcome::TooLong);
        assert!(late.wall < 20.0);
    }

    #[test]
    fn processor_time_is_counted() {
        let ran = shell(
            "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done",
            Duration::from_secs(60),
        );
        assert!(ran.cpu > 0.02, "{ran:?}");
    }
}
