//! Fork policies, registered ones and a program's own.

#![cfg(not(any(loom, shuttle)))]

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tanada_runtime::fork::{self, ForkRecorder};
use tanada_runtime::{Fork, ForkPolicy, Hints, Keep, Pool, Thief, WorkerId, fork_policies};

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = fork::join(|| fib(n - 1), || fib(n - 2));
    a + b
}

/// Sums numbers by every way to fork.
fn everything(n: u64) -> u64 {
    let sum = AtomicU64::new(0);
    let add = |more| _ = sum.fetch_add(more, Ordering::Relaxed);
    fork::scope(|scope| {
        for part in 0..n {
            scope.spawn(move |scope| {
                add(part);
                scope.spawn(move |_| add(fib(part % 9)));
            });
        }
        let (moved, _) = fork::join_context(|_| fib(10), |context| context.migrated());
        add(moved);
    });
    sum.into_inner()
}

#[test]
fn every_policy_computes_the_same() {
    let expected = everything(40);
    for entry in fork_policies::all() {
        for workers in [1, 2, 7] {
            let pool = Pool::builder().workers(workers).policy(entry.name);
            let pool = pool.build().expect("a pool");
            assert_eq!(pool.policy(), tanada_runtime::DEFAULT_POLICY);
            assert_eq!(fork::install(&pool, || fib(18)), 2584, "{}", entry.name);
            assert_eq!(
                fork::install(&pool, || everything(40)),
                expected,
                "{}",
                entry.name
            );
            let panicked = std::panic::catch_unwind(|| {
                fork::install(&pool, || {
                    fork::join(|| fib(9), || std::panic::resume_unwind(Box::new(7)))
                })
            });
            assert_eq!(
                panicked.err().and_then(|payload| payload.downcast().ok()),
                Some(Box::new(7))
            );
        }
    }
}

#[test]
fn a_policy_of_tasks_and_one_of_forks_are_named_together() {
    let pool = |name: &str| Pool::builder().workers(2).policy(name).build();
    assert_eq!(
        pool("ts-local+cutoff").expect("a pool").policy(),
        "ts-local"
    );
    assert_eq!(pool("near-steal").expect("a pool").policy(), "near-steal");
    for wrong in ["cutof", "ts-local+ts-local", "cutoff+fcfs", "fcfs+", "+"] {
        let error = pool(wrong).expect_err(wrong).to_string();
        assert!(error.starts_with("unknown policy"), "{error}");
        assert!(error.contains("help-first"), "{error}");
    }
}

/// Notes what it is asked, and keeps forks by their user value.
#[derive(Debug)]
struct Notes(Mutex<BTreeSet<(u32, u64, u64)>>);

impl ForkPolicy for Notes {
    fn decides(&self) -> bool {
        true
    }

    fn keep(&self, fork: &Fork) -> Keep {
        let Hints {
            depth,
            user,
            footprint,
            ..
        } = fork.hints;
        self.0
            .lock()
            .expect("no panic")
            .insert((depth, user, footprint));
        match user {
            0 => Keep::Exposed,
            1 => Keep::Plain,
            _ => Keep::Latent,
        }
    }

    fn steal(&self, thief: &mut Thief<'_>, steal: &mut dyn FnMut(WorkerId) -> bool) -> bool {
        thief
            .placement
            .ids()
            .filter(|victim| *victim != thief.me)
            .any(steal)
    }
}

#[test]
fn depth_is_known_and_hints_arrive() {
    static NOTES: Notes = Notes(Mutex::new(BTreeSet::new()));
    let pool = Pool::builder()
        .workers(3)
        .fork_policy(&NOTES)
        .build()
        .expect("a pool");
    fork::install(&pool, || {
        fib(8);
        let hints = Hints::groups(3, 4).with_user(2).with_footprint(100);
        fork::join_with(&hints, || (), || fork::join(|| (), || ()));
    });
    // Spawned closures are roots.
    fork::spawn_in(&pool, || _ = fib(3));
    drop(pool);
    let seen = NOTES.0.lock().expect("no panic");
    let mut expected: BTreeSet<_> = (1..=7).map(|depth| (depth, 0, 0)).collect();
    expected.insert((1, 2, 100));
    assert_eq!(*seen, expected);
}

/// Notes the depths that thieves see.
#[derive(Debug)]
struct Peeks(Mutex<BTreeSet<u16>>);

impl ForkPolicy for Peeks {
    fn decides(&self) -> bool {
        true
    }

    fn keep(&self, _fork: &Fork) -> Keep {
        Keep::Exposed
    }

    fn steal(&self, thief: &mut Thief<'_>, _steal: &mut dyn FnMut(WorkerId) -> bool) -> bool {
        // Takes nothing, so that the forks stay where they are.
        let victims: Vec<WorkerId> = thief.others().collect();
        let seen = victims.into_iter().filter_map(|victim| thief.peek(victim));
        self.0.lock().expect("no panic").extend(seen);
        false
    }
}

#[test]
fn a_thief_sees_the_depth_of_the_oldest_fork() {
    static PEEKS: Peeks = Peeks(Mutex::new(BTreeSet::new()));
    let pool = Pool::builder().workers(2).fork_policy(&PEEKS);
    let pool = pool.build().expect("a pool");
    let seen = |depth| PEEKS.0.lock().expect("no panic").contains(&depth);
    // The first closure of each join waits until the other worker has seen the fork of that join, which is the only one.
    fork::install(&pool, || {
        let wait = |depth| {
            while !seen(depth) {
                // New forks wake a worker that sleeps.
                fork::join(|| (), || ());
                std::thread::yield_now();
            }
        };
        fork::join(|| wait(1), || fork::join(|| wait(2), || ()));
    });
    let seen = PEEKS.0.lock().expect("no panic");
    assert!(seen.is_subset(&BTreeSet::from([1, 2, 3])), "{seen:?}");
}

#[test]
fn a_plain_fork_is_never_stolen_and_an_exposed_one_can_be() {
    static PLAIN: Notes = Notes(Mutex::new(BTreeSet::new()));
    let threads = |user: u64, recorder: &ForkRecorder| {
        let pool = Pool::builder()
            .workers(4)
            .fork_policy(&PLAIN)
            .record_forks(recorder);
        let pool = pool.build().expect("a pool");
        let hints = Hints::default().with_user(user);
        fork::install(&pool, || {
            let seen = Mutex::new(BTreeSet::new());
            for _ in 0..50 {
                let here = || {
                    seen.lock()
                        .expect("no panic")
                        .insert(fork::current_worker());
                };
                // The others have the time to take it.
                let first = || std::thread::sleep(std::time::Duration::from_millis(2));
                fork::join_with(&hints, first, here);
            }
            seen.into_inner().expect("no panic").len()
        })
    };
    let recorder = ForkRecorder::new();
    assert_eq!(threads(1, &recorder), 1);
    assert_eq!(recorder.profile().steals.len(), 0);
    assert_eq!(recorder.profile().joins, 50);
    // Of 50 forks, each of which lies there for 2 ms beside three idle workers, one is taken.
    let recorder = ForkRecorder::new();
    threads(0, &recorder);
    assert!(!recorder.profile().steals.is_empty());
}
