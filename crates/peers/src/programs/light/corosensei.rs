//! corosensei: coroutines alone, that the program resumes itself, one after the other. A lower limit.

use super::{Alive, Light, OWN, checked, found, resident, timed};
use crate::Fallible;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use std::hint::black_box;
use std::time::Duration;

/// Bytes of a stack: as those of may.
const STACK: usize = 32 << 10;

/// Stacks of coroutines that have ended.
#[derive(Default)]
pub(crate) struct Corosensei {
    stacks: Vec<DefaultStack>,
}

type Routine = Coroutine<(), (), u64>;

impl Corosensei {
    /// Returns a coroutine on a stack that was used before, if there is one.
    #[inline]
    fn spawn(
        &mut self,
        body: impl FnOnce(&corosensei::Yielder<(), ()>) -> u64 + 'static,
    ) -> Routine {
        let stack = self.stacks.pop();
        let stack = stack.unwrap_or_else(|| DefaultStack::new(STACK).expect("a stack"));
        Coroutine::with_stack(stack, move |yielder, ()| body(yielder))
    }

    /// Resumes a coroutine for the last time.
    #[inline]
    fn end(&mut self, mut routine: Routine) -> u64 {
        match routine.resume(()) {
            CoroutineResult::Return(result) => {
                self.stacks.push(routine.into_stack());
                result
            }
            CoroutineResult::Yield(()) => panic!("it yields no more"),
        }
    }
}

impl Light for Corosensei {
    fn create(&mut self, many: u32, times: u32) -> Fallible<Duration> {
        let (time, sum) = timed(|| {
            let mut sum = 0;
            for _ in 0..times {
                if many == 1 {
                    let routine = self.spawn(|_| black_box(0));
                    sum += self.end(routine);
                    continue;
                }
                let all: Vec<_> = (0..many)
                    .map(|n| self.spawn(move |_| u64::from(n)))
                    .collect();
                sum += all
                    .into_iter()
                    .map(|routine| self.end(routine))
                    .sum::<u64>();
            }
            sum
        });
        checked(many, times, sum)?;
        Ok(time)
    }

    fn switch(&mut self, threads: u32, times: u32) -> Fallible<Duration> {
        let body = move |yielder: &corosensei::Yielder<(), ()>| {
            (0..times).for_each(|_| yielder.suspend(()));
            0
        };
        let mut all: Vec<_> = (0..threads).map(|_| self.spawn(body)).collect();
        let (time, ()) = timed(|| {
            for _ in 0..times {
                for routine in &mut all {
                    assert!(matches!(routine.resume(()), CoroutineResult::Yield(())));
                }
            }
        });
        all.into_iter().for_each(|routine| {
            self.end(routine);
        });
        Ok(time)
    }

    fn ping_pong(&mut self, _times: u32) -> Fallible<Duration> {
        Err("it has no channels".into())
    }

    fn alive(&mut self, threads: u32) -> Fallible<Alive> {
        let before = resident()?;
        let (time, (bytes, sum)) = timed(|| {
            let mut all: Vec<_> = (0..threads)
                .map(|n| {
                    self.spawn(move |yielder| {
                        let own = black_box([n as u8; OWN]);
                        yielder.suspend(());
                        u64::from(black_box(&own)[n as usize % OWN])
                    })
                })
                .collect();
            for routine in &mut all {
                assert!(matches!(routine.resume(()), CoroutineResult::Yield(())));
            }
            let bytes = resident();
            (
                bytes,
                all.into_iter().map(|routine| self.end(routine)).sum(),
            )
        });
        found(threads, sum)?;
        let bytes = bytes?.saturating_sub(before);
        Ok(Alive { time, bytes })
    }
}
