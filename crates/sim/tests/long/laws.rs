//! The simulated engine keeps the scheduling laws under every registered policy, and every policy answers as its obvious model does.

use proptest::prelude::*;
use tanada_laws::{Event, Graph, Log, Promises, any_graph, check, model, replay};
use tanada_policy::{Origin, Wake, WorkerId, registry};
use tanada_sim::{Machine, Observer, Options, Run, machines, simulate};
use tanada_trace::{Groups, Trace};

/// Writes everything down.
struct Logger(Vec<Event>);

impl Observer for Logger {
    fn ready(&mut self, task: u32, on: WorkerId) {
        let task = task as usize;
        self.0.push(Event::Ready { task, on });
    }
    fn given(&mut self, worker: WorkerId, task: u32, origin: Origin, _at: u64) {
        let task = task as usize;
        self.0.push(Event::Start {
            task,
            worker,
            origin,
        });
    }
    fn idle(&mut self, worker: WorkerId, _at: u64) {
        self.0.push(Event::Idle { worker });
    }
    fn ended(&mut self, run: &Run) {
        let (task, worker) = (run.task as usize, WorkerId(run.core));
        self.0.push(Event::End { task, worker });
    }
    fn wake(&mut self, whom: Wake) {
        self.0.push(Event::Wake(whom));
    }
}

fn trace(graph: &Graph) -> Trace {
    let mut text = String::from("tanada-trace 1\n");
    for (number, task) in graph.tasks().iter().enumerate() {
        let h = &task.hints;
        text += &format!(
            "task {number} T={} S={} depth={} h:code={}\nx {}\n",
            h.t, h.s, h.depth, h.code, task.duration
        );
        text += &format!("r {} 8\n", number * 40);
    }
    for (number, task) in graph.tasks().iter().enumerate() {
        for to in &task.successors {
            text += &format!("dep {number} {to}\n");
        }
    }
    Trace::parse(text.as_bytes(), "graph", &Groups::Plain).expect("a sound trace")
}

/// Durations as the machine has them: the model of a policy that looks at the graph needs them.
fn with_durations(graph: &Graph, machine: &Machine) -> Graph {
    let mut timed = Graph::default();
    for task in graph.tasks() {
        timed.add(
            task.hints,
            task.duration + machine.dispatch_cycles + machine.hit_cycles,
        );
    }
    for (number, task) in graph.tasks().iter().enumerate() {
        task.successors
            .iter()
            .for_each(|&to| timed.edge(number, to));
    }
    timed
}

/// The machines of the uniform model, in which idle cores ask after every end: what the models are made for.
fn uniform() -> Vec<Machine> {
    let all = machines::all().map(|shipped| shipped.machine());
    all.filter(|machine| machine.model.as_str() == "uniform")
        .collect()
}

fn lawful(graph: &Graph, machine: &Machine, seed: u64) -> Result<(), String> {
    let trace = trace(graph);
    let graph = &with_durations(graph, machine);
    for entry in registry::all() {
        let mut logger = Logger(Vec::new());
        let options = Options {
            seed: Some(seed),
            ..Options::default()
        };
        let explain = |what: String, log: &[Event]| {
            format!(
                "{} on {} of {} cores: {what}\n{graph:#?}\n{log:#?}",
                entry.name, machine.name, machine.cores
            )
        };
        simulate(&trace, machine, entry.name, &options, &mut logger)
            .map_err(|wrong| explain(wrong.to_string(), &logger.0))?;
        let log = Log {
            workers: machine.cores,
            events: logger.0,
        };
        check(
            graph,
            &log,
            Promises {
                greedy: entry.greedy,
            },
        )
        .map_err(|wrong| explain(wrong.to_string(), &log.events))?;
        let mut model = model(entry.name, graph, &machine.placement(), seed)
            .ok_or("every policy has a model")?;
        replay(graph, &log, model.as_mut()).map_err(|wrong| explain(wrong, &log.events))?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn every_policy_keeps_the_laws_on_every_machine(
        graph in any_graph(40),
        machine in 0_usize..100,
        cores in 1_u16..9,
        seed in 0_u64..3,
        dispatch in 0_u64..9,
    ) {
        let machines = uniform();
        let machine = machines[machine % machines.len()].with_cores(cores).expect("few lines");
        let machine = machine.overridden(&[format!("dispatch_cycles={dispatch}")]).expect("sound");
        lawful(&graph, &machine, seed).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn small_graphs_keep_the_laws() {
    let machines = uniform();
    for edges in 0..Graph::edge_sets(4) {
        let mut graph = Graph::default();
        for number in 0..4 {
            graph.add(
                tanada_policy::Hints::groups(number % 3, (number + 1) % 3),
                u64::from(number % 2),
            );
        }
        graph.set_edges(edges);
        let machine = machines[edges as usize % machines.len()]
            .with_cores(1 + (edges % 3) as u16)
            .expect("few lines");
        lawful(&graph, &machine, 0).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

#[test]
fn pairs_and_packages_are_near_and_far() {
    let machine = Machine::parse(
        "name = \"pairs\"\nmodel = \"uniform\"\ncores = 8\nhit_cycles = 1\ndispatch_cycles = 0\ncoherence = \"none\"\n\
         cores_per_cluster = 2\ncores_per_socket = 4\n[[cache]]\nlevel = 2\nkind = \"unified\"\nper = \"cluster\"\nsize = \"4K\"\n\
         ways = 1\nline = 64\nreplacement = \"lru\"\nmiss_cycles = 1\n",
        "pairs.toml",
    );
    let placement = machine.expect("a sound machine").placement();
    let far = |core| placement.distance(WorkerId(0), WorkerId(core));
    let steps = [far(1), far(2), far(4)];
    assert!(steps.is_sorted_by(|a, b| a < b), "{steps:?}");
}
