//! What a task costs on 1 to 64 cores of a machine on which schedulers pay for every line that they touch.
//!
//! ```text
//! cargo run --release -p tanada-sim --example scaling -- [--machine M] [--cores N,...] [--policy P,...] [--graph G,...]
//!     [--body CYCLES] [--set KEY=VALUE]... [--threads N] [--json] [--picture FILE.svg]
//! ```
//!
//! A task's cost is cores x makespan / tasks; printed is what is left without its body, in cycles, and the ratio of whole costs of the last
//! and of the 4-core run. `--json` prints an object a run, in the order of the table.
//!
//! It takes minutes: `cargo xtask test` runs it with `--cores 1,4,64 --policy random-steal,ts-local`.

mod graphs;
mod picture;

use graphs::{GRAPHS, make};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tanada_policy::registry;
use tanada_sim::{Machine, Options, Outcome, machines, simulate};
use tanada_trace::{Groups, Trace};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

const HELP: &str = "\
What a task costs on 1 to 64 cores of a machine, beyond its body, in cycles (docs/simulator.md, \"Sixty-four cores\").

  --machine M         a machine that `tanada machines` names, or a file (epyc)
  --set KEY=VALUE     replaces a value of the machine; may be repeated
  --cores N,...       numbers of cores (1,2,4,8,16,32,64)
  --policy P,...      policies (all)
  --graph G,...       graphs (all)
  --body CYCLES       a task's body (3750)
  --threads N         host threads that simulate (as many as there are)
  --json              an object a run, one a line
  --picture FILE.svg  draws the curves, too";

/// What is run.
struct Wanted {
    machine: Machine,
    cores: Vec<u16>,
    policies: Vec<String>,
    graphs: Vec<String>,
    body: u64,
    threads: usize,
    json: bool,
    picture: Option<String>,
}

/// A result.
#[derive(Clone, Debug)]
struct Point {
    graph: usize,
    policy: usize,
    cores: u16,
    /// Cores x makespan / tasks, in cycles.
    cost: f64,
    outcome: Outcome,
}

fn wanted() -> Fallible<Wanted> {
    let names = |text: &str| Vec::from_iter(text.split(',').map(str::to_owned));
    let (mut machine, mut set) = ("epyc".to_owned(), Vec::new());
    let policies = registry::all().iter().map(|entry| entry.name.to_owned());
    let mut wanted = Wanted {
        machine: machines::find("epyc")?,
        cores: vec![1, 2, 4, 8, 16, 32, 64],
        policies: policies.collect(),
        graphs: GRAPHS.iter().map(|(name, _)| (*name).to_owned()).collect(),
        body: 3750,
        threads: std::thread::available_parallelism()?.get(),
        json: false,
        picture: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--machine" => machine = value()?,
            "--set" => set.push(value()?),
            "--cores" => {
                let numbers = value()?;
                wanted.cores = numbers
                    .split(',')
                    .map(str::parse)
                    .collect::<Result<_, _>>()?;
            }
            "--policy" => wanted.policies = names(&value()?),
            "--graph" => wanted.graphs = names(&value()?),
            "--body" => wanted.body = value()?.parse()?,
            "--threads" => wanted.threads = value()?.parse()?,
            "--json" => wanted.json = true,
            "--help" | "-h" => {
                println!("{HELP}");
                std::process::exit(0);
            }
            "--picture" => wanted.picture = Some(value()?),
            _ => return Err(format!("unknown argument {word}; --help names them").into()),
        }
    }
    wanted.machine = machines::find(&machine)?.overridden(&set)?;
    Ok(wanted)
}

fn main() -> Fallible<()> {
    let wanted = wanted()?;
    let traces = wanted.graphs.iter().map(|name| trace(name, wanted.body));
    let traces: Vec<Trace> = traces.collect::<Fallible<_>>()?;
    let points = run(&wanted, &traces)?;
    if wanted.json {
        for point in &points {
            println!("{}", json(&wanted, point));
        }
    } else {
        print(&wanted, &points);
    }
    if let Some(file) = &wanted.picture {
        std::fs::write(file, picture::draw(&wanted, &points)?)?;
    }
    Ok(())
}

/// Makes the trace of a graph.
fn trace(name: &str, body: u64) -> Fallible<Trace> {
    let found = GRAPHS.iter().find(|(graph, _)| *graph == name);
    let Some(&(_, graph)) = found else {
        let names = GRAPHS.map(|(name, _)| name).join(", ");
        return Err(format!("unknown graph {name}; the graphs are {names}").into());
    };
    let file = format!("tanada-scaling-{name}-{}.tnb", std::process::id());
    let path = std::env::temp_dir().join(file);
    make(&path, graph, body)?;
    let trace = Trace::open(&path, &Groups::Plain);
    std::fs::remove_file(&path)?;
    Ok(trace?)
}

/// Runs all of it on some host threads. The results do not depend on their number.
fn run(wanted: &Wanted, traces: &[Trace]) -> Fallible<Vec<Point>> {
    let mut jobs = Vec::new();
    for graph in 0..wanted.graphs.len() {
        for policy in 0..wanted.policies.len() {
            jobs.extend(wanted.cores.iter().map(|&cores| (graph, policy, cores)));
        }
    }
    let next = AtomicUsize::new(0);
    let results = Mutex::new(vec![None; jobs.len()]);
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(graph, policy, cores)) = jobs.get(number) else {
                break;
            };
            let point = point(wanted, &traces[graph], (graph, policy, cores));
            let point = point.map_err(|error| error.to_string());
            results.lock().expect("no thread panicked")[number] = Some(point);
        }
    };
    std::thread::scope(|scope| {
        (0..wanted.threads.max(1)).for_each(|_| {
            scope.spawn(work);
        });
    });
    let results = results.into_inner()?;
    let results = results.into_iter().flatten();
    Ok(results.collect::<Result<_, String>>()?)
}

fn point(
    wanted: &Wanted,
    trace: &Trace,
    (graph, policy, cores): (usize, usize, u16),
) -> Fallible<Point> {
    let machine = wanted.machine.with_cores(cores)?;
    let name = &wanted.policies[policy];
    let outcome = simulate(trace, &machine, name, &Options::default(), &mut ())?;
    let cost = f64::from(cores) * outcome.makespan as f64 / outcome.tasks as f64;
    Ok(Point {
        graph,
        policy,
        cores,
        cost,
        outcome,
    })
}

fn json(wanted: &Wanted, point: &Point) -> serde_json::Value {
    let outcome = &point.outcome;
    let sum = |part: fn(&tanada_sim::outcome::Stalls) -> u64| {
        outcome.stalls.iter().map(part).sum::<u64>()
    };
    serde_json::json!({
        "graph": wanted.graphs[point.graph],
        "policy": wanted.policies[point.policy],
        "machine": wanted.machine.name,
        "cores": point.cores,
        "body": wanted.body,
        "tasks": outcome.tasks,
        "makespan": outcome.makespan,
        "cycles_per_task": point.cost,
        "beyond_body": point.cost - wanted.body as f64,
        "scheduling_cycles": sum(|core| core.scheduling),
        "idle_cycles": sum(|core| core.idle),
        "bound_ratio": outcome.makespan as f64 / outcome.bound.max(1) as f64,
    })
}

fn print(wanted: &Wanted, points: &[Point]) {
    let rows = points.chunks(wanted.cores.len().max(1));
    let mut last = None;
    for row in rows {
        let (graph, policy) = (row[0].graph, row[0].policy);
        if last.replace(graph) != Some(graph) {
            println!(
                "\n{}: cycles a task beyond its body of {}",
                wanted.graphs[graph], wanted.body
            );
            let cores = wanted.cores.iter().map(|cores| format!("{cores:>9}"));
            println!("{:15}{} ratio", "cores", String::from_iter(cores));
        }
        let costs = row
            .iter()
            .map(|point| format!("{:>9.0}", point.cost - wanted.body as f64));
        let four = row.iter().find(|point| point.cores == 4);
        let ratio = row
            .last()
            .zip(four)
            .map_or(f64::NAN, |(last, four)| last.cost / four.cost);
        println!(
            "{:15}{} {ratio:>5.2}",
            wanted.policies[policy],
            String::from_iter(costs)
        );
    }
}
