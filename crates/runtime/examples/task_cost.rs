//! What a task costs, in the shapes that programs have: independent tasks, chains, trees, loops of registrations, wavefronts.
//!
//! `cargo run --release -p tanada-runtime --example task_cost -- [POLICY] [WORKERS] [SHAPE]`
//!
//! For each shape whose name contains SHAPE: the least time a task of all runs and the lower quartile, in nanoseconds of wall time. Bodies
//! are empty, or chains of multiplications. `big` (run only if it is named) registers 10^7 tasks by one loop, and prints how much memory
//! the process has had at most. `burst` (likewise) prints how much it has while 10^6 tasks wait for one, and how much is left behind them.

use std::hint::black_box;
use std::time::Instant;
use tanada_runtime::{DEFAULT_POLICY, Pool, Scope, TemplateBuilder, Token};

/// Tasks of a flat graph.
const FLAT: u64 = 10_000;

/// Tasks of a chain, a tree, a loop.
const DYNAMIC: u64 = 300_000;

/// Columns, rows and frames of a wavefront.
const COLUMNS: u64 = 120;
const ROWS: u64 = 68;
const FRAMES: u64 = 20;

fn body(multiplications: u64) {
    let mut x = multiplications;
    for _ in 0..multiplications {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // One after the other, not all at once.
        black_box(());
    }
    black_box(x);
}

fn chain(s: &Scope<'_>, at: u64) {
    if at < DYNAMIC {
        s.task("task").register(move |s| chain(s, at + 1));
    }
}

fn tree(s: &Scope<'_>, at: u64) {
    if at < DYNAMIC {
        s.task("task").register(move |s| {
            tree(s, 2 * at + 1);
            tree(s, 2 * at + 2);
        });
    }
}

fn leaves(s: &Scope<'_>, tasks: u64, multiplications: u64) {
    for _ in 0..tasks {
        s.task("task").register(move |_| body(multiplications));
    }
}

/// The places before `at` that its task waits for.
fn before(at: u64) -> impl Iterator<Item = usize> {
    let (column, row) = (at % COLUMNS, at / COLUMNS);
    let left = (column > 0).then(|| at - 1);
    let above = (row > 0 && column + 1 < COLUMNS).then(|| at - COLUMNS + 1);
    [left, above]
        .into_iter()
        .flatten()
        .map(|place| place as usize)
}

fn wavefront(s: &Scope<'_>) {
    let mut tokens: Vec<Token> = Vec::new();
    for at in 0..COLUMNS * ROWS {
        let task = s.task("task").after(before(at).map(|place| tokens[place]));
        tokens.push(task.register(|_| ()));
    }
}

/// Measures what is wanted on one pool.
struct Bench {
    pool: Pool,
    wanted: String,
}

impl Bench {
    fn shape(&self, name: &str, tasks: u64, runs: u32, mut run: impl FnMut()) {
        if !name.contains(&self.wanted) {
            return;
        }
        run();
        let mut times = Vec::new();
        for _ in 0..runs {
            let start = Instant::now();
            run();
            times.push(start.elapsed().as_nanos() as f64 / tasks as f64);
        }
        times.sort_by(f64::total_cmp);
        let (least, quarter) = (times[0], times[times.len() / 4]);
        let workers = self.pool.workers();
        println!("{workers} {name:30} {least:8.1} {quarter:8.1}");
    }

    /// As [`Bench::shape`], of a scope with this body.
    fn scope(&self, name: &str, tasks: u64, runs: u32, body: impl Fn(&Scope<'_>)) {
        let run = || self.pool.scope(|s| body(s)).expect("a graph that ends");
        self.shape(name, tasks, runs, run);
    }

    /// As [`Bench::scope`], of a scope with one task with this body.
    fn task(&self, name: &str, tasks: u64, runs: u32, body: fn(&Scope<'_>)) {
        self.scope(name, tasks, runs, |s| {
            s.task("all").register(body);
        });
    }
}

fn main() {
    let mut words = std::env::args().skip(1);
    let policy = words.next().unwrap_or_else(|| DEFAULT_POLICY.to_owned());
    let workers = words
        .next()
        .map_or(2, |word| word.parse().expect("a number of workers"));
    let pool = Pool::builder().workers(workers).policy(&policy).build();
    let bench = Bench {
        pool: pool.expect("a pool"),
        wanted: words.next().unwrap_or_default(),
    };
    println!("workers, shape, least ns a task, lower quartile");
    for (name, length) in [("0", 0), ("100 ns", 75), ("1 us", 760)] {
        let mut builder = TemplateBuilder::<()>::new();
        for at in 0..FLAT {
            builder.task("task", at, move |(), _| body(length));
        }
        let mut instance = builder.build().expect("no cycle").instance();
        let mut flat = |runs: usize| {
            let run = instance.run_each(&bench.pool, &vec![(); runs]);
            run.expect("runs that end");
        };
        bench.shape(&format!("flat template {name}"), FLAT, 60, || flat(1));
        bench.shape(&format!("flat run_each {name}"), 4 * FLAT, 20, || flat(4));
        let scope = format!("flat scope {name}");
        bench.scope(&scope, FLAT, 60, |s| leaves(s, FLAT, length));
    }
    bench.scope("dynamic chain", DYNAMIC, 5, |s| chain(s, 0));
    bench.scope("dynamic tree", DYNAMIC, 5, |s| tree(s, 0));
    bench.task("dynamic loop, worker", DYNAMIC, 5, |s| {
        leaves(s, DYNAMIC, 0)
    });
    bench.scope("dynamic loop, outside", DYNAMIC, 5, |s| {
        leaves(s, DYNAMIC, 0)
    });
    for (name, length) in [("0", 0), ("100 ns", 75), ("500 ns", 380)] {
        let mut builder = TemplateBuilder::<()>::new();
        let mut ids = Vec::new();
        for at in 0..COLUMNS * ROWS {
            let id = builder.task("task", at, move |(), _| body(length));
            for place in before(at) {
                builder.edge(ids[place], id);
            }
            ids.push(id);
        }
        let mut instance = builder.build().expect("no cycle").instance();
        let tasks = FRAMES * COLUMNS * ROWS;
        bench.shape(&format!("wavefront template {name}"), tasks, 30, || {
            let run = instance.run_each(&bench.pool, &[(); FRAMES as usize]);
            run.expect("runs that end");
        });
    }
    bench.task("wavefront scope, worker", COLUMNS * ROWS, 60, wavefront);
    bench.scope("wavefront scope, outside", COLUMNS * ROWS, 60, wavefront);
    if bench.wanted == "big" {
        const BIG: u64 = 10_000_000;
        bench.task("big loop, worker", BIG, 1, |s| leaves(s, BIG, 0));
        bench.scope("big loop, outside", BIG, 1, |s| leaves(s, BIG, 0));
        println!("{}", memory("VmHWM"));
    }
    if bench.wanted == "burst" {
        const BURST: u64 = 1_000_000;
        println!("before: {}", memory("VmRSS"));
        bench.scope("burst, outside", BURST, 1, |s| {
            let gate = s.task("gate").count(1).register(|_| ());
            for _ in 0..BURST {
                s.task("task").after([gate]).register(|_| ());
            }
            println!("pending: {}", memory("VmRSS"));
            s.resolve(gate).expect("a task that waits");
        });
        println!("behind: {}", memory("VmRSS"));
    }
}

/// Returns what the system says of the memory that the process has, or has had at most.
fn memory(which: &str) -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(which));
    line.unwrap_or("the system does not say how much memory was used")
        .to_owned()
}
