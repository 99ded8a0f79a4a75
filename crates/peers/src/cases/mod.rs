//! The cases: what is measured. A new case is a file here and a line in [`all`].

mod build;
mod h264;
mod idle;
mod sim;
mod stencil;
mod wavefront;

use crate::Fallible;
use crate::peers::Peer;
use crate::samples::{Row, Sample, Series};
use serde::{Deserialize, Serialize};

/// Whether more of a metric is better, and its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Less,
    More,
}

/// A quantity that rows carry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
}

const fn metric(name: &'static str, unit: &'static str, better: Better) -> Metric {
    Metric { name, unit, better }
}

/// All metrics that a row may have.
pub(crate) const METRICS: &[Metric] = &[
    metric("core_ns_per_task", "ns", Better::Less),
    metric("metg_ns", "ns", Better::Less),
    metric("least_worker_share", "ratio", Better::More),
    metric("ns_per_build", "ns", Better::Less),
    metric("ns_per_rerun", "ns", Better::Less),
    metric("seconds", "s", Better::Less),
    metric("fps", "frames/s", Better::More),
    metric("touches_per_second", "touches/s", Better::More),
    metric("idle_percent_of_core", "%", Better::Less),
    metric("region_percent_of_core", "%", Better::Less),
];

/// The metric called `name`.
///
/// # Panics
/// Where there is none: a case that measures something new adds a line above.
pub(crate) fn metric_of(name: &str) -> Metric {
    let found = METRICS.iter().find(|metric| metric.name == name);
    *found.unwrap_or_else(|| panic!("{name} is not in the table of metrics"))
}

/// What a child process is asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) case: String,
    pub(crate) peer: String,
    pub(crate) workers: u16,
    pub(crate) quick: bool,
    /// Whether it is the peer's first turn: what needs to be checked once is checked now.
    pub(crate) first: bool,
    /// Multiplications in a nanosecond, see [`crate::native::rate`].
    pub(crate) rate: f64,
    /// Those of [`Case::params`] that are wanted.
    pub(crate) params: Vec<String>,
}

impl Job {
    pub(crate) fn wants(&self, params: &str) -> bool {
        self.params.iter().any(|wanted| wanted == params)
    }
}

/// Something to measure.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Numbers of workers, unless the user names others.
    pub(crate) workers: &'static [u16],
    /// All values of `params` that peers measure.
    pub(crate) params: fn() -> Vec<String>,
    /// How many times each peer has its turn.
    pub(crate) rounds: u32,
    pub(crate) quick_rounds: u32,
    /// Measures one peer once, in a process of its own.
    pub(crate) measure: fn(&Job, &Peer) -> Fallible<Vec<Sample>>,
    /// Rows that follow from all samples of one peer at one number of workers, beside those of its samples.
    pub(crate) derive: fn(&[Series]) -> Vec<Row>,
}

/// All cases, in the order in which they run.
pub(crate) fn all() -> &'static [Case] {
    &[
        build::CASE,
        wavefront::CASE,
        stencil::CASE,
        h264::CASE,
        idle::CASE,
        sim::CASE,
    ]
}

/// The case called `name`.
pub(crate) fn find(name: &str) -> Option<&'static Case> {
    all().iter().find(|case| case.name == name)
}

/// For cases whose samples say all.
fn nothing_more(_: &[Series]) -> Vec<Row> {
    Vec::new()
}
