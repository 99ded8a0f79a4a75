//! What is simulated: schemes, programs, places of pages and numbers of cores.

use super::published::CORES;
use super::simulating::{Found, Pages, Program, Source};
use std::collections::BTreeMap;
use tanada_policy::forks;

/// What a thief sees of depths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hint {
    Fresh,
    Stale,
    Garbage,
}

impl Hint {
    pub(super) fn name(self) -> &'static str {
        match self {
            Hint::Fresh => "fresh",
            Hint::Stale => "stale",
            Hint::Garbage => "garbage",
        }
    }
}

/// How forks are scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scheme {
    /// All forks, random stealing.
    Original,
    /// One closure a core, random stealing.
    Cutoff,
    /// A core's share by itself.
    Ideal,
    /// All forks, the shallowest of so many random victims.
    DepthAware(u16, Hint),
    /// All forks, under a registered policy that the paper does not have.
    Beside(&'static str),
}

impl Scheme {
    pub(super) fn policy(self) -> &'static str {
        match self {
            Scheme::Original | Scheme::Cutoff | Scheme::Ideal => "random",
            Scheme::DepthAware(2, _) => "shallowest-of-2",
            Scheme::DepthAware(4, _) => "shallowest-of-4",
            Scheme::DepthAware(..) => "shallowest-of-8",
            Scheme::Beside(policy) => policy,
        }
    }

    pub(super) fn name(self) -> String {
        match self {
            Scheme::Original => "Original".to_owned(),
            Scheme::Cutoff => "Cutoff".to_owned(),
            Scheme::Ideal => "Ideal".to_owned(),
            Scheme::DepthAware(k, hint) => format!("shallowest of {k}, {}", hint.name()),
            Scheme::Beside(policy) => policy.to_owned(),
        }
    }
}

/// A machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Chip {
    /// That of the paper.
    Opteron,
    /// Two sockets of today, 128 cores.
    Epyc2,
}

/// One simulation but for its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Case {
    pub(super) scheme: Scheme,
    pub(super) program: Program,
    /// Iterations over the same data.
    pub(super) iterations: u32,
    pub(super) pages: Pages,
    pub(super) cores: u16,
    pub(super) chip: Chip,
}

impl Case {
    /// Returns what is recorded for the case.
    pub(super) fn source(self) -> Source {
        let (program, tasks) = match self.scheme {
            Scheme::Ideal => (Program::Share(self.cores), 0),
            Scheme::Cutoff => (self.program, u32::from(self.cores)),
            _ => (self.program, 0),
        };
        Source {
            program,
            iterations: self.iterations,
            tasks,
        }
    }

    /// Returns the number of cores of the machine.
    pub(super) fn machine_cores(self) -> u16 {
        match self.scheme {
            Scheme::Ideal => 1,
            _ => self.cores,
        }
    }
}

/// Iterations over the same data of a run that repeats.
pub(super) const REPEATED: u32 = 4;

/// Candidates of the depth-aware policy.
pub(super) const CANDIDATES: [u16; 3] = [2, 4, 8];

/// Fork policies that are simulated beside those of the paper, if they are registered.
const BESIDE: [&str; 1] = ["adws"];

/// Returns those of [`BESIDE`] that are there.
pub(super) fn beside() -> Vec<&'static str> {
    let known = |name: &&str| forks::all().iter().any(|entry| entry.name == *name);
    BESIDE.into_iter().filter(known).collect()
}

/// Returns the numbers of cores of the curves.
pub(super) fn axis(quick: bool) -> &'static [u16] {
    match quick {
        true => &[8, 16, 20, 32],
        false => &[1, 2, 4, 8, 12, 16, 20, 24, 28, 32],
    }
}

/// Returns all cases; those on the machine of today if they are wanted.
pub(super) fn cases(quick: bool, with_today: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |scheme, program, iterations, pages, cores| {
        cases.push(Case {
            scheme,
            program,
            iterations,
            pages,
            cores,
            chip: Chip::Opteron,
        });
    };
    let cold = [Pages::OneSocket, Pages::Interleaved];
    let beside: Vec<Scheme> = beside().into_iter().map(Scheme::Beside).collect();
    let depth_aware = |hint| CANDIDATES.map(|k| Scheme::DepthAware(k, hint));
    for &cores in axis(quick) {
        for pages in cold {
            add(Scheme::Original, Program::Dense, 1, pages, cores);
            add(Scheme::Cutoff, Program::Dense, 1, pages, cores);
        }
        if cores.is_power_of_two() {
            add(Scheme::Ideal, Program::Dense, 1, Pages::OneSocket, cores);
        }
        for &scheme in &beside {
            add(scheme, Program::Dense, 1, Pages::OneSocket, cores);
        }
        if matches!(cores, 8 | 16 | 24 | CORES) {
            for scheme in [Hint::Fresh, Hint::Stale].into_iter().flat_map(depth_aware) {
                add(scheme, Program::Dense, 1, Pages::OneSocket, cores);
            }
        }
    }
    for scheme in depth_aware(Hint::Garbage) {
        add(scheme, Program::Dense, 1, Pages::OneSocket, CORES);
    }
    for scheme in depth_aware(Hint::Fresh).into_iter().chain(beside.clone()) {
        add(scheme, Program::Dense, 1, Pages::Interleaved, CORES);
    }
    let mut schemes = vec![Scheme::Original, Scheme::Cutoff];
    schemes.extend(beside);
    let fresh = depth_aware(Hint::Fresh);
    let stale = depth_aware(Hint::Stale);
    for program in [Program::Dense, Program::Sparse, Program::Irregular] {
        // Of the others the one with most candidates stands for all.
        let aware = match program {
            Program::Dense => &fresh[..],
            _ => &fresh[2..],
        };
        for &scheme in schemes.iter().chain(aware) {
            add(scheme, program, REPEATED, Pages::OneSocket, CORES);
        }
    }
    for &scheme in &stale {
        add(scheme, Program::Dense, REPEATED, Pages::OneSocket, CORES);
    }
    for program in [Program::Dense, Program::Sparse, Program::Irregular] {
        for &scheme in &schemes {
            add(scheme, program, REPEATED, Pages::Interleaved, CORES);
        }
    }
    if with_today {
        let programs = [Program::Dense, Program::Irregular].into_iter();
        cases.extend(programs.flat_map(|program| {
            today()
                .into_iter()
                .map(move |scheme| on_epyc2(scheme, program))
        }));
    }
    cases
}

/// Returns the schemes that are simulated on the machine of today.
pub(super) fn today() -> Vec<Scheme> {
    let mut schemes = vec![
        Scheme::Original,
        Scheme::Cutoff,
        Scheme::Beside("near-first"),
    ];
    schemes.extend(beside().into_iter().map(Scheme::Beside));
    schemes
}

/// Returns the case of repeated iterations on the machine of today. It has one seed.
pub(super) fn on_epyc2(scheme: Scheme, program: Program) -> Case {
    Case {
        cores: 128,
        chip: Chip::Epyc2,
        ..repeated(scheme, program, Pages::OneSocket)
    }
}

/// What was found, by case; one of each seed.
#[derive(Clone, Debug, Default)]
pub(super) struct Results(pub(super) BTreeMap<Case, Vec<Found>>);

impl Results {
    fn mean(&self, case: Case, value: impl Fn(&Found) -> f64) -> Option<f64> {
        let found = self.0.get(&case)?;
        Some(found.iter().map(value).sum::<f64>() / found.len().max(1) as f64)
    }

    /// Returns the mean cycles of the first iteration.
    pub(super) fn cold(&self, case: Case) -> Option<f64> {
        self.mean(case, |found| {
            found.iterations.first().copied().unwrap_or(0) as f64
        })
    }

    /// Returns the mean cycles of an iteration behind the first one.
    pub(super) fn warm(&self, case: Case) -> Option<f64> {
        self.mean(case, |found| {
            let later = found.iterations.get(1..).unwrap_or_default();
            later.iter().sum::<u64>() as f64 / later.len().max(1) as f64
        })
    }

    /// Returns the mean number of steals, of an iteration.
    pub(super) fn steals(&self, case: Case) -> Option<f64> {
        let each = f64::from(case.iterations);
        self.mean(case, |found| {
            found.steals.values().sum::<u64>() as f64 / each
        })
    }

    /// Returns the mean number of steals of an iteration at each depth.
    pub(super) fn by_depth(&self, case: Case) -> Vec<f64> {
        let found = self.0.get(&case).map_or(&[][..], Vec::as_slice);
        let deepest = found.iter().flat_map(|one| one.steals.keys()).max();
        let of = |depth| {
            let all = found.iter().filter_map(|one| one.steals.get(&depth));
            all.sum::<u64>() as f64 / (found.len() as f64 * f64::from(case.iterations))
        };
        (0..=deepest.copied().unwrap_or(0)).map(of).collect()
    }

    /// Returns the mean part of leaves that came back to their core.
    pub(super) fn returned(&self, case: Case) -> Option<f64> {
        self.mean(case, |found| found.returned)
    }

    /// Returns mean lines from memory, those from other sockets, and how long the busiest memory was busy.
    pub(super) fn memory(&self, case: Case) -> Option<[f64; 3]> {
        Some([
            self.mean(case, |found| found.fills as f64)?,
            self.mean(case, |found| found.remote as f64)?,
            self.mean(case, |found| found.busy)?,
        ])
    }
}

/// Returns the case of a single multiplication of dense matrices on the paper's machine.
pub(super) fn single(scheme: Scheme, pages: Pages, cores: u16) -> Case {
    Case {
        scheme,
        program: Program::Dense,
        iterations: 1,
        pages,
        cores,
        chip: Chip::Opteron,
    }
}

/// Returns the case of repeated iterations on all cores.
pub(super) fn repeated(scheme: Scheme, program: Program, pages: Pages) -> Case {
    Case {
        scheme,
        program,
        iterations: REPEATED,
        pages,
        cores: CORES,
        chip: Chip::Opteron,
    }
}
