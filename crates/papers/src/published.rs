//! Published tables, as CSV files that are part of the program. A table that cannot be read is a fault of the program: reading it panics.

use std::str::FromStr;

/// Returns the lines of `table` behind its header.
pub(crate) fn lines(table: &'static str) -> impl Iterator<Item = Line> {
    let mut lines = table.lines().filter(|line| !line.is_empty());
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    lines.map(move |line| Line {
        cells: header.iter().copied().zip(line.split(',')).collect(),
    })
}

/// A line: the names of its columns, and their texts.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    cells: Vec<(&'static str, &'static str)>,
}

impl Line {
    /// Returns the text in `column`.
    pub(crate) fn text(&self, column: &str) -> &'static str {
        let mut cells = self.cells.iter();
        let cell = cells.find(|(name, _)| *name == column);
        cell.unwrap_or_else(|| panic!("the table has no {column}"))
            .1
    }

    /// Returns the number in `column`.
    pub(crate) fn number<N: FromStr>(&self, column: &str) -> N {
        let text = self.text(column);
        let number = text.parse().ok();
        number.unwrap_or_else(|| panic!("{column}: {text} is no such number"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_found_by_the_names_of_their_columns() {
        let read: Vec<Line> = lines("policy,cores,fps\nfcfs,4,22.10\n\nts,6,30\n").collect();
        assert_eq!(read.len(), 2);
        assert_eq!(
            (read[0].text("policy"), read[0].number("fps")),
            ("fcfs", 22.1)
        );
        assert_eq!(read[1].number::<u16>("cores"), 6);
        assert_eq!(lines("a,b\n").count(), 0);
    }
}
