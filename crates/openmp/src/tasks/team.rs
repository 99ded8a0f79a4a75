//! A team: the threads of one parallel region, as the workers of a dispatcher.
//!
//! **Counting.** Each thread counts what it put into queues and what it ended (`count`). Children are counted likewise: by their parent's
//! thread without atomics if they end there, by one atomic addition if they end elsewhere ([`Task::state`]).
//!
//! **Waiting.** At a barrier a thread takes any task. In a task that waits it takes only descendants of that task, as the standard
//! demands of tied tasks; what the policy gives and the thread may not take goes to a list of the team ([`Side`]), which all threads
//! look at. A thread that finds nothing spins, then yields its processor, then sleeps.

use std::cell::{Cell, UnsafeCell};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use tanada_policy::Ready;

use crate::abi::runtime;
use crate::abi::settings::Settings;

use super::count::{self, Counts};
use super::depend::{self, Edges, Kind, Table};
use super::engine::{self, Queues, descends, right, task_of};
use super::lock::Lock;
use super::marks;
use super::memory::{Pool, prefetch};
use super::sleep::{For, Sleep};
use super::sync::Line;
use super::task::{BODY, FULFILLED, Gomp, Kmp, KmpData, NOBODY, RETURNED, Task, ZOMBIE, flags};

/// Tasks in a thread's queue from which on it runs new ones at once instead of queueing them: those that a region's thread creates itself,
/// of which one may be long while the others wait for tasks; and those that tasks create (more if there are many threads), of which the
/// oldest in the queue is a whole branch of a recursion.
const FULL: i32 = 64;
const FULL_BELOW: i32 = 4;

/// Open children with dependences from which on their creator helps before it creates more: as many as the second level of a cache has
/// room for. If their bodies are long, their own memory costs little, and a policy that sees more of the graph keeps data in
/// the caches: a step of a factorisation has thousands of tasks, and each of the next step works on what one of these has written. Then
/// the number is doubled, up to the larger one.
const MANY: u32 = 3072;
const MOST: u32 = 1 << 18;

/// How long a body is at least for that; below half of it the number is halved.
const LONG: Duration = Duration::from_nanos(1_500);

/// Bytes of stack that may be in use when a new task is run at once.
const STACK: usize = 192 << 10;

/// Tasks that a thread got and may not run now, in the order in which they came.
#[derive(Default)]
pub(super) struct Side {
    length: AtomicUsize,
    /// How often tasks were put in.
    puts: AtomicU64,
    tasks: Lock<VecDeque<Ready>>,
}

impl Side {
    #[cold]
    fn put(&self, refused: &mut Vec<Ready>) {
        self.tasks.with(|tasks| {
            tasks.extend(refused.drain(..));
            self.length.store(tasks.len(), Ordering::SeqCst);
        });
        self.puts.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the newest that descends from `of`.
    #[cold]
    fn take_below(&self, of: *const Task) -> Option<Ready> {
        self.tasks.with(|tasks| {
            // SAFETY: `of` is there because it waits, the tasks because they have not run.
            let at = tasks
                .iter()
                .rposition(|task| unsafe { descends(task_of(task), of) })?;
            let task = tasks.remove(at);
            self.length.store(tasks.len(), Ordering::SeqCst);
            task
        })
    }

    /// Returns the oldest.
    #[cold]
    fn take(&self) -> Option<Ready> {
        self.tasks.with(|tasks| {
            let task = tasks.pop_front();
            self.length.store(tasks.len(), Ordering::SeqCst);
            task
        })
    }

    fn is_empty(&self) -> bool {
        self.length.load(Ordering::SeqCst) == 0
    }
}

/// Ready tasks with a priority, the most urgent first and of equal ones the oldest. Whatever the policy, they are taken before all others.
#[derive(Default)]
struct Urgent {
    length: AtomicUsize,
    /// The number of the last task; tasks by how far their priority is below the largest, and their number.
    tasks: Lock<(u64, Places)>,
}

type Places = BTreeMap<(i64, u64), Ready>;

/// What the first thread of a work-sharing construct with reductions of tasks made for all. There may be several: constructs that have no
/// barrier at their beginning may lie within each other.
struct Share {
    /// Such constructs in the region so far.
    turn: u64,
    made: usize,
    /// Threads that came to it.
    came: usize,
}

impl Urgent {
    #[cold]
    fn put(&self, priority: i32, task: Ready) {
        self.tasks.with(|(last, tasks)| {
            *last += 1;
            tasks.insert((-i64::from(priority), *last), task);
            self.length.store(tasks.len(), Ordering::SeqCst);
        });
    }

    /// Returns the first, of those that descend from `of` if that is not null.
    #[cold]
    fn take(&self, of: *const Task) -> Option<Ready> {
        self.tasks.with(|(_, tasks)| {
            // SAFETY: `of` is there because it waits, the tasks because they have not run.
            let mut fits = tasks
                .iter()
                .filter(|(_, task)| of.is_null() || unsafe { descends(task_of(task), of) });
            let place = *fits.next()?.0;
            let task = tasks.remove(&place);
            self.length.store(tasks.len(), Ordering::SeqCst);
            task
        })
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.length.load(Ordering::Relaxed) == 0
    }
}

/// A team. Kept for later regions of the same size.
pub(crate) struct Team {
    queues: Box<dyn Queues>,
    members: Box<[Member]>,
    /// How often the barrier opened (high half), and how many threads are in it.
    barrier: Line<AtomicU64>,
    /// The same of the end of the region, to which threads come once, from wherever they are when the region is cancelled.
    last: Line<AtomicU64>,
    /// Detached tasks that threads outside of the team ended.
    ended_outside: Line<AtomicU64>,
    sleep: Sleep,
    side: Side,
    urgent: Urgent,
    /// Whether a group or the region may have been cancelled.
    pub(crate) cancels: AtomicBool,
    pub(crate) cancelled: AtomicBool,
    /// What the thread in a `single` construct hands to the others.
    pub(crate) copied: AtomicPtr<c_void>,
    /// Work-sharing constructs with reductions of tasks to which some threads have come and others have not.
    shares: Mutex<Vec<Share>>,
    /// For a thread of the program, outside of regions.
    outside: bool,
    /// [`FULL`], and [`MANY`] and [`MOST`], or more than any number of tasks if the user wants none to run at its creation.
    full: [i32; 2],
    many: [u32; 2],
}

/// A thread of a team.
#[repr(align(128))]
pub(crate) struct Member {
    team: *const Team,
    pub(crate) index: u16,
    pub(crate) number: Cell<c_int>,
    current: Cell<*const Task>,
    /// The innermost group of `current`, or `current`.
    scope: Cell<*const Task>,
    /// Tasks that it put into queues less those that it took out of its own.
    queued: Cell<u32>,
    /// Where its stack was when it joined.
    stack: Cell<usize>,
    /// Whether it has called [`Member::share_out`] in this region.
    shared_out: Cell<bool>,
    pool: UnsafeCell<Pool>,
    released: UnsafeCell<Vec<Ready>>,
    refused: UnsafeCell<Vec<Ready>>,
    tables: UnsafeCell<Vec<*mut Table>>,
    /// What tasks that changed the program's settings found; and how many such tasks are running.
    settings: UnsafeCell<Vec<(*const Task, Settings)>>,
    kept: Cell<u32>,
    implicit: Line<UnsafeCell<Task>>,
    /// Open children from which on it helps in this region, and how often it has.
    many: Cell<u32>,
    throttled: Cell<u32>,
    /// Work-sharing constructs with reductions of tasks that it came to in this region.
    shares: Cell<u64>,
    /// What its thread was before a serialised region began.
    outer: Cell<*const Member>,
    /// The task for which it looked through the list at the side in vain, and how often something had been put in there.
    side_seen: Cell<(*const Task, u64)>,
    /// Tasks that count in the team.
    counts: Counts,
    /// Tasks that others took of those that it queued.
    taken: Line<AtomicU32>,
}

// SAFETY: the cells of a member are touched by its thread only; see the functions.
unsafe impl Sync for Member {}
// SAFETY: a team outlives what points to it, because it is never freed.
unsafe impl Send for Member {}

thread_local! {
    static ME: Cell<*const Member> = const { Cell::new(null()) };
    /// Locks and critical sections that the thread has.
    static LOCKS: Cell<u32> = const { Cell::new(0) };
}

/// The calling thread has one lock more: while it has any it runs no task that it does not wait for, which may want the lock.
#[inline]
pub(crate) fn took_lock() {
    LOCKS.set(LOCKS.get().saturating_add(1));
}

/// The program is about to change values that its current task has to itself: they are as now again when the task has ended.
pub(crate) fn keep_settings() {
    if let Some(me) = me()
        && !me.current().is(flags::IMPLICIT)
    {
        // SAFETY: the calling thread is this member.
        let kept = unsafe { &mut *me.settings.get() };
        if kept
            .last()
            .is_none_or(|&(task, _)| task != me.current.get())
        {
            kept.push((me.current.get(), Settings::now()));
            me.kept.set(kept.len() as u32);
        }
    }
}

/// The calling thread has one lock less.
#[inline]
pub(crate) fn gave_lock() {
    LOCKS.set(LOCKS.get().saturating_sub(1));
}

/// Returns which thread of a team the caller is; `None` outside of the regions that this library sees.
#[inline]
pub(crate) fn me() -> Option<&'static Member> {
    // SAFETY: set to a member of a team, which is never freed.
    unsafe { ME.get().as_ref() }
}

/// Returns the member that the calling thread is, which is one of a team of its own outside of parallel regions.
pub(crate) fn me_or_alone() -> &'static Member {
    me().unwrap_or_else(alone)
}

#[cold]
fn alone() -> &'static Member {
    /// The team of this thread outside of regions, which another thread gets when this one has ended.
    struct Own(Cell<Option<&'static Team>>);
    impl Drop for Own {
        fn drop(&mut self) {
            if let Some(team) = self.0.get() {
                ME.set(null());
                team.put_back();
            }
        }
    }
    thread_local! {
        static OWN: Own = const { Own(Cell::new(None)) };
    }
    let team = Team::of(1, true);
    // At the very end of a thread it may be too late: then the team is lost.
    _ = OWN.try_with(|own| own.0.set(Some(team)));
    let me = &team.members[0];
    me.join(0);
    ME.set(me);
    me
}

/// Teams that no region uses, and those that no thread outside of regions uses.
static SPARE: Mutex<Vec<&'static Team>> = Mutex::new(Vec::new());

/// Returns the number of processors that this process may use. (The calling thread may be bound to one of them.)
fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| match cfg!(test) {
        true => 2, // tests have no OpenMP runtime
        false => runtime::processors() as usize,
    })
}

impl Team {
    /// Returns a team of `size` threads.
    pub(super) fn of(size: u16, outside: bool) -> &'static Team {
        // Another thread may have had the lock when this process was forked: then it stays locked, and teams are made anew.
        if let Ok(mut spare) = SPARE.try_lock() {
            let found = spare.iter().rposition(|team| {
                team.members.len() == usize::from(size) && team.outside == outside
            });
            if let Some(at) = found {
                return spare.swap_remove(at);
            }
        }
        let members = (0..size).map(|index| Member {
            team: null(),
            index,
            number: Cell::new(0),
            current: Cell::new(null()),
            scope: Cell::new(null()),
            queued: Cell::new(0),
            stack: Cell::new(0),
            shared_out: Cell::new(false),
            pool: UnsafeCell::new(Pool::new()),
            released: UnsafeCell::new(Vec::new()),
            refused: UnsafeCell::new(Vec::new()),
            tables: UnsafeCell::new(Vec::new()),
            settings: UnsafeCell::new(Vec::new()),
            kept: Cell::new(0),
            implicit: Line(UnsafeCell::new(Task::new(
                null_mut(),
                0,
                flags::IMPLICIT,
                index,
            ))),
            many: Cell::new(0),
            throttled: Cell::new(0),
            shares: Cell::new(0),
            outer: Cell::new(null()),
            side_seen: Cell::new((null(), 0)),
            counts: Counts::default(),
            taken: Line::default(),
        });
        let team = Box::leak(Box::new(Team {
            queues: engine::build(super::policy(), size),
            members: members.collect(),
            barrier: Line::default(),
            last: Line::default(),
            ended_outside: Line::default(),
            sleep: Sleep::new(size, processors()),
            side: Side::default(),
            urgent: Urgent::default(),
            cancels: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            copied: AtomicPtr::new(null_mut()),
            shares: Mutex::new(Vec::new()),
            outside,
            full: match super::throttles() {
                true => [FULL, FULL_BELOW.max(2 * i32::from(size))],
                false => [i32::MAX; 2],
            },
            many: match super::throttles() {
                true => [MANY, MOST],
                false => [u32::MAX; 2],
            },
        }));
        let address: *const Team = team;
        for member in &mut team.members {
            member.team = address;
            let member = std::ptr::from_mut(member);
            // SAFETY: nobody else has the team yet.
            unsafe { (*(*member).implicit.0.get()).data.set(member.cast()) };
        }
        team
    }

    /// All threads have left the region, or the thread outside of regions ends.
    pub(super) fn put_back(&'static self) {
        if let Ok(mut spare) = SPARE.try_lock() {
            self.cancels.store(false, Ordering::Relaxed);
            self.cancelled.store(false, Ordering::Relaxed);
            // What is left is of a region that was cancelled.
            self.shares().clear();
            spare.push(self);
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.members.len()
    }

    fn shares(&self) -> MutexGuard<'_, Vec<Share>> {
        self.shares
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns whether no task is open. To be called when all threads are in the barrier.
    fn nothing_open(&self) -> bool {
        let threads = self.members.iter().map(|member| &member.counts);
        count::nothing_open(&self.ended_outside.0, threads)
    }
}

impl Task {
    /// Returns the innermost group in which it was created.
    pub(crate) fn enclosing(&self) -> Option<&Task> {
        let mut at = self.parent;
        // SAFETY: parents outlive their descendants.
        while let Some(task) = unsafe { at.as_ref() } {
            if task.is(flags::GROUP) {
                return Some(task);
            }
            at = task.parent;
        }
        None
    }

    /// Returns whether it is a group that was cancelled, or one of a work-sharing construct in such a group.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.event.load(Ordering::Relaxed) != 0
            || self.is(flags::WORKSHARE) && self.enclosing().is_some_and(Task::is_cancelled)
    }

    /// Cancels a group; in place of one that a work-sharing construct made, the one around it.
    pub(crate) fn cancel(&self) {
        if !self.is(flags::WORKSHARE) {
            self.event.store(1, Ordering::Relaxed);
        } else if let Some(around) = self.enclosing() {
            around.cancel();
        }
    }
}

/// How a task came to its end.
enum Thread<'a> {
    /// In a thread of its team.
    Member(&'a Member),
    /// In a thread of its team, which collects what is released.
    Chain(&'a Member),
    /// In a thread outside of its team, which fulfilled its event.
    Outside(*const Team),
}

impl Member {
    #[inline]
    pub(crate) fn team(&self) -> &'static Team {
        // SAFETY: a team is never freed.
        unsafe { &*self.team }
    }

    #[inline]
    pub(crate) fn current(&self) -> &Task {
        // SAFETY: the task that runs is there.
        unsafe { &*self.current.get() }
    }

    #[inline]
    pub(crate) fn scope(&self) -> &Task {
        // SAFETY: the group or task that runs is there.
        unsafe { &*self.scope.get() }
    }

    /// # Safety
    /// The calling thread is this member, and does not use the result after it calls something that uses the pool, too.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn pool(&self) -> &mut Pool {
        // SAFETY: the caller promises it.
        unsafe { &mut *self.pool.get() }
    }

    /// The calling thread becomes this member of its team.
    fn join(&self, number: c_int) {
        let here = 0_u8;
        self.stack.set(&raw const here as usize);
        self.number.set(number);
        self.shared_out.set(false);
        self.shares.set(0);
        self.many.set(self.team().many[0]);
        self.throttled.set(0);
        let implicit = self.implicit.0.get().cast_const();
        self.current.set(implicit);
        self.scope.set(implicit);
    }

    /// The calling thread comes to a work-sharing construct with reductions of tasks: `make` is called with what the first thread made, and
    /// returns what holds for all. One thread at a time calls it. Returns that, too.
    pub(crate) fn share(&self, make: impl FnOnce(Option<usize>) -> usize) -> usize {
        let team = self.team();
        let turn = self.shares.get() + 1;
        self.shares.set(turn);
        let mut shares = team.shares();
        let Some(at) = shares.iter().position(|share| share.turn == turn) else {
            let made = make(None);
            if team.size() > 1 {
                let came = 1;
                shares.push(Share { turn, made, came });
            }
            return made;
        };
        let made = shares[at].made;
        make(Some(made));
        shares[at].came += 1;
        if shares[at].came == team.size() {
            shares.swap_remove(at);
        }
        made
    }

    /// Returns memory for a task whose data of `size` bytes lie at a multiple of `align`, with the data's address in it.
    ///
    /// # Safety
    /// The calling thread is this member.
    #[inline]
    pub(crate) unsafe fn allocate(&self, size: usize, align: usize, flags: u16) -> *mut Task {
        let slack = align.saturating_sub(16);
        // SAFETY: as this function's.
        let (block, class) = unsafe { self.pool() }.take(size_of::<Task>() + size + slack);
        let task = block.cast::<Task>();
        let scope = self.scope.get();
        // SAFETY: the block is large enough, and nobody else has it.
        unsafe {
            task.write(Task::new(
                scope.cast_mut(),
                (*scope).depth + 1,
                flags,
                NOBODY,
            ));
            (*task).class.set(class);
            let data = (block as usize + size_of::<Task>()).next_multiple_of(align.max(1));
            (*task).data.set(data as *mut c_void);
        }
        task
    }

    /// Counts a child of the current scope.
    #[inline]
    fn add_child(&self, parent: &Task) {
        if parent.owner.get() == NOBODY {
            parent.state.fetch_sub(1, Ordering::Relaxed);
        } else {
            parent.pending.set(parent.pending.get() + 1);
        }
    }

    /// Returns whether a new task should run at once rather than be queued.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        let queued = self
            .queued
            .get()
            .wrapping_sub(self.taken.0.load(Ordering::Relaxed)) as i32;
        queued >= self.team().full[usize::from(!self.current().is(flags::IMPLICIT))] && {
            let here = 0_u8;
            self.stack.get().wrapping_sub(&raw const here as usize) < STACK && LOCKS.get() == 0
        }
    }

    /// Returns whether tasks with these dependences would wait for none.
    ///
    /// # Safety
    /// The calling thread is this member.
    pub(crate) unsafe fn is_free(&self, depends: impl Iterator<Item = (usize, Kind)>) -> bool {
        // SAFETY: this thread runs the task whose table it is.
        match unsafe { self.current().table.get().as_ref() } {
            None => true,
            Some(table) => {
                let mut depends = depends;
                depends.all(|(address, kind)| table.is_free(address.max(1), kind))
            }
        }
    }

    /// Hands in a task that [`Member::allocate`] made.
    ///
    /// # Safety
    /// The calling thread is this member, and the task is handed in once.
    #[inline]
    pub(crate) unsafe fn submit(&self, task: *mut Task) {
        if marks::wanted() {
            // SAFETY: as this function's.
            unsafe { marks::created(task, std::iter::empty()) };
        }
        self.add_child(self.scope());
        // SAFETY: as this function's.
        unsafe {
            if self.is_full() && !(*task).is(flags::DETACHED) {
                if !self.shared_out.get() {
                    self.share_out();
                }
                self.run(task);
            } else {
                self.count(task);
                self.queue(task);
            }
        }
    }

    /// This thread is about to run all that it creates. If the team has more threads than there are processors, others that could take
    /// some may not have come to run yet: they may, once a region.
    #[cold]
    fn share_out(&self) {
        self.shared_out.set(true);
        if self.team().sleep.is_crowded() {
            std::thread::yield_now();
        }
    }

    /// Runs a task that [`Member::allocate`] made, now. A detached one ends here, too: this waits for its event.
    ///
    /// # Safety
    /// As [`Member::submit`]'s.
    pub(crate) unsafe fn run_now(&self, task: *mut Task) {
        // SAFETY: as this function's.
        unsafe {
            (*task).set(flags::DIRECT);
            if (*task).is(flags::DETACHED) {
                let parent = (*task).parent;
                (*task).parent = self.begin_group(0) as *const Task as *mut Task;
                debug_assert_eq!((*(*task).parent).parent, parent);
                (*task).depth += 1;
                self.run_child(task);
                return self.end_group();
            }
            self.run_child(task);
        }
    }

    /// As [`Member::run_now`], of a task that ends when its body does, or whose group waits for its end.
    unsafe fn run_child(&self, task: *mut Task) {
        self.add_child(self.scope());
        // SAFETY: as `run_now`'s.
        unsafe {
            if !self.marks_children() {
                return self.run(task);
            }
            marks::created(task, std::iter::empty());
            match (*task).is(flags::DETACHED) {
                false => marks::wait_for(task),
                true => marks::mark("wait nothing"),
            }
            self.run(task);
            marks::mark("woke");
        }
    }

    /// Returns whether marks are sent for tasks that the current one creates. What a final task creates is a part of that.
    #[inline]
    fn marks_children(&self) -> bool {
        marks::wanted() && !self.current().is(flags::FINAL)
    }

    /// Calls `wait`, around which marks are sent if any are.
    #[inline]
    fn marked<R>(&self, what: &str, wait: impl FnOnce() -> R) -> R {
        let marked =
            marks::wanted() && self.current().flags() & (flags::MARKED | flags::IMPLICIT) != 0;
        if marked {
            marks::mark(what);
        }
        let result = wait();
        if marked {
            marks::mark("woke");
        }
        result
    }

    /// Begins a task whose code the program calls itself.
    ///
    /// # Safety
    /// As [`Member::submit`]'s.
    pub(crate) unsafe fn begin(&self, task: *mut Task) {
        self.add_child(self.scope());
        // SAFETY: the caller has the task.
        unsafe {
            if self.marks_children() {
                marks::created(task, std::iter::empty());
                marks::wait_for(task);
                marks::start(task);
            }
            (*task).unset(flags::UNTIED);
            (*task).set(flags::DIRECT);
            (*task).owner.set(self.index);
            (*task).run.set(self.current.get() as usize);
            (*task).scope.set(self.scope.get());
        }
        self.current.set(task);
        self.scope.set(task);
    }

    /// Ends a task that [`Member::begin`] began.
    ///
    /// # Safety
    /// The calling thread is this member, and called `begin` with the task.
    pub(crate) unsafe fn complete(&self, task: *mut Task) {
        // SAFETY: the caller promises it.
        unsafe {
            self.current.set((*task).run.get() as *const Task);
            self.scope.set((*task).scope.get());
            if (*task).is(flags::DESTROYS) {
                self.destroy(task);
            }
            if self.kept.get() > 0 {
                self.restore_settings(task);
            }
            let marked = (*task).is(flags::MARKED);
            if marked {
                marks::end();
            }
            self.returned(&Thread::Member(self), task);
            if marked {
                marks::mark("woke");
            }
        }
    }

    /// Gives back a task that was not handed in.
    ///
    /// # Safety
    /// The calling thread is this member, and has the task.
    pub(crate) unsafe fn discard(&self, task: *mut Task) {
        // SAFETY: the caller promises it.
        unsafe { depend::free(task, self.pool()) };
    }

    /// Hands in a task that waits for others.
    ///
    /// # Safety
    /// As [`Member::submit`]'s.
    pub(crate) unsafe fn submit_after(
        &self,
        task: *mut Task,
        depends: impl Iterator<Item = (usize, Kind)> + Clone,
    ) {
        // SAFETY: as this function's.
        unsafe {
            if marks::wanted() {
                marks::created(task, depends.clone());
            }
            if self.is_full()
                && (*task).flags() & (flags::DETACHED | flags::UNTIED) == 0
                && self.is_free(depends.clone())
            {
                self.add_child(self.scope());
                return self.run(task);
            }
            self.add_child(self.scope());
            self.count(task);
            if self.enter(task, depends) == 0 {
                self.queue(task);
            }
        }
        self.throttle();
    }

    /// Enters a task into its parent's table. Returns the number of tasks that it still waits for; if it is 0 the task is ready, and the
    /// caller has it.
    ///
    /// # Safety
    /// The calling thread is this member, and the task was not entered.
    unsafe fn enter(&self, task: *mut Task, depends: impl Iterator<Item = (usize, Kind)>) -> i32 {
        /// More than a task has predecessors.
        const GUARD: i32 = 1 << 30;
        let current = self.current();
        if current.table.get().is_null() {
            // SAFETY: the calling thread is this member.
            let spare = unsafe { &mut *self.tables.get() }.pop();
            let table = spare.unwrap_or_else(|| Box::into_raw(Box::new(Table::new())));
            current.table.set(table);
        }
        // SAFETY: this thread runs the task whose table it is; siblings' memory is there as long as the table names them; the pool is
        // this thread's, and used by one of these calls at a time.
        unsafe {
            let table = &mut *current.table.get();
            (*task).predecessors.store(GUARD, Ordering::Relaxed);
            let node = table.node();
            (*task).node.set(node);
            let mut edges = Edges::of(task);
            for (address, kind) in depends {
                let address = address.max(1);
                if kind == Kind::Out && (*task).place.get() == 0 {
                    (*task).place.set(place_of(address));
                }
                table.enter(address, kind, node, |before| {
                    edges.add(before, self.pool());
                });
            }
            let waits = edges.count() as i32;
            if waits == 0 {
                return 0;
            }
            let guard = GUARD - waits;
            (*task).predecessors.fetch_sub(guard, Ordering::AcqRel) - guard
        }
    }

    /// Waits until the tasks have ended that one with these dependences would wait for.
    ///
    /// # Safety
    /// The calling thread is this member.
    pub(crate) unsafe fn wait_for(&self, depends: impl Iterator<Item = (usize, Kind)> + Clone) {
        if self.marks_children() {
            marks::uses(depends.clone());
            // SAFETY: as this function's.
            return self.marked("wait some", || unsafe { self.wait_for_some(depends) });
        }
        // SAFETY: as this function's.
        unsafe { self.wait_for_some(depends) }
    }

    unsafe fn wait_for_some(&self, depends: impl Iterator<Item = (usize, Kind)>) {
        const GUARD: i32 = 1 << 30;
        let current = self.current();
        // SAFETY: as in `enter`; the stand-in outlives its edges, because this function returns when the predecessors have used them.
        unsafe {
            let Some(table) = current.table.get().as_mut() else {
                return;
            };
            let waiter = self.allocate(0, 1, 0);
            (*waiter).predecessors.store(GUARD, Ordering::Relaxed);
            let mut edges = Edges::of(waiter);
            for (address, kind) in depends {
                table.look(address.max(1), kind, |before| {
                    edges.add(before, self.pool())
                });
            }
            let guard = GUARD - edges.count() as i32 - 1;
            (*waiter).predecessors.fetch_sub(guard, Ordering::AcqRel);
            // One of the guard is left, so that no predecessor takes it for ready.
            self.help_until(|| (*waiter).predecessors.load(Ordering::Acquire) == 1);
            depend::free(waiter, self.pool());
        }
    }

    /// Counts a task that will be queued.
    #[inline]
    unsafe fn count(&self, task: *mut Task) {
        self.counts.created();
        // SAFETY: the caller has the task.
        unsafe { (*task).set(flags::COUNTED) };
    }

    /// Puts a ready task into a queue.
    ///
    /// # Safety
    /// The calling thread is this member, and the task is ready.
    #[inline]
    unsafe fn queue(&self, task: *mut Task) {
        let team = self.team();
        // SAFETY: as this function's.
        unsafe {
            if (*task).priority.get() > 0 {
                team.urgent.put((*task).priority.get(), right(task));
                return team.sleep.wake();
            }
            (*task).home.set(self.index);
            self.queued.set(self.queued.get().wrapping_add(1));
            if team.queues.ready(self.index.into(), right(task)) {
                team.sleep.wake();
            }
        }
    }

    /// While many children are open, runs some.
    #[inline]
    fn throttle(&self) {
        let scope = self.scope();
        let pending = scope.pending.get();
        if pending >= self.many.get() && pending.is_multiple_of(8) || scope.owner.get() == NOBODY {
            self.throttle_now(scope);
        }
    }

    #[inline(never)]
    fn throttle_now(&self, scope: &Task) {
        /// Rounds of which one is timed.
        const TIMED: u32 = 4;
        let open = || {
            let ended = scope.state.load(Ordering::Relaxed) as u32;
            scope.pending.get().wrapping_sub(ended)
        };
        // Help, never wait: what is open may be waiting for what this thread does next.
        let helps = || open() >= self.many.get() && LOCKS.get() == 0 && self.help();
        let round = self.throttled.get();
        self.throttled.set(round.wrapping_add(1));
        if !round.is_multiple_of(TIMED) {
            while helps() {}
            return;
        }
        let (start, mut ran) = (Instant::now(), 0);
        while helps() {
            ran += 1;
        }
        if ran > 0 {
            let [least, most] = self.team().many;
            let (time, many) = (start.elapsed(), self.many.get());
            if time >= LONG * ran {
                self.many.set(many.saturating_mul(2).min(most));
            } else if 2 * time < LONG * ran {
                self.many.set((many / 2).max(least));
            }
        }
    }

    /// Takes account of a task that came out of a queue.
    #[inline]
    fn took(&self, ready: Ready) -> *mut Task {
        let task = task_of(&ready);
        // SAFETY: this thread has the right to run it, so its memory is there.
        let home = unsafe { (*task).home.get() };
        if home == self.index {
            self.queued.set(self.queued.get().wrapping_sub(1));
        } else if let Some(home) = self.team().members.get(usize::from(home)) {
            home.taken.0.fetch_add(1, Ordering::Relaxed);
        }
        task
    }

    /// Runs a task of a queue. Returns whether there was one that this thread may run now, in a task that waits.
    fn help(&self) -> bool {
        let team = self.team();
        let current = self.current.get();
        let me = usize::from(self.index);
        // SAFETY: the calling thread is this member; what it takes out of a queue it runs.
        unsafe {
            let urgent = match team.urgent.is_empty() {
                true => None,
                false => team.urgent.take(current),
            };
            let found = if urgent.is_some() {
                urgent
            } else if team.members.len() == 1 && (*current).depth == 0 {
                team.queues.next(me)
            } else {
                let refused = &mut *self.refused.get();
                let found = team.queues.next_of(me, current, refused);
                if !refused.is_empty() {
                    team.side.put(refused);
                }
                found
            };
            let found = found.or_else(|| {
                if team.side.is_empty() {
                    return None;
                }
                // What was looked through in vain is not looked through again.
                let seen = (current, team.side.puts.load(Ordering::SeqCst));
                if self.side_seen.get() == seen {
                    return None;
                }
                let found = team.side.take_below(current);
                if found.is_none() {
                    self.side_seen.set(seen);
                }
                found
            });
            let Some(ready) = found else {
                return false;
            };
            let task = self.took(ready);
            self.run(task);
            true
        }
    }

    /// Helps until `done` returns true.
    #[inline]
    fn help_until(&self, done: impl Fn() -> bool) {
        if !done() {
            self.help_on(&done);
        }
    }

    #[inline(never)]
    fn help_on(&self, done: &dyn Fn() -> bool) {
        let sleep = &self.team().sleep;
        let mut idle = 0;
        loop {
            if self.help() {
                idle = 0;
            } else if !done() {
                sleep.pause(&mut idle, For::Children, || !done());
            }
            if done() {
                return;
            }
        }
    }

    /// Runs tasks until one of the current task's children or groups that this is called for are done: all children, not their descendants.
    #[inline]
    pub(crate) fn wait_for_children(&self) {
        self.marked("wait children", || self.wait_for_all_children());
    }

    #[inline]
    fn wait_for_all_children(&self) {
        let mut at = self.scope.get();
        loop {
            // SAFETY: groups and the task in which they are live while this thread is in them.
            let scope = unsafe { &*at };
            self.help_until(|| scope.state.load(Ordering::Acquire) as u32 == scope.pending.get());
            // The counts begin anew before they outgrow their halves of the word.
            let pending = scope.pending.get();
            if pending > 1 << 30 && scope.state.load(Ordering::Acquire) == BODY + i64::from(pending)
            {
                scope.state.store(BODY, Ordering::Relaxed);
                scope.pending.set(0);
            }
            if at == self.current.get() {
                return;
            }
            at = scope.parent;
        }
    }

    /// Begins a group.
    pub(crate) fn begin_group(&self, flag: u16) -> &Task {
        if marks::wanted() {
            marks::mark("group");
        }
        // SAFETY: the calling thread is this member.
        unsafe {
            let group = self.allocate(0, 1, flags::GROUP | flag);
            (*group).owner.set(self.current().owner.get());
            let around = (*group).enclosing();
            (*group)
                .data
                .set(around.map_or(null_mut(), |around| around.data.get()));
            self.scope.set(group);
            &*group
        }
    }

    /// Returns the innermost group that the current task is in, or was created in.
    pub(crate) fn group(&self) -> Option<&Task> {
        let scope = self.scope();
        if scope.is(flags::GROUP) {
            return Some(scope);
        }
        scope.enclosing()
    }

    /// Ends the innermost group: runs tasks until all that were created in it and their descendants have ended.
    pub(crate) fn end_group(&self) {
        let group = self.scope();
        if !group.is(flags::GROUP) {
            return; // the program ends what it did not begin
        }
        let ended = || group.state.load(Ordering::Acquire) == BODY + i64::from(group.pending.get());
        if marks::wanted() {
            marks::mark("wait group");
            self.help_until(ended);
            marks::mark("woke");
        } else {
            self.help_until(ended);
        }
        self.scope.set(group.parent);
        // SAFETY: no task is left that points to it.
        unsafe { depend::free(std::ptr::from_ref(group).cast_mut(), self.pool()) };
    }

    /// Runs `task`, which this thread has the right to run, with the current task beneath it.
    ///
    /// # Safety
    /// The calling thread is this member.
    #[inline]
    pub(crate) unsafe fn run(&self, task: *mut Task) {
        // SAFETY: as this function's.
        unsafe {
            self.run_body(task);
            self.returned(&Thread::Member(self), task);
        }
    }

    #[inline]
    unsafe fn run_body(&self, task: *mut Task) {
        let outer = (self.current.get(), self.scope.get());
        // SAFETY: this thread has the right to run it.
        unsafe {
            self.current.set(task);
            self.scope.set(task);
            let special = (*task).flags() & (flags::UNTIED | flags::DETACHED) != 0;
            if !special {
                (*task).owner.set(self.index);
            } else if !(*task).scope.get().is_null() {
                self.scope.set((*task).scope.get());
            }
            let node = (*task).node.get();
            if !node.is_null() {
                depend::prefetch_end(node);
            }
            if marks::wanted() && (*task).is(flags::MARKED) {
                marks::start(task);
            }
            if !self.team().cancels.load(Ordering::Relaxed) || !self.is_dropped(&*task) {
                self.call(task);
            }
            if (*task).flags() & (flags::DESTROYS | flags::AGAIN) == flags::DESTROYS {
                self.destroy(task);
            }
            if marks::wanted() && (*task).is(flags::MARKED) {
                marks::end();
            }
            if special {
                (*task).scope.set(self.scope.get());
            }
        }
        if self.kept.get() > 0 {
            self.restore_settings(task);
        }
        self.current.set(outer.0);
        self.scope.set(outer.1);
    }

    /// Calls the code of `task`.
    #[inline]
    unsafe fn call(&self, task: *mut Task) {
        // SAFETY: this thread has the right to run it.
        unsafe {
            let run = (*task).run.get();
            if !(*task).is(flags::KMP) {
                return std::mem::transmute::<usize, Gomp>(run)((*task).data.get());
            }
            let run = std::mem::transmute::<usize, Kmp>(run);
            run(self.number.get(), (*task).data.get());
            // The parts of an untied task are one task in a recording.
            while (*task).is(flags::AGAIN) && marks::wanted() {
                (*task).unset(flags::AGAIN);
                run(self.number.get(), (*task).data.get());
            }
        }
    }

    /// The body of `task` has ended, or this part of it: settings that it changed are as before.
    #[cold]
    fn restore_settings(&self, task: *const Task) {
        // SAFETY: the calling thread is this member.
        let kept = unsafe { &mut *self.settings.get() };
        if kept.last().is_some_and(|&(of, _)| of == task)
            && let Some((_, settings)) = kept.pop()
        {
            self.kept.set(kept.len() as u32);
            settings.restore();
        }
    }

    /// Returns whether a task that has not begun is dropped.
    #[cold]
    fn is_dropped(&self, task: &Task) -> bool {
        if task.is(flags::CONSTRUCTED) || !task.scope.get().is_null() {
            return false; // the latter has begun
        }
        if self.team().cancelled.load(Ordering::Relaxed) {
            return true;
        }
        task.enclosing().is_some_and(Task::is_cancelled)
    }

    /// Calls the function that clang gave the task to destroy its data.
    ///
    /// # Safety
    /// The calling thread is this member; the task is clang's, with that flag, and nobody uses its data.
    #[cold]
    pub(crate) unsafe fn destroy(&self, task: *mut Task) {
        // SAFETY: the caller promises it.
        unsafe {
            let data = (*task).data.get();
            if let Some(destroy) = (*data.cast::<KmpData>()).destroy {
                destroy(self.number.get(), data);
            }
        }
    }

    /// The body of `task` returned.
    #[inline]
    unsafe fn returned(&self, thread: &Thread<'_>, task: *mut Task) {
        // SAFETY: this thread ran it.
        unsafe {
            if (*task).flags() & (flags::AGAIN | flags::DETACHED) != 0 {
                if (*task).is(flags::AGAIN) {
                    (*task).unset(flags::AGAIN);
                    if !(*task).is(flags::COUNTED) {
                        self.count(task);
                    }
                    return self.queue(task);
                }
                self.drop_table(&*task);
                if (*task).event.fetch_or(RETURNED, Ordering::AcqRel) & FULFILLED == 0 {
                    return; // who fulfils it ends it
                }
            }
            self.drop_table(&*task);
            self.end(thread, task);
        }
    }

    #[inline]
    fn drop_table(&self, task: &Task) {
        let table = task.table.get();
        if !table.is_null() {
            task.table.set(null_mut());
            let quiet = BODY + i64::from(task.pending.get());
            // SAFETY: this thread runs the task whose table it is; the spare tables are this thread's.
            unsafe {
                if task.state.load(Ordering::Acquire) == quiet {
                    (*table).reset();
                } else {
                    (*table).clear();
                }
                (*self.tables.get()).push(table);
            }
        }
    }

    /// Ends a task in this thread.
    #[inline]
    unsafe fn end(&self, thread: &Thread<'_>, task: *mut Task) {
        // SAFETY: the caller ran it.
        unsafe {
            let counted = (*task).is(flags::COUNTED);
            end(thread, task);
            if counted {
                self.counts.ended();
            }
        }
    }

    /// Runs any tasks until all threads of the team are here and no task is open. Returns whether the region was cancelled, which only
    /// `cancellable` barriers look at.
    pub(crate) fn barrier(&self, cancellable: bool) -> bool {
        self.marked("wait all", || {
            self.meet(&self.team().barrier.0, cancellable)
        })
    }

    /// Ends the region for this thread, which has called [`Member::begin_region`].
    fn end_region(&self) {
        self.marked("wait all", || self.meet(&self.team().last.0, false));
        // SAFETY: this thread's own task.
        self.drop_table(unsafe { &*self.implicit.0.get() });
        if marks::wanted() {
            marks::mark("regioned");
        }
    }

    /// Begins a region for the calling thread, which becomes this member.
    fn begin_region(&self, number: c_int) {
        self.join(number);
        ME.set(self);
        if marks::wanted() {
            marks::region(self.team().size());
        }
    }

    fn meet(&self, word: &AtomicU64, cancellable: bool) -> bool {
        let team = self.team();
        if cancellable && team.cancelled.load(Ordering::Acquire) {
            return true;
        }
        let size = team.members.len() as u64;
        let now = word.fetch_add(1, Ordering::AcqRel) + 1;
        let opened = now >> 32;
        let is_open = || word.load(Ordering::Acquire) >> 32 != opened;
        let me = usize::from(self.index);
        let mut idle = 0;
        loop {
            let mut found = match team.urgent.is_empty() {
                true => None,
                false => team.urgent.take(null()),
            };
            if found.is_none() {
                // SAFETY: the calling thread is this member; what it takes out of a queue it runs.
                found = unsafe { team.queues.next(me) };
            }
            if found.is_none() && !team.side.is_empty() {
                found = team.side.take();
            }
            if let Some(ready) = found {
                // Tasks that became ready while this thread was being woken have woken nobody.
                if team.sleep.has_slept(idle) && team.queues.may_have(me) {
                    team.sleep.wake();
                }
                idle = 0;
                self.run_chain(ready);
                continue;
            }
            let now = word.load(Ordering::Acquire);
            if now >> 32 != opened {
                break;
            }
            if now & 0xffff_ffff == size && team.nothing_open() {
                let open = (opened + 1) << 32;
                let won = word.compare_exchange(now, open, Ordering::SeqCst, Ordering::Acquire);
                if won.is_ok() {
                    team.sleep.wake_all();
                }
                break; // only another thread of the barrier that opened it can have been first
            }
            if cancellable && team.cancelled.load(Ordering::Acquire) {
                // Leave, unless it opened: the others come to the end of the region, where all meet.
                let left = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| {
                    (now >> 32 == opened).then(|| now - 1)
                });
                if left.is_ok() {
                    return true;
                }
                break;
            }
            team.sleep.pause(&mut idle, For::Barrier, || {
                let last = word.load(Ordering::SeqCst) & 0xffff_ffff == size;
                let leaves = cancellable && team.cancelled.load(Ordering::SeqCst);
                let found = team.queues.may_have(me)
                    || !team.side.is_empty()
                    || team.urgent.length.load(Ordering::SeqCst) > 0;
                !(is_open() || leaves || found || last && team.nothing_open())
            });
        }
        self.forget_children();
        cancellable && team.cancelled.load(Ordering::Acquire)
    }

    /// All tasks have ended: the implicit task's counts begin anew.
    fn forget_children(&self) {
        // SAFETY: this thread's own task.
        let task = unsafe { &*self.implicit.0.get() };
        task.state.store(BODY, Ordering::Relaxed);
        task.pending.set(0);
        // SAFETY: this thread's own; all tasks have ended.
        if let Some(table) = unsafe { task.table.get().as_mut() } {
            table.reset();
        }
    }

    /// Runs a task of a queue, then what the policy hands to this thread because that task released it, and so on. At a barrier.
    fn run_chain(&self, first: Ready) {
        let mut ready = first;
        loop {
            let task = self.took(ready);
            // SAFETY: the calling thread is this member, and has the right to run the task.
            unsafe {
                let released = self.released.get();
                debug_assert!((*released).is_empty());
                self.run_body(task);
                self.returned(&Thread::Chain(self), task);
                if (*released).is_empty() {
                    return;
                }
                for task in &*released {
                    (*task_of(task)).home.set(self.index);
                }
                self.queued
                    .set(self.queued.get().wrapping_add((*released).len() as u32));
                let team = self.team();
                let (next, wake) = team.queues.turn(self.index.into(), &mut *released);
                if wake {
                    team.sleep.wake();
                }
                match next {
                    Some(next) => ready = next,
                    None => return,
                }
            }
        }
    }

    /// Runs one task, if there is one that this thread may run now.
    pub(crate) fn yield_to_tasks(&self) {
        if !self.marked("wait nothing", || self.help()) {
            std::thread::yield_now();
        }
    }

    pub(crate) fn is_outside(&self) -> bool {
        self.team().outside
    }

    /// Wakes the threads that sleep.
    pub(crate) fn wake_all(&self) {
        self.team().sleep.wake_all();
    }
}

/// Ends a task: those that wait for it may become ready, its parent has one child less, and its memory is given back when it has no
/// descendants any more.
#[inline]
unsafe fn end(thread: &Thread<'_>, task: *mut Task) {
    // SAFETY: the caller ended it; parents outlive their descendants.
    unsafe {
        let parent = (*task).parent;
        if !(*task).node.get().is_null() {
            release(thread, (*task).node.get());
        }
        let quiet = BODY + i64::from((*task).pending.get());
        if (*task).state.load(Ordering::Acquire) == quiet {
            free(thread, task); // it has no descendants, so nobody else has it
        } else {
            end_before_children(thread, task, quiet);
        }
        child_ended(thread, parent);
    }
}

#[cold]
#[inline(never)]
unsafe fn end_before_children(thread: &Thread<'_>, task: *mut Task, quiet: i64) {
    // SAFETY: as in `end`.
    unsafe {
        let parent = (*task).parent;
        (*parent).state.fetch_add(ZOMBIE, Ordering::Relaxed);
        (*task).set(flags::MERGED);
        // From here on the last descendant may free it, unless this thread sees that there is none.
        if (*task).state.fetch_sub(quiet, Ordering::AcqRel) == quiet {
            (*parent).state.fetch_sub(ZOMBIE, Ordering::Relaxed);
            free(thread, task);
        }
    }
}

/// Ends the task with this node for those that wait for it.
#[inline]
unsafe fn release(thread: &Thread<'_>, node: *const depend::Node) {
    // SAFETY: the caller ended the task; one that waits for nothing more is ready.
    unsafe {
        if marks::wanted() {
            return release_in_order(thread, node);
        }
        depend::close(node, |task| match thread {
            Thread::Chain(me) if (*task).priority.get() <= 0 => {
                prefetch(task);
                prefetch((*task).node.get());
                prefetch(task.wrapping_add(1));
                (*me.released.get()).push(right(task));
            }
            Thread::Chain(me) | Thread::Member(me) => me.queue(task),
            Thread::Outside(team) => {
                (*task).home.set(NOBODY);
                (**team).queues.inject(right(task));
                (**team).sleep.wake_all();
            }
        });
    }
}

/// As [`release`], in the order in which the tasks were created, which is the opposite of that of the list. (None of them is handed to this
/// thread as its next one, so what runs next follows from this order alone.)
#[cold]
unsafe fn release_in_order(thread: &Thread<'_>, node: *const depend::Node) {
    let mut released = Vec::new();
    // SAFETY: as `release`'s.
    unsafe {
        depend::close(node, |task| released.push(task));
        for task in released.into_iter().rev() {
            match thread {
                Thread::Chain(me) | Thread::Member(me) => me.queue(task),
                Thread::Outside(team) => {
                    (*task).home.set(NOBODY);
                    (**team).queues.inject(right(task));
                    (**team).sleep.wake_all();
                }
            }
        }
    }
}

#[inline]
unsafe fn free(thread: &Thread<'_>, task: *mut Task) {
    // SAFETY: the caller promises that nobody uses it.
    unsafe {
        match thread {
            Thread::Member(me) | Thread::Chain(me) => depend::free(task, me.pool()),
            Thread::Outside(_) => depend::free_outside(task),
        }
    }
}

impl Thread<'_> {
    #[inline]
    fn team(&self) -> &Team {
        match self {
            Thread::Member(me) | Thread::Chain(me) => me.team(),
            // SAFETY: teams are never freed.
            Thread::Outside(team) => unsafe { &**team },
        }
    }
}

/// A child of `parent` ended.
#[inline]
unsafe fn child_ended(thread: &Thread<'_>, parent: *mut Task) {
    // SAFETY: the child keeps it alive until here.
    unsafe {
        if let Thread::Member(me) | Thread::Chain(me) = thread
            && (*parent).owner.get() == me.index
            && !(*parent).is(flags::MERGED)
        {
            (*parent)
                .pending
                .set((*parent).pending.get().wrapping_sub(1));
            return;
        }
        if (*parent).state.fetch_add(1, Ordering::SeqCst) == -1 {
            last_descendant_ended(thread, parent);
        } else {
            thread.team().sleep.wake_waiting();
        }
    }
}

/// Nothing is left of `task` but its memory: its last descendant has ended after its body.
#[cold]
unsafe fn last_descendant_ended(thread: &Thread<'_>, task: *mut Task) {
    let mut at = task;
    loop {
        // SAFETY: this is the last that uses it; its parent counts it as a zombie.
        unsafe {
            let parent = (*at).parent;
            free(thread, at);
            if (*parent).state.fetch_sub(ZOMBIE, Ordering::SeqCst) != ZOMBIE {
                return thread.team().sleep.wake_waiting();
            }
            at = parent;
        }
    }
}

/// What stands for an address that a task writes, for policies that keep what shares data on one thread: never 0.
fn place_of(address: usize) -> u32 {
    let hash = ((address >> 3) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> 44) as u32 + 1
}

/// Runs `body` as a thread of `team`, then tasks until none is open.
pub(super) fn enter(team: &'static Team, index: usize, number: c_int, body: impl FnOnce()) {
    let outer = ME.get();
    let me = &team.members[index.min(team.members.len() - 1)];
    me.begin_region(number);
    body();
    me.end_region();
    ME.set(outer);
}

/// A region begins that only this thread runs, in the middle of a function.
pub(crate) fn begin_serial(number: c_int) {
    let team = Team::of(1, false);
    let me = &team.members[0];
    me.outer.set(ME.get());
    me.begin_region(number);
}

/// The region that began last with [`begin_serial`] ends.
pub(crate) fn end_serial() {
    if let Some(me) = me()
        && me.team().size() == 1
        && !me.is_outside()
    {
        me.end_region();
        ME.set(me.outer.get());
        me.team().put_back();
    }
}

/// The event of a detached task was fulfilled, by any thread.
///
/// # Safety
/// It was not before.
pub(crate) unsafe fn fulfill(task: *mut Task) {
    // SAFETY: the task is there until it ends, so are its ancestors.
    unsafe {
        if marks::wanted() && (*task).is(flags::MARKED) {
            marks::fulfilled(task);
        }
        if (*task).event.fetch_or(FULFILLED, Ordering::AcqRel) & RETURNED == 0 {
            return; // it ends when its body returns
        }
        let mut first = (*task).parent;
        while !(*first).parent.is_null() {
            first = (*first).parent;
        }
        let team = (*(*first).data.get().cast::<Member>()).team;
        match me().filter(|me| me.team == team) {
            Some(me) => me.end(&Thread::Member(me), task),
            None => {
                let counted = (*task).is(flags::COUNTED);
                end(&Thread::Outside(team), task);
                if counted {
                    (*team).ended_outside.0.fetch_add(1, Ordering::AcqRel);
                }
                (*team).sleep.wake_all();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: u64 = if cfg!(miri) { 1 } else { 20 };

    /// What tasks of a test work on. Nothing of it but the counts is atomic: a sanitizer sees if tasks are not ordered as they should be.
    struct Work {
        cells: [UnsafeCell<u64>; 8],
        ran: AtomicU64,
        /// Tasks whose event is to be fulfilled. (Not a channel, whose inside a sanitizer does not see.)
        events: [AtomicPtr<Task>; 8],
    }

    // SAFETY: see the type.
    unsafe impl Sync for Work {}

    #[derive(Clone, Copy)]
    struct Data {
        work: *const Work,
        depth: u64,
        reads: usize,
        writes: usize,
    }

    /// Makes a task of the current one that runs `run` with a copy of `data`.
    unsafe fn make(run: Gomp, data: Data, flags: u16) -> *mut Task {
        let me = me().expect("in a team");
        // SAFETY: the calling thread is this member.
        unsafe {
            let task = me.allocate(size_of::<Data>(), align_of::<Data>(), flags);
            (*task).run.set(run as usize);
            (*task).data.get().cast::<Data>().write(data);
            task
        }
    }

    unsafe fn spawn(run: Gomp, data: Data) {
        // SAFETY: the task is handed in once.
        unsafe { me().expect("in a team").submit(make(run, data, 0)) };
    }

    /// Reads one cell and writes another, which its dependences say.
    unsafe extern "C-unwind" fn dependent(data: *mut c_void) {
        // SAFETY: dependences order all accesses of a cell of which one writes.
        unsafe {
            let data = &*data.cast::<Data>();
            let work = &*data.work;
            let seen = *work.cells[data.reads].get();
            *work.cells[data.writes].get() += 1 + seen % 2;
            work.ran.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A binary tree; every other level waits for its children, whose sum it then reads.
    unsafe extern "C-unwind" fn tree(data: *mut c_void) {
        // SAFETY: as in `spawn`; the children write what this task reads after it has waited.
        unsafe {
            let data = *data.cast::<Data>();
            (*data.work).ran.fetch_add(1, Ordering::Relaxed);
            if data.depth == 0 {
                return;
            }
            let depth = data.depth - 1;
            if depth % 3 == 2 {
                me().expect("in a team").begin_group(0);
            }
            for _ in 0..2 {
                spawn(tree, Data { depth, ..data });
            }
            if depth % 3 == 2 {
                me().expect("in a team").end_group();
            } else if depth % 2 == 0 {
                me().expect("in a team").wait_for_children();
            }
        }
    }

    /// Hands its event to a thread outside of the team.
    unsafe extern "C-unwind" fn detached(data: *mut c_void) {
        // SAFETY: as in `spawn`.
        unsafe {
            let data = *data.cast::<Data>();
            (*data.work).ran.fetch_add(1, Ordering::Relaxed);
            let task = me().expect("in a team").current.get().cast_mut();
            let events = (*data.work).events.iter().cycle();
            for event in events {
                let put =
                    event.compare_exchange(null_mut(), task, Ordering::Release, Ordering::Relaxed);
                if put.is_ok() {
                    return;
                }
                std::thread::yield_now();
            }
        }
    }

    /// What the thread that creates the tasks of a region does: dependences, trees and events; a wait for some dependences; a barrier.
    unsafe fn create(work: &Work, round: u64) -> u64 {
        let me = me().expect("in a team");
        let all = Data {
            work,
            depth: 0,
            reads: 0,
            writes: 0,
        };
        let mut created = 0;
        let mut random =
            (0..).map(|call| tanada_policy::draw(round, tanada_policy::WorkerId(0), call));
        let mut random = |below: u64| (random.next().expect("endless") % below) as usize;
        let address = |cell: usize| work.cells[cell].get() as usize;
        for number in 0..if cfg!(miri) { 30 } else { 400 } {
            let (reads, writes) = (random(8), random(8));
            let data = Data {
                reads,
                writes,
                ..all
            };
            let depends = [(address(reads), Kind::In), (address(writes), Kind::Out)];
            // SAFETY: each task is handed in once.
            unsafe {
                me.submit_after(make(dependent, data, 0), depends.into_iter());
                created += 1;
                match number % 100 {
                    20 => {
                        spawn(tree, Data { depth: 5, ..all });
                        created += 63;
                    }
                    40 => {
                        let task = make(detached, data, flags::DETACHED);
                        me.submit_after(task, [(address(writes), Kind::Out)].into_iter());
                        created += 1;
                    }
                    60 => {
                        me.wait_for([(address(writes), Kind::Out)].into_iter());
                        *work.cells[writes].get() += 1;
                    }
                    80 => me.wait_for_children(),
                    _ => {}
                }
            }
        }
        created
    }

    #[test]
    fn tasks_are_ordered_and_none_is_lost() {
        for threads in [1, 2, 4] {
            let work = Work {
                cells: Default::default(),
                ran: AtomicU64::new(0),
                events: Default::default(),
            };
            let (work, created, over) = (&work, &AtomicU64::new(0), &AtomicBool::new(false));
            std::thread::scope(|scope| {
                let fulfills = scope.spawn(move || {
                    while !over.load(Ordering::Acquire) {
                        for event in &work.events {
                            let task = event.swap(null_mut(), Ordering::Acquire);
                            if !task.is_null() {
                                // SAFETY: put there once, by the task.
                                unsafe { fulfill(task) };
                            }
                        }
                        std::thread::yield_now();
                    }
                });
                for round in 0..TIMES {
                    let team = Team::of(threads, false);
                    let member = |index: u16| {
                        move || {
                            enter(team, index.into(), index.into(), || {
                                region(work, created, round, [0, threads - 1])
                            });
                        }
                    };
                    let members: Vec<_> = (0..threads)
                        .map(|index| scope.spawn(member(index)))
                        .collect();
                    for member in members {
                        member.join().expect("no panic");
                    }
                    team.put_back();
                    let created = created.load(Ordering::Relaxed);
                    assert_eq!(work.ran.load(Ordering::Relaxed), created);
                }
                over.store(true, Ordering::Release);
                fulfills.join().expect("no panic");
            });
        }
    }

    /// What each thread of a region does: one after the other of two threads creates tasks.
    fn region(work: &Work, created: &AtomicU64, round: u64, creators: [u16; 2]) {
        let me = me().expect("in a team");
        for creator in creators {
            if me.index == creator {
                // SAFETY: this thread is a member of the team.
                let count = unsafe { create(work, round) };
                created.fetch_add(count, Ordering::Relaxed);
            }
            me.barrier(false);
            // SAFETY: all tasks have ended, and nobody writes before the next barrier.
            let sum: u64 = work.cells.iter().map(|cell| unsafe { *cell.get() }).sum();
            assert!(sum > 0);
            me.barrier(false);
        }
    }
}
