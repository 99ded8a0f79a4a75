//! Which crate may depend on which.

use std::path::Path;

use cargo_metadata::{DependencyKind, MetadataCommand};

use super::{Kind, Package, Report, Workspace};

/// A crate, what it may depend on, and what its tests may depend on besides; names without `tanada-`, separated by spaces.
type Allowed = (&'static str, &'static str, &'static str);

/// Stands for every crate of the workspace.
const EVERYTHING: &str = "*";

/// Helpers of tests, which depend on nothing: the tests of every crate may use them.
const TESTING: &str = "testing";

/// The arrows of ARCHITECTURE.md, Code map, and those of crates that are to come; a crate that is not here is allowed nothing and has to be
/// added.
///
/// Tests may look further, but never from `topology`, `queues` or `policy` up to an engine.
const TABLE: &[Allowed] = &[
    (TESTING, "", ""),
    ("topology", "", ""),
    ("trace", "", ""),
    ("report", "", "topology"),
    ("h264", "", ""),
    ("queues", "topology", ""),
    ("policy", "topology queues", "report"),
    // The scheduling laws that both engines pass (ARCHITECTURE.md, Code map): a crate for tests, which no other may need to run.
    ("laws", "policy queues topology", ""),
    ("runtime", "policy queues topology report", "laws h264"),
    ("sim", "policy topology trace report", "laws workloads"),
    // What a workload needs of policies, topology and reports comes through the runtime.
    ("workloads", "runtime trace h264", "policy topology report"),
    // Random graphs on real threads for hours, also under sanitizers: as few other crates as possible.
    ("soak", "policy runtime workloads", ""),
    // Runs every workload on every engine and compares. It names both engines, and what they and the workloads stand on.
    (
        "harness",
        "runtime sim workloads report h264 policy topology trace",
        "",
    ),
    // A reproduction of a paper stands on the harness, and may name whatever the harness names.
    (
        "papers",
        "harness runtime sim workloads report h264 policy topology trace",
        "",
    ),
    ("cli", EVERYTHING, EVERYTHING),
    ("examples", EVERYTHING, EVERYTHING),
    // What the emulator loads: the trace's binary form, and nothing else.
    ("probe", "trace", ""),
    // What an OpenMP program loads: policies, and the queues of the tasks layer; its threads are the program's, so it needs no pool.
    ("openmp", "policy queues topology", ""),
    ("capi", "runtime", ""),
    ("python", "runtime", ""),
    ("peers", "harness report runtime workloads sim", ""),
    ("xtask", "", ""),
];

/// Returns a crate's name in the table.
pub(super) fn short(package: &str) -> &str {
    match package {
        "tanada" => "cli",
        name => name.strip_prefix("tanada-").unwrap_or(name),
    }
}

/// Examples stand for users' programs, which may use whatever they like.
const EXAMPLES: &str = "examples/";

pub(super) fn dependencies(workspace: &Workspace, report: &mut Report) {
    for package in &workspace.packages {
        if package.folder.starts_with(EXAMPLES) {
            continue;
        }
        let (name, manifest) = (&package.name, format!("{}/Cargo.toml", package.folder));
        let Some((_, normal, test)) = TABLE.iter().find(|row| row.0 == short(name)) else {
            let why = "is a new crate: add it to the table in xtask/src/tidy/crates.rs";
            report.found(&manifest, 0, format!("`{name}` {why}"));
            continue;
        };
        let permits = |list: &str, other: &str| {
            list == EVERYTHING || list.split(' ').any(|allowed| allowed == short(other))
        };
        let code = package.needs(false).filter(|other| workspace.has(other));
        for other in code.filter(|other| !permits(normal, other)) {
            let why = format!("must not depend on `{other}` (ARCHITECTURE.md, Code map)");
            report.found(&manifest, 0, format!("`{name}` {why}"));
        }
        let tests = package.needs(true);
        let tests =
            tests.filter(|other| workspace.has(other) && other != name && short(other) != TESTING);
        for other in tests.filter(|other| !permits(normal, other) && !permits(test, other)) {
            let why = format!("tests of `{name}` must not depend on `{other}`");
            report.found(&manifest, 0, why);
        }
    }
}

/// Every crate stands in the code map of ARCHITECTURE.md as `FOLDER`.
pub(super) fn map(workspace: &Workspace, report: &mut Report) {
    const MAP: &str = "ARCHITECTURE.md";
    let Some(text) = workspace.text(MAP) else {
        return report.skipped(format!("there is no {MAP} yet"));
    };
    for package in &workspace.packages {
        let named = text.match_indices(&package.folder).any(|(i, folder)| {
            let next = text[i + folder.len()..].chars().next();
            !next.is_some_and(|c| c.is_alphanumeric() || c == '-' || c == '_')
        });
        if !named {
            let why = format!("the code map does not name `{}`", package.folder);
            report.found(MAP, 0, why);
        }
    }
}

/// Returns the crates of the workspace, as cargo sees them.
pub(super) fn read_packages(root: &Path) -> Result<Vec<Package>, String> {
    let mut command = MetadataCommand::new();
    let command = command.current_dir(root).no_deps();
    let metadata = command.other_options(vec!["--offline".to_owned()]).exec();
    let metadata = metadata.map_err(|error| error.to_string())?;
    let packages = metadata.packages.iter().map(|package| {
        let folder = package.manifest_path.parent();
        let folder = folder.and_then(|folder| folder.strip_prefix(&metadata.workspace_root).ok());
        let folder = folder.map_or_else(String::new, |folder| folder.to_string());
        let dependencies = package.dependencies.iter().map(|dependency| {
            let kind = match dependency.kind {
                DependencyKind::Development => Kind::Test,
                DependencyKind::Build => Kind::Build,
                _ => Kind::Normal,
            };
            (dependency.name.clone(), kind)
        });
        let mut dependencies: Vec<(String, Kind)> = dependencies.collect();
        dependencies.sort_by_key(|(name, kind)| (*kind, name.clone()));
        Package {
            name: package.name.to_string(),
            folder,
            dependencies,
        }
    });
    Ok(packages.collect())
}

/// The minimal Rust is enough for every package of the lock file, and the README names it.
pub(super) fn minimal_rust(workspace: &Workspace, report: &mut Report) {
    let (Some(locked), Some(manifest)) = (&workspace.locked, workspace.text("Cargo.toml")) else {
        return report.skipped("`cargo metadata` does not list the packages of the lock file");
    };
    let stated = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "));
    let stated = stated.unwrap_or_default().trim_matches('"');
    let parts =
        |version: &str| -> Vec<u64> { version.split('.').flat_map(str::parse).take(2).collect() };
    for (package, needed) in locked
        .iter()
        .filter(|(_, needed)| parts(needed) > parts(stated))
    {
        let why =
            format!("`rust-version` is {stated}, and {package} of the lock file needs {needed}");
        report.found("Cargo.toml", 0, why);
    }
    let words = format!("({stated} or later)");
    if workspace
        .text("README.md")
        .is_some_and(|text| !text.contains(&words))
    {
        report.found(
            "README.md",
            0,
            format!("the minimal Rust is not named: {words}"),
        );
    }
}

/// The packages of the lock file that state a minimal Rust: name and version, and that. `None` if cargo has not fetched all of them.
pub(super) fn read_locked(root: &Path) -> Option<Vec<(String, String)>> {
    let mut command = MetadataCommand::new();
    let options = ["--offline", "--locked"].map(str::to_owned);
    let metadata = command
        .current_dir(root)
        .other_options(options)
        .exec()
        .ok()?;
    let packages = metadata.packages.iter().filter_map(|package| {
        let name = format!("{} {}", package.name, package.version);
        Some((name, package.rust_version.as_ref()?.to_string()))
    });
    Some(packages.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_that_needs_a_later_rust_is_found() {
        let mut workspace = Workspace::of(&[
            (
                "Cargo.toml",
                "[workspace.package]\nrust-version = \"1.88\"\n",
            ),
            ("README.md", "needs a Rust toolchain (1.87 or later)"),
        ]);
        assert_ne!(workspace.skips(minimal_rust), "");
        let packages = [
            ("old 1.0.0", "1.9.1"),
            ("new 2.0.0", "1.100"),
            ("same 3.0.0", "1.88.0"),
        ];
        workspace.locked = Some(
            packages
                .map(|(name, rust)| (name.to_owned(), rust.to_owned()))
                .into(),
        );
        assert_eq!(
            workspace.findings(minimal_rust),
            "Cargo.toml: `rust-version` is 1.88, and new 2.0.0 of the lock file needs 1.100\n\
            README.md: the minimal Rust is not named: (1.88 or later)"
        );
    }

    #[test]
    fn a_wrong_direction_is_found() {
        let workspace = Workspace::of(&[])
            .package("policy", &["tanada-runtime", "serde"], &[])
            .package("runtime", &["tanada-policy"], &[]);
        let findings = workspace.findings(dependencies);
        assert_eq!(
            findings,
            "crates/policy/Cargo.toml: `tanada-policy` must not depend on `tanada-runtime` (ARCHITECTURE.md, Code map)"
        );
    }

    #[test]
    fn tests_may_look_further_but_not_everywhere() {
        let workspace = Workspace::of(&[])
            .package(
                "runtime",
                &[],
                &["tanada-h264", "tanada-runtime", "tanada-workloads"],
            )
            .package("h264", &[], &[])
            .package("workloads", &["tanada-runtime"], &[]);
        assert_eq!(
            workspace.findings(dependencies),
            "crates/runtime/Cargo.toml: tests of `tanada-runtime` must not depend on `tanada-workloads`"
        );
    }

    #[test]
    fn a_new_crate_must_be_entered() {
        let findings = Workspace::of(&[])
            .package("novel", &[], &[])
            .findings(dependencies);
        assert!(
            findings.contains("`tanada-novel` is a new crate: add it to the table"),
            "{findings}"
        );
    }

    #[test]
    fn the_table_names_crates_once_and_knows_those_that_it_names() {
        let names: Vec<&str> = TABLE.iter().map(|row| row.0).collect();
        for (i, (name, normal, test)) in TABLE.iter().enumerate() {
            assert!(!names[..i].contains(name), "{name} stands there twice");
            for other in normal.split(' ').chain(test.split(' ')) {
                assert!(
                    ["", EVERYTHING].contains(&other) || names.contains(&other),
                    "{name} may depend on {other}, which is no crate"
                );
            }
        }
    }

    #[test]
    fn a_crate_that_is_not_in_the_map_is_found() {
        let map_text = "| `crates/sim-extra` | ... |";
        let workspace = Workspace::of(&[("ARCHITECTURE.md", map_text)]).package("sim", &[], &[]);
        assert_eq!(
            workspace.findings(map),
            "ARCHITECTURE.md: the code map does not name `crates/sim`"
        );
        let workspace = Workspace::of(&[("ARCHITECTURE.md", "- `crates/sim`: the simulator")])
            .package("sim", &[], &[]);
        assert_eq!(workspace.findings(map), "");
        assert_eq!(
            Workspace::of(&[]).skips(map),
            "there is no ARCHITECTURE.md yet"
        );
    }
}
