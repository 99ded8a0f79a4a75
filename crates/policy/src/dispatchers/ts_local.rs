//! `ts-local`: cache groups as [`ts`](crate::dispatchers::ts) has them, with the cells held by the workers that own the S groups, so that
//! no cache line moves from core to core for a task that stays where its data is.
//!
//! Each worker has a *seat*: for each T group two FIFOs, one of tasks of its S groups and one of tasks of S0, under a lock of its own;
//! and an inbox of one word for what other workers release, so that sending a task moves one line. The seat of a ready task is that of
//! its S group's worker; that of a task of S0 is the seat of the worker on which it became ready (outside any worker: of one worker after
//! the other). S group s >= 1 belongs at first to worker ((s - 1) mod 1024) mod workers.
//!
//! A worker remembers T', the T group that it is in (at first none), and all share the T' that was opened last. The rule, exact while
//! calls come one at a time:
//!
//! ```text
//!     own seat: take from T', its S groups before S0
//! 1   other seats, the nearest first: take from T', S0 before S groups; a task of an S group brings the group along: Sown += S'
//!     T' opened last, if it is another one: T' = that one; the same with it
//! 2   own seat, any T group but T0: T' = select(own seat); take from T' in own seat
//! 3   other seats, the nearest first: T' = select(that seat); take from T' in that seat
//! 4   own seat, then the other seats: take from T0, as above
//!     else halt
//! ```
//!
//! `select` returns the T group that has the seat's oldest task; of a seat and a T group the oldest task is taken. Before line 3 a worker
//! waits 64 pauses (about 1 us) for a task in its own seat. Without that wait a worker that is a step ahead of the others would open the
//! next T group too early. It waits inside the call and then takes what there is, so no task is left behind.
//!
//! Where it departs from the exact rule of `ts` (its *relaxations*):
//!
//! - **Age across workers.** Age orders the tasks of one seat. Of several seats the worker's own and then the nearest is asked.
//! - **One T' at a time.** A worker stays in its T group while it finds tasks of it, also after another worker opened the next one.
//! - **Lazy move.** When an S group is associated with another worker, tasks of it that are queued stay in the seat where they are, until
//!   that seat's worker or a thief takes them. S groups that are equal mod 1024 move together.
//! - **What was released goes first.** With several workers, a worker whose task releases tasks of the same T group and of its own seat
//!   runs the first of them (of its S groups, else of S0) at once, before older ones: its data is in the cache, and neighbours stay with
//!   one worker. In T0 it does so only while its seat has no task of another T group.
//!
//! - **Workers that are not active.** A task of an S group whose worker w is not active has its seat at worker w mod active workers. The
//!   group stays associated with w, so its tasks come back when w is active again.
//!
//! With one worker none of them applies: there it is `ts`, task for task.
//!
//! Cost: a task that is handed over costs a look at its hint and at its S group's owner; one that goes through the worker's own seat an
//! uncontended lock and O(log T groups in the seat); one that is sent a cache line. T and S may be any numbers.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use crate::{
    Access, Dispatcher, Env, Hints, Op, Origin, Placement, Ready, Site, Wake, Word, WorkerId,
};
use tanada_queues::sync::atomic::{
    AtomicBool, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
use tanada_queues::sync::{Mutex, MutexGuard, total_order};
use tanada_queues::{Padded, Slot};

/// S groups that are equal modulo this are associated with one worker.
const OWNERS: usize = 1024;

/// Owners in one cache line.
const OWNERS_A_LINE: usize = 32;

/// Returns the place of an owner: neighbouring S groups, which often move at the same time and belong to different workers, are not on one
/// cache line.
#[inline]
const fn owner_at(group: usize) -> usize {
    group % (OWNERS / OWNERS_A_LINE) * OWNERS_A_LINE + group / (OWNERS / OWNERS_A_LINE)
}

/// As many empty T groups, and half of all besides, may stay in a seat.
const MOST_EMPTY: usize = 64;

/// Pauses of an idle worker before it opens a T group of which it has no task itself.
const PATIENCE: u32 = 64;

/// The T group and the S group of a task: all that is read of its hint.
#[derive(Clone, Copy, Debug)]
struct Place {
    t: u32,
    s: u32,
}

impl Place {
    #[inline]
    fn of<E: Env>(env: &E, task: &Ready) -> Place {
        let Hints { t, s, .. } = env.hints(task);
        Place { t, s }
    }
}

/// The tasks of one T group in one seat, oldest first, with their ages.
#[derive(Debug, Default)]
struct Group {
    /// Of S groups; each with its S group.
    spatial: VecDeque<(u64, u32, Ready)>,
    /// Of S0.
    free: VecDeque<(u64, Ready)>,
}

impl Group {
    fn is_empty(&self) -> bool {
        self.spatial.is_empty() && self.free.is_empty()
    }

    /// Returns the age of the oldest task.
    fn oldest(&self) -> Option<u64> {
        let spatial = self.spatial.front().map(|&(age, ..)| age);
        let free = self.free.front().map(|&(age, _)| age);
        spatial.into_iter().chain(free).min()
    }

    /// Takes the oldest task, of S groups before S0 for the seat's own worker, S0 before S groups for others; returns it with its S group.
    #[inline]
    fn take(&mut self, by_owner: bool) -> Option<(u32, Ready)> {
        if !by_owner && let Some((_, task)) = self.free.pop_front() {
            return Some((0, task));
        }
        match self.spatial.pop_front() {
            Some((_, s, task)) => Some((s, task)),
            None => self.free.pop_front().map(|(_, task)| (0, task)),
        }
    }
}

/// What the lock of a seat protects.
#[derive(Debug, Default)]
struct Cells {
    /// The age of the next task that comes in.
    age: u64,
    /// The groups but T0. One that ran empty stays until `select` comes across it, or until too many have.
    groups: BTreeMap<u32, Group>,
    /// How many of `groups` are empty.
    empty: usize,
    /// Each of `groups` once, with an age that its oldest task has at least.
    order: BinaryHeap<Reverse<(u64, u32)>>,
    /// T0.
    exception: Group,
    load: Load,
    /// Groups for later use, kept for their storage.
    spare: Vec<Group>,
}

impl Cells {
    fn push(&mut self, task: Ready, Place { t, s }: Place) {
        let age = self.age;
        self.age += 1;
        let group = if t == 0 {
            &mut self.exception
        } else {
            match self.groups.entry(t) {
                Entry::Occupied(entry) => {
                    let group = entry.into_mut();
                    self.empty -= usize::from(group.is_empty());
                    group
                }
                Entry::Vacant(entry) => {
                    self.order.push(Reverse((age, t)));
                    entry.insert(self.spare.pop().unwrap_or_default())
                }
            }
        };
        if s == 0 {
            group.free.push_back((age, task));
        } else {
            group.spatial.push_back((age, s, task));
        }
        self.load.add(t);
    }

    #[inline]
    fn take(&mut self, t: u32, by_owner: bool) -> Option<(u32, Ready)> {
        let group = if t == 0 {
            &mut self.exception
        } else {
            self.groups.get_mut(&t)?
        };
        let taken = group.take(by_owner)?;
        self.load.remove(t);
        if t != 0 && group.is_empty() {
            self.empty += 1;
            if self.empty > MOST_EMPTY + self.groups.len() / 2 {
                self.drop_empty();
            }
        }
        Some(taken)
    }

    /// Forgets the groups that ran empty: workers that take all tasks from the T' of another worker never call `select` here.
    #[cold]
    fn drop_empty(&mut self) {
        self.groups.retain(|_, group| {
            let keep = !group.is_empty();
            if !keep {
                self.spare.push(std::mem::take(group));
            }
            keep
        });
        self.order
            .retain(|Reverse((_, t))| self.groups.contains_key(t));
        self.empty = 0;
    }

    /// Returns the T group but T0 that has the oldest task.
    fn select(&mut self) -> Option<u32> {
        if self.load.grouped == 0 {
            return None;
        }
        while let Some(mut first) = self.order.peek_mut() {
            let Reverse((age, t)) = *first;
            match self.groups.get(&t).and_then(Group::oldest) {
                Some(oldest) if oldest == age => return Some(t),
                Some(oldest) => *first = Reverse((oldest, t)),
                None => {
                    PeekMut::pop(first);
                    self.spare.extend(self.groups.remove(&t));
                    self.empty -= 1;
                }
            }
        }
        None
    }
}

/// How many tasks lie in a seat's cells.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    /// Of T0.
    exception: u32,
    /// Of all other T groups.
    grouped: u32,
}

impl Load {
    fn part(&mut self, t: u32) -> &mut u32 {
        if t == 0 {
            &mut self.exception
        } else {
            &mut self.grouped
        }
    }

    fn add(&mut self, t: u32) {
        *self.part(t) += 1;
    }

    fn remove(&mut self, t: u32) {
        *self.part(t) -= 1;
    }

    fn is_empty(self) -> bool {
        self.exception == 0 && self.grouped == 0
    }
}

/// What one worker holds and others can reach.
#[derive(Debug)]
struct Seat {
    /// Tasks of this worker's S groups that another worker released.
    inbox: Slot,
    /// `Cells::load`, readable without the lock. Written with the lock held; a task is counted here before it leaves the inbox.
    load: Padded<AtomicU64>,
    cells: Padded<Mutex<Cells>>,
}

impl Seat {
    fn new() -> Self {
        Seat {
            inbox: Slot::new(),
            load: Padded(AtomicU64::new(0)),
            cells: Padded(Mutex::new(Cells::default())),
        }
    }

    #[inline]
    fn load(&self) -> Load {
        total_order();
        let word = self.load.0.load(Ordering::SeqCst);
        Load {
            exception: word as u32,
            grouped: (word >> 32) as u32,
        }
    }

    /// Stores the load. The caller holds the lock.
    #[inline]
    fn publish(&self, load: Load) {
        let word = u64::from(load.grouped) << 32 | u64::from(load.exception);
        let before = self.load.0.load(Ordering::Relaxed);
        if before == 0 {
            // A worker that is about to sleep must not overlook this one: it turns "no task" into "a task". Any other change may become
            // visible late: a load that is too high only keeps a worker awake for one more search.
            self.load.0.store(word, Ordering::SeqCst);
            total_order();
        } else {
            self.load.0.store(word, Ordering::Release);
        }
    }

    /// Returns whether there is a task. Reads the inbox first, because tasks move from there to the cells.
    #[inline]
    fn has_task(&self) -> bool {
        !self.inbox.is_empty() || !self.load().is_empty()
    }

    /// Returns whether there is a task of a T group other than T0. Overlooks a task in the inbox whose T is a multiple of 2^16, because
    /// only the digest can be seen.
    #[inline]
    fn has_grouped(&self) -> bool {
        self.inbox.digest().is_some_and(|digest| digest != 0) || self.load().grouped > 0
    }

    /// Returns whether there is a task of a T group other than T0, or any in the inbox.
    #[inline]
    fn has_grouped_or_mail(&self) -> bool {
        !self.inbox.is_empty() || self.load().grouped > 0
    }

    /// Returns the same as [`Seat::has_grouped`], but overlooks no task: it collects one whose digest is 0.
    #[inline]
    fn surely_grouped<E: Env>(&self, env: &E) -> bool {
        if self.inbox.digest() == Some(0) {
            drop(self.open(env)); // T0, or another multiple of 2^16: the hints show which
        }
        self.has_grouped()
    }

    /// Returns whether there may be a task of T group `t`.
    #[inline]
    fn may_have(&self, t: u32) -> bool {
        let load = self.load();
        let queued = if t == 0 { load.exception } else { load.grouped };
        queued > 0 || self.inbox.digest() == Some(t as u16)
    }

    /// Takes the lock, moves the task in the inbox, if any, to the new end of its cell, and returns the lock's guard.
    #[inline]
    fn open<E: Env>(&self, env: &E) -> MutexGuard<'_, Cells> {
        let mut cells = self.cells.0.lock();
        if !self.inbox.is_empty() {
            self.collect(env, &mut cells);
        }
        cells
    }

    fn collect<E: Env>(&self, env: &E, cells: &mut Cells) {
        // The task is counted before it leaves the inbox: a worker that is about to sleep must see it in one of the two places.
        let mut load = cells.load;
        load.add(0);
        self.publish(load);
        if let Some(task) = self.inbox.take() {
            let place = Place::of(env, &task);
            cells.push(task, place);
        }
        self.publish(cells.load);
    }

    /// Takes the oldest task of T group `t` and returns it with its S group.
    fn take<E: Env>(&self, env: &E, t: u32, by_owner: bool) -> Option<(u32, Ready)> {
        let mut cells = self.open(env);
        let taken = cells.take(t, by_owner)?;
        self.publish(cells.load);
        Some(taken)
    }

    /// Takes the oldest task of the T group but T0 that has the oldest task, and returns it with that T group and its S group.
    fn select<E: Env>(&self, env: &E, by_owner: bool) -> Option<(u32, (u32, Ready))> {
        let mut cells = self.open(env);
        let t = cells.select()?;
        let taken = cells.take(t, by_owner)?;
        self.publish(cells.load);
        Some((t, taken))
    }
}

/// What one worker remembers.
#[derive(Debug, Default)]
pub struct Own {
    /// T', 0 while there is none.
    running: u32,
    /// The T group of the task that it took last.
    current: u32,
    /// Room for released tasks with their places.
    released: Vec<(Ready, Place)>,
}

/// The dispatcher `ts-local`.
#[derive(Debug)]
pub struct TsLocal {
    seats: Vec<Seat>,
    placement: Placement,
    /// The T' that was opened last, 0 while there is none. Read often, written once a T group.
    opened: Padded<AtomicU32>,
    /// The worker of each S group s, at [`owner_at`] (s - 1). Read often, written when a group moves.
    owners: Box<[AtomicU16]>,
    /// Whether a task of a T group other than T0 has ever become ready. Read often, written once.
    groups: Padded<AtomicBool>,
    /// How many tasks of S0 became ready outside any worker.
    injected: Padded<AtomicUsize>,
}

impl TsLocal {
    #[inline]
    fn owner_entry(&self, s: u32) -> &AtomicU16 {
        &self.owners[Self::owner_place(s)]
    }

    /// Returns the index in `owners` of the worker of S group `s`.
    #[inline]
    fn owner_place(s: u32) -> usize {
        owner_at((s - 1) as usize % OWNERS)
    }

    /// Reports that this worker reads which worker S group `s` belongs to.
    #[inline]
    fn reads_owner<E: Env>(s: u32, env: &mut E) {
        if s != 0 {
            env.charge(Op::Read(Word::Owner(Self::owner_place(s) as u16)));
        }
    }

    /// Reports that this worker looks whether the seat of `whose` has a task.
    #[inline]
    fn looks<E: Env>(whose: WorkerId, env: &mut E) {
        env.charge(Op::Read(Word::Inbox(whose)));
        env.charge(Op::Read(Word::Load(whose)));
    }

    /// Returns the worker at whose seat tasks of S group `s` are put.
    #[inline]
    fn home<E: Env>(&self, s: u32, env: &E) -> WorkerId {
        let owner = self.owner_entry(s).load(Ordering::Relaxed);
        // Nearly always the owner is the worker itself, which then need not ask how many are active.
        if owner == env.me().0 {
            return WorkerId(owner);
        }
        let active = env.active();
        WorkerId(if owner < active {
            owner
        } else {
            owner % active
        })
    }

    /// Returns whether a task of S group `s` that becomes ready on this worker has its seat there.
    #[inline]
    fn stays<E: Env>(&self, s: u32, env: &E) -> bool {
        s == 0 || self.home(s, env) == env.me()
    }

    #[inline]
    fn alone(&self) -> bool {
        self.seats.len() == 1
    }

    #[inline]
    fn seat(&self, worker: WorkerId) -> &Seat {
        &self.seats[worker.index()]
    }

    /// Notes that there are T groups, before the first task of one is queued.
    #[inline]
    fn note_groups(&self) {
        if !self.groups.0.load(Ordering::Relaxed) {
            self.groups.0.store(true, Ordering::SeqCst);
        }
    }

    /// Puts a task into its seat.
    fn put<E: Env>(&self, env: &mut E, task: Ready, place: Place) {
        let me = env.me();
        if place.t != 0 {
            self.note_groups();
        }
        if place.s == 0 {
            let seat = if me.is_worker() {
                me
            } else {
                let number = self.injected.0.fetch_add(1, Ordering::Relaxed);
                WorkerId((number % usize::from(env.active())) as u16)
            };
            return self.push(env, seat, task, place);
        }
        let owner = self.home(place.s, env);
        if owner == me {
            return self.push(env, me, task, place);
        }
        match self.seat(owner).inbox.put(task) {
            Ok(()) => {
                env.charge(Op::Mail(owner));
                env.charge(Op::Write(Word::Inbox(owner)));
                env.wake(Wake::This(owner));
                env.wake(Wake::Anyone);
            }
            Err(task) => self.push(env, owner, task, place),
        }
    }

    /// Puts a task into a seat's cells.
    fn push<E: Env>(&self, env: &mut E, to: WorkerId, task: Ready, place: Place) {
        let own = to == env.me();
        env.charge(Op::Seat(to, Access::Put));
        let seat = self.seat(to);
        let mut cells = seat.open(env);
        cells.push(task, place);
        seat.publish(cells.load);
        drop(cells);
        if !own {
            env.wake(Wake::This(to));
        }
        env.wake(Wake::Anyone);
    }

    /// Takes and returns a task of T group `t` from the worker's own seat.
    #[inline]
    fn take_own<E: Env>(&self, env: &mut E, t: u32) -> Option<(Ready, Origin)> {
        let seat = self.seat(env.me());
        Self::looks(env.me(), env);
        if !seat.may_have(t) {
            return None;
        }
        let (_, task) = seat.take(env, t, true)?;
        env.charge(Op::Seat(env.me(), Access::Take));
        Some((task, Origin::Own))
    }

    /// Takes and returns a task of T group `t` from another seat.
    fn steal<E: Env>(&self, env: &mut E, t: u32) -> Option<(Ready, Origin)> {
        let others = self.placement.by_distance(env.me());
        others.iter().find_map(|&victim| {
            let seat = self.seat(victim);
            Self::looks(victim, env);
            if !seat.may_have(t) {
                return None;
            }
            env.charge(Op::Seat(victim, Access::Take));
            let taken = seat.take(env, t, false)?;
            Some(self.associate(env, victim, taken))
        })
    }

    /// Returns the stolen task and its origin. Does Sown += S' if the task is of an S group.
    fn associate<E: Env>(
        &self,
        env: &mut E,
        victim: WorkerId,
        (s, task): (u32, Ready),
    ) -> (Ready, Origin) {
        if s != 0 {
            let me = env.me();
            let owner = self.owner_entry(s);
            Self::reads_owner(s, env);
            if owner.load(Ordering::Relaxed) != me.0 {
                owner.store(me.0, Ordering::Relaxed);
                env.charge(Op::Write(Word::Owner(Self::owner_place(s) as u16)));
            }
        }
        (task, Origin::Stolen(victim))
    }

    /// Returns a task in T' (line 1).
    #[inline]
    fn next_running<E: Env>(&self, own: &mut Own, env: &mut E) -> Option<(Ready, Origin)> {
        let mut t = own.running;
        if t != 0
            && let found @ Some(_) = self.take_own(env, t).or_else(|| self.steal(env, t))
        {
            return found;
        }
        env.charge(Op::Read(Word::Opened));
        t = self.opened.0.load(Ordering::Relaxed);
        if t == own.running {
            return None;
        }
        own.running = t;
        self.take_own(env, t).or_else(|| self.steal(env, t))
    }

    fn begin<E: Env>(&self, own: &mut Own, env: &mut E, t: u32) {
        own.running = t;
        env.charge(Op::Read(Word::Opened));
        if self.opened.0.load(Ordering::Relaxed) != t {
            self.opened.0.store(t, Ordering::Relaxed);
            env.charge(Op::Write(Word::Opened));
        }
    }

    /// Returns a task of the worker's own seat and makes its T group the running one (line 2).
    fn open_own<E: Env>(&self, own: &mut Own, env: &mut E) -> Option<(Ready, Origin)> {
        let seat = self.seat(env.me());
        Self::looks(env.me(), env);
        if !seat.has_grouped_or_mail() {
            return None;
        }
        let (t, (_, task)) = seat.select(env, true)?;
        self.begin(own, env, t);
        env.charge(Op::Seat(env.me(), Access::Take));
        Some((task, Origin::Own))
    }

    /// Returns a task of another seat and makes its T group the running one (line 3).
    fn open_others<E: Env>(&self, own: &mut Own, env: &mut E) -> Option<(Ready, Origin)> {
        let others = self.placement.by_distance(env.me());
        others.iter().find_map(|&victim| {
            let seat = self.seat(victim);
            Self::looks(victim, env);
            if !seat.has_grouped_or_mail() {
                return None;
            }
            env.charge(Op::Seat(victim, Access::Take));
            let (t, taken) = seat.select(env, false)?;
            self.begin(own, env, t);
            Some(self.associate(env, victim, taken))
        })
    }

    /// Pauses for up to [`PATIENCE`] pauses while other seats have tasks of T groups other than T0 and this worker's has none. Returns
    /// whether it has one now.
    fn patience<E: Env>(&self, env: &mut E) -> bool {
        let me = env.me();
        let seat = self.seat(me);
        let others = self.placement.by_distance(me);
        let tempted = others.iter().any(|&other| {
            Self::looks(other, env);
            self.seat(other).has_grouped()
        });
        tempted
            && (0..PATIENCE).any(|_| {
                env.pause();
                Self::looks(me, env);
                seat.has_grouped()
            })
    }

    fn find<E: Env>(&self, own: &mut Own, env: &mut E) -> Option<(u32, (Ready, Origin))> {
        if !self.groups.0.load(Ordering::SeqCst) {
            // Lines 1 to 3 would look into every seat, whose words their workers write at each task, and find nothing.
            let exception = self.take_own(env, 0).or_else(|| self.steal(env, 0));
            return exception.map(|found| (0, found));
        }
        let found = self
            .next_running(own, env)
            .or_else(|| self.open_own(own, env));
        if let Some(found) = found {
            return Some((own.running, found));
        }
        if self.patience(env) {
            let found = self
                .next_running(own, env)
                .or_else(|| self.open_own(own, env));
            if let Some(found) = found {
                return Some((own.running, found));
            }
        }
        if let Some(found) = self.open_others(own, env) {
            return Some((own.running, found));
        }
        let exception = self.take_own(env, 0).or_else(|| self.steal(env, 0));
        exception.map(|found| (0, found))
    }

    /// Returns the index of the released task that this worker runs at once, if any.
    #[inline]
    fn handed<E: Env>(&self, own: &Own, env: &E) -> Option<usize> {
        let t = own.current;
        let stays = |place: Place| self.stays(place.s, env);
        if t == 0 {
            let mut released = own.released.iter().map(|&(_, place)| place);
            // T0 comes last.
            if released.any(|place| place.t != 0 && stays(place))
                || self.seat(env.me()).surely_grouped(env)
            {
                return None;
            }
        }
        let find = |spatial: bool| {
            own.released
                .iter()
                .position(|&(_, place)| place.t == t && (place.s != 0) == spatial && stays(place))
        };
        find(true).or_else(|| find(false))
    }

    /// Returns what [`Dispatcher::turn`] returns, out of line, so that the loop in which nearly all tasks are handed over stays small. The
    /// origin comes apart from the task, so that both travel in registers.
    #[inline(never)]
    fn turn_out_of_line<E: Env>(
        &self,
        own: &mut Own,
        env: &mut E,
        released: &mut Vec<Ready>,
        origin: &mut Origin,
    ) -> Option<Ready> {
        let (task, from) = if released.is_empty() {
            self.next(own, env)?
        } else if self.alone() {
            self.turn_alone(own, env, released)?
        } else {
            self.turn_among_others(own, env, released)?
        };
        *origin = from;
        Some(task)
    }

    /// Returns what [`Dispatcher::turn`] returns to one of several workers.
    fn turn_among_others<E: Env>(
        &self,
        own: &mut Own,
        env: &mut E,
        released: &mut Vec<Ready>,
    ) -> Option<(Ready, Origin)> {
        own.released.extend(released.drain(..).map(|task| {
            let place = Place::of(env, &task);
            Self::reads_owner(place.s, env);
            (task, place)
        }));
        let handed = self.handed(own, env);
        let mut kept = None;
        for (at, (task, place)) in own.released.drain(..).enumerate() {
            if Some(at) == handed {
                kept = Some((task, Origin::Handed));
            } else {
                self.put(env, task, place);
            }
        }
        kept.or_else(|| self.next(own, env))
    }

    /// Returns what [`Dispatcher::turn`] returns to the only worker: exact, so a task is handed over if there is no other.
    fn turn_alone<E: Env>(
        &self,
        own: &mut Own,
        env: &mut E,
        released: &mut Vec<Ready>,
    ) -> Option<(Ready, Origin)> {
        let seat = self.seat(env.me());
        if released.len() == 1
            && !seat.has_task()
            && let Some(task) = released.pop()
        {
            own.current = env.hints(&task).t;
            if own.current != 0 {
                self.begin(own, env, own.current);
            }
            return Some((task, Origin::Handed));
        }
        let mut cells = seat.open(env);
        for task in released.drain(..) {
            let place = Place::of(env, &task);
            if place.t != 0 {
                self.note_groups();
            }
            cells.push(task, place);
            env.charge(Op::Seat(env.me(), Access::Put));
        }
        let in_running = own.running != 0;
        let taken = in_running
            .then(|| cells.take(own.running, true))
            .flatten()
            .or_else(|| {
                let t = cells.select()?;
                self.begin(own, env, t);
                cells.take(t, true)
            });
        own.current = if taken.is_some() { own.running } else { 0 };
        let taken = taken.or_else(|| cells.take(0, true));
        seat.publish(cells.load);
        drop(cells);
        taken.map(|(_, task)| (task, Origin::Own))
    }
}

impl Dispatcher for TsLocal {
    type Local = Own;

    const READS_GROUPS: bool = true;

    fn build(site: &Site<'_>) -> (Self, Vec<Self::Local>) {
        let workers = site.placement.workers();
        let shared = TsLocal {
            seats: site.placement.ids().map(|_| Seat::new()).collect(),
            placement: site.placement.clone(),
            opened: Padded(AtomicU32::new(0)),
            groups: Padded(AtomicBool::new(false)),
            // `owner_at` transposes a table of 32 by 32 places, so it is its own inverse.
            owners: (0..OWNERS)
                .map(|at| AtomicU16::new((owner_at(at) % usize::from(workers)) as u16))
                .collect(),
            injected: Padded(AtomicUsize::new(0)),
        };
        (
            shared,
            site.placement.ids().map(|_| Own::default()).collect(),
        )
    }

    fn inject<E: Env>(&self, env: &mut E, task: Ready) {
        let place = Place::of(env, &task);
        self.put(env, task, place);
    }

    #[inline]
    fn ready<E: Env>(&self, _own: &mut Own, env: &mut E, task: Ready) {
        self.inject(env, task);
    }

    #[inline]
    fn next<E: Env>(&self, own: &mut Own, env: &mut E) -> Option<(Ready, Origin)> {
        let (t, found) = self.find(own, env)?;
        own.current = t;
        Some(found)
    }

    #[inline]
    fn turn<E: Env>(
        &self,
        own: &mut Own,
        env: &mut E,
        released: &mut Vec<Ready>,
    ) -> Option<(Ready, Origin)> {
        if let [task] = released.as_slice() {
            let place = Place::of(env, task);
            Self::reads_owner(place.s, env);
            if place.t == 0 {
                Self::looks(env.me(), env);
            }
            let same_groups = place.t == own.current && self.stays(place.s, env);
            let others_wait = || self.seat(env.me()).has_grouped_or_mail();
            if same_groups && !self.alone() && (place.t != 0 || !others_wait()) {
                return released.pop().map(|task| (task, Origin::Handed));
            }
        }
        let mut origin = Origin::Handed;
        let task = self.turn_out_of_line(own, env, released, &mut origin)?;
        Some((task, origin))
    }

    fn may_have(&self, _worker: WorkerId) -> bool {
        self.seats.iter().any(Seat::has_task)
    }
}
