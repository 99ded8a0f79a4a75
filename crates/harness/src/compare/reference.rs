//! The frames of the sequential decoder, and whether others are the same.

use crate::sequential;
use md5::{Digest, Md5};
use tanada_h264::Step;
use tanada_runtime::Cancel;
use tanada_workloads::h264::{DecodeError, Frame, Options, Summary};

/// So many bytes of frames are kept as they are; of further ones only the MD5 is kept.
const KEPT_BYTES: usize = 512 << 20;

enum Content {
    Pixels(Vec<u8>),
    Md5([u8; 16]),
}

struct Known {
    width: u32,
    height: u32,
    content: Content,
}

impl Known {
    fn of(frame: &Frame, keep: bool) -> Known {
        let content = if keep {
            let mut pixels = Vec::with_capacity(frame.i420_len());
            frame.visit_rows(|row| pixels.extend_from_slice(row));
            Content::Pixels(pixels)
        } else {
            Content::Md5(md5(frame))
        };
        Known {
            width: frame.width(),
            height: frame.height(),
            content,
        }
    }

    fn same(&self, frame: &Frame) -> bool {
        (self.width, self.height) == (frame.width(), frame.height())
            && match &self.content {
                Content::Pixels(pixels) => {
                    let (mut rest, mut same) = (&pixels[..], true);
                    frame.visit_rows(|row| {
                        let (known, behind) = rest.split_at(row.len());
                        same &= known == row;
                        rest = behind;
                    });
                    same
                }
                Content::Md5(known) => *known == md5(frame),
            }
    }
}

fn md5(frame: &Frame) -> [u8; 16] {
    let mut md5 = Md5::new();
    frame.visit_rows(|row| md5.update(row));
    md5.finalize().into()
}

/// What the sequential decoder makes of a stream.
pub(super) struct Reference {
    frames: Vec<Known>,
    pub(super) summary: Summary,
    /// The picture to look at: of those that refer to others, the one nearest to the middle of the stream, in decoding order.
    pub(super) shown: u64,
    /// Bytes of the largest frame.
    pub(super) frame_bytes: u64,
}

impl Reference {
    pub(super) fn decode(
        stream: &[u8],
        options: &Options,
        cancel: &Cancel,
    ) -> Result<Reference, DecodeError> {
        let (mut frames, mut bytes, mut largest) = (Vec::new(), 0, 0);
        let mut refers = Vec::new();
        let summary = sequential::decode(stream, options.limits, cancel, |step| match step {
            Step::Picture(job) => refers.push(!job.references().is_empty()),
            Step::Frame(frame) => {
                bytes += frame.i420_len();
                largest = largest.max(frame.i420_len());
                frames.push(Known::of(frame, bytes <= KEPT_BYTES));
            }
            _ => {}
        })?;
        Ok(Reference {
            frames,
            summary,
            shown: middle(&refers),
            frame_bytes: largest as u64,
        })
    }

    /// Begins to compare the frames of another decoding.
    pub(super) fn comparison(&self) -> Comparison<'_> {
        Comparison {
            reference: self,
            seen: 0,
            wrong: Vec::new(),
        }
    }
}

/// The index of the `true` nearest to the middle; without any, the middle.
fn middle(refers: &[bool]) -> u64 {
    let middle = refers.len() / 2;
    let candidates = refers.iter().enumerate().filter(|(_, refers)| **refers);
    candidates
        .map(|(at, _)| at)
        .min_by_key(|at| at.abs_diff(middle))
        .unwrap_or(middle) as u64
}

/// The frames of one decoding, compared as they come.
pub(super) struct Comparison<'a> {
    reference: &'a Reference,
    seen: usize,
    wrong: Vec<usize>,
}

impl Comparison<'_> {
    pub(super) fn see(&mut self, frame: &Frame) {
        if !self
            .reference
            .frames
            .get(self.seen)
            .is_some_and(|known| known.same(frame))
        {
            self.wrong.push(self.seen);
        }
        self.seen += 1;
    }

    /// What was different, if anything.
    pub(super) fn end(self, summary: &Summary) -> Option<String> {
        let wanted = self.reference.frames.len();
        if let Some(first) = self.wrong.first() {
            let frames = self.wrong.len();
            return Some(format!(
                "{frames} of {wanted} frames differ from the sequential decoder's, frame {first} first"
            ));
        }
        if self.seen != wanted {
            return Some(format!("{} frames came out instead of {wanted}", self.seen));
        }
        (*summary != self.reference.summary).then(|| {
            let Summary {
                pictures,
                concealed,
                error_count,
                ..
            } = summary;
            format!(
                "the frames are the same, but not what was found: {pictures} pictures, \
                 {concealed} concealed macroblocks, {error_count} errors"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference() -> Reference {
        Reference::decode(crate::DEMO, &Options::default(), &Cancel::new())
            .expect("the demo stream decodes")
    }

    #[test]
    fn a_changed_pixel_and_a_missing_frame_are_noticed() {
        let mut reference = reference();
        let summary = reference.summary.clone();
        let replay = |reference: &Reference, until: u64| {
            let mut comparison = reference.comparison();
            let mut seen = 0;
            let decoded = tanada_h264::decode(crate::DEMO, Default::default(), |frame| {
                if seen < until {
                    comparison.see(frame);
                }
                seen += 1;
            });
            assert!(decoded.is_ok());
            comparison.end(&summary)
        };
        assert_eq!(replay(&reference, u64::MAX), None);
        assert_eq!(
            replay(&reference, 127).as_deref(),
            Some("127 frames came out instead of 128")
        );
        let Content::Pixels(pixels) = &mut reference.frames[77].content else {
            panic!("the demo fits")
        };
        *pixels.last_mut().expect("not empty") ^= 1;
        let what = replay(&reference, u64::MAX).expect("a pixel differs");
        assert_eq!(
            what,
            "1 of 128 frames differ from the sequential decoder's, frame 77 first"
        );
        let digest = Known {
            width: 800,
            height: 480,
            content: Content::Md5([7; 16]),
        };
        reference.frames[77] = digest;
        assert!(replay(&reference, u64::MAX).is_some());
    }

    #[test]
    fn the_picture_to_look_at_refers_to_others_where_there_is_one() {
        assert_eq!(middle(&[false, true, false, false, true, true]), 4);
        assert_eq!(middle(&[false; 6]), 3);
        let shown = reference().shown;
        assert!(
            shown.abs_diff(64) == 1,
            "64 is an IDR picture; {shown} is shown"
        );
    }
}
