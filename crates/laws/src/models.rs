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
    /// The task that an idle worker takes.
    fn next(&mut self, worker: WorkerId) -> Option<u64>;
}

/// The model of the policy called `name`; `None` where there is none. `graph` is for policies that look at it before it runs: their models
/// take the number of a task in it for the task.
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
    let stealing = |order: VictimOrder| -> Box<dyn Model> {
        let last = vec![0; usize::from(workers)];
        let calls = vec![0; usize::from(workers)];
        Box::new(StealingModel {
            order,
            placement: placement.clone(),
            seed,
            calls,
            last,
            queued: Vec::new(),
        })
    };
    Some(match name {
        "serial" => Box::new(ListModel {
            list: Vec::new(),
            pick: |len, worker| {
                if worker == WorkerId(0) && len > 0 {
                    Some(0)
                } else {
                    None
                }
            },
        }),
        "fcfs" => Box::new(ListModel {
            list: Vec::new(),
            pick: |len, _| if len > 0 { Some(0) } else { None },
        }),
        "lcfs" => Box::new(ListModel {
            list: Vec::new(),
            pick: |len, _| len.checked_sub(1),
        }),
        "ts" => Box::new(TsModel {
            list: Vec::new(),
            running: None,
            owners: Vec::new(),
            workers,
        }),
        "ts-sticky" => Box::new(StickyModel::new(workers)),
        "slifo" => Box::new(SlifoModel {
            codes: Vec::new(),
            sticky: StickyModel {
                newest_first: true,
                ..StickyModel::new(workers)
            },
        }),
        "critical-path" => Box::new(CriticalPathModel {
            list: Vec::new(),
            ways: longest_ways(graph),
        }),
        "ts-local" => Box::new(TsLocalModel {
            list: Vec::new(),
            placement: placement.clone(),
            owners: Vec::new(),
            opened: 0,
            running: vec![0; usize::from(workers)],
            current: vec![0; usize::from(workers)],
            injected: 0,
        }),
        "random-steal" => stealing(VictimOrder::Random),
        "near-steal" => stealing(VictimOrder::Near),
        "locality-steal" => stealing(VictimOrder::Locality),
        _ => return None,
    })
}

/// serial, fcfs, lcfs: which place of the list (oldest first) a worker takes from.
struct ListModel {
    list: Vec<u64>,
    pick: fn(len: usize, worker: WorkerId) -> Option<usize>,
}

impl Model for ListModel {
    fn ready(&mut self, _on: WorkerId, task: u64, _hints: Hints) {
        self.list.push(task);
    }
    fn next(&mut self, worker: WorkerId) -> Option<u64> {
        (self.pick)(self.list.len(), worker).map(|place| self.list.remove(place))
    }
}

/// ts: the pseudo-code of paper 1, section 3, line by line.
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
    fn owner(&self, s: u32) -> u16 {
        let moved = self.owners.iter().rev().find(|&&(group, _)| group == s);
        moved.map_or(((s - 1) % u32::from(self.workers)) as u16, |&(_, owner)| {
            owner
        })
    }

    /// Takes from (t, Sown), else from (t, S0), else from (t, ~Sown) with Sown += S'.
    fn take_in(&mut self, t: u32, worker: WorkerId) -> Option<u64> {
        let in_t = |&(group, _, _): &(u32, u32, u64)| group == t;
        let own = self
            .list
            .iter()
            .position(|task| in_t(task) && task.1 != 0 && self.owner(task.1) == worker.0);
        let s0 = self.list.iter().position(|task| in_t(task) && task.1 == 0);
        let others = self
            .list
            .iter()
            .position(|task| in_t(task) && task.1 != 0 && self.owner(task.1) != worker.0);
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
    fn new(workers: u16) -> Self {
        StickyModel {
            list: Vec::new(),
            newest_first: false,
            running: None,
            owners: Vec::new(),
            taken: Vec::new(),
            workers,
        }
    }

    fn owner(&self, s: u32) -> u16 {
        let moved = self.owners.iter().rev().find(|&&(group, _)| group == s);
        moved.map_or(((s - 1) % u32::from(self.workers)) as u16, |&(_, w)| w)
    }

    fn has(&self, t: u32) -> bool {
        self.list.iter().any(|&(group, ..)| group == t)
    }

    fn length(&self, t: u32, s: u32) -> usize {
        let here = |task: &&(u32, u32, u64)| (task.0, task.1) == (t, s);
        self.list.iter().filter(here).count()
    }

    /// The S groups of `t` that have tasks, the lowest first.
    fn groups(&self, t: u32) -> Vec<u32> {
        let here = self.list.iter().filter(|&&(group, ..)| group == t);
        let mut groups: Vec<u32> = here.map(|&(_, s, _)| s).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// The T group that is taken from.
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

    /// The S group that `me` takes from.
    fn choose(&mut self, t: u32, me: u16) -> u32 {
        let groups = self.groups(t);
        let last = self.taken.iter().rev().find(|&&(worker, _)| worker == me);
        if let Some(&(_, last)) = last
            && last != 0
            && groups.contains(&last)
        {
            return last;
        }
        if let Some(&own) = groups.iter().find(|&&s| s != 0 && self.owner(s) == me) {
            return own;
        }
        if groups.contains(&0) {
            return 0;
        }
        let mut longest = groups[0];
        for &s in &groups {
            if self.length(t, s) > self.length(t, longest) {
                longest = s;
            }
        }
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
        let place = if self.newest_first {
            self.list.iter().rposition(here)
        } else {
            self.list.iter().position(here)
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
        if !self.codes.contains(&hints.code) {
            self.codes.push(hints.code);
        }
        let rank = self.codes.iter().position(|&code| code == hints.code);
        let s = 1 + rank.expect("it is there by now") as u32;
        self.sticky.ready(on, task, Hints::groups(1, s));
    }

    fn next(&mut self, worker: WorkerId) -> Option<u64> {
        self.sticky.next(worker)
    }
}

/// critical-path: the longest way of all that start at the task.
struct CriticalPathModel {
    /// (length of the longest way, task), oldest first.
    list: Vec<(u64, u64)>,
    /// The longest way from each task.
    ways: Vec<u64>,
}

/// The longest way from each task. Edges lead to higher numbers.
fn longest_ways(graph: &Graph) -> Vec<u64> {
    let mut ways = vec![0; graph.len()];
    for (number, task) in graph.tasks().iter().enumerate().rev() {
        for &to in &task.successors {
            ways[number] = ways[number].max(ways[to]);
        }
        ways[number] += task.duration;
    }
    ways
}

impl Model for CriticalPathModel {
    fn ready(&mut self, _on: WorkerId, task: u64, _hints: Hints) {
        self.list.push((self.ways[task as usize], task));
    }

    fn next(&mut self, _worker: WorkerId) -> Option<u64> {
        let longest = self.list.iter().map(|&(way, _)| way).max()?;
        let place = self.list.iter().position(|&(way, _)| way == longest);
        place.map(|place| self.list.remove(place).1)
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
    /// (S mod 1024, worker), the last entry counts.
    owners: Vec<(u32, WorkerId)>,
    opened: u32,
    /// T' of each worker.
    running: Vec<u32>,
    /// T of what each worker took last.
    current: Vec<u32>,
    injected: u32,
}

impl TsLocalModel {
    fn owner(&self, s: u32) -> WorkerId {
        let group = (s - 1) % 1024;
        let at_first = WorkerId((group % u32::from(self.placement.workers())) as u16);
        let moved = self.owners.iter().rev().find(|&&(moved, _)| moved == group);
        moved.map_or(at_first, |&(_, owner)| owner)
    }

    /// What was released in the T group of the task that ended, and has its seat here.
    fn released(&self, me: WorkerId) -> Option<usize> {
        let t = self.current[me.index()];
        let mine = |task: &&Seated| task.seat == me;
        if t == 0 && self.list.iter().filter(mine).any(|task| task.t != 0) {
            return None;
        }
        let find = |spatial: bool| {
            self.list.iter().position(|task| {
                task.fresh_on == Some(me)
                    && task.seat == me
                    && task.t == t
                    && (task.s != 0) == spatial
            })
        };
        find(true).or_else(|| find(false))
    }

    fn take_in(&self, me: WorkerId, seat: WorkerId, t: u32) -> Option<usize> {
        let find = |spatial: bool| {
            self.list
                .iter()
                .position(|task| task.seat == seat && task.t == t && (task.s != 0) == spatial)
        };
        let spatial_first = seat == me;
        find(spatial_first).or_else(|| find(!spatial_first))
    }

    fn seats(&self, me: WorkerId) -> Vec<WorkerId> {
        let workers = self.placement.workers();
        let mut others: Vec<WorkerId> = (1..workers)
            .map(|i| WorkerId((me.0 + i) % workers))
            .collect();
        others.sort_by_key(|&other| self.placement.distance(me, other));
        std::iter::once(me).chain(others).collect()
    }

    fn take_anywhere(&self, me: WorkerId, t: u32) -> Option<usize> {
        self.seats(me)
            .into_iter()
            .find_map(|seat| self.take_in(me, seat, t))
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
            self.owner(s)
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
        let fresh = self
            .list
            .iter_mut()
            .filter(|task| task.fresh_on == Some(me));
        fresh.for_each(|task| task.fresh_on = None);
        let found = released.or_else(|| self.find(me));
        let Seated {
            seat, t, s, task, ..
        } = self.list.remove(found?);
        self.current[me.index()] = t;
        if s != 0 && seat != me {
            self.owners.push(((s - 1) % 1024, me));
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

    /// The others, nearest first; of equally near ones w+1, w+2, ... come first, then 0, 1, ...
    fn others(&self, me: WorkerId) -> Vec<WorkerId> {
        let workers = self.placement.workers();
        let mut others: Vec<WorkerId> = (1..workers)
            .map(|i| WorkerId((me.0 + i) % workers))
            .collect();
        others.sort_by_key(|&other| self.placement.distance(me, other));
        others
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
        others
            .into_iter()
            .find_map(|victim| self.oldest(Place::Own(victim)))
    }

    fn steal_near(&mut self, me: WorkerId) -> Option<usize> {
        let others = self.others(me);
        for ring in others
            .chunk_by(|&a, &b| self.placement.distance(me, a) == self.placement.distance(me, b))
        {
            if ring
                .iter()
                .all(|&victim| self.oldest(Place::Own(victim)).is_none())
            {
                continue;
            }
            let mut ring = ring.to_vec();
            if ring.len() > 1 {
                let start = self.random(me) % ring.len() as u64;
                ring.rotate_left(start as usize);
            }
            return ring
                .into_iter()
                .find_map(|victim| self.oldest(Place::Own(victim)));
        }
        None
    }

    fn steal(&mut self, me: WorkerId) -> Option<usize> {
        self.others(me)
            .into_iter()
            .find_map(|victim| self.oldest(Place::Own(victim)))?;
        if self.order == VictimOrder::Random {
            return self.steal_randomly(me);
        }
        let last = self.last[me.index()];
        if self.order == VictimOrder::Locality && last != 0 {
            let liked = |place: &usize| self.queued[*place].2 == last;
            let found = self
                .others(me)
                .into_iter()
                .find_map(|v| self.oldest(Place::Own(v)).filter(liked));
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
            Place::Mail(WorkerId(
                ((hints.s - 1) % u32::from(self.placement.workers())) as u16,
            ))
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
            .or_else(|| self.oldest(Place::Shared))
            .or_else(|| self.steal(me))
            .or_else(|| {
                self.others(me)
                    .into_iter()
                    .find_map(|other| self.oldest(Place::Mail(other)))
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
/// Says which event differs, and how.
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
        let right = model.next(worker);
        if right != given {
            return Err(format!(
                "event {i}: worker {worker} was given {given:?}, the rule says {right:?}"
            ));
        }
    }
    Ok(())
}

/// As [`replay`], of what a shared pool recorded inside its critical sections, also while many workers used it at once.
///
/// # Errors
/// Says which event differs, and how.
pub fn replay_pool(events: &[Logged], model: &mut dyn Model) -> Result<(), String> {
    let mut next_age = 0;
    for (i, &event) in events.iter().enumerate() {
        match event {
            Logged::Ready { task, arrival } => {
                let Arrival { age, on, hints, .. } = arrival;
                if age != next_age {
                    return Err(format!(
                        "event {i}: age {age} was drawn, {next_age} is next"
                    ));
                }
                next_age += 1;
                model.ready(on.unwrap_or(WorkerId::NONE), task, hints);
            }
            Logged::Next { worker, answer } => {
                let right = model.next(worker);
                if right != answer {
                    return Err(format!(
                        "event {i}: worker {worker} was given {answer:?}, the rule says {right:?}"
                    ));
                }
            }
        }
    }
    Ok(())
}
