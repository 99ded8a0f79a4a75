//! A workload of your own in a crate of your own, compared under two policies: every result is checked.
//!
//! The workload counts the bytes of a text: a task a block, and one task that adds up the counts. It has no recorder, so there is no
//! simulated half. `docs/workloads.md` shows how a workload becomes one of the registered ones, and how it is recorded.
//!
//! Run it with `cargo run --release -p tanada-examples --bin own_workload`.
#![forbid(unsafe_code)]

use std::sync::Mutex;
use tanada_harness::compare::{self, Candidate, Options};
use tanada_runtime::{Cancel, GraphError, Instance, NodeId, SGroup, TGroup, TemplateBuilder};
use tanada_workloads::loops::Loops;
use tanada_workloads::options::{Kind, OptionSpec, Purpose, Values};
use tanada_workloads::workload::{Description, Done, Output, Prepared, RunError, Site, Way};
use tanada_workloads::{Workload, values_of};

const BLOCK: usize = 16 << 10;

const OPTIONS: &[OptionSpec] =
    &[
        OptionSpec::new("bytes", "N", Kind::Count(1, 1 << 32), "Length of the text")
            .default("4194304"),
    ];

type Counts = [u64; 256];

/// What tasks work on.
struct Text {
    bytes: Vec<u8>,
    blocks: Vec<Mutex<Counts>>,
    sum: Mutex<Counts>,
    done: Done,
}

impl Text {
    fn count(&self, block: usize) {
        let mut counts = [0; 256];
        for &byte in self.bytes.chunks(BLOCK).nth(block).expect("a block") {
            counts[usize::from(byte)] += 1;
        }
        *self.blocks[block].lock().expect("no task panics") = counts;
        self.done.add();
    }

    fn add(&self) {
        let mut sum = [0; 256];
        for block in &self.blocks {
            let counts = block.lock().expect("no task panics");
            sum.iter_mut()
                .zip(*counts)
                .for_each(|(sum, count)| *sum += count);
        }
        *self.sum.lock().expect("no task panics") = sum;
    }
}

struct Histogram;

impl Workload for Histogram {
    fn description(&self) -> &'static Description {
        &Description {
            name: "histogram",
            about: "Counts the bytes of a text",
            details: "",
            options: OPTIONS,
            test_options: &[],
        }
    }

    fn prepare(&self, values: &Values, site: &Site) -> Result<Box<dyn Prepared>, RunError> {
        let bytes = values.count("bytes");
        site.require_memory(bytes, "choose fewer --bytes")?;
        let bytes: Vec<u8> = (0..bytes).map(|at| ((at * at) >> 7) as u8).collect();
        let blocks = bytes.len().div_ceil(BLOCK);
        Ok(Box::new(Ready {
            text: Text {
                bytes,
                blocks: (0..blocks).map(|_| Mutex::new([0; 256])).collect(),
                sum: Mutex::new([0; 256]),
                done: Done::default(),
            },
            tasks: tasks(blocks)?,
            loops: loops(blocks, site.workers)?,
        }))
    }
}

/// Returns a graph with a task for each block, and a last one that waits for all of them.
fn tasks(blocks: usize) -> Result<Instance<'static, Text>, GraphError> {
    let mut builder = TemplateBuilder::new();
    let count = |at| builder.task("count", at as u64, move |text: &Text, _| text.count(at));
    let nodes: Vec<NodeId> = (0..blocks).map(count).collect();
    let add = builder.task("add", 0, |text: &Text, _| text.add());
    builder.groups(add, TGroup(1), SGroup(1));
    for node in nodes {
        builder.groups(node, TGroup(1), SGroup(1));
        builder.edge(node, add);
    }
    Ok(builder.build()?.instance())
}

/// Returns the graph of the same work as it would be written today.
fn loops(blocks: usize, workers: u16) -> Result<Instance<'static, Text>, GraphError> {
    let mut loops = Loops::new(workers);
    loops.parallel("count", blocks, |text: &Text, block| {
        block.for_each(|at| text.count(at))
    });
    loops.parallel("add", 1, |text: &Text, _| text.add());
    loops.build()
}

struct Ready {
    text: Text,
    tasks: Instance<'static, Text>,
    loops: Instance<'static, Text>,
}

impl Prepared for Ready {
    fn title(&self) -> String {
        "Histogram".to_owned()
    }

    fn input(&self) -> String {
        format!("bytes={}", self.text.bytes.len())
    }

    fn run(
        &mut self,
        way: Way<'_>,
        cancel: &Cancel,
        _: Option<&mut dyn Output>,
    ) -> Result<(), RunError> {
        match way {
            Way::Tasks(pool) => self.tasks.run_with_cancel(pool, &self.text, cancel)?,
            Way::Today(pool) => self.loops.run_with_cancel(pool, &self.text, cancel)?,
            Way::Sequential => {
                for at in 0..self.text.blocks.len() {
                    if cancel.is_cancelled() {
                        return Err(GraphError::Cancelled.into());
                    }
                    self.text.count(at);
                }
                self.text.add();
            }
        }
        Ok(())
    }

    fn result(&mut self, output: &mut dyn Output) {
        for count in *self.text.sum.lock().expect("no task panics") {
            output.begin();
            output.write(&count.to_le_bytes());
        }
    }

    fn done(&self) -> Done {
        self.text.done.clone()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let candidates = [
        Candidate::registered("fcfs")?,
        Candidate::registered("random-steal")?,
    ];
    let values = values_of(&Histogram, Purpose::Run);
    let found = compare::run(&Histogram, &values, &candidates, &Options::default())?;
    print!("{}", tanada_report::to_table(&found.report));
    assert!(found.differences.is_empty(), "every way computes the same");
    Ok(())
}
