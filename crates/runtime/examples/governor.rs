//! The governors `throughput` and `hold` beside every static number of workers, and what they cost.
//!
//! `cargo run --release -p tanada-runtime --example governor -- [ROUNDS] [SECONDS] [--log] [--governor NAME,...] [PROGRAM...]`
//!
//! Each round runs every program with 1, 2, 4 and 8 workers, and with as many under each governor, in turns, each time in a new pool, so
//! that the governor has learnt nothing. A run takes some SECONDS with the best static number. Printed are the least times of all
//! ROUNDS, and for each governed pool the ratio to the best static number that is not larger than its own. `--log` adds the decisions of
//! the last round; `--governor` names the governors. Without numbers it is 1 round of 0.1 s, which shows that it runs; figures need 3 of
//! 1 s.
//!
//! The programs, each as graphs of about 20 ms one after the other, of independent tasks of about 20 us:
//!
//! - `scale`: tasks compute in registers. As many workers as cores are best.
//! - `share`: tasks write all over one table that fits into a core's own cache. Two cores take its lines away from each other at almost
//!   every access, so one worker is best.
//! - `blocks` (only if it is named): eight chains of tasks, each chain on its own block of two thirds of the last-level cache: two at once
//!   exceed it. Whether one worker is best depends on how much of that cache other virtual machines leave to this one.
//! - `phases`: `scale` and `share` in turns of a quarter of the run each. No static number is best.
//! - `empty`: tasks that do nothing, with 1 worker: what the governor costs a task.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use tanada_runtime::{Decision, Pool, SGroup, TGroup, Template, TemplateBuilder};
use tanada_topology::Topology;

const WIDTHS: [u32; 4] = [1, 2, 4, 8];
const TASKS: u64 = 1000;
const CHAINS: u64 = 8;
const TABLE: usize = 32 << 10 >> 3;

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn compute(task: u64) {
    let mut state = task + 1;
    for _ in 0..8000 {
        random(&mut state);
    }
    std::hint::black_box(state);
}

/// Adds one to words all over `table`: `steps` times, one word of a line each. Which is next depends on the last one's value, so the
/// processor cannot begin with it before.
fn scatter(table: &[AtomicU64], task: u64, steps: usize) {
    let (mut state, lines) = (task + 1, table.len() as u64 / 8);
    for _ in 0..steps {
        let word = &table[(((random(&mut state) >> 32) * lines) >> 32) as usize * 8];
        let value = word.load(Relaxed);
        word.store(value + 1, Relaxed);
        state ^= value & 1;
        state |= 1 << 40; // never 0
    }
}

fn table(words: usize) -> Vec<AtomicU64> {
    (0..words).map(|_| AtomicU64::new(0)).collect()
}

/// Returns a graph of tasks that wait for nothing.
fn independent(body: impl Fn(u64) + Send + Sync + Clone + 'static) -> Template<'static, ()> {
    let mut builder = TemplateBuilder::new();
    for task in 0..TASKS {
        let body = body.clone();
        builder.task("task", task, move |(), _| body(task));
    }
    builder.build().expect("no edges, no cycle")
}

fn share() -> Template<'static, ()> {
    let words: &'static [AtomicU64] = table(TABLE).leak();
    independent(move |task| scatter(words, task, 4000))
}

fn blocks() -> Template<'static, ()> {
    let mut bytes = 0;
    if let Ok(topology) = Topology::detect() {
        topology.root().visit(&mut |object| {
            bytes = bytes.max(object.bytes.filter(|_| object.kind.is_cache()).unwrap_or(0))
        });
    }
    // 32 MiB if the size is unknown.
    let words = if bytes == 0 { 32 << 20 } else { bytes as usize } * 2 / 3 / 64 * 8;
    let mut builder = TemplateBuilder::new();
    for chain in 0..CHAINS {
        let words: &'static [AtomicU64] = table(words).leak();
        let mut before = None;
        for step in 0..TASKS / CHAINS {
            let task = chain * TASKS + step;
            let id = builder.task("step", task, move |(), _| scatter(words, task, 8000));
            builder.groups(id, TGroup(1), SGroup(1 + chain as u32));
            if let Some(before) = before.replace(id) {
                builder.edge(before, id);
            }
        }
    }
    builder.build().expect("chains have no cycle")
}

/// Graphs that are run one after the other: `.1` times `.0`, and so on.
struct Program {
    name: &'static str,
    parts: Vec<(Template<'static, ()>, u32)>,
    widths: &'static [u32],
}

impl Program {
    /// Returns the program `name`, which takes about `seconds` with the best static number of workers.
    fn new(name: &'static str, seconds: f64) -> Option<Program> {
        let whole = |template| vec![(template, 1.0)];
        let turns = || {
            let quarter = [independent(compute), share()];
            let again = [independent(compute), share()];
            quarter
                .into_iter()
                .chain(again)
                .map(|one| (one, 0.25))
                .collect()
        };
        let (parts, widths): (Vec<_>, &[u32]) = match name {
            "scale" => (whole(independent(compute)), &WIDTHS),
            "share" => (whole(share()), &WIDTHS),
            "blocks" => (whole(blocks()), &WIDTHS),
            "phases" => (turns(), &WIDTHS),
            "empty" => (whole(independent(|_| ())), &WIDTHS[..1]),
            _ => return None,
        };
        let parts = parts.into_iter().map(|(template, part)| {
            let best = [1, 2].map(|workers| time(&pool(workers, None), &[(&template, 20)]) / 20.0);
            let best = if widths.len() == 1 {
                best[0]
            } else {
                best[0].min(best[1])
            };
            (template, (seconds * part / best).ceil() as u32)
        });
        Some(Program {
            name,
            parts: parts.collect(),
            widths,
        })
    }

    fn run(&self, workers: u32, governor: Option<&str>) -> (f64, Vec<Decision>) {
        let pool = pool(workers, governor);
        let parts: Vec<_> = self
            .parts
            .iter()
            .map(|(graph, times)| (graph, *times))
            .collect();
        (time(&pool, &parts), pool.decisions())
    }
}

fn pool(workers: u32, governor: Option<&str>) -> Pool {
    let builder = Pool::builder().workers(workers);
    let pool = match governor {
        Some(name) => builder.governor(name).build(),
        None => builder.build(),
    };
    pool.unwrap_or_else(|error| {
        eprintln!("governor: {error}");
        std::process::exit(2)
    })
}

/// Returns the seconds that the pool takes.
fn time(pool: &Pool, parts: &[(&Template<'static, ()>, u32)]) -> f64 {
    let mut instances: Vec<_> = parts
        .iter()
        .map(|(graph, times)| (graph.instance(), *times))
        .collect();
    let start = Instant::now();
    for (instance, times) in &mut instances {
        (0..*times).for_each(|_| instance.run(pool, &()).expect("a run that ends"));
    }
    start.elapsed().as_secs_f64()
}

fn main() {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    let log = names
        .iter()
        .position(|name| name == "--log")
        .map(|at| names.remove(at));
    let mut governors = "throughput,hold".to_owned();
    if let Some(at) = names.iter().position(|name| name == "--governor") {
        names.remove(at);
        if at == names.len() {
            eprintln!("governor: --governor needs names, as in `--governor hold,throughput`");
            std::process::exit(2);
        }
        governors = names.remove(at);
    }
    let governors: Vec<&str> = governors.split(',').collect();
    let mut number = |default: f64| match names.first().and_then(|name| name.parse().ok()) {
        Some(number) => {
            names.remove(0);
            number
        }
        None => default,
    };
    let (rounds, seconds) = (number(1.0) as u32, number(0.1));
    let all = ["scale", "share", "blocks", "phases", "empty"];
    for name in all {
        let by_default = names.is_empty() && name != "blocks";
        if !by_default && !names.iter().any(|wanted| wanted == name) {
            continue;
        }
        let program = Program::new(name, seconds).expect("the name is in the list");
        measure(&program, rounds.max(1), &governors, log.is_some());
    }
}

/// What was measured of one number of workers.
struct Row {
    workers: u32,
    fixed: f64,
    /// The least time under each governor, and its decisions in the last round.
    governed: Vec<(f64, Vec<Decision>)>,
}

fn measure(program: &Program, rounds: u32, governors: &[&str], log: bool) {
    let row = |&workers| Row {
        workers,
        fixed: f64::INFINITY,
        governed: vec![(f64::INFINITY, Vec::new()); governors.len()],
    };
    let mut rows: Vec<Row> = program.widths.iter().map(row).collect();
    for _ in 0..rounds {
        for row in &mut rows {
            row.fixed = row.fixed.min(program.run(row.workers, None).0);
            for (name, (least, decisions)) in governors.iter().zip(&mut row.governed) {
                let (seconds, decided) = program.run(row.workers, Some(name));
                *least = least.min(seconds);
                *decisions = decided;
            }
        }
    }
    println!("{}:", program.name);
    let mut best = f64::INFINITY;
    for row in &rows {
        best = best.min(row.fixed);
        println!("  {} workers: static {:.3} s", row.workers, row.fixed);
        for (name, (seconds, decisions)) in governors.iter().zip(&row.governed) {
            let ratio = seconds / best;
            println!("    {name} {seconds:.3} s, {ratio:.3} of the best static");
            if log {
                decisions.iter().for_each(|one| println!("      {one}"));
            }
        }
    }
    let [row] = &rows[..] else { return };
    let tasks: u32 = program
        .parts
        .iter()
        .map(|(_, times)| times * TASKS as u32)
        .sum();
    for (name, (seconds, _)) in governors.iter().zip(&row.governed) {
        let cost = (seconds - row.fixed) / f64::from(tasks) * 1e9;
        println!("  {name} costs {cost:.2} ns a task");
    }
}
