//! An iterated stencil: Jacobi's method in two dimensions, as tasks.
//!
//! Every sweep sets each point to a weighted mean of itself and its four neighbours, from one field into another, and the two change
//! places. Points outside the field are 0. The tasks, and why groups pay, are those of [`tiles`](crate::tiles).

use crate::field::Field;
use crate::options::{OptionSpec, Values};
use crate::pass::{Formula, Lines, Passes, Probe, Reads, rect};
use crate::tiles::{Caches, Groups, Program, Shape, Tile, workload};

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Rows and columns of the field; at least 1.
    pub size: usize,
    /// Sweeps.
    pub sweeps: u32,
    /// How tasks are put into groups.
    pub groups: Groups,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            size: 8192,
            sweeps: 32,
            groups: Groups::Default,
        }
    }
}

/// The two fields.
pub struct Stencil {
    fields: [Field; 2],
    options: Options,
    passes: Passes,
}

impl std::fmt::Debug for Stencil {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Stencil");
        shown
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Stencil {
    /// The initial value of a point: a sawtooth in both directions, so that no two rows or columns that meet are alike.
    pub fn initial(x: usize, y: usize) -> f32 {
        ((x * 7 + y * 13) % 101) as f32
    }
}

#[derive(Clone, Copy)]
struct Jacobi;

impl Formula for Jacobi {
    const READS: Reads = Reads {
        rows: 1,
        columns: 1,
        other: false,
    };
    const OPERATIONS: u32 = 6;

    #[inline(always)]
    fn row(self, lines: &Lines<'_>, out: &mut [f32]) {
        let n = out.len();
        let (above, below) = (&lines.above[0][..n], &lines.below[0][..n]);
        let [_, left, here, right, _] = lines.here;
        let (left, here, right) = (&left[..n], &here[..n], &right[..n]);
        for i in 0..n {
            out[i] = 0.5 * here[i] + 0.125 * ((above[i] + below[i]) + (left[i] + right[i]));
        }
    }
}

impl Program for Stencil {
    type Options = Options;

    const NAME: &'static str = "stencil";
    const ABOUT: &'static str =
        "Jacobi's method in two dimensions: sweeps over a field that is larger than the caches";
    const DETAILS: &'static str = "Every sweep sets each point to a weighted mean of itself and its four neighbours. \
        The field is cut into tiles and the tasks into groups by the caches of the machine.";
    const OPTIONS: &'static [OptionSpec] = &[
        workload::size("8192", "Rows and columns of the field"),
        workload::times("sweeps", "32", "16", "Sweeps over the field"),
        workload::GROUPS,
    ];
    const TEST_OPTIONS: &'static [(&'static str, &'static str)] =
        &[("size", "200"), ("sweeps", "3")];

    fn options(values: &Values) -> Options {
        Options {
            size: values.count("size") as usize,
            sweeps: values.count("sweeps") as u32,
            groups: values.name("groups").parse().expect("a name of the table"),
        }
    }

    fn input(options: Options) -> String {
        format!("size={},sweeps={}", options.size, options.sweeps)
    }

    fn shape(options: Options) -> (Shape, Groups) {
        let shape = Shape {
            rows: options.size,
            columns: options.size,
            sweeps: options.sweeps,
            bytes_per_point: 2 * size_of::<f32>(),
        };
        (shape, options.groups)
    }

    fn new(options: Options, caches: Caches) -> Self {
        Stencil {
            fields: [(); 2].map(|()| Field::new(options.size, options.size)),
            options,
            passes: Passes::new(caches),
        }
    }

    fn name(_: u32, _: u32) -> &'static str {
        "sweep"
    }

    fn fill(&self, tile: Tile) {
        let [mut first, mut second] = self.fields.each_ref().map(|field| field.write(rect(tile)));
        for y in 0..tile.h {
            for (x, value) in first.row(y).iter_mut().enumerate() {
                *value = Stencil::initial(tile.x + x, tile.y + y);
            }
            second.row(y).fill(0.0);
        }
    }

    fn sweep_with<P: Probe>(&self, tile: Tile, sweep: u32, probe: &mut P) {
        let from = (sweep % 2) as usize;
        let (from, to) = (&self.fields[from], &self.fields[1 - from]);
        self.passes.run(Jacobi, (from, from), to, tile, probe);
    }

    fn visit(&self, row: &mut dyn FnMut(&[f32])) {
        let last = &self.fields[(self.options.sweeps % 2) as usize];
        last.visit(row);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn all_forms_of_a_sweep_are_equal() {
        crate::pass::same_in_all_forms(super::Jacobi);
    }
}
