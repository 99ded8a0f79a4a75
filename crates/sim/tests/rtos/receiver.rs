//! The receiver of paper 3 under every delivery.

use tanada_policy::{DeliverySite, deliveries};
use tanada_sim::machines;
use tanada_sim::rtos::RtosOptions;
use tanada_sim::rtos::arrivals::Pattern;
use tanada_sim::rtos::receiver::{LAYER2, PDCP_STEPS, Received, Sender, Setup, receive_all};

const BOUND: u64 = 400_000;

fn received(delivery: &str, sender: Sender, times: Vec<u64>, seed: u64) -> Received {
    received_on(&[], delivery, sender, times, seed)
}

fn received_on(
    sets: &[&str],
    delivery: &str,
    sender: Sender,
    times: Vec<u64>,
    seed: u64,
) -> Received {
    let nec = machines::find("nec").expect("it is registered");
    let nec = nec.overridden(sets).expect("the values are sound");
    let site = DeliverySite {
        sender_arms: true,
        headroom: 16,
        ..DeliverySite::new(BOUND, 32)
    };
    let delivery = (deliveries::find(delivery).expect("it is registered").make)(&site);
    let setup = Setup {
        sender,
        times,
        capacity: 32,
        extra: [0; 2],
        pdcp: PDCP_STEPS.to_vec(),
        handler_services: 0,
    };
    let options = RtosOptions {
        seed: Some(seed),
        ..RtosOptions::default()
    };
    receive_all(&nec, &setup, &*delivery, &options).expect("it runs")
}

#[test]
fn every_delivery_hands_every_message_on_once_within_its_bound() {
    let patterns = ["periodic", "poisson", "bursts:7", "on-off:9"];
    for entry in deliveries::all() {
        for sender in [Sender::Outside, Sender::Core] {
            for (seed, pattern) in (0..).zip(patterns) {
                let pattern: Pattern = pattern.parse().expect("it is one");
                let times: Vec<u64> = pattern.times(60_000, seed).take(120).collect();
                let found = received(entry.name, sender, times, seed);
                assert_eq!(found.lost, 0, "{} {pattern:?}", entry.name);
                for (number, one) in found.messages.iter().enumerate() {
                    let what = || format!("{} {pattern:?} message {number}: {one:?}", entry.name);
                    let (Some(sent), Some(told)) = (one.sent, one.told) else {
                        panic!("{}", what())
                    };
                    let (Some(taken), Some(done)) = (one.taken, one.done) else {
                        panic!("{}", what())
                    };
                    assert!(sent <= told && told <= taken && taken < done, "{}", what());
                    // Told: the timer's handler begins late if another one is running.
                    assert!(told - sent <= BOUND + 2000, "{}", what());
                }
                let order: Vec<_> = found.messages.iter().map(|one| one.taken).collect();
                assert!(order.is_sorted(), "{} {pattern:?}", entry.name);
                let core = found.outcome.cores.last().expect("the receiver");
                assert!(core.busy() + core.idle <= found.outcome.end);
                if entry.name == "immediate" {
                    assert!(found.notices > 0);
                }
                if entry.name == "periodic" {
                    assert_eq!(found.notices, 0);
                }
            }
        }
    }
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    let times: Vec<u64> = (0..40).map(|number| 1000 + number * 9000).collect();
    let [one, again, other] =
        [1, 1, 2].map(|seed| received("adaptive", Sender::Core, times.clone(), seed));
    assert_eq!(one, again);
    assert_ne!(one.outcome, other.outcome);
    let threads: Vec<_> = (0..3)
        .map(|_| {
            std::thread::spawn({
                let times = times.clone();
                move || received("adaptive", Sender::Core, times, 1)
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().expect("it runs"), one);
    }
}

#[test]
fn layer_2_costs_more_where_it_is_interrupted_and_only_because_of_caches() {
    let times: Vec<u64> = (0..9).map(|number| 2000 + number * 26_000).collect();
    let cost = |sets: &[&str], delivery| -> f64 {
        let each = (0..8).map(|seed| {
            received_on(sets, delivery, Sender::Outside, times.clone(), seed)
                .outcome
                .cores[0]
                .of(&LAYER2)
                .own
        });
        each.sum::<u64>() as f64
    };
    let saved = |sets: &[&str]| 1.0 - cost(sets, "periodic") / cost(sets, "immediate");
    let (on, off) = (saved(&[]), saved(&["rtos.caches=off"]));
    println!("layer 2's own code saves {on:.5} of its time, without caches {off:.5}");
    assert!(on > 0.05 && off.abs() < 0.005, "{on} {off}");
}

/// All cycles are those of pieces, so what the same executions cost more and what is executed more often are all that differs.
#[test]
fn cycles_are_those_of_the_pieces() {
    for sets in [&[][..], &["rtos.caches=off"][..]] {
        for delivery in ["immediate", "periodic"] {
            let times = (0..9).map(|number| 2000 + number * 26_000).collect();
            let found = received_on(sets, delivery, Sender::Outside, times, 1);
            let core = &found.outcome.cores[0];
            let mut sums = vec![0; core.accounts.len()];
            for (&(account, _), part) in &core.pieces {
                assert!(part.times > 0);
                sums[account] += part.cycles;
            }
            for (account, cycles) in core.accounts.iter().zip(sums) {
                // No program here computes without code.
                assert_eq!(account.cycles.total(), cycles, "{}", account.id);
            }
        }
    }
}

#[test]
fn patterns_have_their_rate_and_files_are_read_or_refused() {
    for text in [
        "periodic", "poisson", "bursts", "bursts:3", "on-off", "on-off:5",
    ] {
        let pattern: Pattern = text.parse().expect("it is one");
        let times: Vec<u64> = pattern.times(1000, 5).take(40_000).collect();
        assert!(times.is_sorted());
        let mean = *times.last().expect("there are some") as f64 / times.len() as f64;
        assert!((900.0..1100.0).contains(&mean), "{text}: {mean}");
        assert_eq!(
            times,
            pattern.times(1000, 5).take(40_000).collect::<Vec<_>>()
        );
    }
    for text in ["", "poison", "bursts:0", "bursts:x", "periodic:3"] {
        assert!(text.parse::<Pattern>().is_err(), "{text}");
    }
    let read = Pattern::parse("# two\n10\n\n20 # the second\n").expect("it is one");
    assert_eq!(read.times(1, 0).take(3).collect::<Vec<_>>(), [10, 30, 40]);
    for (text, why) in [
        ("1\nx\n", "line 2"),
        ("# none\n", "no distance"),
        ("0\n0\n", "above 0"),
        ("-4\n", "line 1"),
    ] {
        let error = Pattern::parse(text).expect_err(text).to_string();
        assert!(error.contains(why), "{text:?}: {error}");
    }
}
