//! Iterated recursions under several policies of forks: how long one takes, and how often a leaf meets the worker that it met before.
//!
//! ```text
//! cargo run --release -p tanada-runtime --example iterated -- [--workers N] [--rounds N] [--policies P,Q,...]
//!     [--only TEXT] [--outside] [--json]
//! ```
//!
//! The policies take turns in changing order, on the same memory, whose pages decide how well caches hold it. Each turn is a run of many
//! iterations, and the shortest run counts; beside it stands the median of the turns' ratios. A policy that is named twice is a control:
//! what its ratio to itself differs from 1 is noise.
//!
//! All programs fork down to pieces of some microseconds, and each computes the same bits under all policies. `stencil` is a heat equation
//! on rows of 4 KiB, for grids of several sizes, `uneven` one with four times the work in the rows of the first quarter; `matmul` is the
//! cache-oblivious product of square matrices in blocks of 32 x 32, added to the same result in each iteration.
//!
//! It takes minutes: `cargo xtask test` runs it with `--rounds 1`.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use tanada_runtime::{Pool, fork};

const HELP: &str = "\
Iterated recursions under several policies of forks.

  --workers N         workers (as many as there are hardware threads)
  --rounds N          turns of each policy (7)
  --policies P,Q,...  policies of forks, the first one is compared with the others (random,near-first,adws)
  --only TEXT         only problems whose names have this in them
  --outside           a thread that is no worker begins each iteration (else one worker begins them all)
  --json              an object a line

Example: cargo run --release -p tanada-runtime --example iterated -- --workers 2";

/// Cells of a row of the stencil: 4 KiB.
const WIDTH: usize = 1024;

/// Rows that one leaf of the stencil computes.
const ROWS: usize = 4;

/// Rows and columns of a block of a matrix.
const BLOCK: usize = 32;

/// Which worker ran each leaf the last time, and how often it was the same one.
struct Affinity {
    workers: Vec<AtomicU16>,
    same: AtomicU64,
    all: AtomicU64,
}

impl Affinity {
    fn new(leaves: usize) -> Self {
        Affinity {
            workers: (0..leaves).map(|_| AtomicU16::new(u16::MAX)).collect(),
            same: AtomicU64::new(0),
            all: AtomicU64::new(0),
        }
    }

    /// A leaf runs on this thread.
    fn note(&self, leaf: usize) {
        let me = fork::current_worker().map_or(0, |worker| worker.0);
        let before = self.workers[leaf].swap(me, Relaxed);
        if before != u16::MAX {
            self.same.fetch_add(u64::from(before == me), Relaxed);
            self.all.fetch_add(1, Relaxed);
        }
    }

    fn share(&self) -> f64 {
        self.same.load(Relaxed) as f64 / self.all.load(Relaxed).max(1) as f64
    }
}

/// A program that is run again and again on the same data.
trait Problem {
    fn name(&self) -> String;
    /// Bytes that an iteration touches.
    fn bytes(&self) -> usize;
    fn leaves(&self) -> usize;
    /// Stores what the data were at first.
    fn reset(&mut self);
    fn iterate(&mut self, affinity: &Affinity);
    /// A number that differs if a bit of the result does.
    fn digest(&self) -> u64;
}

fn digest(values: &[f32]) -> u64 {
    values.iter().fold(17, |sum: u64, value| {
        sum.rotate_left(5).wrapping_mul(0x9e37_79b9) ^ u64::from(value.to_bits())
    })
}

struct Stencil {
    rows: usize,
    /// The rows of the first quarter are computed as often as this.
    times: usize,
    from: Vec<f32>,
    to: Vec<f32>,
}

impl Stencil {
    fn new(rows: usize, times: usize) -> Self {
        let cells = vec![0.0; rows * WIDTH];
        Stencil {
            rows,
            times,
            to: cells.clone(),
            from: cells,
        }
    }
}

/// Computes the rows `to`, the first of which is row `first`.
fn step(from: &[f32], to: &mut [f32], first: usize, times: usize, affinity: &Affinity) {
    let rows = to.len() / WIDTH;
    if rows > ROWS {
        let upper = rows / 2;
        let (above, below) = to.split_at_mut(upper * WIDTH);
        fork::join(
            || step(from, above, first, times, affinity),
            || step(from, below, first + upper, times, affinity),
        );
        return;
    }
    affinity.note(first / ROWS);
    let all = from.len() / WIDTH;
    for (row, to) in (first..).zip(to.chunks_exact_mut(WIDTH)) {
        let line = |row: usize| &from[row * WIDTH..][..WIDTH];
        let (here, above) = (line(row), line(row.saturating_sub(1)));
        let below = line((row + 1).min(all - 1));
        let times = if row < all / 4 { times } else { 1 };
        for _ in 0..times {
            for at in 1..WIDTH - 1 {
                let beside = here[at - 1] + here[at + 1];
                to[at] = 0.5 * here[at] + 0.125 * (beside + above[at] + below[at]);
            }
            std::hint::black_box(&mut *to);
        }
    }
}

impl Problem for Stencil {
    fn name(&self) -> String {
        let name = if self.times == 1 { "stencil" } else { "uneven" };
        format!("{name} {} rows", self.rows)
    }
    fn bytes(&self) -> usize {
        2 * 4 * self.rows * WIDTH
    }
    fn leaves(&self) -> usize {
        self.rows / ROWS
    }
    fn reset(&mut self) {
        for (cell, value) in self.from.iter_mut().enumerate() {
            *value = (cell % 97) as f32;
        }
        self.to.copy_from_slice(&self.from);
    }
    fn iterate(&mut self, affinity: &Affinity) {
        step(&self.from, &mut self.to, 0, self.times, affinity);
        std::mem::swap(&mut self.from, &mut self.to);
    }
    fn digest(&self) -> u64 {
        digest(&self.from)
    }
}

/// Matrices whose quadrants, and those of these, lie one behind the other (Morton order) down to blocks.
struct Matmul {
    side: usize,
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
}

impl Matmul {
    /// `side`: a power of two of blocks.
    fn new(side: usize) -> Self {
        let zeros = vec![0.0; side * side];
        Matmul {
            side,
            a: zeros.clone(),
            b: zeros.clone(),
            c: zeros,
        }
    }
}

fn quarters(of: &[f32]) -> [&[f32]; 4] {
    let part = of.len() / 4;
    [0, 1, 2, 3].map(|quarter| &of[quarter * part..][..part])
}

/// Adds the product of `a` and `b` to `c`, which is the square of block number `first` in Morton order.
fn multiply(c: &mut [f32], a: &[f32], b: &[f32], first: usize, affinity: &Affinity) {
    if c.len() == BLOCK * BLOCK {
        affinity.note(first);
        for (row, line) in c.chunks_exact_mut(BLOCK).enumerate() {
            for k in 0..BLOCK {
                let factor = a[row * BLOCK + k];
                for (c, b) in line.iter_mut().zip(&b[k * BLOCK..][..BLOCK]) {
                    *c += factor * b;
                }
            }
        }
        return;
    }
    let blocks = c.len() / (4 * BLOCK * BLOCK);
    let ([a11, a12, a21, a22], [b11, b12, b21, b22]) = (quarters(a), quarters(b));
    let half = c.len() / 2;
    let quarter = half / 2;
    for (left, right) in [([a11, a21], [b11, b12]), ([a12, a22], [b21, b22])] {
        let (upper, lower) = c.split_at_mut(half);
        let row = |c: &mut [f32], a: &[f32], first: usize| {
            let (c1, c2) = c.split_at_mut(quarter);
            fork::join(
                || multiply(c1, a, right[0], first, affinity),
                || multiply(c2, a, right[1], first + blocks, affinity),
            );
        };
        fork::join(
            || row(upper, left[0], first),
            || row(lower, left[1], first + 2 * blocks),
        );
    }
}

impl Problem for Matmul {
    fn name(&self) -> String {
        format!("matmul {}", self.side)
    }
    fn bytes(&self) -> usize {
        3 * 4 * self.side * self.side
    }
    fn leaves(&self) -> usize {
        (self.side / BLOCK).pow(2)
    }
    fn reset(&mut self) {
        for (matrix, seed) in [(&mut self.a, 1), (&mut self.b, 2)] {
            for (at, value) in matrix.iter_mut().enumerate() {
                *value = ((at * 7 + seed) % 13) as f32 / 16.0;
            }
        }
        self.c.fill(0.0);
    }
    fn iterate(&mut self, affinity: &Affinity) {
        multiply(&mut self.c, &self.a, &self.b, 0, affinity);
    }
    fn digest(&self) -> u64 {
        digest(&self.c)
    }
}

fn problems() -> Vec<Box<dyn Fn() -> Box<dyn Problem + Send>>> {
    let mut all: Vec<Box<dyn Fn() -> Box<dyn Problem + Send>>> = Vec::new();
    for (times, sizes) in [(1, &[64, 192, 256, 512, 2048][..]), (4, &[192, 512, 2048])] {
        for &rows in sizes {
            all.push(Box::new(move || Box::new(Stencil::new(rows, times))));
        }
    }
    for side in [256, 512, 1024] {
        all.push(Box::new(move || Box::new(Matmul::new(side))));
    }
    all
}

/// Runs `iterations` iterations of `problem`. Returns the microseconds of one, and the share of leaves that met the same worker.
fn run(
    pool: &Pool,
    problem: &mut (dyn Problem + Send),
    iterations: u32,
    outside: bool,
) -> (f64, f64) {
    let affinity = Affinity::new(problem.leaves());
    let mut all = || {
        let mut once = || match outside {
            true => fork::install(pool, || problem.iterate(&affinity)),
            false => problem.iterate(&affinity),
        };
        // Caches are warm, and borders are learnt.
        (0..iterations / 4).for_each(|_| once());
        let start = Instant::now();
        (0..iterations).for_each(|_| once());
        start.elapsed().as_secs_f64()
    };
    let seconds = match outside {
        true => all(),
        false => fork::install(pool, all),
    };
    (seconds * 1e6 / f64::from(iterations), affinity.share())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut workers = u32::try_from(std::thread::available_parallelism()?.get())?;
    let (mut rounds, mut json, mut outside, mut only) = (7, false, false, String::new());
    let mut names = vec![
        "random".to_owned(),
        "near-first".to_owned(),
        "adws".to_owned(),
    ];
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--workers" => workers = value()?.parse()?,
            "--rounds" => rounds = value()?.parse()?,
            "--policies" => names = value()?.split(',').map(str::to_owned).collect(),
            "--only" => only = value()?,
            "--outside" => outside = true,
            "--json" => json = true,
            "--help" | "-h" => {
                println!("{HELP}");
                return Ok(());
            }
            _ => {
                return Err(
                    format!("unknown word {word}; --help lists those that there are").into(),
                );
            }
        }
    }
    let all: Vec<_> = problems().iter().map(|make| make().name()).collect();
    if !all.iter().any(|name| name.contains(&only)) {
        return Err(format!("no problem has {only} in its name: {}", all.join(", ")).into());
    }
    if !json {
        println!(
            "{workers} workers, shortest of {rounds} turns; microseconds an iteration, ratio to {}, median of the turns' ratios, \
             leaves on the same worker",
            names[0]
        );
    }
    for make in problems() {
        if !make().name().contains(&only) {
            continue;
        }
        let pools = names
            .iter()
            .map(|name| Pool::builder().workers(workers).policy(name).build());
        let pools: Vec<Pool> = pools.collect::<Result<_, _>>()?;
        let bytes = make().bytes();
        // With a quarter more, an even number: each buffer is what it was at first.
        let iterations = (400_000_000 / bytes).clamp(8, 2_000) as u32 / 8 * 8;
        let mut best = vec![(f64::INFINITY, 0.0); pools.len()];
        let mut ratios = vec![Vec::new(); pools.len()];
        let mut expected = None;
        let mut problem = make();
        for round in 0..rounds {
            let mut turns = vec![0.0; pools.len()];
            for turn in 0..pools.len() {
                let policy = (round + turn) % pools.len();
                problem.reset();
                let (micros, same) = run(&pools[policy], &mut *problem, iterations, outside);
                turns[policy] = micros;
                if micros < best[policy].0 {
                    best[policy] = (micros, same);
                }
                assert_eq!(
                    *expected.get_or_insert(problem.digest()),
                    problem.digest(),
                    "the results differ"
                );
            }
            for (ratios, micros) in ratios.iter_mut().zip(&turns) {
                ratios.push(micros / turns[0]);
            }
        }
        let name = problem.name();
        for ((policy, (micros, same)), ratios) in names.iter().zip(&best).zip(&mut ratios) {
            let ratio = micros / best[0].0;
            ratios.sort_by(f64::total_cmp);
            let median = ratios[ratios.len() / 2];
            if json {
                println!(
                    "{{\"problem\":\"{name}\",\"bytes\":{bytes},\"workers\":{workers},\"policy\":\"{policy}\",\
                     \"microseconds\":{micros:.2},\"ratio\":{ratio:.3},\"median_ratio\":{median:.3},\"same_worker\":{same:.3}}}"
                );
            } else {
                println!(
                    "{name:18} {:6} KiB  {policy:12} {micros:10.1} us  {ratio:5.3}  {median:5.3}  {:3.0}%",
                    bytes >> 10,
                    same * 100.0
                );
            }
        }
    }
    Ok(())
}
