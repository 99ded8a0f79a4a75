//! A workload and its options on the command line: clap's arguments, made of the workload's table.

use super::pooling;
use crate::ui::{Outcome, at_fault, note};
use clap::builder::{PossibleValue, PossibleValuesParser, ValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use std::path::PathBuf;
use tanada_workloads::options::{Kind, OptionSpec, Purpose};
use tanada_workloads::workload::Flaws;
use tanada_workloads::{Values, Workload, values_of};

/// A workload with values of its options, and what a verb takes besides.
pub(crate) struct Chosen<C> {
    pub(crate) workload: &'static dyn Workload,
    pub(crate) values: Values,
    pub(crate) common: C,
}

impl<C: clap::Args> Chosen<C> {
    /// Returns a subcommand of `verb` for each workload.
    pub(crate) fn commands(verb: &str, purpose: Purpose, example: &str) -> Vec<Command> {
        let command = |workload: &&'static dyn Workload| {
            let name = workload.name();
            let details = workload.description().details;
            let options: Vec<String> = workload
                .description()
                .test_options
                .iter()
                .map(|(flag, value)| format!(" --{flag} {value}"))
                .collect();
            let examples = format!(
                "Examples:\n  tanada {verb} {name}{example}\n  tanada {verb} {name}{example}{}",
                options.concat()
            );
            let long = format!("{}\n\n{details}", workload.description().about);
            let command = Command::new(name).args(arguments::<C>(*workload, purpose));
            // Behind the verb's own options, whose struct has a text of its own.
            let mut command = C::augment_args(command);
            let takes_policies = command.get_arguments().any(|one| one.get_id() == "policy");
            if workload.forks() && takes_policies {
                command = command.mut_arg("policy", |one| {
                    one.value_parser(pooling::policies_of_forks())
                        .help(pooling::ABOUT_FORKS)
                });
            }
            command
                .about(workload.description().about)
                .long_about(long.trim_end().to_owned())
                .after_help(examples)
                .hide(purpose == Purpose::Record && workload.recorder().is_none())
        };
        tanada_workloads::all().iter().map(command).collect()
    }

    /// Returns what a command line of one of [`commands`](Self::commands) asks for.
    pub(crate) fn from_subcommand(
        (name, matches): (&str, &ArgMatches),
        purpose: Purpose,
    ) -> Result<Self, clap::Error> {
        let workload = tanada_workloads::find(name).expect("each subcommand is a workload");
        Chosen::of(workload, matches, purpose)
    }

    /// Returns what the arguments of `workload` ask for.
    pub(crate) fn of(
        workload: &'static dyn Workload,
        matches: &ArgMatches,
        purpose: Purpose,
    ) -> Result<Self, clap::Error> {
        Ok(Chosen {
            workload,
            values: values(workload, matches, purpose),
            common: C::from_arg_matches(matches)?,
        })
    }
}

/// Returns the arguments of a workload's options. `C` are the verb's own: options of tasks contradict its `--sequential`, if it has one.
pub(crate) fn arguments<C: clap::Args>(workload: &dyn Workload, purpose: Purpose) -> Vec<Arg> {
    let common = C::augment_args(Command::new("common"));
    let sequential = common
        .get_arguments()
        .any(|argument| argument.get_id() == "sequential");
    let specs = workload.options().iter();
    let specs = specs.filter(|spec| spec.is_for(purpose));
    let argument = |spec: &OptionSpec| {
        let argument = argument(spec, purpose);
        match sequential && spec.of_tasks {
            true => argument.conflicts_with("sequential"),
            false => argument,
        }
    };
    specs.map(argument).collect()
}

/// Returns the argument of an option.
pub(crate) fn argument(spec: &OptionSpec, purpose: Purpose) -> Arg {
    let parser: ValueParser = match spec.kind {
        Kind::Switch => {
            return Arg::new(spec.flag)
                .long(spec.flag)
                .help(spec.help)
                .action(ArgAction::SetTrue);
        }
        Kind::Count(min, max) => value_parser!(u64).range(min..=max).into(),
        Kind::Named(names) => {
            let names = names.iter();
            let values = names.map(|name| PossibleValue::new(name.name).aliases(name.aliases));
            PossibleValuesParser::new(values).into()
        }
        Kind::Path => value_parser!(PathBuf),
        _ => value_parser!(String),
    };
    let mut argument = Arg::new(spec.flag)
        .value_name(spec.placeholder)
        .help(spec.help)
        .value_parser(parser);
    if spec.kind == Kind::Path {
        argument = argument.value_hint(ValueHint::FilePath);
    }
    if spec.kind == Kind::Texts {
        argument = argument.action(ArgAction::Append);
    }
    if !spec.positional {
        argument = argument.long(spec.flag).aliases(spec.aliases);
    }
    match spec.default_for(purpose) {
        Some(value) => argument.default_value(value),
        None => argument,
    }
}

fn values(workload: &dyn Workload, matches: &ArgMatches, purpose: Purpose) -> Values {
    let values = values_of(workload, purpose);
    with_given(values, workload.options(), matches)
}

/// Returns `values` of `specs` with those of the command line.
pub(crate) fn with_given(mut values: Values, specs: &[OptionSpec], matches: &ArgMatches) -> Values {
    let purpose = values.purpose();
    for spec in specs.iter().filter(|spec| spec.is_for(purpose)) {
        let flag = spec.flag;
        if matches.value_source(flag) != Some(ValueSource::CommandLine) {
            continue;
        }
        let mut set = |text: &str| values.set(flag, text).expect("the parser has checked it");
        match spec.kind {
            Kind::Switch => set("true"),
            Kind::Count(..) => {
                let count = matches.get_one::<u64>(flag);
                set(&count.expect("it was given").to_string());
            }
            Kind::Path => {
                let path = matches.get_one::<PathBuf>(flag);
                values.set_path(flag, path.expect("it was given"));
            }
            _ => {
                let texts = matches.get_many::<String>(flag);
                texts.into_iter().flatten().for_each(|text| set(text));
            }
        }
    }
    values
}

/// Reports on standard error what is wrong with an input that had a result, and returns it as the failure.
pub(crate) fn verdict(name: &str, flaws: Option<&Flaws>) -> Outcome {
    let Some(Flaws { details, summary }) = flaws else {
        return Ok(());
    };
    for detail in details {
        note(&format!("{name}: {detail}"));
    }
    Err(at_fault(name, summary))
}
