//! `hold` and `hold-blind`: which threads run together, and on how many hardware threads, found by looking at small parts of periods; in
//! which order threads are taken, found by comparing parts of the program.
//!
//! The governor is called at each 64th of a period (of [`GovernorSite::period`]). A *window* is the time from one call to the next, or of
//! more calls, until 8 of work have been done for each thread that may run, and 8 more: natively work is a number of tasks. The governor
//! compares rates: work per time. The *usual* rate is a mean in which older windows fade. Threads that *wait* are all that want to run,
//! those that run included. The threads that run go on from window to window ([`Order::Kept`]). A *barrier* is a window at whose end many
//! more threads wait than at the end of the one before: at least 4, and at least half as many as there are hardware threads. A *part* of
//! the program lies between two barriers. The rules:
//!
//! - *Turns.* A *turn* is the time in which the same threads run: a period. If the first 8 windows of turns are so slow that a period loses
//!   0.1% by them, on average, then good company is kept, since other threads must fill the caches first. A turn then begins anew if fewer
//!   threads wait than at the call before: one of them has blocked or ended, so another one has come from the queue. It also goes on
//!   period by period while at least twice as many threads wait as run and its last period was not slow: at most for as long as, when it
//!   began, more threads had waited than run in this part, and 64 periods. So a turn is a part of the program's time only, and threads
//!   end together. If good company is not kept, turns last a quarter of a period while fewer than twice as many threads wait as run: then
//!   the last ones have even shares, and end together, too. What caches that fill cost is not measured in such quick turns.
//! - *Disturbance.* Threads *disturb* each other if half as many have more than 0.66 of their rate (half of it if they do not at all).
//!   Probes of half the width show that. They do not, too, if half as many had less even if each were as fast as the fastest one seen
//!   lately. As long as nothing is known they do. Some may disturb each other though most do not: then, behind the first slow window that
//!   would lead to an exchange, and one in [`Settings::trial`] of those that follow, one thread runs alone for a window, and all of them
//!   again for one. They disturb each other if that one gains 1.5 times as much by it as the fastest one seen lately is ahead of the usual
//!   ones (a mean in which older looks fade). If threads do not disturb each other, those that are slow are so by themselves, and other
//!   company would not help: none are exchanged, and neither slow periods nor caches that fill at no cost end a turn that may be longer.
//! - *Exchanges.* A window is *slow* if its rate is below [`Settings::slow`] of the usual one, or if it is the fourth in a row whose rate
//!   is below 0.9 of the mean since the last barrier (of the last 64 windows, if there were more). Then, if the threads that run disturb
//!   each other, all of them but the last go to the back of the queue. That takes two calls: the first one takes the last thread off, and
//!   one unit of time later the second one exchanges the others. One slow window in [`Settings::trial`] is left alone instead, for
//!   comparison. The others count as such that led to an exchange, even if nothing was exchanged. If the windows behind those left alone
//!   are faster on average than the windows behind exchanges, the roles change: only one slow window in [`Settings::trial`] leads to an
//!   exchange.
//! - *Widths.* Probed are half and double the width in use, then the next narrower and the next wider one that is a power of two, or
//!   three times one, or all hardware threads.
//!   A probe takes four windows: two at the other width, two at the width in use. The first of each two is not measured, since
//!   caches settle in it. The probe's rate is compared with the mean of the rates of the width in use before and behind it, so that a
//!   program that changes meanwhile does not decide. A narrower width is chosen if the last probes together are better by
//!   [`Settings::margin`] and by more than they differ from each other, or if one is better by [`Settings::large`] and better than
//!   usual; a wider one that has not lost yet as soon as it is better. At first the width is the number of threads that can run at the
//!   same time ([`GovernorSite::at_once`]). That is fewer than all of them only natively, with more workers than processors; wider widths
//!   must be as much better there as narrower ones.
//! - *Orders.* Who runs with whom shows over whole parts of a program only: here those of at least 32 windows, between barriers for which
//!   many threads wait (more than there are hardware threads). Work tells which parts are the same, and what follows one is expected to be
//!   what followed it the last time. A part that is known in the queue's order is run *by number* the next time: at each call those with
//!   the lowest creation numbers run ([`Order::ByNumber`]), without turns and exchanges. This ends as soon as less work is done than was
//!   done by then in the queue's order, or more than in the whole part, or the part takes about 4 times as long: so no thread waits for
//!   ever. From then on each part has the order in which it was faster. Other parts are tried as long as the order by number has not cost 8
//!   windows more than it has saved. A part that is known begins with the width with which it ended the last time.
//! - *When.* A width that lost is probed again after 8 windows, then 16, 32 and so on, up to 512 (a wider one up to 256), but not before
//!   what the probe cost is [`Settings::repeat`] of the time since then. In another phase (the usual rate is 1.5 times what it was when
//!   the phase began, or that part of it; or a barrier opened) every width may be probed at once. Few and many waiting threads have a
//!   width each.
//! - *Skipped probes.* A width is not probed if it could not win even if each of its threads were as fast as the fastest seen lately; one
//!   between half of the width in use and all of it neither if it could not win with threads as fast as those of half of the width in the
//!   last probes. While fewer than twice as many threads wait as run, no probe begins before the same threads have run for 4 windows: then
//!   the program often changes, and one window says little of what is usual. With counters, a narrower width is not probed while fewer than
//!   [`Settings::misses`] of the accesses miss.
//! - *Windows that do not count*, beside those of looks, are those in which hardware threads that may run had none to run for a tenth of
//!   the time, and those that took 64 times as long as usual: somebody has stopped the program meanwhile.
//! - *Regret.* What lost probes cost, against the width in use, is the *regret*. The windows in which caches settle, before and behind,
//!   count. No probe begins while the regret is above [`Settings::budget`] of the run, 3% of what won probes have brought, and 4
//!   windows, together: up to 8 by the factor by which the probed width could be better. Without counters it is twice as many, since then
//!   nothing but probes says where a narrower width may pay. A probe without result counts, too.
//! - *Longer windows.* If windows take several calls, the time to the next probe and what probes may cost grow with them. A width of more
//!   threads than can run at the same time that had too little to do in its probe has lost it: there may never be enough.

mod disturbance;
mod exchange;
mod orders;
#[cfg(test)]
mod tests;
mod turn;
mod widths;
mod window;

use super::measure::is_ragged;
use crate::{Governor, GovernorSite, Order, Period, Plan, Why};
use disturbance::Disturbance;
use exchange::Exchange;
use orders::Orders;
use turn::{Limits, Turn};
use widths::{Pair, Verdict, Widths};
use window::Window;

/// The numbers of the rules above.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// Whether it reads cache counters if there are some.
    pub(super) counters: bool,
    /// The part of the usual rate below which a window is slow.
    pub(super) slow: f64,
    /// One slow window in this many is treated in the other way than usual: left alone, or exchanged.
    pub(super) trial: u64,
    /// By which factor a narrower width must be better to be chosen, and a wider one.
    pub(super) margin: f64,
    pub(super) margin_wider: f64,
    /// How many times their deviation (the root of the sum of squared differences) probes together must be better by, unless one is
    /// better by the factor `large`. Above 1, so that a single probe is never clear.
    pub(super) clear: f64,
    pub(super) large: f64,
    /// Misses per access below which no narrower width is probed.
    pub(super) misses: f64,
    /// The part of the run that lost probes may cost.
    pub(super) budget: f64,
    /// What a lost probe cost, as a part of the time to the next probe of the same width.
    pub(super) repeat: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            counters: true,
            slow: 0.7,
            trial: 4,
            margin: 1.04,
            margin_wider: 1.01,
            clear: 1.2,
            large: 1.5,
            misses: 0.004,
            budget: 0.001,
            repeat: 0.003,
        }
    }
}

/// Windows of a period.
const PARTS: u64 = 64;

/// A barrier releases at least so many threads at once, and at least half as many as there are hardware threads.
const RELEASED: usize = 4;

/// Windows from a lost probe to the next one of the same width, at first.
const PAUSE: u64 = 8;

/// By which factor a window is longer than usual if the program was stopped in it, and the part of a window in its usual length.
const STOPPED: f64 = 64.0;
const LENGTH_FADING: f64 = 0.2;

/// By which factor a probe could win as long as at most half of the hardware threads have never run.
const UNKNOWN: f64 = 1.5;

/// By which factor all threads together could be faster than in the fastest window so far.
const HEADROOM: f64 = 1.25;

/// The part of a slower window in the rate of one thread.
const SOLO_FADING: f64 = 0.1;

/// The weight of older windows in the rate of the width in use.
const BASE_FADING: f64 = 0.5;

/// The part of what won probes have brought that lost ones may cost, and windows that they may cost in any case, with and without counters.
const STAKE: f64 = 0.03;
const ALLOWANCE: f64 = 4.0;
const BLIND_ALLOWANCE: f64 = 8.0;

/// The largest factor by which a probe that could bring much may cost more.
const PROMISE: f64 = 2.0;

/// By which factor more threads wait than run if they are not few.
const FEW: usize = 2;

/// Windows of the width in use before a probe while few threads wait.
const KNOWN: u32 = 4;

/// Work and time of some windows.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    work: f64,
    time: f64,
}

impl Sum {
    fn rate(self) -> f64 {
        self.work / self.time.max(1.0)
    }
}

/// The last windows of the same threads at the width in use.
#[derive(Clone, Copy, Debug, Default)]
struct Base {
    /// Their work and time, in which older ones fade.
    faded: Sum,
    windows: u32,
}

impl Base {
    fn add(&mut self, work: f64, time: f64) {
        self.faded.work = self.faded.work * BASE_FADING + work;
        self.faded.time = self.faded.time * BASE_FADING + time;
        self.windows = self.windows.saturating_add(1);
    }
}

/// Returns the work per time of a window.
fn rate(window: &Period<'_>) -> f64 {
    window.work() as f64 / window.time.max(1) as f64
}

/// How threads do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Company {
    Good,
    /// They are slow, and are to be exchanged if they disturb each other.
    Slow,
    /// They are slow, and one of them alone has just shown that they disturb each other.
    Disturbed,
}

/// What the windows of a probe are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The other width runs, and caches settle in it.
    Settles,
    Probes,
    /// The width in use runs again, and caches settle in it.
    Returns,
    Compares,
}

/// A width that is being probed, and then the width in use again.
#[derive(Clone, Copy, Debug)]
struct Probe {
    width: usize,
    /// The width that was chosen when it began.
    used: usize,
    step: Step,
    /// Rates of the width in use before, and of the probe.
    before: f64,
    probed: f64,
    /// Work and time of all of its windows but the last one, which is like those without a probe.
    all: Sum,
}

impl Probe {
    /// Returns the time that it has cost so far, beside a width in use with the rate `usual`.
    fn cost(&self, usual: f64) -> f64 {
        (self.all.time - self.all.work / usual.max(f64::MIN_POSITIVE)).max(0.0)
    }
}

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    site: GovernorSite,
    settings: Settings,
    /// Time to the next call, as asked for; and length of a window, as it usually is: natively as long as a task or longer. 0 before the
    /// first one.
    window: u64,
    length: f64,
    /// The window so far, and the length of the last one, if it took several calls; else of a call, as asked for.
    gathered: Window,
    gathers: u64,
    /// The width of the last plan.
    planned: usize,
    now: u64,
    turn: Turn,
    /// Since when more threads have waited than run, in this part of the program.
    crowded_since: u64,
    /// How many threads have run since the last call; 0 at the first call and while threads are exchanged, which is not measured.
    ran: usize,
    /// Threads that waited at the last call.
    waited: usize,
    /// Whether many threads wait: more than there are hardware threads. It becomes so at half as many more.
    many: bool,
    /// For few and for many waiting threads.
    widths: [Widths; 2],
    probe: Option<Probe>,
    base: Base,
    exchange: Exchange,
    orders: Orders,
    /// Whether the last call only took threads off.
    exchanging: bool,
    disturbance: Disturbance,
    /// Misses per access of the last window; `None` without counters.
    misses: Option<f64>,
    /// The fastest that one thread was lately, on average, while at most half of the hardware threads ran (0 before), and all together.
    solo: f64,
    most: f64,
    /// Time that lost probes have cost, and that the chosen widths have saved against all hardware threads.
    regret: f64,
    gain: f64,
    why: Why,
}

impl Hold {
    pub(super) fn new(site: &GovernorSite, settings: Settings) -> Hold {
        let window = (site.period / PARTS).max(1);
        let widths = Widths::new(site.threads, site.at_once, PAUSE * window);
        Hold {
            site: *site,
            settings,
            window,
            length: 0.0,
            gathered: Window::default(),
            gathers: window,
            planned: site.threads,
            now: 0,
            turn: Turn::new(site.period),
            crowded_since: 0,
            ran: 0,
            waited: 0,
            many: false,
            widths: [widths.clone(), widths],
            probe: None,
            base: Base::default(),
            exchange: Exchange::default(),
            orders: Orders::new(window),
            exchanging: false,
            disturbance: Disturbance::default(),
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

    fn widths(&mut self) -> &mut Widths {
        &mut self.widths[usize::from(self.many)]
    }

    /// Ends the probe, if there is one, without a result; `what` says why.
    fn drop_probe(&mut self, what: &'static str) {
        if let Some(probe) = self.probe.take() {
            self.regret += probe.cost(probe.before);
            let now = self.now;
            self.widths().put_off(probe.width, now);
            self.say(what, &[("width", probe.width as f64)]);
        }
    }

    /// Ends the look, if there is one, without a result; `what` says why.
    fn drop_look(&mut self, what: &'static str) {
        if self.disturbance.looks() {
            self.disturbance.end();
            self.say(what, &[]);
        }
    }

    /// Other threads run from now on.
    fn begin_turn(&mut self) {
        self.turn.begin(self.now);
        self.base = Base::default();
    }

    /// Takes the window that has ended into account. Returns how its threads do together.
    fn measure(&mut self, period: &Period<'_>) -> Company {
        if self.ran == 0 {
            return Company::Good;
        }
        let (work, time) = (period.work() as f64, period.time.max(1) as f64);
        let rate = rate(period);
        if self.settings.counters {
            self.misses = period.cache().map(|cache| cache.rate());
        }
        let stopped = self.length > 0.0 && time > self.length * STOPPED;
        self.length += match self.length {
            0.0 => time,
            length => (time - length) * LENGTH_FADING,
        };
        if stopped {
            self.base = Base::default();
            self.drop_look("look without result, the program was stopped");
            self.drop_probe("probe without result, the program was stopped");
            return Company::Good;
        }
        if is_ragged(period, self.ran) {
            self.base = Base::default();
            self.drop_look("look without result, threads ran out");
            self.drop_probe("probe without result, threads ran out");
            return Company::Good;
        }
        if self.disturbance.looks() {
            return self.look(rate / self.ran as f64);
        }
        if self.ran * 2 <= self.site.at_once {
            let one = rate / self.ran as f64;
            self.solo = one.max(self.solo + (one - self.solo) * SOLO_FADING);
        }
        self.most = self.most.max(rate);
        if let Some(probe) = &mut self.probe {
            if probe.step != Step::Compares {
                probe.all.work += work;
                probe.all.time += time;
            }
            match probe.step {
                Step::Settles => probe.step = Step::Probes,
                Step::Probes => {
                    probe.probed = rate;
                    probe.step = Step::Returns;
                    let probe = *probe;
                    let figures = [
                        ("width", probe.width as f64),
                        ("work per time", probe.probed),
                        ("before it", probe.before),
                    ];
                    self.say("probed, now the width in use again", &figures);
                }
                Step::Returns => probe.step = Step::Compares,
                Step::Compares => {
                    let probe = *probe;
                    self.judge(probe, rate);
                }
            }
            return Company::Good;
        }
        self.base.add(work, time);
        self.turn.window(work, time);
        self.gain += self.widths().gained() * time;
        let sign = self.exchange.window(rate, &self.settings);
        if let Some(usual) = sign.another_phase {
            self.widths().changed();
            let figures = [("work per time", rate), ("usual", usual)];
            self.say("another phase", &figures);
        }
        if sign.exchange {
            Company::Slow
        } else {
            Company::Good
        }
    }

    /// Returns whether the threads that run may disturb each other: if not, other company would not make them faster.
    fn disturbed(&self) -> bool {
        self.disturbance.is_shown() || self.disturbed_usually()
    }

    fn disturbed_usually(&self) -> bool {
        self.disturbance.is_usual(self.alone() / 2.0, self.many)
    }

    /// Returns how many times as fast as each of those that usually run the fastest one was that was seen lately.
    fn alone(&self) -> f64 {
        let used = self.widths[usize::from(self.many)].used(self.waited) as f64;
        match (self.solo, self.exchange.usual()) {
            (solo, usual) if solo > 0.0 && usual > 0.0 => solo * used / usual,
            _ => f64::INFINITY,
        }
    }

    /// Begins a look behind a slow window if threads do not disturb each other in most others. Returns whether it does.
    fn begins_a_look(&mut self, period: &Period<'_>) -> bool {
        let each = rate(period) / self.ran.max(1) as f64;
        !self.disturbed_usually() && self.disturbance.begin(each, self.settings.trial)
    }

    /// Takes a window of a look into account, in which each thread had the rate `each`. Returns how its threads do together.
    fn look(&mut self, each: f64) -> Company {
        let Some(factor) = self.disturbance.window(each, self.alone()) else {
            return Company::Good;
        };
        let figures = [("times as fast", factor)];
        self.say("one of the slow threads ran alone", &figures);
        match self.disturbance.is_shown() {
            true => Company::Disturbed,
            false => Company::Good,
        }
    }

    /// Ends a probe, behind which the width in use had the rate `behind`.
    fn judge(&mut self, probe: Probe, behind: f64) {
        self.base = Base::default();
        let waited = self.waited;
        if probe.width.min(waited) == probe.used.min(waited) {
            self.drop_probe("probe without result, too few threads wait");
            return;
        }
        self.probe = None;
        // If the program changed meanwhile, the lower rate tells what the probe cost at least.
        let usual = probe.before.min(behind);
        let pair = Pair {
            probed: probe.probed,
            used: (probe.before + behind) / 2.0,
            usual: self.exchange.usual(),
            cost: probe.cost(usual),
        };
        let (now, settings) = (self.now, self.settings);
        let used = self.widths().used(waited);
        if probe.width * 2 == used && pair.used > 0.0 {
            self.disturbance.half(pair.probed / pair.used, self.many);
        }
        let what = match self.widths().judge(probe.width, used, pair, now, &settings) {
            Verdict::Won => {
                self.exchange.reset(pair.probed);
                "probe won"
            }
            verdict => {
                self.regret += pair.cost;
                match verdict {
                    Verdict::Unclear => "probe unclear",
                    _ => "probe lost",
                }
            }
        };
        let figures = [
            ("width", probe.width as f64),
            ("work per time", pair.probed),
            ("width in use", used as f64),
            ("its work per time", pair.used),
        ];
        self.say(what, &figures);
    }

    /// Returns the width to probe now, if any, and by which factor it could be better.
    fn candidate(&self) -> Option<(usize, f64)> {
        let widths = &self.widths[usize::from(self.many)];
        let used = widths.used(self.waited);
        let known = match self.waited < FEW * used {
            true => KNOWN,
            false => 1,
        };
        if self.base.windows < known || self.base.faded.work == 0.0 {
            return None;
        }
        let base = self.base.faded.rate();
        let few_misses = self.misses.is_some_and(|rate| rate < self.settings.misses);
        let (width, could) = widths.due(self.waited, self.now).find_map(|width| {
            let could = match self.solo {
                0.0 => UNKNOWN,
                solo => (width as f64 * solo).min(self.most * HEADROOM) / base,
            };
            // More threads than half are at most as fast as if each of them were as fast as one of half of them.
            let could = match self.disturbance.of_half(self.many) {
                Some(part) if width < used && width * 2 > used => {
                    could.min(part * (width * 2) as f64 / used as f64)
                }
                _ => could,
            };
            let worth = could > widths.needed(width, used, &self.settings);
            (worth && !(few_misses && width < used)).then_some((width, could))
        })?;
        let allowance = match self.misses {
            Some(_) => ALLOWANCE,
            None => BLIND_ALLOWANCE,
        };
        let windows = allowance * could.clamp(1.0, PROMISE);
        let run = self.settings.budget * self.now as f64 + STAKE * self.gain;
        (self.regret <= run + windows * self.gathers as f64).then_some((width, could))
    }

    /// Takes note of how many threads wait now. Returns whether a barrier released threads.
    fn situation(&mut self, waiting: usize) -> bool {
        let before = std::mem::replace(&mut self.waited, waiting);
        if waiting < before && self.turn.stays() {
            // A thread blocked or ended, so another one came from the queue.
            self.turn.begin(self.now);
        }
        // Between the two, what was goes on, so that the situation does not change with every thread that blocks.
        let threads = self.site.threads;
        let many = waiting > threads && (self.many || waiting - threads > threads / 2);
        if many != self.many {
            self.drop_probe("probe without result, another number of threads waits");
            self.many = many;
            self.base = Base::default();
        }
        let released = waiting.saturating_sub(before);
        let barrier = released >= threads.div_ceil(2).max(RELEASED);
        if barrier {
            self.crowded_since = self.now;
            self.turn.forget();
            self.widths().changed();
            self.exchange.begin();
            if self.why.what.is_empty() {
                let figures = [("waiting", waiting as f64), ("before", before as f64)];
                self.say("a barrier opened, a part of the program begins", &figures);
            }
        }
        barrier
    }
}

impl Hold {
    /// Returns the order until the next call, after a window in which a `barrier` has opened or not.
    fn order(&mut self, period: &Period<'_>, barrier: bool) -> Order {
        let before = self.orders.by_number();
        let (work, time) = (period.work() as f64, period.time as f64);
        let mut why = self.orders.window(work, time);
        if barrier && self.many {
            let used = self.widths().chosen();
            why = self.orders.barrier(used).or(why);
            if let Some(chosen) = self.orders.known_width() {
                if chosen.width != used.width {
                    let why = why.get_or_insert_with(|| Why {
                        what: "a part that is known begins with its width",
                        figures: Vec::new(),
                    });
                    let figures = [("width", chosen.width), ("width before", used.width)];
                    why.figures
                        .extend(figures.map(|(name, width)| (name, width as f64)));
                }
                self.widths().restore(chosen);
            }
        }
        if let Some(why) = why {
            self.why = why;
        }
        match (before, self.orders.by_number()) {
            (_, true) => Order::ByNumber,
            (true, false) => {
                self.begin_turn();
                Order::Restored
            }
            (false, false) => Order::Kept,
        }
    }
}

impl Governor for Hold {
    fn plan(&mut self, period: &Period<'_>) -> Plan {
        if self.ran == 0 {
            return self.decide(period);
        }
        self.gathered.add(period);
        if !self.gathered.is_over(self.ran) {
            let figures = [("width", self.planned as f64)];
            self.say("too little was done so far, the window goes on", &figures);
            return Plan {
                width: self.planned,
                order: match self.orders.by_number() {
                    true => Order::ByNumber,
                    false => Order::Kept,
                },
                next_call: self.window,
            };
        }
        let gathered = std::mem::take(&mut self.gathered);
        let whole = gathered.period(period.waiting);
        self.gathers = match gathered.calls() {
            1 => self.window,
            _ => whole.time,
        };
        self.decide(&whole)
    }

    fn why(&self) -> Why {
        self.why.clone()
    }

    fn reads_counters(&self) -> bool {
        self.settings.counters
    }
}

impl Hold {
    /// Returns the plan behind a whole window, or behind a time that is not measured.
    fn decide(&mut self, period: &Period<'_>) -> Plan {
        self.now = self.now.saturating_add(period.time);
        self.why = Why::default();
        let waiting = period.waiting;
        let taken_off = std::mem::take(&mut self.exchanging);
        let mut company = Company::Good;
        let mut order = Order::Kept;
        if !taken_off {
            company = self.measure(period);
            let barrier = self.situation(waiting);
            order = self.order(period, barrier);
            if order != Order::Kept {
                self.disturbance.end();
            }
            let used = self.widths().width();
            if self.probe.is_some_and(|probe| probe.used != used) {
                self.base = Base::default();
                self.drop_probe("probe without result, the width in use has changed");
            }
        }
        let used = self.widths().width();
        if waiting <= used {
            self.crowded_since = self.now;
        }
        let few = waiting < FEW * used;
        let limits = Limits {
            longest: match few {
                true => 0,
                false => self.turn.began().saturating_sub(self.crowded_since),
            },
            parts: self.disturbed(),
            few: few && waiting > used,
        };
        let movable =
            company != Company::Good && order == Order::Kept && used > 1 && waiting > used;
        let mut plan = Plan {
            width: used,
            order,
            next_call: self.window,
        };
        if taken_off {
            // Those that ran until now go to the back; the one that was taken off stands first.
            plan.order = Order::Fifo;
            let figures = [("usual work per time", self.exchange.usual())];
            self.say("slow together, the others are exchanged", &figures);
        } else if let Some(probe) = self.probe {
            if matches!(probe.step, Step::Settles | Step::Probes) {
                plan.width = probe.width;
            }
        } else if self.disturbance.looks() {
            // All of them run again.
        } else if movable && company == Company::Slow && self.begins_a_look(period) {
            plan.width = 1;
            let figures = [
                ("work per time", rate(period)),
                ("usual", self.exchange.usual()),
            ];
            self.say("slow together, one runs alone for a look", &figures);
        } else if movable && self.disturbed() {
            self.begin_turn();
            self.exchanging = true;
            (plan.width, plan.next_call) = (used - 1, 1);
            let figures = [
                ("work per time", rate(period)),
                ("usual", self.exchange.usual()),
                ("mean of this part", self.exchange.mean()),
            ];
            self.say("slow together, one is taken off", &figures);
        } else if order == Order::Kept && self.turn.is_over(self.now, &limits) {
            let time = (self.now - self.turn.began()) as f64;
            if self.why.what.is_empty() {
                let figures = [("its time", time), ("waiting", waiting as f64)];
                self.say("the turn is over, those that wait longest run", &figures);
            } else {
                self.why.figures.push(("the turn is over, its time", time));
            }
            self.begin_turn();
            plan.order = Order::Fifo;
        } else if let Some((width, could)) = self.candidate() {
            let before = self.base.faded.rate();
            self.probe = Some(Probe {
                width,
                used,
                step: Step::Settles,
                before,
                probed: 0.0,
                all: Sum::default(),
            });
            let figures = [
                ("width", width as f64),
                ("work per time now", before),
                ("could rise by the factor", could),
            ];
            self.say("probing", &figures);
            plan.width = width;
        }
        if self.why.what.is_empty() {
            let figures = [
                ("width", plan.width as f64),
                ("work per time", rate(period)),
            ];
            self.say("holding", &figures);
        }
        self.ran = match self.exchanging {
            true => 0,
            false => plan.width.min(waiting).max(1),
        };
        self.planned = plan.width;
        let pause = PAUSE.saturating_mul(self.gathers);
        self.widths
            .iter_mut()
            .for_each(|widths| widths.pause(pause));
        plan
    }
}
