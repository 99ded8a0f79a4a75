//! The machines that every command knows by name: the files of the folder `machines` of this crate.

use crate::machine::{Machine, MachineError};
use crate::spelling;
use std::path::Path;

/// Name and text of each, by name.
static ALL: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/machines.rs"));

/// A machine file that is part of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipped {
    /// The name that every command knows.
    pub name: &'static str,
    /// The file, with its sources in comments.
    pub text: &'static str,
}

impl Shipped {
    /// Returns the machine.
    ///
    /// # Panics
    /// If the file is not valid, which tests of this crate exclude.
    pub fn machine(&self) -> Machine {
        Machine::parse(self.text, &format!("{}.toml", self.name))
            .expect("shipped machines are sound")
    }
}

/// The error for a machine that cannot be found or read.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum NotFound {
    /// Neither a registered name nor a file: wrong usage.
    #[error("{}", unknown(name))]
    Unknown {
        /// The wrong name.
        name: String,
    },
    /// The file cannot be read.
    #[error("{path}: {error}")]
    File {
        /// The path.
        path: String,
        /// The cause.
        error: std::io::Error,
    },
    /// The file is no valid machine.
    #[error(transparent)]
    Unsound(#[from] MachineError),
}

impl std::fmt::Debug for NotFound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Returns all registered machines, by name.
pub fn all() -> impl ExactSizeIterator<Item = Shipped> {
    ALL.iter().map(|&(name, text)| Shipped { name, text })
}

fn unknown(name: &str) -> String {
    let names: Vec<&str> = all().map(|one| one.name).collect();
    let all = names.join(", ");
    let message = format!("no machine \"{name}\"; the machines are {all}; or name a file");
    spelling::asked(message, name, names)
}

/// Returns the machine with a registered name, or else the one in a file of this path.
///
/// # Errors
/// If there is neither, or the file is no valid machine.
pub fn find(name_or_path: impl AsRef<Path>) -> Result<Machine, NotFound> {
    let path = name_or_path.as_ref();
    if let Some(shipped) = all().find(|one| path.as_os_str() == one.name) {
        return Ok(shipped.machine());
    }
    let is_path = path.components().count() > 1 || path.extension().is_some();
    let given = path.display().to_string();
    match read(path) {
        Ok(text) => Ok(Machine::parse(&text, &given)?),
        Err(error) if is_path || error.kind() != std::io::ErrorKind::NotFound => {
            Err(NotFound::File { path: given, error })
        }
        Err(_) => Err(NotFound::Unknown { name: given }),
    }
}

/// Returns at most one byte more of a file than [`Machine::parse`] accepts, since the path may be an endless device.
fn read(path: &Path) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let most = crate::machine::LONGEST_FILE as u64 + 1;
    let mut file = std::fs::File::open(path)?.take(most);
    file.read_to_end(&mut bytes)?;
    // Bytes that are no UTF-8 become characters that are no TOML, on the same line.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_is_sound_and_called_like_its_file() {
        assert!(all().len() > 0);
        for shipped in all() {
            let machine = shipped.machine();
            assert_eq!(machine.name, shipped.name);
            let placement = machine.placement();
            assert_eq!(placement.workers(), machine.cores);
            for worker in placement.ids() {
                assert_eq!(
                    placement.hardware_thread(worker),
                    u32::from(worker.0),
                    "{}",
                    shipped.name
                );
            }
        }
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_right_ones() {
        let wrong = find("toshibo").unwrap_err();
        assert!(matches!(wrong, NotFound::Unknown { .. }));
        for shipped in all() {
            assert!(wrong.to_string().contains(shipped.name), "{wrong}");
        }
        let question = "; did you mean `toshiba`?";
        assert!(wrong.to_string().ends_with(question), "{wrong}");
        assert!(matches!(find("no/such.toml"), Err(NotFound::File { .. })));
    }
}
