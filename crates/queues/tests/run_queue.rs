//! The run queue against a list, and with real threads. (Interleavings are in `loom_run_queue.rs`.)
#![cfg(not(any(loom, shuttle)))]

mod common;

use std::collections::VecDeque;
use std::thread;

use common::{join, task};
use parking_lot::Mutex;
use proptest::prelude::*;
use tanada_queues::{Steal, run_queue};

const MANY: u64 = if cfg!(miri) { 200 } else { 50_000 };

#[derive(Clone, Copy, Debug)]
enum Step {
    PushHead,
    PopHead,
    PopExactly,
    PushTail,
    PopTail,
    PopEven,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::PushHead),
        2 => Just(Step::PopHead),
        1 => Just(Step::PopExactly),
        2 => Just(Step::PushTail),
        2 => Just(Step::PopTail),
        1 => Just(Step::PopEven),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 256 }))]

    /// One thread sees a list whose front is the head and whose back is the tail.
    #[test]
    fn is_a_list(steps in proptest::collection::vec(step(), 0..300)) {
        let (mut head, tail) = run_queue();
        let mut list = VecDeque::new();
        let mut next = 0;
        for step in steps {
            prop_assert_eq!(tail.peek(), list.back().map(|number| *number as u16));
            prop_assert_eq!((head.len(), tail.len()), (list.len(), list.len()));
            match step {
                Step::PushHead => {
                    next += 1;
                    head.push(task(next));
                    list.push_front(next);
                }
                Step::PushTail => {
                    next += 1;
                    tail.push(task(next));
                    list.push_back(next);
                }
                Step::PopHead => {
                    prop_assert_eq!(head.pop(), list.pop_front().map(task));
                }
                Step::PopExactly => {
                    // It may refuse what was pushed at the tail, but never takes another one.
                    if let Some(popped) = head.pop_exactly(next) {
                        prop_assert_eq!(list.pop_front(), Some(next));
                        prop_assert_eq!(popped.handle(), next);
                    }
                }
                Step::PopTail => {
                    let popped = match tail.pop() {
                        Steal::Taken(task) => Some(task.handle()),
                        other => {
                            prop_assert_eq!(other, Steal::Empty);
                            None
                        }
                    };
                    prop_assert_eq!(popped, list.pop_back());
                }
                Step::PopEven => match tail.pop_if(|digest| digest % 2 == 0) {
                    Steal::Taken(task) => {
                        prop_assert_eq!(task.handle() % 2, 0);
                        prop_assert_eq!(list.pop_back(), Some(task.handle()));
                    }
                    Steal::Refused => prop_assert_eq!(list.back().map(|last| last % 2), Some(1)),
                    other => {
                        prop_assert_eq!(other, Steal::Empty);
                        prop_assert!(list.is_empty());
                    }
                },
            }
        }
    }
}

/// The owner, two thieves that reject every second task, and a thread that pushes at the tail: everything comes out once.
#[test]
fn stress() {
    let (mut head, tail) = run_queue();
    let taken = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let pusher = scope.spawn(|| {
            for number in 1..=MANY {
                tail.push(task(number << 1));
            }
        });
        let thieves: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut mine = Vec::new();
                    for turn in 0..2 * MANY {
                        match tail.pop() {
                            Steal::Taken(task) if turn % 2 == 0 => tail.push(task),
                            Steal::Taken(task) => mine.push(task.handle()),
                            _ => thread::yield_now(),
                        }
                    }
                    taken.lock().extend(mine);
                })
            })
            .collect();
        let mut mine = Vec::new();
        for number in 1..=MANY {
            head.push(task(number << 1 | 1));
            if number % 3 == 0 {
                mine.extend(head.pop().map(|task| task.handle()));
            }
        }
        join(thieves);
        join([pusher]);
        mine.extend(std::iter::from_fn(|| head.pop()).map(|task| task.handle()));
        taken.lock().extend(mine);
    });
    let mut taken = taken.into_inner();
    taken.sort_unstable();
    let expected: Vec<u64> = (2..=2 * MANY + 1).collect();
    assert_eq!(taken, expected);
}
