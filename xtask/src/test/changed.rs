//! `cargo xtask test --changed`: the packages that changed and those that depend on them.

use std::collections::BTreeSet;
use std::time::Duration;

use cargo_metadata::{Metadata, MetadataCommand, Package};

use super::Outcome;
use super::runner::{Ending, Runner};

/// Files outside of every package, by the start of their path, and the package whose tests read them. `*` stands for every package.
const OUTSIDE: &[(&str, &str)] = &[
    ("Cargo.toml", "*"),
    ("Cargo.lock", "*"),
    ("README.md", "tanada-runtime"),
    ("docs/", "tanada-runtime"),
    ("demo/", "tanada-workloads"),
];

/// What is tested: packages by name.
pub(super) struct Selection {
    /// With a changed file, or whose tests read one.
    changed: BTreeSet<String>,
    /// The changed packages and all that depend on one of them.
    affected: Vec<Affected>,
}

struct Affected {
    name: String,
    /// Integration tests of the package. `None`: all are quick, so that cargo need not be told which.
    quick: Option<Vec<String>>,
    has_library: bool,
}

impl Selection {
    /// The packages with files that differ from `since`. Without `since` that is the merge base of `HEAD` with its upstream or with `main`,
    /// or else `HEAD`.
    pub(super) fn of(runner: &Runner, since: Option<&str>) -> Result<Selection, String> {
        let since = match since {
            Some(revision) => revision.to_owned(),
            None => base(runner),
        };
        let differ = ["git", "diff", "--name-only", "--no-renames", &since];
        let new = ["git", "ls-files", "--others", "--exclude-standard"];
        let mut files = runner
            .list(&differ)
            .ok_or(format!("git knows no revision `{since}`"))?;
        files.extend(runner.list(&new).ok_or("git lists no files")?);
        let metadata = MetadataCommand::new()
            .current_dir(&runner.root)
            .no_deps()
            .exec()
            .map_err(|error| error.to_string())?;
        Ok(select(&metadata, &files))
    }

    /// One line for the reader.
    pub(super) fn describe(&self) -> String {
        let names = |names: &mut dyn Iterator<Item = &String>| {
            let names: Vec<&str> = names.map(String::as_str).collect();
            names.join(", ")
        };
        let mut dependents = self.affected.iter().map(|affected| &affected.name);
        let mut dependents = dependents
            .by_ref()
            .filter(|name| !self.changed.contains(*name));
        match self.changed.is_empty() {
            true => "no package changed".into(),
            false => format!(
                "changed: {}; depend on them: {}",
                names(&mut self.changed.iter()),
                names(&mut dependents)
            ),
        }
    }

    pub(super) fn clippy(&self, runner: &Runner) -> Outcome {
        let mut words = vec!["cargo", "clippy", "--all-targets"];
        words.extend(self.packages());
        words.extend(["--", "-D", "warnings"]);
        self.run(runner, &[words])
    }

    /// Unit tests and quick integration tests of every affected package, and doc tests of the changed ones.
    pub(super) fn test(&self, runner: &Runner) -> Outcome {
        let mut all = vec!["cargo", "test", "--no-fail-fast"];
        let mut commands = Vec::new();
        let whole = |affected: &&Affected| affected.quick.is_none();
        for affected in self.affected.iter().filter(whole) {
            all.extend(["--package", &affected.name]);
        }
        if self.affected.iter().any(|affected| whole(&affected)) {
            commands.push([&all[..], &["--lib", "--bins", "--tests"]].concat());
        }
        for affected in &self.affected {
            let Some(tests) = &affected.quick else {
                continue;
            };
            let mut words = vec!["cargo", "test", "--no-fail-fast", "--package"];
            words.extend([affected.name.as_str(), "--bins"]);
            words.extend(affected.has_library.then_some("--lib"));
            words.extend(tests.iter().flat_map(|test| ["--test", test]));
            commands.push(words);
        }
        let documented = self
            .affected
            .iter()
            .filter(|affected| affected.has_library && self.changed.contains(&affected.name));
        let mut docs = vec!["cargo", "test", "--doc"];
        docs.extend(documented.flat_map(|affected| ["--package", &affected.name]));
        if docs.len() > 3 {
            commands.push(docs);
        }
        self.run(runner, &commands)
    }

    fn packages(&self) -> impl Iterator<Item = &str> {
        let affected = self.affected.iter();
        affected.flat_map(|affected| ["--package", affected.name.as_str()])
    }

    fn run(&self, runner: &Runner, commands: &[Vec<&str>]) -> Outcome {
        if self.affected.is_empty() {
            return Outcome::Passed;
        }
        let mut wrong = String::new();
        for words in commands {
            match runner.run_words(words, &[], Duration::from_secs(1800)) {
                Ending { success: true, .. } => {}
                ending => wrong += &ending.output,
            }
        }
        match wrong.is_empty() {
            true => Outcome::Passed,
            false => Outcome::Failed(wrong),
        }
    }
}

/// The revision that the work began from.
fn base(runner: &Runner) -> String {
    let upstreams = ["@{upstream}", "origin/main", "main"];
    let bases = upstreams.iter().filter_map(|upstream| {
        let lines = runner.list(&["git", "merge-base", "HEAD", upstream])?;
        lines.into_iter().next()
    });
    bases.into_iter().next().unwrap_or_else(|| "HEAD".into())
}

fn select(metadata: &Metadata, files: &[String]) -> Selection {
    let packages = metadata.workspace_packages();
    let folder = |package: &Package| {
        let folder = package
            .manifest_path
            .parent()
            .expect("a file is in a folder");
        let folder = folder.strip_prefix(&metadata.workspace_root);
        format!("{}/", folder.map_or("", |folder| folder.as_str()))
    };
    let mut changed = BTreeSet::new();
    for file in files {
        let owner = packages
            .iter()
            .find(|package| file.starts_with(&folder(package)));
        let outside = OUTSIDE.iter().find(|(start, _)| file.starts_with(start));
        match (owner, outside) {
            (Some(package), _) => _ = changed.insert(package.name.to_string()),
            (None, Some((_, "*"))) => {
                changed.extend(packages.iter().map(|package| package.name.to_string()));
            }
            (None, Some((_, name))) => _ = changed.insert((*name).to_owned()),
            (None, None) => {} // read by the rules of `tidy` only
        }
    }
    let mut names = changed.clone();
    loop {
        let depends = |package: &&&Package| {
            let mut dependencies = package.dependencies.iter();
            !names.contains(package.name.as_str())
                && dependencies.any(|dependency| names.contains(&dependency.name))
        };
        let more: Vec<String> = packages
            .iter()
            .filter(depends)
            .map(|package| package.name.to_string())
            .collect();
        if more.is_empty() {
            break;
        }
        names.extend(more);
    }
    let affected = packages
        .iter()
        .filter(|package| names.contains(package.name.as_str()));
    Selection {
        changed,
        affected: affected.map(|package| affected_package(package)).collect(),
    }
}

/// A package names its slow integration tests in its manifest: `[package.metadata.xtask] slow = ["NAME"]`.
fn affected_package(package: &Package) -> Affected {
    let slow = package.metadata["xtask"]["slow"].as_array();
    let slow: Vec<&str> = slow
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str())
        .collect();
    let tests = package.targets.iter().filter(|target| target.is_test());
    let quick = tests.filter(|target| !slow.contains(&target.name.as_str()));
    Affected {
        name: package.name.to_string(),
        quick: (!slow.is_empty()).then(|| quick.map(|target| target.name.clone()).collect()),
        has_library: package.targets.iter().any(|target| target.is_lib()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> Metadata {
        MetadataCommand::new()
            .current_dir(crate::root())
            .no_deps()
            .other_options(vec!["--offline".to_owned()])
            .exec()
            .expect("the workspace")
    }

    fn selected(files: &[&str]) -> (Vec<String>, Vec<String>) {
        let metadata = workspace();
        let files: Vec<String> = files.iter().map(|file| file.to_string()).collect();
        let selection = select(&metadata, &files);
        let affected = selection.affected.into_iter().map(|affected| affected.name);
        (selection.changed.into_iter().collect(), affected.collect())
    }

    #[test]
    fn what_depends_on_a_changed_package_is_affected() {
        let (changed, affected) = selected(&["crates/policy/src/ts.rs"]);
        assert_eq!(changed, ["tanada-policy"]);
        for name in ["tanada-policy", "tanada-laws", "tanada-runtime", "tanada"] {
            assert!(affected.iter().any(|found| found == name), "{name}");
        }
        for name in ["tanada-topology", "tanada-queues", "tanada-h264", "xtask"] {
            assert!(!affected.iter().any(|found| found == name), "{name}");
        }
    }

    #[test]
    fn files_outside_of_packages_belong_to_whose_tests_read_them() {
        assert_eq!(selected(&["README.md"]).0, ["tanada-runtime"]);
        assert_eq!(selected(&["LICENSE-MIT", "deny.toml"]).1.len(), 0);
        let (changed, affected) = selected(&["Cargo.lock"]);
        assert_eq!(changed.len(), affected.len());
        assert!(changed.len() > 10);
    }

    #[test]
    fn manifests_name_slow_tests_that_exist() {
        for package in workspace().workspace_packages() {
            let slow = package.metadata["xtask"]["slow"].as_array();
            for name in slow.into_iter().flatten() {
                let mut tests = package.targets.iter().filter(|target| target.is_test());
                assert!(
                    tests.any(|test| *name == test.name),
                    "{}: {name}",
                    package.name
                );
            }
        }
    }
}
