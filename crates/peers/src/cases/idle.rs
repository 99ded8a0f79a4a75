//! What idle workers cost while the main thread works alone.
//!
//! The main thread computes serially (it looks at the clock) in sections of one length, with a small parallel region before each: a
//! body of 20 us for each worker. `idle_percent_of_core` is the processor time that the process takes during the sections, less the main
//! thread's own, in percent of the sections' wall time: what workers burn while there is nothing to do, looking for work and going to
//! sleep. (This is the definition under which a runtime whose workers sleep at once has about 0.) `region_percent_of_core` is what the
//! regions take besides: processor time of the process from the first region to the end of the last section, less the main thread's in
//! the sections, less the bodies, less `idle_percent_of_core`, in percent of the same wall time: waking and handing out. `seconds` is the
//! time of all regions of that run: a runtime that saves processor time by waking late loses there.
//!
//! `lost_core_seconds` is the sum of both costs, of the best run by that sum: the processor time of idle workers during the sections,
//! and workers x time of the regions less the bodies. A worker that spins between regions is in the first, and one that
//! wakes late in the second.

use super::{Case, Job};
use crate::Fallible;
use crate::native;
use crate::peers::Peer;
use crate::samples::Sample;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

pub(crate) const CASE: Case = Case {
    name: "idle",
    about: "processor time of idle workers beside serial sections: one of 2 s, 100 of 10 ms, 10,000 of 100 us",
    workload: None,
    workers: &[2],
    params: || Vec::from_iter(SECTIONS.iter().map(|section| section.0.to_owned())),
    rounds: 3,
    quick_rounds: 1,
    measure,
    derive: |_| Vec::new(),
};

/// Name, length and number of sections.
const SECTIONS: &[(&str, Duration, u32)] = &[
    ("sections=2s", Duration::from_secs(2), 1),
    ("sections=10ms", Duration::from_millis(10), 100),
    ("sections=100us", Duration::from_micros(100), 10_000),
];

/// The body that each worker runs in a region.
const BODY_NS: f64 = 20_000.0;

/// Returns the processor time so far, in nanoseconds.
fn processor_ns(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Times during serial sections, in nanoseconds.
#[derive(Default)]
struct Sections {
    /// Processor time of all threads but the main one.
    others: f64,
    /// The main thread's.
    own: f64,
    wall: f64,
}

impl Sections {
    /// Keeps this thread busy for one more section.
    fn add(&mut self, length: Duration) {
        // The main thread's processor time, and that of all others.
        let processor = || {
            let own = processor_ns(ClockId::ThreadCPUTime);
            (own, processor_ns(ClockId::ProcessCPUTime) - own)
        };
        let (start, before) = (Instant::now(), processor());
        while start.elapsed() < length {
            std::hint::spin_loop();
        }
        let after = processor();
        self.own += after.0 - before.0;
        self.others += after.1 - before.1;
        self.wall += start.elapsed().as_nanos() as f64;
    }

    /// Returns the processor time of other threads in percent of the wall time; at least 0, since the clocks are not exact.
    fn percent(&self) -> f64 {
        (100.0 * self.others / self.wall).max(0.0)
    }
}

fn measure(job: &Job, peer: &Peer) -> Fallible<Vec<Sample>> {
    let mut samples = Vec::new();
    costs(&CASE, job, peer, SECTIONS, |name, costs| {
        let values = [
            ("idle_percent_of_core", costs.idle),
            ("region_percent_of_core", (costs.both - costs.idle).max(0.0)),
            ("seconds", costs.seconds),
        ];
        samples.push(Sample::new(name, &values));
        samples.push(Sample::new(name, &[("lost_core_seconds", costs.lost)]));
    })?;
    Ok(samples)
}

/// What regions and the sections behind them cost; see the module's documentation.
pub(super) struct Costs {
    /// How many regions there were.
    pub(super) number: u32,
    /// Percent of a core, in the sections.
    pub(super) idle: f64,
    /// Percent of a core, in the sections and in the regions beside the bodies. (The system counts the end of a body in the section behind
    /// it if the thread falls asleep there.)
    pub(super) both: f64,
    /// Time of all regions.
    pub(super) seconds: f64,
    /// Core seconds.
    pub(super) lost: f64,
}

/// Measures regions with each of the wanted `sections` (name, length and number), and calls `each` with the result.
pub(super) fn costs(
    case: &'static Case,
    job: &Job,
    peer: &Peer,
    sections: &'static [(&'static str, Duration, u32)],
    mut each: impl FnMut(&'static str, Costs),
) -> Fallible<()> {
    let mut program = peer.open(case, job.workers)?;
    native::set_body(BODY_NS, job.rate)?;
    (0..10).for_each(|_| program.region());
    for &(name, length, number) in sections.iter().filter(|section| job.wants(section.0)) {
        // Threads that still look for work after the last region go to sleep meanwhile.
        Sections::default().add(Duration::from_millis(50));
        std::thread::sleep(Duration::from_millis(250));
        let body = native::body_ns(BODY_NS, job.workers);
        let mut serial = Sections::default();
        let mut seconds = 0.0;
        let before = processor_ns(ClockId::ProcessCPUTime);
        for _ in 0..number {
            let start = Instant::now();
            program.region();
            seconds += start.elapsed().as_secs_f64();
            serial.add(length);
        }
        let all = processor_ns(ClockId::ProcessCPUTime) - before;
        let bodies = f64::from(number) * f64::from(job.workers) * body;
        let both = (100.0 * (all - serial.own - bodies) / serial.wall).max(0.0);
        each(
            name,
            Costs {
                number,
                idle: serial.percent(),
                both,
                seconds,
                lost: serial.others * 1e-9 + f64::from(job.workers) * seconds - bodies * 1e-9,
            },
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_thread_that_spins_is_seen() {
        let stop = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let mut beside = Sections::default();
            // On a busy machine the other thread may be long in coming.
            while beside.others < 1e6 {
                beside.add(Duration::from_millis(20));
            }
            stop.store(true, Ordering::Relaxed);
            assert!(beside.percent() > 0.0);
        });
    }
}
