//! Tasks that become ready while the body of their graph still registers others. They are held back until the body waits: otherwise the
//! order of the two would be a matter of chance.

use super::call::spent;
use super::{apart, locked};
use crate::pool::PoolShared;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;
use tanada_policy::Ready;

struct Graph {
    pool: Arc<PoolShared>,
    tasks: Vec<Ready>,
}

/// The graphs whose tasks are held back, by run.
static GRAPHS: Mutex<BTreeMap<u64, Graph>> = Mutex::new(BTreeMap::new());

/// Holds the tasks of this graph back from now on.
pub(super) fn begin(run: u64, pool: &PoolShared) {
    static WATCH: Once = Once::new();
    apart(|| {
        WATCH.call_once(|| {
            // If no thread can be started, a body that waits for its own tasks hangs. The error could not be reported to any caller.
            let _ = std::thread::Builder::new()
                .name("tanada-marks".to_owned())
                .spawn(watch);
        });
        let graph = Graph {
            pool: pool.shared(),
            tasks: Vec::new(),
        };
        locked(&GRAPHS).insert(run, graph);
    });
}

/// Takes the task, if those of its graph are held back; else returns it.
#[cold]
pub(super) fn hold(run: u64, task: Ready) -> Option<Ready> {
    let mut task = Some(task);
    apart(|| {
        if let Some(graph) = locked(&GRAPHS).get_mut(&run) {
            graph.tasks.extend(task.take());
        }
    });
    task
}

/// Hands what is held back of this run, or of all runs if `run` is `None`, to the pools, and holds nothing more back.
pub(super) fn release(run: Option<u64>) {
    let mut graphs = locked(&GRAPHS);
    let released = match run {
        Some(run) => graphs.remove(&run).into_iter().collect(),
        None => std::mem::take(&mut *graphs)
            .into_values()
            .collect::<Vec<_>>(),
    };
    // Under the lock, so that a task which becomes ready now comes after these.
    for Graph { pool, tasks } in released {
        tasks.into_iter().for_each(|task| pool.inject(task));
    }
}

/// Releases everything once the process has done nothing for a second while something is held back: a body that waits for a task of its
/// own graph would otherwise wait for ever.
fn watch() {
    const LOOK: Duration = Duration::from_secs(1);
    /// Processor time that counts as nothing. Looking costs something, too, in an emulator.
    const IDLE: Duration = Duration::from_millis(50);
    loop {
        let before = spent();
        std::thread::sleep(LOOK);
        let waits = |graph: &Graph| !graph.tasks.is_empty();
        if locked(&GRAPHS).values().any(waits) && spent() < before + IDLE {
            release(None);
        }
    }
}
