//! Whether waiting threads are taken as they joined the queue, or by creation number; found by comparing parts of the program that do the
//! same work.

use super::widths::Chosen;
use crate::Why;

/// What is known of parts that do the same work.
#[derive(Clone, Debug, Default)]
struct Kind {
    work: f64,
    /// Work per time in the queue's order, and by number; 0 if unknown.
    rates: [f64; 2],
    /// Work done at each mark, in the queue's order.
    marks: Vec<f64>,
    /// What followed the last time.
    next: Option<usize>,
    /// The width in use when it ended.
    chosen: Option<Chosen>,
}

impl Kind {
    /// Returns how many times as fast the order by number is, if both are known.
    fn ratio(&self) -> Option<f64> {
        let [queue, number] = self.rates;
        (queue > 0.0 && number > 0.0).then(|| number / queue)
    }
}

/// The part that the program is in.
#[derive(Clone, Debug, Default)]
struct Part {
    work: f64,
    time: f64,
    /// Work done at each mark.
    marks: Vec<f64>,
    /// Whether both orders were used in it.
    mixed: bool,
}

/// The order in use, and what parts have shown.
#[derive(Clone, Debug)]
pub(super) struct Orders {
    /// Length of a window.
    window: f64,
    kinds: Vec<Kind>,
    /// What the last part was, and what this one is expected to be.
    last: Option<usize>,
    expected: Option<usize>,
    /// `None` before the first barrier.
    part: Option<Part>,
    by_number: bool,
    /// Time that the order by number has saved, less what it has cost.
    saved: f64,
}

/// Barriers that open within so many windows begin one part together.
const LEAST: f64 = 32.0;

/// Windows from one mark to the next.
const MARK: f64 = 32.0;

/// The most marks of a part that are remembered.
const MARKS: usize = 1 << 16;

/// By which part the work of two parts differs that count as the same.
const SAME: f64 = 0.03;

/// The most kinds of parts that are remembered; what comes then counts as the nearest of them.
const KINDS: usize = 64;

/// From this mark on a part by number is given up if it has done less than this part of what the queue's order had done then; before that
/// mark only if it is far behind.
const EARLIEST: usize = 2;
const BEHIND: f64 = 0.98;
const FAR_BEHIND: f64 = 0.8;

/// A part by number is also given up if it has this many times as many marks as in the queue's order: what is left of it may be work of a
/// thread that does not get its turn.
const LATE: usize = 4;

/// Windows that the order by number may have cost, on balance, before no other kind of part is tried with it.
const COST: f64 = 8.0;

impl Orders {
    pub(super) fn new(window: u64) -> Orders {
        Orders {
            window: window as f64,
            kinds: Vec::new(),
            last: None,
            expected: None,
            part: None,
            by_number: false,
            saved: 0.0,
        }
    }

    /// Returns the width with which the part that begins now ended the last time. `None` if it is not known or no part begins.
    pub(super) fn known_width(&self) -> Option<Chosen> {
        let begins = self.part.as_ref().is_some_and(|part| part.time == 0.0);
        self.kinds[self.expected.filter(|_| begins)?].chosen
    }

    /// Returns whether those with the lowest numbers run.
    pub(super) fn by_number(&self) -> bool {
        self.by_number
    }

    /// Takes a window into account. Returns what was decided, if anything was.
    pub(super) fn window(&mut self, work: f64, time: f64) -> Option<Why> {
        let length = MARK * self.window;
        let part = self.part.as_mut()?;
        part.work += work;
        part.time += time;
        let marks = (part.time / length) as usize;
        let another = marks > part.marks.len();
        part.marks.resize(marks.min(MARKS), part.work);
        if !self.by_number || part.mixed {
            return None;
        }
        let kind = &mut self.kinds[self.expected?];
        if part.work > kind.work * (1.0 + SAME) {
            // It is another one. The threads with the highest numbers might wait for ever.
            part.mixed = true;
            self.by_number = false;
            return Some(Why {
                what: "not the expected part, in the queue's order from now on",
                figures: vec![("times its work", part.work / kind.work.max(1.0))],
            });
        }
        if !another {
            return None;
        }
        // Behind the last mark of the queue's order all was done.
        let before = kind.marks.get(part.marks.len() - 1).copied();
        let mut ratio = part.work / before.unwrap_or(kind.work).max(1.0);
        let late = part.marks.len() > LATE * kind.marks.len().max(1);
        if late {
            ratio = part.work / part.time / kind.rates[0].max(f64::MIN_POSITIVE);
        }
        let least = if marks < EARLIEST { FAR_BEHIND } else { BEHIND };
        if ratio >= least && !late {
            return None;
        }
        kind.rates[1] = kind.rates[0] * ratio;
        self.saved -= (1.0 - ratio) * part.time;
        part.mixed = true;
        self.by_number = false;
        Some(Why {
            what: "order by number given up",
            figures: vec![("times the work of the queue's order", ratio)],
        })
    }

    /// A barrier opened, for which more threads wait than there are hardware threads; `chosen` is the width until now. Returns what was
    /// decided, if anything was.
    pub(super) fn barrier(&mut self, chosen: Chosen) -> Option<Why> {
        let least = LEAST * self.window;
        if self.part.as_ref().is_some_and(|part| part.time < least) {
            return None;
        }
        self.expected = None;
        if let Some(part) = self.part.take() {
            let kind = self.kind_of(part.work);
            if let Some(last) = self.last.replace(kind) {
                self.kinds[last].next = Some(kind);
            }
            let one = &mut self.kinds[kind];
            one.chosen = Some(chosen);
            self.expected = one.next;
            if !part.mixed {
                let rate = part.work / part.time.max(1.0);
                if self.by_number && one.rates[0] > 0.0 {
                    self.saved += part.work / one.rates[0] - part.time;
                }
                let known = &mut one.rates[usize::from(self.by_number)];
                let before = if *known > 0.0 { *known } else { rate };
                *known = (before + rate) / 2.0;
                if !self.by_number {
                    one.marks = part.marks;
                }
            }
        }
        self.part = Some(Part::default());
        let before = self.by_number;
        self.by_number = self.choose();
        let rates = self
            .expected
            .map_or([0.0; 2], |kind| self.kinds[kind].rates);
        (before || self.by_number).then(|| Why {
            what: match self.by_number {
                true => "another part of the program, lowest numbers first",
                false => "another part of the program, in the queue's order",
            },
            figures: vec![
                ("its work per time in the queue's order", rates[0]),
                ("by number", rates[1]),
            ],
        })
    }

    /// Returns the number of kinds, and of the most marks of one of them.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> (usize, usize) {
        let marks = self.kinds.iter().map(|kind| kind.marks.len());
        (self.kinds.len(), marks.max().unwrap_or(0))
    }

    /// Returns the kind of a part with this much work.
    fn kind_of(&mut self, work: f64) -> usize {
        let apart = |kind: &Kind| (kind.work - work).abs() / work.max(1.0);
        let kinds = self.kinds.iter().enumerate();
        let nearest = kinds.min_by(|one, other| apart(one.1).total_cmp(&apart(other.1)));
        match nearest {
            Some((at, kind)) if apart(kind) < SAME || self.kinds.len() == KINDS => at,
            _ => {
                let kind = Kind {
                    work,
                    ..Kind::default()
                };
                self.kinds.push(kind);
                self.kinds.len() - 1
            }
        }
    }

    /// Returns whether the part that begins is run by number.
    fn choose(&self) -> bool {
        let Some(kind) = self.expected.map(|kind| &self.kinds[kind]) else {
            return false;
        };
        match kind.ratio() {
            Some(ratio) => ratio > 1.0,
            // It has not been tried yet.
            None => kind.rates[0] > 0.0 && self.saved >= -COST * self.window,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Chosen = Chosen {
        width: 8,
        ratio: 1.0,
    };

    /// Runs a part of `work`, with so much of it done in each window in the queue's order and by number, and opens the barrier behind it.
    /// Returns whether it began by number, how many windows it took, and what was said.
    fn part(orders: &mut Orders, work: f64, queue: f64, number: f64) -> (bool, u32, Vec<Why>) {
        let began = orders.by_number();
        let (mut left, mut windows, mut said) = (work, 0, Vec::new());
        while left > 0.0 {
            let done = if orders.by_number() { number } else { queue };
            said.extend(orders.window(done.min(left), 10.0));
            left -= done;
            windows += 1;
        }
        said.extend(orders.barrier(ALL));
        (began, windows, said)
    }

    #[test]
    fn the_order_by_number_is_tried_once_the_same_work_comes_again_and_stays_where_it_is_better() {
        let mut orders = Orders::new(10);
        orders.barrier(ALL);
        let mut began = [Vec::new(), Vec::new()];
        for _ in 0..5 {
            began[0].push(part(&mut orders, 100_000.0, 100.0, 110.0).0);
            began[1].push(part(&mut orders, 50_000.0, 100.0, 101.0).0);
        }
        // What follows a part is known from its third time on.
        assert_eq!(began[0], [false, false, true, true, true]);
        assert_eq!(began[1], [false, true, true, true, true]);
    }

    #[test]
    fn a_part_that_comes_again_begins_with_its_width() {
        let narrow = Chosen {
            width: 4,
            ratio: 2.0,
        };
        let mut orders = Orders::new(10);
        orders.barrier(ALL);
        let mut known = Vec::new();
        for part in 0..6 {
            let (work, chosen) = [(100_000.0, ALL), (50_000.0, narrow)][part % 2];
            orders.window(work, 1000.0);
            assert_eq!(orders.known_width(), None, "in the middle of a part");
            orders.barrier(chosen);
            known.push(orders.known_width().map(|chosen| chosen.width));
        }
        // What follows a part is known from its second time on.
        assert_eq!(known, [None, None, Some(4), Some(8), Some(4), Some(8)]);
    }

    #[test]
    fn a_part_by_number_that_falls_behind_is_given_up_early() {
        let mut orders = Orders::new(10);
        orders.barrier(ALL);
        let mut trials = 0;
        for _ in 0..20 {
            let (by_number, windows, said) = part(&mut orders, 100_000.0, 100.0, 90.0);
            if by_number {
                trials += 1;
                assert!(said[0].to_string().contains("given up"), "{said:?}");
            }
            // Two marks at nine tenths cost a tenth of 64 windows.
            assert!(windows <= 1007, "{windows}");
            assert!(!by_number || windows > 1000);
        }
        assert_eq!(trials, 1);
    }

    #[test]
    fn another_part_is_tried_by_number_unless_the_first_one_has_cost_much() {
        let tried = |slow: f64| {
            let mut orders = Orders::new(10);
            orders.barrier(ALL);
            let mut began = Vec::new();
            for _ in 0..4 {
                began.push(part(&mut orders, 100_000.0, 100.0, 110.0).0);
                part(&mut orders, 50_000.0, 100.0, slow);
            }
            began
        };
        // Two marks at 0.95 cost 3 windows, at 0.8 they cost 13.
        assert_eq!(tried(95.0), [false, false, true, true]);
        assert_eq!(tried(80.0), [false; 4]);
    }

    #[test]
    fn a_part_by_number_in_which_nothing_is_done_ends() {
        let mut orders = Orders::new(10);
        orders.barrier(ALL);
        part(&mut orders, 3200.0, 100.0, 100.0);
        part(&mut orders, 3200.0, 100.0, 100.0);
        assert!(orders.by_number());
        let given_up = (0..1000).find_map(|_| orders.window(0.0, 10.0));
        assert!(given_up.is_some() && !orders.by_number());
    }

    #[test]
    fn a_part_by_number_whose_last_work_does_not_come_ends() {
        let mut orders = Orders::new(10);
        orders.barrier(ALL);
        part(&mut orders, 10_000.0, 100.0, 100.0);
        part(&mut orders, 10_000.0, 100.0, 100.0);
        assert!(orders.by_number());
        // The threads that run wait for one with a higher number, which has a hundredth of the work.
        assert!((0..99).all(|_| orders.window(100.0, 10.0).is_none()));
        let waited = (0..1000).position(|_| orders.window(0.0, 10.0).is_some());
        assert!(!orders.by_number());
        // The queue's order has three marks: given up is it at the thirteenth one.
        assert_eq!(waited, Some(13 * 32 - 99 - 1));
        // That was slow: it is not tried again.
        part(&mut orders, 100.0, 100.0, 100.0);
        for _ in 0..4 {
            assert!(!part(&mut orders, 10_000.0, 100.0, 100.0).0);
        }
    }

    #[test]
    fn a_part_by_number_that_does_not_end_is_another_one() {
        let mut orders = Orders::new(10);
        orders.barrier(ALL);
        part(&mut orders, 10_000.0, 100.0, 100.0);
        part(&mut orders, 10_000.0, 100.0, 100.0);
        assert!(orders.by_number());
        let windows = (1..1000).find(|_| orders.window(100.0, 10.0).is_some());
        assert!(!orders.by_number());
        assert_eq!(windows, Some(104), "more than 3% behind its end");
    }

    #[test]
    fn parts_without_barriers_and_parts_that_never_come_again_are_left_alone() {
        let mut orders = Orders::new(10);
        assert!((0..10_000).all(|_| orders.window(100.0, 10.0).is_none()));
        orders.barrier(ALL);
        for one in 1..20 {
            let (by_number, _, said) =
                part(&mut orders, 10_000.0 * 1.3_f64.powi(one), 100.0, 200.0);
            assert!(!by_number && said.is_empty(), "{one}");
        }
    }
}
