//! The policy that paper 5 tried: of four random victims, the one whose thread at the tail is the shallowest.

use crate::original;
use crate::product::Product;
use tanada_runtime::thread::{Queues, Runnable, Scheduler};
use tanada_runtime::{Pool, WorkerId};

/// Victims that a thief looks at.
const CANDIDATES: usize = 4;

struct Shallowest;

impl Scheduler for Shallowest {
    fn steal(&self, queues: &mut Queues<'_>) -> Option<Runnable> {
        let workers = u64::from(queues.workers());
        let mut best = None;
        for _ in 0..CANDIDATES {
            let victim = WorkerId((queues.random() % workers) as u16);
            // The digest of a thread is its hint: the depth. It may be stale, which costs a steal that brings little.
            let Some(depth) = queues.peek_tail(victim) else {
                continue;
            };
            if victim != queues.me() && best.is_none_or(|(least, _)| depth < least) {
                best = Some((depth, victim));
            }
        }
        let (depth, victim) = best?;
        queues.pop_tail_if(victim, |now| now <= depth)
    }
}

pub(crate) fn pool(workers: u32) -> Pool {
    let pool = Pool::builder().workers(workers);
    pool.thread_scheduler(Shallowest).build().expect("a pool")
}

pub(crate) fn run(pool: &Pool, product: &Product<'_>) {
    original::run(pool, product);
}
