//! How reconstruction tasks are put into temporal and spatial groups.

use crate::options::named;
use tanada_h264::Stage;
use tanada_runtime::{SGroup, TGroup};

/// How tasks are grouped. Groups belong to the workload; any dispatcher may use them.
///
/// T groups of successive pictures have successive numbers, so that "the lowest T" means "the oldest picture".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Groups {
    /// Paper 1's pattern A. S: one group a stage. T: front and rear stages apart, each cut into groups of two macroblock rows, the rear
    /// ones shifted by one group, because the rear of a row waits for the front of the next row.
    ToshibaA,
    /// Paper 1's pattern B. S as in A. T: all front stages of a picture, all rear stages.
    ToshibaB,
    /// S: bands of rows, the same in all pictures, so that a band's pixels and its references stay with one worker. T: the picture.
    Default,
    /// No groups.
    None,
}

/// What a task works on, as far as its groups depend on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) picture: u64,
    pub(crate) row: u32,
    /// Rows of the picture.
    pub(crate) rows: u32,
    /// The task's stage; the first of them if it has several.
    pub(crate) stage: Stage,
    pub(crate) workers: u16,
}

/// Rows of a T group of pattern A.
const ROWS: u32 = 2;

named!(
    Groups,
    "grouping",
    Default = "default" | "own",
    ToshibaA = "toshiba-a" | "a",
    ToshibaB = "toshiba-b" | "b",
    None = "none",
);

impl Groups {
    /// Those that recordings carry by name.
    pub const RECORDED: [Groups; 3] = [Groups::ToshibaA, Groups::ToshibaB, Groups::Default];

    /// Returns the groups of a reconstruction task.
    pub(crate) fn of(self, place: Place) -> (TGroup, SGroup) {
        let rear = u32::from(Stage::REAR.contains(&place.stage));
        let stage = SGroup(1 + place.stage as u32);
        match self {
            Groups::ToshibaA => {
                let groups = place.rows.div_ceil(ROWS) + 1;
                (
                    number(place.picture, groups, place.row / ROWS + rear),
                    stage,
                )
            }
            Groups::ToshibaB => (number(place.picture, 2, rear), stage),
            Groups::Default => {
                let band = place.row * u32::from(place.workers) / place.rows;
                (number(place.picture, 1, 0), SGroup(1 + band))
            }
            Groups::None => (TGroup(0), SGroup(0)),
        }
    }

    /// Returns the groups of a picture's serial tasks (entropy, build, output). In the exception group they would come last and starve the
    /// pipeline, so they go with the picture's first group; no worker is theirs.
    pub(crate) fn serial(self, picture: u64) -> (TGroup, SGroup) {
        match self {
            Groups::None => (TGroup(0), SGroup(0)),
            Groups::ToshibaB => (number(picture, 2, 0), SGroup(0)),
            Groups::Default => (number(picture, 1, 0), SGroup(0)),
            // The number of groups a picture is not known before the picture is: a range of its own above all others.
            Groups::ToshibaA => (TGroup(SERIAL | (picture as u32 & (SERIAL - 1))), SGroup(0)),
        }
    }
}

/// Numbers from here on are serial tasks' in pattern A.
const SERIAL: u32 = 1 << 31;

/// Returns T group number `which` of the `groups` of a picture. Wraps after 2^31 - 1 groups (tens of millions of pictures in pattern A,
/// more in the others), when the old groups are long empty.
fn number(picture: u64, groups: u32, which: u32) -> TGroup {
    TGroup(1 + ((picture * u64::from(groups) + u64::from(which)) % u64::from(SERIAL - 1)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(picture: u64, row: u32, stage: Stage) -> Place {
        Place {
            picture,
            row,
            rows: 30,
            stage,
            workers: 4,
        }
    }

    #[test]
    fn pattern_a_shifts_the_rear_by_one_group() {
        let front = Groups::ToshibaA.of(place(0, 2, Stage::LumaPrediction));
        let rear = Groups::ToshibaA.of(place(0, 0, Stage::LumaDeblocking));
        assert_eq!(
            (front, rear),
            ((TGroup(2), SGroup(2)), (TGroup(2), SGroup(4)))
        );
        // 15 pairs of rows and the shift: the next picture begins behind them.
        assert_eq!(
            Groups::ToshibaA.of(place(1, 0, Stage::LumaResidual)).0,
            TGroup(17)
        );
        assert_eq!(
            Groups::ToshibaA.of(place(0, 29, Stage::CrDeblocking)).0,
            TGroup(16)
        );
    }

    #[test]
    fn pattern_b_has_two_groups_a_picture() {
        let t = |picture, stage| Groups::ToshibaB.of(place(picture, 7, stage)).0;
        assert_eq!(t(0, Stage::LumaResidual), TGroup(1));
        assert_eq!(t(0, Stage::CbDeblocking), TGroup(2));
        assert_eq!(t(3, Stage::ChromaPrediction), TGroup(7));
    }

    #[test]
    fn default_groups_are_bands() {
        let s = |row| Groups::Default.of(place(5, row, Stage::LumaResidual)).1;
        assert_eq!(
            [s(0), s(7), s(8), s(29)],
            [SGroup(1), SGroup(1), SGroup(2), SGroup(4)]
        );
    }

    #[test]
    fn no_groups_are_no_groups() {
        assert_eq!(
            Groups::None.of(place(3, 3, Stage::LumaResidual)),
            (TGroup(0), SGroup(0))
        );
        assert_eq!(Groups::None.serial(3), (TGroup(0), SGroup(0)));
    }

    #[test]
    fn names_round_trip() {
        for groups in Groups::ALL {
            assert_eq!(groups.name().parse(), Ok(groups));
        }
        for (older, groups) in [
            ("a", Groups::ToshibaA),
            ("b", Groups::ToshibaB),
            ("own", Groups::Default),
        ] {
            assert_eq!(older.parse(), Ok(groups));
        }
        assert!(
            "c".parse::<Groups>()
                .unwrap_err()
                .contains("default, toshiba-a, toshiba-b, none")
        );
    }
}
