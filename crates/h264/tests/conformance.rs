//! Streams decode to the checksums of FFmpeg.

mod common;

use common::{PATTERN, PATTERN_MD5, byte_stream, frames, hex, md5_of, nal_units};
use md5::{Digest, Md5};
use tanada_h264::{Limits, decode};
use tanada_testing::shared;

#[test]
fn every_stream_of_the_list_decodes_to_its_md5() {
    let Some(folder) = shared() else { return };
    let list = std::fs::read_to_string(folder.join("streams/streams.csv")).unwrap();
    let mut wrong = Vec::new();
    let mut streams = 0;
    for line in list.lines().skip(1).filter(|line| !line.trim().is_empty()) {
        let fields: Vec<&str> = line.split(',').collect();
        let stream = std::fs::read(folder.join("streams").join(fields[0])).unwrap();
        let mut md5 = Md5::new();
        let mut size = (0, 0);
        let summary = decode(&stream, Limits::default(), |frame| {
            size = (frame.width(), frame.height());
            // The checksums are those of FFmpeg's default cropping (see `Crop::with_aligned_left`).
            frame.visit_region(frame.crop().with_aligned_left(), |row| md5.update(row));
        })
        .unwrap();
        let got = [
            summary.frames.to_string(),
            size.0.to_string(),
            size.1.to_string(),
            hex(&md5.finalize()),
        ];
        if got.iter().ne(&fields[1..5]) || summary.error_count != 0 {
            wrong.push(format!("{line}: {got:?}, {:?}", summary.errors));
        }
        streams += 1;
    }
    assert!(
        wrong.is_empty() && streams > 0,
        "{streams} streams, wrong:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn the_embedded_stream_decodes_to_its_md5() {
    let (frames, summary) = frames(PATTERN);
    assert_eq!(md5_of(&frames), PATTERN_MD5);
    assert_eq!(
        (
            summary.frames,
            summary.pictures,
            summary.error_count,
            summary.concealed
        ),
        (24, 24, 0, 0)
    );
}

#[test]
fn slices_may_come_in_any_order() {
    // Slices of a picture may come in any order as long as they stay together. Each picture of this stream has 3 slices.
    let units = nal_units(PATTERN);
    let is_slice = |unit: &[u8]| matches!(unit[0] & 31, 1 | 5);
    for order in [[2, 1, 0], [1, 2, 0], [2, 0, 1]] {
        let mut shuffled: Vec<&[u8]> = Vec::new();
        let mut at = 0;
        while at < units.len() {
            if is_slice(units[at]) {
                shuffled.extend(order.map(|i| units[at + i]));
                at += 3;
            } else {
                shuffled.push(units[at]);
                at += 1;
            }
        }
        let (frames, summary) = frames(&byte_stream(shuffled));
        assert_eq!(
            (md5_of(&frames).as_str(), summary.error_count),
            (PATTERN_MD5, 0),
            "order {order:?}"
        );
    }
}

#[test]
fn portable_kernels_decode_to_the_same_md5() {
    // The kernels are chosen once a process, so the tests run again in another process.
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["decodes_to_its_md5", "--test-threads=2"])
        .env("TANADA_H264_KERNELS", "portable")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("2 passed"),
        "{text}"
    );
}
