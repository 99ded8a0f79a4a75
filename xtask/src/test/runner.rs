//! Runs commands as children that can be stopped, and keeps their output, which is shown if a command fails.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::{Failed, Outcome};

/// Runs the commands of all steps.
pub(super) struct Runner {
    pub(super) root: PathBuf,
    pub(super) full: bool,
    verbose: bool,
    /// Name of the step that runs.
    step: Cell<&'static str>,
    /// File in which tests record that they could not run.
    skips: PathBuf,
    /// Process group of the child that runs; 0: none.
    child: Arc<AtomicI32>,
    interrupted: Arc<AtomicBool>,
    /// Whether its commands yield to all others and show nothing.
    behind: bool,
}

impl Runner {
    pub(super) fn new(root: &Path, full: bool, verbose: bool) -> Runner {
        let child = Arc::new(AtomicI32::new(0));
        let interrupted = Arc::new(AtomicBool::new(false));
        let (group, flag) = (Arc::clone(&child), Arc::clone(&interrupted));
        // In tests several runners exist; the first has the handler.
        let _ = ctrlc::set_handler(move || {
            flag.store(true, Ordering::SeqCst);
            stop(group.load(Ordering::SeqCst), Signal::TERM);
        });
        Runner {
            root: root.to_owned(),
            full,
            verbose,
            step: Cell::new(""),
            skips: root.join("target/skipped-tests.txt"),
            child,
            interrupted,
            behind: false,
        }
    }

    /// Returns a runner for another thread, whose commands take the processor time that other commands leave, and show nothing.
    pub(super) fn behind(&self) -> Runner {
        Runner {
            root: self.root.clone(),
            full: self.full,
            verbose: false,
            step: Cell::new(""),
            skips: self.skips.clone(),
            child: Arc::default(), // the handler of signals stops the other one's
            interrupted: Arc::clone(&self.interrupted),
            behind: true,
        }
    }

    /// Says which step runs now.
    pub(super) fn begin(&self, name: &'static str) {
        self.step.set(name);
        if self.verbose {
            println!("running  {name}");
        }
    }

    /// Forgets the skips of earlier runs.
    pub(super) fn clear_skips(&self) {
        let _ = std::fs::remove_file(&self.skips); // it need not exist
    }

    /// Records that `tests` do not run because they are slow.
    pub(super) fn leave_out(&self, tests: &BTreeSet<String>) -> std::io::Result<()> {
        let line = |test| format!("{test}\tleft out (slow): `cargo xtask test` runs it\n");
        std::fs::write(&self.skips, tests.iter().map(line).collect::<String>())
    }

    /// Records that tests do not run, and why, beside what other steps have recorded.
    pub(super) fn left_out(&self, tests: &str, why: &str) -> std::io::Result<()> {
        let mut file = File::options()
            .create(true)
            .append(true)
            .open(&self.skips)?;
        writeln!(file, "{tests}\tleft out ({why})")
    }

    /// Returns the tests that did not run, each once: `PROGRAM::TEST<tab>REASON`.
    pub(super) fn skipped_tests(&self) -> BTreeSet<String> {
        let text = std::fs::read_to_string(&self.skips).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Returns whether Ctrl-C was pressed, or the process was asked to end.
    pub(super) fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    /// Returns whether the path of some file of the workspace begins with `prefix`.
    pub(super) fn has_file(&self, prefix: &str) -> bool {
        let (folder, start) = prefix.rsplit_once('/').unwrap_or((".", prefix));
        let entries = std::fs::read_dir(self.root.join(folder));
        let mut entries = entries.into_iter().flatten().flatten();
        entries.any(|entry| entry.file_name().to_string_lossy().starts_with(start))
    }

    /// Runs a program with its arguments for at most `seconds` and returns its output, see [`Runner::run_words`].
    pub(super) fn run(&self, words: &[&str], seconds: u64) -> Outcome<String> {
        self.run_words(words, &[], Duration::from_secs(seconds))
    }

    /// Runs a program with its arguments in the root of the workspace. Returns the command line and what it wrote.
    ///
    /// # Errors
    /// If it cannot be run or does not end well: failed, with the command line, what it wrote, and how it ended.
    pub(super) fn run_words(
        &self,
        words: &[&str],
        environment: &[(&str, &str)],
        limit: Duration,
    ) -> Outcome<String> {
        let variables = environment.iter();
        let mut shown: String = variables
            .map(|(name, value)| format!("{name}='{value}' "))
            .collect();
        shown.push_str(&words.join(" "));
        match self.try_run(words, environment, limit, &shown) {
            Ok((true, output)) => Ok(output),
            Ok((false, output)) => Err(Failed(output)),
            Err(error) => Err(Failed(format!("$ {shown}\ncannot be run: {error}"))),
        }
    }

    /// Whether a program runs and returns 0; its output is dropped.
    pub(super) fn works(&self, words: &[&str]) -> bool {
        let mut command = self.command(words);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    /// Returns the lines that a program writes, `None` if it fails.
    pub(super) fn list(&self, words: &[&str]) -> Option<Vec<String>> {
        let output = self.command(words).stderr(Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let lines = text.lines().map(|line| line.trim().to_owned());
        output.status.success().then(|| lines.collect())
    }

    /// Returns a program with its arguments, in the root of the workspace, without input.
    fn command(&self, words: &[&str]) -> Command {
        let nice: &[&str] = if self.behind {
            &["nice", "-n", "19"]
        } else {
            &[]
        };
        let mut words = nice.iter().chain(words);
        let mut command = Command::new(words.next().expect("a program"));
        command
            .args(words)
            .current_dir(&self.root)
            .stdin(Stdio::null());
        // What the alias `cargo xtask` sets for this program must not reach the builds that it starts.
        for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION"] {
            command.env_remove(name);
        }
        // Programs that the user installed come first.
        let mut folders = std::env::var_os("PATH").unwrap_or_default();
        folders.push(":");
        folders.push(self.root.join(super::tools::FOLDER).join("bin"));
        command
            .env("PATH", folders)
            .env("TANADA_SKIPS", &self.skips);
        command
    }

    /// Returns whether the program ended well, and its output.
    fn try_run(
        &self,
        words: &[&str],
        environment: &[(&str, &str)],
        limit: Duration,
        shown: &str,
    ) -> std::io::Result<(bool, String)> {
        let limit = if self.full { limit * 12 } else { limit };
        let mut command = self.command(words);
        command.envs(environment.iter().copied());
        if self.full {
            command.env("TANADA_FULL", "1");
        }
        // A file keeps the order of both streams and never blocks the child.
        let file = tempfile::NamedTempFile::new()?;
        let output = File::options().append(true).open(file.path())?;
        command.stderr(output.try_clone()?).stdout(output);
        let mut shown_so_far = self.verbose.then(|| file.reopen()).transpose()?;
        if self.verbose {
            println!("$ {shown}");
        }
        command.process_group(0); // so that its own children can be stopped with it
        if self.interrupted() {
            return Err(std::io::Error::other("interrupted"));
        }
        let mut child = command.spawn()?;
        let (status, late) = self.wait(&mut child, limit, shown_so_far.as_mut())?;
        let bytes = std::fs::read(file.path())?;
        let mut output = format!("$ {shown}\n{}", String::from_utf8_lossy(&bytes));
        match (late, status.code()) {
            (true, _) => _ = writeln!(output, "stopped after {} s", limit.as_secs()),
            (_, Some(0)) => {}
            (_, Some(code)) => _ = writeln!(output, "exit {code}"),
            (_, None) => _ = writeln!(output, "ended by a signal"),
        }
        Ok((status.success() && !late, output))
    }

    /// Waits for the child for at most `limit`, shows what it writes to `output` meanwhile, and returns its exit status. The second value:
    /// whether it took longer and was stopped.
    fn wait(
        &self,
        child: &mut Child,
        limit: Duration,
        mut output: Option<&mut File>,
    ) -> std::io::Result<(ExitStatus, bool)> {
        let group = child.id() as i32;
        self.child.store(group, Ordering::SeqCst);
        if self.interrupted() {
            stop(group, Signal::TERM); // pressed before the handler could know of this child
        }
        let start = Instant::now();
        let (mut late, mut pause) = (false, Duration::from_millis(2));
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if self.behind && self.interrupted() {
                stop(group, Signal::TERM);
            }
            if start.elapsed() > limit {
                late = true;
                stop(group, Signal::KILL);
            }
            if let Some(output) = output.as_mut() {
                std::io::copy(*output, &mut std::io::stdout())?;
            }
            let (name, seconds) = (self.step.get(), start.elapsed().as_secs_f64());
            self.live(&format!("running  {name:<12} {seconds:5.0} s"));
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(200));
        };
        if let Some(output) = output {
            std::io::copy(output, &mut std::io::stdout())?;
        }
        self.child.store(0, Ordering::SeqCst);
        if late || self.interrupted() {
            stop(group, Signal::KILL); // what the child left behind
        }
        self.live("");
        Ok((status, late))
    }

    /// Replaces the last line of the terminal by `text`; does nothing if standard output is no terminal.
    fn live(&self, text: &str) {
        let mut out = std::io::stdout();
        if !self.verbose && !self.behind && out.is_terminal() {
            let _ = write!(out, "\r\x1b[K{text}");
            let _ = out.flush();
        }
    }
}

/// Returns the processor seconds of all children that have ended, with their children's; `None` if the system does not say.
pub(super) fn cpu_seconds() -> Option<f64> {
    /// Unit of `/proc`, the same on every Linux: `USER_HZ`.
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name stands in parentheses; `cutime` and `cstime` are the 14th and 15th field behind it.
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks = fields.split(' ').skip(13).take(2);
    let ticks: f64 = ticks.filter_map(|field| field.parse::<f64>().ok()).sum();
    Some(ticks / TICKS_PER_SECOND)
}

fn stop(group: i32, signal: Signal) {
    if let Some(group) = Pid::from_raw(group).filter(|_| group > 1) {
        let _ = kill_process_group(group, signal); // it may have ended by itself
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runner() -> Runner {
        Runner::new(Path::new(env!("CARGO_MANIFEST_DIR")), false, false)
    }

    #[test]
    fn a_command_that_takes_too_long_is_stopped_with_its_children() {
        let start = Instant::now();
        let ending = runner().run_words(
            &["sh", "-c", "sleep 60 & echo child $!; wait"],
            &[],
            Duration::from_millis(300),
        );
        let Err(Failed(output)) = ending else {
            panic!("it passed")
        };
        assert!(start.elapsed() < Duration::from_secs(20));
        assert!(output.contains("stopped after"), "{output}");
        let child = output
            .lines()
            .find_map(|line| line.strip_prefix("child "))
            .unwrap();
        let gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat"));
            stat.map_or(true, |stat| stat.contains(") Z "))
        };
        let deadline = Instant::now() + Duration::from_secs(5);
        while !gone() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(gone(), "the grandchild still runs");
    }

    #[test]
    fn the_environment_reaches_the_command() {
        let ending = runner().run_words(
            &["sh", "-c", "echo [$MARK]"],
            &[("MARK", "x y")],
            Duration::from_secs(10),
        );
        let output = ending.expect("it ends well");
        assert!(output.contains("[x y]"), "{output}");
    }

    #[test]
    fn commands_of_a_runner_behind_yield_and_end_with_the_other_one() {
        let first = runner();
        let behind = first.behind();
        let output = behind.run(&["nice"], 10).expect("it ends well");
        assert!(output.ends_with("\n19\n"), "{output}");
        let begun = Instant::now();
        let sleeper = std::thread::spawn(move || behind.run(&["sleep", "60"], 60).is_err());
        std::thread::sleep(Duration::from_millis(50)); // so that the program runs, most of the times
        first.interrupted.store(true, Ordering::SeqCst);
        assert!(sleeper.join().expect("no panic"));
        assert!(begun.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn each_skipped_test_is_listed_once() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("target")).expect("a new folder");
        let runner = Runner::new(folder.path(), false, false);
        let script = r#"printf 'a::b\twhy\na::b\twhy\na::c\twhy\n' >> "$TANADA_SKIPS""#;
        assert!(runner.run(&["sh", "-c", script], 10).is_ok());
        let found: Vec<String> = runner.skipped_tests().into_iter().collect();
        assert_eq!(found, ["a::b\twhy", "a::c\twhy"]);
        runner.clear_skips();
        assert!(runner.skipped_tests().is_empty());
        assert!(runner.leave_out(&["b::d".to_owned()].into()).is_ok());
        assert!(runner.run(&["sh", "-c", script], 10).is_ok());
        assert_eq!(runner.skipped_tests().len(), 3);
    }

    #[test]
    fn processor_time_of_children_is_counted() {
        let before = cpu_seconds().expect("Linux");
        let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        assert!(runner().run(&["sh", "-c", script], 60).is_ok());
        assert!(cpu_seconds().expect("Linux") > before + 0.05);
    }

    #[test]
    fn a_program_that_is_not_there_is_a_failure() {
        let Err(Failed(output)) = runner().run(&["no-such-program-at-all"], 1) else {
            panic!("it passed")
        };
        assert!(output.contains("cannot be run"), "{output}");
        assert!(!runner().works(&["no-such-program-at-all"]));
    }
}
