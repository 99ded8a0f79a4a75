//! A thread outlives the function that creates it.
use tanada_runtime::thread;

fn main() {
    let value = 1;
    let _ = thread::spawn(|| println!("{}", &value));
}
