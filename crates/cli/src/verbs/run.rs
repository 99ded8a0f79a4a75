//! `tanada run`.

use super::decoding::{self, Decoding, damage};
use crate::ui::{self, Failure, Outcome, OutputFile, Progress, at_fault};
use crate::{counted, host, sequential};
use clap::{Subcommand, ValueEnum};
use md5::{Digest as _, Md5};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tanada_h264::Step;
use tanada_report::{Report, RunResult, SEQUENTIAL, Seconds, to_json, to_perfetto, to_table};
use tanada_runtime::{Cancel, DEFAULT_POLICY, GraphError, Pool, Recorded, Recorder};
use tanada_topology::Topology;
use tanada_workloads::h264::{self, DecodeError, Frame, Summary};

/// Run one workload natively
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tanada run h264 video.264 -o video.yuv\n  tanada run h264 --help"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, Subcommand)]
enum Workload {
    H264(H264),
}

/// Decode an H.264 byte stream
///
/// Frames come out as bare I420, cropped, in output order. Of a damaged stream those are written that could be decoded; the errors are
/// told on standard error, and the command ends with 1.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tanada run h264 video.264 --md5 --policy ts --groups a\n  \
    tanada run h264 video.264 -o - | ffplay -f rawvideo -video_size 800x480 -"
)]
struct H264 {
    /// H.264 byte stream (Annex B)
    #[arg(value_name = "IN.264")]
    input: PathBuf,

    /// Write the frames; - is standard output, and then all else goes to standard error
    #[arg(short, long, value_name = "OUT.yuv")]
    output: Option<PathBuf>,

    /// Print the MD5 of all frames
    #[arg(long)]
    md5: bool,

    /// The dispatcher
    #[arg(long, value_name = "NAME", default_value = DEFAULT_POLICY, value_parser = decoding::policies())]
    policy: String,

    #[command(flatten)]
    decoding: Decoding,

    /// Decode without tasks, on one thread
    #[arg(long, conflicts_with_all = ["policy", "workers", "tasks", "groups", "bind", "seed", "trace_events"])]
    sequential: bool,

    /// Decode so often and tell the shortest time; the first time writes the output
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeat: u32,

    /// Which rectangle of the pictures is a frame
    #[arg(long, value_enum, default_value_t = Crop::Ffmpeg)]
    crop: Crop,

    /// Record every task of the last repeat, and write them for Perfetto or chrome://tracing (80 bytes of memory a task)
    #[arg(long, value_name = "FILE")]
    trace_events: Option<PathBuf>,

    /// Print the result as JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Crop {
    /// As FFmpeg: the left side moves outwards to a multiple of 64 samples
    Ffmpeg,
    /// As the standard says
    Exact,
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.workload {
        Workload::H264(args) => h264(&args),
    }
}

fn h264(args: &H264) -> Outcome {
    let stream = decoding::read(&args.input)?;
    let name = args.input.display().to_string();
    let mut frames = Frames::open(args)?;
    let events = args
        .trace_events
        .as_deref()
        .map(OutputFile::open)
        .transpose()?;
    let recorder = events.as_ref().map(|_| Recorder::all());
    let engine = Engine::new(args, recorder.clone())?;
    let cancel = ui::interruptible();

    let mut progress = Progress::new(None);
    progress.says("frames");
    let (mut times, mut seen) = (Vec::new(), 0);
    let mut outcome = None;
    let mut recorded = None;
    for repeat in 0..args.repeat {
        let start = Instant::now();
        let result = engine.decode(&stream, &cancel, |frame| {
            if repeat == 0 {
                frames.see(frame);
            }
            seen += 1;
            progress.at(seen);
        });
        times.push(start.elapsed().as_secs_f64());
        recorded = recorder
            .as_ref()
            .map(|recorder| recorder.take(&name, &args.policy, engine.workers()));
        outcome = Some(result.map_err(|stop| stopped(&name, stop))?);
        if frames.failed.is_some() {
            break;
        }
    }
    drop(progress);
    let summary = outcome.expect("at least one repeat");
    let md5 = frames.close()?;
    let report = report(args, &engine, &summary, &times, md5.as_deref(), recorded);
    if let Some(events) = events {
        events.finish(to_perfetto(&report).as_bytes())?;
    }
    tell(args, report, md5.as_deref())?;
    damage(&name, &summary)
}

fn stopped(name: &str, stop: DecodeError) -> Failure {
    match stop {
        DecodeError::Graph(GraphError::Cancelled) => Failure::Interrupted,
        other => at_fault(name, other),
    }
}

/// Tells the result: on standard output, unless the frames go there.
fn tell(args: &H264, mut report: Report, md5: Option<&str>) -> Outcome {
    report.timelines.clear();
    let mut text = String::new();
    if args.json {
        text.push_str(&to_json(&report).map_err(|error| at_fault("the report", error))?);
        text.push('\n');
    } else {
        if let Some(md5) = md5 {
            text.push_str(&format!("{md5}  {}\n", args.input.display()));
        }
        text.push_str(&to_table(&report));
    }
    if args.output.as_deref() == Some(Path::new("-")) {
        ui::note(text.trim_end());
        return Ok(());
    }
    ui::print(&text)
}

/// What decodes.
enum Engine {
    Sequential,
    Tasks(Pool, h264::Options),
}

impl Engine {
    fn new(args: &H264, recorder: Option<Recorder>) -> Outcome<Engine> {
        if args.sequential {
            return Ok(Engine::Sequential);
        }
        let Decoding { bind, seed, .. } = args.decoding;
        let mut builder = Pool::builder().policy(&args.policy).bind(bind).seed(seed);
        if let Some(workers) = args.decoding.workers()? {
            builder = builder.workers(u32::from(workers));
        }
        let pool = match recorder {
            Some(recorder) => builder.observer(recorder).build(),
            None => builder.build(),
        };
        let pool = pool.map_err(|error| Failure::Input(error.to_string()))?;
        Ok(Engine::Tasks(pool, args.decoding.options()))
    }

    fn workers(&self) -> u16 {
        match self {
            Engine::Sequential => 1,
            Engine::Tasks(pool, _) => pool.workers(),
        }
    }

    fn decode(
        &self,
        stream: &[u8],
        cancel: &Cancel,
        mut sink: impl FnMut(&Frame) + Send,
    ) -> Result<Summary, DecodeError> {
        match self {
            Engine::Tasks(pool, options) => h264::decode(pool, stream, options, cancel, sink),
            Engine::Sequential => {
                sequential::decode(stream, h264::Limits::default(), cancel, |step| {
                    if let Step::Frame(frame) = step {
                        sink(frame);
                    }
                })
            }
        }
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
    fn open(args: &H264) -> Outcome<Frames> {
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
    fn close(self) -> Outcome<Option<String>> {
        let Frames {
            target,
            md5,
            failed,
            ..
        } = self;
        let failed = failed.map_or(Ok(()), Err);
        match target {
            Target::Nowhere => {}
            Target::Stdout(mut out) => failed
                .and_then(|()| out.flush())
                .map_err(ui::output_failed)?,
            Target::File(path, out) => failed
                .and_then(|()| out.into_inner().map_err(io::IntoInnerError::into_error))
                .and_then(OutputFile::keep)
                .map_err(|error| at_fault(path.display(), error))?,
        }
        Ok(md5.map(|md5| {
            md5.finalize()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect()
        }))
    }
}

fn report(
    args: &H264,
    engine: &Engine,
    summary: &Summary,
    times: &[f64],
    md5: Option<&str>,
    recorded: Option<Recorded>,
) -> Report {
    let input = args.input.display().to_string();
    let policy = if args.sequential {
        SEQUENTIAL
    } else {
        &args.policy
    };
    let mut run = RunResult::new("h264", &input, policy, engine.workers());
    run.machine = host::processor();
    run.frames = Some(summary.frames);
    run.seconds = Seconds::of(times);
    run.fps = run
        .seconds
        .map(|seconds| summary.frames as f64 / seconds.min);
    if let Engine::Tasks(_, options) = engine {
        run.groups = options.groups.to_string();
        run.tasks_mode = options.cut.to_string();
    }
    let mut report = Report::new(&format!("H.264 decoding: {input}"));
    report.command = ui::command_line();
    report.machine = Topology::detect()
        .map(|topology| host::summary(&topology))
        .unwrap_or_default();
    if let Some(md5) = md5 {
        run.extra.insert("md5".to_owned(), md5.into());
    }
    if summary.error_count > 0 {
        run.extra
            .insert("errors".to_owned(), summary.error_count.into());
        run.extra
            .insert("concealed".to_owned(), summary.concealed.into());
    }
    if let Some(Recorded { totals, timeline }) = recorded {
        let wall = Duration::from_secs_f64(times.last().copied().unwrap_or_default());
        counted::describe(&mut run, &totals, wall, engine.workers());
        report.timelines.push(timeline);
    }
    report.runs.push(run);
    report
}
