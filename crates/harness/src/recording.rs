//! Recordings of workloads, and the chip on which comparisons and benches simulate them.

use std::ops::ControlFlow;
use tanada_runtime::Cancel;
use tanada_sim::{Machine, machines};
use tanada_trace::{BinaryWriter, Groups, Sink, Trace};
use tanada_workloads::workload::{self, RecordError};
use tanada_workloads::{Site, Values, Workload, recorder_of};

/// The number of cores in most figures of paper 1.
const CORES: u16 = 4;

/// The chip of paper 1 in both models. In the first a miss always costs the same; in the second ports, bus and memory are shared and the
/// dispatcher takes time.
pub const CHIP: [&str; 2] = ["toshiba", "toshiba-board"];

/// Returns the machines of [`CHIP`], in that order.
pub fn chip() -> [Machine; 2] {
    let machine = |name| machines::find(name).ok()?.with_cores(CORES).ok();
    CHIP.map(|name| machine(name).expect("the chip is registered"))
}

/// Returns the site of work that is cut for `machine`.
fn site(machine: &Machine) -> Site {
    let caches = || machine.caches.iter();
    let first = caches().rfind(|cache| cache.level == 1);
    let last = caches().max_by_key(|cache| cache.level);
    let mut site = Site::new(CORES);
    site.l1d = first.map(|cache| cache.size);
    // All cores of the chip share its last level.
    site.own_cache = last.map(|cache| cache.size / u64::from(CORES));
    site
}

/// Records `workload` into `sink` and returns what the recording holds. `progress` is called with the number of steps so far.
///
/// # Errors
/// As [`Recorder::record`](workload::Recorder::record) and [`recorder_of`]; [`RecordError::Stopped`] once `cancel` is cancelled.
pub fn record(
    workload: &dyn Workload,
    values: &Values,
    site: &Site,
    sink: &mut dyn Sink,
    cancel: &Cancel,
    mut progress: impl FnMut(u64),
) -> Result<workload::Recording, RecordError> {
    let mut seen = |steps| {
        progress(steps);
        match cancel.is_cancelled() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    recorder_of(workload)?.record(values, site, sink, &mut seen)
}

/// A recording in memory, cut for [`chip`].
#[derive(Debug)]
pub struct Recording {
    /// What is simulated.
    pub trace: Trace,
    /// What the recording holds.
    pub made: workload::Recording,
}

impl Recording {
    /// Records `workload`; its tasks belong to `groups`. Returns the trace with what it holds.
    ///
    /// `values` must be made for [`Purpose::Record`](tanada_workloads::Purpose::Record).
    ///
    /// # Errors
    /// As [`record`]; [`RecordError::Trace`] if no task has the groups.
    pub fn new(
        workload: &dyn Workload,
        values: &Values,
        groups: &Groups,
        cancel: &Cancel,
    ) -> Result<Recording, RecordError> {
        let mut sink = BinaryWriter::new(Vec::new())?;
        let site = site(&chip()[0]);
        let made = record(workload, values, &site, &mut sink, cancel, |_| ())?;
        let trace = Trace::parse(&sink.finish()?, "the recording", groups)?;
        Ok(Recording { trace, made })
    }
}
