//! `hold` and `hold-blind`: the number of hardware threads and the order with the most work per time, found by looking at parts of periods.
//!
//! Which width is best changes with what the threads do, often within a few periods. So `hold` looks at each eighth of a period, in
//! which the
//! threads that run go on ([`Order::Kept`]); a *turn* is eight such *windows*, and ends as a period of `fifo` does. Its rules:
//!
//! - *Widths.* A probe runs another width for two windows, with the threads that would have run in any case: of four out of eight first the
//!   one half, then the other. So both widths are measured on the same threads one after the other, and the queue is as before. A
//!   width that does [`Settings::margin`] more work per time becomes the one in use; it is compared with the one before after a turn, then
//!   two, four and so on. A width that lost is tried again after a turn, then two, four and so on, sooner in another phase.
//! - *Not worth a probe* is a width that could not win if each of its threads were as fast as the fastest seen so far, nor (with
//!   counters) a
//!   narrower one while fewer than [`Settings::misses`] of the accesses miss.
//! - *Phases.* Work per time that changes by half, threads that a barrier releases, and whether more threads wait than there are hardware
//!   threads: each of these two situations has a width of its own.
//! - *Order.* While more threads wait, turns in the order of the queue and turns in the order of creation alternate until a sequential test
//!   of the pairs' ratios is clear, or [`Settings::pairs`] have been seen. The better one is held for 32 turns, then 64, and so on.
//! - *Windows that belong to none* are those in which threads ran out.
//! - *Regret.* Work that lost probes cost, against the width in use, is kept below [`Settings::budget`] of the run and a tenth of what won
//!   probes have brought. So a short run hardly probes.

mod order;
#[cfg(test)]
mod tests;
mod widths;

use crate::{Governor, GovernorSite, Order, Period, Plan, Why};
use order::OrderTest;
use widths::Widths;

/// The numbers of the rules above.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// Whether it reads cache counters if there are some.
    pub(super) counters: bool,
    /// Windows of a turn.
    pub(super) parts: u64,
    /// Windows of a probe.
    pub(super) probe: u32,
    /// By which part a narrower width must be better to be chosen, and how much more for each unit of noise: the mean of the logarithms of
    /// the ratios of windows that follow each other.
    pub(super) margin: f64,
    pub(super) noise: f64,
    /// By which part a wider width must be better to be chosen.
    pub(super) margin_wider: f64,
    /// Misses per access below which no narrower width is tried.
    pub(super) misses: f64,
    /// A probe that could win by this factor does not wait for the end of a turn.
    pub(super) urgent: f64,
    /// The part of the run that lost probes may cost; twice as much if they were urgent.
    pub(super) budget: f64,
    /// By which part the order of creation must be better to be chosen.
    pub(super) order_margin: f64,
    /// Turns of one order before the other's.
    pub(super) block: u32,
    /// Pairs of blocks after which the order is chosen in any case.
    pub(super) pairs: u32,
    /// By which part two pairs must be worse for the order of creation to be given up.
    pub(super) reject: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            counters: true,
            parts: 8,
            probe: 2,
            margin: 0.04,
            noise: 2.0,
            margin_wider: 0.01,
            misses: 0.015,
            urgent: 1.6,
            budget: 0.004,
            order_margin: 0.01,
            block: 1,
            pairs: 16,
            reject: 0.04,
        }
    }
}

/// Work and time of some windows.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    work: u64,
    time: u64,
}

impl Sum {
    fn add(&mut self, work: u64, time: u64) {
        self.work += work;
        self.time += time;
    }

    fn rate(self) -> f64 {
        self.work as f64 / self.time.max(1) as f64
    }
}

/// A width that is being tried.
#[derive(Clone, Copy, Debug)]
struct Probe {
    width: usize,
    /// Windows to come.
    left: u32,
    sum: Sum,
    /// The rate that it has to beat.
    base: f64,
}

/// The part of a window that hardware threads may idle before it belongs to no width.
const RAGGED: f64 = 0.1;

/// A probe ends early below this part of the rate that it has to beat.
const HOPELESS: f64 = 0.6;

/// By which factor a probe could win as long as no narrow width was seen.
const UNKNOWN: f64 = 1.5;

/// By which factor all threads together could be faster than ever before.
const HEADROOM: f64 = 1.25;

/// By which factor the rate changes in another phase.
const PHASE: f64 = 1.5;

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    site: GovernorSite,
    settings: Settings,
    /// Length of a window.
    window: u64,
    now: u64,
    /// Windows of this turn so far.
    part: u64,
    /// What runs: the width of the plan, and how many threads there were for it.
    width: usize,
    ran: usize,
    /// Threads that waited at the last call.
    waited: usize,
    /// Whether more threads wait than there are hardware threads; it becomes so at half as many more.
    many: bool,
    /// For few and for many waiting threads.
    widths: [Widths; 2],
    probe: Option<Probe>,
    /// Windows of this turn that belong to the width in use.
    base: Sum,
    order: OrderTest,
    /// Whether this turn is in the order of creation.
    sorted: bool,
    /// Misses per access of the last window; `None` without counters.
    misses: Option<f64>,
    /// The fastest that one thread was on average while at most half of the hardware threads ran (0 before), and all together.
    solo: f64,
    most: f64,
    /// Time that lost probes cost, and that won ones have brought.
    regret: f64,
    gain: f64,
    why: Why,
}

impl Hold {
    pub(super) fn new(site: &GovernorSite, settings: Settings) -> Hold {
        let widths = Widths::new(site.threads);
        Hold {
            site: *site,
            settings,
            window: (site.period / settings.parts).max(1),
            now: 0,
            part: 0,
            width: site.threads,
            ran: 0,
            waited: 0,
            many: false,
            widths: [widths.clone(), widths],
            probe: None,
            base: Sum::default(),
            order: OrderTest::default(),
            sorted: false,
            misses: None,
            solo: 0.0,
            most: 0.0,
            regret: 0.0,
            gain: 0.0,
            why: Why::default(),
        }
    }

    fn say(&mut self, what: &'static str, figures: &[(&'static str, f64)]) {
        self.why = Why {
            what,
            figures: figures.to_vec(),
        };
    }

    /// Takes the window that has ended into account.
    fn measure(&mut self, period: &Period<'_>) {
        if self.ran == 0 {
            // Before the first call it is not known what ran.
            return;
        }
        let (work, time) = (period.work(), period.time.max(1));
        let rate = work as f64 / time as f64;
        if self.settings.counters {
            self.misses = period.cache().map(|cache| cache.rate());
        }
        let active = &period.threads[..self.ran.min(period.threads.len())];
        let idle: u64 = active.iter().map(|thread| thread.idle).sum();
        let ragged = idle as f64 > RAGGED * time as f64 * self.ran as f64;
        if ragged {
            self.base = Sum::default();
            if let Some(probe) = self.probe.take() {
                let width = probe.width as f64;
                self.say("probe without result, threads ran out", &[("width", width)]);
            }
            return;
        }
        if self.ran * 2 <= self.site.threads {
            self.solo = self.solo.max(rate / self.ran as f64);
        }
        self.most = self.most.max(rate);
        if let Some(probe) = &mut self.probe {
            probe.sum.add(work, time);
            probe.left -= 1;
            if probe.left == 0 || probe.sum.rate() < HOPELESS * probe.base {
                self.judge();
            }
            return;
        }
        self.base.add(work, time);
        if self.many {
            self.order.add(self.sorted, work, time);
        }
        let widths = &mut self.widths[usize::from(self.many)];
        self.gain += widths.gained() * time as f64;
        if widths.is_another_phase(rate) {
            self.base = Sum { work, time };
            self.say("another phase", &[("work per time", rate)]);
        }
    }

    /// Ends the probe.
    fn judge(&mut self) {
        let Some(probe) = self.probe.take() else {
            return;
        };
        let widths = &mut self.widths[usize::from(self.many)];
        let before = widths.used(self.waited);
        let rate = probe.sum.rate();
        let ratio = rate / probe.base;
        let won = widths.is_better(probe.width, before, ratio, &self.settings);
        let what = if won {
            widths.won(probe.width, before, ratio, self.now, self.site.period);
            self.base = Sum::default();
            "probe won"
        } else {
            widths.lost(probe.width, before, self.now, self.site.period);
            self.regret += (1.0 - ratio).max(0.0) * probe.sum.time as f64;
            "probe lost"
        };
        let figures = [
            ("width", probe.width as f64),
            ("work per time", rate),
            ("before width", before as f64),
            ("work per time", probe.base),
        ];
        self.say(what, &figures);
    }

    /// Returns the width to probe now, if any, and by which factor it could be better.
    fn candidate(&self) -> Option<(usize, f64)> {
        if self.base.time == 0 || self.part >= self.settings.parts {
            return None;
        }
        let base = self.base.rate();
        let widths = &self.widths[usize::from(self.many)];
        let used = widths.used(self.waited);
        let few_misses = self.misses.is_some_and(|rate| rate < self.settings.misses);
        let worth = |&width: &usize| {
            let could = match self.solo {
                0.0 => UNKNOWN,
                solo => (width as f64 * solo).min(self.most * HEADROOM) / base,
            };
            let worth = widths.is_worth(width, used, could, &self.settings);
            (worth && !(few_misses && width < used)).then_some((width, could))
        };
        let due = widths.due(self.waited, self.now);
        let (width, could) = due.iter().find_map(worth)?;
        let urgent = could > self.settings.urgent;
        let part = self.settings.budget * if urgent { 2.0 } else { 1.0 };
        let allowed = part * self.now as f64 + 0.1 * self.gain + self.window as f64;
        let last = self.part + u64::from(self.settings.probe) >= self.settings.parts;
        ((urgent || last) && self.regret < allowed).then_some((width, could))
    }

    /// Returns the order of the next turn.
    fn turn(&mut self) -> Order {
        self.part = 0;
        self.base = Sum::default();
        let was = self.sorted;
        if self.many {
            let (settings, turn) = (self.settings, self.site.period);
            if let Some(result) = self.order.turn(&settings, self.now, turn, self.window * 4) {
                self.regret += result.regret;
                self.why = result.why;
            }
        }
        self.sorted = self.order.is_sorted(self.many);
        match (self.sorted, was) {
            (true, _) => Order::ByNumber,
            (false, true) => Order::Restored,
            (false, false) => Order::Fifo,
        }
    }
}

impl Governor for Hold {
    fn plan(&mut self, period: &Period<'_>) -> Plan {
        self.now += period.time;
        self.why = Why::default();
        let probed = self.probe.is_some();
        self.measure(period);
        let (waiting, before) = (period.waiting, self.waited);
        self.waited = waiting;
        // Between the two, what was goes on, so that the situation does not change with every thread that blocks.
        let threads = self.site.threads;
        let many = waiting > threads && (self.many || waiting > threads + threads / 2);
        if many != self.many {
            self.many = many;
            self.probe = None;
            self.base = Sum::default();
        }
        let widths = &mut self.widths[usize::from(many)];
        if waiting >= before + self.site.threads.div_ceil(2) {
            widths.released(self.now, self.site.period);
        }
        self.width = widths.width();
        let order = if let Some(probe) = self.probe {
            // The other threads of the turn; of a wider one the same again.
            self.width = probe.width;
            let narrower = probe.width < self.widths[usize::from(many)].used(waiting);
            if narrower { Order::Fifo } else { Order::Kept }
        } else {
            self.part = if probed {
                self.settings.parts
            } else {
                self.part + 1
            };
            if let Some((width, could)) = self.candidate() {
                let base = self.base.rate();
                self.probe = Some(Probe {
                    width,
                    left: self.settings.probe,
                    sum: Sum::default(),
                    base,
                });
                let figures = [
                    ("width", width as f64),
                    ("work per time now", base),
                    ("could be times as much", could),
                ];
                self.say("probing", &figures);
                self.width = width;
                Order::Kept
            } else if self.part >= self.settings.parts {
                self.turn()
            } else {
                Order::Kept
            }
        };
        self.ran = self.width.min(waiting).max(1);
        if self.why.what.is_empty() {
            self.say("holding", &[("width", self.width as f64)]);
        }
        Plan {
            width: self.width,
            order,
            next_call: self.window,
        }
    }

    fn why(&self) -> Why {
        self.why.clone()
    }
}
