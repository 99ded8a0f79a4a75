//! The governors: a file each (`rs`, `ss` and `rs-ss` share one), what paper 2's have in common, and the list of names.
//!
//! A new governor is one file and one entry of `ALL`. Those of parallel regions have a list of their own: [`regions`].

mod detector;
mod fifo;
mod hold;
mod measure;
pub mod regions;
mod rs;
mod throughput;

pub use detector::{Detector, Reading};

use crate::{Governor, GovernorSite};

/// What the registry says of a governor.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The name that every command knows.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Whether it decides by cache counters. Without counters it then never changes anything.
    pub needs_counters: bool,
    /// Returns a governor that has seen nothing yet.
    pub make: fn(&GovernorSite) -> Box<dyn Governor>,
}

static ALL: &[Entry] = &[
    Entry {
        name: "fifo",
        summary: "all hardware threads, the longest waiting thread first",
        needs_counters: false,
        make: |site| Box::new(fifo::Fifo::new(site)),
    },
    Entry {
        name: "rs",
        summary: "half of the hardware threads while the cache is degraded (paper 2)",
        needs_counters: true,
        make: |site| Box::new(rs::WhileDegraded::new(site, true, false)),
    },
    Entry {
        name: "ss",
        summary: "threads in the order of their creation while the cache is degraded (paper 2)",
        needs_counters: true,
        make: |site| Box::new(rs::WhileDegraded::new(site, false, true)),
    },
    Entry {
        name: "rs-ss",
        summary: "both: half of the hardware threads, in the order of creation (paper 2)",
        needs_counters: true,
        make: |site| Box::new(rs::WhileDegraded::new(site, true, true)),
    },
    Entry {
        name: "throughput",
        summary: "as many hardware threads, or native workers, as do the most work per time, found by trying",
        needs_counters: false,
        make: |site| Box::new(throughput::Throughput::new(site)),
    },
    Entry {
        name: "hold",
        summary: "the best width by short probes, the better order of each part; exchanges threads that are slow together",
        needs_counters: false,
        make: |site| Box::new(hold::Hold::new(site, hold::Settings::default())),
    },
    Entry {
        name: "hold-blind",
        summary: "hold without cache counters",
        needs_counters: false,
        make: |site| {
            let settings = hold::Settings {
                counters: false,
                ..hold::Settings::default()
            };
            Box::new(hold::Hold::new(site, settings))
        },
    },
];

/// Returns all governors; the one that changes nothing first.
pub fn all() -> &'static [Entry] {
    ALL
}

/// No governor has this name.
#[derive(Clone, PartialEq, Eq)]
pub struct UnknownGovernor {
    /// The wrong name.
    pub name: String,
}

impl std::fmt::Debug for UnknownGovernor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::fmt::Display for UnknownGovernor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = ALL.iter().map(|entry| entry.name).collect();
        let (name, names) = (&self.name, names.join(", "));
        write!(f, "unknown governor \"{name}\"; the governors are {names}")
    }
}

impl std::error::Error for UnknownGovernor {}

/// Returns the governor called `name`.
///
/// # Errors
/// If there is none; the error's text lists the registered names.
pub fn find(name: &str) -> Result<&'static Entry, UnknownGovernor> {
    let found = ALL.iter().find(|entry| entry.name == name);
    found.ok_or_else(|| UnknownGovernor {
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Activity, CacheUse, Order, Period};

    fn period(threads: &[Activity], waiting: usize) -> Period<'_> {
        Period {
            time: 1000,
            threads,
            waiting,
        }
    }

    fn used(accesses: u64, misses: u64) -> [Activity; 4] {
        let cache = Some(CacheUse { accesses, misses });
        let mut threads = [Activity {
            cache: Some(CacheUse::default()),
            ..Activity::default()
        }; 4];
        threads[1].cache = cache;
        threads
    }

    const SITE: GovernorSite = GovernorSite {
        threads: 4,
        at_once: 4,
        period: 1000,
    };

    #[test]
    fn names_are_unique_and_a_wrong_one_is_answered_with_them() {
        for (i, entry) in ALL.iter().enumerate() {
            assert!(ALL[..i].iter().all(|other| other.name != entry.name));
            assert_eq!(find(entry.name).expect("it is there").name, entry.name);
        }
        let text = find("rsss").unwrap_err().to_string();
        assert!(ALL.iter().all(|entry| text.contains(entry.name)), "{text}");
    }

    #[test]
    fn each_degrades_in_its_own_way_and_recovers() {
        for (name, width, order) in [
            ("fifo", 4, Order::Fifo),
            ("rs", 2, Order::Fifo),
            ("ss", 4, Order::ByNumber),
            ("rs-ss", 2, Order::ByNumber),
        ] {
            let mut governor = (find(name).expect("it is there").make)(&SITE);
            let usual = governor.plan(&period(&used(100, 90), 3));
            assert_eq!((usual.width, usual.order), (4, Order::Fifo), "{name}");
            let degraded = governor.plan(&period(&used(100, 10), 5));
            assert_eq!((degraded.width, degraded.order), (width, order), "{name}");
            assert_eq!(degraded.next_call, 1000);
            let held = governor.plan(&period(&used(100, 0), 4));
            assert_eq!((held.width, held.order), (width, order), "{name} holds");
            let back = governor.plan(&period(&used(100, 100), 3));
            assert_eq!((back.width, back.order), (4, Order::Fifo), "{name}");
            assert_ne!(governor.why().to_string(), "");
        }
    }

    #[test]
    fn nothing_changes_without_counters() {
        for entry in ALL.iter().filter(|entry| entry.needs_counters) {
            let mut governor = (entry.make)(&SITE);
            let plan = governor.plan(&period(&[Activity::default(); 4], 64));
            assert_eq!((plan.width, plan.order), (4, Order::Fifo), "{}", entry.name);
        }
    }

    #[test]
    fn governors_that_ignore_counters_have_none_read() {
        for entry in ALL {
            let reads = (entry.make)(&SITE).reads_counters();
            let ignores = ["fifo", "throughput", "hold-blind"].contains(&entry.name);
            assert_eq!(reads, !ignores, "{}", entry.name);
            assert!(reads || !entry.needs_counters, "{}", entry.name);
        }
    }

    #[test]
    fn a_single_hardware_thread_is_not_halved() {
        let site = GovernorSite {
            threads: 1,
            at_once: 1,
            period: 10,
        };
        let mut governor = (find("rs-ss").expect("it is there").make)(&site);
        let plan = governor.plan(&period(&used(10, 10)[1..2], 9));
        assert_eq!((plan.width, plan.order), (1, Order::ByNumber));
    }
}
