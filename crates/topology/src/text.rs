//! Topologies as text: for fake machines in tests and on the command line.
//!
//! A text is a row of words, outermost level first; every object of a level contains all levels that follow. `#` starts a comment.
//!
//! ```text
//! package:2 numa:1 l3:1(size=32M) l2:4(size=1M) core:1 pu:2         two packages of four cores of two hardware threads
//! package:1 l3:1 [ core:2(kind=0) pu:2 | l2:1 core:4(kind=1) pu:1 ]  fast cores beside slow ones
//! core:4 allowed=0-1 quota=1.5                                       four cores, two in the affinity mask
//! ```
//!
//! Levels: `package`, `numa` (`memory=`), `l4`, `l3`, `l2` (`size=`), `core` (`l1d=`, `l1i=`, `kind=`: 0 is the fastest), `pu` (a hardware
//! thread; default: one a core). The default of `:N` is `:1`. `[ a | b ]` puts different parts side by side and ends its row.
//!
//! Settings may stand anywhere outside of brackets. `cpus=LIST`: the operating system's numbers of the hardware threads in tree order
//! (default: 0, 1, 2...). `nodes=LIST`: those of the NUMA nodes. `allowed=LIST`: the affinity mask (default: all). `quota=CORES`.
//! `l3.size=32M`, `core.l1d=48K`, `numa.memory=64G` and so on set the attribute of every object of the kind that has none of its own.
//! `l1d.size` and `l1i.size` are other names of `core.l1d` and `core.l1i`. `l2.size` in a text without an `l2` level adds a private level-2
//! cache to each core.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use crate::Error;
use crate::list::{format_list, format_size, parse_list, parse_size};
use crate::tree::{Kind, Object, Topology, may_lie_in};

const KINDS: [(&str, Kind); 7] = [
    ("package", Kind::Package),
    ("numa", Kind::Numa),
    ("l4", Kind::L4),
    ("l3", Kind::L3),
    ("l2", Kind::L2),
    ("core", Kind::Core),
    ("pu", Kind::HardwareThread),
];

/// All attributes: the kind of object that has it, and its name.
const ATTRIBUTES: [(Kind, &str); 7] = [
    (Kind::Numa, "memory"),
    (Kind::L4, "size"),
    (Kind::L3, "size"),
    (Kind::L2, "size"),
    (Kind::Core, "l1d"),
    (Kind::Core, "l1i"),
    (Kind::Core, "kind"),
];

/// The attributes that `KIND.ATTRIBUTE=VALUE` can set: all but the kind of core, for which "none" cannot be distinguished from 0.
const DEFAULTS: &[(Kind, &str)] = ATTRIBUTES.split_at(6).0;

impl Topology {
    /// Parses and returns a topology from text such as `package:2 numa:1 l3:1(size=32M) core:4 pu:2`.
    ///
    /// The text is a row of levels, outermost first: `package`, `numa`, `l4`, `l3`, `l2`, `core`, `pu`, each with `:COUNT` and attributes
    /// in brackets (`size=`, `memory=`, `l1d=`, `l1i=`, `kind=`). `[ a | b ]` puts unlike parts side by side. Settings are `cpus=`,
    /// `nodes=`, `allowed=`, `quota=` and defaults such as `l2.size=1M`. `#` starts a comment. A topology is shown in the same form.
    ///
    /// # Errors
    /// [`Error::Text`] with the position of the first fault; [`Error::Tree`] and [`Error::NothingUsable`] as [`Topology::new`]. Time and
    /// memory are limited by the length of the text and [`Topology::MAX_HARDWARE_THREADS`].
    pub fn parse(text: &str) -> Result<Topology, Error> {
        let mut parser = Parser {
            words: split(text),
            at: 0,
            settings: BTreeMap::new(),
        };
        parser.take_settings()?;
        let children = parser.row(&mut vec![Kind::Machine])?;
        if let Some(word) = parser.words.get(parser.at) {
            return Err(word.wrong(format!("`{}` stands after the end of its row", word.text)));
        }
        if children.is_empty() {
            return Err(Error::Text {
                line: 1,
                column: 1,
                message: "no level: expected `package`, `numa`, `l4`, `l3`, `l2` or `core`".into(),
            });
        }
        let mut root = Object::new(Kind::Machine, children);
        parser.apply(&mut root)?;
        let quota = parser.quota()?;
        Topology::new(root, quota)
    }
}

impl fmt::Display for Topology {
    /// Writes the topology on one line, in the form that [`Topology::parse`] reads; parsing it returns an equal topology.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        write_row(&self.root.children, &mut words);
        let (mut cpus, mut allowed, mut nodes) = (Vec::new(), Vec::new(), Vec::new());
        self.root.visit(&mut |o| match o.kind {
            Kind::HardwareThread => {
                cpus.push(o.id);
                allowed.extend(o.usable.then_some(o.id));
            }
            Kind::Numa => nodes.push(o.id),
            _ => {}
        });
        let counts_up = |list: &[u32]| list.iter().zip(0..).all(|(&n, i)| n == i);
        if !counts_up(&cpus) {
            words.push(format!("cpus={}", format_list(&cpus)));
        }
        if !counts_up(&nodes) {
            words.push(format!("nodes={}", format_list(&nodes)));
        }
        if allowed.len() < cpus.len() {
            allowed.sort_unstable();
            words.push(format!("allowed={}", format_list(&allowed)));
        }
        if let Some(quota) = self.quota {
            words.push(format!("quota={quota}"));
        }
        f.write_str(&words.join(" "))
    }
}

impl FromStr for Topology {
    type Err = Error;

    /// Parses and returns the same as [`Topology::parse`].
    fn from_str(text: &str) -> Result<Topology, Error> {
        Topology::parse(text)
    }
}

/// A word and its position.
#[derive(Clone, Copy)]
struct Word<'a> {
    text: &'a str,
    line: usize,
    column: usize,
}

impl Word<'_> {
    fn wrong(&self, message: String) -> Error {
        Error::Text {
            line: self.line,
            column: self.column,
            message,
        }
    }

    /// Returns the value of a setting.
    fn value(&self) -> &str {
        self.setting().map_or("", |(_, value)| value)
    }

    /// Returns `name` and `value` of `name=value`; `None` for a level whose attributes contain a `=`.
    fn setting(&self) -> Option<(&str, &str)> {
        self.text
            .split_once('=')
            .filter(|(name, _)| !name.contains('('))
    }
}

/// Returns the words of a text; `[`, `|` and `]` are always words of their own.
fn split(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    for (line, text) in text.lines().enumerate() {
        let text = text.split('#').next().unwrap_or("");
        let single = |c: char| matches!(c, '[' | '|' | ']');
        let (mut rest, mut column) = (text, 1);
        while let Some(begin) = rest.find(|c: char| !c.is_whitespace()) {
            column += rest[..begin].chars().count();
            rest = &rest[begin..];
            let end = match rest.starts_with(single) {
                true => Some(1),
                false => rest.find(|c: char| c.is_whitespace() || single(c)),
            };
            let (text, after) = rest.split_at(end.unwrap_or(rest.len()));
            let line = line + 1;
            words.push(Word { text, line, column });
            column += text.chars().count();
            rest = after;
        }
    }
    words
}

struct Parser<'a> {
    words: Vec<Word<'a>>,
    at: usize,
    settings: BTreeMap<String, Word<'a>>,
}

impl<'a> Parser<'a> {
    /// Removes the settings from the row of words and stores them.
    fn take_settings(&mut self) -> Result<(), Error> {
        let mut rest = Vec::new();
        let mut depth = 0usize;
        for word in std::mem::take(&mut self.words) {
            match word.text {
                "[" => depth += 1,
                "]" => depth = depth.saturating_sub(1),
                _ => {}
            }
            let Some((name, _)) = word.setting() else {
                rest.push(word);
                continue;
            };
            let name = match name {
                "l1d.size" => "core.l1d",
                "l1i.size" => "core.l1i",
                other => other,
            };
            let is_default = DEFAULTS
                .iter()
                .any(|&(kind, attribute)| name == format!("{}.{attribute}", name_of(kind)));
            if !is_default && !["cpus", "nodes", "allowed", "quota"].contains(&name) {
                return Err(word.wrong(format!("unknown setting `{name}`")));
            }
            if depth > 0 {
                let message =
                    format!("the setting `{name}` counts everywhere and cannot stand inside [ ]");
                return Err(word.wrong(message));
            }
            if self.settings.insert(name.to_owned(), word).is_some() {
                return Err(word.wrong(format!("`{name}` is set twice")));
            }
        }
        self.words = rest;
        Ok(())
    }

    /// Parses a row of levels up to its end and returns the objects of its first level.
    fn row(&mut self, path: &mut Vec<Kind>) -> Result<Vec<Object>, Error> {
        let Some(&word) = self.words.get(self.at) else {
            return Ok(Vec::new());
        };
        match word.text {
            "|" | "]" => Ok(Vec::new()),
            "[" => self.branch(word, path),
            _ => self.level(word, path),
        }
    }

    /// Parses and returns `[ row | row ]`. A row inside of it must begin with a level, which limits the depth of the recursion.
    fn branch(&mut self, open: Word<'a>, path: &mut Vec<Kind>) -> Result<Vec<Object>, Error> {
        let (mut all, mut threads) = (Vec::new(), 0);
        loop {
            self.at += 1; // over `[` or `|`
            let Some(&word) = self.words.get(self.at) else {
                return Err(open.wrong("`[` without `]`".into()));
            };
            if matches!(word.text, "[" | "|" | "]") {
                return Err(word.wrong(format!("expected a level, not `{}`", word.text)));
            }
            let objects = self.level(word, path)?;
            threads += count_threads(&objects);
            check_size(threads, word)?;
            all.extend(objects);
            match self.words.get(self.at) {
                Some(Word { text: "|", .. }) => {}
                Some(Word { text: "]", .. }) => {
                    self.at += 1;
                    return Ok(all);
                }
                Some(word) => {
                    return Err(word.wrong(format!("expected `|` or `]`, not `{}`", word.text)));
                }
                None => return Err(open.wrong("`[` without `]`".into())),
            }
        }
    }

    fn level(&mut self, word: Word<'a>, path: &mut Vec<Kind>) -> Result<Vec<Object>, Error> {
        self.at += 1;
        let (mut object, count) = parse_level(word)?;
        let name = name_of(object.kind);
        if !may_lie_in(object.kind, path) {
            let outer = match &path[1..] {
                [] => "the machine".into(),
                kinds => Vec::from_iter(kinds.iter().map(|&kind| name_of(kind))).join(" > "),
            };
            return Err(word.wrong(format!("`{name}` cannot lie inside {outer}")));
        }
        path.push(object.kind);
        object.children = self.row(path)?;
        path.pop();
        if object.children.is_empty() {
            match object.kind {
                Kind::HardwareThread => {}
                Kind::Core => object.children.push(Object::hardware_thread(0, true)),
                _ => return Err(word.wrong(format!("`{name}` holds no core"))),
            }
        }
        let threads = object.count(Kind::HardwareThread).saturating_mul(count);
        check_size(threads, word)?;
        Ok(vec![object; count])
    }

    /// Applies numbers, mask and default attributes to the tree.
    fn apply(&self, root: &mut Object) -> Result<(), Error> {
        if self.settings.contains_key("l2.size") && root.count(Kind::L2) == 0 {
            wrap_cores(root);
        }
        for &(kind, attribute) in DEFAULTS {
            let name = name_of(kind);
            let Some(word) = self.settings.get(&format!("{name}.{attribute}")) else {
                continue;
            };
            if root.count(kind) == 0 {
                let message = format!("there is no `{name}` that it could count for");
                return Err(word.wrong(message));
            }
            let value = word.value();
            let mut result = Ok(());
            root.visit_mut(&mut |o| {
                if o.kind == kind && size_of(o, attribute).is_none() {
                    result = set_attribute(o, attribute, value);
                }
            });
            result.map_err(|message| word.wrong(message))?;
        }
        self.number(root, Kind::HardwareThread, "cpus")?;
        self.number(root, Kind::Numa, "nodes")?;
        self.mask(root)
    }

    /// Returns the list of a setting, in which each number occurs at most once.
    fn list(&self, name: &str) -> Result<Option<(Word<'a>, Vec<u32>)>, Error> {
        let Some(&word) = self.settings.get(name) else {
            return Ok(None);
        };
        let value = word.value();
        let list = parse_list(value, Topology::MAX_HARDWARE_THREADS)
            .map_err(|message| word.wrong(message))?;
        if list.iter().collect::<BTreeSet<_>>().len() < list.len() {
            return Err(word.wrong(format!("a number occurs twice in `{name}`")));
        }
        Ok(Some((word, list)))
    }

    fn number(&self, root: &mut Object, kind: Kind, setting: &str) -> Result<(), Error> {
        let wanted = root.count(kind);
        let list = match self.list(setting)? {
            Some((_, list)) if list.len() == wanted => list,
            Some((word, list)) => {
                let (name, count) = (name_of(kind), list.len());
                let message = format!("{count} numbers for {wanted} objects of kind `{name}`");
                return Err(word.wrong(message));
            }
            None => (0..wanted as u32).collect(),
        };
        let mut list = list.into_iter();
        root.visit_mut(&mut |o| {
            if o.kind == kind {
                o.id = list.next().unwrap_or(0);
            }
        });
        Ok(())
    }

    fn mask(&self, root: &mut Object) -> Result<(), Error> {
        let Some((word, list)) = self.list("allowed")? else {
            return Ok(());
        };
        let mut allowed: BTreeSet<u32> = list.into_iter().collect();
        root.visit_mut(&mut |o| {
            if o.kind == Kind::HardwareThread {
                o.usable = allowed.remove(&o.id);
            }
        });
        match allowed.first() {
            Some(cpu) => Err(word.wrong(format!("there is no hardware thread {cpu}"))),
            None => Ok(()),
        }
    }

    fn quota(&self) -> Result<Option<f64>, Error> {
        let Some(word) = self.settings.get("quota") else {
            return Ok(None);
        };
        let value = word.value();
        match value.parse::<f64>() {
            Ok(quota) if quota.is_finite() && quota > 0.0 => Ok(Some(quota)),
            _ => {
                let message = format!("the quota `{value}` is not a positive number of cores");
                Err(word.wrong(message))
            }
        }
    }
}

fn name_of(kind: Kind) -> &'static str {
    let found = KINDS.iter().find(|&&(_, known)| known == kind);
    found.map_or("machine", |&(name, _)| name)
}

fn count_threads(objects: &[Object]) -> usize {
    objects.iter().map(|o| o.count(Kind::HardwareThread)).sum()
}

fn check_size(threads: usize, word: Word<'_>) -> Result<(), Error> {
    const MOST: usize = Topology::MAX_HARDWARE_THREADS;
    match threads > MOST {
        true => Err(word.wrong(format!("more than {MOST} hardware threads"))),
        false => Ok(()),
    }
}

/// Parses and returns `KIND[:COUNT][(ATTRIBUTE=VALUE,...)]`.
fn parse_level(word: Word<'_>) -> Result<(Object, usize), Error> {
    let (head, attributes) = match word.text.split_once('(') {
        None => (word.text, None),
        Some((head, rest)) => match rest.strip_suffix(')') {
            Some(inside) => (head, Some(inside)),
            None => return Err(word.wrong("`(` without `)`".into())),
        },
    };
    let (name, count) = match head.split_once(':') {
        None => (head, 1),
        Some((name, count)) => match count.parse::<u16>() {
            Ok(n) if n > 0 && count.bytes().all(|b| b.is_ascii_digit()) => (name, usize::from(n)),
            _ => return Err(word.wrong(format!("`{count}` is not a count from 1 to 65535"))),
        },
    };
    let Some(&(_, kind)) = KINDS.iter().find(|&&(known, _)| known == name) else {
        return Err(word.wrong(format!(
            "unknown level `{name}`: expected package, numa, l4, l3, l2, core or pu"
        )));
    };
    let mut object = Object::new(kind, Vec::new());
    for attribute in attributes.into_iter().flat_map(|inside| inside.split(',')) {
        let Some((key, value)) = attribute.split_once('=') else {
            return Err(word.wrong(format!("`{attribute}` is not of the form NAME=VALUE")));
        };
        if !ATTRIBUTES.contains(&(kind, key)) {
            return Err(word.wrong(format!("a `{name}` has no attribute `{key}`")));
        }
        set_attribute(&mut object, key, value).map_err(|message| word.wrong(message))?;
    }
    Ok((object, count))
}

/// Returns the place of an attribute that is a size.
fn size_of<'a>(object: &'a mut Object, name: &str) -> &'a mut Option<u64> {
    match name {
        "l1d" => &mut object.l1d_bytes,
        "l1i" => &mut object.l1i_bytes,
        _ => &mut object.bytes,
    }
}

/// Sets an attribute; returns an error unless `ATTRIBUTES` has it for this kind.
fn set_attribute(object: &mut Object, name: &str, value: &str) -> Result<(), String> {
    if name == "kind" {
        object.core_kind = value
            .parse()
            .map_err(|_| format!("`{value}` is not a kind of core from 0 to 255"))?;
        return Ok(());
    }
    let bytes =
        parse_size(value).ok_or_else(|| format!("`{value}` is not a size such as 512K or 2M"))?;
    *size_of(object, name) = Some(bytes);
    Ok(())
}

/// Writes the words of a row of siblings: one level if they are all alike, else a branch.
fn write_row(siblings: &[Object], words: &mut Vec<String>) {
    let runs: Vec<&[Object]> = siblings.chunk_by(alike).collect();
    if let [only] = runs[..] {
        return write_level(&only[0], only.len(), words);
    }
    for (i, run) in runs.iter().enumerate() {
        words.push(if i == 0 { "[" } else { "|" }.into());
        write_level(&run[0], run.len(), words);
    }
    if !runs.is_empty() {
        words.push("]".into());
    }
}

fn write_level(object: &Object, count: usize, words: &mut Vec<String>) {
    let size = |name, bytes: Option<u64>| bytes.map(|b| format!("{name}={}", format_size(b)));
    let own = match object.kind {
        Kind::Numa => "memory",
        _ => "size",
    };
    let kind = (object.core_kind != 0).then(|| format!("kind={}", object.core_kind));
    let (l1d, l1i) = (size("l1d", object.l1d_bytes), size("l1i", object.l1i_bytes));
    let attributes = [size(own, object.bytes), l1d, l1i, kind]
        .into_iter()
        .flatten();
    let attributes = match Vec::from_iter(attributes) {
        none if none.is_empty() => String::new(),
        some => format!("({})", some.join(",")),
    };
    words.push(format!("{}:{count}{attributes}", name_of(object.kind)));
    let single_thread = object.kind == Kind::Core && object.children.len() == 1;
    if !single_thread {
        write_row(&object.children, words);
    }
}

/// Puts every core into its own level-2 cache.
fn wrap_cores(object: &mut Object) {
    for child in &mut object.children {
        if child.kind == Kind::Core {
            let core = std::mem::replace(child, Object::new(Kind::L2, Vec::new()));
            child.children.push(core);
        } else {
            wrap_cores(child);
        }
    }
}

/// Returns whether two objects are equal but for numbers and the mask, which are written separately from the levels.
pub(crate) fn alike(a: &Object, b: &Object) -> bool {
    a.kind == b.kind
        && a.bytes == b.bytes
        && (a.l1d_bytes, a.l1i_bytes, a.core_kind) == (b.l1d_bytes, b.l1i_bytes, b.core_kind)
        && a.children.len() == b.children.len()
        && a.children.iter().zip(&b.children).all(|(a, b)| alike(a, b))
}
