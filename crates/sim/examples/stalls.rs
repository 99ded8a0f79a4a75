//! Draws where the cycles of the cores go, under some policies, as an SVG.
//!
//! ```text
//! cargo run --release -p tanada-sim --example stalls -- [TRACE GROUPS MACHINE CORES OUT.svg POLICY...]
//! ```
//!
//! Without arguments it makes a trace up, and the picture in the folder for temporary files.

#[path = "touches/made_up.rs"]
mod made_up;

use std::fmt::Write;
use std::path::Path;
use tanada_sim::{Options, Outcome, machines, simulate};
use tanada_trace::{Groups, Trace, TraceError};

const COLOURS: [&str; 8] = [
    "#2f7d5b", "#e0a030", "#c8642c", "#5b7fc4", "#8a5bb0", "#b04a6a", "#8c8c8c", "#c4c9d0",
];
const HEAD: &str = "<style>text{font:12px system-ui,sans-serif;fill:#1b1d21}.s{fill:#5c636e}\
@media(prefers-color-scheme:dark){text{fill:#e6e8eb}.s{fill:#9aa3af}}</style>";
const LEFT: f64 = 110.0;
const WIDTH: f64 = 700.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (trace, machine, cores, out, policies) = match words.as_slice() {
        [] => {
            let folder = std::env::temp_dir();
            let policies = ["fcfs", "ts"].map(str::to_owned).to_vec();
            let out = folder.join("tanada-stalls.svg");
            (made_up(&folder)?, "toshiba-board", 4, out, policies)
        }
        [trace, groups, machine, cores, out, policies @ ..] => {
            let trace = Trace::open(Path::new(trace), &Groups::Named(groups.clone()))?;
            let (cores, policies) = (cores.parse()?, policies.to_vec());
            (trace, machine.as_str(), cores, out.into(), policies)
        }
        _ => return Err("wanted: TRACE GROUPS MACHINE CORES OUT.svg POLICY...".into()),
    };
    let machine = machines::find(machine)?.with_cores(cores)?;
    let run = |policy: &String| simulate(&trace, &machine, policy, &Options::default(), &mut ());
    let outcomes: Vec<Outcome> = policies.iter().map(run).collect::<Result<_, _>>()?;
    std::fs::write(&out, picture(&outcomes)?)?;
    println!("{}", out.display());
    Ok(())
}

/// Returns a trace that resembles a decoder.
fn made_up(folder: &Path) -> Result<Trace, TraceError> {
    let path = folder.join(format!("tanada-stalls-{}.tnb", std::process::id()));
    let (_, pattern) = made_up::PATTERNS[0];
    made_up::make_up(&path, pattern)?;
    let trace = Trace::open(&path, &Groups::Plain);
    std::fs::remove_file(&path)?;
    trace
}

/// Returns the names of the parts, and the cycles of all cores that each took.
fn parts(outcome: &Outcome) -> Vec<(String, u64)> {
    let all = outcome.stalls.iter();
    let caches = outcome.caches.iter().enumerate().map(|(number, cache)| {
        let waited = all.clone().map(|core| core.caches[number]).sum();
        (format!("wait for {}", cache.label()), waited)
    });
    let compute = all.clone().map(|core| core.compute).sum();
    let mut parts = vec![("compute".to_owned(), compute)];
    parts.extend(caches);
    let queue = all.clone().map(|core| core.memory_queue).sum();
    parts.push(("memory queue".to_owned(), queue));
    let scheduling = all.clone().map(|core| core.scheduling).sum();
    parts.push(("scheduling".to_owned(), scheduling));
    parts.push(("idle".to_owned(), all.map(|core| core.idle).sum()));
    parts
}

fn picture(outcomes: &[Outcome]) -> Result<String, std::fmt::Error> {
    let longest = outcomes.iter().map(|outcome| outcome.makespan).max();
    let longest = longest.unwrap_or(0).max(1) as f64;
    let height = 30 * outcomes.len() + 50;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 940 {height}\" width=\"940\" height=\"{height}\">\n{HEAD}\n"
    );
    for (row, outcome) in outcomes.iter().enumerate() {
        let y = 30 * row + 8;
        let cycles = WIDTH / (longest * outcome.stalls.len().max(1) as f64);
        let mut x = LEFT;
        writeln!(
            svg,
            "<text x=\"4\" y=\"{}\">{}</text>",
            y + 15,
            outcome.policy
        )?;
        for ((name, part), colour) in parts(outcome).iter().zip(COLOURS.iter().cycle()) {
            let width = *part as f64 * cycles;
            writeln!(
                svg,
                "<rect fill=\"{colour}\" x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"22\">\
                 <title>{name}: {part} cycles</title></rect>"
            )?;
            x += width;
        }
        let million = outcome.makespan as f64 / 1e6;
        writeln!(
            svg,
            "<text class=\"s\" x=\"{:.2}\" y=\"{}\">{million:.1} million cycles</text>",
            x + 6.0,
            y + 15
        )?;
    }
    let names = outcomes.first().map(parts).unwrap_or_default();
    let mut x = LEFT;
    for ((name, _), colour) in names.iter().zip(COLOURS.iter().cycle()) {
        let y = height - 22;
        writeln!(
            svg,
            "<rect fill=\"{colour}\" x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\"/><text x=\"{}\" y=\"{}\">{name}</text>",
            x + 17.0,
            y + 10
        )?;
        x += 32.0 + 7.0 * name.len() as f64;
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}
