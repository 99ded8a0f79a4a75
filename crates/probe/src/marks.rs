//! Marks: system calls by which `guest/guest.c`, the Tanada runtime, and programs themselves tell the recorder something.

use tanada_trace::threads::{InstructionSet, Sync};

/// The numbers of marks, as the library has them.
const HEADER: &[u8] = include_bytes!("../guest/marks.h");

/// Returns the number that `name` has in [`HEADER`], where it stands as ` NAME = 12` or ` NAME = 0x12`. Evaluated by the compiler, which
/// fails if there is none.
const fn number(name: &str) -> u64 {
    let name = name.as_bytes();
    let mut at = 1;
    loop {
        let mut same = 0;
        while same < name.len() && HEADER[at + same] == name[same] {
            same += 1;
        }
        let after = at + same;
        if same == name.len()
            && HEADER[at - 1] == b' '
            && HEADER[after] == b' '
            && HEADER[after + 1] == b'='
        {
            return digits(after + 3);
        }
        at += 1;
    }
}

/// Returns the number at this place of [`HEADER`].
const fn digits(mut at: usize) -> u64 {
    let mut base = 10;
    if HEADER[at + 1] == b'x' {
        (at, base) = (at + 2, 16);
    }
    let mut sum = 0;
    while let Some(digit) = (HEADER[at] as char).to_digit(base) {
        sum = sum * base as u64 + digit as u64;
        at += 1;
    }
    sum
}

/// Declares the kinds whose numbers [`HEADER`] has under the same names.
macro_rules! kinds {
    ($($name:ident)*) => { $(const $name: u64 = number(stringify!($name));)* };
}

kinds! {
    MAGIC RESUME HELLO PAUSE RESUMED CREATE START JOIN LOCK SHARE UNLOCK BARRIER WAIT SIGNAL BROADCAST POST TAKE REGION REGION_END
    LOOP ITERATION LOOP_END EXIT TEAM_BARRIER TASKS SPAWNED TEXT OWN
}

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
    if first >> 16 != MAGIC >> 16 {
        return None;
    }
    let resume = first & RESUME != 0;
    let team = 1 << 63 | (a & 0x7fff_ffff) << 32 | (b & 0xffff_ffff);
    let one = |sync| sync_of(sync, [a, b], 1);
    let mark = match first & 0xff {
        HELLO => Mark::Hello { stack: a },
        PAUSE => Mark::Pause,
        RESUMED => Mark::Resumed,
        CREATE => Mark::Create(a as u32),
        START => Mark::Start {
            number: a as u32,
            stack: b,
        },
        JOIN => Mark::Join(a as u32),
        LOCK => one(Sync::Lock(0)),
        SHARE => one(Sync::Share(0)),
        UNLOCK => one(Sync::Unlock(0)),
        BARRIER => one(Sync::Barrier {
            object: 0,
            parties: b as u32,
        }),
        WAIT => one(Sync::Wait {
            condition: 0,
            lock: 1,
            signals: None,
        }),
        SIGNAL => one(Sync::Signal(0)),
        BROADCAST => one(Sync::Broadcast(0)),
        POST => sync_of(Sync::Post(0), [a, 0], b.min(1 << 16)),
        TAKE => one(Sync::Take(0)),
        REGION => {
            let threads = c as u32;
            sync_of(Sync::RegionBegin { id: 0, threads }, [team, 0], 1)
        }
        REGION_END => one(Sync::RegionEnd),
        LOOP => one(Sync::LoopBegin(0)),
        ITERATION => one(Sync::Iteration { first: a, count: b }),
        LOOP_END => one(Sync::LoopEnd),
        EXIT => Mark::Exit,
        TEAM_BARRIER => {
            let parties = c as u32;
            sync_of(Sync::Barrier { object: 0, parties }, [team, 0], 1)
        }
        TASKS => Mark::Tasks,
        SPAWNED => Mark::Spawned(a as u32),
        TEXT => return Some((Mark::Text(text(set, [a, b, c])), true)),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The first argument of the mark that `text` names in a line with `name`.
    fn first_argument(text: &str, name: &str) -> u64 {
        let line = text
            .lines()
            .find(|line| line.contains(name) && line.replace('_', "").contains("0x7a01"));
        let line = line.unwrap_or_else(|| panic!("no {name}")).replace('_', "");
        let (_, number) = line.split_once("0x").expect("a number");
        let digits: String = number.chars().take_while(char::is_ascii_hexdigit).collect();
        u64::from_str_radix(&digits, 16).expect("a number")
    }

    #[test]
    fn those_who_make_marks_agree_on_their_numbers() {
        assert_eq!((MAGIC, RESUME, HELLO, SPAWNED), (0x7a01_0000, 0x100, 1, 24));
        let runtime = include_str!("../../runtime/src/marks/call.rs");
        assert_eq!(first_argument(runtime, "TEXT"), MAGIC + TEXT);
        for (text, name) in [
            (include_str!("../../workloads/src/kernels.rs"), "MARK"),
            (
                include_str!("../../workloads/kernels/kernel.h"),
                "KERNEL_MARK",
            ),
            (
                include_str!("../../workloads/kernels/openmp/region.h"),
                "REGION_MARK",
            ),
            (include_str!("../../../docs/recording.md"), "SYS_getppid"),
        ] {
            assert_eq!(first_argument(text, name), MAGIC + OWN, "{name}");
        }
    }
}
