//! What a task takes that waits. A program of its own, because it counts the bytes of all threads.

use tanada_runtime::{GraphError, Pool, Scope, Token};
use tanada_testing::allocator::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

const TASKS: usize = 50_000;

/// A closure of so many bytes fits into a node.
const CLOSURE: usize = 48;

/// Registers tasks with closures of [`CLOSURE`] bytes that wait for `after`, or else for a resolve. Returns the bytes that each takes
/// beside its closure.
fn bytes_beside_a_closure(s: &Scope<'_>, after: Option<Token>) -> f64 {
    let words = [1_u64; CLOSURE / 8];
    let before = ALLOCATOR.bytes();
    for at in 0..TASKS as u64 {
        let task = s.task("waits").index(at).after(after);
        let task = task.count(u32::from(after.is_none()));
        task.register(move |_| _ = std::hint::black_box(words));
    }
    (ALLOCATOR.bytes() - before) as f64 / TASKS as f64 - CLOSURE as f64
}

#[test]
fn a_task_that_waits_takes_less_than_128_bytes_beside_its_closure() {
    let pool = Pool::builder().workers(1).build().expect("a pool");
    let run = pool.scope(|s| {
        let bytes = bytes_beside_a_closure(s, None);
        assert!((80.0..90.0).contains(&bytes), "{bytes} bytes");
        // The list of those that wait for one task has room for up to twice as many.
        let gate = s.task("gate").count(1).register(|_| ());
        let bytes = bytes_beside_a_closure(s, Some(gate));
        assert!((80.0..110.0).contains(&bytes), "{bytes} bytes at a gate");
        s.cancel();
    });
    assert_eq!(run, Err(GraphError::Cancelled));
}
