//! The page: the regions, and their teams over time, as one file without scripts.

use super::outcome::{Region, Run};
use std::fmt::Write as _;

/// Regions that the time line has a row for.
const ROWS: usize = 40;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem;color:#1b1d21;background:#fff}\
    h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2.5rem}svg{width:100%;height:auto;min-width:50rem}svg text{fill:currentColor;\
    font-size:11px}small,p.note{color:#5c636e;font-size:.9rem}table{border-collapse:collapse;font-size:.9rem}td,th{padding:.2rem .7rem;\
    text-align:right;border-bottom:1px solid #d5d9df}td:first-child,th:first-child,td:last-child,th:last-child{text-align:left}\
    .wide{overflow-x:auto}@media(prefers-color-scheme:dark){body{color:#e6e8eb;background:#15171a}small,p.note{color:#9aa3af}\
    td,th{border-color:#3a4049}}@media print{body{max-width:none}}";

/// Returns the page of a run.
pub(super) fn page(run: &Run) -> String {
    let title = run.title();
    let mut lines = title.lines().map(escaped);
    let mut body = format!(
        "<h1>{}</h1><p><small>{}</small></p>",
        lines.next().unwrap_or_default(),
        escaped(&run.command)
    );
    for line in lines {
        let _ = write!(body, "<p>{line}</p>");
    }
    if !run.events.is_empty() {
        body += "<h2>Teams over time</h2><div class=\"wide\">";
        body += &time_line(run);
        body += "</div><p class=\"note\">A row a region, those that took most time first. Blue: all threads that the program asks for; \
            orange: fewer, the darker the fewer; the fuller a bar, the more of its time the region ran. Below: hardware threads that \
            neighbours kept busy.</p>";
    }
    const COLUMNS: [&str; 13] = [
        "region",
        "runs",
        "seconds",
        "share",
        "asked",
        "threads",
        "waiting",
        "changes",
        "iterations",
        "mean by threads",
        "gain",
        "sure",
        "why",
    ];
    let header = COLUMNS.map(|name| format!("<th>{name}</th>")).concat();
    let _ = write!(
        body,
        "<h2>Regions</h2><div class=\"wide\"><table><tr>{header}</tr>"
    );
    for region in &run.regions {
        body += &row(region);
    }
    body += "</table></div>";
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>tanada omp</title><style>{STYLE}</style></head><body>{body}</body></html>\n"
    )
}

fn row(region: &Region) -> String {
    let sizes: Vec<String> = region
        .sizes
        .iter()
        .map(|size| format!("{}: {}", size.threads, time(size.mean)))
        .collect();
    let cells = [
        region.place.clone(),
        region.invocations.to_string(),
        format!("{:.4}", region.seconds),
        format!("{:.1}%", region.share * 100.0),
        region.asked.to_string(),
        region.threads.to_string(),
        region.waiting.clone(),
        region.changes.to_string(),
        region
            .iterations
            .map_or(String::new(), |count| count.to_string()),
        sizes.join(", "),
        region
            .gain
            .map_or(String::new(), |gain| format!("{gain:.2}")),
        format!("{:.0}%", region.confidence * 100.0),
        region.why.clone(),
    ];
    let cells = cells.map(|cell| format!("<td>{}</td>", escaped(&cell)));
    format!("<tr>{}</tr>", cells.concat())
}

/// Returns a time with a unit.
fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.1} us", s * 1e6),
    }
}

/// Width of the names, of the whole picture, and height of a row, in pixels.
const NAMES: f64 = 220.0;
const WIDTH: f64 = 1100.0;
const ROW: f64 = 16.0;

fn time_line(run: &Run) -> String {
    let shown: Vec<&Region> = run.regions.iter().take(ROWS).collect();
    let end = run
        .events
        .iter()
        .map(|event| event.end)
        .fold(1e-9, f64::max);
    let x = |seconds: f64| NAMES + (WIDTH - NAMES) * (seconds / end).clamp(0.0, 1.0);
    let rows = shown.len() as f64;
    let height = (rows + 4.0) * ROW;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"teams over time\">"
    );
    for (row, region) in shown.iter().enumerate() {
        let y = row as f64 * ROW;
        let name: String = region.place.chars().take(34).collect();
        let _ = write!(
            svg,
            "<text x=\"0\" y=\"{}\">{}</text>",
            y + 12.0,
            escaped(&name)
        );
        for event in run
            .events
            .iter()
            .filter(|event| event.region == region.number)
        {
            let (left, right) = (x(event.start), x(event.end));
            let colour = match event.threads < region.asked {
                false => "#3b6fb6".to_owned(),
                true => {
                    let part = event.threads as f64 / region.asked.max(1) as f64;
                    format!("hsl(28 85% {:.0}%)", 35.0 + 30.0 * part)
                }
            };
            let fill = (event.seconds / (event.end - event.start).max(1e-9)).clamp(0.0, 1.0);
            let _ = write!(
                svg,
                "<rect x=\"{left:.2}\" y=\"{y}\" width=\"{:.2}\" height=\"{}\" fill=\"{colour}\" fill-opacity=\"{:.2}\">\
                 <title>{}: {} threads, waiting {}, {} runs, mean {}</title></rect>",
                (right - left).max(0.4),
                ROW - 2.0,
                0.35 + 0.65 * fill,
                escaped(&region.place),
                event.threads,
                event.waiting,
                event.invocations,
                time(event.seconds / event.invocations.max(1) as f64),
            );
        }
    }
    let base = (rows + 2.5) * ROW;
    let most = (run.cores * run.threads_per_core).max(1) as f64;
    let mut points: Vec<(f64, f64)> = run
        .events
        .iter()
        .filter_map(|event| Some((event.end, event.neighbours?)))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let path: Vec<String> = points
        .iter()
        .map(|(at, load)| {
            format!(
                "{:.1},{:.1}",
                x(*at),
                base - 2.0 * ROW * (load / most).min(1.0)
            )
        })
        .collect();
    let _ = write!(
        svg,
        "<text x=\"0\" y=\"{base}\">neighbours</text><polyline points=\"{}\" fill=\"none\" stroke=\"#b3392f\"/>\
         <line x1=\"{NAMES}\" x2=\"{WIDTH}\" y1=\"{base}\" y2=\"{base}\" stroke=\"currentColor\" stroke-opacity=\".3\"/>",
        path.join(" ")
    );
    for part in 0..=4 {
        let at = end * f64::from(part) / 4.0;
        let anchor = if part == 4 { "end" } else { "start" };
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{at:.2} s</text>",
            x(at),
            base + 14.0
        );
    }
    svg + "</svg>"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
