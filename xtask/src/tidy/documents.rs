//! Rules about the documents: links, change log, description of every policy.

use super::{Report, Workspace};

/// Every relative link of a Markdown file leads to a file or folder of the repository.
pub(super) fn links(workspace: &Workspace, report: &mut Report) {
    for (path, text) in workspace.texts(".md") {
        for (number, line) in prose(text) {
            for target in targets(line) {
                let outside = target.contains("://") || target.starts_with("mailto:");
                let target = target.split(['#', '?']).next().unwrap_or(target);
                if outside || target.is_empty() {
                    continue;
                }
                let end = match resolve(path, target) {
                    None => "out of the repository",
                    Some(file) if !exists(workspace, &file) => "nowhere",
                    Some(_) => continue,
                };
                report.found(path, number, format!("the link `{target}` leads {end}"));
            }
        }
    }
}

/// Returns the lines outside of code blocks, numbered.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

/// Returns what stands in the parentheses of `[text](target "title")`, and after `[name]:`.
fn targets(line: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    // A code span in the text of a link separates the text from its target: `[`name`](target)`.
    for part in line
        .split('`')
        .step_by(2)
        .flat_map(|text| text.split("](").skip(1))
    {
        targets.extend(part.split([')', ' ']).next());
    }
    let named = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]: "));
    targets.extend(named.and_then(|(_, definition)| definition.split_whitespace().next()));
    let bare = targets
        .into_iter()
        .map(|target| target.trim_matches(['<', '>']));
    bare.collect()
}

/// Returns the path from the root of what `target` means in the file `from`; `None` outside of the repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn exists(workspace: &Workspace, path: &str) -> bool {
    let folder = format!("{path}/");
    path.is_empty()
        || workspace.files.contains_key(path)
        || workspace.files.keys().any(|file| file.starts_with(&folder))
}

const HEADINGS: &[&str] = &[
    "Added",
    "Changed",
    "Deprecated",
    "Removed",
    "Fixed",
    "Security",
    "Performance",
];

/// The form of keepachangelog.com: `## [Unreleased]` or `## [1.2.3] - 2026-01-31`, in them `### Added` and so on, in these `- ` items.
pub(super) fn changelog(workspace: &Workspace, report: &mut Report) {
    const LOG: &str = "CHANGELOG.md";
    let Some(text) = workspace.text(LOG) else {
        return report.skipped(format!("there is no {LOG} yet"));
    };
    if !text.starts_with("# Changelog\n") {
        report.found(LOG, 1, "the first line is not `# Changelog`");
    }
    let (mut releases, mut in_group) = (0, false);
    for (number, line) in prose(text) {
        if let Some(release) = line.strip_prefix("## ") {
            releases += 1;
            in_group = false;
            if !is_release(release) {
                report.found(LOG, number, format!("`{release}` is neither `[Unreleased]` nor of the form `[1.2.3] - 2026-01-31`"));
            }
        } else if let Some(group) = line.strip_prefix("### ") {
            in_group = true;
            if !HEADINGS.contains(&group) {
                let why = format!("`{group}` is none of {}", HEADINGS.join(", "));
                report.found(LOG, number, why);
            }
        } else if releases > 0
            && line.starts_with(|c: char| !c.is_whitespace() && c != '[')
            && !(in_group && line.starts_with("- "))
        {
            let why = "expected an item `- ...` below a heading such as `### Added`";
            report.found(LOG, number, why);
        }
    }
    if releases == 0 {
        report.found(LOG, 0, "there is no release, not even `## [Unreleased]`");
    }
}

fn is_release(heading: &str) -> bool {
    let version = heading
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] - "));
    let Some((version, date)) = version else {
        return heading == "[Unreleased]";
    };
    let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let date_parts = || date.split('-');
    version.split('.').count() == 3
        && version.split('.').all(number)
        && date_parts().map(str::len).eq([4, 2, 2])
        && date_parts().all(number)
}

/// Every name of the registry stands in the guide to policies.
pub(super) fn policies(workspace: &Workspace, report: &mut Report) {
    const REGISTRY: &str = "crates/policy/src/registry.rs";
    const GUIDE: &str = "docs/policies.md";
    let Some(registry) = workspace.text(REGISTRY) else {
        return report.skipped(format!("there is no {REGISTRY} yet"));
    };
    let names = registered(registry);
    if names.is_empty() {
        let why = "found no name between `registry! {` and its `}`";
        return report.found(REGISTRY, 0, why);
    }
    let Some(guide) = workspace.text(GUIDE) else {
        return report.skipped(format!("there is no {GUIDE} yet"));
    };
    let described = |name: &&&str| guide.contains(&format!("`{name}`"));
    for name in names.iter().filter(|name| !described(name)) {
        let why = format!("the registered policy `{name}` is not described");
        report.found(GUIDE, 0, why);
    }
}

/// Returns lines such as `central "fcfs" = Fcfs: "...";` in the call of `registry!`.
fn registered(text: &str) -> Vec<&str> {
    let call = text.lines().skip_while(|line| line.trim() != "registry! {");
    let entries = call.skip(1).take_while(|line| line.trim() != "}");
    let name = |line| str::split(line, '"').nth(1).filter(|_| line.contains('='));
    entries.filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_links_are_found() {
        let text = "\
See [a](guide.md), [b](../README.md#x), [c](https://example.org/no.md), [d](#here), [`e`](missing.md),
[f](../../shared/x.md) and `[g](code.md)`.
```text
[h](in-code.md)
```
[i]: gone.md
[folder](../crates/policy)
";
        let files = [
            ("docs/a.md", text),
            ("docs/guide.md", ""),
            ("README.md", "[docs](docs/)"),
            ("crates/policy/src/lib.rs", ""),
        ];
        let findings = Workspace::of(&files).findings(links);
        let expected = "\
docs/a.md:1: the link `missing.md` leads nowhere
docs/a.md:2: the link `../../shared/x.md` leads out of the repository
docs/a.md:6: the link `gone.md` leads nowhere";
        assert_eq!(findings, expected);
    }

    fn log(text: &str) -> String {
        Workspace::of(&[("CHANGELOG.md", text)]).findings(changelog)
    }

    #[test]
    fn a_change_log_in_form() {
        let good = "# Changelog\n\nWords.\n\n## [Unreleased]\n\n### Added\n\n- x\n  more\n\n## [0.1.0] - 2026-01-31\n\n### Fixed\n- y\n";
        assert_eq!(log(good), "");
        assert_eq!(
            Workspace::of(&[]).skips(changelog),
            "there is no CHANGELOG.md yet"
        );
    }

    #[test]
    fn a_change_log_out_of_form() {
        for (text, says) in [
            (
                "# Changes\n\n## [Unreleased]\n",
                "CHANGELOG.md:1: the first line",
            ),
            ("# Changelog\n", "no release"),
            ("# Changelog\n## 0.1\n", "CHANGELOG.md:2: `0.1` is neither"),
            ("# Changelog\n## [0.1.0] - 31.1.2026\n", "is neither"),
            ("# Changelog\n## [0.1.x] - 2026-01-31\n", "is neither"),
            ("# Changelog\n## [0.1] - 2026-01-31\n", "is neither"),
            ("# Changelog\n## [0.1.0] - 2026-1-31\n", "is neither"),
            (
                "# Changelog\n## [Unreleased]\n### New\n",
                "`New` is none of",
            ),
            (
                "# Changelog\n## [Unreleased]\nwords\n",
                "CHANGELOG.md:3: expected an item",
            ),
            (
                "# Changelog\n## [Unreleased]\n- item\n",
                "CHANGELOG.md:3: expected an item",
            ),
        ] {
            assert!(log(text).contains(says), "{text}: {}", log(text));
        }
    }

    #[test]
    fn a_policy_without_description_is_found() {
        let registry = "\
macro_rules! registry { () => {} }
registry! {
    central \"fcfs\" = Fcfs: \"oldest\";
    other \"near-steal\" = Near: \"x\";
}
";
        let guide = "# Policies\n\n## `fcfs`\n";
        let files = [
            ("crates/policy/src/registry.rs", registry),
            ("docs/policies.md", guide),
        ];
        assert_eq!(
            Workspace::of(&files).findings(policies),
            "docs/policies.md: the registered policy `near-steal` is not described"
        );
        assert_eq!(
            Workspace::of(&files[..1]).skips(policies),
            "there is no docs/policies.md yet"
        );
        let unreadable = [(
            "crates/policy/src/registry.rs",
            "registry! { central \"fcfs\" = Fcfs; }",
        )];
        assert!(
            Workspace::of(&unreadable)
                .findings(policies)
                .contains("found no name")
        );
    }
}
