//! How many of the hardware threads that this process may use other processes keep busy.
//!
//! `/proc/stat` says how busy each hardware thread was, the process's own clock what part of that was its own, and the run-queue delays of
//! its threads how long they stood behind others: a neighbour that shares a hardware thread with us gets half of it and wants all of it.

use std::collections::VecDeque;
use std::fs;
use std::time::Duration;

use crate::system;

/// The least time between two looks.
const GAP: Duration = Duration::from_millis(20);

/// A look may cost this part of the time.
const SHARE: u32 = 1000;

/// The system counts in ticks of 10 ms: figures of less time than this say little.
const SPAN: Duration = Duration::from_millis(100);

/// The most threads whose delays are read.
const THREADS: usize = 256;

/// The counters at one moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Duration,
    /// Time that the hardware threads were not idle, all together.
    busy: Duration,
    /// Time that this process ran.
    own: Duration,
    /// Time that its threads were ready and did not run.
    delayed: Duration,
}

/// Looks at the neighbours now and then.
pub(super) struct Neighbours {
    cpus: Vec<u32>,
    samples: VecDeque<Sample>,
    next: Duration,
    load: Option<f64>,
    /// Looks, and the time that they took.
    pub(super) looks: u64,
    pub(super) cost: Duration,
}

impl Neighbours {
    pub(super) fn new(cpus: Vec<u32>) -> Self {
        Neighbours {
            cpus,
            samples: VecDeque::new(),
            next: Duration::ZERO,
            load: None,
            looks: 0,
            cost: Duration::ZERO,
        }
    }

    /// Returns what is known without a look.
    pub(super) fn load(&self) -> Option<f64> {
        self.load
    }

    /// Looks again if that is due at the time `now`; `clock` returns the time. Members of a team of `members` threads may wait for each
    /// other if there are fewer hardware threads, which is then no sign of neighbours.
    pub(super) fn look(&mut self, now: Duration, members: u32, clock: impl Fn() -> Duration) {
        if now < self.next {
            return;
        }
        if let Some(sample) = self.sample(now) {
            self.add(sample, members);
        }
        let took = clock().saturating_sub(now);
        self.looks += 1;
        self.cost += took;
        self.next = now + GAP.max(took * SHARE);
    }

    fn add(&mut self, sample: Sample, members: u32) {
        // One sample stays that is old enough.
        while self
            .samples
            .get(1)
            .is_some_and(|second| sample.at - second.at >= SPAN)
        {
            self.samples.pop_front();
        }
        if let Some(first) = self.samples.front() {
            let span = sample.at.saturating_sub(first.at);
            if span >= SPAN / 2 {
                let per = |after: Duration, before: Duration| {
                    after.saturating_sub(before).as_secs_f64() / span.as_secs_f64()
                };
                let others = (per(sample.busy, first.busy) - per(sample.own, first.own)).max(0.0);
                let delayed = match members as usize <= self.cpus.len() {
                    true => per(sample.delayed, first.delayed),
                    false => 0.0,
                };
                let most = self.cpus.len() as f64;
                self.load = Some((others + delayed.min(others)).min(most));
            }
        }
        self.samples.push_back(sample);
    }

    fn sample(&self, at: Duration) -> Option<Sample> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        Some(Sample {
            at,
            busy: busy(&stat, &self.cpus)?,
            own: system::time_of_process(),
            delayed: delayed(),
        })
    }
}

/// Returns the time that `cpus` were not idle, from the text of `/proc/stat`.
fn busy(stat: &str, cpus: &[u32]) -> Option<Duration> {
    /// Ticks are hundredths of a second, whatever the kernel's own clock is.
    const TICK: Duration = Duration::from_millis(10);
    let mut ticks = 0;
    for line in stat.lines() {
        let Some(line) = line.strip_prefix("cpu") else {
            break;
        };
        let mut words = line.split_ascii_whitespace();
        // The first line is the sum of all.
        if line.starts_with(' ') || !words.next()?.parse().is_ok_and(|cpu| cpus.contains(&cpu)) {
            continue;
        }
        // user, nice, system, idle, iowait, irq, softirq, steal; the time of guests is part of the first two.
        let fields = words.take(8).map(|word| word.parse::<u64>().unwrap_or(0));
        ticks += fields
            .enumerate()
            .filter(|(at, _)| ![3, 4].contains(at))
            .map(|(_, ticks)| ticks)
            .sum::<u64>();
    }
    Some(TICK * u32::try_from(ticks).ok()?)
}

/// Returns the time that threads of this process were ready and did not run; those that have ended do not count.
fn delayed() -> Duration {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else {
        return Duration::ZERO;
    };
    let of = |task: fs::DirEntry| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let sum = tasks.flatten().take(THREADS).filter_map(of).sum();
    Duration::from_nanos(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  30 3 3 300 30 3 3 3 0 0\ncpu0 10 1 1 100 10 1 1 1 9 0\ncpu1 20 2 2 200 20 2 2 2 0 0\nintr 5\n";

    #[test]
    fn idle_time_and_other_processors_do_not_count() {
        assert_eq!(busy(STAT, &[0, 1]), Some(Duration::from_millis(450)));
        assert_eq!(busy(STAT, &[0]), Some(Duration::from_millis(150)));
        assert_eq!(busy(STAT, &[7]), Some(Duration::ZERO));
        assert!(busy(&fs::read_to_string("/proc/stat").unwrap(), &[0]).unwrap() > Duration::ZERO);
    }

    #[test]
    fn a_neighbour_that_gets_half_of_a_processor_wants_all_of_it() {
        let ms = Duration::from_millis;
        let sample = |at, busy, own, delayed| Sample {
            at: ms(at),
            busy: ms(busy),
            own: ms(own),
            delayed: ms(delayed),
        };
        let load = |samples: &[Sample], members| {
            let mut neighbours = Neighbours::new(vec![0, 1]);
            samples.iter().for_each(|&one| neighbours.add(one, members));
            neighbours.load()
        };
        // Nothing is said of too little time.
        assert_eq!(load(&[sample(0, 0, 0, 0), sample(20, 40, 0, 0)], 2), None);
        let alone = [sample(0, 0, 0, 0), sample(100, 200, 200, 1)];
        assert_eq!(load(&alone, 2), Some(0.0));
        let half = [sample(0, 0, 0, 0), sample(100, 200, 150, 50)];
        assert_eq!(load(&half, 2), Some(1.0));
        // A team of four on two processors waits for itself.
        assert_eq!(load(&half, 4), Some(0.5));
        // A neighbour on a processor that we leave to it.
        let apart = [sample(0, 0, 0, 0), sample(100, 200, 100, 0)];
        assert_eq!(load(&apart, 1), Some(1.0));
        // Old samples are forgotten.
        let gone = [
            sample(0, 0, 0, 0),
            sample(100, 200, 100, 0),
            sample(150, 250, 150, 0),
            sample(250, 350, 250, 0),
            sample(300, 450, 350, 0),
        ];
        assert_eq!(load(&gone, 2), Some(0.0));
    }
}
