//! Which tasks of a stage are neighbours, as they are declared: by rows, from left to right.
//!
//! For the order within a stage that another program than ours may have: `left`, `above` and `above_right` in the table of costs. What our
//! own tasks wait for, whichever [`Dependencies`](crate::h264::Dependencies) are chosen, is declared with them.

use crate::h264::groups::Place;
use tanada_h264::Stage;

/// The tasks of the row that is being declared and of the one above, by stage.
#[derive(Debug, Default)]
pub(super) struct Rows {
    stages: [OfStage; Stage::ALL.len()],
}

#[derive(Debug, Default)]
struct OfStage {
    /// Picture and row of `current`.
    at: Option<(u64, u32)>,
    current: Vec<u32>,
    above: Vec<u32>,
}

impl Rows {
    /// The tasks of the same stage to the left of the task that is declared next, above it, and above to the right, as far as they are
    /// there and `wanted`.
    pub(super) fn neighbours(&mut self, place: Place, wanted: [bool; 3]) -> [Option<u32>; 3] {
        let stage = self.stage(place);
        let unit = stage.current.len();
        let there = [
            stage.current.last(),
            stage.above.get(unit),
            stage.above.get(unit + 1),
        ];
        std::array::from_fn(|which| there[which].copied().filter(|_| wanted[which]))
    }

    /// The next task of the row was declared.
    pub(super) fn declared(&mut self, place: Place, task: u32) {
        self.stage(place).current.push(task);
    }

    fn stage(&mut self, place: Place) -> &mut OfStage {
        let stage = &mut self.stages[place.stage as usize];
        let at = (place.picture, place.row);
        if stage.at != Some(at) {
            let below = stage
                .at
                .is_some_and(|(picture, row)| (picture, row + 1) == at);
            std::mem::swap(&mut stage.current, &mut stage.above);
            stage.current.clear();
            if !below {
                stage.above.clear();
            }
            stage.at = Some(at);
        }
        stage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_of_one_stage_and_picture() {
        let mut rows = Rows::default();
        let place = |picture, row, stage| Place {
            picture,
            row,
            rows: 3,
            stage,
            workers: 4,
        };
        let all = [true; 3];
        let (a, b) = (Stage::LumaResidual, Stage::CrDeblocking);
        for (task, row) in [(0, 0), (1, 0), (2, 0), (3, 1)] {
            rows.declared(place(0, row, a), task);
        }
        assert_eq!(
            rows.neighbours(place(0, 1, a), all),
            [Some(3), Some(1), Some(2)]
        );
        assert_eq!(
            rows.neighbours(place(0, 1, a), [false, true, false]),
            [None, Some(1), None]
        );
        assert_eq!(rows.neighbours(place(0, 1, b), all), [None; 3]);
        rows.declared(place(0, 1, a), 4);
        assert_eq!(
            rows.neighbours(place(0, 1, a), all),
            [Some(4), Some(2), None]
        );
        assert_eq!(
            rows.neighbours(place(0, 2, a), all),
            [None, Some(3), Some(4)]
        );
        assert_eq!(rows.neighbours(place(1, 0, a), all), [None; 3]);
    }
}
