//! H.264: frames a second, decoded in memory and thrown away. In the first round the MD5 of all frames is compared with the published one.
//!
//! The streams are those beside the workspace (`../shared/streams`, or below `TANADA_SHARED`); without them, the demo stream.

use super::{Case, Job, nothing_more};
use crate::Fallible;
use crate::peers::Peer;
use crate::samples::Sample;
use md5::{Digest as _, Md5};
use std::path::{Path, PathBuf};

pub(crate) const CASE: Case = Case {
    name: "h264",
    about: "H.264 decoding: frames a second",
    workers: &[1, 2],
    params: || Vec::from_iter(streams().iter().map(Stream::params)),
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
    /// `None`: the demo stream.
    file: Option<PathBuf>,
    /// Of all frames as I420, in output order.
    md5: String,
}

impl Stream {
    fn params(&self) -> String {
        format!("stream={}", self.name)
    }

    fn bytes(&self) -> Fallible<Vec<u8>> {
        let Some(file) = &self.file else {
            return Ok(include_bytes!("../../../../demo/terraces_wvga.264").to_vec());
        };
        let bytes = std::fs::read(file);
        Ok(bytes.map_err(|error| format!("{}: {error}", file.display()))?)
    }
}

fn streams() -> Vec<Stream> {
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
        file: Some(file),
        md5: md5.trim().to_owned(),
    })
}

fn demo() -> Stream {
    let md5 = include_str!("../../../../demo/terraces_wvga.md5");
    Stream {
        name: "terraces_wvga".to_owned(),
        file: None,
        md5: Vec::from_iter(md5.split_whitespace())[0].to_owned(),
    }
}

fn hex(digest: Md5) -> String {
    let bytes = digest.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn measure(job: &Job, peer: &Peer) -> Fallible<Vec<Sample>> {
    let mut program = peer.open(job.workers)?;
    let mut samples = Vec::new();
    for stream in streams() {
        let params = stream.params();
        if !job.wants(&params) {
            continue;
        }
        let bytes = stream.bytes()?;
        if job.first {
            let mut digest = Md5::new();
            program.decode(&bytes, Some(&mut digest))?;
            let digest = hex(digest);
            if digest != stream.md5 {
                let right = stream.md5;
                let why = format!("{params}: the frames have the MD5 {digest} instead of {right}");
                return Err(why.into());
            }
        }
        for repetition in 0..=REPETITIONS {
            let decoded = program.decode(&bytes, None)?;
            if repetition > 0 {
                samples.push(Sample::new(&params, &[("fps", decoded.per_second())]));
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
                (decoded.count, hex(digest)),
                (128, stream.md5.clone()),
                "{name}"
            );
        }
    }
}
