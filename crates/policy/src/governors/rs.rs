//! `rs`, `ss` and `rs-ss`: fewer hardware threads, the order of creation, or both, while the cache is degraded.

use super::Detector;
use crate::{Governor, GovernorSite, Order, Period, Plan, Why};

/// The schedulers of paper 2. While the cache is degraded, the Reducing Scheduler (section 4.4.1) stops half of the hardware threads, the
/// Sorting Scheduler (section 4.4.2) sorts the queue by creation number, and both together (section 5) do both.
#[derive(Clone, Debug)]
pub(super) struct WhileDegraded {
    site: GovernorSite,
    detector: Detector,
    width: usize,
    order: Order,
}

impl WhileDegraded {
    pub(super) fn new(site: &GovernorSite, reduces: bool, sorts: bool) -> WhileDegraded {
        WhileDegraded {
            site: *site,
            detector: Detector::new(site.threads),
            width: match reduces {
                true => (site.threads / 2).max(1),
                false => site.threads,
            },
            order: match sorts {
                true => Order::ByNumber,
                false => Order::Fifo,
            },
        }
    }
}

impl Governor for WhileDegraded {
    fn plan(&mut self, period: &Period<'_>) -> Plan {
        let (width, order) = match self.detector.is_degraded(period) {
            true => (self.width, self.order),
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
