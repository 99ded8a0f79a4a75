//! What a lightweight thread costs: nanoseconds of creating, running and joining one, of a switch, of a message; bytes of one that waits.
//!
//! ```text
//! cargo run --release -p tanada-runtime --example thread_cost -- 1        # workers
//! cargo run --release -p tanada-runtime --example thread_cost -- 1 switch # those cases
//! cargo run --release -p tanada-runtime --example thread_cost -- 2 alive  # a million threads alive, with a touched page each
//! ```

use std::time::Instant;
use tanada_runtime::Pool;
use tanada_runtime::thread::{self, Builder, sync::bounded};

/// Runs `body`, which does something `times` times, five times in a thread of `pool`, and prints the shortest time of one.
fn measure(pool: &Pool, what: &str, times: u64, body: impl Fn() + Send + Clone + 'static) {
    if !what.contains(&std::env::args().nth(2).unwrap_or_default()) {
        return;
    }
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let body = body.clone();
        let run = move || {
            let start = Instant::now();
            body();
            start.elapsed().as_nanos() as f64
        };
        let thread = Builder::new().pool(pool).spawn(run).expect("a stack");
        best = best.min(thread.join().expect("no panic") / times as f64);
    }
    println!("{what:<44} {best:8.1} ns");
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let left = thread::spawn(move || fib(n - 1));
    let right = fib(n - 2);
    left.join().expect("no panic") + right
}

/// Two threads that let each other run, `times` times in all.
fn switches(times: u64, untied: bool) {
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let body = move || (0..times / 2).for_each(|_| thread::yield_now());
            match untied {
                // SAFETY: nothing on its stack depends on the OS thread.
                #[allow(unsafe_code)]
                true => unsafe { Builder::new().spawn_untied(body) },
                false => Builder::new().spawn(body),
            }
            .expect("a stack")
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
}

fn ping_pong(times: u64) {
    let (to, from_other) = bounded(1);
    let (back, from_this) = bounded(1);
    let other = thread::spawn(move || {
        while let Ok(message) = from_other.recv() {
            back.send(message).expect("it waits");
        }
    });
    for n in 0..times {
        to.send(n).expect("it receives");
        from_this.recv().expect("it answers");
    }
    drop(to);
    other.join().expect("no panic");
}

/// Bytes of this process that are in memory.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("there is /proc");
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("a number of pages") * 4096
}

/// `number` threads that wait at the same time.
fn alive(pool: &Pool, number: u64) {
    for round in 0..2 {
        let before = resident();
        let start = Instant::now();
        let (sender, receiver) = bounded::<()>(1);
        let threads: Vec<_> = (0..number)
            .map(|n| {
                let receiver = receiver.clone();
                let body = move || {
                    let page = std::hint::black_box([n as u8; 1024]);
                    let _ = receiver.recv();
                    u64::from(page[n as usize % 1024])
                };
                Builder::new().pool(pool).spawn(body).expect("a stack")
            })
            .collect();
        while pool_waits(&threads) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let made = start.elapsed();
        let held = resident().saturating_sub(before);
        drop(sender);
        let sum: u64 = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .sum();
        println!(
            "round {round}: {number} threads in {:.2} s, joined after {:.2} s, {:.2} GiB while all lived ({sum}), {:.2} GiB afterwards",
            made.as_secs_f64(),
            start.elapsed().as_secs_f64(),
            held as f64 / (1 << 30) as f64,
            resident() as f64 / (1 << 30) as f64,
        );
    }
}

/// Returns whether one of the threads has not begun to wait: the last one has run when all have, since each waits at once.
fn pool_waits(threads: &[thread::JoinHandle<u64>]) -> bool {
    let last = resident();
    std::thread::sleep(std::time::Duration::from_millis(50));
    threads.iter().any(thread::JoinHandle::is_finished) || resident() != last
}

fn main() {
    let mut words = std::env::args().skip(1);
    let workers = words
        .next()
        .map_or(1, |word| word.parse().expect("a number of workers"));
    let pool = Pool::builder().workers(workers).build().expect("a pool");
    if words.next().as_deref() == Some("alive") {
        return alive(&pool, 1_000_000);
    }
    let times = 2_000_000;
    measure(&pool, "create, run, join", times, move || {
        (0..times).for_each(|n| {
            let thread = thread::spawn(move || n);
            assert_eq!(thread.join().expect("no panic"), n);
        });
    });
    let many = 1000;
    measure(&pool, "create 1000, then join them", times, move || {
        for _ in 0..times / many {
            let threads: Vec<_> = (0..many).map(|n| thread::spawn(move || n)).collect();
            threads.into_iter().for_each(|thread| {
                thread.join().expect("no panic");
            });
        }
    });
    measure(
        &pool,
        "fib(27), a thread for each left half",
        514_228,
        || {
            assert_eq!(fib(27), 196_418);
        },
    );
    measure(&pool, "switch", times, move || switches(times, false));
    measure(&pool, "switch, published for stealing", times, move || {
        switches(times, true)
    });
    measure(&pool, "message there and back", times / 4, move || {
        ping_pong(times / 4)
    });
}
