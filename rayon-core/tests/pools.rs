//! What the published package's own tests hold of private fields, and what is ours alone.

use rayon_core::{ThreadPoolBuilder, join};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

/// Joins twice as many times a level.
fn join_a_lot(levels: u32) -> u64 {
    match levels {
        0 => 1,
        _ => {
            let (a, b) = join(|| join_a_lot(levels - 1), || join_a_lot(levels - 1));
            a + b
        }
    }
}

/// Makes a pool of 22 threads, passes it to `work`, drops it, and waits for the end of its threads.
fn ends(work: impl FnOnce(&rayon_core::ThreadPool)) {
    let (sender, receiver) = mpsc::channel();
    let sender = Arc::new(std::sync::Mutex::new(sender));
    let pool = ThreadPoolBuilder::new()
        .num_threads(22)
        .exit_handler(move |index| {
            let sender = sender.lock().expect("no panic");
            sender.send(index).expect("it is received");
        })
        .build()
        .expect("a pool");
    work(&pool);
    drop(pool);
    let mut ended: Vec<_> = receiver.into_iter().collect();
    ended.sort_unstable();
    assert!(ended.into_iter().eq(0..22));
}

#[test]
fn threads_end_with_their_pool() {
    ends(|pool| assert_eq!(pool.install(|| join_a_lot(18)), 1 << 18));
}

#[test]
fn sleeping_threads_end_with_their_pool() {
    ends(|_| std::thread::sleep(Duration::from_millis(300)));
}

#[test]
fn a_policy_that_does_not_exist_is_an_error() {
    let program = std::env::current_exe().expect("this program");
    let output = std::process::Command::new(program)
        .args([
            "--ignored",
            "--exact",
            "builds_under_the_policy",
            "--nocapture",
        ])
        .env("TANADA_POLICY", "no-such-policy")
        .output()
        .expect("the test starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("no-such-policy"),
        "{text}"
    );
}

#[test]
#[ignore = "in a process of its own"]
fn builds_under_the_policy() {
    println!(
        "{}",
        ThreadPoolBuilder::new()
            .build()
            .expect_err("no such policy")
    );
}
