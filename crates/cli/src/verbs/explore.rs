//! `tanada explore`: runs of a program under many seeds, each of which orders its tasks in another way.

use crate::emulator;
use crate::ui::{self, Failure, Outcome, Progress, at_fault};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tanada_runtime::Cancel;

const ABOUT: &str = "Look for errors in the order of a program's tasks: run it under many seeds";

const DETAILS: &str = "\
    The program is built on the Tanada runtime. Under a seed (the variable TANADA_SEED) its workers run one at a time, \
    and the seed says whose \
    turn it is between two tasks, and whenever a body has registered or resolved a task. So a missing dependency, or a \
    missing wait, shows under \
    some seed, and the same seed shows it again. A seed fails if the program ends with another exit code than 0 or by a \
    signal (a panic is one \
    of the two), or does not end in time. The exploration ends with the first seed that fails, and names the command that repeats it.\n\n\
    Not covered are threads of the program's own outside of calls of a pool, what bodies do to each other by atomics \
    while both run, and time: \
    a program that depends on these may end otherwise under the same seed (docs/replay.md).";

const EXAMPLES: &str = "\
Examples:
  tanada explore -- ./program its arguments
  tanada explore --seeds 100 --time-limit 2 --json -- ./program
  tanada explore -- cargo test --test graphs -- --test-threads 1
  TANADA_SEED=17 ./program                                       again what seed 17 did";

#[derive(Debug, clap::Args)]
#[command(about = ABOUT, long_about = format!("{ABOUT}\n\n{DETAILS}"), after_help = EXAMPLES)]
pub(crate) struct Args {
    /// How many seeds
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,

    /// The first seed; the others follow it
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    first: u64,

    /// Seconds after which a run counts as hanging
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    time_limit: f64,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    /// A program on the Tanada runtime, and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM ARGS")]
    program: Vec<OsString>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|s| (0.001..=86_400.0).contains(s));
    number.ok_or_else(|| "a time limit is a number of seconds from 0.001 to 86400".to_owned())
}

/// How a run of the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "how")]
enum Ended {
    Well,
    Exit { code: i32 },
    Signal { signal: i32 },
    Hang,
}

impl Ended {
    fn of(status: ExitStatus) -> Ended {
        match (status.code(), status.signal()) {
            (Some(0), _) => Ended::Well,
            (Some(code), _) => Ended::Exit { code },
            (None, signal) => Ended::Signal {
                signal: signal.unwrap_or(0),
            },
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Well => f.write_str("ended well"),
            Ended::Exit { code } => write!(f, "ended with exit code {code}"),
            Ended::Signal { signal } => write!(f, "was ended by signal {signal}"),
            Ended::Hang => f.write_str("did not end in time"),
        }
    }
}

/// What one run did.
struct Run {
    ended: Ended,
    /// A number of the order of its tasks.
    order: u64,
    /// The tasks that started.
    tasks: u64,
    /// Whether something was no part of the schedule.
    departed: bool,
}

#[derive(Serialize)]
struct Found {
    seed: u64,
    #[serde(flatten)]
    ended: Ended,
    /// Whether a second run under the same seed started the same tasks in the same order and ended in the same way. None if Ctrl-C has
    /// ended that run.
    repeated: Option<bool>,
    /// The tasks that the run started. If there are none, the seed had no part in its end.
    tasks: u64,
    /// The last lines that the program wrote to standard error.
    errors: Vec<String>,
    /// The last lines that it wrote to standard output.
    output: Vec<String>,
    /// The command that runs the program under this seed.
    replay: String,
}

#[derive(Serialize)]
struct Summary {
    /// Runs under different seeds that ended.
    seeds: u64,
    first: u64,
    /// How many different orders of tasks these had.
    orders: usize,
    /// Most tasks of a run.
    tasks: u64,
    /// Runs in which something was no part of the schedule.
    departed: u64,
    seconds: f64,
    interrupted: bool,
    failure: Option<Found>,
}

/// The files of one run at a time.
struct Files {
    folder: tempfile::TempDir,
}

/// Lines of a failed run's standard error that are shown, and of its standard output.
const LINES: usize = 20;

/// Bytes in which they are looked for.
const TAIL: u64 = 1 << 16;

impl Files {
    fn errors(&self) -> PathBuf {
        self.folder.path().join("errors")
    }

    fn output(&self) -> PathBuf {
        self.folder.path().join("output")
    }

    /// Returns the files of decisions that the program has written: one for each schedule of each of its processes.
    fn decisions(&self) -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(self.folder.path())?;
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        let mut paths = paths.collect::<io::Result<Vec<_>>>()?;
        let is_decisions = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default();
            name.to_string_lossy().starts_with("decisions")
        };
        paths.retain(is_decisions);
        Ok(paths)
    }

    /// Runs the program under a seed.
    ///
    /// # Errors
    /// It cannot be started, or Ctrl-C has ended it.
    fn run(&self, args: &Args, path: &Path, seed: u64, cancel: &Cancel) -> Outcome<Run> {
        /// The longest time between two looks at the program.
        const LONGEST: Duration = Duration::from_millis(10);
        let at_files = |error: io::Error| at_fault(self.folder.path().display(), error);
        for old in self.decisions().map_err(at_files)? {
            fs::remove_file(old).map_err(at_files)?;
        }
        let errors = File::create(self.errors()).map_err(at_files)?;
        let output = File::create(self.output()).map_err(at_files)?;
        let mut command = Command::new(path);
        command
            .args(&args.program[1..])
            .env("TANADA_SEED", seed.to_string())
            .env("TANADA_DECISIONS", self.folder.path().join("decisions-%p"))
            .env_remove("TANADA_FOLLOW")
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0);
        let name = args.program[0].to_string_lossy();
        let mut child = command.spawn().map_err(|error| at_fault(&name, error))?;
        ui::ends_with_us(Some(&child));
        let (start, limit) = (Instant::now(), Duration::from_secs_f64(args.time_limit));
        let mut time = Duration::from_micros(200);
        let status = loop {
            if let Some(status) = child.try_wait().map_err(|error| at_fault(&name, error))? {
                break Some(status);
            }
            if cancel.is_cancelled() || start.elapsed() > limit {
                break None;
            }
            std::thread::sleep(time);
            time = (2 * time).min(LONGEST);
        };
        if status.is_none() {
            // The program may have started others. It may also have ended by itself meanwhile.
            let group = Pid::from_child(&child);
            let _ = kill_process_group(group, Signal::KILL);
            child.wait().map_err(|error| at_fault(&name, error))?;
        }
        ui::ends_with_us(None);
        if cancel.is_cancelled() {
            return Err(Failure::Interrupted);
        }
        let mut run = Run {
            ended: status.map_or(Ended::Hang, Ended::of),
            order: 0,
            tasks: 0,
            departed: false,
        };
        let mut orders = Vec::new();
        let files = self.decisions().map_err(at_files)?;
        if files.is_empty() && run.ended == Ended::Well {
            return Err(at_fault(&name, "it has made no pool of the Tanada runtime"));
        }
        for file in files {
            let text = fs::read_to_string(&file).map_err(at_files)?;
            let (notes, tasks): (Vec<&str>, Vec<&str>) =
                text.lines().skip(1).partition(|line| line.starts_with('#'));
            run.departed |= !notes.is_empty();
            run.tasks += tasks.len() as u64;
            let mut hasher = DefaultHasher::new();
            tasks.hash(&mut hasher);
            orders.push(hasher.finish());
        }
        // Processes have other numbers, and so their files other names, in each run.
        orders.sort_unstable();
        let mut hasher = DefaultHasher::new();
        orders.hash(&mut hasher);
        run.order = hasher.finish();
        Ok(run)
    }

    /// Returns the last lines of what the program wrote to `file`; none if it cannot be read.
    fn last_lines(file: &Path) -> Vec<String> {
        let read = || {
            let mut file = File::open(file)?;
            let len = file.metadata()?.len();
            file.seek(SeekFrom::Start(len.saturating_sub(TAIL)))?;
            let mut bytes = Vec::new();
            file.take(TAIL).read_to_end(&mut bytes)?;
            Ok::<_, io::Error>((bytes, len > TAIL))
        };
        let (bytes, is_cut) = read().unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        // The first line may be a part of one.
        let lines: Vec<&str> = text.lines().skip(usize::from(is_cut)).collect();
        let first = lines.len().saturating_sub(LINES);
        lines[first..].iter().map(|&line| line.to_owned()).collect()
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let name = args.program[0].to_string_lossy();
    let path = emulator::find(&args.program[0])
        .ok_or_else(|| at_fault(&name, "there is no such program, or it is not executable"))?;
    let cancel = ui::interruptible();
    let folder = tempfile::tempdir().map_err(|error| at_fault("a folder for the runs", error))?;
    let files = Files { folder };
    let mut summary = Summary {
        seeds: 0,
        first: args.first,
        orders: 0,
        tasks: 0,
        departed: 0,
        seconds: 0.0,
        interrupted: false,
        failure: None,
    };
    let start = Instant::now();
    let result = explore(args, &path, &files, &cancel, &mut summary);
    summary.seconds = start.elapsed().as_secs_f64();
    summary.interrupted = matches!(result, Err(Failure::Interrupted));
    if let Err(failure) = result
        && (!summary.interrupted || summary.seeds == 0)
    {
        return Err(failure);
    }
    ui::print(&match args.json {
        true => ui::json(&summary),
        false => text(&summary),
    })?;
    match (&summary.failure, summary.interrupted) {
        (Some(found), _) => Err(Failure::Input(format!(
            "{name} {} under seed {}",
            found.ended, found.seed
        ))),
        (None, true) => Err(Failure::Interrupted),
        (None, false) => Ok(()),
    }
}

/// Runs the program under one seed after the other until one fails. Counts in `summary`.
fn explore(
    args: &Args,
    path: &Path,
    files: &Files,
    cancel: &Cancel,
    summary: &mut Summary,
) -> Outcome {
    let mut orders = HashSet::new();
    let mut progress = Progress::new(Some(args.seeds));
    progress.says("seeds");
    for number in 0..args.seeds {
        let seed = args.first.wrapping_add(number);
        let run = files.run(args, path, seed, cancel)?;
        orders.insert(run.order);
        summary.seeds += 1;
        summary.orders = orders.len();
        summary.tasks = summary.tasks.max(run.tasks);
        summary.departed += u64::from(run.departed);
        progress.at(summary.seeds);
        if run.ended == Ended::Well {
            continue;
        }
        let words = args.program.iter().map(|word| word.to_string_lossy());
        let words: Vec<String> = words.map(|word| ui::quoted(&word)).collect();
        // Known before the second run: Ctrl-C may end that one.
        let found = summary.failure.insert(Found {
            seed,
            ended: run.ended,
            repeated: None,
            tasks: run.tasks,
            errors: Files::last_lines(&files.errors()),
            output: Files::last_lines(&files.output()),
            replay: format!("TANADA_SEED={seed} {}", words.join(" ")),
        });
        progress.says("once more");
        let again = files.run(args, path, seed, cancel)?;
        // What a run that hangs has done by then depends on time.
        let repeated = (again.ended, again.order) == (run.ended, run.order)
            || (again.ended, run.ended) == (Ended::Hang, Ended::Hang);
        found.repeated = Some(repeated);
        break;
    }
    Ok(())
}

/// Returns the summary for people.
fn text(summary: &Summary) -> String {
    let Summary {
        seeds,
        orders,
        tasks,
        departed,
        seconds,
        ..
    } = summary;
    let mut text = format!(
        "{seeds} seed(s) in {seconds:.1} s: {orders} different orders of up to {tasks} tasks\n"
    );
    if *departed > 0 {
        text += &format!(
            "in {departed} of the runs something was no part of the schedule, so they may not repeat\n"
        );
    }
    match &summary.failure {
        None => text += "no seed failed\n",
        Some(found) => {
            text += &format!("seed {} failed: the program {}\n", found.seed, found.ended);
            for line in &found.errors {
                text += &format!("    {line}\n");
            }
            if !found.output.is_empty() {
                text += "the end of its standard output:\n";
            }
            for line in &found.output {
                text += &format!("    {line}\n");
            }
            if found.tasks == 0 {
                text += "it had started no task by then, so no order of tasks is the reason\n";
            }
            text += match found.repeated {
                Some(true) => "a second run under this seed ended in the same way; again:\n",
                Some(false) => "a second run under this seed ended in another way; again:\n",
                None => "a second run under this seed was interrupted; again:\n",
            };
            text += &format!("    {}\n", found.replay);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_and_how_to_repeat_it_is_in_the_text_and_in_json() {
        let mut summary = Summary {
            seeds: 8,
            first: 10,
            orders: 5,
            tasks: 3,
            departed: 1,
            seconds: 0.25,
            interrupted: false,
            failure: None,
        };
        assert!(text(&summary).ends_with("no seed failed\n"));
        summary.failure = Some(Found {
            seed: 17,
            ended: Ended::Signal { signal: 6 },
            repeated: Some(true),
            tasks: 3,
            errors: vec!["why".to_owned()],
            output: Vec::new(),
            replay: "TANADA_SEED=17 ./a".to_owned(),
        });
        let lines = text(&summary);
        assert!(lines.contains("seed 17 failed: the program was ended by signal 6\n    why\n"));
        assert!(lines.ends_with("\n    TANADA_SEED=17 ./a\n"));
        let json = ui::json(&summary);
        assert!(
            json.contains(r#""seed":17,"how":"signal","signal":6"#),
            "{json}"
        );
        assert!(!lines.contains("no task"), "{lines}");
        assert!(!lines.contains("standard output"), "{lines}");
        let found = summary.failure.as_mut().expect("it is there");
        (found.repeated, found.tasks) = (None, 0);
        found.output = vec!["what".to_owned()];
        let lines = text(&summary);
        assert!(lines.contains(
            "    why\nthe end of its standard output:\n    what\nit had started no task by then"
        ));
        assert!(lines.contains("was interrupted; again:\n    TANADA_SEED=17 ./a\n"));
    }
}
