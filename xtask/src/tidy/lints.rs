//! What the compiler and clippy hold, and the little about code that neither of them does.
//!
//! `[workspace.lints]` in the root `Cargo.toml` denies unsafe code outside of modules that are allowed it, and unsafe blocks without a
//! `SAFETY` comment. `crates/policy/clippy.toml` lists the types, functions and macros that no policy may use.

use super::{Report, Workspace};

/// Every crate takes over the lints of the workspace: a crate without them could hold unsafe code without a word.
pub(super) fn inherited(workspace: &Workspace, report: &mut Report) {
    for package in &workspace.packages {
        let manifest = format!("{}/Cargo.toml", package.folder);
        let text = workspace.text(&manifest);
        if text.is_some_and(|text| !text.contains("[lints]\nworkspace = true\n")) {
            let why = "`[lints]` with `workspace = true` is missing: unsafe code would be allowed";
            report.found(&manifest, 0, why);
        }
    }
}

/// No policy has a global variable. Every `static` is refused but the registry's table: a `static` that cannot change may be a `const`.
pub(super) fn statics(workspace: &Workspace, report: &mut Report) {
    const POLICY: &str = "crates/policy/src/";
    const REGISTRY: &str = "static ALL: &[Entry]";
    let texts = workspace.texts(".rs");
    for (path, text) in texts.filter(|(path, _)| path.starts_with(POLICY)) {
        for (number, line) in (1..).zip(text.lines()) {
            let item = line.trim_start();
            let visibility = ["pub(crate) ", "pub(super) ", "pub "];
            let mut stripped = visibility.iter().filter_map(|word| item.strip_prefix(word));
            let item = stripped.next().unwrap_or(item);
            if item.starts_with("static ") && !item.starts_with(REGISTRY) {
                report.found(path, number, "a policy has no global state");
            }
        }
    }
}

/// The `Debug` form of a library's error is its message, because a `main` that returns the error prints that form.
pub(super) fn errors(workspace: &Workspace, report: &mut Report) {
    const NO_LIBRARIES: [&str; 5] = ["cli", "laws", "peers", "soak", "testing"];
    let library = |path: &str| {
        let mut folders = path.split('/');
        folders.next() == Some("crates")
            && folders
                .next()
                .is_some_and(|name| !NO_LIBRARIES.contains(&name))
            && folders.next() == Some("src")
    };
    const WHY: &str = "an error's `Debug` writes its `Display`: implement it by hand";
    for (path, text) in workspace.texts(".rs").filter(|(path, _)| library(path)) {
        for (number, line) in (1..).zip(text.lines()) {
            let derived = line.trim_start().strip_prefix("#[derive(");
            let derived = derived.map(|list| list.trim_end_matches(")]").split(", "));
            let derived: Vec<&str> = derived.into_iter().flatten().collect();
            let is_error = derived
                .iter()
                .any(|name| ["Error", "thiserror::Error"].contains(name));
            let implemented = line
                .strip_prefix("impl ")
                .and_then(|line| line.split_once("Error for "));
            let without = implemented.is_some_and(|(before, name)| {
                let name = name.trim_end_matches([' ', '{', '}']);
                ["", "std::error::"].contains(&before)
                    && !text.contains(&format!("Debug for {name} {{"))
            });
            if without || is_error && derived.contains(&"Debug") {
                report.found(path, number, WHY);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_crate_without_the_lints_is_found() {
        let workspace = |manifest| {
            Workspace::of(&[("crates/queues/Cargo.toml", manifest)]).package("queues", &[], &[])
        };
        let good = workspace("[package]\n\n[lints]\nworkspace = true\n");
        assert_eq!(good.findings(inherited), "");
        let bad = workspace("[package]\n\n[lints.rust]\nunsafe_code = \"allow\"\n");
        assert!(
            bad.findings(inherited)
                .starts_with("crates/queues/Cargo.toml: ")
        );
    }

    #[test]
    fn a_static_of_a_policy_is_found() {
        let code = "use a::static_b;\npub(crate) static COUNT: AtomicU64 = AtomicU64::new(0);\n";
        let workspace = Workspace::of(&[
            ("crates/policy/src/x.rs", code),
            ("crates/runtime/src/x.rs", code),
            (
                "crates/policy/src/y.rs",
                "fn f(x: &'static str) {\n    static ALL: &[Entry] = &[];\n}\n",
            ),
        ]);
        assert_eq!(
            workspace.findings(statics),
            "crates/policy/src/x.rs:2: a policy has no global state"
        );
    }

    #[test]
    fn an_error_whose_debug_form_is_derived_is_found() {
        let derived =
            "#[derive(Clone, Debug, thiserror::Error)]\n#[error(\"no\")]\npub struct A;\n";
        let by_hand = "#[derive(Debug)]\npub struct A;\n\nimpl std::error::Error for A {}\n";
        let good = "pub struct A;\n\nimpl fmt::Debug for A {\n}\n\nimpl Error for A {\n}\n";
        let workspace = Workspace::of(&[
            ("crates/sim/src/a.rs", derived),
            ("crates/sim/src/b.rs", by_hand),
            ("crates/sim/src/c.rs", good),
            ("crates/sim/tests/d.rs", derived),
            ("crates/cli/src/e.rs", by_hand),
        ]);
        let found = workspace.findings(errors);
        assert_eq!(found.lines().count(), 2, "{found}");
        assert!(
            found.contains("sim/src/a.rs:1: an error's `Debug`"),
            "{found}"
        );
        assert!(
            found.contains("sim/src/b.rs:4: an error's `Debug`"),
            "{found}"
        );
    }

    /// Compiles `code` as clippy does in a crate with the lints of the workspace and returns whether that succeeds, with the output;
    /// `folder` is where its `clippy.toml` lies.
    fn clippy(folder: &str, code: &str) -> (bool, String) {
        let place = tempfile::tempdir().expect("a folder");
        let file = place.path().join("lib.rs");
        std::fs::write(&file, code).expect("a file");
        let manifest = std::fs::read_to_string(crate::root().join("Cargo.toml")).expect("a file");
        assert!(manifest.contains("\nunsafe_code = \"deny\"\n"));
        assert!(manifest.contains("\nundocumented_unsafe_blocks = \"deny\"\n"));
        let output = Command::new("clippy-driver")
            .args([
                "--edition",
                "2024",
                "--crate-type",
                "lib",
                "--emit",
                "metadata",
            ])
            .args(["-D", "warnings", "-D", "unsafe_code"])
            .args(["-D", "clippy::undocumented_unsafe_blocks"])
            .arg("--out-dir")
            .arg(place.path())
            .arg(file)
            .env("CLIPPY_CONF_DIR", crate::root().join(folder))
            .output()
            .expect("clippy is installed");
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    }

    #[test]
    fn unsafe_code_is_refused_unless_allowed_and_explained() {
        const CALL: &str = "pub fn f(x: &[u8]) -> u8 {\n    unsafe { *x.get_unchecked(0) }\n}\n";
        let (passed, output) = clippy("", CALL);
        assert!(
            !passed && output.contains("usage of an `unsafe` block"),
            "{output}"
        );
        let allowed = format!("#![allow(unsafe_code)]\n{CALL}");
        let (passed, output) = clippy("", &allowed);
        assert!(
            !passed && output.contains("missing a safety comment"),
            "{output}"
        );
        let explained = allowed.replace("    unsafe", "    // SAFETY: a test.\n    unsafe");
        let (passed, output) = clippy("", &explained);
        assert!(passed, "{output}");
    }

    #[test]
    fn every_line_of_the_policies_clippy_toml_catches_a_violation() {
        const FOLDER: &str = "crates/policy";
        let list = std::fs::read_to_string(crate::root().join(FOLDER).join("clippy.toml"));
        let list = list.expect("the list");
        let mut code = String::new();
        let mut paths = Vec::new();
        let mut section = "";
        for line in list.lines() {
            if let Some((name, _)) = line.split_once(" = [") {
                section = name;
            }
            let path = line.split("path = \"").nth(1);
            let Some(path) = path.and_then(|rest| rest.split('"').next()) else {
                continue;
            };
            paths.push(path);
            code += &match section {
                "disallowed-types" => format!("pub use {path};\n"),
                _ => String::new(),
            };
            code += &match (section, path) {
                ("disallowed-macros", "std::thread_local") => {
                    "std::thread_local! { static A: u8 = const { 1 }; }\n".to_owned()
                }
                ("disallowed-macros", _) => {
                    format!("pub fn f{}() {{ {path}!(\"\"); }}\n", paths.len())
                }
                ("disallowed-methods", _) => {
                    format!(
                        "pub fn f{}() {{ let _ = {path}{}; }}\n",
                        paths.len(),
                        generics(path)
                    )
                }
                _ => String::new(),
            };
        }
        assert!(paths.len() > 100, "the list was not read");
        let (passed, output) = clippy(FOLDER, &code);
        assert!(!passed);
        for path in paths {
            let found = ["type", "method", "macro"]
                .iter()
                .any(|kind| output.contains(&format!("use of a disallowed {kind} `{path}`")));
            assert!(found, "`{path}` is not found:\n{code}\n{output}");
        }
    }

    /// Returns the arguments without which a generic function cannot be named as a value.
    fn generics(path: &str) -> &'static str {
        const TWO_PATHS: &[&str] = &[
            "copy",
            "hard_link",
            "rename",
            "soft_link",
            "symlink",
            "write",
            "set_var",
        ];
        const ONE_NAME: &[&str] = &["remove_var", "set_current_dir", "var", "var_os"];
        let (module, name) = path.rsplit_once("::").expect("a path");
        let files = module.ends_with("::fs");
        match path {
            "std::thread::spawn" => "::<fn(), ()>",
            "std::thread::scope" => "::<fn(&std::thread::Scope<'_, '_>), ()>",
            "std::os::unix::fs::fchown" => "::<std::fs::File>",
            _ if name.ends_with("channel") => "::<u8>",
            _ if TWO_PATHS.contains(&name) => "::<&str, &str>",
            _ if files || ONE_NAME.contains(&name) => "::<&str>",
            _ => "",
        }
    }
}
