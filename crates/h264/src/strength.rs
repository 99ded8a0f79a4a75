//! Clause 8.7.2.1: boundary strengths. They are part of entropy decoding, since they need no pixel.
//!
//! The parser computes those of a macroblock directly behind its syntax, from the edges that it keeps for prediction. Strengths of edges
//! between slices are computed when the picture is complete, since slices may come in any order and may be lost.

use crate::job::{Job, Mb, Mv, Shape, Stage};
use crate::neighbours::Edge;

/// bS 1 in all four parts of an edge; multiplied by n, bS n.
const ALL: u16 = 0x1111;
/// [`ALL`] restricted to the parts in a set of four bits.
const SPREAD: [u16; 16] = {
    let mut spread = [0; 16];
    let mut i = 0;
    while i < 16 {
        spread[i] = (i & 1 | (i & 2) << 3 | (i & 4) << 6 | (i & 8) << 9) as u16;
        i += 1;
    }
    spread
};

/// Returns whether two vectors differ by four quarter samples or more in x or in y.
#[inline(always)]
fn far(a: Mv, b: Mv) -> bool {
    // One comparison for both signs.
    let far = |a: i16, b: i16| (i32::from(a) - i32::from(b) + 3) as u32 > 6;
    far(a.x, b.x) | far(a.y, b.y)
}

/// Returns the four bS of an outer edge of an inter macroblock whose own side is `here`; 0 if `there` is not available.
#[inline(always)]
pub(crate) fn outer(there: &Edge, here: &Edge) -> u16 {
    if there.plain & here.plain {
        let moved = far(there.mv[0].get(), here.mv[0].get()) | (there.slot[0] != here.slot[0]);
        return if moved { ALL } else { 0 };
    }
    outer_of_blocks(there, here)
}

/// Adds the strengths of the outer edges to an inter macroblock with one vector and without luma coefficients, whose edges are `own`.
#[inline(always)]
pub(crate) fn plain(mb: &mut Mb, own: &Edge, left: &Edge, above: &Edge) {
    let (vertical, horizontal) = (outer(left, own), outer(above, own));
    mb.bs_vertical[0] = vertical;
    mb.bs_horizontal[0] = horizontal;
    if vertical | horizontal != 0 {
        mb.stages |= Stage::DEBLOCKING;
    }
}

#[inline(never)]
fn outer_of_blocks(there: &Edge, here: &Edge) -> u16 {
    if !there.is_available() {
        return 0;
    }
    if there.is_intra() {
        return 4 * ALL;
    }
    (0..4).rev().fold(0, |all, i| {
        let strength = if there.luma[i] | here.luma[i] != 0 {
            2
        } else {
            let moved =
                far(there.mv[i].get(), here.mv[i].get()) | (there.slot[i / 2] != here.slot[i / 2]);
            u16::from(moved)
        };
        all << 4 | strength
    })
}

/// Sets the strengths of an intra macroblock, whose left and upper neighbours have the edges `left` and `above`.
pub(crate) fn intra(mb: &mut Mb, left: &Edge, above: &Edge) {
    let outer = |edge: &Edge| if edge.is_available() { 4 * ALL } else { 0 };
    mb.bs_vertical = [outer(left), 3 * ALL, 3 * ALL, 3 * ALL];
    mb.bs_horizontal = [outer(above), 3 * ALL, 3 * ALL, 3 * ALL];
}

/// Sets the strengths of the inner edges of an inter macroblock.
pub(crate) fn inner(mb: &mut Mb, mvs: &[Mv; 16]) {
    let coded = mb.coded_raster();
    let moved = match mb.shape {
        Shape::Whole => Moved::default(),
        _ => Moved::new(mb, mvs),
    };
    for edge in 1..4 {
        let vertical = (coded >> edge | coded >> (edge - 1)) & ALL;
        let horizontal = coded >> (4 * edge) | coded >> (4 * edge - 4);
        let horizontal = SPREAD[usize::from(horizontal & 15)];
        mb.bs_vertical[edge] = (2 * vertical) | (moved.vertical[edge] & !vertical);
        mb.bs_horizontal[edge] = (2 * horizontal) | (moved.horizontal[edge] & !horizontal);
    }
}

/// The parts of inner edges across which the motion changes, as bS 1.
#[derive(Default)]
struct Moved {
    vertical: [u16; 4],
    horizontal: [u16; 4],
}

impl Moved {
    fn new(mb: &Mb, mvs: &[Mv; 16]) -> Self {
        let mut moved = Moved::default();
        let slot = |at: usize| mb.ref_slot[at / 8 * 2 + at % 4 / 2];
        let across =
            |p: usize, q: usize| u16::from(far(mvs[p], mvs[q]) | (slot(p) != slot(q))) * ALL;
        match mb.shape {
            Shape::Whole => {}
            Shape::Rows => moved.horizontal[2] = across(4, 8),
            Shape::Columns => moved.vertical[2] = across(1, 2),
            Shape::Quarters => {
                for edge in 1..4 {
                    for i in 0..4 {
                        let (x, y) = (4 * i + edge, 4 * edge + i);
                        moved.vertical[edge] |= across(x - 1, x) & 15 << (4 * i);
                        moved.horizontal[edge] |= across(y - 4, y) & 15 << (4 * i);
                    }
                }
            }
        }
        moved
    }
}

/// Computes the strengths of edges between the slice of the macroblocks from `first` to before `end` and other slices, if it is deblocked
/// across them. All macroblocks of the picture must have been parsed.
pub(crate) fn across_slices(job: &mut Job, (first, end): (u32, u32)) {
    let width = job.mb_width as usize;
    let (first, end) = (first as usize, end as usize);
    if first == end || job.slices[usize::from(job.mbs[first].slice)].deblocking != 0 {
        return;
    }
    for at in first..end.min(first + width) {
        let neighbour = |exists: bool, distance: usize, corner: usize, step: usize| {
            if exists {
                let other = at - distance;
                Edge::of(&job.mbs[other], &job.mvs[other], corner, step)
            } else {
                Edge::OUTSIDE
            }
        };
        let left = neighbour(!at.is_multiple_of(width), 1, 3, 4);
        let above = neighbour(at >= width, width, 12, 1);
        let (mb, mvs) = (&mut job.mbs[at], &job.mvs[at]);
        if mb.is_intra() {
            intra(mb, &left, &above);
        } else {
            mb.bs_vertical[0] = outer(&left, &Edge::of(mb, mvs, 0, 4));
            mb.bs_horizontal[0] = outer(&above, &Edge::of(mb, mvs, 0, 1));
        }
        mb.stages = mb.needed_stages();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Slice;
    use crate::{Decoder, Limits, NalStream};

    /// Returns bS between block `p` of macroblock `a` and block `q` of macroblock `b` by the definition of 8.7.2.1.
    fn by_definition(job: &Job, [a, p]: [usize; 2], [b, q]: [usize; 2], outer: bool) -> u16 {
        let (m, n) = (&job.mbs[a], &job.mbs[b]);
        if m.is_intra() || n.is_intra() {
            return if outer { 4 } else { 3 };
        }
        let index = |raster: usize| crate::macroblock::RASTER[raster];
        if m.coded >> index(p) & 1 != 0 || n.coded >> index(q) & 1 != 0 {
            return 2;
        }
        let motion = |at: usize, block: usize| {
            let mb = &job.mbs[at];
            let slot = mb.ref_slot[block / 8 * 2 + block % 4 / 2];
            let mv = match mb.shape {
                Shape::Whole => mb.mv,
                _ => job.mvs[at][block],
            };
            (slot, i32::from(mv.x), i32::from(mv.y))
        };
        let ((slot, x, y), (other_slot, other_x, other_y)) = (motion(a, p), motion(b, q));
        let moved = slot != other_slot || (x - other_x).abs() >= 4 || (y - other_y).abs() >= 4;
        u16::from(moved)
    }

    fn check(job: &Job) {
        let width = job.mb_width as usize;
        for (at, mb) in job.mbs.iter().enumerate() {
            let Slice { deblocking, .. } = job.slices[usize::from(mb.slice)];
            let filtered = |other: usize| {
                deblocking == 0 || deblocking == 2 && job.mbs[other].slice == mb.slice
            };
            let edge =
                |number: usize, exists: bool, distance: usize, [across, along]: [usize; 2]| {
                    (0..4).fold(0, |all, i| {
                        let q = number * across + i * along;
                        let bs = if deblocking == 1 {
                            0
                        } else if number > 0 {
                            by_definition(job, [at, q - across], [at, q], false)
                        } else if exists && filtered(at - distance) {
                            by_definition(job, [at - distance, q + 3 * across], [at, q], true)
                        } else {
                            0
                        };
                        all | bs << (4 * i)
                    })
                };
            let vertical = [0, 1, 2, 3].map(|n| edge(n, !at.is_multiple_of(width), 1, [1, 4]));
            let horizontal = [0, 1, 2, 3].map(|n| edge(n, at >= width, width, [4, 1]));
            assert_eq!((mb.bs_vertical, mb.bs_horizontal), (vertical, horizontal));
            assert_eq!(mb.stages, mb.needed_stages());
        }
    }

    /// Checks all pictures of a stream, which may be damaged, and returns their number.
    fn check_stream(stream: &[u8]) -> usize {
        let mut decoder = Decoder::new(Limits::default());
        let mut units = NalStream::new(stream);
        let mut pictures = 0;
        while let Some(picture) = decoder.next_picture(&mut units) {
            let Ok(job) = picture else { continue };
            check(&job);
            pictures += 1;
            while decoder.next_output().is_some() {}
        }
        pictures
    }

    #[test]
    fn strengths_are_those_of_the_definition() {
        let stream = include_bytes!("../tests/data/pattern.264");
        assert_eq!(check_stream(stream), 24);
        // Lost and broken slices, whose neighbours are concealed macroblocks.
        for seed in 0..40 {
            let mut damaged = stream.to_vec();
            let length = damaged.len();
            for n in 0..6 {
                damaged[(seed * 7919 + n * 104_729 + 200) % length] ^= 1 << (n % 8);
            }
            check_stream(&damaged);
        }
    }

    #[test]
    fn strengths_of_conformance_streams_are_those_of_the_definition() {
        for path in tanada_testing::streams("conformance") {
            let stream = std::fs::read(path).unwrap();
            assert!(check_stream(&stream) > 0);
        }
    }
}
