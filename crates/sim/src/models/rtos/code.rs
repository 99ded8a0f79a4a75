//! The code that simulated cores execute: pieces of a recording of `crates/sim/rtos`, an ARM926EJ-S program.

use std::sync::OnceLock;
use tanada_trace::TraceError;
use tanada_trace::threads::{Event, Sync, ThreadTrace};

/// The recording that is part of the program; `rtos/make.sh` makes it anew.
static RECORDED: &[u8] = include_bytes!("../../../rtos/code.tnb");

/// The pieces, in the order of `rtos/record.c`.
pub const PIECES: [&str; 65] = [
    "act_tsk wakes",
    "act_tsk counts",
    "iact_tsk wakes",
    "iact_tsk counts",
    "ext_tsk",
    "slp_tsk waits",
    "slp_tsk goes on",
    "wup_tsk wakes",
    "wup_tsk counts",
    "iwup_tsk wakes",
    "iwup_tsk counts",
    "dis_dsp",
    "ena_dsp dispatches",
    "ena_dsp",
    "set_flg wakes",
    "set_flg",
    "iset_flg wakes",
    "iset_flg",
    "wai_flg waits",
    "wai_flg goes on",
    "snd_dtq wakes",
    "snd_dtq stores",
    "snd_dtq waits",
    "ipsnd_dtq wakes",
    "ipsnd_dtq stores",
    "ipsnd_dtq is full",
    "rcv_dtq takes",
    "rcv_dtq wakes",
    "rcv_dtq waits",
    "snd_mbx wakes",
    "snd_mbx stores",
    "isnd_mbx wakes",
    "isnd_mbx stores",
    "rcv_mbx takes",
    "rcv_mbx waits",
    "prcv_mbx takes",
    "prcv_mbx is empty",
    "pget_mpf takes",
    "pget_mpf is empty",
    "rel_mpf",
    "isig_tim",
    "dispatch",
    "dispatch begins",
    "interrupt enters",
    "interrupt leaves",
    "interrupt enters before a dispatch",
    "interrupt dispatches",
    "interrupt enters nested",
    "interrupt leaves nested",
    "pe_notify_handler",
    "br_ccpu_handler",
    "timer_handler",
    "take_entry",
    "take_entry is empty",
    "copy_frame",
    "free_entry",
    "make_message of a frame",
    "parse_pdcp",
    "decompress",
    "classify",
    "copy_payload",
    "make_message of a datagram",
    "put_out",
    "put_entry",
    "ring_other",
];

/// Kinds of marks, as in `rtos/record.c`.
const BEGIN: u32 = 0;
const END: u32 = 1;
const DISPATCH: u32 = 2;
const ROLE: u32 = 3;
const SPLIT: u32 = 4;
const PLACE: u32 = 5;

/// Code from here on only brings the kernel into a state.
const HARNESS: u64 = 0x2_0000;
/// Devices, and the memory that cores share, lie from here on.
const DEVICES: u64 = 0x5_0000;
const SHARED: u64 = 0x6_0000;
const SHARED_END: u64 = 0x7_0000;
/// Stacks of the emulator lie from here on.
const STACKS: u64 = 0x4000_0000;

/// Places of roles: 0 is the stack of who executes the piece.
pub const ROLES: usize = 6;
/// The role of an address that does not move.
pub const FIXED: u8 = 15;

/// What lies where in memory; the numbers are those of `rtos/record.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A task's control block.
    Task = 0,
    /// A mailbox.
    Mailbox = 1,
    /// Event flags.
    Flag = 2,
    /// A data queue.
    DataQueue = 3,
    /// A memory pool.
    Pool = 4,
    /// What layer 2 knows of a bearer.
    Bearer = 5,
    /// A block of a pool.
    Block = 6,
    /// A stack.
    Stack = 7,
    /// A frame in shared memory.
    Frame = 8,
    /// An entry of the ring in shared memory.
    Entry = 9,
}

/// Places that are known.
const PLACES: usize = 12;

/// A step of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Instructions from `address` on are fetched.
    Fetch {
        /// The first.
        address: u64,
        /// Bytes of them.
        bytes: u32,
        /// Whether a branch led there.
        branched: bool,
    },
    /// So many instructions are executed.
    Execute(u32),
    /// Memory is accessed.
    Access {
        /// What lies there: 0 to 5, or [`FIXED`].
        role: u8,
        /// Bytes behind the role's place; of [`FIXED`]: the address.
        offset: i64,
        /// Bytes.
        bytes: u8,
        /// Whether memory is written.
        store: bool,
    },
}

/// A piece of code: its steps before and behind the place at which another task may run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// The steps before it.
    pub before: Vec<Step>,
    /// The steps behind it.
    pub behind: Vec<Step>,
}

impl Piece {
    /// Returns the instructions of all steps.
    pub fn instructions(&self) -> u64 {
        let each = self.before.iter().chain(&self.behind);
        each.map(|step| match step {
            Step::Execute(count) => u64::from(*count),
            _ => 0,
        })
        .sum()
    }
}

/// All pieces, and where things lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The pieces by number; [`PIECES`] has their names.
    pub pieces: Vec<Piece>,
    places: [(u64, u64); PLACES],
}

impl Code {
    /// Returns the code that is part of the program.
    pub fn shipped() -> &'static Code {
        static CODE: OnceLock<Code> = OnceLock::new();
        CODE.get_or_init(|| {
            let trace = ThreadTrace::from_bytes(RECORDED.to_vec(), "code.tnb");
            let code = trace.and_then(|trace| Code::of(&trace));
            code.expect("the shipped recording is sound")
        })
    }

    /// Returns the pieces of a recording of `rtos/record.c`.
    ///
    /// # Errors
    /// If it cannot be read.
    ///
    /// # Panics
    /// If it has other pieces than [`PIECES`].
    pub fn of(trace: &ThreadTrace) -> Result<Code, TraceError> {
        let (mut reader, mut events) = (trace.reader(0)?, Vec::new());
        let mut reading = Reading::default();
        loop {
            reader.fill(&mut events)?;
            if events.is_empty() {
                break;
            }
            for &event in &events {
                reading.take(event);
            }
        }
        assert_eq!(
            reading.pieces.len(),
            PIECES.len(),
            "pieces of the recording"
        );
        Ok(Code {
            pieces: reading.pieces,
            places: reading.places,
        })
    }

    /// Returns the number of a piece.
    ///
    /// # Panics
    /// If there is none with this name.
    pub fn number(name: &str) -> usize {
        let found = PIECES.iter().position(|one| *one == name);
        found.unwrap_or_else(|| panic!("there is no piece {name}"))
    }

    /// Returns where object `index` of a kind lies.
    pub fn place(&self, place: Place, index: u64) -> u64 {
        let (base, each) = self.places[place as usize];
        base + index * each
    }
}

/// What an address belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// Memory of one core.
    Own,
    /// Memory that cores share; no cache holds it.
    Shared,
    /// A device.
    Device,
}

/// Returns what `address` of the recording belongs to.
pub fn region(address: u64) -> Region {
    match address {
        DEVICES..SHARED => Region::Device,
        SHARED..SHARED_END => Region::Shared,
        _ => Region::Own,
    }
}

/// The state in which events become steps.
#[derive(Default)]
struct Reading {
    pieces: Vec<Piece>,
    places: [(u64, u64); PLACES],
    /// Address, bytes, number and place of each role that holds.
    roles: Vec<(u64, u64, u8)>,
    within: bool,
    behind: bool,
    /// Where the stack is at the begin of the piece.
    stack: u64,
    /// Where code is split, and where the other stack's pointer is.
    split: (u64, u64),
    /// The next instruction, and the first one behind the last fetch.
    counter: u64,
    expected: u64,
    /// The end of the block, whose instructions from `fetched` on are not fetched yet.
    end: u64,
    fetched: u64,
}

impl Reading {
    fn take(&mut self, event: Event) {
        match event {
            Event::Block { address, bytes, .. } => {
                (self.counter, self.fetched) = (address, address);
                self.end = address + u64::from(bytes);
            }
            Event::Access {
                after,
                address,
                bytes,
                store,
            } => {
                // The access belongs to the last of these instructions.
                self.execute(after);
                let at = self.counter.wrapping_sub(4);
                if self.within && at < HARNESS {
                    let (role, offset) = self.role(address);
                    self.push(Step::Access {
                        role,
                        offset,
                        bytes,
                        store,
                    });
                }
            }
            Event::Instructions(count) => self.execute(count),
            Event::Sync(Sync::Mark { kind, a, b }) => self.mark(kind, a, b),
            Event::Sync(_) => {}
        }
    }

    fn mark(&mut self, kind: u32, a: u64, b: u64) {
        match kind {
            BEGIN => {
                assert_eq!(a as usize, self.pieces.len(), "pieces are in order");
                self.pieces.push(Piece::default());
                (self.within, self.behind, self.expected) = (true, false, 0);
                if !self
                    .roles
                    .iter()
                    .any(|&(at, bytes, _)| (at..at + bytes).contains(&b))
                {
                    self.stack = b;
                }
            }
            END => {
                self.within = false;
                self.split.0 = 0;
            }
            DISPATCH => self.behind = true,
            ROLE => {
                let number = (b & 15) as u8;
                self.roles.retain(|one| one.2 != number);
                self.roles.push((a, b >> 4, number));
            }
            SPLIT => self.split = (a, b),
            PLACE => self.places[(b & 255) as usize] = (a, b >> 8),
            _ => {}
        }
    }

    /// Executes `count` instructions, and fetches them first: as a whole up to the end of the block, or to the split.
    fn execute(&mut self, count: u32) {
        let mut left = u64::from(count);
        while left > 0 {
            if self.split.0 == self.counter && self.within {
                self.behind = true;
            }
            let until = match self.split.0 {
                split if split > self.counter && split < self.end => split,
                _ => self.end,
            };
            if self.within && self.counter < HARNESS && self.fetched <= self.counter {
                let branched = self.expected != self.counter;
                self.push(Step::Fetch {
                    address: self.counter,
                    bytes: (until - self.counter) as u32,
                    branched,
                });
                (self.fetched, self.expected) = (until, until);
            }
            let some = left.min(((until - self.counter) / 4).max(1));
            if self.within && self.counter < HARNESS {
                self.push(Step::Execute(some as u32));
            }
            self.counter += some * 4;
            left -= some;
        }
    }

    fn role(&self, address: u64) -> (u8, i64) {
        let found = self
            .roles
            .iter()
            .find(|&&(at, bytes, _)| (at..at + bytes).contains(&address));
        match found {
            // The other stack lies below its pointer.
            Some(&(_, _, 3))
                if self.split.1 != 0
                    && address >= self.split.1 - 512
                    && address < self.split.1 + 512 =>
            {
                (3, address as i64 - self.split.1 as i64)
            }
            Some(&(at, _, role)) => (role, address as i64 - at as i64),
            None if address >= STACKS => (0, address as i64 - self.stack as i64),
            None => (FIXED, address as i64),
        }
    }

    fn push(&mut self, step: Step) {
        let piece = self.pieces.last_mut().expect("a piece has begun");
        let steps = match self.behind {
            true => &mut piece.behind,
            false => &mut piece.before,
        };
        match (steps.last_mut(), step) {
            (Some(Step::Execute(before)), Step::Execute(more)) => *before += more,
            _ => steps.push(step),
        }
    }
}
