//! A thread that may move while it runs is created by an unsafe function.
use tanada_runtime::thread::Builder;

fn main() {
    let _ = Builder::new().spawn_untied(|| ());
}
