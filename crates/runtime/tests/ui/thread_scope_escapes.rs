//! What a scoped thread borrows lives longer than the scope.
use tanada_runtime::thread;

fn main() {
    thread::scope(|scope| {
        let inside = 1;
        scope.spawn(|| println!("{}", &inside));
    });
}
