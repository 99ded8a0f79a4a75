//! The schedule: which of its threads has the turn.
//!
//! A schedule has *actors*: the workers of its pools, and each thread outside while it is in a call of a pool. One actor has the *turn*;
//! the others wait for it. What an actor does from one *point* to the next is a step: a point is every place at which it parks,
//! and those at
//! which the engine calls [`Actor::point`] (before a worker takes a task, between two tasks, after a body has registered or resolved a
//! task). At a point the schedule picks who has the turn next, among the actors that can go on: by random numbers of a seed, or as
//! decisions say that it follows. Which these actors are depends on what was done in turns only, so the same seed gives the same order.
//!
//! An actor that has to wait for anything but other actors (a thread to end, a message of another process) *steps aside*; when it is back
//! is a matter of chance. An actor that does so without the engine's knowledge, in a body, is found by `blocked.rs`.

use super::bell::Bell;
use super::decisions::{Decisions, Log, Start};
use crate::observer::TaskView;
use crate::process::Process;
use parking_lot::{Mutex, MutexGuard};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tanada_policy::{WorkerId, draw};

/// How a schedule picks.
#[derive(Clone, Debug)]
pub(super) enum Mode {
    /// All threads run as they like; only what they decide is kept.
    Free,
    /// By the random numbers of this seed.
    Seed(u64),
    /// As these say.
    Follow(Arc<Decisions>),
}

/// What an actor waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// The turn, or it has it.
    Turn,
    /// As `Turn`, and looks in vain unless another actor does something.
    Poll,
    /// To be unparked.
    Unpark,
    /// To be unparked, or for some time in which no other actor can do anything.
    Timeout,
    /// The end of all that the others can do.
    Quiet,
    /// Something that is no part of the schedule.
    Aside,
    /// As `Aside`, without the engine's knowledge: it has lost the turn.
    Lost,
    /// It is gone. The place may be used again.
    Gone,
}

struct Place {
    waits: Waits,
    /// Whether it was unparked while it did not park.
    token: bool,
    bell: Arc<Bell>,
    /// The pool and the worker.
    worker: Option<(u32, WorkerId)>,
    /// For messages: who it is if it is no worker.
    thread: String,
    /// Number of the thread in the system; 0 until it has come.
    system: i32,
    /// Whether it looks for a task.
    idle: bool,
    /// The task that it runs.
    task: Option<(&'static str, u64)>,
    /// Where its thread is an actor now, while it stands aside for another schedule.
    elsewhere: Option<Actor>,
}

pub(super) struct State {
    places: Vec<Place>,
    turn: Option<usize>,
    /// Number of times that the turn was given.
    steps: u64,
    pools: u32,
    /// Actors that are no workers.
    outside: usize,
    pub(super) log: Log,
    /// What was not as the seed or the decisions say.
    pub(super) departures: Vec<String>,
    /// Of a schedule that follows: the next decision.
    at: usize,
    /// Whether it follows no longer.
    strays: bool,
    /// The tasks that wait in the queues of followers, by pool, name and index.
    shelved: BTreeMap<(u32, &'static str, u64), usize>,
    /// Turns in a row that were given to actors that look for a task, while no task began.
    vain: usize,
}

/// A schedule.
pub(crate) struct Turns {
    home: Process,
    pub(super) mode: Mode,
    pub(super) state: Mutex<State>,
}

// A panic leaves nothing half done: no code of the user's is called under the lock.
impl UnwindSafe for Turns {}
impl RefUnwindSafe for Turns {}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.mode, f)
    }
}

/// One place in a schedule.
#[derive(Clone, Debug)]
pub(crate) struct Actor {
    turns: Arc<Turns>,
    me: usize,
}

thread_local! {
    /// What this thread is: in the last of these schedules, while it stands aside in the others.
    static ACTORS: RefCell<Vec<Actor>> = const { RefCell::new(Vec::new()) };
}

/// Whether this process or an ancestor has made a schedule. Most make none, and their threads need not look.
static SCHEDULES: AtomicBool = AtomicBool::new(false);

/// Returns what this thread is, if it is part of a schedule of this process.
#[inline]
pub(crate) fn actor() -> Option<Actor> {
    // A thread that is part of one has seen that it was made.
    match SCHEDULES.load(Ordering::Relaxed) {
        true => actor_of_schedule(),
        false => None,
    }
}

#[cold]
fn actor_of_schedule() -> Option<Actor> {
    let last = ACTORS.try_with(|actors| actors.borrow().last().cloned());
    last.ok().flatten().filter(|actor| actor.turns.is_ours())
}

impl Turns {
    pub(super) fn new(mode: Mode, log: Log) -> Arc<Self> {
        SCHEDULES.store(true, Ordering::Relaxed);
        let turns = Arc::new(Turns {
            home: Process::this(),
            mode,
            state: Mutex::new(State {
                places: Vec::new(),
                turn: None,
                steps: 0,
                pools: 0,
                outside: 0,
                log,
                departures: Vec::new(),
                at: 0,
                strays: false,
                shelved: BTreeMap::new(),
                vain: 0,
            }),
        });
        if turns.takes_turns() {
            super::blocked::watch(&turns);
        }
        turns
    }

    /// Returns whether this process made the schedule.
    pub(crate) fn is_ours(&self) -> bool {
        self.home.is_this()
    }

    /// Returns whether one actor at a time does something.
    pub(crate) fn takes_turns(&self) -> bool {
        !matches!(self.mode, Mode::Free)
    }

    /// Returns whether it follows decisions.
    pub(crate) fn follows(&self) -> bool {
        matches!(self.mode, Mode::Follow(_))
    }

    /// Counts a pool and returns its number.
    pub(crate) fn add_pool(&self) -> u32 {
        let mut state = self.state.lock();
        state.pools += 1;
        state.pools - 1
    }

    /// Returns the number of the pool that was counted last.
    pub(super) fn last_pool(&self) -> u32 {
        self.state.lock().pools.saturating_sub(1)
    }

    /// Adds and returns a worker, whose thread is going to [arrive](Actor::arrive).
    pub(crate) fn add_worker(self: &Arc<Self>, pool: u32, worker: WorkerId) -> Option<Actor> {
        let takes_turns = self.takes_turns();
        takes_turns.then(|| self.add(&mut self.state.lock(), Some((pool, worker)), String::new()))
    }

    fn add(
        self: &Arc<Self>,
        state: &mut State,
        worker: Option<(u32, WorkerId)>,
        thread: String,
    ) -> Actor {
        let place = Place {
            waits: Waits::Turn,
            token: false,
            bell: Arc::default(),
            worker,
            thread,
            system: 0,
            idle: worker.is_some(),
            task: None,
            elsewhere: None,
        };
        let free = state.places.iter().position(|p| p.waits == Waits::Gone);
        let me = free.unwrap_or(state.places.len());
        match free {
            Some(me) => state.places[me] = place,
            None => state.places.push(place),
        }
        Actor {
            turns: Arc::clone(self),
            me,
        }
    }

    /// Makes this thread part of the schedule until the value is dropped, unless it is already.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Entered> {
        if !self.takes_turns() || !self.is_ours() {
            return None;
        }
        let before = actor();
        if (before.as_ref()).is_some_and(|actor| Arc::ptr_eq(&actor.turns, self)) {
            return None;
        }
        let name = std::thread::current().name().unwrap_or("?").to_owned();
        let mut state = self.state.lock();
        state.outside += 1;
        let actor = self.add(&mut state, None, format!("thread {name}"));
        drop(state);
        if let Some(before) = &before {
            before.step_aside(Some(actor.clone()));
        }
        actor.come();
        Some(Entered { actor, before })
    }

    /// Notes something that is not as the seed or the decisions say, and reports it.
    pub(super) fn departs(&self, state: &mut State, what: String) {
        crate::process::report(format_args!("{self}: {what}"));
        state.log.note(&what);
        state.departures.push(what);
    }

    /// Gives the turn, which nobody has, to an actor that can go on.
    fn hand_on(&self, state: &mut State) {
        debug_assert!(state.turn.is_none());
        let next = match &self.mode {
            Mode::Follow(decisions) if !state.strays => self.follow(state, decisions),
            Mode::Follow(_) => state.pick(0),
            Mode::Seed(seed) => state.pick(*seed),
            Mode::Free => None,
        };
        let next = next.or_else(|| state.first(|place| place.waits == Waits::Quiet));
        if let Some(next) = next {
            state.steps += 1;
            state.turn = Some(next);
            state.places[next].bell.ring();
        }
    }

    /// Picks the actor that brings the schedule nearer to the next decision.
    fn follow(&self, state: &mut State, decisions: &Decisions) -> Option<usize> {
        let Some(wanted) = decisions.starts().get(state.at) else {
            return state.pick(0);
        };
        let can_go = |place: &Place| matches!(place.waits, Waits::Turn | Waits::Poll);
        let whose = Some((wanted.pool, wanted.worker));
        let its = state.first(|place| place.worker == whose && can_go(place));
        let is_there = state.shelved.keys().any(|(pool, name, index)| {
            (*pool, *name, *index) == (wanted.pool, wanted.name.as_ref(), wanted.index)
        });
        let busy = |place: &Place| place.waits == Waits::Turn && !place.idle;
        let of_use = its.filter(|&its| is_there || busy(&state.places[its]));
        if let Some(next) = of_use.or_else(|| state.one_of(busy)) {
            // One that looks for the task, and does not take it, would be asked without end.
            state.vain += usize::from(!busy(&state.places[next]));
            if state.vain <= VAIN * (state.places.len() + 1) {
                return Some(next);
            }
        }
        state.vain += 1;
        if state.vain > VAIN * (state.places.len() + 1) {
            let shelved = state.shelved.keys();
            let names =
                shelved.map(|(pool, name, index)| format!("{name}[{index}] of pool {pool}"));
            let there = crate::TaskNames::collect(names);
            let what = format!(
                "diverged at decision {}: it is to start {wanted}, but {}; from here on the order is another one",
                state.at + 1,
                match (is_there, there.total()) {
                    (true, _) => "that worker does not come to take it".to_owned(),
                    (false, 0) => "no task is ready".to_owned(),
                    (false, _) => format!("ready are {there}"),
                }
            );
            state.strays = true;
            self.departs(state, what);
            return state.pick(0);
        }
        // Those that look for a task may have something else to do: a call to answer, a ticket of a nested graph.
        state.one_of(can_go)
    }

    /// A task starts on a worker.
    pub(crate) fn starts(&self, pool: u32, worker: WorkerId, task: &TaskView) {
        let mut state = self.state.lock();
        let start = Start {
            pool,
            worker,
            name: task.name.into(),
            index: task.index,
        };
        if let Mode::Follow(decisions) = &self.mode
            && decisions.starts().get(state.at) == Some(&start)
        {
            state.at += 1;
            state.vain = 0;
        }
        if let Some(actor) = actor()
            && std::ptr::eq(&*actor.turns, self)
        {
            state.places[actor.me].task = Some((task.name, task.index));
        }
        state.log.add(start);
    }

    /// Returns whether `worker` may take this task now: always, unless other decisions are followed.
    pub(super) fn may_start(&self, pool: u32, worker: WorkerId, task: &TaskView) -> bool {
        let state = self.state.lock();
        let Mode::Follow(decisions) = &self.mode else {
            return true;
        };
        match decisions.starts().get(state.at) {
            Some(wanted) if !state.strays => {
                (wanted.pool, wanted.worker) == (pool, worker)
                    && (&*wanted.name, wanted.index) == (task.name, task.index)
            }
            _ => true,
        }
    }

    /// A task came into the queue of a follower (`more`), or was taken out of it.
    pub(super) fn shelve(&self, pool: u32, task: &TaskView, more: bool) {
        let mut state = self.state.lock();
        state.vain = 0;
        let key = (pool, task.name, task.index);
        if more {
            *state.shelved.entry(key).or_default() += 1;
        } else if let Some(number) = state.shelved.get_mut(&key) {
            *number -= 1;
            if *number == 0 {
                state.shelved.remove(&key);
            }
        }
    }

    /// Returns the actor that has the turn: its place, the number of the step, its thread's number in the system and what it is called.
    pub(super) fn holder(&self) -> Option<(usize, u64, i32)> {
        let state = self.state.lock();
        let me = state.turn?;
        Some((me, state.steps, state.places[me].system))
    }

    /// Calls `what` with the name of the actor `me` if it has had the turn since `step`; the others go on without it if `lost`.
    pub(super) fn is_stuck(
        &self,
        me: usize,
        step: u64,
        lost: bool,
        what: impl FnOnce(&str) -> String,
    ) {
        let mut state = self.state.lock();
        if state.turn != Some(me) || state.steps != step {
            return;
        }
        let text = what(&state.places[me].name());
        if lost {
            self.departs(&mut state, text);
            state.places[me].waits = Waits::Lost;
            state.turn = None;
            self.hand_on(&mut state);
        } else {
            crate::process::report(format_args!("{self}: {text}"));
        }
    }

    /// Waits, as an actor, until no actor of `pool` is left.
    pub(crate) fn wait_for_end_of(&self, pool: u32) {
        let Some(actor) = actor() else { return };
        let of_pool = |place: &Place| {
            place.waits != Waits::Gone && place.worker.is_some_and(|(of, _)| of == pool)
        };
        while self.state.lock().first(of_pool).is_some() {
            actor.poll();
        }
    }
}

/// Turns for each actor that looks for a task in vain until a schedule has diverged.
const VAIN: usize = 16;

impl fmt::Display for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.mode {
            Mode::Free => f.write_str("free run"),
            Mode::Seed(seed) => write!(f, "replay of seed {seed}"),
            Mode::Follow(_) => f.write_str("replay of decisions"),
        }
    }
}

impl Place {
    fn name(&self) -> String {
        let who = match self.worker {
            Some((pool, worker)) => format!("worker {} of pool {pool}", worker.0),
            None => self.thread.clone(),
        };
        match (self.task, self.idle) {
            (Some((name, index)), false) => format!("task {name}[{index}] on {who}"),
            _ => who,
        }
    }
}

impl State {
    fn first(&self, of: impl Fn(&Place) -> bool) -> Option<usize> {
        self.places.iter().position(of)
    }

    /// Returns one of these actors, another one at each step.
    fn one_of(&self, of: impl Fn(&Place) -> bool) -> Option<usize> {
        let number = self.places.iter().filter(|place| of(place)).count() as u64;
        let chosen = self.steps.checked_rem(number)?;
        let mut able = (0..self.places.len()).filter(|&me| of(&self.places[me]));
        able.nth(chosen as usize)
    }

    /// Picks one of the actors that can go on.
    fn pick(&self, seed: u64) -> Option<usize> {
        let can_go = |place: &&Place| matches!(place.waits, Waits::Turn | Waits::Poll);
        let number = self.places.iter().filter(can_go).count() as u64;
        let chosen = draw(seed, WorkerId::NONE, self.steps).checked_rem(number)?;
        let mut able = (0..self.places.len()).filter(|&me| can_go(&&self.places[me]));
        able.nth(chosen as usize)
    }
}

impl Actor {
    /// Returns the schedule.
    pub(super) fn turns(&self) -> Arc<Turns> {
        Arc::clone(&self.turns)
    }

    /// Waits until this actor has the turn, whatever it waits for.
    fn wait(&self, state: &mut MutexGuard<'_, State>, most: Option<Duration>) {
        let bell = Arc::clone(&state.places[self.me].bell);
        let mut until = most.map(|most| Instant::now() + most);
        while state.turn != Some(self.me) && self.turns.is_ours() {
            if !bell.wait(state, until) {
                let place = &mut state.places[self.me];
                if place.waits != Waits::Timeout {
                    until = None;
                } else if state.turn.is_none() {
                    state.places[self.me].waits = Waits::Turn;
                    self.turns.hand_on(state);
                } else {
                    until = most.map(|most| Instant::now() + most);
                }
            }
        }
        let place = &mut state.places[self.me];
        place.waits = Waits::Turn;
    }

    /// Takes the turn back if this actor has lost it.
    fn recover(&self, state: &mut MutexGuard<'_, State>) {
        if state.turn != Some(self.me) {
            state.places[self.me].waits = Waits::Turn;
            if state.turn.is_none() {
                self.turns.hand_on(state);
            }
            self.wait(state, None);
        }
    }

    /// Gives the turn back, and waits for what `waits` says and for the turn.
    fn give(&self, state: &mut MutexGuard<'_, State>, waits: Waits, most: Option<Duration>) {
        state.turn = None;
        state.places[self.me].waits = waits;
        self.turns.hand_on(state);
        self.wait(state, most);
    }

    /// This thread becomes the actor.
    fn come(&self) {
        ACTORS.with_borrow_mut(|actors| actors.push(self.clone()));
        let mut state = self.turns.state.lock();
        state.places[self.me].system = rustix::thread::gettid().as_raw_nonzero().get();
        self.recover(&mut state);
    }

    /// The worker's thread has begun. Returns with the turn; when the result is dropped, the worker is gone.
    pub(crate) fn arrive(self) -> Arrived {
        self.come();
        Arrived(self)
    }

    /// The worker's thread does not come.
    pub(crate) fn forget(&self) {
        self.turns.state.lock().places[self.me].waits = Waits::Gone;
    }

    fn go(&self) {
        let _ = ACTORS.try_with(|actors| actors.borrow_mut().pop());
        if !self.turns.is_ours() {
            return;
        }
        let mut state = self.turns.state.lock();
        state.places[self.me].waits = Waits::Gone;
        if state.turn == Some(self.me) {
            state.turn = None;
        }
        if state.turn.is_none() {
            self.turns.hand_on(&mut state);
        }
    }

    /// A point: another actor may have the turn now.
    pub(crate) fn point(&self) {
        let mut state = self.turns.state.lock();
        self.recover(&mut state);
        self.give(&mut state, Waits::Turn, None);
    }

    /// A point of a worker that looks for a task, or has found one.
    pub(crate) fn point_idle(&self, idle: bool) {
        let mut state = self.turns.state.lock();
        self.recover(&mut state);
        state.places[self.me].idle = idle;
        self.give(&mut state, Waits::Turn, None);
    }

    /// Says whether this worker looks for a task.
    pub(crate) fn set_idle(&self, idle: bool) {
        self.turns.state.lock().places[self.me].idle = idle;
    }

    /// A point of a thread that waits for something and looks for it again and again.
    pub(crate) fn poll(&self) {
        /// The time between two looks if nobody in the schedule can do what is waited for.
        const PAUSE: Duration = Duration::from_millis(1);
        let mut state = self.turns.state.lock();
        self.recover(&mut state);
        self.give(&mut state, Waits::Poll, None);
        let me = self.me;
        let others = |(other, place): (usize, &Place)| other != me && place.waits == Waits::Turn;
        if !state.places.iter().enumerate().any(others) {
            drop(state);
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until this actor is unparked; or, if it is said how long at most, until nobody could do anything for that time.
    pub(crate) fn park(&self, most: Option<Duration>) {
        let mut state = self.turns.state.lock();
        self.recover(&mut state);
        if std::mem::take(&mut state.places[self.me].token) {
            return;
        }
        match most {
            // Which decision is next, and whose, changes without anybody being unparked.
            Some(_) if self.turns.follows() => {
                drop(state);
                self.poll();
            }
            Some(_) => self.give(&mut state, Waits::Timeout, most),
            None => self.give(&mut state, Waits::Unpark, None),
        }
    }

    /// Lets this actor go on that parks, or that parks next. Any thread may call this.
    pub(crate) fn unpark(&self) {
        if !self.turns.is_ours() {
            return;
        }
        let mut state = self.turns.state.lock();
        let place = &mut state.places[self.me];
        match place.waits {
            Waits::Unpark | Waits::Timeout => {
                place.waits = Waits::Turn;
                if state.turn.is_none() {
                    self.turns.hand_on(&mut state);
                }
            }
            _ => {
                place.token = true;
                if let Some(elsewhere) = place.elsewhere.clone() {
                    drop(state);
                    elsewhere.unpark();
                }
            }
        }
    }

    /// Gives the turn back until [`Actor::come_back`].
    fn step_aside(&self, elsewhere: Option<Actor>) {
        let mut state = self.turns.state.lock();
        let place = &mut state.places[self.me];
        (place.waits, place.elsewhere) = (Waits::Aside, elsewhere);
        if state.turn == Some(self.me) {
            state.turn = None;
            self.turns.hand_on(&mut state);
        }
    }

    fn come_back(&self) {
        let mut state = self.turns.state.lock();
        state.places[self.me].elsewhere = None;
        self.recover(&mut state);
    }
}

/// A worker that has its turns until this is dropped.
pub(crate) struct Arrived(Actor);

impl Drop for Arrived {
    fn drop(&mut self) {
        self.0.go();
    }
}

/// A thread outside that is part of a schedule until this is dropped.
pub(crate) struct Entered {
    actor: Actor,
    /// What the thread was before.
    before: Option<Actor>,
}

impl Drop for Entered {
    /// Lets the workers do all that they have to do before this thread goes, unless there are other threads outside: what follows in this
    /// thread's program then comes behind that. It would be a matter of chance otherwise.
    fn drop(&mut self) {
        let turns = &self.actor.turns;
        if turns.is_ours() {
            let mut state = turns.state.lock();
            self.actor.recover(&mut state);
            if state.outside == 1 {
                self.actor.give(&mut state, Waits::Quiet, None);
            }
            state.outside -= 1;
        }
        self.actor.go();
        if let Some(before) = self.before.take()
            && before.turns.is_ours()
        {
            before.come_back();
        }
    }
}
