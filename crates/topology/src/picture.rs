//! The topology as a picture of nested boxes.

use crate::list::{format_list, format_size};
use crate::text::alike;
use crate::tree::{Kind, Object, Topology};

/// The least width of a picture in characters: narrower boxes could not hold the words.
const LEAST_WIDTH: usize = 40;
/// The number of lines above which like objects are drawn as one, if that makes the picture shorter.
const MANY_LINES: usize = 50;
/// Columns that a box adds to its content: a line and a space on both sides.
const FRAME: usize = 4;

impl Topology {
    /// Returns the tree as nested boxes in lines of at most `width` characters (at least 40), each ended by a line feed.
    ///
    /// If the picture would be too tall, like objects side by side are drawn as one (`8 × Core`). Hardware threads outside of the affinity
    /// mask are in parentheses. Each character used takes one column.
    pub fn picture(&self, width: usize) -> String {
        let width = width.max(LEAST_WIDTH);
        // The longest runs of like objects are merged first, so that the outer shape stays visible.
        let attempts = [usize::MAX, 9, 5, 3, 2]
            .map(|longest| Picture { longest }.object(&[&self.root], self.title(), width));
        let low_enough = attempts.iter().find(|lines| lines.len() <= MANY_LINES);
        let lines = low_enough.or_else(|| attempts.iter().min_by_key(|lines| lines.len()));
        let lines = lines.into_iter().flatten();
        lines
            .map(|line| line.trim_end().to_owned() + "\n")
            .collect()
    }

    fn title(&self) -> String {
        let (threads, usable) = (self.root.count(Kind::HardwareThread), self.usable().len());
        let cores = plural(self.root.count(Kind::Core), "core");
        let mut title = format!("Machine: {cores}, {}", plural(threads, "hardware thread"));
        if usable < threads {
            title += &format!(", {usable} usable");
        }
        match self.quota {
            Some(1.0) => title += ", quota 1 core",
            Some(quota) => title += &format!(", quota {quota:.2} cores"),
            None => {}
        }
        title
    }
}

fn plural(n: usize, name: &str) -> String {
    format!("{n} {name}{}", if n == 1 { "" } else { "s" })
}

/// Lines of equal width.
type Block = Vec<String>;

struct Picture {
    /// The least length of a run of like objects that are drawn as one.
    longest: usize,
}

impl Picture {
    /// Draws and returns the box of a group of like objects, which are drawn as one.
    fn object(&self, group: &[&Object], title: String, width: usize) -> Block {
        let inner = width.saturating_sub(FRAME);
        let mut group = group.to_vec();
        let mut body = Block::new();
        // A core that is alone in its cache needs no box of its own.
        let alone = group[0].kind.is_cache()
            && matches!(&group[0].children[..], [only] if only.kind == Kind::Core);
        if alone {
            group = group.iter().map(|o| &o.children[0]).collect();
            body.push(name(&group, group.len()));
        }
        if group[0].kind == Kind::Core {
            body.extend(level1(group[0]));
            body.extend(wrap(&threads(&group), inner));
            return frame(&title, &body, width);
        }
        let draw = |child: Vec<&Object>| self.object(&child, name(&child, group.len()), inner);
        let children = self.children(&group).into_iter().map(draw).collect();
        body.extend(side_by_side(children, inner));
        frame(&title, &body, width)
    }

    /// Returns the children of a group, grouped in turn.
    fn children<'a>(&self, group: &[&'a Object]) -> Vec<Vec<&'a Object>> {
        let mut groups = Vec::new();
        let mut first = 0;
        let runs = group[0]
            .children
            .chunk_by(|a, b| alike(a, b) && same_mask(a, b));
        for run in runs {
            let positions = first..first + run.len();
            first = positions.end;
            if group.len() > 1 || run.len() >= self.longest {
                let children = group.iter().flat_map(|o| &o.children[positions.clone()]);
                groups.push(children.collect());
            } else {
                groups.extend(run.iter().map(|child| vec![child]));
            }
        }
        groups
    }
}

fn same_mask(a: &Object, b: &Object) -> bool {
    let mut children = a.children.iter().zip(&b.children);
    a.usable == b.usable && children.all(|(a, b)| same_mask(a, b))
}

/// Returns the name of a group of like objects in `holders` other objects, each of which holds equally many.
fn name(group: &[&Object], holders: usize) -> String {
    let object = group[0];
    let kind = match object.kind {
        Kind::Machine => "Machine",
        Kind::Package => "Package",
        Kind::Numa => "NUMA",
        Kind::L4 => "L4",
        Kind::L3 => "L3",
        Kind::L2 => "L2",
        Kind::Core => "Core",
        Kind::HardwareThread => "cpu",
    };
    let mut name = match group.len() / holders {
        1 if group.len() > 1 || object.kind.is_cache() => kind.to_owned(),
        1 => format!("{kind} {}", object.id),
        n => format!("{n} × {kind}"),
    };
    match object.bytes {
        Some(bytes) if object.kind == Kind::Numa => name += &format!(" {}", rounded(bytes)),
        Some(bytes) => name += &format!(" {}", format_size(bytes)),
        None => {}
    }
    if object.core_kind > 0 {
        name += &format!(" (kind {})", object.core_kind);
    }
    name
}

/// Returns a memory size for people: reserved pages make exact sizes odd numbers of kilobytes.
fn rounded(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format_size(bytes),
        0x10_0000..0x4000_0000 => format!("{}M", bytes >> 20),
        _ => format!("{:.1}G", bytes as f64 / f64::from(1 << 30)),
    }
}

fn level1(core: &Object) -> Option<String> {
    let size = |(name, bytes): (&str, Option<u64>)| Some(format!("{name} {}", format_size(bytes?)));
    let sizes = [("L1d", core.l1d_bytes), ("L1i", core.l1i_bytes)];
    let parts = Vec::from_iter(sizes.into_iter().filter_map(size));
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// Returns the hardware threads of like cores: one list of those that may be used, one in parentheses of the others.
fn threads(group: &[&Object]) -> String {
    let mut lists = [Vec::new(), Vec::new()];
    for thread in group.iter().flat_map(|core| &core.children) {
        lists[usize::from(!thread.usable)].push(thread.id);
    }
    let [usable, masked] = lists.map(|mut list| {
        list.sort_unstable();
        format_list(&list)
    });
    let masked = match masked.as_str() {
        "" => masked,
        list => format!("({list})"),
    };
    let each = match group[0].children.len() {
        n if n > 1 && group.len() > 1 => format!("· {n} a core"),
        _ => String::new(),
    };
    let mut parts = vec!["cpu".to_owned(), usable, masked, each];
    parts.retain(|part| !part.is_empty());
    parts.join(" ")
}

/// Returns `text` broken after commas and spaces.
fn wrap(text: &str, width: usize) -> Block {
    let mut lines = vec![String::new()];
    for piece in text.split_inclusive([',', ' ']) {
        let last = lines.last_mut().expect("there is always a last line");
        if !last.is_empty() && columns(last) + columns(piece.trim_end()) > width {
            lines.push(piece.to_owned());
        } else {
            last.push_str(piece);
        }
    }
    lines
}

fn columns(text: &str) -> usize {
    text.chars().count()
}

/// Returns `blocks` arranged in rows, with as many in each as fit.
fn side_by_side(blocks: Vec<Block>, width: usize) -> Block {
    let mut lines = Block::new();
    let mut row: Vec<Block> = Vec::new();
    let mut used = 0;
    for block in blocks {
        let wide = columns(&block[0]);
        if !row.is_empty() && used + 1 + wide > width {
            lines.extend(join(&row));
            row.clear();
            used = 0;
        }
        used += wide + usize::from(!row.is_empty());
        row.push(block);
    }
    lines.extend(join(&row));
    lines
}

fn join(row: &[Block]) -> Block {
    let height = row.iter().map(Vec::len).max().unwrap_or(0);
    let line = |i: usize| {
        let blank = |block: &Block| " ".repeat(columns(&block[0]));
        let cell = |block: &Block| block.get(i).cloned().unwrap_or_else(|| blank(block));
        Vec::from_iter(row.iter().map(cell)).join(" ")
    };
    (0..height).map(line).collect()
}

/// Draws and returns a box, as narrow as its content, with its title in the upper line.
fn frame(title: &str, body: &[String], width: usize) -> Block {
    let room = width.saturating_sub(FRAME).max(1);
    let cut = |text: &str| match columns(text) <= room {
        true => text.to_owned(),
        false => text.chars().take(room - 1).chain(['…']).collect(),
    };
    let title = cut(title);
    let body: Vec<String> = body.iter().map(|line| cut(line.trim_end())).collect();
    let widths = body.iter().map(|line| columns(line));
    let wide = widths.fold(columns(&title), usize::max);
    let pad = |text: &str, with: &str| with.repeat(wide - columns(text));
    let mut lines = vec![format!("┌ {title} {}┐", pad(&title, "─"))];
    let row = |line: &String| format!("│ {line}{} │", pad(line, " "));
    lines.extend(body.iter().map(row));
    lines.push(format!("└{}┘", "─".repeat(wide + 2)));
    lines
}
