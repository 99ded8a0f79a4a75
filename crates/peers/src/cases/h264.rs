//! H.264: frames a second. Frames stay in memory and are dropped; in the first round the MD5 of all frames is compared with the published
//! one.
//!
//! The streams are those beside the workspace (`../shared/streams`, or below `TANADA_SHARED`); without them, the demo stream.

use super::{Case, Job};
use crate::Fallible;
use crate::peers::Peer;
use crate::programs::Stream;
use crate::samples::Sample;
use md5::{Digest as _, Md5};
use std::path::{Path, PathBuf};

pub(crate) const CASE: Case = Case {
    name: "h264",
    about: "H.264 decoding: frames a second",
    workload: Some(("h264", &[])),
    workers: &[1, 2],
    params: || Vec::from_iter(streams().iter().map(Listed::params)),
    rounds: 10,
    quick_rounds: 3,
    measure,
    derive: |_| Vec::new(),
};

/// The names of the streams that are measured if they are there.
const NAMES: &[&str] = &["flower_720p", "flower_wvga"];

/// Measured decodings of a stream in a process, after one to warm up.
const REPETITIONS: u32 = 3;

struct Listed {
    name: String,
    stream: Stream,
    /// Of all frames as I420, in output order.
    md5: String,
}

impl Listed {
    fn params(&self) -> String {
        format!("stream={}", self.name)
    }
}

/// Returns the streams that are measured.
fn streams() -> Vec<Listed> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let folder = std::env::var_os("TANADA_SHARED")
        .map_or_else(beside, PathBuf::from)
        .join("streams");
    let list = std::fs::read_to_string(folder.join("streams.csv")).unwrap_or_default();
    let mut found = Vec::from_iter(list.lines().filter_map(|line| listed(&folder, line)));
    if found.is_empty() {
        found.push(demo());
    }
    found
}

/// Returns the stream of a line of the list (path, frames, width, height, MD5) if it is to be measured and its file is there.
fn listed(folder: &Path, line: &str) -> Option<Listed> {
    let fields: Vec<&str> = line.split(',').collect();
    let [path, _, _, _, md5] = fields[..] else {
        return None;
    };
    let name = Path::new(path).file_stem()?.to_str()?;
    let file = folder.join(path);
    let path = file.to_str()?.to_owned();
    (NAMES.contains(&name) && file.is_file()).then(|| Listed {
        name: name.to_owned(),
        stream: Stream(Some(path)),
        md5: md5.trim().to_owned(),
    })
}

fn demo() -> Listed {
    let md5 = include_str!("../../../../demo/terraces_wvga.md5");
    Listed {
        name: "terraces_wvga".to_owned(),
        stream: Stream(None),
        md5: Vec::from_iter(md5.split_whitespace())[0].to_owned(),
    }
}

fn hex(digest: Md5) -> String {
    let bytes = digest.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn measure(job: &Job, peer: &Peer) -> Fallible<Vec<Sample>> {
    let mut program = peer.open(&CASE, job.workers)?;
    let mut samples = Vec::new();
    for listed in streams() {
        let params = listed.params();
        if !job.wants(&params) {
            continue;
        }
        if job.first {
            let mut digest = Md5::new();
            program.decode(&listed.stream, Some(&mut digest))?;
            let digest = hex(digest);
            if digest != listed.md5 {
                let right = listed.md5;
                let why = format!("{params}: the frames have the MD5 {digest} instead of {right}");
                return Err(why.into());
            }
        }
        program.decode(&listed.stream, None)?;
        for _ in 0..REPETITIONS {
            let decoded = program.decode(&listed.stream, None)?;
            samples.push(Sample::new(&params, &[("fps", decoded.per_second())]));
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_is_decoded_with_its_md5() {
        let demo = demo();
        // Shared objects need the bodies of the whole program, which a test program does not export: openh264 is not among these.
        for name in ["tanada/sequential", "tanada/random-steal", "ffmpeg"] {
            let peer = crate::peers::find(name).expect("it is listed");
            if let Some(why) = &peer.absent {
                tanada_testing::skip(format_args!("{name} is absent: {why}"));
                continue;
            }
            let mut digest = Md5::new();
            let mut program = peer.open(&CASE, 1).expect("it starts");
            let decoded = program
                .decode(&demo.stream, Some(&mut digest))
                .expect("it decodes");
            assert_eq!(
                (decoded.count, hex(digest)),
                (128, demo.md5.clone()),
                "{name}"
            );
        }
    }
}
