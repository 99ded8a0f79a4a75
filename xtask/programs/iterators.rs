//! Loops of rayon's own iterators, and regions: a program of `cargo xtask rayon-programs`. Standard output has what they computed, standard
//! error the least time of each in nanoseconds. Arguments name the parts that run, by default all.

use rayon::prelude::*;
use std::time::{Duration, Instant};

const MANY: usize = 10_000_000;
const FEW: usize = 1_000;

/// Prints a result of `work` and its least time in some rounds. `prepare` is not timed.
fn measure<I, R: std::fmt::Display>(
    name: &str,
    times: u32,
    mut prepare: impl FnMut() -> I,
    mut work: impl FnMut(I) -> R,
) {
    let mut wanted = std::env::args().skip(1);
    if wanted.len() > 0 && !wanted.any(|part| part == name) {
        return;
    }
    let mut best = Duration::MAX;
    let mut result = None;
    for _ in 0..5 {
        for _ in 0..times.div_ceil(5) {
            let input = prepare();
            let start = Instant::now();
            let now = work(input);
            best = best.min(start.elapsed());
            result = Some(now);
        }
    }
    println!("{name} {}", result.expect("at least one round"));
    eprintln!("{name} {}", best.as_nanos());
}

/// Returns a number that looks random.
fn mixed(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 31)
}

/// Collatz's steps from `number`: an uneven amount of work.
fn steps(mut number: u64) -> u64 {
    let mut steps = 0;
    while number > 1 {
        number = if number % 2 == 0 { number / 2 } else { 3 * number + 1 };
        steps += 1;
    }
    steps
}

fn digest(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0, |sum, &number| sum.wrapping_mul(31).wrapping_add(number))
}

fn main() {
    let numbers: Vec<u64> = (0..MANY as u64).map(|at| mixed(at * 0x9e37_79b9)).collect();
    let few = &numbers[..FEW];
    let sum = |numbers: &[u64]| numbers.par_iter().map(|&n| mixed(n)).reduce(|| 0, u64::wrapping_add);
    // The threads start now.
    let start = Instant::now();
    sum(few);
    eprintln!("start {}", start.elapsed().as_nanos());
    measure("map-reduce", 25, || (), |()| sum(&numbers));
    measure("uneven", 10, || (), |()| {
        (0..MANY as u64 / 10).into_par_iter().map(steps).sum::<u64>()
    });
    measure("filter-collect", 15, || (), |()| {
        let odd: Vec<u64> = numbers.par_iter().copied().filter(|n| n % 3 == 0).collect();
        digest(&odd)
    });
    measure("sort", 5, || numbers.clone(), |mut all| {
        all.par_sort();
        all[MANY / 3]
    });
    measure("sort-unstable", 10, || numbers.clone(), |mut all| {
        all.par_sort_unstable();
        all[MANY / 3]
    });
    measure("chunks", 25, || (), |()| {
        numbers.par_chunks(1000).map(digest).reduce(|| 0, u64::wrapping_add)
    });
    measure("region outside", 2_000, || (), |()| sum(few));
    // All regions in one closure: its caller is a worker.
    rayon::scope(|_| {
        measure("region inside", 20_000, || (), |()| sum(few));
        measure("nested", 200, || (), |()| {
            (0..100_u64)
                .into_par_iter()
                .map(|_| few[..100].par_iter().map(|&n| mixed(n)).reduce(|| 0, u64::wrapping_add))
                .reduce(|| 0, u64::wrapping_add)
        });
    });
}
