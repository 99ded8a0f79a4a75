//! The profile: what a run has measured, for the next one.
//!
//! A text. The first line is its title. Lines `code N KEPT FINGERPRINT OFFSET FILE` say where the code of region N is; the others are
//! those of [`Profile`].

use std::fs;
use std::io;
use std::path::Path;

use tanada_policy::RegionId;
use tanada_policy::governors::regions::Profile;

const TITLE: &str = "tanada omp profile 1";

/// What identifies a region in another run of the same program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Code {
    /// The name of the module's file, without its folder.
    pub(super) file: String,
    /// A mark of the file's content: a program that was compiled again is another one.
    pub(super) fingerprint: u64,
    /// The offset of the code in the module.
    pub(super) offset: u64,
}

/// A region of a profile.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Known {
    pub(super) code: Code,
    /// Why it keeps its team: an index into [`crate::board::KEPT`].
    pub(super) kept: usize,
}

/// A profile as it is in a file: region N of `measured` is entry N of `known`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Memory {
    pub(super) known: Vec<Known>,
    pub(super) measured: Profile,
}

impl Memory {
    /// Reads a profile; a file that is not there is an empty one.
    ///
    /// # Errors
    /// Returns what is wrong with the file.
    pub(super) fn read(path: &Path) -> Result<Memory, String> {
        match fs::read_to_string(path) {
            Ok(text) => Memory::parse(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Memory::default()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn parse(text: &str) -> Result<Memory, String> {
        let Some(body) = text.strip_prefix(TITLE) else {
            return Err(format!("it does not begin with \"{TITLE}\""));
        };
        let mut known = Vec::new();
        let mut rest = String::new();
        for (i, line) in body.lines().enumerate() {
            // Lines of regions stay where they are, so that an error names the right one.
            let Some(code) = line.strip_prefix("code ") else {
                rest += line;
                rest.push('\n');
                continue;
            };
            rest.push('\n');
            let read = || {
                let mut words = code.splitn(5, ' ');
                let number: usize = words.next()?.parse().ok()?;
                let kept = words.next()?.parse().ok()?;
                let mut hex = || u64::from_str_radix(words.next()?, 16).ok();
                let (fingerprint, offset) = (hex()?, hex()?);
                let file = words.next()?.to_owned();
                let code = Code {
                    file,
                    fingerprint,
                    offset,
                };
                (number == known.len() && kept < crate::board::KEPT.len())
                    .then_some(Known { code, kept })
            };
            known.push(read().ok_or_else(|| {
                format!(
                    "line {}: expected \"code N KEPT FINGERPRINT OFFSET FILE\"",
                    i + 1
                )
            })?);
        }
        let measured: Profile = rest.parse().map_err(|error| format!("{error}"))?;
        let known_regions = known.len();
        let unknown = |region: RegionId| region.0 as usize >= known_regions;
        if measured.measured.iter().any(|one| unknown(one.region)) {
            return Err("a region has no line that says where its code is".to_owned());
        }
        Ok(Memory { known, measured })
    }

    /// Writes the profile; the file appears as a whole.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let mut text = format!("{TITLE}\n");
        for (i, Known { code, kept }) in self.known.iter().enumerate() {
            let (mark, offset) = (code.fingerprint, code.offset);
            text += &format!("code {i} {kept} {mark:x} {offset:x} {}\n", code.file);
        }
        text += &self.measured.to_string();
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(format!(".{}", std::process::id()));
        let unfinished = Path::new(&unfinished);
        let written = fs::write(unfinished, text).and_then(|()| fs::rename(unfinished, path));
        if written.is_err() {
            let _ = fs::remove_file(unfinished);
        }
        written
    }
}

/// Returns a mark of a file's content: of its length, and of its beginning, which holds the identity that the linker gave it.
pub(super) fn fingerprint(path: &Path) -> u64 {
    use io::Read as _;
    let mut start = Vec::new();
    let Ok(file) = fs::File::open(path) else {
        return 0;
    };
    let length = file.metadata().map_or(0, |data| data.len());
    let _ = file.take(4096).read_to_end(&mut start);
    // FNV-1a.
    let bytes = length.to_le_bytes().into_iter().chain(start);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "tanada omp profile 1\ncode 0 0 abc 1f40 a program\ncode 1 1 abc 2000 a program\n\
        region 0 iterations unknown shape 1x1 threads 1 waiting as-is count 3 mean 1500\n";

    #[test]
    fn what_is_written_is_read() {
        let memory = Memory::parse(TEXT).expect("it is right");
        assert_eq!(memory.known[0].code.file, "a program");
        assert_eq!(memory.known[1].code.offset, 0x2000);
        assert_eq!(memory.known[1].kept, 1);
        assert_eq!(memory.measured.measured[0].mean, 1500.0);
        let folder = std::env::temp_dir().join(format!("tanada-memory-{}", std::process::id()));
        fs::create_dir(&folder).expect("a new folder");
        let path = folder.join("profile");
        assert_eq!(Memory::read(&path), Ok(Memory::default()));
        memory.write(&path).expect("it can be written");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), TEXT);
        assert_eq!(fs::read_dir(&folder).expect("it is there").count(), 1);
        assert!(memory.write(&folder.join("no/profile")).is_err());
        fs::remove_dir_all(&folder).expect("it is ours");
    }

    #[test]
    fn faults_are_named() {
        let damaged = TEXT.replace("1f40", "xyz");
        let wrong = Memory::parse(&damaged).unwrap_err();
        assert!(wrong.contains("line 2: expected \"code"), "{wrong}");
        let wrong = Memory::parse(&TEXT.replace("mean", "mode")).unwrap_err();
        assert!(wrong.contains("line 4"), "{wrong}");
        let wrong = Memory::parse(&TEXT.replace("region 0", "region 7")).unwrap_err();
        assert!(wrong.contains("no line that says"), "{wrong}");
        assert!(Memory::parse("#!/bin/sh").is_err());
    }
}
