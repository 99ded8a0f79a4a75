//! The stencil's tile graph over time steps, run by another runtime: the same tiles and dependencies as the workload `stencil` has under
//! Tanada, without groups.

use super::{Program, Swept};
use crate::Fallible;
use crate::native::{Shared, Tile};
use tanada_harness::rounds::site;
use tanada_runtime::Pool;
use tanada_workloads::Site;
use tanada_workloads::tiles::{Caches, Groups, Plan, Shape};

/// A native peer that runs tile graphs.
pub(crate) struct Tiles {
    shared: Shared,
    /// What Tanada's workload is cut for with that number of workers.
    site: Site,
}

impl Tiles {
    /// Loads the shared object and starts its workers.
    pub(crate) fn open(path: &str, workers: u16) -> Fallible<Tiles> {
        // The pool's threads have ended before the peer starts its own.
        let pool = Pool::builder().workers(u32::from(workers)).build()?;
        let site = site(pool.placement());
        drop(pool);
        Ok(Tiles {
            shared: Shared::open(path, workers)?,
            site,
        })
    }
}

impl Program for Tiles {
    fn stencil(&mut self, size: usize, sweeps: u32) -> Fallible<Swept> {
        let shape = Shape {
            rows: size,
            columns: size,
            sweeps,
            bytes_per_point: 2 * size_of::<f32>(),
        };
        let caches = Caches::new(self.site.own_cache, self.site.l1d);
        let plan = Plan::new(shape, self.site.workers, caches, Groups::None);
        let tiles = plan.tiles().map(|tile| Tile {
            x: tile.x,
            y: tile.y,
            w: tile.w,
            h: tile.h,
        });
        self.shared
            .tiles(size, sweeps, &Vec::from_iter(tiles), plan.strips())
    }
}
