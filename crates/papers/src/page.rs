//! A reproduction as one page that needs no network.

use crate::reproduction::{Bar, Reproduction};
use std::fmt::Write as _;

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

/// How the pictures of a figure are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Several charts beside each other.
    Panels,
    /// One picture that scrolls sideways if there is no room.
    Wide,
    /// One chart.
    One,
}

impl Layout {
    fn class(self) -> &'static str {
        match self {
            Layout::Panels => "panels",
            Layout::Wide => "wide",
            Layout::One => "one",
        }
    }
}

/// A figure of the page.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The heading above the figure; empty: the figure belongs to the one before it.
    pub heading: &'static str,
    /// The layout of the pictures.
    pub layout: Layout,
    /// The pictures, as SVG elements.
    pub svg: String,
    /// The text below the figure.
    pub caption: String,
}

pub(crate) fn page(reproduction: &Reproduction, command: &str) -> String {
    let title = escaped(reproduction.title);
    let (sample, command) = (escaped(&reproduction.sample), escaped(command));
    let mut body = format!("<h1>{title}</h1><p>{sample}. <small>{command}</small></p>");
    let _ = write!(body, "<h2>The claim: {}</h2>", escaped(reproduction.claim));
    body += &claim(&reproduction.bars);
    body += "<h2>What did not come out, and what to know</h2><ul>";
    for line in &reproduction.missed {
        let _ = write!(body, "<li>{}</li>", escaped(line));
    }
    body += "</ul>";
    for figure in &reproduction.figures {
        if !figure.heading.is_empty() {
            let _ = write!(body, "<h2>{}</h2>", escaped(figure.heading));
        }
        let (class, svg) = (figure.layout.class(), &figure.svg);
        let caption = escaped(&figure.caption);
        let _ = write!(
            body,
            "<figure><div class=\"{class}\">{svg}</div><figcaption>{caption}</figcaption></figure>"
        );
    }
    body += "<h2>All rows</h2>";
    let _ = write!(body, "<pre>{}</pre>", escaped(&reproduction.tables()));
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><style>{STYLE}</style></head><body>{body}</body></html>\n"
    )
}

fn claim(bars: &[Bar]) -> String {
    let line = |tag: &str, cells: [String; 5]| {
        let cells = cells.map(|cell| format!("<{tag}>{}</{tag}>", escaped(&cell)));
        format!("<tr>{}</tr>", cells.concat())
    };
    let header = line("th", Bar::HEADER.map(str::to_owned));
    let lines: String = bars.iter().map(|bar| line("td", bar.cells())).collect();
    format!("<div class=\"wide\"><table>{header}{lines}</table></div>")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
