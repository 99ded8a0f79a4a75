//! Files that are written as a whole or not at all.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tempfile::TempPath;

/// An output file that cannot be made or written. The text begins with the path.
#[derive(thiserror::Error)]
pub enum OutputError {
    /// The file cannot be made or written.
    #[error("{path}: {why}")]
    Unwritable {
        /// The path as it was given.
        path: String,
        /// Why, and what helps.
        why: String,
    },
    /// The file is an input or another output: wrong usage.
    #[error("{path} is {what}; name another output")]
    Taken {
        /// The path as it was given.
        path: String,
        /// What the file is besides.
        what: &'static str,
    },
}

impl std::fmt::Debug for OutputError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Refuses an output that is one of `inputs`, in a folder that is one of `inputs`, or another output: a content would be lost. Files are
/// compared by device and inode, through links; files that do not exist yet by their folder and name. Devices and pipes may be named twice.
///
/// Standard output, which the results go to, is an output, too; it may be in a folder that is one of `inputs`. A name such as `/dev/stdout`
/// adds to what an open descriptor has ([`OutputFile`]), so it may be named besides that descriptor, but not besides an input.
///
/// # Errors
/// Returns [`OutputError::Taken`] with the first such output.
pub fn distinct<'a>(
    inputs: impl IntoIterator<Item = &'a Path>,
    outputs: impl IntoIterator<Item = &'a Path>,
) -> Result<(), OutputError> {
    const INPUT: &str = "the input";
    let mut taken = Vec::new();
    let printed = identity(Path::new("/dev/stdout"));
    for input in inputs {
        if printed.is_some() && identity(input) == printed {
            let path = "standard output".to_owned();
            return Err(OutputError::Taken { path, what: INPUT });
        }
        let files = std::fs::read_dir(input).into_iter().flatten().flatten();
        let files = files.map(|entry| entry.path()).chain([input.to_owned()]);
        taken.extend(files.filter_map(|file| Some((identity(&file)?, INPUT))));
    }
    taken.extend(printed.map(|file| (file, "standard output")));
    for path in outputs {
        let Some(output) = identity(path) else {
            continue;
        };
        let adds = matches!(place(path), Ok(Place::Descriptor(_)));
        let mut besides = taken.iter().filter(|&&(_, what)| !adds || what == INPUT);
        if let Some(&(_, what)) = besides.find(|(other, _)| *other == output) {
            let path = path.display().to_string();
            return Err(OutputError::Taken { path, what });
        }
        taken.push((output, "another output"));
    }
    Ok(())
}

/// Returns device and inode of a file; of a file that does not exist yet those of its folder, and its name. `None`: no file.
fn identity(path: &Path) -> Option<(u64, u64, OsString)> {
    let (data, name) = match path.metadata() {
        Ok(data) => (Some(data).filter(|data| data.is_file())?, OsString::new()),
        Err(_) => match place(path).ok()? {
            Place::Path(path) => (folder_of(&path).metadata().ok()?, path.file_name()?.into()),
            Place::Descriptor(_) => return None,
        },
    };
    Some((data.dev(), data.ino(), name))
}

/// What a path leads to.
enum Place {
    /// An open descriptor of this process, named as `/dev/stdout` or `/dev/fd/3`.
    Descriptor(OsString),
    /// A path whose last name is no link. The file may not exist yet.
    Path(PathBuf),
}

/// Follows `path` through links, also to a file that does not exist yet.
///
/// # Errors
/// Returns an error if the links form a loop or a link cannot be read.
fn place(path: &Path) -> io::Result<Place> {
    /// Links that the kernel follows, too (path_resolution(7)).
    const MOST: usize = 40;
    let own = Path::new("/proc/self/fd").canonicalize().ok();
    let mut path = path.to_owned();
    for _ in 0..=MOST {
        let folder = folder_of(&path).canonicalize().ok();
        if folder.is_some() && folder == own {
            return Ok(Place::Descriptor(
                path.file_name().unwrap_or_default().into(),
            ));
        }
        match path.symlink_metadata() {
            Ok(data) if data.is_symlink() => path = folder_of(&path).join(path.read_link()?),
            _ => return Ok(Place::Path(path)),
        }
    }
    Err(io::Error::other("its links lead in a circle"))
}

/// The names that files have until they are whole.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes all files of this process that are not whole: for a process that ends at once.
pub fn remove_unfinished() {
    let names = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    for name in names.iter() {
        // A file that became whole has another name meanwhile.
        let _ = std::fs::remove_file(name);
    }
}

/// A file that is written as a whole or not at all: a file of that name keeps its content until the new content is complete.
///
/// [`OutputFile::open`] finds out whether the file can be written, before hours of work. Devices and pipes are written directly, and so is
/// an open descriptor that is named as `/dev/stdout` or `/dev/fd/3`: what it has stays, and the content is added, as a shell's `>>` would.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    path: PathBuf,
    /// The name that a whole file has meanwhile.
    whole: Option<TempPath>,
}

impl OutputFile {
    /// Returns an output that is prepared to write `path`.
    ///
    /// # Errors
    /// If the file cannot be written; the error says what helps.
    pub fn open(path: &Path) -> Result<OutputFile, OutputError> {
        OutputFile::create(path).map_err(|error| OutputError::Unwritable {
            path: path.display().to_string(),
            why: advice(path, &error),
        })
    }

    /// Writes `content` as the whole file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn finish(mut self, content: &[u8]) -> Result<(), OutputError> {
        let path = self.path.clone();
        let written = self.write_all(content).and_then(|()| self.keep());
        written.map_err(|error| OutputError::Unwritable {
            path: path.display().to_string(),
            why: advice(&path, &error),
        })
    }

    /// Renames the file to its final name: the content is complete.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn keep(mut self) -> io::Result<()> {
        self.file.flush()?;
        match self.whole {
            None => Ok(()),
            Some(content) => content.persist(self.path).map_err(io::Error::from),
        }
    }

    fn create(path: &Path) -> io::Result<OutputFile> {
        let direct = |file: File| {
            let (path, whole) = (path.to_owned(), None);
            Ok(OutputFile { file, path, whole })
        };
        let found = match place(path)? {
            Place::Path(found) => found,
            Place::Descriptor(number) => {
                // A copy of the descriptor shares its place in the file with what is printed; a file that is opened anew would not.
                return direct(match number.as_encoded_bytes() {
                    b"1" => io::stdout().as_fd().try_clone_to_owned()?.into(),
                    b"2" => io::stderr().as_fd().try_clone_to_owned()?.into(),
                    _ => OpenOptions::new().append(true).open(path)?,
                });
            }
        };
        let there = path.metadata().ok();
        if there.as_ref().is_some_and(|data| !data.is_file()) {
            return direct(OpenOptions::new().write(true).open(path)?);
        }
        // Through links to the file itself, which is to be replaced, and not a link.
        let path = match there {
            Some(_) => path.canonicalize()?,
            None => found,
        };
        if there.is_some() {
            OpenOptions::new().write(true).open(&path)?;
        }
        let content = tempfile::Builder::new()
            .prefix(".tanada-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder_of(&path))?;
        let (file, content) = content.into_parts();
        if let Some(data) = there {
            // The file keeps its owner, if this process may give files away, and its mode, which a new file has from the process's mask.
            let _ = std::os::unix::fs::fchown(&file, Some(data.uid()), Some(data.gid()));
            file.set_permissions(data.permissions())?;
        }
        let mut names = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        names.push(content.to_path_buf());
        Ok(OutputFile {
            file,
            path,
            whole: Some(content),
        })
    }
}

/// Returns why an output cannot be made, and what helps. The error itself may name the file's other name, which means nothing to a reader.
fn advice(path: &Path, error: &io::Error) -> String {
    // A link may lead to a folder that is missing.
    let path = match place(path) {
        Ok(Place::Path(found)) => found,
        _ => path.to_owned(),
    };
    let path = &*path;
    let folder = folder_of(path).display();
    match error.kind() {
        io::ErrorKind::NotFound if !folder_of(path).exists() => {
            format!("there is no folder {folder}; make it, or name another output")
        }
        io::ErrorKind::NotADirectory => {
            format!("{folder} is not a folder; name another output")
        }
        io::ErrorKind::Other => format!("{error}; name another output"),
        kind => format!("cannot be written ({kind}); name another output"),
    }
}

/// Returns the folder that a file is in.
fn folder_of(path: &Path) -> &Path {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_that_cannot_be_made_is_reported_under_its_own_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        std::fs::write(&file, "").expect("it can be written");
        for (path, why) in [
            (folder.path().join("no/out.yuv"), "there is no folder"),
            (file.join("out.yuv"), "is not a folder"),
        ] {
            let message = match OutputFile::open(&path) {
                Ok(_) => panic!("{} was made", path.display()),
                Err(error) => error.to_string(),
            };
            assert!(
                message.starts_with(&path.display().to_string())
                    && message.contains(why)
                    && !message.contains(".tanada-"),
                "{message}"
            );
        }
    }

    #[test]
    fn an_unfinished_file_leaves_what_was_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        drop(OutputFile::open(&path).expect("it can be made"));
        let left = || std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left(), 0, "nothing was finished");

        std::fs::write(&path, "old and long").expect("it can be written");
        let mut file = OutputFile::open(&path).expect("it can be opened");
        file.write_all(b"half").expect("it can be written");
        drop(file);
        assert_eq!(
            std::fs::read_to_string(&path).expect("it is there"),
            "old and long"
        );

        OutputFile::open(&path)
            .expect("it can be opened")
            .finish(b"new")
            .expect("it can be written");
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "new");

        assert_eq!(left(), 1, "nothing else stays");
    }
}
