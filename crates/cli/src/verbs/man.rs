//! `tanada man`.

use crate::ui::{self, Failure, Outcome, at_fault};
use clap_mangen::Man;
use tanada_sim::spelling;

/// Print the manual page, or that of a verb
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tanada man | man -l -\n  tanada man run h264 | man -l -\n  \
    tanada man > ~/.local/share/man/man1/tanada.1"
)]
pub(crate) struct Args {
    /// The verb, and its workload or paper
    #[arg(value_name = "VERB")]
    verb: Vec<String>,
}

pub(crate) fn run(args: Args) -> Outcome {
    let mut command = super::command();
    command.build();
    for name in &args.verb {
        let inner = command.find_subcommand(name).ok_or_else(|| {
            let names = command.get_subcommands().map(clap::Command::get_name);
            let names: Vec<&str> = names.collect();
            let message = format!("no page \"{name}\" there; there are: {}", names.join(", "));
            Failure::Usage(spelling::asked(message, name, names))
        });
        command = inner?.clone();
    }
    let mut page = Vec::new();
    let rendered = Man::new(command).render(&mut page);
    rendered.map_err(|error| at_fault("the page", error))?;
    ui::print(&String::from_utf8_lossy(&page))
}
