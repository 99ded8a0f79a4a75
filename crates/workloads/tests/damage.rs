//! Damaged streams: tasks return the frames and the errors of the sequential decoder, whatever was hit.

use proptest::prelude::*;
use tanada_policy::registry;
use tanada_runtime::{Cancel, Pool};
use tanada_workloads::h264::{
    Cut, DecodeError, Fault, Frame, Groups, Limits, Options, StreamError, Summary, decode,
};

/// A small stream of the decoder's own tests.
const STREAM: &[u8] = include_bytes!("../../h264/tests/data/pattern.264");

/// One hit on the stream.
#[derive(Clone, Debug)]
enum Damage {
    Flip(usize, u8),
    Drop(usize, usize),
    Insert(usize, Vec<u8>),
    Cut(usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = || 0..STREAM.len();
    prop_oneof![
        4 => (at(), 0..8u8).prop_map(|(at, bit)| Damage::Flip(at, 1 << bit)),
        2 => (at(), 1..400usize).prop_map(|(at, length)| Damage::Drop(at, length)),
        2 => (at(), prop::collection::vec(any::<u8>(), 1..40)).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        1 => at().prop_map(Damage::Cut),
    ]
}

fn hit(stream: &mut Vec<u8>, damage: &Damage) {
    let length = stream.len().max(1);
    match damage {
        Damage::Flip(at, bits) => {
            if let Some(byte) = stream.get_mut(at % length) {
                *byte ^= bits;
            }
        }
        Damage::Drop(at, count) => {
            let at = (at % length).min(stream.len());
            stream.drain(at..(at + count).min(stream.len()));
        }
        Damage::Insert(at, bytes) => {
            let at = (at % length).min(stream.len());
            stream.splice(at..at, bytes.iter().copied());
        }
        Damage::Cut(at) => stream.truncate(at % length),
    }
}

/// All shown frames as I420, and what was said of the stream.
type Decoded = (Vec<u8>, Result<Summary, StreamError>);

fn collect(frames: &mut Vec<u8>, frame: &Frame) {
    frame.visit_rows(|row| frames.extend_from_slice(row));
}

const LIMITS: Limits = Limits {
    max_macroblocks: 400,
};

fn sequentially(stream: &[u8]) -> Decoded {
    let mut frames = Vec::new();
    let result = tanada_h264::decode(stream, LIMITS, |frame| collect(&mut frames, frame));
    (frames, result)
}

fn as_tasks(pool: &Pool, stream: &[u8], cut: Cut) -> Decoded {
    let mut frames = Vec::new();
    let options = Options {
        cut,
        groups: Groups::ToshibaA,
        limits: LIMITS,
        ..Options::default()
    };
    let result = decode(pool, stream, &options, &Cancel::new(), |frame| {
        collect(&mut frames, frame)
    });
    let result = result.map_err(|error| match error {
        DecodeError::Stream(error) => error,
        other => panic!("the graph ends: {other}"),
    });
    (frames, result)
}

#[test]
fn tasks_and_the_sequential_decoder_agree_on_damaged_streams() {
    let pools: Vec<Pool> = registry::native()
        .into_iter()
        .map(|entry| {
            Pool::builder()
                .workers(4)
                .policy(entry.name)
                .build()
                .expect("a pool")
        })
        .collect();
    let config = ProptestConfig::with_cases(200);
    let hits = prop::collection::vec(damage(), 1..6);
    let cuts = prop::sample::select(&Cut::ALL[..]);
    proptest!(config, |(hits in hits, which in any::<prop::sample::Index>(), cut in cuts)| {
        let mut stream = STREAM.to_vec();
        hits.iter().for_each(|damage| hit(&mut stream, damage));
        let pool = &pools[which.index(pools.len())];
        let (frames, result) = sequentially(&stream);
        let (task_frames, task_result) = as_tasks(pool, &stream, cut);
        prop_assert_eq!(result, task_result, "{:?}, {}", pool, cut);
        prop_assert!(frames == task_frames, "frames differ: {:?}, {}", pool, cut);
    });
}

#[test]
fn what_is_lost_is_an_error() {
    // Within the slice of a picture in the middle: it is concealed, and that is said.
    let (_, whole) = sequentially(STREAM);
    assert_eq!(whole.expect("a good stream").error_count, 0);
    for cut in STREAM.len() / 2..STREAM.len() / 2 + 40 {
        let (_, result) = sequentially(&STREAM[..cut]);
        let summary = result.expect("pictures before the cut");
        assert_eq!(
            summary.concealed > 0,
            summary
                .errors
                .iter()
                .any(|error| matches!(error.fault, Fault::Lost(_))),
            "cut at {cut}"
        );
    }
}
