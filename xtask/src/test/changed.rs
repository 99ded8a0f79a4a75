//! `cargo xtask test --changed`: the packages that changed and those that depend on them.

use std::collections::BTreeSet;
use std::path::Path;

use cargo_metadata::{Metadata, MetadataCommand, Package};

use super::runner::Runner;
use super::{Outcome, steps};

/// Files outside of every package, by the start of their path, and the package whose tests read them. `*` stands for every package.
const OUTSIDE: &[(&str, &str)] = &[
    ("Cargo.toml", "*"),
    ("Cargo.lock", "*"),
    ("README.md", "tanada-runtime"),
    ("docs/", "tanada-runtime"),
    ("demo/", "tanada-workloads"),
];

/// What a package says to this check in its manifest, under `[package.metadata.xtask]`.
struct Marks<'a> {
    /// `slow = ["NAME"]`: integration tests that take long; only the whole check runs them.
    slow: Vec<&'a str>,
    /// `program = true`: nothing depends on the package, so it is built only if it is tested.
    program: bool,
}

impl Marks<'_> {
    fn of(package: &Package) -> Marks<'_> {
        let marks = &package.metadata["xtask"];
        let slow = marks["slow"].as_array().into_iter().flatten();
        Marks {
            slow: slow.filter_map(|name| name.as_str()).collect(),
            program: marks["program"].as_bool() == Some(true),
        }
    }
}

/// The packages that are checked, by name.
pub(super) struct Selection {
    /// With a changed file, or whose tests read one.
    changed: BTreeSet<String>,
    /// All that depend on a changed package and did not change.
    dependents: BTreeSet<String>,
    /// Quick integration tests of changed packages and dependents.
    tests: BTreeSet<String>,
    /// Slow ones, which do not run, as `PACKAGE::TEST`.
    left_out: BTreeSet<String>,
    /// Packages without a test to run, which need not be built.
    excluded: BTreeSet<String>,
}

impl Selection {
    /// Selects and returns the packages with files that differ from `since`. Without `since` that is the merge base of `HEAD` with its
    /// upstream or with `main`, or else `HEAD`.
    ///
    /// # Errors
    /// If git or cargo fails, with the reason.
    pub(super) fn of(runner: &Runner, since: Option<&str>) -> Result<Selection, String> {
        let since = since.map_or_else(|| base(runner), str::to_owned);
        let differ = ["git", "diff", "--name-only", "--no-renames", &since];
        let new = ["git", "ls-files", "--others", "--exclude-standard"];
        let differ = runner.list(&differ);
        let mut files = differ.ok_or(format!("git knows no revision `{since}`"))?;
        files.extend(runner.list(&new).ok_or("git lists no files")?);
        Ok(select(&workspace(&runner.root)?, &files))
    }

    /// Returns one line for the reader.
    pub(super) fn describe(&self) -> String {
        let names = |names: &BTreeSet<String>| match names.is_empty() {
            true => "nothing".to_owned(),
            false => Vec::from_iter(names.iter().map(String::as_str)).join(", "),
        };
        let (changed, dependents) = (names(&self.changed), names(&self.dependents));
        format!("changed: {changed}; depends on them: {dependents}")
    }

    pub(super) fn clippy(&self, runner: &Runner) -> Outcome {
        match self.changed.is_empty() {
            true => Ok(()),
            false => steps::run_named("clippy", runner),
        }
    }

    /// Runs unit tests, and the quick integration tests of what changed or depends on it. All packages but programs are named, so that
    /// features are the same from run to run and nothing else is built again.
    pub(super) fn test(&self, runner: &Runner) -> Outcome {
        if self.changed.is_empty() {
            return Ok(());
        }
        let mut words = vec!["cargo", "test", "--no-fail-fast", "--workspace", "--lib"];
        if !self.changed.is_subset(&self.excluded) {
            words.push("--bins");
        }
        words.extend(self.excluded.iter().flat_map(|name| ["--exclude", name]));
        words.extend(self.tests.iter().flat_map(|test| ["--test", test]));
        runner.leave_out(&self.left_out)?;
        runner.run(&words, 1800)?;
        Ok(())
    }
}

fn workspace(root: &Path) -> Result<Metadata, String> {
    let mut command = MetadataCommand::new();
    command.current_dir(root).no_deps();
    command.exec().map_err(|error| error.to_string())
}

/// Returns the revision that the work began from.
fn base(runner: &Runner) -> String {
    let upstreams = ["@{upstream}", "origin/main", "main"];
    let base = upstreams.iter().find_map(|upstream| {
        let lines = runner.list(&["git", "merge-base", "HEAD", upstream])?;
        lines.into_iter().next()
    });
    base.unwrap_or_else(|| "HEAD".into())
}

fn select(metadata: &Metadata, files: &[String]) -> Selection {
    let packages = metadata.workspace_packages();
    let holds = |package: &Package, file: &str| {
        let manifest = package.manifest_path.strip_prefix(&metadata.workspace_root);
        let folder = manifest.map_or("", |path| path.as_str().trim_end_matches("Cargo.toml"));
        file.starts_with(folder)
    };
    let mut changed = BTreeSet::new();
    for file in files {
        let owner = packages.iter().find(|package| holds(package, file));
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
    let mut affected = changed.clone();
    loop {
        let depends = |package: &&&Package| {
            let mut dependencies = package.dependencies.iter();
            !affected.contains(package.name.as_str())
                && dependencies.any(|dependency| affected.contains(&dependency.name))
        };
        let more = packages.iter().filter(depends);
        let more: Vec<String> = more.map(|package| package.name.to_string()).collect();
        if more.is_empty() {
            break;
        }
        affected.extend(more);
    }
    let [mut tests, mut left_out, mut excluded] = [const { BTreeSet::new() }; 3];
    for package in packages {
        let name = package.name.as_str();
        let marks = Marks::of(package);
        if affected.contains(name) {
            let all = package.targets.iter().filter(|target| target.is_test());
            let names = all.map(|target| target.name.clone());
            let (slow, quick): (Vec<_>, Vec<_>) =
                names.partition(|test| marks.slow.contains(&test.as_str()));
            tests.extend(quick);
            left_out.extend(slow.iter().map(|test| format!("{name}::{test}")));
        } else if marks.program {
            excluded.insert(name.to_owned());
        }
    }
    Selection {
        dependents: affected.difference(&changed).cloned().collect(),
        changed,
        tests,
        left_out,
        excluded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(files: &[&str]) -> Selection {
        let files: Vec<String> = files.iter().map(|file| file.to_string()).collect();
        select(&workspace(&crate::root()).expect("the workspace"), &files)
    }

    #[test]
    fn what_depends_on_a_changed_package_is_tested() {
        let selection = selected(&["crates/policy/src/ts.rs"]);
        assert!(selection.changed.iter().eq(["tanada-policy"]));
        for name in ["tanada-laws", "tanada-runtime", "tanada-sim", "tanada"] {
            assert!(selection.dependents.contains(name), "{name}");
        }
        for name in ["tanada-topology", "tanada-queues", "tanada-h264", "xtask"] {
            assert!(!selection.dependents.contains(name), "{name}");
        }
        for test in ["it", "template", "registry"] {
            assert!(selection.tests.contains(test), "{test}");
        }
        for (package, slow) in [("tanada-laws", "long"), ("tanada", "verbs")] {
            assert!(!selection.tests.contains(slow), "{slow}");
            assert!(selection.left_out.contains(&format!("{package}::{slow}")));
        }
        assert!(selection.tests.contains("sim_reference") && selection.excluded.is_empty());
    }

    #[test]
    fn a_program_that_nothing_affects_is_not_built() {
        let selection = selected(&["crates/cli/src/main.rs"]);
        assert!(selection.tests.contains("record") && !selection.excluded.contains("tanada"));
        assert!(selection.excluded.contains("peers"));
    }

    #[test]
    fn files_outside_of_packages_belong_to_whose_tests_read_them() {
        let readme = selected(&["README.md"]);
        assert!(readme.changed.iter().eq(["tanada-runtime"]));
        assert!(selected(&["LICENSE-MIT", "deny.toml"]).changed.is_empty());
        let all = selected(&["Cargo.lock"]);
        assert!(all.changed.len() > 10 && all.dependents.is_empty() && all.excluded.is_empty());
    }

    #[test]
    fn manifests_name_slow_tests_that_exist() {
        for package in workspace(&crate::root())
            .expect("the workspace")
            .workspace_packages()
        {
            for name in Marks::of(package).slow {
                let mut tests = package.targets.iter().filter(|target| target.is_test());
                assert!(
                    tests.any(|test| test.name == name),
                    "{}: {name}",
                    package.name
                );
            }
        }
    }
}
