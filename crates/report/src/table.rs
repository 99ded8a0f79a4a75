//! The comparison as a table for people at a terminal.

use comfy_table::{CellAlignment, ContentArrangement, Table, TableStyle, presets};

use crate::columns::{Column, columns, shared_settings, tables};
use crate::headline::{comparable_sets, headlines, speed};
use crate::schema::{Report, RunResult, Verdict};

/// The columns that follow verdicts; the page has all.
const BRIEF: [&str; 7] = [
    "policy",
    "groups",
    "best",
    "cycles",
    "x fcfs",
    "l2 misses",
    "ns beside the loop",
];

/// Columns of verdicts where there is no terminal, and the most where there is one.
const VERDICT_COLUMNS: [usize; 2] = [100, 140];

/// Returns the comparison as text: the settings that all runs share, the table, and the result in a sentence. A report with verdicts begins
/// with them, without their reasons; a few columns of the runs follow.
///
/// On a terminal the table has lines, and is split if it is too wide. Elsewhere (a pipe, a file) it is plain columns that other programs
/// can cut. A value that no run measured has no column.
pub fn to_table(report: &Report) -> String {
    render(report, terminal_width().map(usize::from))
}

/// Returns the report as Markdown: heading, command, machine, verdicts with their reasons, and the whole table of each set of comparable
/// runs, with its headline if the report has no verdicts.
pub fn to_markdown(report: &Report) -> String {
    let mut out = format!("# {}\n", report.title);
    for (what, text) in [("Command", &report.command), ("Machine", &report.machine)] {
        if !text.is_empty() {
            out.push_str(&format!("\n{what}:\n\n```text\n{text}\n```\n"));
        }
    }
    for Verdict {
        claim,
        text,
        reasons,
        ..
    } in &report.verdicts
    {
        out.push_str(&format!("\n**{claim}**: {text}\n\n"));
        reasons
            .iter()
            .for_each(|reason| out.push_str(&format!("- {reason}\n")));
    }
    for runs in comparable_sets(report) {
        let columns = columns(&runs);
        out.push_str(&format!("\n## {}\n\n", shared_settings(&runs)));
        let columns: Vec<&Column> = columns.iter().collect();
        out.push_str(&table(&columns, runs.len(), presets::ASCII_MARKDOWN));
    }
    if report.verdicts.is_empty() {
        for headline in headlines(report) {
            out.push_str(&format!("\n{}\n", headline.text.replace('\n', "\n\n")));
        }
    }
    out
}

/// Returns rows under a header, in the style of [`to_table`]. On a terminal, words wrap if a row is too wide.
pub fn to_list(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let width = terminal_width();
    let mut list = empty(style(width.is_some()));
    if let Some(width) = width {
        list.set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
    }
    list.set_header(header.iter().copied());
    list.add_rows(rows);
    text(&list)
}

/// Returns rows of figures under a header, as plain columns on a terminal, too: the first column, which names the rows, to the left, and
/// all others to the right.
pub fn to_figures(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut figures = empty(style(false));
    figures.set_header(header.iter().copied());
    figures.add_rows(rows);
    for column in figures.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    text(&figures)
}

/// Returns the columns of the terminal behind standard output; `None` if it is no terminal.
fn terminal_width() -> Option<u16> {
    use std::io::IsTerminal as _;
    let width = || Table::new().width().filter(|&width| width > 0);
    std::io::stdout()
        .is_terminal()
        .then(|| width().unwrap_or(100))
}

/// Returns the common style, with or without lines.
fn style(lines: bool) -> TableStyle {
    match lines {
        true => presets::UTF8_FULL_CONDENSED,
        false => presets::NOTHING,
    }
}

fn empty(style: TableStyle) -> Table {
    let mut table = Table::new();
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.load_style(style);
    table
}

fn text(table: &Table) -> String {
    format!("{}\n", table.trim_fmt())
}

/// Returns a report as text for a terminal of `width` columns; `None`: no terminal.
fn render(report: &Report, width: Option<usize>) -> String {
    if !report.verdicts.is_empty() {
        return verdicts(report, width);
    }
    let mut out = String::new();
    for (index, runs) in tables(report).iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let settings = shared_settings(runs);
        if !settings.is_empty() {
            out.push_str(&settings);
            out.push('\n');
        }
        for part in parts(&columns(runs), width) {
            out.push_str(&table(&part, runs.len(), style(width.is_some())));
        }
    }
    for headline in headlines(report) {
        out.push_str(&headline.text);
        out.push('\n');
    }
    out
}

/// Renders the verdicts, then each set of timed runs with its settings above it.
fn verdicts(report: &Report, width: Option<usize>) -> String {
    let [plain, most] = VERDICT_COLUMNS;
    let mut sentences = empty(style(false));
    sentences
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width.map_or(plain, |width| width.min(most)) as u16); // at most `most`
    sentences.add_rows(report.verdicts.iter().map(|verdict| {
        let Verdict { claim, text, .. } = verdict;
        [claim, text]
    }));
    let mut out = text(&sentences);
    for runs in comparable_sets(report) {
        let timed: Vec<&RunResult> = runs
            .into_iter()
            .filter(|run| speed(run).is_some())
            .collect();
        if timed.is_empty() {
            continue;
        }
        out.push_str(&format!("\n{}\n", shared_settings(&timed)));
        let columns = columns(&timed);
        let brief = columns.iter();
        let brief = brief.filter(|column| BRIEF.contains(&column.heading.as_str()));
        out.push_str(&table(
            &brief.collect::<Vec<_>>(),
            timed.len(),
            style(false),
        ));
    }
    out
}

/// Returns the columns as sets that are narrow enough, each with the first column, which names the rows.
fn parts(columns: &[Column], width: Option<usize>) -> Vec<Vec<&Column>> {
    let (Some(first), Some(width)) = (columns.first(), width) else {
        return vec![columns.iter().collect()];
    };
    // Each column has a line and two spaces; one more line ends the table.
    let drawn = |column: &Column| column.width() + 3;
    let mut parts = Vec::new();
    let mut part = vec![first];
    let mut taken = drawn(first) + 1;
    for column in &columns[1..] {
        if part.len() > 1 && taken + drawn(column) > width {
            parts.push(std::mem::replace(&mut part, vec![first]));
            taken = drawn(first) + 1;
        }
        taken += drawn(column);
        part.push(column);
    }
    parts.push(part);
    parts
}

fn table(columns: &[&Column], rows: usize, style: TableStyle) -> String {
    let mut table = empty(style);
    table.set_header(columns.iter().map(|column| column.heading.as_str()));
    for row in 0..rows {
        table.add_row(columns.iter().map(|column| column.text(row)));
    }
    for (index, column) in columns.iter().enumerate() {
        if column.is_numeric()
            && let Some(column) = table.column_mut(index)
        {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    text(&table)
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
        let text = render(&report(), None);
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
    fn verdicts_come_first_and_their_reasons_stay_on_the_page() {
        let mut report = report();
        report.verdicts.push(Verdict {
            claim: "right".to_owned(),
            text: "All frames are equal under every policy, ".repeat(6),
            reasons: vec!["One by one".to_owned()],
            alarm: false,
        });
        for (width, most) in [(None, 100), (Some(60), 60), (Some(400), 140)] {
            let text = render(&report, width);
            assert!(text.trim_start().starts_with("right "), "{text}");
            assert!(
                text.contains("1.250") && !text.contains("One by one"),
                "{text}"
            );
            assert!(!text.contains("identical"), "{text}");
            assert!(
                text.lines().all(|line| line.chars().count() <= most),
                "{text}"
            );
        }
    }

    #[test]
    fn markdown_has_the_command_the_verdicts_with_reasons_and_all_columns() {
        let mut report = report();
        report.command = "tanada compare".to_owned();
        report.verdicts.push(Verdict {
            claim: "right".to_owned(),
            text: "All frames are equal.".to_owned(),
            reasons: vec!["One by one.".to_owned()],
            alarm: false,
        });
        let text = to_markdown(&report);
        for part in [
            "# t\n",
            "```text\ntanada compare\n```",
            "**right**: All frames are equal.\n\n- One by one.\n",
            "| identical |",
            "|---",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn table_on_a_terminal_has_lines() {
        assert!(render(&report(), Some(100)).contains('│'));
    }

    #[test]
    fn a_narrow_terminal_gets_several_tables_with_whole_words() {
        let wide = render(&report(), Some(100));
        assert_eq!(wide.matches("│ policy").count(), 1, "{wide}");
        let narrow = render(&report(), Some(24));
        let tables = narrow.lines().filter(|line| line.starts_with('│'));
        assert!(
            tables.clone().all(|line| line.chars().count() <= 24),
            "{narrow}"
        );
        assert!(
            tables.filter(|line| line.contains("policy")).count() > 1,
            "{narrow}"
        );
        for word in ["125.0", "1.250", "identical"] {
            assert!(narrow.contains(word), "{narrow}");
        }
    }
}
