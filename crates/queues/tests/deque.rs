//! The deque with real threads: the ladder from smoke to stress, and a model. (Interleavings are in `loom_deque.rs`.)
#![cfg(not(any(loom, shuttle)))]

mod common;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;

use common::{join, task};
use proptest::prelude::*;
use tanada_queues::{Owner, Steal, Stealer, deque};

/// Miri runs each instruction some thousand times slower.
const MANY: u64 = if cfg!(miri) { 300 } else { 200_000 };

fn steal(stealer: &Stealer) -> Option<u64> {
    loop {
        match stealer.steal() {
            Steal::Taken(task) => return Some(task.handle()),
            Steal::Empty => return None,
            Steal::Retry => thread::yield_now(),
            Steal::Refused => unreachable!("no condition was given"),
        }
    }
}

fn pop(owner: &mut Owner) -> Option<u64> {
    owner.pop().map(|task| task.handle())
}

#[test]
fn tasks_pushed_at_once_come_out_in_the_same_order() {
    let (mut owner, stealer) = deque();
    owner.push(task(1));
    owner.push_all((2..=100).map(task).collect::<Vec<_>>().into_iter());
    owner.push_all(std::iter::empty());
    assert_eq!((owner.len(), stealer.len()), (100, 100));
    for n in 1..=50 {
        assert_eq!(stealer.steal(), Steal::Taken(task(n)));
    }
    owner.push_all([101, 102].map(task).into_iter());
    for n in (51..=102).rev() {
        assert_eq!(owner.pop(), Some(task(n)));
    }
    assert!(owner.pop().is_none() && stealer.is_empty());
}

#[test]
fn smoke() {
    let (mut owner, stealer) = deque();
    assert_eq!((pop(&mut owner), steal(&stealer)), (None, None));
    assert_eq!(
        (owner.len(), owner.is_empty(), stealer.is_empty()),
        (0, true, true)
    );
    (1..=4).for_each(|n| owner.push(task(n)));
    assert_eq!((stealer.len(), stealer.is_empty()), (4, false));
    assert_eq!(steal(&stealer), Some(1), "a thief takes the oldest");
    assert_eq!(pop(&mut owner), Some(4), "the owner takes the newest");
    assert_eq!((steal(&stealer), steal(&stealer)), (Some(2), Some(3)));
    assert_eq!((steal(&stealer), pop(&mut owner)), (None, None));
    owner.push(task(5));
    assert_eq!((pop(&mut owner), pop(&mut owner)), (Some(5), None));
}

#[test]
fn a_thief_may_refuse_what_it_saw() {
    let (mut owner, stealer) = deque();
    assert_eq!(
        stealer.steal_if(|_| unreachable!("there is nothing to be shown")),
        Steal::Empty
    );
    owner.push(task(0x5_0007));
    owner.push(task(8));
    assert_eq!(stealer.steal_if(|digest| digest != 7), Steal::Refused);
    assert_eq!(stealer.len(), 2);
    assert_eq!(
        stealer.steal_if(|digest| digest == 7),
        Steal::Taken(task(0x5_0007))
    );
}

#[test]
fn a_peek_shows_the_oldest_and_takes_nothing() {
    let (mut owner, stealer) = deque();
    assert_eq!(stealer.peek(), None);
    // `task` makes the digest of the lowest bits.
    (1..=40).for_each(|n| owner.push(task(n)));
    assert_eq!((stealer.peek(), stealer.peek()), (Some(1), Some(1)));
    assert_eq!(steal(&stealer), Some(1));
    assert_eq!((stealer.peek(), stealer.len()), (Some(2), 39));
    while owner.pop().is_some() {}
    assert_eq!(stealer.peek(), None);
}

#[test]
fn growth_keeps_all_tasks_in_order() {
    let (mut owner, stealer) = deque();
    for n in 1..=20 {
        owner.push(task(n));
    }
    (1..=10).for_each(|n| assert_eq!(steal(&stealer), Some(n)));
    for n in 21..=1000 {
        owner.push(task(n));
    }
    (11..=500).for_each(|n| assert_eq!(steal(&stealer), Some(n)));
    (501..=1000)
        .rev()
        .for_each(|n| assert_eq!(pop(&mut owner), Some(n)));
    assert_eq!(pop(&mut owner), None);
}

/// One thief: sees everything in order.
#[test]
fn spsc() {
    let (mut owner, stealer) = deque();
    let thief = thread::spawn(move || {
        for n in 1..=MANY {
            let stolen = loop {
                match steal(&stealer) {
                    Some(stolen) => break stolen,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(stolen, n);
        }
    });
    (1..=MANY).for_each(|n| owner.push(task(n)));
    thief.join().unwrap();
    assert_eq!(pop(&mut owner), None);
}

/// A full deque, thieves and owner taking at once: everything once; each thief sees growing numbers, the owner falling ones.
#[test]
fn stampede() {
    const THIEVES: usize = 4;
    let (mut owner, stealer) = deque();
    (1..=MANY).for_each(|n| owner.push(task(n)));
    let taken = AtomicU64::new(0);
    thread::scope(|scope| {
        let thieves = [(); THIEVES].map(|()| {
            let (stealer, taken) = (stealer.clone(), &taken);
            scope.spawn(move || {
                let mut last = 0;
                while taken.load(Ordering::Relaxed) < MANY {
                    if let Some(n) = steal(&stealer) {
                        assert!(n > last, "{n} after {last}");
                        last = n;
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        });
        let mut last = MANY + 1;
        while let Some(n) = pop(&mut owner) {
            assert!(n < last, "{n} after {last}");
            last = n;
            taken.fetch_add(1, Ordering::Relaxed);
        }
        join(thieves);
    });
    assert_eq!(taken.into_inner(), MANY);
    assert!(stealer.is_empty());
}

/// The owner pushes and pops in bursts of all sizes (the deque is often empty, and grows), thieves take, some only what they like.
#[test]
fn stress() {
    let (mut owner, stealer) = deque();
    let times: Vec<AtomicU32> = (0..=MANY).map(|_| AtomicU32::new(0)).collect();
    let done = AtomicBool::new(false);
    let count = |n: u64| {
        assert_eq!(
            times[n as usize].fetch_add(1, Ordering::Relaxed),
            0,
            "task {n} came out twice"
        );
    };
    thread::scope(|scope| {
        let thieves = [None, Some(0), Some(1)].map(|parity| {
            let (stealer, done) = (&stealer, &done);
            scope.spawn(move || {
                loop {
                    let finished = done.load(Ordering::Acquire);
                    match stealer
                        .steal_if(|digest| parity.is_none_or(|parity| digest % 2 == parity))
                    {
                        Steal::Taken(task) => {
                            assert!(
                                parity.is_none_or(|parity| task.handle() % 2 == u64::from(parity))
                            );
                            count(task.handle());
                        }
                        Steal::Empty if finished => break,
                        Steal::Refused if finished && stealer.is_empty() => break,
                        _ => std::hint::spin_loop(),
                    }
                }
            })
        });
        let mut n = 0;
        let mut burst = 1;
        while n < MANY {
            for _ in 0..burst.min(MANY - n) {
                n += 1;
                owner.push(task(n));
            }
            for _ in 0..burst * 2 / 3 {
                if let Some(n) = pop(&mut owner) {
                    count(n);
                }
            }
            burst = burst % 97 + 1;
        }
        while let Some(n) = pop(&mut owner) {
            count(n);
        }
        done.store(true, Ordering::Release);
        join(thieves);
    });
    assert!(
        times[1..]
            .iter()
            .all(|times| times.load(Ordering::Relaxed) == 1),
        "a task was lost"
    );
}

/// A thief comes through although the owner always keeps working.
#[test]
fn no_starvation() {
    let (mut owner, stealer) = deque();
    let stolen = AtomicU64::new(0);
    thread::scope(|scope| {
        let thief = scope.spawn(|| {
            while stolen.load(Ordering::Relaxed) < 50 {
                if steal(&stealer).is_some() {
                    stolen.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        while stolen.load(Ordering::Relaxed) < 50 {
            (1..=8).for_each(|n| owner.push(task(n)));
            while pop(&mut owner).is_some() {}
            thread::yield_now();
        }
        join([thief]);
    });
}

/// Either side may go first, with tasks inside and outgrown buffers behind it. (Miri and the address sanitizer find what is not freed,
/// or is used afterwards.)
#[test]
fn destructors() {
    let (mut owner, stealer) = deque();
    (1..=500).for_each(|n| owner.push(task(n)));
    drop(owner);
    assert_eq!(
        (steal(&stealer), stealer.len()),
        (Some(1), 499),
        "thieves can still take what the owner left"
    );
    drop(stealer);

    let (mut owner, stealer) = deque();
    (1..=500).for_each(|n| owner.push(task(n)));
    drop(stealer);
    assert_eq!(pop(&mut owner), Some(500));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Push,
    Pop,
    Steal,
    StealEven,
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    /// One call at a time, the deque is a `VecDeque`.
    #[test]
    #[cfg_attr(miri, ignore = "takes minutes in an interpreter; the tests above make the same calls")]
    fn like_the_obvious_deque(steps in prop::collection::vec(
        prop_oneof![3 => Just(Step::Push), 1 => Just(Step::Pop), 1 => Just(Step::Steal), 1 => Just(Step::StealEven)], 0..400)) {
        let (mut owner, stealer) = deque();
        let mut model: VecDeque<u64> = VecDeque::new();
        for (n, step) in (1..).zip(steps) {
            match step {
                Step::Push => {
                    owner.push(task(n));
                    model.push_back(n);
                }
                Step::Pop => prop_assert_eq!(pop(&mut owner), model.pop_back()),
                Step::Steal => prop_assert_eq!(steal(&stealer), model.pop_front()),
                Step::StealEven => match stealer.steal_if(|digest| digest % 2 == 0) {
                    Steal::Taken(task) => {
                        prop_assert_eq!(task.handle() % 2, 0);
                        prop_assert_eq!(Some(task.handle()), model.pop_front());
                    }
                    Steal::Refused => prop_assert_eq!(model.front().map(|n| n % 2), Some(1)),
                    Steal::Empty => prop_assert!(model.is_empty()),
                    Steal::Retry => prop_assert!(false, "no other thread is there"),
                },
            }
            prop_assert_eq!(owner.len(), model.len());
            prop_assert_eq!(stealer.is_empty(), model.is_empty());
        }
    }
}

#[test]
fn a_newest_task_that_is_refused_stays() {
    let (mut owner, stealer) = deque();
    assert_eq!(owner.pop_if(|_| true), None);
    (1..=2).for_each(|n| owner.push(task(n)));
    assert_eq!(owner.pop_if(|digest| digest != 2), None);
    assert_eq!(owner.len(), 2);
    assert_eq!(
        owner.pop_if(|digest| digest == 2).map(|task| task.handle()),
        Some(2)
    );
    assert!(matches!(stealer.steal(), Steal::Taken(task) if task.handle() == 1));
    assert_eq!(owner.pop_if(|_| unreachable!("there is none")), None);
}
