//! `cargo xtask two-processes`: what two parallel programs on one machine do to each other.
//!
//! Each runs alone, twice at the same time with workers bound as by default, and twice at the same time unbound. Two programs that share
//! two cores fairly take twice as long each; more than that is what they lose to each other: by being bound to the same core while another
//! is idle, or by spinning while the other one could work.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;

/// How `cargo xtask two-processes` is called.
#[derive(Args)]
pub(crate) struct Options {
    /// The stream that is decoded [default: the demo stream]
    #[arg(long, value_name = "IN.264")]
    stream: Option<String>,
    /// Number of measurements of each, in turn; the shortest time of each counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How many workers each program has
    #[arg(long, default_value_t = 2)]
    workers: u32,
    /// Takes the programs as they lie in target/release
    #[arg(long)]
    no_build: bool,
}

/// The most that a program may be slower beside another one than alone, as a factor.
const MOST_SLOWER: f64 = 2.2;

/// The factor by which measurements of this kind vary: a program that is no slower than this with binding counts as equal.
const EQUAL: f64 = 1.05;

/// How long a program should take alone.
const ALONE: Duration = Duration::from_millis(800);

/// A program without its binding, which takes about a second with the right amount of work.
struct Program {
    name: &'static str,
    /// The program and its arguments.
    words: Vec<String>,
    /// The option that says how much it does.
    amount: &'static str,
}

fn programs(options: &Options) -> [Program; 2] {
    let stream = options.stream.as_deref();
    let stream = stream.unwrap_or("demo/terraces_wvga.264");
    let program = |name, amount, words: &[&str]| {
        let workers = ["--workers", &options.workers.to_string()].map(str::to_owned);
        let words = words.iter().map(|word| (*word).to_owned());
        Program {
            name,
            words: words.chain(workers).collect(),
            amount,
        }
    };
    let h264 = ["target/release/tanada", "run", "h264", stream];
    let wavefront = ["target/release/tanada-wavefront"];
    [
        program("h264", "--repeat", &h264),
        program("wavefront", "--frames", &wavefront),
    ]
}

/// Prints the times and ratios, and returns whether all are as they should be.
pub(crate) fn run(root: &Path, options: &Options) -> bool {
    measure(root, options).unwrap_or_else(|error| {
        eprintln!("two-processes: {error}");
        false
    })
}

fn measure(root: &Path, options: &Options) -> Result<bool, String> {
    if !options.no_build {
        let arguments = ["build", "--release", "-p", "tanada", "-p", "tanada-soak"];
        let mut cargo = Command::new("cargo");
        let status = cargo.args(arguments).current_dir(root).status();
        if !status.is_ok_and(|status| status.success()) {
            return Err("the programs cannot be built".to_owned());
        }
    }
    println!("program     alone      two, bound      two, unbound    slower  bound/unbound");
    let mut good = true;
    for program in programs(options) {
        let amount = program.calibrate(root)?;
        let mut least = [Duration::MAX; 3];
        for _ in 0..options.rounds {
            let times = [
                program.time(root, amount, "auto", 1)?,
                program.time(root, amount, "auto", 2)?,
                program.time(root, amount, "off", 2)?,
            ];
            for (least, time) in least.iter_mut().zip(times) {
                *least = time.min(*least);
            }
        }
        let [alone, bound, unbound] = least.map(|time| time.as_secs_f64());
        let verdict = judge(alone, bound, unbound);
        println!(
            "{:<10} {alone:6.3} s   {bound:6.3} s        {unbound:6.3} s        {:6.2}  {:6.2}  {}",
            program.name,
            bound / alone,
            bound / unbound,
            verdict.unwrap_or("good")
        );
        good &= verdict.is_none();
    }
    Ok(good)
}

/// Returns what is wrong, if anything.
fn judge(alone: f64, bound: f64, unbound: f64) -> Option<&'static str> {
    if bound > MOST_SLOWER * alone {
        Some("TOO SLOW beside another one")
    } else if bound > EQUAL * unbound {
        Some("SLOWER than unbound")
    } else {
        None
    }
}

impl Program {
    /// Returns how much a process has to do to take long enough alone.
    fn calibrate(&self, root: &Path) -> Result<u32, String> {
        let mut amount = 1;
        loop {
            let time = self.time(root, amount, "auto", 1)?;
            if time >= ALONE || amount > 1 << 20 {
                return Ok(amount);
            }
            let factor = ALONE.as_secs_f64() / time.as_secs_f64() * 1.1;
            amount = (f64::from(amount) * factor.clamp(1.2, 20.0)).ceil() as u32;
        }
    }

    /// Runs several copies at once. Returns how long the last one took.
    fn time(
        &self,
        root: &Path,
        amount: u32,
        bind: &str,
        copies: usize,
    ) -> Result<Duration, String> {
        let mut command = Command::new(&self.words[0]);
        command
            .args(&self.words[1..])
            .args([self.amount, &amount.to_string(), "--bind", bind])
            .current_dir(root)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let start = Instant::now();
        let children: Result<Vec<_>, _> = (0..copies).map(|_| command.spawn()).collect();
        let children = children.map_err(|error| format!("{}: {error}", self.words[0]))?;
        for mut child in children {
            let status = child.wait().map_err(|error| error.to_string())?;
            if !status.success() {
                return Err(format!("{} failed: {status}", self.words.join(" ")));
            }
        }
        Ok(start.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_bars_are_looked_at() {
        assert_eq!(judge(1.0, 2.1, 2.1), None);
        assert_eq!(judge(1.0, 2.3, 2.3), Some("TOO SLOW beside another one"));
        assert_eq!(judge(1.0, 2.1, 1.9), Some("SLOWER than unbound"));
    }

    #[test]
    fn a_program_that_fails_is_reported() {
        let program = Program {
            name: "false",
            words: vec!["false".to_owned()],
            amount: "--any",
        };
        let error = program.calibrate(Path::new(".")).unwrap_err();
        assert!(error.starts_with("false failed"), "{error}");
    }
}
