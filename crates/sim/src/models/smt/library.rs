//! The simulated thread library: states of logical threads, the queue, and what threads wait for; rule 4.

use super::program::{Program, Stream};
use crate::SimError;
use std::collections::{BTreeMap, VecDeque};
use tanada_policy::Order;
use tanada_trace::TraceError;
use tanada_trace::threads::{Event, Sync};

/// What a logical thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub(super) enum Wait {
    Lock = 0,
    Barrier = 1,
    Condition = 2,
    Semaphore = 3,
    Join = 4,
}

/// Number of kinds of [`Wait`].
pub(super) const WAITS: usize = 5;

impl Wait {
    pub(super) const WORDS: [&str; WAITS] = ["lock", "barrier", "condition", "semaphore", "join"];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    New,
    Waiting,
    Running,
    /// On this object, or thread.
    Blocked(Wait, u32),
    Ended,
}

/// A logical thread.
pub(super) struct Logical<'a> {
    stream: Option<Box<dyn Stream + 'a>>,
    pub(super) events: Vec<Event>,
    /// Index of the next event.
    pub(super) at: usize,
    /// Instructions of the next event that were issued, or lines of it that were fetched.
    pub(super) part: u64,
    /// First address of its stack, as recorded, its length, and what is added to addresses in it.
    pub(super) stack: (u64, u64),
    pub(super) moved: u64,
    pub(super) state: State,
    /// When it joined the queue or blocked.
    pub(super) since: u64,
    /// How many had joined the queue before it.
    stamp: u64,
    pub(super) instructions: u64,
    pub(super) stack_accesses: u64,
    pub(super) queued: u64,
    pub(super) blocked: [u64; WAITS],
    pub(super) ended: u64,
    regions: Vec<u32>,
}

/// First address of stacks that are placed.
const STACKS: u64 = 1 << 40;
/// Bytes above a thread's stack address that belong to its stack.
const ABOVE: u64 = 4096;

impl<'a> Logical<'a> {
    fn new(number: usize, stack: Option<u64>, size: u64, spacing: Option<u64>) -> Logical<'a> {
        let region = stack.map_or((0, 0), |stack| {
            let low = stack.saturating_sub(size);
            (low, stack.saturating_add(ABOVE) - low)
        });
        let moved = match (stack, spacing) {
            (Some(stack), Some(spacing)) if number > 0 => {
                let place = STACKS.wrapping_add((number as u64).wrapping_mul(spacing));
                place.wrapping_sub(stack)
            }
            _ => 0,
        };
        Logical {
            stream: None,
            events: Vec::new(),
            at: 0,
            part: 0,
            stack: region,
            moved,
            state: State::New,
            since: 0,
            stamp: 0,
            instructions: 0,
            stack_accesses: 0,
            queued: 0,
            blocked: [0; WAITS],
            ended: 0,
            regions: Vec::new(),
        }
    }

    /// Returns the next event; `None` at the end of the stream.
    ///
    /// # Errors
    /// If the stream cannot be read.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Result<Option<Event>, TraceError> {
        if let Some(event) = self.events.get(self.at) {
            return Ok(Some(*event));
        }
        self.refill()
    }

    #[cold]
    fn refill(&mut self) -> Result<Option<Event>, TraceError> {
        if let Some(stream) = &mut self.stream {
            self.at = 0;
            stream.fill(&mut self.events)?;
        }
        Ok(self.events.first().copied())
    }
}

/// A mutex, condition variable, semaphore or barrier: which of these depends on its use.
#[derive(Debug, Default)]
struct Object {
    /// Whether it is held alone.
    held: bool,
    /// How many share it.
    readers: u32,
    /// Those that wait for it, and whether they would share it.
    queue: VecDeque<(u32, bool)>,
    /// Those that wait for a signal, with their locks.
    waiters: VecDeque<(u32, u32)>,
    signals: u64,
    value: u64,
    takers: VecDeque<u32>,
    arrived: Vec<u32>,
    arrived_at_end: Vec<u32>,
}

impl Object {
    fn try_take(&mut self, shared: bool) -> bool {
        let free = !self.held && (self.readers == 0 || shared);
        if free && shared {
            self.readers += 1;
        } else if free {
            self.held = true;
        }
        free
    }
}

/// Waits for one object, in ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waited {
    pub(super) waits: u64,
    pub(super) ticks: u64,
    pub(super) longest: u64,
}

impl Waited {
    pub(super) fn add(&mut self, other: Waited) {
        self.waits += other.waits;
        self.ticks += other.ticks;
        self.longest = self.longest.max(other.longest);
    }
}

/// What a sync did to its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    GoesOn,
    Blocks,
    Ends,
}

pub(super) struct Library<'a> {
    program: &'a dyn Program,
    pub(super) threads: Vec<Logical<'a>>,
    objects: BTreeMap<u32, Object>,
    joiners: BTreeMap<u32, Vec<u32>>,
    pub(super) queue: VecDeque<u32>,
    joined: u64,
    pub(super) left: usize,
    pub(super) forced: u64,
    /// The threads that the last sync made ready, in order.
    pub(super) woken: Vec<u32>,
    /// Counts waits for a condition or a semaphore, so that the longest one is known.
    waits: u64,
    /// Those that wait for a condition or a semaphore, by the number of the wait.
    longest: [BTreeMap<u64, (u32, u32)>; 2],
    /// Who waited for what, by kind, object or thread, and the waiting thread; kept if it is asked for.
    pub(super) waited: Option<BTreeMap<(Wait, u32, u32), Waited>>,
}

impl<'a> Library<'a> {
    pub(super) fn new(
        program: &'a dyn Program,
        stack_size: u64,
        stack_spacing: Option<u64>,
    ) -> Library<'a> {
        let count = program.threads();
        let of = |number| Logical::new(number, program.stack(number), stack_size, stack_spacing);
        Library {
            program,
            threads: (0..count).map(of).collect(),
            objects: BTreeMap::new(),
            joiners: BTreeMap::new(),
            queue: VecDeque::new(),
            joined: 0,
            left: count,
            forced: 0,
            woken: Vec::new(),
            waits: 0,
            longest: [BTreeMap::new(), BTreeMap::new()],
            waited: None,
        }
    }

    /// Puts a thread at the back of the queue at tick `t`, where it waits since then; a blocked one not before it blocked. A step that
    /// begins earlier can end later, so `t` may lie before that.
    ///
    /// # Errors
    /// If the stream of a new thread cannot be read.
    pub(super) fn join_queue(&mut self, thread: u32, t: u64) -> Result<(), SimError> {
        let one = &mut self.threads[thread as usize];
        let mut t = t;
        match one.state {
            State::New => one.stream = Some(self.program.stream(thread as usize)?),
            State::Blocked(wait, on) => {
                t = t.max(one.since);
                let ticks = t - one.since;
                one.blocked[wait as usize] += ticks;
                if let Some(waited) = &mut self.waited {
                    waited.entry((wait, on, thread)).or_default().add(Waited {
                        waits: 1,
                        ticks,
                        longest: ticks,
                    });
                }
            }
            _ => {}
        }
        (one.state, one.since, one.stamp) = (State::Waiting, t, self.joined);
        self.joined += 1;
        self.queue.push_back(thread);
        Ok(())
    }

    /// Orders the queue as a plan says. The last `ran` threads in it ran until now.
    pub(super) fn order(&mut self, order: Order, ran: usize) {
        let threads = &self.threads;
        let queue = self.queue.make_contiguous();
        match order {
            Order::Fifo => {}
            Order::ByNumber => queue.sort_unstable(),
            Order::Restored => queue.sort_unstable_by_key(|&one| threads[one as usize].stamp),
            Order::Kept => queue.rotate_right(ran),
        }
    }

    fn object(&mut self, object: u32) -> &mut Object {
        self.objects.entry(object).or_default()
    }

    /// Executes a sync of a running thread. Those that it makes ready stand in `woken`.
    pub(super) fn sync(&mut self, thread: u32, sync: Sync, t: u64) -> Effect {
        self.woken.clear();
        let blocked = match sync {
            Sync::Create(other) => {
                let new = self.threads.get(other as usize);
                if new.is_some_and(|other| other.state == State::New) {
                    self.woken.push(other);
                }
                None
            }
            Sync::Join(other) => {
                let ended = self.threads.get(other as usize);
                let ended = ended.is_none_or(|other| other.state == State::Ended);
                (!ended).then(|| {
                    self.joiners.entry(other).or_default().push(thread);
                    (Wait::Join, other)
                })
            }
            Sync::Lock(object) => self.take_lock(thread, object, false),
            Sync::Share(object) => self.take_lock(thread, object, true),
            Sync::Unlock(object) => {
                self.unlock(object);
                None
            }
            Sync::Barrier { object, parties } => {
                self.meet(thread, object, parties, |object| &mut object.arrived)
            }
            Sync::RegionBegin { id, threads } => {
                let regions = &mut self.threads[thread as usize].regions;
                regions.push(id);
                regions.push(threads);
                self.meet(thread, id, threads, |object| &mut object.arrived)
            }
            Sync::RegionEnd => {
                let regions = &mut self.threads[thread as usize].regions;
                match (regions.pop(), regions.pop()) {
                    (Some(threads), Some(id)) => {
                        self.meet(thread, id, threads, |object| &mut object.arrived_at_end)
                    }
                    _ => None,
                }
            }
            Sync::Wait { condition, lock } => {
                let object = self.object(condition);
                if object.signals > 0 {
                    object.signals -= 1;
                    None
                } else {
                    object.waiters.push_back((thread, lock));
                    self.unlock(lock);
                    self.waits += 1;
                    self.longest[0].insert(self.waits, (thread, condition));
                    Some((Wait::Condition, condition))
                }
            }
            Sync::Signal(condition) => {
                if !self.signal(condition) {
                    self.object(condition).signals += 1;
                }
                None
            }
            Sync::Broadcast(condition) => {
                while self.signal(condition) {}
                None
            }
            Sync::Post(semaphore) => {
                let object = self.object(semaphore);
                match object.takers.pop_front() {
                    None => object.value += 1,
                    Some(taker) => {
                        self.longest[1].retain(|_, &mut (one, _)| one != taker);
                        self.woken.push(taker);
                    }
                }
                None
            }
            Sync::Take(semaphore) => {
                let object = self.object(semaphore);
                if object.value > 0 {
                    object.value -= 1;
                    None
                } else {
                    object.takers.push_back(thread);
                    self.waits += 1;
                    self.longest[1].insert(self.waits, (thread, semaphore));
                    Some((Wait::Semaphore, semaphore))
                }
            }
            Sync::Exit => {
                self.woken
                    .extend(self.joiners.remove(&thread).unwrap_or_default());
                let one = &mut self.threads[thread as usize];
                (one.state, one.ended) = (State::Ended, t);
                (one.stream, one.events) = (None, Vec::new());
                self.left -= 1;
                return Effect::Ends;
            }
            Sync::LoopBegin(_) | Sync::Iteration { .. } | Sync::LoopEnd | Sync::Mark { .. } => None,
        };
        let Some((wait, on)) = blocked else {
            return Effect::GoesOn;
        };
        let one = &mut self.threads[thread as usize];
        (one.state, one.since) = (State::Blocked(wait, on), t);
        Effect::Blocks
    }

    fn take_lock(&mut self, thread: u32, object: u32, shared: bool) -> Option<(Wait, u32)> {
        let lock = self.object(object);
        if lock.queue.is_empty() && lock.try_take(shared) {
            return None;
        }
        lock.queue.push_back((thread, shared));
        Some((Wait::Lock, object))
    }

    fn unlock(&mut self, object: u32) {
        let lock = self.objects.entry(object).or_default();
        match lock.held {
            true => lock.held = false,
            false => lock.readers = lock.readers.saturating_sub(1),
        }
        while let Some(&(thread, shared)) = lock.queue.front() {
            if !lock.try_take(shared) {
                break;
            }
            lock.queue.pop_front();
            self.woken.push(thread);
        }
    }

    fn meet(
        &mut self,
        thread: u32,
        object: u32,
        parties: u32,
        side: impl Fn(&mut Object) -> &mut Vec<u32>,
    ) -> Option<(Wait, u32)> {
        let arrived = side(self.objects.entry(object).or_default());
        if arrived.len() + 1 >= parties as usize {
            self.woken.append(arrived);
            return None;
        }
        arrived.push(thread);
        Some((Wait::Barrier, object))
    }

    /// Wakes the thread that waits longest for a condition, if one does: it takes its lock or waits for it.
    fn signal(&mut self, condition: u32) -> bool {
        let Some((thread, lock)) = self.object(condition).waiters.pop_front() else {
            return false;
        };
        self.longest[0].retain(|_, &mut (one, _)| one != thread);
        if self.take_lock(thread, lock, false).is_none() {
            self.woken.push(thread);
        } else {
            // Its time counts as a wait for the condition until it is ready.
            self.threads[thread as usize].state = State::Blocked(Wait::Condition, condition);
        }
        true
    }

    /// Makes a thread go on although nothing says so, when no thread can run; it stands in `woken`, unless it now waits for its lock.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn force(&mut self) -> Result<(), SimError> {
        self.woken.clear();
        self.forced += 1;
        if let Some((&wait, &(_, condition))) = self.longest[0].first_key_value() {
            // The one that waits longest of all waits longest for its condition, too.
            self.longest[0].remove(&wait);
            self.signal(condition);
            return Ok(());
        }
        if let Some((_, (thread, semaphore))) = self.longest[1].pop_first() {
            self.object(semaphore).takers.retain(|&one| one != thread);
            self.woken.push(thread);
            return Ok(());
        }
        let new = |one: &Logical<'_>| one.state == State::New;
        if let Some(thread) = self.threads.iter().position(new) {
            self.woken.push(thread as u32);
            return Ok(());
        }
        let named = self.threads.iter().enumerate().filter_map(|(i, one)| {
            let State::Blocked(wait, on) = one.state else {
                return None;
            };
            Some(format!(
                "thread {i} for {} {on}",
                Wait::WORDS[wait as usize]
            ))
        });
        const NAMED: usize = 5;
        let more = if self.left > NAMED { ", ..." } else { "" };
        let waits = named.take(NAMED).collect::<Vec<_>>().join(", ") + more;
        Err(SimError::Deadlock { waits })
    }
}
