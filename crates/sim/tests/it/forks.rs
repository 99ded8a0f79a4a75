//! Traces of forks under the fork policies: every strand once, and no schedule that is faster or slower than a schedule can be.

use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use tanada_policy::forks;
use tanada_sim::{Machine, Options, Outcome, Run, simulate};
use tanada_trace::{Groups, Trace};

/// A program of forks.
#[derive(Clone, Debug)]
enum Program {
    Work(u64),
    /// One after the other.
    Then(Vec<Program>),
    Join(Box<[Program; 2]>),
}

fn any_program() -> impl Strategy<Value = Program> {
    let work = (0..100_u64).prop_map(Program::Work);
    work.prop_recursive(9, 120, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(Program::Then),
            (inner.clone(), inner).prop_map(|(a, b)| Program::Join(Box::new([a, b]))),
        ]
    })
}

/// The text of a trace, written as the recorder of forks does.
#[derive(Default)]
struct Writer {
    tasks: String,
    edges: String,
    count: u64,
}

impl Writer {
    fn strand(&mut self, depth: u32, work: u64) -> u64 {
        self.count += 1;
        let _ = writeln!(self.tasks, "task {} depth={depth}\nx {work}", self.count);
        self.count
    }

    fn edge(&mut self, kind: &str, from: u64, to: u64) {
        let _ = writeln!(self.edges, "{kind} {from} {to}");
    }

    /// Writes what `program` does behind the strand `after`. Returns its last strand, and adds to work and span.
    fn write(&mut self, program: &Program, after: u64, depth: u32) -> (u64, u64, u64) {
        match program {
            Program::Work(work) => {
                let strand = self.strand(depth, *work);
                self.edge("dep", after, strand);
                (strand, *work, *work)
            }
            Program::Then(parts) => {
                parts
                    .iter()
                    .fold((after, 0, 0), |(after, work, span), part| {
                        let (last, more, longer) = self.write(part, after, depth);
                        (last, work + more, span + longer)
                    })
            }
            Program::Join(both) => {
                let begins = [self.strand(depth + 1, 0), self.strand(depth + 1, 0)];
                begins
                    .iter()
                    .for_each(|begin| self.edge("fork", after, *begin));
                let [one, other] = [0, 1].map(|at| self.write(&both[at], begins[at], depth + 1));
                let joined = self.strand(depth, 0);
                self.edge("dep", one.0, joined);
                self.edge("dep", other.0, joined);
                (joined, one.1 + other.1, one.2.max(other.2))
            }
        }
    }
}

fn run(trace: &Trace, cores: u16, policy: &str, seed: u64) -> (Outcome, Vec<Run>) {
    let machine = format!(
        "name = \"bare\"\nmodel = \"uniform\"\ncores = {cores}\nhit_cycles = 1\ndispatch_cycles = 0\ncoherence = \"none\"\n"
    );
    let machine = Machine::parse(&machine, "bare.toml").expect("a sound machine");
    let mut runs = Vec::new();
    let options = Options {
        seed: Some(seed),
        ..Options::default()
    };
    let outcome = simulate(trace, &machine, policy, &options, &mut runs);
    (outcome.expect("it runs to its end"), runs)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_strand_runs_once_in_no_less_than_the_bounds_allow(
        program in any_program(), cores in 1_u16..7, seed: u64
    ) {
        let mut writer = Writer::default();
        let root = writer.strand(0, 0);
        let (_, work, span) = writer.write(&program, root, 0);
        let text = format!("tanada-trace 1\n{}{}", writer.tasks, writer.edges);
        let trace = Trace::parse(text.as_bytes(), "t.tnt", &Groups::Plain).expect("a sound trace");
        for entry in forks::all() {
            let (outcome, runs) = run(&trace, cores, entry.name, seed);
            let strands: BTreeSet<u32> = runs.iter().map(|run| run.task).collect();
            prop_assert_eq!((runs.len(), strands.len()), (trace.tasks().len(), runs.len()));
            let name = entry.name;
            let least = span.max(work.div_ceil(u64::from(cores)));
            prop_assert!(outcome.makespan >= least, "{}: {} < {}", name, outcome.makespan, least);
            prop_assert!(outcome.makespan <= work, "{}: {} > {}", name, outcome.makespan, work);
            if entry.greedy {
                let most = (work - span).div_ceil(u64::from(cores)) + span;
                prop_assert!(outcome.makespan <= most, "{}: {} > {}", name, outcome.makespan, most);
            }
            if cores == 1 {
                prop_assert_eq!(outcome.origins.stolen, 0);
            }
        }
    }
}

#[test]
fn one_core_runs_a_join_in_the_programs_order() {
    let text = "tanada-trace 1\ntask 1\ntask 2 depth=1\nx 5\ntask 3 depth=1\nx 7\ntask 4\n\
        fork 1 2\nfork 1 3\ndep 2 4\ndep 3 4\n";
    let trace = Trace::parse(text.as_bytes(), "t.tnt", &Groups::Plain).expect("a sound trace");
    for entry in forks::all() {
        let order = |cores| -> Vec<(u16, u32)> {
            let (_, runs) = run(&trace, cores, entry.name, 0);
            runs.iter().map(|run| (run.core, run.task)).collect()
        };
        assert_eq!(order(1), [(0, 0), (0, 1), (0, 2), (0, 3)], "{}", entry.name);
        // The second closure is stolen, and what follows runs where the last one ends; under `adws` where the closure began.
        let last = u16::from(entry.name != "adws");
        assert_eq!(
            order(2),
            [(0, 0), (0, 1), (1, 2), (last, 3)],
            "{}",
            entry.name
        );
    }
}

#[test]
fn a_cutoff_leaves_a_deep_chain_to_one_core() {
    // A comb that forks at depths 1 to 40.
    let mut writer = Writer::default();
    let comb = (0..40).fold(Program::Work(10), |inner, _| {
        Program::Join(Box::new([Program::Work(10), inner]))
    });
    let root = writer.strand(0, 0);
    let (_, work, _) = writer.write(&comb, root, 0);
    let text = format!("tanada-trace 1\n{}{}", writer.tasks, writer.edges);
    let trace = Trace::parse(text.as_bytes(), "t.tnt", &Groups::Plain).expect("a sound trace");
    let makespan = |policy| run(&trace, 4, policy, 0).0.makespan;
    assert!(makespan("cutoff") > work / 2);
    assert!(makespan("near-first") < work / 3);
    assert!(makespan("help-first") < work / 3);
}
