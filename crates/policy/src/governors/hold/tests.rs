//! Programs as curves: how much work so many threads do per time. Their threads wait in a queue as in an engine.

use super::*;
use crate::{Activity, CacheUse, WorkerId, draw};
use std::collections::VecDeque;

const PERIOD: u64 = 64_000;
const WINDOW: u64 = PERIOD / 64;

struct Program<'a> {
    /// Work of 1000 units of time at each width, from 1 on.
    rates: &'a [f64],
    /// What the rate is multiplied by while two threads of a fourth four run together.
    conflict: f64,
    noise: f64,
    waiting: usize,
    misses: Option<u64>,
}

impl<'a> Program<'a> {
    fn new(rates: &'a [f64]) -> Program<'a> {
        Program {
            rates,
            conflict: 1.0,
            noise: 0.02,
            waiting: 64,
            misses: Some(50),
        }
    }
}

struct Run {
    governor: Hold,
    plan: Plan,
    queue: VecDeque<usize>,
    running: Vec<usize>,
    calls: u64,
    said: Vec<String>,
    /// How long each thread ran.
    ran: Vec<u64>,
}

impl Run {
    fn new(threads: usize, counters: bool) -> Run {
        let site = GovernorSite {
            threads,
            at_once: threads,
            period: PERIOD,
        };
        let settings = Settings {
            counters,
            ..Settings::default()
        };
        Run {
            governor: Hold::new(&site, settings),
            plan: Plan {
                width: threads,
                order: Order::Fifo,
                next_call: PERIOD,
            },
            queue: VecDeque::new(),
            running: Vec::new(),
            calls: 0,
            said: Vec::new(),
            ran: Vec::new(),
        }
    }

    /// Puts the plan's order into force and takes threads from the queue.
    fn hand_out(&mut self, waiting: usize) {
        match self.plan.order {
            Order::Kept => self
                .running
                .drain(..)
                .rev()
                .for_each(|one| self.queue.push_front(one)),
            _ => self.queue.extend(self.running.drain(..)),
        }
        if self.queue.len() != waiting {
            self.queue = (0..waiting).collect();
            self.ran = vec![0; waiting];
        }
        let width = self.plan.width.min(waiting);
        self.running = self.queue.drain(..width).collect();
    }

    /// Returns work per 1000 units of time.
    fn go(&mut self, program: &Program<'_>, periods: u64) -> f64 {
        let (mut time, mut done) = (0, 0.0);
        while time < periods * PERIOD {
            self.hand_out(program.waiting);
            self.calls += 1;
            let noise = draw(1, WorkerId(0), self.calls) % 1000;
            let noise = 1.0 - program.noise * noise as f64 / 1000.0;
            let fourth = |&&one: &&usize| one / 4 % 4 == 0;
            let conflict = self.running.iter().filter(fourth).count() > 1;
            let conflict = if conflict { program.conflict } else { 1.0 };
            let ran = self.running.len();
            let rate = program.rates[ran - 1] * noise * conflict;
            let next = self.plan.next_call;
            let work = rate * next as f64 / 1000.0;
            let mut threads = vec![Activity::default(); program.rates.len()];
            for (number, thread) in threads.iter_mut().enumerate() {
                thread.idle = if number < ran { 0 } else { next };
                thread.cache = program.misses.map(|misses| CacheUse {
                    accesses: 1000,
                    misses,
                });
            }
            self.running.iter().for_each(|&one| self.ran[one] += next);
            threads[0].work = work as u64;
            (time, done) = (time + next, done + work);
            self.plan = self.governor.plan(&Period {
                time: next,
                threads: &threads,
                waiting: program.waiting,
            });
            assert!((1..=threads.len()).contains(&self.plan.width));
            self.said.push(self.governor.why().to_string());
        }
        done * 1000.0 / time as f64
    }

    fn says(&self, what: &str) -> bool {
        self.said.iter().any(|one| one.starts_with(what))
    }
}

#[test]
fn the_best_width_is_found_and_looking_costs_little() {
    let programs: [&[f64]; 6] = [
        &[1200.0, 2300.0],
        &[900.0, 500.0],
        &[1200.0, 2000.0, 1800.0, 900.0],
        &[1200.0, 2300.0, 2000.0, 1400.0, 900.0, 700.0, 500.0, 400.0],
        &[
            1000.0, 1900.0, 2700.0, 3300.0, 3500.0, 3600.0, 3700.0, 3800.0,
        ],
        &[
            1200.0, 2300.0, 3000.0, 3300.0, 3500.0, 3300.0, 2900.0, 2500.0,
        ],
    ];
    for rates in programs {
        for counters in [true, false] {
            let mut run = Run::new(rates.len(), counters);
            let program = Program::new(rates);
            // One thread at first, as in most programs.
            let begin = Program {
                waiting: 1,
                ..Program::new(rates)
            };
            run.go(&begin, 4);
            run.go(&program, 10);
            let reached = run.go(&program, 200);
            let best = rates.iter().copied().fold(0.0, f64::max);
            // Not each width is tried: 5 and 7 of 8 are not.
            assert!(reached > 0.92 * best, "{rates:?}, {counters}: {reached}");
        }
    }
}

#[test]
fn a_program_that_scales_is_left_alone() {
    let rates = [
        1000.0, 1900.0, 2700.0, 3300.0, 3500.0, 3600.0, 3700.0, 3800.0,
    ];
    for (counters, misses) in [(true, 2), (true, 50), (false, 2)] {
        let mut run = Run::new(8, counters);
        let program = Program {
            misses: Some(misses),
            noise: 0.0,
            ..Program::new(&rates)
        };
        let reached = run.go(&program, 100);
        assert!(reached > 0.995 * 3800.0, "{counters}, {misses}: {reached}");
        assert_eq!(run.says("probing"), !(counters && misses == 2));
    }
}

#[test]
fn widths_above_half_are_not_probed_if_half_leaves_nothing_to_win() {
    // One thread alone is much faster than each of several, so it bounds nothing.
    let threads = |half| [1500.0, half, 2700.0, 3000.0];
    for (half, probes) in [(1500.0, false), (2300.0, true)] {
        let mut run = Run::new(4, true);
        let rates = threads(half);
        run.go(&Program::new(&rates), 100);
        let figures = |width: usize| format!("probing: width {width},");
        assert!(run.says(&figures(2)), "{half}");
        assert_eq!(run.says(&figures(3)), probes, "{half}");
    }
}

#[test]
fn a_probe_waits_for_four_windows_while_few_threads_wait() {
    let rates = [1200.0, 2000.0, 1000.0, 500.0];
    for (waiting, first) in [(8, 2), (7, 5)] {
        let mut run = Run::new(4, true);
        let program = Program {
            waiting,
            ..Program::new(&rates)
        };
        run.go(&program, 4);
        let probe = run.said.iter().position(|one| one.starts_with("probing"));
        // The first call ends the first turn, which lasts a period.
        assert_eq!(probe, Some(first - 1), "{waiting}: {:?}", &run.said[..8]);
    }
}

#[test]
fn more_threads_than_can_run_at_the_same_time_begin_only_if_they_are_better() {
    let equal: &[f64] = &[
        1000.0, 1900.0, 1900.0, 1900.0, 1900.0, 1900.0, 1900.0, 1900.0,
    ];
    let apart: &[f64] = &[1000.0, 650.0, 650.0, 650.0, 650.0, 650.0, 650.0, 650.0];
    let blocking: &[f64] = &[
        500.0, 1000.0, 1400.0, 1800.0, 1900.0, 1950.0, 2000.0, 2100.0,
    ];
    for (rates, best) in [(equal, 1900.0), (apart, 1000.0), (blocking, 2100.0)] {
        let mut run = Run::new(8, false);
        let site = GovernorSite {
            at_once: 2,
            ..run.governor.site
        };
        run.governor = Hold::new(&site, run.governor.settings);
        run.go(&Program::new(rates), 20);
        let reached = run.go(&Program::new(rates), 100);
        assert!(reached > 0.95 * best, "{rates:?}: {reached}");
    }
}

#[test]
fn threads_that_slow_each_other_down_make_room() {
    let rates = [1000.0, 1900.0, 2700.0, 3300.0];
    for conflict in [0.5, 0.1] {
        let mut run = Run::new(4, true);
        let program = Program {
            conflict,
            ..Program::new(&rates)
        };
        run.go(&program, 20);
        let reached = run.go(&program, 100);
        assert!(run.says("slow together"), "{conflict}");
        // Turns of a period each would do a quarter of the time at the lower rate.
        assert!(reached > 0.92 * 3300.0, "{conflict}: {reached}");
    }
}

#[test]
fn threads_take_turns_unless_others_block() {
    let rates = [1000.0, 1900.0, 2700.0, 3300.0];
    let mut run = Run::new(4, true);
    // The first turns are short; the longest ones take 64 periods.
    run.go(&Program::new(&rates), 4);
    assert!(run.ran[..12].iter().all(|&ran| ran >= PERIOD / 2));
    run.go(&Program::new(&rates), 15 * 64);
    let (least, most) = (run.ran.iter().min(), run.ran.iter().max());
    assert!(
        least.is_some_and(|&least| least >= 14 * PERIOD),
        "{least:?}"
    );
    assert!(
        most.is_some_and(|&most| most <= 2 * 64 * PERIOD),
        "{most:?}"
    );
    // From now on one thread less waits at each call.
    let threads = [Activity {
        work: 800,
        ..Activity::default()
    }; 4];
    for waiting in (8..60).rev() {
        let plan = run.governor.plan(&Period {
            time: WINDOW,
            threads: &threads,
            waiting,
        });
        assert_eq!(plan.order, Order::Kept, "{waiting}");
    }
}

#[test]
fn each_phase_has_its_width() {
    let thrashing = Program::new(&[1200.0, 2000.0, 1000.0, 500.0]);
    let scaling = Program::new(&[1200.0, 2300.0, 3100.0, 3600.0]);
    for counters in [true, false] {
        let mut run = Run::new(4, counters);
        for _ in 0..5 {
            let one = run.go(&thrashing, 20);
            assert!(one > 1800.0, "{counters}: {one}");
            let other = run.go(&scaling, 20);
            assert!(other > 3100.0, "{counters}: {other}");
        }
    }
}

#[test]
fn windows_in_which_threads_ran_out_belong_to_no_width() {
    let mut run = Run::new(4, true);
    let program = Program::new(&[1200.0, 2000.0, 1000.0, 500.0]);
    run.go(&program, 20);
    let width = run.plan.width;
    assert_eq!(width, 2);
    let idle = [Activity {
        work: 1,
        idle: 900,
        cache: None,
    }; 4];
    for _ in 0..100 {
        let plan = run.governor.plan(&Period {
            time: 1000,
            threads: &idle,
            waiting: 64,
        });
        assert_eq!(plan.width, width);
    }
}

#[test]
fn a_single_thread_and_the_shortest_period_have_nothing_to_decide() {
    for threads in [1, 8] {
        let site = GovernorSite {
            threads,
            at_once: threads,
            period: 1,
        };
        let mut governor = Hold::new(&site, Settings::default());
        let activity = vec![Activity::default(); threads];
        for waiting in [0, 1, 2, 9, 0] {
            let plan = governor.plan(&Period {
                time: 0,
                threads: &activity,
                waiting,
            });
            assert_eq!((plan.width, plan.next_call), (threads, 1));
        }
        assert_ne!(governor.why().to_string(), "");
    }
}

#[test]
fn a_program_that_was_stopped_in_a_probe_is_probed_again() {
    let mut run = Run::new(4, true);
    run.go(&Program::new(&[1200.0, 2300.0, 3100.0, 3600.0]), 1);
    let threads = [Activity {
        work: 900,
        ..Activity::default()
    }; 4];
    let mut window = |time| {
        run.governor.plan(&Period {
            time,
            threads: &threads,
            waiting: 64,
        })
    };
    let probes = (0..1000).any(|_| window(WINDOW).width < 4);
    assert!(probes);
    // It stops for 15,000 periods.
    window(1_000_000 * WINDOW);
    let thrashing = Program::new(&[1200.0, 2000.0, 1000.0, 500.0]);
    run.go(&thrashing, 20);
    let reached = run.go(&thrashing, 20);
    assert!(reached > 1800.0, "{reached}");
}

#[test]
fn memory_is_bounded_whatever_parts_come() {
    let mut run = Run::new(4, false);
    let mut work = 1.0_f64;
    for call in 0..200_000_u64 {
        // A barrier opens now and then, behind a part whose work has not been seen before.
        let waiting = if call % 50 == 0 { 64 } else { 8 };
        work = if call % 50 == 0 {
            work * 1.07 % 1e15 + 1.0
        } else {
            work
        };
        let threads = [Activity {
            work: work as u64,
            ..Activity::default()
        }; 4];
        run.governor.plan(&Period {
            time: WINDOW << (call % 40),
            threads: &threads,
            waiting,
        });
    }
    let (kinds, marks) = run.governor.orders.remembered();
    assert!((2..=64).contains(&kinds), "{kinds}");
    assert!(marks <= 1 << 16, "{marks}");
}
