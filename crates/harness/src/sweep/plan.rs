//! The runs of a sweep: every trace with all groups on all machines with all settings and numbers of cores under all policies with all
//! seeds.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use tanada_policy::registry;
use tanada_sim::machines::{self, NotFound};
use tanada_sim::{Machine, MachineError, spelling};
use tanada_trace::{Groups, Trace};
use tanada_workloads::spelled_in;

use super::spec::{At, Spec};
use super::{Error, at_fault};

/// A product of more runs is a mistake.
const MOST_RUNS: usize = 1 << 20;

/// Returns the error of a sweep file whose lists have more than [`MOST_RUNS`] combinations.
fn too_many(file: &str, what: &str) -> Error {
    Error::Input(format!(
        "{file}:1: more than {MOST_RUNS} {what}; make the lists shorter"
    ))
}

/// The groups that count without a name.
const PLAIN: &str = "plain";

/// A trace file.
#[derive(Debug)]
pub(super) struct Input {
    /// As the sweep file has it.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// Length and CRC-32 of the file. A result counts only for the same file.
    identity: String,
    /// The number of tasks, as a measure of the time of a run.
    pub(super) tasks: u64,
    /// The names of its groups.
    groupings: Vec<String>,
}

/// A machine with settings and a number of cores.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) machine: Machine,
    /// As the sweep file has it.
    name: String,
    /// One for each key of `[set]`.
    values: Vec<String>,
    /// CRC-32 of the whole description of the machine.
    identity: u32,
}

/// One run: indices into the lists of a [`Plan`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) input: usize,
    pub(super) groups: usize,
    pub(super) variant: usize,
    pub(super) policy: usize,
    pub(super) seed: usize,
}

/// All runs, in the order of the results.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) inputs: Vec<Input>,
    pub(super) groups: Vec<At<String>>,
    pub(super) keys: Vec<String>,
    pub(super) variants: Vec<Variant>,
    pub(super) policies: Vec<&'static str>,
    pub(super) seeds: Vec<Option<u64>>,
}

impl Plan {
    /// Finds machines, policies and traces, and returns all runs. Files are looked for in `folder`, which has the sweep file.
    pub(super) fn new(spec: &Spec, file: &str, folder: &Path) -> Result<Plan, Error> {
        let policy = |wanted: &At<String>| match registry::find(&wanted.value) {
            Ok(entry) => Ok(entry.name),
            Err(error) => {
                let names = registry::all().iter().map(|entry| entry.name);
                let error = spelling::asked(error, &wanted.value, names);
                Err(at_fault(format!("{file}:{}", wanted.line), error))
            }
        };
        let policies = spec.policies.iter().map(policy);
        let mut policies = policies.collect::<Result<Vec<_>, _>>()?;
        if policies.is_empty() {
            policies = registry::all().iter().map(|entry| entry.name).collect();
        }
        let variants = variants(spec, file, folder)?;
        let mut groups = spec.groups.clone();
        if groups.is_empty() {
            groups.push(At {
                value: PLAIN.to_owned(),
                line: 1,
            });
        }
        let mut seeds: Vec<_> = spec.seeds.iter().map(|seed| Some(seed.value)).collect();
        if seeds.is_empty() {
            seeds.push(None);
        }
        let runs = [
            spec.traces.len(),
            groups.len(),
            variants.len(),
            policies.len(),
            seeds.len(),
        ];
        let runs = runs
            .iter()
            .try_fold(1_usize, |product, &count| product.checked_mul(count));
        if runs.is_none_or(|runs| runs > MOST_RUNS) {
            return Err(too_many(file, "runs"));
        }
        let mut inputs = Vec::new();
        for trace in &spec.traces {
            inputs.push(Input::open(trace, &groups, file, folder)?);
        }
        let keys = spec.set.iter().map(|(key, _)| key.clone()).collect();
        Ok(Plan {
            inputs,
            groups,
            keys,
            variants,
            policies,
            seeds,
        })
    }

    /// Returns the number of runs.
    pub(super) fn len(&self) -> usize {
        self.inputs.len()
            * self.groups.len()
            * self.variants.len()
            * self.policies.len()
            * self.seeds.len()
    }

    /// Returns run `number`, in the order of the results.
    pub(super) fn cell(&self, number: usize) -> Cell {
        let mut rest = number;
        let mut next = |count: usize| {
            let index = rest % count;
            rest /= count;
            index
        };
        // Fields are evaluated in this order: seeds vary fastest.
        Cell {
            seed: next(self.seeds.len()),
            policy: next(self.policies.len()),
            variant: next(self.variants.len()),
            groups: next(self.groups.len()),
            input: next(self.inputs.len()),
        }
    }

    /// Returns the groups of the run.
    pub(super) fn groups_of(&self, cell: Cell) -> Groups {
        match self.groups[cell.groups].value.as_str() {
            PLAIN => Groups::Plain,
            "none" => Groups::None,
            name => {
                let there = &self.inputs[cell.input].groupings;
                Groups::Named(spelled_in(name, there).to_owned())
            }
        }
    }

    /// Returns what identifies a run in the journal: equal for runs that cannot differ, on one line without tabs.
    pub(super) fn identity(&self, cell: Cell) -> String {
        let (input, variant) = (&self.inputs[cell.input], &self.variants[cell.variant]);
        format!(
            "{:?} {} {:?} {:?} {:?} {:08x} {} {:?}",
            input.name,
            input.identity,
            self.groups[cell.groups].value,
            variant.name,
            variant.values,
            variant.identity,
            self.policies[cell.policy],
            self.seeds[cell.seed],
        )
    }

    /// Returns the first columns of a row: names and values.
    pub(super) fn columns(&self, cell: Cell) -> Vec<(String, String)> {
        let variant = &self.variants[cell.variant];
        let mut columns = vec![
            ("trace".to_owned(), self.inputs[cell.input].name.clone()),
            ("groups".to_owned(), self.groups[cell.groups].value.clone()),
            ("machine".to_owned(), variant.name.clone()),
        ];
        let values = variant.values.iter().cloned();
        columns.extend(self.keys.iter().cloned().zip(values));
        columns.push(("policy".to_owned(), self.policies[cell.policy].to_owned()));
        columns
    }

    /// Returns the numbers of a row that do not depend on its result.
    pub(super) fn numbers(&self, cell: Cell) -> [(&'static str, u64); 2] {
        let machine = &self.variants[cell.variant].machine;
        [
            ("cores", machine.cores.into()),
            ("seed", self.seeds[cell.seed].unwrap_or(machine.seed)),
        ]
    }
}

impl Input {
    fn open(
        trace: &At<String>,
        groups: &[At<String>],
        file: &str,
        folder: &Path,
    ) -> Result<Input, Error> {
        let path = folder.join(&trace.value);
        let place = format!("{file}:{}: {}", trace.line, path.display());
        let (length, crc) = checksum(&path).map_err(|error| at_fault(place, error))?;
        let opened =
            Trace::open(&path, &Groups::Plain).map_err(|error| Error::Input(error.to_string()))?;
        for name in groups
            .iter()
            .filter(|name| !["none", PLAIN].contains(&&*name.value))
        {
            let name_there = spelled_in(&name.value, opened.groupings()).to_owned();
            if !opened.groupings().contains(&name_there) {
                let mut there = opened.groupings().to_vec();
                there.extend([PLAIN, "none"].map(str::to_owned));
                let text = format!(
                    "{file}:{}: no task of {} has groups named `{}`; there are: {}",
                    name.line,
                    trace.value,
                    name.value,
                    there.join(", ")
                );
                return Err(Error::Input(text));
            }
        }
        Ok(Input {
            name: trace.value.clone(),
            path,
            identity: format!("{length}-{crc:08x}"),
            tasks: opened.len() as u64,
            groupings: opened.groupings().to_vec(),
        })
    }
}

/// Returns length and CRC-32 of a file.
pub(super) fn checksum(path: &Path) -> std::io::Result<(u64, u32)> {
    let mut file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other(
            "a sweep reads it often, so it must be a file",
        ));
    }
    let mut buffer = vec![0; 1 << 20];
    let mut hasher = crc32fast::Hasher::new();
    let mut length = 0;
    loop {
        let count = match file.read(&mut buffer) {
            Ok(0) => return Ok((length, hasher.finalize())),
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(&buffer[..count]);
        length += count as u64;
    }
}

/// Returns all machines with all settings and numbers of cores.
fn variants(spec: &Spec, file: &str, folder: &Path) -> Result<Vec<Variant>, Error> {
    let combinations = combinations(&spec.set, file)?;
    let mut variants = Vec::new();
    for wanted in &spec.machines {
        let machine = find(&wanted.value, folder).map_err(|error| match error {
            NotFound::Unsound(error) => Error::Input(error.to_string()),
            error => Error::Input(format!("{file}:{}: {error}", wanted.line)),
        })?;
        for (values, line) in &combinations {
            let set: Vec<String> = spec
                .set
                .iter()
                .zip(values)
                .map(|((key, _), value)| format!("{key}={value}"))
                .collect();
            let wrong = |line: usize| {
                let place = format!("{file}:{line}: {}", wanted.value);
                move |error: MachineError| at_fault(place, error)
            };
            let machine = machine.overridden(&set).map_err(wrong(*line))?;
            let cores = spec
                .cores
                .iter()
                .map(|cores| machine.with_cores(cores.value).map_err(wrong(cores.line)));
            let machines: Vec<Machine> = if spec.cores.is_empty() {
                vec![machine.clone()]
            } else {
                cores.collect::<Result<_, _>>()?
            };
            if variants.len() + machines.len() > MOST_RUNS {
                return Err(too_many(file, "machines"));
            }
            variants.extend(machines.into_iter().map(|machine| {
                let identity = crc32fast::hash(format!("{machine:?}").as_bytes());
                Variant {
                    machine,
                    name: wanted.value.clone(),
                    values: values.clone(),
                    identity,
                }
            }));
        }
    }
    Ok(variants)
}

/// Returns all combinations of values of `[set]`, the last key's changing fastest, each with the line of its last value.
fn combinations(
    set: &[(String, Vec<At<String>>)],
    file: &str,
) -> Result<Vec<(Vec<String>, usize)>, Error> {
    let mut all = vec![(Vec::new(), 1)];
    for (_, values) in set {
        if all.len().saturating_mul(values.len()) > MOST_RUNS {
            return Err(too_many(file, "settings"));
        }
        let longer = |(before, _): &(Vec<String>, usize), at: &At<String>| {
            let mut values = before.clone();
            values.push(at.value.clone());
            (values, at.line)
        };
        all = all
            .iter()
            .flat_map(|before| values.iter().map(move |at| longer(before, at)))
            .collect();
    }
    Ok(all)
}

/// Returns a registered machine, or the one in a file beside the sweep file.
fn find(name: &str, folder: &Path) -> Result<Machine, NotFound> {
    if machines::all().any(|shipped| shipped.name == name) {
        return machines::find(name);
    }
    let beside = folder.join(name);
    if beside.is_file() {
        machines::find(&beside)
    } else {
        machines::find(name)
    }
}
