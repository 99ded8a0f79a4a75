//! `tanada policies`.

use crate::ui::{self, Outcome};
use serde::Serialize;
use tanada_policy::{deliveries, forks, registry};
use tanada_report::to_list;

/// List the policies that every command knows: dispatchers of tasks, policies of forks, and deliveries of messages
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  tanada policies --json\n  tanada policies --forks\n  tanada policies --deliveries --json"
)]
pub(crate) struct Args {
    /// Print a JSON list
    #[arg(long)]
    json: bool,
    /// List the deliveries of messages alone
    #[arg(long)]
    deliveries: bool,
    /// List the policies of forks alone
    #[arg(long, conflicts_with = "deliveries")]
    forks: bool,
}

#[derive(Serialize)]
struct Line {
    name: &'static str,
    summary: &'static str,
    /// Its rule holds exactly, however many workers there are.
    exact: bool,
    /// No worker idles while a task is ready.
    greedy: bool,
    /// It looks at the T or S groups of tasks.
    groups: bool,
    /// It runs natively, too, not only in the simulator.
    native: bool,
}

#[derive(Serialize)]
struct DeliveryLine {
    name: &'static str,
    summary: &'static str,
    /// The receiver is told while there is room, so that senders that keep their contract never find the queue full.
    keeps_room: bool,
    /// A timer fires although nothing was ever sent.
    ticks_when_idle: bool,
}

#[derive(Serialize)]
struct ForkLine {
    name: &'static str,
    summary: &'static str,
    /// No worker idles while a fork waits that it could have.
    greedy: bool,
}

/// Prints the policies of forks.
fn run_forks(json: bool) -> Outcome {
    let lines = forks::all().iter().map(|entry| ForkLine {
        name: entry.name,
        summary: entry.summary.trim_start_matches("forks: "),
        greedy: entry.greedy,
    });
    if json {
        return ui::print(&ui::json(&lines.collect::<Vec<_>>()));
    }
    let word = |yes: bool| if yes { "yes" } else { "no" }.into();
    let rows = lines.map(|line| vec![line.name.into(), line.summary.into(), word(line.greedy)]);
    ui::print(&to_list(
        ["policy of forks", "what becomes of them", "greedy"],
        rows,
    ))
}

/// Prints the deliveries, and what the columns mean.
fn run_deliveries(json: bool) -> Outcome {
    let lines = deliveries::all().iter().map(|entry| DeliveryLine {
        name: entry.name,
        summary: entry.summary,
        keeps_room: entry.keeps_room,
        ticks_when_idle: entry.ticks_when_idle,
    });
    if json {
        return ui::print(&ui::json(&lines.collect::<Vec<_>>()));
    }
    let word = |yes: bool| if yes { "yes" } else { "no" }.into();
    let rows = lines.map(|line| {
        vec![
            line.name.into(),
            line.summary.into(),
            word(line.keeps_room),
            word(line.ticks_when_idle),
        ]
    });
    ui::print(&to_list(
        ["delivery", "tells", "keeps room", "ticks when idle"],
        rows,
    ))?;
    ui::print(
        "\nkeeps room: the receiver is told while its queue still has headroom\n\
         ticks when idle: its timer fires although nothing was sent\n",
    )
}

pub(crate) fn run(args: Args) -> Outcome {
    if args.deliveries {
        return run_deliveries(args.json);
    }
    if args.forks {
        return run_forks(args.json);
    }
    let lines = registry::all().iter().map(|entry| Line {
        name: entry.name,
        summary: entry.summary,
        exact: entry.exact,
        greedy: entry.greedy,
        groups: entry.groups,
        native: !entry.needs_prepared,
    });
    if args.json {
        return ui::print(&ui::json(&lines.collect::<Vec<_>>()));
    }
    let word = |yes: bool| if yes { "yes" } else { "no" }.into();
    let rows = lines.map(|line| {
        vec![
            line.name.into(),
            line.summary.into(),
            word(line.exact),
            word(line.greedy),
            word(line.groups),
            word(line.native),
        ]
    });
    ui::print(&to_list(
        [
            "policy",
            "takes next",
            "exact",
            "greedy",
            "groups",
            "native",
        ],
        rows,
    ))?;
    ui::print(
        "\nexact: the rule holds with any number of workers at once, not only while they ask one at a time\n\
         greedy: no worker idles while a task is ready that it could have\n\
         groups: it looks at the temporal or spatial groups of tasks\n\
         native: it runs natively, too; otherwise it must know the graph, and runs in the simulator only\n\n",
    )?;
    run_forks(false)?;
    ui::print("\n")?;
    run_deliveries(false)
}
