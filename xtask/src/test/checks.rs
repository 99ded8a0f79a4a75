//! Steps that are more than a row of commands.

use cargo_metadata::MetadataCommand;

use super::runner::Runner;
use super::{Failed, Outcome, Skipped};

/// Runs the rules that read the workspace, as a process of their own so that their output can be kept.
pub(super) fn tidy(runner: &Runner) -> Outcome {
    let program = std::env::current_exe()
        .map_err(|error| Failed(format!("this program does not know its own file: {error}")))?;
    let output = runner.run(&[&program.to_string_lossy(), "tidy"], 300)?;
    // Rules that could not be checked are shown although all others hold.
    let lines = output.lines().filter(|line| line.starts_with("SKIPPED"));
    lines.for_each(|line| println!("{line}"));
    Ok(())
}

/// Runs rayon's own tests against our `rayon-core`, as a process of their own so that their output can be kept. rayon-core's run again
/// under the policy that shares things out in another way than all others.
pub(super) fn rayon(runner: &Runner) -> Outcome {
    let program = std::env::current_exe()
        .map_err(|error| Failed(format!("this program does not know its own file: {error}")))?;
    let program = program.to_string_lossy();
    let core = [&*program, "rayon", "--core", "--threads", "2", "--no-doc"];
    let words = if runner.full { &core[..2] } else { &core[..] };
    let output = runner.run(words, 1200)?;
    runner.run(&[&core[..], &["--policy", "adws"]].concat(), 1200)?;
    match output.lines().find_map(|line| line.strip_prefix(SKIPPED)) {
        Some(why) => Err(Skipped(why.trim_start_matches([':', ' ']).to_owned())),
        None if runner.full => Ok(()),
        None => {
            runner.left_out("rayon::iterators", "slow: `cargo xtask rayon` runs them")?;
            Ok(())
        }
    }
}

/// How a line begins with which a chore says that it could not run.
const SKIPPED: &str = "SKIPPED";

/// Errors of cargo-deny that mean that the list of advisories cannot be fetched.
const UNREACHABLE: &[&str] = &[
    "failed to fetch advisory database",
    "failed to load advisory database",
    "failed to acquire advisory database",
];

fn needs_deny(runner: &Runner) -> Outcome {
    const WHY: &str = "cargo-deny is missing: cargo install --locked cargo-deny";
    match runner.works(&["cargo", "deny", "--version"]) {
        true => Ok(()),
        false => Err(Skipped(WHY.into())),
    }
}

pub(super) fn deny(runner: &Runner) -> Outcome {
    needs_deny(runner)?;
    let check = ["cargo", "deny", "--log-level", "error", "check"];
    let words = [&check[..], &["bans", "licenses", "sources"]].concat();
    runner.run(&words, 300)?;
    Ok(())
}

pub(super) fn advisories(runner: &Runner) -> Outcome {
    needs_deny(runner)?;
    const NO_NETWORK: &str = "the database of advisories cannot be reached: no network?";
    let unreachable = |text: &str| UNREACHABLE.iter().any(|reason| text.contains(reason));
    match runner.run(&["cargo", "deny", "check", "advisories"], 600) {
        Err(Failed(output)) if unreachable(&output) => Err(Skipped(NO_NETWORK.into())),
        ending => ending.map(drop),
    }
}

/// Packages every crate that may be published.
pub(super) fn package(runner: &Runner) -> Outcome {
    let mut command = MetadataCommand::new();
    let metadata = command.current_dir(&runner.root).no_deps().exec()?;
    let packages = metadata.workspace_packages();
    let published = |package: &&cargo_metadata::Package| package.publish.is_none();
    let packages = Vec::from_iter(packages.into_iter().filter(published));
    let mut words = vec!["cargo", "package", "--offline", "--allow-dirty"];
    words.extend((!runner.full).then_some("--no-verify"));
    words.extend(
        packages
            .iter()
            .flat_map(|package| ["-p", package.name.as_str()]),
    );
    let output = runner.run(&words, 1800)?;
    let mut wrong = output
        .lines()
        .filter(|line| line.starts_with("warning: manifest"));
    if let Some(warning) = wrong.next() {
        return Err(Failed(warning.to_owned()));
    }
    for package in packages {
        let folder = format!("{}-{}", package.name, package.version);
        let file = metadata
            .target_directory
            .join(format!("package/{folder}.crate"));
        let files = runner
            .list(&["tar", "tzf", file.as_str()])
            .unwrap_or_default();
        for name in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
            if !files.contains(&format!("{folder}/{name}")) {
                return Err(Failed(format!("{file} has no {name}")));
            }
        }
    }
    Ok(())
}

/// Runs the examples of every crate, and the crates below `examples/`, as the step `test` built them: an example shows that it runs to its
/// end, which needs no optimisation.
pub(super) fn examples(runner: &Runner) -> Outcome {
    let mut command = MetadataCommand::new();
    let metadata = command.current_dir(&runner.root).no_deps().exec()?;
    let folder = metadata.workspace_root.join("examples");
    let built = metadata.target_directory.join("debug");
    // The words of the step `test`. `cargo run` would build each again, with the features that its package alone asks for.
    let build = ["cargo", "build", "--workspace", "--features"];
    let mut build = [&build[..], &["tanada/parquet", "--examples"]].concat();
    let mut programs: Vec<(_, Vec<String>)> = Vec::new();
    for package in metadata.workspace_packages() {
        let targets = package.targets.iter();
        let examples = targets.clone().filter(|target| target.is_example());
        for target in examples {
            let source = std::fs::read_to_string(&target.src_path)?;
            let words = words_of(&source).map(str::to_owned).collect();
            programs.push((built.join("examples").join(&target.name), words));
        }
        if package.manifest_path.starts_with(&folder) {
            let bins = targets.filter(|target| target.is_bin());
            let bins = bins.map(|target| target.name.as_str());
            build.extend(bins.clone().flat_map(|name| ["--bin", name]));
            programs.extend(bins.map(|name| (built.join(name), Vec::new())));
        }
    }
    if programs.is_empty() {
        return Err(Skipped("there are no examples".into()));
    }
    runner.run(&build, 1800)?;
    let runs = programs.iter().map(|(program, words)| {
        let words = words.iter().map(String::as_str);
        let words = Vec::from_iter(std::iter::once(program.as_str()).chain(words));
        runner.run(&words, 1200)
    });
    all(runs)
}

/// Returns the words with which the tests run an example: those that its source says. One that measures for minutes says fewer rounds.
fn words_of(source: &str) -> impl Iterator<Item = &str> {
    const SAID: &str = "`cargo xtask test` runs it with `";
    let said = source.split_once(SAID);
    let words = said.and_then(|(_, rest)| rest.split_once('`'));
    words.map_or("", |(words, _)| words).split_whitespace()
}

/// Returns the outputs of all that failed as one failure.
pub(super) fn all(endings: impl Iterator<Item = Outcome<String>>) -> Outcome {
    let failed = endings.filter_map(|ending| match ending {
        Err(Failed(output)) => Some(output),
        _ => None,
    });
    match failed.collect::<String>() {
        wrong if wrong.is_empty() => Ok(()),
        wrong => Err(Failed(wrong)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_says_with_which_words_it_runs() {
        let source = "//! It takes minutes: `cargo xtask test` runs it with `--rounds 1 --only a`.\nfn main() {}";
        assert!(words_of(source).eq(["--rounds", "1", "--only", "a"]));
        assert_eq!(words_of("//! `cargo xtask test` runs it.\n").count(), 0);
    }
}
