//! A missing dependency, and how it is found: the harvest is weighed after the terraces are cut, but before the carts have come.
//!
//! With the argument `faulty` the edge is missing, and `tanada explore -- missing_edge faulty` finds a seed under which it goes wrong;
//! without it no seed fails.
//!
//! Run it with `cargo run -p tanada-examples --bin missing_edge -- faulty`.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use tanada_runtime::Pool;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let faulty = std::env::args().nth(1).as_deref() == Some("faulty");
    let pool = Pool::builder().workers(2).build()?;
    let barn = AtomicU32::new(0);
    let (cut, barn) = (&[const { AtomicU32::new(0) }; 4], &barn);
    pool.scope(|s| {
        let mut cuts = Vec::new();
        let mut carts = Vec::new();
        for (i, terrace) in cut.iter().enumerate() {
            let task = s.task("cut").index(i as u64);
            cuts.push(task.register(move |_| terrace.store(9, Relaxed)));
            let task = s.task("cart").index(i as u64).after([cuts[i]]);
            carts.push(task.register(move |_| _ = barn.fetch_add(terrace.load(Relaxed), Relaxed)));
        }
        // The faulty form was written when the scales stood in the field.
        let before = if faulty { cuts } else { carts };
        s.task("weigh")
            .after(before)
            .register(|_| assert_eq!(barn.load(Relaxed), 36, "sheaves in the barn"));
    })?;
    println!("the barn is full");
    Ok(())
}
