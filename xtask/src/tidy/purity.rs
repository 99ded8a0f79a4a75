//! Policies are functions of what they are handed; the engines meet only through the traits that policies implement.

use super::code::{has_word, without_comments_and_strings, without_tests};
use super::{Report, Workspace};

const POLICY: &str = "crates/policy/src/";

/// What no policy may mention, and what it would break (ARCHITECTURE.md, Code map).
const BANNED: &[(&str, &[&str])] = &[
    ("unsafe code", &["unsafe"]),
    (
        "a clock",
        &["std::time", "core::time", "Instant", "SystemTime"],
    ),
    (
        "a thread",
        &["std::thread", "thread::spawn", "thread::sleep"],
    ),
    (
        "input or output",
        &[
            "std::fs",
            "std::net",
            "std::io",
            "std::env",
            "std::process",
            "println!",
            "print!",
            "eprintln!",
            "eprint!",
            "dbg!",
        ],
    ),
    (
        "global state",
        &[
            "static mut",
            "thread_local!",
            "lazy_static!",
            "LazyLock",
            "LazyCell",
        ],
    ),
    (
        "a hash map, whose order differs from run to run",
        &["HashMap", "HashSet", "RandomState", "DefaultHasher"],
    ),
    (
        "a random number that is not `Env`'s",
        &["rand", "fastrand", "getrandom", "oorandom", "thread_rng"],
    ),
];

/// Modules that a `use std::{...}` could bring in under a short name.
const BANNED_MODULES: &[&str] = &["time", "thread", "fs", "net", "io", "env", "process"];

/// Types whose value can change behind a shared reference.
const CELLS: &[&str] = &[
    "Mutex",
    "RwLock",
    "Cell",
    "RefCell",
    "UnsafeCell",
    "OnceCell",
    "OnceLock",
    "Atomic",
    "Condvar",
];

/// Crates that a policy must not have at hand.
const BANNED_CRATES: &[&str] = &[
    "rand",
    "fastrand",
    "getrandom",
    "oorandom",
    "quanta",
    "chrono",
    "time",
    "instant",
    "rayon",
    "tokio",
    "libc",
    "rustix",
    "once_cell",
    "lazy_static",
];

pub(super) fn policy(workspace: &Workspace, report: &mut Report) {
    for (path, text) in workspace
        .texts(".rs")
        .filter(|(path, _)| path.starts_with(POLICY) && !path.ends_with("/tests.rs"))
    {
        let code = without_tests(&without_comments_and_strings(text));
        for (number, line) in (1..).zip(code.lines()) {
            for (what, words) in BANNED {
                for word in words.iter().filter(|word| has_word(line, word)) {
                    report.found(
                        path,
                        number,
                        format!(
                            "`{word}`: a policy has no {}",
                            what.trim_start_matches("a ")
                        ),
                    );
                }
            }
        }
        for (number, statement) in statements(&code) {
            imports(path, number, &statement, report);
            statics(path, number, &statement, report);
        }
    }
    if workspace
        .text("crates/policy/src/lib.rs")
        .is_some_and(|text| !text.contains("#![forbid(unsafe_code)]"))
    {
        report.found(
            "crates/policy/src/lib.rs",
            0,
            "`#![forbid(unsafe_code)]` is missing",
        );
    }
    for package in workspace
        .packages
        .iter()
        .filter(|package| package.name == "tanada-policy")
    {
        for name in package
            .normal
            .iter()
            .filter(|name| BANNED_CRATES.contains(&name.as_str()))
        {
            report.found(
                "crates/policy/Cargo.toml",
                0,
                format!("a policy must not have `{name}` at hand"),
            );
        }
    }
}

/// Statements that begin with `use` or `static`, joined to one line, with the number of their first.
fn statements(code: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (number, line) in (1..).zip(code.lines()) {
        let bare = line.trim_start();
        let bare = bare
            .strip_prefix("pub ")
            .or_else(|| bare.strip_prefix("pub(crate) "))
            .unwrap_or(bare);
        if !open && (bare.starts_with("use ") || bare.starts_with("static ")) {
            found.push((number, String::new()));
            open = true;
        }
        if let (true, Some((_, statement))) = (open, found.last_mut()) {
            statement.push_str(bare.trim());
            statement.push(' ');
            open = !line.contains(';');
        }
    }
    found
}

fn imports(path: &str, number: usize, statement: &str, report: &mut Report) {
    let Some(rest) = statement
        .strip_prefix("use std::{")
        .or_else(|| statement.strip_prefix("use core::{"))
    else {
        return;
    };
    for module in BANNED_MODULES {
        let mut depth = 0;
        // Only a name at the outer level of the braces is a module of std itself.
        let names = rest.split_inclusive([',', '{', '}']).filter(|part| {
            let outer = depth == 0;
            depth += part.matches('{').count() as i32 - part.matches('}').count() as i32;
            outer
        });
        for name in names {
            let name = name.trim().trim_end_matches([',', '{', '}']);
            if name
                .split("::")
                .next()
                .unwrap_or(name)
                .split_whitespace()
                .next()
                == Some(module)
            {
                report.found(
                    path,
                    number,
                    format!("`std::{module}`: a policy has no use for it"),
                );
            }
        }
    }
}

fn statics(path: &str, number: usize, statement: &str, report: &mut Report) {
    if !statement.starts_with("static ") {
        return;
    }
    let kind = statement.split('=').next().unwrap_or(statement);
    if CELLS.iter().any(|cell| kind.contains(cell)) {
        report.found(
            path,
            number,
            "a static that can change: a policy has no global state",
        );
    }
}

/// The native engine and the simulated one, by folder and crate.
const ENGINES: [(&str, &str); 2] = [
    ("crates/runtime/", "tanada_sim"),
    ("crates/sim/", "tanada_runtime"),
];

pub(super) fn engines(workspace: &Workspace, report: &mut Report) {
    for (folder, other) in ENGINES {
        for (path, text) in workspace
            .texts(".rs")
            .filter(|(path, _)| path.starts_with(folder))
        {
            for (number, line) in (1..).zip(without_comments_and_strings(text).lines()) {
                if has_word(line, other) {
                    report.found(
                        path,
                        number,
                        format!("`{other}`: the engines do not know each other"),
                    );
                }
            }
        }
        let dashed = other.replace('_', "-");
        let manifest = format!("{folder}Cargo.toml");
        if workspace.text(&manifest).is_some_and(|text| {
            text.lines()
                .any(|line| line.trim_start().starts_with(&dashed))
        }) {
            report.found(
                &manifest,
                0,
                format!("`{dashed}`: the engines do not know each other"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_policy(code: &str) -> String {
        Workspace::of(&[("crates/policy/src/x.rs", code)]).findings(policy)
    }

    #[test]
    fn every_banned_thing_is_found() {
        for code in [
            "fn f() { unsafe { g() } }",
            "use std::time::Duration;",
            "let t = Instant::now();",
            "std::thread::spawn(f);",
            "use std::{\n    fmt,\n    time::Duration,\n};",
            "use std::{fs, fmt};",
            "pub use std::{fmt::{self, Debug}, io};",
            "use std::fs::File;",
            "println!(\"x\");",
            "static mut COUNT: u32 = 0;",
            "static COUNT: AtomicU64 = AtomicU64::new(0);",
            "pub(crate) static SEEN:\n    Mutex<u32> = Mutex::new(0);",
            "static ONCE: OnceLock<u32> = OnceLock::new();",
            "thread_local! { static X: u8 = 0; }",
            "use std::collections::HashMap;",
            "let s: HashSet<u8>;",
            "let x = rand::random();",
            "fastrand::u8(..)",
        ] {
            assert!(
                in_policy(code).starts_with("crates/policy/src/x.rs:"),
                "{code}"
            );
        }
    }

    #[test]
    fn what_is_allowed_is_not_found() {
        for code in [
            "// no HashMap, no Instant\nfn f() {}",
            "const WHY: &str = \"println! and unsafe\";",
            "use std::{fmt, sync::{atomic::AtomicU64, OnceLock}};",
            "struct Pool { lock: Mutex<u32>, once: OnceLock<u8> }",
            "static ALL: &[Entry] = &[];",
            "fn operand(random: u64) {}",
            "#[cfg(test)]\nmod tests {\n    use std::collections::HashMap;\n}",
        ] {
            assert_eq!(in_policy(code), "", "{code}");
        }
    }

    #[test]
    fn policies_forbid_unsafe_code_and_take_no_crate_with_a_clock() {
        let workspace = Workspace::of(&[("crates/policy/src/lib.rs", "//! x\n")]).package(
            "policy",
            &["fastrand", "parking_lot"],
            &[],
        );
        let findings = workspace.findings(policy);
        assert!(
            findings.contains("is missing") && findings.contains("`fastrand` at hand"),
            "{findings}"
        );
        assert_eq!(findings.lines().count(), 2);
    }

    #[test]
    fn engines_that_know_each_other_are_found() {
        let workspace = Workspace::of(&[
            (
                "crates/runtime/src/a.rs",
                "// tanada_sim may be named here\nuse tanada_sim::Machine;",
            ),
            (
                "crates/sim/Cargo.toml",
                "[dev-dependencies]\ntanada-runtime.workspace = true\n",
            ),
            (
                "crates/cli/src/main.rs",
                "use tanada_sim::Machine; use tanada_runtime::Pool;",
            ),
        ]);
        let findings = workspace.findings(engines);
        assert!(
            findings.contains("crates/runtime/src/a.rs:2: `tanada_sim`"),
            "{findings}"
        );
        assert!(
            findings.contains("crates/sim/Cargo.toml: `tanada-runtime`"),
            "{findings}"
        );
        assert_eq!(findings.lines().count(), 2);
    }
}
