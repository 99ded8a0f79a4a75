//! Inputs that are no stream for this decoder: what they are, and the command that makes a stream of them.

use super::{Fault, StreamError};

/// Returns what a file is that begins with `bytes`, if it is something other than an H.264 byte stream that users take for one.
pub(super) fn foreign(bytes: &[u8]) -> Option<&'static str> {
    const KNOWN: [(usize, &[u8], &str); 9] = [
        (4, b"ftyp", "an MP4 or QuickTime file"),
        (4, b"moov", "an MP4 or QuickTime file"),
        (4, b"mdat", "an MP4 or QuickTime file"),
        (0, &[0x1a, 0x45, 0xdf, 0xa3], "a Matroska or WebM file"),
        (8, b"AVI ", "an AVI file"),
        (0, b"FLV", "a Flash video"),
        (0, b"DKIF", "an IVF file"),
        (0, b"OggS", "an Ogg file"),
        (0, b"YUV4MPEG2", "uncompressed video"),
    ];
    let begins = |&&(at, magic, _): &&(usize, &[u8], _)| {
        bytes.get(at..).is_some_and(|rest| rest.starts_with(magic))
    };
    if let Some((_, _, what)) = KNOWN.iter().find(begins) {
        return Some(what);
    }
    // Packets of 188 bytes, each behind a byte 47.
    if bytes.len() > 376 && [0, 188, 376].iter().all(|&at| bytes[at] == 0x47) {
        return Some("an MPEG transport stream");
    }
    if is_hevc(bytes) {
        return Some("an HEVC (H.265) stream");
    }
    is_text(bytes).then_some("text")
}

/// Whether an Annex B stream begins with HEVC's parameter sets. Their headers have two bytes, of which the first is even; that of an H.264
/// sequence parameter set is odd.
fn is_hevc(bytes: &[u8]) -> bool {
    const SEQUENCE: [u8; 2] = [0x42, 1];
    const BEFORE: [[u8; 2]; 3] = [[0x40, 1], [0x46, 1], [0x4e, 1]];
    let begin = &bytes[..bytes.len().min(1 << 16)];
    let starts = begin.windows(5).filter(|five| five.starts_with(&[0, 0, 1]));
    let mut headers = starts.map(|five| [five[3], five[4]]);
    headers.find(|header| !BEFORE.contains(header)) == Some(SEQUENCE)
}

fn is_text(bytes: &[u8]) -> bool {
    let begin = &bytes[..bytes.len().min(4096)];
    let text = match std::str::from_utf8(begin) {
        Ok(text) => text,
        // The last character may be cut.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&begin[..error.valid_up_to()]).expect("it is valid up to there")
        }
        Err(_) => return false,
    };
    !text.is_empty()
        && text
            .chars()
            .all(|c| !c.is_control() || "\t\r\n\u{c}".contains(c))
}

/// Returns the advice on how to make a stream of the file `name` that this decoder can decode.
pub(super) fn advice(name: &str) -> String {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let [input, output] = [name, &format!("{stem}.baseline.264")].map(quoted);
    format!(
        "this decoder wants an Annex B byte stream of the constrained baseline profile:\n  \
        ffmpeg -i {input} -an -c:v libx264 -profile:v baseline -pix_fmt yuv420p {output}"
    )
}

/// Returns a word as a shell wants it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./+=:@%,".contains(c);
    match word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Returns the message for a stream, called `name`, of which no picture could be decoded.
pub(super) fn nothing(name: &str, error: StreamError) -> String {
    match error.fault {
        Fault::Unsupported(_) | Fault::NoPicture => format!("{name}: {error}; {}", advice(name)),
        _ => format!("{name}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_stream_is_recognised() {
        let transport: Vec<u8> = (0..1000)
            .map(|at| if at % 188 == 0 { 0x47 } else { 0 })
            .collect();
        let hevc = [
            0, 0, 0, 1, 0x40, 1, 12, 1, 0xff, 0, 0, 1, 0x42, 1, 1, 1, 0x60,
        ];
        for (bytes, what) in [
            (
                &b"\0\0\0\x20ftypisom\0\0\x02\0isomiso2avc1mp41"[..],
                "an MP4 or QuickTime file",
            ),
            (b"\x1a\x45\xdf\xa3\x01\0\0\0", "a Matroska or WebM file"),
            (b"RIFF\0\0\0\0AVI LIST", "an AVI file"),
            (&transport, "an MPEG transport stream"),
            (&hevc, "an HEVC (H.265) stream"),
            ("Not a video, é.\n".as_bytes(), "text"),
            (&"é".repeat(5000).as_bytes()[1..], ""),
            (&format!("a{}", "é".repeat(5000)).into_bytes(), "text"),
            (b"", ""),
            (&[0, 0, 1, 0x67, 0x42, 0xc0, 0x1e], ""),
            (super::super::workload::DEMO, ""),
        ] {
            assert_eq!(foreign(bytes).unwrap_or_default(), what);
        }
    }

    #[test]
    fn the_command_never_overwrites_its_input_and_survives_a_shell() {
        assert!(advice("a/b.264").ends_with("ffmpeg -i a/b.264 -an -c:v libx264 -profile:v baseline -pix_fmt yuv420p a/b.baseline.264"));
        assert!(advice("my film's.mp4").contains(r"-i 'my film'\''s.mp4' "));
    }
}
