//! `throughput`: the width with the most work per time, found by trying.
//!
//! It reads no counters, so it works in virtual machines, too. Its rule:
//!
//! - *Windows.* Work and time are summed over calls until a window holds [enough](is_enough) work for the threads of the width.
//!   Left out are: all time from a change of the width until the threads beyond it do nothing; and calls in which the width's threads had
//!   nothing to do [for too long](is_ragged), as at the end of a task graph, unless that is so [`STARVED`] times in a row.
//! - *Trying a width.* At least two windows, and further ones while each is better by [`RISING`] than all before: caches are cold at first.
//!   The best window counts, since what disturbs a window makes it worse.
//! - *Exploring.* All threads, then half of them, and so on down to 1, but not below a width that has less than [`STEEP`] of the best.
//!   Then the middle between the best and its tried neighbours, as long as these are worse by [`MARGIN`].
//! - *Choosing.* The narrowest width within [`MARGIN`] of the best: with more threads than processors all widths above the number of
//!   processors are about equally good, and the fewer there are the less they wait for each other's time slices.
//! - *Holding.* The chosen width stays for [`HOLD`] times as long as exploring took. Then the next wider and narrower widths are tried; if
//!   none is better, the width is held for twice as long. If [`CONFIRM`] windows in a row differ from what was expected by more than
//!   [`CHANGED`], the program is in another phase and all is explored again; if that chooses the same width, twice as many are needed the
//!   next time.

use super::measure::{is_enough, is_ragged};
use crate::{Governor, GovernorSite, Order, Period, Plan, Why};

/// After so many such calls in a row, being without work is how the program is.
const STARVED: u32 = 4;

/// By how much a window must be better than all before for the width to be tried on.
const RISING: f64 = 0.03;

/// The most windows in which a width is tried.
const WINDOWS_MAX: u32 = 12;

/// Widths whose rates differ by less are equally good.
const MARGIN: f64 = 0.03;

/// Below a width with less than this part of the best rate no narrower one is tried.
const STEEP: f64 = 0.75;

/// How many times as long as exploring took the chosen width is held at first.
const HOLD: u64 = 16;

/// By how much a window differs that is a sign of another phase.
const CHANGED: f64 = 0.12;

/// How many such windows in a row are enough at first.
const CONFIRM: u32 = 4;

/// The most that `CONFIRM` grows to.
const CONFIRM_MAX: u32 = 64;

/// The periods from one call to the next while a width is held.
const HELD_PERIODS: u64 = 4;

/// A width and the work per time that it had.
#[derive(Clone, Copy, Debug)]
struct Tried {
    width: usize,
    rate: f64,
}

/// What the governor is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It tries all widths that may be best.
    Explore,
    /// It tries the neighbours of the width that it held.
    Probe,
    Hold,
}

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(super) struct Throughput {
    site: GovernorSite,
    step: Step,
    width: usize,
    /// Whether the width that is tried has been reached.
    settled: bool,
    /// Calls in a row in which the threads had too little to do.
    ragged: u32,
    /// The window: work and time so far.
    work: u64,
    time: u64,
    /// Windows of the width that is tried, and the best of them.
    windows: u32,
    best: f64,
    /// What was tried, by width.
    tried: Vec<Tried>,
    /// The width that was held before, 0 at first.
    held: usize,
    /// The rate that is expected of the width that is held.
    expected: f64,
    /// Windows in a row that differed from it.
    different: u32,
    /// The rate of the last window of the width that is held, 0 before the first.
    last: f64,
    confirm: u32,
    /// Time since exploring, probing or holding began.
    since: u64,
    hold: u64,
    why: Why,
}

impl Throughput {
    pub(super) fn new(site: &GovernorSite) -> Throughput {
        Throughput {
            site: *site,
            step: Step::Explore,
            width: site.threads,
            settled: true,
            ragged: 0,
            work: 0,
            time: 0,
            windows: 0,
            best: 0.0,
            tried: Vec::new(),
            held: 0,
            expected: 0.0,
            different: 0,
            last: 0.0,
            confirm: CONFIRM,
            since: 0,
            hold: 0,
            why: Why {
                what: "measuring all threads",
                figures: Vec::new(),
            },
        }
    }

    /// Adds the period to the window. Returns the window's rate if it is complete.
    fn measure(&mut self, period: &Period<'_>) -> Option<f64> {
        if !self.settled {
            let mut parked = period.threads.iter().skip(self.width);
            self.settled = parked.all(|thread| thread.work == 0);
            return None;
        }
        if is_ragged(period, self.width) {
            self.ragged += 1;
            if self.ragged < STARVED {
                return None;
            }
        } else {
            self.ragged = 0;
        }
        self.work = self.work.saturating_add(period.work());
        self.time = self.time.saturating_add(period.time);
        if !is_enough(self.work, self.width) {
            return None;
        }
        let rate = self.work as f64 / self.time.max(1) as f64;
        (self.work, self.time) = (0, 0);
        Some(rate)
    }

    fn set_width(&mut self, width: usize) {
        self.settled = self.width <= width;
        self.width = width;
        (self.work, self.time, self.windows, self.best) = (0, 0, 0, 0.0);
    }

    /// Takes a window of the width that is tried into account. Returns whether the width has been tried enough.
    fn try_on(&mut self, rate: f64) -> bool {
        self.windows += 1;
        let rising = rate > self.best * (1.0 + RISING);
        self.best = self.best.max(rate);
        if self.windows < 2 || (rising && self.windows < WINDOWS_MAX) {
            return false;
        }
        let (width, rate) = (self.width, self.best);
        let at = self.tried.partition_point(|other| other.width < width);
        self.tried.insert(at, Tried { width, rate });
        true
    }

    /// Returns the index of the best width in `tried`, which is not empty.
    fn best_tried(&self) -> usize {
        let better = |best: usize, one: usize| match self.tried[one].rate > self.tried[best].rate {
            true => one,
            false => best,
        };
        (1..self.tried.len()).fold(0, better)
    }

    /// Returns the width to try next, if any.
    fn next_to_try(&self) -> Option<usize> {
        let at = self.best_tried();
        let best = self.tried[at];
        let worse = |one: &Tried, part: f64| one.rate < best.rate * part;
        let is_new = |width: &usize| self.tried.iter().all(|one| one.width != *width);
        if self.step == Step::Probe {
            let wider = (self.held * 2).min(self.site.threads);
            return [wider, (self.held / 2).max(1)].into_iter().find(is_new);
        }
        let narrowest = self.tried[0];
        if narrowest.width > 1 && !worse(&narrowest, STEEP) {
            return Some(narrowest.width / 2);
        }
        let between = |one: Option<&Tried>| {
            let one = one.filter(|one| worse(one, 1.0 - MARGIN))?;
            Some((one.width + best.width) / 2).filter(is_new)
        };
        between(self.tried.get(at + 1)).or_else(|| between(self.tried[..at].last()))
    }

    fn explore(&mut self, what: &'static str, rate: f64) {
        self.why = self.reason(what, rate);
        self.step = Step::Explore;
        self.since = 0;
        self.tried.clear();
        self.set_width(self.site.threads);
    }

    fn choose(&mut self) {
        let best = self.tried[self.best_tried()];
        let enough = best.rate * (1.0 - MARGIN);
        let mut narrowest_first = self.tried.iter();
        let chosen = narrowest_first.find(|one| one.rate >= enough);
        let chosen = *chosen.unwrap_or(&best);
        let same = chosen.width == self.held;
        let what = match (self.step, same) {
            (Step::Probe, true) => "probed, no better width",
            (Step::Probe, false) => "probed, a better width",
            (_, true) => "explored, the width as before",
            (_, false) => "explored, the best width",
        };
        if self.step == Step::Explore {
            self.hold = self.since.saturating_mul(HOLD);
            self.confirm = match same {
                true => (self.confirm * 2).min(CONFIRM_MAX),
                false => CONFIRM,
            };
        } else if same {
            self.hold = self.hold.saturating_mul(2);
        }
        let mut figures = vec![
            ("width", chosen.width as f64),
            ("work a period", self.per_period(chosen.rate)),
        ];
        for other in self.tried.iter().filter(|one| one.width != chosen.width) {
            figures.push(("at width", other.width as f64));
            figures.push(("work a period", self.per_period(other.rate)));
        }
        self.why = Why { what, figures };
        (self.step, self.since, self.different, self.last) = (Step::Hold, 0, 0, 0.0);
        (self.held, self.expected) = (chosen.width, chosen.rate);
        self.set_width(chosen.width);
    }

    /// Holds the width for one more window. One that is worse than expected, but better than the one before, is no sign of another phase.
    fn keep(&mut self, rate: f64) {
        let rising = rate > self.last * (1.0 + RISING);
        self.last = rate;
        if (rate / self.expected - 1.0).abs() > CHANGED {
            // Caches are cold after a change of the width.
            let warms = rising && rate < self.expected;
            self.different += u32::from(!warms);
        } else {
            self.different = 0;
            self.expected += (rate - self.expected) / 8.0;
        }
        if self.different >= self.confirm {
            self.explore("another phase", rate);
        } else if self.since >= self.hold && self.different == 0 {
            self.why = self.reason("held long enough", rate);
            self.step = Step::Probe;
            self.since = 0;
            self.tried.clear();
            let (width, rate) = (self.held, self.expected);
            self.tried.push(Tried { width, rate });
            self.go_on();
        }
    }

    /// Tries the next width, or chooses one.
    fn go_on(&mut self) {
        let Some(width) = self.next_to_try() else {
            return self.choose();
        };
        let best = self.tried[self.best_tried()];
        self.why = Why {
            what: "trying a width",
            figures: vec![
                ("width", width as f64),
                ("best so far", best.width as f64),
                ("its work a period", self.per_period(best.rate)),
            ],
        };
        self.set_width(width);
    }

    fn per_period(&self, rate: f64) -> f64 {
        rate * self.site.period as f64
    }

    fn reason(&self, what: &'static str, rate: f64) -> Why {
        let figures = vec![
            ("width", self.width as f64),
            ("work a period", self.per_period(rate)),
            ("expected", self.per_period(self.expected)),
        ];
        Why { what, figures }
    }
}

impl Governor for Throughput {
    fn plan(&mut self, period: &Period<'_>) -> Plan {
        self.since = self.since.saturating_add(period.time);
        if self.site.threads > 1
            && let Some(rate) = self.measure(period)
        {
            match self.step {
                Step::Hold => self.keep(rate),
                Step::Explore | Step::Probe => {
                    if self.try_on(rate) {
                        self.go_on();
                    }
                }
            }
        }
        let next_call = match (self.step, self.settled) {
            (Step::Hold, true) => self.site.period.saturating_mul(HELD_PERIODS),
            (_, true) => self.site.period,
            (_, false) => (self.site.period / 2).max(1),
        };
        Plan {
            width: self.width,
            order: Order::Fifo,
            next_call,
        }
    }

    fn reads_counters(&self) -> bool {
        false
    }

    fn why(&self) -> Why {
        self.why.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Activity, WorkerId, draw};

    const PERIOD: u64 = 1_000_000;

    /// A program: work a period at each width, from 1 on, less up to a part of `noise`.
    struct Program {
        rates: Vec<f64>,
        noise: f64,
        /// Periods after a change of the width until caches are warm; cold ones halve the rate at first.
        warming: f64,
        /// Every so many calls, a graph ends in the middle: half of the work, half of the time idle.
        ends: Option<u64>,
    }

    impl Program {
        fn new(rates: &[f64]) -> Program {
            Program {
                rates: rates.to_vec(),
                noise: 0.01,
                warming: 0.0,
                ends: None,
            }
        }
    }

    struct Run {
        governor: Throughput,
        width: usize,
        /// The time of the last change of the width.
        changed: f64,
        calls: u64,
        next: u64,
        done: f64,
        time: f64,
        changes: Vec<usize>,
    }

    impl Run {
        fn new(threads: usize) -> Run {
            Run {
                governor: Throughput::new(&GovernorSite {
                    threads,
                    at_once: threads,
                    period: PERIOD,
                }),
                width: threads,
                changed: 0.0,
                calls: 0,
                next: PERIOD,
                done: 0.0,
                time: 0.0,
                changes: Vec::new(),
            }
        }

        fn go(&mut self, program: &Program, periods: f64) {
            let until = self.time + periods;
            while self.time < until {
                self.calls += 1;
                let noise = draw(1, WorkerId(0), self.calls) % 1000;
                let noise = 1.0 - program.noise * noise as f64 / 1000.0;
                let warm = (self.time - self.changed) / program.warming.max(0.1);
                let cold = 0.5 + 0.5 * warm.min(1.0);
                let ends = program
                    .ends
                    .is_some_and(|every| self.calls.is_multiple_of(every));
                let part = if ends { 0.5 } else { 1.0 };
                let periods = self.next as f64 / PERIOD as f64;
                let work = program.rates[self.width - 1] * noise * cold * part * periods;
                let mut threads = vec![Activity::default(); program.rates.len()];
                for thread in &mut threads[..self.width] {
                    thread.idle = ((1.0 - part) * self.next as f64) as u64;
                }
                threads[0].work = work as u64;
                self.done += work;
                self.time += periods;
                let plan = self.governor.plan(&Period {
                    time: self.next,
                    threads: &threads,
                    waiting: self.width,
                });
                assert!((1..=program.rates.len()).contains(&plan.width));
                if plan.width != self.width {
                    self.changes.push(plan.width);
                    (self.width, self.changed) = (plan.width, self.time);
                }
                self.next = plan.next_call;
            }
        }
    }

    #[test]
    fn it_finds_the_best_width_wherever_it_is_and_loses_little_by_looking() {
        let programs: [&[f64]; 7] = [
            &[900.0, 300.0],
            &[500.0, 1000.0],
            &[900.0, 300.0, 290.0, 280.0, 270.0, 265.0, 264.0, 263.0],
            &[500.0, 1000.0, 998.0, 999.0, 997.0, 995.0, 994.0, 993.0],
            &[250.0, 500.0, 750.0, 1000.0, 1250.0, 1500.0, 1750.0, 2000.0],
            &[500.0, 990.0, 1400.0, 1300.0, 1000.0, 900.0, 800.0, 700.0],
            &[250.0, 500.0, 750.0, 1000.0, 1240.0, 1450.0, 1300.0, 1200.0],
        ];
        for rates in programs {
            for (warming, ends) in [(0.0, None), (6.0, None), (0.0, Some(7)), (4.0, Some(3))] {
                let program = Program {
                    warming,
                    ends,
                    ..Program::new(rates)
                };
                let mut run = Run::new(rates.len());
                run.go(&program, 4000.0);
                let best = rates.iter().copied().fold(0.0, f64::max);
                let held = run.governor.held;
                assert!(
                    rates[held - 1] >= 0.97 * best,
                    "{rates:?}, warming {warming}: {held} by {:?}",
                    run.changes
                );
                let ends = ends.map_or(1.0, |every| 1.0 - 0.5 / every as f64);
                let part = run.done / (best * ends * run.time);
                assert!(
                    part > 0.96,
                    "{rates:?}, warming {warming}: {part} by {:?}",
                    run.changes
                );
            }
        }
    }

    #[test]
    fn equal_widths_are_not_explored_for_ever() {
        let mut program =
            Program::new(&[500.0, 1000.0, 1001.0, 999.0, 998.0, 1000.0, 997.0, 996.0]);
        program.noise = 0.03;
        let mut run = Run::new(8);
        run.go(&program, 1000.0);
        let early = run.changes.len();
        assert!(early <= 10, "{:?}", run.changes);
        run.go(&program, 30_000.0);
        assert!(run.changes.len() <= early + 30, "{:?}", run.changes);
    }

    #[test]
    fn another_phase_is_found_in_both_directions() {
        let thrashing = Program::new(&[900.0, 500.0, 300.0, 250.0]);
        let scaling = Program::new(&[350.0, 700.0, 1050.0, 1400.0]);
        let mut run = Run::new(4);
        for _ in 0..3 {
            run.go(&thrashing, 1000.0);
            assert_eq!(run.width, 1, "{:?}", run.changes);
            run.go(&scaling, 1000.0);
            assert_eq!(run.width, 4, "{:?}", run.changes);
        }
    }

    #[test]
    fn windows_grow_until_they_hold_enough_tasks() {
        // Three tasks in four periods: a call sees one or none.
        let program = Program::new(&[1.5, 3.0]);
        let mut run = Run::new(2);
        run.go(&program, 400.0);
        assert_eq!(run.width, 2, "{:?}", run.changes);
    }

    #[test]
    fn a_width_is_measured_only_once_it_is_reached() {
        let mut governor = Throughput::new(&GovernorSite {
            threads: 2,
            at_once: 2,
            period: PERIOD,
        });
        let mut call = |first, second| {
            let activity = |work| Activity {
                work,
                ..Activity::default()
            };
            governor.plan(&Period {
                time: PERIOD,
                threads: &[activity(first), activity(second)],
                waiting: 2,
            })
        };
        assert_eq!(call(50, 50).width, 2);
        assert_eq!(call(50, 50).width, 1, "two windows of the full width");
        // The second thread ends long tasks: none of this counts for the first alone.
        for _ in 0..20 {
            assert_eq!(call(50, 50).width, 1);
        }
        assert_eq!(call(50, 0).width, 1, "reached");
        assert_eq!(call(50, 0).width, 1, "first window");
        assert_eq!(call(50, 0).width, 2, "half as much: not better");
        assert_eq!(governor.why().what, "explored, the best width");
        assert_eq!(
            governor.why().to_string(),
            "explored, the best width: width 2, work a period 100, at width 1, work a period 50"
        );
    }

    #[test]
    fn a_single_thread_has_nothing_to_decide() {
        let mut governor = Throughput::new(&GovernorSite {
            threads: 1,
            at_once: 1,
            period: 10,
        });
        let threads = [Activity {
            work: 1000,
            ..Activity::default()
        }];
        for _ in 0..100 {
            let plan = governor.plan(&Period {
                time: 10,
                threads: &threads,
                waiting: 1,
            });
            assert_eq!(plan.width, 1);
        }
    }
}
