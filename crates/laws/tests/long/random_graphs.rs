//! Every registered policy on random graphs that are too large to try them all.

use proptest::prelude::*;
use tanada_laws::toy::Idleness;
use tanada_laws::{Case, Graph, any_graph, conforms};
use tanada_policy::registry::{self, Entry, Visitor};
use tanada_policy::{Dispatcher, Placement};
use tanada_topology::{Kind, Object, Topology};

#[derive(Clone, Copy)]
struct Try<'a>(Case<'a>);

impl Visitor for Try<'_> {
    type Out = Result<(), String>;
    fn visit<D: Dispatcher>(self, entry: &'static Entry) -> Self::Out {
        conforms::<D>(entry, self.0)
    }
}

fn all_policies(graph: &Graph, placement: &Placement, seed: u64) -> Result<(), String> {
    for idleness in [Idleness::Poll, Idleness::Sleep] {
        let case = Case {
            graph,
            placement,
            seed,
            idleness,
        };
        registry::for_each(Try(case))
            .into_iter()
            .collect::<Result<(), String>>()?;
    }
    Ok(())
}

/// Two packages of two caches of two cores of two hardware threads.
fn nested(workers: u16) -> Placement {
    let mut cpus = 0..16;
    let mut thread = || Object::hardware_thread(cpus.next().expect("there are 16"), true);
    let mut core = || Object::new(Kind::Core, vec![thread(), thread()]);
    let mut cache = || Object::new(Kind::L3, vec![core(), core()]);
    let mut package = || Object::new(Kind::Package, vec![cache(), cache()]);
    let machine = Object::new(Kind::Machine, vec![package(), package()]);
    Topology::new(machine, None)
        .expect("the tree is possible")
        .place(workers)
}

fn any_placement() -> impl Strategy<Value = Placement> {
    prop_oneof![
        (1..=9u16).prop_map(Placement::flat),
        (1..=20u16).prop_map(nested)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn graphs_of_up_to_sixty_tasks(graph in any_graph(60), placement in any_placement(), seed in any::<u64>()) {
        all_policies(&graph, &placement, seed).map_err(TestCaseError::fail)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(30) })]

    #[test]
    fn graphs_of_up_to_six_hundred_tasks(graph in any_graph(600), placement in any_placement(), seed in any::<u64>()) {
        all_policies(&graph, &placement, seed).map_err(TestCaseError::fail)?;
    }
}
