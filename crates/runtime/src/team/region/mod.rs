//! Regions: closures and loops that run on as many workers as a governor chooses each time (paper 4).

mod decision;
mod shared;

pub use decision::RegionDecision;
pub(crate) use shared::{RegionMaker, Regions};

use super::{Member, Spin, part};
use crate::error::GraphError;
use crate::name::Name;
use crate::pool::Pool;
use crate::worker;
use shared::Entered;
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tanada_policy::{Decision, RegionId, Waiting, Why, WorkerId};

/// How the iterations of a loop are given to the members of a team.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// A block for each member, all of about the same length: for iterations that take equally long.
    #[default]
    Static,
    /// Blocks of this length (0 counts as 1), of which a member takes the next one whenever it has run one.
    Dynamic(usize),
}

/// A parallel region of the program: the pool's governor of regions learns how long it takes on how many workers, and chooses.
///
/// [`Pool::region`] returns it; keep it, or ask for it again by its name. A clone is another handle to the same region.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use tanada_runtime::{Pool, Schedule};
///
/// let pool = Pool::builder().workers(2).build()?;
/// let (region, sum) = (pool.region("sum of squares"), AtomicU64::new(0));
/// for _ in 0..10 {
///     region.for_each(0..1000, Schedule::Static, |i| {
///         sum.fetch_add((i * i) as u64, Ordering::Relaxed);
///     })?;
/// }
/// assert_eq!(sum.into_inner(), 10 * 332_833_500);
/// println!("{}: {} (confidence {})", region.name(), region.why(), region.confidence());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Region {
    pool: Pool,
    id: RegionId,
    name: Name,
}

impl Pool {
    /// Returns the region called `name`, which is made by the first call with that name, and lives as long as the pool.
    ///
    /// Its governor is that of [`PoolBuilder::region_governor`](crate::PoolBuilder::region_governor). One governor decides for all regions
    /// of a pool.
    pub fn region(&self, name: impl Into<Name>) -> Region {
        let (name, pool) = (name.into(), self.shared());
        let id = match pool.is_forked() {
            true => RegionId(0), // never used: all that a region does is refused
            false => pool.regions().find(name),
        };
        Region {
            pool: self.clone(),
            id,
            name,
        }
    }

    /// Returns the last decisions of the pool's governor of regions, the oldest first: all that differ from the one before for the same
    /// region. At most 1024 are kept. Empty in a child of `fork(2)`.
    pub fn region_decisions(&self) -> Vec<RegionDecision> {
        let pool = self.shared();
        match pool.is_forked() {
            true => Vec::new(),
            false => pool.regions().decisions(),
        }
    }
}

thread_local! {
    /// Whether this thread runs a member of some region.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// While this lives, the thread is inside of a region.
struct Inside(bool);

impl Inside {
    fn enter() -> Self {
        Inside(INSIDE.replace(true))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}

impl Region {
    /// Returns the name.
    pub fn name(&self) -> Name {
        self.name
    }

    /// Calls `body` once on each member of a team of as many workers as the governor chooses, and tells it how long that took. `iterations`
    /// is the number of iterations of the region's loop, if it has one: a governor that knows it needs fewer trials.
    ///
    /// The members are workers of the pool, among them the caller if it is one, and run their parts as those of a [`Pool::broadcast`]. A
    /// team of one is the calling thread itself, and wakes no other. So is the team of a region inside of another region, that is, while
    /// this thread runs a member: only the outermost one is parallel, and only it is measured. If several threads are in regions of a pool
    /// at the same time, one of them is measured; the others run as was decided last.
    ///
    /// ```
    /// # use tanada_runtime::Pool;
    /// # let pool = Pool::builder().workers(2).build()?;
    /// let data = vec![1_u64; 1000];
    /// pool.region("check").run(1000, |member| {
    ///     let share = data.len().div_ceil(member.count());
    ///     let mine = data.chunks(share).nth(member.index()).unwrap_or(&[]);
    ///     assert!(mine.iter().all(|one| *one == 1));
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Pool::broadcast`].
    ///
    /// # Panics
    /// With the payload of the first member that panicked, once all have ended. The governor does not learn of that invocation.
    pub fn run(
        &self,
        iterations: impl Into<Option<u64>>,
        body: impl Fn(Member) + Sync,
    ) -> Result<(), GraphError> {
        let pool = self.pool.usable()?;
        worker::with_current(pool, |worker| {
            let me = worker.map_or(WorkerId::NONE, |worker| worker.id);
            let alone = Member {
                worker: me,
                index: 0,
                count: 1,
            };
            if INSIDE.get() {
                body(alone);
                return Ok(());
            }
            let entered = pool.regions().enter(self.id, iterations.into());
            if pool.is_forked() {
                return Err(GraphError::Forked);
            }
            let body = |member: Member| {
                let _inside = Inside::enter();
                body(member);
            };
            let Decision { shape, threads, .. } = entered.decision();
            match threads {
                1 => body(alone),
                _ => {
                    let team = pool.regions().team(me, shape, threads);
                    part::run(pool, team, threads as u16, entered.spin(), &body)?;
                }
            }
            entered.leave();
            match pool.is_forked() {
                true => Err(GraphError::Forked),
                false => Ok(()),
            }
        })
    }

    /// Calls `body` for each number of `range`, on as many workers as the governor chooses. See [`Region::run`].
    ///
    /// # Errors
    /// As [`Region::run`].
    ///
    /// # Panics
    /// With the payload of the first call that panicked. Its member ends; the others go on with their iterations.
    pub fn for_each(
        &self,
        range: Range<usize>,
        schedule: Schedule,
        body: impl Fn(usize) + Sync,
    ) -> Result<(), GraphError> {
        let (first, length) = (range.start, range.len());
        let run = |block: Range<usize>| block.for_each(|i| body(first + i));
        let next = AtomicUsize::new(0);
        self.run(length as u64, |member| match schedule {
            Schedule::Static => run(block(length, member)),
            Schedule::Dynamic(block) => {
                let block = block.max(1);
                let blocks = length.div_ceil(block);
                loop {
                    let at = next.fetch_add(1, Relaxed);
                    if at >= blocks {
                        return;
                    }
                    run(at * block..length.min((at + 1).saturating_mul(block)));
                }
            }
        })
    }

    /// Returns why the governor's last decision for this region is as it is.
    pub fn why(&self) -> Why {
        let pool = self.pool.shared();
        match pool.is_forked() {
            true => Why::default(),
            false => pool.regions().why(self.id),
        }
    }

    /// Returns how sure the governor is of its decision for this region: from 0 (it is still trying) to 1.
    pub fn confidence(&self) -> f64 {
        let pool = self.pool.shared();
        match pool.is_forked() {
            true => 0.0,
            false => pool.regions().confidence(self.id),
        }
    }
}

/// Returns the block of one member if `length` iterations are divided evenly: the first members have one more if that does not work out.
fn block(length: usize, member: Member) -> Range<usize> {
    let (each, more) = (length / member.count(), length % member.count());
    let start = member.index() * each + member.index().min(more);
    start..start + each + usize::from(member.index() < more)
}

impl Entered<'_> {
    /// Returns how caller and team wait.
    fn spin(&self) -> Spin {
        match self.decision().waiting {
            Waiting::AsIs => Spin::default(),
            // The time between two looks is not kept: a processor that can sleep so briefly does in `spin_loop`.
            Waiting::Spin | Waiting::Delay(_) => Spin {
                most: Some(Duration::MAX),
                rest: false,
            },
            Waiting::Sleep(after) => Spin {
                most: Some(Duration::from_nanos(u64::from(after))),
                rest: true,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn static_blocks_are_the_iterations_in_order_and_of_about_one_length(length in 0_usize..1000, count in 1_u16..70) {
            let mut end = 0;
            let mut lengths = Vec::new();
            for index in 0..count {
                let block = block(length, Member { worker: WorkerId::NONE, index, count });
                prop_assert_eq!(block.start, end);
                end = block.end;
                lengths.push(block.len());
            }
            prop_assert_eq!(end, length);
            let (least, most) = (lengths.iter().min(), lengths.iter().max());
            prop_assert!(most.expect("a member") - least.expect("a member") <= 1);
        }
    }
}
