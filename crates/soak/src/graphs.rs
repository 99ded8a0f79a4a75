//! Runs plans on pools: as graphs that are registered while they run, and as templates.

use crate::ledger::{Guest, Ledger};
use crate::plan::{By, Job, Mishap, Nested, Plan, Work};
use crate::post::Post;
use fastrand::Rng;
use serde::Serialize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tanada_policy::registry;
use tanada_runtime::{
    Cancel, GraphError, Pool, PoolBuilder, Replay, Scope, Template, TemplateBuilder, Token,
};

/// The payload of planned panics. The panic hook is not called for them.
struct Planned;

/// Numbers of things done.
#[derive(Default, Serialize)]
pub(crate) struct Done {
    pub(crate) tasks: AtomicU64,
    pub(crate) graphs: AtomicU64,
    pub(crate) nested_graphs: AtomicU64,
    pub(crate) template_runs: AtomicU64,
    pub(crate) decoded_frames: AtomicU64,
    pub(crate) panics: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) errors: AtomicU64,
}

/// What the graphs of a case share.
pub(crate) struct World<'a> {
    pub(crate) pools: &'a [Pool],
    pub(crate) post: &'a Post,
    /// The schedule of all pools, if the case is replayed.
    pub(crate) replay: Option<&'a Replay>,
    pub(crate) done: &'a Done,
}

/// One run of a plan.
struct Run<'a> {
    world: &'a World<'a>,
    plan: &'a Plan,
    ledger: &'a Ledger,
    /// Which of the pools it runs on.
    pool: usize,
}

/// How a graph ended: with a result, or with a panic that may be [`Planned`].
type Ending = std::thread::Result<Result<(), GraphError>>;

/// Returns the message of a panic.
pub(crate) fn text_of(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or("a payload that is no text").to_owned()
}

/// Returns `None` if `ending` is not what `mishap` leads to; else whether every task of the plan must have run.
fn expected(mishap: Mishap, ending: &Ending) -> Option<bool> {
    match (mishap, ending) {
        (Mishap::Nothing | Mishap::CancelOutside, Ok(Ok(())))
        | (Mishap::Cycle, Ok(Err(GraphError::Cycle { .. }))) => Some(true),
        (Mishap::Panic(_) | Mishap::BodyPanics, Err(payload)) if payload.is::<Planned>() => {
            Some(false)
        }
        (Mishap::Surplus, Ok(Err(GraphError::SurplusResolve { .. })))
        | (Mishap::Forgotten(_), Ok(Err(GraphError::Unresolved { .. })))
        | (
            Mishap::CancelIn(_) | Mishap::CancelOutside | Mishap::CancelBefore,
            Ok(Err(GraphError::Cancelled)),
        ) => Some(false),
        _ => None,
    }
}

/// Checks a graph that has ended, and returns all findings.
fn judge(mishap: Mishap, ending: &Ending, ledger: &Ledger, done: &Done) -> Vec<String> {
    done.tasks.fetch_add(ledger.began(), Relaxed);
    let counter = match ending {
        Ok(Ok(())) => None,
        Ok(Err(GraphError::Cancelled)) => Some(&done.cancelled),
        Ok(Err(_)) => Some(&done.errors),
        Err(_) => Some(&done.panics),
    };
    if let Some(counter) = counter {
        counter.fetch_add(1, Relaxed);
    }
    let complete = expected(mishap, ending);
    let mut findings = ledger.settle(complete == Some(true));
    if complete.is_none() {
        let ending = match ending {
            Ok(Ok(())) => "without an error".to_owned(),
            Ok(Err(error)) => format!("with: {error}"),
            Err(payload) if payload.is::<Planned>() => "with a planned panic".to_owned(),
            Err(payload) => format!("with an unplanned panic: {}", text_of(&**payload)),
        };
        findings.push(format!("a graph with {mishap:?} ended {ending}"));
    }
    findings
}

/// Runs a plan as a graph that is registered while it runs. Returns all findings. If `outer` is stopped, so is this graph.
pub(crate) fn dynamic(
    world: &World<'_>,
    plan: &Plan,
    pool: usize,
    salt: u64,
    outer: Option<&Scope<'_>>,
) -> Vec<String> {
    let ledger = Ledger::new(plan.jobs.len(), salt);
    let run = Run {
        world,
        plan,
        ledger: &ledger,
        pool,
    };
    let cancel = Cancel::new();
    match plan.mishap {
        Mishap::CancelBefore => cancel.cancel(),
        Mishap::CancelOutside => world.post.cancel(&cancel, salt),
        _ => {}
    }
    let on = &world.pools[pool];
    let ending = catch_unwind(AssertUnwindSafe(|| match plan.mishap {
        Mishap::CancelBefore | Mishap::CancelOutside => {
            on.scope_with_cancel(&cancel, |s| run.body(s))
        }
        _ => on.scope(|s| run.body(s)),
    }));
    world.done.graphs.fetch_add(1, Relaxed);
    let stopped = matches!(ending, Ok(Err(GraphError::Cancelled)))
        && outer.is_some_and(|outer| outer.is_stopped());
    let mishap = if stopped {
        Mishap::CancelOutside
    } else {
        plan.mishap
    };
    judge(mishap, &ending, &ledger, world.done)
}

impl<'a> Run<'a> {
    /// The body of the scope.
    fn body<'scope>(&'scope self, scope: &Scope<'scope>) {
        for &job in &self.plan.roots {
            self.register(scope, job);
        }
        match self.plan.mishap {
            Mishap::BodyPanics => resume_unwind(Box::new(Planned)),
            Mishap::Cycle => self.register_cycle(scope),
            Mishap::Surplus => {
                let helper = self.ledger.helper();
                let token = scope.task("surplus").register(move |_| drop(helper));
                if scope.resolve(token).is_ok() {
                    self.ledger.found("a resolve too many was taken".to_owned());
                }
            }
            _ => {}
        }
    }

    fn register_cycle<'scope>(&'scope self, scope: &Scope<'scope>) {
        let [hen, egg] = [self.ledger.helper(), self.ledger.helper()];
        let first = scope.task("hen").count(1).register(move |_| drop(hen));
        let second = scope.task("egg").after([first]);
        let second = second.register(move |_| drop(egg));
        if scope.depend(first, second).is_err() {
            self.ledger.found("a task with a count is ready".to_owned());
        }
        self.ledger.resolved(scope.resolve(first));
    }

    fn register<'scope>(&'scope self, scope: &Scope<'scope>, number: usize) {
        let job = &self.plan.jobs[number];
        let before = self.ledger.wait_for(number, &job.after);
        let guest = self.ledger.guest(number);
        let builder = scope
            .task("job")
            .index(number as u64)
            .hints(job.hints)
            .count(job.counts.len() as u32)
            .after(before);
        let ballast = [number; 12];
        let token = match job.large {
            true => builder.register(move |s| {
                if ballast != [guest.task; 12] {
                    let text = format!("the closure of task {number} is damaged");
                    guest.ledger.found(text);
                }
                self.run_job(s, guest);
            }),
            false => builder.register(move |s| self.run_job(s, guest)),
        };
        self.ledger.publish(number, token);
        if job.counts.is_empty() {
            return;
        }
        // With a count left it cannot be ready, so this is never too late.
        let late = self.ledger.wait_for(number, &job.late);
        for other in late {
            if scope.depend(token, other).is_err() {
                let text = format!("task {number} with a count is ready");
                self.ledger.found(text);
            }
        }
        let kept = usize::from(self.plan.mishap == Mishap::Forgotten(number));
        for &by in job.counts.iter().skip(kept) {
            self.resolve(scope, token, by);
        }
    }

    fn resolve<'scope>(&'scope self, scope: &Scope<'scope>, token: Token, by: By) {
        match by {
            By::Registrar => self.ledger.resolved(scope.resolve(token)),
            By::Task => {
                let (helper, ledger) = (self.ledger.helper(), self.ledger);
                scope.task("resolves").register(move |s| {
                    ledger.resolved(s.resolve(token));
                    drop(helper);
                });
            }
            By::Outside => self.world.post.resolve(scope.resolver(), token),
        }
    }

    fn run_job<'scope>(&'scope self, scope: &Scope<'scope>, guest: Guest<'_>) {
        let number = guest.task;
        let job = &self.plan.jobs[number];
        self.ledger.begin(number);
        work(job.work);
        for &child in &job.children {
            self.register(scope, child);
        }
        if let Some(nested) = &job.nested {
            self.run_nested(scope, nested, number);
        }
        if job.own_pool {
            own_pool(job, self.ledger, self.world.replay);
        }
        match self.plan.mishap {
            Mishap::Panic(at) if at == number => resume_unwind(Box::new(Planned)),
            Mishap::CancelIn(at) if at == number => scope.cancel(),
            _ => {}
        }
        self.ledger.end(number);
    }

    fn run_nested(&self, scope: &Scope<'_>, nested: &Nested, number: usize) {
        // Always the next pool, so that pools do not wait for each other in a circle.
        let elsewhere = nested.elsewhere && self.pool + 1 < self.world.pools.len();
        let pool = self.pool + usize::from(elsewhere);
        self.world.done.nested_graphs.fetch_add(1, Relaxed);
        let outer = (!elsewhere).then_some(scope);
        let findings = dynamic(self.world, &nested.plan, pool, number as u64, outer);
        for text in findings {
            self.ledger
                .found(format!("in the graph inside of task {number}: {text}"));
        }
    }
}

/// Returns the builder with this schedule, if there is one.
pub(crate) fn scheduled(pool: PoolBuilder, replay: Option<&Replay>) -> PoolBuilder {
    match replay {
        Some(replay) => pool.replay(replay),
        None => pool,
    }
}

/// A pool that lives in one task.
fn own_pool(job: &Job, ledger: &Ledger, replay: Option<&Replay>) {
    let policies = registry::native();
    let policy = policies[job.hints.user as usize % policies.len()].name;
    let pool = Pool::builder().workers(1 + job.hints.depth % 3);
    let pool = match scheduled(pool.policy(policy), replay).build() {
        Ok(pool) => pool,
        Err(error) => return ledger.found(format!("a pool in a task: {error}")),
    };
    let ran = AtomicU64::new(0);
    let result = pool.scope(|s| {
        for _ in 0..10 {
            s.task("own").register(|_| _ = ran.fetch_add(1, Relaxed));
        }
    });
    if result.is_err() || ran.load(Relaxed) != 10 {
        let text = format!("a pool of a task ran {ran:?} of 10 tasks: {result:?}");
        ledger.found(text);
    }
}

/// Keeps the processor, or yields it, for a while.
pub(crate) fn work(work: Work) {
    match work {
        Work::Nothing => {}
        Work::Spins(rounds) => (0..rounds).for_each(|_| std::hint::spin_loop()),
        Work::Yields => std::thread::yield_now(),
        Work::Sleeps => std::thread::sleep(std::time::Duration::from_micros(100)),
    }
}

/// The argument of one run of a template.
struct Frame<'a> {
    ledger: Ledger,
    plan: &'a Plan,
    mishap: Mishap,
    cancel: Cancel,
}

impl<'a> Frame<'a> {
    /// Returns the argument of a run of `plan` without a mishap.
    fn new(plan: &'a Plan, salt: u64) -> Self {
        let mut ledger = Ledger::new(plan.jobs.len(), salt);
        for (number, job) in plan.jobs.iter().enumerate() {
            ledger.waits(number, &job.after);
        }
        ledger.reset();
        Frame {
            ledger,
            plan,
            mishap: Mishap::Nothing,
            cancel: Cancel::new(),
        }
    }

    fn run_job(&self, number: usize) {
        self.ledger.begin(number);
        work(self.plan.jobs[number].work);
        match self.mishap {
            Mishap::Panic(at) if at == number => resume_unwind(Box::new(Planned)),
            Mishap::CancelIn(at) if at == number => self.cancel.cancel(),
            _ => {}
        }
        self.ledger.end(number);
    }
}

/// Builds a plan as a template and runs `instances` of it at a time, each `times` times; returns all findings.
pub(crate) fn template(
    world: &World<'_>,
    plan: &Plan,
    pool: usize,
    (instances, times): (usize, usize),
    rng: &mut Rng,
) -> Vec<String> {
    let mut builder = TemplateBuilder::<Frame<'_>>::new();
    let ids: Vec<_> = (0..plan.jobs.len())
        .map(|number| {
            builder.task("job", number as u64, move |frame: &Frame<'_>, _| {
                frame.run_job(number);
            })
        })
        .collect();
    for (job, &id) in plan.jobs.iter().zip(&ids) {
        builder.hints(id, job.hints);
        for &before in &job.after {
            builder.edge(ids[before], id);
        }
    }
    let template = match builder.build() {
        Ok(template) => template,
        Err(error) => return vec![format!("a template without a cycle: {error}")],
    };
    let instance = |seed: u64| {
        let mut rng = Rng::with_seed(seed);
        if rng.u8(0..3) == 0 {
            return frame_after_frame(world, plan, &template, pool, times, rng);
        }
        let mut instance = template.instance();
        let mut frame = Frame::new(plan, seed);
        let mut findings = Vec::new();
        for _ in 0..times {
            frame.ledger.reset();
            frame.mishap = template_mishap(&mut rng, plan);
            frame.cancel = Cancel::new();
            match frame.mishap {
                Mishap::CancelBefore => frame.cancel.cancel(),
                Mishap::CancelOutside => world.post.cancel(&frame.cancel, seed),
                _ => {}
            }
            let on = &world.pools[pool];
            let ending = catch_unwind(AssertUnwindSafe(|| match frame.mishap {
                Mishap::Nothing | Mishap::Panic(_) => instance.run(on, &frame),
                _ => instance.run_with_cancel(on, &frame, &frame.cancel),
            }));
            world.done.template_runs.fetch_add(1, Relaxed);
            // A job that cancels from outside of the graph may be the last one to run.
            let mishap = match frame.mishap {
                Mishap::CancelIn(_) => Mishap::CancelOutside,
                other => other,
            };
            findings.extend(judge(mishap, &ending, &frame.ledger, world.done));
        }
        findings
    };
    let seeds: Vec<u64> = (0..instances).map(|_| rng.u64(..)).collect();
    if world.replay.is_some() {
        return seeds.into_iter().flat_map(instance).collect();
    }
    // Joined one by one: ThreadSanitizer does not understand how a scope of threads waits for all of them.
    std::thread::scope(|threads| {
        let spawn = |&seed: &u64| threads.spawn(move || instance(seed));
        let others: Vec<_> = seeds[1..].iter().map(spawn).collect();
        let mut findings = instance(seeds[0]);
        for other in others {
            match other.join() {
                Ok(more) => findings.extend(more),
                Err(payload) => findings.push(text_of(&*payload)),
            }
        }
        findings
    })
}

/// Runs a template once a frame, in one call and in some rooms at a time; returns all findings.
fn frame_after_frame<'a>(
    world: &World<'_>,
    plan: &'a Plan,
    template: &Template<'_, Frame<'a>>,
    pool: usize,
    times: usize,
    mut rng: Rng,
) -> Vec<String> {
    let fails = (rng.u8(0..8) == 0).then(|| (rng.usize(0..times), rng.usize(0..plan.jobs.len())));
    let mut frames = Vec::from_iter((0..times).map(|_| Frame::new(plan, rng.u64(..))));
    if let Some((frame, job)) = fails {
        frames[frame].mishap = Mishap::Panic(job);
    }
    let mut instance = template.instances(rng.usize(1..=4));
    let mut findings = Vec::new();
    // Two calls, so that the second one meets the rooms as the first left them; each with a ledger of its own, since a task must run once
    // in each.
    let half = frames.len() / 2;
    for frames in [&frames[..half], &frames[half..]] {
        let on = &world.pools[pool];
        let ending = catch_unwind(AssertUnwindSafe(|| instance.run_each(on, frames)));
        let mut mishaps = frames.iter().map(|frame| frame.mishap);
        let mishap = mishaps.find(|&mishap| mishap != Mishap::Nothing);
        let mishap = mishap.unwrap_or(Mishap::Nothing);
        world
            .done
            .template_runs
            .fetch_add(frames.len() as u64, Relaxed);
        for frame in frames {
            findings.extend(judge(mishap, &ending, &frame.ledger, world.done));
        }
    }
    findings
}

fn template_mishap(rng: &mut Rng, plan: &Plan) -> Mishap {
    let job = rng.usize(0..plan.jobs.len());
    match rng.u8(0..24) {
        0 => Mishap::Panic(job),
        1 => Mishap::CancelIn(job),
        2 => Mishap::CancelOutside,
        3 => Mishap::CancelBefore,
        _ => Mishap::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mishap_has_its_ending_and_no_other() {
        let endings: [Ending; 5] = [
            Ok(Ok(())),
            Ok(Err(GraphError::Cancelled)),
            Ok(Err(GraphError::Forked)),
            Err(Box::new(Planned)),
            Err(Box::new("by itself")),
        ];
        let complete = |mishap| endings.each_ref().map(|ending| expected(mishap, ending));
        assert_eq!(
            complete(Mishap::Nothing),
            [Some(true), None, None, None, None]
        );
        assert_eq!(
            complete(Mishap::Panic(0)),
            [None, None, None, Some(false), None]
        );
        assert_eq!(
            complete(Mishap::CancelIn(0)),
            [None, Some(false), None, None, None]
        );
        let outside = complete(Mishap::CancelOutside);
        assert_eq!(outside, [Some(true), Some(false), None, None, None]);
        assert_eq!(complete(Mishap::Forgotten(0)), [None; 5]);
    }
}
