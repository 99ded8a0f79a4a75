//! Random programs on random machines under random plans: the engine and the second implementation agree to the last count.

use crate::program::Made;
use crate::reference::{self, Answer};
use proptest::prelude::*;
use tanada_policy::governors;
use tanada_policy::{Governor, GovernorSite, Order, Period, Plan, Why};
use tanada_sim::{
    Intervals, Machine, SimError, ThreadOptions, ThreadsOutcome, governor_site,
    simulate_threads_with,
};
use tanada_trace::threads::{Event, Sync};

/// A governor that goes through a list of plans again and again.
#[derive(Clone, Debug)]
struct Listed {
    plans: Vec<(usize, Order, u64)>,
    next: usize,
    threads: usize,
}

impl Governor for Listed {
    fn plan(&mut self, period: &Period<'_>) -> Plan {
        let (width, order, next_call) = self.plans[self.next % self.plans.len()];
        // What the engine reports decides, too, so that a wrong report becomes a wrong plan.
        let seen = period.work()
            + period.waiting as u64
            + period.threads.iter().map(|one| one.idle).sum::<u64>();
        let seen = seen
            + period
                .cache()
                .map_or(0, |cache| cache.accesses * 3 + cache.misses * 5);
        self.next += 1 + (seen % 3) as usize;
        Plan {
            width: width % self.threads + 1,
            order,
            next_call: next_call + seen % 7,
        }
    }

    fn why(&self) -> Why {
        Why::default()
    }
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![
        Just(Order::Fifo),
        Just(Order::ByNumber),
        Just(Order::Restored),
        Just(Order::Kept)
    ]
}

fn sync(threads: u32) -> impl Strategy<Value = Vec<Sync>> {
    // Objects of different kinds have different numbers.
    let (locks, conditions, semaphores, barriers) = (0..2_u32, 2..4_u32, 4..6_u32, 6..8_u32);
    prop_oneof![
        3 => (0..threads).prop_map(|x| vec![Sync::Create(x)]),
        1 => (0..threads).prop_map(|x| vec![Sync::Join(x)]),
        3 => locks.clone().prop_map(|x| vec![Sync::Lock(x)]),
        3 => locks.clone().prop_map(|x| vec![Sync::Unlock(x)]),
        1 => locks.clone().prop_map(|x| vec![Sync::Share(x)]),
        2 => (barriers.clone(), 1..4_u32).prop_map(|(object, parties)| vec![Sync::Barrier { object, parties }]),
        2 => (conditions.clone(), locks, prop::option::of(0..4_u32)).prop_map(|(condition, lock, signals)| {
            vec![Sync::Lock(lock), Sync::Wait { condition, lock, signals }, Sync::Unlock(lock)]
        }),
        1 => conditions.clone().prop_map(|x| vec![Sync::Signal(x)]),
        1 => conditions.prop_map(|x| vec![Sync::Broadcast(x)]),
        1 => semaphores.clone().prop_map(|x| vec![Sync::Post(x)]),
        1 => semaphores.prop_map(|x| vec![Sync::Take(x)]),
        1 => (8..9_u32, 1..3_u32).prop_map(|(id, threads)| vec![Sync::RegionBegin { id, threads }]),
        1 => Just(vec![Sync::RegionEnd]),
        1 => Just(vec![Sync::Mark { kind: 1, a: 2, b: 3 }]),
    ]
}

/// A few events of one thread. Addresses are few, so that lines collide.
fn events(threads: u32, stack: u64) -> impl Strategy<Value = Vec<Event>> {
    let address = prop_oneof![
        3 => 0..2048_u64,
        1 => (0..64_u64).prop_map(|line| line * 512),
        1 => (0..300_u64).prop_map(move |offset| stack - 200 + offset),
        1 => Just(stack + 5000),
    ];
    let access = (
        0..6_u32,
        address,
        prop_oneof![Just(4_u8), Just(8), Just(200)],
        any::<bool>(),
    );
    let access = access.prop_map(|(after, address, bytes, store)| {
        vec![Event::Access {
            after,
            address,
            bytes,
            store,
        }]
    });
    let block = (0..1500_u64, 0..150_u32).prop_map(|(at, bytes)| {
        let address = 1 << 16 | at;
        vec![Event::Block {
            address,
            bytes,
            instructions: 1,
        }]
    });
    let one = prop_oneof![
        10 => access,
        3 => block,
        3 => (0..30_u32).prop_map(|count| vec![Event::Instructions(count)]),
        2 => sync(threads).prop_map(|all| all.into_iter().map(Event::Sync).collect()),
    ];
    prop::collection::vec(one, 0..60).prop_map(|all| all.concat())
}

fn program() -> impl Strategy<Value = Made> {
    (1..7_u32, 0..5_usize).prop_flat_map(|(threads, batch)| {
        let each = (0..threads).map(move |thread| {
            let stack = (1 << 20) + (u64::from(thread) << 14);
            (events(threads, stack), prop::option::of(Just(stack)))
        });
        each.collect::<Vec<_>>()
            .prop_map(move |threads| Made { threads, batch })
    })
}

/// The text of a machine: geometry, times of `[smt]`, and what takes a word.
pub(crate) fn machine() -> impl Strategy<Value = String> {
    let cache = (
        1..3_u64,
        1..5_u64,
        prop_oneof![Just("lru"), Just("fifo")],
        0..20_u64,
    );
    let smt = (
        1..9_u64,
        1..9_u64,
        1..250_u64,
        1..9_u64,
        1..4_u64,
        0..3_u64,
        1..12_u64,
        any::<[bool; 4]>(),
    );
    let times = (
        prop::array::uniform4(0..9_u64),
        prop::array::uniform3(0..4_u32),
        4..200_u64,
    );
    let deeper = (
        0..3_usize,
        any::<bool>(),
        1..4_u64,
        prop::option::of((1..4_u64, 1..9_u64)),
    );
    (prop::array::uniform3(cache), smt, times, deeper, prop::option::of(0..9000_u64)).prop_map(
        |(caches, smt, (times, more, period), (levels, invalidate, cores, window), spacing)| {
            let (threads, width, ilp, units, ports, port, burst, [fetch, issue, l1d, has_smt]) = smt;
            let coherence = if invalidate { "invalidate" } else { "none" };
            let mut text = format!(
                "name = \"random\"\nmodel = \"uniform\"\ncores = {cores}\nhit_cycles = {}\ndispatch_cycles = 0\n\
                 coherence = \"{coherence}\"\n",
                1 + more[0]
            );
            if has_smt || threads % 4 != 0 {
                let ilp = ilp.min(100 * width);
                let word = |two: [&'static str; 2], which| two[usize::from(which)];
                text += &format!(
                    "[smt]\nthreads_per_core = {threads}\nissue_width = {width}\nilp_percent = {ilp}\nunits = {units}\n\
                     port_cycles = {port}\nburst = {burst}\nfetch = \"{}\"\nissue = \"{}\"\nfill_cycles = {}\nwriteback_cycles = {}\n\
                     memory_fill_cycles = {}\nmemory_writeback_cycles = {}\nscheduler_cycles = {}\nswitch_cycles = {}\nsync_cycles = {}\n\
                     period_cycles = {period}\n",
                    word(["round-robin", "icount"], fetch),
                    word(["shared", "static"], issue),
                    times[0], times[1], times[2], times[3], more[0], more[1], more[2],
                );
                if port > 0 {
                    text += &format!("ports = {ports}\nfill_port_cycles = {}\n", times[0] / 2);
                }
                if l1d && levels > 0 {
                    text += "l1d = \"static\"\n";
                }
                if let Some((mshrs, window)) = window {
                    text += &format!("mshrs = {mshrs}\nwindow = {window}\n");
                }
                if let Some(spacing) = spacing {
                    text += &format!("stack_spacing = {}\nstack_size = 1024\n", spacing + 1);
                }
            }
            type Drawn<'a> = (u64, u64, &'a str, u64);
            let mut add = |level: usize, kind: &str, per: &str, drawn: Drawn<'_>, line: u64, by: u64| {
                let (sets, ways, replacement, miss) = drawn;
                text += &format!(
                    "[[cache]]\nlevel = {level}\nkind = \"{kind}\"\nper = \"{per}\"\nsize = {}\nways = {ways}\nline = {line}\n\
                     replacement = \"{replacement}\"\nmiss_cycles = {miss}\n",
                    sets * by * ways * line
                );
            };
            if levels > 0 {
                add(1, "instruction", "core", caches[0], 32, 1);
                add(1, "data", "core", caches[1], 64, threads);
            }
            if levels > 1 {
                add(2, "unified", "machine", caches[2], 64, 4);
            }
            text
        },
    )
}

fn ours(program: &Made, machine: &Machine, governor: Box<dyn Governor>) -> Answer {
    let options = ThreadOptions {
        observe: Some(Intervals {
            cycles: 10,
            most: 4,
        }),
        ..ThreadOptions::default()
    };
    let outcome = match simulate_threads_with(program, machine, "listed", governor, &options) {
        Ok(outcome) => outcome,
        Err(SimError::Deadlock { .. }) => {
            return Answer {
                stuck: true,
                ..Answer::default()
            };
        }
        Err(other) => panic!("{other}"),
    };
    for one in &outcome.hardware {
        assert_eq!(
            one.cycles.iter().sum::<u64>(),
            outcome.cycles,
            "{outcome:?}"
        );
    }
    observed_sums_are_the_whole(&outcome);
    let plans = outcome.periods.iter();
    Answer {
        makespan: outcome.cycles,
        forced: outcome.forced,
        writebacks: outcome.writebacks,
        instructions: outcome
            .hardware
            .iter()
            .map(|one| one.instructions)
            .collect(),
        counts: outcome
            .hardware
            .iter()
            .map(|one| {
                one.levels
                    .iter()
                    .map(|level| (level.accesses, level.misses))
                    .collect()
            })
            .collect(),
        ticks: outcome
            .hardware
            .iter()
            .map(|one| one.cycles.clone())
            .collect(),
        ended: outcome.logical.iter().map(|one| one.ended).collect(),
        queued: outcome.logical.iter().map(|one| one.queued).collect(),
        blocked: outcome.logical.iter().map(|one| one.blocked).collect(),
        plans: plans
            .map(|row| (row.cycle, row.next_width, row.order))
            .collect(),
        stuck: false,
    }
}

/// Checks that what is observed over time and by object sums to what the whole run counted.
fn observed_sums_are_the_whole(outcome: &ThreadsOutcome) {
    let series = outcome.series.as_ref().expect("it was asked for");
    let intervals = series.instructions.len() as u64;
    assert!(intervals <= 4, "{series:?}");
    assert!((intervals - 1) * series.interval <= outcome.cycles);
    assert!(intervals * series.interval >= outcome.cycles);
    assert_eq!(
        series.instructions.iter().sum::<u64>(),
        outcome.instructions
    );
    for (level, misses) in outcome.levels.iter().zip(&series.misses) {
        assert_eq!(misses.iter().sum::<u64>(), level.misses);
    }
    for (number, thread) in (0..).zip(&outcome.logical) {
        let own = series.stacks.iter().filter(|one| one.thread == number);
        let own: u64 = own.map(|one| one.accesses).sum();
        assert_eq!(own, thread.stack_accesses);
    }
    for (kind, word) in outcome.waits.iter().enumerate() {
        let of_kind = || outcome.objects.iter().filter(|one| one.kind == *word);
        let cycles: u64 = of_kind().map(|one| one.cycles).sum();
        let whole: u64 = outcome.logical.iter().map(|one| one.blocked[kind]).sum();
        // Both are rounded down, by object and by thread.
        let rounded = (of_kind().count() + outcome.logical.len()) as u64;
        assert!(
            cycles.abs_diff(whole) <= rounded,
            "{word}: {cycles}, {whole}"
        );
        for one in of_kind() {
            let by_thread: u64 = one.threads.iter().map(|thread| thread.cycles).sum();
            assert_eq!(by_thread, one.cycles);
        }
    }
}

/// Returns the reference's answer in the form of an outcome: cycles, and tables in the order of reports.
fn theirs(program: &Made, machine: &Machine, governor: Box<dyn Governor>) -> Answer {
    const CYCLE: u64 = 10_080;
    const CAUSES: usize = 11;
    let mut answer = reference::run(program, machine, governor);
    if answer.stuck {
        return Answer {
            stuck: true,
            ..Answer::default()
        };
    }
    let order = machine.tables_in_order();
    for ticks in &mut answer.ticks {
        let in_order = (0..CAUSES).chain(order.iter().map(|table| CAUSES + table));
        let (mut sum, mut before) = (0, 0);
        let cycles = in_order.map(|cause| {
            sum += ticks[cause];
            let cycles = sum / CYCLE - before;
            before = sum / CYCLE;
            cycles
        });
        *ticks = cycles.collect();
    }
    for counts in &mut answer.counts {
        *counts = order.iter().map(|&table| counts[table]).collect();
    }
    for times in [&mut answer.ended, &mut answer.queued] {
        times.iter_mut().for_each(|one| *one /= CYCLE);
    }
    let blocked = answer.blocked.iter_mut().flatten();
    blocked.for_each(|ticks| *ticks /= CYCLE);
    answer.plans = rows_of(answer.plans);
    answer
}

/// Returns what rows say of `calls`, as docs/simulator.md has it: a row has so many of them, a power of two, that there are at most 32,768
/// rows, and shows when its last one came and what that one decided.
fn rows_of(calls: Vec<(u64, usize, &'static str)>) -> Vec<(u64, usize, &'static str)> {
    let mut each = 1;
    while calls.len().div_ceil(each) > 32_768 {
        each *= 2;
    }
    let last = |row: &[(u64, usize, &'static str)]| *row.last().expect("a row has calls");
    calls.chunks(each).map(last).collect()
}

fn compare(program: &Made, text: &str, governor: &dyn Fn(&GovernorSite) -> Box<dyn Governor>) {
    let machine =
        Machine::parse(text, "random.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let site = governor_site(&machine);
    let (mut ours, mut theirs) = (
        ours(program, &machine, governor(&site)),
        theirs(program, &machine, governor(&site)),
    );
    // All calls of the governor, at each step of shrinking, would be gigabytes: the first that differ are shown.
    let same = ours.plans.iter().zip(&theirs.plans);
    let same = same.take_while(|(ours, theirs)| ours == theirs).count();
    for plans in [&mut ours.plans, &mut theirs.plans] {
        *plans = plans.drain(..).skip(same).take(3).collect();
    }
    assert_eq!(ours, theirs, "behind {same} equal plans: {text}");
}

/// Random cases; `TANADA_FULL=1` runs many more.
fn cases() -> u32 {
    let full = std::env::var_os("TANADA_FULL").is_some_and(|value| value == "1");
    if full { 20_000 } else { 2000 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn the_engine_does_what_the_rules_say(
        program in program(),
        text in machine(),
        plans in prop::collection::vec((0..64_usize, order(), 1..150_u64), 1..5),
    ) {
        let listed = |site: &GovernorSite| -> Box<dyn Governor> {
            Box::new(Listed { plans: plans.clone(), next: 0, threads: site.threads })
        };
        compare(&program, &text, &listed);
    }

    #[test]
    fn and_under_every_governor(program in program(), text in machine(), which in any::<prop::sample::Index>()) {
        let entry = which.get(governors::all());
        compare(&program, &text, &|site: &GovernorSite| (entry.make)(site));
    }
}
