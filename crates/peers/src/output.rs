//! Results for people and for programs.

use crate::cases::{Better, Case, Metric, metric_of};
use crate::samples::Row;
use serde::Serialize;
use tanada_report::to_figures;

/// A row with its peer.
#[derive(Clone, Debug)]
pub(crate) struct Result {
    pub(crate) peer: String,
    pub(crate) workers: u16,
    pub(crate) row: Row,
}

/// A result as other programs read it: one object a line.
#[derive(Serialize)]
struct Line<'a> {
    case: &'a str,
    params: &'a str,
    peer: &'a str,
    workers: u16,
    metric: &'a str,
    value: f64,
    unit: &'a str,
}

/// Returns all results of a case, one JSON object a line.
pub(crate) fn json(case: &Case, results: &[Result]) -> String {
    let line = |result: &Result| {
        let row = &result.row;
        let line = Line {
            case: case.name,
            params: &row.params,
            peer: &result.peer,
            workers: result.workers,
            metric: row.metric,
            value: row.value,
            unit: metric_of(row.metric).unit,
        };
        serde_json::to_string(&line).expect("plain data has a JSON form") + "\n"
    };
    results.iter().map(line).collect()
}

/// Returns all results of a case: a table for each number of workers and metric, with a line a peer and a column for each of `params`.
///
/// A cell shows the best run; in parentheses its ratio to the best of Tanada's policies, and the distance of the median run from it.
pub(crate) fn table(case: &Case, results: &[Result]) -> String {
    let mut text = format!("{}: {}\n", case.name, case.about);
    let mut done = distinct(results.iter().map(|one| (one.workers, one.row.metric)));
    done.sort_by_key(|&(workers, _)| workers);
    for (workers, metric) in done {
        let part = results
            .iter()
            .filter(|r| r.workers == workers && r.row.metric == metric);
        let Metric { name, unit, better } = metric_of(metric);
        let plural = if workers == 1 { "" } else { "s" };
        text += &format!("\n{name}, {workers} worker{plural} [{unit}]\n");
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
    let header = Vec::from_iter(std::iter::once("peer").chain(params.iter().copied()));
    to_figures(&header, peers.iter().map(row))
}

/// Returns the best value of Tanada's policies.
fn reference(part: &[&Result], params: &str, better: Better) -> Option<f64> {
    let ours = part.iter().filter(|r| r.peer.starts_with("tanada/"));
    let ours = ours.filter(|r| r.row.params == params).map(|r| r.row.value);
    match better {
        Better::Less => ours.min_by(f64::total_cmp),
        Better::More => ours.max_by(f64::total_cmp),
    }
}

/// Returns the text of a cell; `reference` is the best value of Tanada's policies.
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
            result("rayon", "body=1us", 25.0),
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
        assert_eq!(text.lines().count(), 3);
    }

    #[test]
    fn ratios_are_to_the_best_of_ours() {
        let case = crate::cases::find("wavefront").expect("it is registered");
        let text = table(case, &results());
        let line = |peer: &str| {
            text.lines()
                .find(|line| line.contains(peer))
                .unwrap_or_else(|| panic!("{peer}:\n{text}"))
                .to_owned()
        };
        assert!(line("tanada/fcfs").contains("20.00 (2.00x, 4%)"), "{text}");
        assert!(line("tanada/ts").contains("10.00 (1.00x, 4%)"), "{text}");
        assert!(line("rayon").contains("25.00 (2.50x, 4%)"), "{text}");
    }
}
