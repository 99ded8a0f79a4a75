//! Cases worked out by hand.

use crate::program::Made;
use tanada_sim::{
    Intervals, Machine, SimError, ThreadOptions, ThreadsOutcome, machines, simulate_threads,
};
use tanada_trace::threads::{Event, Sync};

fn load(after: u32, address: u64) -> Event {
    Event::Access {
        after,
        address,
        bytes: 4,
        store: false,
    }
}

/// Two hardware threads, one instruction a cycle each, two together; an L1D of two lines of 64 bytes; a miss 10 cycles.
const SMALL: &str = r#"
name = "small"
model = "uniform"
cores = 1
hit_cycles = 1
dispatch_cycles = 0
coherence = "none"
[smt]
threads_per_core = 2
issue_width = 2
ilp_percent = 100
fill_cycles = 4
period_cycles = 1000
[[cache]]
level = 1
kind = "data"
per = "core"
size = 128
ways = 2
line = 64
replacement = "lru"
miss_cycles = 10
"#;

fn run_on(text: &str, threads: impl IntoIterator<Item = Vec<Event>>) -> ThreadsOutcome {
    let machine = Machine::parse(text, "small.toml").expect("a machine");
    let program = Made::of(threads);
    simulate_threads(&program, &machine, "fifo", &ThreadOptions::default()).expect("it runs")
}

#[test]
fn who_waits_is_seen_and_changes_nothing() {
    // Thread 0 takes the lock before it creates thread 1, which waits for it; then thread 0 waits for the end of thread 1.
    let first = vec![
        Event::Sync(Sync::Lock(7)),
        Event::Sync(Sync::Create(1)),
        Event::Instructions(40),
        Event::Sync(Sync::Unlock(7)),
        Event::Sync(Sync::Join(1)),
    ];
    let second = vec![
        Event::Sync(Sync::Lock(7)),
        Event::Instructions(10),
        Event::Sync(Sync::Unlock(7)),
    ];
    let run = |observe| {
        let machine = Machine::parse(SMALL, "small.toml").expect("a machine");
        let program = Made::of([first.clone(), second.clone()]);
        let options = ThreadOptions {
            observe,
            ..ThreadOptions::default()
        };
        simulate_threads(&program, &machine, "fifo", &options).expect("it runs")
    };
    let seen = run(Some(Intervals {
        cycles: 16,
        most: 512,
    }));
    assert_eq!(seen.cycles, 50);
    let waits = seen.objects.iter();
    let waits: Vec<_> = waits
        .map(|one| (one.kind, one.object, one.waits, one.cycles, one.longest))
        .collect();
    // Thread 1 issues a full burst of 8 at 40, for which the pipe is taken until 44: the join comes then.
    assert_eq!(waits, [("lock", 7, 1, 40, 40), ("join", 1, 1, 6, 6)]);
    assert_eq!(seen.objects[0].threads[0].thread, 1);
    let series = seen.series.as_ref().expect("it was asked for");
    assert_eq!((series.interval, series.instructions.len()), (16, 4));
    assert_eq!(series.instructions.iter().sum::<u64>(), 50);
    let plain = run(None);
    assert!(plain.series.is_none() && plain.objects.is_empty());
    let without = ThreadsOutcome {
        series: None,
        objects: Vec::new(),
        ..seen
    };
    assert_eq!(without, plain);
}

fn spent(outcome: &ThreadsOutcome, cause: &str) -> u64 {
    let place = outcome.causes.iter().position(|one| one == cause);
    outcome.spent()[place.expect("there is such a cause")]
}

#[test]
fn a_single_thread_issues_misses_and_hits() {
    // Two instructions, of which the second misses: 2 + 10; then a hit: 1; then two more instructions.
    let outcome = run_on(
        SMALL,
        [vec![load(2, 0), load(1, 32), Event::Instructions(2)]],
    );
    assert_eq!(outcome.cycles, 2 + 10 + 1 + 2);
    assert_eq!((outcome.instructions, outcome.forced), (5, 0));
    let l1d = outcome.level("l1d").expect("it has one");
    assert_eq!((l1d.accesses, l1d.misses), (2, 1));
    assert_eq!(spent(&outcome, "instructions"), 5);
    assert_eq!(spent(&outcome, "l1d misses"), 10);
    assert_eq!(spent(&outcome, "idle"), 15, "the other hardware thread");
}

#[test]
fn the_pipe_and_the_channel_are_shared() {
    let start = Event::Sync(Sync::Create(1));
    // The second thread begins at 0. Both miss in other lines at cycle 1: the second fill waits for the channel.
    let outcome = run_on(SMALL, [vec![start, load(1, 0)], vec![load(1, 64)]]);
    // Issue: the first holds the pipe for half a cycle, so the second's instruction ends at 1.5, and its fill begins at 5.
    assert_eq!(
        spent(&outcome, "channel"),
        4,
        "3.5, and the half cycle before it"
    );
    assert_eq!(outcome.cycles, 15);
}

#[test]
fn a_fill_can_hold_the_ports() {
    let start = Event::Sync(Sync::Create(1));
    let text = SMALL.replace(
        "fill_cycles",
        "issue = \"static\"\nport_cycles = 1\nfill_port_cycles = 6\nfill_cycles",
    );
    let outcome = run_on(&text, [vec![start, load(1, 0)], vec![load(1, 64)]]);
    // Both look up at 1. The fill of the first is granted at 1 and holds the port until 7, where the other one's begins.
    assert_eq!(spent(&outcome, "ports"), 6);
    assert_eq!(outcome.cycles, 7 + 10);
}

#[test]
fn a_line_on_its_way_is_waited_for() {
    let start = Event::Sync(Sync::Create(1));
    let outcome = run_on(SMALL, [vec![start, load(1, 0)], vec![load(1, 32)]]);
    // Filled from 1 to 11; the second thread's lookup at 1.5 hits.
    assert_eq!(outcome.cycles, 11);
    assert_eq!(outcome.level("l1d").map(|one| one.misses), Some(1));
    assert_eq!(
        spent(&outcome, "line on its way"),
        10,
        "9.5, and the half cycle before it"
    );
}

#[test]
fn a_store_that_misses_does_not_stall_behind_mshrs() {
    let text = SMALL.replace("fill_cycles", "mshrs = 1\nwindow = 3\nfill_cycles");
    let store = Event::Access {
        after: 1,
        address: 0,
        bytes: 4,
        store: true,
    };
    let outcome = run_on(&text, [vec![store, Event::Instructions(6)]]);
    // The end of the thread waits for the store.
    assert_eq!(outcome.cycles, 11);
    assert_eq!(spent(&outcome, "window"), 4);
    // A load's fourth instruction waits: 1, 2, 3, 4, then 11, and three more.
    let outcome = run_on(&text, [vec![load(1, 0), Event::Instructions(6)]]);
    assert_eq!(outcome.cycles, 14);
    assert_eq!(spent(&outcome, "window"), 7);
}

#[test]
fn threads_that_wait_leave_their_hardware_thread() {
    let (lock, unlock) = (Event::Sync(Sync::Lock(0)), Event::Sync(Sync::Unlock(0)));
    let work = Event::Instructions(8);
    let create = |x| Event::Sync(Sync::Create(x));
    let join = |x| Event::Sync(Sync::Join(x));
    let outcome = run_on(
        &SMALL.replace("fill_cycles", "issue = \"static\"\nfill_cycles"),
        [
            vec![create(1), create(2), join(1), join(2)],
            vec![lock, work, unlock],
            vec![lock, work, unlock],
        ],
    );
    assert_eq!((outcome.cycles, outcome.forced), (16, 0));
    let locked: u64 = outcome.logical.iter().map(|one| one.blocked[0]).sum();
    assert_eq!(locked, 8, "the second waits for the first");
    assert_eq!(outcome.logical[0].blocked[4], 16);
    assert_eq!(outcome.logical[0].ended, 16);
}

#[test]
fn a_thread_is_not_ready_before_it_blocked() {
    let barrier = Event::Sync(Sync::Barrier {
        object: 0,
        parties: 2,
    });
    let create = Event::Sync(Sync::Create(1));
    // Both steps begin at 0. That of the second thread comes first and blocks at 7; the first thread opens the barrier at 1.
    let outcome = run_on(
        &SMALL.replace("fill_cycles", "issue = \"static\"\nfill_cycles"),
        [
            vec![create, Event::Instructions(1), barrier],
            vec![Event::Instructions(7), barrier, Event::Instructions(1)],
        ],
    );
    let second = &outcome.logical[1];
    assert_eq!((second.blocked[1], second.queued), (0, 0));
    assert_eq!((outcome.logical[0].ended, second.ended), (1, 8));
}

#[test]
fn a_period_ends_with_the_queue_behind_those_that_ran() {
    // Three threads, two hardware threads, a period of 1000: the third runs from 1000 on, although nothing blocks.
    let create = |x| Event::Sync(Sync::Create(x));
    let work = Event::Instructions(1500);
    let text = SMALL.replace("fill_cycles", "issue = \"static\"\nfill_cycles");
    let outcome = run_on(
        &text,
        [vec![create(1), create(2), work], vec![work], vec![work]],
    );
    assert_eq!(outcome.logical[2].queued, 1000);
    // At 1000 the queue is 2, 0, 1: those two run to 2000, then 1 (500 left) and 2 (500 left), while 0 ended at 1500.
    let ended: Vec<u64> = outcome.logical.iter().map(|one| one.ended).collect();
    assert_eq!(ended, [1500, 2000, 2500]);
    assert_eq!(outcome.cycles, 2500);
    assert_eq!(outcome.instructions, 4500);
    assert_eq!(outcome.periods[0].waiting, 3);
}

#[test]
fn threads_that_wait_for_each_other_are_an_error() {
    let first = vec![Event::Sync(Sync::Create(1)), Event::Sync(Sync::Join(1))];
    let machine = Machine::parse(SMALL, "small.toml").expect("a machine");
    let program = Made::of([first, vec![Event::Sync(Sync::Join(0))]]);
    let wrong =
        simulate_threads(&program, &machine, "fifo", &ThreadOptions::default()).unwrap_err();
    assert!(matches!(wrong, SimError::Deadlock { .. }));
    let text = wrong.to_string();
    assert_eq!(
        text,
        "no thread can run: thread 0 for join 1, thread 1 for join 0"
    );
    let wrong =
        simulate_threads(&program, &machine, "lifo", &ThreadOptions::default()).unwrap_err();
    assert!(
        wrong.to_string().starts_with("unknown governor \"lifo\""),
        "{wrong}"
    );
}

#[test]
fn what_a_recording_does_not_hold_is_forced() {
    // A semaphore that began at 1, a wait whose signal came before it, and a thread that nothing creates.
    let wait = Event::Sync(Sync::Wait {
        condition: 1,
        lock: 0,
        signals: None,
    });
    let lock = Event::Sync(Sync::Lock(0));
    let outcome = run_on(
        SMALL,
        [
            vec![Event::Sync(Sync::Take(2)), lock, wait],
            vec![Event::Instructions(1)],
        ],
    );
    assert_eq!(outcome.forced, 3);
    assert_eq!(outcome.instructions, 1);
}

#[test]
fn locks_taken_in_an_order_that_the_program_avoids_are_forced() {
    // Each takes the other's lock by `trylock`, which the recording shows as `lock`.
    let both = |a, b| {
        vec![
            Event::Sync(Sync::Lock(a)),
            Event::Instructions(9),
            Event::Sync(Sync::Lock(b)),
            Event::Instructions(9),
        ]
    };
    let mut first = both(0, 1);
    first.insert(0, Event::Sync(Sync::Create(1)));
    let outcome = run_on(SMALL, [first, both(1, 0)]);
    assert_eq!((outcome.forced, outcome.instructions), (1, 36));
}

#[test]
fn a_thread_that_ends_leaves_its_locks() {
    // As of a thread whose process ended while it waited for a condition.
    let first = vec![
        Event::Sync(Sync::Create(1)),
        Event::Instructions(50),
        Event::Sync(Sync::Lock(0)),
    ];
    let outcome = run_on(SMALL, [first, vec![Event::Sync(Sync::Lock(0))]]);
    assert_eq!((outcome.forced, outcome.instructions), (0, 50));
}

#[test]
fn a_wait_ends_with_the_signals_that_it_had_in_the_recording() {
    let wait = |signals| {
        let (condition, lock) = (1, 0);
        let signals = Some(signals);
        Event::Sync(Sync::Wait {
            condition,
            lock,
            signals,
        })
    };
    let lock = Event::Sync(Sync::Lock(0));
    let unlock = Event::Sync(Sync::Unlock(0));
    let broadcast = Event::Sync(Sync::Broadcast(1));
    // The first broadcast comes before the wait; the wait of the other thread needs the second, at 40.
    let first = vec![
        Event::Sync(Sync::Create(1)),
        broadcast,
        lock,
        wait(1),
        unlock,
        Event::Instructions(40),
        broadcast,
    ];
    let second = vec![lock, wait(2), unlock, Event::Instructions(20)];
    let outcome = run_on(SMALL, [first, second]);
    assert_eq!((outcome.forced, outcome.instructions), (0, 60));
    assert_eq!(outcome.cycles, 60);
}

#[test]
fn a_stream_that_stops_the_run_or_is_damaged_is_an_error() {
    let machine = Machine::parse(SMALL, "small.toml").expect("a machine");
    let program = Made::of([vec![Event::Instructions(4_000_000)]]);
    let stop = |_| false;
    let options = ThreadOptions {
        watch: Some(&stop),
        ..ThreadOptions::default()
    };
    let stopped = simulate_threads(&program, &machine, "fifo", &options).unwrap_err();
    assert!(matches!(stopped, SimError::Cancelled), "{stopped}");
}

#[test]
fn every_machine_runs_threads() {
    let create = |x| Event::Sync(Sync::Create(x));
    let threads = || {
        let work = |from: u64| Vec::from_iter((0..64).map(|i| load(2, from + 64 * i)));
        let mut first = work(0);
        first.insert(0, create(1));
        Made::of([first, work(1 << 20)])
    };
    for shipped in machines::all() {
        let machine = shipped.machine();
        let outcome = simulate_threads(&threads(), &machine, "rs-ss", &ThreadOptions::default());
        let outcome = outcome.unwrap_or_else(|error| panic!("{}: {error}", shipped.name));
        assert_eq!(outcome.instructions, 256, "{}", shipped.name);
        assert!(outcome.cycles > 128, "{}", shipped.name);
    }
}

#[test]
fn wrong_keys_of_smt_are_named_with_their_line() {
    let refused = |from: &str, to: &str| {
        let wrong = Machine::parse(&SMALL.replace(from, to), "small.toml");
        wrong.expect_err("it is refused").to_string()
    };
    for (from, to, words) in [
        (
            "ilp_percent = 100",
            "ilp_percent = 201",
            "more than `issue_width` = 2",
        ),
        (
            "issue_width = 2\n",
            "",
            "`issue_width` is missing in this [smt]",
        ),
        (
            "threads_per_core = 2",
            "threads_per_core = 65",
            "must be 1 to 64",
        ),
        ("fill_cycles", "fil_cycles", "did you mean `fill_cycles`?"),
        ("fill_cycles", "mshrs = 2\nfill_cycles", "need each other"),
        ("fill_cycles", "window = 2\nfill_cycles", "need each other"),
        (
            "fill_cycles",
            "ports = 2\nfill_cycles",
            "without `port_cycles`",
        ),
        (
            "fill_cycles",
            "fill_port_cycles = 2\nfill_cycles",
            "no lookup waits for a port",
        ),
        (
            "fill_cycles",
            "fetch = \"random\"\nfill_cycles",
            "must be round-robin or icount",
        ),
        (
            "fill_cycles",
            "l1d = \"static\"\nfill_cycles",
            "cannot be divided by 2 hardware threads",
        ),
        (
            "fill_cycles",
            "scheduler_cycles = 1000\nfill_cycles",
            "less than `period_cycles`",
        ),
        ("[smt]", "smt = 3\n[memory]", "`smt` must be a table"),
    ] {
        let message = refused(from, to);
        assert!(
            message.starts_with("small.toml:") && message.contains(words),
            "{message}"
        );
    }
    let slow = SMALL.replace("miss_cycles = 10", "miss_cycles = 2000000000");
    let machine = Machine::parse(&slow, "small.toml").expect("tasks may wait as long");
    let program = Made::of([vec![load(1, 0)]]);
    let wrong = simulate_threads(&program, &machine, "fifo", &ThreadOptions::default());
    assert!(matches!(wrong, Err(SimError::TooSlow { .. })), "{wrong:?}");
}
