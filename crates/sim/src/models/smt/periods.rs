//! The calls of the governor, in bounded memory.

use super::outcome::PeriodRow;

/// The most rows, an even number. A row takes some hundred bytes, and ten times as much as JSON.
const MOST: usize = 1 << 15;

/// The calls of the governor, each in a row of its own as long as there are at most [`MOST`]; from then on two in a row, then four, and so
/// on.
#[derive(Debug)]
pub(super) struct Periods {
    rows: Vec<PeriodRow>,
    /// Calls of a row, but of the last one.
    each: u64,
}

impl Periods {
    pub(super) const fn new() -> Periods {
        Periods {
            rows: Vec::new(),
            each: 1,
        }
    }

    /// Adds a call.
    pub(super) fn push(&mut self, row: PeriodRow) {
        if let Some(last) = self.rows.last_mut().filter(|last| last.calls < self.each) {
            last.add(row);
            return;
        }
        if self.rows.len() == MOST {
            let mut rows = std::mem::take(&mut self.rows).into_iter();
            while let Some(mut first) = rows.next() {
                if let Some(second) = rows.next() {
                    first.add(second);
                }
                self.rows.push(first);
            }
            self.each *= 2;
        }
        self.rows.push(row);
    }

    pub(super) fn into_rows(self) -> Vec<PeriodRow> {
        self.rows
    }
}

impl PeriodRow {
    /// Adds the calls of the next row.
    fn add(&mut self, next: PeriodRow) {
        *self = PeriodRow {
            width: self.width,
            calls: self.calls + next.calls,
            instructions: self.instructions + next.instructions,
            accesses: self.accesses + next.accesses,
            misses: self.misses + next.misses,
            ..next
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_bounded_and_lose_no_call() {
        let calls = 5 * MOST as u64 + 3;
        let mut periods = Periods::new();
        for call in 1..=calls {
            periods.push(PeriodRow {
                cycle: call,
                calls: 1,
                width: call as usize,
                instructions: 10,
                accesses: 3,
                misses: 1,
                waiting: 0,
                next_width: call as usize + 1,
                order: "fifo",
                why: call.to_string(),
            });
        }
        let rows = periods.into_rows();
        assert!(
            rows.len() <= MOST && rows.len() > MOST / 2,
            "{}",
            rows.len()
        );
        let mut before = 0;
        for row in &rows {
            let end = before + row.calls;
            assert!(row.calls == 8 || end == calls, "{row:?}");
            let expected = PeriodRow {
                cycle: end,
                calls: end - before,
                width: before as usize + 1,
                instructions: 10 * row.calls,
                accesses: 3 * row.calls,
                misses: row.calls,
                waiting: 0,
                next_width: end as usize + 1,
                order: "fifo",
                why: end.to_string(),
            };
            assert_eq!(*row, expected);
            before = end;
        }
        assert_eq!(before, calls);
    }
}
