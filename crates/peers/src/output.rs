//! Results for people and for programs.

use crate::Fallible;
use crate::cases::{self, Better, Case, METRICS, Metric, metric_of};
use crate::samples::Row;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use tanada_report::to_figures;

/// A row with its peer.
#[derive(Clone, Debug)]
pub(crate) struct Result {
    pub(crate) peer: String,
    pub(crate) workers: u16,
    pub(crate) row: Row,
}

/// A result as other programs read it: one object a line.
#[derive(Serialize, Deserialize)]
struct Line<'a> {
    case: Cow<'a, str>,
    params: Cow<'a, str>,
    peer: Cow<'a, str>,
    workers: u16,
    metric: Cow<'a, str>,
    value: f64,
    unit: Cow<'a, str>,
}

/// Returns all results of a case, one JSON object a line.
pub(crate) fn json(case: &Case, results: &[Result]) -> String {
    let line = |result: &Result| {
        let row = &result.row;
        let line = Line {
            case: case.name.into(),
            params: (&row.params).into(),
            peer: (&result.peer).into(),
            workers: result.workers,
            metric: row.metric.into(),
            value: row.value,
            unit: metric_of(row.metric).unit.into(),
        };
        serde_json::to_string(&line).expect("plain data has a JSON form") + "\n"
    };
    results.iter().map(line).collect()
}

/// Returns the tables of all cases in `text`, the output of [`json`]. Distances of medians and settings are not in it.
///
/// # Errors
/// If a line is no result of this bench.
pub(crate) fn read(text: &str) -> Fallible<String> {
    let lines = text.lines().map(serde_json::from_str::<Line<'_>>);
    let lines = lines.collect::<std::result::Result<Vec<_>, _>>()?;
    let mut tables = String::new();
    for case in cases::all() {
        let of_case = lines.iter().filter(|line| line.case == case.name);
        let results = of_case.map(|line| {
            let metric = METRICS.iter().find(|metric| metric.name == line.metric);
            let metric = metric.ok_or_else(|| format!("unknown metric \"{}\"", line.metric))?;
            Ok(Result {
                peer: line.peer.to_string(),
                workers: line.workers,
                row: Row {
                    params: line.params.to_string(),
                    metric: metric.name,
                    value: line.value,
                    spread: None,
                    setting: "",
                },
            })
        });
        let results = results.collect::<Fallible<Vec<_>>>()?;
        if !results.is_empty() {
            tables += &(table(case, &results) + "\n");
        }
    }
    Ok(tables)
}

/// Splits params into the name of a column and what all columns of a table have in common: `body=0ns` and `edges=2`.
fn column(params: &str) -> (&str, &str) {
    params.split_once(',').unwrap_or((params, ""))
}

/// Returns all results of a case: a table for each number of workers, metric and second part of `params`, with a line a peer and a column
/// for each first part.
///
/// A cell shows the best run; in parentheses its ratio to the best row that is no lower limit made by hand (`floor/`), and the distance of
/// the median run from it.
pub(crate) fn table(case: &Case, results: &[Result]) -> String {
    let mut text = format!("{}: {}\n", case.name, case.about);
    let kind = |one: &'_ Result| (one.workers, one.row.metric);
    let of_table = |one| (kind(one), column(&one.row.params).1);
    let mut done = distinct(results.iter().map(of_table));
    done.sort_by_key(|&((workers, _), _)| workers);
    for (table, common) in done {
        let (workers, metric) = table;
        let part = results
            .iter()
            .filter(|&one| of_table(one) == (table, common));
        let Metric { name, unit, better } = metric_of(metric);
        let plural = if workers == 1 { "" } else { "s" };
        let comma = if common.is_empty() { "" } else { ", " };
        text += &format!("\n{name}, {workers} worker{plural}{comma}{common} [{unit}]\n");
        text += &part_table(&Vec::from_iter(part), better);
    }
    text
}

/// Returns the items without repetitions, in the order in which they first appear.
fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    items.fold(Vec::new(), |mut found, item| {
        if !found.contains(&item) {
            found.push(item);
        }
        found
    })
}

/// Returns the table of one number of workers and one metric.
fn part_table(part: &[&Result], better: Better) -> String {
    let params = distinct(part.iter().map(|result| &*result.row.params));
    let peers = distinct(part.iter().map(|result| &*result.peer));
    let of = |peer: &str, params: &str| {
        let mut part = part.iter();
        part.find(|r| r.peer == peer && r.row.params == params)
    };
    let row = |peer: &&str| {
        let cells = params.iter().map(|params| match of(peer, params) {
            Some(result) => cell(&result.row, reference(part, params, better)),
            None => "-".to_owned(),
        });
        Vec::from_iter(std::iter::once((*peer).to_owned()).chain(cells))
    };
    let columns = params.iter().map(|params| column(params).0);
    let header = Vec::from_iter(std::iter::once("peer").chain(columns));
    to_figures(&header, peers.iter().map(row))
}

/// Returns the best value, without lower limits made by hand.
fn reference(part: &[&Result], params: &str, better: Better) -> Option<f64> {
    let programs = part.iter().filter(|r| !r.peer.starts_with("floor/"));
    let values = programs.filter(|r| r.row.params == params);
    let values = values.map(|r| r.row.value);
    match better {
        Better::Less => values.min_by(f64::total_cmp),
        Better::More => values.max_by(f64::total_cmp),
    }
}

/// Returns the text of a cell; `reference` is the best value.
fn cell(row: &Row, reference: Option<f64>) -> String {
    let mut notes: Vec<String> = Vec::new();
    // A ratio of costs below what can be measured says nothing.
    let least = match metric_of(row.metric).unit {
        "%" => 0.05,
        _ => 0.0,
    };
    if let Some(reference) = reference.filter(|value| *value > least && row.value > least) {
        notes.push(format!("{:.2}x", row.value / reference));
    }
    if let Some(spread) = row.spread {
        notes.push(format!("{:.0}%", 100.0 * spread));
    }
    if !row.setting.is_empty() {
        notes.push(row.setting.to_owned());
    }
    // At least three significant digits.
    let decimals = match row.value.abs() {
        large if large >= 100.0 => 1,
        medium if medium >= 1.0 => 2,
        tiny if tiny > 0.0 && tiny < 0.001 => 6,
        _ => 4,
    };
    let value = format!("{:.decimals$}", row.value);
    match notes.is_empty() {
        true => value,
        false => format!("{value} ({})", notes.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Vec<Result> {
        let result = |peer: &str, params: &str, value| Result {
            peer: peer.to_owned(),
            workers: 2,
            row: Row {
                params: params.to_owned(),
                metric: "core_ns_per_task",
                value,
                spread: Some(0.04),
                setting: "",
            },
        };
        vec![
            result("tanada/fcfs", "body=1us", 20.0),
            result("tanada/ts", "body=1us", 10.0),
            result("rayon", "body=1us", 8.0),
            result("floor/by-hand", "body=1us", 4.0),
        ]
    }

    #[test]
    fn json_has_these_keys_in_this_order_and_no_other() {
        let case = crate::cases::find("wavefront").expect("it is registered");
        let text = json(case, &results());
        let first = text.lines().next().expect("a line a result");
        assert_eq!(
            first,
            concat!(
                r#"{"case":"wavefront","params":"body=1us","peer":"tanada/fcfs","workers":2,"#,
                r#""metric":"core_ns_per_task","value":20.0,"unit":"ns"}"#
            )
        );
        assert_eq!(text.lines().count(), 4);
    }

    #[test]
    fn ratios_are_to_the_best_whoever_it_is_but_to_no_floor() {
        let case = crate::cases::find("wavefront").expect("it is registered");
        let text = table(case, &results());
        let line = |peer: &str| {
            text.lines()
                .find(|line| line.contains(peer))
                .unwrap_or_else(|| panic!("{peer}:\n{text}"))
                .to_owned()
        };
        assert!(line("tanada/fcfs").contains("20.00 (2.50x, 4%)"), "{text}");
        assert!(line("tanada/ts").contains("10.00 (1.25x, 4%)"), "{text}");
        assert!(line("rayon").contains("8.00 (1.00x, 4%)"), "{text}");
        assert!(line("floor/by-hand").contains("4.00 (0.50x, 4%)"), "{text}");
    }

    #[test]
    fn what_was_printed_is_read_and_tabled_again() {
        let case = crate::cases::find("wavefront").expect("it is registered");
        let mut results = results();
        for (result, edges) in results.iter_mut().zip([2, 3, 2, 3]) {
            result.row.params += &format!(",edges={edges}");
            result.row.spread = None;
        }
        let text = read(&json(case, &results)).expect("the bench's own");
        assert_eq!(text.trim_end(), table(case, &results).trim_end());
        for edges in ["edges=2", "edges=3"] {
            let heading = format!("core_ns_per_task, 2 workers, {edges} [ns]");
            assert_eq!(text.matches(&heading).count(), 1, "{text}");
        }
        let other = json(case, &results).replace("core_ns", "cores");
        assert!(read(&other).is_err() && read("{}").is_err());
    }
}
