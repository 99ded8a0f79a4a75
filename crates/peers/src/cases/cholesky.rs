//! The Cholesky factorisation of a matrix of 4,096 rows in tiles: 5,984, 45,760 or 357,760 tasks, with dependencies.
//!
//! All peers run the same kernels (`native/cholesky.c`) on tiles that lie one after the other, and register steps in the same order; each
//! run's factor is compared with that of the plain loop, bit by bit. `graph=template`: what can be built before is not timed.
//! `graph=scope`: registration is. A peer that has one way is measured in that way for both. `seconds` is the time of one factorisation.

use super::{Case, Job};
use crate::peers::Peer;
use crate::programs::{FLATS, Flat, Program, Serial, Steps};
use crate::samples::Sample;
use crate::{Fallible, native};

pub(crate) const CASE: Case = Case {
    name: "cholesky",
    about: "a matrix of 4,096 rows factored in tiles of 128, 64 and 32: time",
    workload: None,
    workers: &[1, 2],
    params: || {
        let of = |tile: u32| FLATS.map(|way| params(tile, way));
        TILES.into_iter().flat_map(of).collect()
    },
    rounds: 5,
    quick_rounds: 1,
    measure,
    derive: |_| Vec::new(),
};

const ROWS: u32 = 4096;
const QUICK_ROWS: u32 = 1024;

const TILES: [u32; 3] = [128, 64, 32];

fn params(tile: u32, way: Flat) -> String {
    format!("tile={tile},{}", way.params())
}

fn factor(program: &mut dyn Program, way: Flat, tiles: u32, tile: u32) -> Fallible<(f64, u64)> {
    native::matrix(tiles, tile)?;
    let steps = Steps { tiles };
    program.prepare_cholesky(way, &steps);
    let factored = native::factored(|| program.cholesky(way, &steps));
    program.discard();
    factored
}

fn measure(job: &Job, peer: &Peer) -> Fallible<Vec<Sample>> {
    let rows = if job.quick { QUICK_ROWS } else { ROWS };
    let mut program = peer.open(&CASE, job.workers)?;
    let mut samples = Vec::new();
    for tile in TILES {
        let wanted = FLATS.map(|way| (way, params(tile, way)));
        let wanted = wanted.into_iter().filter(|(_, params)| job.wants(params));
        let mut last = None;
        for (way, params) in wanted {
            let way = peer.cholesky_way().unwrap_or(way);
            let seconds = match last {
                Some((measured, seconds)) if measured == way => seconds,
                _ => {
                    if job.first {
                        let tiles = (1024 / tile).min(12);
                        let right = factor(&mut Serial, way, tiles, tile)?.1;
                        if factor(&mut *program, way, tiles, tile)?.1 != right {
                            return Err("the factor differs from that of the plain loop".into());
                        }
                    }
                    factor(&mut *program, way, rows / tile, tile)?.0
                }
            };
            last = Some((way, seconds));
            samples.push(Sample::new(&params, &[("seconds", seconds)]));
        }
    }
    Ok(samples)
}
