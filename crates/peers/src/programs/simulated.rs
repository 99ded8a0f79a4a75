//! The simulator, and what else looks at memory references: cachegrind, lackey, Dinero IV.

use super::{Counted, Program};
use crate::Fallible;
use crate::peers::command;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use tanada_sim::tanada_trace::{FileSink, Groups, Kind, Trace, TraceError};
use tanada_sim::{Options, machines, simulate};
use tanada_workloads::record::{self, H264Options, Pictures};

/// The machines of the models.
const MACHINES: &[(&str, &str)] = &[
    ("model=uniform", "toshiba"),
    ("model=contended", "toshiba-board"),
];

/// Cores of the simulated machine.
const CORES: u16 = 4;

/// Simulations in a row, so that starting threads counts little.
const RUNS: u32 = 3;

/// What all others are measured under: only misses are counted.
pub(crate) const UNIFORM: &str = MACHINES[0].0;

/// All values of `params`.
pub(crate) fn params() -> Vec<String> {
    let params = MACHINES.iter().map(|(params, _)| params.to_string());
    params.collect()
}

/// A folder with the recording that is simulated: eight pictures of the demo stream in the paper's tasks, as a binary trace: ten million
/// touches.
pub(crate) struct Recording {
    folder: tempfile::TempDir,
    trace: Trace,
}

impl Recording {
    pub(crate) fn new() -> Fallible<Recording> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("pictures.tnb");
        let options = H264Options {
            pictures: Pictures::Every {
                first: 8,
                count: 8,
                every: 1,
            },
            ..H264Options::default()
        };
        let stream = include_bytes!("../../../../demo/terraces_wvga.264");
        let mut sink = FileSink::create(&path)?;
        let go_on = |_, _| ControlFlow::Continue(());
        record::h264(stream, &options, &mut sink, go_on)?;
        sink.finish()?;
        let trace = Trace::open(&path, &Groups::Named("toshiba-a".to_owned()))?;
        Ok(Recording { folder, trace })
    }

    /// Simulates it [`RUNS`] times on each of the threads.
    pub(crate) fn simulate(&self, params: &str, policy: &str, threads: u16) -> Fallible<Counted> {
        let machine = MACHINES.iter().find(|(name, _)| *name == params);
        let (_, machine) = machine.ok_or("no such model")?;
        let machine = machines::find(machine)?.with_cores(CORES)?;
        let one = || {
            let outcome = simulate(&self.trace, &machine, policy, &Options::default(), &mut ())?;
            let first = outcome.caches.iter().filter(|cache| cache.level == 1);
            let all = first.map(|cache| cache.count.accesses).sum::<u64>();
            // The dispatcher's own are no part of the recording.
            let of_calls = outcome.contention.iter().flat_map(|contention| {
                let tables = machine.caches.iter().zip(&contention.of_calls);
                tables.filter(|(table, _)| table.level == 1)
            });
            Ok(all - of_calls.map(|(_, count)| count.accesses).sum::<u64>())
        };
        let runs = || (0..RUNS).map(|_| one()).sum::<Fallible<u64>>();
        let on_all = || {
            std::thread::scope(|s| {
                let threads = Vec::from_iter((0..threads).map(|_| s.spawn(runs)));
                let touches = threads
                    .into_iter()
                    .map(|thread| thread.join().expect("no panic"));
                touches.sum()
            })
        };
        Counted::timed(on_all)
    }

    /// The same references as a file in Dinero's extended form.
    fn write_din(&self) -> Fallible<PathBuf> {
        let path = self.folder.path().join("pictures.xdin");
        let file = std::fs::File::create(&path)?;
        let mut file = std::io::BufWriter::new(file);
        let mut reader = self.trace.reader()?;
        let mut window = Vec::new();
        for task in 0..self.trace.len() as u32 {
            reader.for_each(task, &mut window, |record| {
                if record.kind != Kind::Compute {
                    // Its words are Dinero's.
                    let (word, value) = (record.kind.word(), record.value);
                    writeln!(file, "{word} {value:x} {:x}", record.size)?;
                }
                Ok::<_, TraceError>(())
            })?;
        }
        file.into_inner()?;
        Ok(path)
    }
}

/// A tool of Valgrind's, measured on a loop of this program: the time of many rounds less that of none.
pub(crate) struct Valgrind {
    tool: &'static str,
    rounds: u64,
}

/// The first argument of a process that a tool of Valgrind's looks at.
pub(crate) const TOIL: &str = "__toil";

/// What that process does: reads and writes of 64 KB, one word after the other.
pub(crate) fn toil(rounds: u64) {
    let mut words = vec![0_u64; 8192];
    for _ in 0..rounds {
        let mut before = 0;
        for word in &mut words {
            before = std::hint::black_box(*word ^ before);
            *word = before + 1;
        }
    }
    std::hint::black_box(words);
}

impl Valgrind {
    pub(crate) fn open(tool: &'static str) -> Valgrind {
        // About two seconds each.
        let rounds = if tool == "lackey" { 50 } else { 4000 };
        Valgrind { tool, rounds }
    }

    /// References and seconds of the rounds.
    fn once(&self, rounds: u64) -> Fallible<(u64, f64)> {
        let counts = tempfile::NamedTempFile::new()?;
        let program = std::env::current_exe()?;
        let mut command = Command::new("valgrind");
        command.args(["--command-line-only=yes", &format!("--tool={}", self.tool)]);
        match self.tool {
            "lackey" => command.args(["--basic-counts=no", "--trace-mem=yes"]),
            _ => command
                .args("--cache-sim=yes --I1=8192,2,64 --D1=8192,2,64 --LL=131072,4,64".split(' '))
                .arg(format!("--cachegrind-out-file={}", counts.path().display())),
        };
        command
            .arg("--log-fd=1")
            .arg(program)
            .args([TOIL, &rounds.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let start = Instant::now();
        let child = command
            .spawn()
            .map_err(|error| format!("valgrind: {error}"));
        let mut child = Killed(child?);
        let lines = accesses(child.0.stdout.take().expect("it is piped"))?;
        let status = child.0.wait()?;
        let seconds = start.elapsed().as_secs_f64();
        if !status.success() {
            return Err(format!("valgrind --tool={}: {status}", self.tool).into());
        }
        let references = match self.tool {
            "lackey" => lines,
            _ => summary(counts.path())?,
        };
        Ok((references, seconds))
    }
}

/// A child that does not outlive its owner.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How many lines of a log are accesses.
fn accesses(mut log: impl std::io::Read) -> Fallible<u64> {
    let mut part = vec![0; 1 << 16];
    let (mut lines, mut begins) = (0, true);
    loop {
        let count = log.read(&mut part)?;
        if count == 0 {
            return Ok(lines);
        }
        for &byte in &part[..count] {
            lines += u64::from(begins && matches!(byte, b'I' | b' '));
            begins = byte == b'\n';
        }
    }
}

/// Instructions, reads and writes that cachegrind counted.
fn summary(path: &Path) -> Fallible<u64> {
    let text = std::fs::read_to_string(path)?;
    let line = |word| text.lines().find_map(|line| line.strip_prefix(word));
    let named = line("events: ").zip(line("summary: "));
    let named = named.ok_or("cachegrind wrote no summary")?;
    let counts = named.0.split_whitespace().zip(named.1.split_whitespace());
    let references = counts.filter(|(name, _)| ["Ir", "Dr", "Dw"].contains(name));
    let numbers = references.map(|(_, count)| count.parse::<u64>());
    Ok(numbers.sum::<Result<u64, _>>()?)
}

impl Program for Valgrind {
    fn simulate(&mut self, _params: &str) -> Fallible<Counted> {
        let (none, start) = self.once(0)?;
        let (all, seconds) = self.once(self.rounds)?;
        Ok(Counted {
            count: all - none,
            seconds: (seconds - start).max(f64::MIN_POSITIVE),
        })
    }
}

/// Dinero IV, on the same recording as text.
pub(crate) struct Dinero {
    recording: Recording,
    input: Option<PathBuf>,
}

impl Dinero {
    pub(crate) fn open() -> Fallible<Dinero> {
        Ok(Dinero {
            recording: Recording::new()?,
            input: None,
        })
    }
}

impl Program for Dinero {
    fn simulate(&mut self, _params: &str) -> Fallible<Counted> {
        let input = match self.input.take() {
            Some(input) => input,
            None => self.recording.write_din()?,
        };
        let input = self.input.insert(input);
        let program = command("dineroIV").ok_or("no dineroIV on the search path")?;
        let mut command = Command::new(program);
        for (name, size, block, ways, replacement) in [
            ("l1-i", "8K", "64", "2", "f"),
            ("l1-d", "8K", "64", "2", "f"),
            ("l2-u", "128K", "256", "4", "l"),
        ] {
            let size = format!("-{name}size {size} -{name}bsize {block}");
            let rest = format!("-{name}assoc {ways} -{name}repl {replacement}");
            command.args(size.split(' ')).args(rest.split(' '));
        }
        let file = std::fs::File::open(input)?;
        command.args(["-informat", "D"]).stdin(file);
        let start = Instant::now();
        let output = command.output()?;
        let seconds = start.elapsed().as_secs_f64();
        let text = String::from_utf8_lossy(&output.stdout);
        let fetches = |line| str::trim(line).strip_prefix("Demand Fetches");
        let number = |rest: &str| rest.split_whitespace().next()?.parse::<u64>().ok();
        // Of the instruction and of the data cache; the third are those of the second level.
        let count = text
            .lines()
            .filter_map(fetches)
            .take(2)
            .filter_map(number)
            .sum();
        match output.status.success() && count > 0 {
            true => Ok(Counted { count, seconds }),
            false => Err(format!("dineroIV: {}", output.status).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_are_lines_of_lackey() {
        let log = "==1== I am\nI  10,4\n L 10,4\n\nI  14,2\n--1-- S 1,1\n M 1,1";
        assert_eq!(accesses(log.as_bytes()).ok(), Some(4));
    }

    #[test]
    fn models_simulate_the_same_touches() {
        let recording = Recording::new().expect("it is recorded");
        let of = |params: &String| {
            recording
                .simulate(params, "fcfs", 1)
                .expect("it runs")
                .count
        };
        let touches: Vec<u64> = params().iter().map(of).collect();
        assert!(touches[0] > 1_000_000, "{touches:?}");
        assert_eq!(touches, vec![touches[0]; params().len()]);
    }
}
