//! Paper 1's interface on top of the builder.
//!
//! The paper's threads are registered with `register(token, count, entry, arg, T, S)` and released with `resolve(token)`: a thread runs
//! once it has been resolved `count` times. Here a closure is entry and argument at once, and `register` returns the token.

use std::sync::atomic::{AtomicU32, Ordering};
use tanada_runtime::{Pool, SGroup, Scope, TGroup, Token};

/// Registers a task as the paper's `register` does and returns its token.
fn register<'scope>(
    scope: &Scope<'scope>,
    count: u32,
    (t, s): (TGroup, SGroup),
    entry: impl FnOnce(&Scope<'scope>) + Send + 'scope,
) -> Token {
    let task = scope.task("thread").groups(t, s).count(count);
    task.register(entry)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let water = AtomicU32::new(0);
    let water = &water;

    let pool = Pool::builder().workers(2).policy("ts").build()?;
    pool.scope(|s| {
        // The lower terrace waits for two upper ones, each of which resolves it once.
        let lower = register(s, 2, (TGroup(2), SGroup(1)), move |_| {
            println!("{} buckets arrive", water.load(Ordering::Relaxed));
        });
        for buckets in [3, 4] {
            register(s, 0, (TGroup(1), SGroup(1)), move |s| {
                water.fetch_add(buckets, Ordering::Relaxed);
                s.resolve(lower).expect("the lower terrace waits for both");
            });
        }
    })?;
    assert_eq!(water.load(Ordering::Relaxed), 7);
    Ok(())
}
