//! Programs of regions: cases by hand, and a second reading of `models/regions/RULES.md`.

mod by_hand;
mod second;

use tanada_policy::{Decision, Shape};
use tanada_sim::regions::{Invocation, Program, Region, Work};
use tanada_sim::{Machine, machines};

/// Returns the machine with few cores and round figures.
fn machine(sets: &[&str]) -> Machine {
    let round = [
        "cores=4",
        "l1d.miss_cycles=20",
        "l2.miss_cycles=80",
        "regions.hop_cycles=10",
        "regions.delay_cycles=100",
        "regions.memory_bytes_per_100_cycles=1000000",
    ];
    let phi = machines::find("phi").expect("it is registered");
    let sets: Vec<&str> = round.iter().chain(sets).copied().collect();
    phi.overridden(&sets).expect("the values are sound")
}

fn program(work: Vec<Work>, invocation: Invocation) -> Program {
    Program {
        name: "test".to_owned(),
        regions: vec![Region {
            units_per_iteration: 1,
            work,
        }],
        step: vec![invocation],
        steps: 1,
    }
}

fn invoke(iterations: u64) -> Invocation {
    Invocation {
        region: 0,
        iterations,
        scale: 1.0,
        steps: 0,
    }
}

fn full(cores: u16, threads_per_core: u16) -> Decision {
    Decision::full(Shape {
        cores,
        threads_per_core,
    })
}

/// Work without memory.
fn plain() -> Vec<Work> {
    let work = Work {
        instructions: 4096.0,
        ..Work::default()
    };
    vec![work; 4]
}
