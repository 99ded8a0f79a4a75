//! The figures as one page that needs no network.

use super::calibrate::{Drawn, chosen};
use super::chart::{front_chart, gains_chart, speeds_chart};
use super::summary::{Summary, claim};
use super::text::tables;
use super::toshiba::Reproduced;
use std::fmt::Write as _;
use tanada_report::{ColourBy, Timeline, to_svg_gantts};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:68rem;margin:2rem auto;padding:0 1rem;color:#1b1d21;\
    background:#fff}h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2.5rem}svg{width:100%;height:auto}\
    [role=img] text{fill:currentColor}figure{margin:1rem 0}\
    figcaption,small{color:#5c636e;font-size:.9rem}table{border-collapse:collapse}td,th{padding:.2rem .8rem;text-align:right;\
    border-bottom:1px solid #d5d9df}td:first-child,th:first-child{text-align:left}.wide,pre{overflow-x:auto}pre{font-size:.8rem}\
    .wide svg{min-width:50rem}.panels{display:grid;grid-template-columns:repeat(auto-fill,minmax(16rem,1fr));gap:.5rem}\
    .one svg{max-width:36rem}\
    @media(prefers-color-scheme:dark){body{color:#e6e8eb;background:#15171a}figcaption,small{color:#9aa3af}td,th{border-color:#3a4049}}\
    @media(max-width:40rem){td,th{padding:.2rem .3rem;font-size:.8rem}}\
    @media print{body{max-width:none}h2{break-after:avoid}figure{break-inside:avoid}}";

/// The page. `drawn`: the sets of the search.
pub(crate) fn page(
    found: &Reproduced,
    summary: &Summary,
    drawn: &[Drawn],
    command: &str,
) -> String {
    let mut body = String::new();
    let _ = write!(
        body,
        "<h1>Cache groups: published and ours</h1><p>{} of 128 pictures of each stream: {}. <small>{}</small></p>",
        summary.pictures,
        escaped(&summary.streams.join(", ")),
        escaped(command)
    );
    body += "<h2>The claim: one set of parameters for both models</h2>";
    body += &claim_table(summary);
    body += "<h2>What did not come out, and what to know</h2><ul>";
    for line in &summary.missed {
        let _ = write!(body, "<li>{}</li>", escaped(line));
    }
    body += "</ul><h2>Gains over FCFS</h2>";
    figure(
        &mut body,
        "panels",
        &gains_chart(found),
        "Lines: ours, with the standard error of sampling. Circles: published (Table 2). Blue: pattern A; vermilion: pattern B.",
    );
    body += "<h2>Frames a second</h2>";
    let speeds = speeds_chart(found);
    figure(&mut body, "panels", &speeds, "As above; green: FCFS.");
    body += "<h2>One picture (fig. 13)</h2>";
    let charts: Vec<&Timeline> = found.gantts.iter().collect();
    let by_s = "WVGA, 128 KB, 4 cores, on the board; from above FCFS, A and B. By S group: a colour is a stage. FCFS reads no groups; its \
        bars have the colours of pattern A, as in the paper.";
    let by = |colours| to_svg_gantts(&charts, colours);
    figure(&mut body, "wide", &by(ColourBy::SGroup), by_s);
    let by_t = "The same by T group.";
    figure(&mut body, "wide", &by(ColourBy::TGroup), by_t);
    body += "<h2>Other parameters</h2>";
    let caption = format!(
        "{} sets of a grid, judged by WVGA rows and Table 3 only, on two pictures (tanada reproduce toshiba --calibrate). Blue circles: \
         beaten by no other in all of the three gains. Triangle: the set of this run, on its pictures.",
        drawn.len()
    );
    let front = front_chart(drawn, chosen(summary));
    figure(&mut body, "one", &front, &caption);
    body += "<h2>All rows</h2>";
    let _ = write!(body, "<pre>{}</pre>", escaped(&tables(found)));
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>Cache groups: published and ours</title><style>{STYLE}</style></head><body>{body}</body></html>\n"
    )
}

/// `class` says how the pictures are laid out.
fn figure(body: &mut String, class: &str, svg: &str, caption: &str) {
    let _ = write!(
        body,
        "<figure><div class=\"{class}\">{svg}</div><figcaption>{caption}</figcaption></figure>"
    );
}

fn claim_table(summary: &Summary) -> String {
    let mut table = "<div class=\"wide\"><table><tr><th></th><th>published</th><th>ours</th><th>bar</th><th>met</th></tr>".to_owned();
    for line in claim(summary) {
        table += "<tr>";
        for cell in line {
            let _ = write!(table, "<td>{}</td>", escaped(&cell));
        }
        table += "</tr>";
    }
    table + "</table></div>"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
