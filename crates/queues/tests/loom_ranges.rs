//! Ranges under loom, every interleaving of a few operations:
//! `RUSTFLAGS="--cfg loom" cargo test -p tanada-queues --release --test loom_ranges`. Each test takes seconds.
#![cfg(loom)]

use loom::sync::Arc;
use tanada_queues::Ranges;
use tanada_queues::sync::thread;

/// Takes numbers into `part` until there are none.
fn drain(ranges: &Ranges, part: usize) -> Vec<u32> {
    let taken = std::iter::from_fn(|| ranges.take(part)).collect();
    assert!(ranges.is_empty(), "none is on its way to a part");
    taken
}

/// Deals `numbers` out to the first of as many parts as there are threads.
fn model(threads: usize, numbers: u32) {
    let mut builder = loom::model::Builder::new();
    // With three threads, every interleaving takes hours.
    builder.preemption_bound = (threads > 2).then_some(2);
    builder.check(move || {
        let ranges = Arc::new(Ranges::new(threads));
        ranges.deal(1, numbers);
        let takers: Vec<_> = (1..threads)
            .map(|part| {
                let ranges = Arc::clone(&ranges);
                thread::spawn(move || drain(&ranges, part))
            })
            .collect();
        let mut taken = drain(&ranges, 0);
        for taker in takers {
            taken.extend(taker.join().unwrap());
        }
        taken.sort_unstable();
        assert!(taken.into_iter().eq(0..numbers));
    });
}

#[test]
fn an_owner_and_a_thief() {
    model(2, 3);
}

#[test]
fn a_thief_of_a_thief() {
    model(3, 2);
}
