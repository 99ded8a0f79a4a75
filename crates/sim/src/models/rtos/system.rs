//! What the model runs: tasks and handlers of each core, as programs for an ITRON-style API.

use super::code::ROLES;
use crate::machine::Cycle;
use std::collections::VecDeque;

/// A task of a core, by its place in [`Core::tasks`].
pub type TaskId = usize;

/// What a program asks its core for. A program that breaks a rule of the kernel ends the run with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Executes a piece of code, whose roles 1 to 5 lie at these addresses.
    Run {
        /// The piece.
        piece: usize,
        /// Places of its roles; that of role 0, the stack, is not used.
        at: [u64; ROLES],
    },
    /// Computes for so many cycles without a bus.
    Compute(Cycle),
    /// `act_tsk`, `iact_tsk`: a dormant task becomes ready; else one activation is kept.
    Activate(TaskId),
    /// `ext_tsk`: the task becomes dormant. Its next activation asks its program anew.
    Exit,
    /// `slp_tsk`: waits for a wake-up, or takes one that was kept.
    Sleep,
    /// `wup_tsk`, `iwup_tsk`: wakes a task that sleeps, or keeps a wake-up, at most 255.
    Wake(TaskId),
    /// `dis_dsp`.
    DisableDispatch,
    /// `ena_dsp`.
    EnableDispatch,
    /// `set_flg`, `iset_flg`: sets bits.
    SetFlag {
        /// The flag.
        flag: usize,
        /// The bits.
        bits: u32,
    },
    /// `wai_flg`: waits for any or all of the bits, and clears them; [`Got::Value`] has the flag's bits before that.
    WaitFlag {
        /// The flag.
        flag: usize,
        /// The bits; not 0.
        bits: u32,
        /// Whether one of them is enough.
        any: bool,
    },
    /// `snd_dtq`, `ipsnd_dtq`: puts a value into a data queue; a task waits while it is full, a handler gets [`Got::Nothing`].
    Send {
        /// The queue.
        queue: usize,
        /// The value.
        value: u64,
    },
    /// `rcv_dtq`: waits for a value.
    Receive(usize),
    /// `snd_mbx`, `isnd_mbx`: sends a message, which lies at the address.
    Mail {
        /// The mailbox.
        mailbox: usize,
        /// The message.
        message: u64,
    },
    /// `rcv_mbx`: waits for a message.
    Collect(usize),
    /// `prcv_mbx`: a message, or [`Got::Nothing`].
    Poll(usize),
    /// `pget_mpf`: a block, or [`Got::Nothing`].
    Get(usize),
    /// `rel_mpf`: gives a block back.
    Put {
        /// The pool.
        pool: usize,
        /// The block.
        block: u64,
    },
    /// `isig_tim`: a tick of the kernel's time.
    Tick,
    /// Requests an interrupt of a core.
    Raise {
        /// The core.
        core: usize,
        /// The line.
        line: usize,
    },
    /// Sets a timer that requests an interrupt of a core: at a time and then at each multiple of `every` cycles (0: once)
    /// behind it, or no more.
    Timer {
        /// The core.
        core: usize,
        /// The line; each has one timer.
        line: usize,
        /// When; `None`: never.
        at: Option<Cycle>,
        /// The time between two of them.
        every: Cycle,
    },
    /// Waits for an interrupt whose handler has ended. Only the least urgent task of a core may.
    Idle,
    /// The handler has ended.
    Done,
    /// Ends the run.
    Stop,
}

/// What a call returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    /// The program begins: a task that was activated, a handler of an interrupt.
    Begin,
    /// The call has ended.
    Ok,
    /// It returned this.
    Value(u64),
    /// There was nothing to be had.
    Nothing,
}

/// The program of a task or handler.
pub trait Body {
    /// Returns the next call. `got` is the result of the last one, `now` the clock of the core. Programs are asked in the
    /// order of time, so they may share data.
    fn next(&mut self, got: Got, now: Cycle) -> Call;
}

impl<F: FnMut(Got, Cycle) -> Call> Body for F {
    fn next(&mut self, got: Got, now: Cycle) -> Call {
        self(got, now)
    }
}

/// A task.
pub struct Task<'a> {
    /// The number by which outcomes name it.
    pub id: u32,
    /// 0 is the most urgent, 15 the least.
    pub priority: u8,
    /// Whether it is ready at first; else dormant.
    pub ready: bool,
    /// The program.
    pub body: Box<dyn Body + 'a>,
}

/// The handler of a line.
pub struct Handler<'a> {
    /// The number by which outcomes name it.
    pub id: u32,
    /// 1 is the least urgent. A handler is interrupted by a higher level only.
    pub level: u8,
    /// The program.
    pub body: Box<dyn Body + 'a>,
}

/// What runs on a core.
#[derive(Default)]
pub struct Core<'a> {
    /// The tasks, at most 16. The last one may idle.
    pub tasks: Vec<Task<'a>>,
    /// The handlers, by line.
    pub handlers: Vec<Handler<'a>>,
    /// Flags, at most 4.
    pub flags: usize,
    /// The capacity of each data queue; at most 4.
    pub queues: Vec<usize>,
    /// Mailboxes, at most 16.
    pub mailboxes: usize,
    /// The blocks of each pool; at most 4, and 64 blocks in all.
    pub pools: Vec<u64>,
}

/// What happens outside of the cores.
pub trait Outside {
    /// Returns when it happens next; this never falls.
    fn at(&self) -> Option<Cycle>;

    /// It happens: pushes the interrupts and timers that it causes, [`Call::Raise`] and [`Call::Timer`].
    fn happen(&mut self, now: Cycle, calls: &mut Vec<Call>);
}

/// Interrupts at given times, in their order: time, core, line.
impl Outside for VecDeque<(Cycle, usize, usize)> {
    fn at(&self) -> Option<Cycle> {
        self.front().map(|one| one.0)
    }

    fn happen(&mut self, _now: Cycle, calls: &mut Vec<Call>) {
        calls.extend(
            self.pop_front()
                .map(|(_, core, line)| Call::Raise { core, line }),
        );
    }
}

/// What runs on a machine.
pub struct System<'a> {
    /// Its cores. Further cores of the machine do nothing.
    pub cores: Vec<Core<'a>>,
    /// What happens outside of them.
    pub outside: Box<dyn Outside + 'a>,
    /// Timers at the begin: core, line, first time, time between two.
    pub timers: Vec<(usize, usize, Cycle, Cycle)>,
}
