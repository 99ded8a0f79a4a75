//! Recording of H.264 decoding: video signal processing, as paper 1 calls reconstruction.

mod costs;
mod rows;

pub use costs::Costs;

use crate::h264::build::Builder;
use crate::h264::graph::{Declared, Graph, Work};
use crate::h264::{Cut, Dependencies, Groups, Limits, Summary};
use crate::record::layout::{CODE, Layout};
use crate::record::tape::{Recorded, Tape};
use crate::record::tasks::{RecordedTask, TaskGroups, Tasks};
use crate::workload::RecordError;
use costs::{Laid, StageCosts, stage_name};
use rows::Rows;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use tanada_h264::{Decoder, Job, NalStream, Operation, Probe, Stage};
use tanada_trace::{Sink, TraceError};

/// Which pictures are recorded, in decoding order from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pictures {
    /// At equal distances.
    Every {
        /// The first one.
        first: u64,
        /// How many, at most.
        count: u64,
        /// The distance: 1 is every picture.
        every: u64,
    },
    /// These, in ascending order.
    These(Vec<u64>),
}

impl Default for Pictures {
    /// Returns the selection of all pictures.
    fn default() -> Self {
        Pictures::Every {
            first: 0,
            count: u64::MAX,
            every: 1,
        }
    }
}

impl Pictures {
    /// Returns the numbers of the pictures, in ascending order.
    fn numbers(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        match *self {
            Pictures::Every {
                first,
                count,
                every,
            } => {
                let [count, every] = [count, every.max(1)].map(|number| number as usize);
                Box::new((first..=u64::MAX).step_by(every).take(count))
            }
            Pictures::These(ref numbers) => Box::new(numbers.iter().copied()),
        }
    }

    /// Returns whether pictures may be left out between two.
    fn leaves_out(&self) -> bool {
        !matches!(self, Pictures::Every { every: ..=1, .. })
    }
}

/// What is recorded, and how.
#[derive(Clone, Debug)]
pub struct H264Options {
    /// How reconstruction is cut into tasks.
    pub cut: Cut,
    /// Which tasks wait for those of neighbouring units.
    pub dependencies: Dependencies,
    /// The groups that tasks carry as plain ones. They carry those of [`Groups::RECORDED`] as well, by name.
    pub groups: Groups,
    /// The workers that [`Cut::Default`] and [`Groups::Default`] are made for; at least 1.
    pub workers: u16,
    /// Which pictures.
    pub pictures: Pictures,
    /// Whether a picture begins when the one before has ended. If pictures are left out between two, that is so in any case.
    pub barrier: bool,
    /// Without a barrier: pictures that may be on their way at once, as in [`Options::ahead`](crate::h264::Options::ahead).
    pub ahead: u32,
    /// What computation costs.
    pub costs: Costs,
}

impl Default for H264Options {
    fn default() -> Self {
        H264Options {
            cut: Cut::Paper,
            dependencies: Dependencies::Needed,
            groups: Groups::None,
            workers: 4,
            pictures: Pictures::default(),
            barrier: false,
            ahead: 4,
            costs: Costs::default(),
        }
    }
}

/// What a recording holds.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct H264Recording {
    /// Of the part of the stream that was decoded.
    pub stream: Summary,
    /// Pictures that were recorded.
    pub pictures: u64,
    /// Their macroblocks.
    pub macroblocks: u64,
    /// The number of the first task of each picture.
    pub begins: Vec<u32>,
    /// Tasks, dependencies and addresses.
    pub recorded: Recorded,
}

/// Records reconstruction of pictures of an Annex B stream into `sink` and returns what was recorded.
///
/// The tasks are those that [`decode`](crate::h264::decode) runs with the same cut, workers and groups, without those that parse, build and
/// show: others do that in paper 1's setting. A task that only waits for a picture to be parsed there waits here for what parsing would
/// have waited for: the end of the picture `ahead` before (`output`, a task without work), or with a barrier of the one before.
///
/// `seen` is called after each picture of the stream with how many were decoded and recorded so far; it stops the recording when it breaks.
///
/// Decoding goes on behind an error, which is then in [`H264Recording::stream`].
///
/// # Errors
/// See [`RecordError`]; what `sink` got by then is no whole trace.
pub fn h264<S: Sink + ?Sized>(
    stream: &[u8],
    options: &H264Options,
    sink: &mut S,
    mut seen: impl FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<H264Recording, RecordError> {
    let mut recorder = Recorder::new(options, sink);
    let mut summary = Summary::default();
    let mut decoder = Decoder::new(Limits::default());
    let mut units = NalStream::new(stream);
    let mut builder = Builder::new(
        options.cut,
        options.dependencies,
        recorder.tasks.workers,
        recorder.ahead as u32,
    );
    let mut wanted = options.pictures.numbers().peekable();
    let first = wanted.peek().copied().unwrap_or(0);
    while wanted.peek().is_some() {
        let job = match decoder.next_picture(&mut units) {
            Some(Ok(job)) => job,
            Some(Err(error)) => {
                summary.note(error);
                continue;
            }
            None => break,
        };
        // Frames that are shown go back to the decoder at once.
        summary.frames += std::iter::from_fn(|| decoder.next_output()).count() as u64;
        match wanted.next_if_eq(&summary.pictures) {
            Some(_) => recorder.picture(&mut builder, job.clone())?,
            None => job.reconstruct(),
        }
        summary.pictures += 1;
        summary.concealed += u64::from(job.concealed());
        if seen(summary.pictures, recorder.made.begins.len() as u64).is_break() {
            return Err(RecordError::Stopped);
        }
    }
    let summary = summary.into_result(stream.len())?;
    if recorder.made.begins.is_empty() {
        return Err(RecordError::TooShort {
            there: summary.pictures,
            first,
        });
    }
    Ok(recorder.finish(summary))
}

/// Carries out tasks as they are declared, and writes what they do.
struct Recorder<'a, S: ?Sized> {
    options: &'a H264Options,
    tasks: Tasks<'a, S>,
    laid: Laid,
    /// Pictures on their way at once; with a barrier 1.
    ahead: usize,
    job: Option<Arc<Job>>,
    /// The pictures before that may still be on their way, whose buffers are not used again: the oldest first.
    before: VecDeque<(Arc<Job>, Vec<u32>)>,
    /// The last tasks of the picture that the next one waits for.
    ended: Option<Vec<u32>>,
    /// The last `output` task.
    output: Option<u32>,
    /// What the first tasks of the current picture wait for.
    gate: Vec<u32>,
    /// The first task of the current picture.
    first: u32,
    waits: Vec<u32>,
    rows: Rows,
    error: Option<TraceError>,
    made: H264Recording,
}

impl<'a, S: Sink + ?Sized> Recorder<'a, S> {
    fn new(options: &'a H264Options, sink: &'a mut S) -> Self {
        let laid = options.costs.lay_out(CODE);
        let barrier = options.barrier || options.pictures.leaves_out();
        Recorder {
            tasks: Tasks::new(sink, laid.all, laid.entry, options.workers),
            options,
            laid,
            ahead: if barrier {
                1
            } else {
                options.ahead.max(1) as usize
            },
            job: None,
            before: VecDeque::new(),
            ended: None,
            output: None,
            gate: Vec::new(),
            first: 0,
            waits: Vec::new(),
            rows: Rows::default(),
            error: None,
            made: H264Recording::default(),
        }
    }

    /// Records a picture.
    fn picture(&mut self, builder: &mut Builder<u32>, job: Arc<Job>) -> Result<(), TraceError> {
        let number = self.made.begins.len() as u64;
        self.made.begins.push(self.tasks.next);
        let frames = job.references().iter().chain([job.frame()]);
        let buffers = frames.map(|frame| frame.buffer()).chain([job.buffer()]);
        for (buffer, bytes) in buffers {
            self.tasks.layout.reserve(buffer, bytes);
        }
        if let Some(ends) = self.ended.take() {
            self.gate = match self.ahead {
                // All of that picture waited for the one before.
                1 => ends,
                _ => {
                    let waits = ends.into_iter().chain(self.output);
                    let before = number - self.ahead as u64;
                    let groups = |groups: Groups| groups.serial(before);
                    let output = self.declare("output", groups, &Work::Nothing, waits);
                    self.output = Some(output);
                    vec![output]
                }
            };
        }
        self.made.macroblocks += u64::from(job.mb_count());
        self.first = self.tasks.next;
        self.job = Some(Arc::clone(&job));
        let ends = builder.build(self, number, &job).collect();
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.before.push_back((job, ends));
        // The next picture begins when the oldest has ended, and may use its buffers.
        if self.before.len() == self.ahead {
            self.ended = self.before.pop_front().map(|(_, ends)| ends);
        }
        Ok(())
    }

    fn finish(self, stream: Summary) -> H264Recording {
        H264Recording {
            stream,
            pictures: self.made.begins.len() as u64,
            recorded: self.tasks.finish(),
            ..self.made
        }
    }
}

impl<S: Sink + ?Sized> Recorder<'_, S> {
    /// Writes a task, does its work, writes what it does, and returns its ID.
    fn declare(
        &mut self,
        name: &'static str,
        groups: impl Fn(Groups) -> TaskGroups,
        work: &Work,
        waits: impl Iterator<Item = u32>,
    ) -> u32 {
        let id = self.tasks.next;
        self.waits.clear();
        for task in waits {
            if !self.waits.contains(&task) {
                self.waits.push(task);
            }
        }
        // What waits for a task of its picture waits for what that one waits for, and so on.
        if self.waits.iter().all(|&task| task < self.first) {
            let further = self.gate.iter().filter(|task| !self.waits.contains(task));
            let further: Vec<u32> = further.copied().collect();
            self.waits.extend(further);
        }
        let task = RecordedTask {
            name,
            plain: groups(self.options.groups),
            named: &Groups::RECORDED.map(|pattern| (pattern.name(), groups(pattern))),
        };
        let waits = self.waits.iter().copied();
        let recorded = self.tasks.task(&task, waits, |tape, layout| {
            let Some(job) = &self.job else { return };
            let mut seer = Seer {
                stage: &self.laid.stages[0],
                tape,
                layout,
                laid: &self.laid,
            };
            match work {
                Work::Stage(stage, mbs) if self.options.cut == Cut::Paper => {
                    for mb in mbs.clone() {
                        seer.stage(job, *stage, mb);
                    }
                }
                Work::Stages(stages, mbs) if self.options.cut == Cut::Paper => {
                    for mb in mbs.clone() {
                        stages.iter().for_each(|&stage| seer.stage(job, stage, mb));
                    }
                }
                work => work.run_with(job, &mut seer),
            }
        });
        if let Err(error) = recorded {
            self.error.get_or_insert(error);
        }
        id
    }
}

impl<S: Sink + ?Sized> Graph for Recorder<'_, S> {
    type Token = u32;

    fn register(&mut self, task: Declared, waits: impl IntoIterator<Item = u32>) -> u32 {
        let Declared { name, at, work } = task;
        let place = at.place;
        let name = match name {
            "join" | "row" | "front" | "rear" => name,
            _ => stage_name(place.stage),
        };
        let groups = |groups: Groups| groups.of(place);
        if self.options.cut != Cut::Paper || name == "join" {
            return self.declare(name, groups, &work, waits.into_iter());
        }
        let laid = &self.laid.stages[place.stage as usize];
        let neighbours = self.rows.neighbours(place, laid.after);
        let waits = waits.into_iter().chain(neighbours.into_iter().flatten());
        let task = self.declare(name, groups, &work, waits);
        self.rows.declared(place, task);
        task
    }
}

/// Sees what a task does, and charges it.
struct Seer<'a, 'b, S: ?Sized> {
    /// The running one.
    stage: &'a StageCosts,
    tape: &'a mut Tape<'b, S>,
    layout: &'a mut Layout,
    laid: &'a Laid,
}

impl<S: Sink + ?Sized> Seer<'_, '_, S> {
    /// A stage of the paper's decoder: see `passes` in the table of costs.
    fn stage(&mut self, job: &Job, stage: Stage, mb: u32) {
        job.run_stage_with(stage, mb, self);
        if self.laid.stages[stage as usize].passes && !job.needs(mb, stage) {
            job.pass_with(stage, mb, self);
        }
    }
}

impl<S: Sink + ?Sized> Probe for Seer<'_, '_, S> {
    #[inline]
    fn code(&mut self, stage: Stage, _mb: u32) {
        self.stage = &self.laid.stages[stage as usize];
        self.tape.fetch(self.stage.control, self.laid.chunk);
        self.tape.compute(self.stage.millis);
    }

    #[inline]
    fn skipped(&mut self, stage: Stage, _mb: u32) {
        let stage = &self.laid.stages[stage as usize];
        self.tape.fetch(stage.skipped, self.laid.chunk);
        self.tape.compute(stage.skipped_millis);
    }

    #[inline]
    fn operation(&mut self, operation: Operation, units: u32) {
        let costs = &self.stage.operations[operation as usize];
        self.tape.fetch(costs.code, self.laid.chunk);
        self.tape
            .compute(costs.entry_millis + costs.millis * u64::from(units));
    }

    #[inline]
    fn read(&mut self, address: u64, size: u32) {
        let address = self.layout.place(address);
        self.tape.read(address, size);
    }

    #[inline]
    fn write(&mut self, address: u64, size: u32) {
        let address = self.layout.place(address);
        self.tape.write(address, size);
    }
}
