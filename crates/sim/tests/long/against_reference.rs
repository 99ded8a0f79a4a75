//! The simulator beside a second one that shares nothing with it but the text of the rules: everything that both say must be equal.
//!
//! `TANADA_CASES=100000` tries 100,000 cases instead of the usual number; `TANADA_FIRST_CASE=17` begins with this one. A failure names the
//! case.

use std::io::Cursor;
use tanada_policy::registry;
use tanada_sim::{Machine, Options, Run, machine, simulate};
use tanada_trace::{BinaryWriter, Trace, read_text};

use crate::reference;

use reference::{Case, Groups, knows};

fn groups(groups: &Groups) -> tanada_trace::Groups {
    match groups {
        Groups::Plain => tanada_trace::Groups::Plain,
        Groups::Zero => tanada_trace::Groups::None,
        Groups::Named(name) => tanada_trace::Groups::Named(name.clone()),
    }
}

/// Every other case goes through the binary form of its trace.
fn read(case: &Case, binary: bool) -> Result<Trace, tanada_trace::TraceError> {
    let text = case.trace.as_bytes();
    if !binary {
        return Trace::parse(text, "case.tnt", &groups(&case.groups));
    }
    let mut writer = BinaryWriter::new(Cursor::new(Vec::new()))?;
    read_text(text, "case.tnt", &mut writer)?;
    let bytes = writer.finish()?.into_inner();
    Trace::parse(&bytes, "case.tnb", &groups(&case.groups))
}

/// What both simulators say of one run, as text.
fn compare(case: &Case, binary: bool, policy: &str) -> Result<reference::Result, String> {
    let trace = read(case, binary).map_err(|error| error.to_string())?;
    let machine = Machine::parse(&case.machine, "case.toml")
        .and_then(|machine| machine.overridden(&case.overrides));
    let mut machine = machine.map_err(|error: machine::MachineError| error.to_string())?;
    if let Some(cores) = case.cores {
        machine = machine
            .with_cores(cores)
            .map_err(|error| error.to_string())?;
    }
    let options = Options {
        seed: case.seed,
        ..Options::default()
    };
    let mut runs: Vec<Run> = Vec::new();
    let outcome = simulate(&trace, &machine, policy, &options, &mut runs)
        .map_err(|error| error.to_string())?;
    let ours: serde_json::Value =
        serde_json::from_str(&outcome.to_json_line()).map_err(|error| error.to_string())?;

    let trace_again = reference::Trace::parse(&case.trace, &case.groups);
    let machine_again =
        reference::Machine::parse(&case.overridden, case.cores.map(usize::from), case.seed);
    let theirs = reference::run(&trace_again, &machine_again, policy);
    let finished: Vec<reference::Finished> = (runs.iter())
        .map(|run| reference::Finished {
            core: usize::from(run.core),
            task: trace.tasks()[run.task as usize].id,
            start: run.start,
            end: run.end,
        })
        .collect();
    for (place, (a, b)) in finished.iter().zip(&theirs.finished).enumerate() {
        if a != b {
            return Err(format!("finish number {place}: {a:?} here, {b:?} there"));
        }
    }
    same(
        "number of finishes",
        &finished.len().into(),
        &theirs.finished.len().into(),
    )?;
    for (key, value) in theirs.json(policy, machine_again.cores) {
        same(&key, &ours[&key], &value)?;
    }
    Ok(theirs)
}

fn same(key: &str, ours: &serde_json::Value, theirs: &serde_json::Value) -> Result<(), String> {
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * a.abs().max(b.abs());
    let equal = match (ours.as_f64(), theirs.as_f64()) {
        (Some(a), Some(b)) if theirs.is_f64() => near(a, b),
        _ => ours == theirs,
    };
    if equal {
        return Ok(());
    }
    Err(format!("{key}: {ours} here, {theirs} there"))
}

/// Returns the registered policies that the reference knows.
fn policies(equal_distances: bool) -> impl Iterator<Item = &'static str> {
    let names = registry::all().iter().map(|entry| entry.name);
    names.filter(move |name| knows(name, equal_distances))
}

fn variable(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |value| value.parse().expect("a number"))
}

/// How many runs had something in them that a simulator can get wrong.
#[derive(Debug, Default)]
struct Seen {
    write_backs: u64,
    misses_and_hits_at_two_levels: u64,
    removed_copies: u64,
    random_victims: u64,
    busy_cores: u64,
    idle_cores: u64,
    equal_times: u64,
}

impl Seen {
    fn add(&mut self, case: &Case, result: &reference::Result) {
        let both = |&&(_, accesses, misses): &&(String, u64, u64)| 0 < misses && misses < accesses;
        let levels = result.caches.iter().filter(both).count();
        let busy = result.busy.iter().filter(|&&cycles| cycles > 0).count();
        let has = |word| case.overridden.contains(word);
        self.write_backs += u64::from(result.writebacks > 0);
        self.misses_and_hits_at_two_levels += u64::from(levels > 1);
        self.removed_copies += u64::from(has("invalidate") && has("per = \"core\"") && busy > 1);
        self.random_victims += u64::from(has("random\"\nmiss"));
        self.busy_cores += u64::from(busy > 2);
        self.idle_cores += u64::from(result.utilisation > 0.0 && result.utilisation < 0.9);
        let ends = |pair: &[reference::Finished]| {
            pair[0].end == pair[1].end && pair[0].core != pair[1].core
        };
        self.equal_times += u64::from(result.finished.windows(2).any(ends));
    }

    /// Of `runs` runs enough had each.
    fn hold(&self, runs: u64) {
        let Seen {
            write_backs,
            misses_and_hits_at_two_levels,
            removed_copies,
            random_victims,
            busy_cores,
            idle_cores,
            equal_times,
        } = *self;
        let least = [
            write_backs,
            misses_and_hits_at_two_levels,
            removed_copies,
            random_victims,
            busy_cores,
            idle_cores,
            equal_times,
        ];
        assert!(
            least.iter().all(|&many| many >= runs / 20),
            "of {runs} runs: {self:?}"
        );
    }
}

#[test]
fn random_traces_on_random_machines_agree_to_the_last_count() {
    let first = variable("TANADA_FIRST_CASE", 0);
    let cases = variable("TANADA_CASES", 300);
    let (mut compared, mut seen) = (0, Seen::default());
    for seed in first..first + cases {
        let case = Case::of(seed, [3, 8, 40, 8, 40, 250][(seed % 6) as usize]);
        for policy in policies(case.equal_distances) {
            let result = compare(&case, seed % 2 == 1, policy).unwrap_or_else(|what| {
                eprintln!("{}\n{}", case.trace, case.overridden);
                panic!(
                    "TANADA_FIRST_CASE={seed} TANADA_CASES=1, {policy}, groups {:?}, overrides {:?}, cores {:?}, seed {:?}: {what}",
                    case.groups, case.overrides, case.cores, case.seed
                );
            });
            seen.add(&case, &result);
            compared += 1;
        }
    }
    println!("{compared} runs: {seen:?}");
    assert!(compared >= cases * policies(false).count() as u64);
    if cases >= 300 {
        seen.hold(compared);
    }
}
