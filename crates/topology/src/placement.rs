//! The hardware thread of each worker, and the distances between workers.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::WorkerId;
use crate::tree::{Kind, Object, Topology};

/// The greatest result of [`Placement::distance`].
pub const MAX_DISTANCE: u8 = 6;

// Objects that two hardware threads may share, nearest first. The distance of two hardware threads is the index of the first object that
// both share (0: the hardware thread itself). A missing object is represented by a number that occurs only once.
const SAME_CORE: usize = 1;
const SAME_L2: usize = 2;
const SAME_CACHE: usize = 3;
const SAME_NUMA: usize = 4;
const SAME_PACKAGE: usize = 5;

/// The least share of a level-2 cache that [`Placement::own_cache_bytes`] prefers to a share of the last level.
const LARGE_L2: u64 = 1 << 20;

/// One hardware thread with the objects around it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spot {
    cpu: u32,
    usable: bool,
    /// Position among the usable hardware threads of its core.
    sibling: usize,
    shared: [u32; 6],
    around: Around,
}

/// The hardware thread of each worker, and the distances between workers. A cheap handle: clones share one table.
///
/// Building it walks the tree once. [`Placement::by_distance`] builds a worker's list at its first call (2 bytes a pair of workers, so 8 KB
/// for all lists of 64 workers). Everything else is a table lookup.
#[derive(Clone, Debug)]
pub struct Placement(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    spots: Vec<Spot>,
    domains: Vec<Vec<u32>>,
    by_distance: Vec<OnceLock<Box<[WorkerId]>>>,
}

impl Topology {
    /// Returns the places of `workers` workers on the usable hardware threads. The number is limited to 1 to 65,535.
    ///
    /// 1. Distinct cores come before second hardware threads of used cores, and fast cores before slow ones.
    /// 2. If there are fewer workers than cores, they are placed together: in the smallest object of the tree that has enough cores of the
    ///    fastest kind, and in the first of several.
    /// 3. The chosen hardware threads are numbered along the tree, so that workers with near numbers are near each other.
    /// 4. If there are more workers than usable hardware threads, worker w shares the hardware thread of worker w mod (hardware threads).
    ///
    /// Linear in the size of the tree; allocates.
    pub fn place(&self, workers: u16) -> Placement {
        let (spots, domains) = Walk::over(&self.root);
        let workers = usize::from(workers.max(1));
        let chosen = choose(&spots, workers);
        let spots = (0..workers).map(|w| chosen[w % chosen.len()].clone());
        Placement::from_spots(spots.collect(), domains)
    }
}

impl Placement {
    /// Returns a placement of `workers` workers (at least 1) on the hardware threads 0, 1, 2..., each on its own core, with one last-level
    /// cache of unknown size: any two workers have distance 3. For tests that do not depend on places.
    #[inline]
    pub fn flat(workers: u16) -> Placement {
        let workers = u32::from(workers.max(1));
        let spot = |cpu| Spot {
            cpu,
            usable: true,
            shared: [cpu, cpu, cpu, 0, 0, 0],
            ..Spot::default()
        };
        // By a loop and not by adapters, which would be functions elsewhere in a program that makes a pool at its start.
        let number = workers as usize;
        let (mut spots, mut domain) = (Vec::with_capacity(number), Vec::with_capacity(number));
        for cpu in 0..workers {
            spots.push(spot(cpu));
            domain.push(cpu);
        }
        Placement::from_spots(spots, vec![domain])
    }

    #[inline]
    fn from_spots(spots: Vec<Spot>, domains: Vec<Vec<u32>>) -> Placement {
        let mut by_distance = Vec::with_capacity(spots.len());
        for _ in &spots {
            by_distance.push(OnceLock::new());
        }
        Placement(Arc::new(Inner {
            spots,
            domains,
            by_distance,
        }))
    }

    /// Returns the number of workers; at least 1.
    #[inline]
    pub fn workers(&self) -> u16 {
        self.0.spots.len() as u16
    }

    /// Returns all workers in order.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = WorkerId> + use<> {
        (0..self.workers()).map(WorkerId)
    }

    /// Returns the operating system's number of the worker's hardware thread.
    ///
    /// # Panics
    /// If there is no such worker.
    #[inline]
    pub fn hardware_thread(&self, worker: WorkerId) -> u32 {
        self.0.spots[worker.index()].cpu
    }

    /// Returns the usable hardware threads of the worker's cache domain, in tree order: those below the greatest cache that several cores
    /// share and that does not extend beyond a NUMA node. If a cache spans NUMA nodes, or none is shared or known, the domain is the NUMA
    /// node; if that is unknown too, the machine.
    ///
    /// # Panics
    /// If there is no such worker.
    #[inline]
    pub fn domain(&self, worker: WorkerId) -> &[u32] {
        &self.0.domains[self.0.spots[worker.index()].around.domain_index]
    }

    /// Returns the distance of two workers: 0 same hardware thread (or the same worker), 1 same core, 2 same level-2 cache, 3 same cache
    /// domain (the last-level cache), 4 same NUMA node (if none is known, same package), 5 same package, 6 further, or one of them is
    /// outside of any worker.
    ///
    /// Symmetric. Takes at most six comparisons.
    #[inline]
    pub fn distance(&self, a: WorkerId, b: WorkerId) -> u8 {
        let (Some(a), Some(b)) = (self.0.spots.get(a.index()), self.0.spots.get(b.index())) else {
            return MAX_DISTANCE;
        };
        let first_equal = a.shared.iter().zip(&b.shared).position(|(a, b)| a == b);
        first_equal.map_or(MAX_DISTANCE, |distance| distance as u8)
    }

    /// Returns the workers around `worker`, with numbers one after the other, that are at most `distance` away: those of its core (1), of
    /// its level-2 cache (2), of its cache domain (3), of its NUMA node (4), of its package (5), or all.
    ///
    /// ```
    /// use tanada_topology::{Topology, WorkerId};
    ///
    /// let machine: Topology = "package:2 l3:1 core:3 pu:1".parse()?;
    /// let placement = machine.place(6);
    /// assert_eq!(placement.subtree(WorkerId(4), 3), 3..6);
    /// assert_eq!(placement.subtree(WorkerId(4), 6), 0..6);
    /// # Ok::<(), tanada_topology::Error>(())
    /// ```
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn subtree(&self, worker: WorkerId, distance: u8) -> Range<u16> {
        assert!(worker.0 < self.workers(), "there is no worker {worker:?}");
        let is_near = |other: &u16| self.distance(worker, WorkerId(*other)) <= distance;
        let begin = (0..worker.0).rev().take_while(is_near).last();
        let end = (worker.0 + 1..self.workers()).take_while(is_near);
        begin.unwrap_or(worker.0)..end.last().unwrap_or(worker.0) + 1
    }

    /// Returns all other workers, nearest first. Equally near workers are in ring order, starting after `worker` (w+1, w+2, ..., 0, ...
    /// w-1).
    ///
    /// A table lookup, except for a worker's first call (linear, allocates).
    ///
    /// # Panics
    /// If there is no such worker.
    #[inline]
    pub fn by_distance(&self, worker: WorkerId) -> &[WorkerId] {
        self.0.by_distance[worker.index()].get_or_init(|| self.sort_by_distance(worker))
    }

    /// Sorts by counting, which keeps ring order: a pool of forks does this at its start, where a general sort would cost more to load
    /// than to run.
    #[cold]
    fn sort_by_distance(&self, worker: WorkerId) -> Box<[WorkerId]> {
        let mut others = Vec::with_capacity(usize::from(self.workers()) - 1);
        for distance in 0..=MAX_DISTANCE {
            let ring = ((worker.0 + 1)..self.workers()).chain(0..worker.0);
            let here = |other: &WorkerId| self.distance(worker, *other) == distance;
            others.extend(ring.map(WorkerId).filter(here));
        }
        others.into()
    }

    /// Returns the bytes of cache that each of these workers has for itself, into which a working set should fit; `None` if unknown.
    ///
    /// The result is the worker's share of the level-2 cache (the cache's size divided by the number of these workers that it serves) if
    /// that share is at least 1 MiB, otherwise the greater of that share and the share of the last-level cache; of all workers the
    /// smallest. A level-2 share of 1 MiB is preferred to a greater share of the last level because it is faster, and because the last
    /// level that a virtual machine reports is often a whole cache that other machines use, too.
    ///
    /// Compares all pairs of workers.
    pub fn own_cache_bytes(&self) -> Option<u64> {
        let own = |me: &Spot| {
            let share = |bytes: Option<u64>, of: &[usize]| {
                let same = |other: &&Spot| of.iter().any(|&at| other.shared[at] == me.shared[at]);
                bytes.map(|bytes| bytes / self.0.spots.iter().filter(same).count() as u64)
            };
            let l2 = share(me.around.l2, &[SAME_CORE, SAME_L2]);
            let last = || share(me.around.last, &[SAME_CORE, SAME_L2, SAME_CACHE]);
            let large = l2.filter(|&bytes| bytes >= LARGE_L2);
            large.or_else(|| l2.max(last()))
        };
        self.0.spots.iter().filter_map(own).min()
    }

    /// Returns the bytes of the smallest level-1 data cache of these workers; `None` if unknown.
    pub fn l1d_bytes(&self) -> Option<u64> {
        self.0.spots.iter().filter_map(|s| s.around.l1d).min()
    }
}

/// Steps 1 to 3 of [`Topology::place`]: returns at most `workers` spots, in tree order.
fn choose(spots: &[Spot], workers: usize) -> Vec<&Spot> {
    let mut order: Vec<usize> = (0..spots.len()).filter(|&i| spots[i].usable).collect();
    order.sort_by_key(|&i| (spots[i].sibling, spots[i].around.core_kind)); // stable: keeps tree order
    let fastest = |i: &usize| {
        spots[*i].sibling == 0 && spots[*i].around.core_kind == spots[order[0]].around.core_kind
    };
    let cores: Vec<usize> = order.iter().copied().take_while(fastest).collect();
    let mut chosen = if workers < cores.len() {
        together(spots, &cores, workers)
    } else {
        order
    };
    chosen.truncate(workers);
    chosen.sort_unstable();
    chosen.into_iter().map(|i| &spots[i]).collect()
}

/// Returns those of `cores` (indices into `spots`) that are in the smallest object with at least `wanted` of them.
fn together(spots: &[Spot], cores: &[usize], wanted: usize) -> Vec<usize> {
    let mut held = std::collections::BTreeMap::<u32, usize>::new();
    for &core in cores {
        for &object in &spots[core].around.path {
            *held.entry(object).or_default() += 1;
        }
    }
    // Smallest first; of equals the first in tree order. Objects are numbered by the walk, so an object inside of another comes later.
    let enough = held.into_iter().filter(|&(_, n)| n >= wanted);
    let best = enough.min_by_key(|&(object, n)| (n, object));
    let best = best.map_or(0, |(object, _)| object);
    let inside = |&core: &usize| spots[core].around.path.contains(&best);
    cores.iter().copied().filter(inside).collect()
}

/// The walk from the root that collects the objects around each hardware thread.
struct Walk {
    spots: Vec<Spot>,
    domains: Vec<Vec<u32>>,
    visited: u32,
}

/// The objects on the path from the root.
#[derive(Clone, Debug, Default)]
struct Around {
    /// Outermost first, by their numbers in the order of the walk.
    path: Vec<u32>,
    package: u32,
    numa: u32,
    /// Number of the object that is the cache domain.
    domain: Option<u32>,
    /// Index in `Walk::domains` of that domain, or of the NUMA node or machine that replaces it.
    domain_index: usize,
    /// Whether a cache further out is shared by several cores, so that everything inside of a NUMA node shares it.
    below_shared_cache: bool,
    shared_l2: Option<u32>,
    core: u32,
    core_kind: u8,
    l1d: Option<u64>,
    l2: Option<u64>,
    last: Option<u64>,
}

impl Walk {
    fn over(root: &Object) -> (Vec<Spot>, Vec<Vec<u32>>) {
        let mut walk = Walk {
            spots: Vec::new(),
            domains: vec![Vec::new()],
            visited: 0,
        };
        walk.enter(root, Around::default());
        (walk.spots, walk.domains)
    }

    fn enter(&mut self, object: &Object, mut around: Around) {
        let me = self.visited;
        self.visited += 1;
        around.path.push(me);
        match object.kind {
            Kind::Machine => {}
            Kind::Package => {
                // If no NUMA node is known, the package replaces it: two packages are not as near as two cores of one package.
                if around.numa == around.package {
                    around.numa = me;
                }
                around.package = me;
            }
            Kind::Numa => {
                around.numa = me;
                around.domain = around.below_shared_cache.then_some(me);
                around.domain_index = self.new_domain();
            }
            Kind::L4 | Kind::L3 | Kind::L2 => self.enter_cache(object, me, &mut around),
            Kind::Core => {
                around.core = me;
                around.core_kind = object.core_kind;
                around.l1d = object.l1d_bytes;
            }
            Kind::HardwareThread => return self.spot(object, me, around),
        }
        let mut sibling = 0;
        for child in &object.children {
            let first = self.spots.len();
            self.enter(child, around.clone());
            if object.kind == Kind::Core && child.usable {
                self.spots[first].sibling = sibling;
                sibling += 1;
            }
        }
    }

    fn enter_cache(&mut self, cache: &Object, me: u32, around: &mut Around) {
        let shared = cache.count(Kind::Core) > 1;
        if cache.kind == Kind::L2 {
            around.l2 = cache.bytes;
            around.shared_l2 = shared.then_some(me);
        }
        around.last = around.last.or(cache.bytes); // the outermost whose size is known
        if shared {
            around.below_shared_cache = true;
            if around.domain.is_none() {
                around.domain = Some(me);
                around.domain_index = self.new_domain();
            }
        }
    }

    fn new_domain(&mut self) -> usize {
        self.domains.push(Vec::new());
        self.domains.len() - 1
    }

    fn spot(&mut self, thread: &Object, me: u32, around: Around) {
        let mut shared = [me; 6]; // `me` belongs to this hardware thread alone
        shared[SAME_CORE] = around.core;
        shared[SAME_L2] = around.shared_l2.unwrap_or(me);
        shared[SAME_CACHE] = around.domain.unwrap_or(me);
        shared[SAME_NUMA] = around.numa;
        shared[SAME_PACKAGE] = around.package;
        if thread.usable {
            self.domains[around.domain_index].push(thread.id);
        }
        self.spots.push(Spot {
            cpu: thread.id,
            usable: thread.usable,
            sibling: 0,
            shared,
            around,
        });
    }
}
