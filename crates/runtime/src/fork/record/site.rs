//! Sites: where a program forks. Through rayon's iterators no `#[track_caller]` leads to the program's own lines, so the stack is captured
//! the first time that a piece of code forks. Names and lines are looked up when the report is written.

use super::path::SiteId;
use parking_lot::Mutex;
use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::Location;
use std::sync::Arc;

/// What identifies a site: the code that forks (for closures, an address of a function that is compiled for them alone; for a line, the
/// address of its description), and the site of the region or spawned closure in which it does.
type Key = (usize, SiteId);

enum Found {
    /// The stack when the code forked first.
    Stack(Arc<Backtrace>),
    Line(&'static Location<'static>),
}

struct Site {
    found: Found,
    /// The type of the closure.
    name: &'static str,
    root: SiteId,
}

#[derive(Default)]
struct Sites {
    ids: HashMap<Key, SiteId>,
    stacks: HashMap<usize, Arc<Backtrace>>,
    /// Site `n` is at `n - 1`.
    sites: Vec<Site>,
}

static SITES: Mutex<Option<Sites>> = Mutex::new(None);

/// A name and a line for people. The line is empty if it is not known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// A function of the program, or the type of a closure.
    pub name: String,
    /// `file:line`, or empty.
    pub line: String,
}

/// Returns the site of a fork of a closure of the type `name` by `code`, in a region or spawned closure of the site `root`, or 0.
pub(super) fn of_code(code: usize, name: &'static str, root: SiteId) -> SiteId {
    /// Sites that a thread remembers, by a part of the code's address.
    const REMEMBERED: usize = 16;
    thread_local! {
        static KNOWN: RefCell<[(usize, SiteId, SiteId); REMEMBERED]> =
            const { RefCell::new([(0, 0, 0); REMEMBERED]) };
    }
    KNOWN.with_borrow_mut(|known| {
        let entry = &mut known[(code / 16 + root as usize) % REMEMBERED];
        if (entry.0, entry.1) != (code, root) {
            *entry = (code, root, look_up(code, name, root));
        }
        entry.2
    })
}

fn look_up(code: usize, name: &'static str, root: SiteId) -> SiteId {
    let mut sites = SITES.lock();
    let sites = sites.get_or_insert_default();
    if let Some(id) = sites.ids.get(&(code, root)) {
        return *id;
    }
    let capture = || Arc::new(Backtrace::force_capture());
    let stack = Arc::clone(sites.stacks.entry(code).or_insert_with(capture));
    sites.add((code, root), Found::Stack(stack), name, root)
}

/// Returns the site of a call at `line`.
pub(super) fn of_line(line: &'static Location<'static>, name: &'static str) -> SiteId {
    let mut sites = SITES.lock();
    let sites = sites.get_or_insert_default();
    let key = (std::ptr::from_ref(line).addr(), 0);
    match sites.ids.get(&key) {
        Some(id) => *id,
        None => sites.add(key, Found::Line(line), name, 0),
    }
}

impl Sites {
    fn add(&mut self, key: Key, found: Found, name: &'static str, root: SiteId) -> SiteId {
        self.sites.push(Site { found, name, root });
        let id = self.sites.len() as SiteId;
        self.ids.insert(key, id);
        id
    }

    fn place(&self, id: SiteId) -> Option<Place> {
        let site = self.sites.get((id as usize).checked_sub(1)?)?;
        let found = match &site.found {
            Found::Line(line) => Some(Place {
                name: short(site.name),
                line: format!("{}:{}", line.file(), line.line()),
            }),
            Found::Stack(stack) => own_frame(&format!("{stack:?}")),
        };
        found.or_else(|| self.place(site.root)).or_else(|| {
            Some(Place {
                name: short(site.name),
                line: String::new(),
            })
        })
    }
}

/// Returns the places of all sites: that of site `n` at `n`. The first is no site's. Looks at debug information, which takes some
/// milliseconds, or hundreds in a large program.
pub(super) fn places() -> Vec<Place> {
    let sites = SITES.try_lock_for(std::time::Duration::from_millis(100));
    let none = Place {
        name: "outside".to_owned(),
        line: String::new(),
    };
    let mut places = vec![none];
    if let Some(Some(sites)) = sites.as_deref() {
        places.extend((1..=sites.sites.len() as SiteId).filter_map(|id| sites.place(id)));
    }
    places
}

/// Crates whose functions fork on behalf of others.
const OTHERS: [&str; 7] = [
    "tanada_runtime::",
    "rayon::",
    "rayon_core::",
    "core::",
    "std::",
    "alloc::",
    "__",
];

/// Parts of the paths of their files.
const OTHER_FILES: [&str; 4] = ["/rustc/", "/rustlib/", "/rayon-1.", "/rayon-core"];

/// A frame of a stack.
struct StackFrame<'a> {
    name: &'a str,
    /// File and line, if debug information names them.
    line: Option<(&'a str, &'a str)>,
}

impl<'a> StackFrame<'a> {
    fn read(frame: &'a str) -> Option<Self> {
        let name = frame.split('"').next()?;
        let file = after(frame, "file: \"").and_then(|rest| rest.split('"').next());
        let line = after(frame, "line: ").map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_digit());
            &rest[..end.unwrap_or(rest.len())]
        });
        let line = file.zip(line);
        Some(StackFrame { name, line })
    }

    /// Returns whether the frame is of the program itself. Debug information names inlined functions without their modules.
    fn is_own(&self) -> bool {
        if let Some((file, _)) = self.line
            && (!file.ends_with(".rs")
                || OTHER_FILES.iter().any(|other| file.contains(other))
                || is_here(file))
        {
            return false;
        }
        let bare = self.name.trim_start_matches(['<', '&']);
        let named = self.line.is_some() || self.name.contains("::");
        named && !OTHERS.iter().any(|other| bare.starts_with(other))
    }

    fn is_closure(&self) -> bool {
        self.name.starts_with('{')
    }
}

/// Returns whether the file is a source of this crate. Paths may be relative to the workspace, and the standard library shortens them to
/// such that are relative to the current folder.
fn is_here(file: &str) -> bool {
    let file = std::path::Path::new(file);
    let bare = file.strip_prefix("./").unwrap_or(file);
    let absolute = std::env::current_dir().map(|here| here.join(bare));
    let is_source = |file: &std::path::Path| {
        let below = file.strip_prefix(env!("CARGO_MANIFEST_DIR"));
        below.is_ok_and(|below| below.starts_with("src")) && file.is_file()
    };
    bare.starts_with("crates/runtime/src") || absolute.is_ok_and(|file| is_source(&file))
}

/// Returns the innermost function of the program itself in a stack, as the standard library writes it with `{:?}`.
fn own_frame(stack: &str) -> Option<Place> {
    let frames = stack.split("{ fn: \"").skip(1);
    let mut frames = frames
        .filter_map(StackFrame::read)
        .filter(StackFrame::is_own);
    let found = frames.next()?;
    // The closure's function is further out.
    let mut around = || frames.find(|frame| !frame.is_closure());
    let name = match found.is_closure() {
        true => around().map_or("a closure", |frame| frame.name),
        false => found.name,
    };
    Some(Place {
        name: short(name),
        line: (found.line).map_or_else(String::new, |(file, line)| {
            format!("{}:{line}", relative(file))
        }),
    })
}

fn after<'a>(text: &'a str, what: &str) -> Option<&'a str> {
    text.find(what).map(|at| &text[at + what.len()..])
}

/// Returns a path below the folder that the program runs in, or the whole path.
fn relative(file: &str) -> String {
    let here = std::env::current_dir().ok();
    let below = here.and_then(|here| {
        let below = std::path::Path::new(file).strip_prefix(here).ok()?;
        Some(below.display().to_string())
    });
    below.unwrap_or_else(|| file.trim_start_matches("./").to_owned())
}

/// Returns a name without the closures at its end, of the hash of legacy mangling, and at most 100 characters of it.
fn short(name: &str) -> String {
    let mut name = name;
    if let Some((before, last)) = name.rsplit_once("::h")
        && last.len() == 16
        && last.bytes().all(|byte| byte.is_ascii_hexdigit())
    {
        name = before;
    }
    while let Some(before) = name.strip_suffix("::{{closure}}") {
        name = before;
    }
    // Generic arguments, which debug information writes behind the name.
    if let Some(at) = name.find('<').filter(|at| *at > 0) {
        name = &name[..at];
    }
    match name.char_indices().nth(100) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes frames as the standard library does: functions, files and lines.
    fn stack_of(frames: &[(&str, &str, u32)]) -> String {
        let frame = |(name, file, line): &(&str, &str, u32)| match *file {
            "" => format!("{{ fn: \"{name}\" }}"),
            file => format!("{{ fn: \"{name}\", file: \"{file}\", line: {line} }}"),
        };
        let frames: Vec<String> = frames.iter().map(frame).collect();
        format!("Backtrace [{}]", frames.join(", "))
    }

    #[test]
    fn the_innermost_function_that_is_no_librarys_is_found() {
        let stack = stack_of(&[
            ("tanada_runtime::fork::record::site::of_code", "a.rs", 1),
            ("<rayon::iter::Map as X>::y", "", 0),
            ("sorts::quick::{{closure}}", "./src/sorts.rs", 37),
            ("main", "", 0),
        ]);
        let place = Place {
            name: "sorts::quick".to_owned(),
            line: "src/sorts.rs:37".to_owned(),
        };
        assert_eq!(own_frame(&stack), Some(place));
        let without_lines = stack_of(&[
            ("core::ops::call", "", 0),
            ("sorts::main::h0123456789abcdef", "", 0),
        ]);
        let place = own_frame(&without_lines).expect("a function");
        assert_eq!(
            (place.name.as_str(), place.line.as_str()),
            ("sorts::main", "")
        );
        let inlined = stack_of(&[
            (
                "call_once<a::b>",
                "/rustc/1/library/core/src/ops/function.rs",
                250,
            ),
            ("helper", "/r/rayon-1.12.0/src/iter/plumbing/mod.rs", 4),
            ("{closure#0}", "src/main.rs", 17),
            ("quicksort<u8>", "src/main.rs", 16),
            ("start_thread", "nptl/pthread_create.c", 442),
        ]);
        let place = own_frame(&inlined).expect("a function");
        assert_eq!(
            (place.name.as_str(), place.line.as_str()),
            ("quicksort", "src/main.rs:17")
        );
        assert_eq!(own_frame("Backtrace [{ fn: \"main\" }]"), None);
        assert_eq!(own_frame("<disabled>"), None);
    }

    #[test]
    fn a_stack_of_this_very_test_has_a_function_and_no_library() {
        let stack = format!("{:?}", Backtrace::force_capture());
        // This crate counts as a library, so what is found is outside of it or nothing.
        assert!(
            own_frame(&stack).is_none_or(|place| !place.name.starts_with("tanada_runtime::")),
            "{stack}"
        );
        assert!(stack.contains("{ fn: \""), "the form that is read: {stack}");
    }
}
