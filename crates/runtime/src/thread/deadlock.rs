//! Threads that wait for each other: found, named, and the end of the process.
//!
//! A thread of the runtime looks at all threads, a tenth of a second after a worker has had nothing to do although lightweight threads are
//! alive, or a thread outside has begun to wait; and about once in a second while lightweight threads begin to wait for what others have.
//! It does so more seldom if its looks take long, because there are a million threads.
//! What waits in a function of [`thread`](super) is *dead* if
//! - lightweight threads and OS threads outside of pools wait for each other in a circle: for ends of threads, of scopes and of pools, for
//!   mutexes, closures that run once, and the only worker that a thread may run on, if that waits for the end of a pool. Two looks find
//!   each of them in one and the same wait, so none can have gone on between them, whatever others do;
//! - threads of all kinds wait for each other in a circle, while all workers sleep or wait; or
//! - nobody is left who could wake one: every OS thread of the process is a worker that sleeps or waits, waits in a function of this crate,
//!   or is one of the two that look after others.
//!
//! Otherwise an OS thread that this crate does not know may still send a message or unlock something, and nothing is reported.
//!
//! An OS thread that was woken need not run for long, on a machine that has other things to do. So nothing is reported of one that does not
//! sleep for the system.

pub(crate) use super::record::On;
use super::record::{Header, Wait, pool_number};
use super::stack;
use super::timer;
use crate::pool::PoolShared;
use crate::process::{PerProcess, Process};
use crate::replay::blocked;
use crate::worker::WorkerCore;
use parking_lot::Mutex;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use std::sync::{Arc, Weak};

/// Whether lightweight threads were ever made. Before, nothing is looked at.
static USED: AtomicBool = AtomicBool::new(false);

/// What is known of this process's threads.
#[derive(Default)]
struct Known {
    pools: Mutex<Vec<Weak<PoolShared>>>,
    /// OS threads that are no workers and wait in a function of this crate.
    outside: AtomicUsize,
    /// What waits in a function of [`thread`](super) and is no lightweight thread.
    heavy: Mutex<Vec<Heavy>>,
    /// The OS threads that have a [`context`], by it.
    os_threads: Mutex<BTreeMap<u64, Arc<OsThread>>>,
    /// The number of the next one.
    next: AtomicU64,
    /// Threads with lower numbers are the parent's of which this process is a forked child.
    first: u64,
    /// What was seen when threads seemed to wait for each other, and how often. They do if the next looks find the same.
    seen: Mutex<Option<(Seen, u32)>>,
}

/// Everything that changes when a thread goes on.
struct Seen {
    /// The threads that wait for each other, or all that wait, by their numbers.
    blocked: Vec<(u64, Wait)>,
    /// The workers, all of which sleep or wait; none if these do not matter.
    still: Vec<Still>,
    outside: usize,
}

/// A worker that does nothing.
#[derive(Clone, Copy)]
enum Still {
    /// It sleeps, after so many turns.
    Asleep(u64),
    /// It waits in a task, and wakes up from time to time: how often it has found something to do, and has looked in vain since then.
    Looks(u32, u32),
}

/// So often at least a worker that wakes up from time to time has looked in vain between two looks at it, and before the first.
pub(super) const LOOKS: u32 = 2;

/// What two looks at everything say of the time between them. The greatest of several holds.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Between {
    Nothing,
    /// A worker may not have looked yet.
    Unknown,
    Something,
}

impl Seen {
    /// Returns what has happened since `before` was seen.
    fn since(&self, before: &Seen) -> Between {
        let same = self.blocked == before.blocked
            && self.outside == before.outside
            && self.still.len() == before.still.len();
        let each = self.still.iter().zip(&before.still);
        let each = each.map(|(now, before)| match (*now, *before) {
            (Still::Asleep(now), Still::Asleep(before)) if now == before => Between::Nothing,
            (Still::Looks(now, in_vain), Still::Looks(before, before_in_vain)) if now == before => {
                match in_vain.wrapping_sub(before_in_vain) >= LOOKS {
                    true => Between::Nothing,
                    false => Between::Unknown,
                }
            }
            _ => Between::Something,
        });
        match same {
            true => each.max().unwrap_or(Between::Nothing),
            false => Between::Something,
        }
    }

    /// Returns how often nothing must have happened between two looks. A worker that sleeps is woken by what it waits for; one that looks
    /// by itself may have run something between two looks.
    fn needed(&self) -> u32 {
        let looks = |still: &Still| matches!(still, Still::Looks(..));
        1 + u32::from(self.still.iter().any(looks))
    }
}

#[inline]
fn known() -> &'static Known {
    static KNOWN: PerProcess<Known> = PerProcess::new();
    KNOWN.get(|| Known {
        // The first pool's place is made here: a list that grows does so by code elsewhere in the program.
        pools: Mutex::new(Vec::with_capacity(1)),
        first: super::shared::number(),
        ..Known::default()
    })
}

/// The most threads that a report names.
const NAMED: usize = 32;

/// An OS thread that is no worker waits, until this is dropped.
pub(crate) struct Outside {
    _named: Named,
}

impl Outside {
    pub(crate) fn enter(on: On) -> Self {
        let _named = Named::enter(on);
        known().outside.fetch_add(1, SeqCst);
        suspect();
        Outside { _named }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        known().outside.fetch_sub(1, SeqCst);
    }
}

/// Reports name this OS thread and what it waits for, until this is dropped.
enum Named {
    /// What it waited for before.
    Again(On),
    /// The OS thread is about to end.
    Last(#[allow(dead_code, reason = "it is dropped")] IsKnown),
}

impl Named {
    fn enter(on: On) -> Self {
        let before = with_os_thread(|thread| thread.waits_for(on));
        before.map_or_else(
            || {
                let last = IsKnown::new(new_context());
                last.0.waits_for(on);
                Named::Last(last)
            },
            Named::Again,
        )
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        if let Named::Again(before) = *self {
            with_os_thread(|thread| thread.waits_for(before));
        }
    }
}

/// This OS thread, which is `worker` if it is one, waits for the end of a graph that runs in a pool of which it is no worker, until the
/// result is dropped.
pub(crate) fn waits_for_a_graph(worker: Option<&WorkerCore>) -> impl Sized {
    let outside = worker.is_none().then(|| Outside::enter(On::Graph));
    let elsewhere = worker.map(|worker| {
        // A lightweight thread is in reports by itself.
        let named = worker.current_thread().is_none();
        (
            named.then(|| Named::enter(On::Graph)),
            Elsewhere::enter(worker),
        )
    });
    (outside, elsewhere)
}

/// This OS thread, which is `worker` if it is one, waits for the end of a pool until the result is dropped: of `pool`, if that does not end
/// before all its threads and what its workers run have ended.
pub(crate) fn waits_for_a_pool(
    worker: Option<&WorkerCore>,
    pool: Option<&PoolShared>,
) -> impl Sized {
    let what = pool.map_or(0, |pool| pool_number(pool));
    let thread = worker.and_then(WorkerCore::current_thread);
    let heavily = (thread.is_none() && are_used()).then(|| Heavily::enter(worker, On::Pool, what));
    let outside = worker.is_none().then(|| Outside::enter(On::Pool));
    (
        heavily,
        outside,
        worker.map(Elsewhere::enter),
        thread.map(|thread| Ends::enter(thread, what)),
    )
}

/// A lightweight thread waits for the end of a pool, until this is dropped. Its worker does nothing else meanwhile.
struct Ends(&'static Header);

impl Ends {
    fn enter(thread: &'static Header, what: u64) -> Self {
        thread.waits_on(On::Pool, what);
        Ends(thread)
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.goes_on();
    }
}

/// A worker waits for something of a pool that is not its own, or with a stack that is used up, until this is dropped.
struct Elsewhere<'a>(&'a WorkerCore);

impl<'a> Elsewhere<'a> {
    fn enter(worker: &'a WorkerCore) -> Self {
        worker.changes_elsewhere();
        suspect();
        Elsewhere(worker)
    }
}

impl Drop for Elsewhere<'_> {
    fn drop(&mut self) {
        self.0.changes_elsewhere();
    }
}

/// `worker`, whose stack is used up, does nothing but wait, until the result is dropped.
pub(crate) fn is_still(worker: &WorkerCore) -> impl Sized + use<'_> {
    Elsewhere::enter(worker)
}

/// What is no lightweight thread waits in a function of [`thread`](super), until [`Heavily`] is dropped.
struct Heavy {
    number: u64,
    /// [`context`] of the OS thread.
    context: u64,
    /// If that is a worker, which may run something else on top of what waits: its pool's number in waits, and its own.
    worker: Option<(u64, u16)>,
    /// The system's number of it.
    task: Option<OsString>,
    label: String,
    on: On,
    what: u64,
}

/// This OS thread waits in a task or forked closure, or outside of all pools, until this is dropped.
pub(super) struct Heavily(u64);

impl Heavily {
    /// `worker`: this OS thread, if it is a worker.
    pub(super) fn enter(worker: Option<&WorkerCore>, on: On, what: u64) -> Self {
        used();
        let known = known();
        let number = known.next.fetch_add(1, SeqCst);
        let this = with_os_thread(|thread| thread.name().to_owned());
        let name = this.unwrap_or_else(|| OsThread::new(0).name().to_owned());
        let label = match worker.map(|worker| worker.pool().number) {
            Some(pool) => format!("a task or closure on worker {name} of pool {pool}"),
            None => format!("OS thread {name}"),
        };
        known.heavy.lock().push(Heavy {
            number,
            context: context(),
            worker: worker.map(|worker| (pool_number(worker.pool()), worker.id.0)),
            task: task(),
            label,
            on,
            what,
        });
        suspect();
        Heavily(number)
    }
}

impl Drop for Heavily {
    fn drop(&mut self) {
        let mut heavy = known().heavy.lock();
        if let Some(place) = heavy.iter().position(|one| one.number == self.0) {
            heavy.remove(place);
        }
    }
}

/// Numbers of OS threads: no lightweight thread has one of them.
const OS: u64 = 1 << 62;

/// Numbers of waits of OS threads: no lightweight thread has one of them.
const OS_WAIT: u64 = 1 << 63;

/// An OS thread that waits or has waited, or has locked something, as long as it lives.
struct OsThread {
    /// The process in which it is known.
    home: Process,
    /// Its [`context`].
    context: u64,
    thread: std::thread::Thread,
    /// The system's number of it, if it has no name.
    task: Option<String>,
    /// The [`On`] that it waits for outside of all pools, or as a worker for something of another pool. A [`Heavy`] wait says more.
    on: AtomicUsize,
}

impl OsThread {
    /// Returns the description of this OS thread. Nothing of its name is copied: reports, which are rare, ask for it.
    fn new(context: u64) -> Self {
        let thread = std::thread::current();
        let number = || task()?.into_string().ok();
        OsThread {
            home: Process::this(),
            context,
            task: match thread.name() {
                Some(_) => None,
                None => number(),
            },
            thread,
            on: AtomicUsize::new(On::Nothing as usize),
        }
    }

    /// Returns its name, or its number if it has none.
    fn name(&self) -> &str {
        let number = || self.task.as_deref().unwrap_or("without a name");
        self.thread.name().unwrap_or_else(number)
    }

    /// Stores what it waits for from now on, and returns what that was before. Called on it alone.
    fn waits_for(&self, on: On) -> On {
        let before = self.on();
        self.on.store(on as usize, Release);
        before
    }

    fn on(&self) -> On {
        let on = On::ALL.get(self.on.load(Acquire)).copied();
        on.unwrap_or(On::Nothing)
    }
}

/// This OS thread is among those that are known, until it ends.
struct IsKnown(Arc<OsThread>);

impl IsKnown {
    fn new(context: u64) -> Self {
        let thread = Arc::new(OsThread::new(context));
        let mut all = known().os_threads.lock();
        all.insert(context, Arc::clone(&thread));
        IsKnown(thread)
    }
}

impl Drop for IsKnown {
    fn drop(&mut self) {
        // In a child of `fork(2)` there may be nothing to remove.
        known().os_threads.lock().remove(&self.0.context);
    }
}

/// Calls `call` with the description of this OS thread, which is made when it is first asked for. Returns `None` if the OS thread is about
/// to end.
fn with_os_thread<R>(call: impl FnOnce(&OsThread) -> R) -> Option<R> {
    thread_local! {
        static THIS: RefCell<Option<IsKnown>> = const { RefCell::new(None) };
    }
    let this = |this: &RefCell<Option<IsKnown>>| {
        let mut this = this.borrow_mut();
        let context = match &*this {
            Some(IsKnown(thread)) if thread.home.is_this() => return call(thread),
            // In a child of `fork(2)`, what it has locked is still its own.
            Some(IsKnown(thread)) => thread.context,
            None => new_context(),
        };
        *this = None;
        call(&this.insert(IsKnown::new(context)).0)
    };
    THIS.try_with(this).ok()
}

/// Returns a number that no OS thread has as its [`context`].
fn new_context() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(OS);
    NEXT.fetch_add(1, Relaxed)
}

thread_local! {
    /// [`context`], or 0: every lock asks for it, so it is where no destructor is.
    static CONTEXT: Cell<u64> = const { Cell::new(0) };
}

/// Returns a number that stands for this OS thread, and for all tasks and closures that it runs. No lightweight thread has it.
#[inline]
pub(super) fn context() -> u64 {
    match CONTEXT.get() {
        0 => first_context(),
        context => context,
    }
}

#[cold]
#[inline(never)]
fn first_context() -> u64 {
    // A thread that is about to end waits for nothing any more.
    let context = with_os_thread(|thread| thread.context).unwrap_or(0);
    CONTEXT.set(context);
    context
}

/// Returns the system's number of this OS thread.
fn task() -> Option<OsString> {
    thread_local! {
        static TASK: RefCell<Option<(u64, OsString)>> = const { RefCell::new(None) };
    }
    let process = Process::this().number();
    let known = |kept: &Option<(u64, OsString)>| {
        let (of, number) = kept.as_ref()?;
        // In a child of `fork(2)` it has another one.
        (*of == process).then(|| number.clone())
    };
    let look = || {
        let this = std::fs::read_link("/proc/thread-self").ok()?;
        this.file_name().map(OsStr::to_owned)
    };
    let kept = TASK.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        known(&kept).or_else(|| {
            *kept = Some((process, look()?));
            known(&kept)
        })
    });
    // A destructor of another variable of an OS thread that ends may wait, too.
    kept.unwrap_or_else(|_| look())
}

/// A pool was made.
#[inline]
pub(crate) fn add_pool(pool: Weak<PoolShared>) {
    let mut pools = known().pools.lock();
    pools.retain(|pool| pool.strong_count() > 0);
    pools.push(pool);
}

/// Lightweight threads are made.
#[inline]
pub(super) fn used() {
    if !USED.load(Relaxed) {
        USED.store(true, SeqCst);
    }
}

/// Returns whether lightweight threads were ever made. A thread that makes one ready says so before, in the total order of `SeqCst`.
#[inline]
pub(super) fn are_used() -> bool {
    USED.load(SeqCst)
}

/// A thread begins to wait: perhaps the last one that could wake others.
#[inline]
pub(crate) fn suspect() {
    if USED.load(Relaxed) {
        timer::look_soon();
    }
}

/// A lightweight thread begins to wait: if that is for another thread, perhaps as the last one of a circle, which nothing else would
/// notice as long as its worker has others to run.
#[inline]
pub(super) fn may_close_a_circle(on: On) {
    if matches!(on, On::Join | On::Mutex | On::Once | On::Scope) {
        timer::look_later();
    }
}

/// What waits.
struct Blocked {
    /// The number of the thread, or the [`context`].
    who: u64,
    /// No other thread has it, and no other wait of an OS thread.
    number: u64,
    label: Label,
    wait: Wait,
    /// The number of the scope that it is part of, or 0.
    scope: u64,
    /// The number of the pool that does not end before it has gone on, or 0.
    pool: u64,
    /// The worker on which it is.
    worker: Option<u16>,
    /// Whether it stays there.
    is_pinned: bool,
}

/// What reports call something that waits. A look at a million threads writes no texts.
#[derive(Clone)]
pub(super) enum Label {
    /// A lightweight thread, with its number and its name, or none.
    Light(u64, &'static str),
    Other(String),
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Label::Light(number, "") => write!(f, "thread {number}"),
            Label::Light(number, name) => write!(f, "thread {number} ({name})"),
            Label::Other(name) => f.write_str(name),
        }
    }
}

impl Blocked {
    /// Returns the worker, after the number of its pool, that runs nothing else meanwhile, if this waits on a worker for the end of a pool.
    fn holds(&self) -> Option<(u64, u16)> {
        let holds = self.wait.on == On::Pool && self.pool != 0;
        holds.then_some((self.pool, self.worker?))
    }

    /// Returns whether this waits for what others have.
    fn needs_others(&self) -> bool {
        matches!(
            self.wait.on,
            On::Join | On::Mutex | On::Once | On::Scope | On::Pool
        )
    }
}

/// Looks for threads that wait for each other. If it finds the same ones again and again, reports them and ends the process.
pub(super) fn look() {
    let mut before = known().seen.lock();
    let (seen, blocked, circle) = match find() {
        Look::Dead(seen, blocked, circle) => (seen, blocked, circle),
        Look::Alive => {
            *before = None;
            return;
        }
        Look::Unknown => {
            drop(before);
            timer::look_soon();
            return;
        }
    };
    let (times, seen) = match before.take() {
        Some((first, times)) => match seen.since(&first) {
            Between::Nothing => (times + 1, seen),
            Between::Unknown => (times, first),
            Between::Something => (0, seen),
        },
        None => (0, seen),
    };
    if times >= seen.needed() {
        report(&blocked, &circle);
        std::process::abort();
    }
    *before = Some((seen, times));
    drop(before);
    // A thread that has been woken, and did not run yet, will have run by then.
    timer::look_soon();
}

/// What one look at everything has found.
enum Look {
    /// Threads that seem to wait for each other, and the places of those of them that do in a circle.
    Dead(Seen, Vec<Blocked>, Vec<usize>),
    Alive,
    /// An OS thread that waits does not sleep at the moment.
    Unknown,
}

impl Heavy {
    fn blocked(&self) -> Blocked {
        Blocked {
            who: self.context,
            number: self.number | OS_WAIT,
            label: Label::Other(self.label.clone()),
            wait: Wait {
                on: self.on,
                what: self.what,
                since: 0,
            },
            scope: 0,
            pool: self.worker.map_or(0, |(pool, _)| pool),
            worker: self.worker.map(|(_, worker)| worker),
            is_pinned: self.worker.is_some(),
        }
    }

    fn is_asleep(&self) -> bool {
        let task = self.task.as_ref();
        task.is_some_and(|task| is_asleep(&Path::new(TASKS).join(task)))
    }
}

/// Looks at everything.
fn find() -> Look {
    let known = known();
    let mut blocked = lightweight(known.first);
    let light = blocked.len();
    {
        let heavy = known.heavy.lock();
        let outside = heavy.iter().filter(|heavy| heavy.worker.is_none());
        // One that does not sleep may have been woken.
        blocked.extend(
            outside
                .filter(|heavy| heavy.is_asleep())
                .map(Heavy::blocked),
        );
    }
    let state = |thread: &Blocked| (thread.number, thread.wait);
    let circle = circle_of(&blocked);
    if !circle.is_empty() {
        let seen = Seen {
            blocked: circle.iter().map(|place| state(&blocked[*place])).collect(),
            still: Vec::new(),
            outside: 0,
        };
        return Look::Dead(seen, blocked, circle);
    }
    let Some(still) = still_workers() else {
        return Look::Alive;
    };
    let heavy = known.heavy.lock();
    if !heavy.iter().all(Heavy::is_asleep) {
        return Look::Unknown;
    }
    blocked.truncate(light);
    blocked.extend(heavy.iter().map(Heavy::blocked));
    drop(heavy);
    if blocked.is_empty() {
        return Look::Alive;
    }
    let circle = circle_of(&blocked);
    let outside = known.outside.load(SeqCst);
    // The timer's thread calls this. The one that watches schedules wakes nothing that waits.
    let waiting = still.len() + outside + 1 + usize::from(blocked::is_watched());
    if circle.is_empty() {
        match os_threads() {
            Some((all, sleep)) if all == waiting && !timer::has_alarms() => match sleep {
                true => {}
                false => return Look::Unknown,
            },
            _ => return Look::Alive,
        }
    }
    let seen = Seen {
        blocked: blocked.iter().map(state).collect(),
        still,
        outside,
    };
    Look::Dead(seen, blocked, circle)
}

/// Returns the lightweight threads that wait, of those with numbers from `first` on.
fn lightweight(first: u64) -> Vec<Blocked> {
    let mut blocked = Vec::new();
    stack::for_each(|header| {
        if let (Some(wait), Some((number, name))) = (header.blocked_on(), header.label())
            && number >= first
        {
            blocked.push(Blocked {
                who: number,
                number,
                label: Label::Light(number, name),
                wait,
                scope: header.scope(),
                pool: header.pool_of(number).unwrap_or(0),
                worker: header.home(),
                is_pinned: header.is_pinned(),
            });
        }
    });
    blocked
}

/// Returns all workers of all pools, if all of them sleep or wait.
fn still_workers() -> Option<Vec<Still>> {
    let pools: Vec<_> = (known().pools.lock().iter())
        .filter_map(Weak::upgrade)
        .collect();
    let mut workers = Vec::new();
    for pool in pools {
        // In a child of `fork(2)` the workers of its parent are none.
        if pool.is_forked() {
            continue;
        }
        let waits = pool.forks.demand.waits.idle();
        for (me, (idle, waiting)) in pool.sleep.idle().zip(waits).enumerate() {
            // It has no thread yet, and gets one from the program.
            if !pool.threads.has_begun(me) {
                continue;
            }
            let asleep = [idle, waiting]
                .into_iter()
                .flatten()
                .find(|idle| idle.asleep);
            let (found, in_vain) = pool.threads.looks_of(me);
            let elsewhere = pool.threads.waits_elsewhere(me);
            workers.push(match asleep {
                Some(idle) => Still::Asleep(idle.turns),
                None if elsewhere % 2 == 1 => Still::Asleep(elsewhere),
                None if in_vain >= LOOKS => Still::Looks(found, in_vain),
                // Its OS thread is the program's, or has ended, or both.
                None if pool.threads.is_loopless(me) => continue,
                None => return None,
            });
        }
    }
    Some(workers)
}

/// Where the system describes the OS threads of this process.
const TASKS: &str = "/proc/self/task";

/// Returns the number of OS threads of this process, and whether all but the one that calls this sleep. One that was woken, is stopped or
/// waits for a disk does not.
fn os_threads() -> Option<(usize, bool)> {
    let this = task()?;
    let (mut all, mut sleep) = (0, true);
    for each in std::fs::read_dir(TASKS).ok()? {
        let each = each.ok()?;
        all += 1;
        sleep &= each.file_name() == this || is_asleep(&each.path());
    }
    // ThreadSanitizer has one of its own, which wakes nothing.
    let others = usize::from(cfg!(sanitized = "thread"));
    Some((all - others, sleep))
}

/// Returns whether the OS thread sleeps that the system describes there.
fn is_asleep(described: &Path) -> bool {
    let line = std::fs::read_to_string(described.join("stat"));
    // The name, in parentheses, may have any characters.
    let state = line.as_deref().ok().and_then(|line| line.rsplit_once(')'));
    state.is_some_and(|(_, state)| state.trim_start().starts_with('S'))
}

/// Returns threads that wait for each other in a circle, by their places in `blocked`, each for the next one, and the one with the least
/// number first.
fn circle_of(blocked: &[Blocked]) -> Vec<usize> {
    // While one of these waits for the end of a pool, its worker runs no other thread.
    let holders = blocked.iter().zip(0..);
    let holders: HashMap<_, usize> = holders
        .filter_map(|(thread, place)| Some((thread.holds()?, place)))
        .collect();
    let holder = |thread: &Blocked| {
        let is_held = !holders.is_empty() && thread.wait.on == On::Work && thread.is_pinned;
        let worker = is_held.then_some((thread.pool, thread.worker?))?;
        holders.get(&worker)
    };
    let needs_others = |thread: &Blocked| thread.needs_others() || holder(thread).is_some();
    // A lightweight thread has one wait. Of those of one OS thread, the last one is on top of the others, whatever it is.
    let (mut places, mut members) = (HashMap::new(), HashMap::<_, Vec<_>>::new());
    for (place, thread) in blocked.iter().enumerate() {
        let needs_others = needs_others(thread);
        if needs_others || thread.who >= OS {
            places.insert(thread.who, place);
        }
        // No scope has the number of a pool: both are addresses.
        for group in [thread.scope, thread.pool] {
            if needs_others && group != 0 {
                members.entry(group).or_default().push(place);
            }
        }
    }
    if places.is_empty() {
        return Vec::new();
    }
    // Each of them has to go on before the thread does.
    let needs = |thread: &Blocked| match thread.wait.on {
        On::Join | On::Mutex | On::Once => places.get(&thread.wait.what).map(std::slice::from_ref),
        On::Scope | On::Pool => members.get(&thread.wait.what).map(Vec::as_slice),
        On::Work => holder(thread).map(std::slice::from_ref),
        _ => None,
    };
    let mut reached = vec![false; blocked.len()];
    // The path from a start to the thread that is looked at, each with those that it needs and that were not looked at.
    let mut path = Vec::new();
    let mut on_path = vec![false; blocked.len()];
    for start in 0..blocked.len() {
        let mut next = (needs_others(&blocked[start]) && !reached[start]).then_some(start);
        loop {
            if let Some(place) = next.take() {
                reached[place] = true;
                on_path[place] = true;
                path.push((place, needs(&blocked[place]).unwrap_or_default().iter()));
            }
            let Some((place, needed)) = path.last_mut() else {
                break;
            };
            match needed.next() {
                Some(other) if on_path[*other] => {
                    let begin = path.iter().position(|(place, _)| place == other);
                    let circle = path[begin.expect("it is on the path")..].iter();
                    let mut circle: Vec<usize> = circle.map(|(place, _)| *place).collect();
                    let least =
                        (0..circle.len()).min_by_key(|index| blocked[circle[*index]].number);
                    circle.rotate_left(least.expect("it is not empty"));
                    return circle;
                }
                Some(other) => next = (!reached[*other]).then_some(*other),
                None => {
                    on_path[*place] = false;
                    path.pop();
                }
            }
        }
    }
    Vec::new()
}

/// Threads that wait for each other in a circle, or all of them.
struct Report<'a> {
    blocked: &'a [Blocked],
    /// Those that [hold](Blocked::holds) workers.
    holders: HashMap<(u64, u16), &'a Blocked>,
    /// The threads that a scheduler may have lost. In a circle, no wait is one that this may explain, and other threads may run.
    losable: BTreeMap<u64, &'static str>,
}

fn report(blocked: &[Blocked], circle: &[usize]) {
    let holders = blocked.iter();
    let mut report = Report {
        blocked,
        holders: holders
            .filter_map(|thread| Some((thread.holds()?, thread)))
            .collect(),
        losable: BTreeMap::new(),
    };
    let text = if circle.is_empty() {
        report.losable = losable();
        report.of_all()
    } else {
        report.of_circle(circle)
    };
    crate::process::report(format_args!("{text}"));
}

impl Report<'_> {
    fn of_circle(&self, circle: &[usize]) -> String {
        let mut text = String::from("deadlock: threads wait for each other:");
        let next = circle.iter().cycle().skip(1);
        for (place, next) in circle.iter().zip(next) {
            let thread = &self.blocked[*place];
            let what = self.what(thread, Some(&self.blocked[*next]));
            let _ = write!(text, "\n  {} waits for {what}", thread.label);
        }
        text
    }

    fn of_all(&self) -> String {
        let mut text =
            String::from("deadlock: all threads wait, and nobody is left who could wake one:");
        list(&mut text, self.blocked.iter(), |thread| {
            let keeps = |other: &&Blocked| other.pool != 0 && other.pool == thread.wait.what;
            let keeper = self.blocked.iter().find(keeps);
            format!("{} waits for {}", thread.label, self.what(thread, keeper))
        });
        list(&mut text, waiting_os_threads().iter(), |thread| {
            let (name, what) = (thread.name(), text_of(thread.on()));
            format!("OS thread {name} waits for {what}")
        });
        let mut named: HashSet<u64> = self.blocked.iter().map(|thread| thread.number).collect();
        let queued = self.queued(&named);
        list(&mut text, queued.iter(), |(number, (name, holder))| {
            let (thread, pool) = (Label::Light(*number, name), pool_name(holder.pool));
            let holder = &holder.label;
            format!("{thread} waits for a worker of {pool}, on which {holder} waits")
        });
        named.extend(queued.keys());
        let lost = self.losable.iter();
        let lost = lost.filter(|(number, _)| !named.contains(number));
        list(&mut text, lost, |(number, name)| {
            let thread = Label::Light(*number, name);
            format!("{thread} was never run: a scheduler has lost it")
        });
        text
    }

    /// Returns what the thread waits for. `keeper`: if that is the end of a pool, what keeps the pool open, if it is known.
    fn what(&self, thread: &Blocked, keeper: Option<&Blocked>) -> String {
        let Wait { on, what, .. } = thread.wait;
        match on {
            On::Join => format!("the end of {}", self.name(what)),
            On::Mutex => format!("a mutex that {} has or gets before", self.name(what)),
            On::Once => format!("a closure that {} runs once", self.name(what)),
            On::Pool if what != 0 => {
                let pool = pool_name(what);
                let keeper = keeper.map(|keeper| format!("{} keeps", keeper.label));
                let keeper = keeper.unwrap_or_else(|| String::from("its threads keep"));
                format!("the end of {pool}, which {keeper} open")
            }
            On::Work => match self.holder(thread) {
                Some(holder) => format!("its worker, on which {} waits", holder.label),
                None if self.losable.contains_key(&thread.number) => {
                    format!("{}, unless a scheduler has lost it", text_of(on))
                }
                None => text_of(on).to_owned(),
            },
            _ => text_of(on).to_owned(),
        }
    }

    /// Returns what holds the worker that the thread is on.
    fn holder(&self, thread: &Blocked) -> Option<&Blocked> {
        self.holders.get(&(thread.pool, thread.worker?)).copied()
    }

    /// Returns what reports call the thread with the number.
    fn name(&self, who: u64) -> String {
        let found = self.blocked.iter().rfind(|thread| thread.who == who);
        found.map_or_else(|| alive(who), |thread| thread.label.to_string())
    }

    /// Returns the threads that have not begun and may wait for workers that are held, by their numbers, each with its name and what holds
    /// one of its pool's workers, except of those that were `named`. Called when nothing runs that could make a thread.
    fn queued(&self, named: &HashSet<u64>) -> BTreeMap<u64, (&'static str, &Blocked)> {
        let mut queued = BTreeMap::new();
        if self.holders.is_empty() {
            return queued;
        }
        let first = known().first;
        stack::for_each(|header| {
            let Some((number, name)) = header.label().filter(|_| header.home().is_none()) else {
                return;
            };
            if number < first || header.is_done() || named.contains(&number) {
                return;
            }
            let pool = header.pool_of(number).unwrap_or(0);
            let mut holders = self.holders.values();
            if let Some(holder) = holders.find(|holder| holder.pool == pool) {
                queued.insert(number, (name, *holder));
            }
        });
        queued
    }
}

/// Appends a line for each item, and for those that would make the report long, how many they are.
fn list<I: Iterator>(text: &mut String, mut items: I, line: impl Fn(I::Item) -> String) {
    for item in items.by_ref().take(NAMED) {
        let _ = write!(text, "\n  {}", line(item));
    }
    let more = items.count();
    if more > 0 {
        let _ = write!(text, "\n  and {more} more");
    }
}

/// Returns what reports call the pool with the number in waits.
fn pool_name(what: u64) -> String {
    let pools = known().pools.lock();
    let is = |pool: &&Weak<PoolShared>| pool_number(pool.as_ptr()) == what;
    // Not the last reference: what waits for the pool, or keeps it open, does not go on.
    let pool = pools.iter().find(is).and_then(Weak::upgrade);
    pool.map_or_else(
        || String::from("a pool"),
        |pool| format!("pool {}", pool.number),
    )
}

/// Returns what reports call that which is waited for, if they do not name it.
fn text_of(on: On) -> &'static str {
    match on {
        On::Join => "the end of a thread",
        On::Mutex => "a mutex",
        On::Condvar => "a condition variable",
        On::Barrier => "a barrier",
        On::Receive => "a message",
        On::Send => "room in a channel",
        On::Once => "a closure that runs once",
        On::Scope => "the threads of its scope",
        On::Future => "a future",
        On::Sleep => "the passing of time",
        On::Park | On::Nothing => "being unparked",
        On::Schedule => "being scheduled",
        On::Work => "the end of a fork, a graph or a call",
        On::Pool => "the end of a pool, which its threads keep open",
        On::Fork => "the end of a fork, a scope or a call of `install`",
        On::Graph => "the end of a graph",
        On::Call => "the end of a broadcast or a region",
    }
}

/// Returns the OS threads that wait, except those that have a [`Heavy`] wait outside of pools: these are named with that.
fn waiting_os_threads() -> Vec<Arc<OsThread>> {
    let known = known();
    let named: HashSet<u64> = {
        let heavy = known.heavy.lock();
        let outside = heavy.iter().filter(|heavy| heavy.worker.is_none());
        outside.map(|heavy| heavy.context).collect()
    };
    let os_threads = known.os_threads.lock();
    let waits =
        |thread: &&Arc<OsThread>| thread.on() != On::Nothing && !named.contains(&thread.context);
    os_threads.values().filter(waits).cloned().collect()
}

/// Returns the names of the lightweight threads that are alive and that a scheduler of the program's own may have lost, by their numbers.
/// Called when nothing runs that could make a thread.
fn losable() -> BTreeMap<u64, &'static str> {
    let known = known();
    let pools: Vec<_> = (known.pools.lock().iter())
        .filter_map(Weak::upgrade)
        .filter(|pool| pool.threads.scheduler().is_some())
        .collect();
    let mut losable = BTreeMap::new();
    stack::for_each(|header| {
        let Some((number, name)) = header.label().filter(|_| !header.is_done()) else {
            return;
        };
        let pool = header.pool_address();
        if number >= known.first && pools.iter().any(|of| std::ptr::eq(&raw const **of, pool)) {
            losable.insert(number, name);
        }
    });
    losable
}

/// Returns what reports call the thread with the number, which waits for nothing that is known.
fn alive(who: u64) -> String {
    let os_threads = known().os_threads.lock();
    let mut found = (os_threads.get(&who)).map(|thread| format!("OS thread {}", thread.name()));
    drop(os_threads);
    if who != 0 && who < OS {
        stack::for_each(|header| {
            let is = header.label().filter(|(number, _)| *number == who);
            found = found
                .take()
                .or(is.map(|(number, name)| Label::Light(number, name).to_string()));
        });
    }
    found.unwrap_or_else(|| String::from("a thread that is none of these"))
}
