//! What the page shows of runs of logical threads: what happened over time, what the governor decided, and who waited for what.

use std::fmt::Write as _;

use crate::charts::{Chart, Format, Heat, HeatRow, Kind, Lines, Section, Table, row_label};
use crate::charts::{Series as Line, distinct};
use crate::colours::{self, hex};
use crate::columns::{Cell, Column, thousands};
use crate::schema::RunResult;
use crate::threads::{ObjectWaits, PlanChange, Series, ThreadRun, per_cycle};

/// The most logical threads in a picture of stack accesses; a row is 3 pixels high at least.
const ROWS: usize = 256;

/// Decisions that the description of one interval names.
const NAMED: usize = 3;

/// Threads that a row of the table of waits names.
const WAITERS: usize = 4;

/// Above how many percent of the cells that are not empty a cell has which strength. Parts of the largest value would leave most cells
/// faint: a thread that runs alone accesses its stack many times as often as one of many.
const SHADES: [(usize, f64); 5] = [(0, 0.2), (40, 0.4), (70, 0.6), (90, 0.8), (97, 1.0)];

/// A run with its series, in intervals that all runs of a set share.
struct Observed<'a> {
    run: &'a RunResult,
    threads: &'a ThreadRun,
    cycles: u64,
    series: Series,
}

/// Returns the sections for which sets of comparable runs have data; `labels` tell the sets apart.
pub(crate) fn sections(sets: &[Vec<&RunResult>], labels: &[String]) -> [Section; 4] {
    let each = || sets.iter().zip(labels);
    let observed: Vec<(Vec<Observed<'_>>, &String)> =
        each().map(|(set, label)| (observed(set), label)).collect();
    let over_time = observed
        .iter()
        .flat_map(|(runs, label)| over_time(runs, label));
    let stacks = observed
        .iter()
        .flat_map(|(runs, label)| stacks(runs, label));
    let tables = |of: fn(&RunResult, &ThreadRun, String) -> Option<Table>| {
        let all = each().flat_map(move |(set, label)| {
            set.iter().filter_map(move |run| {
                let title = format!("{label}: {}", row_label(run, set));
                of(run, run.threads.as_ref()?, title)
            })
        });
        all.collect::<Vec<Table>>()
    };
    [
        Section {
            title: "Over time",
            caption: "Instructions per cycle (more is better), misses of each cache for 1000 instructions (fewer are better), and how many \
                      hardware threads the governor lets run. Point at the last chart, or move through it with the arrow keys, for its \
                      decisions and their reasons.",
            charts: over_time.collect(),
            ..Section::default()
        },
        Section {
            title: "Decisions of the governor",
            caption: "Calls that changed how many hardware threads run or who is next, with the reason that the governor gives.",
            tables: tables(decisions),
            ..Section::default()
        },
        Section {
            title: "Stack accesses over time",
            caption: "A row is a logical thread, by number, which is the order of creation; the more it accessed its own stack in an \
                      interval, the stronger the colour. Few rows that are strong at a time mean that few threads share the cache at a \
                      time; faint colours all over mean that all take turns.",
            narrow: true,
            charts: stacks.collect(),
            ..Section::default()
        },
        Section {
            title: "Who waits for what",
            caption: "Locks, barriers and the like for which logical threads waited, those that cost most first; the wait ends when the \
                      thread may run again. Numbers are those of the trace.",
            tables: tables(waits),
            ..Section::default()
        },
    ]
}

fn observed<'a>(set: &[&'a RunResult]) -> Vec<Observed<'a>> {
    let with_series = || {
        let runs = set.iter();
        runs.filter_map(|run| Some((*run, run.threads.as_ref()?, run.cycles?)))
            .filter_map(|(run, threads, cycles)| {
                Some((run, threads, cycles, threads.series.as_ref()?))
            })
    };
    let longest = with_series().map(|(.., series)| series.interval).max();
    let longest = longest.unwrap_or(0);
    let all = with_series().map(|(run, threads, cycles, series)| Observed {
        run,
        threads,
        cycles,
        series: coarsened(series, longest),
    });
    // Intervals that are no powers of two apart have no common axis: those of the longest are shown.
    all.filter(|one| one.series.interval == longest).collect()
}

/// Returns `series` in intervals that are doubled as long as they are not longer than `interval`, so that series of several runs
/// have one axis of time.
fn coarsened(series: &Series, interval: u64) -> Series {
    let mut series = series.clone();
    while series.interval > 0 && series.interval * 2 <= interval {
        let sums = |values: &[u64]| values.chunks(2).map(|two| two.iter().sum()).collect();
        series.interval *= 2;
        series.instructions = sums(&series.instructions);
        for level in &mut series.misses {
            level.misses = sums(&level.misses);
        }
        for stack in &mut series.stacks {
            stack.accesses = sums(&stack.accesses);
        }
        let mean = |two: &[f64]| two.iter().sum::<f64>() / two.len() as f64;
        series.width = series.width.chunks(2).map(mean).collect();
    }
    series
}

/// Returns the number of cycles in words, short.
fn short(cycles: u64) -> String {
    let with = |unit: f64| {
        let text = format!("{:.2}", cycles as f64 / unit);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match cycles {
        0..10_000 => cycles.to_string(),
        10_000..1_000_000 => format!("{} k", with(1e3)),
        1_000_000..1_000_000_000 => format!("{} M", with(1e6)),
        _ => format!("{} G", with(1e9)),
    }
}

/// Returns the axis of time: its label, and the begins of all intervals.
fn axis(runs: &[Observed<'_>]) -> (String, Vec<String>) {
    let interval = runs.first().map_or(1, |one| one.series.interval);
    let most = runs.iter().map(|one| one.series.instructions.len()).max();
    let ticks = (0..most.unwrap_or(0) as u64).map(|number| short(number * interval));
    let along = format!("cycles, in intervals of {}", thousands(interval));
    (along, ticks.collect())
}

impl Observed<'_> {
    /// Returns the length of an interval; the last one ends with the run.
    fn length(&self, number: usize) -> u64 {
        let begin = number as u64 * self.series.interval;
        self.cycles.saturating_sub(begin).min(self.series.interval)
    }
}

/// Returns charts with a line a run: IPC, misses of each level, and width with decisions.
fn over_time(runs: &[Observed<'_>], label: &str) -> Vec<Chart> {
    let set: Vec<&RunResult> = runs.iter().map(|one| one.run).collect();
    let (along, ticks) = axis(runs);
    type Value<'a> = &'a dyn Fn(&Observed<'_>) -> (Vec<f64>, Vec<String>);
    let chart = |what: &str, unit: &'static str, of: Value<'_>| {
        let series = runs.iter().enumerate().map(|(index, one)| {
            let (values, mut more) = of(one);
            more.resize(values.len(), String::new());
            Line {
                label: row_label(one.run, &set),
                colour: hex(colours::kind(index)),
                dash: ["solid", "dashed", "dotted"][index % 3],
                values,
                more,
            }
        });
        Chart {
            title: format!("{label}: {what}"),
            axis: unit,
            format: Format::Decimal,
            kind: Kind::Lines(Lines {
                along: along.clone(),
                ticks: ticks.clone(),
                series: series.collect(),
                marks: Vec::new(),
                log: false,
            }),
        }
    };
    if runs.is_empty() {
        return Vec::new();
    }
    let mut charts = vec![chart("instructions per cycle", "IPC", &|one| {
        let counts = one.series.instructions.iter().enumerate();
        let ipc = counts.map(|(number, &count)| per_cycle(count, one.length(number)));
        (ipc.collect(), Vec::new())
    })];
    let levels = runs.iter().flat_map(|one| &one.series.misses);
    for cache in distinct(levels.map(|level| level.cache.as_str())) {
        let what = format!("{} misses", cache.to_uppercase());
        charts.push(chart(&what, "for 1000 instructions", &|one| {
            let mut levels = one.series.misses.iter();
            let level = levels.find(|level| level.cache == cache);
            let misses = level.map_or(&[][..], |level| &level.misses);
            let both = misses.iter().zip(&one.series.instructions);
            let rates = both.map(|(&misses, &count)| 1000.0 * misses as f64 / count.max(1) as f64);
            (rates.collect(), Vec::new())
        }));
    }
    charts.push(chart("width", "hardware threads", &|one| {
        let decided = decided(&one.threads.decisions, one.series.interval);
        (one.series.width.clone(), decided)
    }));
    charts
}

/// Returns the decisions of each interval in words.
fn decided(decisions: &[PlanChange], interval: u64) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let of = |one: &PlanChange| (one.cycle / interval.max(1)) as usize;
    for group in decisions.chunk_by(|a, b| of(a) == of(b)) {
        let mut text = String::new();
        for one in group.iter().take(NAMED) {
            let PlanChange {
                cycle,
                width,
                order,
                why,
            } = one;
            let _ = write!(text, "\n{}: {width}, {order}: {why}", thousands(*cycle));
        }
        if group.len() > NAMED {
            let _ = write!(text, "\nand {} more", group.len() - NAMED);
        }
        all.resize(of(&group[0]).max(all.len()), String::new());
        all.push(text);
    }
    all
}

/// Returns a picture of each run, all with the same shades.
fn stacks(runs: &[Observed<'_>], label: &str) -> Vec<Chart> {
    let set: Vec<&RunResult> = runs.iter().map(|one| one.run).collect();
    let all = runs.iter().flat_map(|one| &one.series.stacks);
    let shades = shades(all.flat_map(|stack| &stack.accesses).copied());
    if shades.is_empty() {
        return Vec::new();
    }
    let (along, ticks) = axis(runs);
    let chart = |one: &Observed<'_>| {
        let rows = one.series.stacks.iter().take(ROWS).map(|stack| HeatRow {
            label: stack.thread.to_string(),
            values: stack.accesses.clone(),
        });
        let left = one.series.stacks.len().saturating_sub(ROWS);
        let name = row_label(one.run, &set);
        let which = match left {
            0 => String::new(),
            left => format!(" (the first {ROWS} of {} threads)", ROWS + left),
        };
        Chart {
            title: format!("{label}: {name}{which}"),
            axis: "accesses",
            format: Format::Count,
            kind: Kind::Heat(Heat {
                along: along.clone(),
                ticks: ticks.clone(),
                rows: rows.collect(),
                shades: shades.clone(),
            }),
        }
    };
    runs.iter().map(chart).collect()
}

/// Returns from what value on a cell has which strength; nothing if all cells are empty.
fn shades(cells: impl Iterator<Item = u64>) -> Vec<(u64, f64)> {
    let mut filled: Vec<u64> = cells.filter(|&value| value > 0).collect();
    filled.sort_unstable();
    let of = |(percent, strength)| Some((*filled.get(filled.len() * percent / 100)?, strength));
    let mut shades: Vec<(u64, f64)> = SHADES.into_iter().filter_map(of).collect();
    if let Some(first) = shades.first_mut() {
        first.0 = 1;
    }
    // Of equal values the strongest.
    shades.reverse();
    shades.dedup_by_key(|shade| shade.0);
    shades.reverse();
    shades
}

fn column(heading: &str, meaning: &'static str, cells: impl Iterator<Item = Cell>) -> Column {
    Column {
        heading: heading.to_owned(),
        meaning,
        cells: cells.map(Some).collect(),
    }
}

fn decisions(run: &RunResult, threads: &ThreadRun, title: String) -> Option<Table> {
    let all = || threads.decisions.iter();
    let before = std::iter::once(run.workers).chain(all().map(|one| one.width));
    let width = before.zip(all()).map(|(before, one)| {
        let width = f64::from(one.width);
        match before == one.width {
            true => Cell::number(width, before.to_string()),
            false => Cell::number(width, format!("{before} \u{2192} {}", one.width)),
        }
    });
    let left = match threads.decisions_left {
        0 => String::new(),
        left => format!("and {} later ones", thousands(left)),
    };
    (!threads.decisions.is_empty()).then(|| Table {
        title,
        columns: vec![
            column(
                "cycle",
                "when it was decided",
                all().map(|one| Cell::count(one.cycle)),
            ),
            column("width", "hardware threads that may run", width),
            column(
                "order",
                "who is next",
                all().map(|one| one.order.as_str().into()),
            ),
            column(
                "why",
                "the governor's reason",
                all().map(|one| one.why.as_str().into()),
            ),
        ],
        left,
    })
}

fn waits(_run: &RunResult, threads: &ThreadRun, title: String) -> Option<Table> {
    let all = || threads.waits.iter();
    let left = match threads.waits_left {
        0 => String::new(),
        left => format!("and {} further ones that cost less", thousands(left)),
    };
    let name = |one: &ObjectWaits| match one.kind.as_str() {
        "join" => format!("end of thread {}", one.object),
        kind => format!("{kind} {}", one.object),
    };
    (!threads.waits.is_empty()).then(|| Table {
        title,
        columns: vec![
            column(
                "object",
                "what was waited for",
                all().map(|one| name(one).into()),
            ),
            column(
                "waits",
                "how often a thread waited",
                all().map(|one| Cell::count(one.waits)),
            ),
            column(
                "cycles waited",
                "the sum of all waits",
                all().map(|one| Cell::count(one.cycles)),
            ),
            column(
                "longest",
                "the longest wait, in cycles",
                all().map(|one| Cell::count(one.longest)),
            ),
            column(
                "threads",
                "how many threads waited",
                all().map(|one| Cell::count(one.threads.len() as u64)),
            ),
            column(
                "by thread",
                "cycles of the threads that waited longest",
                all().map(|one| waiters(one).into()),
            ),
        ],
        left,
    })
}

/// Returns the threads that waited longest in all, with their cycles.
fn waiters(object: &ObjectWaits) -> String {
    let mut threads: Vec<_> = object.threads.iter().collect();
    threads.sort_by_key(|one| std::cmp::Reverse(one.cycles));
    let named = threads.iter().take(WAITERS);
    let mut text: Vec<String> = named
        .map(|one| format!("{}: {}", one.thread, thousands(one.cycles)))
        .collect();
    if threads.len() > WAITERS {
        text.push("\u{2026}".to_owned());
    }
    text.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::LevelMisses;

    #[test]
    fn a_coarser_series_has_the_same_sums() {
        let series = Series {
            interval: 1000,
            instructions: vec![1, 2, 3, 4, 5],
            misses: vec![LevelMisses {
                cache: "l1d".to_owned(),
                misses: vec![5, 4, 3, 2, 1],
            }],
            width: vec![8.0, 4.0, 4.0, 4.0, 2.0],
            stacks: Vec::new(),
        };
        assert_eq!(coarsened(&series, 1000), series);
        let coarse = coarsened(&series, 4000);
        assert_eq!(
            (coarse.interval, &coarse.instructions[..]),
            (4000, &[10, 5][..])
        );
        assert_eq!(coarse.misses[0].misses, [14, 1]);
        assert_eq!(coarse.width, [5.0, 2.0]);
    }

    #[test]
    fn cycles_are_short() {
        let all = [0, 9_999, 16_000, 1_280_000, 2_000_000, 3_500_000_000];
        let texts = all.map(short);
        assert_eq!(texts, ["0", "9999", "16 k", "1.28 M", "2 M", "3.5 G"]);
    }

    #[test]
    fn shades_follow_the_cells_that_are_not_empty() {
        assert!(shades([0, 0].into_iter()).is_empty());
        assert_eq!(shades([0, 5, 5].into_iter()), [(1, 0.2), (5, 1.0)]);
        let cells = (0..=100).chain([1_000_000]);
        let all = [(1, 0.2), (41, 0.4), (71, 0.6), (91, 0.8), (98, 1.0)];
        assert_eq!(shades(cells), all);
    }

    #[test]
    fn decisions_stand_in_their_interval() {
        let decision = |cycle| PlanChange {
            cycle,
            width: 4,
            order: "by-number".to_owned(),
            why: "degraded".to_owned(),
        };
        let cycles = [2_500, 4_000, 4_100, 4_200, 4_300];
        let texts = decided(&cycles.map(decision), 1000);
        assert_eq!(texts.len(), 5);
        assert_eq!(texts[2], "\n2,500: 4, by-number: degraded");
        assert!(texts[0].is_empty() && texts[3].is_empty());
        assert!(texts[4].ends_with("\nand 1 more"), "{texts:?}");
    }
}
