//! An independent decoder agrees: streams that openh264 encodes with many settings decode equally with openh264 and with this crate.

mod common;

use common::{Random, i420};
use openh264::OpenH264API;
use openh264::decoder::Decoder;
use openh264::encoder::{
    BitRate, Complexity, Encoder, EncoderConfig, FrameRate, IntraFramePeriod, QpRange,
    RateControlMode, UsageType,
};
use openh264::formats::{YUVBuffer, YUVSource};
use tanada_h264::{Limits, decode};

/// A moving texture with some noise, as I420.
fn picture(random: &mut Random, width: usize, height: usize, time: usize, noise: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(width * height * 3 / 2);
    for (w, h, speed) in [
        (width, height, 3),
        (width / 2, height / 2, 2),
        (width / 2, height / 2, 1),
    ] {
        for (y, x) in (0..h).flat_map(|y| (0..w).map(move |x| (y, x))) {
            let (u, v) = (x + time * speed, y + time / 2);
            let texture = (u * u / 7 + v * 5) ^ (u * v / 11);
            let moving = if (x + 40).abs_diff(time * 5 % (w + 80)) < 20 && y % 32 < 20 {
                60
            } else {
                0
            };
            bytes.push(((texture & 63) + 80 + moving + random.below(noise + 1)) as u8);
        }
    }
    bytes
}

/// Encodes a stream with random settings; `None` if the encoder refuses them.
fn encode(random: &mut Random, width: usize, height: usize) -> Option<Vec<u8>> {
    let lowest = random.below(40) as u8;
    let mut config = EncoderConfig::new()
        .bitrate(BitRate::from_bps(20_000 + random.below(2_000_000) as u32))
        .max_frame_rate(FrameRate::from_hz(30.0))
        .skip_frames(false)
        .qp(QpRange::new(
            lowest,
            lowest + random.below(52 - usize::from(lowest)) as u8,
        ))
        .complexity([Complexity::Low, Complexity::Medium, Complexity::High][random.below(3)])
        .rate_control_mode(
            [
                RateControlMode::Quality,
                RateControlMode::Bitrate,
                RateControlMode::Off,
            ][random.below(3)],
        )
        .usage_type(
            [
                UsageType::CameraVideoRealTime,
                UsageType::ScreenContentRealTime,
            ][random.below(2)],
        )
        .scene_change_detect(random.below(2) == 0)
        .adaptive_quantization(random.below(2) == 0)
        .long_term_reference(random.below(3) == 0)
        .intra_frame_period(IntraFramePeriod::from_num_frames(
            [0, 4, 9][random.below(3)],
        ))
        .num_threads(1);
    if random.below(3) == 0 {
        config = config.max_slice_len(200 + random.below(1000) as u32);
    }
    let mut encoder = Encoder::with_api_config(OpenH264API::from_source(), config).ok()?;
    let noise = [0, 4, 40][random.below(3)];
    let mut stream = Vec::new();
    for time in 0..12 {
        let source =
            YUVBuffer::from_vec(picture(random, width, height, time, noise), width, height);
        encoder.encode(&source).ok()?.write_vec(&mut stream);
    }
    Some(stream)
}

/// Returns the frames that openh264 decodes, as I420.
fn reference(stream: &[u8]) -> Vec<Vec<u8>> {
    let mut decoder = Decoder::new().unwrap();
    let mut frames = Vec::new();
    let mut keep = |yuv: &dyn YUVSource| {
        let (width, height) = yuv.dimensions();
        let (sy, su, sv) = yuv.strides();
        let mut bytes = Vec::new();
        for (plane, stride, w, h) in [
            (yuv.y(), sy, width, height),
            (yuv.u(), su, width / 2, height / 2),
            (yuv.v(), sv, width / 2, height / 2),
        ] {
            plane
                .chunks(stride)
                .take(h)
                .for_each(|row| bytes.extend_from_slice(&row[..w]));
        }
        frames.push(bytes);
    };
    for unit in openh264::nal_units(stream) {
        if let Some(yuv) = decoder.decode(unit).unwrap() {
            keep(&yuv);
        }
    }
    decoder
        .flush_remaining()
        .unwrap()
        .iter()
        .for_each(|yuv| keep(yuv));
    frames
}

#[test]
fn openh264_decodes_its_streams_to_the_same_frames() {
    let mut compared = 0;
    for seed in 0..60 {
        let mut random = Random(seed);
        let (width, height) = (16 + 2 * random.below(80), 16 + 2 * random.below(60));
        let Some(stream) = encode(&mut random, width, height) else {
            continue;
        };
        let mut frames = Vec::new();
        let summary = decode(&stream, Limits::default(), |frame| frames.push(i420(frame))).unwrap();
        assert_eq!(
            (summary.error_count, summary.concealed),
            (0, 0),
            "seed {seed}: {:?}",
            summary.errors
        );
        let wanted = reference(&stream);
        assert_eq!(frames.len(), wanted.len(), "seed {seed}");
        for (number, (got, want)) in frames.iter().zip(&wanted).enumerate() {
            assert!(
                got == want,
                "seed {seed}, {width}x{height}, frame {number} differs"
            );
        }
        compared += 1;
    }
    assert!(
        compared >= 30,
        "the encoder refused all but {compared} settings"
    );
}
