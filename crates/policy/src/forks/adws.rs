//! `adws`: almost deterministic work stealing (Shiina and Taura, "Almost deterministic work stealing", SC 2019; "Improving cache
//! utilization of nested parallel programs by almost deterministic work stealing", IEEE TPDS 2022). The policy that the authors of paper 5
//! looked for: iteration after iteration, the same closures run on the same workers.
//!
//! # Rule
//! - Each closure near the root of the tree of forks has a *share*: an interval of workers with borders between workers, such as 1.5 to 3.
//!   The root's is all of them. A fork divides the share of its closure among the new closures in the ratio of their work
//!   ([`Ranges::divide`]). A closure whose share lies on several workers is *wide*.
//! - A new closure begins on the worker at the begin of its share, its *owner*; the first one on the worker that forks, without a queue.
//!   Forks of a closure that is not wide are its worker's own, until they are stolen.
//! - The work of a closure is what the program says; if that says nothing, what was measured the last time; if nothing was measured, that
//!   of its siblings. Borders that measurements would move by no more than `STEADY` of a worker stay where they are.
//! - A worker that has nothing to do steals inside of the innermost wide closure that it has a share in ([`Place`]): closures below it, of
//!   the workers of its share. First its own share of the present fork must have come, else early thieves displace the shares. It looks
//!   further out only once the closure has ended, or if its last fork is under way and `TRIES` searches were in vain. So between two forks
//!   of a closure (phases that touch the same data) its workers stay with it.
//! - Which fork is a closure's last is learnt: the one that was the last before.
//! - A tree that is begun again on its kept forks ([`Ranges::again`]) is measured once in some `UNMEASURED` times, and the next time if
//!   anything in it is new: a border that has moved, a fork that was not seen before, another number of forks than the last time.
//! - No closure below depth `DEEPEST` is wide, so a tree with all of its work on one side is not divided for ever.
//!
//! # Cost
//! A [`Branch`] for each closure that a wide one forks, about twice as many as workers for each walk of an even tree, at most `DEEPEST`
//! times as many; nothing below. Those that nobody holds any more are used again: were they freed, it would be by the worker that lets go
//! of one last, in whose caches and in whose part of the heap they are then. A fork that has ended can be begun again, in the next tree of
//! the same code ([`Ranges::again`]), if its engine keeps it: then the closures that it forks cost a few stores. Another worker that is
//! still somewhere in the tree of before tells by the tree's number.

use super::near_first::nearest;
use crate::{ForkPolicy, Thief, WorkerId, draw};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use tanada_queues::sync::Mutex;
use tanada_queues::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// Parts of a worker in which borders are counted.
const WHOLE: u64 = 1 << 16;

/// A border this near to one between two workers moves there, as a part of a worker: 0.3.
const SNAP: u64 = WHOLE * 3 / 10;

/// As far as measurements must move a border to move it, in parts of a worker: 0.3.
const STEADY: f64 = 0.3;

/// Times that a tree is begun again without a measurement, at least; at most one less than twice as often. The number varies, else a
/// program that begins two kinds of trees by turns might have the one measured each time and the other one never.
const UNMEASURED: u64 = 5;

/// Searches in vain after which a worker looks further out.
const TRIES: u32 = 2;

/// The depth below which no closure is wide: on one side of a tree there are about as many levels as parts of a worker can be told.
const DEEPEST: u16 = 64;

/// Forks and closures that are remembered, at most: with one more, all are forgotten.
const REMEMBERED: usize = 1 << 14;

/// Closures that are kept to be used again, at most.
const KEPT: usize = 64;

/// So many of them are looked at for each new one.
const LOOKS: usize = 3;

/// What there is of each closure of a fork: most forks have two.
type Each<T> = SmallVec<[T; 2]>;

/// The policy.
#[derive(Debug)]
pub struct Adws;

impl ForkPolicy for Adws {
    fn divides(&self) -> bool {
        true
    }

    /// For a worker that has no share of anything.
    fn steal(&self, thief: &mut Thief<'_>, steal: &mut dyn FnMut(WorkerId) -> bool) -> bool {
        nearest(thief, steal)
    }
}

/// An interval of workers, in parts of a worker. It may go on behind the last worker with the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    begin: u64,
    end: u64,
}

impl Share {
    /// Returns the numbers of the first worker and of the one behind the last.
    fn workers(self) -> (u64, u64) {
        let first = self.begin / WHOLE;
        (first, self.end.div_ceil(WHOLE).max(first + 1))
    }

    /// Returns the borders between the shares of closures with the works `works`, of which not all are 0.
    fn borders(self, works: &[f64]) -> SmallVec<[u64; 3]> {
        let sum: f64 = works.iter().sum();
        let width = (self.end - self.begin) as f64;
        let mut below = 0.0;
        let mut borders = SmallVec::with_capacity(works.len() + 1);
        borders.push(self.begin);
        let mut last = self.begin;
        for work in &works[..works.len() - 1] {
            below += work;
            let at = self.begin + (width * (below / sum)) as u64;
            last = snapped(at).clamp(last, self.end);
            borders.push(last);
        }
        borders.push(self.end);
        borders
    }
}

/// Returns whether several workers have a part between two borders.
#[inline]
fn is_wide(borders: &[u64]) -> bool {
    borders[1] > (borders[0] / WHOLE + 1) * WHOLE
}

/// Returns the border between two workers if it is near to `at`, or else `at`.
fn snapped(at: u64) -> u64 {
    let near = (at + WHOLE / 2) / WHOLE * WHOLE;
    match near.abs_diff(at) < SNAP {
        true => near,
        false => at,
    }
}

/// What a pool knows of the forks that it has divided.
#[derive(Debug)]
pub struct Ranges {
    workers: u16,
    learnt: Mutex<BTreeMap<u64, Learnt>>,
    /// The newest tree that was published.
    newest: Mutex<Weak<Branch>>,
    /// Its number: a worker looks at this word before it takes the lock.
    newest_number: AtomicU64,
    /// The address of its root. It is compared, and never followed.
    newest_root: AtomicUsize,
    kept: Mutex<Kept>,
}

/// Closures that were made, to be used again, and where the next search for an unused one begins.
#[derive(Debug, Default)]
struct Kept {
    branches: Vec<Arc<Branch>>,
    next: usize,
}

/// What is known of a fork, or of a closure, from the time before.
#[derive(Clone, Debug)]
enum Learnt {
    /// The parts of the share that the closures of a fork get.
    Parts(Arc<[f64]>),
    /// How many forks a closure has made.
    Phases(u32),
}

/// Where a closure has a share, and how deep it lies.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    share: Share,
    /// The worker at 0 of the shares of this tree.
    base: u64,
    workers: u16,
    depth: u16,
}

/// A closure that a wide one has forked, or the root of a tree.
#[derive(Debug)]
pub struct Branch {
    extent: Extent,
    key: u64,
    parent: Option<Arc<Branch>>,
    /// The fork of the parent that made it, counted from 1.
    born: u32,
    /// How many forks the closure made the time before; 0: not known.
    phases: u32,
    now: Now,
}

/// What changes of a [`Branch`]: on lines apart from what stays the same as long as it is used.
#[derive(Debug)]
#[repr(align(64))]
struct Now {
    /// The number of its tree, which changes when the tree is begun again.
    tree: AtomicU64,
    /// How many forks the closure has begun.
    phase: AtomicU32,
    /// Whether it has ended, or needs none of the workers that share it: one of them has stolen it.
    ended: AtomicBool,
    /// Whether the closure is measured, and all that it forks.
    measured: AtomicBool,
    /// Of a root: whether the next tree is to be measured, whatever its turn.
    news: AtomicBool,
    /// What was measured of it, and of all that it forked and that has ended.
    work: AtomicU64,
    /// The closures of the present fork, each with its share: only the one that a worker has a part of is touched by that worker.
    children: Mutex<Each<(Share, Weak<Branch>)>>,
}

impl Now {
    /// Returns what holds of a closure of tree number `tree` before it begins.
    fn new(tree: u64, measured: bool) -> Self {
        Now {
            tree: AtomicU64::new(tree),
            phase: AtomicU32::new(0),
            ended: AtomicBool::new(false),
            measured: AtomicBool::new(measured),
            news: AtomicBool::new(false),
            work: AtomicU64::new(0),
            children: Mutex::default(),
        }
    }

    /// The closure is to begin again, in tree number `tree`.
    fn again(&self, tree: u64, measured: bool) {
        self.phase.store(0, Relaxed);
        self.ended.store(false, Relaxed);
        self.measured.store(measured, Relaxed);
        self.work.store(0, Relaxed);
        // Last: who sees the number sees the rest.
        self.tree.store(tree, Release);
    }
}

/// The closures of one fork of a wide closure.
#[derive(Debug)]
pub struct Division {
    key: u64,
    parts: Each<f64>,
    measures: bool,
    /// Whether the parts come from the time before.
    was_known: bool,
    /// Whether nothing has been learnt since by which the next such fork would be divided in another way.
    is_steady: bool,
    /// Whether the closures are measured.
    is_measured: bool,
    /// How often a tree that begins with this fork is begun again before it is measured.
    unmeasured: u64,
    /// The closures, in the order of the works.
    pub branches: Each<Arc<Branch>>,
}

impl Division {
    /// Returns whether it divides the fork that the closure makes next, if that makes the same forks as the time before. A root forks once.
    pub fn is_next(&self) -> bool {
        let first = &self.branches[0];
        let is_next = |parent: &Branch| first.born == parent.now.phase.load(Relaxed) + 1;
        (first.parent.as_ref()).is_some_and(|parent| parent.parent.is_none() || is_next(parent))
    }

    /// Returns whether the tree of `root`, which begins with this fork, is to be measured.
    fn is_due(&self, root: &Branch) -> bool {
        let news = &root.now.news;
        let has_news = news.load(Relaxed) && news.swap(false, Relaxed);
        has_news || self.unmeasured == 0
    }
}

impl Drop for Division {
    /// Closures that nobody finds any more can be used again.
    fn drop(&mut self) {
        if let Some(first) = self.branches.first()
            && let Some(parent) = &first.parent
        {
            let mut children = parent.now.children.lock();
            if (children.first()).is_some_and(|(_, child)| child.as_ptr() == Arc::as_ptr(first)) {
                children.clear();
            }
        }
    }
}

impl Ranges {
    /// Returns what a pool of `workers` workers knows at first: nothing.
    pub fn new(workers: u16) -> Self {
        Ranges {
            workers,
            learnt: Mutex::default(),
            newest: Mutex::default(),
            newest_number: AtomicU64::new(0),
            newest_root: AtomicUsize::new(0),
            kept: Mutex::default(),
        }
    }

    /// Returns a closure, in the memory of one that nobody holds any more if there is one.
    fn make(&self, branch: Branch) -> Arc<Branch> {
        let mut kept = self.kept.lock();
        let Kept { branches, next } = &mut *kept;
        let number = branches.len();
        for at in (*next..*next + number.min(LOOKS)).map(|at| at % number) {
            if let Some(unused) = Arc::get_mut(&mut branches[at]) {
                *unused = branch;
                *next = at + 1;
                return branches[at].clone();
            }
        }
        let branch = Arc::new(branch);
        match number < KEPT {
            true => branches.push(branch.clone()),
            false => branches[*next % number] = branch.clone(),
        }
        *next += 1;
        branch
    }

    /// Lets workers that belong nowhere know of the tree. Called once its root has forked, so that they do not look at it before they can
    /// have a share of it, and before they can take any.
    pub fn publish(&self, root: &Arc<Branch>) {
        let tree = root.now.tree.load(Relaxed);
        let address = Arc::as_ptr(root).addr();
        if self.newest_root.load(Relaxed) == address {
            // It is there from the time before. If another tree takes its place meanwhile, workers look at that one.
            if self.newest_number.load(Relaxed) < tree {
                self.newest_number.store(tree, Release);
            }
            return;
        }
        let mut newest = self.newest.lock();
        if self.newest_number.load(Relaxed) < tree {
            *newest = Arc::downgrade(root);
            self.newest_root.store(address, Relaxed);
            self.newest_number.store(tree, Release);
        }
    }

    /// Returns the root of a tree that begins on worker `me`. `code` stands for its code. [`Ranges::publish`] tells the others of it.
    pub fn root(&self, me: WorkerId, code: u64) -> Arc<Branch> {
        let share = Share {
            begin: 0,
            end: u64::from(self.workers) * WHOLE,
        };
        let extent = Extent {
            share,
            base: u64::from(me.0),
            workers: self.workers,
            depth: 0,
        };
        let key = mixed(0, code);
        self.make(Branch {
            extent,
            key,
            parent: None,
            born: 0,
            phases: self.phases(key),
            now: Now::new(self.after(0), true),
        })
    }

    /// Returns the number of a tree that begins now, whose root was that of tree `before` the last time. Two workers that begin trees at
    /// the same time may number them alike; then workers that belong nowhere look at one of these only.
    fn after(&self, before: u64) -> u64 {
        self.newest_number.load(Relaxed).max(before) + 1
    }

    /// Begins the fork of `division` again, which has ended: a new tree if that was the fork of a root, else the fork that its closure
    /// makes now. Returns false if that fork is not the [next](Division::is_next), or is to be divided in another way by what was learnt
    /// since: then the next tree is measured.
    pub fn again(&self, division: &mut Division) -> bool {
        let Some(parent) = division.branches[0].parent.as_ref() else {
            return false;
        };
        let (born, is_root) = (division.branches[0].born, parent.parent.is_none());
        // Other workers are to know of the only fork of a root that it is the last.
        let fits = division.is_next() && (!is_root || parent.phases == born);
        let mut branches = division.branches.iter();
        if !fits || !division.is_steady || branches.any(|one| one.learnt().is_some()) {
            parent.asks();
            return false;
        }
        let now = parent.now.tree.load(Relaxed);
        let (tree, measured) = match is_root {
            true => (self.after(now), division.is_due(parent)),
            false => (now, parent.is_measured()),
        };
        if is_root {
            division.unmeasured = match measured {
                true => UNMEASURED + draw(tree, WorkerId(0), 0) % UNMEASURED,
                false => division.unmeasured - 1,
            };
        }
        division.is_measured = measured;
        for branch in &division.branches {
            branch.now.again(tree, measured);
        }
        if is_root {
            parent.now.again(tree, measured);
        } else {
            parent.bears(&division.branches);
        }
        parent.now.phase.store(born, Release);
        true
    }

    /// Divides the share of `branch`, which forks as many closures as there are `works`; `code` stands for their code. If all works are 0,
    /// the program says nothing.
    ///
    /// # Panics
    /// If there are no works.
    pub fn divide(&self, branch: &Arc<Branch>, code: u64, works: &[u64]) -> Division {
        assert!(!works.is_empty(), "a fork has closures");
        let key = mixed(branch.key, code);
        let said = works.iter().any(|work| *work != 0);
        let known = (!said).then(|| self.parts(key, works.len())).flatten();
        let was_known = known.is_some();
        if !said && !was_known && !branch.is_measured() {
            branch.asks();
        }
        let parts = match (said, known) {
            (true, _) => works.iter().map(|work| *work as f64).collect(),
            (false, Some(parts)) => Each::from_slice(&parts),
            (false, None) => Each::from_elem(1.0, works.len()),
        };
        // The closure forks one after the other.
        let born = branch.now.phase.load(Relaxed) + 1;
        let tree = branch.now.tree.load(Relaxed);
        let all = branch.extent.share;
        let borders = all.borders(&parts);
        let within = all.end.saturating_sub(1).max(all.begin);
        let branches = borders.windows(2).zip(0..).map(|(border, place)| {
            let key = mixed(key, place);
            let share = Share {
                // An empty share at the end, too, is a worker's of the closure that forks.
                begin: border[0].min(within),
                end: border[1],
            };
            self.make(Branch {
                extent: Extent {
                    share,
                    depth: branch.depth().saturating_add(1),
                    ..branch.extent
                },
                key,
                parent: Some(branch.clone()),
                born,
                phases: match is_wide(border) {
                    true => self.phases(key),
                    false => 0,
                },
                now: Now::new(tree, branch.is_measured()),
            })
        });
        let branches: Each<_> = branches.collect();
        branch.bears(&branches);
        branch.now.phase.store(born, Release);
        Division {
            key,
            measures: !said,
            was_known,
            is_steady: true,
            is_measured: branch.is_measured(),
            unmeasured: UNMEASURED,
            branches,
            parts,
        }
    }

    /// The closures of `division` have ended: what was measured of them is part of the closure that forked them, and decides how the next
    /// such fork is divided.
    pub fn learn(&self, division: &mut Division) {
        if !division.is_measured {
            return;
        }
        let Some(parent) = division.branches[0].parent.as_ref() else {
            return;
        };
        let measured = division.branches.iter();
        let measured: Each<u64> = measured.map(|one| one.now.work.load(Relaxed)).collect();
        if parent.parent.is_some() {
            // Here, and not where each of them ended: the parent's line is with this worker.
            parent.worked(measured.iter().sum());
        }
        if !division.measures {
            return;
        }
        let measured: Each<f64> = measured.iter().map(|work| *work as f64).collect();
        let (sum, before) = (
            measured.iter().sum::<f64>(),
            division.parts.iter().sum::<f64>(),
        );
        if sum == 0.0 {
            return;
        }
        let share = parent.extent.share;
        let width = (share.end - share.begin) as f64 / WHOLE as f64;
        let (mut new, mut old, mut moves) = (0.0, 0.0, false);
        for (measured, part) in measured.iter().zip(&division.parts) {
            new += measured / sum;
            old += part / before;
            moves |= (new - old).abs() * width > STEADY;
        }
        if moves || !division.was_known {
            let parts = if moves { &measured } else { &division.parts };
            self.remember(division.key, Learnt::Parts(parts.as_slice().into()));
        }
        if moves {
            parent.asks();
        }
        division.was_known = true;
        division.is_steady = !moves;
    }

    /// The closure of `branch` has ended, and all that it forked.
    pub fn end(&self, branch: &Branch) {
        if branch.is_measured()
            && let Some(phases) = branch.learnt()
        {
            self.remember(branch.key, Learnt::Phases(phases));
        }
        branch.now.ended.store(true, Release);
    }

    fn remember(&self, key: u64, what: Learnt) {
        let mut learnt = self.learnt.lock();
        if learnt.len() == REMEMBERED && !learnt.contains_key(&key) {
            learnt.clear();
        }
        learnt.insert(key, what);
    }

    fn parts(&self, key: u64, closures: usize) -> Option<Arc<[f64]>> {
        match self.learnt.lock().get(&key) {
            Some(Learnt::Parts(parts)) if parts.len() == closures => Some(parts.clone()),
            _ => None,
        }
    }

    fn phases(&self, key: u64) -> u32 {
        match self.learnt.lock().get(&key) {
            Some(Learnt::Phases(phases)) => *phases,
            _ => 0,
        }
    }
}

/// Returns the key of the closure, or fork, `which` below that of the key `above`.
fn mixed(above: u64, which: u64) -> u64 {
    draw(above ^ which.rotate_left(32), WorkerId(0), which)
}

impl Extent {
    /// Returns how many wide closures the closure is inside of.
    #[inline]
    pub fn depth(&self) -> u16 {
        self.depth
    }

    /// Returns whether `worker` has a part of the share.
    pub fn has(&self, worker: WorkerId) -> bool {
        self.has_in(self.share, worker)
    }

    /// Returns whether `worker` has a part of `share`, which is one of this tree.
    fn has_in(&self, share: Share, worker: WorkerId) -> bool {
        let workers = u64::from(self.workers);
        let place = (u64::from(worker.0) + workers - self.base) % workers;
        let (first, end) = share.workers();
        (first..end).contains(&place)
    }
}

impl Branch {
    /// Returns whether several workers share the closure.
    #[inline]
    pub fn is_wide(&self) -> bool {
        let Extent { share, depth, .. } = self.extent;
        depth < DEEPEST && is_wide(&[share.begin, share.end])
    }

    /// Returns the worker on which the closure begins.
    pub fn owner(&self) -> WorkerId {
        let Extent {
            share,
            base,
            workers,
            ..
        } = self.extent;
        let workers = u64::from(workers);
        let place = (share.begin / WHOLE).min(workers - 1);
        WorkerId(((base + place) % workers) as u16)
    }

    /// As [`Extent::depth`].
    #[inline]
    pub fn depth(&self) -> u16 {
        self.extent.depth
    }

    /// Returns the closure that forked this one; `None` of the root of a tree.
    pub fn parent(&self) -> Option<&Arc<Branch>> {
        self.parent.as_ref()
    }

    /// The next tree of this one's root is to be measured.
    fn asks(&self) {
        let mut root = self;
        while let Some(parent) = &root.parent {
            root = parent;
        }
        root.now.news.store(true, Relaxed);
    }

    /// Returns whether the engine shall measure what the closure does.
    #[inline]
    pub fn is_measured(&self) -> bool {
        self.now.measured.load(Relaxed)
    }

    /// The closure, or one that it forked below itself, has run for `time`, in whatever unit the engine measures.
    #[inline]
    pub fn worked(&self, time: u64) {
        if self.is_measured() {
            self.now.work.fetch_add(time, Relaxed);
        }
    }

    /// The closures of the present fork are `children`.
    fn bears(&self, children: &[Arc<Branch>]) {
        let mut now = self.now.children.lock();
        let is_first =
            |first: &Arc<Branch>, (_, now): &(_, Weak<_>)| now.as_ptr() == Arc::as_ptr(first);
        if !(children.first().zip(now.first())).is_some_and(|(first, now)| is_first(first, now)) {
            let children = children.iter();
            *now = children
                .map(|one| (one.extent.share, Arc::downgrade(one)))
                .collect();
        }
    }

    /// Returns how many forks the closure has made, if it has ended and that is news. One that was stolen makes none that count.
    fn learnt(&self) -> Option<u32> {
        let phases = self.now.phase.load(Relaxed);
        (self.is_wide() && phases != 0 && phases != self.phases).then_some(phases)
    }

    /// A worker that does not own the closure has stolen it, and runs it without the others.
    pub fn stolen(&self) {
        self.now.ended.store(true, Release);
    }

    fn has_ended(&self) -> bool {
        self.now.ended.load(Acquire)
    }

    /// Returns the closure of the present fork for which worker `me` is to wait: one that has not ended and of whose share it has a part.
    fn share_of(&self, me: WorkerId) -> Option<Arc<Branch>> {
        let children = self.now.children.lock();
        let own = children
            .iter()
            .filter(|(share, _)| self.extent.has_in(*share, me));
        let mut own = own.filter_map(|(_, child)| child.upgrade());
        own.find(|child| !child.has_ended())
    }
}

/// Where one worker belongs at present: the innermost wide closure that it has a share in.
#[derive(Clone, Debug, Default)]
pub struct Place {
    at: Option<Arc<Branch>>,
    /// The number of its tree when this was looked up last.
    tree: u64,
    /// Whether it is a root that the worker has left: the worker belongs nowhere, unless that tree is begun again.
    out: bool,
    /// The fork of `at` of which this worker has got its share; 0 before the first.
    served: u32,
    /// The closure of the present fork that is not wide, and for which this worker waits. Looked up once: whoever looks again and again
    /// slows down the worker that is about to hand it over.
    awaited: Option<Arc<Branch>>,
    /// Searches in vain in `at`.
    tries: u32,
    /// The number of the newest tree that it has looked at.
    seen: u64,
}

/// Where a worker may steal now.
#[derive(Clone, Copy, Debug)]
pub enum Reach {
    /// Nowhere: its own share is still to come.
    Nowhere,
    /// From workers that [have](Extent::has) a part of this closure, what is [deeper](Extent::depth).
    Below(Extent),
    /// Anything from anyone: the worker has no share of anything.
    Anything,
}

impl Place {
    /// The worker begins `branch`, which it owns.
    pub fn begin(&mut self, branch: &Arc<Branch>) {
        let tree = branch.now.tree.load(Relaxed);
        self.seen = self.seen.max(tree);
        let (at, served) = match branch.is_wide() {
            true => (Some(branch), 0),
            false => (branch.parent.as_ref(), branch.born),
        };
        // A worker that is there already leaves the counts of references alone, which lie on a line that others want.
        let at = match (self.at.take(), at) {
            (Some(here), Some(at)) if Arc::ptr_eq(&here, at) => Some(here),
            (_, at) => at.cloned(),
        };
        // The tree of a closure that has not ended is that of its parent.
        self.go_in(tree, at, served);
    }

    fn go(&mut self, at: Option<Arc<Branch>>, served: u32) {
        let tree = at.as_ref().map_or(0, |at| at.now.tree.load(Acquire));
        self.go_in(tree, at, served);
    }

    fn go_in(&mut self, tree: u64, at: Option<Arc<Branch>>, served: u32) {
        self.tree = tree;
        self.at = at;
        self.out = false;
        self.awaited = None;
        self.served = served;
        self.tries = 0;
    }

    /// A worker that belongs nowhere waits for its share of the newest tree, if that has not ended.
    pub fn settle(&mut self, ranges: &Ranges) {
        let newest = ranges.newest_number.load(Acquire);
        if (self.at.is_none() || self.out) && self.seen < newest {
            self.seen = newest;
            let at = self.at.as_ref().map(|at| Arc::as_ptr(at).addr());
            if at == Some(ranges.newest_root.load(Relaxed)) {
                // That is the tree that it has left; whether it was begun again is seen there.
                return;
            }
            let newest = ranges.newest.lock().upgrade();
            self.go(newest.filter(|root| !root.has_ended()), 0);
        }
    }

    /// Returns where worker `me`, whose place this is, may steal now.
    pub fn reach(&mut self, me: WorkerId) -> Reach {
        while let Some(at) = &self.at {
            let tree = at.now.tree.load(Acquire);
            if tree != self.tree {
                // It was begun again.
                (self.tree, self.served, self.tries) = (tree, 0, 0);
                (self.awaited, self.out) = (None, false);
                self.seen = self.seen.max(tree);
            }
            if self.out {
                break;
            }
            if at.has_ended() {
                self.leave();
                continue;
            }
            if let Some(share) = &self.awaited {
                if !share.has_ended() {
                    return Reach::Nowhere;
                }
                self.awaited = None;
            }
            let phase = at.now.phase.load(Acquire);
            if phase == self.served {
                if phase == 0 {
                    // A closure that has not forked.
                    return Reach::Nowhere;
                }
                if self.tries < TRIES || phase != at.phases {
                    return Reach::Below(at.extent);
                }
                self.leave();
                continue;
            }
            match at.share_of(me) {
                Some(child) if child.is_wide() => self.go(Some(child), 0),
                Some(child) => {
                    self.awaited = Some(child);
                    return Reach::Nowhere;
                }
                None => self.served = phase,
            }
        }
        Reach::Anything
    }

    /// The worker is where it was `before` it began a tree. Returns where it was in the tree.
    pub fn come_back(&mut self, before: Place) -> Place {
        let seen = self.seen.max(before.seen);
        std::mem::replace(self, Place { seen, ..before })
    }

    /// The worker belongs to the next closure further out from now on.
    pub fn leave(&mut self) {
        let Some(at) = &self.at else { return };
        let (tree, born) = (self.tree, at.born);
        match at.parent.clone() {
            None => self.out = true,
            parent => {
                self.go(parent, born);
                if self.tree != tree {
                    // That one was begun again: this worker has had a share of it before, but not now.
                    self.served = 0;
                }
            }
        }
    }

    /// A search where [`Place::reach`] said found nothing. Returns whether the next one may be elsewhere, or has to be here once more.
    pub fn tried(&mut self) -> bool {
        self.tries = self.tries.saturating_add(1);
        let is_last = |at: &Branch| at.now.phase.load(Acquire) == at.phases;
        !self.out && self.at.as_deref().is_some_and(is_last)
    }

    /// A search found something.
    pub fn found(&mut self) {
        self.tries = 0;
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// Runs a tree of one fork whose closures take the times `works`, on the fork of the time before if that may be. Returns the owner of
    /// the second closure, and whether the tree was measured.
    fn tree(ranges: &Ranges, kept: &mut Option<Division>, works: [u64; 2]) -> (WorkerId, bool) {
        let again = (kept.take()).and_then(|mut fork| ranges.again(&mut fork).then_some(fork));
        let mut fork = again.unwrap_or_else(|| {
            let root = ranges.root(WorkerId(0), 1);
            ranges.divide(&root, 2, &[0, 0])
        });
        let root = fork.branches[0].parent().expect("a root").clone();
        ranges.publish(&root);
        for (branch, work) in fork.branches.iter().zip(works) {
            branch.worked(work);
            ranges.end(branch);
        }
        let seen = (fork.branches[1].owner(), root.is_measured());
        ranges.learn(&mut fork);
        ranges.end(&root);
        *kept = Some(fork);
        seen
    }

    #[test]
    fn a_steady_tree_is_measured_now_and_then() {
        let (ranges, mut kept) = (Ranges::new(4), None);
        let mut measured = 0;
        for _ in 0..100 * UNMEASURED {
            let (owner, is_measured) = tree(&ranges, &mut kept, [10, 10]);
            assert_eq!(owner, WorkerId(2));
            measured += u32::from(is_measured);
        }
        assert!((50..100).contains(&measured), "{measured}");
    }

    #[test]
    fn a_tree_whose_work_moves_is_divided_in_another_way() {
        let (ranges, mut kept) = (Ranges::new(4), None);
        for round in 0..5 {
            for (works, owner) in [([10, 10], 2), ([30, 10], 3), ([10, 30], 1)] {
                let mut trees = 0;
                while tree(&ranges, &mut kept, works).0 != WorkerId(owner) {
                    trees += 1;
                    assert!(trees <= 2 * UNMEASURED, "round {round}: {works:?}");
                }
            }
        }
    }

    /// Trees of two levels whose root's fork is the same in all. The first closure makes a fork of one of several codes.
    struct TwoLevels {
        ranges: Ranges,
        outer: Option<Division>,
        inner: Vec<Division>,
    }

    impl TwoLevels {
        fn new() -> Self {
            TwoLevels {
                ranges: Ranges::new(8),
                outer: None,
                inner: Vec::new(),
            }
        }

        /// Runs a tree whose inner fork has the code `code` and closures of the times `works`. Returns the owner of the second of these.
        fn tree(&mut self, code: u64, works: [u64; 2]) -> WorkerId {
            let ranges = &self.ranges;
            let outer = self.outer.take();
            let outer = outer.and_then(|mut fork| ranges.again(&mut fork).then_some(fork));
            let mut outer = outer.unwrap_or_else(|| {
                let root = ranges.root(WorkerId(0), 1);
                ranges.divide(&root, 2, &[0, 0])
            });
            let [first, second] = [0, 1].map(|which: usize| outer.branches[which].clone());
            let root = first.parent().expect("a root").clone();
            ranges.publish(&root);
            let key = mixed(first.key, code);
            let is_it = |fork: &Division| {
                fork.key == key
                    && fork.branches[0]
                        .parent()
                        .is_some_and(|it| Arc::ptr_eq(it, &first))
            };
            let at = self.inner.iter().position(is_it);
            let kept = at.map(|at| self.inner.swap_remove(at));
            let kept = kept.and_then(|mut fork| ranges.again(&mut fork).then_some(fork));
            let mut inner = kept.unwrap_or_else(|| ranges.divide(&first, code, &[0, 0]));
            for (branch, work) in inner.branches.iter().zip(works) {
                branch.worked(work);
                ranges.end(branch);
            }
            let owner = inner.branches[1].owner();
            ranges.learn(&mut inner);
            self.inner.push(inner);
            ranges.end(&first);
            second.worked(works.iter().sum());
            ranges.end(&second);
            ranges.learn(&mut outer);
            ranges.end(&root);
            self.outer = Some(outer);
            owner
        }
    }

    #[test]
    fn each_kind_of_tree_is_measured_whatever_their_turns() {
        for period in 1..=16 {
            let mut trees = TwoLevels::new();
            let all = [([5, 15], 1), ([10, 10], 2), ([15, 5], 3), ([5, 15], 1)];
            for step in all.windows(2) {
                let ((before, _), (now, owner)) = (step[0], step[1]);
                // One kind after the other changes. Those that are measured meanwhile have nothing new.
                for changes in 0..period {
                    let mut seen = WorkerId(0);
                    for kind in (0..period).cycle().take(200 * period as usize) {
                        let works = if kind <= changes { now } else { before };
                        let at = trees.tree(10 + kind, works);
                        seen = if kind == changes { at } else { seen };
                    }
                    assert_eq!(seen, WorkerId(owner), "period {period}, {now:?}");
                }
            }
        }
    }

    #[test]
    fn an_inner_border_that_has_moved_is_measured_at_once() {
        let mut trees = TwoLevels::new();
        let is_measured = |trees: &TwoLevels| trees.outer.as_ref().is_some_and(|it| it.is_measured);
        (0..50).for_each(|_| _ = trees.tree(10, [10, 10]));
        while trees.tree(10, [15, 5]) != WorkerId(3) {}
        assert!(is_measured(&trees));
    }
}
