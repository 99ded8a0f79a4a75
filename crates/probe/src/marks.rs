//! Marks: system calls by which `guest/guest.c`, the Tanada runtime, and programs themselves tell the recorder something.

use tanada_trace::threads::{InstructionSet, Sync};

/// The first argument's upper half.
const MAGIC: u64 = 0x7a01;

/// Recording goes on behind the mark.
const RESUME: u64 = 0x100;

/// The first kind of programs' own marks, up to 0xff.
const OWN: u64 = 0x40;

/// What a mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The library is there: synchronisation is recorded. The first thread has a local variable at this address.
    Hello { stack: u64 },
    /// What follows is left out.
    Pause,
    /// Nothing but that recording may go on.
    Resumed,
    /// This thread is about to create the thread with this number.
    Create(u32),
    /// This thread has created the thread with this number.
    Spawned(u32),
    /// This thread has this number, and a local variable at this address.
    Start { number: u32, stack: u64 },
    /// The thread with this number was joined.
    Join(u32),
    /// A synchronisation whose objects 0 and 1 are those of `names`; `times`: so many of them.
    Sync {
        sync: Sync,
        names: [u64; 2],
        times: u64,
    },
    /// OpenMP tasks run where they run.
    Tasks,
    /// The thread ends.
    Exit,
    /// A piece of a line by which the runtime reports a task, zeros behind its end.
    Text([u8; 24]),
}

/// System calls that the recorder knows, by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Getppid,
    ExitGroup,
    /// `fork`, `vfork`: a new process.
    Fork,
    /// `clone`: a new process, if its flags say so.
    Clone,
    /// `execve`, `execveat`: another program.
    Exec,
    Other,
}

/// Returns which call `number` is.
pub(crate) fn call(set: InstructionSet, number: i64) -> Call {
    // getppid, exit_group, fork, vfork, clone, execve, execveat; -1 if there is none
    let numbers: [i64; 7] = match set {
        InstructionSet::Arm => [64, 248, 2, 190, 120, 11, 387],
        InstructionSet::Aarch64 | InstructionSet::Riscv64 => [173, 94, -1, -1, 220, 221, 281],
        InstructionSet::Mips => [4064, 4246, 4002, -1, 4120, 4011, 4356],
        _ => [110, 231, 57, 58, 56, 59, 322],
    };
    match numbers.iter().position(|&known| known == number) {
        Some(0) => Call::Getppid,
        Some(1) => Call::ExitGroup,
        Some(2 | 3) => Call::Fork,
        Some(4) => Call::Clone,
        Some(5 | 6) => Call::Exec,
        _ => Call::Other,
    }
}

/// Returns whether `clone` with these flags starts a process of its own.
pub(crate) const fn starts_process(flags: u64) -> bool {
    const CLONE_THREAD: u64 = 0x0001_0000;
    flags & CLONE_THREAD == 0
}

/// Returns what the arguments of a call of `getppid` say, and whether recording goes on behind it; `None` if it is no mark.
pub(crate) fn read(set: InstructionSet, arguments: [u64; 4]) -> Option<(Mark, bool)> {
    // Arguments of 32 bits come with their sign.
    let word = match set {
        InstructionSet::Arm | InstructionSet::Mips => u64::from(u32::MAX),
        _ => u64::MAX,
    };
    let [first, a, b, c] = arguments.map(|argument| argument & word);
    if first >> 16 != MAGIC {
        return None;
    }
    let resume = first & RESUME != 0;
    let team = 1 << 63 | (a & 0x7fff_ffff) << 32 | (b & 0xffff_ffff);
    let one = |sync| sync_of(sync, [a, b], 1);
    let mark = match first & 0xff {
        1 => Mark::Hello { stack: a },
        2 => Mark::Pause,
        3 => Mark::Resumed,
        4 => Mark::Create(a as u32),
        5 => Mark::Start {
            number: a as u32,
            stack: b,
        },
        6 => Mark::Join(a as u32),
        7 => one(Sync::Lock(0)),
        8 => one(Sync::Share(0)),
        9 => one(Sync::Unlock(0)),
        10 => one(Sync::Barrier {
            object: 0,
            parties: b as u32,
        }),
        11 => one(Sync::Wait {
            condition: 0,
            lock: 1,
            signals: None,
        }),
        12 => one(Sync::Signal(0)),
        13 => one(Sync::Broadcast(0)),
        14 => sync_of(Sync::Post(0), [a, 0], b.min(1 << 16)),
        15 => one(Sync::Take(0)),
        16 => {
            let threads = c as u32;
            sync_of(Sync::RegionBegin { id: 0, threads }, [team, 0], 1)
        }
        17 => one(Sync::RegionEnd),
        18 => one(Sync::LoopBegin(0)),
        19 => one(Sync::Iteration { first: a, count: b }),
        20 => one(Sync::LoopEnd),
        21 => Mark::Exit,
        22 => {
            let parties = c as u32;
            sync_of(Sync::Barrier { object: 0, parties }, [team, 0], 1)
        }
        23 => Mark::Tasks,
        24 => Mark::Spawned(a as u32),
        0x30 => return Some((Mark::Text(text(set, [a, b, c])), true)),
        kind if kind >= OWN => {
            let kind = (kind - OWN) as u32;
            return Some((sync_of(Sync::Mark { kind, a, b }, [0; 2], 1), true));
        }
        _ => return None,
    };
    Some((mark, resume))
}

/// Returns the text in these words, whose size is that of the program.
fn text(set: InstructionSet, words: [u64; 3]) -> [u8; 24] {
    let size = match set {
        InstructionSet::Arm | InstructionSet::Mips => 4,
        _ => 8,
    };
    let mut text = [0; 24];
    for (place, word) in text.chunks_mut(size).zip(words) {
        place.copy_from_slice(&word.to_le_bytes()[..size]);
    }
    text
}

const fn sync_of(sync: Sync, names: [u64; 2], times: u64) -> Mark {
    Mark::Sync { sync, names, times }
}
