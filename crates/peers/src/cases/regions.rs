//! Small parallel regions from a thread that is no worker, with serial sections between them.
//!
//! A region is a body of 20 us for each worker; `gap` is the length of the section behind each. `ns_per_region` is the time of the regions
//! / their number, bodies included. `idle_and_region_percent` is what workers take of a core beside the bodies, in the sections and in the
//! regions: the sum of the two costs of the case `idle`. `lost_core_seconds` is as in `idle`.

use super::idle::{Costs, costs};
use super::{Case, Job};
use crate::Fallible;
use crate::peers::Peer;
use crate::samples::Sample;
use std::time::Duration;

pub(crate) const CASE: Case = Case {
    name: "regions",
    about: "parallel regions of 20 us from outside, with serial sections of 0, 20 us, 100 us and 1 ms between them",
    workload: None,
    workers: &[2],
    params: || Vec::from_iter(GAPS.iter().map(|gap| gap.0.to_owned())),
    rounds: 5,
    quick_rounds: 2,
    measure,
    derive: |_| Vec::new(),
};

/// Name, length and number of gaps.
const GAPS: &[(&str, Duration, u32)] = &[
    ("gap=0", Duration::ZERO, 5_000),
    ("gap=20us", Duration::from_micros(20), 5_000),
    ("gap=100us", Duration::from_micros(100), 3_000),
    ("gap=1ms", Duration::from_millis(1), 300),
];

fn measure(job: &Job, peer: &Peer) -> Fallible<Vec<Sample>> {
    let mut samples = Vec::new();
    costs(
        &CASE,
        job,
        peer,
        GAPS,
        |name,
         Costs {
             number,
             both,
             seconds,
             lost,
             ..
         }| {
            let values = [
                ("ns_per_region", seconds * 1e9 / f64::from(number)),
                ("idle_and_region_percent", both),
                ("lost_core_seconds", lost),
            ];
            samples.push(Sample::new(name, &values));
        },
    )?;
    Ok(samples)
}
