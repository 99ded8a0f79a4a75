//! Runs what has no result yet, on several threads.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::time::{Duration, Instant};

use tanada_sim::{Options, SimError, simulate};
use tanada_trace::Trace;

use super::journal::Journal;
use super::plan::{Cell, Plan};
use super::rows::ERROR;
use super::{Error, Progress};
use tanada_runtime::Cancel;

/// Results by identity, those that were `known` among them; each new one is in the journal as soon as it is there.
pub(super) fn all(
    plan: &Plan,
    known: HashMap<String, String>,
    journal: &mut Journal,
    threads: Option<NonZero<usize>>,
    cancel: &Cancel,
    progress: &mut dyn FnMut(Progress),
) -> Result<HashMap<String, String>, Error> {
    const LOOK: Duration = Duration::from_millis(50);
    let left: Vec<usize> = (0..plan.len())
        .filter(|&number| !known.contains_key(&plan.identity(plan.cell(number))))
        .collect();
    let work = Work {
        plan,
        left: &left,
        next: AtomicUsize::new(0),
        ended: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        loaded: Mutex::default(),
    };
    let host = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let threads = threads.unwrap_or(host).get().min(left.len());
    let begin = Instant::now();
    let tasks = left
        .iter()
        .map(|&number| plan.inputs[plan.cell(number).input].tasks)
        .sum();
    let mut runs = plan.len() - left.len();
    let mut results = known;
    let mut failure = None;
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        for _ in 0..threads {
            let (work, send) = (&work, send.clone());
            scope.spawn(move || {
                let mut held = None;
                while let Some((number, result)) = work.one(&mut held) {
                    if send.send((number, result)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        loop {
            match receive.recv_timeout(LOOK) {
                Ok((number, Ok(row))) => {
                    let identity = plan.identity(plan.cell(number));
                    if let Err(error) = journal.add(&identity, &row) {
                        failure.get_or_insert(error);
                        work.stop.store(true, Ordering::Relaxed);
                    }
                    results.insert(identity, row);
                    runs += 1;
                }
                Ok((_, Err(error))) => {
                    failure.get_or_insert(error);
                    work.stop.store(true, Ordering::Relaxed);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
            if cancel.is_cancelled() {
                work.stop.store(true, Ordering::Relaxed);
            }
            progress(Progress {
                runs,
                of: plan.len(),
                left: time_left(begin.elapsed(), work.ended.load(Ordering::Relaxed), tasks),
                restarted: journal.restarted,
            });
        }
    });
    match failure {
        _ if cancel.is_cancelled() && results.len() < plan.len() => {
            Err(Error::Paused(journal.path.clone()))
        }
        Some(failure) => Err(failure),
        None => Ok(results),
    }
}

/// What the threads share.
struct Work<'a> {
    plan: &'a Plan,
    /// Numbers of the runs that have no result.
    left: &'a [usize],
    next: AtomicUsize,
    /// Tasks that ended, of all runs.
    ended: AtomicU64,
    stop: AtomicBool,
    /// The traces that some thread works on, by number and groups: runs of one follow each other, so each is loaded once.
    loaded: Mutex<HashMap<(usize, usize), Weak<Slot>>>,
}

/// A trace once it is loaded.
type Slot = Mutex<Option<Arc<Trace>>>;

impl Work<'_> {
    /// Does the next run; nothing when there is none. `held` keeps the trace for the run after it.
    fn one(&self, held: &mut Option<Arc<Slot>>) -> Option<(usize, Result<String, Error>)> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let number = *self.left.get(self.next.fetch_add(1, Ordering::Relaxed))?;
        Some((number, self.run(self.plan.cell(number), held)))
    }

    fn run(&self, cell: Cell, held: &mut Option<Arc<Slot>>) -> Result<String, Error> {
        let trace = self.trace(cell, held)?;
        let input = &self.plan.inputs[cell.input];
        let told = AtomicU64::new(0);
        let watch = |tasks: u64| {
            self.ended.fetch_add(
                tasks - told.swap(tasks, Ordering::Relaxed),
                Ordering::Relaxed,
            );
            !self.stop.load(Ordering::Relaxed)
        };
        let options = Options {
            seed: self.plan.seeds[cell.seed],
            watch: Some(&watch),
            ..Options::default()
        };
        let machine = &self.plan.variants[cell.variant].machine;
        let result = simulate(
            &trace,
            machine,
            self.plan.policies[cell.policy],
            &options,
            &mut (),
        );
        match result.map_err(|error| error.locate(&input.path)) {
            Ok(outcome) => Ok(outcome.to_json_line()),
            Err(SimError::Cancelled) => Err(Error::Input("stopped".to_owned())),
            Err(SimError::Trace(error)) => Err(Error::Input(error.to_string())),
            // One run's fault is no reason to leave the others out.
            Err(error) => Ok(serde_json::json!({ ERROR: error.to_string() }).to_string()),
        }
    }

    /// The trace of a run, loaded by whoever needs it first.
    fn trace(&self, cell: Cell, held: &mut Option<Arc<Slot>>) -> Result<Arc<Trace>, Error> {
        let slot = {
            let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
            let known = loaded.entry((cell.input, cell.groups)).or_default();
            let slot = known.upgrade().unwrap_or_default();
            *known = Arc::downgrade(&slot);
            slot
        };
        *held = Some(Arc::clone(&slot));
        let mut trace = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(trace) = &*trace {
            return Ok(Arc::clone(trace));
        }
        let path = &self.plan.inputs[cell.input].path;
        let opened = Trace::open(path, &self.plan.groups_of(cell))
            .map_err(|error| Error::Input(error.to_string()))?;
        Ok(Arc::clone(trace.insert(Arc::new(opened))))
    }
}

/// As long as what is left takes if tasks go on ending as they did.
fn time_left(elapsed: Duration, ended: u64, tasks: u64) -> Option<Duration> {
    if ended == 0 || tasks < ended {
        return None;
    }
    Duration::try_from_secs_f64(elapsed.as_secs_f64() * (tasks - ended) as f64 / ended as f64).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_follows_from_what_was_done() {
        let second = Duration::from_secs(1);
        assert_eq!(time_left(second, 0, 10), None);
        assert_eq!(time_left(second, 4, 10), Some(Duration::from_millis(1500)));
        assert_eq!(time_left(second, 10, 10), Some(Duration::ZERO));
    }
}
