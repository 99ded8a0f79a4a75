//! Programs as curves: how much work so many threads do per time, under each order.

use super::*;
use crate::{Activity, CacheUse, WorkerId, draw};

const PERIOD: u64 = 8000;

struct Program<'a> {
    /// Work of 1000 units of time at each width, from 1 on.
    rates: &'a [f64],
    /// What the order of creation multiplies it by.
    by_number: f64,
    noise: f64,
    waiting: usize,
    misses: Option<u64>,
}

impl<'a> Program<'a> {
    fn new(rates: &'a [f64]) -> Program<'a> {
        Program {
            rates,
            by_number: 1.0,
            noise: 0.02,
            waiting: 64,
            misses: Some(50),
        }
    }
}

struct Run {
    governor: Hold,
    plan: Plan,
    sorted: bool,
    calls: u64,
    said: Vec<String>,
}

impl Run {
    fn new(threads: usize, counters: bool) -> Run {
        let site = GovernorSite {
            threads,
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
            sorted: false,
            calls: 0,
            said: Vec::new(),
        }
    }

    /// Returns work per 1000 units of time.
    fn go(&mut self, program: &Program<'_>, periods: u64) -> f64 {
        let (mut time, mut done) = (0, 0.0);
        while time < periods * PERIOD {
            self.calls += 1;
            let noise = draw(1, WorkerId(0), self.calls) % 1000;
            let noise = 1.0 - program.noise * noise as f64 / 1000.0;
            let ran = self.plan.width.min(program.waiting);
            let order = if self.sorted { program.by_number } else { 1.0 };
            let rate = program.rates[ran - 1] * noise * order;
            let work = rate * self.plan.next_call as f64 / 1000.0;
            let mut threads = vec![Activity::default(); program.rates.len()];
            for (number, thread) in threads.iter_mut().enumerate() {
                if number >= ran {
                    thread.idle = self.plan.next_call;
                }
                thread.cache = program.misses.map(|misses| CacheUse {
                    accesses: 1000,
                    misses,
                });
            }
            threads[0].work = work as u64;
            (time, done) = (time + self.plan.next_call, done + work);
            self.plan = self.governor.plan(&Period {
                time: self.plan.next_call,
                threads: &threads,
                waiting: program.waiting,
            });
            assert!((1..=threads.len()).contains(&self.plan.width));
            self.sorted = match self.plan.order {
                Order::ByNumber => true,
                Order::Restored => false,
                Order::Fifo | Order::Kept => self.sorted,
            };
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
            run.go(&program, 50);
            let reached = run.go(&program, 1000);
            let best = rates.iter().copied().fold(0.0, f64::max);
            assert!(reached > 0.95 * best, "{rates:?}, {counters}: {reached}");
        }
    }
}

#[test]
fn a_program_that_scales_is_left_alone() {
    let rates = [
        1000.0, 1900.0, 2700.0, 3300.0, 3500.0, 3600.0, 3700.0, 3800.0,
    ];
    for (counters, misses) in [(true, 5), (true, 50), (false, 5)] {
        let mut run = Run::new(8, counters);
        let program = Program {
            misses: Some(misses),
            noise: 0.0,
            ..Program::new(&rates)
        };
        let reached = run.go(&program, 300);
        assert!(reached > 0.99 * 3800.0, "{counters}, {misses}: {reached}");
        assert_eq!(run.says("probing"), !(counters && misses == 5));
    }
}

#[test]
fn the_order_that_is_better_is_held_and_the_other_given_up() {
    let rates = [1000.0, 1900.0, 2700.0, 3300.0];
    for (by_number, sorted) in [(1.3, true), (1.05, true), (0.97, false), (0.6, false)] {
        let mut run = Run::new(4, true);
        let program = Program {
            by_number,
            ..Program::new(&rates)
        };
        run.go(&program, 40);
        let reached = run.go(&program, 400);
        let best = 3300.0 * by_number.max(1.0);
        assert!(reached > 0.97 * best, "{by_number}: {reached} of {best}");
        assert_eq!(run.says("order of creation"), sorted, "{by_number}");
    }
}

#[test]
fn each_phase_has_its_width() {
    let thrashing = Program::new(&[1200.0, 2000.0, 1000.0, 500.0]);
    let scaling = Program::new(&[1200.0, 2300.0, 3100.0, 3600.0]);
    for counters in [true, false] {
        let mut run = Run::new(4, counters);
        for _ in 0..5 {
            let one = run.go(&thrashing, 100);
            assert!(one > 1700.0, "{counters}: {one}");
            let other = run.go(&scaling, 100);
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
        let site = GovernorSite { threads, period: 1 };
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
