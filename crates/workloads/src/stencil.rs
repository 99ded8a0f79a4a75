//! An iterated stencil: Jacobi's method in two dimensions, as tasks.
//!
//! Every sweep sets each point to a weighted mean of itself and its four neighbours, from one field into another, and the two change
//! places. Points outside the field are 0. The tasks, and why groups pay, are those of [`tiles`](crate::tiles).

use crate::field::Field;
use crate::pass::{Formula, Lines, Passes, Probe, rect};
use crate::tiles::{Caches, Options, Program, Tile, Turn, sealed, workload};
use crate::workload::{Description, RunError};

/// The two fields.
pub struct Stencil {
    fields: [Field; 2],
    options: Options,
    passes: Passes,
}

impl Stencil {
    /// Returns the initial value of a point: a sawtooth in both directions, so that no two rows or columns that meet are alike.
    pub fn initial(x: usize, y: usize) -> f32 {
        ((x * 7 + y * 13) % 101) as f32
    }
}

struct Jacobi;

impl Formula for Jacobi {
    const ROWS: usize = 1;
    const COLUMNS: usize = 1;
    const OPERATIONS: u32 = 6;

    #[inline(always)]
    fn row(lines: &Lines<'_>, out: &mut [f32]) {
        let n = out.len();
        let (above, below) = (&lines.above[0][..n], &lines.below[0][..n]);
        let [_, left, here, right, _] = lines.here;
        let (left, here, right) = (&left[..n], &here[..n], &right[..n]);
        for i in 0..n {
            out[i] = 0.5 * here[i] + 0.125 * ((above[i] + below[i]) + (left[i] + right[i]));
        }
    }
}

impl sealed::Ours for Stencil {}

impl Program for Stencil {
    const DESCRIPTION: &'static Description = &Description {
        name: "stencil",
        about: "Jacobi's method in two dimensions: sweeps over a field that is larger than the caches",
        details: "Every sweep sets each point to a weighted mean of itself and its four neighbours. \
        The field is cut into tiles and the tasks into groups by the caches of the machine.",
        options: &[
            workload::size("8192", "Rows and columns of the field"),
            workload::times("sweeps", "32", "16", "Sweeps over the field"),
            workload::GROUPS,
        ],
        test_options: &[("size", "200"), ("sweeps", "3")],
    };
    const TIMES: &'static str = "sweeps";
    const FIELDS: usize = 2;

    fn new(options: Options, caches: Caches) -> Result<Self, RunError> {
        let field = || Field::new(options.size, options.size);
        Ok(Stencil {
            fields: [field()?, field()?],
            options,
            passes: Passes::new(caches),
        })
    }

    fn name(_: u32, _: u32) -> &'static str {
        "sweep"
    }

    fn fill(&self, _: Turn, tile: Tile) {
        let [mut first, mut second] = self.fields.each_ref().map(|field| field.write(rect(tile)));
        for y in 0..tile.h {
            for (x, value) in first.row(y).iter_mut().enumerate() {
                *value = Stencil::initial(tile.x + x, tile.y + y);
            }
            second.row(y).fill(0.0);
        }
    }

    fn sweep<P: Probe>(&self, _: Turn, tile: Tile, sweep: u32, probe: &mut P) {
        let from = (sweep % 2) as usize;
        let (from, to) = (&self.fields[from], &self.fields[1 - from]);
        self.passes.run::<Jacobi, P>((from, from), to, tile, probe);
    }

    fn visit(&self, _: Turn, row: &mut dyn FnMut(&[f32])) {
        let last = &self.fields[(self.options.times % 2) as usize];
        last.visit(row);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn all_forms_of_a_sweep_are_equal() {
        crate::pass::same_in_all_forms::<super::Jacobi>();
    }
}
