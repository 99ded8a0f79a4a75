//! How many of the hardware threads that this process may use other processes keep busy.
//!
//! If it may use all: `/proc/loadavg` says how many threads of the system are ready to run at this moment, and the states of its own
//! threads how many of them are its own. (`/proc/stat` says it, too, but behind the counts of all interrupts, which takes ten times as
//! long.) A neighbour that works is always ready, whether it runs or stands behind us.
//!
//! If it may use a part of them, the system does not say where the others want to run. Then `/proc/stat` says how busy each hardware thread
//! was, the process's own clock what part of that was its own, and the run-queue delays of its threads how long they stood behind others: a
//! neighbour that shares a hardware thread with us gets half of it and wants all of it.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::time::Duration;

use crate::system;

/// The least time between two looks while there are neighbours, and while there are none.
const GAP: Duration = Duration::from_millis(10);
const CALM_GAP: Duration = Duration::from_millis(20);

/// If a region takes much longer than usual, the next looks come this soon, as many as it takes to know of a neighbour; no more often
/// than after this time.
const HURRIED_GAP: Duration = Duration::from_micros(500);
const HURRY: Duration = Duration::from_millis(60);

/// What seems to be a neighbour may be a short task of the system. So when there is one, that many looks follow this soon, but not again
/// within [`HURRY`].
const CONFIRMING: usize = 4;
const CONFIRMING_GAP: Duration = Duration::from_millis(2);

/// A look may cost this part of the time.
const SHARE: u32 = 500;

/// The system counts in ticks of 10 ms: figures of less time than half of this say little.
const SPAN: Duration = Duration::from_millis(100);

/// Delays are known to the nanosecond, but a time slice is some milliseconds: those of less time than this say little.
const DELAYS: Duration = Duration::from_millis(8);

/// The most threads whose delays or states are read.
const THREADS: usize = 256;

/// So many moments count. If all of the last few have neighbours, or most of them have none, only they do: a neighbour that came or went is
/// known after these. One that works is ready at every moment, so it takes fewer moments to say that it has gone.
const MOMENTS: usize = 8;
const AGREE: usize = 3;

/// From this load on there is a neighbour.
const NEW: f64 = 0.5;

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
    /// If these are all of the system: where it says how many threads are ready.
    whole: Option<Ready>,
    samples: VecDeque<Sample>,
    /// How many threads of others were ready at the last moments.
    moments: VecDeque<u32>,
    next: Duration,
    /// Looks that still come soon, and until when there are no further ones of these.
    hurried: usize,
    patient_until: Duration,
    /// The same of looks whether a neighbour stays.
    confirming: usize,
    confirmed_until: Duration,
    load: Option<f64>,
    /// Looks, and the time that they took.
    pub(super) looks: u64,
    pub(super) cost: Duration,
}

impl Neighbours {
    /// Starts with those that are ready now; of a part of the machine, with what the system's mean load of the last minute says.
    pub(super) fn new(cpus: Vec<u32>) -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let online = processors(&stat).max(1);
        let mut whole = match cpus.len() >= online {
            true => Ready::open(),
            false => None,
        };
        let load = match &mut whole {
            Some(ready) => Some(f64::from(others_at_start(ready))),
            None => {
                let text = fs::read_to_string("/proc/loadavg").ok();
                let part = cpus.len() as f64 / online as f64;
                text.and_then(|text| of_loadavg(&text))
                    .map(|load| load * part)
            }
        };
        Neighbours {
            confirming: match load.is_some_and(|load| load > 0.0) {
                true => CONFIRMING,
                false => 0,
            },
            confirmed_until: Duration::ZERO,
            load: load.map(|load| load.min(cpus.len() as f64)),
            cpus,
            whole,
            samples: VecDeque::new(),
            moments: VecDeque::new(),
            next: Duration::ZERO,
            hurried: 0,
            patient_until: Duration::ZERO,
            looks: 0,
            cost: Duration::ZERO,
        }
    }

    /// Returns what is known without a look.
    pub(super) fn load(&self) -> Option<f64> {
        self.load
    }

    /// Something took much longer than usual, and ended at `now`: whether that is a neighbour's doing is soon looked at.
    #[cold]
    pub(super) fn hurry(&mut self, now: Duration) {
        if self.whole.is_some() && self.load == Some(0.0) && now >= self.patient_until {
            (self.hurried, self.next) = (AGREE, now);
            self.patient_until = now + HURRY;
        }
    }

    /// Looks again if that is due at the time `now`; `clock` returns the time. Members of a team of `members` threads may wait for each
    /// other if there are fewer hardware threads, which is then no sign of neighbours.
    pub(super) fn look(
        &mut self,
        now: Duration,
        members: u32,
        mut clock: impl FnMut() -> Duration,
    ) {
        if now < self.next {
            return;
        }
        let is_calm = self.load.is_none_or(|load| load < NEW);
        if let Some(ready) = &mut self.whole {
            if let Some(ready) = ready.others() {
                self.add_moment(ready);
            }
            let is_new = is_calm && self.load.is_some_and(|load| load >= NEW);
            if is_new && now >= self.confirmed_until {
                self.confirming = CONFIRMING;
                self.confirmed_until = now + HURRY;
            }
        } else {
            let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
            if let Some(sample) = self.sample(now, &stat) {
                self.add(sample, members);
            }
        }
        let took = clock().saturating_sub(now);
        self.looks += 1;
        self.cost += took;
        let usual = match self.load == Some(0.0) {
            true => CALM_GAP,
            false => GAP,
        };
        self.hurried = self.hurried.saturating_sub(1);
        // Nobody else is ready: it was something else.
        if self.moments.front() == Some(&0) {
            self.hurried = 0;
        }
        self.next = match (self.hurried, self.confirming) {
            (0, 0) => now + usual.max(took * SHARE),
            (0, _) => {
                self.confirming -= 1;
                now + CONFIRMING_GAP
            }
            _ => now + HURRIED_GAP,
        };
    }

    fn add_moment(&mut self, ready: u32) {
        let most = self.cpus.len() as u32;
        self.moments.push_front(ready.min(most));
        self.moments.truncate(MOMENTS);
        if self.moments.len() < AGREE {
            return;
        }
        let last = self.moments.iter().take(AGREE);
        let some = last.filter(|&&one| one > 0).count();
        let agree = some == AGREE || some <= AGREE / 2;
        let count = if agree { AGREE } else { self.moments.len() };
        let sum: u32 = self.moments.iter().take(count).sum();
        self.load = Some(f64::from(sum) / count as f64);
    }

    fn add(&mut self, sample: Sample, members: u32) {
        let most = self.cpus.len() as f64;
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
            let fits = members as usize <= self.cpus.len();
            if span >= SPAN / 2 {
                let per = |after: Duration, before: Duration| {
                    after.saturating_sub(before).as_secs_f64() / span.as_secs_f64()
                };
                let others = (per(sample.busy, first.busy) - per(sample.own, first.own)).max(0.0);
                let delayed = match fits {
                    true => per(sample.delayed, first.delayed),
                    false => 0.0,
                };
                self.load = Some((others + delayed.min(others)).min(most));
            } else if span >= DELAYS && fits {
                // Whoever made us wait ran meanwhile, and waited as long.
                let delayed = sample.delayed.saturating_sub(first.delayed);
                let load = 2.0 * delayed.as_secs_f64() / span.as_secs_f64();
                self.load = Some(self.load.unwrap_or(0.0).max(load).min(most));
            }
        }
        self.samples.push_back(sample);
    }

    fn sample(&self, at: Duration, stat: &str) -> Option<Sample> {
        Some(Sample {
            at,
            busy: busy(stat, &self.cpus)?,
            own: system::time_of_process(),
            delayed: delayed(),
        })
    }
}

/// Returns how many threads of others want to run, from the text of `/proc/loadavg`: those that are ready now, this one apart, but no more
/// than were so in the mean of the last minute.
fn of_loadavg(text: &str) -> Option<f64> {
    let mut words = text.split_ascii_whitespace();
    let mean: f64 = words.next()?.parse().ok()?;
    let (ready, _) = words.nth(2)?.split_once('/')?;
    let ready: f64 = ready.parse().ok()?;
    Some((ready - 1.0).clamp(0.0, mean.max(0.0)))
}

/// Returns how many threads of other processes are ready all the time, in some looks: what started this program is often still at work at
/// its first region.
fn others_at_start(ready: &mut Ready) -> u32 {
    /// Further looks, as long as another thread is ready, and the time between them.
    const LOOKS: u32 = 5;
    const APART: Duration = Duration::from_micros(200);
    let mut least = ready.others().unwrap_or(0);
    for _ in 0..LOOKS {
        if least == 0 {
            break;
        }
        std::thread::sleep(APART);
        least = least.min(ready.others().unwrap_or(0));
    }
    least
}

/// Where the system says how many threads are ready, and which of them are this process's: files that stay open, since opening one takes
/// longer than reading it.
struct Ready {
    all: File,
    own: Vec<(i32, File)>,
}

impl Ready {
    fn open() -> Option<Ready> {
        Some(Ready {
            all: File::open("/proc/loadavg").ok()?,
            own: Vec::new(),
        })
    }

    /// Returns how many threads of other processes are ready.
    fn others(&mut self) -> Option<u32> {
        let ready = self.all_ready()?;
        // The calling thread is ready, so nobody else is if only one is.
        if ready <= 1 {
            return Some(0);
        }
        // Threads that were not known, and those that went to sleep between the two looks, count as others: so it takes another look to say
        // that there are others.
        let others = ready.saturating_sub(self.own_ready());
        if others == 0 {
            return Some(0);
        }
        self.find_own();
        Some(
            self.all_ready()?
                .saturating_sub(self.own_ready())
                .min(others),
        )
    }

    fn all_ready(&self) -> Option<u32> {
        read(&self.all, &mut [0; 128]).and_then(all_ready)
    }

    fn own_ready(&mut self) -> u32 {
        let (mut text, mut count) = ([0; 1024], 0);
        let me = system::this_thread();
        self.own.retain(|(thread, file)| {
            if *thread == me {
                count += 1;
                return true;
            }
            match read(file, &mut text) {
                Some(text) => {
                    count += u32::from(is_ready(text));
                    true
                }
                // The thread has ended.
                None => false,
            }
        });
        count
    }

    /// Opens the files of threads that are new.
    fn find_own(&mut self) {
        const TASKS: &str = "/proc/self/task";
        // Each thread is a folder, which its parent has a link of; two more are its own name and that in its parent.
        let is_same = |data: fs::Metadata| data.nlink() == self.own.len() as u64 + 2;
        if fs::metadata(TASKS).is_ok_and(is_same) {
            return;
        }
        let Ok(tasks) = fs::read_dir(TASKS) else {
            return;
        };
        for task in tasks.flatten().take(THREADS) {
            let Some(thread) = task.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            if self.own.iter().any(|(known, _)| *known == thread) {
                continue;
            }
            if let Ok(file) = File::open(task.path().join("stat")) {
                self.own.push((thread, file));
            }
        }
    }
}

/// Reads a short file from its beginning.
fn read<'a>(file: &File, text: &'a mut [u8]) -> Option<&'a str> {
    let length = file.read_at(text, 0).ok()?;
    std::str::from_utf8(&text[..length]).ok()
}

/// Returns how many threads of the system are ready, those that run included, from the text of `/proc/loadavg`.
fn all_ready(text: &str) -> Option<u32> {
    let (ready, _) = text.split_ascii_whitespace().nth(3)?.split_once('/')?;
    ready.parse().ok()
}

/// Returns whether a thread is ready or runs, from the text of its `stat`: the state stands behind the name in parentheses.
fn is_ready(stat: &str) -> bool {
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('R'))
}

/// Returns the number of processors in the text of `/proc/stat`.
fn processors(stat: &str) -> usize {
    let lines = stat.lines().take_while(|line| line.starts_with("cpu"));
    lines.count().saturating_sub(1)
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
    fn the_mean_load_limits_what_is_ready_by_chance() {
        let load = |text| of_loadavg(text).expect("it is right");
        assert_eq!(load("1.80 0.5 0.1 3/200 4711"), 1.8);
        assert_eq!(load("0.10 0.5 0.1 3/200 4711"), 0.1);
        assert_eq!(load("5.00 0.5 0.1 1/200 4711"), 0.0);
        assert_eq!(of_loadavg("5.00"), None);
        assert_eq!(processors(STAT), 2);
    }

    #[test]
    fn threads_that_are_ready_are_counted() {
        assert_eq!(all_ready("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(all_ready(STAT), None);
        assert!(is_ready("12 (a) R) R 1 2"));
        assert!(!is_ready("12 (R R) S 1 2"));
        let mut ready = Ready::open().expect("it is there");
        ready.find_own();
        assert!(ready.own_ready() >= 1);
        // A thread that comes later is found, too.
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let (say, said) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let _ = say.send(system::this_thread());
            let _ = stopped.recv();
        });
        let number = said.recv().expect("it says its number");
        // Threads of other tests end meanwhile. As many that came hide each other until a count drops those that ended.
        let is_found = (0..100).any(|_| {
            ready.own_ready();
            ready.find_own();
            ready.own.iter().any(|(known, _)| *known == number)
        });
        assert!(is_found);
        drop(stop);
        thread.join().expect("it ends");
        let mut text = [0; 128];
        assert!(read(&ready.all, &mut text).and_then(all_ready) >= Some(1));
    }

    #[test]
    fn neighbours_count_after_some_moments_that_agree() {
        let mut neighbours = Neighbours::new(vec![0, 1]);
        neighbours.load = None;
        let mut load = |ready: &[u32]| {
            ready.iter().for_each(|&one| neighbours.add_moment(one));
            neighbours.load()
        };
        assert_eq!(load(&[1, 1]), None);
        assert_eq!(load(&[1]), Some(1.0));
        // A single moment says little.
        assert_eq!(load(&[0]), Some(0.75));
        assert_eq!(load(&[0, 0]), Some(0.0));
        // No more than there are hardware threads.
        assert_eq!(load(&[9, 9, 9]), Some(2.0));
        assert_eq!(load(&[0, 0, 0, 0, 0]), Some(0.0));
        // One that is there for a moment, and one that was.
        assert_eq!(load(&[1]).map(|load| load < 0.35), Some(true));
        assert_eq!(load(&[1]), Some(0.5));
        assert_eq!(load(&[1]), Some(1.0));
        assert_eq!(load(&[0]), Some(0.375));
        assert_eq!(load(&[0]).map(|load| load < 0.35), Some(true));
    }

    #[test]
    fn what_seems_to_be_a_neighbour_is_looked_at_again_soon() {
        let ms = Duration::from_millis;
        let mut neighbours = Neighbours::new(vec![0, 1]);
        neighbours.whole = Some(Ready::open().expect("it is there"));
        (neighbours.load, neighbours.confirming) = (Some(0.0), 0);
        // Whatever this look finds, the ones before had neighbours.
        neighbours.moments = VecDeque::from([1, 1, 1, 1, 1, 1, 1]);
        neighbours.look(ms(100), 2, || ms(100));
        assert!(neighbours.load >= Some(0.5));
        assert_eq!(neighbours.next, ms(100) + CONFIRMING_GAP);
        for look in 1..CONFIRMING as u64 {
            let now = ms(100) + CONFIRMING_GAP * look as u32;
            neighbours.moments = VecDeque::from([1, 1, 1, 1, 1, 1, 1]);
            neighbours.look(now, 2, || now);
            assert_eq!(neighbours.next, now + CONFIRMING_GAP);
        }
        let now = neighbours.next;
        neighbours.moments = VecDeque::from([1, 1, 1, 1, 1, 1, 1]);
        neighbours.look(now, 2, || now);
        assert_eq!(neighbours.next, now + GAP);
    }

    #[test]
    fn a_region_that_takes_long_makes_three_looks_come_soon() {
        let ms = Duration::from_millis;
        let mut neighbours = Neighbours::new(vec![0, 1]);
        neighbours.whole = Some(Ready::open().expect("it is there"));
        (neighbours.load, neighbours.next) = (Some(0.0), ms(1000));
        neighbours.hurry(ms(100));
        assert_eq!((neighbours.next, neighbours.hurried), (ms(100), AGREE));
        // What is too soon after that changes nothing, and neither does it if neighbours are known.
        neighbours.next = ms(1000);
        neighbours.hurry(ms(130));
        assert_eq!(neighbours.next, ms(1000));
        neighbours.load = Some(1.0);
        neighbours.hurry(ms(300));
        assert_eq!(neighbours.next, ms(1000));
        neighbours.load = Some(0.0);
        neighbours.hurry(ms(300));
        assert_eq!(neighbours.next, ms(300));
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
            neighbours.load = None;
            samples.iter().for_each(|&one| neighbours.add(one, members));
            neighbours.load().map(|load| (load * 1e6).round() / 1e6)
        };
        // Nothing is said of too little time.
        assert_eq!(load(&[sample(0, 0, 0, 0), sample(5, 10, 0, 0)], 2), None);
        // Of a little more, only that we had to wait.
        let early = [sample(0, 0, 0, 0), sample(20, 0, 30, 10)];
        assert_eq!(load(&early, 2), Some(1.0));
        let early = [sample(0, 0, 0, 0), sample(20, 40, 0, 0)];
        assert_eq!(load(&early, 2), Some(0.0));
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
