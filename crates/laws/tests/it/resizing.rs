//! The laws hold while the number of active workers changes at every step.

use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Mutex;
use tanada_laws::toy::{self, Idleness};
use tanada_laws::{Graph, Promises, Violation, any_graph, check};
use tanada_policy::registry::{self, Entry, Visitor};
use tanada_policy::{Dispatcher, Env, Hints, Origin, Placement, Ready, Site, Wake, WorkerId};

#[derive(Clone, Copy)]
struct Case<'a> {
    graph: &'a Graph,
    workers: u16,
    seed: u64,
    idleness: Idleness,
    widths: &'a [u16],
}

impl Case<'_> {
    fn hold<D: Dispatcher>(self, greedy: bool) -> Result<(), Violation> {
        let placement = Placement::flat(self.workers);
        let log = toy::run_resized::<D>(
            self.graph,
            &placement,
            self.seed,
            self.idleness,
            self.widths,
        )?;
        check(self.graph, &log, Promises { greedy })
    }
}

impl Visitor for Case<'_> {
    type Out = Result<(), String>;
    fn visit<D: Dispatcher>(self, entry: &'static Entry) -> Self::Out {
        self.hold::<D>(entry.greedy)
            .map_err(|violation| format!("{}, {:?}: {violation}", entry.name, self.idleness))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn every_policy_keeps_the_laws(
        graph in any_graph(60),
        workers in 1..=9u16,
        seed in any::<u64>(),
        widths in proptest::collection::vec(1..=9u16, 1..20),
    ) {
        for idleness in [Idleness::Poll, Idleness::Sleep] {
            let case = Case { graph: &graph, workers, seed, idleness, widths: &widths };
            for held in registry::for_each(case) {
                held.map_err(TestCaseError::fail)?;
            }
        }
    }
}

/// The number of active workers, and of each worker the tasks that only it takes, with their S groups.
type Kept = (u16, Vec<VecDeque<(u32, Ready)>>);

/// Keeps each task for worker S mod active workers, and moves what it keeps when their number changes, if `MOVES`.
struct Boxes<const MOVES: bool>(Mutex<Kept>);

impl<const MOVES: bool> Dispatcher for Boxes<MOVES> {
    type Local = ();
    const READS_GROUPS: bool = true;

    fn build(site: &Site<'_>) -> (Self, Vec<()>) {
        let workers = site.placement.workers();
        let boxes = (0..workers).map(|_| VecDeque::new()).collect();
        let locals = vec![(); usize::from(workers)];
        (Boxes(Mutex::new((workers, boxes))), locals)
    }
    fn inject<E: Env>(&self, env: &mut E, task: Ready) {
        let s = env.hints(&task).s;
        let (active, boxes) = &mut *self.0.lock().unwrap();
        let whom = (s % u32::from(*active)) as u16;
        boxes[usize::from(whom)].push_back((s, task));
        env.wake(Wake::This(WorkerId(whom)));
    }
    fn ready<E: Env>(&self, _local: &mut (), env: &mut E, task: Ready) {
        self.inject(env, task);
    }
    fn next<E: Env>(&self, _local: &mut (), env: &mut E) -> Option<(Ready, Origin)> {
        let boxes = &mut self.0.lock().unwrap().1;
        let (_, task) = boxes[env.me().index()].pop_front()?;
        Some((task, Origin::Own))
    }
    fn resized<E: Env>(&self, env: &mut E, now: u16) {
        if !MOVES {
            return;
        }
        let (active, boxes) = &mut *self.0.lock().unwrap();
        *active = now;
        let kept: Vec<_> = boxes.iter_mut().flat_map(|tasks| tasks.drain(..)).collect();
        for (s, task) in kept {
            let whom = (s % u32::from(now)) as u16;
            boxes[usize::from(whom)].push_back((s, task));
            env.wake(Wake::This(WorkerId(whom)));
        }
    }
    fn may_have(&self, worker: WorkerId) -> bool {
        !self.0.lock().unwrap().1[worker.index()].is_empty()
    }
}

#[test]
fn a_policy_that_keeps_tasks_for_workers_moves_them_when_it_is_told() {
    let mut graph = Graph::default();
    for task in 0..40 {
        graph.add(Hints::groups(0, task % 4), 1 + u64::from(task % 3));
    }
    for idleness in [Idleness::Poll, Idleness::Sleep] {
        let case = |widths| Case {
            graph: &graph,
            workers: 4,
            seed: 0,
            idleness,
            widths,
        };
        let widths = [1, 3, 4, 2, 2, 1];
        assert_eq!(case(&widths).hold::<Boxes<true>>(false), Ok(()));
        let lost = case(&[1]).hold::<Boxes<false>>(false);
        assert!(matches!(lost, Err(Violation::Lost { .. })), "{lost:?}");
        assert_eq!(case(&[]).hold::<Boxes<false>>(false), Ok(()));
    }
}
