//! A probe observes every stage, only accesses inside of the virtual layout, and the same in every run.

mod common;

use common::PATTERN;
use tanada_h264::{Limits, Operation, Probe, Stage, decode_with};

#[derive(Default, PartialEq, Debug)]
struct Recorder {
    operations: Vec<(Operation, u32)>,
    stages: [u64; 8],
    read: Vec<(u64, u32)>,
    written: Vec<(u64, u32)>,
}

impl Probe for Recorder {
    fn operation(&mut self, operation: Operation, units: u32) {
        self.operations.push((operation, units));
    }
    fn code(&mut self, stage: Stage, _: u32) {
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
        // 66x50 pixels are 80x64 in whole macroblocks.
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
    // Each sample of luma is predicted by one of these.
    let predicted: u32 = recorder
        .operations
        .iter()
        .map(|&(operation, units)| match operation {
            Operation::Intra4x4 | Operation::Intra4x4Diagonal => 16 * units,
            Operation::LumaWhole
            | Operation::LumaHalf
            | Operation::LumaQuarter
            | Operation::LumaMiddle
            | Operation::LumaMiddleQuarter
            | Operation::LumaDiagonal => units,
            _ => 0,
        })
        .sum();
    assert!(
        predicted <= 24 * 80 * 64 && predicted > 23 * 80 * 64 / 2,
        "{predicted}"
    );
    let unseen: Vec<&str> = Operation::ALL
        .iter()
        .filter(|operation| {
            !recorder
                .operations
                .iter()
                .any(|(seen, _)| seen == *operation)
        })
        .map(|operation| operation.name())
        .collect();
    eprintln!("operations that the stream does not have: {unseen:?}");
    let in_frames = |list: &[(u64, u32)]| -> u64 {
        list.iter()
            .filter(|(at, size)| frames.start <= *at && at + u64::from(*size) <= frames.end)
            .map(|(_, n)| u64::from(*n))
            .sum()
    };
    // Each sample is predicted, so it is written at least once; P pictures also read their references.
    assert!(in_frames(&recorder.written) >= 24 * 80 * 64 * 3 / 2);
    assert!(in_frames(&recorder.read) >= 20 * 80 * 64 * 3 / 2);
}
