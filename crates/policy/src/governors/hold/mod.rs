//! `hold` and `hold-blind`: which threads run together, and on how many hardware threads, found by looking at small parts of periods.

#[cfg(test)]
mod tests;
mod widths;

use crate::{Governor, GovernorSite, Order, Period, Plan, Why};
use widths::{Verdict, Widths};

/// The numbers of the rules above.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// Whether it reads cache counters if there are some.
    pub(super) counters: bool,
    /// Windows of a period.
    pub(super) parts: u64,
    /// Periods after which the threads that run make room for others in any case.
    pub(super) turn: u64,
    /// Half of the threads are exchanged if a window's rate is below this part of the usual one.
    pub(super) low: f64,
    /// The part of a window in the usual rate.
    pub(super) fading: f64,
    /// Windows of a probe.
    pub(super) probe: u32,
    pub(super) settle: u32,
    /// By which factor a narrower width must be better to be chosen, and a wider one.
    pub(super) margin: f64,
    pub(super) margin_wider: f64,
    /// How many times their standard error probes together must be better by, unless one is better by the factor `large`.
    pub(super) clear: f64,
    pub(super) large: f64,
    /// Misses per access below which no narrower width is probed.
    pub(super) misses: f64,
    /// Windows to the next probe of a width that lost, which double so often at most.
    pub(super) pause: u64,
    pub(super) doublings: u32,
    pub(super) doublings_wider: u32,
    pub(super) solo_fading: f64,
    pub(super) optimism: f64,
    pub(super) parting: u32,
    /// The part of the run that lost probes may cost.
    pub(super) budget: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            counters: true,
            parts: 64,
            turn: 1,
            low: 0.7,
            fading: 0.2,
            probe: 1,
            settle: 1,
            margin: 1.04,
            margin_wider: 1.01,
            clear: 1.2,
            large: 1.5,
            misses: 0.015,
            pause: 8,
            doublings: 6,
            doublings_wider: 3,
            solo_fading: 0.1,
            optimism: 1.0,
            parting: 0,
            budget: 0.0025,
        }
    }
}

/// Work and time of some windows.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    work: f64,
    time: f64,
}

impl Sum {
    fn add(&mut self, work: f64, time: f64) {
        self.work += work;
        self.time += time;
    }

    fn rate(self) -> f64 {
        self.work / self.time.max(1.0)
    }
}

/// Rates of a probe, and of the width in use before and after it.
#[derive(Clone, Copy, Debug)]
struct Pair {
    probed: f64,
    used: f64,
}

/// A width that is being probed, and then the width in use again.
#[derive(Clone, Copy, Debug)]
struct Probe {
    width: usize,
    /// Windows to come, of the probe and behind it.
    left: u32,
    behind: u32,
    sum: Sum,
    /// The width in use, before and behind.
    before: Sum,
    after: Sum,
}

/// The part of a window that hardware threads may idle before it belongs to no width.
const RAGGED: f64 = 0.1;

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
    /// When the turn ends.
    turn_ends: u64,
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
    /// The last windows of these threads at the width in use, older ones count less; how many.
    base: Sum,
    bases: u32,
    /// The usual rate; 0 before the first window.
    level: f64,
    /// The usual rate when this phase began.
    phase: f64,
    /// Whether the last call was there only to take half of the threads off.
    exchanging: bool,
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
            turn_ends: site.period * settings.turn,
            width: site.threads,
            ran: 0,
            waited: 0,
            many: false,
            widths: [widths.clone(), widths],
            probe: None,
            base: Sum::default(),
            bases: 0,
            level: 0.0,
            phase: 0.0,
            exchanging: false,
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

    /// Forgets the windows of the threads that ran.
    fn forget(&mut self) {
        self.base = Sum::default();
        self.bases = 0;
    }

    /// Takes the window that has ended into account. Returns whether its rate is low.
    fn measure(&mut self, period: &Period<'_>) -> bool {
        if self.ran == 0 {
            // Before the first call it is not known what ran.
            return false;
        }
        let (work, time) = (period.work() as f64, period.time.max(1) as f64);
        let rate = work / time;
        if self.settings.counters {
            self.misses = period.cache().map(|cache| cache.rate());
        }
        let active = &period.threads[..self.ran.min(period.threads.len())];
        let idle: u64 = active.iter().map(|thread| thread.idle).sum();
        if idle as f64 > RAGGED * time * self.ran as f64 {
            self.forget();
            if let Some(probe) = self.probe.take() {
                self.widths[usize::from(self.many)].put_off(
                    probe.width,
                    self.now,
                    &self.settings,
                    self.window,
                );
                let width = probe.width as f64;
                self.say("probe without result, threads ran out", &[("width", width)]);
            }
            return false;
        }
        if self.ran * 2 <= self.site.threads {
            let one = rate / self.ran as f64;
            self.solo = one.max(self.solo - (self.solo - one) * self.settings.solo_fading);
        }
        self.most = self.most.max(rate);
        if let Some(probe) = &mut self.probe {
            if probe.left > 0 {
                if probe.left <= self.settings.probe {
                    probe.sum.add(work, time);
                }
                probe.left -= 1;
                return false;
            }
            if probe.behind <= self.settings.probe {
                probe.after.add(work, time);
            }
            probe.behind -= 1;
            if probe.behind == 0 {
                self.judge();
            }
            return false;
        }
        self.base.work *= 0.5;
        self.base.time *= 0.5;
        self.base.add(work, time);
        self.bases += 1;
        let widths = &mut self.widths[usize::from(self.many)];
        self.gain += widths.gained() * time;
        let level = self.level;
        if level == 0.0 {
            (self.level, self.phase) = (rate, rate);
            return false;
        }
        self.level += (rate - level) * self.settings.fading;
        let phase = self.phase;
        if self.level > phase * PHASE || self.level * PHASE < phase {
            widths.changed(self.now, &self.settings, self.window);
            self.phase = self.level;
            self.solo *= self.settings.optimism;
            self.say(
                "another phase",
                &[("work per time", rate), ("usual", phase)],
            );
        }
        rate < level * self.settings.low
    }

    /// Ends the probe.
    fn judge(&mut self) {
        let Some(probe) = self.probe.take() else {
            return;
        };
        let widths = &mut self.widths[usize::from(self.many)];
        let used = widths.used(self.waited);
        let pair = Pair {
            probed: probe.sum.rate(),
            used: (probe.before.rate() + probe.after.rate()) / 2.0,
        };
        let verdict = widths.judge(
            probe.width,
            used,
            pair,
            self.now,
            &self.settings,
            self.window,
        );
        let what = match verdict {
            Verdict::Won => {
                (self.level, self.phase) = (pair.probed, pair.probed);
                "probe won"
            }
            Verdict::Lost => "probe lost",
            Verdict::Unclear => "probe unclear",
        };
        if verdict != Verdict::Won && pair.used > 0.0 {
            self.regret += (1.0 - pair.probed / pair.used).max(0.0) * probe.sum.time;
        }
        self.forget();
        let figures = [
            ("width", probe.width as f64),
            ("work per time", pair.probed),
            ("in use width", used as f64),
            ("work per time", pair.used),
        ];
        self.say(what, &figures);
    }

    /// Returns the width to probe now, if any, and by which factor it could be better.
    fn candidate(&self) -> Option<(usize, f64)> {
        if self.bases < self.settings.probe || self.base.work == 0.0 {
            return None;
        }
        let allowed = self.settings.budget * self.now as f64 + 0.1 * self.gain + self.window as f64;
        if self.regret > allowed {
            return None;
        }
        let base = self.base.rate();
        let widths = &self.widths[usize::from(self.many)];
        let used = widths.used(self.waited);
        let few_misses = self.misses.is_some_and(|rate| rate < self.settings.misses);
        widths.due(self.waited, self.now).find_map(|width| {
            let could = match self.solo {
                0.0 => UNKNOWN,
                solo => (width as f64 * solo).min(self.most * HEADROOM) / base,
            };
            let worth = could > Widths::needed(width, used, &self.settings);
            (worth && !(few_misses && width < used)).then_some((width, could))
        })
    }
}

impl Governor for Hold {
    fn plan(&mut self, period: &Period<'_>) -> Plan {
        self.now += period.time;
        self.why = Why::default();
        let waiting = period.waiting;
        let plan = |width, order, next_call| Plan {
            width,
            order,
            next_call,
        };
        if self.exchanging {
            self.exchanging = false;
            self.ran = self.width.min(waiting).max(1);
            self.say(
                "exchanged half of the threads",
                &[("width", self.width as f64)],
            );
            return plan(self.width, Order::Fifo, self.window);
        }
        let low = self.measure(period);
        let before = self.waited;
        if waiting < before {
            // A thread blocked or ended, so another one came from the queue.
            self.turn_ends = self.now + self.site.period * self.settings.turn;
        }
        self.waited = waiting;
        // Between the two, what was goes on, so that the situation does not change with every thread that blocks.
        let threads = self.site.threads;
        let many = waiting > threads && (self.many || waiting > threads + threads / 2);
        if many != self.many {
            if let Some(probe) = self.probe.take() {
                self.widths[usize::from(self.many)].put_off(
                    probe.width,
                    self.now,
                    &self.settings,
                    self.window,
                );
            }
            self.many = many;
            self.forget();
        }
        let widths = &mut self.widths[usize::from(many)];
        if waiting >= before + threads.div_ceil(2) {
            widths.changed(self.now, &self.settings, self.window);
        }
        let used = widths.width();
        let mut order = Order::Kept;
        self.width = used;
        if let Some(probe) = self.probe {
            self.width = if probe.left > 0 { probe.width } else { used };
        } else if low && used > 1 && waiting > used {
            self.exchanging = true;
            self.forget();
            self.turn_ends = self.now + self.site.period * self.settings.turn;
            self.say("low", &[("usual", self.level)]);
            self.ran = 0;
            return plan(match self.settings.parting { 0 => used / 2, 1 => used / 2 | 1, 2 => (used / 2 - 1).max(1) | 1, 3 => 1, _ => (used - 1).max(1) }, Order::Kept, 1);
        } else if self.now >= self.turn_ends {
            self.turn_ends = self.now + self.site.period * self.settings.turn;
            self.forget();
            order = Order::Fifo;
        } else if let Some((width, could)) = self.candidate() {
            self.probe = Some(Probe {
                width,
                left: self.settings.probe + self.settings.settle,
                behind: self.settings.probe + self.settings.settle,
                sum: Sum::default(),
                before: self.base,
                after: Sum::default(),
            });
            let figures = [
                ("width", width as f64),
                ("work per time now", self.base.rate()),
                ("could be times as much", could),
            ];
            self.say("probing", &figures);
            self.width = width;
        }
        self.ran = self.width.min(waiting).max(1);
        if self.why.what.is_empty() {
            self.say("holding", &[("width", self.width as f64)]);
        }
        plan(self.width, order, self.window)
    }

    fn why(&self) -> Why {
        self.why.clone()
    }
}
