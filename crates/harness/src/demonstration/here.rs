//! *Local, here*: two programs whose fields are larger than the caches of this machine, and what brings their gain over parallel loops.
//!
//! Each program runs in rows that differ in one thing: parallel loops with a barrier behind each; the task graph under `fcfs`, in which
//! tasks wait for their neighbours alone (*the graph*); the same tasks depth-first, newest first (*the order*); and under policies that
//! read groups, without groups and with them (*the groups*).

use super::{Stage, factor, fastest, row};
use crate::compare::Error;
use crate::rounds::{self, Engine};
use std::time::Duration;
use tanada_report::{BASELINE, RunResult, TODAY, Verdict, judge};
use tanada_runtime::DEFAULT_POLICY;
use tanada_topology::{Object, Topology};
use tanada_workloads::Prepared;

pub(super) const CLAIM: &str = "local, here";

/// The programs, with the fields of each, and options for rounds of a fraction of a second.
const PROGRAMS: [(&str, u64, (&str, &str)); 2] = [
    ("stencil", 2, ("sweeps", "16")),
    ("pipeline", 3, ("rounds", "2")),
];

/// Policies that go on with what was released last, and read no groups.
const DEPTH_FIRST: [&str; 2] = [DEFAULT_POLICY, "slifo"];

/// Policies that read groups: each runs without groups, too.
const GROUPED: [&str; 2] = ["ts", "ts-local"];

const ROUNDS: u32 = 5;

const LANES: u32 = 2 + (DEPTH_FIRST.len() + 2 * GROUPED.len()) as u32;

pub(super) const STEPS: u32 = PROGRAMS.len() as u32 * ROUNDS * LANES;

/// Time after which a program begins no further round.
const BUDGET: Duration = Duration::from_secs(15);

/// Bytes of all fields of a program at least, and at most.
const BYTES: (u64, u64) = (64 << 20, 640 << 20);

/// Bytes of a point.
const POINT: u64 = 4;

/// Bytes of all caches from the second level on.
pub(super) fn caches(topology: &Topology) -> u64 {
    let mut sum = 0;
    topology.root().visit(&mut |object: &Object| {
        if object.kind.is_cache() {
            sum += object.bytes.unwrap_or(0);
        }
    });
    sum
}

/// Returns rows and columns of a field, so that `fields` of them are an eighth larger than `caches`; a program with and without groups
/// takes a quarter of the `free` memory each at most.
fn size(fields: u64, caches: u64, free: Option<u64>) -> u64 {
    let bytes = (caches + caches / 8).clamp(BYTES.0, BYTES.1);
    let bytes = bytes.min(free.map_or(u64::MAX, |free| free / 4));
    let side = (bytes / (fields * POINT)).isqrt();
    side.next_multiple_of(64)
}

pub(super) fn run(stage: &mut Stage<'_>) -> Result<Vec<RunResult>, Error> {
    let mut runs = Vec::new();
    for (name, fields, option) in PROGRAMS {
        let side = match stage.options.small {
            true => 256,
            false => size(fields, caches(&stage.topology), crate::host::free_memory()),
        };
        runs.extend(program(stage, name, side, option)?);
    }
    Ok(runs)
}

/// Returns the rows of a program.
fn program(
    stage: &mut Stage<'_>,
    name: &str,
    side: u64,
    option: (&str, &str),
) -> Result<Vec<RunResult>, Error> {
    let side = side.to_string();
    let mut prepared: Vec<Box<dyn Prepared>> = Vec::new();
    for groups in ["none", "default"] {
        let pairs = [("size", &*side), option, ("groups", groups)];
        prepared.push(stage.prepare(name, &pairs)?);
    }
    let Engine::Tasks(pool) = stage.engine(DEFAULT_POLICY)? else {
        unreachable!("an engine of tasks")
    };
    let mut engines = vec![(0, Engine::Today(pool))];
    for policy in [BASELINE].into_iter().chain(DEPTH_FIRST) {
        engines.push((0, stage.engine(policy)?));
    }
    for policy in GROUPED {
        for pattern in 0..prepared.len() {
            engines.push((pattern, stage.engine(policy)?));
        }
    }
    let part = format!("local, here: {name}");
    let rows = stage.rounds(&part, &mut prepared, engines, ROUNDS, BUDGET)?;
    let mut runs: Vec<RunResult> = rows
        .iter()
        .map(|(pattern, row)| {
            let prepared = &prepared[*pattern];
            let row = row.to_result(name, &prepared.input(), &prepared.facts(), None);
            RunResult {
                honours_groups: GROUPED.contains(&&*row.policy),
                ..row
            }
        })
        .collect();
    if judge::busy(&runs).is_none() {
        rounds::rate(&mut runs);
    }
    Ok(runs)
}

/// Returns each program with its rows.
pub(super) fn programs(
    runs: &[RunResult],
) -> impl Iterator<Item = (&'static str, Vec<RunResult>)> + '_ {
    PROGRAMS.iter().map(|&(name, ..)| {
        let own = runs.iter().filter(|run| run.workload == name).cloned();
        (name, own.collect())
    })
}

/// `caches`: bytes of all caches of this machine from the second level on.
pub(super) fn verdict(runs: &[RunResult], caches: u64) -> Verdict {
    let mut sentences = Vec::new();
    let mut verdict = Verdict {
        claim: CLAIM.to_owned(),
        ..Verdict::default()
    };
    for (name, own) in programs(runs) {
        let (sentence, reasons) = gains(name, &own, caches);
        sentences.push(sentence);
        verdict.reasons.extend(reasons);
    }
    verdict.text = format!(
        "Beside loops over whole rows with barriers, {}.",
        sentences.join("; ")
    );
    verdict
}

/// Returns what a program gains over loops with barriers, in words without a full stop, and how that follows from its rows.
fn gains(name: &str, runs: &[RunResult], caches: u64) -> (String, Vec<String>) {
    let (today, fcfs) = (row(runs, TODAY, false), row(runs, BASELINE, false));
    let deep = fastest(DEPTH_FIRST.map(|policy| row(runs, policy, false)));
    let grouped = fastest(GROUPED.map(|policy| row(runs, policy, true)));
    let bare = row(runs, &grouped.policy, false);
    let best = fastest([fcfs, deep, grouped]);
    let (policy, order) = (&grouped.policy, &deep.policy);
    let whole = match judge::difference(best, today) {
        Some(ratio) if ratio > 1.0 => format!("{ratio:.2} times as fast under {}", best.policy),
        _ => "not faster".to_owned(),
    };
    let graph = factor(judge::difference(fcfs, today));
    let deeper = factor(judge::difference(deep, fcfs));
    let groups = factor(judge::difference(grouped, bare));
    let net = factor(judge::difference(grouped, deep));
    let sentence = format!(
        "the {name} is {whole}: the task graph brings {graph}, depth-first order {deeper} more ({order}), groups {net} more ({policy})"
    );
    let best = |run: &RunResult| run.seconds.map_or(0.0, |seconds| seconds.min * 1e3);
    let data = today.memory.or(fcfs.memory).map_or(0, |memory| memory.data);
    let beyond = match data > caches {
        true => "more than",
        false => "beside",
    };
    let reasons = vec![
        format!(
            "The fields of the {name} have {} MB, {beyond} {} MB of all caches from the second level on.",
            data / 1_000_000,
            caches / 1_000_000
        ),
        format!(
            "The graph: {BASELINE} took {:.0} ms, loops with barriers {:.0} ms. Loops of OpenMP and rayon take about as long as {BASELINE} \
             (docs/benchmarks.md), so beside them the graph alone brings nothing.",
            best(fcfs),
            best(today)
        ),
        format!(
            "The order: {order}, which runs what was released last, took {:.0} ms.",
            best(deep)
        ),
        format!(
            "The groups: {policy} took {:.0} ms with groups and {:.0} ms without ({groups}).",
            best(grouped),
            best(bare)
        ),
    ];
    (sentence, reasons)
}

/// Rows of both programs whose median repeat took `spread` times the shortest.
#[cfg(test)]
pub(super) fn made_up(spread: f64) -> Vec<RunResult> {
    let rows = |name| {
        let timed = |policy: &str, groups: &str, seconds: f64| RunResult {
            groups: groups.to_owned(),
            seconds: tanada_report::Seconds::of(&[seconds, seconds * spread, seconds * spread]),
            ..RunResult::new(name, "size=8", policy, 2)
        };
        [
            timed(TODAY, "", 1.0),
            timed(BASELINE, "none", 0.995),
            timed("random-steal", "none", 0.5),
            timed("slifo", "none", 0.6),
            timed("ts", "none", 1.0),
            timed("ts", "default", 0.4),
            timed("ts-local", "none", 0.5),
            timed("ts-local", "default", 0.45),
        ]
    };
    PROGRAMS.iter().flat_map(|(name, ..)| rows(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graph_order_and_groups_are_told_apart() {
        let rows = made_up(1.0);
        let (stencil, pipeline) = rows.split_at(rows.len() / 2);
        let (sentence, reasons) = gains("stencil", stencil, 1 << 20);
        assert_eq!(
            sentence,
            "the stencil is 2.50 times as fast under ts: the task graph brings nothing measurable, depth-first order 1.99 x more \
             (random-steal), groups 1.25 x more (ts)"
        );
        assert!(
            reasons[3].contains("400 ms with groups and 1000 ms without"),
            "{reasons:?}"
        );
        let mut slow = pipeline.to_vec();
        slow[0].seconds = tanada_report::Seconds::of(&[0.4, 0.4]);
        let (sentence, _) = gains("pipeline", &slow, 1 << 20);
        assert!(sentence.contains("is not faster: "), "{sentence}");
        let text = verdict(&rows, 1 << 20).text;
        assert!(
            text.contains("the stencil") && text.contains("; the pipeline"),
            "{text}"
        );
    }

    #[test]
    fn fields_are_larger_than_the_caches_and_smaller_than_the_memory() {
        for (caches, free) in [
            (4 << 20, None),
            (300 << 20, Some(16_u64 << 30)),
            (1 << 40, None),
        ] {
            for (_, fields, _) in PROGRAMS {
                let bytes = size(fields, caches, free).pow(2) * fields * POINT;
                assert!(bytes > caches.min(BYTES.1 - 1), "{bytes} {caches}");
                assert!(bytes < 2 * BYTES.1);
            }
        }
        let bytes = size(2, 1 << 40, Some(400 << 20)).pow(2) * 2 * POINT;
        assert!(bytes < 120 << 20, "{bytes}");
    }
}
