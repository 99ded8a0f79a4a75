//! The models: each has its own rules of time, and drives the same [`parts`](crate::parts).

pub(crate) mod contended;
pub mod regions;
pub mod rtos;
pub(crate) mod smt;
pub(crate) mod uniform;

use crate::counts::bound::Bound;
use crate::counts::overflow;
use crate::counts::tally::Tally;
use crate::parts::dispatching::Dispatching;
use crate::{Machine, Observer, Options, Outcome, Run, SimError};
use tanada_policy::Dispatcher;
use tanada_trace::{Reader, Trace};

/// What every model starts from: the inputs of a run, its dispatcher and its counts.
pub(crate) struct Simulation<'a, D: Dispatcher> {
    pub(crate) trace: &'a Trace,
    pub(crate) machine: &'a Machine,
    pub(crate) policy: &'a str,
    pub(crate) options: &'a Options<'a>,
    pub(crate) seed: u64,
    pub(crate) reader: Reader<'a>,
    pub(crate) dispatching: Dispatching<'a, D>,
    /// Touches of long records so far.
    long_touches: u64,
    pub(crate) tally: Tally,
    pub(crate) bound: Bound,
}

impl<'a, D: Dispatcher> Simulation<'a, D> {
    /// Returns a run that has not begun.
    ///
    /// # Errors
    /// If the trace cannot be read, or a dispatcher that needs the whole graph finds a task of more than 2^64-1 cycles.
    pub(crate) fn new(
        trace: &'a Trace,
        machine: &'a Machine,
        policy: &'a str,
        options: &'a Options<'a>,
        observer: &'a mut dyn Observer,
    ) -> Result<Self, SimError> {
        let seed = options.seed.unwrap_or(machine.seed);
        Ok(Simulation {
            trace,
            machine,
            policy,
            options,
            seed,
            reader: trace.reader()?,
            dispatching: Dispatching::new(trace, machine, seed, observer)?,
            long_touches: 0,
            tally: Tally::new(machine, trace),
            bound: Bound::new(machine, trace),
        })
    }

    /// Reports progress; see [`Options::watch`].
    ///
    /// # Errors
    /// Returns an error if the run is cancelled.
    pub(crate) fn check_cancelled(&self) -> Result<(), SimError> {
        self.options.check_cancelled(self.dispatching.ended())
    }

    /// Announces that a long record is about to touch `lines` more lines.
    ///
    /// # Errors
    /// Returns an error if a clock must overflow on every schedule. That is checked once, after a few million lines, so that the error does
    /// not come only after hours of simulation.
    #[inline]
    pub(crate) fn announce_lines(&mut self, lines: u64) -> Result<(), SimError> {
        let before = self.long_touches;
        self.long_touches = before.saturating_add(lines);
        if before < overflow::TOUCHES && self.long_touches >= overflow::TOUCHES {
            let ended = self.dispatching.ended();
            overflow::check(self.trace, self.machine, self.options, ended)?;
        }
        Ok(())
    }

    /// Counts a task that has ended, and reports it to the observer. Its least time is `overhead` plus the cycles that it computed.
    pub(crate) fn ended(&mut self, run: &Run, overhead: u64) {
        let computed = self.tally.ended(self.trace, run);
        let least = computed.saturating_add(overhead);
        self.bound.ended(self.trace, run.task, least);
        self.dispatching.env.observer.ended(run);
    }

    /// Returns the error for a record, or the dispatch (`None`), of `task` that takes a clock past 2^64-1.
    #[cold]
    pub(crate) fn overflow(&self, task: u32, record: Option<u64>) -> SimError {
        SimError::overflow(self.trace, task, record)
    }

    /// Returns the error for tasks that the policy never handed out.
    #[cold]
    pub(crate) fn stuck(&self) -> SimError {
        SimError::stuck(self.policy, self.trace, &self.dispatching)
    }

    /// Returns the results of a run that has ended.
    pub(crate) fn outcome(self, writebacks: u64) -> Outcome {
        let (machine, policy, bound) = (self.machine, self.policy, &self.bound);
        self.tally
            .outcome(machine, policy, self.seed, writebacks, bound)
    }
}
