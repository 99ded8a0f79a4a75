use super::cases::{Results, Scheme, cases, single};
use super::published::CORES;
use super::simulating::{Pages, Program, Source, run};
use super::summary;
use std::collections::BTreeSet;
use tanada_sim::machines;

#[test]
fn no_case_is_simulated_twice_and_a_quick_one_is_a_smaller_one() {
    let [all, quick] = [false, true].map(|quick| cases(quick, !quick));
    let distinct: BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len());
    assert!(quick.iter().all(|case| distinct.contains(case)));
    assert!(quick.len() < all.len());
}

#[test]
fn one_core_takes_as_long_under_every_scheme_that_has_all_forks() {
    let source = Source {
        program: Program::Share(CORES),
        iterations: 2,
        tasks: 0,
    };
    let trace = source.record().expect("it is recorded");
    let machine = machines::find("opteron").expect("it is shipped");
    let machine = machine.with_cores(1).expect("it takes one");
    let time = |policy| {
        let found = run(&trace, &machine, policy, 1, &|| true).expect("it runs");
        assert!(found.steals.is_empty() && found.returned == 1.0);
        assert_eq!(found.iterations.len(), 2);
        found.iterations
    };
    assert_eq!(time("random"), time("shallowest-of-4"));
    // Fewer pieces, less scheduling.
    let cut = Source { tasks: 1, ..source }
        .record()
        .expect("it is recorded");
    assert!(cut.len() < trace.len());
    let found = run(&cut, &machine, "random", 1, &|| true).expect("it runs");
    assert!(found.iterations[1] < time("random")[1]);
}

#[test]
fn without_results_nothing_is_claimed() {
    let none = Results::default();
    assert_eq!(
        none.cold(single(Scheme::Original, Pages::OneSocket, CORES)),
        None
    );
    let summary = summary::summary(&none);
    assert!(
        summary::bars(&summary)
            .iter()
            .any(|bar| bar.is_met() == Some(false))
    );
}
