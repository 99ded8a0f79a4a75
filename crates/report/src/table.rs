//! The comparison as a table for people at a terminal.

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, Table, TableStyle, Width, presets,
};

use crate::columns::{Cell, Column, columns, shared_settings, tables};
use crate::headline::{comparable_sets, headlines, speed};
use crate::profile;
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
    render(report, terminal_width())
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
        out.push_str(&table(&columns, runs.len(), None, presets::ASCII_MARKDOWN));
    }
    if report.verdicts.is_empty() {
        for headline in headlines(report) {
            out.push_str(&format!("\n{}\n", headline.text.replace('\n', "\n\n")));
        }
    }
    for sentence in profile::sentences(report) {
        out.push_str(&format!("\n{sentence}\n"));
    }
    out
}

/// Returns rows under a header, in the style of [`to_table`]. On a terminal, words wrap if a row is too wide, and then columns form
/// several tables.
pub fn to_list<S: Into<String>>(
    header: impl IntoIterator<Item = S>,
    rows: impl IntoIterator<Item = Vec<Cell>>,
) -> String {
    list(header, rows, terminal_width())
}

fn list<S: Into<String>>(
    header: impl IntoIterator<Item = S>,
    rows: impl IntoIterator<Item = Vec<Cell>>,
    width: Option<usize>,
) -> String {
    let column = |heading: S| Column {
        heading: heading.into(),
        meaning: "",
        cells: Vec::new(),
    };
    let mut columns: Vec<Column> = header.into_iter().map(column).collect();
    let mut number = 0;
    for row in rows {
        for (column, cell) in columns.iter_mut().zip(row) {
            column.cells.push(Some(cell));
        }
        number += 1;
    }
    all_parts(&columns, number, width)
}

/// Returns rows of figures under a header, as plain columns on a terminal, too: the first column, which names the rows, to the left, and
/// all others to the right.
pub fn to_figures(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let figure = |text| Cell::number(0.0, text);
    let cells = |row: Vec<String>| {
        let mut row = row.into_iter();
        let name = row.next().map(Cell::from);
        name.into_iter().chain(row.map(figure)).collect()
    };
    list(header.iter().copied(), rows.into_iter().map(cells), None)
}

/// Returns the columns of the terminal behind standard output (100 if it does not say); `None` if it is no terminal.
pub fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    Some(match size.ws_col {
        0 => 100,
        columns => usize::from(columns),
    })
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

/// Returns a report as text for a terminal of `width` columns; `None`: no terminal. Work and span stand first.
fn render(report: &Report, width: Option<usize>) -> String {
    let mut sentences = profile::sentences(report);
    if !sentences.is_empty() {
        sentences.push(String::new());
    }
    sentences.join("\n") + &render_runs(report, width)
}

fn render_runs(report: &Report, width: Option<usize>) -> String {
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
        out.push_str(&all_parts(&columns(runs), runs.len(), width));
    }
    for headline in headlines(report) {
        out.push_str(&headline.text);
        out.push('\n');
    }
    out
}

/// Renders each set of timed runs with its settings above it, then the verdicts: what a reader looks for stands above the prompt.
fn verdicts(report: &Report, width: Option<usize>) -> String {
    let mut out = String::new();
    for runs in comparable_sets(report) {
        let timed: Vec<&RunResult> = runs
            .into_iter()
            .filter(|run| speed(run).is_some())
            .collect();
        if timed.is_empty() {
            continue;
        }
        let columns = columns(&timed);
        let brief = columns.iter();
        let brief = brief.filter(|column| BRIEF.contains(&column.heading.as_str()));
        let brief = table(&brief.collect::<Vec<_>>(), timed.len(), None, style(false));
        out.push_str(&format!("{}\n{brief}\n", shared_settings(&timed)));
    }
    let [plain, most] = VERDICT_COLUMNS;
    let mut sentences = empty(style(false));
    sentences
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width.map_or(plain, |width| width.min(most)) as u16); // at most `most`
    sentences.add_rows(report.verdicts.iter().map(|verdict| {
        let Verdict { claim, text, .. } = verdict;
        [claim, text]
    }));
    out + &text(&sentences)
}

fn all_parts(columns: &[Column], rows: usize, width: Option<usize>) -> String {
    let parts = parts(columns, width).into_iter();
    let lines = style(width.is_some());
    parts.map(|part| table(&part, rows, width, lines)).collect()
}

/// Returns the characters of a row whose columns have these widths: each has a line and two spaces, and one more line ends the row.
fn drawn(widths: impl Iterator<Item = usize>) -> usize {
    widths.map(|width| width + 3).sum::<usize>() + 1
}

/// Returns the columns as sets that are narrow enough, each with the first column, which names the rows.
fn parts(columns: &[Column], width: Option<usize>) -> Vec<Vec<&Column>> {
    let (Some(first), Some(width)) = (columns.first(), width) else {
        return vec![columns.iter().collect()];
    };
    let mut parts = Vec::new();
    let mut part = vec![first];
    for column in &columns[1..] {
        let with_it = part.iter().copied().chain([column]);
        if part.len() > 1 && drawn(with_it.map(Column::least)) > width {
            parts.push(std::mem::replace(&mut part, vec![first]));
        }
        part.push(column);
    }
    parts.push(part);
    parts
}

fn table(columns: &[&Column], rows: usize, width: Option<usize>, style: TableStyle) -> String {
    let mut table = empty(style);
    table.set_header(columns.iter().map(|column| column.heading.as_str()));
    for row in 0..rows {
        table.add_row(columns.iter().map(|column| column.text(row)));
    }
    let natural = drawn(columns.iter().map(|column| column.width()));
    if let Some(width) = width.filter(|&width| width < natural) {
        let width = u16::try_from(width).unwrap_or(u16::MAX);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(width);
    }
    // Words are cut only if even a table of two columns is too wide.
    let whole =
        width.is_none_or(|width| drawn(columns.iter().map(|column| column.least())) <= width);
    for (from, column) in columns.iter().zip(table.column_iter_mut()) {
        if from.is_numeric() {
            column.set_cell_alignment(CellAlignment::Right);
        }
        if !whole && !from.is_numeric() {
            continue;
        }
        let least = u16::try_from(from.least() + 2).unwrap_or(u16::MAX);
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
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
    fn verdicts_come_last_and_their_reasons_stay_on_the_page() {
        let mut report = report();
        report.verdicts.push(Verdict {
            claim: "right".to_owned(),
            text: "All frames are equal under every policy, ".repeat(6),
            reasons: vec!["One by one".to_owned()],
            alarm: false,
        });
        for (width, most) in [(None, 100), (Some(60), 60), (Some(400), 140)] {
            let text = render(&report, width);
            let last = text.rsplit("\n\n").next().expect("a paragraph");
            assert!(last.trim_start().starts_with("right "), "{text}");
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

    #[test]
    fn a_word_that_is_too_long_is_cut_so_that_the_number_is_seen() {
        let row = vec![
            "inter-prediction-of-the-rest".into(),
            Cell::count(1_234_567),
        ];
        let text = list(["tasks named", "number"], [row], Some(32));
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(32) && text.contains("1,234,567 │"), "{text}");
    }

    #[test]
    fn lists_wrap_words_and_never_numbers_at_80_and_40_columns() {
        let rows = || {
            [1_234_567_u64, 8].map(|count| {
                let words = "workers stay in their S group, and take the lowest T group first";
                vec![
                    "ts-sticky".into(),
                    words.into(),
                    Cell::count(count),
                    "yes".into(),
                ]
            })
        };
        let header = ["policy", "takes next", "tasks", "exact"];
        let plain = list(header, rows(), None);
        assert!(
            plain.contains("1,234,567") && !plain.contains('│'),
            "{plain}"
        );
        for (width, tables) in [(200, 1), (80, 1), (40, 2)] {
            let text = list(header, rows(), Some(width));
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width), "{width}:\n{text}");
            assert_eq!(text.matches("│ policy").count(), tables, "{width}:\n{text}");
            // Numbers end in one column, and no word of the text is cut.
            for word in [
                "┆ 1,234,567 ┆",
                "┆         8 ┆",
                "workers",
                "lowest",
                "group,",
            ] {
                assert!(text.contains(word), "{width}: {word}\n{text}");
            }
        }
    }
}
