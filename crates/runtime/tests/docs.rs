//! What the documents quote is what the examples hold, and the places in the code that the crate's README names exist.
//!
//! A line `<!-- example: PATH -->` in a document says that the code block after it is the file at PATH (from the root of the
//! workspace), without the comments and attributes at the file's beginning. With `TANADA_BLESS=1` this test writes the blocks anew
//! instead of comparing them.

use std::path::{Path, PathBuf};

const MARK: &str = "<!-- example: ";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The example as it is quoted.
fn quoted(text: &str) -> String {
    let header =
        |line: &&str| line.is_empty() || line.starts_with("//!") || line.starts_with("#![");
    let body: Vec<&str> = text.lines().skip_while(header).collect();
    body.join("\n") + "\n"
}

/// The document with every marked block made anew, and how many there are.
///
/// # Panics
/// Where a mark has no code block right after it.
fn renewed(document: &str, example: impl Fn(&str) -> String) -> (String, usize) {
    let (mut out, mut found) = (String::new(), 0);
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        out += line;
        out.push('\n');
        let Some(path) = line.strip_prefix(MARK) else {
            continue;
        };
        let path = path.strip_suffix(" -->").expect("a mark is one whole line");
        let fence = lines.next().filter(|line| line.starts_with("```rust"));
        let fence = fence.unwrap_or_else(|| panic!("no Rust block follows the mark of {path}"));
        assert!(
            lines.any(|line| line == "```"),
            "the block of {path} does not end"
        );
        out += &format!("{fence}\n{}```\n", example(path));
        found += 1;
    }
    (out, found)
}

#[test]
fn documents_quote_the_examples() {
    let bless = std::env::var_os("TANADA_BLESS").is_some();
    let folder = std::fs::read_dir(root().join("docs")).expect("there are documents");
    let mut found = 0;
    for entry in folder {
        let path = entry.expect("a readable folder").path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = read(&path);
        let (wanted, marks) = renewed(&text, |example| quoted(&read(&root().join(example))));
        found += marks;
        if bless && wanted != text {
            std::fs::write(&path, wanted).expect("the document can be written");
        } else {
            assert!(
                wanted == text,
                "{} quotes another version of an example; TANADA_BLESS=1 cargo test -p tanada-runtime --test docs",
                path.display()
            );
        }
    }
    assert!(
        found >= 4,
        "the tutorial quotes at least four examples, not {found}"
    );
}

#[test]
fn a_changed_quote_is_noticed() {
    let example = |path: &str| {
        assert_eq!(path, "a.rs");
        quoted("//! About.\n#![forbid(unsafe_code)]\n\nfn main() {}\n")
    };
    let right = "Text.\n<!-- example: a.rs -->\n```rust\nfn main() {}\n```\nMore.\n";
    assert_eq!(renewed(right, example), (right.to_owned(), 1));
    let wrong = right.replace("main", "start");
    assert_eq!(renewed(&wrong, example), (right.to_owned(), 1));
}

/// The places `file:function` that a text names between backticks.
fn places(text: &str) -> Vec<(&str, &str)> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted
        .filter_map(|quote| quote.split_once(".rs:"))
        .collect()
}

/// Whether no function of that name is defined in `source`.
fn missing(source: &str, function: &str) -> bool {
    !["(", "<"]
        .iter()
        .any(|end| source.contains(&format!("fn {function}{end}")))
}

#[test]
fn the_readme_names_places_that_exist() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = read(&folder.join("README.md"));
    let places = places(&readme);
    assert!(places.len() > 30, "{} places", places.len());
    for (file, function) in places {
        let source = read(&folder.join("src").join(format!("{file}.rs")));
        assert!(
            !missing(&source, function),
            "README.md names {file}.rs:{function}, which is not there"
        );
    }
}

#[test]
fn a_place_that_is_gone_is_noticed() {
    let text = "It starts (`worker/a.rs:run`), see `b.rs` and `c`.";
    assert_eq!(places(text), [("worker/a", "run")]);
    assert!(!missing("pub fn run(&self) {", "run"));
    assert!(missing("fn runs() {}", "run"));
}
