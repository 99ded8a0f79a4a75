//! The rules read a second time, the slow way: rule 3 looks at every cycle, rule 5 at small slices of time.

use super::{full, invoke, machine, program};
use proptest::prelude::*;
use tanada_sim::regions::core::{Issue, SAMPLE, cycles_per_instruction};
use tanada_sim::regions::{Machinery, Work};

/// Rule 3 with a list of the instructions at which each member stalls, made beforehand, and no jumps over cycles.
fn every_cycle(issue: &Issue, work: &Work, members: usize, waiting: usize, pause: u64) -> f64 {
    let one = 1u128 << 32;
    let stalls = |member: usize| -> Vec<u64> {
        let share = |lines: f64| (lines / work.instructions.max(1.0) * 4294967296.0) as u128;
        let start = one * member as u128 / members as u128;
        let crossed =
            |share: u128, at: u128| (start + share * (at + 1)) / one - (start + share * at) / one;
        let each = (0..SAMPLE as u128).map(|at| {
            let near = crossed(share(work.second_level + work.streamed), at) as u64;
            near * issue.second_level + crossed(share(work.fetched), at) as u64 * issue.memory
        });
        each.collect()
    };
    let stalls: Vec<Vec<u64>> = (0..members).map(stalls).collect();
    let total = members + waiting;
    let (mut ready, mut issued) = (vec![0u64; total], vec![0u64; total]);
    let (mut last, mut end) = (total - 1, 0);
    for cycle in 0.. {
        if (0..members).all(|member| issued[member] == SAMPLE) {
            break;
        }
        for step in 1..=total {
            let thread = (last + step) % total;
            if ready[thread] > cycle || (thread < members && issued[thread] == SAMPLE) {
                continue;
            }
            ready[thread] = cycle + issue.spacing;
            issued[thread] += 1;
            if thread < members {
                ready[thread] += stalls[thread][issued[thread] as usize - 1];
                if issued[thread] == SAMPLE {
                    end = end.max(ready[thread]);
                }
            } else if issued[thread] % issue.poll == 0 {
                ready[thread] += pause;
            }
            last = thread;
            break;
        }
    }
    end as f64 / SAMPLE as f64
}

/// Rules 1, 2, 4, 5 and 6 in slices of time: what each member has left shrinks by a slice at its pace.
fn in_slices(
    work: &[Work],
    iterations: u64,
    cores: u16,
    per_core: u16,
    lines_per_cycle: f64,
    issue: &Issue,
) -> f64 {
    let threads = u64::from(cores) * u64::from(per_core);
    let mut left: Vec<f64> = (0..threads)
        .map(|member| (iterations / threads + u64::from(member < iterations % threads)) as f64)
        .collect();
    let mut time = 0.0;
    while left.iter().any(|&units| units > 0.0) {
        let on_core = |core: u64| {
            let members = core * u64::from(per_core)..(core + 1) * u64::from(per_core);
            members
                .filter(|&member| left[member as usize] > 0.0)
                .count()
        };
        let paces: Vec<(f64, f64)> = (0..threads)
            .map(|member| match on_core(member / u64::from(per_core)) {
                0 => (1.0, 0.0),
                siblings => {
                    let work = &work[siblings - 1];
                    let waiting = 4 - siblings;
                    (
                        every_cycle(issue, work, siblings, waiting, 100) * work.instructions,
                        work.lines(),
                    )
                }
            })
            .collect();
        let busy: Vec<usize> = (0..left.len())
            .filter(|&member| left[member] > 0.0)
            .collect();
        // The wait for the memory, by small steps upwards.
        let mut wait = 0.0;
        let demand = |wait: f64| {
            busy.iter()
                .map(|&one| paces[one].1 / (paces[one].0 + paces[one].1 * wait))
                .sum::<f64>()
        };
        while demand(wait) > lines_per_cycle {
            wait += 1e-3;
        }
        let pace = |member: usize| paces[member].0 + paces[member].1 * wait;
        // Up to the next end.
        let slice = busy
            .iter()
            .map(|&one| left[one] * pace(one))
            .fold(f64::INFINITY, f64::min);
        time += slice;
        for member in busy {
            left[member] -= slice / pace(member);
            if left[member] < 1e-6 {
                left[member] = 0.0;
            }
        }
    }
    let levels = (threads as f64).log2().ceil();
    time + 2.0 * levels * 10.0
}

fn any_work() -> impl Strategy<Value = Work> {
    (
        50.0..5000.0f64,
        0.0..0.2f64,
        0.0..0.1f64,
        0.0..0.05f64,
        0.0..0.1f64,
    )
        .prop_map(|(instructions, near, streamed, far, written)| Work {
            instructions,
            second_level: instructions * near,
            streamed: instructions * streamed,
            fetched: instructions * far,
            written: instructions * written,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn paces_agree(work in any_work(), members in 1..5usize, others in 0..4usize, pause in 0..300u64, spacing in 1..4u64) {
        let issue = Issue { spacing, second_level: 20, memory: 100, poll: 3 };
        let waiting = others.min(4 - members);
        let fast = cycles_per_instruction(&issue, &work, members, waiting, pause);
        prop_assert_eq!(fast, every_cycle(&issue, &work, members, waiting, pause));
    }

    #[test]
    fn regions_agree(work in any_work(), iterations in 1..40u64, cores in 1..5u16, per_core in 1..5u16, memory in 100..20_000u64) {
        let work = vec![work; 4];
        let set = format!("regions.memory_bytes_per_100_cycles={memory}");
        let machine = machine(&[&set]);
        let program = program(work.clone(), invoke(iterations));
        let mut machinery = Machinery::new(&machine, &program).expect("it runs regions");
        let time = machinery.time(&invoke(iterations), full(cores, per_core));
        let issue = Issue { spacing: 2, second_level: 20, memory: 100, poll: 3 };
        let slow = in_slices(&work, iterations, cores, per_core, memory as f64 / 6400.0, &issue);
        prop_assert!((time / slow - 1.0).abs() < 0.01, "{time} {slow}");
    }
}
