//! `tanada run h264`.

use super::{Closing, Engine, Running, Workload};
use crate::ui::{self, Failure, Outcome, OutputFile, Progress, at_fault};
use crate::verbs::decoding::{self, Decoding, damage};
use clap::ValueEnum;
use md5::{Digest as _, Md5};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tanada_h264::Step;
use tanada_harness::{counted, sequential};
use tanada_report::RunResult;
use tanada_runtime::{Cancel, GraphError};
use tanada_topology::Topology;
use tanada_workloads::h264::{self, DecodeError, Frame, Summary};

/// Decode an H.264 byte stream
///
/// Frames come out as bare I420, cropped, in output order. Of a damaged stream those are written that could be decoded; the errors are
/// told on standard error, and the command ends with 1.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tanada run h264 video.264 --md5 --policy ts --groups a\n  \
    tanada run h264 video.264 -o - | ffplay -f rawvideo -video_size 800x480 -"
)]
pub(super) struct Args {
    /// H.264 byte stream (Annex B)
    #[arg(value_name = "IN.264")]
    input: PathBuf,

    /// Write the frames (those of the first repeat); - is standard output, and then all else goes to standard error
    #[arg(short, long, value_name = "OUT.yuv")]
    output: Option<PathBuf>,

    /// Print the MD5 of all frames
    #[arg(long)]
    md5: bool,

    #[command(flatten)]
    running: Running,

    #[command(flatten)]
    decoding: Decoding,

    /// Decode without tasks, on one thread
    #[arg(long, conflicts_with_all = ["policy", "workers", "tasks", "dependencies", "groups", "bind", "seed", "trace_events"])]
    sequential: bool,

    /// Which rectangle of the pictures is a frame
    #[arg(long, value_enum, default_value_t = Crop::Ffmpeg)]
    crop: Crop,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Crop {
    /// As FFmpeg: the left side moves outwards to a multiple of 64 samples
    Ffmpeg,
    /// As the standard says
    Exact,
}

pub(super) fn run(args: &Args) -> Outcome {
    let stream = decoding::read(&args.input)?;
    let mut decoding = Stream {
        args,
        name: args.input.display().to_string(),
        stream,
        frames: Frames::open(args)?,
        seen: 0,
        frame_bytes: 0,
        summary: None,
    };
    let pooling = (!args.sequential).then_some(&args.decoding.pooling);
    super::drive(&args.running, pooling, &mut decoding, &ui::interruptible())
}

/// A stream that is decoded again and again; the first time its frames go where they were asked for.
struct Stream<'a> {
    args: &'a Args,
    name: String,
    stream: Vec<u8>,
    frames: Frames,
    /// Frames so far, of all repeats.
    seen: u64,
    /// Bytes of the largest of them.
    frame_bytes: u64,
    /// Of the last time.
    summary: Option<Summary>,
}

impl Workload for Stream<'_> {
    fn name(&self) -> &'static str {
        "h264"
    }

    fn input(&self) -> String {
        self.name.clone()
    }

    fn title(&self) -> String {
        format!("H.264 decoding: {}", self.name)
    }

    fn progress(&self, _runs: u64) -> Progress {
        let mut progress = Progress::new(None);
        progress.says("frames");
        progress
    }

    fn run(&mut self, engine: &Engine, cancel: &Cancel, progress: &mut Progress) -> Outcome {
        let Stream {
            args,
            stream,
            frames,
            seen,
            frame_bytes,
            summary,
            ..
        } = self;
        let first = summary.is_none();
        let mut sink = |frame: &Frame| {
            if first {
                frames.see(frame);
            }
            *seen += 1;
            *frame_bytes = (*frame_bytes).max(frame.i420_len() as u64);
            progress.at(*seen);
        };
        let decoded = match engine {
            Engine::Pool(pool) => {
                h264::decode(pool, stream, &args.decoding.options(), cancel, sink)
            }
            Engine::Here => sequential::decode(stream, h264::Limits::default(), cancel, |step| {
                if let Step::Frame(frame) = step {
                    sink(frame);
                }
            }),
        };
        *summary = Some(decoded.map_err(|stop| match stop {
            DecodeError::Graph(GraphError::Cancelled) => Failure::Interrupted,
            other => at_fault(&self.name, other),
        })?);
        Ok(())
    }

    fn goes_on(&self) -> bool {
        self.frames.failed.is_none()
    }

    fn describe(&self, run: &mut RunResult, engine: &Engine) {
        let summary = self.summary.as_ref().expect("it ran");
        run.frames = Some(summary.frames);
        run.fps = run
            .seconds
            .map(|seconds| summary.frames as f64 / seconds.min);
        if let Engine::Pool(pool) = engine {
            let topology = Topology::detect().ok();
            run.memory = topology
                .and_then(|topology| counted::video(self.frame_bytes, &topology, pool.workers()));
            run.groups = self.args.decoding.groups.to_string();
            run.tasks_mode = self.args.decoding.tasks.to_string();
        }
        if summary.error_count > 0 {
            run.extra
                .insert("errors".to_owned(), summary.error_count.into());
            run.extra
                .insert("concealed".to_owned(), summary.concealed.into());
        }
    }

    fn close(&mut self) -> Outcome<Closing> {
        Ok(Closing {
            md5: self.frames.close()?,
            stdout_taken: self.args.output.as_deref() == Some(Path::new("-")),
        })
    }

    fn verdict(&self) -> Outcome {
        damage(&self.name, self.summary.as_ref().expect("it ran"))
    }
}

/// Where frames go.
enum Target {
    Nowhere,
    Stdout(BufWriter<io::Stdout>),
    File(PathBuf, BufWriter<OutputFile>),
}

struct Frames {
    target: Target,
    md5: Option<Md5>,
    crop: Crop,
    failed: Option<io::Error>,
}

impl Frames {
    fn open(args: &Args) -> Outcome<Frames> {
        let target = match args.output.as_deref() {
            None => Target::Nowhere,
            Some(path) if path == Path::new("-") => Target::Stdout(BufWriter::new(io::stdout())),
            Some(path) => {
                if path.exists() && path.canonicalize().ok() == args.input.canonicalize().ok() {
                    return Err(Failure::Usage(format!(
                        "{} is the input; name another output",
                        path.display()
                    )));
                }
                let file = BufWriter::with_capacity(1 << 20, OutputFile::open(path)?);
                Target::File(path.to_owned(), file)
            }
        };
        Ok(Frames {
            target,
            md5: args.md5.then(Md5::new),
            crop: args.crop,
            failed: None,
        })
    }

    fn see(&mut self, frame: &Frame) {
        let Frames {
            target,
            md5,
            crop,
            failed,
        } = self;
        let out: &mut dyn Write = match target {
            Target::Nowhere if md5.is_none() => return,
            Target::Nowhere => &mut io::sink(),
            Target::Stdout(out) => out,
            Target::File(_, out) => out,
        };
        let region = match crop {
            Crop::Ffmpeg => frame.crop().with_aligned_left(),
            Crop::Exact => frame.crop(),
        };
        frame.visit_region(region, |row| {
            if let Some(md5) = md5 {
                md5.update(row);
            }
            if failed.is_none() {
                *failed = out.write_all(row).err();
            }
        });
    }

    /// Ends the output; gives the MD5 as text, if it was asked for.
    fn close(&mut self) -> Outcome<Option<String>> {
        let failed = self.failed.take().map_or(Ok(()), Err);
        match std::mem::replace(&mut self.target, Target::Nowhere) {
            Target::Nowhere => {}
            Target::Stdout(mut out) => failed
                .and_then(|()| out.flush())
                .map_err(ui::output_failed)?,
            Target::File(path, out) => failed
                .and_then(|()| out.into_inner().map_err(io::IntoInnerError::into_error))
                .and_then(OutputFile::keep)
                .map_err(|error| at_fault(path.display(), error))?,
        }
        Ok(self.md5.take().map(super::hex))
    }
}
