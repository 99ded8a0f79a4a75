//! `cargo xtask omp-table`: our realistic programs, or those of a list, beside neighbours and with more threads than processors: with the
//! adapter, without it, and with every static choice of threads, way of waiting and runtime, each measured.
//!
//! `--only`, `--condition`, `--work` and `--rounds` make it short: a row takes some tens of seconds.
//!
//! All ways take turns, so that a change of the machine meets all of them. A static choice that was far behind in the first turn has no
//! further ones. Alone the least time counts; beside neighbours the median, since the least is a moment without them.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use super::neighbour::{Kind, Neighbour};
use super::suite::{Entry, read};
use super::{Adapter, Outcome, Way, least_and_median};

/// How `cargo xtask omp-table` is called.
#[derive(Args)]
pub(crate) struct Options {
    /// Lists of programs as for `omp-suite` [default: the project's own, compiled with gcc and clang]
    #[arg(value_name = "LIST")]
    lists: Vec<PathBuf>,
    #[command(flatten)]
    adapter: Adapter,
    /// Turns of each way [default: 5; with --quick 2]
    #[arg(long)]
    rounds: Option<u32>,
    /// Small programs and few conditions: whether it works, not what comes of it
    #[arg(long)]
    quick: bool,
    /// The work of the project's own programs, in percent of about a second
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    work: u32,
    /// Only programs whose name has this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Only conditions whose name has this text
    #[arg(long, value_name = "TEXT")]
    condition: Option<String>,
}

/// The programs of `crates/openmp/programs` that stand for whole applications.
/// With their rounds, of which each program takes about a second.
const PROGRAMS: [(&str, u32); 5] = [
    ("cg", 75),
    ("mg", 300),
    ("ft", 90),
    ("lu", 500),
    ("sp", 700),
];

/// What surrounds a program, and what its user set.
struct Condition {
    name: &'static str,
    neighbour: Option<(Kind, Option<usize>)>,
    environment: &'static [(&'static str, &'static str)],
    /// Whether `--quick` has it.
    quick: bool,
}

const fn beside(name: &'static str, kind: Kind, cpu: Option<usize>, quick: bool) -> Condition {
    Condition {
        name,
        neighbour: Some((kind, cpu)),
        environment: &[],
        quick,
    }
}

const fn alone(
    name: &'static str,
    environment: &'static [(&'static str, &'static str)],
    quick: bool,
) -> Condition {
    Condition {
        name,
        neighbour: None,
        environment,
        quick,
    }
}

const CONDITIONS: [Condition; 8] = [
    alone("quiet", &[], true),
    beside("busy", Kind::Busy, None, true),
    beside("busy-pinned", Kind::Busy, Some(0), false),
    beside("stream", Kind::Stream, None, false),
    alone("4-active", &[(THREADS, "4"), (POLICY, "active")], true),
    alone("4-passive", &[(THREADS, "4"), (POLICY, "passive")], false),
    alone("8-active", &[(THREADS, "8"), (POLICY, "active")], false),
    alone("8-passive", &[(THREADS, "8"), (POLICY, "passive")], false),
];

const THREADS: &str = "OMP_NUM_THREADS";
const POLICY: &str = "OMP_WAIT_POLICY";

/// A static choice whose first time is so many times the least one has no further turns.
const HOPELESS: f64 = 1.5;

/// The most of the best static choice's time, and of the time without the adapter.
const OF_BEST: f64 = 1.10;
const OF_WITHOUT: f64 = 1.03;

/// Returns the static choices for a program that gets its number of threads from `condition`.
fn choices(condition: &Condition, processors: usize, llvm: Option<&Path>) -> Vec<Way> {
    let asked = condition
        .environment
        .iter()
        .find(|(name, _)| *name == THREADS);
    let asked = asked
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(processors);
    let mut sizes = vec![1, processors.div_ceil(2), processors, asked];
    sizes.sort_unstable();
    sizes.dedup();
    let mut ways = Vec::new();
    for runtime in [None, llvm] {
        for &size in &sizes {
            let policies: &[&str] = if size == 1 {
                &["as-is"]
            } else {
                &["as-is", "active", "passive"]
            };
            for &policy in policies {
                let size = size.to_string();
                let mut environment = vec![(THREADS, size.as_str())];
                if policy != "as-is" {
                    environment.push((POLICY, policy));
                }
                let path = runtime.map(|path| path.to_string_lossy().into_owned());
                environment.extend(path.iter().map(|path| ("LD_PRELOAD", path.as_str())));
                let name = format!(
                    "{size} {policy}{}",
                    if runtime.is_some() { " llvm" } else { "" }
                );
                ways.push(Way::plain(&name, &environment));
            }
        }
        if llvm.is_none() {
            break;
        }
    }
    ways
}

/// Compiles the project's own programs into `folder`.
fn own(root: &Path, folder: &Path, options: &Options) -> Result<Vec<Entry>, String> {
    let mut entries = Vec::new();
    for compiler in ["gcc", "clang"] {
        if Command::new(compiler).arg("--version").output().is_err() {
            eprintln!("omp-table: no {compiler}: its programs are left out");
            continue;
        }
        for (name, rounds) in PROGRAMS {
            let path = folder.join(format!("{name}-{compiler}"));
            let mut command = Command::new(compiler);
            command
                .args(["-O2", "-g1", "-fopenmp", "-D_GNU_SOURCE", "-o"])
                .arg(&path);
            command
                .arg(root.join(format!("crates/openmp/programs/{name}.c")))
                .arg("-lm");
            if !command.status().is_ok_and(|status| status.success()) {
                return Err(format!("{name}.c cannot be compiled with {compiler}"));
            }
            let mut words = vec![path.to_string_lossy().into_owned()];
            match options.quick {
                true => words.push("--quick".to_owned()),
                false => words.extend(["--rounds".to_owned(), part(rounds, options.work)]),
            }
            entries.push(Entry::plain(&format!("{name}/{compiler}"), folder, words));
        }
    }
    Ok(entries)
}

/// Returns so many percent of `rounds`, at least one.
fn part(rounds: u32, percent: u32) -> String {
    (u64::from(rounds) * u64::from(percent) / 100)
        .max(1)
        .to_string()
}

/// Returns LLVM's runtime if the program is linked with gcc's, in whose place it can be loaded.
fn substitute(program: &str) -> Option<PathBuf> {
    let bytes = std::fs::read(program).ok()?;
    let gcc = b"libgomp.so.1";
    bytes
        .windows(gcc.len())
        .any(|window| window == gcc)
        .then_some(())?;
    // Of an installation without the files for developers clang only knows the library that programs load.
    ["libomp.so", "libomp.so.5"].into_iter().find_map(|name| {
        let output = Command::new("clang")
            .arg(format!("-print-file-name={name}"))
            .output()
            .ok()?;
        let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
        path.is_absolute().then(|| path.canonicalize().ok())?
    })
}

/// Prints the table, and returns whether all bars hold.
pub(crate) fn run(root: &Path, options: &Options) -> bool {
    measure(root, options).unwrap_or_else(|error| {
        eprintln!("omp-table: {error}");
        false
    })
}

fn measure(root: &Path, options: &Options) -> Result<bool, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut entries = Vec::new();
    for list in &options.lists {
        entries.extend(read(list)?);
    }
    if options.lists.is_empty() {
        entries = own(root, folder.path(), options)?;
    }
    entries.retain(|entry| {
        options
            .only
            .as_ref()
            .is_none_or(|text| entry.name.contains(text))
    });
    let with = options.adapter.ways(root)?;
    let wanted = |condition: &&Condition| {
        let named = options
            .condition
            .as_ref()
            .map(|text| condition.name.contains(text.as_str()));
        named.unwrap_or(condition.quick || !options.quick)
    };
    println!(
        "program        condition     without s   best static s (which)            governor: s, of best, of without"
    );
    let mut judge = Judge::default();
    for condition in CONDITIONS.iter().filter(wanted) {
        let neighbour = condition
            .neighbour
            .map(|(kind, cpu)| Neighbour::start(kind, cpu))
            .transpose()?;
        for entry in &entries {
            let row = row(entry, condition, &with, options)?;
            judge.look(&row);
            println!("{row}");
        }
        drop(neighbour);
    }
    println!("{judge}");
    Ok(judge.holds())
}

/// What was measured of one program under one condition.
struct Row {
    program: String,
    condition: &'static str,
    without: f64,
    best: f64,
    which: String,
    /// Each governor and its time.
    with: Vec<(String, f64)>,
}

fn row(
    entry: &Entry,
    condition: &Condition,
    with: &[Way],
    options: &Options,
) -> Result<Row, String> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let llvm = entry.words.first().and_then(|program| substitute(program));
    let mut ways = vec![Way::plain("without", &[])];
    ways.extend(with.iter().cloned());
    let fixed = ways.len();
    ways.extend(choices(condition, processors, llvm.as_deref()));
    let mut environment = entry.environment.clone();
    environment.extend(
        condition
            .environment
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned())),
    );
    let mut times = vec![Vec::new(); ways.len()];
    let rounds = options
        .rounds
        .unwrap_or(if options.quick { 2 } else { 5 })
        .max(1);
    for round in 0..rounds {
        let least = times
            .iter()
            .flatten()
            .copied()
            .fold(f64::INFINITY, f64::min);
        for (at, way) in ways.iter().enumerate() {
            let hopeless = times[at]
                .first()
                .is_some_and(|&first| first > HOPELESS * least);
            if round > 0 && at >= fixed && hopeless {
                continue;
            }
            let ran = way.run(
                &entry.folder,
                &entry.words,
                &environment,
                options.adapter.limit(),
            )?;
            let good = ran.outcome == Outcome::Code(0) && ran.output.contains(&entry.text);
            if !good && ran.outcome != Outcome::TooLong {
                let last = ran.output.lines().last().unwrap_or("");
                return Err(format!(
                    "{} {}, {}: {}: {last}",
                    entry.name, condition.name, way.name, ran.outcome
                ));
            }
            // A run that was stopped counts with the limit, at least which it would have taken.
            times[at].push(ran.wall);
        }
    }
    let value = |times: &Vec<f64>| {
        let (least, median) = least_and_median(times);
        if condition.neighbour.is_some() {
            median
        } else {
            least
        }
    };
    let values: Vec<f64> = times.iter().map(value).collect();
    let best = (fixed..ways.len())
        .min_by(|&a, &b| values[a].total_cmp(&values[b]))
        .ok_or("no static choice")?;
    Ok(Row {
        program: entry.name.clone(),
        condition: condition.name,
        without: values[0],
        best: values[best],
        which: ways[best].name.clone(),
        with: (1..fixed)
            .map(|at| (ways[at].name.clone(), values[at]))
            .collect(),
    })
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:<14} {:<12} {:>9.4}   {:>9.4} ({:<18})",
            self.program, self.condition, self.without, self.best, self.which
        )?;
        for (name, time) in &self.with {
            let (of_best, of_without) = (time / self.best, time / self.without);
            write!(
                f,
                "   {name}: {time:.4}, {of_best:.2}{}, {of_without:.2}{}",
                mark(of_best, OF_BEST),
                mark(of_without, OF_WITHOUT)
            )?;
        }
        Ok(())
    }
}

fn mark(ratio: f64, most: f64) -> &'static str {
    if ratio > most { "!" } else { "" }
}

/// How many rows of each governor are over the bars, and the worst of each.
#[derive(Default)]
struct Judge {
    /// Name, rows, rows over [`OF_BEST`], rows over [`OF_WITHOUT`], largest ratios.
    governors: Vec<(String, u32, u32, u32, f64, f64)>,
}

impl Judge {
    fn look(&mut self, row: &Row) {
        for (name, time) in &row.with {
            let found = self
                .governors
                .iter()
                .position(|governor| governor.0 == *name);
            let at = found.unwrap_or_else(|| {
                self.governors.push((name.clone(), 0, 0, 0, 0.0, 0.0));
                self.governors.len() - 1
            });
            let (of_best, of_without) = (time / row.best, time / row.without);
            let governor = &mut self.governors[at];
            governor.1 += 1;
            governor.2 += u32::from(of_best > OF_BEST);
            governor.3 += u32::from(of_without > OF_WITHOUT);
            governor.4 = of_best.max(governor.4);
            governor.5 = of_without.max(governor.5);
        }
    }

    fn holds(&self) -> bool {
        self.governors
            .iter()
            .all(|governor| governor.2 == 0 && governor.3 == 0)
    }
}

impl std::fmt::Display for Judge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, rows, best, without, worst_best, worst_without) in &self.governors {
            write!(
                f,
                "{name}: of {rows} rows {best} over {OF_BEST} of the best static choice (worst {worst_best:.2}), \
                 {without} over {OF_WITHOUT} of without (worst {worst_without:.2})  "
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_choices_are_all_sizes_policies_and_runtimes() {
        let condition = alone("4-active", &[(THREADS, "4")], true);
        let names = |llvm| {
            choices(&condition, 2, llvm)
                .into_iter()
                .map(|way| way.name)
                .collect::<Vec<_>>()
        };
        let own = [
            "1 as-is",
            "2 as-is",
            "2 active",
            "2 passive",
            "4 as-is",
            "4 active",
            "4 passive",
        ];
        assert_eq!(names(None), own);
        let both = names(Some(Path::new("/libomp.so")));
        assert_eq!(both.len(), 14);
        assert_eq!(both[7], "1 as-is llvm");
    }

    #[test]
    fn a_part_of_the_work_is_never_nothing() {
        assert_eq!(part(75, 100), "75");
        assert_eq!(part(75, 30), "22");
        assert_eq!(part(75, 1), "1");
        assert_eq!(part(u32::MAX, 200), (u64::from(u32::MAX) * 2).to_string());
    }

    #[test]
    fn rows_over_the_bars_are_counted() {
        let row = |time| Row {
            program: "cg".into(),
            condition: "busy",
            without: 2.0,
            best: 1.0,
            which: "1 as-is".into(),
            with: vec![("predict".into(), time)],
        };
        let mut judge = Judge::default();
        judge.look(&row(1.05));
        assert!(judge.holds());
        judge.look(&row(1.2));
        judge.look(&row(2.1));
        assert_eq!((judge.governors[0].2, judge.governors[0].3), (2, 1));
        assert!(!judge.holds());
        assert!(
            row(2.1).to_string().contains("2.10!, 1.05!"),
            "{}",
            row(2.1)
        );
    }
}
