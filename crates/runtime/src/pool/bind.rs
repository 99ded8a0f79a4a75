//! Binding of workers to hardware threads.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::cell::Cell;
use std::cmp::Ordering;
use std::str::FromStr;
use tanada_policy::{Placement, WorkerId};
use tanada_topology::Topology;

/// How workers are bound to hardware threads.
///
/// Threads and processes that a task starts inherit the binding of its worker, except for the workers of a [`Pool`](crate::Pool) that it
/// makes. A process that is to run anywhere is started from outside of the pool, or through `taskset`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Bind {
    /// Chosen by the number of workers and the process's affinity mask:
    ///
    /// - the pool has a governor, and as many workers as the mask has hardware threads or more: [`Bind::Cpu`], so that active workers have
    ///   a hardware thread each (the system would often leave two of them on one for some milliseconds, which the governor would measure);
    /// - more workers than the mask has hardware threads: [`Bind::Off`];
    /// - as many: [`Bind::Cpu`], because Linux may leave two threads that often sleep on one hardware thread, for longer than many graphs
    ///   take, while another one idles;
    /// - fewer: [`Bind::Domain`]. (Two processes that bind each worker to one of the hardware threads would both use the first ones while
    ///   others idle.)
    #[default]
    Auto,
    /// Binds each worker to one hardware thread.
    Cpu,
    /// Binds each worker to the hardware threads that share a cache with its own.
    Domain,
    /// Binds nothing: the system decides.
    Off,
}

impl FromStr for Bind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Bind::Auto),
            "cpu" => Ok(Bind::Cpu),
            "domain" => Ok(Bind::Domain),
            "off" => Ok(Bind::Off),
            _ => Err(format!(
                "unknown binding \"{text}\"; the bindings are auto, cpu, domain, off"
            )),
        }
    }
}

impl Bind {
    /// Binds this thread as worker `me`. `Auto` must be resolved. If the system refuses, the worker stays unbound.
    #[inline]
    pub(super) fn apply(self, me: WorkerId, placement: &Placement) {
        match self {
            Bind::Off | Bind::Auto => {}
            Bind::Cpu => bind_thread(&[placement.hardware_thread(me)]),
            Bind::Domain => bind_thread(placement.domain(me)),
        }
    }

    /// Returns what `Auto` means for this number of workers on this machine, in a pool that is `governed` or not. The others mean
    /// themselves.
    pub(super) fn resolve(self, workers: u16, governed: bool, topology: &Topology) -> Bind {
        if self != Bind::Auto {
            return self;
        }
        match usize::from(workers).cmp(&topology.usable().len()) {
            Ordering::Greater if !governed => Bind::Off,
            Ordering::Less => Bind::Domain,
            _ => Bind::Cpu,
        }
    }
}

thread_local! {
    /// The mask that this thread had before it was bound as a worker.
    static BEFORE: Cell<Option<CpuSet>> = const { Cell::new(None) };
}

/// Binds this thread to those of `cpus` that a mask covers. Does nothing if there are none, or if the system refuses.
fn bind_thread(cpus: &[u32]) {
    let mut mask = CpuSet::new();
    for cpu in cpus.iter().map(|&cpu| cpu as usize) {
        if cpu < CpuSet::MAX_CPU {
            mask.set(cpu);
        }
    }
    if mask != CpuSet::new() {
        BEFORE.set(current());
        set(&mask);
    }
}

/// Returns the mask of this thread, if it fits.
fn current() -> Option<CpuSet> {
    sched_getaffinity(None).ok()
}

/// Sets the mask of this thread. An error means that the allowed mask has changed since it was read (a container was moved): then the
/// thread stays as it is.
fn set(mask: &CpuSet) {
    let _ = sched_setaffinity(None, mask);
}

/// The hardware threads on which a thread may run that a program has not bound as a worker.
pub(super) struct Mask(Option<CpuSet>);

impl Mask {
    /// Returns that of this thread, before it was bound as a worker if it is one.
    #[inline]
    pub(super) fn of_this_thread() -> Self {
        Mask(BEFORE.get().or_else(current))
    }

    /// Gives this thread the mask, unless it has it.
    pub(super) fn apply(&self) {
        if let Some(mask) = &self.0
            && current().is_some_and(|now| now != *mask)
        {
            set(mask);
        }
    }
}

/// While this lives, the thread has the mask that it had before it was bound as a worker. Does nothing on other threads.
pub(super) struct Unbound(Option<CpuSet>);

impl Unbound {
    #[inline]
    pub(super) fn here() -> Self {
        Unbound(BEFORE.get().and_then(|before| {
            let bound = current();
            set(&before);
            bound
        }))
    }
}

impl Drop for Unbound {
    fn drop(&mut self) {
        if let Some(bound) = &self.0 {
            set(bound);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_looks_at_the_mask_and_at_the_number_of_workers() {
        let resolve = |text: &str, workers| {
            Bind::Auto.resolve(workers, false, &text.parse().expect("a machine"))
        };
        assert_eq!(resolve("l3:1 core:4", 4), Bind::Cpu);
        assert_eq!(resolve("l3:1 core:4", 3), Bind::Domain);
        assert_eq!(resolve("l3:1 core:4 allowed=0-1", 2), Bind::Cpu);
        // Two processes with one worker each would both run on hardware thread 0.
        assert_eq!(resolve("l3:1 core:4 allowed=0-1", 1), Bind::Domain);
        assert_eq!(resolve("l3:1 core:4", 5), Bind::Off);
        let machine = "l3:1 core:4".parse().expect("a machine");
        assert_eq!(Bind::Auto.resolve(5, true, &machine), Bind::Cpu);
        assert_eq!(Bind::Auto.resolve(4, true, &machine), Bind::Cpu);
        assert_eq!(Bind::Auto.resolve(3, true, &machine), Bind::Domain);
        assert_eq!(
            Bind::Cpu.resolve(5, false, &"core:4".parse().expect("a machine")),
            Bind::Cpu
        );
    }

    #[test]
    fn names_round_trip_and_a_wrong_one_lists_the_right_ones() {
        assert_eq!("domain".parse(), Ok(Bind::Domain));
        assert!(
            "core"
                .parse::<Bind>()
                .unwrap_err()
                .contains("auto, cpu, domain, off")
        );
    }
}
