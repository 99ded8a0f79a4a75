//! Draws which worker ran which task of one picture, under `fcfs` and under the cache groups of `ts`, on one time scale:
//! `gantt [IN.264 [OUT.svg]]`. Without arguments it takes the demo stream and writes to standard output.
//!
//! The cut and the groups are those of paper 1 (`paper`, pattern A). One picture is on its way at a time, so that the chart shows
//! nothing else. Each policy decodes the stream several times; the shortest run of the picture is drawn.

use tanada_report::{ColourBy, Event, Timeline, to_svg_gantts};
use tanada_runtime::{Cancel, Pool, Recorder};
use tanada_workloads::h264::{Cut, Groups, Options, decode, picture_of};

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/terraces_wvga.264");
const POLICIES: [&str; 2] = ["fcfs", "ts"];
/// Which picture, in decoding order: in the demo stream one that refers to others.
const PICTURE: u64 = 70;
const WORKERS: u32 = 2;
const REPEATS: u32 = 5;
/// Tasks that are not reconstruction.
const AROUND: [&str; 3] = ["entropy", "build", "output"];

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let mut args = std::env::args_os().skip(1);
    let stream = std::fs::read(args.next().unwrap_or_else(|| DEMO.into()))?;
    let charts: Vec<Timeline> = POLICIES
        .iter()
        .map(|policy| shortest(policy, &stream))
        .collect::<Result<_>>()?;
    let svg = to_svg_gantts(&charts.iter().collect::<Vec<_>>(), ColourBy::TGroup);
    match args.next() {
        Some(file) => std::fs::write(file, svg)?,
        None => print!("{svg}"),
    }
    Ok(())
}

/// The shortest reconstruction of the picture.
fn shortest(policy: &str, stream: &[u8]) -> Result<Timeline> {
    let length = |chart: &Timeline| chart.span().map_or(0, |(start, end)| end - start);
    let charts: Vec<Timeline> = (0..REPEATS)
        .map(|_| chart(policy, stream))
        .collect::<Result<_>>()?;
    Ok(charts.into_iter().min_by_key(length).expect("more than 0 repeats"))
}

fn chart(policy: &str, stream: &[u8]) -> Result<Timeline> {
    let recorder = Recorder::keep(|task| picture_of(task.index) == PICTURE);
    let pool = Pool::builder()
        .workers(WORKERS)
        .policy(policy)
        .observer(recorder.clone())
        .build()?;
    let options = Options {
        cut: Cut::Paper,
        groups: Groups::A,
        ahead: 1,
        ..Options::default()
    };
    decode(&pool, stream, &options, &Cancel::new(), |_| ())?;
    let label = format!("{policy}, picture {PICTURE}");
    let mut chart = recorder.take(&label, policy, pool.workers()).timeline;
    let names = chart.names.clone();
    let inner = |event: &Event| !AROUND.contains(&names[event.name as usize].as_str());
    chart.events = chart.events.iter().filter(inner).collect();
    if chart.events.is_empty() {
        return Err(format!("the stream has no picture {PICTURE}").into());
    }
    Ok(chart)
}
