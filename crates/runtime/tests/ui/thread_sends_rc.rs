//! A thread may start on another worker: what its closure captures must be `Send`.
use std::rc::Rc;
use tanada_runtime::thread;

fn main() {
    let value = Rc::new(1);
    let _ = thread::spawn(move || *value);
}
