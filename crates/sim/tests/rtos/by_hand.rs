//! Rules with figures that were worked out by hand, and refused programs.

use std::collections::VecDeque;
use tanada_sim::rtos::code::{Code, PIECES, Step};
use tanada_sim::rtos::{
    Body, Call, Core, Got, Handler, RtosOptions, RtosOutcome, System, Task, run,
};
use tanada_sim::{Machine, SimError, machines};

fn nec() -> Machine {
    machines::find("nec").expect("it is registered")
}

/// A program that makes calls one after the other, and notes the clock before each.
fn calls<'a>(list: Vec<Call>, seen: &'a std::cell::RefCell<Vec<(u64, Got)>>) -> Box<dyn Body + 'a> {
    let mut at = 0;
    Box::new(move |got: Got, now: u64| {
        if got == Got::Begin {
            at = 0;
        }
        seen.borrow_mut().push((now, got));
        at += 1;
        list.get(at - 1).copied().unwrap_or(Call::Stop)
    })
}

fn idle<'a>() -> Task<'a> {
    Task {
        id: 1,
        priority: 15,
        ready: true,
        body: Box::new(|_: Got, _: u64| Call::Idle),
    }
}

fn task<'a>(id: u32, priority: u8, ready: bool, body: Box<dyn Body + 'a>) -> Task<'a> {
    Task {
        id,
        priority,
        ready,
        body,
    }
}

fn ran(
    machine: &Machine,
    core: Core<'_>,
    interrupts: &[(u64, usize, usize)],
) -> Result<RtosOutcome, SimError> {
    let system = System {
        cores: vec![core],
        outside: Box::new(VecDeque::from(interrupts.to_vec())),
        timers: Vec::new(),
    };
    run(machine, Code::shipped(), system, &RtosOptions::default())
}

#[test]
fn every_piece_was_recorded_and_touches_what_its_name_says() {
    let code = Code::shipped();
    for (piece, name) in code.pieces.iter().zip(PIECES) {
        assert!(
            piece.instructions() >= 3,
            "{name}: {}",
            piece.instructions()
        );
        let fetched = piece
            .before
            .iter()
            .any(|step| matches!(step, Step::Fetch { .. }));
        assert!(fetched, "{name}");
        let words = name.ends_with("waits") || ["dispatch", "interrupt dispatches"].contains(&name);
        assert_eq!(
            !piece.behind.is_empty() && words,
            words,
            "{name}: what comes behind the dispatcher"
        );
    }
    // 66 bytes: 16 words and 2 bytes are read from shared memory, and as many written.
    let copy = &code.pieces[Code::number("copy_frame")];
    let bytes = |store| -> u64 {
        let each = copy.before.iter().filter_map(move |step| match step {
            Step::Access {
                role,
                bytes,
                store: is,
                ..
            } if *is == store && *role != 0 => Some(u64::from(*bytes)),
            _ => None,
        });
        each.sum()
    };
    assert_eq!((bytes(false), bytes(true)), (66, 66));
}

#[test]
fn computing_takes_its_cycles_and_an_interrupt_is_accepted_behind_it() {
    let (seen, handler) = (std::cell::RefCell::default(), std::cell::RefCell::default());
    let core = Core {
        tasks: vec![
            task(
                2,
                1,
                true,
                calls(vec![Call::Compute(100), Call::Compute(50)], &seen),
            ),
            idle(),
        ],
        handlers: vec![Handler {
            id: 9,
            level: 1,
            body: calls(vec![Call::Done], &handler),
        }],
        ..Core::default()
    };
    let outcome = ran(&nec(), core, &[(30, 0, 0), (40, 0, 0)]).expect("it runs");
    // The second request is lost: the first one waits for the end of the work at 100.
    assert_eq!(outcome.cores[0].lost, 1);
    assert_eq!(outcome.cores[0].longest_latency, 70);
    let seen = seen.borrow();
    assert_eq!((seen[0], seen[1].1), ((0, Got::Begin), Got::Ok));
    assert!(handler.borrow()[0].0 > 100);
    let task = outcome.cores[0].of(&[2]);
    assert_eq!((task.own, task.service, task.switch), (150, 0, 0));
    let handler = outcome.cores[0].of(&[9]);
    assert_eq!(outcome.end, 150 + handler.service);
    assert_eq!(outcome.cores[0].busy() + outcome.cores[0].idle, outcome.end);
}

#[test]
fn a_line_costs_what_the_memory_takes_and_a_hit_nothing() {
    // One fetch of a piece over and over: its lines are there the second time.
    let run_twice = |machine: &Machine| {
        let seen = std::cell::RefCell::default();
        let piece = Code::number("isig_tim");
        let at = [0x30000; 6];
        let list = vec![Call::Run { piece, at }, Call::Run { piece, at }];
        let core = Core {
            tasks: vec![task(2, 1, true, calls(list, &seen)), idle()],
            ..Core::default()
        };
        let outcome = ran(machine, core, &[]).expect("it runs");
        let times: Vec<u64> = seen.borrow().iter().map(|one| one.0).collect();
        (
            times[1] - times[0],
            times[2] - times[1],
            outcome.cores[0].caches,
        )
    };
    let (first, second, caches) = run_twice(
        &nec()
            .overridden(&["rtos.write_miss=allocate"])
            .expect("a word of the key"),
    );
    let misses = caches.fetch_misses + caches.access_misses;
    assert!(misses >= 2, "{caches:?}");
    // A line: 64 words of 2 cycles, 4 of latency, up to 8 for its row, and at most 1 for the bus' edge.
    let a_line = (first - second) as f64 / misses as f64;
    assert!((132.0..=141.0).contains(&a_line), "{a_line} {caches:?}");
    let off = nec()
        .overridden(&["rtos.caches=off"])
        .expect("a word of the key");
    let (first, second, caches) = run_twice(&off);
    assert_eq!(caches.fetches + caches.accesses, 0);
    assert!(
        first.abs_diff(second) < 20 && second > 100,
        "{first} {second}"
    );
}

#[test]
fn a_woken_task_preempts_unless_dispatch_is_disabled() {
    for disabled in [false, true] {
        let (low, high) = (std::cell::RefCell::default(), std::cell::RefCell::default());
        let mut list = vec![
            Call::Compute(10),
            Call::Wake(1),
            Call::Compute(1000),
            Call::Compute(0),
        ];
        if disabled {
            list.insert(0, Call::DisableDispatch);
            list.insert(4, Call::EnableDispatch);
        }
        let core = Core {
            tasks: vec![
                task(2, 5, true, calls(list, &low)),
                task(
                    3,
                    2,
                    true,
                    calls(
                        vec![Call::Sleep, Call::Compute(7), Call::Sleep, Call::Sleep],
                        &high,
                    ),
                ),
                idle(),
            ],
            ..Core::default()
        };
        let outcome = ran(&nec(), core, &[]).expect("it runs");
        let woken = high.borrow()[1].0;
        let low = low.borrow();
        let computed = low[if disabled { 4 } else { 3 }].0;
        assert_eq!(
            woken > computed,
            disabled,
            "{disabled}: woken at {woken}, computed until {computed}"
        );
        assert_eq!(outcome.cores[0].of(&[3]).own, 7);
    }
}

#[test]
fn a_handler_is_interrupted_by_a_higher_level_only() {
    let (first, second) = (std::cell::RefCell::default(), std::cell::RefCell::default());
    for (level, nests) in [(1, false), (2, true)] {
        first.replace(Vec::new());
        second.replace(Vec::new());
        let seen = std::cell::RefCell::default();
        let core = Core {
            tasks: vec![
                task(2, 1, true, calls(vec![Call::Compute(5000)], &seen)),
                idle(),
            ],
            handlers: vec![
                Handler {
                    id: 8,
                    level: 1,
                    body: calls(
                        vec![Call::Compute(900), Call::Compute(900), Call::Done],
                        &first,
                    ),
                },
                Handler {
                    id: 9,
                    level,
                    body: calls(vec![Call::Done], &second),
                },
            ],
            ..Core::default()
        };
        let interrupts = [(1, 0, 0), (5400, 0, 1)];
        // The task's work is one piece: both come behind it, so the first begins at 5000.
        let outcome = ran(&nec(), core, &interrupts).expect("it runs");
        assert_eq!(
            second.borrow()[0].0 < first.borrow()[2].0,
            nests,
            "level {level}"
        );
        assert_eq!(outcome.cores[0].busy() + outcome.cores[0].idle, outcome.end);
    }
}

#[test]
fn programs_that_break_rules_are_refused_with_core_and_number() {
    let refused = |list: Vec<Call>, tasks: Vec<Task<'static>>| {
        let seen: &'static std::cell::RefCell<Vec<(u64, Got)>> = Box::leak(Box::default());
        let mut all = vec![task(7, 1, true, calls(list, seen))];
        all.extend(tasks);
        let core = Core {
            tasks: all,
            ..Core::default()
        };
        match ran(&nec(), core, &[]) {
            Err(error) => error.to_string(),
            Ok(outcome) => panic!("{outcome:?}"),
        }
    };
    for (list, what) in [
        (vec![Call::Wake(5)], "core 0, 7: there is no such task"),
        (vec![Call::Done], "core 0, 7: only a handler is done"),
        (vec![Call::Idle], "core 0, 7: only the last task idles"),
        (
            vec![Call::Collect(0)],
            "core 0, 7: there is no such mailbox",
        ),
        (
            vec![Call::DisableDispatch, Call::Sleep],
            "core 0, 7: a task cannot wait while dispatch is disabled",
        ),
        (
            vec![Call::Raise { core: 0, line: 0 }],
            "core 0, 7: an interrupt has no handler",
        ),
        (vec![Call::Tick], "core 0, 7: only a handler counts time"),
        (
            vec![Call::Run {
                piece: usize::MAX,
                at: [0; 6],
            }],
            "core 0, 7: there is no such piece of code",
        ),
    ] {
        assert_eq!(refused(list, vec![idle()]), what);
    }
    assert_eq!(
        refused(vec![Call::Sleep], Vec::new()),
        "core 0: no task is ready, and none idles"
    );
    let none = ran(
        &machines::find("toshiba").expect("it is there"),
        Core::default(),
        &[],
    );
    assert!(none.is_err_and(|error| error.to_string().contains("no `[rtos]`")));
}
