//! The policy that paper 5 tried (section 5.3): a thief looks at the tails of some random victims, and takes the thread of least depth.

use super::super::{Queues, Runnable, Scheduler};
use tanada_policy::WorkerId;

/// Of some random victims, a thief takes the thread whose digest is the least: the shallowest, if the hints of threads are their depths
/// (`u16` is a hint that is its digest). If it has got deeper meanwhile, nothing is taken.
#[derive(Clone, Copy, Debug)]
pub struct ShallowestOf(u32);

impl ShallowestOf {
    /// Returns the scheduler whose thieves look at so many victims, at least one.
    pub fn new(victims: u32) -> Self {
        ShallowestOf(victims.max(1))
    }
}

impl Scheduler for ShallowestOf {
    fn steal(&self, queues: &mut Queues<'_>) -> Option<Runnable> {
        let (me, workers) = (queues.me(), u64::from(queues.workers()));
        let mut best: Option<(u16, WorkerId)> = None;
        for _ in 0..self.0 {
            let victim = WorkerId((queues.random() % workers) as u16);
            // What is seen may be stale, which costs a steal that brings little.
            let seen = queues.peek_tail(victim).filter(|_| victim != me);
            if let Some(depth) = seen
                && best.is_none_or(|(least, _)| depth < least)
            {
                best = Some((depth, victim));
            }
        }
        let (depth, victim) = best?;
        queues.pop_tail_if(victim, |now| now <= depth)
    }
}
