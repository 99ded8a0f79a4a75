//! How closures near the root of a tree of forks share the workers, under a policy that divides
//! ([`ForkPolicy::divides`](tanada_policy::ForkPolicy::divides)).
//!
//! Each worker knows inside of which branch it runs; a fork outside of all begins a tree. A fork of a *wide* branch divides its share,
//! and the second closure goes to the worker at the begin of its part: into the worker's own deque, or into the *share mail* of another
//! one. A fork of any other closure is an ordinary one, plain or kept, and carries the depth of its branch, by which thieves tell what is
//! inside of their reach. A worker that belongs nowhere waits for its share of the newest tree that was published, if that has not ended.
//!
//! # Nothing is out of reach for ever
//! By the rule, a worker waits for its own share and leaves other shares alone. A closure may hold up what others wait for, so natively
//! the rule ends with a worker's patience: one that searches `PATIENCE` times in vain looks further out, and at last takes anything.
//! Between two forks that are nearer in time than that, the rule holds.
//!
//! A worker that waits with a stack that is used up takes its own jobs only. So it must not wait for a closure that lies in another
//! worker's mail: near the end of a stack, nothing is dealt out. Nor is it by a worker that waits further out, else trees would nest on it
//! without end, nor by a lightweight thread, which would leave its branch to the next one.
//!
//! # What is not measured
//! What a lightweight thread runs counts for no branch. In a program with threads, locks or channels of [`thread`](crate::thread) that are
//! the jobs which a waiting worker has stolen, too: they run in threads of their own.

use super::reach::{self, Base};
use crate::pool::PoolShared;
use crate::worker::WorkerCore;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tanada_policy::forks::adws::{Branch, Division, Place, Ranges, Reach};
use tanada_policy::{Origin, WorkerId};
use tanada_queues::{Mailbox, Ready, Slot};

/// Searches in vain after which a worker looks further out: some ten microseconds.
const PATIENCE: u32 = 64;

/// Searches for which another worker than the first leaves a job from outside alone. The first worker may be about to look: a thread that
/// waits for one job brings the next one as soon as that ends.
const GRACE: u32 = 4;

/// Forks that a worker keeps, at most.
const FORKS: usize = 32;

/// Branches that a worker keeps, at most. [`Ranges`] cannot use them for other trees meanwhile.
const BRANCHES: usize = 4;

/// Bytes of stack between a fork and the place below it where a wait looks whether the stack is used up, at most.
const MARGIN: usize = 8 << 10;

/// What all threads of a pool share for this.
pub(crate) struct Sharing {
    ranges: Ranges,
    /// Whether worker 0 found nothing the last time that it looked. Then it looks again soon, or is woken, unless it did so inside of a
    /// closure that goes on.
    first_is_free: AtomicBool,
    seats: Box<[Seat]>,
}

/// What one worker lets others reach: closures that it owns and another one has forked.
#[derive(Default)]
struct Seat {
    /// The oldest, most often the only one: it costs one transfer of a line between two cores.
    first: Slot,
    further: Mailbox,
}

/// What one worker alone touches.
#[derive(Default)]
pub(super) struct ShareLocal {
    /// Where the worker belongs.
    place: RefCell<Place>,
    /// What it runs; `None`: nothing, or a closure outside of all trees.
    inside: RefCell<Option<Rc<Inside>>>,
    /// The address of `inside`, if that branch is not wide. A fork looks here and at `tag`, and not at further lines. It is live as long as
    /// the closure that runs there: the `Rc` lies in `inside`, or in a [`Running`] nearer to the top of the worker's own stack, if
    /// that runs something else meanwhile. A lightweight thread changes neither, and may go on when that closure has ended.
    narrow: Cell<Option<NonNull<Inside>>>,
    /// What queues say of the forks in `inside`; `None`: the worker has run nothing yet.
    tag: Cell<Option<u16>>,
    /// Branches that have ended, of trees that are begun again and again. To drop them and clone them again is to write counts of
    /// references, which lie on lines that other workers want.
    ended: RefCell<Vec<Rc<Inside>>>,
    /// When it began to run what it runs, if that is measured.
    since: Cell<u64>,
    /// Searches in vain.
    vain: Cell<u32>,
    /// Searches that found nothing while a job from outside lay there, since the last time that none did.
    left: Cell<u32>,
    /// How many waits lie below the top of the worker's own stack.
    waits: Cell<u32>,
    /// Forks of this worker that have ended. The next one of the same code at the same place of the tree, or at a root, is made on the same
    /// memory, with no more stores than what changes.
    #[expect(
        clippy::vec_box,
        reason = "the boxes themselves go from the forks to the list and back"
    )]
    kept: RefCell<Vec<Box<Divided>>>,
}

/// A branch in which a closure runs.
#[derive(Debug)]
pub(super) struct Inside {
    branch: Arc<Branch>,
    /// Whether forks divide the branch's share.
    is_wide: bool,
}

/// What becomes of one fork.
#[derive(Debug)]
pub(super) enum Fork {
    /// Its closures belong to the branch of the one that forks. A lightweight thread may go on on another worker, so what is counted here
    /// is the fork's alone.
    Within(Rc<Inside>),
    /// They have branches of their own.
    Divided(Box<Divided>),
}

/// A fork whose closures have branches of their own.
#[derive(Debug)]
pub(super) struct Divided {
    division: Division,
    code: u64,
    works: [u64; 2],
    /// The branch of the closure that forks.
    branch: Arc<Branch>,
    /// Of a fork that begins a tree, because the closure that forks is inside of none: where the worker belonged before.
    before: Option<Place>,
    /// Where the worker belonged when it ended the tree the last time.
    there: Place,
}

/// A worker waits until this is dropped.
pub(super) struct Waits<'a>(Option<&'a Cell<u32>>);

/// A closure runs in a branch until this is dropped.
pub(super) struct Running<'a> {
    worker: &'a WorkerCore,
    /// What the worker was inside of before, unless a lightweight thread runs the closure.
    before: Option<Option<Rc<Inside>>>,
    /// The branch, if it ends with the closure.
    ends: Option<&'a Branch>,
    /// The base of forks before it, if the closure has bases of its own.
    base: Option<Base>,
}

impl Sharing {
    pub(crate) fn new(workers: u16) -> Self {
        Sharing {
            ranges: Ranges::new(workers),
            first_is_free: AtomicBool::new(true),
            seats: (0..workers).map(|_| Seat::default()).collect(),
        }
    }

    /// Returns whether some worker has share mail.
    pub(crate) fn has_mail(&self) -> bool {
        self.seats.iter().any(|seat| !seat.is_empty())
    }

    /// Puts `job` into the share mail of `owner`, which is active.
    fn post(&self, pool: &PoolShared, owner: WorkerId, job: Ready) {
        self.seats[owner.index()].push(job);
        // It may have been made inactive by now: then it sleeps on, and is no help.
        let is_active = pool.sleep.is_active(owner.index());
        if !(is_active && pool.wake_if_asleep(owner.index())) {
            // The owner may be busy for long: another worker shall know of the job.
            pool.forks.demand.announce(&pool.sleep);
        }
    }
}

impl Seat {
    fn is_empty(&self) -> bool {
        self.first.is_empty() && self.further.is_empty()
    }

    fn push(&self, job: Ready) {
        let left = match self.further.is_empty() {
            true => self.first.put(job),
            false => Err(job),
        };
        if let Err(job) = left {
            self.further.push(job);
        }
    }

    /// Takes and returns the oldest, if two threads have not pushed at the same time.
    fn pop(&self) -> Option<Ready> {
        self.first.take().or_else(|| self.further.pop())
    }

    /// As [`Seat::pop`], if `accept` returns true for its digest.
    fn pop_if(&self, accept: impl Fn(u16) -> bool) -> Option<Ready> {
        (self.first.take_if(&accept)).or_else(|| self.further.pop_if(accept))
    }
}

/// Returns what a queue says of a closure of a branch with this depth.
fn tag(depth: u16, is_wide: bool) -> u16 {
    depth.min(u16::MAX >> 1) << 1 | u16::from(is_wide)
}

/// The depth in a tag, and whether the closure is wide.
fn untag(tag: u16) -> (u16, bool) {
    (tag >> 1, tag & 1 == 1)
}

impl WorkerCore {
    fn sharing(&self) -> Option<&Sharing> {
        self.pool().forks.sharing.as_ref()
    }

    /// Returns what becomes of a fork of this worker, whose closures have the works `works` (0 and 0: not known) and the code `code`;
    /// `None` if it is an ordinary fork outside of all trees.
    #[cold]
    pub(super) fn share(&self, code: usize, works: [u64; 2]) -> Option<Fork> {
        let (sharing, code) = (self.sharing()?, code as u64);
        self.end_if_forked();
        let local = &self.forks.share;
        let may_deal = || {
            local.waits.get() == 0
                && self.current_thread().is_none()
                && !self.stack.is_low_in(MARGIN)
        };
        let above = match &*local.inside.borrow() {
            Some(inside) if inside.is_wide && may_deal() => Some(inside.branch.clone()),
            Some(inside) => return Some(Fork::Within(inside.narrow())),
            None if may_deal() => None,
            None => return None,
        };
        let ranges = &sharing.ranges;
        let again = local.made_again(ranges, above.as_ref(), code, works);
        let mut fork = again.unwrap_or_else(|| {
            let branch = above.clone();
            let branch = branch.unwrap_or_else(|| ranges.root(self.id, code));
            Box::new(Divided {
                division: ranges.divide(&branch, code, &works),
                code,
                works,
                branch,
                before: None,
                there: Place::default(),
            })
        });
        if above.is_none() {
            fork.before = Some(local.place.replace(std::mem::take(&mut fork.there)));
        }
        Some(Fork::Divided(fork))
    }

    /// Queues the second closure of a divided fork on its owner. Returns false if that is this worker.
    pub(super) fn push_shared(&self, divided: &Divided, job: Ready) -> bool {
        let (branch, pool) = (&divided.division.branches[1], self.pool());
        let (owner, sharing) = (branch.owner(), self.sharing());
        if let (Some(_), Some(sharing)) = (&divided.before, sharing) {
            sharing.ranges.publish(&divided.branch);
        }
        let elsewhere = sharing.filter(|_| owner != self.id && pool.sleep.is_active(owner.index()));
        let is_wide = branch.is_wide() && (elsewhere.is_some() || owner == self.id);
        let job = job.with_digest(tag(branch.depth(), is_wide));
        match elsewhere {
            Some(sharing) => sharing.post(pool, owner, job),
            None => {
                self.forks.deque.borrow_mut().push(job);
                pool.forks.demand.announce(&pool.sleep);
            }
        }
        elsewhere.is_some()
    }

    /// Returns `job`, which this worker queues, with the depth of the branch in which it was made.
    #[inline]
    pub(super) fn tagged(&self, job: Ready) -> Ready {
        match self.forks.share.tag.get() {
            None => job,
            Some(tag) => job.with_digest(tag),
        }
    }

    /// The first closure of `fork` begins on this worker.
    #[inline]
    pub(super) fn runs_first<'a>(&'a self, fork: Option<&'a Fork>) -> Option<Running<'a>> {
        match fork {
            Some(Fork::Divided(divided)) => Some(self.begins(&divided.division.branches[0])),
            _ => None,
        }
    }

    /// The second closure of `fork` begins on this worker.
    #[inline]
    pub(super) fn runs_second<'a>(&'a self, fork: Option<&'a Fork>) -> Option<Running<'a>> {
        match fork? {
            Fork::Divided(divided) => Some(self.begins(&divided.division.branches[1])),
            Fork::Within(within) => self.runs_within(within),
        }
    }

    /// Returns what a fork of this worker is inside of, if the fork divides nothing and no lightweight thread makes it. The result is live
    /// until the closure that forks has ended.
    #[inline]
    pub(super) fn only_inside(&self) -> Option<NonNull<Inside>> {
        let narrow = self.forks.share.narrow.get();
        narrow.filter(|_| self.current_thread().is_none())
    }

    /// The second closure of a fork inside of the branch `within` begins on this worker. `None` if the worker is there, as it is if no
    /// other one has taken the closure.
    #[cold]
    pub(super) fn runs_within(&self, within: &Inside) -> Option<Running<'_>> {
        let is_there = |now: &Rc<Inside>| Arc::ptr_eq(&now.branch, &within.branch);
        let is_there = self
            .forks
            .share
            .inside
            .borrow()
            .as_ref()
            .is_some_and(is_there);
        (!is_there).then(|| self.enters(Some(within.narrow()), None))
    }

    /// A closure with the branch `branch` begins on this worker.
    fn begins<'a>(&'a self, branch: &'a Arc<Branch>) -> Running<'a> {
        let is_own = branch.owner() == self.id;
        match is_own {
            true => self.forks.share.place.borrow_mut().begin(branch),
            false => branch.stolen(),
        }
        let inside = self.forks.share.inside_of(branch, is_own);
        self.enters(Some(inside), Some(branch))
    }

    /// This worker begins something outside of all trees.
    #[inline]
    pub(super) fn leaves_share(&self) -> Option<Running<'_>> {
        self.sharing().map(|_| self.enters(None, None))
    }

    /// This worker begins to wait, and runs other jobs meanwhile.
    #[inline]
    pub(super) fn waits_in_share(&self) -> Option<(Running<'_>, Waits<'_>)> {
        self.sharing().map(|_| {
            // A thread that waits leaves the worker's own stack to others.
            let waits = (self.current_thread().is_none()).then_some(&self.forks.share.waits);
            if let Some(waits) = waits {
                waits.set(waits.get() + 1);
            }
            (self.enters(None, None), Waits(waits))
        })
    }

    fn enters<'a>(&'a self, inside: Option<Rc<Inside>>, ends: Option<&'a Branch>) -> Running<'a> {
        let base = ends.is_some().then(|| {
            let demand = &self.pool().forks.demand;
            demand.enter_job(self.id.index(), &self.forks.reach)
        });
        let local = &self.forks.share;
        // Threads of one worker do not end in the order in which they begin.
        let before = self.current_thread().is_none();
        let before = before.then(|| local.change(inside, &self.forks.reach));
        Running {
            worker: self,
            before,
            ends,
            base,
        }
    }

    /// Both closures of `fork` have ended.
    pub(super) fn ends_fork(&self, fork: Fork) {
        let (Fork::Divided(mut divided), Some(sharing)) = (fork, self.sharing()) else {
            return;
        };
        self.end_if_forked();
        sharing.ranges.learn(&mut divided.division);
        let local = &self.forks.share;
        if let Some(before) = divided.before.take() {
            sharing.ranges.end(&divided.branch);
            divided.there = local.place.borrow_mut().come_back(before);
        }
        local.keep(divided);
    }

    /// Takes and returns a closure for this worker: of its share mail, its own newest, one that it may steal, or one from outside. Those
    /// from outside are worker 0's for a while, a longer one if it is free, so that trees begin on the same worker each time.
    pub(super) fn find_shared(&self, sharing: &Sharing) -> Option<Ready> {
        let is_first = self.id == WorkerId(0);
        let found = self
            .pop_share(sharing)
            .or_else(|| self.pop_job())
            .or_else(|| self.steal_shared(sharing))
            .or_else(|| {
                let may_begin = is_first || self.may_begin(sharing);
                let job = may_begin.then(|| self.pop_injected()).flatten()?;
                self.forks.share.left.set(0);
                Some(job)
            });
        if is_first && sharing.first_is_free.load(Relaxed) != found.is_none() {
            sharing.first_is_free.store(found.is_none(), Relaxed);
        }
        let local = &self.forks.share;
        match found {
            Some(_) => {
                local.vain.set(0);
                local.place.borrow_mut().found();
            }
            None => {
                local.vain.set(local.vain.get().saturating_add(1));
                if local.vain.get().is_multiple_of(PATIENCE) {
                    local.place.borrow_mut().leave();
                }
            }
        }
        found
    }

    /// Returns whether this worker, which is not the first, may take a job from outside now. A worker that finds other jobs between its
    /// searches gets its turn, too.
    fn may_begin(&self, sharing: &Sharing) -> bool {
        let local = &self.forks.share;
        let left = match self.pool().forks.has_injected() {
            true => local.left.get().saturating_add(1),
            false => 0,
        };
        local.left.set(left);
        let grace = match sharing.first_is_free.load(Relaxed) {
            true => PATIENCE,
            false => GRACE,
        };
        left > grace || local.vain.get() >= PATIENCE
    }

    /// Waits for the time of `pauses` pauses, or until `is_due` returns true or the first place of this worker's share mail is taken.
    #[inline]
    pub(crate) fn pause(&self, pauses: u32, is_due: impl Fn() -> bool) {
        let seat = (self.sharing()).map(|sharing| &sharing.seats[self.id.index()]);
        for _ in 0..pauses {
            if is_due() || seat.is_some_and(|seat| !seat.first.is_empty()) {
                return;
            }
            std::hint::spin_loop();
        }
    }

    /// Takes and returns the oldest share mail of this worker.
    fn pop_share(&self, sharing: &Sharing) -> Option<Ready> {
        let job = sharing.seats[self.id.index()].pop()?;
        self.forks.origin.set(Origin::Mailbox);
        Some(job)
    }

    fn steal_shared(&self, sharing: &Sharing) -> Option<Ready> {
        let local = &self.forks.share;
        let is_patient = local.vain.get() < PATIENCE;
        if is_patient {
            local.place.borrow_mut().settle(&sharing.ranges);
        }
        loop {
            let reach = local.place.borrow_mut().reach(self.id);
            let least = match &reach {
                Reach::Nowhere => return None,
                Reach::Below(at) => at.depth() + 1,
                Reach::Anything => 0,
            };
            let may = |digest| {
                let (depth, is_wide) = untag(digest);
                depth >= least && !(is_wide && (is_patient || least > 0))
            };
            let found = self.steal_from(|victim| {
                match &reach {
                    Reach::Below(at) if !at.has(victim) => return None,
                    _ => {}
                }
                let seat = &self.pool().forks.seats[victim.index()];
                let mail = &sharing.seats[victim.index()];
                seat.steal_if(may).or_else(|| mail.pop_if(may))
            });
            if found.is_some() || !local.place.borrow_mut().tried() {
                return found;
            }
        }
    }
}

impl Inside {
    /// Returns the same branch for a worker, or a thread, of which no fork divides the branch's share.
    fn narrow(&self) -> Rc<Inside> {
        Rc::new(Inside {
            branch: self.branch.clone(),
            is_wide: false,
        })
    }
}

impl ShareLocal {
    /// Makes a fork again that has ended, below the branch `above` (`None`: at the root of a tree), and returns it; `None` if none is kept
    /// with this code and works, or another division is due.
    fn made_again(
        &self,
        ranges: &Ranges,
        above: Option<&Arc<Branch>>,
        code: u64,
        works: [u64; 2],
    ) -> Option<Box<Divided>> {
        let mut kept = self.kept.borrow_mut();
        let is_there = |fork: &Divided| match above {
            Some(above) => Arc::ptr_eq(&fork.branch, above) && fork.division.is_next(),
            None => fork.branch.parent().is_none(),
        };
        let is_same = |fork: &Divided| fork.code == code && fork.works == works && is_there(fork);
        let at = kept.iter().position(|fork| is_same(fork))?;
        let mut fork = kept.swap_remove(at);
        ranges.again(&mut fork.division).then_some(fork)
    }

    /// Keeps a fork that has ended, to be made again.
    fn keep(&self, fork: Box<Divided>) {
        let mut kept = self.kept.borrow_mut();
        if kept.len() == FORKS {
            kept.remove(0);
        }
        kept.push(fork);
    }

    /// Returns what a closure of `branch` runs in. The branch is this worker's if `is_own`.
    fn inside_of(&self, branch: &Arc<Branch>, is_own: bool) -> Rc<Inside> {
        let is_wide = is_own && branch.is_wide();
        let mut ended = self.ended.borrow_mut();
        let is_it = |one: &Rc<Inside>| Arc::ptr_eq(&one.branch, branch) && one.is_wide == is_wide;
        match ended.iter().position(is_it) {
            Some(at) => ended.swap_remove(at),
            None => Rc::new(Inside {
                branch: branch.clone(),
                is_wide,
            }),
        }
    }

    /// Keeps `inside`, which has ended, if it is likely to begin again: a tree that was measured may be divided in another way.
    fn keep_inside(&self, inside: Option<Rc<Inside>>) {
        let Some(inside) = inside.filter(|inside| !inside.branch.is_measured()) else {
            return;
        };
        let mut ended = self.ended.borrow_mut();
        if ended.len() == BRANCHES {
            ended.remove(0);
        }
        ended.push(inside);
    }

    /// The worker runs a closure in `to` from now on. Adds the time since the last change to the branch that the worker ran, if that is
    /// measured, and returns that one.
    fn change(&self, to: Option<Rc<Inside>>, clock: &reach::Reach) -> Option<Rc<Inside>> {
        let is_measured = |inside: &Rc<Inside>| inside.branch.is_measured();
        let starts = to.as_ref().is_some_and(is_measured);
        let narrow = to.as_deref().filter(|to| !to.is_wide);
        self.narrow.set(narrow.map(NonNull::from));
        clock.set_narrow(narrow.is_some());
        let depth = to.as_ref().map_or(0, |to| to.branch.depth());
        self.tag.set(Some(tag(depth, false)));
        let from = self.inside.replace(to);
        let ends = from.as_ref().filter(|from| is_measured(from));
        if starts || ends.is_some() {
            let now = clock.now();
            let time = now.saturating_sub(self.since.replace(now));
            if let Some(ends) = ends {
                ends.branch.worked(time);
            }
        }
        from
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if let Some(waits) = self.0 {
            waits.set(waits.get() - 1);
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.worker.end_if_forked();
        let local = &self.worker.forks.share;
        if let Some(before) = self.before.take() {
            let ended = local.change(before, &self.worker.forks.reach);
            local.keep_inside(ended.filter(|_| self.ends.is_some()));
        }
        if let (Some(branch), Some(sharing)) = (self.ends.take(), self.worker.sharing()) {
            sharing.ranges.end(branch);
        }
        if let Some(base) = self.base.take() {
            let demand = &self.worker.pool().forks.demand;
            demand.leave_job(self.worker.id.index(), base, &self.worker.forks.reach);
        }
    }
}
