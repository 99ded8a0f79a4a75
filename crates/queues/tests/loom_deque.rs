//! The deque under loom, every interleaving of a few operations:
//! `RUSTFLAGS="--cfg loom" cargo test -p tanada-queues --release --test loom_deque`. Each test takes seconds.
#![cfg(loom)]

mod common;

use common::task;
use tanada_queues::sync::atomic::{AtomicUsize, Ordering};
use tanada_queues::sync::{Arc, thread};
use tanada_queues::{Owner, Steal, Stealer, deque};

/// One attempt. A lost race counts as nothing.
fn steal(stealer: &Stealer) -> Option<u64> {
    match stealer.steal() {
        Steal::Taken(task) => Some(task.handle()),
        _ => None,
    }
}

fn drain(owner: &mut Owner) -> Vec<u64> {
    std::iter::from_fn(|| owner.pop())
        .map(|task| task.handle())
        .collect()
}

fn assert_each_once(mut taken: Vec<u64>, tasks: u64) {
    taken.sort_unstable();
    assert_eq!(taken, (1..=tasks).collect::<Vec<_>>());
}

#[test]
fn owner_and_thief_on_the_last_task() {
    loom::model(|| {
        let (mut owner, stealer) = deque();
        owner.push(task(1));
        let thief = thread::spawn(move || steal(&stealer));
        let mut taken: Vec<u64> = drain(&mut owner);
        taken.extend(thief.join().unwrap());
        taken.extend(drain(&mut owner));
        assert_each_once(taken, 1);
    });
}

#[test]
fn push_and_pop_against_a_thief() {
    loom::model(|| {
        let (mut owner, stealer) = deque();
        let thief = thread::spawn(move || [steal(&stealer), steal(&stealer)]);
        owner.push(task(1));
        owner.push(task(2));
        let mut taken: Vec<u64> = owner.pop().map(|task| task.handle()).into_iter().collect();
        taken.extend(thief.join().unwrap().into_iter().flatten());
        taken.extend(drain(&mut owner));
        assert_each_once(taken, 2);
    });
}

/// The owner pushes without its promise to sleepers, and takes from the old end as a thief does, also while a buffer is outgrown.
#[test]
fn quiet_pushes_and_the_oldest_against_a_thief() {
    loom::model(|| {
        let (mut owner, stealer) = deque();
        owner.push_quietly(task(1));
        let thief = thread::spawn(move || [steal(&stealer), steal(&stealer)]);
        owner.push_quietly(task(2));
        let mut taken: Vec<u64> = (owner.pop_oldest().map(|task| task.handle()))
            .into_iter()
            .collect();
        owner.push_quietly(task(3));
        taken.extend(owner.pop().map(|task| task.handle()));
        taken.extend(thief.join().unwrap().into_iter().flatten());
        taken.extend(drain(&mut owner));
        assert_each_once(taken, 3);
    });
}

#[test]
fn two_thieves_and_the_owner_on_the_last_task() {
    loom::model(|| {
        let (mut owner, stealer) = deque();
        owner.push(task(1));
        let other = stealer.clone();
        let thieves = [
            thread::spawn(move || steal(&stealer)),
            thread::spawn(move || steal(&other)),
        ];
        let mut taken: Vec<u64> = drain(&mut owner);
        taken.extend(
            thieves
                .into_iter()
                .filter_map(|thief| thief.join().unwrap()),
        );
        taken.extend(drain(&mut owner));
        assert_each_once(taken, 1);
    });
}

/// Under loom the first buffer has two slots: the third push makes a new buffer while a thief reads the old one, and the slot of the
/// first task is used again in a buffer that is full.
#[test]
fn growth_against_a_thief() {
    loom::model(|| {
        let (mut owner, stealer) = deque();
        owner.push(task(1));
        owner.push(task(2));
        let thief = thread::spawn(move || [steal(&stealer), steal(&stealer)]);
        owner.push(task(3));
        owner.push(task(4));
        let stolen: Vec<u64> = thief.join().unwrap().into_iter().flatten().collect();
        assert!(stolen.is_sorted(), "{stolen:?}");
        let mut taken = stolen;
        taken.extend(drain(&mut owner));
        assert_each_once(taken, 4);
    });
}

/// The slot of a stolen task is used again: the thief's word must be the old one.
#[test]
fn a_slot_that_is_used_again() {
    loom::model(|| {
        let (mut owner, stealer) = deque();
        owner.push(task(1));
        let thief = thread::spawn(move || [steal(&stealer), steal(&stealer)]);
        let mut taken: Vec<u64> = owner.pop().map(|task| task.handle()).into_iter().collect();
        owner.push(task(2));
        owner.push(task(3));
        taken.extend(thief.join().unwrap().into_iter().flatten());
        taken.extend(drain(&mut owner));
        assert_each_once(taken, 3);
    });
}

#[test]
fn what_a_thief_accepts_is_what_it_gets() {
    loom::model(|| {
        let (mut owner, stealer) = deque();
        owner.push(task(1));
        owner.push(task(2));
        let other = stealer.clone();
        let choosy = thread::spawn(move || match stealer.steal_if(|digest| digest == 2) {
            Steal::Taken(task) => Some(task.handle()),
            _ => None,
        });
        let mut taken: Vec<u64> = steal(&other).into_iter().collect();
        taken.extend(owner.pop().map(|task| task.handle()));
        let chosen = choosy.join().unwrap();
        assert!(chosen.is_none_or(|n| n == 2));
        taken.extend(chosen);
        taken.extend(drain(&mut owner));
        assert_each_once(taken, 2);
    });
}

/// A peek shows a task that was the oldest at some moment, also if its slot is used again.
#[test]
fn a_peek_shows_one_that_was_the_oldest() {
    loom::model(|| {
        let (mut owner, stealer) = deque();
        owner.push(task(1));
        let peeks = stealer.clone();
        let peeker = thread::spawn(move || peeks.peek());
        let mut taken: Vec<u64> = steal(&stealer).into_iter().collect();
        owner.push(task(2));
        owner.push(task(3));
        let seen = peeker.join().unwrap();
        assert!(
            seen.is_none_or(|digest| digest == 1 || digest == 2),
            "{seen:?}"
        );
        taken.extend(drain(&mut owner));
        assert_each_once(taken, 3);
    });
}

/// The promise to sleepers: either the owner that pushes sees the sleeper, or the sleeper sees the task. (The queues bring loom's fences
/// along.)
#[test]
fn no_push_is_overlooked_by_a_sleeper() {
    loom::model(|| {
        let (mut owner, stealer) = deque();
        let sleepers = Arc::new(AtomicUsize::new(0));
        let announced = Arc::clone(&sleepers);
        let sleeper = thread::spawn(move || {
            announced.fetch_add(1, Ordering::SeqCst);
            stealer.is_empty()
        });
        owner.push(task(1));
        let wakes = sleepers.load(Ordering::SeqCst) > 0;
        let sleeps = sleeper.join().unwrap();
        assert!(wakes || !sleeps, "the worker sleeps and no thread wakes it");
    });
}

/// Tasks that become visible together, in a buffer that has to grow for them.
#[test]
fn tasks_pushed_at_once_against_a_thief() {
    loom::model(|| {
        let (mut owner, stealer) = deque();
        owner.push(task(1));
        let thief = thread::spawn(move || [steal(&stealer), steal(&stealer)]);
        owner.push_all([2, 3].map(task).into_iter());
        let mut taken: Vec<u64> = owner.pop().map(|task| task.handle()).into_iter().collect();
        taken.extend(thief.join().unwrap().into_iter().flatten());
        taken.extend(drain(&mut owner));
        assert_each_once(taken, 3);
    });
}
