//! `cargo xtask omp-tasks`: the project's own programs with OpenMP tasks, compiled with gcc and with clang, each with its own runtime
//! and with the adapter's tasks, in turn.
//!
//! What counts is the time that a program prints, which is that of its region with tasks: the least of all turns. A row is over its bar if
//! the ratio of the two is. Threads are bound to processors.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;

use super::{Outcome, Way, built, least_and_median};

/// How `cargo xtask omp-tasks` is called.
#[derive(Args)]
pub(crate) struct Options {
    /// The adapter [default: the one in target/release, built first]
    #[arg(long = "library", value_name = "FILE.so")]
    file: Option<PathBuf>,
    /// Policies of the adapter's tasks; several are compared [default: the adapter's own]
    #[arg(long = "policy", value_name = "NAME", default_values_t = ["1".to_owned()], hide_default_value = true)]
    policies: Vec<String>,
    /// Turns of each way [default: 9, and up to 40 of programs that take less than a second; with --quick 2]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Measure the own runtime once more, as if it were a policy: what a ratio of the same thing is
    #[arg(long)]
    control: bool,
    /// Small programs: whether it works, not what comes of it
    #[arg(long)]
    quick: bool,
    /// Only rows whose name has this text, such as wavefront, cholesky, fib/gcc
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// OMP_NUM_THREADS
    #[arg(long, default_value_t = 2)]
    threads: u32,
    /// The longest time that a program may run, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    limit: u64,
}

/// The compilers, and the runtimes that their programs use.
const COMPILERS: [(&str, &str); 2] = [("gcc", "libgomp"), ("clang", "libomp")];

/// One measurement: a program of `crates/openmp/programs` and what it is called with.
struct Case {
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    quick: &'static [&'static str],
    /// Tasks, if the time of one is to be printed.
    tasks: Option<f64>,
    /// The most of the own runtime's time, with libgomp and with libomp.
    bars: [f64; 2],
}

/// The wavefront's tasks: those of all of its frames.
const WAVEFRONT: f64 = 120.0 * 68.0 * 20.0;

const fn case(
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    quick: &'static [&'static str],
    bars: [f64; 2],
) -> Case {
    Case {
        name,
        program,
        arguments,
        quick,
        tasks: None,
        bars,
    }
}

const fn wavefront(name: &'static str, arguments: &'static [&'static str]) -> Case {
    let mut case = case(name, "wavefront", arguments, &["--quick"], [0.45, 0.25]);
    case.tasks = Some(WAVEFRONT);
    case
}

/// Five times as fast; 1.15 times as fast; no slower; at most 3% slower.
const TREES: [f64; 2] = [0.2; 2];
const TILES: [f64; 2] = [1.0 / 1.15; 2];
const EQUAL: [f64; 2] = [1.0; 2];
const COARSE: [f64; 2] = [1.03; 2];

const CASES: [Case; 13] = [
    wavefront("wavefront-100ns", &["--body", "100"]),
    wavefront("wavefront-500ns", &["--body", "500"]),
    case("fib", "trees", &["--fib", "27"], &["--fib", "16"], TREES),
    case(
        "queens",
        "trees",
        &["--queens", "12"],
        &["--queens", "7"],
        TREES,
    ),
    case(
        "villages",
        "trees",
        &["--villages", "9"],
        &["--villages", "5"],
        TREES,
    ),
    case(
        "cholesky-32",
        "cholesky",
        &["--size", "4096", "--tile", "32"],
        &["--size", "512", "--tile", "32"],
        TILES,
    ),
    case(
        "cholesky-64",
        "cholesky",
        &["--size", "4096", "--tile", "64"],
        &["--size", "512", "--tile", "64"],
        TILES,
    ),
    case(
        "cholesky-128",
        "cholesky",
        &["--size", "4096", "--tile", "128"],
        &["--size", "512", "--tile", "128"],
        EQUAL,
    ),
    case(
        "sort",
        "coarse",
        &["--sort", "4000000"],
        &["--sort", "100000"],
        COARSE,
    ),
    case(
        "strassen",
        "coarse",
        &["--strassen", "1024"],
        &["--strassen", "256"],
        COARSE,
    ),
    case(
        "fft",
        "coarse",
        &["--fft", "2097152"],
        &["--fft", "8192"],
        COARSE,
    ),
    case(
        "sparse-lu",
        "coarse",
        &["--sparse", "32"],
        &["--sparse", "8"],
        COARSE,
    ),
    case(
        "alignment",
        "coarse",
        &["--align", "32"],
        &["--align", "10"],
        COARSE,
    ),
];

/// Returns the seconds that a program printed: those behind the last word `seconds`.
fn seconds(output: &str) -> Option<f64> {
    let mut words = output.split_whitespace().rev();
    let mut behind = None;
    loop {
        let word = words.next()?;
        if word == "seconds" {
            return behind;
        }
        behind = word.parse().ok();
    }
}

/// Compiles a program into `folder`, unless it is there. Returns its path.
fn compile(root: &Path, folder: &Path, case: &Case, compiler: &str) -> Result<PathBuf, String> {
    let path = folder.join(format!("{}-{compiler}", case.program));
    if path.is_file() {
        return Ok(path);
    }
    let mut command = Command::new(compiler);
    command
        .args(["-O3", "-march=native", "-fopenmp", "-D_GNU_SOURCE", "-o"])
        .arg(&path);
    command
        .arg(root.join(format!("crates/openmp/programs/{}.c", case.program)))
        .arg("-lm");
    match command.status() {
        Ok(status) if status.success() => Ok(path),
        _ => Err(format!(
            "{}.c cannot be compiled with {compiler}",
            case.program
        )),
    }
}

/// Prints the table, and returns whether all bars hold.
pub(crate) fn run(root: &Path, options: &Options) -> bool {
    measure(root, options).unwrap_or_else(|error| {
        eprintln!("omp-tasks: {error}");
        false
    })
}

fn measure(root: &Path, options: &Options) -> Result<bool, String> {
    let library = match &options.file {
        Some(file) => std::path::absolute(file).map_err(|error| error.to_string())?,
        None => built(root)?,
    };
    if !library.is_file() {
        return Err(format!("{} is no file", library.display()));
    }
    let library = library.to_string_lossy();
    let mut ways = vec![Way::plain("own", &[])];
    ways.extend(options.policies.iter().map(|policy| {
        let name = if policy == "1" { "ours" } else { policy };
        Way::plain(
            name,
            &[("LD_PRELOAD", &library), ("TANADA_OMP_TASKS", policy)],
        )
    }));
    if options.control {
        ways.push(Way::plain("own again", &[]));
    }
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    println!(
        "program               runtime      own s{}",
        ways[1..]
            .iter()
            .map(|way| format!("   {:>10} s   ratio (median)   bar", way.name))
            .collect::<String>()
    );
    let (mut rows, mut over) = (0, 0);
    for (number, (compiler, runtime)) in COMPILERS.into_iter().enumerate() {
        if Command::new(compiler).arg("--version").output().is_err() {
            eprintln!("omp-tasks: no {compiler}: its programs are left out");
            continue;
        }
        for case in &CASES {
            let name = format!("{}/{compiler}", case.name);
            let wanted = options.only.as_ref().is_none_or(|text| name.contains(text));
            if !wanted {
                continue;
            }
            let program = compile(root, folder.path(), case, compiler)?;
            let row = turns(case, &program, &ways, options)?;
            rows += 1;
            over += usize::from(print(
                &name,
                runtime,
                case,
                case.bars[number],
                &row,
                options,
            ));
        }
    }
    println!("{rows} rows, {over} over their bars");
    Ok(over == 0)
}

/// Turns of a short program, and seconds of the own runtime from which on it is not short: the least of nine turns of a tenth of a second
/// differs by 10% from that of nine others.
const TURNS: usize = 40;
const ENOUGH: f64 = 9.0;

/// Returns the times of each way.
fn turns(
    case: &Case,
    program: &Path,
    ways: &[Way],
    options: &Options,
) -> Result<Vec<Vec<f64>>, String> {
    let arguments = if options.quick {
        case.quick
    } else {
        case.arguments
    };
    let mut words = vec![program.to_string_lossy().into_owned()];
    words.extend(arguments.iter().map(|&word| word.to_owned()));
    // A thread that the system moves, or two on one processor for a while, would cost more than all tasks.
    let environment = [
        ("OMP_NUM_THREADS", options.threads.to_string()),
        ("OMP_PROC_BIND", "true".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value));
    let limit = Duration::from_secs(options.limit);
    let rounds = options.rounds.unwrap_or(if options.quick { 2 } else { 9 });
    let more = options.rounds.is_none() && !options.quick;
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); ways.len()];
    let goes_on = |times: &[Vec<f64>]| {
        let turns = times[0].len();
        turns < rounds as usize || more && turns < TURNS && times[0].iter().sum::<f64>() < ENOUGH
    };
    while goes_on(&times) {
        for (way, times) in ways.iter().zip(&mut times) {
            let ran = way.run(Path::new("/"), &words, &environment, limit)?;
            let bad = |what: &dyn std::fmt::Display| {
                let last = ran.output.lines().last().unwrap_or("");
                format!("{}, {}: {what}: {last}", case.name, way.name)
            };
            if ran.outcome != Outcome::Code(0) {
                return Err(bad(&ran.outcome));
            }
            times.push(seconds(&ran.output).ok_or_else(|| bad(&"no seconds"))?);
        }
    }
    Ok(times)
}

/// Prints a row, and returns whether the first policy's is over the bar.
fn print(
    name: &str,
    runtime: &str,
    case: &Case,
    bar: f64,
    times: &[Vec<f64>],
    options: &Options,
) -> bool {
    let (own, own_median) = least_and_median(&times[0]);
    let mut row = format!("{name:<21} {runtime:<8} {own:>9.4}");
    let mut over = false;
    for (number, times) in times[1..].iter().enumerate() {
        let (least, median) = least_and_median(times);
        let ratio = least / own;
        over |= number == 0 && ratio > bar;
        row += &format!(
            "   {least:>12.4}   {ratio:>5.3} ({:>5.3})   {bar:>4.2}{}",
            median / own_median,
            if ratio > bar { "!" } else { " " }
        );
    }
    if let Some(tasks) = case.tasks
        && !options.quick
    {
        let each: Vec<String> = times
            .iter()
            .map(|times| format!("{:.0}", least_and_median(times).0 * 1e9 / tasks))
            .collect();
        row += &format!("   ns a task: {}", each.join(", "));
    }
    println!("{row}");
    over
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_those_of_the_last_line_that_has_them() {
        assert_eq!(
            seconds("seconds 1.5\nns/task 3.0 (least of a frame 2.0)\n"),
            Some(1.5)
        );
        assert_eq!(seconds("fib seconds 0.25\nqueens seconds 0.5\n"), Some(0.5));
        assert_eq!(seconds("seconds\n"), None);
        assert_eq!(seconds("no time"), None);
    }

    #[test]
    fn a_row_is_over_its_bar_by_the_first_policy_alone() {
        let options = Options {
            file: None,
            policies: vec!["1".into(), "fcfs".into()],
            rounds: None,
            quick: true,
            control: false,
            only: None,
            threads: 2,
            limit: 1,
        };
        let print =
            |times: &[Vec<f64>]| print("fib/gcc", "libgomp", &CASES[2], 0.2, times, &options);
        assert!(!print(&[vec![1.0, 2.0], vec![0.2, 0.9], vec![0.5]]));
        assert!(print(&[vec![1.0, 2.0], vec![0.21], vec![0.1]]));
    }
}
