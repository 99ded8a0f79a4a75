//! Test data that are not part of the repository.

use std::path::{Path, PathBuf};

use crate::skip;

/// The folder of test data that `TANADA_SHARED` names, or else `../shared` beside the workspace. If it has no `streams/streams.csv`, calls
/// [`skip`] and returns `None`.
pub fn shared() -> Option<PathBuf> {
    let folder = std::env::var_os("TANADA_SHARED").map_or_else(beside, PathBuf::from);
    if folder.join("streams/streams.csv").is_file() {
        return Some(folder);
    }
    skip(format_args!(
        "no streams/streams.csv in {} (TANADA_SHARED names another folder)",
        folder.display()
    ));
    None
}

/// Returns the H.264 streams in the folder `part` (`conformance` or `video`) of [`shared`], by name. Empty if there is no such folder.
///
/// # Panics
/// If the folder is there and cannot be read.
pub fn streams(part: &str) -> Vec<PathBuf> {
    let Some(folder) = shared() else {
        return Vec::new();
    };
    let folder = folder.join("streams").join(part);
    let entries = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    files
}

fn beside() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared")
}
