//! The cases: what is measured. A new case is a file here and a line in [`all`].

mod build;
mod cholesky;
mod dynamic;
mod flat;
mod forks;
mod h264;
mod idle;
mod messages;
mod regions;
mod sim;
mod smt;
mod stencil;
mod threads;
mod wavefront;

use crate::Fallible;
use crate::peers::Peer;
use crate::samples::{Row, Sample, Series};
use serde::{Deserialize, Serialize};
use tanada_workloads::{Purpose, Values, Workload, values_of};

/// Whether less or more of a metric is better.
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
    metric("ns_per_task", "ns", Better::Less),
    metric("ns_per_region", "ns", Better::Less),
    metric("peak_mib", "MiB", Better::Less),
    metric("metg_ns", "ns", Better::Less),
    metric("least_worker_share", "ratio", Better::More),
    metric("ns_per_build", "ns", Better::Less),
    metric("ns_per_rerun", "ns", Better::Less),
    metric("seconds", "s", Better::Less),
    metric("fps", "frames/s", Better::More),
    metric("touches_per_second", "touches/s", Better::More),
    metric("instructions_per_second", "instructions/s", Better::More),
    metric("idle_percent_of_core", "%", Better::Less),
    metric("region_percent_of_core", "%", Better::Less),
    metric("idle_and_region_percent", "%", Better::Less),
    metric("lost_core_seconds", "core-s", Better::Less),
    metric("ns_per_thread", "ns", Better::Less),
    metric("ns_per_switch", "ns", Better::Less),
    metric("bytes_per_thread", "bytes", Better::Less),
    metric("ns_round_trip", "ns", Better::Less),
    metric("cpu_ns_per_message", "ns", Better::Less),
    metric("latency_p50_ns", "ns", Better::Less),
    metric("latency_p99_ns", "ns", Better::Less),
    metric("latency_p999_ns", "ns", Better::Less),
    metric("late_p999_ns", "ns", Better::Less),
    metric("beside_p999_ns", "ns", Better::Less),
    metric("jitter_p999_ns", "ns", Better::Less),
    metric("over_ns", "ns", Better::Less),
    metric("messages_per_second", "messages/s", Better::More),
    metric("victim_percent", "%", Better::Less),
    metric("victim_indirect_percent", "%", Better::Less),
];

/// Returns the metric called `name`.
///
/// # Panics
/// If there is none: a case that measures something new adds a line above.
pub(crate) fn metric_of(name: &str) -> Metric {
    let found = METRICS.iter().find(|metric| metric.name == name);
    *found.unwrap_or_else(|| panic!("{name} is not in the table of metrics"))
}

/// One turn of a peer: the argument of a child process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) case: String,
    pub(crate) peer: String,
    pub(crate) workers: u16,
    pub(crate) quick: bool,
    /// Whether the turn is the peer's first: some checks are made once.
    pub(crate) first: bool,
    /// Multiplications in a nanosecond, see [`crate::native::rate`].
    pub(crate) rate: f64,
    /// Those of [`Case::params`] that are wanted.
    pub(crate) params: Vec<String>,
}

impl Job {
    /// Returns whether the user wants these params.
    pub(crate) fn wants(&self, params: &str) -> bool {
        self.params.iter().any(|wanted| wanted == params)
    }
}

/// The name of a registered workload and pairs of flag and value.
pub(crate) type Work = (&'static str, &'static [(&'static str, &'static str)]);

/// A case of the bench.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// The registered workload, with options, that rows of Tanada run or that is recorded: if the case measures one.
    pub(crate) workload: Option<Work>,
    /// Numbers of workers, unless the user names others.
    pub(crate) workers: &'static [u16],
    /// Returns all values of `params` that peers measure.
    pub(crate) params: fn() -> Vec<String>,
    /// How many times each peer has its turn.
    pub(crate) rounds: u32,
    pub(crate) quick_rounds: u32,
    /// Measures one peer once, in a process of its own, and returns its samples.
    pub(crate) measure: fn(&Job, &Peer) -> Fallible<Vec<Sample>>,
    /// Returns further rows that follow from all samples of one peer at one number of workers.
    pub(crate) derive: fn(&[Series]) -> Vec<Row>,
}

impl Case {
    /// Returns the case's workload with the case's options.
    ///
    /// # Errors
    /// If the case has none, or its options are not those of the workload.
    pub(crate) fn workload(&self, purpose: Purpose) -> Fallible<(&'static dyn Workload, Values)> {
        let (name, options) = self.workload.ok_or("the case has no workload")?;
        let workload = tanada_workloads::find(name)?;
        Ok((workload, values_of(workload, purpose).with(options)?))
    }
}

/// Returns all cases, in the order in which they run.
pub(crate) fn all() -> &'static [Case] {
    &[
        build::CASE,
        wavefront::CASE,
        flat::CASE,
        dynamic::CASE,
        cholesky::CASE,
        forks::CASE,
        stencil::CASE,
        h264::CASE,
        idle::CASE,
        regions::CASE,
        sim::CASE,
        smt::CASE,
        messages::CASE,
        threads::CASE,
    ]
}

/// Returns the case called `name`.
pub(crate) fn find(name: &str) -> Option<&'static Case> {
    all().iter().find(|case| case.name == name)
}
