//! `probe`: measures each candidate a few times in each region, then keeps the best.

use super::{most, team};
use crate::{Decision, Entry, Outcome, RegionGovernor, RegionId, RegionSite, Shape, Waiting, Why};

/// Invocations with each candidate.
const TIMES: u32 = 3;

/// On a machine with more hardware threads than this the candidates are a coarse grid.
const EACH: u32 = 16;

/// The best-known practice of paper 4's time: measure, then decide for good. It knows no iterations and no neighbours, and what its
/// measuring costs is not bounded.
pub(super) struct Probe {
    site: RegionSite,
    regions: Vec<State>,
}

#[derive(Default)]
struct State {
    candidates: Vec<(Decision, f64)>,
    /// Invocations measured so far.
    done: u32,
    best: usize,
}

impl State {
    fn current(&self) -> usize {
        match ((self.done / TIMES) as usize) < self.candidates.len() {
            true => (self.done / TIMES) as usize,
            false => self.best,
        }
    }

    fn measuring(&self) -> bool {
        ((self.done / TIMES) as usize) < self.candidates.len()
    }
}

/// Returns the teams that are tried, the largest first.
fn candidates(site: &RegionSite, asked: u32) -> Vec<Decision> {
    let most = most(site, asked);
    let cores: Vec<u16> = match site.all().threads() <= EACH {
        true => (1..=site.cores).rev().collect(),
        // Ten steps, as the steps between the cores of the paper's figure 1.
        false => (1..=10)
            .rev()
            .map(|tenth| (u32::from(site.cores) * tenth / 10).max(1) as u16)
            .collect(),
    };
    let mut found: Vec<Decision> = Vec::new();
    for threads_per_core in (1..=site.threads_per_core).rev() {
        for &cores in &cores {
            let shape = Shape {
                cores,
                threads_per_core,
            };
            let decision = team(shape, most, Waiting::AsIs);
            if !found.contains(&decision) {
                found.push(decision);
            }
        }
    }
    found
}

impl Probe {
    pub(super) fn new(site: &RegionSite) -> Probe {
        Probe {
            site: *site,
            regions: Vec::new(),
        }
    }
}

impl RegionGovernor for Probe {
    fn enter(&mut self, entry: &Entry) -> Decision {
        let index = entry.region.0 as usize;
        if self.regions.len() <= index {
            self.regions.resize_with(index + 1, State::default);
        }
        let state = &mut self.regions[index];
        if state.candidates.is_empty() {
            let all = candidates(&self.site, entry.asked).into_iter();
            state.candidates = all.map(|decision| (decision, 0.0)).collect();
        }
        let decision = state.candidates[state.current()].0;
        // The program may ask for fewer threads than before.
        team(
            decision.shape,
            most(&self.site, entry.asked),
            decision.waiting,
        )
    }

    fn leave(&mut self, outcome: &Outcome) {
        let Some(state) = self.regions.get_mut(outcome.region.0 as usize) else {
            return;
        };
        if !state.measuring() {
            return;
        }
        let current = state.current();
        state.candidates[current].1 += outcome.time as f64;
        state.done += 1;
        if !state.measuring() {
            let sums = state.candidates.iter().map(|&(_, sum)| sum).enumerate();
            let best = sums.min_by(|a, b| a.1.total_cmp(&b.1));
            state.best = best.map_or(0, |(index, _)| index);
        }
    }

    fn why(&self, region: RegionId) -> Why {
        match self.regions.get(region.0 as usize) {
            None => Why::default(),
            Some(state) => Why {
                what: match state.measuring() {
                    true => "measuring each candidate",
                    false => "the best of all candidates",
                },
                figures: vec![
                    ("candidates", state.candidates.len() as f64),
                    ("measured", f64::from(state.done)),
                ],
            },
        }
    }

    fn confidence(&self, region: RegionId) -> f64 {
        match self.regions.get(region.0 as usize) {
            Some(state) if !state.measuring() => 1.0,
            _ => 0.0,
        }
    }
}
