//! Declares the reconstruction tasks of a picture with their dependencies, to a [`Graph`]: the scope that runs them, or a recording.
//!
//! The rules are those of [`tanada_h264::recon`], for units instead of macroblocks. Within a picture these tasks of unit (u, y) wait for:
//!
//! - luma residual: nothing;
//! - luma prediction: rows of reference pictures; in a unit with intra macroblocks also its residual, and the luma reconstruction of
//!   (u-1, y), (u-1, y-1), (u, y-1) and (u+1, y-1);
//! - luma reconstruction: residual and prediction of (u, y);
//! - chroma prediction and reconstruction: the same with chroma;
//! - deblocking of a plane: reconstruction of (u, y); deblocking of (u-1, y), (u, y-1) and (u+1, y-1); and reconstruction of (u+1, y),
//!   (u-1, y+1), (u, y+1) and (u+1, y+1) if they have intra macroblocks, which read their neighbours before these are deblocked.
//!
//! A task that stands for several stages waits for what each of them waits for. With [`Dependencies::Fixed`] every unit waits, and is
//! waited for, as one with intra macroblocks, and luma residual, too, waits for that of the four units before: what tasks do does not
//! change.
//!
//! So the deblocking of the last unit of a row ends after everything in that row and in all rows above it: that is the task that a
//! later picture's prediction waits for.

use super::cut::{Cut, Dependencies};
use super::graph::{At, Declared, Graph, Work};
use super::groups::Place;
use super::index;
use std::collections::VecDeque;
use std::ops::Range;
use tanada_h264::{Job, Stage};

/// The names of the stages' tasks, by stage.
const NAMES: [&str; 8] = [
    "luma residual",
    "luma prediction",
    "luma reconstruction",
    "luma deblocking",
    "chroma prediction",
    "chroma reconstruction",
    "Cb deblocking",
    "Cr deblocking",
];

/// One plane's (or all planes') deblocking of a row has ended when these tasks have: luma, Cb, Cr.
type RowEnd<K> = [End<K>; 3];

/// A task that a few others wait for: the runtime keeps six waiting tasks in place, and allocates a list for more.
#[derive(Clone, Copy)]
struct End<K> {
    token: K,
    /// Tasks that may still wait for `token`, besides a join that stands for it.
    left: u8,
}

impl<K: Copy> End<K> {
    /// Tasks that may wait for another, a join among them: one less than the runtime keeps in place, because the row below waits as well
    /// and is not counted here (see `whole_row`).
    const FEW: u8 = 5;

    fn new(token: K) -> Self {
        End {
            token,
            left: Self::FEW - 1,
        }
    }

    /// Returns the token that one more task waits for. If enough tasks wait for `token` already, a join with the place of that task is
    /// registered behind it, and its token is returned.
    fn claim(&mut self, graph: &mut impl Graph<Token = K>, at: At) -> K {
        if self.left == 0 {
            let join = Declared {
                name: "join",
                at,
                work: Work::Nothing,
            };
            *self = End::new(graph.register(join, [self.token]));
        }
        self.left -= 1;
        self.token
    }
}

/// What is kept from picture to picture.
pub(crate) struct Builder<K> {
    cut: Cut,
    dependencies: Dependencies,
    workers: u16,
    ahead: usize,
    /// The last pictures, by number. Older ones have ended: their output task came before the entropy task of this one.
    rows: VecDeque<(u64, Vec<RowEnd<K>>)>,
    /// Reused memory.
    old: Vec<Vec<RowEnd<K>>>,
    tokens: Tokens<K>,
}

/// The tasks of the picture that is being built, by unit in raster order.
struct Tokens<K> {
    residuals: Vec<K>,
    luma: Vec<End<K>>,
    chroma: Vec<End<K>>,
    deblocking: [Vec<K>; 3],
    intra: Vec<bool>,
    /// Whether a unit waits, and is waited for, as one with intra macroblocks.
    chained: Vec<bool>,
    /// The rows of reference pictures that prediction of one row waits for: places in `Builder::rows` and in its list.
    references: Vec<(usize, usize)>,
    /// What the task that is being registered waits for.
    waits: Vec<K>,
}

/// Which tasks a row has.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// One for its front stages and the rear stages of the row above, which it has left in the cache.
    Rows,
    /// One a unit for all front stages, and one for all rear stages.
    Units,
    /// One a unit and stage.
    Stages,
}

/// The units of a picture.
#[derive(Clone, Copy)]
struct Grid {
    picture: u64,
    mb_width: u32,
    rows: u32,
    unit: u32,
    /// Units a row.
    units: u32,
}

/// A unit of a row.
struct Unit {
    unit: u32,
    /// Its place in raster order.
    at: usize,
    mbs: Range<u32>,
}

impl Grid {
    /// Returns the units of a row.
    fn units_of(&self, row: u32) -> impl Iterator<Item = Unit> {
        let grid = *self;
        (0..grid.units).map(move |unit| Unit {
            unit,
            at: (row * grid.units + unit) as usize,
            mbs: grid.macroblocks(unit, row),
        })
    }

    fn macroblocks(&self, unit: u32, row: u32) -> Range<u32> {
        let first = row * self.mb_width;
        first + unit * self.unit..first + ((unit + 1) * self.unit).min(self.mb_width)
    }

    /// Returns the place of a unit in raster order, if it is in the picture.
    fn at(&self, unit: i64, row: i64) -> Option<usize> {
        let inside =
            (0..i64::from(self.units)).contains(&unit) && (0..i64::from(self.rows)).contains(&row);
        inside.then_some((row * i64::from(self.units) + unit) as usize)
    }

    /// Returns the neighbours of a unit, as offsets, that are in the picture.
    fn near(
        &self,
        unit: u32,
        row: u32,
        offsets: &'static [(i64, i64)],
    ) -> impl Iterator<Item = usize> {
        let grid = *self;
        offsets
            .iter()
            .filter_map(move |(x, y)| grid.at(i64::from(unit) + x, i64::from(row) + y))
    }
}

/// The units whose pixels intra prediction reads.
const BEFORE: &[(i64, i64)] = &[(-1, 0), (-1, -1), (0, -1), (1, -1)];
/// The units whose intra prediction reads a unit's pixels.
const READERS: &[(i64, i64)] = &[(1, 0), (-1, 1), (0, 1), (1, 1)];
/// The units whose deblocking comes before a unit's.
const DEBLOCKED: &[(i64, i64)] = &[(-1, 0), (0, -1), (1, -1)];

impl<K: Copy> Builder<K> {
    /// Returns a builder for `workers` workers and up to `ahead` pictures at once.
    pub(crate) fn new(cut: Cut, dependencies: Dependencies, workers: u16, ahead: u32) -> Self {
        Builder {
            cut,
            dependencies,
            workers,
            ahead: ahead as usize,
            rows: VecDeque::new(),
            old: Vec::new(),
            tokens: Tokens {
                residuals: Vec::new(),
                luma: Vec::new(),
                chroma: Vec::new(),
                deblocking: [const { Vec::new() }; 3],
                intra: Vec::new(),
                chained: Vec::new(),
                references: Vec::new(),
                waits: Vec::new(),
            },
        }
    }

    /// Registers all tasks of a picture. Returns its last tasks: once these have ended, all have.
    pub(crate) fn build(
        &mut self,
        graph: &mut impl Graph<Token = K>,
        picture: u64,
        job: &Job,
    ) -> std::iter::Flatten<std::array::IntoIter<Option<K>, 3>> {
        let unit = self.cut.unit(job.mb_width(), self.workers);
        let grid = Grid {
            picture,
            mb_width: job.mb_width(),
            rows: job.mb_height(),
            unit,
            units: job.mb_width().div_ceil(unit),
        };
        let shape = match self.cut {
            Cut::Default if grid.units == 1 => Shape::Rows,
            Cut::Default => Shape::Units,
            _ => Shape::Stages,
        };
        self.begin(job, &grid);
        let mut ends = self.old.pop().unwrap_or_default();
        for row in 0..=grid.rows {
            if row < grid.rows {
                self.find_references(job, row);
                match shape {
                    Shape::Rows => self.whole_row(graph, &grid, row),
                    Shape::Units => self.whole_fronts(graph, &grid, row),
                    Shape::Stages => self.front_stages(graph, &grid, row),
                }
            }
            // One row behind, because deblocking waits for the fronts of the next row.
            if let Some(row) = row.checked_sub(1) {
                let end = match shape {
                    // The last row is deblocked with the one above: its end is that one's (see `find_references`), and counts once.
                    Shape::Rows if row > 0 && row + 1 == grid.rows => continue,
                    Shape::Rows => {
                        let deblocks = (row + 1).min(grid.rows - 1);
                        [self.tokens.luma[deblocks as usize]; 3]
                    }
                    Shape::Units => self.whole_rear(graph, &grid, row, ends.last_mut()),
                    Shape::Stages => self.rear_stages(graph, &grid, row),
                };
                ends.push(end);
            }
        }
        // With our own cut the ends of the three planes are one.
        let planes = if self.cut == Cut::Default { 1 } else { 3 };
        let at = self.at(&grid, 0, grid.rows - 1, Stage::LumaDeblocking);
        let last = ends.last_mut().expect("a picture has rows");
        let last: [Option<K>; 3] =
            std::array::from_fn(|plane| (plane < planes).then(|| last[plane].claim(graph, at)));
        self.remember(job.frame().number(), ends);
        last.into_iter().flatten()
    }

    fn begin(&mut self, job: &Job, grid: &Grid) {
        let tokens = &mut self.tokens;
        tokens.residuals.clear();
        tokens.luma.clear();
        tokens.chroma.clear();
        tokens.deblocking.iter_mut().for_each(Vec::clear);
        tokens.intra.clear();
        for row in 0..grid.rows {
            let units = 0..grid.units;
            let intra = units.map(|unit| grid.macroblocks(unit, row).any(|mb| job.is_intra(mb)));
            tokens.intra.extend(intra);
        }
        tokens.chained.clone_from(&tokens.intra);
        if self.dependencies == Dependencies::Fixed {
            tokens.chained.fill(true);
        }
    }

    fn remember(&mut self, number: u64, ends: Vec<RowEnd<K>>) {
        self.rows.push_back((number, ends));
        if self.rows.len() > self.ahead {
            let (_, mut oldest) = self.rows.pop_front().expect("more than none");
            oldest.clear();
            self.old.push(oldest);
        }
    }

    /// Which rows of pictures that may still be on their way the prediction of `row` reads.
    fn find_references(&mut self, job: &Job, row: u32) {
        let (rows, found) = (&self.rows, &mut self.tokens.references);
        found.clear();
        job.reference_reach(row..row + 1, &mut |frame, last| {
            let of_frame = rows
                .iter()
                .position(|(number, _)| *number == frame.number());
            // Where two rows end with one task, the last is not there.
            found.extend(of_frame.map(|at| (at, (last as usize).min(rows[at].1.len() - 1))));
        });
    }

    /// Returns the index and the place of a task.
    fn at(&self, grid: &Grid, unit: u32, row: u32, stage: Stage) -> At {
        At {
            index: index(grid.picture, row * grid.units + unit),
            place: Place {
                picture: grid.picture,
                row,
                rows: grid.rows,
                stage,
                workers: self.workers,
            },
        }
    }

    /// One task a unit and front stage.
    fn front_stages(&mut self, graph: &mut impl Graph<Token = K>, grid: &Grid, row: u32) {
        for unit in grid.units_of(row) {
            let intra = self.tokens.intra[unit.at];
            let chained = self.tokens.chained[unit.at];
            let declare = |stage: Stage, work| Declared {
                name: NAMES[stage as usize],
                at: self.at(grid, unit.unit, row, stage),
                work,
            };
            let one = |stage: Stage| Work::Stage(stage, unit.mbs.clone());
            // Intra prediction reads what was reconstructed left of it, in the same task, too.
            let predict = |prediction: Stage, reconstruction: Stage| match intra {
                true => Work::Stages([prediction, reconstruction], unit.mbs.clone()),
                false => one(prediction),
            };
            let add = |stage: Stage| match intra {
                true => Work::Nothing,
                false => one(stage),
            };
            let before = || grid.near(unit.unit, row, BEFORE).filter(|_| chained);
            let tokens = &self.tokens;
            let references = || {
                tokens
                    .references
                    .iter()
                    .map(|&(at, row)| &self.rows[at].1[row])
            };

            let stage = Stage::LumaResidual;
            let fixed = self.dependencies == Dependencies::Fixed;
            let before_it = grid.near(unit.unit, row, BEFORE).filter(|_| fixed);
            let residual = graph.register(
                declare(stage, one(stage)),
                before_it.map(|at| tokens.residuals[at]),
            );
            let prediction = graph.register(
                declare(
                    Stage::LumaPrediction,
                    predict(Stage::LumaPrediction, Stage::LumaReconstruction),
                ),
                references()
                    .map(|end| end[0].token)
                    .chain(chained.then_some(residual))
                    .chain(before().map(|at| tokens.luma[at].token)),
            );
            let stage = Stage::LumaReconstruction;
            let luma_end = graph.register(declare(stage, add(stage)), [residual, prediction]);

            let prediction = graph.register(
                declare(
                    Stage::ChromaPrediction,
                    predict(Stage::ChromaPrediction, Stage::ChromaReconstruction),
                ),
                references()
                    .flat_map(|end| [end[1].token, end[2].token])
                    .chain(before().map(|at| tokens.chroma[at].token)),
            );
            let stage = Stage::ChromaReconstruction;
            let chroma_end = graph.register(declare(stage, add(stage)), [prediction]);
            self.tokens.residuals.push(residual);
            self.tokens.luma.push(End::new(luma_end));
            self.tokens.chroma.push(End::new(chroma_end));
        }
    }

    /// One task a unit and rear stage. Returns the last unit's.
    fn rear_stages(
        &mut self,
        graph: &mut impl Graph<Token = K>,
        grid: &Grid,
        row: u32,
    ) -> RowEnd<K> {
        for Unit { unit, at, mbs } in grid.units_of(row) {
            for (plane, stage) in Stage::REAR.into_iter().enumerate() {
                let fronts = if plane == 0 {
                    &self.tokens.luma
                } else {
                    &self.tokens.chroma
                };
                let deblocked = &self.tokens.deblocking[plane];
                let readers = grid
                    .near(unit, row, READERS)
                    .filter(|&at| self.tokens.chained[at]);
                let waits = std::iter::once(fronts[at].token)
                    .chain(readers.map(|at| fronts[at].token))
                    .chain(grid.near(unit, row, DEBLOCKED).map(|at| deblocked[at]));
                let task = Declared {
                    name: NAMES[stage as usize],
                    at: self.at(grid, unit, row, stage),
                    work: Work::Stage(stage, mbs.clone()),
                };
                let token = graph.register(task, waits);
                self.tokens.deblocking[plane].push(token);
            }
        }
        std::array::from_fn(|plane| {
            End::new(
                *self.tokens.deblocking[plane]
                    .last()
                    .expect("a row has units"),
            )
        })
    }

    /// One task for all front stages of a row, and behind them all rear stages of the row above. (After the last row, of that as well.)
    fn whole_row(&mut self, graph: &mut impl Graph<Token = K>, grid: &Grid, row: u32) {
        let at = self.at(grid, 0, row, Stage::LumaResidual);
        // The row above, for intra prediction and because deblocking goes from row to row. (Its end has been copied to the ends of rows
        // before: this claim is not counted there.)
        let above = self.tokens.luma.last_mut();
        let above = above.map(|above| above.claim(graph, at));
        self.tokens.waits.extend(above);
        self.wait_for_references(graph, at);
        let work = Work::Row {
            width: grid.mb_width,
            front: row,
            rear: row.saturating_sub(1)..row + u32::from(row + 1 == grid.rows),
        };
        let end = self.register(graph, "row", at, work);
        self.tokens.luma.push(end);
    }

    /// One task a unit for all front stages.
    fn whole_fronts(&mut self, graph: &mut impl Graph<Token = K>, grid: &Grid, row: u32) {
        for unit in grid.units_of(row) {
            let at = self.at(grid, unit.unit, row, Stage::LumaResidual);
            let tokens = &mut self.tokens;
            if tokens.chained[unit.at] {
                let near = grid.near(unit.unit, row, BEFORE);
                let near = near.map(|unit| tokens.luma[unit].claim(graph, at));
                tokens.waits.extend(near);
            }
            self.wait_for_references(graph, at);
            let end = self.register(graph, "front", at, Work::Front(unit.mbs));
            self.tokens.luma.push(end);
        }
    }

    /// The next task of [`Builder::register`] waits for the rows that [`Builder::find_references`] has found.
    fn wait_for_references(&mut self, graph: &mut impl Graph<Token = K>, at: At) {
        for &(picture, row) in &self.tokens.references {
            let token = self.rows[picture].1[row][0].claim(graph, at);
            self.tokens.waits.push(token);
        }
    }

    /// Registers a task that waits for `Tokens::waits`, which is then empty, and returns the task's end.
    fn register(
        &mut self,
        graph: &mut impl Graph<Token = K>,
        name: &'static str,
        at: At,
        work: Work,
    ) -> End<K> {
        let waits = self.tokens.waits.drain(..);
        End::new(graph.register(Declared { name, at, work }, waits))
    }

    /// Declares one task for all rear stages of a row and returns the row's end. If no macroblock needs one, the task only joins the row.
    fn whole_rear(
        &mut self,
        graph: &mut impl Graph<Token = K>,
        grid: &Grid,
        row: u32,
        above: Option<&mut RowEnd<K>>,
    ) -> RowEnd<K> {
        let at = self.at(grid, 0, row, Stage::LumaDeblocking);
        let tokens = &mut self.tokens;
        let readers = (row + 1 < grid.rows).then(|| grid.units_of(row + 1));
        let readers = readers.into_iter().flatten().map(|unit| unit.at);
        let own = grid.units_of(row).map(|unit| unit.at);
        let fronts = own.chain(readers.filter(|&unit| tokens.chained[unit]));
        let fronts = fronts.map(|unit| tokens.luma[unit].claim(graph, at));
        tokens.waits.extend(fronts);
        tokens
            .waits
            .extend(above.map(|end| end[0].claim(graph, at)));
        let mbs = row * grid.mb_width..(row + 1) * grid.mb_width;
        [self.register(graph, "rear", at, Work::Rear(mbs)); 3]
    }
}
