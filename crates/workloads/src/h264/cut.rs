//! How reconstruction is cut into tasks.

use crate::options::named;

/// How the reconstruction of a picture is cut into tasks.
///
/// A task works on a *unit*: neighbouring macroblocks of one row. Where a unit has an intra macroblock, the prediction task adds the
/// residual as well (intra prediction reads its neighbours' reconstruction, in the same unit, too), and the task that would add it has
/// nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cut {
    /// Five macroblocks x one stage, every stage present: the tasks of paper 1 (its Table 3 counts 2,400 a WVGA picture).
    Paper,
    /// One macroblock x one stage, every stage present.
    Macroblock,
    /// One row of macroblocks x one stage, every stage present.
    Row,
    /// As long as parallelism allows x all front stages; a row x all rear stages; stages that a macroblock does not need are left out.
    ///
    /// Rows with intra macroblocks run one after the other within a picture, but the next pictures follow a few rows behind: that is work
    /// for two workers with whole rows, and each further pair needs another unit a row. A unit has at least 8 macroblocks and at most
    /// 128. Where a unit is a row, its task goes on with the rear stages of the row above, while that is in the cache.
    Default,
}

/// Macroblocks of a unit of [`Cut::Default`], at least: shorter tasks pay more for being scheduled than they bring in parallelism.
const SHORTEST: u32 = 8;

/// The same, at most: 2,048 luma samples across, some 20 us.
const LONGEST: u32 = 128;

named!(
    Cut,
    "cut",
    Default = "default" | "own",
    Row = "row",
    Macroblock = "macroblock" | "mb",
    Paper = "paper",
);

impl Cut {
    /// Returns the macroblocks of a unit, in a picture `width` macroblocks wide on `workers` workers.
    pub(super) fn unit(self, width: u32, workers: u16) -> u32 {
        match self {
            Cut::Paper => 5,
            Cut::Macroblock => 1,
            Cut::Row => width,
            Cut::Default => {
                let parts = (u32::from(workers) / 2)
                    .clamp(1, 16)
                    .max(width.div_ceil(LONGEST));
                width.div_ceil(parts).max(SHORTEST)
            }
        }
    }
}

/// Which tasks wait for those of neighbouring units.
///
/// Both are graphs of this decoder, for every cut, native or recorded. Another program may have a further order within a stage; a recording
/// takes that order from its table of costs (`left`, `above`, `above_right` in `data/mpe.toml`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Dependencies {
    /// Those that need them, by the types of a picture's macroblocks.
    #[default]
    Needed,
    /// All, as if every macroblock were predicted from its neighbours: the graph is the same for every picture of a size, as in figure 9 of
    /// paper 1.
    Fixed,
}

named!(
    Dependencies,
    "kind of dependencies",
    Needed = "needed",
    Fixed = "fixed",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_units_are_as_long_as_the_workers_allow() {
        let unit = |width, workers| Cut::Default.unit(width, workers);
        assert_eq!([1, 2, 3].map(|workers| unit(80, workers)), [80; 3]);
        assert_eq!((unit(80, 4), unit(80, 8), unit(80, 64)), (40, 20, 8));
        assert_eq!([120, 129, 256].map(|width| unit(width, 2)), [120, 65, 128]);
        assert_eq!(unit(5, 16), 8, "a unit is cut at the end of its row");
    }
}
