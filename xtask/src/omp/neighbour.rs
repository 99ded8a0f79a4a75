//! What disturbs the programs that are measured: processes that keep a processor, or the memory, busy.

use std::hint::black_box;
use std::io::Read;
use std::process::{Child, Command, Stdio};

use clap::{Args, ValueEnum};
use rustix::thread::{CpuSet, sched_setaffinity};

/// What a neighbour does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Counts.
    Busy,
    /// Writes and reads more memory than any cache has.
    Stream,
}

/// How `cargo xtask omp-neighbour` is called: by `omp-table`.
#[derive(Args)]
pub(crate) struct Options {
    kind: Kind,
    /// The processor that it stays on
    #[arg(long)]
    cpu: Option<usize>,
}

/// Runs until standard input ends, which it does when the process that started it is gone.
pub(crate) fn run(options: &Options) -> bool {
    if let Some(cpu) = options.cpu {
        let mut set = CpuSet::new();
        set.set(cpu);
        if let Err(error) = sched_setaffinity(None, &set) {
            eprintln!("omp-neighbour: processor {cpu}: {error}");
            return false;
        }
    }
    let kind = options.kind;
    std::thread::spawn(move || match kind {
        Kind::Busy => {
            for i in 0_u64.. {
                black_box(i);
            }
        }
        Kind::Stream => {
            const WORDS: usize = 16 << 20;
            let (mut a, mut b) = (vec![1_u64; WORDS], vec![2_u64; WORDS]);
            loop {
                for (a, b) in a.iter_mut().zip(&b) {
                    *a = a.wrapping_add(*b);
                }
                black_box(&mut a);
                std::mem::swap(&mut a, &mut b);
            }
        }
    });
    let mut end = Vec::new();
    _ = std::io::stdin().read_to_end(&mut end);
    true
}

/// A running neighbour, which ends with this value.
pub(crate) struct Neighbour(Child);

impl Neighbour {
    /// Starts one.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(kind: Kind, cpu: Option<usize>) -> Result<Neighbour, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        let kind = kind
            .to_possible_value()
            .map_or(String::new(), |value| value.get_name().to_owned());
        command.args(["omp-neighbour", &kind]);
        if let Some(cpu) = cpu {
            command.args(["--cpu", &cpu.to_string()]);
        }
        let child = command.stdin(Stdio::piped()).spawn();
        child
            .map(Neighbour)
            .map_err(|error| format!("a neighbour: {error}"))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}
