//! The claim with the shipped profiles, and equal bytes on any number of host threads.

use super::*;
use tanada_workloads::options::Purpose;

fn found(threads: usize) -> Reproduction {
    let request = Request {
        quick: true,
        threads,
        values: Values::new(OPTIONS, Purpose::Run),
        tanada: None,
    };
    match Manycore.reproduce(&request, &mut |_| (), &Cancel::new()) {
        Ok(Found::Figures(found)) => *found,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_bars_are_met_and_the_bytes_are_the_same_on_any_number_of_host_threads() {
    let one = found(1);
    for bar in &one.bars {
        assert_eq!(bar.is_met(), Some(true), "{:?}", bar.missed());
    }
    let two = found(3);
    assert_eq!(
        (one.json(), one.text(), one.page("x")),
        (two.json(), two.text(), two.page("x"))
    );
    let keys = [
        "best_shape_ep",
        "best_shape_sp",
        "best_shape_ft",
        "ft_gain_predict",
        "sp_gain_predict",
        "mean_gain_predict",
        "worst_loss_predict",
    ];
    assert!(
        keys.iter().all(|key| one.summary.contains(key)),
        "{}",
        one.summary
    );
}

#[test]
fn measuring_needs_the_command_that_records() {
    let values = Values::new(OPTIONS, Purpose::Run).with(&[("measure", "true")]);
    let request = Request {
        quick: true,
        threads: 1,
        values: values.expect("they are right"),
        tanada: None,
    };
    let refused = Manycore.reproduce(&request, &mut |_| (), &Cancel::new());
    assert!(matches!(refused, Err(Error::Usage(_))), "{refused:?}");
}
