//! The run queue under loom, every interleaving of a few operations:
//! `RUSTFLAGS="--cfg loom" cargo test -p tanada-queues --release --test loom_run_queue`. Each test takes seconds.
#![cfg(loom)]

mod common;

use common::task;
use tanada_queues::sync::thread;
use tanada_queues::{Head, Steal, Tail, run_queue};

/// One attempt. A lost race counts as nothing.
fn pop(tail: &Tail) -> Option<u64> {
    match tail.pop() {
        Steal::Taken(task) => Some(task.handle()),
        _ => None,
    }
}

fn drain(head: &mut Head) -> Vec<u64> {
    std::iter::from_fn(|| head.pop())
        .map(|task| task.handle())
        .collect()
}

fn assert_each_once(mut taken: Vec<u64>, tasks: u64) {
    taken.sort_unstable();
    assert_eq!(taken, (1..=tasks).collect::<Vec<_>>());
}

/// The owner empties the queue while a thread pushes at the tail and another one steals there.
#[test]
fn owner_pusher_and_thief() {
    loom::model(|| {
        let (mut head, tail) = run_queue();
        head.push(task(1));
        let (pusher, thief) = (tail.clone(), tail.clone());
        let pusher = thread::spawn(move || pusher.push(task(2)));
        let thief = thread::spawn(move || pop(&thief));
        let mut taken: Vec<u64> = head.pop().map(|task| task.handle()).into_iter().collect();
        pusher.join().unwrap();
        taken.extend(thief.join().unwrap());
        taken.extend(drain(&mut head));
        assert!(tail.is_empty());
        assert_each_once(taken, 2);
    });
}

/// A thief takes a task, rejects it and pushes it back at the victim's tail (paper 5), while the owner pops.
#[test]
fn a_rejected_task_comes_back() {
    loom::model(|| {
        let (mut head, tail) = run_queue();
        head.push(task(1));
        head.push(task(2));
        let thief = thread::spawn(move || {
            if let Steal::Taken(task) = tail.pop() {
                tail.push(task);
            }
        });
        let mut taken: Vec<u64> = head.pop().map(|task| task.handle()).into_iter().collect();
        thief.join().unwrap();
        taken.extend(drain(&mut head));
        assert_each_once(taken, 2);
    });
}

/// What a thief accepts is what it gets, also if tasks are pushed behind it.
#[test]
fn a_conditional_take_is_exact() {
    loom::model(|| {
        let (mut head, tail) = run_queue();
        tail.push(task(1));
        let other = tail.clone();
        let pusher = thread::spawn(move || other.push(task(2)));
        let mut seen = None;
        let took = tail.pop_if(|digest| {
            seen = Some(digest);
            true
        });
        let mut taken = Vec::new();
        if let Steal::Taken(task) = took {
            assert_eq!(Some(task.digest()), seen);
            taken.push(task.handle());
        }
        pusher.join().unwrap();
        taken.extend(drain(&mut head));
        assert_each_once(taken, 2);
    });
}

/// A sleeper that announces itself and finds the queue empty is seen by the pusher: no wake-up is lost.
#[test]
fn a_push_at_the_tail_is_seen_by_a_sleeper() {
    use tanada_queues::sync::Arc;
    use tanada_queues::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use tanada_queues::sync::total_order;
    loom::model(|| {
        let (_head, tail) = run_queue();
        let sleepers = Arc::new(AtomicUsize::new(0));
        let (other, seen) = (tail.clone(), Arc::clone(&sleepers));
        let pusher = thread::spawn(move || {
            other.push(task(1));
            total_order();
            seen.load(SeqCst)
        });
        sleepers.store(1, SeqCst);
        total_order();
        let sleeps = tail.is_empty();
        let woken = pusher.join().unwrap() == 1;
        assert!(!sleeps || woken);
    });
}

/// A task in the line is taken once, by the owner or by a thief, also while the owner puts another one behind it.
#[test]
fn the_line_is_taken_once() {
    loom::model(|| {
        let (mut head, tail) = run_queue();
        head.push_last(task(1));
        let thief = thread::spawn(move || pop(&tail));
        head.push_last(task(2));
        let mut taken: Vec<u64> = head.pop().map(|task| task.handle()).into_iter().collect();
        taken.extend(thief.join().unwrap());
        taken.extend(drain(&mut head));
        assert_each_once(taken, 2);
    });
}

/// The owner takes the next one, and puts the last one behind the others, without its promise to sleepers: a yield.
#[test]
fn turns_are_taken_once() {
    loom::model(|| {
        let (mut head, tail) = run_queue();
        head.push_last_quietly(task(1));
        head.push_last_quietly(task(2));
        let thief = thread::spawn(move || [pop(&tail), pop(&tail)]);
        let mut taken = Vec::new();
        let next = head.pop().map(|task| task.handle());
        head.push_last_quietly(task(3));
        taken.extend(next);
        taken.extend(thief.join().unwrap().into_iter().flatten());
        taken.extend(drain(&mut head));
        assert_each_once(taken, 3);
    });
}

/// The last task at the head, which the owner takes as a thief does, and two thieves.
#[test]
fn the_last_task_is_taken_once() {
    loom::model(|| {
        let (mut head, tail) = run_queue();
        head.push(task(1));
        let other = tail.clone();
        let thieves = [tail, other].map(|tail| thread::spawn(move || pop(&tail)));
        let mut taken: Vec<u64> = head.pop().map(|task| task.handle()).into_iter().collect();
        for thief in thieves {
            taken.extend(thief.join().unwrap());
        }
        head.push(task(2));
        taken.extend(drain(&mut head));
        assert_each_once(taken, 2);
    });
}

/// A sleeper that announces itself and finds the queue empty is seen by an owner that puts a task into the line.
#[test]
fn a_push_into_the_line_is_seen_by_a_sleeper() {
    use tanada_queues::sync::Arc;
    use tanada_queues::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use tanada_queues::sync::total_order;
    loom::model(|| {
        let (mut head, tail) = run_queue();
        let sleepers = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&sleepers);
        let owner = thread::spawn(move || {
            head.push_last(task(1));
            total_order();
            seen.load(SeqCst)
        });
        sleepers.store(1, SeqCst);
        total_order();
        let sleeps = tail.is_empty();
        let woken = owner.join().unwrap() == 1;
        assert!(!sleeps || woken);
    });
}

/// Each part has one task, which the owner takes out of turn while a thief takes one, too.
#[test]
fn what_waits_is_taken_once() {
    loom::model(|| {
        let (mut head, tail) = run_queue();
        head.push(task(1));
        head.push_last(task(2));
        let other = tail.clone();
        let thief = thread::spawn(move || pop(&other));
        tail.push(task(3));
        let waiting = (0..2).filter_map(|_| head.pop_waiting());
        let mut taken: Vec<u64> = waiting.map(|task| task.handle()).collect();
        taken.extend(thief.join().unwrap());
        taken.extend(drain(&mut head));
        assert_each_once(taken, 3);
    });
}

/// The oldest of the owner's own is taken once, too: the owner takes it as a thief does.
#[test]
fn the_oldest_is_taken_once() {
    loom::model(|| {
        let (mut head, tail) = run_queue();
        (1..Head::LOOKS).for_each(|_| assert!(head.pop_waiting().is_none()));
        head.push(task(1));
        head.push(task(2));
        let thief = thread::spawn(move || pop(&tail));
        let mut taken: Vec<u64> = head
            .pop_waiting()
            .map(|task| task.handle())
            .into_iter()
            .collect();
        taken.extend(head.pop().map(|task| task.handle()));
        taken.extend(thief.join().unwrap());
        taken.extend(drain(&mut head));
        assert_each_once(taken, 2);
    });
}
