//! The simulator, and other programs that look at memory references: cachegrind, lackey, Dinero IV.

use super::{Counted, Program};
use crate::Fallible;
use crate::cases::Case;
use crate::peers::command;
use std::io::{BufWriter, Write as _};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use tanada_harness::batch;
use tanada_harness::recording::{Recording, chip};
use tanada_runtime::Cancel;
use tanada_sim::tanada_trace::{Groups, Kind, Trace, TraceError};
use tanada_sim::{Machine, Options};
use tanada_workloads::Purpose;
use tempfile::NamedTempFile;

/// Simulations in a row on each thread, so that starting threads counts little.
const RUNS: u32 = 3;

/// Returns the `params` of simulations on `machine`.
fn params_of(machine: &Machine) -> String {
    format!("model={}", machine.model.as_str())
}

/// Returns all values of `params`. Peers that only count misses are measured with the first.
pub(crate) fn params() -> Vec<String> {
    chip().iter().map(params_of).collect()
}

/// Returns the recording that is simulated: that of the workload of `case`, with groups of paper 1.
pub(super) fn record(case: &Case) -> Fallible<Recording> {
    let (workload, values) = case.workload(Purpose::Record)?;
    let groups = Groups::Named("toshiba-a".to_owned());
    let recording = Recording::new(workload, &values, &groups, &Cancel::new());
    Ok(recording?)
}

/// Simulates `recording` [`RUNS`] times on each of `threads` threads, and returns the number of touches.
pub(super) fn simulate(
    recording: &Recording,
    params: &str,
    policy: &str,
    threads: u16,
) -> Fallible<Counted> {
    let mut machines = chip().into_iter();
    let machine = machines.find(|machine| params_of(machine) == params);
    let machine = machine.ok_or("no such model")?;
    let one = || {
        let (trace, options) = (&recording.trace, Options::default());
        let outcome = tanada_sim::simulate(trace, &machine, policy, &options, &mut ())?;
        let first = outcome.caches.iter().filter(|cache| cache.level == 1);
        let all = first.map(|cache| cache.count.accesses).sum::<u64>();
        // The dispatcher's own are no part of the recording.
        let of_calls = outcome.contention.iter().flat_map(|contention| {
            let tables = machine.caches.iter().zip(&contention.of_calls);
            tables.filter(|(table, _)| table.level == 1)
        });
        Ok(all - of_calls.map(|(_, count)| count.accesses).sum::<u64>())
    };
    let runs = |_| (0..RUNS).map(|_| one()).sum::<Fallible<u64>>();
    let threads = usize::from(threads);
    Counted::timed(|| {
        let touches = batch::collect(threads, threads, runs, |_| ControlFlow::Continue(()));
        touches.into_iter().flatten().sum()
    })
}

/// Returns a file in Dinero's extended form with the references of `trace`.
fn write_din(trace: &Trace) -> Fallible<NamedTempFile> {
    let mut file = BufWriter::new(NamedTempFile::new()?);
    let mut reader = trace.reader()?;
    let mut window = Vec::new();
    for task in 0..trace.len() as u32 {
        reader.for_each(task, &mut window, |record| {
            if record.kind != Kind::Compute {
                // The words of a trace are Dinero's.
                let (word, value) = (record.kind.word(), record.value);
                writeln!(file, "{word} {value:x} {:x}", record.size)?;
            }
            Ok::<_, TraceError>(())
        })?;
    }
    Ok(file.into_inner()?)
}

/// A tool of Valgrind's, measured on a loop of this program: the time of many rounds minus that of none.
pub(crate) struct Valgrind {
    tool: &'static str,
    rounds: u64,
}

/// The first argument of a process that a tool of Valgrind's looks at.
pub(crate) const TOIL: &str = "__toil";

/// Reads and writes 64 KB `rounds` times, one word after the other: the work of that process.
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

    /// Returns references and seconds of a process that does `rounds` rounds.
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

/// Returns the number of lines of lackey's log that are accesses.
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

/// Returns the sum of instructions, reads and writes that cachegrind counted.
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
pub(crate) struct Dinero(NamedTempFile);

impl Dinero {
    /// Records the workload of `case` and returns the peer.
    pub(crate) fn open(case: &Case) -> Fallible<Dinero> {
        Ok(Dinero(write_din(&record(case)?.trace)?))
    }
}

impl Program for Dinero {
    fn simulate(&mut self, _params: &str) -> Fallible<Counted> {
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
        command.args(["-informat", "D"]).stdin(self.0.reopen()?);
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
        let case = crate::cases::find("sim").expect("it is registered");
        let recording = record(case).expect("it is recorded");
        let of = |params: &String| {
            let simulated = simulate(&recording, params, "fcfs", 1);
            simulated.expect("it runs").count
        };
        let touches: Vec<u64> = params().iter().map(of).collect();
        assert!(touches[0] > 1_000_000, "{touches:?}");
        assert_eq!(touches, vec![touches[0]; params().len()]);
    }
}
