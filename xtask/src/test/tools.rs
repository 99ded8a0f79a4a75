//! What the checks need beyond cargo: found, installed, or named with the command to type.

use std::path::Path;
use std::time::Duration;

use super::runner::Runner;
use super::{Failed, Outcome, Skipped};

/// A program of the system.
struct SystemTool {
    /// Any of these will do.
    programs: &'static [&'static str],
    /// The Debian packages that have it and what belongs to it.
    package: &'static str,
    needed_for: &'static str,
    /// Whether nothing can be built without it.
    required: bool,
}

const SYSTEM: &[SystemTool] = &[
    SystemTool {
        programs: &["cc", "gcc", "clang"],
        package: "gcc",
        needed_for: "linking every program",
        required: true,
    },
    SystemTool {
        programs: &["c++", "g++", "clang++"],
        package: "g++",
        needed_for: "openh264, which the decoder is compared with",
        required: true,
    },
    SystemTool {
        programs: &["valgrind"],
        package: "valgrind",
        needed_for: "the tests that record a program",
        required: false,
    },
    SystemTool {
        programs: &["mipsel-linux-gnu-gcc"],
        package: "gcc-mipsel-linux-gnu libc6-dev-mipsel-cross",
        needed_for: "the tests that compile kernels for MIPS",
        required: false,
    },
    SystemTool {
        programs: &["clang"],
        package: "clang libomp-dev",
        needed_for: "the tests that run OpenMP programs on LLVM's runtime",
        required: false,
    },
    SystemTool {
        programs: &["gfortran"],
        package: "gfortran",
        needed_for: "the tests that run OpenMP programs in Fortran",
        required: false,
    },
    SystemTool {
        programs: &["qemu-x86_64", "qemu-mipsel"],
        package: "qemu-user",
        needed_for: "the tests that record a program thread by thread, or run programs of other processors",
        required: false,
    },
    SystemTool {
        programs: &["chromium", "chromium-browser", "google-chrome"],
        package: "chromium",
        needed_for: "the test that opens the report in a browser",
        required: false,
    },
];

/// Parts of the toolchain: how to ask for one, how to install it.
const COMPONENTS: &[(&[&str], &[&str])] = &[
    (
        &["cargo", "fmt", "--version"],
        &["rustup", "component", "add", "rustfmt"],
    ),
    (
        &["cargo", "clippy", "--version"],
        &["rustup", "component", "add", "clippy"],
    ),
];

/// Subcommands of cargo that [`REQUIREMENTS`] lists.
const SUBCOMMANDS: &[&str] = &["deny", "fuzz"];

/// The list of packages that pip installs, with their hashes.
const REQUIREMENTS: &str = "xtask/tools/requirements.txt";

/// Where pip puts them; its `bin` is on the `PATH` of every command that the runner starts.
pub(super) const FOLDER: &str = "target/tools";

pub(super) fn ensure(runner: &Runner) -> Outcome {
    let mut wrong = Vec::new();
    let mut absent = Vec::new();
    for tool in system(runner) {
        let line = format!(
            "{} is missing (for {}): apt-get install {}",
            tool.programs[0], tool.needed_for, tool.package
        );
        if tool.required {
            wrong.push(line);
        } else {
            absent.push(line);
        }
    }
    for (probe, how) in COMPONENTS {
        if runner.works(probe) {
            continue;
        }
        let ending = runner.run(how, 600);
        if ending.is_err() || !runner.works(probe) {
            let (Ok(output) | Err(Failed(output) | Skipped(output))) = ending;
            let (what, how) = (probe[..2].join(" "), how.join(" "));
            wrong.push(format!("{output}`{what}` does not work: {how}"));
        }
    }
    absent.extend(subcommands(runner));
    match (wrong.is_empty(), absent.is_empty()) {
        (false, _) => Err(Failed([wrong, absent].concat().join("\n"))),
        (true, false) => Err(Skipped(absent.join("; "))),
        (true, true) => Ok(()),
    }
}

/// Returns the programs of the system that are missing and cannot be installed.
fn system(runner: &Runner) -> Vec<&'static SystemTool> {
    let present = |tool: &SystemTool| {
        let mut programs = tool.programs.iter();
        programs.any(|program| runner.works(&[program, "--version"]))
    };
    let mut missing: Vec<&SystemTool> = SYSTEM.iter().filter(|tool| !present(tool)).collect();
    let debian = Path::new("/etc/debian_version").exists();
    if !missing.is_empty() && debian && rustix::process::geteuid().is_root() {
        let limit = Duration::from_secs(600);
        let quiet = [("DEBIAN_FRONTEND", "noninteractive")];
        let _ = runner.run_words(&["apt-get", "update"], &quiet, limit);
        // Another program may be installing packages.
        let mut words = vec!["apt-get", "-o", "DPkg::Lock::Timeout=120"];
        words.extend(["install", "--yes", "--no-install-recommends"]);
        words.extend(missing.iter().flat_map(|tool| tool.package.split(' ')));
        if let Err(Failed(output)) = runner.run_words(&words, &quiet, limit) {
            let errors = output.lines().filter(|line| line.starts_with("E:"));
            errors.for_each(|line| println!("apt-get: {line}"));
        }
        missing.retain(|tool| !present(tool));
    }
    missing
}

/// Installs the subcommands of cargo that are missing; returns a line for each that still is.
fn subcommands(runner: &Runner) -> Vec<String> {
    let missing = |name: &&&str| !runner.works(&["cargo", name, "--version"]);
    if SUBCOMMANDS.iter().any(|name| missing(&name)) {
        let pip = ["python3", "-m", "pip", "install", "--quiet", "--no-deps"];
        let rest = ["--require-hashes", "--only-binary", ":all:"];
        let place = ["--upgrade", "--target", FOLDER, "-r", REQUIREMENTS];
        let words = [&pip[..], &rest, &place].concat();
        let _ = runner.run(&words, 300);
    }
    let absent = SUBCOMMANDS.iter().filter(missing);
    absent
        .map(|name| {
            format!("cargo-{name} is missing, and pip cannot install it: cargo install --locked cargo-{name}")
        })
        .collect()
}

/// Checks whether the nightly toolchain works. If there is none, installs its smallest form.
pub(super) fn nightly(runner: &Runner) -> Outcome {
    if !cfg!(all(target_os = "linux", target_env = "gnu")) {
        return Err(Skipped("runs on Linux only".into()));
    }
    let probe = ["rustup", "run", "nightly", "rustc", "--version"];
    let install = ["rustup", "toolchain", "install", "nightly"];
    let words = [&install[..], &["--profile", "minimal"]].concat();
    if runner.works(&probe) || runner.run(&words, 600).is_ok() && runner.works(&probe) {
        return Ok(());
    }
    Err(Skipped(format!(
        "no nightly toolchain, and it cannot be installed: {}",
        words.join(" ")
    )))
}

/// Installs components of the nightly toolchain that are not there.
pub(super) fn components(runner: &Runner, names: &[&str]) -> Outcome {
    nightly(runner)?;
    let add = ["rustup", "component", "add", "--toolchain", "nightly"];
    let words = [&add[..], names].concat();
    match runner.run(&words, 300) {
        Ok(_) => Ok(()),
        Err(_) => Err(Skipped(format!(
            "the nightly toolchain lacks a component: {}",
            words.join(" ")
        ))),
    }
}

/// The component that `-Zbuild-std` builds.
pub(super) const STD_SOURCES: &str = "rust-src";
