//! `cargo xtask omp-suite`: built programs of a suite, wherever they lie, with and without the adapter.
//!
//! A *list* says what to run. Each line is `name | program and arguments | variables | text`: the program stands relative to the list's
//! folder, in which it also runs; variables are `NAME=VALUE`, separated by spaces; `text` must be in what the program prints. A program is
//! good if it ends with code 0 and printed the text. Lines that begin with `#` are comments.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Args;

use super::{Adapter, Outcome, Ran, Way, least_and_median};

/// How `cargo xtask omp-suite` is called.
#[derive(Args)]
pub(crate) struct Options {
    /// Lists of programs, each in the folder of its suite: `name | program and arguments | variables | text that it must print`
    #[arg(required = true, value_name = "LIST")]
    lists: Vec<PathBuf>,
    #[command(flatten)]
    adapter: Adapter,
    /// How often each program runs in each way, in turn
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    times: u32,
    /// Only programs whose name has this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// How many programs run at once; times mean something with 1
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: u16,
    /// OMP_NUM_THREADS
    #[arg(long)]
    threads: Option<u32>,
    /// Also print programs whose verdicts are equal
    #[arg(long)]
    all: bool,
}

/// A line of a list.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    pub(super) words: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    /// What a good run prints.
    pub(super) text: String,
}

impl Entry {
    /// Returns a program that needs no variables, and says by its exit code alone whether it is good.
    pub(super) fn plain(name: &str, folder: &Path, words: Vec<String>) -> Entry {
        Entry {
            name: name.to_owned(),
            folder: folder.to_owned(),
            words,
            environment: Vec::new(),
            text: String::new(),
        }
    }
}

/// Reads a list.
pub(super) fn read(path: &Path) -> Result<Vec<Entry>, String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let folder = std::path::absolute(path).map_err(|error| error.to_string())?;
    let folder = folder.parent().unwrap_or(Path::new("/"));
    let lines = text
        .lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|(at, line)| {
            entry(folder, line).ok_or_else(|| {
                format!(
                    "{}:{at}: no \"name | program | variables | text\"",
                    path.display()
                )
            })
        })
        .collect()
}

fn entry(folder: &Path, line: &str) -> Option<Entry> {
    let mut fields = line.split('|').map(str::trim);
    let (name, program) = (fields.next()?, fields.next()?);
    let variables = fields.next().unwrap_or("");
    let pair = |word: &str| {
        word.split_once('=')
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    let mut words: Vec<String> = program.split_whitespace().map(str::to_owned).collect();
    let first = words.first_mut()?;
    *first = folder.join(&*first).to_string_lossy().into_owned();
    Some(Entry {
        name: name.to_owned(),
        folder: folder.to_owned(),
        words,
        environment: variables
            .split_whitespace()
            .map(pair)
            .collect::<Option<_>>()?,
        text: fields.next().unwrap_or("").to_owned(),
    })
}

/// All runs of one program in one way.
#[derive(Clone, Debug, Default)]
struct Tally {
    good: u32,
    /// Times of good runs.
    wall: Vec<f64>,
    cpu: Vec<f64>,
    /// The first bad end, with the last line that the program printed.
    fault: Option<String>,
}

impl Tally {
    fn add(&mut self, ran: &Ran, text: &str) {
        if ran.outcome == Outcome::Code(0) && ran.output.contains(text) {
            self.good += 1;
            self.wall.push(ran.wall);
            self.cpu.push(ran.cpu);
        } else if self.fault.is_none() {
            let last = ran
                .output
                .lines()
                .rev()
                .find(|line| !line.trim().is_empty());
            self.fault = Some(format!(
                "{}: {}",
                ran.outcome,
                last.unwrap_or("no output").trim()
            ));
        }
    }
}

/// What the runs of a program without (`tallies[0]`) and with the adapter say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// Good every time, in every way.
    Good,
    /// Bad every time, in every way: the suite's own fault here.
    BadAnyway,
    /// Sometimes bad also without the adapter.
    Unsteady,
    /// Better with the adapter than without.
    Mended,
    /// Good every time without the adapter, and not with it.
    Broken,
}

fn verdict(tallies: &[Tally], times: u32) -> Verdict {
    let (without, with) = (tallies[0].good, &tallies[1..]);
    let every = with.iter().all(|tally| tally.good == times);
    match without {
        n if n == times && every => Verdict::Good,
        n if n == times => Verdict::Broken,
        0 if with.iter().all(|tally| tally.good == 0) => Verdict::BadAnyway,
        _ if every => Verdict::Mended,
        _ => Verdict::Unsteady,
    }
}

/// Prints a table, and returns whether the adapter broke nothing.
pub(crate) fn run(root: &Path, options: &Options) -> bool {
    compare(root, options).unwrap_or_else(|error| {
        eprintln!("omp-suite: {error}");
        false
    })
}

fn compare(root: &Path, options: &Options) -> Result<bool, String> {
    let mut entries = Vec::new();
    for list in &options.lists {
        entries.extend(read(list)?);
    }
    entries.retain(|entry| {
        options
            .only
            .as_ref()
            .is_none_or(|text| entry.name.contains(text))
    });
    if entries.is_empty() {
        return Err("there is nothing to run".to_owned());
    }
    let mut ways = vec![Way::plain("without", &[])];
    ways.extend(options.adapter.ways(root)?);
    let number: Vec<(String, String)> = options
        .threads
        .iter()
        .map(|n| ("OMP_NUM_THREADS".into(), n.to_string()))
        .collect();
    let next = AtomicUsize::new(0);
    let summary = Mutex::new(Summary::new(&entries, &ways, options));
    let work = || -> Result<(), String> {
        while let Some(entry) = entries.get(next.fetch_add(1, Ordering::Relaxed)) {
            let environment: Vec<_> = number.iter().chain(&entry.environment).cloned().collect();
            let mut tallies = vec![Tally::default(); ways.len()];
            for _ in 0..options.times {
                for (way, tally) in ways.iter().zip(&mut tallies) {
                    let limit = options.adapter.limit();
                    let ran = way.run(&entry.folder, &entry.words, &environment, limit)?;
                    tally.add(&ran, &entry.text);
                }
            }
            let mut summary = summary.lock().map_err(|_| "a thread panicked")?;
            summary.add(entry, &tallies);
        }
        Ok(())
    };
    let ended: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.jobs).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|ended| ended.unwrap_or_else(|_| Err("a thread panicked".to_owned())))
            .collect()
    });
    ended.into_iter().collect::<Result<(), String>>()?;
    let summary = summary.into_inner().map_err(|_| "a thread panicked")?;
    print!("{summary}");
    Ok(summary.counts[Verdict::Broken as usize] == 0)
}

/// What all programs say together. Rows are printed as they come, since a suite takes long.
struct Summary<'a> {
    ways: &'a [Way],
    options: &'a Options,
    /// Of the first column.
    width: usize,
    counts: [u32; 5],
    /// Ratios of least wall times, for each way.
    ratios: Vec<Vec<f64>>,
}

impl<'a> Summary<'a> {
    fn new(entries: &[Entry], ways: &'a [Way], options: &'a Options) -> Self {
        let width = entries
            .iter()
            .map(|entry| entry.name.len())
            .max()
            .unwrap_or(0);
        print!(
            "{:width$}  without: good/runs    wall s     cpu s",
            "program"
        );
        for way in &ways[1..] {
            print!("  | {}: good/runs  wall ratio  cpu ratio", way.name);
        }
        println!();
        Summary {
            ways,
            options,
            width,
            counts: [0; 5],
            ratios: vec![Vec::new(); ways.len()],
        }
    }

    /// Counts a program, and prints its row if there is something to say.
    fn add(&mut self, entry: &Entry, tallies: &[Tally]) {
        let (width, times) = (self.width, self.options.times);
        let verdict = verdict(tallies, times);
        self.counts[verdict as usize] += 1;
        let least =
            |tally: &Tally| [&tally.wall, &tally.cpu].map(|times| least_and_median(times).0);
        let [wall, cpu] = least(&tallies[0]);
        let mut row = format!(
            "{:width$}  {:>9}/{times:<7} {wall:9.4} {cpu:9.3}",
            entry.name, tallies[0].good
        );
        for (ratios, tally) in self.ratios.iter_mut().zip(tallies).skip(1) {
            let [wall_with, cpu_with] = least(tally);
            // Without a good run there is no time, and no ratio.
            let ratio = wall_with / wall;
            if wall.is_finite() && wall_with.is_finite() {
                ratios.push(ratio);
            }
            row += &format!(
                "  | {:>9}/{times:<7} {ratio:8.3} {:9.3}",
                tally.good,
                cpu_with / cpu
            );
        }
        if verdict != Verdict::Good || self.options.all {
            println!("{row}");
        }
        for (way, tally) in self.ways.iter().zip(tallies) {
            if let Some(fault) = &tally.fault {
                println!("{:width$}    {verdict:?}, {}: {fault}", "", way.name);
            }
        }
    }
}

impl std::fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = |verdict| self.counts[verdict as usize];
        writeln!(
            f,
            "{} programs: {} good in every way, {} bad in every way, {} unsteady without the adapter, {} mended, {} BROKEN by it",
            self.counts.iter().sum::<u32>(),
            count(Verdict::Good),
            count(Verdict::BadAnyway),
            count(Verdict::Unsteady),
            count(Verdict::Mended),
            count(Verdict::Broken)
        )?;
        for (way, ratios) in self.ways.iter().zip(&self.ratios).skip(1) {
            let mean =
                ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len().max(1) as f64;
            let most = ratios.iter().copied().fold(0.0, f64::max);
            let name = &way.name;
            writeln!(
                f,
                "{name}: least wall times, geometric mean of ratios {:.3}, largest {most:.3}",
                mean.exp()
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_list_are_read() {
        let folder = Path::new("/suite");
        let found = entry(folder, "cg | bin/cg -n 3 | A=1 B=x=y | all is well").expect("a line");
        assert_eq!(found.words, ["/suite/bin/cg", "-n", "3"]);
        assert_eq!(
            found.environment,
            [("A".into(), "1".into()), ("B".into(), "x=y".into())]
        );
        assert_eq!(found.text, "all is well");
        assert_eq!(entry(folder, "cg"), None);
        assert_eq!(entry(folder, "cg | bin/cg | nonsense |"), None);
    }

    #[test]
    fn verdicts_blame_the_adapter_only_for_its_own_faults() {
        let tallies = |good: &[u32]| {
            good.iter()
                .map(|&good| Tally {
                    good,
                    ..Tally::default()
                })
                .collect::<Vec<_>>()
        };
        for (good, expected) in [
            (&[3, 3, 3], Verdict::Good),
            (&[3, 2, 3], Verdict::Broken),
            (&[0, 0, 0], Verdict::BadAnyway),
            (&[1, 3, 3], Verdict::Mended),
            (&[2, 3, 1], Verdict::Unsteady),
            (&[0, 1, 0], Verdict::Unsteady),
        ] {
            assert_eq!(verdict(&tallies(good), 3), expected, "{good:?}");
        }
    }

    #[test]
    fn a_program_is_good_if_it_ends_well_and_says_so() {
        let ran = |outcome, output: &str| Ran {
            outcome,
            output: output.to_owned(),
            wall: 1.0,
            cpu: 1.0,
        };
        let mut tally = Tally::default();
        tally.add(&ran(Outcome::Code(0), "it verifies"), "verifies");
        tally.add(&ran(Outcome::Code(0), "it does not"), "verifies");
        tally.add(&ran(Outcome::Code(1), "it verifies"), "verifies");
        assert_eq!((tally.good, tally.wall.len()), (1, 1));
        assert_eq!(tally.fault.as_deref(), Some("code 0: it does not"));
    }
}
