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
    /// How many waits had begun before its last one: the least of those that wait waits longest.
    wait: u64,
    /// Locks that it holds.
    holds: u32,
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
            wait: 0,
            holds: 0,
            instructions: 0,
            stack_accesses: 0,
            queued: 0,
            blocked: [0; WAITS],
            ended: 0,
            regions: Vec::new(),
        }
    }

    /// Reads the next events. Returns whether there are any.
    ///
    /// # Errors
    /// If the stream cannot be read.
    #[cold]
    pub(super) fn refill(&mut self) -> Result<bool, TraceError> {
        if let Some(stream) = &mut self.stream {
            self.at = 0;
            stream.fill(&mut self.events)?;
        }
        Ok(self.at < self.events.len())
    }
}

/// A mutex, condition variable, semaphore or barrier: which of these depends on its use.
#[derive(Debug, Default)]
struct Object {
    /// Those that hold it, and whether they share it.
    holders: Vec<(u32, bool)>,
    /// Those that wait for it, and whether they would share it.
    queue: VecDeque<(u32, bool)>,
    /// Those that wait for a signal, in the order of their waiting.
    waiters: Vec<Waiter>,
    signals: u64,
    /// What the last wait without a number needs.
    uncounted: u64,
    value: u64,
    takers: VecDeque<u32>,
    arrived: Vec<u32>,
    arrived_at_end: Vec<u32>,
}

/// A thread that waits for a condition.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    thread: u32,
    lock: u32,
    /// The number of signals that end the wait.
    signals: u64,
}

impl Object {
    /// Returns whether a thread could hold it beside those that do.
    fn is_free(&self, shared: bool) -> bool {
        self.holders.iter().all(|&(_, other)| other && shared)
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
    /// Waits that have begun.
    waits: u64,
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
                self.unlock(thread, object);
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
            Sync::Wait {
                condition,
                lock,
                signals,
            } => {
                let object = self.object(condition);
                let signals = signals.map_or_else(
                    || {
                        object.uncounted += 1;
                        object.uncounted
                    },
                    u64::from,
                );
                if object.signals >= signals {
                    None
                } else {
                    object.waiters.push(Waiter {
                        thread,
                        lock,
                        signals,
                    });
                    self.unlock(thread, lock);
                    Some((Wait::Condition, condition))
                }
            }
            Sync::Signal(condition) => {
                self.signalled(condition, 0);
                None
            }
            Sync::Broadcast(condition) => {
                let all = self.object(condition).uncounted;
                self.signalled(condition, all);
                None
            }
            Sync::Post(semaphore) => {
                let object = self.object(semaphore);
                match object.takers.pop_front() {
                    None => object.value += 1,
                    Some(taker) => self.woken.push(taker),
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
                    Some((Wait::Semaphore, semaphore))
                }
            }
            Sync::Exit => {
                self.release_all(thread);
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
        self.count_wait(thread);
        Effect::Blocks
    }

    fn count_wait(&mut self, thread: u32) {
        self.threads[thread as usize].wait = self.waits;
        self.waits += 1;
    }

    fn take_lock(&mut self, thread: u32, object: u32, shared: bool) -> Option<(Wait, u32)> {
        let lock = self.object(object);
        let again = shared && lock.holders.contains(&(thread, true));
        if again || lock.queue.is_empty() && lock.is_free(shared) {
            self.hold(thread, object, shared);
            return None;
        }
        lock.queue.push_back((thread, shared));
        Some((Wait::Lock, object))
    }

    fn hold(&mut self, thread: u32, object: u32, shared: bool) {
        self.object(object).holders.push((thread, shared));
        self.threads[thread as usize].holds += 1;
    }

    /// Releases what `thread` holds of a lock; if that is nothing, what was taken first, as if that thread had handed it over.
    fn unlock(&mut self, thread: u32, object: u32) {
        let holders = &mut self.object(object).holders;
        let own = holders.iter().position(|&(holder, _)| holder == thread);
        if !holders.is_empty() {
            let (holder, _) = holders.remove(own.unwrap_or(0));
            self.threads[holder as usize].holds -= 1;
        }
        self.hand_over(object);
    }

    /// Lets those that wait for a lock have it, while the first of them can.
    fn hand_over(&mut self, object: u32) {
        while let lock = self.object(object)
            && let Some(&(thread, shared)) = lock.queue.front()
            && lock.is_free(shared)
        {
            lock.queue.pop_front();
            self.hold(thread, object, shared);
            self.woken.push(thread);
        }
    }

    /// Releases what a thread holds when it ends.
    fn release_all(&mut self, thread: u32) {
        if self.threads[thread as usize].holds == 0 {
            return;
        }
        let held = |object: &Object| object.holders.iter().any(|&(holder, _)| holder == thread);
        let objects = self.objects.iter().filter(|(_, object)| held(object));
        let objects: Vec<u32> = objects.map(|(&number, _)| number).collect();
        for object in objects {
            while held(self.object(object)) {
                self.unlock(thread, object);
            }
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

    /// Adds a signal to those of a condition, or as many as make it `least`. Those whose wait ends take their lock or wait for it.
    fn signalled(&mut self, condition: u32, least: u64) {
        let object = self.object(condition);
        object.signals = least.max(object.signals.saturating_add(1));
        let reached = object.signals;
        let (ended, left) = std::mem::take(&mut object.waiters)
            .into_iter()
            .partition(|waiter| waiter.signals <= reached);
        object.waiters = left;
        let ended: Vec<Waiter> = ended;
        for Waiter { thread, lock, .. } in ended {
            if self.take_lock(thread, lock, false).is_none() {
                self.woken.push(thread);
            } else {
                // Its state stays, so that its time counts as a wait for the condition until it is ready.
                self.count_wait(thread);
            }
        }
    }

    /// Makes a thread go on although nothing says so, when no thread can run; it stands in `woken`, unless it now waits for its lock.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn force(&mut self) -> Result<(), SimError> {
        self.woken.clear();
        self.forced += 1;
        if let Some(object) = self.longest(|one| Some(one.queue.front()?.0)) {
            if let Some((thread, shared)) = self.object(object).queue.pop_front() {
                self.hold(thread, object, shared);
                self.woken.push(thread);
            }
            self.hand_over(object);
            return Ok(());
        }
        if let Some(object) = self.longest(|one| one.takers.front().copied()) {
            let taker = self.object(object).takers.pop_front();
            self.woken.extend(taker);
            return Ok(());
        }
        if let Some(object) = self.longest(|one| Some(one.waiters.first()?.thread)) {
            let needed = self.object(object).waiters.first().map(|one| one.signals);
            self.signalled(object, needed.unwrap_or(0));
            return Ok(());
        }
        let new = |one: &Logical<'_>| one.state == State::New;
        if let Some(thread) = self.threads.iter().position(new) {
            self.woken.push(thread as u32);
            return Ok(());
        }
        for side in [
            (|one| &mut one.arrived) as fn(&mut Object) -> &mut Vec<u32>,
            |one| &mut one.arrived_at_end,
        ] {
            let mut there = self.objects.values_mut().map(side);
            if let Some(there) = there.find(|there| !there.is_empty()) {
                self.woken.append(there);
                return Ok(());
            }
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

    /// Returns the object whose thread, as `of` names it, waits longest.
    fn longest(&self, of: impl Fn(&Object) -> Option<u32>) -> Option<u32> {
        let since = |(&number, object)| {
            let thread = of(object)?;
            Some((self.threads[thread as usize].wait, number))
        };
        let least = self.objects.iter().filter_map(since).min();
        least.map(|(_, number)| number)
    }
}
