//! Reconstruction: clauses 8.3 (intra), 8.4.2 (inter), 8.5 (transform) and 8.7 (deblocking), cut into the eight stages
//! of paper 1.
//!
//! # Which (stage, macroblock) must have ended before which may start
//!
//! Pixels are reconstructed in the frame itself and residuals in the job itself: there are no further buffers, and so the
//! order below is all that makes concurrent stages right. (x, y) is a macroblock by column and row; neighbours outside
//! the picture count as ended; so do stages for which [`Job::needs`] is false, *once what they would wait for has ended*
//! (a task graph may leave such a task out when it gives its dependencies on to its successors; where the table names
//! several stages of one macroblock, these are always the macroblock's own chain). "Front" is {0, 1, 2} for luma and
//! {4, 5} for chroma.
//!
//! | stage of (x, y) | waits for |
//! |---|---|
//! | 0 luma residual | nothing |
//! | 1 luma prediction, intra | 0 of (x, y) (4x4 only); 1 and 2 of (x-1, y), (x-1, y-1), (x, y-1), (x+1, y-1) |
//! | 1 luma prediction, inter | the rows of reference pictures that [`Job::reference_reach`] names, stages 1, 2, 3 |
//! | 2 luma reconstruction | 0 and 1 of (x, y) |
//! | 3 luma deblocking | 1, 2 of (x, y), (x+1, y), (x-1, y+1), (x, y+1), (x+1, y+1); 3 of (x-1, y), (x, y-1), (x+1, y-1) |
//! | 4 chroma residual and prediction, intra | 4 and 5 of (x-1, y), (x-1, y-1), (x, y-1) |
//! | 4 chroma residual and prediction, inter | the rows of reference pictures, stages 4, 5, 6, 7 |
//! | 5 chroma reconstruction | 4 of (x, y) |
//! | 6, 7 chroma deblocking | 4, 5 of (x, y), (x+1, y), (x, y+1), (x+1, y+1); 6 (7) of (x-1, y), (x, y-1) and (x+1, y-1) |
//!
//! Why: intra prediction reads its neighbours before they are deblocked, in place, so deblocking of (x, y), which changes
//! (x, y) itself, the right three columns of (x-1, y) and the lower three rows of (x, y-1), waits for all who predict from
//! these pixels: (x+1, y), (x-1, y+1) (upper right neighbour of its 4x4 blocks), (x, y+1) and (x+1, y+1) (upper left
//! pixel). Left and upper neighbours come first because the standard filters macroblocks in raster order and each reads
//! what the one before has changed; (x+1, y-1) because its left edge changes pixels of (x, y-1) that the upper edge of
//! (x, y) reads. Waiting for the front of (x+1, y+1) and, by way of (x-1, y), of all to its left makes the front of the row
//! below complete up to that column.

use std::ops::Range;
use std::sync::Arc;

use crate::frame::Frame;
use crate::job::{Job, Stage};
use crate::probe::Probe;

pub(crate) fn run<P: Probe>(_job: &Job, _stage: Stage, _mb: usize, _probe: &mut P) {}
pub(crate) fn reference_reach(_job: &Job, _mb_rows: Range<u32>, _f: &mut dyn FnMut(&Arc<Frame>, u32)) {}
