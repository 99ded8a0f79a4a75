//! Safe code that does what no program should: it may end the process with a message, but never reach freed memory.
//!
//! What such code does to a process is undefined until it is mended, so each case runs in a process of its own.
#![allow(unsafe_code, reason = "rights that look like those of another engine")]

mod own_process;

use own_process::run_in_own_process;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tanada_policy::{Origin, WorkerId};
use tanada_runtime::{Observer, Pool, TaskView, TemplateBuilder, WorkerObserver};

/// The child ends with a message that contains `message`, by an abort of its own and not by a segmentation fault.
#[track_caller]
fn ends_with(child: &str, message: &str) {
    use std::os::unix::process::ExitStatusExt as _;
    let (status, text) = run_in_own_process(child, &[]);
    assert!(text.contains(message), "{child}: {status}: {text}");
    assert_eq!(status.signal(), Some(libc::SIGABRT), "{child}: {text}");
}

/// Panics at the start of a task called "bad".
struct Startled;

impl Observer for Startled {
    type Worker = Startled;
    fn worker(&self, _worker: WorkerId) -> Startled {
        Startled
    }
}

impl WorkerObserver for Startled {
    fn start(&mut self, task: &TaskView, _origin: Origin) {
        assert!(task.name != "bad", "the observer panics");
    }
    fn end(&mut self, _task: &TaskView) {}
}

#[test]
fn an_observer_that_panics_in_a_nested_graph_ends_the_process() {
    ends_with("child_observer_in_a_scope", "a policy, an observer or");
    ends_with("child_observer_in_a_template", "a policy, an observer or");
}

/// Runs `nested` in a task, and touches the memory that its tasks borrow after it has unwound.
fn in_a_task(nested: impl Fn(&Pool) + Sync) {
    let pool = Pool::builder()
        .workers(2)
        .policy("fcfs")
        .observer(Startled)
        .build()
        .expect("a pool");
    let (pool_, nested) = (&pool, &nested);
    let result = pool.scope(|s| {
        s.task("outer").register(move |_| {
            let unwound = catch_unwind(AssertUnwindSafe(|| nested(pool_))).is_err();
            println!("unwound past a running graph: {unwound}");
            std::thread::sleep(Duration::from_millis(300));
        });
    });
    println!("came back: {result:?}");
}

#[test]
#[ignore = "run by `an_observer_that_panics_in_a_nested_graph_ends_the_process`"]
fn child_observer_in_a_scope() {
    in_a_task(|pool| {
        let borrowed = vec![7_u64; 1 << 16];
        let borrowed = &borrowed;
        let result = pool.scope(|s| {
            s.task("bad").register(|_| ());
            for _ in 0..4 {
                s.task("reads").register(move |_| {
                    std::thread::sleep(Duration::from_millis(20));
                    assert_eq!(borrowed.iter().sum::<u64>(), 7 << 16);
                });
            }
        });
        println!("nested: {result:?}");
    });
}

#[test]
#[ignore = "run by `an_observer_that_panics_in_a_nested_graph_ends_the_process`"]
fn child_observer_in_a_template() {
    in_a_task(|pool| {
        let mut builder = TemplateBuilder::<Vec<u64>>::new();
        builder.task("bad", 0, |_, _| ());
        for index in 0..4 {
            builder.task("reads", index, |borrowed, _| {
                std::thread::sleep(Duration::from_millis(20));
                assert_eq!(borrowed.iter().sum::<u64>(), 7 << 16);
            });
        }
        let mut instance = builder.build().expect("no cycle").instance();
        let result = instance.run(pool, &vec![7; 1 << 16]);
        println!("nested: {result:?}");
    });
}
