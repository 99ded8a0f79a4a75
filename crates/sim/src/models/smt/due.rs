//! Which hardware threads of a core can step, and when; rule 1.

/// The most hardware threads of a core: one bit each.
const MOST: usize = 64;

/// The running hardware threads of one core, each with the tick from which on it can step.
///
/// The times of a core's steps never fall. So a thread that could step when another one did can still step, and each step looks only at
/// the threads that have become able since the last one: those behind them stand in a list in the order of their times.
#[derive(Clone, Debug)]
pub(super) struct Due {
    /// When the last step was.
    now: u64,
    /// The threads that could step then, as bits, but for the one that did.
    able: u64,
    /// The others, earliest first, in a ring.
    later: [Later; MOST],
    /// The place of the earliest, and the one behind the latest; both count on around the ring.
    from: usize,
    to: usize,
}

/// A thread and the tick from which on it can step.
#[derive(Clone, Copy, Debug)]
struct Later {
    time: u64,
    thread: usize,
}

impl Due {
    /// Without any thread.
    pub(super) const fn new() -> Due {
        Due {
            now: 0,
            able: 0,
            later: [Later { time: 0, thread: 0 }; MOST],
            from: 0,
            to: 0,
        }
    }

    /// Takes all threads out.
    pub(super) fn clear(&mut self) {
        (self.able, self.from, self.to) = (0, 0, 0);
    }

    /// Puts a thread in that can step from `time` on, which is not before the last step. Most come in the order of their times; another
    /// one is moved past those behind it.
    #[inline]
    pub(super) fn insert(&mut self, thread: usize, time: u64) {
        let mut at = self.to;
        self.to += 1;
        while at != self.from {
            let before = self.later[(at - 1) % MOST];
            if before.time <= time {
                break;
            }
            self.later[at % MOST] = before;
            at -= 1;
        }
        self.later[at % MOST] = Later { time, thread };
    }

    /// Returns when the next step is if the core's pipe is free from tick `pipe` on; `u64::MAX` if there is no thread.
    #[inline]
    pub(super) fn first(&self, pipe: u64) -> u64 {
        if self.able != 0 {
            self.now.max(pipe)
        } else if self.from != self.to {
            self.later[self.from % MOST].time.max(pipe)
        } else {
            u64::MAX
        }
    }

    /// Returns the threads that can step at `now`, which is what [`Due::first`] returned, as bits.
    #[inline]
    pub(super) fn able(&mut self, now: u64) -> u64 {
        self.now = now;
        while self.from != self.to {
            let Later { time, thread } = self.later[self.from % MOST];
            if time > now {
                break;
            }
            self.able |= 1 << (thread % MOST);
            self.from += 1;
        }
        self.able
    }

    /// Takes a thread out that can step and does.
    #[inline]
    pub(super) fn take(&mut self, thread: usize) {
        self.able &= !(1 << thread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The plain reading: a list of threads with their times, of which every step looks at all.
        #[test]
        fn a_list_of_all_has_the_same_steps(
            steps in prop::collection::vec((any::<prop::sample::Index>(), 0_u64..20, 0_u64..4, 0_u32..8), 1..300),
        ) {
            let mut due = Due::new();
            let mut list = vec![None; MOST];
            let mut pipe = 0;
            for (thread, time) in [(63, 9), (0, 4), (5, 9), (7, 0)] {
                due.insert(thread, time);
                list[thread] = Some(time);
            }
            for (which, later, held, rare) in steps {
                let first = list.iter().copied().flatten().min();
                let now = first.map_or(u64::MAX, |first| first.max(pipe));
                prop_assert_eq!(due.first(pipe), now);
                if first.is_none() || rare == 0 && list.contains(&None) {
                    // A thread that did not run begins to.
                    let thread = list.iter().position(Option::is_none).unwrap_or(0);
                    let time = pipe + later;
                    due.insert(thread, time);
                    list[thread] = Some(time);
                    continue;
                }
                let is_able = |&thread: &usize| list[thread].is_some_and(|time| time <= now);
                let able: Vec<usize> = (0..MOST).filter(is_able).collect();
                prop_assert_eq!(due.able(now), able.iter().map(|&thread| 1 << thread).sum::<u64>());
                let thread = *which.get(&able);
                due.take(thread);
                list[thread] = None;
                pipe = now + held;
                if rare > 1 {
                    due.insert(thread, now + later);
                    list[thread] = Some(now + later);
                }
            }
        }
    }
}
