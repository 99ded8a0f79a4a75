//! Everything that is simulated for paper 1's tables.

use super::published::{self, HEADLINE, Row, Scheduler, Stream};
use super::recording::{Recording, Source, record};
use super::set::Set;
use super::simulating::{self, Job, Ran};
use super::statistics::{Pair, Sampled};
use tanada_report::Timeline;

use tanada_sim::{Run, SimError, timeline};
use tanada_workloads::record::H264Error;

/// How much is simulated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Pictures of each stream.
    pub(crate) pictures: u64,
    /// Threads of this machine.
    pub(crate) threads: usize,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Reproduced {
    /// The recordings, in the order of [`Stream::ALL`]; without those streams that are not there.
    pub(crate) recordings: Vec<Recording>,
    /// Table 2's rows, with what of them could be simulated.
    pub(crate) table2: Vec<(Row, Option<[Ran; 3]>)>,
    /// FCFS, A and B on the authors' simulator, WVGA, 4 cores, 128 KB. The paper has the first two.
    pub(crate) table3: [Ran; 3],
    /// One picture of the headline's cell on the board: FCFS, A and B.
    pub(crate) gantts: Vec<Timeline>,
}

/// Why there is nothing to compare.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToshibaError {
    #[error("{0}: {1}")]
    Stream(String, H264Error),
    #[error(transparent)]
    Sim(#[from] SimError),
}

impl ToshibaError {
    /// Whether the caller stopped it.
    pub(crate) fn is_stop(&self) -> bool {
        matches!(
            self,
            ToshibaError::Stream(_, H264Error::Stopped) | ToshibaError::Sim(SimError::Cancelled)
        )
    }
}

/// How far the work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A stream is being recorded.
    Recording(Stream),
    /// So many of so many simulations have ended.
    Simulating(usize, usize),
}

impl Reproduced {
    /// The gain of a scheduler in a row, published and ours.
    pub(crate) fn gain(row: &Row, ran: &[Ran; 3], scheduler: Scheduler) -> Pair {
        Pair {
            published: row.gain(scheduler),
            ours: sampled(ran, scheduler).gain,
        }
    }

    /// What was simulated of the headline's row.
    pub(crate) fn headline(&self) -> &[Ran; 3] {
        let row = self.table2.iter().find(|(row, _)| row.cell == HEADLINE);
        let ran = row.and_then(|(_, ran)| ran.as_ref());
        ran.expect("there is always a WVGA stream")
    }
}

/// Our gain of a scheduler over FCFS, with its sampling error.
pub(crate) fn sampled(ran: &[Ran; 3], scheduler: Scheduler) -> Sampled {
    let of = |scheduler: Scheduler| &ran[scheduler as usize].pictures;
    Sampled::of(of(Scheduler::Fcfs), of(scheduler), published::PICTURES)
}

/// Records and simulates all that the tables need. `go_on` is asked often and stops it, `step` is told how far it is.
///
/// # Errors
/// See [`ToshibaError`].
pub(crate) fn toshiba(
    sources: &[Source],
    set: &Set,
    effort: Effort,
    go_on: &(dyn Fn() -> bool + Sync),
    step: &mut dyn FnMut(Step),
) -> Result<Reproduced, ToshibaError> {
    let recordings = recordings(sources, set, effort, go_on, step)?;
    let rows = published::table2();
    let there = |row: &Row| recordings.iter().find(|one| one.stream == row.cell.stream);
    let wvga = recordings.iter().find(|one| one.stream == HEADLINE.stream);
    let wvga = wvga.expect("there is always a WVGA stream");
    let mut jobs = Vec::new();
    for scheduler in Scheduler::ALL {
        jobs.push(Job {
            recording: wvga,
            scheduler,
            machine: set.uniform(scheduler),
        });
    }
    for row in &rows {
        jobs.extend(there(row).into_iter().flat_map(|recording| {
            Scheduler::ALL.map(|scheduler| Job {
                recording,
                scheduler,
                machine: set.board(row.cell.l2_kb, row.cell.cores),
            })
        }));
    }
    let count = jobs.len();
    let mut done = |ended| step(Step::Simulating(ended, count));
    let mut ran = simulating::all(&jobs, effort.threads, go_on, &mut done)?.into_iter();
    let mut three = || std::array::from_fn(|_| ran.next().expect("each job has a result"));
    let table3 = three();
    let table2 = rows
        .iter()
        .map(|row| (*row, there(row).map(|_| three())))
        .collect();
    let gantts = gantts(wvga, set, go_on)?;
    Ok(Reproduced {
        table2,
        table3,
        gantts,
        recordings,
    })
}

/// Records the streams.
pub(super) fn recordings(
    sources: &[Source],
    set: &Set,
    effort: Effort,
    go_on: &dyn Fn() -> bool,
    step: &mut dyn FnMut(Step),
) -> Result<Vec<Recording>, ToshibaError> {
    let one = |source: &Source| {
        step(Step::Recording(source.stream));
        record(source, &set.costs, effort.pictures, go_on)
            .map_err(|error| ToshibaError::Stream(source.name.clone(), error))
    };
    sources.iter().map(one).collect()
}

/// Fig. 13: where and when the tasks of the first recorded picture ran, in the headline's cell on the board.
fn gantts(
    recording: &Recording,
    set: &Set,
    go_on: &dyn Fn() -> bool,
) -> Result<Vec<Timeline>, ToshibaError> {
    let chart = |scheduler: Scheduler| {
        let job = Job {
            recording,
            scheduler,
            machine: set.board(HEADLINE.l2_kb, HEADLINE.cores),
        };
        let picture = &recording.pictures[0];
        let mut runs: Vec<Run> = Vec::new();
        let outcome = job.observed(picture, &|_| go_on(), &mut runs)?;
        let label = format!("{} ({HEADLINE} cores)", scheduler.name());
        Ok(timeline(scheduler.trace(picture), &outcome, &label, &runs))
    };
    Scheduler::ALL.into_iter().map(chart).collect()
}
