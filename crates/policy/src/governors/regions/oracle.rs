//! `oracle`: for each region what was best in an earlier run.

use super::{Class, Profile, Settings, usual};
use crate::{Decision, Entry, Outcome, RegionGovernor, RegionId, RegionSite, Why};

/// Paper 4's assumption: the best shape of every region is known.
pub(super) struct Oracle {
    site: RegionSite,
    profile: Profile,
}

impl Oracle {
    pub(super) fn new(site: &RegionSite, settings: &Settings) -> Oracle {
        Oracle {
            site: *site,
            profile: settings.profile.clone(),
        }
    }
}

impl RegionGovernor for Oracle {
    fn enter(&mut self, entry: &Entry) -> Decision {
        let best = self.profile.best(entry.region, Class::of(entry.iterations));
        match best {
            Some(best) if best.decision.threads <= entry.asked.max(1) => best.decision,
            _ => usual(&self.site, entry.asked),
        }
    }

    fn leave(&mut self, _outcome: &Outcome) {}

    fn why(&self, region: RegionId) -> Why {
        let shapes = self.profile.of(region).count();
        Why {
            what: match shapes {
                0 => "not in the profile",
                _ => "the best in the profile",
            },
            figures: vec![("measured", shapes as f64)],
        }
    }

    fn confidence(&self, region: RegionId) -> f64 {
        match self.profile.of(region).next() {
            Some(_) => 1.0,
            None => 0.0,
        }
    }
}
