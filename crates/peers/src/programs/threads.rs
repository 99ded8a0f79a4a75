//! The simulator of thread traces, and the rates that others have published of their simulators.

use super::{Counted, Program};
use crate::Fallible;
use rustix::time::{ClockId, clock_gettime};
use tanada_sim::tanada_trace::TraceError;
use tanada_sim::tanada_trace::threads::{Event, InstructionSet, Sync, ThreadTrace, ThreadWriter};
use tanada_sim::{Machine, ThreadOptions, machines, simulate_threads};

/// Logical threads of the trace.
const LOGICAL: u64 = 16;
/// Barriers of the trace.
const ROUNDS: u64 = 16;
/// Rows and columns of a block of a matrix, as in paper 2's LU.
const SIDE: u64 = 16;

/// Hardware threads of the core.
const HARDWARE: [u64; 2] = [1, 8];

fn params_of(hardware: u64) -> String {
    format!("threads={hardware}")
}

/// Returns all values of `params`. What others published is of cores with one hardware thread, so it stands beside the first.
pub(crate) fn params() -> Vec<String> {
    HARDWARE.map(params_of).into()
}

/// Writes what threads do that update blocks of a matrix, each its own, by a block that all read, and meet after each.
fn made_up() -> Result<ThreadTrace, TraceError> {
    let mut writer = ThreadWriter::new(Vec::new(), "blocks", InstructionSet::X86_64)?;
    let stack = |thread: u64| 0x7fff_0000 - (thread << 23);
    for thread in 0..LOGICAL {
        writer.thread((thread > 0).then_some(0), Some(stack(thread)))?;
        if thread == 0 {
            for other in 1..LOGICAL as u32 {
                writer.event(Event::Sync(Sync::Create(other)))?;
            }
        }
        for round in 0..ROUNDS {
            update(&mut writer, thread, round, stack(thread))?;
            writer.event(Event::Sync(Sync::Barrier {
                object: 0,
                parties: LOGICAL as u32,
            }))?;
        }
        writer.event(Event::Sync(Sync::Exit))?;
    }
    ThreadTrace::from_bytes(writer.finish()?, "blocks.tnb")
}

/// Writes the update of one block: row after row, a multiple of a row of the other block is subtracted.
fn update(
    writer: &mut ThreadWriter<Vec<u8>>,
    thread: u64,
    round: u64,
    stack: u64,
) -> Result<(), TraceError> {
    let element = |block: u64, row: u64, column: u64| {
        let place = (block * SIDE + row) * SIDE + column;
        0x1000_0000 + place * 8
    };
    let access = |after, address, store| Event::Access {
        after,
        address,
        bytes: 8,
        store,
    };
    for row in 0..SIDE {
        for from in 0..SIDE {
            // The call of the loop: the factor is read, and the arguments lie on the stack.
            writer.event(Event::Block {
                address: 0x40_1000,
                bytes: 24,
                instructions: 6,
            })?;
            writer.event(access(2, element(thread, row, from), false))?;
            writer.event(access(2, stack - 64, true))?;
            writer.event(Event::Instructions(2))?;
            for column in 0..SIDE {
                writer.event(Event::Block {
                    address: 0x40_1040,
                    bytes: 28,
                    instructions: 7,
                })?;
                writer.event(access(2, element(LOGICAL + round, from, column), false))?;
                writer.event(access(1, element(thread, row, column), false))?;
                writer.event(access(2, element(thread, row, column), true))?;
                writer.event(Event::Instructions(2))?;
            }
        }
    }
    Ok(())
}

/// Tanada's simulator on a trace that this program writes, encoded as a recording is.
pub(crate) struct Threads(ThreadTrace);

impl Threads {
    pub(crate) fn open() -> Fallible<Threads> {
        Ok(Threads(made_up()?))
    }
}

/// Returns the core of paper 2 with the hardware threads that `params` name.
fn machine(params: &str) -> Fallible<Machine> {
    let mut all = HARDWARE.into_iter();
    let hardware = all.find(|&hardware| params_of(hardware) == params);
    let hardware = hardware.ok_or("no such number of hardware threads")?;
    let set = format!("smt.threads_per_core={hardware}");
    Ok(machines::find("tuat")?.overridden(&[set])?)
}

impl Program for Threads {
    /// Counts instructions, in CPU time of this thread: a simulation runs on one, and other programs do not count.
    fn simulate(&mut self, params: &str) -> Fallible<Counted> {
        let machine = machine(params)?;
        let now = || {
            let time = clock_gettime(ClockId::ThreadCPUTime);
            time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
        };
        let begin = now();
        let outcome = simulate_threads(&self.0, &machine, "fifo", &ThreadOptions::default())?;
        let seconds = now() - begin;
        Ok(Counted {
            count: outcome.instructions,
            seconds,
        })
    }
}

/// A rate that a publication states: nothing is measured.
pub(crate) struct Published {
    /// Instructions that are simulated in so many seconds on so many host cores.
    pub(crate) instructions: u64,
    pub(crate) seconds: u64,
    pub(crate) cores: u64,
}

impl Program for Published {
    fn simulate(&mut self, _params: &str) -> Fallible<Counted> {
        Ok(Counted {
            count: self.instructions,
            seconds: (self.seconds * self.cores) as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_hardware_threads_executes_the_whole_trace() {
        let mut threads = Threads::open().expect("it is written");
        let each = SIDE * SIDE * (6 + 7 * SIDE);
        for params in params() {
            let counted = threads.simulate(&params).expect("it runs");
            assert_eq!(counted.count, each * LOGICAL * ROUNDS, "{params}");
            assert!(counted.seconds > 0.0);
        }
    }
}
