//! Traces made of other records of a program: the memory traces of Valgrind's lackey and of Dinero, and what the recorder saw of a program
//! on the runtime, or with tasks of OpenMP, with its marks of tasks.
//!
//! The first two read a text line by line, at some 30 million lines a second. All write into a [`Sink`](crate::Sink). Memory is constant,
//! except for the task graph if there are marks and for the page table if pages are renumbered. An access has at most 2^20 bytes.

mod about;
mod dinero;
mod emit;
mod lackey;
mod lines;
mod marks;
mod openmp;
mod tasks;
#[cfg(test)]
mod tests;
mod words;

pub use dinero::dinero;
pub use lackey::lackey;
pub use openmp::NameOf;
pub use tasks::{TASK_MARK, openmp_tasks, tasks};

/// Bytes of a page for [`Options::renumber`].
pub const PAGE: u64 = 4096;

/// How instructions become fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetches {
    /// One `i` for each instruction, as in the foreign trace.
    Each,
    /// One `i` for each aligned block of this many bytes (a power of two) that the processor fetches: an instruction in the block in which
    /// the instruction before it ended needs no new fetch. The misses of a cache whose lines are at least as long are the same as with
    /// [`Fetches::Each`], because only repeated touches of the last line are left out.
    Blocks(u32),
    /// No `i` at all.
    None,
}

/// How instructions and accesses become records.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Cycles of computation (`x`) for each instruction.
    pub cycles_per_instruction: u64,
    /// How instructions become fetches.
    pub fetches: Fetches,
    /// Whether to number pages of [`PAGE`] bytes in the order of their first touch, so that the trace does not depend on the addresses that
    /// the system chose. An access across a page border becomes two records.
    pub renumber: bool,
}

impl Default for Options {
    /// Returns the defaults: one cycle an instruction, fetches of 32 bytes, original addresses.
    fn default() -> Self {
        Options {
            cycles_per_instruction: 1,
            fetches: Fetches::Blocks(32),
            renumber: false,
        }
    }
}

/// Counts of what was imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Tasks, including those without records that only order others.
    pub tasks: u64,
    /// Dependencies.
    pub dependencies: u64,
    /// Records.
    pub records: u64,
    /// Instructions of tasks.
    pub instructions: u64,
    /// Reads of tasks. A read counts once, even if it touches several lines or pages.
    pub reads: u64,
    /// Writes of tasks.
    pub writes: u64,
    /// Dropped instructions: those outside of tasks.
    pub dropped_instructions: u64,
    /// Dropped reads and writes: those outside of tasks.
    pub dropped_accesses: u64,
    /// Pages that tasks touched; 0 unless pages are renumbered.
    pub pages: u64,
    /// Whether there were marks of tasks.
    pub marked: bool,
}
