//! What a thread trace consists of.

/// One event of a logical thread. Its place in the thread's stream is its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A piece of straight code begins: what the recorder's emulator translated at once. One instruction fetch of `bytes` bytes.
    Block {
        /// Address of the first instruction.
        address: u64,
        /// Bytes of code; 0 if the code's place is not known.
        bytes: u32,
        /// Instructions, 1 to [`MOST_INSTRUCTIONS`](super::MOST_INSTRUCTIONS).
        instructions: u32,
    },
    /// A load or a store.
    Access {
        /// Instructions of the block since the last event of the block, this one included. 0 if the instruction accessed memory before.
        after: u32,
        /// Address of the first byte.
        address: u64,
        /// Bytes, 1 to 255.
        bytes: u8,
        /// Whether memory is written.
        store: bool,
    },
    /// Instructions of the block without an access.
    Instructions(u32),
    /// A thread synchronises, or says where it is.
    Sync(Sync),
}

/// How a thread synchronises with other threads. Threads and objects are numbers from 0 on: threads in the order of creation, objects in
/// the order of their first use by a thread in the order of creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Starts a thread. The started thread's stream begins no earlier.
    Create(u32),
    /// Waits for the end of a thread.
    Join(u32),
    /// Takes a mutex, or the write side of a read-write lock.
    Lock(u32),
    /// Takes the read side of a read-write lock, which several threads can hold.
    Share(u32),
    /// Releases a mutex or either side of a read-write lock.
    Unlock(u32),
    /// Waits until `parties` threads are at the barrier. The barrier can be used again.
    Barrier {
        /// The barrier.
        object: u32,
        /// Threads that meet there.
        parties: u32,
    },
    /// Releases `lock`, waits for a signal of `condition`, and takes `lock` again. It was recorded when the wait had ended.
    Wait {
        /// The condition variable.
        condition: u32,
        /// The mutex.
        lock: u32,
        /// Signals and broadcasts of the condition that the recording holds from before the wait's end; `None` if they were not counted.
        /// A count that is too large for the type is its greatest value.
        signals: Option<u32>,
    },
    /// Wakes one thread that waits for the condition, if there is one.
    Signal(u32),
    /// Wakes all threads that wait for the condition.
    Broadcast(u32),
    /// Adds one to a semaphore, which begins at 0 if its first value was not recorded as posts.
    Post(u32),
    /// Waits until a semaphore is above 0 and subtracts one.
    Take(u32),
    /// A parallel region begins in this thread, one member of a team of `threads`. The first event of that region in the stream of the
    /// thread that opened it comes first; other members wait for it.
    RegionBegin {
        /// The team, as an object.
        id: u32,
        /// Members of the team.
        threads: u32,
    },
    /// The innermost region of this thread ends. Its members wait here for each other.
    RegionEnd,
    /// A loop whose iterations are shared out among the team begins.
    LoopBegin(u32),
    /// This thread begins iterations of the innermost loop.
    Iteration {
        /// The first iteration, as the program counts.
        first: u64,
        /// How many the thread took at once.
        count: u64,
    },
    /// The innermost loop of this thread ends. It is no barrier.
    LoopEnd,
    /// The program marks a place.
    Mark {
        /// The kind, as the program chose it.
        kind: u32,
        /// The first argument.
        a: u64,
        /// The second argument.
        b: u64,
    },
    /// The thread ends.
    Exit,
}

/// The processor architecture whose instructions were recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InstructionSet {
    /// x86, 64 bits.
    X86_64,
    /// ARM, 32 bits, also Thumb.
    Arm,
    /// ARM, 64 bits.
    Aarch64,
    /// MIPS, 32 bits, either byte order.
    Mips,
    /// RISC-V, 64 bits.
    Riscv64,
}

impl InstructionSet {
    /// All, in the order of their numbers in the binary form.
    pub const ALL: [Self; 5] = [
        Self::X86_64,
        Self::Arm,
        Self::Aarch64,
        Self::Mips,
        Self::Riscv64,
    ];

    /// Returns the name, as text traces and commands write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86-64",
            Self::Arm => "arm",
            Self::Aarch64 => "aarch64",
            Self::Mips => "mips",
            Self::Riscv64 => "riscv64",
        }
    }

    /// Returns the instruction set with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|set| set.name() == name)
    }
}

/// What a thread did in total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Instructions executed.
    pub instructions: u64,
    /// Reads of memory.
    pub loads: u64,
    /// Writes of memory.
    pub stores: u64,
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.instructions += other.instructions;
        self.loads += other.loads;
        self.stores += other.stores;
    }
}

/// A logical thread of a [`ThreadTrace`](super::ThreadTrace). Its index is its creation number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// The thread that created this one; `None` for the first.
    pub parent: Option<u32>,
    /// An address in the thread's stack near where its first function began, if known.
    pub stack: Option<u64>,
    /// Sums over the thread's stream.
    pub totals: Totals,
}
