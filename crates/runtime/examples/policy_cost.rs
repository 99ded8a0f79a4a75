//! What a task costs under each policy, beside its work: empty bodies, so all that is measured is the engine and the policy.
//!
//! `cargo run --release -p tanada-runtime --example policy_cost -- [ROUNDS] [POLICY...]`
//!
//! Each round runs every policy on every graph once, in turns; printed is the least time a task of all rounds, in nanoseconds of core time
//! (workers x time / tasks). The graphs:
//!
//! - `wavefront`: 120 x 68 tasks that wait for left, above and above right; two rows are a T group, a row is an S group.
//! - `cells=N`: N chains of tasks, each always with one task ready or running. With N = 1 a chain has one cell, (T1, S1). Otherwise chain
//!   number c has S group 1 + c mod 100, and its tasks go round the T groups, of which there are N / 100 or at least 1. So N cells hold
//!   tasks all the time.
//! - `one T, cells=N`: the same with N S groups in one T group.
use std::time::Instant;
use tanada_policy::registry;
use tanada_runtime::{Instance, Pool, SGroup, TGroup, Template, TemplateBuilder};

const COLUMNS: u32 = 120;
const ROWS: u32 = 68;

fn wavefront() -> Template<'static, ()> {
    let mut builder = TemplateBuilder::new();
    let mut ids = Vec::new();
    for at in 0..COLUMNS * ROWS {
        let (row, column) = (at / COLUMNS, at % COLUMNS);
        let id = builder.task("macroblock", u64::from(at), |(), _| ());
        builder.groups(id, TGroup(1 + row / 2), SGroup(1 + row));
        if column > 0 {
            builder.edge(ids[at as usize - 1], id);
        }
        if row > 0 {
            builder.edge(ids[(at - COLUMNS) as usize], id);
            if column + 1 < COLUMNS {
                builder.edge(ids[(at - COLUMNS) as usize + 1], id);
            }
        }
        ids.push(id);
    }
    builder.build().expect("a wavefront has no cycle")
}

fn chains(cells: u32, s_groups: u32) -> Template<'static, ()> {
    let t_groups = (cells / s_groups).max(1);
    let length = (40_000 / cells).max(4);
    let mut builder = TemplateBuilder::new();
    for chain in 0..cells {
        let mut before = None;
        for step in 0..length {
            let id = builder.task("link", u64::from(step), |(), _| ());
            let t = 1 + (chain / s_groups + step) % t_groups;
            builder.groups(id, TGroup(t), SGroup(1 + chain % s_groups));
            if let Some(before) = before {
                builder.edge(before, id);
            }
            before = Some(id);
        }
    }
    builder.build().expect("chains have no cycle")
}

struct Graph {
    name: String,
    tasks: u32,
    template: Template<'static, ()>,
}

fn graphs() -> Vec<Graph> {
    let graph = |name: String, template: Template<'static, ()>| Graph {
        name,
        tasks: template.tasks() as u32,
        template,
    };
    let mut graphs = vec![graph("wavefront".to_owned(), wavefront())];
    for cells in [1, 64, 10_000] {
        graphs.push(graph(format!("cells={cells}"), chains(cells, 100)));
    }
    for cells in [64, 10_000] {
        graphs.push(graph(format!("one T, cells={cells}"), chains(cells, cells)));
    }
    graphs
}

fn cost(pool: &Pool, instance: &mut Instance<'static, ()>, tasks: u32) -> f64 {
    let frames = vec![(); (80_000 / tasks).max(2) as usize];
    instance.run(pool, &()).expect("a run that ends");
    let start = Instant::now();
    instance.run_each(pool, &frames).expect("runs that end");
    let nanoseconds = start.elapsed().as_nanos() as f64;
    f64::from(pool.workers()) * nanoseconds / (f64::from(tasks) * frames.len() as f64)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let rounds = arguments
        .next()
        .map_or(5, |word| word.parse().expect("a number of rounds"));
    let mut policies: Vec<String> = arguments.collect();
    if policies.is_empty() {
        policies = registry::native()
            .iter()
            .map(|entry| entry.name.to_owned())
            .collect();
    }
    let graphs = graphs();
    for workers in [1, 2] {
        let mut least = vec![vec![f64::INFINITY; policies.len()]; graphs.len()];
        for _ in 0..rounds {
            for (column, policy) in policies.iter().enumerate() {
                let pool = Pool::builder().workers(workers).policy(policy).build();
                let pool = pool.expect("a registered policy");
                for (row, graph) in graphs.iter().enumerate() {
                    let mut instance = graph.template.instance();
                    let cost = cost(&pool, &mut instance, graph.tasks);
                    least[row][column] = least[row][column].min(cost);
                }
            }
        }
        println!("| workers={workers} | {} |", policies.join(" | "));
        for (graph, costs) in graphs.iter().zip(&least) {
            let costs: Vec<String> = costs.iter().map(|cost| format!("{cost:.0}")).collect();
            println!("| {} | {} |", graph.name, costs.join(" | "));
        }
    }
}
