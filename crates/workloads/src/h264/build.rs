//! Registers the reconstruction tasks of a picture with their dependencies.
//!
//! The rules are those of [`tanada_h264::recon`], for units instead of macroblocks. Within a picture these tasks of unit (u, y) wait for:
//!
//! - luma residual: nothing;
//! - luma prediction: rows of reference pictures; in a unit with intra macroblocks also its residual, and the luma reconstruction of
//!   (u-1, y), (u-1, y-1), (u, y-1) and (u+1, y-1);
//! - luma reconstruction: residual and prediction of (u, y);
//! - chroma prediction and reconstruction: the same with chroma;
//! - deblocking of a plane: reconstruction of (u, y); deblocking of (u-1, y), (u, y-1) and (u+1, y-1); and reconstruction of (u+1, y),
//!   (u-1, y+1), (u, y+1) and (u+1, y+1) where they have intra macroblocks, which read their neighbours before these are deblocked.
//!
//! So the deblocking of the last unit of a row ends after everything in that row and in all rows above it: that is the task that a
//! later picture's prediction waits for.

use super::cut::Cut;
use super::groups::{Groups, Place};
use super::slot::Slot;
use super::{Options, index};
use std::collections::VecDeque;
use std::ops::Range;
use tanada_h264::{Job, Stage};
use tanada_runtime::{Scope, TaskBuilder, Token};

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
type RowEnd = [Token; 3];

/// What build tasks hand on from picture to picture.
pub(super) struct Builder {
    cut: Cut,
    groups: Groups,
    workers: u16,
    ahead: usize,
    /// The last pictures, by number. Older ones have ended: their output task came before the entropy task of this one.
    rows: VecDeque<(u64, Vec<RowEnd>)>,
    /// Reused memory.
    old: Vec<Vec<RowEnd>>,
    tokens: Tokens,
}

/// The tasks of the picture that is being built, by unit in raster order.
#[derive(Default)]
struct Tokens {
    luma: Vec<Token>,
    chroma: Vec<Token>,
    deblocking: [Vec<Token>; 3],
    intra: Vec<bool>,
    /// What prediction waits for in reference pictures: luma's ends, then chroma's, of one row.
    references: Vec<RowEnd>,
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

impl Grid {
    fn macroblocks(&self, unit: u32, row: u32) -> Range<u32> {
        let first = row * self.mb_width;
        first + unit * self.unit..first + ((unit + 1) * self.unit).min(self.mb_width)
    }

    /// Place of a unit in raster order, if it is in the picture.
    fn at(&self, unit: i64, row: i64) -> Option<usize> {
        let inside =
            (0..i64::from(self.units)).contains(&unit) && (0..i64::from(self.rows)).contains(&row);
        inside.then_some((row * i64::from(self.units) + unit) as usize)
    }

    /// The neighbours of a unit, as offsets, that are in the picture.
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

/// Whose pixels intra prediction reads.
const BEFORE: &[(i64, i64)] = &[(-1, 0), (-1, -1), (0, -1), (1, -1)];
/// Whose intra prediction reads a unit's pixels.
const READERS: &[(i64, i64)] = &[(1, 0), (-1, 1), (0, 1), (1, 1)];
/// Whose deblocking comes before a unit's.
const DEBLOCKED: &[(i64, i64)] = &[(-1, 0), (0, -1), (1, -1)];

impl Builder {
    pub(super) fn new(options: &Options, workers: u16, ahead: u32) -> Self {
        Builder {
            cut: options.cut,
            groups: options.groups,
            workers,
            ahead: ahead as usize,
            rows: VecDeque::new(),
            old: Vec::new(),
            tokens: Tokens::default(),
        }
    }

    /// Registers all tasks of the picture in `slot`, and lets `output`, of which this holds one count, wait for them.
    pub(super) fn build<'scope>(
        &mut self,
        s: &Scope<'scope>,
        picture: u64,
        slot: &'scope Slot,
        output: Token,
    ) {
        let job = slot.job();
        let unit = self.cut.unit(job.mb_width(), self.workers);
        let grid = Grid {
            picture,
            mb_width: job.mb_width(),
            rows: job.mb_height(),
            unit,
            units: job.mb_width().div_ceil(unit),
        };
        self.begin(job, &grid);
        let mut ends = self.old.pop().unwrap_or_default();
        for row in 0..=grid.rows {
            if row < grid.rows {
                self.find_references(job, row);
                match self.cut {
                    Cut::Own => self.whole_fronts(s, slot, &grid, row),
                    _ => self.front_stages(s, slot, &grid, row),
                }
            }
            // One row behind, because deblocking waits for the fronts of the next row.
            if let Some(row) = row.checked_sub(1) {
                let end = match self.cut {
                    Cut::Own => self.whole_rear(s, slot, &grid, row, ends.last()),
                    _ => self.rear_stages(s, slot, &grid, row),
                };
                ends.push(end);
            }
        }
        for token in ends.last().into_iter().flatten() {
            s.depend(output, *token)
                .expect("the output task waits for its own count");
        }
        s.resolve(output)
            .expect("the output task waits for one count");
        self.remember(job.frame().number(), ends);
    }

    fn begin(&mut self, job: &Job, grid: &Grid) {
        let Tokens {
            luma,
            chroma,
            deblocking,
            intra,
            ..
        } = &mut self.tokens;
        luma.clear();
        chroma.clear();
        deblocking.iter_mut().for_each(Vec::clear);
        intra.clear();
        for row in 0..grid.rows {
            intra.extend(
                (0..grid.units).map(|unit| grid.macroblocks(unit, row).any(|mb| job.is_intra(mb))),
            );
        }
    }

    fn remember(&mut self, number: u64, ends: Vec<RowEnd>) {
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
            if let Some((_, ends)) = rows.iter().find(|(number, _)| *number == frame.number()) {
                found.push(ends[last as usize]);
            }
        });
    }

    fn task<'a, 'scope>(
        &self,
        s: &'a Scope<'scope>,
        grid: &Grid,
        unit: u32,
        row: u32,
        stage: Stage,
        name: &'static str,
    ) -> TaskBuilder<'a, 'scope> {
        let place = Place {
            picture: grid.picture,
            row,
            rows: grid.rows,
            stage,
            workers: self.workers,
        };
        let (t, group) = self.groups.of(place);
        s.task(name)
            .index(index(grid.picture, row * grid.units + unit))
            .groups(t, group)
    }

    /// One task a unit and front stage.
    fn front_stages<'scope>(
        &mut self,
        s: &Scope<'scope>,
        slot: &'scope Slot,
        grid: &Grid,
        row: u32,
    ) {
        for unit in 0..grid.units {
            let here = grid
                .at(unit.into(), row.into())
                .expect("a unit of the picture");
            let intra = self.tokens.intra[here];
            let mbs = grid.macroblocks(unit, row);
            let task = |stage: Stage| self.task(s, grid, unit, row, stage, NAMES[stage as usize]);
            let run = |stage: Stage| {
                let mbs = mbs.clone();
                move |_: &Scope<'scope>| mbs.for_each(|mb| slot.job().run_stage(stage, mb))
            };
            let predict_and_add = |prediction: Stage, reconstruction: Stage| {
                let mbs = mbs.clone();
                move |_: &Scope<'scope>| {
                    for mb in mbs {
                        slot.job().run_stage(prediction, mb);
                        if intra {
                            slot.job().run_stage(reconstruction, mb);
                        }
                    }
                }
            };
            let nothing = |_: &Scope<'scope>| ();
            let before = || grid.near(unit, row, BEFORE).filter(|_| intra);
            let Tokens {
                references,
                luma,
                chroma,
                ..
            } = &self.tokens;

            let residual = task(Stage::LumaResidual).register(run(Stage::LumaResidual));
            let prediction = task(Stage::LumaPrediction)
                .after(references.iter().map(|end| end[0]))
                .after(intra.then_some(residual))
                .after(before().map(|at| luma[at]))
                .register(predict_and_add(
                    Stage::LumaPrediction,
                    Stage::LumaReconstruction,
                ));
            let luma = task(Stage::LumaReconstruction).after([residual, prediction]);
            let luma = if intra {
                luma.register(nothing)
            } else {
                luma.register(run(Stage::LumaReconstruction))
            };

            let prediction = task(Stage::ChromaPrediction)
                .after(references.iter().flat_map(|end| [end[1], end[2]]))
                .after(before().map(|at| chroma[at]))
                .register(predict_and_add(
                    Stage::ChromaPrediction,
                    Stage::ChromaReconstruction,
                ));
            let chroma = task(Stage::ChromaReconstruction).after([prediction]);
            let chroma = if intra {
                chroma.register(nothing)
            } else {
                chroma.register(run(Stage::ChromaReconstruction))
            };
            self.tokens.luma.push(luma);
            self.tokens.chroma.push(chroma);
        }
    }

    /// One task a unit and rear stage. Returns the last unit's.
    fn rear_stages<'scope>(
        &mut self,
        s: &Scope<'scope>,
        slot: &'scope Slot,
        grid: &Grid,
        row: u32,
    ) -> RowEnd {
        for unit in 0..grid.units {
            let here = grid
                .at(unit.into(), row.into())
                .expect("a unit of the picture");
            for (plane, stage) in Stage::REAR.into_iter().enumerate() {
                let fronts = if plane == 0 {
                    &self.tokens.luma
                } else {
                    &self.tokens.chroma
                };
                let deblocked = &self.tokens.deblocking[plane];
                let readers = grid
                    .near(unit, row, READERS)
                    .filter(|&at| self.tokens.intra[at]);
                let mbs = grid.macroblocks(unit, row);
                let token = self
                    .task(s, grid, unit, row, stage, NAMES[stage as usize])
                    .after([fronts[here]])
                    .after(readers.map(|at| fronts[at]))
                    .after(grid.near(unit, row, DEBLOCKED).map(|at| deblocked[at]))
                    .register(move |_| mbs.for_each(|mb| slot.job().run_stage(stage, mb)));
                self.tokens.deblocking[plane].push(token);
            }
        }
        std::array::from_fn(|plane| {
            *self.tokens.deblocking[plane]
                .last()
                .expect("a row has units")
        })
    }

    /// One task a unit for all front stages.
    fn whole_fronts<'scope>(
        &mut self,
        s: &Scope<'scope>,
        slot: &'scope Slot,
        grid: &Grid,
        row: u32,
    ) {
        for unit in 0..grid.units {
            let here = grid
                .at(unit.into(), row.into())
                .expect("a unit of the picture");
            let intra = self.tokens.intra[here];
            let mbs = grid.macroblocks(unit, row);
            let near = grid.near(unit, row, BEFORE).filter(|_| intra);
            let token = self
                .task(s, grid, unit, row, Stage::LumaResidual, "front")
                .after(self.tokens.references.iter().flatten().copied())
                .after(near.map(|at| self.tokens.luma[at]))
                .register(move |_| {
                    let job = slot.job();
                    mbs.for_each(|mb| {
                        Stage::FRONT
                            .into_iter()
                            .for_each(|stage| job.run_stage(stage, mb))
                    });
                });
            self.tokens.luma.push(token);
        }
    }

    /// One task for all rear stages of a row. Where no macroblock needs one, it only joins the row.
    fn whole_rear<'scope>(
        &mut self,
        s: &Scope<'scope>,
        slot: &'scope Slot,
        grid: &Grid,
        row: u32,
        above: Option<&RowEnd>,
    ) -> RowEnd {
        let row_of = |row: u32| (row * grid.units) as usize..((row + 1) * grid.units) as usize;
        let (luma, intra) = (&self.tokens.luma, &self.tokens.intra);
        let readers = (row + 1 < grid.rows)
            .then(|| row_of(row + 1))
            .into_iter()
            .flatten()
            .filter(|&at| intra[at]);
        let mbs = grid.macroblocks(0, row).start..grid.macroblocks(grid.units - 1, row).end;
        let token = self
            .task(s, grid, 0, row, Stage::LumaDeblocking, "rear")
            .after(row_of(row).map(|at| luma[at]))
            .after(readers.map(|at| luma[at]))
            .after(above.map(|end| end[0]))
            .register(move |_| {
                let job = slot.job();
                mbs.for_each(|mb| {
                    Stage::REAR
                        .into_iter()
                        .for_each(|stage| job.run_stage(stage, mb))
                });
            });
        [token; 3]
    }
}
