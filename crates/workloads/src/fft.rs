//! Fast Fourier transform in six steps over a square matrix: `kernels/fft.c` as tasks.
//!
//! A task takes a strip of rows through a transposition and what follows it, so there are three phases: transpose, transform, multiply by
//! roots of unity; transpose and transform; transpose. Every task of a phase reads a patch of every strip of the phase before. A T group
//! is a phase, an S group a strip.

use crate::options::{Kind, OptionSpec, Values};
use crate::phased::{Array, Phased, Piece, Pieces, Random, SEED, Tasks, cosine_of, sine_of};
use crate::workload::{Description, RunError};

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "size",
        "N",
        Kind::Count(16, 1 << 24),
        "Points, a power of 4",
    )
    .default("262144")
    .default_in_recordings("16384"),
    OptionSpec::new("strip", "N", Kind::Count(1, 1 << 12), "Rows of a strip").default("8"),
    SEED,
];

/// Columns of a patch of a transposition.
const PATCH: usize = 16;

/// Bytes of a point.
const POINT: usize = size_of::<Complex>();

#[derive(Clone, Copy, Debug, Default)]
struct Complex {
    re: f64,
    im: f64,
}

impl Complex {
    #[inline]
    fn times(self, other: Complex) -> Complex {
        Complex {
            re: self.re * other.re - self.im * other.im,
            im: self.re * other.im + self.im * other.re,
        }
    }
}

pub(crate) struct Fft {
    /// Rows and columns of the matrix.
    side: usize,
    /// Rows of a strip.
    strip: usize,
    random: Random,
    x: Pieces<Vec<Complex>>,
    other: Pieces<Vec<Complex>>,
    /// The roots of level l of a row's transformation begin at 2^l - 1.
    row_roots: Vec<Complex>,
    all_roots: Vec<Complex>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Multiplied,
    Transformed,
    Transposed,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    step: Step,
    strip: usize,
}

/// Returns exp(-2 pi i k / n).
fn root(k: usize, n: usize) -> Complex {
    Complex {
        re: cosine_of(k, n),
        im: -sine_of(k, n),
    }
}

impl Fft {
    fn strips(&self) -> usize {
        self.side.div_ceil(self.strip)
    }

    /// Sets strip `strip` of `to` to these columns of `from`.
    fn transpose(&self, to: &mut [Complex], from: &Pieces<Vec<Complex>>, strip: usize) {
        let (first, rows) = (strip * self.strip, to.len() / self.side);
        for turn in 1..=self.strips() {
            let strip = (strip + turn) % self.strips();
            let from = from.read(strip);
            for columns in 0..from.len().div_ceil(PATCH * self.side) {
                let patch = from
                    .chunks_exact(self.side)
                    .skip(columns * PATCH)
                    .take(PATCH);
                for (column, from) in (strip * self.strip + columns * PATCH..).zip(patch) {
                    for row in 0..rows {
                        to[row * self.side + column] = from[first + row];
                    }
                }
            }
        }
    }

    /// Transforms a row in place, by radix 2.
    fn transform_row(&self, row: &mut [Complex]) {
        let levels = self.side.ilog2();
        for k in 0..self.side {
            let j = k.reverse_bits() >> (usize::BITS - levels);
            if j > k {
                row.swap(k, j);
            }
        }
        let mut half = 1;
        while half < self.side {
            let roots = &self.row_roots[half - 1..][..half];
            for both in row.chunks_exact_mut(2 * half) {
                let (low, high) = both.split_at_mut(half);
                for ((low, high), root) in low.iter_mut().zip(high).zip(roots) {
                    let turned = root.times(*high);
                    high.re = low.re - turned.re;
                    high.im = low.im - turned.im;
                    low.re += turned.re;
                    low.im += turned.im;
                }
            }
            half *= 2;
        }
    }

    /// Returns the patches of all strips of `array` that `strip` reads when it transposes them.
    fn patches(&self, array: Array, strip: usize) -> impl Iterator<Item = Piece> {
        let columns = self.strip.min(self.side - strip * self.strip);
        (0..self.strips()).map(move |other| Piece {
            offset: (strip * self.strip * POINT) as u64,
            bytes: (columns * POINT) as u64,
            rows: self.strip.min(self.side - other * self.strip) as u32,
            stride: (self.side * POINT) as u64,
            ..array.piece(other)
        })
    }
}

impl Phased for Fft {
    const DESCRIPTION: &'static Description = &Description {
        name: "fft",
        about: "Fast Fourier transform in six steps",
        details: "After SPLASH-2's kernel FFT, of which there is a program with POSIX threads too. Three transpositions \
        move all points between all workers.",
        options: OPTIONS,
        test_options: &[("size", "1024"), ("strip", "3")],
    };
    const RECORDED: bool = true;
    type Task = Task;

    fn bytes(values: &Values) -> u64 {
        4 * values.count("size") * POINT as u64
    }

    fn new(values: &Values, _workers: u16) -> Result<Self, RunError> {
        let size = values.count("size") as usize;
        let side = size.isqrt();
        if side * side != size || !side.is_power_of_two() {
            let message = format!("--size {size} is no power of 4");
            return Err(RunError::Input(message));
        }
        let strip = side.min(values.count("strip") as usize);
        let rows = |at: usize| vec![Complex::default(); strip.min(side - at * strip) * side];
        let halves = (0..side.ilog2()).map(|level| 1 << level);
        Ok(Fft {
            side,
            strip,
            random: Random::new(values.count(SEED.flag)),
            x: Pieces::new(side.div_ceil(strip), rows),
            other: Pieces::new(side.div_ceil(strip), rows),
            row_roots: halves
                .flat_map(|half: usize| (0..half).map(move |j| root(j * (size / (2 * half)), size)))
                .collect(),
            all_roots: (0..size)
                .map(|at| root((at / side) * (at % side), size))
                .collect(),
        })
    }

    fn declare(&self, tasks: &mut Tasks<Task>) {
        let strips = self.strips();
        let bytes = (self.strip * self.side * POINT) as u64;
        let [x, other, roots] = [(); 3].map(|()| tasks.array(strips, bytes));
        let row_roots = tasks.array(1, (self.side * POINT) as u64);
        let points = self.strip * self.side;
        let transform = points * 5 * self.side.ilog2() as usize;
        let steps = [
            (
                "multiplied rows",
                Step::Multiplied,
                x,
                other,
                transform + 6 * points,
            ),
            ("rows", Step::Transformed, other, x, transform),
            ("transposition", Step::Transposed, x, other, points),
        ];
        for (number, (name, step, from, to, operations)) in steps.into_iter().enumerate() {
            tasks.phase(name);
            for strip in 0..strips {
                let task = tasks.task(Task { step, strip }, (number, strip), operations);
                let mut task = task.read_all(self.patches(from, strip));
                if !matches!(step, Step::Transposed) {
                    task = task.read(row_roots.piece(0));
                }
                if matches!(step, Step::Multiplied) {
                    task = task.read(roots.piece(strip));
                }
                task.write(to.piece(strip));
            }
        }
    }

    fn reset(&self) {
        for strip in 0..self.strips() {
            let first = strip * self.strip * self.side;
            for (place, point) in (first as u64..).zip(&mut *self.x.write(strip)) {
                *point = Complex {
                    re: self.random.unit(2 * place) - 0.5,
                    im: self.random.unit(2 * place + 1) - 0.5,
                };
            }
        }
    }

    fn run(&self, Task { step, strip }: Task) {
        let (from, to) = match step {
            Step::Transformed => (&self.other, &self.x),
            Step::Multiplied | Step::Transposed => (&self.x, &self.other),
        };
        let to = &mut *to.write(strip);
        self.transpose(to, from, strip);
        let first = strip * self.strip * self.side;
        if !matches!(step, Step::Transposed) {
            let rows = to.chunks_exact_mut(self.side);
            rows.for_each(|row| self.transform_row(row));
        }
        if matches!(step, Step::Multiplied) {
            for (point, root) in to.iter_mut().zip(&self.all_roots[first..]) {
                *point = point.times(*root);
            }
        }
    }

    fn visit(&self, word: &mut dyn FnMut(u64)) {
        for strip in 0..self.strips() {
            for point in &*self.other.read(strip) {
                word(point.re.to_bits());
                word(point.im.to_bits());
            }
        }
    }
}
