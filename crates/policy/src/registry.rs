//! The one place that lists the dispatchers by name.
//!
//! Every command, benchmark, report and test goes through this list; a new dispatcher is one file and one line here.

use crate::Dispatcher;
use crate::dispatchers::central::{Central, Rule};
use crate::dispatchers::critical_path::CriticalPath;
use crate::dispatchers::fcfs::Fcfs;
use crate::dispatchers::lcfs::Lcfs;
use crate::dispatchers::locality_steal::Locality;
use crate::dispatchers::near_steal::Near;
use crate::dispatchers::random_steal::Random;
use crate::dispatchers::serial::Serial;
use crate::dispatchers::slifo::Slifo;
use crate::dispatchers::stealing::Stealing;
use crate::dispatchers::ts::Ts;
use crate::dispatchers::ts_local::TsLocal;
use crate::dispatchers::ts_sticky::TsSticky;

/// The native default if a user asks for groups and names no dispatcher.
pub const GROUPED_POLICY: &str = "ts-local";

/// What the registry says of a dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The name that every command knows.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Whether its rule holds exactly with many workers at once, because every turn is one critical section. Otherwise the rule is
    /// exact only while calls come one at a time, as in the toy engine of the laws crate.
    pub exact: bool,
    /// Whether no worker idles while a task is ready that it could have. Tests hold every policy to what this says.
    pub greedy: bool,
    /// As [`Dispatcher::READS_GROUPS`].
    pub groups: bool,
    /// As [`Dispatcher::NEEDS_PREPARED`]: only the simulated engine has it.
    pub needs_prepared: bool,
}

/// No dispatcher has this name.
#[derive(Clone, PartialEq, Eq)]
pub struct UnknownPolicy {
    /// The wrong name.
    pub name: String,
}

impl std::fmt::Debug for UnknownPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "unknown policy \"{}\"; the policies are", self.name)?;
        for (i, entry) in all().iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let simulated = match entry.needs_prepared {
                true => " (simulated only)",
                false => "",
            };
            write!(f, "{comma} {}{simulated}", entry.name)?;
        }
        let forks = crate::forks::all().iter().map(|entry| entry.name);
        write!(f, "; of forks {}", forks.collect::<Vec<_>>().join(", "))
    }
}

impl std::error::Error for UnknownPolicy {}

/// The dispatcher [needs](Dispatcher::NEEDS_PREPARED) to know the graph before it runs, which the native engine does not.
#[derive(Clone, PartialEq, Eq)]
pub struct NotNative {
    name: String,
}

impl std::fmt::Debug for NotNative {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl NotNative {
    /// Returns the error for the dispatcher called `name`.
    pub fn named(name: &str) -> Self {
        NotNative {
            name: name.to_owned(),
        }
    }
}

impl std::fmt::Display for NotNative {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let NotNative { name } = self;
        write!(
            f,
            "policy \"{name}\" must know the whole graph before it runs, so it works in the simulator only: \
             `tanada sim TRACE --machine M --policy {name}`"
        )
    }
}

impl std::error::Error for NotNative {}

/// A function that is generic over dispatchers, to be called with the type of a dispatcher that is known by name.
pub trait Visitor {
    /// What it returns.
    type Out;
    /// Receives the dispatcher `D` and its entry, and returns the visitor's result.
    fn visit<D: Dispatcher>(self, entry: &'static Entry) -> Self::Out;
}

/// A function that is generic over the rules of shared pools, such as one that builds a [`Central`] which records its events.
pub trait RuleVisitor {
    /// What it returns.
    type Out;
    /// Receives the rule `R` and its entry, and returns the visitor's result.
    fn visit<R: Rule>(self, entry: &'static Entry) -> Self::Out;
}

pub(crate) const fn entry<D: Dispatcher>(
    name: &'static str,
    summary: &'static str,
    exact: bool,
    greedy: bool,
) -> Entry {
    Entry {
        name,
        summary,
        exact,
        greedy,
        groups: D::READS_GROUPS,
        needs_prepared: D::NEEDS_PREPARED,
    }
}

/// `central` lines name a [`Rule`], whose dispatcher is `Central<rule>`; `other` lines name a dispatcher. `, greedy = false` behind the
/// type of a dispatcher that lets workers idle while tasks are ready.
macro_rules! registry {
    (
        $(central $central:literal = $rule:ty $(, greedy = $central_greedy:literal)?: $about_central:literal;)*
        $(other $other:literal = $type:ty $(, greedy = $other_greedy:literal)?: $about_other:literal;)*
    ) => {
        static ALL: &[Entry] = &[
            $(entry::<Central<$rule>>($central, $about_central, true, true $(&& $central_greedy)?),)*
            $(entry::<$type>($other, $about_other, false, true $(&& $other_greedy)?),)*
        ];

        /// Calls `visitor` with the dispatcher called `name` and returns its result.
        ///
        /// # Errors
        /// If there is none; the error's text lists the registered names.
        pub fn with<V: Visitor>(name: &str, visitor: V) -> Result<V::Out, UnknownPolicy> {
            let entry = find(name)?;
            match entry.name {
                $($central => Ok(visitor.visit::<Central<$rule>>(entry)),)*
                $($other => Ok(visitor.visit::<$type>(entry)),)*
                _ => unreachable!("`find` returns registered names only"),
            }
        }

        /// Calls `visitor` with the rule of the dispatcher called `name`; returns `None` if it has no single pool and so no [`Rule`].
        ///
        /// # Errors
        /// If there is no such dispatcher.
        pub fn with_rule<V: RuleVisitor>(name: &str, visitor: V) -> Result<Option<V::Out>, UnknownPolicy> {
            let entry = find(name)?;
            match entry.name {
                $($central => Ok(Some(visitor.visit::<$rule>(entry))),)*
                _ => Ok(None),
            }
        }
    };
}

registry! {
    central "serial" = Serial, greedy = false: "the reference: worker 0 takes the oldest ready task, the others nothing";
    central "fcfs" = Fcfs: "the oldest ready task";
    central "lcfs" = Lcfs: "the newest ready task";
    central "ts" = Ts: "cache groups: one T group at a time, each S group on one worker";
    central "ts-sticky" = TsSticky: "cache groups: stay in the S group, lowest T group first, take over the longest cell";
    central "slifo" = Slifo: "stay with the same code, newest first; take over the code with the most tasks";
    central "critical-path" = CriticalPath: "the task with the longest way to the end of the graph (simulated only)";
    other "ts-local" = TsLocal: "cache groups with the cells at the S groups' workers: nothing shared moves per task";
    other "random-steal" = Stealing<Random>: "own newest task, else the oldest of a random victim";
    other "near-steal" = Stealing<Near>: "own newest task, else the oldest of the nearest victim";
    other "locality-steal" = Stealing<Locality>: "S groups by mail, thieves prefer the T group that they ran last";
}

/// Returns all dispatchers, in the order in which tables show them.
pub fn all() -> &'static [Entry] {
    ALL
}

/// Returns the dispatchers that the native engine offers, in the same order: all that need not know the graph before it runs.
pub fn native() -> Vec<&'static Entry> {
    ALL.iter().filter(|entry| !entry.needs_prepared).collect()
}

/// Returns the first greedy native dispatcher of each kind: with and without an exact rule, with and without groups. For tests that have
/// no time for all.
pub fn kinds() -> Vec<&'static Entry> {
    let mut kinds = native();
    kinds.retain(|entry| entry.greedy);
    kinds.sort_by_key(|entry| (entry.exact, entry.groups));
    kinds.dedup_by_key(|entry| (entry.exact, entry.groups));
    kinds
}

/// Returns the entry of the dispatcher called `name`.
///
/// # Errors
/// If there is none; the error's text lists the registered names.
pub fn find(name: &str) -> Result<&'static Entry, UnknownPolicy> {
    let found = ALL.iter().find(|entry| entry.name == name);
    found.ok_or_else(|| UnknownPolicy {
        name: name.to_owned(),
    })
}

/// Calls `visitor` with every dispatcher, in order, and returns the results.
///
/// # Panics
/// If the visitor does.
pub fn for_each<V: Visitor + Clone>(visitor: V) -> Vec<V::Out> {
    let visit = |entry: &Entry| with(entry.name, visitor.clone()).expect("the name is registered");
    ALL.iter().map(visit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_one_is_found() {
        for (i, entry) in all().iter().enumerate() {
            assert_eq!(find(entry.name), Ok(entry));
            assert!(
                all()[..i].iter().all(|other| other.name != entry.name),
                "{} is there twice",
                entry.name
            );
        }
    }

    #[test]
    fn the_default_for_groups_is_registered_and_native() {
        assert!(find(GROUPED_POLICY).is_ok_and(|entry| !entry.needs_prepared));
    }

    #[test]
    fn what_needs_the_graph_is_not_native_and_everything_else_is() {
        assert!(native().iter().all(|entry| !entry.needs_prepared));
        let others = all().iter().filter(|entry| entry.needs_prepared).count();
        assert!(others > 0 && native().len() + others == all().len());
    }

    #[test]
    fn there_is_one_of_each_kind() {
        let names = kinds().into_iter().map(|entry| entry.name);
        assert_eq!(
            Vec::from_iter(names),
            ["random-steal", "ts-local", "fcfs", "ts"]
        );
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_right_ones() {
        let text = find("fifo").unwrap_err().to_string();
        assert!(text.starts_with("unknown policy \"fifo\""), "{text}");
        for entry in all() {
            assert!(text.contains(entry.name), "{text}");
        }
    }

    #[test]
    fn entries_say_what_the_types_say() {
        #[derive(Clone)]
        struct Constants;
        impl Visitor for Constants {
            type Out = (bool, bool);
            fn visit<D: Dispatcher>(self, _entry: &'static Entry) -> (bool, bool) {
                (D::READS_GROUPS, D::NEEDS_PREPARED)
            }
        }
        let listed = all().iter();
        let listed = listed.map(|entry| (entry.groups, entry.needs_prepared));
        assert_eq!(for_each(Constants), Vec::from_iter(listed));
    }

    #[test]
    fn only_what_says_so_is_not_greedy() {
        let lazy = all().iter().filter(|entry| !entry.greedy);
        assert_eq!(Vec::from_iter(lazy.map(|entry| entry.name)), ["serial"]);
    }
}
