//! A reduction: the sum of a large array of integers, as a tree of tasks.
//!
//! A leaf sums one block of the array; an inner task adds two sums, and the root has the total. Sums wrap around, so the order of the
//! additions does not matter.
//!
//! Every element is read once: groups cannot save a miss in the array. What tasks share are the sums. Eight of them fill a line of 64
//! bytes, so the eight leaves that write a line, and the tasks that add what they wrote, are one S group: a line stays with one worker. A
//! T group has one line of each worker, so sums are added soon after they were written.

use crate::loops::Loops;
use crate::options::{Kind, OptionSpec, Values};
use crate::record::{Accesses, RecordedTask, TaskGroups, TaskRecorder};
use crate::tiles::{Probe, Stretch};
use crate::workload::{
    Description, Done, Facts, Output, Prepared, RecordError, Recorder, Recording, RunError, Site,
    Way, Workload, go_on,
};
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tanada_runtime::{Cancel, GraphError, Instance, NodeId, SGroup, TGroup, TemplateBuilder};
use tanada_trace::Sink;

/// Bytes of an element, and of a sum.
const WORD: u64 = size_of::<u64>() as u64;

/// Sums in a line of 64 bytes.
const SUMS_PER_LINE: usize = 8;

/// Elements that a recorded leaf reads at a time: 4 KiB.
const ROW: usize = 512;

/// Bytes of the graph a task, roughly.
const TASK_BYTES: u64 = 256;

/// Bytes of a recording a task, roughly.
const RECORDED_TASK_BYTES: u64 = 64;

/// What helps if the memory is too small.
const ADVICE: &str = "choose a smaller --size or a larger --leaf";

/// The pattern of the groups.
const GROUPS: &str = "default";

const LEAF: &str = "leaf";
const ADD: &str = "add";

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "size",
        "N",
        Kind::Count(1, 1 << 32),
        "Elements of the array, of 8 bytes each",
    )
    .default("32000000")
    .default_in_recordings("4000000"),
    // The smallest leaf keeps the number of tasks below 2^32, whatever the size. The default is no power of two: leaves that run at the
    // same time do not meet in the same sets of a cache.
    OptionSpec::new(
        "leaf",
        "N",
        Kind::Count(64, 1 << 24),
        "Elements that a leaf task sums",
    )
    .default("16000"),
];

/// The workload.
pub(crate) struct Reduction;

/// How the array is cut.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// Elements; at least 1.
    size: usize,
    /// Elements of each leaf but the last, which may have fewer.
    leaf: usize,
    workers: u16,
}

/// An inner task: adds the sum at `second` to the one at `first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    /// The level above the leaves, from 1 on.
    level: u32,
    first: usize,
    second: usize,
}

impl Plan {
    fn new(values: &Values, site: &Site) -> Plan {
        Plan {
            size: values.count("size") as usize,
            leaf: values.count("leaf") as usize,
            workers: site.workers,
        }
    }

    /// Returns the options as text.
    fn input(self) -> String {
        format!("size={},leaf={}", self.size, self.leaf)
    }

    fn leaves(self) -> usize {
        self.size.div_ceil(self.leaf)
    }

    fn array_bytes(self) -> u64 {
        self.size as u64 * WORD
    }

    /// Returns the bytes of sums and tasks, of which each takes `task` bytes.
    fn bytes(self, task: u64) -> u64 {
        let leaves = self.leaves() as u64;
        leaves * WORD + (2 * leaves - 1) * task
    }

    /// Returns the elements of a leaf.
    fn elements(self, leaf: usize) -> Range<usize> {
        leaf * self.leaf..((leaf + 1) * self.leaf).min(self.size)
    }

    /// Returns all inner tasks, level by level. There is one fewer than there are leaves: a sum that has no partner waits for the next
    /// level.
    fn pairs(self) -> impl Iterator<Item = Pair> {
        let leaves = self.leaves();
        let levels = leaves.next_power_of_two().ilog2();
        (1..=levels).flat_map(move |level| {
            let half = 1 << (level - 1);
            (half..leaves).step_by(2 * half).map(move |second| Pair {
                level,
                first: second - half,
                second,
            })
        })
    }

    /// Returns the groups of a leaf: see the head of this module.
    fn groups(self, leaf: usize) -> TaskGroups {
        let (line, workers) = (leaf / SUMS_PER_LINE, usize::from(self.workers));
        (
            TGroup(1 + (line / workers) as u32),
            SGroup(1 + (line % workers) as u32),
        )
    }

    /// Returns the groups of an inner task: S is that of the sum it changes, T that of the sum it waits for longest.
    fn groups_of_pair(self, pair: Pair) -> TaskGroups {
        (self.groups(pair.second).0, self.groups(pair.first).1)
    }
}

impl Pair {
    /// Returns the level and the task's place in it, as one number.
    fn index(self) -> u64 {
        u64::from(self.level) << 32 | (self.first >> self.level) as u64
    }
}

/// What tasks work on.
struct Work {
    plan: Plan,
    array: Vec<u64>,
    /// One sum a leaf. An inner task leaves its sum in the place of the first that it adds, so the total is in the first place of all.
    /// Dependencies order all accesses.
    sums: Vec<AtomicU64>,
    done: Done,
}

/// Returns all of `values`, of which there are `count`.
fn collected<T>(values: impl Iterator<Item = T>, count: usize) -> Result<Vec<T>, RunError> {
    let mut all = Vec::new();
    let bytes = count.checked_mul(size_of::<T>());
    all.try_reserve_exact(count)
        .map_err(|_| RunError::no_memory(bytes))?;
    all.extend(values);
    Ok(all)
}

impl Work {
    /// Returns the array and its sums.
    ///
    /// # Errors
    /// The system does not give the memory.
    fn new(plan: Plan) -> Result<Work, RunError> {
        let element = |at: u64| at.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Ok(Work {
            plan,
            array: collected((0..plan.size as u64).map(element), plan.size)?,
            sums: collected((0..plan.leaves()).map(|_| AtomicU64::new(0)), plan.leaves())?,
            done: Done::default(),
        })
    }

    /// Returns the sum of a leaf.
    fn sum_of(&self, leaf: usize) -> u64 {
        let elements = &self.array[self.plan.elements(leaf)];
        self.done.add();
        wrapping_sum(elements.iter().copied())
    }

    fn sum_leaf(&self, leaf: usize) {
        self.sums[leaf].store(self.sum_of(leaf), Relaxed);
    }

    fn add(&self, pair: Pair) {
        let [first, second] = [pair.first, pair.second].map(|at| self.sums[at].load(Relaxed));
        self.sums[pair.first].store(first.wrapping_add(second), Relaxed);
    }

    /// Adds all sums of leaves.
    fn add_all(&self) {
        self.set_total(wrapping_sum(self.sums.iter().map(|sum| sum.load(Relaxed))));
    }

    fn set_total(&self, total: u64) {
        self.sums[0].store(total, Relaxed);
    }

    fn total(&self) -> u64 {
        self.sums[0].load(Relaxed)
    }
}

fn wrapping_sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::wrapping_add)
}

/// Builds and returns the tree.
fn tasks(plan: Plan) -> Result<Instance<'static, Work>, GraphError> {
    let mut builder = TemplateBuilder::new();
    // The task that wrote each sum last.
    let mut last: Vec<NodeId> = Vec::with_capacity(plan.leaves());
    for leaf in 0..plan.leaves() {
        let node = builder.task(LEAF, leaf as u64, move |work: &Work, _| work.sum_leaf(leaf));
        let (t, s) = plan.groups(leaf);
        builder.groups(node, t, s);
        last.push(node);
    }
    for pair in plan.pairs() {
        let node = builder.task(ADD, pair.index(), move |work: &Work, _| work.add(pair));
        let (t, s) = plan.groups_of_pair(pair);
        builder.groups(node, t, s);
        builder.edge(last[pair.first], node);
        builder.edge(last[pair.second], node);
        last[pair.first] = node;
    }
    Ok(builder.build()?.instance())
}

/// Builds and returns the program of today: a parallel loop over the leaves, and one sum of their sums.
fn loops(plan: Plan) -> Result<Instance<'static, Work>, GraphError> {
    let mut loops = Loops::new(plan.workers);
    loops.parallel(LEAF, plan.leaves(), |work: &Work, leaves| {
        leaves.for_each(|leaf| work.sum_leaf(leaf));
    });
    loops.parallel(ADD, 1, |work: &Work, _| work.add_all());
    loops.build()
}

impl Workload for Reduction {
    fn description(&self) -> &'static Description {
        &Description {
            name: "reduction",
            about: "Tree sum: the sum of a large array of integers",
            details: "Leaf tasks sum blocks of the array, inner tasks add two sums each. Every element is read once, so there is little \
                locality to gain: what counts is the memory's speed and the cost of a task.",
            options: OPTIONS,
            test_options: &[("size", "10007"), ("leaf", "256")],
        }
    }

    fn prepare(&self, values: &Values, site: &Site) -> Result<Box<dyn Prepared>, RunError> {
        let plan = Plan::new(values, site);
        site.require_memory(plan.array_bytes() + plan.bytes(TASK_BYTES), ADVICE)?;
        Ok(Box::new(Ready {
            tasks: tasks(plan)?,
            loops: loops(plan)?,
            work: Work::new(plan)?,
        }))
    }

    fn recorder(&self) -> Option<&dyn Recorder> {
        Some(self)
    }
}

/// An array with the tasks that sum it.
struct Ready {
    work: Work,
    tasks: Instance<'static, Work>,
    loops: Instance<'static, Work>,
}

impl Ready {
    /// Sums the array on this thread.
    fn run_here(&self, cancel: &Cancel) -> Result<(), GraphError> {
        let mut total = 0_u64;
        for leaf in 0..self.work.plan.leaves() {
            if cancel.is_cancelled() {
                return Err(GraphError::Cancelled);
            }
            total = total.wrapping_add(self.work.sum_of(leaf));
        }
        self.work.set_total(total);
        Ok(())
    }
}

impl Prepared for Ready {
    fn title(&self) -> String {
        "Tree sum".to_owned()
    }

    fn input(&self) -> String {
        self.work.plan.input()
    }

    fn run(
        &mut self,
        way: Way<'_>,
        cancel: &Cancel,
        _output: Option<&mut dyn Output>,
    ) -> Result<(), RunError> {
        match way {
            Way::Sequential => self.run_here(cancel)?,
            Way::Today(pool) => self.loops.run_with_cancel(pool, &self.work, cancel)?,
            Way::Tasks(pool) => self.tasks.run_with_cancel(pool, &self.work, cancel)?,
        }
        Ok(())
    }

    fn result(&mut self, output: &mut dyn Output) {
        output.begin();
        output.write(&self.work.total().to_le_bytes());
    }

    fn part(&self) -> &'static str {
        "total"
    }

    fn facts(&self) -> Facts {
        Facts {
            groups: GROUPS,
            ..Facts::default()
        }
    }

    fn done(&self) -> Done {
        self.work.done.clone()
    }

    fn steps(&self) -> Option<u64> {
        Some(self.work.plan.leaves() as u64)
    }

    fn step(&self) -> &'static str {
        "leaves"
    }
}

/// What a recorded task accesses.
impl Plan {
    fn record_leaf<S: Sink + ?Sized>(self, task: &mut Accesses<'_, '_, S>, leaf: usize) {
        let Range { start, end } = self.elements(leaf);
        for from in (start..end).step_by(ROW) {
            let elements = ROW.min(end - from);
            task.read(Stretch {
                field: 0,
                field_bytes: self.array_bytes(),
                offset: from as u64 * WORD,
                bytes: (elements as u64 * WORD) as u32,
            });
            task.compute(1, elements);
        }
        task.write(self.sum(leaf));
    }

    fn record_pair<S: Sink + ?Sized>(self, task: &mut Accesses<'_, '_, S>, pair: Pair) {
        task.read(self.sum(pair.first));
        task.read(self.sum(pair.second));
        task.compute(1, 1);
        task.write(self.sum(pair.first));
    }

    /// Returns the place of a sum.
    fn sum(self, leaf: usize) -> Stretch {
        Stretch {
            field: 1,
            field_bytes: self.leaves() as u64 * WORD,
            offset: leaf as u64 * WORD,
            bytes: WORD as u32,
        }
    }
}

/// Returns a task of these groups.
fn recorded(name: &'static str, groups: TaskGroups) -> RecordedTask<'static> {
    RecordedTask {
        name,
        plain: groups,
        named: &[],
    }
}

impl Recorder for Reduction {
    fn record(
        &self,
        values: &Values,
        site: &Site,
        sink: &mut dyn Sink,
        seen: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Recording, RecordError> {
        let plan = Plan::new(values, site);
        site.require_memory(plan.bytes(RECORDED_TASK_BYTES), ADVICE)?;
        let mut recorder = TaskRecorder::new(sink, plan.workers);
        let mut last: Vec<u32> = Vec::new();
        for leaf in 0..plan.leaves() {
            let task = recorded(LEAF, plan.groups(leaf));
            last.push(recorder.task(&task, [], |task| plan.record_leaf(task, leaf))?);
            go_on(seen, recorder.tasks())?;
        }
        for pair in plan.pairs() {
            let task = recorded(ADD, plan.groups_of_pair(pair));
            let waits = [last[pair.first], last[pair.second]];
            last[pair.first] = recorder.task(&task, waits, |task| plan.record_pair(task, pair))?;
            go_on(seen, recorder.tasks())?;
        }
        Ok(Recording {
            extent: plan.input(),
            groups: GROUPS,
            costs: recorder.costs().to_owned(),
            recorded: recorder.finish(),
            ..Recording::default()
        })
    }

    fn steps(&self, values: &Values) -> Option<u64> {
        let leaves = Plan::new(values, &Site::new(1)).leaves() as u64;
        Some(2 * leaves - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanada_runtime::Pool;

    fn plan(size: usize) -> Plan {
        Plan {
            size,
            leaf: 64,
            workers: 2,
        }
    }

    #[test]
    fn the_sum_is_right_for_whole_and_broken_trees() {
        let pool = Pool::builder().workers(2).build().expect("a pool");
        for size in [1, 64, 65, 128, 129, 500, 64 * 64, 64 * 64 + 1] {
            let plan = plan(size);
            let mut ready = Ready {
                work: Work::new(plan).unwrap(),
                tasks: tasks(plan).expect("a tree"),
                loops: loops(plan).expect("loops"),
            };
            let wanted = ready.work.array.iter().map(|&number| u128::from(number));
            let wanted = wanted.sum::<u128>() as u64;
            for way in [Way::Sequential, Way::Today(&pool), Way::Tasks(&pool)] {
                let before = ready.work.done.steps();
                ready.work.set_total(!wanted);
                let ran = ready.run(way, &Cancel::new(), None);
                ran.expect("it runs to its end");
                assert_eq!(ready.work.total(), wanted, "{size} {way:?}");
                let steps = ready.work.done.steps() - before;
                assert_eq!(Some(steps), ready.steps(), "{size} {way:?}");
            }
        }
    }

    #[test]
    fn every_sum_but_the_first_is_added_once() {
        for leaves in 1..100 {
            let pairs: Vec<Pair> = plan(64 * leaves).pairs().collect();
            let mut added: Vec<usize> = pairs.iter().map(|pair| pair.second).collect();
            added.sort_unstable();
            assert_eq!(added, (1..leaves).collect::<Vec<_>>());
            let mut indices: Vec<u64> = pairs.iter().map(|pair| pair.index()).collect();
            indices.dedup();
            assert_eq!(indices.len(), pairs.len(), "{leaves}");
            assert!(indices.is_sorted(), "{leaves}");
        }
    }

    #[test]
    fn tasks_that_share_a_line_of_sums_share_their_groups() {
        let plan = plan(64 * 1000);
        assert_eq!(plan.groups(0), (TGroup(1), SGroup(1)));
        assert_eq!(plan.groups(8), (TGroup(1), SGroup(2)));
        assert_eq!(plan.groups(16), (TGroup(2), SGroup(1)));
        for pair in plan.pairs().filter(|pair| pair.level <= 3) {
            assert_eq!(plan.groups_of_pair(pair), plan.groups(pair.first));
        }
    }
}
