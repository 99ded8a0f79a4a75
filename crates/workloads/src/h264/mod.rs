//! H.264 decoding as tasks: the workload of paper 1.
//!
//! Each picture passes through four kinds of task, and several pictures are on their way at once:
//!
//! 1. *entropy* parses the picture (one task a picture, in stream order);
//! 2. *build* registers the picture's reconstruction tasks with their dependencies, those on rows of reference pictures among them
//!    (one task a picture, in stream order);
//! 3. the reconstruction tasks, cut as [`Cut`] says and grouped as [`Groups`] say;
//! 4. *output* hands finished frames to the sink, in output order (one task a picture).
//!
//! Entropy decoding runs at most [`Options::ahead`] pictures ahead of output.

pub(crate) mod build;
mod cut;
#[allow(unsafe_code)]
pub(crate) mod graph;
pub(crate) mod groups;
#[allow(unsafe_code)]
mod in_turn;
mod input;
pub(crate) mod record;
#[allow(unsafe_code)]
mod slot;
#[allow(unsafe_code)]
mod today;
mod workload;

pub use cut::{Cut, Dependencies};
pub use groups::Groups;
pub use tanada_h264::{
    Error as StreamError, Fault, Frame, Job, Limits, Step, Summary, decode as decode_sequentially,
};
pub use workload::{DEMO, DEMO_NAME, H264};

use build::Builder;
use graph::Native;
use parking_lot::Mutex;
use slot::Slot;
use std::collections::VecDeque;
use std::sync::Arc;
use tanada_h264::{Decoder, NalStream};
use tanada_runtime::{Cancel, GraphError, Pool, Scope, TaskBuilder, Token};

/// How a stream is decoded.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How reconstruction is cut into tasks.
    pub cut: Cut,
    /// Which tasks wait for those of neighbouring units.
    pub dependencies: Dependencies,
    /// How tasks are put into T and S groups.
    pub groups: Groups,
    /// Pictures that may be on their way at once; at least 1. The upper bound is memory: a picture on its way takes up to about 1.3 KiB a
    /// macroblock (2 MB at 800 x 480) for its frame and its parsed content, and its tasks.
    pub ahead: u32,
    /// Bounds on what a stream may ask for.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            cut: Cut::Default,
            dependencies: Dependencies::Needed,
            groups: Groups::Default,
            ahead: 4,
            limits: Limits::default(),
        }
    }
}

/// Why a stream was not decoded to its end.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The tasks did not run to their end.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// No picture could be decoded.
    #[error(transparent)]
    Stream(#[from] StreamError),
}

impl std::fmt::Debug for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Returns the index of task number `number` of picture `picture`, which is its [phase](crate::workload::phase_of).
fn index(picture: u64, number: u32) -> u64 {
    (picture << 32) | u64::from(number)
}

/// Decodes an Annex B stream on the workers of `pool`, calls `sink` with each frame, in output order, and returns a summary.
///
/// Frames are those of the sequential decoder, bit by bit, under every policy. Decoding goes on behind an error, which is then in the
/// [`Summary`].
///
/// # Errors
/// [`DecodeError::Stream`]: no picture could be decoded. [`DecodeError::Graph`]: `cancel` stopped the graph, or the pool cannot run it.
pub fn decode(
    pool: &Pool,
    stream: &[u8],
    options: &Options,
    cancel: &Cancel,
    sink: impl FnMut(&Frame) + Send,
) -> Result<Summary, DecodeError> {
    // A picture takes four bytes of a stream at least, and more room than there are pictures is of no use.
    let most = u32::try_from(stream.len() / 4).unwrap_or(u32::MAX);
    let ahead = options.ahead.min(most).max(1);
    let session = Session {
        ahead,
        parser: Mutex::new(Parser {
            decoder: Decoder::new(options.limits),
            stream: NalStream::new(stream),
            summary: Summary::default(),
            built: None,
            outputs: VecDeque::new(),
        }),
        builder: Mutex::new(Builder::new(
            options.cut,
            options.dependencies,
            pool.workers(),
            ahead,
        )),
        slots: (0..ahead).map(|_| Slot::default()).collect(),
        sink: Mutex::new(sink),
        groups: options.groups,
    };
    pool.scope_with_cancel(cancel, |s| session.register_entropy(s, 0, None))?;
    let summary = session.parser.into_inner().summary;
    Ok(summary.into_result(stream.len())?)
}

/// What the tasks of one decoding share.
struct Session<'stream, F> {
    ahead: u32,
    /// Used by entropy tasks only, which run one after the other.
    parser: Mutex<Parser<'stream>>,
    /// Used by build tasks only, which run one after the other.
    builder: Mutex<Builder<Token>>,
    /// Picture n is in slot n mod `ahead` from its entropy task to its output task.
    slots: Box<[Slot]>,
    /// Used by output tasks only, which run one after the other.
    sink: Mutex<F>,
    groups: Groups,
}

struct Parser<'stream> {
    decoder: Decoder,
    stream: NalStream<'stream>,
    summary: Summary,
    /// The last build task.
    built: Option<Token>,
    /// The output tasks of the last pictures, the oldest first; at most `ahead`.
    outputs: VecDeque<Token>,
}

impl<F: FnMut(&Frame) + Send> Session<'_, F> {
    fn slot(&self, picture: u64) -> &Slot {
        &self.slots[(picture % u64::from(self.ahead)) as usize]
    }

    /// Registers the task that parses picture number `picture`, after `room` has made a slot free.
    fn register_entropy<'scope>(
        &'scope self,
        s: &Scope<'scope>,
        picture: u64,
        room: Option<Token>,
    ) {
        let entropy = self.serial(s, "entropy", picture).after(room);
        entropy.register(move |s| self.entropy(s, picture));
    }

    /// Returns a task of picture number `picture` that is not one of its reconstruction tasks.
    fn serial<'a, 'scope>(
        &self,
        s: &'a Scope<'scope>,
        name: &'static str,
        picture: u64,
    ) -> TaskBuilder<'a, 'scope> {
        let (t, group) = self.groups.serial(picture);
        s.task(name).index(index(picture, 0)).groups(t, group)
    }

    fn entropy<'scope>(&'scope self, s: &Scope<'scope>, picture: u64) {
        let parser = &mut *self.parser.lock();
        let job = loop {
            match parser.decoder.next_picture(&mut parser.stream) {
                Some(Ok(job)) => break Some(job),
                Some(Err(error)) => parser.summary.note(error),
                None => break None,
            }
        };
        let mut frames = 0;
        let shown = std::iter::from_fn(|| parser.decoder.next_output()).inspect(|_| frames += 1);
        let before = parser.outputs.back().copied();
        let last = job.is_none();
        parser.summary.concealed += job.as_ref().map_or(0, |job| u64::from(job.concealed()));
        self.slot(picture).set(job, shown);
        parser.summary.frames += frames;
        let output = self
            .serial(s, "output", picture)
            .count(u32::from(!last))
            .after(before)
            .register(move |_| {
                self.output(self.slot(picture).frames());
                // This is the last task of the picture, see `Slot`.
                self.slot(picture).clear();
            });
        if last {
            return;
        }
        parser.summary.pictures += 1;
        let build = self.serial(s, "build", picture).after(parser.built);
        parser.built = Some(build.register(move |s| self.build(s, picture, output)));
        parser.outputs.push_back(output);
        let room = (parser.outputs.len() == self.ahead as usize)
            .then(|| parser.outputs.pop_front())
            .flatten();
        self.register_entropy(s, picture + 1, room);
    }

    /// Registers all reconstruction tasks of a picture, and lets `output`, of which this holds one count, wait for them.
    fn build<'scope>(&'scope self, s: &Scope<'scope>, picture: u64, output: Token) {
        let slot = self.slot(picture);
        let native = &mut Native {
            scope: s,
            slot,
            groups: self.groups,
        };
        let ends = self.builder.lock().build(native, picture, slot.job());
        for end in ends {
            s.depend(output, end)
                .expect("the output task waits for its own count");
        }
        // Last, because the output task returns the job: from here on the slot may be the next picture's.
        s.resolve(output)
            .expect("the output task waits for one count");
    }

    fn output(&self, frames: &[Arc<Frame>]) {
        let mut sink = self.sink.lock();
        frames.iter().for_each(|frame| sink(frame));
    }
}
