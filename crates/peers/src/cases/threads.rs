//! Lightweight threads: see [`Do`].
//!
//! - `create=N`: N threads are created and then joined, again and again. `ns_per_thread` is the time of one.
//! - `switch=N`: N threads let each other run. `ns_per_switch` is workers x time / (N x times).
//! - `ping-pong`: `ns_round_trip` is the time of a message to another thread and back, by channels of one place.
//! - `alive=N`: N threads, each with a kilobyte of its own, wait at the same time. `ns_per_thread` is the time of one, from the first that
//!   is created to the last that has ended; `bytes_per_thread` is what the process has in memory while all wait.
//!
//! A thread of the library itself measures, so that no row has a thread outside in it. The least of some repetitions counts.

use super::{Case, Job};
use crate::Fallible;
use crate::peers::Peer;
use crate::programs::light::{ALL, Do, Light};
use crate::samples::Sample;
use std::time::Duration;

pub(crate) const CASE: Case = Case {
    name: "threads",
    about: "lightweight threads: created and joined, switched, a message there and back, many alive at once",
    workload: None,
    workers: &[1, 2],
    params: || ALL.map(Do::params).into(),
    rounds: 3,
    quick_rounds: 1,
    measure,
    derive: |_| Vec::new(),
};

/// A repetition takes at least this long.
const LEAST: Duration = Duration::from_millis(20);

/// Does something `times` times and returns its time.
type Work<'a> = dyn FnMut(&mut dyn Light, u32) -> Fallible<Duration> + 'a;

/// Returns the nanoseconds of doing `work` once, the least of some repetitions.
fn each(light: &mut dyn Light, quick: bool, work: &mut Work<'_>) -> Fallible<f64> {
    let mut times = 16;
    while work(light, times)? < LEAST && times < 1 << 28 {
        times *= 2;
    }
    let mut best = f64::INFINITY;
    for _ in 0..if quick { 5 } else { 15 } {
        let time = work(light, times)?.as_nanos() as f64;
        best = best.min(time / f64::from(times));
    }
    Ok(best)
}

fn measure(job: &Job, peer: &Peer) -> Fallible<Vec<Sample>> {
    let kind = peer.light().ok_or("it has no threads")?;
    let mut light = kind.open(job.workers)?;
    let light = &mut *light;
    let mut samples = Vec::new();
    for what in ALL {
        let params = what.params();
        if !job.wants(&params) || !kind.can(what, job.workers) {
            continue;
        }
        let mut measure = |work: &mut Work<'_>| each(light, job.quick, work);
        let values = match what {
            Do::Create(many) => {
                let all = measure(&mut |light, times| light.create(many, times))?;
                vec![("ns_per_thread", all / f64::from(many))]
            }
            Do::Switch(threads) => {
                let all = measure(&mut |light, times| light.switch(threads, times))?;
                let workers = f64::from(job.workers);
                vec![("ns_per_switch", workers * all / f64::from(threads))]
            }
            Do::PingPong => {
                let both = measure(&mut |light, times| light.ping_pong(times))?;
                vec![("ns_round_trip", both)]
            }
            Do::Alive(threads) => {
                let alive = light.alive(threads)?;
                let each = |all: f64| all / f64::from(threads);
                vec![
                    ("bytes_per_thread", each(alive.bytes as f64)),
                    ("ns_per_thread", each(alive.time.as_nanos() as f64)),
                ]
            }
        };
        samples.push(Sample::new(&params, &values));
    }
    Ok(samples)
}
