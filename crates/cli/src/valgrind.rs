//! Programs under Valgrind's lackey, whose memory trace is read while they run.

use crate::ui::{Failure, Outcome, Watched, at_fault, end_child, ends_with_us, note, reap_orphans};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, WaitId, WaitIdOptions, getpid, set_child_subreaper, waitid};
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal as _, PipeReader, Read};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;
use tanada_runtime::Cancel;

/// A program that runs under lackey.
pub(crate) struct Traced {
    child: Child,
    log: PipeReader,
    name: String,
}

impl Traced {
    /// Starts the program, the first of `words`, with the others as its arguments, and returns the running program. `quiet`: what it prints
    /// goes to standard error.
    pub(crate) fn start(words: &[OsString], quiet: bool) -> Outcome<Traced> {
        let (program, arguments) = words.split_first().expect("the parser wants a program");
        let name = program.to_string_lossy().into_owned();
        let path = find(program)
            .ok_or_else(|| at_fault(&name, "there is no such program, or it is not executable"))?;
        let piped = |error| at_fault("a pipe to Valgrind", error);
        let (log, end) = io::pipe().map_err(piped)?;
        // Only this end is inherited, so the reader sees the log's end when the last process that holds it ends.
        fcntl_setfd(&end, FdFlags::empty()).map_err(|error| piped(error.into()))?;
        let mut command = without_randomisation();
        command
            // The user's ~/.valgrindrc and VALGRIND_OPTS are not meant for this.
            .args(["--command-line-only=yes", "--tool=lackey"])
            .args(["--basic-counts=no", "--trace-mem=yes"])
            .args(["--trace-sched=yes", "--child-silent-after-fork=yes"])
            .arg(format!("--log-fd={}", end.as_raw_fd()))
            .arg("--")
            .arg(path)
            .args(arguments)
            .env("TANADA_MARKS", "1");
        if quiet {
            let err = io::stderr().as_fd().try_clone_to_owned();
            command.stdout(Stdio::from(err.map_err(|error| at_fault(&name, error))?));
        }
        // A group of its own ends as a whole. Beside a terminal it could not read from that, and Ctrl-C reaches it anyway.
        if !io::stdin().is_terminal() {
            command.process_group(0);
        }
        // What the program leaves becomes a child of this process, and ends with it too. Without, its process group ends.
        let _ = set_child_subreaper(Some(getpid()));
        let child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => missing(),
            _ => at_fault("valgrind", error),
        })?;
        ends_with_us(Some(&child));
        Ok(Traced { child, log, name })
    }

    /// Passes the log to `read`, whose reader fails once it must stop; then waits for the program and returns the result of `read`.
    ///
    /// The second part is how the program ended, if it failed and its log was read to the end.
    pub(crate) fn read<R>(
        mut self,
        cancel: &Cancel,
        read: impl FnOnce(&mut dyn Read) -> R,
    ) -> Outcome<(R, Option<ExitStatus>)> {
        let mut log = Watched::new(&self.log, cancel, None, "MB of Valgrind's log");
        let reading = [self.tell_what_is_left(), self.reap_what_is_left()];
        let read = read(&mut log);
        drop(reading);
        let Watched { bytes, ended, .. } = log;
        if !ended {
            end_child();
        }
        let status = self.child.wait();
        ends_with_us(None);
        if cancel.is_cancelled() {
            return Err(Failure::Interrupted);
        }
        let status = status.map_err(|error| at_fault("valgrind", error))?;
        if bytes == 0 && !status.success() {
            return Err(Failure::Input(format!(
                "valgrind did not run {} (see above): its tool lackey or the program cannot be started",
                self.name
            )));
        }
        Ok((read, Some(status).filter(|_| ended && !status.success())))
    }
}

impl Traced {
    /// Reports on standard error that processes hold the log open although the program has ended, unless the result is dropped meanwhile.
    fn tell_what_is_left(&self) -> Sender<()> {
        /// The rest of a log is read within this time.
        const PATIENCE: Duration = Duration::from_secs(1);
        let (reading, read) = mpsc::channel();
        let (child, name) = (Pid::from_child(&self.child), self.name.clone());
        let wait = move || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let ended = waitid(WaitId::Pid(child), options).is_ok();
            if ended && read.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                note(&format!("tanada: waiting for processes that {name} left"));
            }
        };
        // Without the thread nothing but the message is missing.
        let _ = thread::Builder::new().spawn(wait);
        reading
    }

    /// Waits for adopted orphans that have ended, unless the result is dropped.
    fn reap_what_is_left(&self) -> Sender<()> {
        /// Time between two searches.
        const PERIOD: Duration = Duration::from_millis(100);
        let (reading, read) = mpsc::channel::<()>();
        let own = Pid::from_child(&self.child);
        let reap = move || {
            while read.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                reap_orphans(own);
            }
        };
        // Without the thread orphans stay until this process ends.
        let _ = thread::Builder::new().spawn(reap);
        reading
    }
}

fn missing() -> Failure {
    Failure::Input(
        "valgrind is not installed; it comes with every Linux distribution (apt install valgrind, dnf install valgrind, \
        pacman -S valgrind) and from https://valgrind.org"
            .to_owned(),
    )
}

/// Returns the command of Valgrind, in a process whose addresses the system does not randomise if that can be had. Valgrind places nearly
/// everything itself; what is left are pages that the system chooses, and these are renumbered.
fn without_randomisation() -> Command {
    let setarch = || {
        let mut command = Command::new("setarch");
        command.args([std::env::consts::ARCH, "-R"]);
        command
    };
    let try_it = setarch()
        .arg("true")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let works = try_it.is_ok_and(|status| status.success());
    match find(OsStr::new("valgrind")) {
        Some(valgrind) if works => {
            let mut command = setarch();
            command.arg(valgrind);
            command
        }
        _ => Command::new("valgrind"),
    }
}

/// Returns the path at which a shell would find the program.
pub(crate) fn find(program: &OsStr) -> Option<PathBuf> {
    let executable = |path: &Path| {
        path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    };
    if program.to_string_lossy().contains('/') {
        let path = PathBuf::from(program);
        return executable(&path).then_some(path);
    }
    let path = std::env::var_os("PATH")?;
    let mut found = std::env::split_paths(&path).map(|folder| folder.join(program));
    found.find(|path| executable(path))
}
