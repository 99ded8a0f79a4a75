//! The result of the run without tasks, and whether other results are the same.

use md5::{Digest, Md5};
use tanada_workloads::workload::Output;

/// Bytes of results that are kept as they are; of further parts only the MD5 is kept.
const KEPT_BYTES: usize = 512 << 20;

enum Content {
    Bytes(Vec<u8>),
    Hash(Box<Md5>),
}

/// A result that others are compared with.
#[derive(Default)]
pub(crate) struct Reference {
    parts: Vec<Content>,
    kept: usize,
    found: String,
}

impl Output for Reference {
    fn begin(&mut self) {
        let content = match self.kept < KEPT_BYTES {
            true => {
                // Parts are mostly of one size.
                let expected = match self.parts.last() {
                    Some(Content::Bytes(last)) => last.len(),
                    _ => 0,
                };
                Content::Bytes(Vec::with_capacity(expected))
            }
            false => Content::Hash(Box::default()),
        };
        self.parts.push(content);
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.parts.is_empty() {
            self.begin();
        }
        match self.parts.last_mut().expect("there is a part") {
            Content::Bytes(part) => {
                part.extend_from_slice(bytes);
                self.kept += bytes.len();
            }
            Content::Hash(hash) => hash.update(bytes),
        }
    }
}

impl Reference {
    /// Ends the result; `found` is [`Prepared::found`](tanada_workloads::Prepared::found) of the run that wrote it.
    pub(crate) fn finish(&mut self, found: String) {
        self.found = found;
    }

    /// Returns a comparison, to which another result is written.
    pub(crate) fn comparison(&self) -> Comparison<'_> {
        Comparison {
            reference: self,
            seen: 0,
            at: 0,
            same: true,
            hash: Md5::new(),
            wrong: Vec::new(),
        }
    }
}

/// A result that is compared as it comes.
pub(crate) struct Comparison<'a> {
    reference: &'a Reference,
    /// Parts that were begun.
    seen: usize,
    /// Bytes of the last one so far.
    at: usize,
    same: bool,
    hash: Md5,
    wrong: Vec<usize>,
}

impl Output for Comparison<'_> {
    fn begin(&mut self) {
        self.end_part();
        self.seen += 1;
        (self.at, self.same) = (0, true);
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.seen == 0 {
            self.begin();
        }
        match self.reference.parts.get(self.seen - 1) {
            Some(Content::Bytes(known)) => {
                let end = self.at + bytes.len();
                self.same &= known.get(self.at..end).is_some_and(|known| known == bytes);
                self.at = end;
            }
            Some(Content::Hash(_)) => self.hash.update(bytes),
            None => self.same = false,
        }
    }
}

impl Comparison<'_> {
    fn end_part(&mut self) {
        let Some(part) = self.seen.checked_sub(1) else {
            return;
        };
        let same = match self.reference.parts.get(part) {
            Some(Content::Bytes(known)) => self.same && self.at == known.len(),
            Some(Content::Hash(known)) => {
                let known: [u8; 16] = known.as_ref().clone().finalize().into();
                known == <[u8; 16]>::from(self.hash.finalize_reset())
            }
            None => false,
        };
        if !same {
            self.wrong.push(part);
        }
    }

    /// Returns what is different, in words; `None`: nothing. `part` is what a part is called, `found` what the run found besides.
    pub(crate) fn end(mut self, part: &str, found: &str) -> Option<String> {
        self.end_part();
        let wanted = self.reference.parts.len();
        if self.seen != wanted && self.wrong.iter().all(|&at| at >= wanted) {
            return Some(format!(
                "{} {part}s came out instead of {wanted}",
                self.seen
            ));
        }
        if let Some(first) = self.wrong.first() {
            let number = self.wrong.len();
            return Some(format!(
                "{number} of {wanted} {part}s differ from those of the sequential run, {part} {first} first"
            ));
        }
        (found != self.reference.found).then(|| {
            format!(
                "the {part}s are the same, but not what was found: {found}, and not {}",
                self.reference.found
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(output: &mut dyn Output, parts: &[&[u8]]) {
        for part in parts {
            output.begin();
            // In two pieces, as results come.
            let (first, second) = part.split_at(part.len() / 2);
            output.write(first);
            output.write(second);
        }
    }

    fn compared(reference: &Reference, parts: &[&[u8]], found: &str) -> Option<String> {
        let mut comparison = reference.comparison();
        write(&mut comparison, parts);
        comparison.end("frame", found)
    }

    #[test]
    fn a_changed_byte_and_a_missing_part_are_noticed_of_kept_and_of_hashed_parts() {
        let parts: [&[u8]; 3] = [b"terraces", b"", b"rice"];
        for kept in [0, KEPT_BYTES] {
            let mut reference = Reference {
                kept,
                ..Reference::default()
            };
            write(&mut reference, &parts);
            reference.finish("2 errors".to_owned());
            let compared = |parts: &[&[u8]], found| compared(&reference, parts, found);
            assert_eq!(compared(&parts, "2 errors"), None);
            assert_eq!(
                compared(&parts[..2], "2 errors").as_deref(),
                Some("2 frames came out instead of 3")
            );
            let longer = [parts[0], parts[1], parts[2], b"x"];
            assert_eq!(
                compared(&longer, "2 errors").as_deref(),
                Some("4 frames came out instead of 3")
            );
            for wrong in [&b"ricf"[..], b"ric", b"ricer", b""] {
                assert_eq!(
                    compared(&[parts[0], parts[1], wrong], "2 errors").as_deref(),
                    Some("1 of 3 frames differ from those of the sequential run, frame 2 first")
                );
            }
            let what = compared(&parts, "3 errors").expect("something else was found");
            assert!(
                what.contains("3 errors") && what.contains("2 errors"),
                "{what}"
            );
        }
    }

    #[test]
    fn bytes_without_parts_are_one_part() {
        let mut reference = Reference::default();
        reference.write(b"sum");
        let ends = |bytes: &[u8]| {
            let mut comparison = reference.comparison();
            comparison.write(bytes);
            comparison.end("part", "")
        };
        assert_eq!(ends(b"sum"), None);
        assert!(ends(b"sun").is_some());
    }
}
