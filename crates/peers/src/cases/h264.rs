//! H.264: frames a second, decoded in memory and thrown away. In the first round the MD5 of all frames is compared with the published one.
//!
//! The streams are those beside the workspace (`../shared/streams`, or below `TANADA_SHARED`); without them, the demo stream.

use super::{Case, Job, nothing_more};
use crate::samples::Sample;
use md5::{Digest as _, Md5};
use std::path::{Path, PathBuf};

pub(crate) const CASE: Case = Case {
    name: "h264",
    about: "H.264 decoding: frames a second",
    workers: &[1, 2],
    params: || {
        streams()
            .iter()
            .map(|stream| format!("stream={}", stream.name))
            .collect()
    },
    rounds: 10,
    quick_rounds: 3,
    measure,
    derive: nothing_more,
};

/// Of all streams that may be there, those that are measured.
const NAMES: &[&str] = &["flower_720p", "flower_wvga"];

/// How often a process decodes a stream, after once to warm up.
const REPETITIONS: u32 = 3;

struct Stream {
    name: String,
    source: Source,
    /// Of all frames as I420, in output order.
    md5: String,
}

enum Source {
    File(PathBuf),
    Embedded(&'static [u8]),
}

impl Stream {
    fn bytes(&self) -> Result<Vec<u8>, String> {
        match &self.source {
            Source::File(path) => {
                std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
            }
            Source::Embedded(bytes) => Ok(bytes.to_vec()),
        }
    }
}

fn streams() -> Vec<Stream> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let folder = std::env::var_os("TANADA_SHARED")
        .map_or_else(beside, PathBuf::from)
        .join("streams");
    let list = std::fs::read_to_string(folder.join("streams.csv")).unwrap_or_default();
    let found: Vec<Stream> = list
        .lines()
        .filter_map(|line| listed(&folder, line))
        .collect();
    if found.is_empty() {
        vec![demo()]
    } else {
        found
    }
}

/// A line of the list: path, frames, width, height, MD5.
fn listed(folder: &Path, line: &str) -> Option<Stream> {
    let fields: Vec<&str> = line.split(',').collect();
    let [path, _, _, _, md5] = fields[..] else {
        return None;
    };
    let name = Path::new(path).file_stem()?.to_str()?;
    let file = folder.join(path);
    (NAMES.contains(&name) && file.is_file()).then(|| Stream {
        name: name.to_owned(),
        source: Source::File(file),
        md5: md5.trim().to_owned(),
    })
}

fn demo() -> Stream {
    let md5 = include_str!("../../../../demo/terraces_wvga.md5");
    Stream {
        name: "terraces_wvga".to_owned(),
        source: Source::Embedded(include_bytes!("../../../../demo/terraces_wvga.264")),
        md5: md5
            .split_whitespace()
            .next()
            .expect("it holds an MD5")
            .to_owned(),
    }
}

fn hex(digest: Md5) -> String {
    digest
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn measure(job: &Job) -> Result<Vec<Sample>, String> {
    let mut program = job.peer.open(job.workers)?;
    let mut samples = Vec::new();
    for stream in streams() {
        let params = format!("stream={}", stream.name);
        if !job.params.contains(&params) {
            continue;
        }
        let bytes = stream.bytes()?;
        if job.first {
            let mut digest = Md5::new();
            program.decode(&bytes, Some(&mut digest))?;
            let digest = hex(digest);
            if digest != stream.md5 {
                return Err(format!(
                    "{params}: the frames have the MD5 {digest} instead of {}",
                    stream.md5
                ));
            }
        }
        for repetition in 0..=REPETITIONS {
            let decoded = program.decode(&bytes, None)?;
            if repetition > 0 {
                samples.push(Sample::new(
                    &params,
                    &[("fps", decoded.frames as f64 / decoded.seconds)],
                ));
            }
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_is_decoded_with_its_md5() {
        let stream = demo();
        // Shared objects need the bodies of the whole program, which a test program does not export: openh264 is not among these.
        for name in ["tanada/sequential", "tanada/random-steal", "ffmpeg"] {
            let peer = crate::peers::find(name).expect("it is listed");
            if let Some(why) = &peer.absent {
                tanada_testing::skip(format_args!("{name} is absent: {why}"));
                continue;
            }
            let mut digest = Md5::new();
            let mut program = peer.open(1).expect("it starts");
            let bytes = stream.bytes().expect("it is embedded");
            let decoded = program
                .decode(&bytes, Some(&mut digest))
                .expect("it decodes");
            assert_eq!(
                (decoded.frames, hex(digest)),
                (128, stream.md5.clone()),
                "{name}"
            );
        }
    }
}
