//! `tanada reproduce`: a subcommand a paper, with the options that the paper has.

use super::FromTable;
use super::chosen::{argument, with_given};
use crate::ui::{self, Failure, Outcome, OutputFile};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::path::PathBuf;
use tanada_harness::batch;
use tanada_papers::{Error, Found, Paper, Progress, Request};
use tanada_workloads::options::{Purpose, Values};

/// A paper, and what is asked of it.
pub(crate) struct Args {
    paper: &'static dyn Paper,
    request: Request,
    html: Option<PathBuf>,
    json: bool,
}

impl FromTable for Args {
    fn augment(command: Command) -> Command {
        let papers = tanada_papers::all().iter().map(|paper| of_paper(*paper));
        command
            .about("Reproduce a paper's tables")
            .long_about("Reproduce a paper's tables\n\nPublished figures and ours, row by row.")
            .after_help(
                "Examples:\n  tanada reproduce toshiba --quick\n  tanada reproduce toshiba --json -o toshiba.html",
            )
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommands(papers)
    }

    fn read(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let (name, given) = matches
            .subcommand()
            .expect("the parser refuses a line without a paper");
        let mut papers = tanada_papers::all().iter();
        let paper = papers.find(|paper| paper.name() == name);
        let paper = *paper.expect("the parser refuses other papers");
        let threads = given.get_one::<u16>("threads").copied();
        let values = Values::new(paper.options(), Purpose::Run);
        Ok(Args {
            paper,
            request: Request {
                quick: given.get_flag("quick"),
                threads: threads.map_or_else(batch::host_threads, usize::from),
                values: with_given(values, paper.options(), given),
                tanada: std::env::current_exe().ok(),
            },
            html: given.get_one::<PathBuf>("html").cloned(),
            json: given.get_flag("json"),
        })
    }
}

fn of_paper(paper: &'static dyn Paper) -> Command {
    let examples = paper.examples().iter();
    let examples = examples.map(|words| format!("\n  tanada reproduce {} {words}", paper.name()));
    let options = paper.options().iter();
    Command::new(paper.name())
        .about(paper.about())
        .after_help(format!("Examples:{}", examples.collect::<String>()))
        .arg(switch("quick", "A smaller sample"))
        .args(options.map(|spec| argument(spec, Purpose::Run)))
        .arg(
            Arg::new("threads")
                .long("threads")
                .value_name("N")
                .value_parser(value_parser!(u16).range(1..))
                .help("Threads [default: as many as there are]"),
        )
        .arg(
            Arg::new("html")
                .short('o')
                .long("html")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .conflicts_with_all(paper.without_page())
                .help("Write the figures as a page: the claim, what did not come out, charts, all rows"),
        )
        .arg(switch("json", "Print rows and summary as JSON"))
}

fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .action(ArgAction::SetTrue)
        .help(help)
}

pub(crate) fn run(args: Args) -> Outcome {
    let inputs = args.paper.inputs(&args.request.values);
    ui::distinct(inputs.iter().map(PathBuf::as_path), args.html.as_deref())?;
    let cancel = ui::interruptible();
    let html = args.html.as_deref().map(OutputFile::open).transpose()?;
    let mut bar = ui::Progress::new(None);
    let mut show = |at: Progress<'_>| {
        bar.says(at.what.to_owned());
        bar.at(at.done as u64);
    };
    let found = args.paper.reproduce(&args.request, &mut show, &cancel);
    drop(bar);
    let found = found.map_err(|error| match error {
        Error::Usage(message) => Failure::Usage(message),
        Error::Cancelled => Failure::Interrupted,
        error => Failure::Input(error.to_string()),
    })?;
    let found = match found {
        Found::Figures(found) => found,
        Found::Json(json) => return ui::print(&json),
    };
    let printed = ui::print(&match args.json {
        true => found.json(),
        false => found.text(),
    });
    if let Some(html) = html {
        html.finish(found.page(&ui::command_line()).as_bytes())?;
    }
    printed
}
