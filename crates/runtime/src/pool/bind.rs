//! Which hardware threads a worker may run on.

use rustix::thread::{CpuSet, sched_setaffinity};
use std::str::FromStr;
use tanada_policy::{Placement, WorkerId};
use tanada_topology::{Kind, Topology};

/// How workers are bound to hardware threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Bind {
    /// To the hardware threads that share a cache with the worker's own; to its own hardware thread where the process may not use the
    /// whole machine (its mask then says where it belongs) and there are as many workers as it may use hardware threads (with fewer, two
    /// such processes would meet on the first of them while others idle); not at all where there are more workers than that.
    #[default]
    Auto,
    /// Each worker to one hardware thread.
    Cpu,
    /// Each worker to the hardware threads of its cache domain.
    Domain,
    /// The system decides.
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
    /// Binds this thread as worker `me`, once `Auto` is resolved. A system that refuses is obeyed: the worker then
    /// runs where the system puts it.
    pub(crate) fn apply(self, me: WorkerId, placement: &Placement) {
        let own = placement.hardware_thread(me);
        let cpus: &[u32] = match self {
            Bind::Off | Bind::Auto => return,
            Bind::Cpu => &[own],
            Bind::Domain => placement.domain(me),
        };
        let mut set = CpuSet::new();
        for &cpu in cpus {
            if (cpu as usize) < CpuSet::MAX_CPU {
                set.set(cpu as usize);
            }
        }
        if set.count() > 0 {
            // An error means that the mask changed under us (a container was moved): running unbound is right then.
            let _ = sched_setaffinity(None, &set);
        }
    }

    /// What `Auto` means for so many workers on this machine; the others mean themselves.
    pub(crate) fn resolve(self, workers: u16, topology: &Topology) -> Bind {
        if self != Bind::Auto {
            return self;
        }
        let usable = topology.usable().len();
        if usable < usize::from(workers) {
            return Bind::Off;
        }
        let narrowed = usable < topology.root().count(Kind::HardwareThread);
        if narrowed && usable == usize::from(workers) {
            Bind::Cpu
        } else {
            Bind::Domain
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_looks_at_the_mask_and_at_the_number_of_workers() {
        let resolve =
            |text: &str, workers| Bind::Auto.resolve(workers, &text.parse().expect("a machine"));
        assert_eq!(resolve("l3:1 core:4", 4), Bind::Domain);
        assert_eq!(resolve("l3:1 core:4 allowed=0-1", 2), Bind::Cpu);
        // Two processes with one worker each would both run on hardware thread 0.
        assert_eq!(resolve("l3:1 core:4 allowed=0-1", 1), Bind::Domain);
        assert_eq!(resolve("l3:1 core:4", 5), Bind::Off);
        assert_eq!(
            Bind::Cpu.resolve(5, &"core:4".parse().expect("a machine")),
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
