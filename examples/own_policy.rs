//! A policy of your own in a crate of your own, compared with `fcfs` on the demo stream: every frame is checked.
//!
//! The policy takes the ready task of the lowest T group, so that the oldest picture on its way is finished first.
//!
//! Run it with `cargo run --release -p tanada-examples --bin own_policy`.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use tanada_harness::compare::{self, Candidate, Options};
use tanada_policy::central::{Arrival, Central, Rule};
use tanada_policy::{Ready, Site, WorkerId};
use tanada_workloads::{Purpose, values_of};

/// Ready tasks by T group, and of one group by age. `Central` puts one lock around it.
struct LowestGroup(BTreeMap<(u32, u64), Ready>);

impl Rule for LowestGroup {
    fn build(_site: &Site<'_>) -> Self {
        LowestGroup(BTreeMap::new())
    }

    fn ready(&mut self, task: Ready, arrival: Arrival) {
        self.0.insert((arrival.hints.t, arrival.age), task);
    }

    fn next(&mut self, _worker: WorkerId) -> Option<Ready> {
        self.0.pop_first().map(|(_, task)| task)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let candidates = [
        Candidate::registered("fcfs")?,
        Candidate::of::<Central<LowestGroup>>("lowest-group"),
    ];
    let h264 = tanada_workloads::find("h264")?;
    let values = values_of(h264, Purpose::Run); // the embedded demo stream
    let options = Options {
        repeat: 2,
        ..Options::default()
    };
    let found = compare::run(h264, &values, &candidates, &options)?;
    print!("{}", tanada_report::to_table(&found.report));
    assert!(
        found.differences.is_empty(),
        "a policy must not change what a program computes"
    );
    Ok(())
}
