//! The runs of a sweep: every trace with all groups on all machines with all settings and numbers of cores under all policies with all
//! seeds.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use tanada_policy::{forks, registry};
use tanada_report::thousands;
use tanada_sim::machines::{self, NotFound};
use tanada_sim::{Machine, MachineError, spelling};
use tanada_trace::{Groups, Trace};
use tanada_workloads::spelled_in;

use super::spec::{At, Spec};
use super::{Error, at_fault};

/// A product of more runs is a mistake. A run takes nine kilobytes of memory until the table is written.
const MOST_RUNS: u64 = 250_000;

/// The most lists that the error about too many runs names.
const NAMED: usize = 4;

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

/// A machine as the sweep file names it, before settings.
#[derive(Debug)]
struct Base {
    name: String,
    machine: Machine,
}

/// One run: indices into the lists of a [`Plan`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) input: usize,
    pub(super) groups: usize,
    /// Machine, settings and number of cores, as one number.
    variant: usize,
    pub(super) policy: usize,
    pub(super) seed: usize,
}

/// All runs, in the order of the results. It takes the size of the lists and four bytes a machine: a run, and its machine, are made when it
/// is their turn.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) inputs: Vec<Input>,
    pub(super) groups: Vec<At<String>>,
    bases: Vec<Base>,
    set: Vec<(String, Vec<At<String>>)>,
    /// Empty: those of the machines.
    cores: Vec<At<u16>>,
    /// Of each machine with settings and cores: the CRC-32 of its whole description.
    identities: Vec<u32>,
    pub(super) policies: Vec<&'static str>,
    pub(super) seeds: Vec<Option<u64>>,
}

impl Plan {
    /// Finds machines, policies and traces, and returns all runs. Files are looked for in `folder`, which has the sweep file.
    pub(super) fn new(spec: &Spec, file: &str, folder: &Path) -> Result<Plan, Error> {
        let find = |name: &str| {
            let known = forks::any().find(|entry| entry.name == name);
            known.map_or_else(|| registry::find(name), Ok)
        };
        let policy = |wanted: &At<String>| match find(&wanted.value) {
            Ok(entry) => Ok(entry.name),
            Err(error) => {
                let names = forks::any().map(|entry| entry.name);
                let error = spelling::asked(error, &wanted.value, names);
                Err(at_fault(format!("{file}:{}", wanted.line), error))
            }
        };
        let policies = spec.policies.iter().map(policy);
        let mut policies = policies.collect::<Result<Vec<_>, _>>()?;
        if policies.is_empty() {
            policies = registry::all().iter().map(|entry| entry.name).collect();
        }
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
        let others = [
            ("groups", groups.len()),
            ("policies", policies.len()),
            ("seeds", seeds.len()),
        ];
        check_runs(spec, &others, file)?;
        let bases = bases(spec, file, folder)?;
        let mut inputs = Vec::new();
        for trace in &spec.traces {
            inputs.push(Input::open(trace, &groups, file, folder)?);
        }
        let mut plan = Plan {
            inputs,
            groups,
            bases,
            set: spec.set.clone(),
            cores: spec.cores.clone(),
            identities: Vec::new(),
            policies,
            seeds,
        };
        plan.identities = (0..plan.variants())
            .map(|variant| {
                let machine = plan.build(variant, file)?;
                Ok(crc32fast::hash(format!("{machine:?}").as_bytes()))
            })
            .collect::<Result<_, Error>>()?;
        Ok(plan)
    }

    /// Returns the number of machines with settings and cores.
    fn variants(&self) -> usize {
        let settings: usize = self.set.iter().map(|(_, values)| values.len()).product();
        self.bases.len() * settings * self.cores.len().max(1)
    }

    /// Returns the parts of a machine with settings and cores: cores vary fastest, then the value of the last key.
    fn parts(&self, variant: usize) -> (&Base, Vec<&At<String>>, Option<&At<u16>>) {
        let mut rest = variant;
        let mut next = |count: usize| {
            let index = rest % count;
            rest /= count;
            index
        };
        let cores = next(self.cores.len().max(1));
        let values = self.set.iter().rev();
        let values = values.map(|(_, values)| &values[next(values.len())]);
        let mut values: Vec<_> = values.collect();
        values.reverse();
        (&self.bases[rest], values, self.cores.get(cores))
    }

    /// Returns a machine with settings and cores. An error names `file` and the line of the value at fault.
    fn build(&self, variant: usize, file: &str) -> Result<Machine, Error> {
        let (base, values, cores) = self.parts(variant);
        let pairs = self.set.iter().zip(&values);
        let set: Vec<String> = pairs
            .map(|((key, _), at)| format!("{key}={}", at.value))
            .collect();
        let wrong = |line: usize| {
            let place = format!("{file}:{line}: {}", base.name);
            move |error: MachineError| at_fault(place, error)
        };
        let line = values.last().map_or(1, |at| at.line);
        let machine = base.machine.overridden(&set).map_err(wrong(line))?;
        match cores {
            Some(cores) => machine.with_cores(cores.value).map_err(wrong(cores.line)),
            None => Ok(machine),
        }
    }

    /// Returns the machine of the run.
    pub(super) fn machine(&self, cell: Cell) -> Result<Machine, Error> {
        self.build(cell.variant, "")
    }

    /// Returns the number of runs.
    pub(super) fn len(&self) -> usize {
        self.inputs.len()
            * self.groups.len()
            * self.identities.len()
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
            variant: next(self.identities.len()),
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
        let input = &self.inputs[cell.input];
        let (base, values, _) = self.parts(cell.variant);
        let values: Vec<&str> = values.iter().map(|at| &*at.value).collect();
        format!(
            "{:?} {} {:?} {:?} {:?} {:08x} {} {:?}",
            input.name,
            input.identity,
            self.groups[cell.groups].value,
            base.name,
            values,
            self.identities[cell.variant],
            self.policies[cell.policy],
            self.seeds[cell.seed],
        )
    }

    /// Returns the first columns of a row: names and values.
    pub(super) fn columns(&self, cell: Cell) -> Vec<(String, String)> {
        let (base, values, _) = self.parts(cell.variant);
        let mut columns = vec![
            ("trace".to_owned(), self.inputs[cell.input].name.clone()),
            ("groups".to_owned(), self.groups[cell.groups].value.clone()),
            ("machine".to_owned(), base.name.clone()),
        ];
        let pairs = self.set.iter().zip(values);
        columns.extend(pairs.map(|((key, _), at)| (key.clone(), at.value.clone())));
        columns.push(("policy".to_owned(), self.policies[cell.policy].to_owned()));
        columns
    }

    /// Returns the numbers of a row that do not depend on its result.
    pub(super) fn numbers(&self, cell: Cell) -> [(&'static str, u64); 2] {
        // `[set]` has no key that changes one of them.
        let (base, _, cores) = self.parts(cell.variant);
        let cores = cores.map_or(base.machine.cores, |at| at.value);
        let seed = self.seeds[cell.seed].unwrap_or(base.machine.seed);
        [("cores", cores.into()), ("seed", seed)]
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

/// Checks that the product of all lists is no more than [`MOST_RUNS`]. `others`: the lists that have values even if the file has none.
fn check_runs(spec: &Spec, others: &[(&str, usize)], file: &str) -> Result<(), Error> {
    let own = [
        ("traces", spec.traces.len()),
        ("machines", spec.machines.len()),
        ("cores", spec.cores.len().max(1)),
    ];
    let settings = spec.set.iter();
    let settings = settings.map(|(key, values)| (key.as_str(), values.len()));
    let lists = own.into_iter().chain(others.iter().copied());
    let mut lists: Vec<(&str, usize)> = lists.chain(settings).collect();
    let runs = lists.iter().try_fold(1_u64, |product, &(_, count)| {
        product.checked_mul(count as u64)
    });
    if runs.is_some_and(|runs| runs <= MOST_RUNS) {
        return Ok(());
    }
    lists.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let long = lists.iter().filter(|&&(_, count)| count > 1).take(NAMED);
    let long = long.map(|&(key, count)| format!("`{key}` ({})", thousands(count as u64)));
    let runs = runs.map_or_else(|| "more than 2^64".to_owned(), thousands);
    Err(Error::Input(format!(
        "{file}:1: the lists have {runs} combinations; a sweep runs {} at the most. Shorten the longest lists, or make several sweeps: {}",
        thousands(MOST_RUNS),
        long.collect::<Vec<_>>().join(", ")
    )))
}

/// Returns the machines that the sweep file names.
fn bases(spec: &Spec, file: &str, folder: &Path) -> Result<Vec<Base>, Error> {
    let base = |wanted: &At<String>| {
        let machine = find(&wanted.value, folder).map_err(|error| match error {
            NotFound::Unsound(error) => Error::Input(error.to_string()),
            error => Error::Input(format!("{file}:{}: {error}", wanted.line)),
        })?;
        Ok(Base {
            name: wanted.value.clone(),
            machine,
        })
    };
    spec.machines.iter().map(base).collect()
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
