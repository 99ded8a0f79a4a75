//! The comparison as a table for people at a terminal.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::columns::{columns, shared_settings};
use crate::headline::headlines;
use crate::schema::Report;

/// The comparison as text: what all runs share, the table, and what it comes down to in a sentence.
///
/// On a terminal the table has lines and adapts to the width; elsewhere (a pipe, a file) it is plain columns that
/// other programs can cut. What no run measured has no column.
pub fn to_table(report: &Report) -> String {
    use std::io::IsTerminal as _;
    render(report, std::io::stdout().is_terminal())
}

fn render(report: &Report, terminal: bool) -> String {
    let mut table = Table::new();
    if terminal {
        table
            .load_style(presets::UTF8_FULL_CONDENSED)
            .set_content_arrangement(ContentArrangement::Dynamic);
    } else {
        table
            .load_style(presets::NOTHING)
            .force_no_tty()
            .set_content_arrangement(ContentArrangement::Disabled);
    }
    let columns = columns(report);
    table.set_header(columns.iter().map(|column| column.heading.as_str()));
    for row in 0..report.runs.len() {
        table.add_row(columns.iter().map(|column| {
            column.cells[row]
                .as_ref()
                .map_or("-", |cell| cell.text.as_str())
        }));
    }
    for (index, column) in columns.iter().enumerate() {
        if column.is_numeric()
            && let Some(column) = table.column_mut(index)
        {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let settings = shared_settings(report);
    let mut out = String::new();
    if !settings.is_empty() {
        out.push_str(&settings);
        out.push('\n');
    }
    out.push_str(&table.trim_fmt());
    out.push('\n');
    for headline in headlines(report) {
        out.push_str(&headline.text);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::RunResult;

    fn report() -> Report {
        let mut report = Report::new("t");
        for (policy, fps) in [("fcfs", 100.0), ("ts", 125.0)] {
            let mut run = RunResult::new("h264", "demo.264", policy, 2);
            run.fps = Some(fps);
            run.ratio_to_fcfs = Some(fps / 100.0);
            run.identical = Some(true);
            report.runs.push(run);
        }
        report
    }

    #[test]
    fn plain_table_has_no_lines_and_no_empty_columns() {
        let text = render(&report(), false);
        assert!(
            text.contains("125.0") && text.contains("1.250") && text.contains("2 workers"),
            "{text}"
        );
        assert!(
            !text.contains('│') && !text.contains("steals") && !text.contains('\u{1b}'),
            "{text}"
        );
    }

    #[test]
    fn table_on_a_terminal_has_lines() {
        assert!(render(&report(), true).contains('│'));
    }
}
