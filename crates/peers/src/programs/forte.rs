//! forte: fork-join in which a worker shares one fork at each heartbeat.

use super::Program;
use crate::Fallible;

/// The peer, if this build has it.
pub(crate) struct Forte;

impl Forte {
    /// Whether this build has it.
    pub(crate) const IS_BUILT: bool = cfg!(feature = "forte");

    /// Returns a program whose workers are `workers` threads, the caller's among them.
    pub(crate) fn open(workers: u16) -> Fallible<Box<dyn Program>> {
        open(workers)
    }
}

#[cfg(not(feature = "forte"))]
fn open(_workers: u16) -> Fallible<Box<dyn Program>> {
    Err("built without the feature forte".into())
}

#[cfg(feature = "forte")]
use built::open;

#[cfg(feature = "forte")]
mod built {
    use super::super::forks::{self, Fork, Inputs, Kernel};
    use super::Program;
    use crate::Fallible;
    use forte::{ThreadPool, Worker};

    static POOL: ThreadPool = ThreadPool::new();

    pub(super) fn open(workers: u16) -> Fallible<Box<dyn Program>> {
        let others = usize::from(workers) - 1;
        match POOL.resize_to(others) == others {
            true => Ok(Box::new(Pool)),
            false => Err("forte has fewer threads".into()),
        }
    }

    /// The pool, which is there for the whole process.
    struct Pool;

    /// Forks on forte.
    struct Joins;

    /// The worker on which a closure runs.
    struct On<'s>(&'s Worker);

    impl Fork for Joins {
        type Scope<'s> = On<'s>;

        const SECOND_FIRST: bool = true;

        #[inline]
        fn join<A: Send, B: Send>(
            On(worker): &mut On<'_>,
            first: impl FnOnce(&mut On<'_>) -> A + Send,
            second: impl FnOnce(&mut On<'_>) -> B + Send,
        ) -> (A, B) {
            worker.join(
                |worker| first(&mut On(worker)),
                |worker| second(&mut On(worker)),
            )
        }
    }

    impl Program for Pool {
        fn fork(&mut self, kernel: Kernel, inputs: &mut Inputs) -> Fallible<u64> {
            Ok(POOL.with_worker(|worker| forks::run::<Joins>(&mut On(worker), kernel, inputs)))
        }
    }
}
