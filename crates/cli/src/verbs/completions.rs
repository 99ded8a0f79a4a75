//! `tanada completions`.

use crate::ui::{self, Outcome};
use clap_complete::{Shell, generate};

/// Print the completions of a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    tanada completions bash > ~/.local/share/bash-completion/completions/tanada\n  \
    tanada completions fish > ~/.config/fish/completions/tanada.fish\n  \
    tanada completions zsh > \"${fpath[1]}/_tanada\"")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: Args) -> Outcome {
    let mut text = Vec::new();
    generate(args.shell, &mut super::command(), "tanada", &mut text);
    ui::print(&String::from_utf8_lossy(&text))
}
