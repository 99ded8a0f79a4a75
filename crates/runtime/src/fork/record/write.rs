//! A fork profile as JSON, in the schema of reports (docs/report-schema.md), and as a page.
//!
//! Both are written here by hand: what programs link has no serialisation and no plotting script. A test reads the JSON with the crate
//! `tanada-report`, which checks it; `tanada report` makes the page with charts of it.

use super::lane::{LaneData, Piece};
use super::{ForkProfile, ForkRecorder, OfPlace, site};
use std::fmt::Write as _;
use tanada_policy::Origin;

/// Places that are listed in the text.
const LISTED: usize = 30;

/// Columns of the picture.
const COLUMNS: u64 = 1000;

/// What both forms need.
struct Gathered {
    profile: ForkProfile,
    places: Vec<site::Place>,
    policy: String,
    program: String,
    arguments: String,
    lanes: Vec<LaneOf>,
}

/// What is written of a worker.
struct LaneOf {
    pieces: Vec<Piece>,
    left_out: u64,
    jobs: u64,
    busy_ns: u64,
    origins: [u64; 4],
}

impl LaneOf {
    fn new(data: &LaneData) -> Self {
        LaneOf {
            pieces: data.pieces.clone(),
            left_out: data.pieces_left_out,
            jobs: data.jobs,
            busy_ns: data.busy_ns,
            origins: [
                data.own,
                data.from_outside,
                data.mail,
                data.steals.values().sum(),
            ],
        }
    }
}

impl ForkRecorder {
    fn gather(&self) -> Gathered {
        let mut lanes = Vec::new();
        self.each_lane(|_, data| lanes.push(LaneOf::new(data)));
        let pools = self.0.pools.try_lock_for(super::LOCKED);
        let policy = pools.and_then(|pools| pools.first().map(|pool| pool.policy.clone()));
        let mut arguments = std::env::args_os().map(|one| one.to_string_lossy().into_owned());
        let program = arguments.next().unwrap_or_default();
        let name = std::path::Path::new(&program).file_name();
        Gathered {
            profile: self.profile(),
            places: site::places(),
            policy: policy.unwrap_or_else(|| "none".to_owned()),
            program: name.map_or_else(
                || program.clone(),
                |name| name.to_string_lossy().into_owned(),
            ),
            arguments: arguments.collect::<Vec<_>>().join(" "),
            lanes,
        }
    }

    /// Returns what has been measured so far as JSON in the schema of reports.
    pub fn to_json(&self) -> String {
        self.gather().to_json()
    }

    /// Returns what has been measured so far as a page that needs no network.
    pub fn to_html(&self) -> String {
        self.gather().to_html()
    }
}

/// Returns a time for people.
fn time(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

/// Returns `part` in percents of `whole`.
fn percent(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64 * 100.0
}

/// Returns a JSON string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => _ = write!(out, "\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out + "\""
}

/// Returns text for HTML and for attributes in double quotes.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

fn list<T>(items: impl IntoIterator<Item = T>, one: impl Fn(T) -> String) -> String {
    let items: Vec<String> = items.into_iter().map(one).collect();
    format!("[{}]", items.join(","))
}

impl Gathered {
    fn workers(&self) -> u32 {
        self.lanes.len().max(1) as u32
    }

    /// Returns the profile in sentences.
    fn sentence(&self) -> String {
        let profile = &self.profile;
        let workers = u32::from(profile.workers.max(1));
        let bound = |times: u32| {
            let workers = times * workers;
            format!("{} on {workers}", time(profile.bound_ns(workers)))
        };
        format!(
            "work {}, span {}: at most {:.1} workers are of use. Measured {} on {workers}, Brent's bound {}; \
             with more workers at most {}, {} and {}. In {:.0}% of {} nothing ran in the pools.",
            time(profile.work_ns),
            time(profile.span_ns),
            profile.work_ns as f64 / profile.span_ns.max(1) as f64,
            time(profile.active_ns),
            time(profile.bound_ns(workers)),
            bound(2),
            bound(4),
            bound(8),
            100.0 - percent(profile.active_ns, profile.wall_ns).min(100.0),
            time(profile.wall_ns),
        )
    }

    fn of_place(&self, of: &OfPlace) -> String {
        let line = match of.place.line.as_str() {
            "" => String::new(),
            line => format!(" ({line})"),
        };
        format!(
            "{}{line}: {:.0}% of the work, {:.0}% of the span, {} joins, {} stolen",
            of.place.name,
            percent(of.work_ns, self.profile.work_ns),
            percent(of.span_ns, self.profile.span_ns),
            of.joins,
            of.stolen
        )
    }

    /// Returns a sentence if no line is known.
    fn hint(&self) -> Option<&'static str> {
        let known = self
            .profile
            .places
            .iter()
            .any(|of| !of.place.line.is_empty());
        (!known && !self.profile.places.is_empty()).then_some(
            "No source lines: the program was built without debug information. CARGO_PROFILE_RELEASE_DEBUG=line-tables-only gives it.",
        )
    }

    /// Returns the begin of the earliest piece.
    fn start(&self) -> u64 {
        let pieces = self.lanes.iter().flat_map(|lane| &lane.pieces);
        pieces.map(|piece| piece.start).min().unwrap_or(0)
    }

    fn left_out(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.left_out).sum()
    }

    fn to_json(&self) -> String {
        let profile = &self.profile;
        let seconds = profile.wall_ns as f64 / 1e9;
        let path = profile.places.iter().filter(|of| of.span_ns > 0);
        let path = list(path, |of| {
            let line = match of.place.line.as_str() {
                "" => String::new(),
                line => format!("\"line\":{},", quoted(line)),
            };
            let (tasks, ns) = (of.span_strands, of.span_ns);
            format!(
                "{{\"name\":{},{line}\"tasks\":{tasks},\"ns\":{ns}}}",
                quoted(&of.place.name)
            )
        });
        let places = list(&profile.places, |of| {
            format!(
                "{{\"name\":{},\"line\":{},\"work_ns\":{},\"span_ns\":{},\"joins\":{},\"stolen\":{}}}",
                quoted(&of.place.name),
                quoted(&of.place.line),
                of.work_ns,
                of.span_ns,
                of.joins,
                of.stolen
            )
        });
        let steals = list(&profile.steals, |((victim, thief), count)| {
            format!("{{\"victim\":{victim},\"thief\":{thief},\"jobs\":{count}}}")
        });
        let origin = |at: usize| self.lanes.iter().map(|lane| lane.origins[at]).sum::<u64>();
        let stolen = origin(3);
        let workers = self.workers();
        let busy = profile.busy_ns as f64 / (profile.wall_ns.max(1) as f64 * f64::from(workers));
        let reasons = profile
            .places
            .iter()
            .take(LISTED)
            .map(|of| self.of_place(of));
        let reasons = list(reasons.chain(self.hint().map(str::to_owned)), |one| {
            quoted(&one)
        });
        let mut out = format!(
            "{{\"schema\":\"tanada-report 1\",\"title\":{},\"command\":{},\"machine\":{},\"verdicts\":[{{\"claim\":\"Forks\",\"text\":{},\
             \"reasons\":{reasons}}}],\"runs\":[",
            quoted(&format!("Forks of {}", self.program)),
            quoted(&format!("{} {}", self.program, self.arguments)),
            quoted(std::env::consts::ARCH),
            quoted(&self.sentence()),
        );
        let _ = write!(
            out,
            "{{\"workload\":{},\"input\":{},\"engine\":\"native\",\"machine\":{},\"policy\":{},\"workers\":{workers},\"groups\":\"\",\
             \"seconds\":{{\"min\":{seconds},\"median\":{seconds},\"repeats\":1}},\"tasks\":{},\"utilisation\":{},\"steals\":{stolen},\
             \"origins\":{{\"handed\":0,\"own\":{},\"pool\":{},\"mailbox\":{},\"stolen\":{stolen}}},\
             \"profile\":{{\"work_ns\":{},\"span_ns\":{},\"wall_ns\":{},\"path\":{path}}},\
             \"extra\":{{\"joins\":{},\"active_ns\":{},\"whole_ns\":{},\"places\":{places},\"steals_by_pair\":{steals}}}}}],",
            quoted(&self.program),
            quoted(&self.arguments),
            quoted(std::env::consts::ARCH),
            quoted(&self.policy),
            profile.jobs,
            busy.clamp(0.0, 1.0),
            origin(0),
            origin(1),
            origin(2),
            profile.work_ns,
            profile.span_ns,
            profile.active_ns,
            profile.joins,
            profile.active_ns,
            profile.wall_ns,
        );
        out + "\"timelines\":[" + &self.timeline() + "]}"
    }

    fn timeline(&self) -> String {
        let start = self.start();
        let lanes = self.lanes.iter().enumerate();
        let pieces: Vec<(usize, &Piece)> = lanes
            .flat_map(|(worker, lane)| lane.pieces.iter().map(move |piece| (worker, piece)))
            .collect();
        let column = |of: &dyn Fn(usize, &Piece) -> u64| {
            list(&pieces, |(worker, piece)| of(*worker, piece).to_string())
        };
        let label = match self.left_out() {
            0 => "jobs".to_owned(),
            left => format!("jobs, the first of each worker; {left} pieces are left out"),
        };
        format!(
            "{{\"label\":{},\"policy\":{},\"engine\":\"native\",\"unit\":\"ns\",\"workers\":{},\"names\":{},\"events\":{{\"worker\":{},\
             \"task\":{},\"name\":{},\"t\":{},\"s\":{},\"start\":{},\"end\":{},\"origin\":{}}}}}",
            quoted(&label),
            quoted(&self.policy),
            self.workers(),
            list(&self.places, |place| quoted(&match place.line.as_str() {
                "" => place.name.clone(),
                line => format!("{} ({line})", place.name),
            })),
            column(&|worker, _| worker as u64),
            column(&|_, piece| piece.job),
            column(&|_, piece| u64::from(piece.site)),
            column(&|_, _| 0),
            column(&|_, _| 0),
            column(&|_, piece| piece.start - start),
            column(&|_, piece| piece.end - start),
            column(&|_, piece| match piece.origin {
                Origin::Handed => 0,
                Origin::Own => 1,
                Origin::Pool => 2,
                Origin::Mailbox => 3,
                Origin::Stolen(victim) => 4 + u64::from(victim.0),
            }),
        )
    }

    fn to_html(&self) -> String {
        let title = escaped(&format!("Forks of {}", self.program));
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" \
             content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width, \
             initial-scale=1\">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<p>{}</p>\n",
            escaped(&self.sentence())
        );
        if let Some(hint) = self.hint() {
            let _ = writeln!(page, "<p>{}</p>", escaped(hint));
        }
        let mut profile = self.profile.clone();
        profile
            .places
            .sort_by_key(|of| std::cmp::Reverse((of.span_ns, of.work_ns)));
        let (work, span) = (profile.work_ns, profile.span_ns);
        page.push_str("<h2>Where work and span are</h2>\n");
        table(
            &mut page,
            &["", "span", "of span", "work", "of work", "joins", "stolen"],
            profile.places.iter().map(|of| {
                vec![
                    format!("{} {}", of.place.name, of.place.line),
                    time(of.span_ns),
                    format!("{:.1}%", percent(of.span_ns, span)),
                    time(of.work_ns),
                    format!("{:.1}%", percent(of.work_ns, work)),
                    of.joins.to_string(),
                    of.stolen.to_string(),
                ]
            }),
        );
        page.push_str("<h2>Workers</h2>\n");
        table(
            &mut page,
            &[
                "worker",
                "busy",
                "of the time",
                "jobs",
                "own",
                "from outside",
                "by mail",
                "stolen",
            ],
            self.lanes.iter().enumerate().map(|(worker, lane)| {
                let [own, outside, mail, stolen] = lane.origins;
                vec![
                    worker.to_string(),
                    time(lane.busy_ns),
                    format!("{:.0}%", percent(lane.busy_ns, profile.wall_ns)),
                    lane.jobs.to_string(),
                    own.to_string(),
                    outside.to_string(),
                    mail.to_string(),
                    stolen.to_string(),
                ]
            }),
        );
        if !profile.steals.is_empty() {
            page.push_str("<h2>Steals</h2>\n");
            table(
                &mut page,
                &["victim", "thief", "jobs"],
                profile.steals.iter().map(|((victim, thief), jobs)| {
                    vec![victim.to_string(), thief.to_string(), jobs.to_string()]
                }),
            );
        }
        self.picture(&mut page);
        let _ = write!(
            page,
            "<p>{}</p>\n</body>\n</html>\n",
            escaped(
                "For a page with a chart that zooms: TANADA_PROFILE=x.json, then tanada report x.json -o page.html."
            )
        );
        page
    }

    /// Writes a strip a worker: how much of the time of each column it ran jobs of each place.
    fn picture(&self, page: &mut String) {
        let start = self.start();
        let pieces = self.lanes.iter().flat_map(|lane| &lane.pieces);
        let end = pieces.map(|piece| piece.end).max().unwrap_or(0);
        if end <= start {
            return;
        }
        let height = self.lanes.len() * 24 + 4;
        let _ = write!(
            page,
            "<h2>When workers ran jobs</h2>\n<p>{} from left to right{}.</p>\n<svg viewBox=\"0 0 {COLUMNS} {height}\" \
             preserveAspectRatio=\"none\" role=\"img\" aria-label=\"jobs of each worker over time\">\n",
            time(end - start),
            match self.left_out() {
                0 => String::new(),
                left => format!("; the last {left} pieces of jobs are left out"),
            }
        );
        let width = (end - start).div_ceil(COLUMNS).max(1);
        for (worker, lane) in self.lanes.iter().enumerate() {
            let top = worker * 24 + 2;
            let mut columns = vec![(0_u64, 0_u32, 0_u64); COLUMNS as usize];
            for piece in &lane.pieces {
                let (from, to) = (piece.start - start, piece.end - start);
                for at in from / width..=(to / width).min(COLUMNS - 1) {
                    let covered = to
                        .min((at + 1) * width)
                        .saturating_sub(from.max(at * width));
                    let column = &mut columns[at as usize];
                    column.0 += covered;
                    if covered >= column.2 {
                        (column.1, column.2) = (piece.site, covered);
                    }
                }
            }
            let mut at = 0;
            while at < columns.len() {
                // In steps of a quarter, so that equal neighbours are one element.
                let look = |at: usize| ((columns[at].0 * 4).div_ceil(width).min(4), columns[at].1);
                let (share, site) = look(at);
                let more = (at..columns.len()).take_while(|next| look(*next) == (share, site));
                let length = more.count();
                if share > 0 {
                    let hue = u64::from(site) * 137 % 360;
                    let name = self.places.get(site as usize).unwrap_or(&self.places[0]);
                    let _ = writeln!(
                        page,
                        "<rect x=\"{at}\" y=\"{top}\" width=\"{length}\" height=\"20\" fill=\"hsl({hue} 60% 45%)\" \
                         opacity=\"{:.2}\"><title>{}</title></rect>",
                        share as f64 / 4.0,
                        escaped(&format!("worker {worker}: {} {}", name.name, name.line))
                    );
                }
                at += length;
            }
        }
        page.push_str("</svg>\n");
    }
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}\
table{border-collapse:collapse}td,th{padding:.15rem .7rem;text-align:right;border-bottom:1px solid #8884}\
td:first-child,th:first-child{text-align:left}svg{width:100%;height:auto;background:#8882}:root{color-scheme:light dark}";

fn table(page: &mut String, head: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    page.push_str("<table>\n<tr>");
    for cell in head {
        let _ = write!(page, "<th>{}</th>", escaped(cell));
    }
    page.push_str("</tr>\n");
    for row in rows {
        page.push_str("<tr>");
        for cell in row {
            let _ = write!(page, "<td>{}</td>", escaped(&cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
}
