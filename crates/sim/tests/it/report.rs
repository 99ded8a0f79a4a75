//! Simulated runs as a report has them: whatever runs, the report is sound.

use crate::common;

use common::{any_shape, machine_text, trace};
use proptest::prelude::*;
use tanada_policy::registry;
use tanada_report::{Report, validate};

use tanada_sim::{Machine, Options, Run, reuse, simulate, timeline};

#[test]
fn every_run_makes_a_sound_report() {
    proptest!(ProptestConfig::with_cases(200), |(
        shape in any_shape(),
        cores in 1..6u16,
        seed in any::<u64>(),
        model in prop::sample::select(vec!["uniform", "contended"]),
        policy in prop::sample::select(registry::all()),
    )| {
        let trace = trace(&shape.text());
        let machine = Machine::parse(&machine_text(model, cores, &shape), "m.toml").unwrap();
        let mut runs: Vec<Run> = Vec::new();
        let options = Options { seed: Some(seed), ..Options::default() };
        let outcome = simulate(&trace, &machine, policy.name, &options, &mut runs).unwrap();
        let mut result = outcome.to_run_result("w", "t.tnt", "none", &machine);
        result.reuse = reuse(&trace, &machine, &runs).unwrap().expect("they are few lines");
        for reuse in &result.reuse {
            // Both count the touches of the first level.
            let first = |cache: &&tanada_report::CacheUse| cache.cache.starts_with("l1");
            let all: u64 = result.caches.iter().filter(first).map(|cache| cache.accesses).sum();
            prop_assert!(reuse.touches <= all);
        }
        let mut report = Report::new("t");
        report.runs.push(result);
        report.timelines.push(timeline(&trace, &outcome, "l", &runs));
        prop_assert!(validate(&report).is_ok(), "{:?}", validate(&report));
        prop_assert_eq!(report.timelines[0].events.len(), trace.len());
    });
}
