//! What a pool reports to its rule of a task that became ready: its age, the worker, and the hints that the rule reads.
//!
//! No registered policy reads the worker, so this file has a rule that does.

use proptest::prelude::*;
use tanada_laws::toy::{self, Idleness};
use tanada_laws::{Event, Model, Promises, any_graph, check, replay};
use tanada_policy::central::{Arrival, Central, Reads, Rule};
use tanada_policy::{Hints, Placement, Ready, Site, WorkerId};

/// An idle worker takes the newest task that became ready on itself, else the oldest of all.
struct OwnFirst(Vec<(Option<WorkerId>, Ready)>);

impl Rule for OwnFirst {
    const READS: Reads = Reads::Nothing;

    fn build(_site: &Site<'_>) -> Self {
        OwnFirst(Vec::new())
    }
    fn ready(&mut self, task: Ready, arrival: Arrival) {
        assert_eq!(arrival.hints, Hints::default(), "it reads none");
        self.0.push((arrival.on, task));
    }
    fn next(&mut self, worker: WorkerId) -> Option<Ready> {
        let own = self.0.iter().rposition(|&(on, _)| on == Some(worker));
        let place = own.or((!self.0.is_empty()).then_some(0))?;
        Some(self.0.remove(place).1)
    }
}

struct OwnFirstModel(Vec<(WorkerId, u64)>);

impl Model for OwnFirstModel {
    fn ready(&mut self, on: WorkerId, task: u64, _hints: Hints) {
        self.0.push((on, task));
    }
    fn next(&mut self, worker: WorkerId) -> Option<u64> {
        let own = self.0.iter().rposition(|&(on, _)| on == worker);
        let place = own.or((!self.0.is_empty()).then_some(0))?;
        Some(self.0.remove(place).1)
    }
}

/// Checks what its rule sees: ages 0, 1, 2..., and the hints that `READS` names. First come, first served.
struct Sees<const READS: u8>(Vec<Ready>, u64);

impl<const READS: u8> Rule for Sees<READS> {
    const READS: Reads = [Reads::Groups, Reads::Code, Reads::All][READS as usize];

    fn build(_site: &Site<'_>) -> Self {
        Sees(Vec::new(), 0)
    }
    fn ready(&mut self, task: Ready, Arrival { age, hints, .. }: Arrival) {
        assert_eq!(age, self.1);
        self.1 += 1;
        let all = hints_of(task.handle() as usize - 1);
        let right = match Self::READS {
            Reads::Groups => Hints::groups(all.t, all.s),
            Reads::Code => Hints::default().with_code(all.code),
            _ => all,
        };
        assert_eq!(hints, right);
        self.0.insert(0, task);
    }
    fn next(&mut self, _worker: WorkerId) -> Option<Ready> {
        self.0.pop()
    }
}

fn hints_of(task: usize) -> Hints {
    let groups = Hints::groups(1 + task as u32, 2);
    groups.with_code(3).with_depth(4).with_user(task as u64)
}

#[test]
fn a_rule_sees_the_age_and_the_hints_that_it_reads() {
    let mut graph = tanada_laws::Graph::default();
    for task in 0..6 {
        graph.add(hints_of(task), 1);
    }
    (1..4).for_each(|task| graph.edge(0, task)); // a turn with several; the others are injected
    let placement = Placement::flat(2);
    let tried = [
        toy::run::<Central<Sees<0>>>(&graph, &placement, 0, Idleness::Poll),
        toy::run::<Central<Sees<1>>>(&graph, &placement, 0, Idleness::Poll),
        toy::run::<Central<Sees<2>>>(&graph, &placement, 0, Idleness::Poll),
    ];
    assert!(tried.iter().all(Result::is_ok), "{tried:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn a_rule_sees_on_which_worker_a_task_became_ready(graph in any_graph(40), workers in 1..5u16) {
        let placement = Placement::flat(workers);
        for idleness in [Idleness::Poll, Idleness::Sleep] {
            let log = toy::run::<Central<OwnFirst>>(&graph, &placement, 0, idleness);
            let log = log.map_err(|wrong| TestCaseError::fail(wrong.to_string()))?;
            prop_assert_eq!(check(&graph, &log, Promises { greedy: true }), Ok(()));
            let replayed = replay(&graph, &log, &mut OwnFirstModel(Vec::new()));
            prop_assert!(replayed.is_ok(), "{:?}", replayed);
            let injected = |event: &&Event| matches!(event, Event::Ready { on: WorkerId::NONE, .. });
            let roots = graph.dependency_counts().iter().filter(|&&count| count == 0).count();
            prop_assert_eq!(log.events.iter().filter(injected).count(), roots);
        }
    }
}
