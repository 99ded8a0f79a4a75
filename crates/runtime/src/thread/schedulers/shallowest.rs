//! The policy that paper 5 tried (section 5.3): a thief looks at the tails of some random victims, and takes the thread of least depth.

use super::super::{Queues, Runnable, Scheduler};
use tanada_policy::WorkerId;

/// Of some random victims, a thief takes the thread whose digest is the least: the shallowest, if the hints of threads are their depths
/// (`u16` is a hint that is its digest). If it has got deeper meanwhile, nothing is taken. If none of those victims has a thread, the thief
/// takes one of the nearest worker that has some.
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
        let (me, others) = (queues.me(), queues.workers() - 1);
        if others == 0 {
            return None;
        }
        let mut best: Option<(u16, WorkerId)> = None;
        for _ in 0..self.0 {
            let other = (queues.random() % u64::from(others)) as u16;
            let victim = WorkerId(other + u16::from(other >= me.0));
            // What is seen may be stale, which costs a steal that brings little.
            if let Some(depth) = queues.peek_tail(victim)
                && best.is_none_or(|(least, _)| depth < least)
            {
                best = Some((depth, victim));
            }
        }
        match best {
            Some((depth, victim)) => queues.pop_tail_if(victim, |now| now <= depth),
            None => queues.steal_nearest(),
        }
    }
}
