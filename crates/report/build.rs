//! Copies the plotting script that the page embeds.
//!
//! The script is Apache ECharts. The package `charming` carries it, but offers only a Rust interface to it, not the text. Cargo knows the
//! package's folder (registry, vendored folder or mirror), and the lock file has the package's checksum. This program therefore asks Cargo
//! for the folder and copies the one file to a place where `include_str!` finds it.
//! The package is a dependency under a cfg that no build sets, so it is never compiled.

use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "charming";
/// The cfg under which Cargo.toml has the package, for rustc.
const FLAGS: &str = "--cfg\u{1f}tanada_plotting_script";
const SCRIPT: &str = "src/asset/echarts-5.5.1.min.js";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_RENDER").is_none() {
        return;
    }
    let folder = package_folder();
    let path = folder.join(SCRIPT);
    let script = std::fs::read_to_string(&path).unwrap_or_else(|error| {
        panic!(
            "{}: {error}; is `{PACKAGE}` at the version of crates/report/Cargo.toml?",
            path.display()
        )
    });
    // The script is inside of a <script> element, which this text would end early.
    assert!(
        !script.contains("</script"),
        "{} cannot stand inside a page",
        path.display()
    );
    assert!(
        script.contains("Apache License"),
        "{} lost its licence header",
        path.display()
    );
    let out = std::env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR");
    std::fs::write(Path::new(&out).join("echarts.min.js"), script)
        .expect("OUT_DIR can be written to");
}

/// Returns the folder of the package from `cargo metadata`. Runs without the network if possible, which is the case after a build that
/// fetched everything, else with it (a lock file may name packages that only builds of other platforms have fetched).
fn package_folder() -> PathBuf {
    let mut errors = String::new();
    for offline in [true, false] {
        match metadata(offline) {
            Ok(folder) => return folder,
            Err(error) => errors.push_str(&error),
        }
    }
    panic!("`cargo metadata` does not report the folder of the package `{PACKAGE}`:\n{errors}");
}

fn metadata(offline: bool) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").expect("Cargo sets CARGO");
    let manifest_folder =
        std::env::var_os("CARGO_MANIFEST_DIR").expect("Cargo sets CARGO_MANIFEST_DIR");
    let host = std::env::var("HOST").expect("Cargo sets HOST");
    let mut command = Command::new(cargo);
    command
        .args([
            "metadata",
            "--format-version",
            "1",
            "--filter-platform",
            &host,
            "--manifest-path",
        ])
        .arg(Path::new(&manifest_folder).join("Cargo.toml"));
    command
        .env_remove("RUSTFLAGS")
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS);
    if offline {
        command.arg("--offline");
    }
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let all: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let packages = all["packages"].as_array().ok_or("no list of packages")?;
    packages
        .iter()
        .find(|package| package["name"] == PACKAGE)
        .and_then(|package| package["manifest_path"].as_str())
        .and_then(|manifest| Path::new(manifest).parent())
        .map(Path::to_path_buf)
        .ok_or_else(|| format!("no package {PACKAGE}"))
}
