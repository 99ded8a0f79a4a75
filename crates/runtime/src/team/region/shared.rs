//! The regions of a pool, and the calls of their governor.

use super::RegionDecision;
use crate::name::Name;
use crate::process::Process;
use crate::worker::EndOnPanic;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tanada_policy::governors::regions::{self, UnknownRegionGovernor};
use tanada_policy::{
    Decision, Entry, Outcome, Placement, RegionGovernor, RegionId, RegionSite, Shape, Why, WorkerId,
};

/// The decisions that are kept: the last ones.
const LOG: usize = 1024;

/// What makes a governor of the user's own.
type Make = dyn Fn(&RegionSite) -> Box<dyn RegionGovernor> + Send + Sync;

/// What finds a registered governor.
type Find = fn(&str) -> Result<&'static regions::Entry, UnknownRegionGovernor>;

/// What makes the governor of a pool's regions.
#[derive(Clone)]
pub(crate) enum RegionMaker {
    /// The governor that changes nothing.
    Usual,
    /// Of this name, and how the name is looked up: so only programs that name a governor contain them all.
    Named(String, Find),
    Own(Arc<Make>),
}

// A panic of the function leaves nothing half done here: a builder only calls it.
impl UnwindSafe for RegionMaker {}
impl RefUnwindSafe for RegionMaker {}

impl RegionMaker {
    /// The registered governor `name`.
    pub(crate) fn named(name: &str) -> Self {
        RegionMaker::Named(name.to_owned(), regions::find)
    }

    fn make(&self, site: &RegionSite) -> Result<Box<dyn RegionGovernor>, UnknownRegionGovernor> {
        match self {
            RegionMaker::Usual => Ok(regions::unchanging(site)),
            RegionMaker::Named(name, find) => {
                let entry = find(name)?;
                Ok((entry.make)(site, &regions::Settings::default()))
            }
            RegionMaker::Own(make) => Ok(make(site)),
        }
    }
}

impl fmt::Debug for RegionMaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RegionMaker::Usual => "all",
            RegionMaker::Named(name, _) => name,
            RegionMaker::Own(_) => "(own)",
        })
    }
}

/// The regions of a pool. Times are nanoseconds since the pool was made.
pub(crate) struct Regions {
    home: Process,
    start: Instant,
    site: RegionSite,
    workers: u32,
    /// The workers of each core.
    cores: Vec<Vec<WorkerId>>,
    /// For each worker the place of its core in `cores`, and its place there.
    places: Vec<(usize, usize)>,
    state: Mutex<State>,
}

struct State {
    governor: Box<dyn RegionGovernor>,
    /// Whether some thread is in a region that is measured.
    inside: bool,
    ids: BTreeMap<Name, RegionId>,
    known: Vec<Known>,
    log: VecDeque<RegionDecision>,
}

struct Known {
    name: Name,
    /// The last decision.
    last: Option<Decision>,
    invocations: u64,
}

impl Regions {
    /// Returns no regions yet. `quota`: see [`RegionSite::quota`].
    ///
    /// # Errors
    /// If no registered governor has the name.
    pub(crate) fn new(
        placement: &Placement,
        quota: Option<f64>,
        maker: &RegionMaker,
    ) -> Result<Self, UnknownRegionGovernor> {
        let mut cores: Vec<Vec<WorkerId>> = Vec::new();
        let mut places = Vec::new();
        for worker in placement.ids() {
            // Distance 1: another hardware thread of the same core.
            let same = |core: &Vec<WorkerId>| placement.distance(core[0], worker) <= 1;
            let core = cores.iter().position(same).unwrap_or(cores.len());
            if core == cores.len() {
                cores.push(Vec::new());
            }
            places.push((core, cores[core].len()));
            cores[core].push(worker);
        }
        let most = cores.iter().map(Vec::len).max().unwrap_or(1);
        let site = RegionSite {
            cores: cores.len() as u16,
            threads_per_core: most as u16,
            quota: quota.unwrap_or(f64::INFINITY),
            microsecond: 1000.0,
        };
        let governor = maker.make(&site)?;
        Ok(Regions {
            home: Process::this(),
            start: Instant::now(),
            site,
            workers: u32::from(placement.workers()),
            cores,
            places,
            state: Mutex::new(State {
                governor,
                inside: false,
                ids: BTreeMap::new(),
                known: Vec::new(),
                log: VecDeque::new(),
            }),
        })
    }

    /// Returns no regions yet, of the usual governor.
    pub(crate) fn usual(placement: &Placement) -> Self {
        Self::new(placement, None, &RegionMaker::Usual).expect("no name is looked up")
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64 // of 584 years
    }

    /// Returns the number of the region `name`.
    pub(super) fn find(&self, name: Name) -> RegionId {
        let mut state = self.state.lock();
        let State { ids, known, .. } = &mut *state;
        *ids.entry(name).or_insert_with(|| {
            known.push(Known {
                name,
                last: None,
                invocations: 0,
            });
            RegionId(known.len() as u32 - 1)
        })
    }

    /// Asks the governor how this invocation runs, unless another thread is in a region.
    pub(super) fn enter(&self, region: RegionId, iterations: Option<u64>) -> Entered<'_> {
        let now = self.now();
        let mut state = self.state.lock();
        let state = &mut *state;
        let known = &mut state.known[region.0 as usize];
        let mut entered = Entered {
            regions: self,
            region,
            iterations,
            now,
            decision: known.last.unwrap_or_else(|| self.all()),
            measured: false,
        };
        if state.inside {
            return entered;
        }
        let entry = Entry {
            region,
            asked: self.workers,
            iterations,
            neighbours: None,
            now,
        };
        let (decision, why) = EndOnPanic::around(|| {
            let decision = self.possible(state.governor.enter(&entry));
            let news = known.last != Some(decision);
            (decision, news.then(|| state.governor.why(region)))
        });
        if let Some(why) = why {
            known.last = Some(decision);
            if state.log.len() == LOG {
                state.log.pop_front();
            }
            state.log.push_back(RegionDecision {
                at: Duration::from_nanos(now),
                region: known.name,
                invocations: known.invocations,
                decision,
                why,
            });
        }
        known.invocations += 1;
        state.inside = true;
        (entered.decision, entered.measured) = (decision, true);
        entered
    }

    /// Returns the decision for all workers.
    fn all(&self) -> Decision {
        self.possible(Decision::full(self.site.all()))
    }

    /// Returns `decision` as far as there are so many workers.
    fn possible(&self, decision: Decision) -> Decision {
        let Decision { shape, threads, .. } = decision;
        let shape = Shape {
            cores: shape.cores.clamp(1, self.site.cores),
            threads_per_core: shape.threads_per_core.clamp(1, self.site.threads_per_core),
        };
        let on = |core: &Vec<WorkerId>| core.len().min(usize::from(shape.threads_per_core));
        let most: usize = self
            .cores
            .iter()
            .take(usize::from(shape.cores))
            .map(on)
            .sum();
        Decision {
            shape,
            threads: threads.clamp(1, most as u32),
            ..decision
        }
    }

    /// Returns `threads` workers: the first ones of each of the first cores of `shape`, beginning with the core of `me` and there with
    /// `me`.
    pub(super) fn team(
        &self,
        me: WorkerId,
        shape: Shape,
        threads: u32,
    ) -> impl Iterator<Item = WorkerId> + Clone {
        let (first, place) = self.places.get(me.index()).copied().unwrap_or((0, 0));
        let each = usize::from(shape.threads_per_core);
        let from = move |list: usize, start: usize| (start..list).chain(0..start);
        from(self.cores.len(), first)
            .flat_map(move |core| {
                let workers = &self.cores[core];
                let start = if core == first { place } else { 0 };
                from(workers.len(), start).take(each).map(|at| workers[at])
            })
            .take(threads as usize)
    }

    /// Returns why the last decision for `region` is as it is.
    pub(super) fn why(&self, region: RegionId) -> Why {
        let state = self.state.lock();
        EndOnPanic::around(|| state.governor.why(region))
    }

    /// Returns how sure the governor is of its decision for `region`.
    pub(super) fn confidence(&self, region: RegionId) -> f64 {
        let state = self.state.lock();
        EndOnPanic::around(|| state.governor.confidence(region))
    }

    /// Returns the decisions so far, the oldest first.
    pub(super) fn decisions(&self) -> Vec<RegionDecision> {
        self.state.lock().log.iter().cloned().collect()
    }
}

/// An invocation that goes on. Dropping it tells the governor nothing: the invocation has failed. In a child of `fork(2)` its end changes
/// nothing: a thread of the parent may have had the lock.
pub(super) struct Entered<'a> {
    regions: &'a Regions,
    region: RegionId,
    iterations: Option<u64>,
    now: u64,
    decision: Decision,
    /// Whether the governor learns what comes of it.
    measured: bool,
}

impl Entered<'_> {
    pub(super) fn decision(&self) -> Decision {
        self.decision
    }

    /// Tells the governor that the invocation has ended.
    pub(super) fn leave(mut self) {
        if !self.regions.home.is_this() || !std::mem::take(&mut self.measured) {
            return;
        }
        let now = self.regions.now();
        let outcome = Outcome {
            region: self.region,
            decision: self.decision,
            time: now.saturating_sub(self.now),
            iterations: self.iterations,
            idle: None,
            neighbours: None,
            now,
        };
        let mut state = self.regions.state.lock();
        EndOnPanic::around(|| state.governor.leave(&outcome));
        state.inside = false;
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if self.measured && self.regions.home.is_this() {
            self.regions.state.lock().inside = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tanada_policy::{Waiting, Why};
    use tanada_topology::Topology;

    struct Asks;

    impl RegionGovernor for Asks {
        fn enter(&mut self, _entry: &Entry) -> Decision {
            unreachable!("no region is entered")
        }
        fn leave(&mut self, _outcome: &Outcome) {}
        fn why(&self, _region: RegionId) -> Why {
            Why::default()
        }
        fn confidence(&self, _region: RegionId) -> f64 {
            1.0
        }
    }

    fn regions(machine: &str, workers: u16) -> Regions {
        let topology: Topology = machine.parse().expect("a machine");
        let maker = RegionMaker::Own(Arc::new(|_| Box::new(Asks)));
        let regions = Regions::new(&topology.place(workers), topology.quota(), &maker);
        regions.expect("a governor of this test's own")
    }

    #[test]
    fn a_site_has_the_cores_of_the_workers() {
        let shape = |machine, workers| {
            let site = regions(machine, workers).site;
            (site.cores, site.threads_per_core)
        };
        assert_eq!(shape("l3:1 core:4 pu:2", 8), (4, 2));
        assert_eq!(shape("l3:1 core:4 pu:2", 6), (4, 2));
        assert_eq!(shape("l3:1 core:4 pu:2", 4), (4, 1));
        // More workers than hardware threads: they share them.
        assert_eq!(shape("core:2", 4), (2, 2));
        assert_eq!(shape("core:1", 1), (1, 1));
    }

    proptest! {
        /// The second reading: by sets, without the iterators.
        #[test]
        fn a_team_has_its_shape_and_the_caller(
            (cores, each) in (1_u16..6, 1_u16..4),
            workers in 1_u16..20,
            me in 0_u16..21,
            shape in (0_u16..8, 0_u16..6),
            threads in 0_u32..30,
        ) {
            let regions = regions(&format!("l3:1 core:{cores} pu:{each}"), workers);
            let wanted = Decision {
                shape: Shape { cores: shape.0, threads_per_core: shape.1 },
                threads,
                waiting: Waiting::AsIs,
            };
            let decision = regions.possible(wanted);
            let Decision { shape, threads, .. } = decision;
            prop_assert!((1..=shape.threads()).contains(&threads));
            let me = if me < workers { WorkerId(me) } else { WorkerId::NONE };
            let team: Vec<WorkerId> = regions.team(me, shape, threads).collect();
            prop_assert_eq!(team.len(), threads as usize);
            let mut different = team.clone();
            different.sort();
            different.dedup();
            prop_assert_eq!(different.len(), team.len());
            if me.is_worker() {
                prop_assert_eq!(team[0], me);
            }
            for core in &regions.cores {
                let here = team.iter().filter(|worker| core.contains(worker)).count();
                prop_assert!(here <= usize::from(shape.threads_per_core));
            }
        }
    }
}
