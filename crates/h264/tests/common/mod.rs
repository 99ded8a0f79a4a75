//! Helpers that several tests need.
#![allow(dead_code, unreachable_pub)]

use md5::{Digest, Md5};
use tanada_h264::{Frame, Limits, Summary, decode};

/// A small stream of several slices a picture; see `data/README.md`.
pub const PATTERN: &[u8] = include_bytes!("../data/pattern.264");
/// MD5 of its frames.
pub const PATTERN_MD5: &str = "eb03934ad9d9ee8004b405f2e8637c2e";

pub fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the shown picture as I420.
pub fn i420(frame: &Frame) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(frame.i420_len());
    frame.visit_rows(|row| bytes.extend_from_slice(row));
    bytes
}

/// Decodes a stream into I420 frames.
pub fn frames(stream: &[u8]) -> (Vec<Vec<u8>>, Summary) {
    let mut frames = Vec::new();
    let summary =
        decode(stream, Limits::default(), |frame| frames.push(i420(frame))).unwrap_or_default();
    (frames, summary)
}

pub fn md5_of(frames: &[Vec<u8>]) -> String {
    let mut md5 = Md5::new();
    frames.iter().for_each(|frame| md5.update(frame));
    hex(&md5.finalize())
}

/// A generator of test values (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a value below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// Returns the NAL units of a stream without start codes.
pub fn nal_units(stream: &[u8]) -> Vec<&[u8]> {
    let starts: Vec<usize> = (0..stream.len().saturating_sub(2))
        .filter(|&i| stream[i..i + 3] == [0, 0, 1])
        .collect();
    let ends = starts.iter().skip(1).copied().chain([stream.len()]);
    starts
        .iter()
        .zip(ends)
        .map(|(&start, end)| {
            let unit = &stream[start + 3..end];
            &unit[..unit.len() - unit.iter().rev().take_while(|&&byte| byte == 0).count()]
        })
        .collect()
}

/// Returns the byte stream of NAL units.
pub fn byte_stream<'a>(units: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    units
        .into_iter()
        .flat_map(|unit| [0, 0, 1].into_iter().chain(unit.iter().copied()))
        .collect()
}
