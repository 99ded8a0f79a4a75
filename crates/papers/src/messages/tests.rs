//! The claim, equal bytes on any number of host threads, and wrong options.

use super::simulating::Saved;
use super::*;
use crate::Bar;
use tanada_workloads::options::Purpose;

fn request(threads: usize, options: &[(&str, &str)]) -> Request {
    Request {
        quick: true,
        threads,
        values: Values::new(OPTIONS, Purpose::Run)
            .with(options)
            .expect("they are right"),
        tanada: None,
    }
}

fn found(threads: usize) -> Reproduction {
    match Messages.reproduce(&request(threads, &[]), &mut |_| (), &Cancel::new()) {
        Ok(Found::Figures(found)) => *found,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_bar_is_met_and_the_bytes_are_the_same_on_any_number_of_host_threads() {
    let one = found(1);
    let missed: Vec<&Bar> = one
        .bars
        .iter()
        .filter(|bar| bar.is_met() != Some(true))
        .collect();
    assert!(missed.is_empty(), "{missed:?}");
    let two = found(3);
    assert_eq!(
        (one.json(), one.text(), one.page("x")),
        (two.json(), two.text(), two.page("x"))
    );
    let keys = [
        "saving_total",
        "saving_direct",
        "saving_cache",
        "saving_cache_caches_off",
        "adaptive_share_of_periodic_saving",
    ];
    assert!(
        keys.iter().all(|key| one.summary.contains(key)),
        "{}",
        one.summary
    );
}

#[test]
fn bounds_are_printed_for_every_delivery() {
    let json = |threads| match Messages.reproduce(
        &request(threads, &[("bounds", "20000")]),
        &mut |_| (),
        &Cancel::new(),
    ) {
        Ok(Found::Json(json)) => json,
        other => panic!("{other:?}"),
    };
    let one = json(1);
    assert_eq!(one, json(3));
    assert!(
        deliveries::all()
            .iter()
            .all(|entry| one.contains(entry.name)),
        "{one}"
    );
}

#[test]
fn wrong_options_are_refused_with_what_is_there() {
    let refused = |options: &[(&str, &str)]| match Messages.reproduce(
        &request(1, options),
        &mut |_| (),
        &Cancel::new(),
    ) {
        Err(error) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(refused(&[("pattern", "poison")]).contains("there are periodic, poisson"));
    assert!(refused(&[("distances", "/no/such/file")]).contains("/no/such/file"));
    assert!(refused(&[("set", "rtos.caches=maybe")]).contains("caches"));
}

/// The parts of the split are all that is saved, with caches and without, and the same delivery saves nothing of itself.
#[test]
fn the_split_has_no_rest() {
    let machine = request(1, &[]).machine("nec").expect("it is registered");
    for sets in [&[][..], &["rtos.caches=off"][..]] {
        let machine = machine.overridden(sets).expect("the values are sound");
        let run = |delivery| {
            let times = bursts(&machine, 130, 1, 0);
            Run::new(&machine, delivery, times, 0)
                .run()
                .expect("it runs")
        };
        let [immediate, periodic] = ["immediate", "periodic"].map(run);
        let saved = Saved::between(&immediate, &periodic);
        let all = 100.0 * (1.0 - periodic.total() / immediate.total());
        assert!((saved.total() - all).abs() < 1e-9, "{saved:?} {all}");
        let none = Saved::between(&immediate, &immediate);
        assert!(none.total().abs() + none.cache().abs() < 1e-9, "{none:?}");
        let [functions, interrupts] =
            [Handlers::Functions, Handlers::Interrupts].map(|which| immediate.handlers(which));
        assert!(0.0 < functions && functions < interrupts);
    }
}
