//! `tanada topo`.

use crate::ui::{self, Outcome, at_fault};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use tanada_topology::{Kind, Topology};

/// Show the machine's topology as nested boxes
///
/// Shows packages, NUMA nodes, caches, cores and hardware threads, which of these this process may use (its affinity mask) and how much
/// processor time it is granted (its control group's quota).
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tanada topo\n  tanada topo --from machine.txt\n\n\
    machine.txt holds, for instance: package:2 numa:1 l3:1(size=32M) l2:4(size=1M) core:1 pu:2"
)]
pub(crate) struct Args {
    /// Show the topology in this file, as text or JSON, instead of this machine's
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,

    /// Print JSON, which --from reads, too
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let topology = match &args.from {
        Some(path) => read(path)?,
        None => Topology::detect().map_err(|error| at_fault("this machine", error))?,
    };
    if args.json {
        return ui::print(&ui::json(&topology));
    }
    ui::print(&describe(&topology, ui::columns()))
}

fn read(path: &Path) -> Outcome<Topology> {
    let text = ui::read_text(path)?;
    if text.trim_start().starts_with('{') {
        serde_json::from_str(&text).map_err(|error| at_fault(path.display(), error))
    } else {
        Topology::parse(&text).map_err(|error| at_fault(path.display(), error))
    }
}

fn describe(topology: &Topology, width: usize) -> String {
    let mut text = topology.picture(width);
    let (all, usable) = (
        topology.root().count(Kind::HardwareThread),
        topology.usable().len(),
    );
    let _ = match usable == all {
        true => writeln!(text, "affinity mask     all {all} hardware threads"),
        false => writeln!(
            text,
            "affinity mask     {usable} of {all} hardware threads; the others stand in parentheses"
        ),
    };
    let _ = match topology.quota() {
        Some(quota) => writeln!(text, "quota             {quota:.2} cores"),
        None => writeln!(text, "quota             none"),
    };
    let _ = writeln!(text, "default workers   {}", topology.default_workers());
    let _ = writeln!(text, "as text           {topology}");
    text
}
