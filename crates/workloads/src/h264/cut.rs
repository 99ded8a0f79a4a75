//! How reconstruction is cut into tasks.

use std::fmt;
use std::str::FromStr;

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
    Mb,
    /// One row of macroblocks x one stage, every stage present.
    Row,
    /// Half a row or less, but at least five macroblocks, x all front stages; a row x all rear stages; stages that a macroblock does
    /// not need are left out.
    Own,
}

impl Cut {
    /// All cuts.
    pub const ALL: [Cut; 4] = [Cut::Paper, Cut::Mb, Cut::Row, Cut::Own];

    /// Their names, in the same order.
    pub const NAMES: [&'static str; 4] = {
        let [a, b, c, d] = Cut::ALL;
        [a.name(), b.name(), c.name(), d.name()]
    };

    /// The name that `--tasks` knows.
    pub const fn name(self) -> &'static str {
        match self {
            Cut::Paper => "paper",
            Cut::Mb => "mb",
            Cut::Row => "row",
            Cut::Own => "own",
        }
    }

    /// Macroblocks of a unit, in a picture `width` macroblocks wide on so many workers.
    pub(super) fn unit(self, width: u32, workers: u16) -> u32 {
        match self {
            Cut::Paper => 5,
            Cut::Mb => 1,
            Cut::Row => width,
            // Two units a row let intra pictures run as a wavefront; more workers need more; below 5 tasks are too short to pay.
            Cut::Own => width.div_ceil(u32::from(workers).clamp(2, 16)).max(5),
        }
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Cut {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        by_name(text, "cut", &Cut::ALL, Cut::name)
    }
}

/// The one of `all` that is called `text`, or a message that lists the right names.
pub(super) fn by_name<X: Copy>(
    text: &str,
    what: &str,
    all: &[X],
    name: fn(X) -> &'static str,
) -> Result<X, String> {
    all.iter()
        .copied()
        .find(|&one| name(one) == text)
        .ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|&one| name(one)).collect();
            format!("unknown {what} \"{text}\"; there are {}", names.join(", "))
        })
}
