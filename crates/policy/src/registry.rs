//! The one place that lists the dispatchers by name.
//!
//! Every command, benchmark, report and test goes through this list; a new dispatcher is one file and one line here.

use crate::Dispatcher;
use crate::central::{Central, Rule};
use crate::fcfs::Fcfs;
use crate::lcfs::Lcfs;
use crate::locality_steal::Locality;
use crate::near_steal::Near;
use crate::random_steal::Random;
use crate::serial::Serial;
use crate::stealing::Stealing;
use crate::ts::Ts;

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
    /// As [`Dispatcher::GREEDY`].
    pub greedy: bool,
}

/// No dispatcher has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy {
    /// The wrong name.
    pub name: String,
}

impl std::fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "unknown policy \"{}\"; the policies are", self.name)?;
        for (i, entry) in all().iter().enumerate() {
            write!(f, "{} {}", if i == 0 { "" } else { "," }, entry.name)?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownPolicy {}

/// Something generic over dispatchers that is to be done with one that is known by name only.
pub trait Visitor {
    /// What comes of it.
    type Out;
    /// Does it with `D`.
    fn visit<D: Dispatcher>(self, entry: &'static Entry) -> Self::Out;
}

/// Something generic over the rules of shared pools, such as building a [`Central`] that records its events.
pub trait RuleVisitor {
    /// What comes of it.
    type Out;
    /// Does it with `R`.
    fn visit<R: Rule>(self, entry: &'static Entry) -> Self::Out;
}

/// `central` lines name a [`Rule`], whose dispatcher is `Central<rule>`; `other` lines name a dispatcher.
macro_rules! registry {
    ($(central $central:literal = $rule:ty: $about_central:literal;)* $(other $other:literal = $type:ty: $about_other:literal;)*) => {
        static ALL: &[Entry] = &[
            $(Entry { name: $central, summary: $about_central, exact: true, greedy: <Central<$rule> as Dispatcher>::GREEDY },)*
            $(Entry { name: $other, summary: $about_other, exact: false, greedy: <$type as Dispatcher>::GREEDY },)*
        ];

        /// Does something with the dispatcher called `name`.
        ///
        /// # Errors
        /// When there is none; the error's text lists the right names.
        pub fn with<V: Visitor>(name: &str, visitor: V) -> Result<V::Out, UnknownPolicy> {
            let entry = find(name)?;
            match entry.name {
                $($central => Ok(visitor.visit::<Central<$rule>>(entry)),)*
                $($other => Ok(visitor.visit::<$type>(entry)),)*
                _ => unreachable!("`find` gives registered names only"),
            }
        }

        /// Does something with the rule of the dispatcher called `name`; `None` where it has no single pool and so no [`Rule`].
        ///
        /// # Errors
        /// When there is no such dispatcher.
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
    central "serial" = Serial: "the reference: worker 0 takes the oldest ready task, the others nothing";
    central "fcfs" = Fcfs: "the oldest ready task";
    central "lcfs" = Lcfs: "the newest ready task";
    central "ts" = Ts: "cache groups: one T group at a time, each S group on one worker";
    other "random-steal" = Stealing<Random>: "own newest task, else the oldest of a random victim";
    other "near-steal" = Stealing<Near>: "own newest task, else the oldest of the nearest victim";
    other "locality-steal" = Stealing<Locality>: "S groups by mail, thieves prefer the T group that they ran last";
}

/// All dispatchers, in the order in which tables show them.
pub fn all() -> &'static [Entry] {
    ALL
}

/// The entry of the dispatcher called `name`.
///
/// # Errors
/// When there is none; the error's text lists the right names.
pub fn find(name: &str) -> Result<&'static Entry, UnknownPolicy> {
    ALL.iter()
        .find(|entry| entry.name == name)
        .ok_or_else(|| UnknownPolicy {
            name: name.to_owned(),
        })
}

/// Does something with every dispatcher, in order.
///
/// # Panics
/// Where the visitor does.
pub fn for_each<V: Visitor + Clone>(visitor: V) -> Vec<V::Out> {
    ALL.iter()
        .map(|entry| with(entry.name, visitor.clone()).expect("the name is registered"))
        .collect()
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
        struct Greedy;
        impl Visitor for Greedy {
            type Out = bool;
            fn visit<D: Dispatcher>(self, _entry: &'static Entry) -> bool {
                D::GREEDY
            }
        }
        let listed: Vec<bool> = all().iter().map(|entry| entry.greedy).collect();
        assert_eq!(for_each(Greedy), listed);
    }
}
