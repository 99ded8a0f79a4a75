//! Every known stream, decoded as tasks, has the frames of its checksum.
//!
//! By default each stream meets every dispatcher, every cut, every grouping and every number of workers at least once, in combinations
//! that change from stream to stream; with `TANADA_FULL=1` it meets all dispatchers x cuts x numbers of workers. Builds with debug
//! assertions, which check every access to a picture and take their time for it, decode each stream in two of these ways.
//!
//! The streams lie in `../shared` beside the workspace, or where `TANADA_SHARED` says; without them only the demo stream is decoded.

use md5::{Digest as _, Md5};
use std::path::{Path, PathBuf};
use tanada_policy::registry;
use tanada_runtime::{Cancel, Pool};
use tanada_workloads::h264::{Cut, Frame, Groups, Options, decode};

const WORKERS: [u32; 4] = [1, 2, 4, 16];

struct Stream {
    name: String,
    bytes: Vec<u8>,
    frames: u64,
    md5: String,
}

/// A way to decode a stream.
#[derive(Clone, Copy)]
struct Way {
    policy: &'static str,
    cut: Cut,
    groups: Groups,
    workers: u32,
    seed: u64,
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn demo() -> Stream {
    let folder = workspace().join("demo");
    let bytes = std::fs::read(folder.join("terraces_wvga.264"))
        .expect("the demo stream is in the repository");
    let sum = std::fs::read_to_string(folder.join("terraces_wvga.md5")).expect("its checksum, too");
    let md5 = sum
        .split_whitespace()
        .next()
        .expect("a sum and a name")
        .to_owned();
    Stream {
        name: "terraces_wvga.264".to_owned(),
        bytes,
        frames: 128,
        md5,
    }
}

/// The streams of `streams.csv`, whose columns are stream, frames, width, height, MD5.
fn shared() -> Vec<Stream> {
    let Some(folder) = tanada_testing::shared() else {
        return Vec::new();
    };
    let folder = folder.join("streams");
    let list = std::fs::read_to_string(folder.join("streams.csv")).expect("the list of streams");
    let lines = list
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let stream = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let [name, frames, _, _, md5] = fields[..] else {
            panic!("five columns: {line}")
        };
        Stream {
            name: name.to_owned(),
            bytes: std::fs::read(folder.join(name))
                .unwrap_or_else(|error| panic!("{name}: {error}")),
            frames: frames.parse().expect("a number of frames"),
            md5: md5.trim().to_owned(),
        }
    };
    lines.map(stream).collect()
}

/// How stream number `number` is decoded.
fn ways(number: usize, full: bool) -> Vec<Way> {
    let policies = registry::native();
    let way = |policy: usize, cut: usize, groups: usize, workers: usize| Way {
        policy: policies[policy].name,
        cut: Cut::ALL[cut % 4],
        groups: Groups::ALL[groups % 4],
        workers: WORKERS[workers % 4],
        seed: number as u64,
    };
    if full {
        let all = (0..policies.len() * 16).map(|n| way(n / 16, n / 4 % 4, number + n, n % 4));
        return all.collect();
    }
    let runs = policies.len().max(4);
    (0..runs)
        .map(|n| {
            way(
                n % policies.len(),
                n + number,
                n + number / 4,
                n + n / 4 + number / 2,
            )
        })
        .collect()
}

/// The ways of [`ways`] that this build tries: two that differ from stream to stream, or all.
fn tried(number: usize, full: bool) -> Vec<Way> {
    let mut all = ways(number, full);
    if cfg!(debug_assertions) && !full {
        let half = all.len() / 2;
        all.rotate_left(number % half);
        all = vec![all[0], all[half]];
    }
    all
}

fn check(stream: &Stream, way: Way) {
    let Way {
        policy,
        cut,
        groups,
        workers,
        seed,
    } = way;
    let replay = format!(
        "tanada run h264 {} --policy {policy} --tasks {cut} --groups {groups} --workers {workers} --seed {seed} --md5",
        stream.name
    );
    let pool = Pool::builder()
        .policy(policy)
        .workers(workers)
        .seed(seed)
        .build()
        .expect("a pool");
    let options = Options {
        cut,
        groups,
        ..Options::default()
    };
    let mut md5 = Md5::new();
    // The checksums are those of FFmpeg's default cropping; see `Crop::with_aligned_left`.
    let sink =
        |frame: &Frame| frame.visit_region(frame.crop().with_aligned_left(), |row| md5.update(row));
    let summary = decode(&pool, &stream.bytes, &options, &Cancel::new(), sink)
        .unwrap_or_else(|error| panic!("{replay}: {error}"));
    assert_eq!(summary.frames, stream.frames, "{replay}");
    assert_eq!(summary.errors, [], "{replay}");
    let md5: String = md5
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(md5, stream.md5, "{replay}");
}

#[test]
fn every_stream_decodes_to_its_checksum_in_every_way() {
    let full = std::env::var_os("TANADA_FULL").is_some_and(|value| value != "0");
    let streams: Vec<Stream> = std::iter::once(demo()).chain(shared()).collect();
    for (number, stream) in streams.iter().enumerate() {
        tried(number, full)
            .into_iter()
            .for_each(|way| check(stream, way));
    }
}

#[test]
fn by_default_a_stream_meets_everything_at_least_once() {
    for number in 0..64 {
        let ways = ways(number, false);
        assert!(
            registry::native()
                .iter()
                .all(|entry| ways.iter().any(|way| way.policy == entry.name))
        );
        assert!(
            Cut::ALL
                .iter()
                .all(|cut| ways.iter().any(|way| way.cut == *cut))
        );
        assert!(
            Groups::ALL
                .iter()
                .all(|groups| ways.iter().any(|way| way.groups == *groups))
        );
        assert!(
            WORKERS
                .iter()
                .all(|workers| ways.iter().any(|way| way.workers == *workers))
        );
    }
    assert_eq!(
        ways(0, true).len(),
        registry::native().len() * Cut::ALL.len() * WORKERS.len()
    );
}
