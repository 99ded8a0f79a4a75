//! Random traces and machines, each a function of its seed.

use super::{Groups, split_mix_64};
use std::fmt::Write as _;

/// What is run.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub trace: String,
    pub groups: Groups,
    /// With some keys that `overrides` set right.
    pub machine: String,
    pub overrides: Vec<String>,
    /// As `machine` is after `overrides`.
    pub overridden: String,
    /// Whether all cores are equally far from each other: no cache or socket is shared by some of them only.
    pub equal_distances: bool,
    pub cores: Option<u16>,
    pub seed: Option<u64>,
}

/// Random choices.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        split_mix_64(&mut self.0) % end
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize].clone()
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

impl Case {
    /// The case of this seed, with at most `most_tasks` tasks.
    pub(crate) fn of(seed: u64, most_tasks: u64) -> Case {
        let dice = &mut Dice(seed);
        let trace = trace(dice, most_tasks);
        let groups = match dice.below(6) {
            0 => Groups::Zero,
            1 | 2 if trace.contains(" T:a=") => Groups::Named("a".to_owned()),
            _ => Groups::Plain,
        };
        let equal_distances = dice.one_in(2);
        let (machine, overrides, overridden) = machine(dice, equal_distances);
        Case {
            equal_distances,
            trace,
            groups,
            machine,
            overrides,
            overridden,
            cores: dice.one_in(3).then(|| 1 + dice.below(9) as u16),
            seed: dice.one_in(3).then(|| {
                let shift = dice.below(64);
                split_mix_64(&mut dice.0) >> shift
            }),
        }
    }
}

fn number(dice: &mut Dice, value: u64) -> String {
    match dice.below(6) {
        0 => format!("{value:#x}"),
        1 => format!("0x{value:X}"),
        2 if value < 1000 => format!("00{value}"),
        _ => value.to_string(),
    }
}

fn trace(dice: &mut Dice, most_tasks: u64) -> String {
    let tasks = dice.below(most_tasks + 1);
    let mut ids: Vec<u64> = (0..tasks)
        .map(|task| {
            if dice.one_in(2) {
                task
            } else {
                task + (dice.below(1 << 16) << 16)
            }
        })
        .collect();
    ids.sort_unstable();
    ids.dedup();
    // Edges lead from earlier to later in an order of their own, which is not that of declaration.
    let mut order = ids.clone();
    dice.shuffle(&mut order);
    dice.shuffle(&mut ids);
    let mut edges = edges(dice, &order);
    let style = Style {
        works: dice.pick(&[1, 4, 40, 4000]),
        groups: dice.pick(&[1, 2, 4, 12]),
        records: dice.pick(&[1, 3, 12]),
        loops: dice.one_in(6),
        regions: (0..1 + dice.below(4)).map(|_| region(dice)).collect(),
    };
    let mut text = String::from("# made up\n\n  tanada-trace\t1 # the header\n");
    for id in ids {
        while !edges.is_empty() && dice.one_in(2) {
            text += &edges.swap_remove(0);
        }
        task(dice, &mut text, id, &style);
        for _ in 0..dice.below(style.records + 1) {
            if style.loops && dice.one_in(3) {
                repeated(dice, &mut text, &style);
            } else {
                record(dice, &mut text, &style);
            }
            if dice.one_in(8) {
                text += "\n   # nothing\n";
            }
        }
    }
    edges.into_iter().for_each(|edge| text += &edge);
    text
}

/// Declarations in a random order, some twice.
fn edges(dice: &mut Dice, order: &[u64]) -> Vec<String> {
    let mut edges = Vec::new();
    let (shape, reach) = (dice.below(4), 1 + dice.below(20));
    for to in 1..order.len() as u64 {
        let parents = match shape {
            0 => 0,
            1 => 1,
            2 => dice.below(3),
            _ => dice.below(6) / 3,
        };
        for _ in 0..parents {
            let from = to - 1 - dice.below(reach.min(to));
            let (from, to) = (order[from as usize], order[to as usize]);
            for _ in 0..1 + dice.below(8) / 7 {
                let kind = dice.pick(&["dep", "dep", "fork"]);
                let (from, to) = (number(dice, from), number(dice, to));
                edges.push(format!("{kind} {from}\t{to}\n"));
            }
        }
    }
    dice.shuffle(&mut edges);
    edges
}

/// What the tasks of a trace are like.
struct Style {
    works: u64,
    groups: u64,
    records: u64,
    /// Whether some records are repeated very often, with strides: more than any window holds.
    loops: bool,
    /// (start, length) of what records touch.
    regions: Vec<(u64, u64)>,
}

fn region(dice: &mut Dice) -> (u64, u64) {
    let length = dice.pick(&[64, 700, 6000, 100_000]);
    let start = match dice.below(5) {
        0 => 0,
        1 => u64::MAX - length + 1,
        2 => dice.below(1 << 40),
        _ => dice.below(1 << 14),
    };
    (start, length)
}

fn task(dice: &mut Dice, text: &mut String, id: u64, style: &Style) {
    let mut words = Vec::new();
    let group = |dice: &mut Dice| match dice.below(12) {
        0 => u64::from(u32::MAX) - dice.below(3),
        _ => dice.below(style.groups + 1),
    };
    for key in ["T", "S", "T:a", "S:a", "T:b", "depth"] {
        if !dice.one_in(4) {
            let group = group(dice);
            let number = number(dice, group);
            words.push(format!("{key}={number}"));
        }
    }
    if !dice.one_in(4) {
        words.push(format!(
            "name={}",
            dice.pick(&["a", "b", "luma", "T=1", "\u{e9}"])
        ));
    }
    if dice.one_in(4) {
        words.push(
            dice.pick(&["h:deadline=soon", "h:code=7", "h:code=0", "h:code=x"])
                .to_owned(),
        );
    }
    dice.shuffle(&mut words);
    let id = number(dice, id);
    let space = dice.pick(&[" ", "\t", "  "]);
    let _ = writeln!(text, "task {id} {}", words.join(space));
}

fn record(dice: &mut Dice, text: &mut String, style: &Style) {
    let kind = dice.pick(&["x", "i", "i", "r", "r", "w", "w"]);
    if kind == "x" {
        let cycles = dice.below(style.works);
        let cycles = number(dice, cycles);
        let _ = writeln!(text, " x {cycles}");
        return;
    }
    let (start, length) = dice.pick(&style.regions);
    let address = start + dice.below(length);
    let most = (length - (address - start)).min(dice.pick(&[1, 4, 64, 300, 5000]));
    let (address, size) = (number(dice, address), 1 + dice.below(most));
    let size = number(dice, size);
    let _ = writeln!(
        text,
        "{kind}  {address} {size}{}",
        dice.pick(&["", " ", "# odd"])
    );
}

/// A few records again and again, each with a stride of its own.
fn repeated(dice: &mut Dice, text: &mut String, style: &Style) {
    let (rounds, far) = (dice.pick(&[2, 5, 40, 1500]), dice.pick(&[1, 4, 64, 100]));
    let body: Vec<_> = (0..1 + dice.below(3))
        .map(|_| {
            let (start, length) = dice.pick(&style.regions);
            let kind = dice.pick(&["i", "r", "w", "x"]);
            let (size, stride) = (1 + dice.below(8), dice.below(far));
            (kind, start, length, size, stride)
        })
        .collect();
    for round in 0..rounds {
        for &(kind, start, length, size, stride) in &body {
            let _ = match kind {
                "x" => writeln!(text, "x {}", round * stride % style.works),
                _ => writeln!(
                    text,
                    "{kind} {} {size}",
                    start + round * stride % (length - size)
                ),
            };
        }
    }
}

fn machine(dice: &mut Dice, equal_distances: bool) -> (String, Vec<String>, String) {
    let cluster = 1 + dice.below(4);
    let socket = if dice.one_in(6) {
        cluster + dice.below(4)
    } else {
        cluster * (1 + dice.below(3))
    };
    let cores = 1 + if dice.one_in(20) {
        dice.below(40)
    } else {
        dice.below(9)
    };
    let (hit, dispatch) = (dice.pick(&[1, 1, 1, 0, 3]), dice.pick(&[0, 0, 1, 7, 100]));
    let coherence = dice.pick(&["none", "invalidate"]);
    let mut head = format!(
        "name = \"random\"\nmodel = \"uniform\"\ncores = {cores}\nhit_cycles = {hit}\ncoherence = \"{coherence}\"\n"
    );
    if !equal_distances {
        let _ = writeln!(
            head,
            "cores_per_cluster = {cluster}\ncores_per_socket = {socket}"
        );
    }
    if dice.one_in(2) {
        let _ = writeln!(head, "seed = {}", dice.below(1 << 40));
    }
    let mut overrides = Vec::new();
    let mut wrong = dispatch;
    if dice.one_in(3) {
        overrides.push(format!("dispatch_cycles={dispatch}"));
        wrong += 13;
    }
    let mut machine = format!("{head}dispatch_cycles = {wrong}\n");
    let mut overridden = format!("{head}dispatch_cycles = {dispatch}\n");
    let (mut per, mut line) = (0, 4 + dice.below(3));
    let mut tables = Vec::new();
    for level in 1..=dice.pick(&[0, 1, 2, 2, 3, 4]) {
        let kinds: &[&str] = match dice.below(8) {
            0 => &["data"],
            1 => &["instruction"],
            2..=4 => &["instruction", "data"],
            _ => &["unified"],
        };
        per = (per + dice.below(3)).min(3);
        line += dice.below(2);
        for kind in kinds {
            if equal_distances && per > 0 {
                per = 3;
            }
            let place = ["core", "cluster", "socket", "machine"][per as usize];
            tables.push(cache(dice, level, kind, place, 1 << line, &mut overrides));
        }
        if kinds == ["unified"] && per == 0 && dice.one_in(2) {
            per = 1;
        }
    }
    dice.shuffle(&mut tables);
    for (before, after) in tables {
        machine += &before;
        overridden += &after;
    }
    (machine, overrides, overridden)
}

/// One table before and after the overrides.
fn cache(
    dice: &mut Dice,
    level: u64,
    kind: &str,
    per: &str,
    line: u64,
    overrides: &mut Vec<String>,
) -> (String, String) {
    let (ways, sets) = (1 + dice.below(4), dice.pick(&[1, 2, 3, 4, 5, 7, 8, 16, 33]));
    let replacement = dice.pick(&["fifo", "lru", "random"]);
    let bytes = ways * sets * line;
    let size = if bytes.is_multiple_of(1024) {
        format!("{}K", bytes / 1024)
    } else {
        bytes.to_string()
    };
    let miss = dice.pick(&[0, 1, 10, 200]);
    let table = |size: &str| {
        format!(
            "[[cache]]\nlevel = {level}\nkind = \"{kind}\"\nper = \"{per}\"\nsize = \"{size}\"\nways = {ways}\nline = {line}\n\
             replacement = \"{replacement}\"\nmiss_cycles = {miss}\n"
        )
    };
    if !dice.one_in(6) {
        return (table(&size), table(&size));
    }
    let letter = match kind {
        "instruction" => "i",
        "data" => "d",
        _ => "",
    };
    overrides.push(format!("l{level}{letter}.size={size}"));
    (table(&(bytes * 2).to_string()), table(&size))
}
