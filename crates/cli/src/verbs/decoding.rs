//! The options of every verb that decodes video as tasks.

use crate::ui::{Failure, Outcome, at_fault, note};
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use std::path::Path;
use tanada_policy::registry;
use tanada_runtime::{Bind, MAX_WORKERS};
use tanada_workloads::h264::{Cut, Groups, Options, Summary};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Decoding {
    /// Workers [default: TANADA_WORKERS, else the hardware threads that this process may use]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_WORKERS)))]
    pub(crate) workers: Option<u16>,

    /// How work is cut into tasks
    #[arg(long, value_name = "CUT", default_value_t = Options::default().cut, value_parser = cuts())]
    pub(crate) tasks: Cut,

    /// How tasks are put into temporal and spatial groups
    #[arg(long, value_name = "PATTERN", default_value_t = Options::default().groups, value_parser = groups())]
    pub(crate) groups: Groups,

    /// How workers are bound to hardware threads
    #[arg(long, default_value = "auto", value_parser = binds())]
    pub(crate) bind: Bind,

    /// Seed of the policies' random numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
}

fn binds() -> impl clap::builder::TypedValueParser<Value = Bind> {
    PossibleValuesParser::new(["auto", "cpu", "domain", "off"])
        .map(|name| name.parse().expect("one of the names"))
}

fn cuts() -> impl clap::builder::TypedValueParser<Value = Cut> {
    PossibleValuesParser::new(Cut::ALL.map(Cut::name))
        .map(|name| name.parse().expect("one of the names"))
}

fn groups() -> impl clap::builder::TypedValueParser<Value = Groups> {
    PossibleValuesParser::new(Groups::ALL.map(Groups::name))
        .map(|name| name.parse().expect("one of the names"))
}

/// The names of the registered policies.
pub(crate) fn policies() -> PossibleValuesParser {
    PossibleValuesParser::new(registry::all().iter().map(|entry| entry.name))
}

impl Decoding {
    /// How many workers were asked for: by `--workers`, else by `TANADA_WORKERS`, as for every pool of the runtime.
    pub(crate) fn workers(&self) -> Outcome<Option<u16>> {
        const VARIABLE: &str = "TANADA_WORKERS";
        let Some(value) = std::env::var_os(VARIABLE).filter(|_| self.workers.is_none()) else {
            return Ok(self.workers);
        };
        let value = value.to_string_lossy();
        match value.trim().parse() {
            Ok(workers @ 1..=MAX_WORKERS) => Ok(Some(workers)),
            _ => Err(Failure::Usage(format!(
                "{VARIABLE}={value} is not a number of workers from 1 to {MAX_WORKERS}"
            ))),
        }
    }

    pub(crate) fn options(&self) -> Options {
        Options {
            cut: self.tasks,
            groups: self.groups,
            ..Options::default()
        }
    }
}

/// The content of a stream file.
pub(crate) fn read(path: &Path) -> Outcome<Vec<u8>> {
    std::fs::read(path).map_err(|error| at_fault(path.display(), error))
}

/// Says on standard error what is wrong with a stream that could be decoded, and fails with it.
pub(crate) fn damage(name: &str, summary: &Summary) -> Outcome {
    if summary.error_count == 0 {
        return Ok(());
    }
    for error in &summary.errors {
        note(&format!("{name}: {error}"));
    }
    let Summary {
        error_count,
        concealed,
        pictures,
        ..
    } = summary;
    let more = error_count - summary.errors.len() as u64;
    if more > 0 {
        note(&format!("{name}: and {more} further errors"));
    }
    let what = format!(
        "the stream is damaged: {error_count} errors, {pictures} pictures decoded, {concealed} macroblocks concealed"
    );
    Err(at_fault(name, what))
}
