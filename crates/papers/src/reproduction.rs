//! What a reproduction comes to, as JSON and as text.

use crate::page::{self, Figure};
use serde::Serialize;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use tanada_report::{Cell, to_list};

/// One figure of a paper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Item {
    /// What it is: the table, a comma, and the row and column of it.
    pub item: String,
    /// The published figure; `None` if it is misprinted.
    pub published: Option<f64>,
    /// Our figure; `None` if the input is not there.
    pub ours: Option<f64>,
    /// The unit of both.
    pub unit: &'static str,
}

impl Item {
    /// Returns our figure over the published one; `None` without either, or if the published one is 0.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.ours? / self.published.filter(|&published| published != 0.0)?)
    }

    /// Returns `items` as a table of text, without the names of their tables.
    pub fn list<'a>(items: impl IntoIterator<Item = &'a Item>) -> String {
        let header = ["", "published", "ours", "ratio", "unit"];
        to_list(header, items.into_iter().map(|item| read(item.cells())))
    }

    fn cells(&self) -> Vec<String> {
        let number = |value: Option<f64>, absent: &str| match value {
            None => absent.to_owned(),
            Some(value) if self.unit == "misses" || value >= 1e5 => format!("{value:.0}"),
            Some(value) => format!("{value:.2}"),
        };
        let name = self.item.split_once(", ");
        let ratio = self.ratio();
        vec![
            name.map_or(&*self.item, |(_, rest)| rest).to_owned(),
            number(self.published, "misprint"),
            number(self.ours, "-"),
            ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}")),
            self.unit.to_owned(),
        ]
    }
}

/// Returns the cells of a table's line.
pub(crate) fn read(texts: impl IntoIterator<Item = String>) -> Vec<Cell> {
    texts.into_iter().map(Cell::read).collect()
}

/// A bar that a claim sets: the range in which a figure of ours is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// The figure.
    pub what: &'static str,
    /// The published figure, if there is one.
    pub published: Option<f64>,
    /// Our figure; `None` if no input for it is there.
    pub ours: Option<f64>,
    /// The figures that meet the bar.
    pub range: RangeInclusive<f64>,
}

impl Bar {
    /// Returns whether our figure meets the bar; `None` without one.
    pub fn is_met(&self) -> Option<bool> {
        self.ours.map(|ours| self.range.contains(&ours))
    }

    /// Returns what is wrong with a bar that is not met.
    pub fn missed(&self) -> Option<String> {
        let (what, from, to) = (self.what, self.range.start(), self.range.end());
        match (self.ours, self.is_met()) {
            (_, Some(true)) => None,
            (Some(ours), _) => Some(format!(
                "{what}: {ours:.3} is not from {from:.3} to {to:.3}"
            )),
            (None, _) => Some(format!("{what}: no stream of those rows is there")),
        }
    }

    /// The names of [`Bar::cells`].
    pub(crate) const HEADER: [&str; 5] = ["", "published", "ours", "bar", "met"];

    /// Returns one line of the claim's table.
    pub(crate) fn cells(&self) -> [String; 5] {
        let number =
            |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
        let met = match self.is_met() {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "not simulated",
        };
        [
            self.what.to_owned(),
            number(self.published),
            number(self.ours),
            format!("{:.3} to {:.3}", self.range.start(), self.range.end()),
            met.to_owned(),
        ]
    }
}

/// A table as text, under its heading.
#[derive(Clone, Debug)]
pub struct Table {
    /// One line.
    pub heading: &'static str,
    /// The lines of the table.
    pub text: String,
}

/// Published figures and ours.
#[derive(Clone, Debug)]
pub struct Reproduction {
    /// What the text begins with: the paper.
    pub paper: &'static str,
    /// The title of the page.
    pub title: &'static str,
    /// What was simulated: the end of a sentence.
    pub sample: String,
    /// Every figure, in the order of the paper.
    pub rows: Vec<Item>,
    /// The figures that the claim is about, and others of the whole: one JSON object.
    pub summary: String,
    /// What is claimed, in a few words.
    pub claim: &'static str,
    /// The bars of the claim.
    pub bars: Vec<Bar>,
    /// What did not come out, and what a reader has to know.
    pub missed: Vec<String>,
    /// The rows as tables.
    pub tables: Vec<Table>,
    /// The figures of the page.
    pub figures: Vec<Figure>,
}

impl Reproduction {
    /// Returns the rows and the summary as one line of JSON.
    pub fn json(&self) -> String {
        let rows = serde_json::to_string(&self.rows).expect("rows have a JSON form");
        format!("{{\"rows\":{rows},\"summary\":{}}}\n", self.summary)
    }

    /// Returns the tables, the claim, and the points that did not come out, as text for people.
    pub fn text(&self) -> String {
        let (tables, bars) = (self.tables(), self.bars.iter().map(|bar| read(bar.cells())));
        let mut text = format!(
            "{}, published and ours: {}\n\n{tables}\nThe claim: {}\n{}\nWhat did not come out, and what to know\n",
            self.paper,
            self.sample,
            self.claim,
            to_list(Bar::HEADER, bars),
        );
        for line in &self.missed {
            let _ = writeln!(text, "- {line}");
        }
        text
    }

    /// Returns a page that loads nothing from elsewhere; `command` is the command line that made it.
    pub fn page(&self, command: &str) -> String {
        page::page(self, command)
    }

    pub(crate) fn tables(&self) -> String {
        let each = self.tables.iter();
        let each = each.map(|table| format!("{}\n{}", table.heading, table.text));
        each.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(ours: Option<f64>) -> Bar {
        Bar {
            what: "gain",
            published: Some(10.0),
            ours,
            range: 8.0..=18.0,
        }
    }

    #[test]
    fn a_bar_is_met_missed_or_not_simulated() {
        for (ours, met, missed) in [
            (Some(8.0), "yes", None),
            (Some(18.5), "NO", Some("18.500 is not from 8.000 to 18.000")),
            (None, "not simulated", Some("no stream")),
        ] {
            let bar = bar(ours);
            assert_eq!(bar.cells()[4], met);
            let said = bar.missed().unwrap_or_default();
            assert_eq!(said.is_empty(), missed.is_none());
            assert!(said.contains(missed.unwrap_or_default()), "{said}");
        }
    }

    #[test]
    fn figures_that_are_not_there_have_no_ratio() {
        let item = |published, ours| Item {
            item: "table 2, wvga: speed".to_owned(),
            published,
            ours,
            unit: "frames/s",
        };
        assert_eq!(item(Some(4.0), Some(1.0)).ratio(), Some(0.25));
        for (published, ours) in [(None, Some(1.0)), (Some(1.0), None), (Some(0.0), Some(1.0))] {
            assert_eq!(item(published, ours).ratio(), None);
        }
        let cells = item(None, None).cells();
        assert_eq!(cells, ["wvga: speed", "misprint", "-", "-", "frames/s"]);
    }
}
