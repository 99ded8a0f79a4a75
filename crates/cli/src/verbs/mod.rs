//! The verbs: one file each.

mod charging;
mod chosen;
mod compare;
mod completions;
mod explore;
mod import;
mod machines;
mod man;
mod omp;
mod outputs;
mod policies;
mod pooling;
mod record;
mod report;
mod reproduce;
mod run;
mod sim;
mod sweep;
mod topo;
mod workloads;

use crate::ui;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command, CommandFactory as _, FromArgMatches, Parser, Subcommand};
use std::io::{self, Write as _};
use std::process::ExitCode;
use tanada_sim::spelling;

/// The version, and the commit if the program was built in a repository.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("TANADA_COMMIT"));

/// Schedules fine-grain parallel work so that it stays near its data.
#[derive(Parser)]
#[command(name = "tanada", version = VERSION, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Compare(Made<compare::Args>),
    Run(Made<run::Args>),
    Record(Made<record::Args>),
    Explore(explore::Args),
    Import(import::Args),
    Omp(omp::Args),
    Report(report::Args),
    Reproduce(Made<reproduce::Args>),
    Sim(sim::Args),
    Sweep(sweep::Args),
    Topo(topo::Args),
    Machines(machines::Args),
    Policies(policies::Args),
    Workloads(workloads::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// Arguments of a verb whose command is made of a table of workloads or papers, and not derived from a struct.
trait FromTable: Sized {
    /// Returns the verb's command with the arguments added.
    fn augment(command: Command) -> Command;

    /// Reads and returns the arguments, in which the parser has found no fault.
    fn read(matches: &ArgMatches) -> Result<Self, clap::Error>;
}

/// Such arguments as the parser wants them.
struct Made<A>(A);

impl<A: FromTable> clap::Args for Made<A> {
    fn augment_args(command: Command) -> Command {
        A::augment(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        A::augment(command)
    }
}

impl<A: FromTable> FromArgMatches for Made<A> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        A::read(matches).map(Made)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        A::read(matches).map(|args| self.0 = args)
    }
}

/// Returns the command line of the program.
pub fn command() -> Command {
    Cli::command()
}

/// Runs the program with the arguments of this process and returns its exit code.
pub fn main() -> ExitCode {
    ui::survive_file_limit();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refused(error),
    };
    // The program's standard output is its own, and its exit code ours.
    if let Verb::Omp(args) = cli.verb {
        return omp::run(&args);
    }
    ui::exit_code(ui::has_output().and_then(|()| match cli.verb {
        Verb::Compare(Made(args)) => compare::run(args),
        Verb::Run(Made(args)) => run::run(args),
        Verb::Record(Made(args)) => record::run(args),
        Verb::Explore(args) => explore::run(&args),
        Verb::Import(args) => import::run(args),
        Verb::Omp(_) => unreachable!("it has returned"),
        Verb::Report(args) => report::run(args),
        Verb::Reproduce(Made(args)) => reproduce::run(args),
        Verb::Sim(args) => sim::run(args),
        Verb::Sweep(args) => sweep::run(args),
        Verb::Machines(args) => machines::run(args),
        Verb::Topo(args) => topo::run(args),
        Verb::Policies(args) => policies::run(args),
        Verb::Workloads(args) => workloads::run(args),
        Verb::Completions(args) => completions::run(args),
        Verb::Man(args) => man::run(args),
    }))
}

/// Returns the arguments of this process. Bytes that are no UTF-8 become U+FFFD.
fn arguments() -> impl Iterator<Item = String> {
    let words = std::env::args_os().skip(1);
    words.map(|word| word.to_string_lossy().into_owned())
}

/// Returns whether `arg` is a word, not an option, of `record` on the command line, in whose place a workload or `--` could stand.
fn is_word_of_record(arg: &ContextValue) -> bool {
    let ContextValue::String(arg) = arg else {
        return false;
    };
    !arg.starts_with('-') && arguments().next().is_some_and(|verb| verb == "record")
}

/// Reports what is wrong with the command line and returns the exit code. The parser proposes similar names only; we list them all.
fn refused(error: clap::Error) -> ExitCode {
    // The message repeats arguments, whose control characters a terminal would obey: it is made from arguments that show them.
    let shown = std::env::args_os().map(|word| ui::visible(&word.to_string_lossy()).into_owned());
    let shown = Cli::try_parse_from(shown).err().unwrap_or(error);
    let printed = shown.print().and_then(|()| io::stdout().flush());
    if !shown.use_stderr() {
        return ui::exit_code(ui::has_output().and(printed.or_else(ui::output_failed)));
    }
    let error = shown;
    let wrong = match error.kind() {
        ErrorKind::InvalidSubcommand => error.get(ContextKind::InvalidSubcommand),
        // `record` takes a program's arguments, too, so the parser expects no workload there.
        ErrorKind::UnknownArgument => error
            .get(ContextKind::InvalidArg)
            .filter(|arg| is_word_of_record(arg)),
        _ => None,
    };
    if let Some(ContextValue::String(wrong)) = wrong {
        const PARENTS: [(&str, &str); 3] = [
            ("run", "workloads"),
            ("record", "workloads"),
            ("reproduce", "papers"),
        ];
        let words: Vec<String> = arguments().take_while(|word| word != wrong).collect();
        let command = Cli::command();
        let of_one = PARENTS
            .iter()
            .find(|(verb, _)| words.iter().any(|word| word == verb));
        let parent = of_one.and_then(|&(verb, what)| Some((what, command.find_subcommand(verb)?)));
        let (what, parent) = parent.unwrap_or(("verbs", &command));
        let is_record = parent.get_name() == "record";
        let recordable = tanada_workloads::recordable();
        let names: Vec<&str> = parent
            .get_subcommands()
            .map(clap::Command::get_name)
            .filter(|name| !is_record || recordable.contains(name))
            .collect();
        let all = format!("\nThe {what} are: {}", names.join(", "));
        ui::note(&match is_record {
            // Otherwise the parser has asked.
            true => {
                let all = format!("{all}; a program stands behind `--`");
                spelling::asked(all, wrong, names)
            }
            false => all,
        });
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_is_sound_and_every_verb_shows_an_example() {
        let mut command = Cli::command();
        command.build();
        command.clone().debug_assert();
        let run = command
            .find_subcommand("run")
            .expect("there is a verb run")
            .clone();
        let workloads: Vec<&str> = run
            .get_subcommands()
            .map(clap::Command::get_name)
            .filter(|name| *name != "help")
            .collect();
        assert_eq!(
            workloads,
            tanada_workloads::names(),
            "`run` knows the registered workloads"
        );
        let verbs = command.get_subcommands().chain(run.get_subcommands());
        for verb in verbs.filter(|verb| verb.get_name() != "help") {
            let name = verb.get_name();
            let help = verb.clone().render_long_help().to_string();
            assert!(
                help.contains("Example") && help.contains("tanada "),
                "{name}:\n{help}"
            );
            let no_results = ["run", "completions", "man"].contains(&name);
            assert!(help.contains("--json") || no_results, "{name}:\n{help}");
        }
    }
}
