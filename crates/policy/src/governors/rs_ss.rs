//! `rs-ss`: the two together.

use super::Detector;
use crate::{Governor, GovernorSite, Order, Period, Plan, Why};

/// Both schedulers of paper 2 (section 5): half of the hardware threads run, and the queue is sorted, while the cache is degraded.
#[derive(Clone, Debug)]
pub(super) struct ReducingSorting {
    site: GovernorSite,
    detector: Detector,
}

impl ReducingSorting {
    pub(super) fn new(site: &GovernorSite) -> ReducingSorting {
        ReducingSorting {
            site: *site,
            detector: Detector::new(site.threads),
        }
    }
}

impl Governor for ReducingSorting {
    fn plan(&mut self, period: &Period<'_>) -> Plan {
        let (width, order) = match self.detector.is_degraded(period) {
            true => ((self.site.threads / 2).max(1), Order::ByNumber),
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
