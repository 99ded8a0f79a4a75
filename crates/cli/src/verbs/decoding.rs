//! The options of every verb that decodes video as tasks.

use super::pooling::Pooling;
use crate::ui::{Outcome, at_fault, note};
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use std::path::Path;
use tanada_workloads::h264::{Cut, Dependencies, Groups, Options, Summary};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Decoding {
    #[command(flatten)]
    pub(crate) pooling: Pooling,

    /// How work is cut into tasks
    #[arg(long, value_name = "CUT", default_value_t = Options::default().cut, value_parser = cuts())]
    pub(crate) tasks: Cut,

    /// Which tasks wait for those of neighbouring macroblocks: those that need them, or all, as in paper 1
    #[arg(long, value_name = "KIND", default_value_t = Options::default().dependencies, value_parser = dependencies())]
    pub(crate) dependencies: Dependencies,

    /// How tasks are put into temporal and spatial groups
    #[arg(long, value_name = "PATTERN", default_value_t = Options::default().groups, value_parser = groups())]
    pub(crate) groups: Groups,
}

pub(crate) fn cuts() -> impl clap::builder::TypedValueParser<Value = Cut> {
    PossibleValuesParser::new(Cut::ALL.map(Cut::name))
        .map(|name| name.parse().expect("one of the names"))
}

pub(crate) fn dependencies() -> impl clap::builder::TypedValueParser<Value = Dependencies> {
    PossibleValuesParser::new(Dependencies::ALL.map(Dependencies::name))
        .map(|name| name.parse().expect("one of the names"))
}

pub(crate) fn groups() -> impl clap::builder::TypedValueParser<Value = Groups> {
    PossibleValuesParser::new(Groups::ALL.map(Groups::name))
        .map(|name| name.parse().expect("one of the names"))
}

impl Decoding {
    pub(crate) fn options(&self) -> Options {
        Options {
            cut: self.tasks,
            dependencies: self.dependencies,
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
