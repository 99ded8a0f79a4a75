//! A pipeline of passes over an image of floating-point samples, as tasks: local contrast without noise, then a tone curve.
//!
//! One round is five passes over three planes (image, first, second); outside the image all is 0:
//!
//! 1. blur across: image -> first, five samples weighted 1 4 6 4 1;
//! 2. blur down: first -> second, the same;
//! 3. sharpen: image, second -> first: the image and part of its difference from the blurred one;
//! 4. gradient: first -> second: the squared length of it;
//! 5. smooth: first, second -> image: a step of diffusion, the smaller the steeper the gradient (Perona and Malik).
//!
//! After the last round the tone curve x / (1 + x) goes from image to first. The tasks, and why groups pay, are those of
//! [`tiles`](crate::tiles).

use crate::field::Field;
use crate::pass::{Formula, Lines, Passes, Probe, rect};
use crate::tiles::{Caches, Options, Program, Tile, Turn, sealed, workload};
use crate::workload::{Description, RunError};

/// Passes of a round.
const PASSES: u32 = 5;

/// The three planes.
pub struct Pipeline {
    image: Field,
    first: Field,
    second: Field,
    options: Options,
    passes: Passes,
}

impl Pipeline {
    /// Returns a sample of the picture: rings of light with hard edges, and grain.
    pub fn initial(x: usize, y: usize) -> f32 {
        let ring = ((x * x + y * y) >> 12) % 5;
        let grain = (x * 31 + y * 17 + x * y) % 7;
        ring as f32 * 0.75 + grain as f32 * 0.03125
    }
}

struct Across;

struct Down;

struct Sharpen;

struct Gradient;

struct Smooth;

struct Tone;

/// Returns the mean of five samples with the weights of Pascal's triangle.
#[inline(always)]
fn binomial(a: f32, b: f32, c: f32, d: f32, e: f32) -> f32 {
    0.0625 * (a + e) + 0.25 * (b + d) + 0.375 * c
}

impl Formula for Across {
    const COLUMNS: usize = 2;
    const OPERATIONS: u32 = 7;

    #[inline(always)]
    fn row(lines: &Lines<'_>, out: &mut [f32]) {
        let n = out.len();
        let [a, b, c, d, e] = lines.here;
        let (a, b, c, d, e) = (&a[..n], &b[..n], &c[..n], &d[..n], &e[..n]);
        for i in 0..n {
            out[i] = binomial(a[i], b[i], c[i], d[i], e[i]);
        }
    }
}

impl Formula for Down {
    const ROWS: usize = 2;
    const OPERATIONS: u32 = 7;

    #[inline(always)]
    fn row(lines: &Lines<'_>, out: &mut [f32]) {
        let n = out.len();
        let ([b, a], c, [d, e]) = (lines.above, lines.here[2], lines.below);
        let (a, b, c, d, e) = (&a[..n], &b[..n], &c[..n], &d[..n], &e[..n]);
        for i in 0..n {
            out[i] = binomial(a[i], b[i], c[i], d[i], e[i]);
        }
    }
}

impl Formula for Sharpen {
    const OTHER: bool = true;
    const OPERATIONS: u32 = 4;

    #[inline(always)]
    fn row(lines: &Lines<'_>, out: &mut [f32]) {
        let n = out.len();
        let (sharp, blurred) = (&lines.here[2][..n], &lines.other[..n]);
        for i in 0..n {
            out[i] = (sharp[i] + 0.5 * (sharp[i] - blurred[i])).max(0.0);
        }
    }
}

impl Formula for Gradient {
    const ROWS: usize = 1;
    const COLUMNS: usize = 1;
    const OPERATIONS: u32 = 5;

    #[inline(always)]
    fn row(lines: &Lines<'_>, out: &mut [f32]) {
        let n = out.len();
        let (above, below) = (&lines.above[0][..n], &lines.below[0][..n]);
        let [_, left, _, right, _] = lines.here;
        let (left, right) = (&left[..n], &right[..n]);
        for i in 0..n {
            let (across, down) = (right[i] - left[i], below[i] - above[i]);
            out[i] = across * across + down * down;
        }
    }
}

impl Formula for Smooth {
    const ROWS: usize = 1;
    const COLUMNS: usize = 1;
    const OTHER: bool = true;
    const OPERATIONS: u32 = 10;

    #[inline(always)]
    fn row(lines: &Lines<'_>, out: &mut [f32]) {
        let n = out.len();
        let (above, below) = (&lines.above[0][..n], &lines.below[0][..n]);
        let [_, left, here, right, _] = lines.here;
        let (left, here, right) = (&left[..n], &here[..n], &right[..n]);
        let steep = &lines.other[..n];
        for i in 0..n {
            let around = (above[i] + below[i]) + (left[i] + right[i]);
            out[i] = here[i] + 0.2 / (1.0 + 4.0 * steep[i]) * (around - 4.0 * here[i]);
        }
    }
}

impl Formula for Tone {
    const OPERATIONS: u32 = 3;

    #[inline(always)]
    fn row(lines: &Lines<'_>, out: &mut [f32]) {
        let n = out.len();
        let light = &lines.here[2][..n];
        for i in 0..n {
            let light = light[i].max(0.0);
            out[i] = light / (1.0 + light);
        }
    }
}

impl sealed::Ours for Pipeline {}

impl Program for Pipeline {
    const DESCRIPTION: &'static Description = &Description {
        name: "pipeline",
        about: "Passes over a large image: blur, sharpen, gradient, smooth, tone curve",
        details: "Each round is five passes over an image of floating-point samples, and a tone curve ends the last. \
        The image is cut into tiles and the tasks into groups by the caches of the machine.",
        options: &[
            workload::size("4096", "Rows and columns of the image"),
            workload::times("rounds", "4", "3", "Rounds of five passes"),
            workload::GROUPS,
        ],
        test_options: &[("size", "200"), ("rounds", "1")],
    };
    const TIMES: &'static str = "rounds";
    const FIELDS: usize = 3;

    fn sweeps(rounds: u32) -> u32 {
        rounds * PASSES + 1
    }

    fn new(options: Options, caches: Caches) -> Result<Self, RunError> {
        let plane = || Field::new(options.size, options.size);
        Ok(Pipeline {
            image: plane()?,
            first: plane()?,
            second: plane()?,
            options,
            passes: Passes::new(caches),
        })
    }

    fn name(sweep: u32, sweeps: u32) -> &'static str {
        if sweep + 1 == sweeps {
            return "tone";
        }
        ["blur across", "blur down", "sharpen", "gradient", "smooth"][(sweep % PASSES) as usize]
    }

    fn fill(&self, _: Turn, tile: Tile) {
        let mut image = self.image.write(rect(tile));
        let (mut first, mut second) = (self.first.write(rect(tile)), self.second.write(rect(tile)));
        for y in 0..tile.h {
            for (x, value) in image.row(y).iter_mut().enumerate() {
                *value = Pipeline::initial(tile.x + x, tile.y + y);
            }
            first.row(y).fill(0.0);
            second.row(y).fill(0.0);
        }
    }

    fn sweep<P: Probe>(&self, _: Turn, tile: Tile, sweep: u32, probe: &mut P) {
        let Pipeline {
            image,
            first,
            second,
            passes,
            ..
        } = self;
        if sweep == self.options.times * PASSES {
            return passes.run::<Tone, P>((image, image), first, tile, probe);
        }
        match sweep % PASSES {
            0 => passes.run::<Across, P>((image, image), first, tile, probe),
            1 => passes.run::<Down, P>((first, first), second, tile, probe),
            2 => passes.run::<Sharpen, P>((image, second), first, tile, probe),
            3 => passes.run::<Gradient, P>((first, first), second, tile, probe),
            _ => passes.run::<Smooth, P>((first, second), image, tile, probe),
        }
    }

    fn visit(&self, _: Turn, row: &mut dyn FnMut(&[f32])) {
        self.first.visit(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass::same_in_all_forms;

    #[test]
    fn all_forms_of_the_passes_are_equal() {
        same_in_all_forms::<Across>();
        same_in_all_forms::<Down>();
        same_in_all_forms::<Sharpen>();
        same_in_all_forms::<Gradient>();
        same_in_all_forms::<Smooth>();
        same_in_all_forms::<Tone>();
    }
}
