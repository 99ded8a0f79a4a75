//! A policy must not hand out a task twice.
use tanada_policy::Ready;

fn twice(task: Ready) -> (Ready, Ready) {
    (task, task)
}

fn main() {
    let _ = twice;
}
