//! Which hardware threads a worker may run on.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::str::FromStr;
use tanada_policy::{Placement, WorkerId};

/// How workers are bound to hardware threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Bind {
    /// To the hardware threads that share a cache with the worker's own; to its own hardware thread where the process may not use the
    /// whole machine (its mask then says where it belongs); not at all where there are more workers than hardware threads.
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
    /// Binds this thread as worker `me`. A system that refuses is obeyed: the worker then runs where the system puts it.
    pub(crate) fn apply(self, me: WorkerId, placement: &Placement) {
        let own = placement.hardware_thread(me);
        let cpus: &[u32] = match self.resolve(placement) {
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

    fn resolve(self, placement: &Placement) -> Bind {
        if self != Bind::Auto {
            return self;
        }
        let mut used: Vec<u32> = placement
            .ids()
            .map(|id| placement.hardware_thread(id))
            .collect();
        used.sort_unstable();
        used.dedup();
        if used.len() < usize::from(placement.workers()) {
            return Bind::Off;
        }
        let narrowed = sched_getaffinity(None).is_ok_and(|mask| {
            let online =
                std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
            online_count(&online).is_some_and(|online| (mask.count() as usize) < online)
        });
        if narrowed { Bind::Cpu } else { Bind::Domain }
    }
}

/// How many hardware threads a list such as `0-3,8` names.
fn online_count(list: &str) -> Option<usize> {
    list.trim()
        .split(',')
        .map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            Some(last.checked_sub(first)? + 1)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_online_lists() {
        assert_eq!(online_count("0-3,8\n"), Some(5));
        assert_eq!(online_count("0"), Some(1));
        assert_eq!(online_count(""), None);
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
