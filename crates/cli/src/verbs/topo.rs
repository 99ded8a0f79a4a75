//! `tanada topo`.

use crate::ui::{self, Outcome, at_fault};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use tanada_sim::machine::{Geometry, Kind as CacheKind, draft};
use tanada_topology::{Kind, Topology};

/// Show the machine's topology as nested boxes
///
/// Shows packages, NUMA nodes, caches, cores and hardware threads, which of these this process may use (its affinity mask) and how much
/// processor time it is granted (its control group's quota).
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tanada topo\n  tanada topo --from machine.txt\n  tanada topo --as-machine > mine.toml\n\n\
    machine.txt holds, for instance: package:2 numa:1 l3:1(size=32M) l2:4(size=1M) core:1 pu:2"
)]
pub(crate) struct Args {
    /// Show the topology in this file, as text or JSON, instead of this machine's
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,

    /// Print JSON, which --from reads, too
    #[arg(long)]
    json: bool,

    /// Print the beginning of a machine file for `tanada sim`, with these cores and caches; the cycles are for you to put in
    #[arg(long, conflicts_with = "json")]
    as_machine: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    ui::distinct(args.from.as_deref(), [])?;
    let topology = match &args.from {
        Some(path) => read(path)?,
        None => Topology::detect().map_err(|error| at_fault("this machine", error))?,
    };
    if args.json {
        return ui::print(&ui::json(&topology));
    }
    if args.as_machine {
        // Only of this machine the system knows ways and lines.
        let geometry =
            |level, kind| geometry(&topology, level, kind).filter(|_| args.from.is_none());
        return ui::print(&draft(&topology, geometry));
    }
    ui::print(&describe(&topology, ui::columns()))
}

/// Ways and line length of a cache of this machine's first hardware thread, from Linux.
fn geometry(topology: &Topology, level: u8, kind: CacheKind) -> Option<Geometry> {
    let cpu = topology.usable().first().copied()?;
    let folder = std::fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}/cache")).ok()?;
    folder.flatten().find_map(|index| {
        let word = |name| std::fs::read_to_string(index.path().join(name)).ok();
        let number = |name| word(name)?.trim().parse::<u64>().ok();
        let wanted = number("level")? == u64::from(level)
            && word("type")?.trim().eq_ignore_ascii_case(kind.as_str());
        let (ways, line) = (
            number("ways_of_associativity")?,
            number("coherency_line_size")?,
        );
        (wanted && ways > 0 && line.is_power_of_two()).then_some(Geometry { ways, line })
    })
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
