//! Random systems on two cores: both implementations agree to the last count.

use super::second;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use tanada_sim::rtos::code::{Code, PIECES, Place};
use tanada_sim::rtos::{Body, Call, Core, Got, Handler, RtosOptions, System, Task, run};
use tanada_sim::{Machine, SimError, machines};

/// What a task or handler does, again and again.
#[derive(Clone, Debug)]
struct Plan {
    priority: u8,
    calls: Vec<Call>,
}

/// Calls of a task or handler, after which it only ends.
const MOST_CALLS: usize = 40;

/// A program that makes `calls` each time it begins, and then `end`. A task that activates itself would begin for ever:
/// after [`MOST_CALLS`] it only makes the call `end`.
fn body<'a>(calls: &'a [Call], end: Call) -> Box<dyn Body + 'a> {
    let (mut at, mut asked) = (0, 0);
    Box::new(move |got: Got, _: u64| {
        if got == Got::Begin {
            at = 0;
        }
        at += 1;
        asked += 1;
        let left = calls.get(at - 1).filter(|_| asked <= MOST_CALLS);
        left.copied().unwrap_or(end)
    })
}

fn system<'a>(
    cores: &'a [(Vec<Plan>, Vec<Plan>)],
    interrupts: &[(u64, usize, usize)],
) -> System<'a> {
    let core = |(tasks, handlers): &'a (Vec<Plan>, Vec<Plan>)| {
        let each = tasks.iter().zip(10..).map(|(plan, id)| Task {
            id,
            priority: plan.priority,
            ready: true,
            // Only the first one ends: who is dormant cannot be woken.
            body: body(&plan.calls, if id == 10 { Call::Exit } else { Call::Sleep }),
        });
        let idle = Task {
            id: 1,
            priority: 15,
            ready: true,
            body: Box::new(|_: Got, _: u64| Call::Idle) as Box<dyn Body>,
        };
        let handlers = handlers.iter().zip(20..).map(|(plan, id)| Handler {
            id,
            level: plan.priority,
            body: body(&plan.calls, Call::Done),
        });
        Core {
            tasks: each.chain([idle]).collect(),
            handlers: handlers.collect(),
            flags: 2,
            queues: vec![0, 2],
            mailboxes: 2,
            pools: vec![2, 3],
        }
    };
    System {
        cores: cores.iter().map(core).collect(),
        outside: Box::new(interrupts.iter().copied().collect::<VecDeque<_>>()),
        timers: vec![(0, 0, 5_000, 0), (1, 1, 7_000, 0)],
    }
}

const TASKS: usize = 3;

fn any_call(handler: bool) -> BoxedStrategy<Call> {
    let base = (0..PIECES.len(), 0..8_u64).prop_map(|(piece, shift)| Call::Run {
        piece,
        at: [0, 1, 2, 3, 4, 5].map(|role| 0x30000 + (role + shift) * 0x140),
    });
    let both = prop_oneof![
        4 => base,
        2 => (0..3000_u64).prop_map(Call::Compute),
        2 => (1..TASKS).prop_map(Call::Wake),
        2 => (0..2_usize, 1..4_u32).prop_map(|(flag, bits)| Call::SetFlag { flag, bits }),
        2 => (0..2_usize, any::<u8>()).prop_map(|(queue, value)| Call::Send { queue, value: u64::from(value) }),
        2 => (0..2_usize, 0..9_u64).prop_map(|(mailbox, block)| Call::Mail {
            mailbox,
            message: Code::shipped().place(Place::Block, block),
        }),
        1 => (0..2_usize, 0..2_usize).prop_map(|(core, line)| Call::Raise { core, line }),
        1 => (0..2_usize, 0..2_usize, prop::option::of(0..400_000_u64))
            .prop_map(|(core, line, at)| Call::Timer { core, line, at, every: 0 }),
    ];
    if handler {
        return prop_oneof![6 => both, 1 => Just(Call::Tick)].boxed();
    }
    prop_oneof![
        8 => both,
        1 => Just(Call::Sleep),
        1 => (0..2_usize, 1..4_u32, any::<bool>()).prop_map(|(flag, bits, any)| Call::WaitFlag { flag, bits, any }),
        1 => (0..2_usize).prop_map(Call::Receive),
        1 => (0..2_usize).prop_map(Call::Collect),
        1 => (0..2_usize).prop_map(Call::Poll),
        1 => (0..2_usize).prop_map(Call::Get),
        1 => Just(Call::Activate(0)),
        1 => Just(Call::EnableDispatch),
    ]
    .boxed()
}

/// Dispatch is disabled around calls that do not wait.
fn sound(mut calls: Vec<Call>, disable: Option<usize>) -> Vec<Call> {
    if let Some(at) = disable {
        let at = at.min(calls.len());
        let plain = [
            Call::DisableDispatch,
            Call::Compute(40),
            Call::SetFlag { flag: 0, bits: 1 },
            Call::EnableDispatch,
        ];
        calls.splice(at..at, plain);
    }
    calls
}

fn core() -> impl Strategy<Value = (Vec<Plan>, Vec<Plan>)> {
    let task = (
        1..6_u8,
        prop::collection::vec(any_call(false), 1..9),
        prop::option::of(0..9_usize),
    );
    let task = task.prop_map(|(priority, calls, disable)| Plan {
        priority,
        calls: sound(calls, disable),
    });
    let handler = (1..4_u8, prop::collection::vec(any_call(true), 0..4));
    let handler = handler.prop_map(|(priority, calls)| Plan {
        priority,
        // A handler that requests itself would never end.
        calls: calls
            .into_iter()
            .filter(|call| !matches!(call, Call::Raise { .. } | Call::Timer { .. }))
            .collect(),
    });
    (
        prop::collection::vec(task, TASKS),
        prop::collection::vec(handler, 2),
    )
}

fn agree(
    machine: &Machine,
    cores: &[(Vec<Plan>, Vec<Plan>)],
    interrupts: &[(u64, usize, usize)],
    seed: u64,
) -> Result<bool, TestCaseError> {
    let code = Code::shipped();
    // No such system takes that long: a run that does not end is a fault.
    let in_time = |now: u64| now < 50_000_000;
    let options = RtosOptions {
        seed: Some(seed),
        watch: Some(&in_time),
        ..RtosOptions::default()
    };
    // A program may break a rule, for which the other implementation has no answer.
    let found = match run(machine, code, system(cores, interrupts), &options) {
        Ok(found) => found,
        Err(error) => {
            prop_assert!(!matches!(error, SimError::Cancelled), "it does not end");
            return Ok(false);
        }
    };
    let other = second::run(machine, code, system(cores, interrupts), seed);
    prop_assert_eq!(found.end, other.end);
    for (core, (one, two)) in found.cores.iter().zip(&other.cores).enumerate() {
        let cycles: Vec<_> = one.accounts.iter().map(|account| account.cycles).collect();
        let begins: Vec<_> = one.accounts.iter().map(|account| account.begins).collect();
        prop_assert_eq!(&cycles, &two.cycles, "core {}", core);
        prop_assert_eq!(&begins, &two.begins, "core {}", core);
        prop_assert_eq!(
            (one.idle, one.bus_wait, one.lost, one.longest_latency),
            (two.idle, two.bus_wait, two.lost, two.latency),
            "core {}",
            core
        );
        prop_assert_eq!(one.caches, two.caches, "core {}", core);
        let parts = one.pieces.iter();
        let parts: BTreeMap<_, _> = parts
            .map(|(&key, part)| (key, (part.times, part.cycles)))
            .collect();
        prop_assert_eq!(&parts, &two.parts, "core {}", core);
        prop_assert_eq!(one.busy() + one.idle, found.end, "core {}", core);
    }
    Ok(true)
}

#[test]
fn both_implementations_agree_on_random_systems() {
    let sets = [
        vec![],
        vec!["rtos.caches=off"],
        vec![
            "rtos.write_miss=allocate",
            "rtos.arbitration=round-robin",
            "l1.replacement=lru",
        ],
        vec![
            "rtos.write_miss=allocate",
            "l1.size=1K",
            "l1.ways=2",
            "l1.line=64",
            "rtos.banks=3",
            "rtos.bank_size=1K",
            "rtos.bus_cycles=3",
        ],
    ];
    let nec = machines::find("nec").expect("it is registered");
    let machines: Vec<Machine> = sets
        .iter()
        .map(|set| nec.overridden(set).expect("the values are sound"))
        .collect();
    let more = std::env::var("PROPTEST_CASES").ok();
    let cases = more.and_then(|cases| cases.parse().ok()).unwrap_or(1000);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let interrupts = prop::collection::vec((0..200_000_u64, 0..2_usize, 0..2_usize), 0..12);
    let input = (core(), core(), interrupts, 0..4_usize, any::<u64>());
    let compared = std::cell::Cell::new(0);
    runner
        .run(&input, |(one, two, mut interrupts, machine, seed)| {
            interrupts.sort_unstable();
            let agreed = agree(&machines[machine], &[one, two], &interrupts, seed)?;
            compared.set(compared.get() + u32::from(agreed));
            Ok(())
        })
        .expect("they agree");
    let compared = compared.get();
    println!("{compared} of {cases} systems kept the rules");
    assert!(
        compared > cases / 3,
        "only {compared} systems kept the rules"
    );
}
