//! Tells the program its commit as `TANADA_COMMIT`: ` (0123456789ab)`, or nothing if these sources are in no repository. Compiles what the
//! emulator, the recorded program and OpenMP programs load, which the program carries: the files `TANADA_PROBE`, `TANADA_GUEST` and
//! `TANADA_OPENMP`.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names it"));
    let objects = folder.join("objects");
    shared_object("tanada-probe", "tanada_probe", "TANADA_PROBE", &objects);
    for source in ["../probe", "../trace/src", "../../Cargo.lock"] {
        println!("cargo::rerun-if-changed={source}");
    }
    shared_object("tanada-openmp", "tanada_omp", "TANADA_OPENMP", &objects);
    for source in [
        "../openmp/src",
        "../policy/src",
        "../queues/src",
        "../topology/src",
        "../runtime/src/marks",
    ] {
        println!("cargo::rerun-if-changed={source}");
    }
    guest_library(&folder.join("guest.so"));
    commit();
}

/// Compiles a crate of this workspace to a shared object, `lib{library}.so`, and tells the program its path. Cargo offers no other way to
/// put a shared object of one crate into another one that does not need a nightly toolchain. The crate's dependencies are among this
/// one's, so nothing is fetched.
fn shared_object(package: &str, library: &str, variable: &str, target: &Path) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "build",
        "--release",
        "--offline",
        "--package",
        package,
        "--target-dir",
    ]);
    command.arg(target).current_dir("../..");
    // Flags of this build, such as those of a sanitizer, and wrappers, such as clippy, are not meant for it.
    for name in [
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTFLAGS",
        "RUSTC_WORKSPACE_WRAPPER",
        "CARGO_BUILD_TARGET",
        "CARGO_TARGET_DIR",
        "CARGO_BUILD_TARGET_DIR",
        "CARGO_MAKEFLAGS",
    ] {
        command.env_remove(name);
    }
    let built = command.status().is_ok_and(|status| status.success());
    assert!(built, "{package} cannot be built, see above");
    let object = target.join(format!("release/lib{library}.so"));
    println!("cargo::rustc-env={variable}={}", object.display());
}

/// Compiles the library that recorded programs of this machine load.
fn guest_library(object: &Path) {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command
        .args(["-O2", "-shared", "-fPIC", "-fno-builtin-malloc", "-o"])
        .arg(object);
    command.args(["../probe/guest/guest.c", "-ldl", "-lpthread"]);
    let built = command.status().is_ok_and(|status| status.success());
    assert!(
        built,
        "crates/probe/guest/guest.c cannot be compiled, see above (a C compiler is needed)"
    );
    println!("cargo::rustc-env=TANADA_GUEST={}", object.display());
    println!("cargo::rerun-if-env-changed=CC");
}

fn commit() {
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
