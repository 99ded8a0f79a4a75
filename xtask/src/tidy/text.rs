//! Rules about the text of files, whatever it means.

use super::{Report, Workspace};

const MOST_COLUMNS: usize = 140;
const MOST_BYTES: u64 = 1 << 20;

/// Lines that fit a window.
pub(super) fn columns(workspace: &Workspace, report: &mut Report) {
    for ending in [".rs", ".toml", ".sh", ".py", ".js", ".css"] {
        let texts = workspace.texts(ending);
        for (path, text) in texts.filter(|(path, _)| !third_party(path)) {
            for (number, line) in (1..).zip(text.lines()) {
                let columns = line.chars().count();
                if columns > MOST_COLUMNS {
                    let why = format!("{columns} columns, more than {MOST_COLUMNS}");
                    report.found(path, number, why);
                }
            }
        }
    }
}

/// Returns whether `path` is a file that is carried along as its authors wrote it.
fn third_party(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.any(|part| part == "third_party" || part == "vendor")
}

/// What must not be in the tree, put together here so that this file does not hold it.
const MARKS: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "unfinished work belongs to an issue"),
    (concat!("FIX", "ME"), "unfinished work belongs to an issue"),
    (concat!("XX", "X"), "unfinished work belongs to an issue"),
    (concat!("todo", "!"), "unfinished code"),
    (concat!("unimplemented", "!"), "unfinished code"),
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/fa", "rm/"), "a path of one machine"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/Us", "ers/"), "a path of one machine"),
    (
        concat!("/tm", "p/"),
        "a path of one machine: ask for a temporary folder",
    ),
    (concat!(".lib", "rary"), "a path of one machine"),
];

pub(super) fn marks(workspace: &Workspace, report: &mut Report) {
    let texts = workspace.texts("");
    for (path, text) in texts.filter(|(path, _)| !path.ends_with(".lock") && !third_party(path)) {
        for (number, line) in (1..).zip(text.lines()) {
            for (mark, why) in MARKS.iter().filter(|(mark, _)| stands_alone(line, mark)) {
                report.found(path, number, format!("`{mark}`: {why}"));
            }
        }
    }
}

/// Returns whether the mark is there, not as a part of a longer word.
fn stands_alone(line: &str, mark: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let word = mark.chars().all(part);
    line.match_indices(mark).any(|(i, _)| {
        let before = line[..i].chars().next_back();
        let after = line[i + mark.len()..].chars().next();
        match mark.starts_with('/') {
            // Inside of a longer path or an address it is a folder's name.
            true => !before.is_some_and(|c| part(c) || matches!(c, '.' | '-' | '}')),
            false => !word || !(before.is_some_and(part) || after.is_some_and(part)),
        }
    })
}

pub(super) fn large_files(workspace: &Workspace, report: &mut Report) {
    let files = workspace.files.iter();
    for (path, file) in files.filter(|(_, file)| file.bytes > MOST_BYTES) {
        let size = format!("{} bytes, more than {MOST_BYTES}", file.bytes);
        let why = format!("{size}: make it, or fetch it, when it is needed");
        report.found(path, 0, why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_found() {
        let wide = format!("// {}\n", "é".repeat(138));
        let fits = format!("// {}\n", "é".repeat(137));
        let workspace = Workspace::of(&[
            ("a.rs", &wide),
            ("b.rs", &fits),
            ("d.md", &wide),
            ("vendor/e.js", &wide),
        ]);
        assert_eq!(
            workspace.findings(columns),
            "a.rs:1: 141 columns, more than 140"
        );
    }

    #[test]
    fn every_mark_is_found() {
        for (mark, _) in MARKS {
            let text = format!("fine\nsome {mark}.\n");
            let findings = Workspace::of(&[("docs/a.md", &text)]).findings(marks);
            assert!(
                findings.starts_with(&format!("docs/a.md:2: `{mark}`")),
                "{mark}: {findings}"
            );
        }
    }

    #[test]
    fn words_that_only_look_like_marks_are_not_found() {
        let fine = [
            concat!("AXX", "XB"),
            concat!("https://example.org/wo", "rk/x"),
            concat!("crates/wo", "rk/src"),
            concat!("target/tm", "p/x"),
            concat!("${TMP}/ho", "me/x"),
        ];
        for text in fine {
            assert_eq!(
                Workspace::of(&[("a.rs", text)]).findings(marks),
                "",
                "{text}"
            );
        }
        assert_eq!(
            Workspace::of(&[("Cargo.lock", concat!("XX", "X"))]).findings(marks),
            ""
        );
    }

    #[test]
    fn large_files_are_found() {
        let large = "x".repeat(MOST_BYTES as usize + 1);
        let findings =
            Workspace::of(&[("video.264", &large), ("ok", &large[1..])]).findings(large_files);
        assert!(
            findings.starts_with("video.264: 1048577 bytes"),
            "{findings}"
        );
        assert_eq!(findings.lines().count(), 1);
    }
}
