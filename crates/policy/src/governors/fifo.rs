//! `fifo`: changes nothing.

use crate::{Governor, GovernorSite, Order, Period, Plan, Why};

/// All hardware threads run, and the longest waiting thread is taken first: what the paper calls FIFO (section 4.4).
#[derive(Clone, Debug)]
pub(super) struct Fifo {
    site: GovernorSite,
    waiting: usize,
}

impl Fifo {
    pub(super) fn new(site: &GovernorSite) -> Fifo {
        Fifo {
            site: *site,
            waiting: 0,
        }
    }
}

impl Governor for Fifo {
    fn plan(&mut self, period: &Period<'_>) -> Plan {
        self.waiting = period.waiting;
        Plan {
            width: self.site.threads,
            order: Order::Fifo,
            next_call: self.site.period,
        }
    }

    fn why(&self) -> Why {
        Why {
            what: "always",
            figures: vec![("waiting", self.waiting as f64)],
        }
    }

    fn reads_counters(&self) -> bool {
        false
    }
}
