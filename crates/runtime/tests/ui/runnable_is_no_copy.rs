//! A scheduler must not run a thread twice.
use tanada_runtime::thread::Runnable;

fn twice(thread: Runnable) -> (Runnable, Runnable) {
    (thread, thread)
}

fn main() {
    let _ = twice;
}
