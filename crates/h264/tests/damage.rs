//! Damaged streams cause no panic and no endless loop, and everything that can be decoded is delivered.

mod common;

use common::{PATTERN, byte_stream, frames, i420, nal_units};
use proptest::prelude::*;
use tanada_h264::{Error, Fault, Feature, Limits, decode};

/// A change of the stream's bytes; positions are fractions of its length.
#[derive(Debug, Clone)]
enum Damage {
    Flip(f64, u8),
    Drop(f64, usize),
    Insert(f64, Vec<u8>),
    Repeat(f64, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        4 => (0.0..1.0, 1u8..).prop_map(|(at, mask)| Damage::Flip(at, mask)),
        1 => (0.0..1.0, 1usize..400).prop_map(|(at, n)| Damage::Drop(at, n)),
        1 => (0.0..1.0, prop::collection::vec(prop_oneof![any::<u8>(), 0u8..4], 1..20)).prop_map(|(at, b)| Damage::Insert(at, b)),
        1 => (0.0..1.0, 1usize..2000).prop_map(|(at, n)| Damage::Repeat(at, n)),
    ]
}

impl Damage {
    /// Applies the damage and returns its position.
    fn apply(&self, stream: &mut Vec<u8>) -> usize {
        let place =
            |at: f64| ((stream.len() as f64 * at) as usize).min(stream.len().saturating_sub(1));
        match self {
            Damage::Flip(at, mask) => {
                let at = place(*at);
                if let Some(byte) = stream.get_mut(at) {
                    *byte ^= mask;
                }
                at
            }
            Damage::Drop(at, n) => {
                let at = place(*at);
                stream.drain(at..(at + n).min(stream.len()));
                at
            }
            Damage::Insert(at, bytes) => {
                let at = place(*at);
                stream.splice(at..at, bytes.iter().copied());
                at
            }
            Damage::Repeat(at, n) => {
                let at = place(*at);
                let copy = stream[at..(at + n).min(stream.len())].to_vec();
                stream.splice(at..at, copy);
                at
            }
        }
    }
}

/// Small limits: damage may turn a small picture into a huge one, which is legal and slow to decode.
const LIMITS: Limits = Limits {
    max_macroblocks: 400,
};

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_streams_are_survived(acts in prop::collection::vec(damage(), 1..6)) {
        let mut stream = PATTERN.to_vec();
        let first = acts.iter().map(|act| act.apply(&mut stream)).min().unwrap_or(0);
        let mut decoded = Vec::new();
        let result = decode(&stream, LIMITS, |frame| decoded.push(i420(frame)));
        let errors = match &result {
            Ok(summary) => {
                prop_assert_eq!(summary.frames as usize, decoded.len());
                prop_assert_eq!(summary.pictures, summary.frames);
                summary.errors.clone()
            }
            Err(error) => vec![*error],
        };
        prop_assert!(errors.iter().all(|error| error.offset <= stream.len() as u64), "{:?}", errors);
        // Pictures that end before the damage are intact. The last picture of the prefix may continue behind it. Damage may also change the
        // output order, but this stream shows each picture at once.
        let (whole, _) = frames(&PATTERN[..first.min(PATTERN.len())]);
        let intact = whole.len().saturating_sub(2);
        prop_assert!(decoded.len() >= intact, "{} frames, {} intact", decoded.len(), intact);
        prop_assert!(decoded.iter().zip(&whole).take(intact).all(|(a, b)| a == b));
    }

    #[test]
    fn noise_is_survived(bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..3000)) {
        let _ = decode(&bytes, LIMITS, |_| {});
    }
}

#[test]
fn a_lost_slice_is_concealed_from_the_picture_before() {
    let units = nal_units(PATTERN);
    let slices: Vec<usize> = (0..units.len())
        .filter(|&at| matches!(units[at][0] & 31, 1 | 5))
        .collect();
    let (whole, _) = frames(PATTERN);
    // The middle slice of picture 4.
    let lost = slices[3 * 4 + 1];
    let stream = byte_stream(
        units
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != lost)
            .map(|(_, unit)| *unit),
    );
    let (damaged, summary) = frames(&stream);
    // The loss is an error, although everything that is present can be read.
    assert_eq!((damaged.len(), summary.error_count), (24, 1));
    assert!(summary.concealed > 0 && summary.concealed < 20);
    assert!(
        matches!(summary.errors[0].fault, Fault::Lost(macroblocks) if u64::from(macroblocks) == summary.concealed)
    );
    assert!(damaged[..4] == whole[..4] && damaged[4] != whole[4]);
    // Row 24 is far from the edges of slices (5 by 4 macroblocks; the lost slice covers at least rows 16 to 31).
    let row = |frame: &Vec<u8>| frame[24 * 66..25 * 66].to_vec();
    assert_eq!(row(&damaged[4]), row(&whole[3]));
    // The next IDR picture restores everything.
    assert!(damaged[9..] == whole[9..]);
}

#[test]
fn a_lost_picture_is_reported_and_replaced() {
    let units = nal_units(PATTERN);
    let slices: Vec<usize> = (0..units.len())
        .filter(|&at| matches!(units[at][0] & 31, 1 | 5))
        .collect();
    let lost = &slices[3 * 4..3 * 5];
    let stream = byte_stream(
        units
            .iter()
            .enumerate()
            .filter(|(at, _)| !lost.contains(at))
            .map(|(_, unit)| *unit),
    );
    let (damaged, summary) = frames(&stream);
    let (whole, _) = frames(PATTERN);
    assert_eq!((damaged.len(), summary.error_count), (23, 1));
    assert!(
        summary.errors[0].to_string().contains("gap in frame_num"),
        "{:?}",
        summary.errors
    );
    assert!(damaged[..4] == whole[..4] && damaged[8..] == whole[9..]);
}

#[test]
fn pictures_before_the_first_idr_are_dropped() {
    let units = nal_units(PATTERN);
    let first_idr = units.iter().position(|unit| unit[0] & 31 == 5).unwrap();
    let stream = byte_stream(
        units
            .iter()
            .enumerate()
            .filter(|(at, _)| !(first_idr..first_idr + 3).contains(at))
            .map(|(_, unit)| *unit),
    );
    let (damaged, summary) = frames(&stream);
    let (whole, _) = frames(PATTERN);
    assert!(damaged == whole[9..]);
    assert_eq!(summary.error_count, 1);
}

#[test]
fn unsupported_features_are_named() {
    // Picture parameter sets behind the stream's own sequence parameter set: ids, then the unsupported feature.
    let units = nal_units(PATTERN);
    let slice = *units.iter().find(|unit| unit[0] & 31 == 5).unwrap();
    let sps = *units.iter().find(|unit| unit[0] & 31 == 7).unwrap();
    let cases: [(&[u8], Feature); 2] = [
        // ue(0) ue(0) 1: CABAC.
        (&[0x68, 0b1110_0000, 0x80], Feature::Cabac),
        // ue(0) ue(0) 0 0 ue(1): two slice groups.
        (&[0x68, 0b1100_0100, 0x80], Feature::SliceGroups),
    ];
    for (pps, feature) in cases {
        let stream = byte_stream([sps, pps, slice]);
        match decode(&stream, Limits::default(), |_| {}) {
            Err(Error { fault, offset }) => {
                assert_eq!(fault, Fault::Unsupported(feature));
                assert!(offset > sps.len() as u64 && offset < stream.len() as u64);
            }
            other => panic!("{other:?}"),
        }
    }
    let partition = byte_stream([sps, &[0x62, 0x80][..]]);
    assert!(matches!(
        decode(&partition, Limits::default(), |_| {}),
        Err(Error {
            fault: Fault::Unsupported(Feature::DataPartitioning),
            ..
        })
    ));
}

#[test]
fn huge_pictures_are_refused_before_memory_is_taken() {
    let Err(error) = decode(
        PATTERN,
        Limits {
            max_macroblocks: 19,
        },
        |_| {},
    ) else {
        panic!("20 macroblocks fit into 19")
    };
    assert!(matches!(error.fault, Fault::Limit(_)), "{error:?}");
    assert!(matches!(
        decode(&[], Limits::default(), |_| {}),
        Err(Error {
            fault: Fault::NoPicture,
            offset: 0
        })
    ));
}
