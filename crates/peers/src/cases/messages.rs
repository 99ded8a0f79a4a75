//! Messages of one word between two threads, each on a hardware thread of its own unless said otherwise.
//!
//! `wait=...` measures `ns_round_trip`: there and back, in a receiver that never sleeps (`spin`), that looks for some microseconds and then
//! sleeps (`backoff`), and that sleeps at once (`block`). Each peer that tells at once takes part in the ways that it has, and only equal
//! ways are compared. `wait=block,on=one` is `block` with both threads on one hardware thread: what system calls, switches and the peer's
//! own code cost, without the time in which an idle processor wakes up (in a virtual machine nearly all of `block`).
//!
//! `rate=N` sends N messages a second, evenly, to a receiver in the peer's thriftiest way. Reading the clock counts in it, for all peers
//! alike.
//! - `cpu_ns_per_message`: the receiving thread's processor time.
//! - `latency_p50_ns`, `latency_p99_ns`, `latency_p999_ns`: from before the sending of a message to its receipt.
//! - `messages_per_second`: what was reached.
//! - `victim_percent`: by how much a computation on the receiver's hardware thread is slower than alone; `victim_indirect_percent`: what
//!   of that is not the receiver's processor time, but switches and cache lines. In a run of its own.
//!
//! `rate=100000,beside=sleeper` compares a channel that has a bound with the machine's own jitter, which no channel can do anything about:
//! in one run, a second thread of the receiver's hardware thread does nothing but sleep for the bound, again and again.
//! - `cpu_ns_per_message`: as above.
//! - `beside_p999_ns`: the latency of 99.9% of the messages.
//! - `jitter_p999_ns`: what 99.9% of the messages of the same even stream would wait beyond the bound, if the second thread received them
//!   and took no time for that.
//! - `over_ns`: what the first is longer than the bound and the second.
//!
//! A long pause of a hardware thread is one of many sleeps, but delays all messages that come meanwhile. So both are quantiles of
//! messages, and none of sleeps. They are of the same length of time, on the same hardware thread, beside the same sender, by the same
//! clock and the same kind of timer. And the run is long: what 99.9% of the messages wait is decided by the pauses that make up the last
//! thousandth of it. In a run of a second that is one pause, and whether it meets the receiver or the sleeper at the end of a sleep is
//! a matter of luck.
//!
//! `sleep=1ms` is the machine's jitter without a channel: how much later than wanted a thread is awake that sleeps for a millisecond, as
//! `latency_*` (of sleeps), and `late_p999_ns` (of messages, as `jitter_p999_ns`), in as long a run. The other hardware thread is as busy
//! as with a sender. Otherwise threads of the system that run now and then would find it idle, and go there.

use super::{Case, Job};
use crate::Fallible;
use crate::peers::Peer;
use crate::programs::lines::{BOUND, Kind, Line, Wait};
use crate::samples::Sample;
use rustix::thread::clock_nanosleep_absolute;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const CASE: Case = Case {
    name: "messages",
    about: "messages between two threads: round trips; at 100 to 10,000,000 a second the receiver's processor time, latency, \
            and what a computation beside the receiver loses",
    workload: None,
    workers: &[2],
    params: || {
        let waits = WAITS.iter().map(|wait| wait.0.to_owned());
        let waits = waits.chain([ON_ONE.to_owned()]);
        let rates = RATES.iter().map(|rate| format!("rate={rate}"));
        let long = [BESIDE.to_owned(), JITTER.to_owned()];
        waits.chain(rates).chain(long).collect()
    },
    rounds: 3,
    quick_rounds: 1,
    measure,
    derive: |_| Vec::new(),
};

const WAITS: &[(&str, Wait)] = &[
    ("wait=spin", Wait::Spin),
    ("wait=backoff", Wait::Backoff),
    ("wait=block", Wait::Block),
];

const ON_ONE: &str = "wait=block,on=one";

const RATES: &[u64] = &[100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

const BESIDE: &str = "rate=100000,beside=sleeper";

const JITTER: &str = "sleep=1ms";

/// For how long a channel and a sleeper, or a sleeper alone, are looked at.
fn long(quick: bool) -> Duration {
    Duration::from_secs(if quick { 3 } else { 36 })
}

/// The word that ends a line.
const END: u64 = u64::MAX;

fn measure(job: &Job, peer: &Peer) -> Fallible<Vec<Sample>> {
    let mut samples = Vec::new();
    let Some(kind) = peer.line() else {
        if job.wants(JITTER) {
            let late = jitter(job.quick);
            let mut values = vec![("late_p999_ns", late_by_time(&late, SLEEP, 0.001))];
            values.extend(latencies(late));
            samples.push(Sample::new(JITTER, &values));
        }
        return Ok(samples);
    };
    let waits = WAITS.iter().filter(|wait| job.wants(wait.0));
    let waits = waits.filter(|_| kind.is_immediate());
    for &(name, wait) in waits.filter(|wait| kind.can(wait.1)) {
        let trip = round_trip(kind, wait, places(), job.quick)?;
        samples.push(Sample::new(name, &[("ns_round_trip", trip)]));
    }
    if job.wants(ON_ONE) && kind.is_immediate() && kind.can(Wait::Block) {
        let (here, _) = places();
        let trip = round_trip(kind, Wait::Block, (here, here), job.quick)?;
        samples.push(Sample::new(ON_ONE, &[("ns_round_trip", trip)]));
    }
    for &rate in RATES {
        let name = format!("rate={rate}");
        if job.wants(&name) {
            samples.push(Sample::new(&name, &at_rate(kind, rate, job.quick)?));
        }
    }
    if job.wants(BESIDE) && kind.has_bound() {
        let values = beside_a_sleeper(kind, 100_000, long(job.quick))?;
        samples.push(Sample::new(BESIDE, &values));
    }
    Ok(samples)
}

/// The hardware threads of sender and receiver; the same if the process has only one. They are found before a thread stands on one of
/// them, since from then on it, and the threads that it starts, have no other.
fn places() -> (CpuSet, CpuSet) {
    static PLACES: OnceLock<(CpuSet, CpuSet)> = OnceLock::new();
    *PLACES.get_or_init(|| {
        let all = sched_getaffinity(None).unwrap_or_default();
        let mut allowed = (0..CpuSet::MAX_CPU).filter(|&cpu| all.is_set(cpu));
        let first = allowed.next().unwrap_or(0);
        let second = allowed.next().unwrap_or(first);
        let only = |cpu| {
            let mut set = CpuSet::new();
            set.set(cpu);
            set
        };
        (only(first), only(second))
    })
}

fn stand_on(place: &CpuSet) {
    // A machine that forbids it is measured as it is.
    let _ = sched_setaffinity(None, place);
}

fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn processor_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the lower quartile of a hundred parts' mean times of a round trip, between threads on two places.
fn round_trip(
    kind: Kind,
    wait: Wait,
    (here, there): (CpuSet, CpuSet),
    quick: bool,
) -> Fallible<f64> {
    let (forth, back) = (kind.line(wait)?, kind.line(wait)?);
    let trips: u64 = match (wait, quick) {
        (Wait::Spin, false) => 2_000,
        (Wait::Spin, true) => 500,
        (_, false) => 200,
        (_, true) => 50,
    };
    const PARTS: usize = 100;
    thread::scope(|scope| {
        let echo = scope.spawn(move || {
            stand_on(&there);
            let mut send = (back.send)().map_err(|error| error.to_string())?;
            let mut receive = (forth.receive)().map_err(|error| error.to_string())?;
            loop {
                let word = receive();
                send(word);
                if word == END {
                    return Ok::<(), String>(());
                }
            }
        });
        stand_on(&here);
        // Both ends of a line may wait for each other, so both threads open the same line first.
        let mut receive = (back.receive)()?;
        let mut send = (forth.send)()?;
        let mut times = Vec::with_capacity(PARTS);
        for _ in 0..PARTS {
            let start = Instant::now();
            for word in 0..trips {
                send(word);
                assert_eq!(receive(), word);
            }
            times.push(start.elapsed().as_nanos() as f64 / trips as f64);
        }
        send(END);
        receive();
        echo.join().expect("no panic")?;
        times.sort_by(f64::total_cmp);
        // The lower quartile: neither what other programs disturb, nor the luckiest moment.
        Ok(times[PARTS / 4])
    })
}

/// What a receiver has seen.
struct Seen {
    processor_ns: u64,
    latencies: Vec<u64>,
    messages: u64,
    wall_ns: u64,
}

/// Sends at `rate` for `length` and returns what the receiver has seen, and by how much a thread beside it that does nothing but sleep for
/// [`SLEEP`] was late.
fn run_beside_a_sleeper(line: Line, rate: u64, length: Duration) -> Fallible<(Seen, Vec<u64>)> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            stand_on(&places().1);
            let mut late = Vec::with_capacity(2 * length.as_millis() as usize);
            while !stop.load(Ordering::Relaxed) {
                late.push(sleep_late());
            }
            late
        });
        let seen = run(line, rate, length);
        stop.store(true, Ordering::Relaxed);
        Ok((seen?, sleeper.join().expect("no panic")))
    })
}

/// Sends at `rate` for `length` and returns what the receiver has seen.
fn run(line: Line, rate: u64, length: Duration) -> Fallible<Seen> {
    let (here, there) = places();
    let number = (rate as f64 * length.as_secs_f64()).max(20.0) as u64;
    // At high rates a part of the messages is enough, and storing all would be measured.
    let every = (rate / 100_000).max(1);
    let Line { send, receive } = line;
    let ready = AtomicBool::new(false);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            stand_on(&there);
            let mut receive = receive().map_err(|error| error.to_string())?;
            let mut latencies = Vec::with_capacity((number / every + 1) as usize);
            ready.store(true, Ordering::SeqCst);
            let (mut messages, mut first) = (0, 0);
            let before = processor_ns();
            loop {
                let sent = receive();
                if sent == END {
                    break;
                }
                if messages % every == 0 {
                    let now = now_ns();
                    latencies.push(now.saturating_sub(sent));
                    first = if messages == 0 { now } else { first };
                }
                messages += 1;
            }
            Ok::<Seen, String>(Seen {
                processor_ns: processor_ns() - before,
                latencies,
                messages,
                wall_ns: now_ns() - first,
            })
        });
        stand_on(&here);
        let mut send = send().map_err(|error| error.to_string())?;
        while !ready.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(5));
        let start = now_ns();
        for message in 0..number {
            let due = start + message * 1_000_000_000 / rate;
            let mut now = now_ns();
            while now < due {
                std::hint::spin_loop();
                now = now_ns();
            }
            send(now);
        }
        send(END);
        Ok(receiver.join().expect("no panic")?)
    })
}

fn percentile(sorted: &[u64], part: f64) -> f64 {
    let at = ((sorted.len() as f64 * part) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or(0) as f64
}

fn latencies(mut all: Vec<u64>) -> [(&'static str, f64); 3] {
    all.sort_unstable();
    [
        ("latency_p50_ns", percentile(&all, 0.5)),
        ("latency_p99_ns", percentile(&all, 0.99)),
        ("latency_p999_ns", percentile(&all, 0.999)),
    ]
}

fn at_rate(kind: Kind, rate: u64, quick: bool) -> Fallible<Vec<(&'static str, f64)>> {
    let length = Duration::from_millis(if quick { 150 } else { 600 });
    let wait = kind.thriftiest();
    let alone = run(kind.line(wait)?, rate, length)?;
    let per_message = alone.processor_ns as f64 / alone.messages as f64;
    let mut values = vec![("cpu_ns_per_message", per_message)];
    values.extend(latencies(alone.latencies));
    let reached = alone.messages as f64 / (alone.wall_ns as f64 * 1e-9);
    values.push(("messages_per_second", reached));
    let (slower, indirect) = beside_a_victim(kind.line(wait)?, rate, length)?;
    values.push(("victim_percent", slower));
    values.push(("victim_indirect_percent", indirect));
    Ok(values)
}

fn beside_a_sleeper(kind: Kind, rate: u64, length: Duration) -> Fallible<[(&'static str, f64); 4]> {
    let (seen, late) = run_beside_a_sleeper(kind.line(kind.thriftiest())?, rate, length)?;
    let per_message = seen.processor_ns as f64 / seen.messages as f64;
    let [_, _, (_, latency)] = latencies(seen.latencies);
    let jitter = late_by_time(&late, SLEEP, 0.001);
    Ok([
        ("cpu_ns_per_message", per_message),
        ("beside_p999_ns", latency),
        ("jitter_p999_ns", jitter),
        ("over_ns", latency - jitter - SLEEP.as_nanos() as f64),
    ])
}

/// A computation that lives in the first cache: sums over it, in an order that depends on what it reads.
struct Victim {
    words: Vec<u32>,
}

impl Victim {
    /// 24 KiB.
    const WORDS: usize = 6 * 1024;

    fn new() -> Victim {
        Victim {
            words: (0..Self::WORDS as u32)
                .map(|word| word.wrapping_mul(2_654_435_761))
                .collect(),
        }
    }

    /// About ten microseconds.
    fn chunk(&mut self) -> u32 {
        let mut sum = 0_u32;
        for word in &mut self.words {
            sum = sum.rotate_left(5).wrapping_add(*word);
            *word ^= sum;
        }
        sum
    }
}

/// Returns by how many percent a computation beside the receiver is slower than alone, and the part of it that is not the receiver's.
fn beside_a_victim(line: Line, rate: u64, length: Duration) -> Fallible<(f64, f64)> {
    let (_, there) = places();
    let (chunks, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            stand_on(&there);
            let mut victim = Victim::new();
            while !stop.load(Ordering::Relaxed) {
                std::hint::black_box(victim.chunk());
                chunks.fetch_add(1, Ordering::Relaxed);
            }
        });
        let speed = |run: &mut dyn FnMut() -> Fallible<u64>| -> Fallible<(f64, f64)> {
            let (start, before) = (Instant::now(), chunks.load(Ordering::Relaxed));
            let receiver = run()?;
            let (time, after) = (start.elapsed(), chunks.load(Ordering::Relaxed));
            let seconds = time.as_secs_f64();
            Ok((
                (after - before) as f64 / seconds,
                receiver as f64 * 1e-9 / seconds,
            ))
        };
        let mut idle = || {
            thread::sleep(length / 2);
            Ok(0)
        };
        let result = (|| {
            thread::sleep(Duration::from_millis(20));
            let before = speed(&mut idle)?.0;
            let mut line = Some(line);
            let mut during = || {
                let line = line.take().expect("it runs once");
                Ok(run(line, rate, length)?.processor_ns)
            };
            let (beside, receiver) = speed(&mut during)?;
            let after = speed(&mut idle)?.0;
            let alone = f64::midpoint(before, after);
            let slower = 100.0 * (1.0 - beside / alone);
            Ok((slower, slower - 100.0 * receiver))
        })();
        stop.store(true, Ordering::Relaxed);
        result
    })
}

/// How long a thread sleeps to measure the machine's jitter: the bound of the lines that have one.
const SLEEP: Duration = BOUND;

/// Sleeps for [`SLEEP`] and returns how many nanoseconds later than wanted it ended. As the channels' timers, it ends at a moment of the
/// monotonic clock.
fn sleep_late() -> u64 {
    let until = now_ns() + SLEEP.as_nanos() as u64;
    let time = Timespec {
        tv_sec: (until / 1_000_000_000) as i64,
        tv_nsec: (until % 1_000_000_000) as _,
    };
    while clock_nanosleep_absolute(ClockId::Monotonic, &time).is_err() {}
    now_ns().saturating_sub(until)
}

/// Returns by how many nanoseconds all but `share` of the messages of an even stream are late, at the most, if sleeps of `sleep` end `late`
/// nanoseconds late: a message is late by what it waits longer than `sleep`.
fn late_by_time(late: &[u64], sleep: Duration, share: f64) -> f64 {
    let all: f64 = late.iter().map(|&late| late as f64).sum();
    let allowed = share * (all + late.len() as f64 * sleep.as_nanos() as f64);
    let beyond = |bound: f64| -> f64 {
        late.iter()
            .map(|&late| (late as f64 - bound).max(0.0))
            .sum()
    };
    let (mut low, mut high) = (0.0, late.iter().max().map_or(0.0, |&most| most as f64));
    while high - low > 1.0 {
        let middle = f64::midpoint(low, high);
        match beyond(middle) > allowed {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

/// Returns by how much a thread that sleeps for [`SLEEP`] is late, again and again, while the place of the senders is busy.
fn jitter(quick: bool) -> Vec<u64> {
    let (here, there) = places();
    let until = Instant::now() + long(quick);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            stand_on(&there);
            let mut late = Vec::with_capacity(2 * long(quick).as_millis() as usize);
            while Instant::now() < until {
                late.push(sleep_late());
            }
            stop.store(true, Ordering::Relaxed);
            late
        });
        stand_on(&here);
        while !stop.load(Ordering::Relaxed) {
            std::hint::black_box(now_ns());
            std::hint::spin_loop();
        }
        sleeper.join().expect("no panic")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kind of line delivers every word, in order, in every way of waiting that it has.
    #[test]
    fn lines_deliver_all() {
        let mut kinds = vec![Kind::Crossbeam, Kind::Rtrb, Kind::RtrbEventfd, Kind::Pipe];
        for name in ["immediate", "periodic", "batched", "adaptive"] {
            kinds.extend([Kind::Tanada(name, false), Kind::Tanada(name, true)]);
        }
        if crate::programs::lines::ICEORYX {
            kinds.push(Kind::Iceoryx);
        }
        for kind in kinds {
            for &(_, wait) in WAITS.iter().filter(|wait| kind.can(wait.1)) {
                let Line { send, receive } = kind.line(wait).expect("it opens");
                let sends = thread::spawn(move || {
                    let mut send = send().expect("it opens");
                    (0..40_000).for_each(&mut send);
                    // The line lives until all is read.
                    thread::park();
                });
                let mut receive = receive().expect("it opens");
                assert!((0..40_000).all(|word| receive() == word), "{kind:?}");
                sends.thread().unpark();
                sends.join().expect("no panic");
            }
        }
    }

    /// Also a thread that stands on one place finds both.
    #[test]
    fn places_stay_where_they_are() {
        let found = places();
        thread::spawn(move || {
            stand_on(&found.0);
            assert!(places() == found);
        })
        .join()
        .expect("no panic");
        let all = sched_getaffinity(None).expect("it can be asked");
        assert_eq!(found.0 == found.1, all.count() < 2);
    }

    #[test]
    fn a_pause_is_late_for_all_messages_that_come_meanwhile() {
        let sleep = Duration::from_nanos(1000);
        // Of 100,000 ns a hundredth is 1,000: messages that come in so long a time are late by more than 4,000.
        let late: Vec<u64> = (0..95).map(|at| if at == 7 { 5000 } else { 0 }).collect();
        assert!((late_by_time(&late, sleep, 0.01) - 4000.0).abs() <= 1.0);
        assert!((late_by_time(&late, sleep, 0.03) - 2000.0).abs() <= 1.0);
        assert!(late_by_time(&late, sleep, 0.06) <= 1.0);
        assert_eq!(late_by_time(&[], sleep, 0.01), 0.0);
    }

    #[test]
    fn a_rate_and_a_victim_are_measured() {
        let line = || Kind::Pipe.line(Wait::Block).expect("it opens");
        let seen = run(line(), 1_000, Duration::from_millis(50)).expect("it runs");
        assert_eq!((seen.messages, seen.latencies.len()), (50, 50));
        assert!(
            seen.wall_ns > 40_000_000,
            "the messages are spread: {}",
            seen.wall_ns
        );
        let (slower, indirect) =
            beside_a_victim(line(), 1_000, Duration::from_millis(20)).expect("it runs");
        assert!(slower < 100.0 && indirect <= slower);
        let adaptive = Kind::Tanada("adaptive", false).line(Wait::Block);
        let length = Duration::from_millis(50);
        let began = Instant::now();
        let (seen, late) =
            run_beside_a_sleeper(adaptive.expect("it opens"), 1_000, length).expect("it runs");
        assert_eq!(seen.messages, 50);
        let most = began.elapsed().div_duration_f64(SLEEP) as usize + 1;
        assert!((1..=most).contains(&late.len()), "{}", late.len());
        assert_eq!(percentile(&[1, 2, 3, 4], 0.5), 3.0);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }
}
