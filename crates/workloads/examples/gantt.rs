//! Draws which worker ran which task of one picture, under `fcfs` and under the cache groups of `ts`, on one time scale:
//! `gantt [IN.264 [OUT.svg [REPEATS]]]`. Without arguments it takes the demo stream and writes to standard output.
//!
//! The cut and the groups are those of paper 1 (`paper`, pattern A). One picture is on its way at a time, so that the chart shows
//! nothing else. Each policy decodes the stream REPEATS times (5); drawn is the shortest run of the picture in which all workers had a
//! fair share of its tasks (on a busy machine a worker may be off its processor for the whole picture). Grey is the build task, which
//! registers all others while they run already.

use tanada_report::{ColourBy, Event, Timeline, to_svg_gantts};
use tanada_runtime::{Cancel, Pool, Recorder};
use tanada_workloads::h264::{Cut, Groups, Options, decode};
use tanada_workloads::workload::phase_of;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/terraces_wvga.264");
const POLICIES: [&str; 2] = ["fcfs", "ts"];
/// Which picture, in decoding order: in the demo stream one that refers to others.
const PICTURE: u64 = 70;
const WORKERS: u32 = 2;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let mut args = std::env::args_os().skip(1);
    let stream = std::fs::read(args.next().unwrap_or_else(|| DEMO.into()))?;
    let out = args.next();
    let repeats = match args.next() {
        Some(number) => number.to_string_lossy().parse()?,
        None => 5,
    };
    let charts: Vec<Timeline> = POLICIES
        .iter()
        .map(|policy| shortest(policy, &stream, repeats))
        .collect::<Result<_>>()?;
    let svg = to_svg_gantts(&charts.iter().collect::<Vec<_>>(), ColourBy::TGroup);
    match out {
        Some(file) => std::fs::write(file, svg)?,
        None => print!("{svg}"),
    }
    Ok(())
}

/// Returns the shortest of the picture's ways through the workers, among those on which every worker had half of its even share of tasks or
/// more.
fn shortest(policy: &str, stream: &[u8], repeats: u32) -> Result<Timeline> {
    let length = |chart: &Timeline| chart.span().map_or(0, |(start, end)| end - start);
    let fair = |chart: &Timeline| {
        let of = |worker| {
            chart
                .events
                .iter()
                .filter(|event| event.worker == worker)
                .count()
        };
        (0..chart.workers)
            .all(|worker| of(worker) * 2 * usize::from(chart.workers) >= chart.events.len())
    };
    let charts: Vec<Timeline> = (0..repeats)
        .map(|_| chart(policy, stream))
        .collect::<Result<_>>()?;
    let shortest = charts
        .into_iter()
        .min_by_key(|chart| (!fair(chart), length(chart)));
    shortest.ok_or_else(|| "repeat at least once".into())
}

fn chart(policy: &str, stream: &[u8]) -> Result<Timeline> {
    let recorder = Recorder::keep(|task| phase_of(task.index) == PICTURE);
    let pool = Pool::builder()
        .workers(WORKERS)
        .policy(policy)
        .observer(recorder.clone())
        .build()?;
    let options = Options {
        cut: Cut::Paper,
        groups: Groups::ToshibaA,
        ahead: 1,
        ..Options::default()
    };
    decode(&pool, stream, &options, &Cancel::new(), |_| ())?;
    let label = format!("{policy}, picture {PICTURE}");
    let mut chart = recorder.take().timeline(&label, policy, pool.workers());
    let name = |event: &Event| chart.names[event.name as usize].as_str();
    let reconstruction = |event: &Event| !["entropy", "build", "output"].contains(&name(event));
    let first = chart
        .events
        .iter()
        .filter(reconstruction)
        .map(|event| event.t);
    let first = first.min().ok_or("the stream is too short")?;
    // T groups of all pictures are numbered on: let this picture's begin at 1, so that its colours use the whole scale.
    let shown = chart.events.iter().filter_map(|event| match name(&event) {
        "entropy" | "output" => None,
        "build" => Some(Event { t: 0, ..event }),
        _ => Some(Event {
            t: event.t - first + 1,
            ..event
        }),
    });
    chart.events = shown.collect();
    Ok(chart)
}
