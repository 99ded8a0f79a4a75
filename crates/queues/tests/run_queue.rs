//! The run queue against a list, and with real threads. (Interleavings are in `loom_run_queue.rs`.)
#![cfg(not(any(loom, shuttle)))]

mod common;

use std::collections::VecDeque;
use std::thread;

use common::{join, task};
use parking_lot::Mutex;
use proptest::prelude::*;
use tanada_queues::{Head, Steal, run_queue};

const MANY: u64 = if cfg!(miri) { 200 } else { 50_000 };

#[derive(Clone, Copy, Debug)]
enum Step {
    PushHead,
    PushLast,
    PopHead,
    PopExactly,
    PushTail,
    PopTail,
    PopEven,
    PopWaiting,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::PushHead),
        2 => Just(Step::PushLast),
        2 => Just(Step::PopHead),
        1 => Just(Step::PopExactly),
        2 => Just(Step::PushTail),
        2 => Just(Step::PopTail),
        1 => Just(Step::PopEven),
        2 => Just(Step::PopWaiting),
    ]
}

/// Its parts, each with the head's end in front.
#[derive(Default)]
struct Model {
    deque: VecDeque<u64>,
    line: VecDeque<u64>,
    outer: VecDeque<u64>,
    looks: u32,
}

impl Model {
    fn len(&self) -> usize {
        self.deque.len() + self.line.len() + self.outer.len()
    }

    fn pop_head(&mut self) -> Option<u64> {
        let parts = [&mut self.deque, &mut self.line, &mut self.outer];
        parts.into_iter().find_map(VecDeque::pop_front)
    }

    fn pop_waiting(&mut self) -> Option<u64> {
        self.looks += 1;
        if self.looks.is_multiple_of(Head::LOOKS) {
            return self.deque.pop_back();
        }
        let mut parts = [&mut self.outer, &mut self.line];
        if self.looks.is_multiple_of(2) {
            parts.reverse();
        }
        parts.into_iter().find_map(VecDeque::pop_front)
    }

    /// What a pop at the tail takes.
    fn tail(&self) -> Option<u64> {
        let all = [self.outer.back(), self.line.front(), self.deque.back()];
        all.into_iter().flatten().next().copied()
    }

    fn pop_tail(&mut self) -> Option<u64> {
        let last = self.outer.pop_back().or_else(|| self.line.pop_front());
        last.or_else(|| self.deque.pop_back())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 256 }))]

    /// One thread sees the list that the module describes.
    #[test]
    fn is_three_lists(steps in proptest::collection::vec(step(), 0..300)) {
        let (mut head, tail) = run_queue();
        let mut list = Model::default();
        let mut next = 0;
        for step in steps {
            prop_assert_eq!(tail.peek(), list.tail().map(|number| number as u16));
            prop_assert_eq!((head.len(), tail.len()), (list.len(), list.len()));
            match step {
                Step::PushHead => {
                    next += 1;
                    match next % 2 {
                        0 => head.push(task(next)),
                        _ => head.push_quietly(task(next)),
                    }
                    list.deque.push_front(next);
                }
                Step::PushLast => {
                    next += 1;
                    match next % 2 {
                        0 => head.push_last(task(next)),
                        _ => head.push_last_quietly(task(next)),
                    }
                    list.line.push_back(next);
                }
                Step::PushTail => {
                    next += 1;
                    tail.push(task(next));
                    list.outer.push_back(next);
                }
                Step::PopHead => {
                    prop_assert_eq!(head.pop(), list.pop_head().map(task));
                }
                Step::PopWaiting => {
                    prop_assert_eq!(head.pop_waiting(), list.pop_waiting().map(task));
                }
                Step::PopExactly => {
                    // It may refuse what was pushed elsewhere, but never takes another one.
                    if let Some(popped) = head.pop_exactly(next) {
                        prop_assert_eq!(list.pop_head(), Some(next));
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
                    prop_assert_eq!(popped, list.pop_tail());
                }
                Step::PopEven => match tail.pop_if(|digest| digest % 2 == 0) {
                    Steal::Taken(task) => {
                        prop_assert_eq!(task.handle() % 2, 0);
                        prop_assert_eq!(list.pop_tail(), Some(task.handle()));
                    }
                    Steal::Refused => prop_assert_eq!(list.tail().map(|last| last % 2), Some(1)),
                    other => {
                        prop_assert_eq!(other, Steal::Empty);
                        prop_assert_eq!(list.len(), 0);
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
            match number % 4 {
                0 => head.push(task(number << 1 | 1)),
                1 => head.push_last(task(number << 1 | 1)),
                2 => head.push_quietly(task(number << 1 | 1)),
                _ => head.push_last_quietly(task(number << 1 | 1)),
            }
            if number % 3 == 0 {
                mine.extend(head.pop().map(|task| task.handle()));
                mine.extend(head.pop_waiting().map(|task| task.handle()));
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
