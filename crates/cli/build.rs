//! Tells the program its commit as `TANADA_COMMIT`: ` (0123456789ab)`, or nothing if these sources are in no repository.

use std::path::Path;
use std::process::Command;

fn main() {
    // Without such a line the script would run after every change of the package.
    println!("cargo::rerun-if-changed=build.rs");
    // A tarball may lie in another repository, which does not know this file.
    let ours = git(&["ls-files", "--error-unmatch", "build.rs"]).is_some();
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).filter(|_| ours);
    if git(&["rev-parse", "HEAD"]).is_some() {
        let branch = git(&["rev-parse", "--symbolic-full-name", "HEAD"]).unwrap_or_default();
        // The log of HEAD grows with each commit. Repositories without it have one of the others.
        for name in ["HEAD", "logs/HEAD", "packed-refs", &branch] {
            let path = git(&["rev-parse", "--git-path", name]);
            // Cargo would run the script again every time for a file that does not exist.
            if let Some(path) = path.filter(|path| Path::new(path).is_file()) {
                println!("cargo::rerun-if-changed={path}");
            }
        }
    }
    let commit = commit.map_or(String::new(), |commit| format!(" ({commit})"));
    println!("cargo::rustc-env=TANADA_COMMIT={commit}");
}

/// Returns what git prints, or `None` if it fails or is not installed.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
