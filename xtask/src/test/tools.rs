//! What the checks need beyond cargo: found, installed, or named with the command to type.

use std::path::Path;
use std::time::Duration;

use super::Outcome;
use super::runner::Runner;

/// A program of the system.
struct SystemTool {
    /// Any of these will do.
    programs: &'static [&'static str],
    /// Its package in Debian.
    package: &'static str,
    needed_for: &'static str,
    /// Without it nothing can be built.
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
        programs: &[
            "chromium",
            "chromium-browser",
            "google-chrome",
            "google-chrome-stable",
        ],
        package: "chromium",
        needed_for: "the test that opens the report in a browser",
        required: false,
    },
];

/// A part of cargo: how to ask for it, how to install it.
const CARGO_TOOLS: &[(&[&str], &[&str])] = &[
    (
        &["cargo", "fmt", "--version"],
        &["rustup", "component", "add", "rustfmt"],
    ),
    (
        &["cargo", "clippy", "--version"],
        &["rustup", "component", "add", "clippy"],
    ),
    // Unoptimised it is built in a third of the time and checks as well.
    (
        &["cargo", "deny", "--version"],
        &["cargo", "install", "--locked", "--debug", "cargo-deny"],
    ),
];

pub(super) fn ensure(runner: &Runner) -> Outcome {
    let mut missing: Vec<&SystemTool> = SYSTEM
        .iter()
        .filter(|tool| !present(runner, tool))
        .collect();
    let mut outputs = Vec::new();
    if !missing.is_empty()
        && rustix::process::geteuid().is_root()
        && Path::new("/etc/debian_version").exists()
    {
        outputs.push(install(runner, &missing));
        missing.retain(|tool| !present(runner, tool));
    }
    let mut wrong = String::new();
    let mut absent = String::new();
    for tool in missing {
        let line = format!(
            "{} is missing (for {}): apt-get install {}",
            tool.programs[0], tool.needed_for, tool.package
        );
        let list = if tool.required {
            &mut wrong
        } else {
            &mut absent
        };
        *list += &format!("{line}\n");
    }
    for (probe, how) in CARGO_TOOLS {
        if runner.works(probe) {
            continue;
        }
        let ending = runner.run_words(how, &[], Duration::from_secs(600));
        if !ending.success || !runner.works(probe) {
            wrong += &format!(
                "{}`{}` does not work: {}\n",
                ending.output,
                probe[..2].join(" "),
                how.join(" ")
            );
        }
    }
    match (wrong.is_empty(), absent.is_empty()) {
        (false, _) => Outcome::Failed(format!("{}{wrong}{}", outputs.concat(), absent.trim_end())),
        (true, false) => Outcome::Skipped(absent.trim_end().replace('\n', "; ")),
        (true, true) => Outcome::Passed,
    }
}

fn present(runner: &Runner, tool: &SystemTool) -> bool {
    tool.programs
        .iter()
        .any(|program| runner.works(&[program, "--version"]))
}

fn install(runner: &Runner, tools: &[&SystemTool]) -> String {
    let limit = Duration::from_secs(600);
    let quiet = [("DEBIAN_FRONTEND", "noninteractive")];
    let update = runner.run_words(&["apt-get", "update"], &quiet, limit);
    let mut words = vec!["apt-get", "install", "--yes", "--no-install-recommends"];
    words.extend(tools.iter().map(|tool| tool.package));
    let install = runner.run_words(&words, &quiet, limit);
    if install.success {
        String::new()
    } else {
        update.output + &install.output
    }
}
