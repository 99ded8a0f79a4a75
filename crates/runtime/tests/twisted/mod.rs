//! A policy, first come, first served, in whose callbacks a test does what no policy should.
#![allow(dead_code, reason = "not every test program uses all of it")]

use parking_lot::Mutex;
use std::collections::VecDeque;
use tanada_policy::{Dispatcher, Env, Origin, Ready, Site, Wake, WorkerId};

/// The tasks that wait.
#[derive(Default)]
pub(crate) struct Queue(Mutex<VecDeque<Ready>>);

impl Queue {
    pub(crate) fn push(&self, env: &mut impl Env, task: Ready) {
        self.0.lock().push_back(task);
        env.wake(Wake::Anyone);
    }

    pub(crate) fn pop(&self) -> Option<Ready> {
        self.0.lock().pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

/// What a test changes. Each callback does by default what the policy should.
pub(crate) trait Twist: Default + Send + Sync + 'static {
    /// Called by [`Dispatcher::inject`].
    fn inject(&self, queue: &Queue, env: &mut impl Env, task: Ready) {
        queue.push(env, task);
    }

    /// Called by [`Dispatcher::ready`].
    fn ready(&self, queue: &Queue, env: &mut impl Env, task: Ready) {
        self.inject(queue, env, task);
    }

    /// Called by [`Dispatcher::next`].
    fn next(&self, queue: &Queue, _env: &mut impl Env) -> Option<Ready> {
        queue.pop()
    }

    /// Called by [`Dispatcher::may_have`].
    fn may_have(&self, queue: &Queue) -> bool {
        !queue.is_empty()
    }
}

/// First come, first served, but for `T`.
pub(crate) struct Twisted<T> {
    twist: T,
    queue: Queue,
}

impl<T: Twist> Dispatcher for Twisted<T> {
    type Local = ();

    fn build(site: &Site<'_>) -> (Self, Vec<()>) {
        let twisted = Twisted {
            twist: T::default(),
            queue: Queue::default(),
        };
        (twisted, vec![(); usize::from(site.placement.workers())])
    }

    fn inject<E: Env>(&self, env: &mut E, task: Ready) {
        self.twist.inject(&self.queue, env, task);
    }

    fn ready<E: Env>(&self, _local: &mut (), env: &mut E, task: Ready) {
        self.twist.ready(&self.queue, env, task);
    }

    fn next<E: Env>(&self, _local: &mut (), env: &mut E) -> Option<(Ready, Origin)> {
        Some((self.twist.next(&self.queue, env)?, Origin::Pool))
    }

    fn may_have(&self, _worker: WorkerId) -> bool {
        self.twist.may_have(&self.queue)
    }
}
