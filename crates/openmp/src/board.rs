//! The board: a file of fixed size, mapped into the program's memory, on which the library writes what it decides and measures.
//!
//! It is memory, so what was written is there however the program ends, and writing costs no system call. Every field is a word of 64 bits
//! in the machine's order. This file is compiled twice: into the library, which writes, and into the command, which reads.

/// The first word: `tanadaOM`.
pub const MAGIC: u64 = u64::from_be_bytes(*b"tanadaOM");
/// The second word.
pub const VERSION: u64 = 1;

/// Words of the head; see [`head`].
pub const HEAD: usize = 64;
/// Words of the head's fields.
pub mod head {
    /// [`super::MAGIC`], once all other fields of the head are valid.
    pub const MAGIC: usize = 0;
    /// [`super::VERSION`].
    pub const VERSION: usize = 1;
    /// The number of the program's process.
    pub const PROCESS: usize = 2;
    /// Cores that the program may use.
    pub const CORES: usize = 3;
    /// Hardware threads of each.
    pub const THREADS_PER_CORE: usize = 4;
    /// Hardware threads' worth of time that a quota leaves, the bits of an `f64`; infinite without one.
    pub const QUOTA: usize = 5;
    /// The runtime: see [`super::RUNTIMES`].
    pub const RUNTIME: usize = 6;
    /// Regions that have a record.
    pub const REGIONS: usize = 7;
    /// Events of the time line.
    pub const EVENTS: usize = 8;
    /// Events that found no room.
    pub const EVENTS_LOST: usize = 9;
    /// Modules that have a name.
    pub const MODULES: usize = 10;
    /// The end of the last region, in nanoseconds from the library's start.
    pub const LAST: usize = 11;
    /// Nanoseconds from the library's start to its end; 0 if that was not seen.
    pub const END: usize = 12;
    /// Invocations that were left alone because the region was nested, or another one was governed.
    pub const PASSED: usize = 13;
    /// Why everything is left alone: see [`super::ALONE`].
    pub const ALONE: usize = 14;
    /// Nanoseconds that the looks at the neighbours took.
    pub const LOOKING: usize = 15;
    /// Looks at the neighbours.
    pub const LOOKS: usize = 16;
    /// The greatest number of hardware threads that neighbours kept busy, the bits of an `f64`.
    pub const NEIGHBOURS: usize = 17;
    /// Forks of the program.
    pub const FORKS: usize = 18;
    /// Changes of how threads wait.
    pub const WAITS: usize = 19;
    /// Regions beyond the greatest number, which are left alone.
    pub const UNNAMED: usize = 20;
    /// The library is in the program: written before anything else.
    pub const LOADED: usize = 21;
    /// What went wrong, as text, in this many words.
    pub const TROUBLE: std::ops::Range<usize> = 32..64;
}

/// The runtimes of [`head::RUNTIME`].
pub const RUNTIMES: [&str; 3] = ["none", "libgomp", "libomp"];

/// The reasons of [`head::ALONE`].
pub const ALONE: [&str; 4] = [
    "",
    "the program uses teams or target constructs",
    "one hardware thread is all that there is",
    "the program has data of threads (threadprivate)",
];

/// Words of a module's name: the path of a file, ended by a zero byte.
pub const MODULE: usize = 64;
/// Most modules.
pub const MODULES: usize = 64;

/// Words of a region's record; see [`region`].
pub const REGION: usize = 64;
/// Most regions.
pub const REGIONS: usize = 512;
/// Words of a region's fields.
pub mod region {
    /// The module of its code.
    pub const MODULE: usize = 0;
    /// The offset of its code in the module.
    pub const OFFSET: usize = 1;
    /// How often it ran.
    pub const INVOCATIONS: usize = 2;
    /// Nanoseconds of these invocations.
    pub const TIME: usize = 3;
    /// Threads that the program asked for at the last invocation.
    pub const ASKED: usize = 4;
    /// Threads of the last invocation.
    pub const THREADS: usize = 5;
    /// How they wait: see [`super::waiting`].
    pub const WAITING: usize = 6;
    /// Why its team stays as it is: see [`super::KEPT`].
    pub const KEPT: usize = 7;
    /// How sure the governor is, the bits of an `f64`.
    pub const CONFIDENCE: usize = 8;
    /// Iterations of its largest loop, if they are known, plus 1.
    pub const ITERATIONS: usize = 9;
    /// How often its team changed.
    pub const CHANGES: usize = 10;
    /// Its first invocation, in nanoseconds from the library's start.
    pub const FIRST: usize = 11;
    /// Measurements by the number of threads: see [`super::size`].
    pub const SIZES: usize = 12;
    /// The governor's reason, as text.
    pub const WHY: std::ops::Range<usize> = 44..64;
}

/// Numbers of threads that are told apart in a region.
pub const SIZES: usize = 8;
/// Words of a measurement.
pub mod size {
    /// Number of threads; 0: the record is free.
    pub const THREADS: usize = 0;
    /// Invocations.
    pub const COUNT: usize = 1;
    /// Nanoseconds of all of them.
    pub const SUM: usize = 2;
    /// Nanoseconds of the shortest one.
    pub const LEAST: usize = 3;
    /// Words of a measurement.
    pub const WORDS: usize = 4;
}

/// The reasons of [`region::KEPT`].
pub const KEPT: [&str; 7] = [
    "",
    "its code asks for its thread's number or the team's size",
    "its sections may wait for each other",
    "it contains parallel regions",
    "its module has data of threads (threadprivate)",
    "the governor only observes",
    "it asks for its team's size, and another region shares out work by a size from elsewhere",
];

/// Words of an event; see [`event`].
pub const EVENT: usize = 8;
/// Most events.
pub const EVENTS: usize = 16_384;
/// Words of an event: invocations of a region with one team, from a first to a last one.
pub mod event {
    /// The region's number.
    pub const REGION: usize = 0;
    /// Threads.
    pub const THREADS: usize = 1;
    /// How they wait: see [`super::waiting`].
    pub const WAITING: usize = 2;
    /// Start of the first one, in nanoseconds from the library's start.
    pub const START: usize = 3;
    /// End of the last one.
    pub const END: usize = 4;
    /// Invocations.
    pub const COUNT: usize = 5;
    /// Nanoseconds of all of them.
    pub const SUM: usize = 6;
    /// Hardware threads that neighbours kept busy, the bits of an `f64`; negative: unknown.
    pub const NEIGHBOURS: usize = 7;
}

/// How waiting is written in a word: the kind, and a time above it.
pub mod waiting {
    /// The kinds; a word is one of these plus 4 times the nanoseconds.
    pub const KINDS: [&str; 4] = ["as is", "spin", "delay", "sleep"];
}

/// The first word of the modules.
pub const AT_MODULES: usize = HEAD;
/// The first word of the regions.
pub const AT_REGIONS: usize = AT_MODULES + MODULE * MODULES;
/// The first word of the events.
pub const AT_EVENTS: usize = AT_REGIONS + REGION * REGIONS;
/// Words of the board.
pub const WORDS: usize = AT_EVENTS + EVENT * EVENTS;
