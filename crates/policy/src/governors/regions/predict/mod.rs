//! `predict`: a model of each region, fitted from few invocations.
//!
//! - *Situations.* What is learnt belongs to a region, the class of its number of iterations (known at the entry, or as the last
//!   invocation's), the threads that the program asks for, and the hardware threads that neighbours keep busy. So a neighbour that
//!   comes or goes is answered at the next invocation, and what was learnt before is still there when it has gone.
//! - *Trying.* All threads first. Then what the [`model`] expects to be better: for each number of threads on a core the fewest cores that
//!   do the loop in as many rounds. A team that does as many rounds with fewer siblings cannot be slower and is tried at once; any other
//!   one as long as the [`ledger`] affords what each of its invocations may lose at most, and of those at most a few. The same holds for
//!   the team that is held: if it is not surely better, all threads run in between, and more is known of both.
//! - *Comparing.* Means of few times, outliers limited, see [`arm`]; more times if two teams cannot be told apart.
//! - *Holding.* Until the times of the team change, four in a row, or until all threads have not been measured for long.
//! - *Silence.* While a team is held and its times are as they were, the engine is told so, and measures one invocation of a few.
//! - *Mixed regions.* A region that works now on much, now on little, and does not say on how much, is measured over many invocations.
//! - *Neighbours.* If a team of all threads would share hardware threads with neighbours, a team of as many threads as are left comes
//!   first, and one of all threads, whose members sleep while they wait, is tried beside it.

mod arm;
mod ledger;
mod model;
mod variant;

use ledger::Ledger;
use variant::{Key, SHUNNED, Switch, Variant};

use super::{Class, Profile, Settings, usual};
use crate::{Decision, Entry, Outcome, Passed, RegionGovernor, RegionId, RegionSite, Silence, Why};

/// The most situations that are kept of a region; in further ones nothing is decided.
const SITUATIONS: usize = 32;

/// By how much the neighbours' load must differ from the level that is assumed.
const HYSTERESIS: f64 = 0.65;

/// The weight of one more switch in the mean of their costs; of one more time without a switch, in what they are compared with; and of one
/// more invocation in what runs before a region.
const SWITCHES: f64 = 0.125;
const KEPT: f64 = 0.125;
const BEFORE: f64 = 0.0625;

/// See the module's documentation.
pub(super) struct Predict {
    site: RegionSite,
    profile: Profile,
    regions: Vec<Region>,
    /// The account of a quiet machine, and of one with more ready threads than hardware threads.
    ledgers: [Ledger; 2],
    /// Hardware threads that neighbours keep busy, rounded, with hysteresis.
    pressure: u32,
    /// The region that ran last, and the size of its team; 0: none.
    last: (RegionId, u32),
    /// What a switch to another size costs, beyond what an invocation takes that follows another region.
    switch: f64,
}

#[derive(Default)]
struct Region {
    variants: Vec<Variant>,
    /// The situation of the last invocation.
    current: Option<usize>,
    /// Iterations of the last invocation: those that are assumed if the engine does not know them at the entry.
    seen: Option<u64>,
    /// How often that was wrong.
    wrong: u32,
    before: Before,
}

/// What runs before a region. A region that runs often in a row on fewer threads switches seldom.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    /// The part of its invocations that follow another region's of the size of all threads, or of another size.
    all: f64,
    fewer: f64,
    /// The time with all threads behind another region with as many.
    kept: Option<f64>,
}

impl Predict {
    pub(super) fn new(site: &RegionSite, settings: &Settings) -> Predict {
        Predict {
            site: *site,
            profile: settings.profile.clone(),
            regions: Vec::new(),
            ledgers: Default::default(),
            pressure: 0,
            last: (RegionId(0), 0),
            switch: 0.0,
        }
    }

    /// Returns a situation of `region` that has not been met before.
    #[cold]
    fn variant(&self, region: RegionId, key: Key) -> Variant {
        let measured = (!self.profile.measured.is_empty()).then_some((&self.profile, region));
        let mut variant = Variant::new(&self.site, key, measured);
        let variants = self.regions.iter().flat_map(|region| &region.variants);
        let alike =
            variants.filter(|one| (one.key.asked, one.key.pressure) == (key.asked, key.pressure));
        let sharing: Vec<bool> = alike.filter_map(Variant::sharing).collect();
        if sharing.len() >= SHUNNED && !sharing.contains(&true) {
            variant.shun();
        }
        variant
    }

    fn region(&self, region: RegionId) -> Option<&Variant> {
        let region = self.regions.get(region.0 as usize)?;
        region.variants.get(region.current?)
    }
}

impl RegionGovernor for Predict {
    fn enter(&mut self, entry: &Entry) -> Decision {
        if let Some(load) = entry.neighbours
            && (load - f64::from(self.pressure)).abs() > HYSTERESIS
        {
            self.pressure = load.round().max(0.0) as u32;
        }
        // Further neighbours leave no less.
        let pressure = self.pressure.min(self.site.all().threads().max(2) - 1);
        let index = entry.region.0 as usize;
        if self.regions.len() <= index {
            self.regions.resize_with(index + 1, Region::default);
        }
        let region = &self.regions[index];
        // After some wrong guesses the iterations count as unknown.
        let assumed = region.seen.filter(|_| region.wrong < 4);
        let key = Key {
            class: Class::of(entry.iterations.or(assumed)),
            asked: entry.asked.max(1),
            pressure,
        };
        let is_key = |at: &usize| region.variants[*at].key == key;
        let found = region.current.filter(is_key);
        let mut found = found.or_else(|| (0..region.variants.len()).find(is_key));
        if found.is_none() && region.variants.len() < SITUATIONS {
            found = Some(region.variants.len());
            let variant = self.variant(entry.region, key);
            self.regions[index].variants.push(variant);
        }
        let region = &mut self.regions[index];
        region.current = found;
        match region.current {
            Some(at) => {
                let variant = &mut region.variants[at];
                variant.next(&self.ledgers[usize::from(variant.rough())])
            }
            None => usual(&self.site, entry.asked),
        }
    }

    fn leave(&mut self, outcome: &Outcome) {
        let Some(region) = self.regions.get_mut(outcome.region.0 as usize) else {
            return;
        };
        let size = outcome.decision.threads;
        let (last, threads) = std::mem::replace(&mut self.last, (outcome.region, size));
        let follows = threads != 0 && last != outcome.region;
        let class = Class::of(outcome.iterations);
        let seen = std::mem::replace(&mut region.seen, outcome.iterations);
        let Some(variant) = region.current.and_then(|at| region.variants.get_mut(at)) else {
            return;
        };
        if class.0.is_some() && class != variant.key.class {
            match variant.key.class.0 {
                // The first invocation, entered before the number was known.
                None if seen.is_none() => variant.key.class = class,
                None => {}
                Some(_) => {
                    region.wrong += 1;
                    return;
                }
            }
        }
        let time = outcome.time as f64;
        let before = &mut region.before;
        if follows {
            let all = f64::from(u8::from(threads == variant.most_threads()));
            before.all += (all - before.all) * BEFORE;
            before.fewer += (1.0 - all - before.fewer) * BEFORE;
        } else {
            before.all -= before.all * BEFORE;
            before.fewer -= before.fewer * BEFORE;
        }
        if let Some(usual) = variant.usual_time(outcome.decision) {
            if threads != 0 && threads != size {
                let usual = before.kept.filter(|_| follows).unwrap_or(usual);
                let cost = (time - usual).clamp(-usual, usual);
                self.switch += (cost - self.switch) * SWITCHES;
            } else if follows {
                let kept = before.kept.get_or_insert(time);
                // A slow moment says nothing of what is usual.
                *kept += (time.min(*kept * 2.0) - *kept) * KEPT;
            }
        }
        let switch = self.switch.max(0.0);
        let switch = Switch {
            to_fewer: switch * before.all,
            to_all: switch * before.fewer,
        };
        let rough = variant.rough();
        variant.learn(
            outcome.decision,
            time,
            switch,
            outcome.idle,
            &mut self.ledgers[usize::from(rough)],
        );
    }

    fn why(&self, region: RegionId) -> Why {
        self.region(region).map(Variant::why).unwrap_or_default()
    }

    fn confidence(&self, region: RegionId) -> f64 {
        self.region(region).map_or(0.0, Variant::confidence)
    }

    fn silence(&self, region: RegionId) -> Option<Silence> {
        self.region(region).and_then(Variant::silence)
    }

    fn passed(&mut self, passed: &Passed) {
        let Some(of) = self.regions.get_mut(passed.region.0 as usize) else {
            return;
        };
        let Some(variant) = of.current.and_then(|at| of.variants.get_mut(at)) else {
            return;
        };
        self.last = (passed.region, variant.pass(passed, &mut self.ledgers[0]));
    }

    fn reads_neighbours(&self) -> bool {
        true
    }
}
