//! Decides what the page draws besides Gantt charts: rows, labels, colours and units. The page's script knows only three kinds of chart,
//! bars, lines and heat maps, and nothing of their meaning.

use std::fmt::Write as _;

use serde::Serialize;

use crate::colours::{self, Rgb, hex};
use crate::columns::{CHOICES, Column, differs, engine, thousands};
use crate::headline::{comparable_sets, workers_of};
use crate::parts::{Accesses, CacheUse, Reuse, Stalls};
use crate::schema::{Engine, Report, RunResult, SEQUENTIAL, TODAY};
use crate::threads::per_cycle;
use crate::time;

/// A heading, a caption on how to read what follows, the charts, and then the tables.
#[derive(Default)]
pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) caption: &'static str,
    /// Whether two charts fit side by side on a wide screen.
    pub(crate) narrow: bool,
    pub(crate) charts: Vec<Chart>,
    pub(crate) tables: Vec<Table>,
}

/// A table with its heading.
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<Column>,
    /// What is not in the table; empty: it has all.
    pub(crate) left: String,
}

/// One chart with its heading.
#[derive(Serialize)]
pub(crate) struct Chart {
    pub(crate) title: String,
    /// The label of the axis that measures the values.
    pub(crate) axis: &'static str,
    /// The format in which the script writes a value.
    pub(crate) format: Format,
    #[serde(flatten)]
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    Count,
    Decimal,
    Percent,
    Ratio,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Bars(Bars),
    Lines(Lines),
    Heat(Heat),
}

#[derive(Serialize)]
pub(crate) struct Bars {
    /// Whether the parts of a row are stacked; otherwise they are separate bars.
    pub(crate) stacked: bool,
    pub(crate) parts: Vec<Part>,
    pub(crate) rows: Vec<Row>,
    /// The meaning of the rows' marks.
    pub(crate) mark: Option<&'static str>,
}

#[derive(Serialize)]
pub(crate) struct Part {
    pub(crate) label: String,
    pub(crate) colour: String,
}

#[derive(Default, Serialize)]
pub(crate) struct Row {
    pub(crate) label: String,
    /// One value a part; `None` if it is not known.
    pub(crate) values: Vec<Option<f64>>,
    /// Position of a line across the bar.
    pub(crate) mark: Option<f64>,
    /// The text behind the bar.
    pub(crate) note: String,
    /// Further lines of the description.
    pub(crate) more: String,
    /// Whether this is the best row.
    pub(crate) best: bool,
}

#[derive(Serialize)]
pub(crate) struct Lines {
    /// The label of the axis of ticks.
    pub(crate) along: String,
    pub(crate) ticks: Vec<String>,
    pub(crate) series: Vec<Series>,
    /// Lines across the chart, each right of the tick with this index.
    pub(crate) marks: Vec<(usize, String)>,
    /// Whether the axis of values is logarithmic, up to 100; otherwise it begins at 0.
    pub(crate) log: bool,
}

/// A value for each row and tick, as a shade.
#[derive(Serialize)]
pub(crate) struct Heat {
    /// The label of the axis of ticks.
    pub(crate) along: String,
    pub(crate) ticks: Vec<String>,
    pub(crate) rows: Vec<HeatRow>,
    /// From what value on a cell has which strength, from 0 to 1; below the first it is empty.
    pub(crate) shades: Vec<(u64, f64)>,
}

#[derive(Serialize)]
pub(crate) struct HeatRow {
    pub(crate) label: String,
    /// One value a tick.
    pub(crate) values: Vec<u64>,
}

#[derive(Serialize)]
pub(crate) struct Series {
    pub(crate) label: String,
    pub(crate) colour: String,
    /// The dash pattern, so that lines on top of each other can be distinguished without their colours.
    pub(crate) dash: &'static str,
    /// One value a tick; a run that ended sooner has fewer.
    pub(crate) values: Vec<f64>,
    /// By tick, more of the point's description; empty: there is none.
    pub(crate) more: Vec<String>,
}

/// What time is spent on, in the order of the bars: cool for work, warm for waiting for memory, and the warmer, the farther the memory.
const CAUSES: [(&str, Rgb); 22] = [
    ("compute", 0x0072b2),
    ("instructions", 0x0072b2),
    ("issue", 0x56b4e9),
    ("ports", 0x999933),
    ("window", 0x6a3d9a),
    ("L1I miss", 0xf0e442),
    ("l1i misses", 0xf0e442),
    ("L1D miss", 0xe69f00),
    ("l1d misses", 0xe69f00),
    ("l1 misses", 0xe69f00),
    ("L2 miss", 0xd55e00),
    ("l2 misses", 0xd55e00),
    ("deeper miss", 0x882255),
    (DEEPER, 0x882255),
    ("line on its way", 0xffb6b0),
    ("channel", 0xffd9a0),
    ("memory queue", 0xcc79a7),
    ("scheduling", 0x009e73),
    ("sync", 0x009e73),
    ("switch", 0x44bb99),
    ("parked", 0xd9dde3),
    ("idle", 0xb4bac2),
];

/// Stands for what [`CAUSES`] does not name: misses of levels beyond the second.
const DEEPER: &str = "";

/// Returns the place of a cause in [`CAUSES`].
fn cause(name: &str) -> usize {
    let place = |wanted: &str| CAUSES.iter().position(|(known, _)| *known == wanted);
    place(name).or_else(|| place(DEEPER)).expect("it is there")
}

/// A colour that the page defines, once for light and once for dark.
const BAR: &str = "bar";

/// Returns all sections for which the report has data.
pub(crate) fn sections(report: &Report) -> Vec<Section> {
    let sets = comparable_sets(report);
    let label = labels(&sets);
    let charts = |of: &dyn Fn(&[&RunResult], &str) -> Vec<Chart>| -> Vec<Chart> {
        let each = sets.iter().enumerate();
        each.flat_map(|(index, set)| of(set, &label[index]))
            .collect()
    };
    let stages = stages(report);
    let all = [
        Section {
            title: "Speed",
            caption: "Of frames a second more is better, of seconds and cycles fewer; behind each bar its speed relative to fcfs, one \
                      queue for all workers, or to fifo, all hardware threads in turn.",
            narrow: false,
            charts: charts(&|set, label| speed(set, label).into_iter().collect()),
            ..Section::default()
        },
        Section {
            title: "Native beside simulated",
            caption: "Speed relative to fcfs on the same machine. If the bars of a policy agree, the simulated \
                      machine says of it what this one does; if they differ, so do the machines' caches and cores.",
            narrow: false,
            charts: beside(&sets, &label).into_iter().collect(),
            ..Section::default()
        },
        Section {
            title: "Time beside the bound",
            caption: "Shorter is better. No schedule could end before the dark part does: it is the largest of all \
                      work shared evenly by the cores, the longest chain of tasks that wait for one another, and \
                      what no order spares the memory that the cores share, where that is simulated. What is \
                      behind it a better schedule might save; the dark part only a better program or machine.",
            narrow: false,
            charts: charts(&|set, label| bound(set, label).into_iter().collect()),
            ..Section::default()
        },
        Section {
            title: "Where the time went",
            caption: "Each core's time from the first task to the end of the last: computing, waiting for a cache \
                      that missed, waiting in the queues of the shared memory, scheduling, and without a task.",
            narrow: false,
            charts: charts(&|set, label| stalls(set, label, task_causes)),
            ..Section::default()
        },
        Section {
            title: "What hardware threads spend their cycles on",
            caption: "Each hardware thread's cycles up to the end of the run: executing instructions, and what it stalls on. Issue is \
                      waiting while others issue; channel and memory queue are waiting while other fills are under way; parked is what \
                      the governor keeps idle. Behind each bar its instructions per cycle (IPC).",
            narrow: false,
            charts: charts(&|set, label| stalls(set, label, thread_causes)),
            ..Section::default()
        },
        Section {
            title: "Misses by cache and stage",
            caption: "Shorter is better. A bar is one cache level, summed over the cores. Of runs of tasks its parts are \
                      the stages whose tasks missed; the line across is what no order of the tasks avoids, if that is known.",
            narrow: true,
            charts: charts(&|set, label| misses(set, label, &stages)),
            ..Section::default()
        },
        Section {
            title: "Reuse distance",
            caption: "How large a cache of its own a core would need for finding a line that it touches again: bytes \
                      of other lines touched in between. What is right of a line across misses in a cache of that \
                      size (if it keeps what was used last). A good schedule moves the curve to the left.",
            narrow: true,
            charts: charts(&reuse),
            ..Section::default()
        },
    ];
    all.into_iter()
        .chain(time::sections(&sets, &label))
        .filter(|section| !section.charts.is_empty() || !section.tables.is_empty())
        .collect()
}

/// Returns what distinguishes each set of comparable runs from the others.
fn labels(sets: &[Vec<&RunResult>]) -> Vec<String> {
    let what = |set: &[&RunResult]| (set[0].workload.clone(), set[0].input.clone());
    let several = sets.iter().any(|set| {
        let mut same_engine = sets.iter().filter(|other| other[0].engine == set[0].engine);
        same_engine.any(|other| what(other) != what(set))
    });
    let label = |set: &Vec<&RunResult>| {
        let parallel = set.iter().find(|run| run.policy != SEQUENTIAL);
        let run = parallel.unwrap_or(&set[0]);
        let input = match several {
            true => format!("{} {}", run.workload, run.input),
            false => String::new(),
        };
        let mut words = vec![engine(run.engine), &run.machine, &input];
        let workers = workers_of(run);
        words.push(&workers);
        words.retain(|word| !word.is_empty());
        words.join(", ")
    };
    sets.iter().map(label).collect()
}

/// Returns the different ones of `items` in order of appearance.
pub(crate) fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    for item in items {
        if !all.contains(&item) {
            all.push(item);
        }
    }
    all
}

/// Returns the stages in the order in which the Gantt charts assign colours to them.
fn stages(report: &Report) -> Vec<&str> {
    let drawn = report.timelines.iter().flat_map(|timeline| &timeline.names);
    let caches = report.runs.iter().flat_map(|run| &run.caches);
    let counted = caches.flat_map(|cache| cache.by_name.iter().map(|part| &part.name));
    distinct(drawn.chain(counted).map(String::as_str))
}

/// Returns the name of a row: the policy, and the groups and the cut if rows of the set differ in them.
pub(crate) fn row_label(run: &RunResult, set: &[&RunResult]) -> String {
    let differing = CHOICES.into_iter().filter(|&read| differs(set, read));
    let choices = differing.filter_map(|read| read(run));
    choices.fold(run.policy.clone(), |label, choice| {
        format!("{label}, {}", choice.text)
    })
}

fn speed(set: &[&RunResult], label: &str) -> Option<Chart> {
    type Value = fn(&RunResult) -> Option<f64>;
    let (axis, format, longer, value): (_, _, _, Value) = match set[0] {
        run if run.fps.is_some() => ("frames a second", Format::Decimal, true, |run| run.fps),
        run if run.seconds.is_some() => ("seconds", Format::Decimal, false, |run| {
            run.seconds.map(|seconds| seconds.median)
        }),
        run if run.bound.is_some() => return None,
        _ => ("cycles", Format::Count, false, |run| {
            run.cycles.map(|cycles| cycles as f64)
        }),
    };
    let mut rows: Vec<Row> = set
        .iter()
        .filter_map(|run| {
            Some(Row {
                label: row_label(run, set),
                values: vec![Some(value(run)?)],
                note: run
                    .ratio_to_fcfs
                    .or_else(|| run.threads.as_ref()?.ratio_to_fifo)
                    .map_or(String::new(), |ratio| format!("\u{d7}{ratio:.2}")),
                ..Row::default()
            })
        })
        .collect();
    let sign = if longer { 1.0 } else { -1.0 };
    let goodness = |row: &Row| sign * row.values[0].unwrap_or(0.0);
    let best = rows
        .iter_mut()
        .max_by(|a, b| goodness(a).total_cmp(&goodness(b)));
    best?.best = true;
    (rows.len() > 1).then(|| Chart {
        title: format!("{label}: {axis}"),
        axis,
        format,
        kind: Kind::Bars(Bars {
            stacked: true,
            parts: vec![part(axis, BAR.to_owned())],
            rows,
            mark: None,
        }),
    })
}

fn part(label: &str, colour: String) -> Part {
    Part {
        label: label.to_owned(),
        colour,
    }
}

/// Returns the ratios to fcfs of several machines side by side; `None` unless there are native and simulated runs.
fn beside(sets: &[Vec<&RunResult>], labels: &[String]) -> Option<Chart> {
    let rated: Vec<(&Vec<&RunResult>, &String)> = sets
        .iter()
        .zip(labels)
        .filter(|(set, _)| set.iter().filter(|run| run.ratio_to_fcfs.is_some()).count() > 1)
        .collect();
    let has = |engine| rated.iter().any(|(set, _)| set[0].engine == engine);
    let other = |(set, _): &(&Vec<&RunResult>, _)| set[0].workload != rated[0].0[0].workload;
    if !has(Engine::Native) || !has(Engine::Simulated) || rated.iter().any(other) {
        return None;
    }
    let runs = rated.iter().flat_map(|(set, _)| set.iter());
    let policies = distinct(runs.map(|run| run.policy.as_str()));
    let compared = policies
        .into_iter()
        .filter(|policy| !matches!(*policy, SEQUENTIAL | TODAY));
    let rows = compared.map(|policy| Row {
        label: policy.to_owned(),
        values: rated
            .iter()
            .map(|(set, _)| {
                let runs = set.iter().filter(|run| run.policy == policy);
                runs.filter_map(|run| run.ratio_to_fcfs).reduce(f64::max)
            })
            .collect(),
        ..Row::default()
    });
    Some(Chart {
        title: "Speed relative to fcfs".to_owned(),
        axis: "times fcfs",
        format: Format::Ratio,
        kind: Kind::Bars(Bars {
            stacked: false,
            rows: rows.collect(),
            parts: rated
                .iter()
                .enumerate()
                .map(|(index, (_, label))| part(label, hex(colours::kind(index))))
                .collect(),
            mark: None,
        }),
    })
}

/// Returns the unit of a run's times.
fn unit(run: &RunResult) -> &'static str {
    match run.engine {
        Engine::Native => "seconds",
        Engine::Simulated => "cycles",
    }
}

fn bound(set: &[&RunResult], label: &str) -> Option<Chart> {
    let time = |run: &RunResult| match run.cycles {
        Some(cycles) => Some(cycles as f64),
        None => run.seconds.map(|seconds| seconds.min),
    };
    let unit = unit(set[0]);
    let rows: Vec<Row> = set
        .iter()
        .filter_map(|run| {
            let (time, bound) = (time(run)?, run.bound?);
            let more = run.limits.map_or(String::new(), |limits| {
                let amount = |value: f64| match run.cycles {
                    Some(_) => thousands(value.round() as u64),
                    None => format!("{value:.4}"),
                };
                let mut text = format!(
                    "work shared evenly: {} {unit}\nlongest chain: {} {unit}",
                    amount(limits.work),
                    amount(limits.critical_path)
                );
                if let Some(channels) = limits.channels {
                    let _ = write!(text, "\nshared memory: {} {unit}", amount(channels));
                }
                text
            });
            Some(Row {
                label: row_label(run, set),
                values: vec![Some(bound.min(time)), Some((time - bound).max(0.0))],
                note: format!("{:.2} \u{d7} bound", time / bound),
                more,
                ..Row::default()
            })
        })
        .collect();
    let format = match set[0].cycles {
        Some(_) => Format::Count,
        None => Format::Decimal,
    };
    (!rows.is_empty()).then(|| Chart {
        title: format!("{label}: time"),
        axis: unit,
        format,
        kind: Kind::Bars(Bars {
            stacked: true,
            parts: vec![
                part("the bound", "best".to_owned()),
                part("above the bound", BAR.to_owned()),
            ],
            rows,
            mark: None,
        }),
    })
}

/// What the time of the workers of one run was spent on.
struct Spent<'a> {
    run: &'a RunResult,
    causes: Vec<&'a str>,
    /// Of each worker: its time by cause, and a note.
    workers: Vec<(Vec<u64>, String)>,
    /// The note of the mean.
    note: String,
}

/// Returns the stalls of a run of tasks.
fn task_causes(run: &RunResult) -> Option<Spent<'_>> {
    let workers = run
        .stalls
        .iter()
        .map(|one| (one.parts().to_vec(), String::new()));
    (!run.stalls.is_empty()).then(|| Spent {
        run,
        causes: Stalls::NAMES.to_vec(),
        workers: workers.collect(),
        note: String::new(),
    })
}

/// Returns the stalls of a run of threads.
fn thread_causes(run: &RunResult) -> Option<Spent<'_>> {
    let (threads, cycles) = (run.threads.as_ref()?, run.cycles?);
    let ipc = |instructions| format!("{:.3} IPC", per_cycle(instructions, cycles));
    let workers = threads.hardware.iter();
    let workers = workers.map(|one| (one.cycles.clone(), ipc(one.instructions)));
    Some(Spent {
        run,
        causes: threads.causes.iter().map(String::as_str).collect(),
        workers: workers.collect(),
        note: format!("{} in all", ipc(threads.instructions)),
    })
}

/// Returns two charts: the mean of each policy's workers, and each worker.
fn stalls<'a>(
    set: &[&'a RunResult],
    label: &str,
    of: fn(&'a RunResult) -> Option<Spent<'a>>,
) -> Vec<Chart> {
    let counted: Vec<Spent<'_>> = set.iter().filter_map(|run| of(run)).collect();
    let Some(first) = counted.first() else {
        return Vec::new();
    };
    let unit = match first.run.engine {
        Engine::Native => "nanoseconds",
        Engine::Simulated => "cycles",
    };
    // A part that no run has would only lengthen the legend.
    let all = || counted.iter().flat_map(|spent| &spent.workers);
    let is_used = |index: usize| all().any(|(parts, _)| parts[index] > 0);
    let mut used: Vec<usize> = (0..first.causes.len()).filter(|&i| is_used(i)).collect();
    used.sort_by_key(|&index| cause(first.causes[index]));
    let chart = |title: String, rows: Vec<Row>| Chart {
        title,
        axis: unit,
        format: Format::Count,
        kind: Kind::Bars(Bars {
            stacked: true,
            parts: used
                .iter()
                .map(|&index| {
                    let name = first.causes[index];
                    part(name, hex(CAUSES[cause(name)].1))
                })
                .collect(),
            rows,
            mark: None,
        }),
    };
    let row = |label: String, note: &str, of: &dyn Fn(usize) -> f64| Row {
        label,
        note: note.to_owned(),
        values: used.iter().map(|&part| Some(of(part))).collect(),
        ..Row::default()
    };
    let mean = counted.iter().map(|spent| {
        let workers = || spent.workers.iter();
        let sum = |part: usize| workers().map(|(parts, _)| parts[part] as f64).sum::<f64>();
        row(row_label(spent.run, set), &spent.note, &|part| {
            sum(part) / spent.workers.len() as f64
        })
    });
    let worker = first.run.worker_word();
    let mut each: Vec<Row> = Vec::new();
    for spent in &counted {
        if !each.is_empty() {
            each.push(Row::default()); // a gap between policies
        }
        let label = row_label(spent.run, set);
        each.extend(
            spent
                .workers
                .iter()
                .enumerate()
                .map(|(index, (parts, note))| {
                    // The longer word stands in the title: on a phone it would leave no room for the number.
                    let label = match spent.run.threads {
                        Some(_) => format!("{label} #{index}"),
                        None => format!("{label}, {worker} {index}"),
                    };
                    row(label, note, &|part| parts[part] as f64)
                }),
        );
    }
    vec![
        chart(format!("{label}: mean of the {worker}s"), mean.collect()),
        chart(format!("{label}: each {worker}"), each),
    ]
}

/// Returns a cache's name for people: `l1i` is L1I.
fn cache_name(cache: &CacheUse) -> String {
    match cache.bytes {
        Some(bytes) => format!("{} ({})", cache.cache.to_uppercase(), size(bytes)),
        None => cache.cache.to_uppercase(),
    }
}

/// Returns bytes in powers of 1024, as sizes of caches are written.
fn size(bytes: u64) -> String {
    match bytes {
        b if b < 1 << 10 => format!("{b} B"),
        b if b < 1 << 20 => format!("{} KB", b >> 10),
        b if b < 1 << 30 => format!("{} MB", b >> 20),
        b => format!("{} GB", b >> 30),
    }
}

/// Returns one chart for each level and kind of cache.
fn misses(set: &[&RunResult], label: &str, stages: &[&str]) -> Vec<Chart> {
    let mut caches: Vec<&CacheUse> = Vec::new();
    for cache in set.iter().flat_map(|run| &run.caches) {
        if !caches.iter().any(|known| known.cache == cache.cache) {
            caches.push(cache);
        }
    }
    let chart = |cache| misses_of(set, label, stages, cache);
    caches.into_iter().map(chart).collect()
}

fn misses_of<'a>(set: &[&'a RunResult], label: &str, stages: &[&str], shown: &CacheUse) -> Chart {
    let of = |run: &&'a RunResult| {
        let cache = run.caches.iter().find(|cache| cache.cache == shown.cache)?;
        Some((*run, cache))
    };
    let known: Vec<(&RunResult, &CacheUse)> = set.iter().filter_map(of).collect();
    let by_name = |cache: &CacheUse, name: &str| -> u64 {
        let parts = cache.by_name.iter().filter(|part| part.name == name);
        parts.map(|part| part.misses).sum()
    };
    let used: Vec<(usize, &str)> = stages
        .iter()
        .copied()
        .enumerate()
        .filter(|(_, name)| known.iter().any(|(_, cache)| by_name(cache, name) > 0))
        .collect();
    let counted = |(_, cache): &(_, &CacheUse)| !cache.by_name.is_empty() || cache.misses == 0;
    let split = !used.is_empty() && known.iter().all(counted);
    let parts = match split {
        true => used
            .iter()
            .map(|&(index, name)| part(name, hex(colours::kind(index))))
            .collect(),
        false => vec![part("all stages", BAR.to_owned())],
    };
    let rows = known.iter().map(|(run, cache)| Row {
        label: row_label(run, set),
        values: match split {
            true => used
                .iter()
                .map(|(_, name)| Some(by_name(cache, name) as f64))
                .collect(),
            false => vec![Some(cache.misses as f64)],
        },
        mark: cache.unavoidable.map(|count| count as f64),
        note: match cache.accesses {
            0 => String::new(),
            accesses => format!("{} miss", share(cache.misses, accesses)),
        },
        more: format!("{} touches reached the cache", thousands(cache.accesses)),
        best: false,
    });
    let rows: Vec<Row> = rows.collect();
    let mark = rows.iter().any(|row| row.mark.is_some());
    Chart {
        title: format!("{label}: {}", cache_name(shown)),
        axis: "misses",
        format: Format::Count,
        kind: Kind::Bars(Bars {
            stacked: true,
            parts,
            rows,
            mark: mark.then_some("no order avoids these"),
        }),
    }
}

/// Returns `part` as a percentage of `whole`, with enough digits that small parts are not 0.
fn share(part: u64, whole: u64) -> String {
    match 100.0 * part as f64 / whole as f64 {
        percent if percent < 1.0 => format!("{percent:.2}%"),
        percent => format!("{percent:.1}%"),
    }
}

/// Returns one chart for each kind of access, with a line for each policy.
fn reuse(set: &[&RunResult], label: &str) -> Vec<Chart> {
    [Accesses::Instruction, Accesses::Data]
        .into_iter()
        .filter_map(|accesses| reuse_of(set, label, accesses))
        .collect()
}

fn reuse_of(set: &[&RunResult], label: &str, accesses: Accesses) -> Option<Chart> {
    let known: Vec<(&RunResult, &Reuse)> = set
        .iter()
        .flat_map(|run| run.reuse.iter().map(move |reuse| (*run, reuse)))
        .filter(|(_, reuse)| reuse.accesses == accesses && reuse.touches > 0)
        .collect();
    let (run, first) = *known.first()?;
    let known: Vec<_> = known
        .into_iter()
        .filter(|(_, reuse)| reuse.line == first.line)
        .collect();
    let buckets = known.iter().map(|(_, reuse)| reuse.buckets.len()).max()?;
    let line = u64::from(first.line);
    let mut ticks: Vec<String> = (0..buckets)
        .map(|bucket| size(reach(line, bucket)))
        .collect();
    ticks.push("first touch".to_owned());
    let series = known
        .iter()
        .enumerate()
        .map(|(index, (run, reuse))| Series {
            label: row_label(run, set),
            colour: hex(colours::kind(index)),
            dash: ["solid", "dashed", "dotted"][index % 3],
            values: shares(reuse, buckets),
            more: beyond(reuse, buckets, line),
        });
    // The letter of the other kind of first-level cache.
    let (other, what) = match accesses {
        Accesses::Instruction => ('d', "instruction fetches"),
        Accesses::Data => ('i', "reads and writes"),
    };
    // Marks are sizes of the core's own caches; the content of a shared one depends on other cores, too.
    let marks = run.caches.iter().filter_map(|cache| {
        let own = cache.cache.starts_with("l1") && !cache.cache.ends_with(other);
        let bytes = cache.bytes.filter(|_| own)?;
        let bucket = (0..buckets).rfind(|&bucket| reach(line, bucket) <= bytes)?;
        Some((bucket, cache_name(cache)))
    });
    let sampled = match first.sampled < 1.0 {
        true => format!(", {:.1}% of the lines", 100.0 * first.sampled),
        false => String::new(),
    };
    Some(Chart {
        title: format!("{label}: {what}{sampled}"),
        axis: "share of the touches",
        format: Format::Percent,
        kind: Kind::Lines(Lines {
            along: format!("cache that would keep the line, in lines of {line} bytes"),
            ticks,
            series: series.collect(),
            marks: marks.collect(),
            log: true,
        }),
    })
}

/// Returns the size in bytes of the smallest cache (a power of two of lines) in which a touch of this bucket hits.
fn reach(line: u64, bucket: usize) -> u64 {
    line.saturating_mul(1_u64.checked_shl(bucket as u32).unwrap_or(u64::MAX))
}

/// Returns the percentage of the touches by bucket, and that of first touches.
fn shares(reuse: &Reuse, buckets: usize) -> Vec<f64> {
    let percent = |count: u64| 100.0 * count as f64 / reuse.touches as f64;
    let mut shares: Vec<f64> = reuse.buckets.iter().map(|&count| percent(count)).collect();
    shares.resize(buckets, 0.0);
    shares.push(percent(reuse.first));
    shares
}

/// Returns what a cache that reaches to each bucket misses.
fn beyond(reuse: &Reuse, buckets: usize, line: u64) -> Vec<String> {
    let mut left = reuse.touches;
    let mut all: Vec<String> = (0..buckets)
        .map(|bucket| {
            left -= reuse.buckets.get(bucket).copied().unwrap_or(0);
            let cache = size(reach(line, bucket));
            format!("a cache of {cache} misses {}", share(left, reuse.touches))
        })
        .collect();
    all.push("every cache misses these".to_owned());
    all
}
