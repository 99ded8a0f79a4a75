//! The kernel of one core: which task runs, and what its objects hold. No time, no code. `RULES.md`, rule 3.

use super::system::{Call, Core, Got, TaskId};
use std::collections::VecDeque;

/// Priorities.
const PRIORITIES: usize = 16;
/// Wake-ups that are kept.
const MOST_WAKEUPS: u32 = 255;

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    WakeUp,
    Flag {
        bits: u32,
        any: bool,
    },
    /// The value that it wants to send.
    Room(u64),
    Value,
    Message,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Dormant,
    Ready,
    Waiting(Wait),
}

#[derive(Clone, Debug)]
struct Task {
    priority: usize,
    state: State,
    activations: u32,
    wakeups: u32,
}

#[derive(Clone, Debug, Default)]
struct Queue {
    room: usize,
    values: VecDeque<u64>,
    senders: VecDeque<TaskId>,
    receivers: VecDeque<TaskId>,
}

#[derive(Clone, Debug, Default)]
struct Flag {
    bits: u32,
    waiting: VecDeque<TaskId>,
}

#[derive(Clone, Debug, Default)]
struct Mailbox {
    messages: VecDeque<u64>,
    waiting: VecDeque<TaskId>,
}

/// What a service does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// The name of the piece of code.
    pub(super) piece: &'static str,
    /// What the caller gets; `None`: it waits.
    pub(super) got: Option<Got>,
    /// Tasks that become ready, and what they get.
    pub(super) woken: Vec<(TaskId, Got)>,
}

impl Path {
    fn plain(piece: &'static str) -> Path {
        Path {
            piece,
            got: Some(Got::Ok),
            woken: Vec::new(),
        }
    }
}

/// The kernel of a core.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    tasks: Vec<Task>,
    /// Ready tasks of each priority, the running one among them.
    ready: Vec<VecDeque<TaskId>>,
    /// The task that runs, or was interrupted.
    pub(super) running: TaskId,
    pub(super) enabled: bool,
    flags: Vec<Flag>,
    queues: Vec<Queue>,
    mailboxes: Vec<Mailbox>,
    /// Free blocks of each pool, the next one last.
    pools: Vec<Vec<u64>>,
}

impl Kernel {
    /// Returns the kernel of `core`. `block` returns where a block lies.
    pub(super) fn new(core: &Core<'_>, block: impl Fn(u64) -> u64) -> Kernel {
        let tasks = core.tasks.iter().map(|task| Task {
            priority: usize::from(task.priority).min(PRIORITIES - 1),
            state: State::Dormant,
            activations: 0,
            wakeups: 0,
        });
        let mut next = 0;
        let pools = core.pools.iter().map(|&blocks| {
            let from = next;
            next += blocks;
            (from..next).rev().map(&block).collect()
        });
        let mut kernel = Kernel {
            tasks: tasks.collect(),
            ready: vec![VecDeque::new(); PRIORITIES],
            running: 0,
            enabled: true,
            flags: vec![Flag::default(); core.flags],
            queues: core
                .queues
                .iter()
                .map(|&room| Queue {
                    room,
                    ..Queue::default()
                })
                .collect(),
            mailboxes: vec![Mailbox::default(); core.mailboxes],
            pools: pools.collect(),
        };
        for (id, task) in core.tasks.iter().enumerate() {
            if task.ready {
                kernel.make_ready(id);
            }
        }
        kernel.running = kernel.scheduled().unwrap_or(0);
        kernel
    }

    /// Returns the most urgent ready task; of equals the first one to become ready.
    pub(super) fn scheduled(&self) -> Option<TaskId> {
        self.ready.iter().find_map(|list| list.front().copied())
    }

    /// Returns whether a task is ready, or runs.
    pub(super) fn is_ready(&self, id: TaskId) -> bool {
        self.tasks[id].state == State::Ready
    }

    fn make_ready(&mut self, id: TaskId) {
        self.tasks[id].state = State::Ready;
        self.ready[self.tasks[id].priority].push_back(id);
    }

    fn stop(&mut self, id: TaskId, state: State) {
        self.ready[self.tasks[id].priority].retain(|&one| one != id);
        self.tasks[id].state = state;
    }

    /// Carries a service out that task `me`, or a handler, asks for, and returns what it does.
    ///
    /// # Errors
    /// If the program may not ask for it, in words.
    pub(super) fn service(&mut self, me: Option<TaskId>, call: Call) -> Result<Path, &'static str> {
        let task = me.ok_or("a handler cannot wait");
        let may_wait = || match (me, self.enabled) {
            (None, _) => Err("a handler cannot wait"),
            (_, false) => Err("a task cannot wait while dispatch is disabled"),
            (Some(me), true) => Ok(me),
        };
        let named = |of_task, of_handler| if me.is_some() { of_task } else { of_handler };
        Ok(match call {
            Call::Activate(id) => {
                let one = self.tasks.get_mut(id).ok_or("there is no such task")?;
                if one.state == State::Dormant {
                    one.wakeups = 0;
                    self.make_ready(id);
                    Path {
                        woken: vec![(id, Got::Begin)],
                        ..Path::plain(named("act_tsk wakes", "iact_tsk wakes"))
                    }
                } else if one.activations == 0 {
                    one.activations = 1;
                    Path::plain(named("act_tsk counts", "iact_tsk counts"))
                } else {
                    return Err("a task keeps one activation");
                }
            }
            Call::Exit => {
                let me = may_wait()?;
                self.stop(me, State::Dormant);
                let mut path = Path {
                    got: None,
                    ..Path::plain("ext_tsk")
                };
                if self.tasks[me].activations > 0 {
                    self.tasks[me].activations = 0;
                    self.tasks[me].wakeups = 0;
                    self.make_ready(me);
                    path.woken.push((me, Got::Begin));
                }
                path
            }
            Call::Sleep => {
                let me = may_wait()?;
                if self.tasks[me].wakeups > 0 {
                    self.tasks[me].wakeups -= 1;
                    Path::plain("slp_tsk goes on")
                } else {
                    self.wait(me, Wait::WakeUp, "slp_tsk waits")
                }
            }
            Call::Wake(id) => {
                let one = self.tasks.get_mut(id).ok_or("there is no such task")?;
                match one.state {
                    State::Dormant => return Err("a dormant task cannot be woken"),
                    State::Waiting(Wait::WakeUp) => {
                        self.make_ready(id);
                        Path {
                            woken: vec![(id, Got::Ok)],
                            ..Path::plain(named("wup_tsk wakes", "iwup_tsk wakes"))
                        }
                    }
                    _ if one.wakeups < MOST_WAKEUPS => {
                        one.wakeups += 1;
                        Path::plain(named("wup_tsk counts", "iwup_tsk counts"))
                    }
                    _ => return Err("a task keeps 255 wake-ups"),
                }
            }
            Call::DisableDispatch => {
                task?;
                self.enabled = false;
                Path::plain("dis_dsp")
            }
            Call::EnableDispatch => {
                let me = task?;
                self.enabled = true;
                Path::plain(match self.scheduled() == Some(me) {
                    true => "ena_dsp",
                    false => "ena_dsp dispatches",
                })
            }
            Call::SetFlag { flag, bits } => {
                let one = self.flags.get_mut(flag).ok_or("there is no such flag")?;
                one.bits |= bits;
                let waiting = std::mem::take(&mut one.waiting);
                let (mut woken, mut left) = (Vec::new(), VecDeque::new());
                for id in waiting {
                    let State::Waiting(Wait::Flag { bits, any }) = self.tasks[id].state else {
                        unreachable!("it waits for this flag")
                    };
                    match self.take_bits(flag, bits, any) {
                        Some(found) => {
                            self.make_ready(id);
                            woken.push((id, Got::Value(found)));
                        }
                        None => left.push_back(id),
                    }
                }
                self.flags[flag].waiting = left;
                let piece = match woken.is_empty() {
                    false => named("set_flg wakes", "iset_flg wakes"),
                    true => named("set_flg", "iset_flg"),
                };
                Path {
                    woken,
                    ..Path::plain(piece)
                }
            }
            Call::WaitFlag { flag, bits, any } => {
                let me = may_wait()?;
                if bits == 0 || flag >= self.flags.len() {
                    return Err("there is no such flag");
                }
                match self.take_bits(flag, bits, any) {
                    Some(found) => Path {
                        got: Some(Got::Value(found)),
                        ..Path::plain("wai_flg goes on")
                    },
                    None => {
                        self.flags[flag].waiting.push_back(me);
                        self.wait(me, Wait::Flag { bits, any }, "wai_flg waits")
                    }
                }
            }
            Call::Send { queue, value } => {
                let enabled = self.enabled;
                let one = self
                    .queues
                    .get_mut(queue)
                    .ok_or("there is no such data queue")?;
                if let Some(id) = one.receivers.pop_front() {
                    self.make_ready(id);
                    Path {
                        woken: vec![(id, Got::Value(value))],
                        ..Path::plain(named("snd_dtq wakes", "ipsnd_dtq wakes"))
                    }
                } else if one.values.len() < one.room {
                    one.values.push_back(value);
                    Path::plain(named("snd_dtq stores", "ipsnd_dtq stores"))
                } else if let Some(me) = me {
                    if !enabled {
                        return Err("a task cannot wait while dispatch is disabled");
                    }
                    one.senders.push_back(me);
                    self.wait(me, Wait::Room(value), "snd_dtq waits")
                } else {
                    Path {
                        got: Some(Got::Nothing),
                        ..Path::plain("ipsnd_dtq is full")
                    }
                }
            }
            Call::Receive(queue) => {
                let me = may_wait()?;
                let one = self
                    .queues
                    .get_mut(queue)
                    .ok_or("there is no such data queue")?;
                let sender = one.senders.pop_front();
                let waiting = sender.map(|id| match self.tasks[id].state {
                    State::Waiting(Wait::Room(value)) => (id, value),
                    _ => unreachable!("it waits for room"),
                });
                if let Some((_, value)) = waiting {
                    one.values.push_back(value);
                }
                match (one.values.pop_front(), waiting) {
                    (Some(value), None) => Path {
                        got: Some(Got::Value(value)),
                        ..Path::plain("rcv_dtq takes")
                    },
                    (Some(value), Some((id, _))) => {
                        self.make_ready(id);
                        Path {
                            piece: "rcv_dtq wakes",
                            got: Some(Got::Value(value)),
                            woken: vec![(id, Got::Ok)],
                        }
                    }
                    (None, _) => {
                        one.receivers.push_back(me);
                        self.wait(me, Wait::Value, "rcv_dtq waits")
                    }
                }
            }
            Call::Mail { mailbox, message } => {
                let one = self
                    .mailboxes
                    .get_mut(mailbox)
                    .ok_or("there is no such mailbox")?;
                match one.waiting.pop_front() {
                    Some(id) => {
                        self.make_ready(id);
                        Path {
                            woken: vec![(id, Got::Value(message))],
                            ..Path::plain(named("snd_mbx wakes", "isnd_mbx wakes"))
                        }
                    }
                    None => {
                        one.messages.push_back(message);
                        Path::plain(named("snd_mbx stores", "isnd_mbx stores"))
                    }
                }
            }
            Call::Collect(mailbox) => {
                let me = may_wait()?;
                let one = self
                    .mailboxes
                    .get_mut(mailbox)
                    .ok_or("there is no such mailbox")?;
                match one.messages.pop_front() {
                    Some(message) => Path {
                        got: Some(Got::Value(message)),
                        ..Path::plain("rcv_mbx takes")
                    },
                    None => {
                        one.waiting.push_back(me);
                        self.wait(me, Wait::Message, "rcv_mbx waits")
                    }
                }
            }
            Call::Poll(mailbox) => {
                task?;
                let one = self
                    .mailboxes
                    .get_mut(mailbox)
                    .ok_or("there is no such mailbox")?;
                match one.messages.pop_front() {
                    Some(message) => Path {
                        got: Some(Got::Value(message)),
                        ..Path::plain("prcv_mbx takes")
                    },
                    None => Path {
                        got: Some(Got::Nothing),
                        ..Path::plain("prcv_mbx is empty")
                    },
                }
            }
            Call::Get(pool) => {
                task?;
                let one = self.pools.get_mut(pool).ok_or("there is no such pool")?;
                match one.pop() {
                    Some(block) => Path {
                        got: Some(Got::Value(block)),
                        ..Path::plain("pget_mpf takes")
                    },
                    None => Path {
                        got: Some(Got::Nothing),
                        ..Path::plain("pget_mpf is empty")
                    },
                }
            }
            Call::Put { pool, block } => {
                task?;
                let one = self.pools.get_mut(pool).ok_or("there is no such pool")?;
                one.push(block);
                Path::plain("rel_mpf")
            }
            Call::Tick => match me {
                None => Path::plain("isig_tim"),
                Some(_) => return Err("only a handler counts time"),
            },
            _ => return Err("this is no service of the kernel"),
        })
    }

    /// Returns the bits of a flag and clears those that were waited for, if they are there.
    fn take_bits(&mut self, flag: usize, bits: u32, any: bool) -> Option<u64> {
        let one = &mut self.flags[flag];
        let there = one.bits & bits;
        let met = if any { there != 0 } else { there == bits };
        met.then(|| {
            let found = u64::from(one.bits);
            one.bits &= !bits;
            found
        })
    }

    fn wait(&mut self, me: TaskId, wait: Wait, piece: &'static str) -> Path {
        self.stop(me, State::Waiting(wait));
        Path {
            got: None,
            ..Path::plain(piece)
        }
    }
}
