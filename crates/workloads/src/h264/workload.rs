//! H.264 decoding as a [`Workload`].

use super::in_turn;
use super::input::{advice, foreign, nothing};
use super::record::{Costs, H264Options, Pictures, h264};
use super::today::Wavefronts;
use super::{
    Cut, DecodeError, Dependencies, Fault, Frame, Groups, Limits, Options, Step, Summary, decode,
};
use crate::options::{Kind, Name, OptionSpec, Values};
use crate::workload::{
    Description, Done, Facts, Flaws, Memory, Output, Phase, Prepared, RecordError, Recorder,
    Recording, RunError, Site, Way, Workload,
};
use std::borrow::Cow;
use std::ops::ControlFlow;
use tanada_h264::{Job, decode_steps};
use tanada_runtime::{Cancel, GraphError};
use tanada_trace::Sink;

/// The demo stream: 128 rendered pictures, 800 x 480, made by `demo/make.sh`.
pub const DEMO: &[u8] = include_bytes!("../../data/terraces_wvga.264");

/// What reports call [`DEMO`].
pub const DEMO_NAME: &str = "terraces_wvga.264";

/// H.264 decoding.
#[derive(Clone, Copy, Debug)]
pub struct H264;

/// Pictures of the recording that a comparison simulates.
const SIMULATED: u64 = 8;

/// The rectangles that `--crop` knows.
const CROPS: [Name; 2] = [Name::new("ffmpeg"), Name::new("exact")];

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "input",
        "IN.264", Kind::Path,
        "H.264 byte stream (Annex B) [default: an embedded demo]",
    )
    .positional(),
    OptionSpec::new(
        "units",
        "N",
        Kind::Count(1, u64::MAX),
        "Only the first N NAL units of the stream [default: all]",
    ),
    OptionSpec::new("cut", "CUT", Kind::Named(&Cut::NAMES), "How work is cut into tasks")
        .aliases(&["tasks"])
        .default(Cut::Default.name())
        .default_in_recordings(Cut::Paper.name())
        .of_tasks(),
    OptionSpec::new(
        "dependencies",
        "KIND",
        Kind::Named(&Dependencies::NAMES),
        "Which tasks wait for those of neighbouring macroblocks: those that need them, or all, as in paper 1",
    )
    .default(Dependencies::Needed.name())
    .of_tasks(),
    OptionSpec::new(
        "groups",
        "PATTERN",
        Kind::Named(&Groups::NAMES),
        "How tasks are put into temporal and spatial groups",
    )
    .default(Groups::Default.name())
    .default_in_recordings(Groups::None.name())
    .of_tasks(),
    OptionSpec::new(
        "crop",
        "RECTANGLE",
        Kind::Named(&CROPS),
        "Which rectangle of a picture is a frame: as FFmpeg, which moves the left side outwards to a multiple of 64 samples, or exactly \
         as the standard says",
    )
    .default("ffmpeg")
    .run_only(),
    OptionSpec::new(
        "first",
        "N",
        Kind::Count(0, u64::MAX),
        "Number of the first picture, in decoding order from 0",
    )
    .default("0")
    .record_only(),
    OptionSpec::new("count", "N", Kind::Count(1, u64::MAX), "Pictures, at most [default: all]")
        .record_only(),
    OptionSpec::new(
        "sample",
        "K",
        Kind::Count(1, u64::MAX),
        "Only every K-th picture, each of which begins when the one before has ended",
    )
    .default("1")
    .record_only(),
    OptionSpec::new("barrier", "", Kind::Switch, "A picture begins when the one before has ended").record_only(),
    OptionSpec::new(
        "ahead",
        "N",
        Kind::Count(1, 1024),
        "Without --barrier: pictures that may be on their way at once",
    )
    .default("4")
    .record_only(),
    OptionSpec::new(
        "costs",
        "FILE.toml", Kind::Path,
        "Table of cycles and code bytes of stages and operations [default: an MPE, the core of paper 1]",
    )
    .record_only(),
    OptionSpec::new(
        "set",
        "KEY=NUMBER", Kind::Texts,
        "Replace a figure of that table, as scale.cycles=1.5",
    )
    .record_only(),
];

/// Returns the stream that was asked for.
fn read(values: &Values) -> Result<Cow<'static, [u8]>, String> {
    let stream = match values.path("input") {
        None => Cow::from(DEMO),
        Some(path) => {
            let read = tanada_trace::read_whole(path);
            let name = path.display().to_string();
            let stream = read.map_err(|error| format!("{name}: {error}"))?;
            if let Some(what) = foreign(&stream) {
                return Err(format!("{name}: this is {what}; {}", advice(&name)));
            }
            stream.into()
        }
    };
    Ok(match values.count_if_any("units") {
        None => stream,
        Some(units) => stream[..end_of_unit(&stream, units)].to_owned().into(),
    })
}

/// Returns the place behind the first `units` NAL units of an Annex B stream.
fn end_of_unit(stream: &[u8], units: u64) -> usize {
    let starts = stream.windows(3).enumerate();
    let mut starts = starts.filter(|(_, three)| *three == [0, 0, 1]);
    let units = usize::try_from(units).unwrap_or(usize::MAX);
    starts.nth(units).map_or(stream.len(), |(at, _)| at)
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Debug>>(values: &Values, flag: &str) -> T {
    let name = values.name(flag);
    name.parse().expect("the table has the names of the type")
}

impl Workload for H264 {
    fn description(&self) -> &'static Description {
        &Description {
            name: "h264",
            about: "H.264 decoding: entropy decoding of the next pictures beside reconstruction (paper 1)",
            details: "Frames come out as bare I420, cropped, in output order. If a stream is damaged, everything that can be decoded \
                is; the errors are reported on standard error, and the command ends with 1.",
            options: OPTIONS,
            test_options: &[("units", "8")],
        }
    }

    fn prepare(&self, values: &Values, site: &Site) -> Result<Box<dyn Prepared>, RunError> {
        let path = values.path("input");
        Ok(Box::new(Decoding {
            name: path.map_or(DEMO_NAME.to_owned(), |path| path.display().to_string()),
            stream: read(values).map_err(RunError::Input)?,
            options: Options {
                cut: parsed(values, "cut"),
                dependencies: parsed(values, "dependencies"),
                groups: parsed(values, "groups"),
                ..Options::default()
            },
            exact: values.name("crop") == "exact",
            site: *site,
            wavefronts: Wavefronts::default(),
            summary: Summary::default(),
            frame_bytes: 0,
            shown: None,
            done: Done::default(),
        }))
    }

    fn recorder(&self) -> Option<&dyn Recorder> {
        Some(self)
    }
}

/// A stream that is decoded again and again.
struct Decoding {
    name: String,
    stream: Cow<'static, [u8]>,
    options: Options,
    /// Whether frames are cropped as the standard says, and not as FFmpeg does.
    exact: bool,
    site: Site,
    wavefronts: Wavefronts,
    /// Of the last run.
    summary: Summary,
    /// Bytes of the largest frame.
    frame_bytes: u64,
    /// The picture that charts show; known after a run without tasks.
    shown: Option<u64>,
    done: Done,
}

/// Returns the index of the `true` nearest to the middle; without any, the middle.
fn middle(refers: &[bool]) -> u64 {
    let middle = refers.len() / 2;
    let candidates = refers.iter().enumerate().filter(|(_, refers)| **refers);
    candidates
        .map(|(at, _)| at)
        .min_by_key(|at| at.abs_diff(middle))
        .unwrap_or(middle) as u64
}

/// Returns what is wrong with a stream that could be decoded.
fn flaws(name: &str, summary: &Summary) -> Option<Flaws> {
    let Summary {
        errors,
        error_count,
        concealed,
        pictures,
        ..
    } = summary;
    let more = error_count - errors.len() as u64;
    let further = (more > 0).then(|| format!("and {more} further errors"));
    let unsupported = errors
        .iter()
        .any(|error| matches!(error.fault, Fault::Unsupported(_)));
    let advice = unsupported.then(|| advice(name));
    (*error_count > 0).then(|| Flaws {
        details: errors.iter().map(ToString::to_string).chain(further).chain(advice).collect(),
        summary: format!(
            "the stream is damaged: {error_count} errors, {pictures} pictures decoded, {concealed} macroblocks concealed"
        ),
    })
}

impl Prepared for Decoding {
    fn title(&self) -> String {
        "H.264 decoding".to_owned()
    }

    fn input(&self) -> String {
        self.name.clone()
    }

    fn run(
        &mut self,
        way: Way<'_>,
        cancel: &Cancel,
        mut output: Option<&mut dyn Output>,
    ) -> Result<(), RunError> {
        let Decoding {
            stream,
            options,
            exact,
            frame_bytes,
            done,
            ..
        } = self;
        let sink = |frame: &Frame| {
            if let Some(output) = &mut output {
                let region = match exact {
                    true => frame.crop(),
                    false => frame.crop().with_aligned_left(),
                };
                output.begin();
                frame.visit_region(region, |row| output.write(row));
            }
            *frame_bytes = (*frame_bytes).max(frame.i420_len() as u64);
            done.add();
        };
        let limits = options.limits;
        let decoded = match way {
            Way::Tasks(pool) => decode(pool, stream, options, cancel, sink),
            Way::Today(pool) => {
                let reconstruct = |job: &Job| self.wavefronts.reconstruct(job, pool, cancel);
                by_picture(stream, limits, cancel, reconstruct, sink).0
            }
            Way::Sequential => {
                let (decoded, shown) = by_picture(stream, limits, cancel, reconstruct_here, sink);
                self.shown = Some(shown);
                decoded
            }
        };
        self.summary = decoded.map_err(|error| match error {
            DecodeError::Graph(error) => RunError::Graph(error),
            DecodeError::Stream(error) => RunError::Input(nothing(&self.name, error)),
        })?;
        Ok(())
    }

    fn part(&self) -> &'static str {
        "frame"
    }

    fn found(&self) -> String {
        let Summary {
            pictures,
            concealed,
            error_count,
            ref errors,
            ..
        } = self.summary;
        let first = errors.first();
        let first = first.map_or(String::new(), |error| format!(", the first: {error}"));
        format!(
            "{pictures} pictures, {concealed} concealed macroblocks, {error_count} errors{first}"
        )
    }

    fn facts(&self) -> Facts {
        let summary = &self.summary;
        // Tasks come back to the picture that is decoded and the one that it refers to, each worker to its band of both.
        let data = 2 * self.frame_bytes;
        let mut facts = Facts {
            frames: Some(summary.frames),
            groups: self.options.groups.name(),
            cut: self.options.cut.name(),
            memory: self.site.own_cache.map(|own_cache| Memory {
                data,
                group: data.div_ceil(self.site.workers.into()),
                own_cache,
            }),
            ..Facts::default()
        };
        if summary.error_count > 0 {
            facts.extra = vec![
                ("errors", summary.error_count),
                ("concealed", summary.concealed),
            ];
        }
        facts
    }

    fn flaws(&self) -> Option<Flaws> {
        flaws(&self.name, &self.summary)
    }

    fn done(&self) -> Done {
        self.done.clone()
    }

    fn step(&self) -> &'static str {
        "frames"
    }

    fn phase(&self) -> Option<Phase> {
        Some(Phase {
            number: self.shown?,
            around: u64::from(self.options.ahead),
            loose: &["entropy", "build", "output"],
            others: "other pictures",
            noun: "picture",
        })
    }

    fn recorded_part(&self) -> Vec<(&'static str, String)> {
        let last = self.summary.pictures.saturating_sub(SIMULATED);
        let shown = self.shown.unwrap_or(0);
        let first = shown.saturating_sub(SIMULATED / 2).min(last);
        vec![
            ("first", first.to_string()),
            ("count", SIMULATED.to_string()),
        ]
    }
}

/// Decodes an Annex B stream on this thread, one picture after the other, and calls `sink` with each frame. Returns the picture to look at
/// as well: of those that refer to others, the one nearest to the middle of the stream, in decoding order.
///
/// `reconstruct` does a picture's work; after an error it is not called again.
///
/// # Errors
/// As [`decode`], and the error of `reconstruct`; `cancel` is asked at every step.
fn by_picture(
    stream: &[u8],
    limits: Limits,
    cancel: &Cancel,
    mut reconstruct: impl FnMut(&Job) -> Result<(), GraphError>,
    mut sink: impl FnMut(&Frame),
) -> (Result<Summary, DecodeError>, u64) {
    let (mut refers, mut failed) = (Vec::new(), None);
    let work = |job: &Job| {
        refers.push(!job.references().is_empty());
        if failed.is_none() {
            failed = reconstruct(job).err();
        }
    };
    let decoded = decode_steps(stream, limits, work, |step| {
        if let Step::Frame(frame) = step {
            sink(frame);
        }
        match cancel.is_cancelled() {
            true => ControlFlow::Break(GraphError::Cancelled),
            false => ControlFlow::Continue(()),
        }
    });
    let decoded = match (failed, decoded) {
        (Some(error), _) | (None, ControlFlow::Break(error)) => Err(error.into()),
        (None, ControlFlow::Continue(result)) => result.map_err(DecodeError::Stream),
    };
    (decoded, middle(&refers))
}

/// Reconstructs a picture without tasks.
fn reconstruct_here(job: &Job) -> Result<(), GraphError> {
    in_turn::reconstruct(job);
    Ok(())
}

/// Returns the table of costs that was asked for.
fn costs(values: &Values) -> Result<Costs, RecordError> {
    let path = values.path("costs");
    let (text, name) = match path {
        Some(path) => {
            let name = path.display().to_string();
            let text = tanada_trace::read_whole(path);
            let text = text.map_err(|error| RecordError::Input(format!("{name}: {error}")))?;
            // Bytes that are no UTF-8 become text that is no TOML, on the same line.
            (Cow::from(String::from_utf8_lossy(&text).into_owned()), name)
        }
        None => (Costs::default_text().into(), "--set".to_owned()),
    };
    let set: Vec<&str> = values.texts("set").iter().map(String::as_str).collect();
    Costs::parse(&text, &name, &set).map_err(|error| match path {
        Some(_) => RecordError::Input(error),
        None => RecordError::Usage(error),
    })
}

impl Recorder for H264 {
    fn record(
        &self,
        values: &Values,
        site: &Site,
        sink: &mut dyn Sink,
        seen: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Recording, RecordError> {
        let costs = costs(values)?;
        let path = values.path("input");
        let name = path.map_or("the embedded demo".to_owned(), |path| {
            path.display().to_string()
        });
        let stream = read(values).map_err(RecordError::Input)?;
        let (first, every) = (values.count("first"), values.count("sample"));
        let options = H264Options {
            cut: parsed(values, "cut"),
            dependencies: parsed(values, "dependencies"),
            groups: parsed(values, "groups"),
            workers: site.workers,
            pictures: Pictures::Every {
                first,
                count: values.count_if_any("count").unwrap_or(u64::MAX),
                every,
            },
            barrier: values.switch("barrier"),
            ahead: values.count("ahead") as u32,
            costs,
        };
        let recorded = h264(&stream, &options, sink, |_, recorded| seen(recorded));
        let recording = recorded.map_err(|error| match error {
            RecordError::TooShort { .. } => {
                RecordError::Input(format!("{name}: {error}; choose a smaller --first"))
            }
            RecordError::Stream(error) => RecordError::Input(nothing(&name, error)),
            other => other,
        })?;
        let last = first + (recording.pictures - 1) * every;
        Ok(Recording {
            flaws: flaws(&name, &recording.stream),
            source: Some(name),
            extent: format!("pictures {first} to {last}"),
            groups: options.groups.name(),
            cut: options.cut.name(),
            frames: Some(recording.pictures),
            counts: vec![
                ("pictures", recording.pictures),
                ("macroblocks", recording.macroblocks),
            ],
            costs: options.costs.name().to_owned(),
            phases: (first, recording.begins),
            recorded: recording.recorded,
        })
    }

    fn step(&self) -> &'static str {
        "pictures"
    }

    fn steps(&self, values: &Values) -> Option<u64> {
        values.count_if_any("count")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_to_look_at_refers_to_others_if_there_is_one() {
        assert_eq!(middle(&[false, true, false, false, true, true]), 4);
        assert_eq!(middle(&[false; 6]), 3);
        let (limits, cancel) = (Limits::default(), Cancel::new());
        let (decoded, shown) = by_picture(DEMO, limits, &cancel, reconstruct_here, |_| ());
        assert_eq!(decoded.map(|summary| summary.frames), Ok(128));
        assert_eq!(
            shown.abs_diff(64),
            1,
            "64 is an IDR picture; {shown} is shown"
        );
    }
}
