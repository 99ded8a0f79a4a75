//! How `adws` tells workers where they belong ([`Ranges`], [`Place`]), under shuttle. Its rule alone, without the patience of the runtime's
//! workers, keeps no worker waiting for a share that never comes: every tree ends, and when all have ended each worker may look anywhere.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test -p tanada-runtime --release --test model_adws`.
#![cfg(shuttle)]

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use shuttle::sync::{Arc, Mutex};
use shuttle::{Runner, thread};
use std::collections::VecDeque;
use tanada_policy::WorkerId;
use tanada_policy::forks::adws::{Branch, Division, Place, Ranges, Reach};

/// What stands for the code of all closures.
const CODE: u64 = 7;

/// A closure that its owner has not begun.
struct Job {
    branch: std::sync::Arc<Branch>,
    height: u32,
    ended: Arc<AtomicBool>,
}

/// Trees of forks in which each closure of a height forks two of the height below.
struct World {
    ranges: Ranges,
    /// Of each worker, the newest last.
    queues: Vec<Mutex<VecDeque<Job>>>,
    /// Workers whose trees have not all ended.
    beginning: AtomicUsize,
    leaves: AtomicUsize,
}

/// A worker of the model, which makes trees, or helps.
struct Worker {
    world: Arc<World>,
    me: WorkerId,
    place: Place,
    /// Forks that have ended, to be made again.
    kept: Vec<Division>,
    /// Whether it waits: then it runs closures on top of others, and deals none out.
    waits: bool,
}

impl Worker {
    /// Runs `trees` trees, one after the other.
    fn begin_trees(&mut self, trees: usize, height: u32) {
        for _ in 0..trees {
            let again = self.made_again(None);
            let root = match &again {
                Some(division) => division.branches[0].parent().expect("the root").clone(),
                None => self.world.ranges.root(self.me, CODE),
            };
            let before = std::mem::take(&mut self.place);
            self.fork(&root, again, height);
            self.world.ranges.end(&root);
            self.place.come_back(before);
        }
        self.world.beginning.fetch_sub(1, SeqCst);
    }

    /// Returns a fork of the closure of `branch`, or one that begins a tree, on the memory of the one before if that may be.
    fn made_again(&mut self, branch: Option<&std::sync::Arc<Branch>>) -> Option<Division> {
        let is_there = |division: &Division| {
            let parent = division.branches[0].parent().expect("a fork has a parent");
            match branch {
                Some(branch) => std::sync::Arc::ptr_eq(parent, branch) && division.is_next(),
                None => parent.parent().is_none(),
            }
        };
        let at = self.kept.iter().position(is_there)?;
        let mut division = self.kept.swap_remove(at);
        self.world.ranges.again(&mut division).then_some(division)
    }

    /// The closure of `branch` forks two closures with branches of their own, of this height.
    fn fork(&mut self, branch: &std::sync::Arc<Branch>, again: Option<Division>, height: u32) {
        let world = Arc::clone(&self.world);
        let mut division = again.unwrap_or_else(|| world.ranges.divide(branch, CODE, &[0, 0]));
        let ended = Arc::new(AtomicBool::new(false));
        let second = Job {
            branch: division.branches[1].clone(),
            height,
            ended: Arc::clone(&ended),
        };
        if branch.parent().is_none() {
            world.ranges.publish(branch);
        }
        let owner = second.branch.owner();
        world.queues[owner.index()]
            .lock()
            .unwrap()
            .push_back(second);
        let first = division.branches[0].clone();
        self.run(&first, height);
        let waited = std::mem::replace(&mut self.waits, true);
        while !ended.load(SeqCst) {
            self.help();
        }
        self.waits = waited;
        world.ranges.learn(&mut division);
        self.kept.push(division);
    }

    /// Runs the closure of `branch`.
    fn run(&mut self, branch: &std::sync::Arc<Branch>, height: u32) {
        let is_own = branch.owner() == self.me;
        match is_own {
            true => self.place.begin(branch),
            false => branch.stolen(),
        }
        if height > 0 && is_own && branch.is_wide() && !self.waits {
            let again = self.made_again(Some(branch));
            self.fork(branch, again, height - 1);
        } else {
            let leaves = 1 << height;
            branch.worked(leaves as u64);
            self.world.leaves.fetch_add(leaves, SeqCst);
        }
        self.world.ranges.end(branch);
    }

    /// Runs a closure, if this worker finds one where it belongs.
    fn help(&mut self) {
        let world = Arc::clone(&self.world);
        let own = world.queues[self.me.index()].lock().unwrap().pop_back();
        match own.or_else(|| self.steal()) {
            Some(job) => {
                self.place.found();
                self.run(&job.branch, job.height);
                job.ended.store(true, SeqCst);
            }
            None => thread::yield_now(),
        }
    }

    fn steal(&mut self) -> Option<Job> {
        let world = Arc::clone(&self.world);
        self.place.settle(&world.ranges);
        loop {
            let (least, extent) = match self.place.reach(self.me) {
                Reach::Nowhere => return None,
                Reach::Below(extent) => (extent.depth() + 1, Some(extent)),
                Reach::Anything => (0, None),
            };
            assert!(extent.is_none_or(|extent| extent.has(self.me)));
            for (victim, queue) in world.queues.iter().enumerate() {
                let victim = WorkerId(victim as u16);
                if extent.is_some_and(|extent| !extent.has(victim)) {
                    continue;
                }
                let mut queue = queue.lock().unwrap();
                let may = |job: &Job| job.branch.depth() >= least && !job.branch.is_wide();
                if let Some(place) = queue.iter().position(may) {
                    return queue.remove(place);
                }
            }
            if extent.is_none() || !self.place.tried() {
                return None;
            }
        }
    }

    /// Helps until all trees of all workers have ended, and then finds that it may look anywhere.
    fn help_to_the_end(&mut self) {
        while self.world.beginning.load(SeqCst) > 0 {
            self.help();
        }
        self.place.settle(&self.world.ranges);
        assert!(matches!(self.place.reach(self.me), Reach::Anything));
    }
}

/// `workers` workers, of which the first `beginners` make `trees` trees each.
fn scenario(workers: u16, beginners: u16, trees: usize, height: u32) {
    let world = Arc::new(World {
        ranges: Ranges::new(workers),
        queues: (0..workers).map(|_| Mutex::default()).collect(),
        beginning: AtomicUsize::new(usize::from(beginners)),
        leaves: AtomicUsize::new(0),
    });
    let threads: Vec<_> = (0..workers)
        .map(|me| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let mut worker = Worker {
                    world,
                    me: WorkerId(me),
                    place: Place::default(),
                    kept: Vec::new(),
                    waits: false,
                };
                if me < beginners {
                    worker.begin_trees(trees, height);
                }
                worker.help_to_the_end();
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("a worker that ends");
    }
    let leaves = usize::from(beginners) * trees * (2 << height);
    assert_eq!(world.leaves.load(SeqCst), leaves);
}

#[test]
fn every_tree_ends_and_nobody_belongs_anywhere_then() {
    let cases = [
        (2, 1, 4, 0),
        (3, 1, 4, 1),
        (4, 1, 4, 2),
        (2, 2, 3, 1),
        (4, 2, 2, 1),
    ];
    for (workers, beginners, trees, height) in cases {
        let run = move || scenario(workers, beginners, trees, height);
        Runner::new(RandomScheduler::new(3_000), Default::default()).run(run);
        for depth in 2..4 {
            Runner::new(PctScheduler::new(depth, 1_000), Default::default()).run(run);
        }
    }
}
