//! Recordings of sampled pictures of the streams.

use super::published::{PICTURES, Stream};
use crate::Error;
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use tanada_runtime::Cancel;
use tanada_trace::{BinaryWriter, Groups, NewTask, Record, Sink, Trace, TraceError};
use tanada_workloads::record::{self, Costs, H264Options, Pictures};
use tanada_workloads::workload::RecordError;

/// A stream's bytes and its name.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The input of Table 2 that the stream stands for.
    pub(crate) stream: Stream,
    /// The name in the output.
    pub(crate) name: String,
    /// The byte stream.
    pub(crate) bytes: Vec<u8>,
}

/// Returns the name of a stream's file.
fn file_name(stream: Stream) -> String {
    format!("flower_{}.264", stream.name())
}

/// Returns the files that [`sources`] reads if they are in `folder`.
pub(crate) fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    Stream::ALL
        .into_iter()
        .map(|stream| folder.join(file_name(stream)))
}

/// Returns the streams `flower_*.264` that are in `folder`; the embedded demo stands for a WVGA stream that is not there.
///
/// # Errors
/// If a stream cannot be read.
pub(crate) fn sources(folder: Option<&Path>) -> std::io::Result<Vec<Source>> {
    let mut found = Vec::new();
    for stream in Stream::ALL {
        let file = file_name(stream);
        let path = folder.map(|folder| folder.join(&file));
        match path.filter(|path| path.exists()) {
            Some(path) => found.push(Source {
                stream,
                name: file,
                bytes: std::fs::read(path)?,
            }),
            None if stream == Stream::Wvga => found.push(Source {
                stream,
                name: format!("the embedded demo, {}", tanada_harness::DEMO_NAME),
                bytes: tanada_harness::DEMO.to_vec(),
            }),
            None => {}
        }
    }
    Ok(found)
}

/// Returns the default folder of the streams, if it exists: `streams/video` in the folder that `TANADA_SHARED` names, or in `../shared`
/// without that variable.
pub(crate) fn usual_folder() -> Option<PathBuf> {
    let shared = std::env::var_os("TANADA_SHARED").map(PathBuf::from);
    let shared = shared.unwrap_or_else(|| PathBuf::from("../shared"));
    Some(shared.join("streams/video")).filter(|folder| folder.is_dir())
}

/// Sampled pictures of a stream, each of which is a trace of its own.
#[derive(Debug)]
pub(crate) struct Recording {
    /// The stream.
    pub(crate) stream: Stream,
    /// The name of the stream in the output.
    pub(crate) name: String,
    /// The pictures, in decoding order.
    pub(crate) pictures: Vec<Picture>,
}

/// One picture's reconstruction.
#[derive(Debug)]
pub(crate) struct Picture {
    /// With the groups of pattern A.
    pub(crate) a: Trace,
    /// The same with those of pattern B.
    pub(crate) b: Trace,
}

/// Returns the numbers of `count` sampled pictures: the middles of `count` equal shares of the stream, rounded to whole pictures. The first
/// picture, which is all intra, is only in the sample of all pictures.
fn sample(count: u64) -> Vec<u64> {
    let middle = |place: u64| ((2 * place + 1) * PICTURES - count).div_ceil(2 * count);
    (0..count).map(middle).collect()
}

/// Records and returns `count` pictures of a stream, of 1 to [`PICTURES`].
///
/// # Errors
/// If the stream is damaged beyond use or too short, or if `cancel` stopped the recording.
pub(crate) fn record(
    source: &Source,
    costs: &Costs,
    count: u64,
    cancel: &Cancel,
) -> Result<Recording, Error> {
    let options = H264Options {
        pictures: Pictures::These(sample(count)),
        barrier: true,
        costs: costs.clone(),
        ..H264Options::default()
    };
    let splitter = RefCell::new(Splitter {
        writer: BinaryWriter::new(Vec::new()).expect("memory can be written to"),
        first: 0,
        next: 0,
    });
    let mut pictures = Vec::new();
    let mut failed = None;
    record::h264(
        &source.bytes,
        &options,
        &mut Shared(&splitter),
        |_, recorded| {
            if recorded > pictures.len() as u64 {
                match splitter.borrow_mut().split(&source.name) {
                    Ok(picture) => pictures.push(picture),
                    Err(error) => failed = Some(error),
                }
            }
            if failed.is_none() && !cancel.is_cancelled() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        },
    )
    .map_err(|error| match (failed.take(), error) {
        (Some(failed), _) => Error::Input(format!("{}: {failed}", source.name)),
        (None, RecordError::Stopped) => Error::Cancelled,
        (None, error) => Error::Input(format!("{}: {error}", source.name)),
    })?;
    Ok(Recording {
        stream: source.stream,
        name: source.name.clone(),
        pictures,
    })
}

/// Makes a trace of each picture. Dependencies on tasks of other pictures are left out.
struct Splitter {
    writer: BinaryWriter<Vec<u8>>,
    /// The first task of the picture.
    first: u32,
    next: u32,
}

impl Splitter {
    /// Ends the picture and returns its traces.
    fn split(&mut self, name: &str) -> Result<Picture, TraceError> {
        let next = BinaryWriter::new(Vec::new())?;
        let bytes = std::mem::replace(&mut self.writer, next).finish()?;
        self.first = self.next;
        let grouped = |groups: &str| Trace::parse(&bytes, name, &Groups::Named(groups.to_owned()));
        Ok(Picture {
            a: grouped("toshiba-a")?,
            b: grouped("toshiba-b")?,
        })
    }
}

/// A splitter that the recorder writes to, and that is asked to split between two pictures.
struct Shared<'a>(&'a RefCell<Splitter>);

impl Sink for Shared<'_> {
    fn task(&mut self, task: &NewTask<'_>) -> Result<(), TraceError> {
        let mut splitter = self.0.borrow_mut();
        splitter.next = task.id + 1;
        splitter.writer.task(task)
    }

    #[inline]
    fn record(&mut self, record: Record) -> Result<(), TraceError> {
        self.0.borrow_mut().writer.record(record)
    }

    fn edge(&mut self, from: u32, to: u32, fork: bool) -> Result<(), TraceError> {
        let mut splitter = self.0.borrow_mut();
        if from < splitter.first {
            return Ok(());
        }
        splitter.writer.edge(from, to, fork)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_spread_evenly_over_all_pictures() {
        for count in 1..=PICTURES {
            let sampled = sample(count);
            assert_eq!(sampled.len() as u64, count);
            let (first, last) = (sampled[0], sampled[sampled.len() - 1]);
            assert_eq!(first == 0, count == PICTURES, "{sampled:?}");
            // As much is left out at the begin as at the end, and between any two as between any others: a picture more or less.
            assert!(first.abs_diff(PICTURES - last) <= 1, "{sampled:?}");
            let steps: Vec<u64> = sampled.windows(2).map(|two| two[1] - two[0]).collect();
            let even = [PICTURES / count, PICTURES.div_ceil(count)];
            assert!(steps.iter().all(|step| even.contains(step)), "{sampled:?}");
        }
        // What the shipped parameters were searched and are judged with.
        assert_eq!(sample(2), [32, 96]);
        assert_eq!(sample(8), [8, 24, 40, 56, 72, 88, 104, 120]);
        assert_eq!(sample(32)[..3], [2, 6, 10]);
    }

    #[test]
    fn pictures_of_the_demo_are_distinguished() {
        let sources = sources(None).expect("the demo is there");
        let [demo] = &sources[..] else {
            panic!("nothing but the demo: {}", sources.len());
        };
        assert!(demo.stream == Stream::Wvga && demo.name.contains(tanada_harness::DEMO_NAME));
        let recording =
            record(demo, &Costs::default(), 2, &Cancel::new()).expect("it can be recorded");
        // Paper 1's tasks: five macroblocks x one of eight stages.
        let tasks = 50 * 30 / 5 * 8;
        let [one, other] = &recording.pictures[..] else {
            panic!("two pictures: {}", recording.pictures.len());
        };
        for picture in [one, other] {
            assert_eq!([picture.a.len(), picture.b.len()], [tasks; 2]);
            // The last row is in other T groups.
            let last = |trace: &Trace| trace.tasks()[tasks - 1].t;
            assert_ne!(last(&picture.a), last(&picture.b));
            // A picture begins at once.
            assert!(picture.a.tasks().iter().any(|task| task.waits == 0));
        }
        assert_ne!(
            one.a.records(),
            other.a.records(),
            "they are different pictures"
        );
        let cancel = Cancel::new();
        cancel.cancel();
        let stopped = record(demo, &Costs::default(), 2, &cancel);
        assert!(matches!(stopped, Err(Error::Cancelled)));
    }
}
