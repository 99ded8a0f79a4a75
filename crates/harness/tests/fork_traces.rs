//! A program's forks, recorded natively and simulated: the trace has the work and the span that the recorder measured.

use std::hint::black_box;
use tanada_policy::forks;
use tanada_runtime::Pool;
use tanada_runtime::fork::{self, ForkRecorder};
use tanada_sim::{Machine, Options, Run, simulate};
use tanada_trace::{Groups, Trace};

fn sort(values: &mut [u32]) {
    if values.len() < 50 {
        values.sort_unstable();
        return;
    }
    let middle = values.len() / 3;
    let (_, pivot, _) = values.select_nth_unstable(middle);
    black_box(pivot);
    let (small, great) = values.split_at_mut(middle);
    fork::join(|| sort(small), || sort(great));
}

#[test]
fn a_recorded_program_runs_in_the_simulator() {
    let recorder = ForkRecorder::tracing();
    let pool = Pool::builder().workers(3).record_forks(&recorder).build();
    let pool = pool.expect("a pool");
    let mut values: Vec<u32> = (0..20_000_u32)
        .map(|i| i.wrapping_mul(2_654_435_761))
        .collect();
    fork::install(&pool, || {
        sort(&mut values);
        fork::scope(|scope| {
            for part in values.chunks_mut(3000) {
                scope.spawn(|_| part.reverse());
            }
        });
    });
    drop(pool);
    let profile = recorder.profile();
    let text = recorder.trace().expect("it traces");
    let trace = Trace::parse(text.as_bytes(), "forks.tnt", &Groups::Plain).expect("a sound trace");
    assert!(profile.joins > 100);
    for cores in [1, 2, 16] {
        let machine = format!(
            "name = \"bare\"\nmodel = \"uniform\"\ncores = {cores}\nhit_cycles = 1\ndispatch_cycles = 0\ncoherence = \"none\"\n"
        );
        let machine = Machine::parse(&machine, "bare.toml").expect("a sound machine");
        for entry in forks::any() {
            let mut runs: Vec<Run> = Vec::new();
            let outcome = simulate(&trace, &machine, entry.name, &Options::default(), &mut runs);
            let outcome = outcome.expect("it runs to its end");
            assert_eq!(runs.len(), trace.tasks().len());
            // The recorder has found both without keeping a strand.
            assert_eq!(outcome.executing, u128::from(profile.work_ns));
            assert_eq!(outcome.critical_path, profile.span_ns);
            let least = profile.span_ns.max(profile.work_ns.div_ceil(cores));
            assert!(outcome.makespan >= least && outcome.makespan <= profile.work_ns);
            if entry.greedy {
                assert!(
                    outcome.makespan <= profile.bound_ns(cores as u32) + 1,
                    "{}",
                    entry.name
                );
            }
        }
    }
}
