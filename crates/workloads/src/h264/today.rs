//! Decoding as it would be written today: picture by picture, with parallel loops over the macroblocks of a wavefront.

use crate::loops::Loops;
use std::ops::Range;
use tanada_h264::Job;
use tanada_runtime::{Cancel, GraphError, Instance, Pool};

/// The loops of a picture of one size.
///
/// Macroblocks (x, y) with equal x + 2 y do not depend on each other: a macroblock waits for its left neighbour and for the three
/// neighbours above, whose sums are smaller. So there is a parallel loop a sum, and a barrier behind it: first for all front stages, then
/// for all rear stages. Parsing and output are serial, and no two pictures overlap.
#[derive(Debug, Default)]
pub(super) struct Wavefronts {
    /// Columns, rows and workers that the loops are for.
    size: (u32, u32, u16),
    loops: Option<Instance<'static, Job>>,
}

/// Columns of a step from row to row.
const SKEW: u32 = 2;

/// Returns the macroblocks on diagonal `sum`, as rows.
fn rows(sum: u32, columns: u32, rows: u32) -> Range<u32> {
    let first = (sum + 1).saturating_sub(columns).div_ceil(SKEW);
    first..(sum / SKEW + 1).min(rows)
}

fn build(columns: u32, height: u32, workers: u16) -> Result<Instance<'static, Job>, GraphError> {
    let mut loops = Loops::<Job>::new(workers);
    let sums = 0..columns + SKEW * (height - 1);
    for rear in [false, true] {
        let name = if rear { "rear" } else { "front" };
        for sum in sums.clone() {
            let on = rows(sum, columns, height);
            loops.parallel(name, on.len(), move |job, block| {
                for row in block.map(|at| on.start + at as u32) {
                    let mb = row * columns + (sum - SKEW * row);
                    match rear {
                        true => job.run_rear(mb..mb + 1),
                        false => job.run_front(mb..mb + 1),
                    }
                }
            });
        }
    }
    loops.build()
}

impl Wavefronts {
    /// Reconstructs a picture.
    ///
    /// # Errors
    /// Returns the errors of [`Instance::run_with_cancel`].
    pub(super) fn reconstruct(
        &mut self,
        job: &Job,
        pool: &Pool,
        cancel: &Cancel,
    ) -> Result<(), GraphError> {
        let size = (job.mb_width(), job.mb_height(), pool.workers());
        if self.loops.is_none() || self.size != size {
            self.loops = Some(build(size.0, size.1, size.2)?);
            self.size = size;
        }
        let loops = self.loops.as_mut().expect("built above");
        loops.run_with_cancel(pool, job, cancel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_macroblock_is_on_one_diagonal_behind_those_that_it_waits_for() {
        for (columns, height) in [(1, 1), (1, 5), (2, 3), (5, 4), (50, 30)] {
            let mut seen = vec![None; (columns * height) as usize];
            for sum in 0..columns + SKEW * (height - 1) {
                for row in rows(sum, columns, height) {
                    let at = (row * columns + sum - SKEW * row) as usize;
                    assert_eq!(seen[at].replace(sum), None, "{columns} x {height}: {at}");
                }
            }
            assert!(seen.iter().all(Option::is_some), "{columns} x {height}");
        }
    }
}
