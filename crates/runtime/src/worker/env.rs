//! What a policy sees during one call, and the wake-ups that it asks for.

use crate::executable;
use crate::pool::PoolShared;
use smallvec::SmallVec;
use tanada_policy::{Env, Hints, Ready, Wake, WorkerId};

/// The native [`Env`].
pub(crate) struct NativeEnv<'a> {
    /// The worker that calls the policy; [`WorkerId::NONE`] on other threads.
    pub(crate) me: WorkerId,
    pub(crate) pool: &'a PoolShared,
    /// Number of random numbers drawn so far by this worker, or by all threads outside of the pool together.
    pub(crate) draws: &'a mut u64,
    pub(crate) wakes: &'a mut Wakes,
}

impl Env for NativeEnv<'_> {
    #[inline]
    fn me(&self) -> WorkerId {
        self.me
    }

    #[inline]
    fn workers(&self) -> u16 {
        self.pool.placement.workers()
    }

    #[inline]
    fn active(&self) -> u16 {
        self.pool.sleep.width() as u16
    }

    #[inline]
    fn distance(&self, a: WorkerId, b: WorkerId) -> u8 {
        self.pool.placement.distance(a, b)
    }

    #[inline]
    fn hints(&self, task: &Ready) -> Hints {
        executable::hints(task)
    }

    #[inline]
    fn soon(&self, handle: u64) {
        executable::prefetch(handle);
    }

    #[inline]
    fn random(&mut self) -> u64 {
        let draw = *self.draws;
        *self.draws += 1;
        tanada_policy::draw(self.pool.seed, self.me, draw)
    }

    #[inline]
    fn wake(&mut self, whom: Wake) {
        self.wakes.add(whom);
    }
}

/// The wake-ups that a policy has asked for during one call.
#[derive(Default)]
pub(crate) struct Wakes {
    /// Whether there are any, so that [`Wakes::deliver`] has one thing to check.
    asked: bool,
    /// How many workers, whichever, are to be woken.
    anyone: usize,
    /// More workers than `these` has room for were named: a wake-up allocates nothing.
    everyone: bool,
    these: SmallVec<[WorkerId; 8]>,
}

impl Wakes {
    fn add(&mut self, whom: Wake) {
        self.asked = true;
        match whom {
            Wake::Anyone => self.anyone += 1,
            Wake::This(_) if self.these.len() == self.these.inline_size() => self.everyone = true,
            Wake::This(worker) => self.these.push(worker),
        }
    }

    /// Wakes the workers. To be called after the policy's call has returned, so that the policy holds no lock.
    #[inline]
    pub(crate) fn deliver(&mut self, pool: &PoolShared) {
        if self.asked {
            self.deliver_all(pool);
        }
    }

    #[inline(never)]
    fn deliver_all(&mut self, pool: &PoolShared) {
        self.asked = false;
        if std::mem::take(&mut self.everyone) {
            self.these.clear();
            (0..usize::from(pool.placement.workers()))
                .for_each(|worker| pool.sleep.wake_this(worker));
        }
        for worker in self.these.drain(..) {
            if worker.0 < pool.placement.workers() {
                pool.sleep.wake_this(worker.index());
            }
        }
        if self.anyone > 0 {
            pool.sleep.wake_some(std::mem::take(&mut self.anyone));
        }
        pool.make_up_for_late();
    }
}
