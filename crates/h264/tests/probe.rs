//! What a probe sees: every stage, accesses inside of the virtual layout, and the same in every run.

mod common;

use common::PATTERN;
use tanada_h264::{Limits, Probe, Stage, decode_with};

#[derive(Default, PartialEq, Debug)]
struct Recorder {
    operations: u64,
    stages: [u64; 8],
    read: Vec<(u64, u32)>,
    written: Vec<(u64, u32)>,
}

impl Probe for Recorder {
    fn computation(&mut self, operations: u64) {
        self.operations += operations;
    }
    fn code(&mut self, stage: Stage) {
        self.stages[stage as usize] += 1;
    }
    fn read(&mut self, address: u64, size: u32) {
        self.read.push((address, size));
    }
    fn write(&mut self, address: u64, size: u32) {
        self.written.push((address, size));
    }
}

fn record() -> (Recorder, std::ops::Range<u64>) {
    let mut recorder = Recorder::default();
    let mut frames = std::ops::Range {
        start: u64::MAX,
        end: 0,
    };
    decode_with(PATTERN, Limits::default(), &mut recorder, |frame| {
        // 66x50 is 80x64 in whole macroblocks.
        frames.start = frames.start.min(frame.address(0, 0, 0));
        frames.end = frames.end.max(frame.address(2, 39, 31) + 1);
    })
    .unwrap();
    (recorder, frames)
}

#[test]
fn recordings_are_complete_and_repeatable() {
    let (recorder, frames) = record();
    assert_eq!(recorder, record().0);
    let pictures = 24 * 20;
    assert!(
        recorder
            .stages
            .iter()
            .all(|&count| count > 0 && count <= pictures),
        "{:?}",
        recorder.stages
    );
    assert_eq!(recorder.stages[Stage::LumaPrediction as usize], pictures);
    assert!(recorder.operations > 0);
    let in_frames = |list: &[(u64, u32)]| -> u64 {
        list.iter()
            .filter(|(at, size)| frames.start <= *at && at + u64::from(*size) <= frames.end)
            .map(|(_, n)| u64::from(*n))
            .sum()
    };
    // Every sample is predicted, so written at least once; and P pictures read their references.
    assert!(in_frames(&recorder.written) >= 24 * 80 * 64 * 3 / 2);
    assert!(in_frames(&recorder.read) >= 20 * 80 * 64 * 3 / 2);
}
