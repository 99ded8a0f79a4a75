//! Lightweight threads of which nobody can wake one: the process ends and names them. Each case is a process of its own, whose only OS
//! threads are its main one and the runtime's.

#[cfg(any(loom, shuttle, miri))]
fn main() {}

#[cfg(not(any(loom, shuttle, miri)))]
fn main() {
    cases::main();
}

#[cfg(not(any(loom, shuttle, miri)))]
mod cases {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};
    use tanada_runtime::Pool;
    use tanada_runtime::thread::{self, Builder, sync::bounded};

    const CASE: &str = "TANADA_TEST_CASE";

    /// The longest that a case may take: it hangs.
    const HANGS: Duration = Duration::from_secs(60);

    /// Name, what it does, and what it must write.
    type Case = (&'static str, fn(&Pool), &'static [&'static str]);

    const CASES: &[Case] = &[
        (
            "join",
            join,
            &[
                "deadlock: all threads wait",
                "(reader) waits for a message",
                "(parked) waits for being unparked",
            ],
        ),
        (
            "drop",
            |pool| drop(spawn(pool, "left", thread::park)),
            &["(left) waits for being unparked"],
        ),
        ("main", from_main, &["(sender) waits for room in a channel"]),
    ];

    fn spawn<T: Send + 'static>(
        pool: &Pool,
        name: &'static str,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> thread::JoinHandle<T> {
        Builder::new()
            .pool(pool)
            .name(name)
            .spawn(body)
            .expect("a stack")
    }

    fn join(pool: &Pool) {
        let (sender, receiver) = bounded::<u8>(1);
        let kept = sender.clone();
        let waits = move || {
            let _kept = kept;
            receiver.recv().is_ok()
        };
        let reader = spawn(pool, "reader", waits);
        spawn(pool, "parked", thread::park)
            .join()
            .expect("no panic");
        reader.join().expect("no panic");
        drop(sender);
    }

    /// The main thread waits for a message itself.
    fn from_main(pool: &Pool) {
        let (sender, receiver) = bounded::<u8>(1);
        let (back, answer) = bounded::<u8>(1);
        let body = move || {
            let _back = back;
            (0..).try_for_each(|n: u8| sender.send(n))
        };
        let _sender = spawn(pool, "sender", body);
        answer.recv().expect("it never comes");
        drop(receiver);
    }

    pub(super) fn main() {
        if let Ok(name) = std::env::var(CASE) {
            let pool = Pool::builder().workers(2).build().expect("a pool");
            let case = CASES.iter().find(|case| case.0 == name);
            return case.expect("a case").1(&pool);
        }
        // What `cargo test` passes does not matter; a listing is empty.
        if std::env::args().any(|word| word == "--list") {
            return;
        }
        for (name, _, wanted) in CASES {
            let mut child = Command::new(std::env::current_exe().expect("this program"))
                .env(CASE, name)
                .stderr(Stdio::piped())
                .spawn()
                .expect("it starts");
            let start = Instant::now();
            while child.try_wait().expect("its state").is_none() {
                if start.elapsed() > HANGS {
                    child.kill().expect("it can be killed");
                    panic!("{name} hangs");
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            let output = child.wait_with_output().expect("what it wrote");
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success(), "{name}: {text}");
            for part in *wanted {
                assert!(text.contains(part), "{name}: {text}");
            }
            println!("test {name} ... ok");
        }
    }
}
