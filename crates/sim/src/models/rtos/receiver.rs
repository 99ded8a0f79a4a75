//! The receiver of paper 3 as a program for the kernel: layer 2 of a mobile phone, whose frames come from another core, under any delivery.
//!
//! Tasks, priorities and the order of steps are those of the paper's table 2 and figure 5. A handler wakes task 3 (i). It copies each
//! frame from shared memory into a block (ii) and passes it on (iii) to the PDCP task of its bearer. This makes a datagram of it (iv),
//! gives the frame back to task 3 (v, vi), and passes the datagram on (vii) to the output of its bearer, which puts it out (viii) and gives
//! it back (ix, x).
//!
//! Handlers wake task 3 by `iwup_tsk`, and PDCP tasks by a message in its mailbox and `wup_tsk`; it waits in `slp_tsk`. So it does not know
//! why it was woken, and looks into its mailbox each time; into the ring it looks if it was told of frames.

use super::code::{Code, Place};
use super::engine::{RtosOptions, run};
use super::outcome::RtosOutcome;
use super::system::{Body, Call, Core, Got, Handler, Outside, System, Task};
use crate::SimError;
use crate::machine::{Cycle, Machine};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use tanada_policy::{ChannelState, Delivery, Tell};

/// The number of the task that receives.
pub const RECEIVE: u32 = 3;
/// The handler of the inter-core interrupt: the paper's 21 and 22, one after the other.
pub const NOTIFY: u32 = 21;
/// The handler of the timer.
pub const TIMER: u32 = 20;
/// The task that idles.
pub const IDLE: u32 = 1;
/// The PDCP tasks of the bearers.
pub const PDCP: [u32; 3] = [14, 15, 16];
/// The output tasks of the bearers.
pub const OUTPUT: [u32; 3] = [5, 6, 7];
/// What a PDCP task does with a frame, in this order.
pub const PDCP_STEPS: [&str; 4] = ["parse_pdcp", "decompress", "copy_payload", "classify"];
/// The tasks of layer 2 that do no communication between cores.
pub const LAYER2: [u32; 6] = [5, 6, 7, 14, 15, 16];

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// Nobody who uses the bus: messages are there at their times. The receiver is core 0.
    Outside,
    /// A task of core 0, woken at the times of the messages. The receiver is core 1.
    Core,
}

/// What is run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Who sends.
    pub sender: Sender,
    /// When messages are sent; they go to the three bearers in turn.
    pub times: Vec<Cycle>,
    /// Messages for which the ring has room; at least 1.
    pub capacity: usize,
    /// Pieces of code that a PDCP task executes for each frame: [`PDCP_STEPS`], or others.
    pub pdcp: Vec<&'static str>,
    /// Cycles of further work on each frame in a PDCP task, and on each datagram in an output task.
    pub extra: [Cycle; 2],
    /// Services of the kernel that the handlers of both interrupts call besides, at most 4: each is code that nobody else here executes.
    pub handler_services: usize,
}

/// A message. Times are cycles; `None`: that did not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// When it was in the ring.
    pub sent: Option<Cycle>,
    /// When the receiver was told of it, or its timer ran out, or it was awake.
    pub told: Option<Cycle>,
    /// When the receiving task took it.
    pub taken: Option<Cycle>,
    /// When the datagram was out.
    pub done: Option<Cycle>,
}

/// What a run comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// What the cores did.
    pub outcome: RtosOutcome,
    /// The messages, in the order of sending.
    pub messages: Vec<Message>,
    /// Messages that found the ring full, and are lost.
    pub lost: u64,
    /// Inter-core interrupts.
    pub notices: u64,
}

/// What a sender does after it has sent.
enum Notice {
    Nothing,
    Ring,
    Arm(Cycle),
}

/// What both sides share.
struct Shared<'a> {
    code: &'a Code,
    delivery: &'a dyn Delivery,
    channel: ChannelState,
    ring: VecDeque<usize>,
    capacity: usize,
    messages: Vec<Message>,
    /// Blocks that hold a frame or a datagram: the message.
    blocks: BTreeMap<u64, (usize, bool)>,
    asleep: bool,
    told: bool,
    taken: u64,
    ended: usize,
    /// Messages whose time has come.
    arrived: usize,
    lost: u64,
    notices: u64,
    /// The receiver's core.
    receiver: usize,
    pdcp: Vec<&'static str>,
    extra: [Cycle; 2],
    handler_services: usize,
}

type Common<'a> = Rc<RefCell<Shared<'a>>>;

/// Bearers.
const BEARERS: usize = 3;
/// Lines of the receiver.
const NOTIFY_LINE: usize = 0;
const TIMER_LINE: usize = 1;
/// Pools of frames and datagrams.
const FRAME_POOL: usize = 0;
const DATAGRAM_POOL: usize = 1;
/// Mailboxes: of the receiving task, of each PDCP task, of each output task.
const RETURN_BOX: usize = 0;
const PDCP_BOX: usize = 1;
const OUTPUT_BOX: usize = 4;
/// What larger handlers execute.
const FURTHER: [&str; 4] = [
    "isig_tim",
    "iact_tsk counts",
    "ipsnd_dtq stores",
    "wai_flg goes on",
];
/// Places of tasks.
const RECEIVE_PLACE: usize = 0;

impl<'a> Shared<'a> {
    fn send(&mut self, number: usize, now: Cycle) -> Notice {
        if self.ring.len() >= self.capacity {
            self.lost += 1;
            self.ended += 1;
            return match self.asleep && !self.told {
                true => self.ring_up(now),
                false => Notice::Nothing,
            };
        }
        self.ring.push_back(number);
        self.messages[number].sent = Some(now);
        if !self.asleep || self.told {
            self.messages[number].told = Some(now);
            return Notice::Nothing;
        }
        match self
            .delivery
            .sent(&self.channel, self.ring.len() as u64, &|| now)
        {
            Tell::Now => self.ring_up(now),
            Tell::By(by) => match self.channel.armed() {
                Some(armed) if armed <= by => Notice::Nothing,
                _ => {
                    self.channel.arm(Some(by));
                    Notice::Arm(by)
                }
            },
        }
    }

    fn ring_up(&mut self, now: Cycle) -> Notice {
        self.told = true;
        self.notices += 1;
        self.all_told(now);
        Notice::Ring
    }

    fn all_told(&mut self, now: Cycle) {
        for &number in &self.ring {
            self.messages[number].told.get_or_insert(now);
        }
    }

    /// The receiver has emptied the ring: when its timer runs out, and whether it has to be set.
    fn rest(&mut self, now: Cycle) -> (Option<Cycle>, bool) {
        let before = self.channel.armed();
        let due = self.channel.rest(self.delivery, self.taken, now);
        self.taken = 0;
        (self.asleep, self.told) = (true, false);
        (
            due,
            due.is_some() || before.is_some_and(|before| before > now),
        )
    }

    /// Addresses of the roles of the stack's pieces: frame, datagram, bearer, frame in shared memory, entry of the ring.
    fn roles(&self, frame: u64, datagram: u64, number: usize) -> [u64; 6] {
        let place = |place, index: usize| self.code.place(place, index as u64);
        [
            0,
            frame,
            datagram,
            place(Place::Bearer, number % BEARERS),
            place(Place::Frame, number % 32),
            place(Place::Entry, number % 32),
        ]
    }
}

/// A program whose places are numbers.
struct Script<'a, F> {
    common: Common<'a>,
    place: u32,
    number: usize,
    blocks: [u64; 2],
    next: F,
}

/// The state of a [`Script`], as its function sees it.
struct At<'s, 'a> {
    shared: &'s mut Shared<'a>,
    place: &'s mut u32,
    number: &'s mut usize,
    blocks: &'s mut [u64; 2],
}

impl At<'_, '_> {
    /// Executes a piece and goes on at `place`.
    fn run(&mut self, piece: &str, place: u32) -> Call {
        *self.place = place;
        Call::Run {
            piece: Code::number(piece),
            at: self
                .shared
                .roles(self.blocks[0], self.blocks[1], *self.number),
        }
    }

    fn then(&mut self, place: u32, call: Call) -> Call {
        *self.place = place;
        call
    }
}

impl<F: FnMut(&mut At<'_, '_>, Got, Cycle) -> Call> Body for Script<'_, F> {
    fn next(&mut self, got: Got, now: Cycle) -> Call {
        let mut shared = self.common.borrow_mut();
        if got == Got::Begin {
            self.place = 0;
        }
        let mut at = At {
            shared: &mut shared,
            place: &mut self.place,
            number: &mut self.number,
            blocks: &mut self.blocks,
        };
        (self.next)(&mut at, got, now)
    }
}

fn body<'a>(
    common: &Common<'a>,
    next: impl FnMut(&mut At<'_, '_>, Got, Cycle) -> Call + 'a,
) -> Box<dyn Body + 'a> {
    let blocks = common.borrow().code.place(Place::Block, 0);
    Box::new(Script {
        common: common.clone(),
        place: 0,
        number: 0,
        blocks: [blocks; 2],
        next,
    })
}

fn notify(at: &mut At<'_, '_>, _: Got, _: Cycle) -> Call {
    match *at.place {
        0 => at.run("pe_notify_handler", 1),
        1 => at.run("br_ccpu_handler", 2),
        place if (place as usize) < 2 + at.shared.handler_services => {
            at.run(FURTHER[place as usize - 2], place + 1)
        }
        place if place as usize == 2 + at.shared.handler_services => {
            at.then(9, Call::Wake(RECEIVE_PLACE))
        }
        _ => Call::Done,
    }
}

fn timer(at: &mut At<'_, '_>, _: Got, now: Cycle) -> Call {
    match *at.place {
        0 => {
            at.shared.all_told(now);
            at.run("timer_handler", 10)
        }
        place if (10..10 + at.shared.handler_services as u32).contains(&place) => {
            at.run(FURTHER[place as usize - 10], place + 1)
        }
        3 => Call::Done,
        _ if !at.shared.ring.is_empty() => {
            at.shared.told = true;
            at.then(3, Call::Wake(RECEIVE_PLACE))
        }
        _ => {
            // Nothing is there: the next moment, if there is one. A receiver that is awake sets its own timer.
            if !at.shared.asleep || at.shared.told {
                return Call::Done;
            }
            let (due, _) = at.shared.rest(now);
            let core = at.shared.receiver;
            let set = Call::Timer {
                core,
                line: TIMER_LINE,
                at: due,
                every: 0,
            };
            at.then(3, set)
        }
    }
}

/// Task 3. Places: 0 begins, 1 sleeps, 2 was woken, 3 looks into the ring, ... 20 looks into its mailbox.
fn receive(at: &mut At<'_, '_>, got: Got, now: Cycle) -> Call {
    loop {
        match *at.place {
            // Empty: when to look again.
            0 => {
                let (due, set) = at.shared.rest(now);
                *at.place = if at.shared.ring.is_empty() { 1 } else { 3 };
                if *at.place == 3 {
                    // It stays awake.
                    at.shared.asleep = false;
                    at.shared.all_told(now);
                }
                if set {
                    *at.number = due.unwrap_or(Cycle::MAX) as usize;
                    let core = at.shared.receiver;
                    let next = *at.place;
                    return at.then(
                        30 + next,
                        Call::Timer {
                            core,
                            line: TIMER_LINE,
                            at: due,
                            every: 0,
                        },
                    );
                }
            }
            // The timer's register is written.
            31 => return at.run("ring_other", 1),
            33 => return at.run("ring_other", 3),
            1 => return at.then(2, Call::Sleep),
            2 => {
                // Told of frames, or a frame was given back, or both.
                if at.shared.told {
                    (at.shared.asleep, at.shared.told) = (false, false);
                    // Those that came while the timer's handler ran, too.
                    at.shared.all_told(now);
                    *at.place = 3;
                } else {
                    *at.place = 20;
                }
            }
            3 => match at.shared.ring.front() {
                Some(&number) => {
                    *at.number = number;
                    return at.run("take_entry", 4);
                }
                None => return at.run("take_entry is empty", 9),
            },
            4 => return at.then(5, Call::Get(FRAME_POOL)),
            5 => {
                let Got::Value(block) = got else {
                    // No block is free: the rest waits until one comes back.
                    *at.place = 15;
                    continue;
                };
                at.blocks[0] = block;
                let number = at.shared.ring.pop_front().expect("it is there");
                at.shared.taken += 1;
                at.shared.messages[number].taken = Some(now);
                at.shared.blocks.insert(block, (number, false));
                return at.run("copy_frame", 6);
            }
            6 => return at.run("free_entry", 7),
            7 => return at.run("make_message of a frame", 8),
            8 => {
                let mailbox = PDCP_BOX + *at.number % BEARERS;
                let message = at.blocks[0];
                return at.then(3, Call::Mail { mailbox, message });
            }
            9 => {
                // A message that came while the empty ring was looked at is taken, too.
                *at.place = if at.shared.ring.is_empty() { 21 } else { 3 };
            }
            // Frames that were given back; and then again the ring, if it was left.
            20 => return at.then(22, Call::Poll(RETURN_BOX)),
            21 => return at.then(23, Call::Poll(RETURN_BOX)),
            22 | 23 => match got {
                Got::Value(block) => {
                    at.shared.blocks.remove(&block);
                    let back = *at.place - 2;
                    return at.then(
                        back,
                        Call::Put {
                            pool: FRAME_POOL,
                            block,
                        },
                    );
                }
                _ => {
                    let awake = !at.shared.asleep;
                    *at.place = match (*at.place, awake) {
                        (23, _) => 0,
                        (_, true) => 3,
                        _ => 1,
                    };
                }
            },
            // Waits for blocks, awake.
            15 => return at.then(16, Call::Sleep),
            _ => *at.place = 20,
        }
    }
}

/// The place of a PDCP task's first step.
const STEPS: u32 = 100;

fn pdcp(bearer: usize) -> impl FnMut(&mut At<'_, '_>, Got, Cycle) -> Call {
    move |at, got, _| match *at.place {
        0 => at.then(1, Call::Collect(PDCP_BOX + bearer)),
        1 => {
            let Got::Value(block) = got else {
                return Call::Stop;
            };
            let (number, is_datagram) = at.shared.blocks[&block];
            *at.number = number;
            if is_datagram {
                at.shared.blocks.remove(&block);
                at.shared.ended += 1;
                return at.then(
                    0,
                    Call::Put {
                        pool: DATAGRAM_POOL,
                        block,
                    },
                );
            }
            at.blocks[0] = block;
            at.then(2, Call::Get(DATAGRAM_POOL))
        }
        2 => {
            let Got::Value(block) = got else {
                // There are as many datagrams as messages in the ring and in frames.
                return Call::Stop;
            };
            at.blocks[1] = block;
            at.shared.blocks.insert(block, (*at.number, true));
            at.then(STEPS, Call::Compute(0))
        }
        place @ STEPS.. => match at.shared.pdcp.get((place - STEPS) as usize).copied() {
            Some(step) => at.run(step, place + 1),
            None => {
                let cycles = at.shared.extra[0];
                at.then(6, Call::Compute(cycles))
            }
        },
        6 => {
            let message = at.blocks[0];
            at.then(
                7,
                Call::Mail {
                    mailbox: RETURN_BOX,
                    message,
                },
            )
        }
        7 => at.then(8, Call::Wake(RECEIVE_PLACE)),
        8 => at.run("make_message of a datagram", 9),
        _ => {
            let message = at.blocks[1];
            at.then(
                0,
                Call::Mail {
                    mailbox: OUTPUT_BOX + bearer,
                    message,
                },
            )
        }
    }
}

fn output(bearer: usize) -> impl FnMut(&mut At<'_, '_>, Got, Cycle) -> Call {
    move |at, got, now| match *at.place {
        0 => at.then(1, Call::Collect(OUTPUT_BOX + bearer)),
        1 => {
            let Got::Value(block) = got else {
                return Call::Stop;
            };
            at.blocks[1] = block;
            *at.number = at.shared.blocks[&block].0;
            at.run("put_out", 2)
        }
        2 => {
            let cycles = at.shared.extra[1];
            at.then(3, Call::Compute(cycles))
        }
        _ => {
            let number = *at.number;
            at.shared.messages[number].done = Some(now);
            let message = at.blocks[1];
            at.then(
                0,
                Call::Mail {
                    mailbox: PDCP_BOX + bearer,
                    message,
                },
            )
        }
    }
}

fn idle(at: &mut At<'_, '_>, _: Got, _: Cycle) -> Call {
    match at.shared.ended >= at.shared.messages.len() {
        true => Call::Stop,
        false => Call::Idle,
    }
}

/// The sending task: it sleeps while all messages whose time has come are sent.
fn send(at: &mut At<'_, '_>, _: Got, now: Cycle) -> Call {
    loop {
        match *at.place {
            2 => {
                let number = *at.number;
                *at.number += 1;
                let core = at.shared.receiver;
                match at.shared.send(number, now) {
                    Notice::Nothing => *at.place = 0,
                    Notice::Ring => {
                        let line = NOTIFY_LINE;
                        return at.then(3, Call::Raise { core, line });
                    }
                    Notice::Arm(time) => {
                        let set = Call::Timer {
                            core,
                            line: TIMER_LINE,
                            at: Some(time),
                            every: 0,
                        };
                        return at.then(3, set);
                    }
                }
            }
            3 => return at.run("ring_other", 0),
            _ if *at.number < at.shared.arrived => return at.run("put_entry", 2),
            _ => return at.then(0, Call::Sleep),
        }
    }
}

/// Messages that come without a core.
struct Source<'a> {
    common: Common<'a>,
    times: VecDeque<Cycle>,
    number: usize,
    by_core: bool,
}

impl Outside for Source<'_> {
    fn at(&self) -> Option<Cycle> {
        self.times.front().copied()
    }

    fn happen(&mut self, now: Cycle, calls: &mut Vec<Call>) {
        self.times.pop_front();
        self.common.borrow_mut().arrived += 1;
        if self.by_core {
            calls.push(Call::Raise { core: 0, line: 0 });
            return;
        }
        let mut shared = self.common.borrow_mut();
        let core = shared.receiver;
        match shared.send(self.number, now) {
            Notice::Nothing => {}
            Notice::Ring => calls.push(Call::Raise {
                core,
                line: NOTIFY_LINE,
            }),
            Notice::Arm(time) => calls.push(Call::Timer {
                core,
                line: TIMER_LINE,
                at: Some(time),
                every: 0,
            }),
        }
        self.number += 1;
    }
}

/// Lets the receiver receive messages under `delivery`, on a machine with `[rtos]`, and returns what it came to. The run
/// ends when the last datagram was given back and the receiver idles.
///
/// # Errors
/// As [`run`].
pub fn receive_all(
    machine: &Machine,
    setup: &Setup,
    delivery: &dyn Delivery,
    options: &RtosOptions<'_>,
) -> Result<Received, SimError> {
    let code = Code::shipped();
    let by_core = setup.sender == Sender::Core;
    let common = Rc::new(RefCell::new(Shared {
        code,
        delivery,
        channel: ChannelState::new(),
        ring: VecDeque::new(),
        capacity: setup.capacity.max(1),
        messages: vec![Message::default(); setup.times.len()],
        blocks: BTreeMap::new(),
        asleep: false,
        told: false,
        taken: 0,
        ended: 0,
        arrived: 0,
        lost: 0,
        notices: 0,
        receiver: usize::from(by_core),
        pdcp: setup.pdcp.clone(),
        extra: setup.extra,
        handler_services: setup.handler_services.min(FURTHER.len()),
    }));
    let task = |id, priority, body| Task {
        id,
        priority,
        ready: true,
        body,
    };
    let handler = |id, level, body| Handler { id, level, body };
    let mut tasks = vec![task(RECEIVE, 1, body(&common, receive))];
    tasks.extend((0..BEARERS).map(|bearer| task(PDCP[bearer], 2, body(&common, pdcp(bearer)))));
    tasks.extend((0..BEARERS).map(|bearer| task(OUTPUT[bearer], 3, body(&common, output(bearer)))));
    tasks.push(task(IDLE, 4, body(&common, idle)));
    let receiver = Core {
        tasks,
        handlers: vec![
            handler(NOTIFY, 1, body(&common, notify)),
            handler(TIMER, 2, body(&common, timer)),
        ],
        flags: 0,
        queues: Vec::new(),
        mailboxes: OUTPUT_BOX + BEARERS,
        pools: vec![24, 40],
    };
    let mut cores = vec![receiver];
    if by_core {
        let sender = Core {
            tasks: vec![
                task(2, 1, body(&common, send)),
                task(
                    IDLE,
                    4,
                    body(&common, |_: &mut At<'_, '_>, _, _| Call::Idle),
                ),
            ],
            handlers: vec![handler(
                23,
                1,
                body(&common, |at: &mut At<'_, '_>, _, _| match *at.place {
                    0 => at.then(1, Call::Wake(RECEIVE_PLACE)),
                    _ => Call::Done,
                }),
            )],
            ..Core::default()
        };
        cores.insert(0, sender);
    }
    let source = Source {
        common: common.clone(),
        times: setup.times.iter().copied().collect(),
        number: 0,
        by_core,
    };
    let system = System {
        cores,
        outside: Box::new(source),
        timers: Vec::new(),
    };
    let outcome = run(machine, code, system, options)?;
    let shared = common.borrow();
    Ok(Received {
        outcome,
        messages: shared.messages.clone(),
        lost: shared.lost,
        notices: shared.notices,
    })
}
