//! Writes a page of synthetic data: `cargo run -p tanada-report --example sample_page -- FILE [TASKS]`.

#[path = "../tests/support/mod.rs"]
mod support;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().unwrap_or_else(|| "sample.html".to_owned());
    let tasks = arguments.next().map_or(Ok(12_000), |tasks| tasks.parse())?;
    let report = support::both_engines(4, tasks);
    std::fs::write(&file, tanada_report::to_html(&report)?)?;
    let pair = [&report.timelines[1], &report.timelines[2]];
    let picture = tanada_report::to_svg_gantts(&pair, tanada_report::ColourBy::SGroup);
    std::fs::write(format!("{file}.svg"), picture)?;
    print!("{}", tanada_report::to_table(&report));
    Ok(())
}
