//! Runs what has no result yet, on several threads.

use std::collections::HashMap;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tanada_runtime::Cancel;
use tanada_sim::{Options, SimError, simulate};
use tanada_trace::Trace;

use super::journal::Journal;
use super::plan::{Cell, Plan};
use super::rows::ERROR;
use super::{Error, Progress};
use crate::batch;

/// Runs what is not `known` and returns all results by identity. Each new result is in the journal as soon as it is there.
pub(super) fn all(
    plan: &Plan,
    known: HashMap<String, String>,
    journal: &mut Journal,
    threads: Option<NonZero<usize>>,
    cancel: &Cancel,
    progress: &mut dyn FnMut(Progress),
) -> Result<HashMap<String, String>, Error> {
    let left: Vec<usize> = (0..plan.len())
        .filter(|&number| !known.contains_key(&plan.identity(plan.cell(number))))
        .collect();
    let work = Work {
        plan,
        ended: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        loaded: Mutex::default(),
    };
    let threads = threads.map_or_else(batch::host_threads, NonZero::get);
    let begin = Instant::now();
    let tasks = left
        .iter()
        .map(|&number| plan.inputs[plan.cell(number).input].tasks)
        .sum();
    let mut runs = plan.len() - left.len();
    let (mut results, mut failure) = (known, None);
    let worker = || {
        let (work, left) = (&work, &left);
        let mut held = None;
        move |place: usize| work.run(plan.cell(left[place]), &mut held)
    };
    batch::run(left.len(), threads, worker, |result| {
        let kept = match result {
            Some((place, Ok(row))) => {
                let identity = plan.identity(plan.cell(left[place]));
                let kept = journal.add(&identity, &row);
                results.insert(identity, row);
                runs += 1;
                kept
            }
            Some((_, Err(error))) => Err(error),
            None => Ok(()),
        };
        if let Err(error) = kept {
            failure.get_or_insert(error);
        }
        progress(Progress {
            runs,
            of: plan.len(),
            left: time_left(begin.elapsed(), work.ended.load(Ordering::Relaxed), tasks),
            restarted: journal.restarted,
            damaged: journal.damaged,
        });
        if failure.is_none() && !cancel.is_cancelled() {
            return ControlFlow::Continue(());
        }
        work.stop.store(true, Ordering::Relaxed);
        ControlFlow::Break(())
    });
    match failure {
        _ if cancel.is_cancelled() && runs < plan.len() => Err(Error::Paused(journal.path.clone())),
        Some(failure) => Err(failure),
        None => Ok(results),
    }
}

/// What the threads share.
struct Work<'a> {
    plan: &'a Plan,
    /// Tasks that ended, of all runs.
    ended: AtomicU64,
    stop: AtomicBool,
    /// The traces that threads work on, by number and groups. Runs of one trace follow each other, so each trace is loaded once.
    loaded: Mutex<HashMap<(usize, usize), Weak<Slot>>>,
}

/// A trace once it is loaded.
type Slot = Mutex<Option<Arc<Trace>>>;

impl Work<'_> {
    /// Simulates a run and returns its row as JSON; `held` keeps the trace for the next run of the thread.
    fn run(&self, cell: Cell, held: &mut Option<Arc<Slot>>) -> Result<String, Error> {
        let trace = self.trace(cell, held)?;
        let input = &self.plan.inputs[cell.input];
        let counted = AtomicU64::new(0);
        let watch = |tasks: u64| {
            self.ended.fetch_add(
                tasks - counted.swap(tasks, Ordering::Relaxed),
                Ordering::Relaxed,
            );
            !self.stop.load(Ordering::Relaxed)
        };
        let options = Options {
            seed: self.plan.seeds[cell.seed],
            watch: Some(&watch),
            ..Options::default()
        };
        let machine = self.plan.machine(cell)?;
        let result = simulate(
            &trace,
            &machine,
            self.plan.policies[cell.policy],
            &options,
            &mut (),
        );
        match result.map_err(|error| error.locate(&input.path)) {
            Ok(outcome) => Ok(outcome.to_json_line()),
            Err(SimError::Cancelled) => Err(Error::Input("stopped".to_owned())),
            Err(SimError::Trace(error)) => Err(Error::Input(error.to_string())),
            // A run that fails has a row that says why; the others go on.
            Err(error) => Ok(serde_json::json!({ ERROR: error.to_string() }).to_string()),
        }
    }

    /// Returns the trace of a run, which the first thread that needs it loads.
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

/// Returns an estimate of the time until `tasks` tasks have ended, from the `ended` tasks of the first `elapsed`; `None`: none has ended.
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
