//! `ss`: threads in the order of creation while the cache is degraded.

use super::Detector;
use crate::{Governor, GovernorSite, Order, Period, Plan, Why};

/// The Sorting Scheduler of paper 2 (section 4.4.2): the queue is sorted by creation number while the cache is degraded.
#[derive(Clone, Debug)]
pub(super) struct Sorting {
    site: GovernorSite,
    detector: Detector,
}

impl Sorting {
    pub(super) fn new(site: &GovernorSite) -> Sorting {
        Sorting {
            site: *site,
            detector: Detector::new(site.threads),
        }
    }
}

impl Governor for Sorting {
    fn plan(&mut self, period: &Period<'_>) -> Plan {
        let (width, order) = match self.detector.is_degraded(period) {
            true => (self.site.threads, Order::ByNumber),
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
