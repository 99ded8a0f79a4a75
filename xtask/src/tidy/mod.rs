//! Rules about the workspace's own text: what the design promises about the code is checked here, not hoped for.
//!
//! A rule reads a [`Workspace`] and reports findings; each has a test that shows it catching a violation.

mod crates;
mod documents;
mod generated;
mod lints;
mod text;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use clap::Args;

/// How `cargo xtask tidy` is called.
#[derive(Args)]
pub(crate) struct Options {
    /// Renews the generated tables of ARCHITECTURE.md first
    #[arg(long)]
    write: bool,
}

/// The files and crates of the project. Built in memory by the tests of the rules.
#[derive(Default)]
pub(crate) struct Workspace {
    /// Path from the root, with `/`, to the file.
    files: BTreeMap<String, File>,
    packages: Vec<Package>,
    /// What [`crates::read_locked`] returns.
    locked: Option<Vec<(String, String)>>,
}

struct File {
    bytes: u64,
    /// `None`: not UTF-8.
    text: Option<String>,
}

/// A crate of the workspace.
struct Package {
    name: String,
    /// Its folder, from the root.
    folder: String,
    /// Names of the crates that it depends on, also those outside of the workspace: sorted, those of the code first.
    dependencies: Vec<(String, Kind)>,
}

impl Package {
    /// Returns the names of the crates that the package's tests (if `tests`), or its code and its build script, depend on.
    fn needs(&self, tests: bool) -> impl Iterator<Item = &str> {
        let dependencies = self.dependencies.iter();
        let wanted = dependencies.filter(move |(_, kind)| (*kind == Kind::Test) == tests);
        wanted.map(|(name, _)| name.as_str())
    }
}

/// What a dependency is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Normal,
    Build,
    Test,
}

/// What the rules found.
#[derive(Default)]
pub(crate) struct Report {
    findings: Vec<String>,
    /// Rules, or parts, that could not be checked, and why.
    skipped: Vec<String>,
}

impl Report {
    fn found(&mut self, path: &str, line: usize, message: impl std::fmt::Display) {
        let place = match line {
            0 => path.to_owned(),
            _ => format!("{path}:{line}"),
        };
        self.findings.push(format!("{place}: {message}"));
    }

    fn skipped(&mut self, what: impl Into<String>) {
        self.skipped.push(what.into());
    }
}

type Rule = fn(&Workspace, &mut Report);

/// Every rule by name.
const RULES: &[(&str, Rule)] = &[
    (
        "dependencies point as in ARCHITECTURE.md, Code map",
        crates::dependencies,
    ),
    ("every crate is in the map of ARCHITECTURE.md", crates::map),
    ("the minimal Rust is enough", crates::minimal_rust),
    (
        "the tables of ARCHITECTURE.md are current",
        generated::current,
    ),
    (
        "every crate has the lints of the workspace",
        lints::inherited,
    ),
    ("policies have no global state", lints::statics),
    ("errors are printed as their message", lints::errors),
    ("lines of readable length", text::columns),
    ("no marks, no paths of a machine", text::marks),
    ("no large files", text::large_files),
    ("relative links resolve", documents::links),
    ("the change log keeps its form", documents::changelog),
    ("every policy is described", documents::policies),
];

/// Runs every rule and prints what they find; returns whether nothing was found.
pub(crate) fn run(root: &Path, options: &Options) -> bool {
    check(root, options).unwrap_or_else(|error| {
        eprintln!("tidy: {error}");
        false
    })
}

fn check(root: &Path, options: &Options) -> Result<bool, String> {
    if options.write {
        write(root).map_err(|error| format!("cannot write {}: {error}", generated::DOCUMENT))?;
    }
    let workspace =
        Workspace::read(root).map_err(|error| format!("cannot read the workspace: {error}"))?;
    let mut clean = true;
    for (name, rule) in RULES {
        let mut report = Report::default();
        rule(&workspace, &mut report);
        for skipped in &report.skipped {
            println!("SKIPPED {name}: {skipped}");
        }
        for finding in &report.findings {
            println!("{finding} [{name}]");
        }
        clean &= report.findings.is_empty();
    }
    let (rules, files) = (RULES.len(), workspace.files.len());
    let verdict = if clean { "clean" } else { "violated" };
    println!("tidy: {rules} rules over {files} files: {verdict}");
    Ok(clean)
}

/// Renews the generated tables.
fn write(root: &Path) -> Result<(), String> {
    let workspace = Workspace::read(root)?;
    let text = workspace.text(generated::DOCUMENT).unwrap_or_default();
    let renewed = generated::renew(&workspace, text);
    std::fs::write(root.join(generated::DOCUMENT), renewed).map_err(|error| error.to_string())
}

impl Workspace {
    /// Reads the files that git knows or would take (the whole folder if there is no git), asks cargo for the crates and returns both.
    fn read(root: &Path) -> Result<Workspace, String> {
        let mut files = BTreeMap::new();
        for path in list_files(root)? {
            let Ok(bytes) = std::fs::read(root.join(&path)) else {
                continue;
            }; // deleted, but not yet from the index
            let file = File {
                bytes: bytes.len() as u64,
                text: String::from_utf8(bytes).ok(),
            };
            files.insert(path, file);
        }
        Ok(Workspace {
            files,
            packages: crates::read_packages(root)?,
            locked: crates::read_locked(root),
        })
    }

    /// Returns every text file whose path ends with `ending`.
    fn texts<'a>(&'a self, ending: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let files = self.files.iter();
        let files = files.filter(move |(path, _)| path.ends_with(ending));
        files.filter_map(|(path, file)| Some((path.as_str(), file.text.as_deref()?)))
    }

    /// Returns whether `name` is a crate of the workspace.
    fn has(&self, name: &str) -> bool {
        self.packages.iter().any(|package| package.name == name)
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.text.as_deref()
    }
}

fn list_files(root: &Path) -> Result<Vec<String>, String> {
    let git = Command::new("git")
        .args("ls-files -z --cached --others --exclude-standard".split(' '))
        .current_dir(root)
        .output();
    if let Ok(output) = git
        && output.status.success()
    {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let paths = text.split_terminator('\0');
        return Ok(paths.map(str::to_owned).collect());
    }
    let mut files = Vec::new();
    walk(root, "", &mut files).map_err(|error| error.to_string())?;
    Ok(files)
}

fn walk(root: &Path, below: &str, files: &mut Vec<String>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(root.join(below))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = match below {
            "" => name.clone(),
            _ => format!("{below}/{name}"),
        };
        let ignored = [".git", "target", "corpus", "artifacts"].contains(&name.as_str());
        match entry.file_type()? {
            kind if kind.is_file() => files.push(path),
            kind if kind.is_dir() && !ignored => walk(root, &path, files)?,
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Workspace {
        /// Returns a workspace in memory that holds these texts.
        pub(super) fn of(files: &[(&str, &str)]) -> Workspace {
            let file = |text: &str| File {
                bytes: text.len() as u64,
                text: Some(text.to_owned()),
            };
            let files = files
                .iter()
                .map(|(path, text)| (path.to_string(), file(text)))
                .collect();
            Workspace {
                files,
                ..Workspace::default()
            }
        }

        /// Returns this workspace with a crate in `crates/NAME`, called `tanada-NAME`.
        pub(super) fn package(mut self, name: &str, normal: &[&str], dev: &[&str]) -> Workspace {
            let normal = normal.iter().map(|name| (name.to_string(), Kind::Normal));
            let dev = dev.iter().map(|name| (name.to_string(), Kind::Test));
            self.packages.push(Package {
                name: format!("tanada-{name}"),
                folder: format!("crates/{name}"),
                dependencies: normal.chain(dev).collect(),
            });
            self
        }

        /// Returns what a rule finds, joined by line feeds.
        pub(super) fn findings(&self, rule: Rule) -> String {
            let mut report = Report::default();
            rule(self, &mut report);
            report.findings.join("\n")
        }

        /// Returns what a rule skips, joined by line feeds.
        pub(super) fn skips(&self, rule: Rule) -> String {
            let mut report = Report::default();
            rule(self, &mut report);
            report.skipped.join("\n")
        }
    }

    #[test]
    fn the_workspace_keeps_every_rule() {
        assert!(
            run(&crate::root(), &Options { write: false }),
            "see above; `cargo xtask tidy` shows the same"
        );
    }

    #[test]
    fn without_git_the_folder_is_walked() {
        let folder = tempfile::tempdir().unwrap();
        for path in [
            "a.rs",
            "crates/x/src/lib.rs",
            "target/debug/junk",
            ".git/config",
        ] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let mut files = Vec::new();
        walk(folder.path(), "", &mut files).unwrap();
        files.sort();
        assert_eq!(files, ["a.rs", "crates/x/src/lib.rs"]);
    }
}
