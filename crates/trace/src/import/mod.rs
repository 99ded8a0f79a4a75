//! Traces of other tools: Valgrind's lackey, with or without marks of tasks, and Dinero.
//!
//! Both read a text line by line in constant memory (but for the graph, where there are marks, and a table of pages, where pages are
//! renumbered) and write into a [`Sink`](crate::Sink). Some 30 million lines a second. An access has at most 2^20 bytes.

mod dinero;
mod emit;
mod lackey;
mod lines;
mod marks;
#[cfg(test)]
mod tests;

pub use dinero::dinero;
pub use lackey::lackey;

/// Bytes of a page that [`Options::renumber`] renumbers.
pub const PAGE: u64 = 4096;

/// How instructions become fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetches {
    /// One `i` an instruction, as it stands in the trace.
    Each,
    /// As a core that fetches aligned blocks of so many bytes (a power of two): one `i` whenever an instruction lies in another block than
    /// the one before it ended in. Misses of a cache whose lines are at least as long are the same as with [`Fetches::Each`], because only
    /// touches of the line that was touched last are left out.
    Blocks(u32),
    /// No `i` at all.
    None,
}

/// How a foreign trace is read.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Each instruction counts as so much computation (`x`).
    pub cycles_per_instruction: u64,
    /// How instructions become fetches.
    pub fetches: Fetches,
    /// Number pages of [`PAGE`] bytes in the order in which they are first touched, so that the trace does not depend on where the
    /// system put what. An access over the border of two pages becomes two records.
    pub renumber: bool,
    /// Take tasks from marks and drop what belongs to none; else everything is one task.
    pub marks: bool,
}

impl Default for Options {
    /// One cycle an instruction, fetches of 32 bytes, addresses as they stand there, one task.
    fn default() -> Self {
        Options {
            cycles_per_instruction: 1,
            fetches: Fetches::Blocks(32),
            renumber: false,
            marks: false,
        }
    }
}

/// What was imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Tasks, with those that have no records and only order others.
    pub tasks: u64,
    /// Dependencies.
    pub dependencies: u64,
    /// Records.
    pub records: u64,
    /// Instructions of tasks.
    pub instructions: u64,
    /// Reads of tasks, as references: however many lines or pages each lies in.
    pub reads: u64,
    /// Writes of tasks.
    pub writes: u64,
    /// Instructions that belong to no task, which were dropped.
    pub dropped_instructions: u64,
    /// Reads and writes that belong to no task, which were dropped.
    pub dropped_accesses: u64,
    /// Pages that tasks touched, where they are renumbered.
    pub pages: u64,
    /// Whether there were marks.
    pub marked: bool,
}
