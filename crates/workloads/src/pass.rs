//! One pass over a tile of a field: a formula of a point and its neighbours, for each row of the tile.

use crate::field::{Field, REACH, Read, Rect, Write};
use crate::tiles::{Caches, Tile};
use crate::vector::{Kernel, vectorised};
use std::marker::PhantomData;

/// A stretch of `n` points with what a formula may read around it.
pub(crate) struct Lines<'a> {
    /// The rows at distance 1 and 2 above; `n` points each.
    pub(crate) above: [&'a [f32]; REACH],
    /// The rows at distance 1 and 2 below; `n` points each.
    pub(crate) below: [&'a [f32]; REACH],
    /// The row itself at offsets -2 to 2; `n` points each.
    pub(crate) here: [&'a [f32]; 2 * REACH + 1],
    /// The same points in another field.
    pub(crate) other: &'a [f32],
}

/// Neighbouring points of a row, as bytes of their field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The field: any number that distinguishes fields.
    pub field: usize,
    /// Bytes of the field.
    pub field_bytes: u64,
    /// The first byte.
    pub offset: u64,
    /// Bytes of the stretch.
    pub bytes: u32,
}

/// Receives what passes read, compute and write. The empty probe, [`NoProbe`], costs nothing.
pub trait Probe {
    /// Points are read.
    fn read(&mut self, _points: Stretch) {}
    /// Points are written.
    fn write(&mut self, _points: Stretch) {}
    /// A formula of `operations` operations a point is computed for `w` points.
    fn compute(&mut self, operations: u32, w: usize) {
        let _ = (operations, w);
    }
}

/// The empty probe.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProbe;

impl Probe for NoProbe {}

/// What a pass computes. `row` must be `#[inline(always)]`, or it is not vectorised for the processor that it runs on.
pub(crate) trait Formula {
    /// Rows above, and as many below, that `row` reads: for recordings, as all of these.
    const ROWS: usize = 0;
    /// Columns left, and as many right, that it reads in the row itself.
    const COLUMNS: usize = 0;
    /// Whether it reads [`Lines::other`].
    const OTHER: bool = false;
    /// Additions, products, divisions and comparisons that `row` takes for a point.
    const OPERATIONS: u32;

    /// Sets `out`, as long as the slices of `lines`.
    fn row(lines: &Lines<'_>, out: &mut [f32]);
}

/// How passes go through a tile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passes {
    /// Columns of a block: four rows of a block fill two thirds of the level-1 cache.
    block: usize,
}

impl Passes {
    pub(crate) fn new(caches: Caches) -> Self {
        Passes {
            block: (caches.l1d as usize / 24).next_multiple_of(16).max(256),
        }
    }

    /// Sets the tile of `to` by the formula from `from` and `other` (which may be the same).
    pub(crate) fn run<F: Formula, P: Probe>(
        self,
        (from, other): (&Field, &Field),
        to: &Field,
        tile: Tile,
        probe: &mut P,
    ) {
        vectorised(self.pass::<F>((from, other), to, tile));
        // Behind the loops, which are to stay as the compiler makes them best.
        self.report::<F, P>((from, other), to, tile, probe);
    }

    /// Reports to `probe` what the loops of a pass accessed, in their order.
    #[inline(always)]
    fn report<F: Formula, P: Probe>(
        self,
        (from, other): (&Field, &Field),
        to: &Field,
        tile: Tile,
        probe: &mut P,
    ) {
        let Rect {
            x: left, y: top, ..
        } = rect(tile);
        for start in (0..tile.w).step_by(self.block) {
            let (x, n) = (left + start, self.block.min(tile.w - start));
            for y in top..top + tile.h {
                for row in (y - F::ROWS..y).chain(y + 1..=y + F::ROWS) {
                    probe.read(from.stretch(x, row, n));
                }
                probe.read(from.stretch(x - F::COLUMNS, y, n + 2 * F::COLUMNS));
                if F::OTHER {
                    probe.read(other.stretch(x, y, n));
                }
                probe.compute(F::OPERATIONS, n);
                probe.write(to.stretch(x, y, n));
            }
        }
    }

    fn pass<'a, F: Formula>(
        self,
        (from, other): (&'a Field, &'a Field),
        to: &'a Field,
        tile: Tile,
    ) -> Pass<'a, F> {
        let Tile { x, y, w, h, .. } = tile;
        let inner = rect(tile);
        Pass {
            formula: PhantomData,
            column: from.read(Rect {
                y,
                h: h + 2 * REACH,
                ..inner
            }),
            row: from.read(Rect {
                x,
                w: w + 2 * REACH,
                ..inner
            }),
            other: other.read(inner),
            out: to.write(inner),
            w,
            h,
            block: self.block,
        }
    }
}

/// Returns a tile as a rectangle of a field.
pub(crate) fn rect(tile: Tile) -> Rect {
    Rect {
        x: tile.x + REACH,
        y: tile.y + REACH,
        w: tile.w,
        h: tile.h,
    }
}

struct Pass<'a, F> {
    formula: PhantomData<F>,
    /// The tile with the rows above and below it.
    column: Read<'a>,
    /// The tile with the columns left and right of it.
    row: Read<'a>,
    other: Read<'a>,
    out: Write<'a>,
    w: usize,
    h: usize,
    block: usize,
}

impl<F: Formula> Kernel for Pass<'_, F> {
    #[inline(always)]
    fn run(mut self) {
        let Pass { w, h, block, .. } = self;
        for x in (0..w).step_by(block) {
            let n = block.min(w - x);
            for y in 0..h {
                let column = |row: usize| &self.column.row(y + row)[x..x + n];
                let row = self.row.row(y);
                let here = |offset: usize| &row[x + offset..x + offset + n];
                let lines = Lines {
                    above: [column(1), column(0)],
                    below: [column(3), column(4)],
                    here: [here(0), here(1), here(2), here(3), here(4)],
                    other: &self.other.row(y)[x..x + n],
                };
                F::row(&lines, &mut self.out.row(y)[x..x + n]);
            }
        }
    }
}

/// Asserts what `vector` promises: the plain form of a formula and the form for this processor set a tile to the same bits.
#[cfg(test)]
pub(crate) fn same_in_all_forms<F: Formula>() {
    #[cfg(target_arch = "x86_64")]
    let chosen = std::arch::is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    let chosen = false;
    if !chosen {
        tanada_testing::skip("this processor has the plain form only");
        return;
    }
    const ROWS: usize = 24;
    const COLUMNS: usize = 601;
    let field = || Field::new(ROWS, COLUMNS).unwrap();
    let tile = |x, y, w, h| Tile {
        band: 0,
        strip: 0,
        x,
        y,
        w,
        h,
    };
    let (from, other, plain, fast) = (field(), field(), field(), field());
    // Of all sizes, so that rounding shows: a fused or reordered operation would compute other bits.
    let mut state = 1_u32;
    let mut number = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let size = [1e-40, 1e-3, 1.0, 100.0, 1e12][(state >> 8) as usize % 5];
        ((state >> 12) as f32 / (1 << 19) as f32 - 1.0) * size
    };
    for field in [&from, &other] {
        let mut all = field.write(rect(tile(0, 0, COLUMNS, ROWS)));
        (0..ROWS).for_each(|y| all.row(y).fill_with(&mut number));
    }
    let passes = Passes::new(Caches { own: 0, l1d: 1024 });
    // Tiles at the borders and inside, wider than a block, and of widths that no register divides.
    let tiles = [
        tile(0, 0, COLUMNS, ROWS),
        tile(3, 5, 259, 7),
        tile(600, 23, 1, 1),
    ];
    for tile in tiles {
        passes.pass::<F>((&from, &other), &plain, tile).run();
        passes.run::<F, _>((&from, &other), &fast, tile, &mut NoProbe);
        let (plain, fast) = (plain.read(rect(tile)), fast.read(rect(tile)));
        for y in 0..tile.h {
            let bits = |row: &[f32]| row.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(plain.row(y)), bits(fast.row(y)), "{tile:?}, row {y}");
            assert!(plain.row(y).iter().any(|&x| x != 0.0), "{tile:?}, row {y}");
        }
    }
}
