//! `rs`: fewer hardware threads while the cache is degraded.

use super::Detector;
use crate::{Governor, GovernorSite, Order, Period, Plan, Why};

/// The Reducing Scheduler of paper 2 (section 4.4.1): half of the hardware threads stop while the cache is degraded.
#[derive(Clone, Debug)]
pub(super) struct Reducing {
    site: GovernorSite,
    detector: Detector,
}

impl Reducing {
    pub(super) fn new(site: &GovernorSite) -> Reducing {
        Reducing {
            site: *site,
            detector: Detector::new(site.threads),
        }
    }
}

impl Governor for Reducing {
    fn plan(&mut self, period: &Period<'_>) -> Plan {
        let (width, order) = match self.detector.is_degraded(period) {
            true => ((self.site.threads / 2).max(1), Order::Fifo),
            false => (self.site.threads, Order::Fifo),
        };
        Plan {
            width,
            order,
            next_call: self.site.period,
        }
    }

    fn why(&self) -> Why {
        self.detector.why()
    }
}
