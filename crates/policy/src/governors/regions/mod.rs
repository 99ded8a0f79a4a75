//! The governors of parallel regions (paper 4): a file each, what they decide from, and the list of names.
//!
//! A new governor is one file and one entry of `ALL`. None of them asks for more threads than the program does: programs size arrays by
//! the number that they ask for.

mod all;
mod fixed;
mod oracle;
mod predict;
mod probe;
mod profile;

pub use profile::{Class, Measured, Profile, ProfileError};

use crate::{Decision, RegionGovernor, RegionSite, Shape, Waiting};

/// What a governor of regions is told besides its site.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The shape and the waiting of `fixed`; without it `fixed` changes nothing.
    pub fixed: Option<(Shape, Waiting)>,
    /// Measurements of an earlier run of the same program: `oracle` decides by nothing else, `predict` starts with them.
    pub profile: Profile,
}

/// What the registry says of a governor of regions.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The name that every command knows.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Whether it changes nothing without [`Settings::fixed`].
    pub needs_shape: bool,
    /// Whether it changes nothing without [`Settings::profile`].
    pub needs_profile: bool,
    /// Returns a governor that has seen nothing yet.
    pub make: fn(&RegionSite, &Settings) -> Box<dyn RegionGovernor>,
}

static ALL: &[Entry] = &[
    Entry {
        name: "all",
        summary: "the team that the program asks for",
        needs_shape: false,
        needs_profile: false,
        make: |site, _| unchanging(site),
    },
    Entry {
        name: "fixed",
        summary: "one given shape and waiting for all regions",
        needs_shape: true,
        needs_profile: false,
        make: |site, settings| Box::new(fixed::Fixed::new(site, settings)),
    },
    Entry {
        name: "oracle",
        summary: "for each region what was best in an earlier run",
        needs_shape: false,
        needs_profile: true,
        make: |site, settings| Box::new(oracle::Oracle::new(site, settings)),
    },
    Entry {
        name: "probe",
        summary: "measures each candidate a few times in each region, then keeps the best",
        needs_shape: false,
        needs_profile: false,
        make: |site, _| Box::new(probe::Probe::new(site)),
    },
    Entry {
        name: "predict",
        summary: "a model of each region fitted from few invocations; watches for changes; never much worse than all",
        needs_shape: false,
        needs_profile: false,
        make: |site, settings| Box::new(predict::Predict::new(site, settings)),
    },
];

/// Returns all governors of regions; the one that changes nothing first.
pub fn all() -> &'static [Entry] {
    ALL
}

/// No governor of regions has this name.
#[derive(Clone, PartialEq, Eq)]
pub struct UnknownRegionGovernor {
    /// The wrong name.
    pub name: String,
}

impl std::fmt::Debug for UnknownRegionGovernor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::fmt::Display for UnknownRegionGovernor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = ALL.iter().map(|entry| entry.name).collect();
        let (name, names) = (&self.name, names.join(", "));
        write!(
            f,
            "unknown governor of regions \"{name}\"; they are {names}"
        )
    }
}

impl std::error::Error for UnknownRegionGovernor {}

/// Returns the governor that changes nothing. Unlike [`find`], this brings no other governor into a program.
pub fn unchanging(site: &RegionSite) -> Box<dyn RegionGovernor> {
    Box::new(all::All::new(site))
}

/// Returns the governor of regions called `name`.
///
/// # Errors
/// If there is none; the error's text lists the registered names.
pub fn find(name: &str) -> Result<&'static Entry, UnknownRegionGovernor> {
    let found = ALL.iter().find(|entry| entry.name == name);
    found.ok_or_else(|| UnknownRegionGovernor {
        name: name.to_owned(),
    })
}

/// Returns the team that runs if nobody chooses: `asked` threads, spread over the cores.
fn usual(site: &RegionSite, asked: u32) -> Decision {
    let asked = asked.max(1);
    let cores = asked.min(u32::from(site.cores.max(1)));
    let shape = Shape {
        cores: cores as u16,
        threads_per_core: asked.div_ceil(cores).min(u32::from(u16::MAX)) as u16,
    };
    Decision {
        shape,
        threads: asked.min(shape.threads()),
        waiting: Waiting::AsIs,
    }
}

/// Returns the most threads that can run at once: as many as are asked for, as the machine has, and as the quota leaves.
fn most(site: &RegionSite, asked: u32) -> u32 {
    let quota = match site.quota.is_finite() {
        // A quota of 2 that arrives as 1.9999 is 2.
        true => (site.quota + 1e-6).max(1.0) as u32,
        false => u32::MAX,
    };
    asked.max(1).min(site.all().threads().max(1)).min(quota)
}

/// Returns the full team of `shape`, without the members beyond `most` threads.
fn team(shape: Shape, most: u32, waiting: Waiting) -> Decision {
    let threads = shape.threads().clamp(1, most.max(1));
    let cores = shape
        .cores
        .max(1)
        .min(threads.min(u32::from(u16::MAX)) as u16);
    Decision {
        shape: Shape {
            cores,
            threads_per_core: threads.div_ceil(u32::from(cores)) as u16,
        },
        threads,
        waiting,
    }
}

#[cfg(test)]
mod tests;
