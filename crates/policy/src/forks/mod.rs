//! The fork policies, a file each, and their list: what becomes of forks, and where an idle worker looks for one (the trait
//! [`ForkPolicy`]). A new one is one file and one line in [`all`].

pub mod adws;
mod cutoff;
mod dividing;
mod forking;
mod help_first;
mod near_first;
mod random;
mod shallowest;

pub use adws::Adws;
pub use cutoff::Cutoff;
pub use dividing::Dividing;
pub use forking::Forking;
pub use help_first::HelpFirst;
pub use near_first::NearFirst;
pub use random::Random;
pub use shallowest::{ShallowestOf2, ShallowestOf4, ShallowestOf8};

use crate::ForkPolicy;
use crate::registry::{Entry, UnknownPolicy, Visitor, entry};

/// The fork policy of a pool that names none.
pub const DEFAULT: &str = "near-first";

/// A fork policy that has a name.
pub trait Named: ForkPolicy + Sized + 'static {
    /// The one value of the policy.
    const POLICY: &'static Self;
}

macro_rules! forks {
    ($($name:literal = $policy:ident as $tasks:ty, greedy = $greedy:literal: $about:literal;)*) => {
        $(impl Named for $policy {
            const POLICY: &'static Self = &$policy;
        })*

        static ALL: &[Entry] = &[$(entry::<$tasks>($name, $about, false, $greedy),)*];

        /// Returns the fork policy called `name`.
        ///
        /// # Errors
        /// If there is none; the error's text lists the names of dispatchers and fork policies.
        pub fn find(name: &str) -> Result<&'static dyn ForkPolicy, UnknownPolicy> {
            match name {
                $($name => Ok($policy::POLICY),)*
                _ => Err(UnknownPolicy { name: name.to_owned() }),
            }
        }

        /// Calls `visitor` with the dispatcher which schedules the tasks of a trace as the fork policy called `name` schedules forks, and
        /// returns its result; `None` if there is no such fork policy.
        pub fn with<V: Visitor>(name: &str, visitor: V) -> Option<V::Out> {
            let entry = ALL.iter().find(|entry| entry.name == name)?;
            Some(match name {
                $($name => visitor.visit::<$tasks>(entry),)*
                _ => unreachable!("the entry was found"),
            })
        }
    };
}

forks! {
    "near-first" = NearFirst as Forking<NearFirst>, greedy = true: "forks: latent; the nearest victim's oldest";
    "random" = Random as Forking<Random>, greedy = true: "forks: latent; a random victim's oldest";
    "help-first" = HelpFirst as Forking<HelpFirst>, greedy = true: "forks: all exposed; the nearest victim's oldest";
    "shallowest-of-2" = ShallowestOf2 as Forking<ShallowestOf2>, greedy = true: "forks: exposed; the shallowest of 2 random victims";
    "shallowest-of-4" = ShallowestOf4 as Forking<ShallowestOf4>, greedy = true: "forks: exposed; the shallowest of 4 random victims";
    "shallowest-of-8" = ShallowestOf8 as Forking<ShallowestOf8>, greedy = true: "forks: exposed; the shallowest of 8 random victims";
    "cutoff" = Cutoff as Forking<Cutoff>, greedy = false: "forks: exposed near the root, none below; the nearest victim's oldest";
    "adws" = Adws as Dividing, greedy = false: "forks: the same closures on the same workers again, by dealing these out";
}

/// Returns all fork policies, in the order in which tables show them.
pub fn all() -> &'static [Entry] {
    ALL
}

/// Returns the fork policy that goes with the dispatcher called `dispatcher`: `random-steal` steals forks as it steals tasks, every other
/// one has the default.
pub fn of_dispatcher(dispatcher: &str) -> &'static dyn ForkPolicy {
    match dispatcher {
        "random-steal" => Random::POLICY,
        _ => NearFirst::POLICY,
    }
}

/// Calls `visitor` with the dispatcher or fork policy called `name`, for an engine that has both as dispatchers, and returns its result.
///
/// # Errors
/// If there is neither.
pub fn with_any<V: Visitor>(name: &str, visitor: V) -> Result<V::Out, UnknownPolicy> {
    match all().iter().any(|entry| entry.name == name) {
        true => Ok(with(name, visitor).expect("it is listed")),
        false => crate::registry::with(name, visitor),
    }
}

/// Returns the entries of all dispatchers, and behind them those of all fork policies.
pub fn any() -> impl Iterator<Item = &'static Entry> + Clone {
    crate::registry::all().iter().chain(all())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Placement, Thief, WorkerId};
    use tanada_topology::Topology;

    fn placement(workers: u16) -> Placement {
        let machine: Topology = "package:2 l3:1 core:3 pu:1".parse().expect("a topology");
        machine.place(workers)
    }

    #[test]
    fn every_policy_tries_every_other_worker() {
        for entry in all() {
            let policy = find(entry.name).expect("it is listed");
            for workers in [1, 2, 6] {
                let placement = placement(workers);
                for me in placement.ids() {
                    for looked in 0..4 {
                        let mut tried = std::collections::BTreeSet::new();
                        let mut drawn = 0_u64;
                        let mut random = || {
                            drawn += 1;
                            crate::draw(7, me, drawn)
                        };
                        let mut peek = |victim: WorkerId| victim.0.checked_sub(1);
                        let mut thief = Thief {
                            me,
                            placement: &placement,
                            looked,
                            random: &mut random,
                            peek: &mut peek,
                        };
                        let found = policy.steal(&mut thief, &mut |victim| {
                            tried.insert(victim.0);
                            false
                        });
                        assert!(!found);
                        let others = placement.ids().filter(|other| *other != me);
                        assert!(
                            tried.into_iter().eq(others.map(|other| other.0)),
                            "{}",
                            entry.name
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn near_victims_come_first_but_under_random() {
        let placement = placement(6);
        let me = WorkerId(0);
        for entry in all() {
            let policy = find(entry.name).expect("it is listed");
            let mut random = || 4;
            let mut peek = |_| Some(1);
            let mut thief = Thief {
                me,
                placement: &placement,
                looked: 0,
                random: &mut random,
                peek: &mut peek,
            };
            let mut first = None;
            policy.steal(&mut thief, &mut |victim| {
                first = Some(victim);
                true
            });
            let far = placement.distance(me, first.expect("one was tried")) > 1;
            let nearest = placement.by_distance(me)[0];
            let is_random = entry.name == "random" || entry.name.starts_with("shallowest");
            assert!(far == is_random || placement.distance(me, nearest) > 1);
        }
    }

    #[test]
    fn no_name_is_a_dispatchers_too() {
        let mut names: Vec<&str> = any().map(|entry| entry.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), any().count());
        assert!(find(DEFAULT).is_ok() && find("fcfs").is_err());
    }
}
