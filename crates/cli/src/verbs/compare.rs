//! `tanada compare`.

use super::FromTable;
use super::chosen::{self, Chosen};
use super::outputs::{Outputs, file_name};
use super::pooling::{self, Pooling};
use super::run::unprepared;
use crate::ui::{self, Failure, Outcome, Progress};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args as _, Command};
use std::path::Path;
use std::process::Stdio;
use tanada_harness::compare::{self, Candidate, Error, Found, Options, Step};
use tanada_harness::demonstration;
use tanada_runtime::Cancel;
use tanada_sim::spelling;
use tanada_workloads::Workload;
use tanada_workloads::options::Purpose;

pub(crate) struct Args {
    chosen: Chosen<Common>,
    /// Whether the command line names neither a workload nor anything that is compared.
    demonstration: bool,
    /// Whether it names a workload.
    named: bool,
}

const ABOUT: &str = "Show what Tanada gains here, or compare policies on a workload";

const DETAILS: &str = "\
    Without a workload, a file or an option of a comparison (--policy, --groups, --cut, --repeat, --no-sim, ..): a demonstration of \
    about a minute, with four verdicts. Right: a video \
    is decoded under each policy, and every frame compared. Light: the cost of a task of 100 ns. Local, here: a stencil and \
    an image pipeline larger than the caches, beside parallel loops. Local, there: the program of paper 1 on its chip, simulated.\n\n\
    Otherwise: runs a workload (with a file: decodes this H.264 stream) without tasks, as it would be written today (parallel \
    loops with barriers), and as tasks under each policy; checks that every result is the same, byte by byte; and shows time, \
    ratio to fcfs, tasks, scheduling cost and utilisation as a table and as a page with a chart. Then it records a small part of \
    the work and simulates it under the same policies on the chip of paper 1 (4 cores, with and without contention for its \
    memory): cycles, ratio to fcfs, utilisation, misses and the distance to what no schedule could beat.";

const EXAMPLES: &str = "Examples:\n  tanada compare\n  \
    tanada compare h264\n  \
    tanada compare video.264 --policy fcfs,ts --groups toshiba-a --cut macroblock --workers 4 -o page.html\n  \
    tanada compare stencil --size 2048 --repeat 5\n\n\
    Times are those of the shortest round. Tasks, costs and utilisation are those of further runs with a recorder, which\n\
    costs two readings of the clock a task.";

/// The options of every workload.
#[derive(Debug, clap::Args)]
struct Common {
    /// Policies to compare, separated by commas [default: all]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', value_parser = pooling::policies())]
    policy: Vec<String>,

    #[command(flatten)]
    pooling: Pooling,

    /// Timed rounds; the shortest counts
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeat: u32,

    /// Leave out the simulated half
    #[arg(long)]
    no_sim: bool,

    /// Make the demonstration's inputs so small that it takes seconds and its figures say nothing
    #[arg(long, hide = true)]
    small: bool,

    #[command(flatten)]
    outputs: Outputs,

    /// Open the page in a browser afterwards
    #[arg(long, value_name = "yes|no", default_value = "no", value_parser = ["yes", "no"])]
    open: String,
}

/// The options that the demonstration has: where it runs, and where its report goes.
const OF_DEMONSTRATION: [&str; 9] = [
    "workers",
    "bind",
    "seed",
    "small",
    "html",
    "trace_events",
    "markdown",
    "json",
    "open",
];

/// Returns whether the command line asks for the demonstration.
fn demonstrates(matches: &ArgMatches) -> bool {
    let given = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let mut given = matches.ids().map(|id| id.as_str()).filter(given);
    given.all(|id| OF_DEMONSTRATION.contains(&id) || is_group(id))
}

/// Returns whether clap made `id` of a struct's name: a group of arguments, which are listed themselves, too.
fn is_group(id: &str) -> bool {
    id.starts_with(char::is_uppercase)
}

/// Returns the workload that is compared if none is named.
fn unnamed() -> &'static dyn Workload {
    tanada_workloads::all()[0]
}

impl FromTable for Args {
    fn augment(command: Command) -> Command {
        let own = chosen::arguments::<Common>(unnamed(), Purpose::Run);
        Common::augment_args(command.args(own))
            .about(ABOUT)
            .long_about(format!("{ABOUT}\n\n{DETAILS}"))
            .after_help(EXAMPLES)
            .subcommands(Chosen::<Common>::commands("compare", Purpose::Run, ""))
            .subcommand_value_name("WORKLOAD")
            .subcommand_help_heading("Workloads")
            .args_conflicts_with_subcommands(true)
    }

    fn read(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let chosen = match matches.subcommand() {
            Some(chosen) => Chosen::from_subcommand(chosen, Purpose::Run),
            None => Chosen::of(unnamed(), matches, Purpose::Run),
        };
        Ok(Args {
            chosen: chosen?,
            demonstration: matches.subcommand().is_none() && demonstrates(matches),
            named: matches.subcommand().is_some(),
        })
    }
}

pub(crate) fn run(args: Args) -> Outcome {
    let Args {
        chosen,
        demonstration,
        named,
    } = args;
    let common = &chosen.common;
    let cancel = ui::interruptible();
    let outputs = common.outputs.open(chosen.values.paths())?;
    let found = match demonstration {
        true => demonstrate(common, cancel)?,
        false => {
            if !named {
                ui::note(
                    "tanada: comparing policies on h264, because options of a comparison were given.",
                );
            }
            compare(&chosen, cancel)?
        }
    };
    outputs.write(&found.report)?;
    if common.open == "yes" {
        open(&common.outputs.html);
    }
    verdict(&found)
}

fn compare(chosen: &Chosen<Common>, cancel: Cancel) -> Outcome<Found> {
    let Chosen {
        workload,
        values,
        common,
    } = chosen;
    if let Some(path) = values.paths().next()
        && path.extension().is_none()
        && !path.exists()
    {
        let (path, names) = (path.display().to_string(), tanada_workloads::names());
        let all = names.join(", ");
        let message = format!(
            "{path}: there is no such file, and no workload of this name; the workloads are {all}"
        );
        return Err(Failure::Input(spelling::asked(message, &path, names)));
    }
    let mut candidates: Vec<Candidate> = Vec::new();
    for name in &common.policy {
        if candidates.iter().all(|candidate| candidate.name() != name) {
            let candidate = Candidate::registered(name);
            candidates.push(candidate.map_err(|error| Failure::Usage(error.to_string()))?);
        }
    }
    if candidates.is_empty() {
        candidates = match workload.forks() {
            true => Candidate::of_forks(),
            false => Candidate::all(),
        };
    }
    let options = Options {
        pools: common.pooling.pools()?,
        repeat: common.repeat,
        simulate: !common.no_sim,
        name: values
            .paths()
            .next()
            .map(|path| file_name(path).into_owned()),
        cancel,
    };
    let found =
        watched(|step| compare::run_with_progress(*workload, values, &candidates, &options, step));
    finished(found)
}

fn demonstrate(common: &Common, cancel: Cancel) -> Outcome<Found> {
    let options = demonstration::Options {
        pools: common.pooling.pools()?,
        small: common.small,
        cancel,
    };
    finished(watched(|step| demonstration::run(&options, step)))
}

/// Calls `work` with what shows its steps.
fn watched<T>(work: impl FnOnce(&mut dyn FnMut(Step<'_>)) -> T) -> T {
    let mut progress: Option<Progress> = None;
    work(&mut |step| {
        let bar = progress.get_or_insert_with(|| Progress::new(Some(u64::from(step.of))));
        bar.says(format!("{}: {}", step.policy, step.purpose));
        bar.at(u64::from(step.done));
    })
}

fn finished(found: Result<Found, Error>) -> Outcome<Found> {
    let mut found = found.map_err(|error| match error {
        Error::Cancelled => Failure::Interrupted,
        Error::Prepare(error) => unprepared(error),
        other => Failure::Input(other.to_string()),
    })?;
    found.report.command = ui::command_line();
    Ok(found)
}

/// Returns an error if results differ or the input is flawed.
fn verdict(found: &Found) -> Outcome {
    let parts = format!("{}s", found.part);
    for difference in &found.differences {
        ui::note(&format!(
            "{} DIFFER under {}: {}",
            parts.to_uppercase(),
            difference.policy,
            difference.what
        ));
    }
    let input = found.report.runs.first().map(|run| run.input.as_str());
    chosen::verdict(input.unwrap_or_default(), found.flaws.as_ref())?;
    match found.differences.len() {
        0 => Ok(()),
        n => Err(Failure::Input(format!(
            "under {n} of the policies the {parts} are not those of the sequential run"
        ))),
    }
}

/// Hands the page to the desktop; without one the note above says where it is.
fn open(page: &Path) {
    let opened = std::process::Command::new("xdg-open")
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Err(error) = opened {
        ui::note(&format!("xdg-open: {error}; open the page by hand"));
    }
}
