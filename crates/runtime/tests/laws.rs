//! The native engine keeps the scheduling laws under every registered policy, and exact policies answer as their obvious models do even
//! while many workers ask at once.

use parking_lot::Mutex;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::sync::Arc;
use std::time::Duration;
use tanada_laws::{Event, Graph, Log, Promises, any_graph, check, model, replay_pool};
use tanada_policy::central::{Central, Logged, Rule};
use tanada_policy::registry::{self, Entry, RuleVisitor};
use tanada_policy::{
    Dispatcher, Env, Governor, GovernorSite, Hints, Order, Origin, Period, Placement, Plan, Ready,
    Site, Why, WorkerId, draw,
};
use tanada_runtime::{
    NodeId, Observer, Pool, PoolBuilder, TaskView, TemplateBuilder, WorkerObserver,
};

/// Writes starts and ends down in one order.
#[derive(Clone, Default)]
struct Logger(Arc<Mutex<Vec<Event>>>);

struct LoggerWorker(Logger, WorkerId);

impl Observer for Logger {
    type Worker = LoggerWorker;
    fn worker(&self, worker: WorkerId) -> LoggerWorker {
        LoggerWorker(self.clone(), worker)
    }
}

impl WorkerObserver for LoggerWorker {
    fn start(&mut self, task: &TaskView, origin: Origin) {
        if task.name == OUTER {
            return;
        }
        let event = Event::Start {
            task: task.index as usize,
            worker: self.1,
            origin,
        };
        self.0.0.lock().push(event);
    }
    fn end(&mut self, task: &TaskView) {
        if task.name == OUTER {
            return;
        }
        let event = Event::End {
            task: task.index as usize,
            worker: self.1,
        };
        self.0.0.lock().push(event);
    }
}

impl Logger {
    fn take(&self, workers: u16) -> Log {
        Log {
            workers,
            events: std::mem::take(&mut *self.0.lock()),
        }
    }
}

/// The name of a task that runs a graph, and is no task of a graph that the laws know.
const OUTER: &str = "outer";

/// Runs `graph` by `run` inside of a task.
fn run_nested(pool: &Pool, graph: &Graph, run: fn(&Pool, &Graph)) {
    pool.scope(|s| {
        s.task(OUTER).register(|_| run(pool, graph));
    })
    .expect("a graph that ends");
}

/// Runs `graph` as a dynamic graph.
fn run_scope(pool: &Pool, graph: &Graph) {
    pool.scope(|s| {
        let mut tokens = Vec::new();
        for (number, task) in graph.tasks().iter().enumerate() {
            let before = graph.tasks()[..number].iter().zip(&tokens);
            let before: Vec<_> = before
                .filter(|(task, _)| task.successors.contains(&number))
                .map(|(_, token)| *token)
                .collect();
            let task = s
                .task("task")
                .index(number as u64)
                .hints(task.hints)
                .after(before);
            tokens.push(task.register(|_| std::hint::spin_loop()));
        }
    })
    .expect("a graph that ends");
}

/// Runs `graph` as a template, `times` times.
fn run_template(pool: &Pool, graph: &Graph, times: usize) {
    let mut builder = TemplateBuilder::<()>::new();
    let ids: Vec<NodeId> = (0..graph.len() as u64)
        .map(|at| builder.task("task", at, |(), _| std::hint::spin_loop()))
        .collect();
    for (task, &id) in graph.tasks().iter().zip(&ids) {
        builder.hints(id, task.hints);
        for &next in &task.successors {
            builder.edge(id, ids[next]);
        }
    }
    let template = builder.build().expect("no cycle");
    let mut instance = template.instance();
    (0..times).for_each(|_| instance.run(pool, &()).expect("a run that ends"));
}

#[test]
fn every_policy_keeps_the_laws() {
    for entry in registry::native() {
        for workers in [1, 2, 4, 16, 64] {
            let logger = Logger::default();
            let pool = Pool::builder()
                .workers(workers)
                .policy(entry.name)
                .seed(3)
                .observer(logger.clone())
                .build()
                .expect("a pool");
            let promises = Promises {
                greedy: entry.greedy,
            };
            let held = |graph: &Graph| {
                let log = logger.take(workers as u16);
                check(graph, &log, promises).map_err(|violation| {
                    TestCaseError::fail(format!("{} on {workers} workers: {violation}", entry.name))
                })
            };
            let mut runner =
                TestRunner::new(Config::with_cases(if workers < 16 { 60 } else { 15 }));
            let outcome = runner.run(&any_graph(60), |graph| {
                run_scope(&pool, &graph);
                held(&graph)?;
                run_template(&pool, &graph, 1);
                held(&graph)?;
                run_nested(&pool, &graph, run_scope);
                held(&graph)?;
                run_nested(&pool, &graph, |pool, graph| run_template(pool, graph, 1));
                held(&graph)
            });
            outcome.unwrap_or_else(|failure| panic!("{failure}"));
        }
    }
}

/// Chooses another number of active workers at each call.
struct Restless {
    site: GovernorSite,
    calls: u64,
}

impl Governor for Restless {
    fn plan(&mut self, _period: &Period<'_>) -> Plan {
        self.calls += 1;
        let random = draw(5, WorkerId(0), self.calls);
        Plan {
            width: 1 + random as usize % self.site.threads,
            order: Order::Fifo,
            next_call: 1 + (random >> 32) % self.site.period,
        }
    }
    fn why(&self) -> Why {
        Why {
            what: "restless",
            figures: vec![("calls", self.calls as f64)],
        }
    }
}

#[test]
fn every_policy_keeps_the_laws_while_the_number_of_active_workers_changes() {
    for entry in registry::native() {
        for workers in [2, 4, 16] {
            let logger = Logger::default();
            let pool = Pool::builder()
                .workers(workers)
                .policy(entry.name)
                .observer(logger.clone())
                .governor_with(|&site| Box::new(Restless { site, calls: 0 }))
                .governor_period(Duration::from_micros(20))
                .build()
                .expect("a pool");
            let promises = Promises {
                greedy: entry.greedy,
            };
            let held = |graph: &Graph| {
                let log = logger.take(workers as u16);
                check(graph, &log, promises).map_err(|violation| {
                    TestCaseError::fail(format!("{} on {workers} workers: {violation}", entry.name))
                })
            };
            let mut runner = TestRunner::new(Config::with_cases(25));
            let outcome = runner.run(&any_graph(60), |graph| {
                run_scope(&pool, &graph);
                held(&graph)?;
                run_template(&pool, &graph, 1);
                held(&graph)?;
                run_nested(&pool, &graph, run_scope);
                held(&graph)?;
                run_nested(&pool, &graph, |pool, graph| run_template(pool, graph, 1));
                held(&graph)
            });
            outcome.unwrap_or_else(|failure| panic!("{failure}"));
            let changes = pool.decisions().len();
            assert!(changes >= 3, "{changes} changes under {}", entry.name);
        }
    }
}

/// A shared pool that leaves its record behind.
struct Recording<R: Rule> {
    inner: Central<R, Vec<Logged>>,
}

static RECORD: Mutex<Vec<Logged>> = Mutex::new(Vec::new());

impl<R: Rule> Drop for Recording<R> {
    fn drop(&mut self) {
        *RECORD.lock() = self.inner.take_record();
    }
}

impl<R: Rule> Dispatcher for Recording<R> {
    type Local = <Central<R, Vec<Logged>> as Dispatcher>::Local;
    fn build(site: &Site<'_>) -> (Self, Vec<Self::Local>) {
        let (inner, locals) = Central::build(site);
        (Recording { inner }, locals)
    }
    fn inject<E: Env>(&self, env: &mut E, task: Ready) {
        self.inner.inject(env, task);
    }
    fn ready<E: Env>(&self, local: &mut Self::Local, env: &mut E, task: Ready) {
        self.inner.ready(local, env, task);
    }
    fn next<E: Env>(&self, local: &mut Self::Local, env: &mut E) -> Option<(Ready, Origin)> {
        self.inner.next(local, env)
    }
    fn turn<E: Env>(
        &self,
        local: &mut Self::Local,
        env: &mut E,
        released: &mut Vec<Ready>,
    ) -> Option<(Ready, Origin)> {
        self.inner.turn(local, env, released)
    }
    fn may_have(&self, worker: WorkerId) -> bool {
        self.inner.may_have(worker)
    }
}

struct BuildRecording(PoolBuilder);

impl RuleVisitor for BuildRecording {
    type Out = Pool;
    fn visit<R: Rule>(self, entry: &'static Entry) -> Pool {
        self.0
            .build_with::<Recording<R>>(entry.name)
            .expect("a pool")
    }
}

#[test]
fn exact_rules_hold_while_workers_race() {
    // A lattice in which up to 40 tasks are ready at once, in groups that collide.
    let mut graph = Graph::default();
    const WIDTH: usize = 40;
    for at in 0..WIDTH * 25 {
        graph.add(
            Hints::groups((at / WIDTH / 3) as u32 % 6, (at % WIDTH / 4) as u32 % 7),
            1,
        );
        if at >= WIDTH {
            graph.edge(at - WIDTH, at);
            if at % WIDTH > 0 {
                graph.edge(at - WIDTH - 1, at);
            }
        }
    }
    let mut exact = 0;
    for entry in registry::native() {
        for workers in [1, 2, 4, 16, 64] {
            let builder = Pool::builder().workers(workers);
            let Some(pool) = registry::with_rule(entry.name, BuildRecording(builder))
                .expect("a registered name")
            else {
                continue;
            };
            run_template(&pool, &graph, 4);
            run_scope(&pool, &graph);
            drop(pool);
            let record = std::mem::take(&mut *RECORD.lock());
            assert!(
                record.len() >= 2 * 5 * graph.len(),
                "{} on {workers} workers left {} events",
                entry.name,
                record.len()
            );
            let mut model = model(entry.name, &graph, &Placement::flat(workers as u16), 0)
                .expect("every exact rule has a model");
            replay_pool(&record, &mut *model).unwrap_or_else(|difference| {
                panic!("{} on {workers} workers: {difference}", entry.name)
            });
            exact += 1;
        }
    }
    let rules = registry::native()
        .iter()
        .filter(|entry| entry.exact)
        .count();
    assert_eq!(exact, rules * 5, "runs of policies with an exact rule");
}
