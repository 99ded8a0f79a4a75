//! Programs of nested forks as [`Workload`]s.

use super::record::costs;
use super::{Forked, Part, Repeats, Watch, record, run};
use crate::loops::BLOCKS_PER_WORKER;
use crate::options::{Kind, OptionSpec, Values};
use crate::workload::{
    Description, Done, Facts, Output, Prepared, RecordError, Recorder, Recording, RunError, Site,
    Way, Workload,
};
use std::marker::PhantomData;
use std::ops::ControlFlow;
use tanada_runtime::{Cancel, GraphError, Pool, fork};
use tanada_trace::Sink;

/// How often all of the program is done, over the same data.
pub(super) const ITERATIONS: OptionSpec = OptionSpec::new(
    "iterations",
    "N",
    Kind::Count(1, 1 << 20),
    "How often all of it is done, over the same data",
)
.default("4")
.default_in_recordings("1");

/// Where forking ends.
pub(super) const CLOSURES: OptionSpec = OptionSpec::new(
    "closures",
    "N",
    Kind::Count(0, u32::MAX as u64),
    "Closures at a time at which forking ends, as many as cores for paper 5's Cutoff; 0: every fork is one",
)
.default("0")
.of_tasks();

/// A program of nested forks that commands know. Each of its leaves owns one item.
pub(crate) trait Registered: Forked + Send + Sized + 'static {
    /// What commands know of the program. Its options have [`ITERATIONS`] and [`CLOSURES`] among them.
    const DESCRIPTION: &'static Description;
    /// The name of a part of the result, in the singular.
    const PART: &'static str;

    /// Returns the bytes of memory that a run takes, at least.
    fn bytes(values: &Values) -> u64;

    /// Returns the program.
    fn new(values: &Values) -> Self;

    /// Returns the options that say what is computed, as text.
    fn input(values: &Values) -> String;

    /// Returns the numbers of the result, and how many of them are a part of it.
    fn result(&self, items: &[Self::Item]) -> (Vec<f32>, usize);
}

/// The workload of a program.
pub(crate) struct OverForks<P>(PhantomData<fn() -> P>);

impl<P> OverForks<P> {
    pub(crate) const NEW: OverForks<P> = OverForks(PhantomData);
}

fn repeats(values: &Values) -> Repeats {
    Repeats {
        iterations: values.count(ITERATIONS.flag) as u32,
        tasks: values.count(CLOSURES.flag) as u32,
    }
}

/// Returns what is computed and how often, as text.
fn input<P: Registered>(values: &Values) -> String {
    format!(
        "{},iterations={}",
        P::input(values),
        values.count(ITERATIONS.flag)
    )
}

/// Returns how the work is cut, as text.
fn cut(repeats: Repeats) -> &'static str {
    match repeats.tasks {
        0 => "",
        _ => "cutoff",
    }
}

impl<P: Registered> Workload for OverForks<P> {
    fn description(&self) -> &'static Description {
        P::DESCRIPTION
    }

    fn forks(&self) -> bool {
        true
    }

    fn prepare(&self, values: &Values, site: &Site) -> Result<Box<dyn Prepared>, RunError> {
        site.require_memory(P::bytes(values), "choose fewer data")?;
        let program = P::new(values);
        Ok(Box::new(Ready {
            items: Vec::new(),
            leaves: leaves(&program, program.root()),
            program,
            repeats: repeats(values),
            input: input::<P>(values),
            done: Done::default(),
        }))
    }

    fn recorder(&self) -> Option<&dyn Recorder> {
        Some(self)
    }
}

/// Returns the number of leaves below `node` that have work.
fn leaves<P: Forked>(program: &P, node: P::Node) -> u64 {
    match program.part(node) {
        _ if program.work(node) == 0 => 0,
        Part::Leaf => 1,
        Part::Then(one, other) | Part::Fork(one, other) => {
            leaves(program, one) + leaves(program, other)
        }
    }
}

/// A program with its memory.
struct Ready<P: Forked> {
    program: P,
    /// Those of the last run; each run begins with new ones.
    items: Vec<P::Item>,
    /// Leaves of an iteration.
    leaves: u64,
    repeats: Repeats,
    input: String,
    done: Done,
}

impl<P: Forked> Ready<P> {
    /// Runs the program of today: in each iteration a parallel loop over the items, with a barrier behind it.
    fn loops(&mut self, pool: &Pool, watch: &Watch) {
        let Ready { program, items, .. } = self;
        let (program, root) = (&*program, program.root());
        let workers = usize::from(pool.workers());
        let length = items.len().div_ceil(workers * BLOCKS_PER_WORKER).max(1);
        for _ in 0..self.repeats.iterations {
            fork::install(pool, || {
                fork::scope(|scope| {
                    for (number, items) in items.chunks_mut(length).enumerate() {
                        let first = number * length;
                        let mut block = Block { items, first };
                        scope.spawn(move |_| block.run(program, root, 0, watch));
                    }
                });
            });
        }
    }
}

/// Returns how a run has ended, whose rest is left out once `cancel` is cancelled.
fn ended(cancel: &Cancel) -> Result<(), RunError> {
    match cancel.is_cancelled() {
        true => Err(GraphError::Cancelled.into()),
        false => Ok(()),
    }
}

/// A block of a loop over the items.
struct Block<'a, I> {
    items: &'a mut [I],
    /// The number of its first item.
    first: usize,
}

impl<I: Send> Block<'_, I> {
    /// Runs the leaves below `node`, whose first item is number `first`, that own an item of the block.
    fn run<P: Forked<Item = I>>(
        &mut self,
        program: &P,
        node: P::Node,
        first: usize,
        watch: &Watch,
    ) {
        let end = self.first + self.items.len();
        let is_apart = first >= end || first + program.owns(node) <= self.first;
        if is_apart || program.work(node) == 0 || watch.cancel.is_cancelled() {
            return;
        }
        match program.part(node) {
            Part::Leaf => {
                let own = first - self.first;
                program.leaf(node, &mut self.items[own..=own], first, &mut ());
                watch.done.add();
            }
            Part::Then(one, other) => {
                self.run(program, one, first, watch);
                self.run(program, other, first, watch);
            }
            Part::Fork(one, other) => {
                self.run(program, one, first, watch);
                self.run(program, other, first + program.owns(one), watch);
            }
        }
    }
}

impl<P: Registered> Prepared for Ready<P> {
    fn title(&self) -> String {
        P::DESCRIPTION.name.to_owned()
    }

    fn input(&self) -> String {
        self.input.clone()
    }

    fn set_up(&mut self, _way: Way<'_>, _cancel: &Cancel) -> Result<(), RunError> {
        self.items = self.program.items();
        Ok(())
    }

    fn run(
        &mut self,
        way: Way<'_>,
        cancel: &Cancel,
        _output: Option<&mut dyn Output>,
    ) -> Result<(), RunError> {
        let watch = Watch {
            cancel: cancel.clone(),
            done: self.done.clone(),
        };
        let pool = match way {
            Way::Today(pool) => {
                self.loops(pool, &watch);
                return ended(cancel);
            }
            Way::Sequential => None,
            Way::Tasks(pool) => Some(pool),
        };
        run(&self.program, &mut self.items, self.repeats, pool, &watch);
        ended(cancel)
    }

    fn result(&mut self, output: &mut dyn Output) {
        let (all, part) = self.program.result(&self.items);
        for part in all.chunks(part) {
            output.begin();
            for number in part {
                output.write(&number.to_le_bytes());
            }
        }
    }

    fn part(&self) -> &'static str {
        P::PART
    }

    fn facts(&self) -> Facts {
        Facts {
            cut: cut(self.repeats),
            ..Facts::default()
        }
    }

    fn done(&self) -> Done {
        self.done.clone()
    }

    fn steps(&self) -> Option<u64> {
        Some(self.leaves * u64::from(self.repeats.iterations))
    }

    fn step(&self) -> &'static str {
        "leaves"
    }
}

impl<P: Registered> Recorder for OverForks<P> {
    fn record(
        &self,
        values: &Values,
        site: &Site,
        sink: &mut dyn Sink,
        seen: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Recording, RecordError> {
        site.require_memory(P::bytes(values), "choose fewer data")?;
        let program = P::new(values);
        let taken = record(&program, repeats(values), sink, seen)?;
        Ok(Recording {
            extent: input::<P>(values),
            cut: cut(repeats(values)),
            counts: vec![("leaves", taken.leaves)],
            costs: costs(),
            recorded: taken.recorded,
            ..Recording::default()
        })
    }

    fn step(&self) -> &'static str {
        "pieces"
    }
}
