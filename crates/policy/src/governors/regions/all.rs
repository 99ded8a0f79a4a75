//! `all`: the team that the program asks for.

use super::usual;
use crate::{Decision, Entry, Outcome, RegionGovernor, RegionId, RegionSite, Why};

/// Changes nothing: what every other governor of regions is compared with.
pub(super) struct All {
    site: RegionSite,
}

impl All {
    pub(super) fn new(site: &RegionSite) -> All {
        All { site: *site }
    }
}

impl RegionGovernor for All {
    fn enter(&mut self, entry: &Entry) -> Decision {
        usual(&self.site, entry.asked)
    }

    fn leave(&mut self, _outcome: &Outcome) {}

    fn why(&self, _region: RegionId) -> Why {
        Why {
            what: "what the program asks for",
            figures: Vec::new(),
        }
    }

    fn confidence(&self, _region: RegionId) -> f64 {
        1.0
    }
}
