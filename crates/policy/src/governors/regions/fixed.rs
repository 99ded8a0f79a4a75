//! `fixed`: one given shape and waiting for all regions.

use super::{Settings, team, usual};
use crate::{Decision, Entry, Outcome, RegionGovernor, RegionId, RegionSite, Shape, Waiting, Why};

/// A static choice, as of a person who has measured.
pub(super) struct Fixed {
    site: RegionSite,
    chosen: Option<(Shape, Waiting)>,
}

impl Fixed {
    pub(super) fn new(site: &RegionSite, settings: &Settings) -> Fixed {
        Fixed {
            site: *site,
            chosen: settings.fixed,
        }
    }
}

impl RegionGovernor for Fixed {
    fn enter(&mut self, entry: &Entry) -> Decision {
        match self.chosen {
            Some((shape, waiting)) => team(shape, entry.asked, waiting),
            None => usual(&self.site, entry.asked),
        }
    }

    fn leave(&mut self, _outcome: &Outcome) {}

    fn why(&self, _region: RegionId) -> Why {
        let threads = self.chosen.map(|(shape, _)| f64::from(shape.threads()));
        Why {
            what: "a fixed shape",
            figures: threads
                .map(|threads| ("threads", threads))
                .into_iter()
                .collect(),
        }
    }

    fn confidence(&self, _region: RegionId) -> f64 {
        1.0
    }
}
