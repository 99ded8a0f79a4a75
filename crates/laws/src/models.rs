//! Every policy's rule a second time, as obviously as possible: all ready tasks in one list by age, and scans over it.
//!
//! Written from the text of the design and of paper 1, not from the code of the policies. A model is slow, and that is all right.

use tanada_policy::central::{Arrival, Logged};
use tanada_policy::{Hints, Placement, WorkerId, draw};

use crate::{Event, Graph, Log};

/// A policy as one list and a rule. Tasks are any numbers that are unique among the ready ones.
pub trait Model {
    /// A task became ready on a worker, or outside any ([`WorkerId::NONE`]).
    fn ready(&mut self, on: WorkerId, task: u64, hints: Hints);
    /// Returns the task that an idle worker takes.
    fn next(&mut self, worker: WorkerId) -> Option<u64>;
}

/// Returns the model of the policy called `name`; `None` if there is none. `graph` is for policies that look at it before it runs: their
/// models take the number of a task in it for the task.
pub fn model(
    name: &str,
    graph: &Graph,
    placement: &Placement,
    seed: u64,
) -> Option<Box<dyn Model>> {
    let workers = placement.workers();
    let name = match name {
        // With one worker nothing is left of its relaxations.
        "ts-local" if workers == 1 => "ts",
        _ => name,
    };
    let zeros = vec![0; usize::from(workers)];
    let stealing = |order| {
        Box::new(StealingModel {
            order,
            placement: placement.clone(),
            seed,
            calls: vec![0; usize::from(workers)],
            last: vec![0; usize::from(workers)],
            queued: Vec::new(),
        })
    };
    let sticky = StickyModel {
        workers,
        ..StickyModel::default()
    };
    Some(match name {
        "serial" => list(|list, worker| (worker.0 == 0 && !list.is_empty()).then_some(0)),
        "fcfs" => list(|list, _| (!list.is_empty()).then_some(0)),
        "lcfs" => list(|list, _| list.len().checked_sub(1)),
        "critical-path" => {
            let ways = longest_ways(graph);
            list(move |list, _| {
                let way = |&task: &u64| ways[task as usize];
                let longest = list.iter().map(way).max()?;
                list.iter().position(|task| way(task) == longest)
            })
        }
        "ts" => Box::new(TsModel {
            workers,
            ..TsModel::default()
        }),
        "ts-sticky" => Box::new(sticky),
        "slifo" => Box::new(SlifoModel {
            codes: Vec::new(),
            sticky: StickyModel {
                newest_first: true,
                ..sticky
            },
        }),
        "ts-local" => Box::new(TsLocalModel {
            list: Vec::new(),
            placement: placement.clone(),
            owners: Vec::new(),
            opened: 0,
            running: zeros.clone(),
            current: zeros,
            injected: 0,
        }),
        "random-steal" => stealing(VictimOrder::Random),
        "near-steal" => stealing(VictimOrder::Near),
        "locality-steal" => stealing(VictimOrder::Locality),
        _ => return None,
    })
}

/// Returns the owner of S group `s`: the worker of its last entry in `moved`, or at first one worker after the other.
fn owner(moved: &[(u32, u16)], s: u32, workers: u16) -> u16 {
    let last = moved.iter().rev().find(|&&(group, _)| group == s);
    last.map_or(((s - 1) % u32::from(workers)) as u16, |&(_, owner)| owner)
}

/// Returns the workers other than `me`, nearest first; of equally near ones w+1, w+2, ... come first, then 0, 1, ...
fn others(placement: &Placement, me: WorkerId) -> Vec<WorkerId> {
    let workers = placement.workers();
    let others = (1..workers).map(|i| WorkerId((me.0 + i) % workers));
    let mut others: Vec<WorkerId> = others.collect();
    others.sort_by_key(|&other| placement.distance(me, other));
    others
}

/// serial, fcfs, lcfs, critical-path: which place of the list (oldest first) a worker takes from.
struct ListModel<F> {
    list: Vec<u64>,
    pick: F,
}

fn list(pick: impl Fn(&[u64], WorkerId) -> Option<usize> + 'static) -> Box<dyn Model> {
    let list = Vec::new();
    Box::new(ListModel { list, pick })
}

impl<F: Fn(&[u64], WorkerId) -> Option<usize>> Model for ListModel<F> {
    fn ready(&mut self, _on: WorkerId, task: u64, _hints: Hints) {
        self.list.push(task);
    }
    fn next(&mut self, worker: WorkerId) -> Option<u64> {
        (self.pick)(&self.list, worker).map(|place| self.list.remove(place))
    }
}

/// Returns the longest way from each task, by which critical-path decides. Edges lead to higher numbers.
fn longest_ways(graph: &Graph) -> Vec<u64> {
    let mut ways = vec![0; graph.len()];
    for (number, task) in graph.tasks().iter().enumerate().rev() {
        let longest = task.successors.iter().map(|&to| ways[to]).max();
        ways[number] = task.duration + longest.unwrap_or(0);
    }
    ways
}

/// ts: the pseudo-code of paper 1, section 3, line by line.
#[derive(Default)]
struct TsModel {
    /// (T, S, task), oldest first. The oldest task of several cells is the oldest of their heads, since cells are FIFO.
    list: Vec<(u32, u32, u64)>,
    /// T'.
    running: Option<u32>,
    /// (S, worker), the last entry of an S counts.
    owners: Vec<(u32, u16)>,
    workers: u16,
}

impl TsModel {
    /// Returns the task that is taken from (t, Sown), else from (t, S0), else from (t, ~Sown) with Sown += S'.
    fn take_in(&mut self, t: u32, worker: WorkerId) -> Option<u64> {
        let find = |here: &dyn Fn(u32) -> bool| {
            let mut list = self.list.iter();
            list.position(|&(group, s, _)| group == t && here(s))
        };
        let mine = |s| owner(&self.owners, s, self.workers) == worker.0;
        let own = find(&|s| s != 0 && mine(s));
        let s0 = find(&|s| s == 0);
        let others = find(&|s| s != 0 && !mine(s));
        let (_, s, task) = self.list.remove(own.or(s0).or(others)?);
        if s != 0 {
            self.owners.push((s, worker.0));
        }
        Some(task)
    }
}

impl Model for TsModel {
    fn ready(&mut self, _on: WorkerId, task: u64, hints: Hints) {
        self.list.push((hints.t, hints.s, task));
    }

    fn next(&mut self, worker: WorkerId) -> Option<u64> {
        if let Some(t) = self.running
            && let Some(task) = self.take_in(t, worker)
        {
            return Some(task);
        }
        // No task of T' is left, so this is "any T group other than T' and T0".
        if let Some(&(t, _, _)) = self.list.iter().find(|&&(t, _, _)| t != 0) {
            self.running = Some(t);
            return self.take_in(t, worker);
        }
        self.take_in(0, worker)
    }
}

/// ts-sticky: the rule in its module's documentation, line by line.
#[derive(Default)]
struct StickyModel {
    /// (T, S, task), oldest first.
    list: Vec<(u32, u32, u64)>,
    newest_first: bool,
    /// T'.
    running: Option<u32>,
    /// (S, worker), the last entry of an S counts.
    owners: Vec<(u32, u16)>,
    /// (worker, S) of all that was taken.
    taken: Vec<(u16, u32)>,
    workers: u16,
}

impl StickyModel {
    fn has(&self, t: u32) -> bool {
        self.list.iter().any(|&(group, ..)| group == t)
    }

    fn length(&self, t: u32, s: u32) -> usize {
        let here = |task: &&(u32, u32, u64)| (task.0, task.1) == (t, s);
        self.list.iter().filter(here).count()
    }

    /// Returns the S groups of `t` that have tasks, the lowest first.
    fn groups(&self, t: u32) -> Vec<u32> {
        let here = self.list.iter().filter(|&&(group, ..)| group == t);
        let mut groups: Vec<u32> = here.map(|&(_, s, _)| s).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// Returns the T group that is taken from.
    fn group(&mut self) -> Option<u32> {
        if let Some(t) = self.running
            && self.has(t)
        {
            return Some(t);
        }
        let lowest = self.list.iter().map(|&(t, ..)| t).filter(|&t| t != 0).min();
        if lowest.is_some() {
            self.running = lowest;
            return lowest;
        }
        self.has(0).then_some(0)
    }

    /// Returns the S group that `me` takes from.
    fn choose(&mut self, t: u32, me: u16) -> u32 {
        let groups = self.groups(t);
        let last = self.taken.iter().rev().find(|&&(worker, _)| worker == me);
        if let Some(&(_, last)) = last
            && last != 0
            && groups.contains(&last)
        {
            return last;
        }
        let mine = |&&s: &&u32| s != 0 && owner(&self.owners, s, self.workers) == me;
        if let Some(&own) = groups.iter().find(mine) {
            return own;
        }
        if groups.contains(&0) {
            return 0;
        }
        // Of equally long ones the lowest.
        let lengths = groups.iter().rev().map(|&s| (self.length(t, s), s));
        let longest = lengths.max_by_key(|&(length, _)| length);
        let (_, longest) = longest.expect("a group has tasks");
        self.owners.push((longest, me));
        longest
    }
}

impl Model for StickyModel {
    fn ready(&mut self, _on: WorkerId, task: u64, hints: Hints) {
        self.list.push((hints.t, hints.s, task));
    }

    fn next(&mut self, worker: WorkerId) -> Option<u64> {
        let t = self.group()?;
        let s = self.choose(t, worker.0);
        self.taken.push((worker.0, s));
        let here = |task: &(u32, u32, u64)| (task.0, task.1) == (t, s);
        let place = match self.newest_first {
            true => self.list.iter().rposition(here),
            false => self.list.iter().position(here),
        };
        place.map(|place| self.list.remove(place).2)
    }
}

/// slifo: ts-sticky with one T group, cells last in, first out, and an S group a code, numbered as they come up.
struct SlifoModel {
    codes: Vec<u64>,
    sticky: StickyModel,
}

impl Model for SlifoModel {
    fn ready(&mut self, on: WorkerId, task: u64, hints: Hints) {
        let known = self.codes.iter().position(|&code| code == hints.code);
        let rank = known.unwrap_or(self.codes.len());
        if known.is_none() {
            self.codes.push(hints.code);
        }
        let s = 1 + rank as u32;
        self.sticky.ready(on, task, Hints::groups(1, s));
    }

    fn next(&mut self, worker: WorkerId) -> Option<u64> {
        self.sticky.next(worker)
    }
}

/// A ready task under ts-local.
#[derive(Clone, Copy)]
struct Seated {
    seat: WorkerId,
    t: u32,
    s: u32,
    task: u64,
    /// Released by the task that this worker has just ended.
    fresh_on: Option<WorkerId>,
}

/// ts-local with several workers: the rule in its module's documentation, line by line.
struct TsLocalModel {
    /// Oldest first.
    list: Vec<Seated>,
    placement: Placement,
    /// (slot of S, worker), the last entry counts.
    owners: Vec<(u32, u16)>,
    opened: u32,
    /// T' of each worker.
    running: Vec<u32>,
    /// T of what each worker took last.
    current: Vec<u32>,
    injected: u32,
}

/// Returns the number under which ts-local keeps the owner of group `s`: there are 1024.
fn slot(s: u32) -> u32 {
    1 + (s - 1) % 1024
}

impl TsLocalModel {
    /// Returns what was released in the T group of the task that ended, and has its seat here.
    fn released(&self, me: WorkerId) -> Option<usize> {
        let t = self.current[me.index()];
        let mine = |task: &&Seated| task.seat == me;
        if t == 0 && self.list.iter().filter(mine).any(|task| task.t != 0) {
            return None;
        }
        self.first_of(true, |task| {
            task.fresh_on == Some(me) && task.seat == me && task.t == t
        })
    }

    fn take_in(&self, me: WorkerId, seat: WorkerId, t: u32) -> Option<usize> {
        self.first_of(seat == me, |task| task.seat == seat && task.t == t)
    }

    /// Returns the oldest task of those that `wanted` accepts, those with an S group first if `spatial_first`, else last.
    fn first_of(&self, spatial_first: bool, wanted: impl Fn(&Seated) -> bool) -> Option<usize> {
        let find = |spatial| {
            let mut list = self.list.iter();
            list.position(|task| wanted(task) && (task.s != 0) == spatial)
        };
        find(spatial_first).or_else(|| find(!spatial_first))
    }

    fn seats(&self, me: WorkerId) -> impl Iterator<Item = WorkerId> + use<> {
        std::iter::once(me).chain(others(&self.placement, me))
    }

    fn take_anywhere(&self, me: WorkerId, t: u32) -> Option<usize> {
        self.seats(me).find_map(|seat| self.take_in(me, seat, t))
    }

    fn find(&mut self, me: WorkerId) -> Option<usize> {
        for t in [self.running[me.index()], self.opened] {
            if t != 0
                && let Some(found) = self.take_anywhere(me, t)
            {
                self.running[me.index()] = t;
                return Some(found);
            }
        }
        self.running[me.index()] = self.opened;
        for seat in self.seats(me) {
            let mut here = self.list.iter().filter(|task| task.seat == seat);
            if let Some(&Seated { t, .. }) = here.find(|task| task.t != 0) {
                self.running[me.index()] = t;
                self.opened = t;
                return self.take_in(me, seat, t);
            }
        }
        self.take_anywhere(me, 0)
    }
}

impl Model for TsLocalModel {
    fn ready(&mut self, on: WorkerId, task: u64, Hints { t, s, .. }: Hints) {
        let seat = if s != 0 {
            WorkerId(owner(&self.owners, slot(s), self.placement.workers()))
        } else if on == WorkerId::NONE {
            self.injected += 1;
            WorkerId(((self.injected - 1) % self.running.len() as u32) as u16)
        } else {
            on
        };
        self.list.push(Seated {
            seat,
            t,
            s,
            task,
            fresh_on: Some(on),
        });
    }

    fn next(&mut self, me: WorkerId) -> Option<u64> {
        let released = self.released(me);
        for task in &mut self.list {
            task.fresh_on = task.fresh_on.filter(|&on| on != me);
        }
        let found = released.or_else(|| self.find(me));
        let Seated {
            seat, t, s, task, ..
        } = self.list.remove(found?);
        self.current[me.index()] = t;
        if s != 0 && seat != me {
            self.owners.push((slot(s), me.0));
        }
        Some(task)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum VictimOrder {
    Random,
    Near,
    Locality,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Own(WorkerId),
    Mail(WorkerId),
    Shared,
}

/// The work-stealing policies: every ready task with the queue that it is in.
struct StealingModel {
    order: VictimOrder,
    placement: Placement,
    seed: u64,
    /// Random numbers drawn by each worker.
    calls: Vec<u64>,
    /// Digest of what each worker took last, of those that are not 0.
    last: Vec<u16>,
    /// Oldest first.
    queued: Vec<(Place, u64, u16)>,
}

impl StealingModel {
    fn oldest(&self, place: Place) -> Option<usize> {
        self.queued.iter().position(|&(at, ..)| at == place)
    }

    fn newest(&self, place: Place) -> Option<usize> {
        self.queued.iter().rposition(|&(at, ..)| at == place)
    }

    fn random(&mut self, worker: WorkerId) -> u64 {
        self.calls[worker.index()] += 1;
        draw(self.seed, worker, self.calls[worker.index()] - 1)
    }

    /// Returns the oldest task in the queue of the first of `victims` that has any.
    fn oldest_of(&self, victims: &[WorkerId]) -> Option<usize> {
        let mut victims = victims.iter();
        victims.find_map(|&victim| self.oldest(Place::Own(victim)))
    }

    /// Returns the oldest task of the shared FIFO; those that come with it go to the new end of `me`'s deque, the newest first.
    fn take_shared(&mut self, me: WorkerId) -> Option<usize> {
        let shared = self.queued.iter().filter(|(at, ..)| *at == Place::Shared);
        let besides = shared.count() / (4 * usize::from(self.placement.workers()));
        let first = self.oldest(Place::Shared)?;
        let mut moved = Vec::new();
        for _ in 0..besides.min(63) {
            let next = self.queued.iter().enumerate().skip(first + 1);
            let Some((next, _)) = next.into_iter().find(|(_, (at, ..))| *at == Place::Shared)
            else {
                break;
            };
            let (_, task, digest) = self.queued.remove(next);
            moved.push((Place::Own(me), task, digest));
        }
        self.queued.extend(moved.into_iter().rev());
        Some(first)
    }

    fn steal_randomly(&mut self, me: WorkerId) -> Option<usize> {
        let workers = self.placement.workers();
        let others: Vec<WorkerId> = (0..workers).map(WorkerId).filter(|&w| w != me).collect();
        for _ in 0..others.len() {
            let victim = others[(self.random(me) % others.len() as u64) as usize];
            if let Some(found) = self.oldest(Place::Own(victim)) {
                return Some(found);
            }
        }
        self.oldest_of(&others)
    }

    fn steal_near(&mut self, me: WorkerId) -> Option<usize> {
        let mut others = others(&self.placement, me);
        let distance = |other: &WorkerId| self.placement.distance(me, *other);
        let mut rings = others.chunk_by_mut(|a, b| distance(a) == distance(b));
        let ring = rings.find(|ring| self.oldest_of(ring).is_some())?;
        if ring.len() > 1 {
            let start = self.random(me) % ring.len() as u64;
            ring.rotate_left(start as usize);
        }
        self.oldest_of(ring)
    }

    fn steal(&mut self, me: WorkerId) -> Option<usize> {
        let others = others(&self.placement, me);
        self.oldest_of(&others)?;
        if self.order == VictimOrder::Random {
            return self.steal_randomly(me);
        }
        let last = self.last[me.index()];
        if self.order == VictimOrder::Locality && last != 0 {
            let liked = |place: &usize| self.queued[*place].2 == last;
            let mut others = others.iter();
            let found = others.find_map(|&v| self.oldest(Place::Own(v)).filter(liked));
            if found.is_some() {
                return found;
            }
        }
        self.steal_near(me)
    }
}

impl Model for StealingModel {
    fn ready(&mut self, on: WorkerId, task: u64, hints: Hints) {
        let place = if self.order == VictimOrder::Locality && hints.s >= 1 {
            Place::Mail(WorkerId(owner(&[], hints.s, self.placement.workers())))
        } else if on == WorkerId::NONE {
            Place::Shared
        } else {
            Place::Own(on)
        };
        self.queued.push((place, task, hints.digest()));
    }

    fn next(&mut self, me: WorkerId) -> Option<u64> {
        // Only locality-steal has mail at all.
        let found = self
            .oldest(Place::Mail(me))
            .or_else(|| self.newest(Place::Own(me)))
            .or_else(|| self.take_shared(me))
            .or_else(|| self.steal(me))
            .or_else(|| {
                let mut others = others(&self.placement, me).into_iter();
                others.find_map(|other| self.oldest(Place::Mail(other)))
            });
        let (_, task, digest) = self.queued.remove(found?);
        if digest != 0 {
            self.last[me.index()] = digest;
        }
        Some(task)
    }
}

/// Puts the questions of a log to a model and compares the answers.
///
/// # Errors
/// Returns which event differs, and how.
pub fn replay(graph: &Graph, log: &Log, model: &mut dyn Model) -> Result<(), String> {
    for (i, &event) in log.events.iter().enumerate() {
        let (worker, given) = match event {
            Event::Ready { task, on } => {
                model.ready(on, task as u64, graph.tasks()[task].hints);
                continue;
            }
            Event::Start { task, worker, .. } => (worker, Some(task as u64)),
            Event::Idle { worker } => (worker, None),
            _ => continue,
        };
        compare(i, model, worker, given)?;
    }
    Ok(())
}

/// Asks `model` what `worker` takes in event `i`, and returns an error unless the answer is the task that it was `given`.
fn compare(
    i: usize,
    model: &mut dyn Model,
    worker: WorkerId,
    given: Option<u64>,
) -> Result<(), String> {
    match model.next(worker) {
        right if right == given => Ok(()),
        right => Err(format!(
            "event {i}: worker {worker} was given {given:?}, the rule says {right:?}"
        )),
    }
}

/// Does as [`replay`], of what a shared pool recorded inside its critical sections, also while many workers used it at once.
///
/// # Errors
/// Returns which event differs, and how.
pub fn replay_pool(events: &[Logged], model: &mut dyn Model) -> Result<(), String> {
    let mut next_age = 0;
    for (i, &event) in events.iter().enumerate() {
        match event {
            Logged::Ready { task, arrival } => {
                let Arrival { age, on, hints, .. } = arrival;
                if age != next_age {
                    let what = format!("event {i}: age {age} was drawn, {next_age} is next");
                    return Err(what);
                }
                next_age += 1;
                model.ready(on.unwrap_or(WorkerId::NONE), task, hints);
            }
            Logged::Next { worker, answer } => compare(i, model, worker, answer)?,
        }
    }
    Ok(())
}
