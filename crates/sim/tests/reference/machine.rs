//! The file of a machine.

use toml::Table;

/// What a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Instruction,
    Data,
    Unified,
}

impl Kind {
    /// Whether fetches, or else reads and writes, go through such a cache.
    pub(crate) fn holds(self, fetch: bool) -> bool {
        self == Kind::Unified || (self == Kind::Instruction) == fetch
    }
}

/// One table of the file.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    pub level: u64,
    pub kind: Kind,
    /// How many neighbouring cores share one.
    pub cores: u64,
    pub size: u64,
    pub ways: u64,
    pub line: u64,
    pub replacement: String,
    pub miss_cycles: u64,
}

/// A machine.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub cores: usize,
    pub hit_cycles: u64,
    pub dispatch_cycles: u64,
    pub invalidate: bool,
    pub seed: u64,
    /// In the order of the file.
    pub caches: Vec<Cache>,
}

fn size(text: &str) -> u64 {
    let unit = |letter: char, power: u32| {
        let digits = text.strip_suffix(letter)?;
        Some(digits.parse::<u64>().expect("a size") * 1024_u64.pow(power))
    };
    unit('K', 1)
        .or_else(|| unit('M', 2))
        .or_else(|| unit('G', 3))
        .unwrap_or_else(|| text.parse().expect("a size"))
}

fn number(table: &Table, key: &str) -> Option<u64> {
    Some(table.get(key)?.as_integer().expect("a number") as u64)
}

fn word<'a>(table: &'a Table, key: &str) -> &'a str {
    table[key].as_str().expect("a word")
}

impl Machine {
    /// Reads a machine that is right; panics on any other. `cores` and `seed` replace what the file says.
    pub(crate) fn parse(text: &str, cores: Option<usize>, seed: Option<u64>) -> Machine {
        let table: Table = text.parse().expect("TOML");
        assert_eq!(word(&table, "model"), "uniform");
        let needed = |key: &str| number(&table, key).expect("a required key");
        let caches = table
            .get("cache")
            .map_or(&[][..], |list| list.as_array().expect("a list"));
        let cache = |cache: &toml::Value| {
            let cache = cache.as_table().expect("a table");
            Cache {
                level: number(cache, "level").expect("a level"),
                kind: match word(cache, "kind") {
                    "instruction" => Kind::Instruction,
                    "data" => Kind::Data,
                    "unified" => Kind::Unified,
                    other => panic!("no kind: {other}"),
                },
                cores: match word(cache, "per") {
                    "core" => 1,
                    "cluster" => needed("cores_per_cluster"),
                    "socket" => needed("cores_per_socket"),
                    "machine" => u64::MAX,
                    other => panic!("no place: {other}"),
                },
                size: size(word(cache, "size")),
                ways: number(cache, "ways").expect("ways"),
                line: number(cache, "line").expect("a line"),
                replacement: word(cache, "replacement").to_owned(),
                miss_cycles: number(cache, "miss_cycles").expect("cycles"),
            }
        };
        Machine {
            cores: cores.unwrap_or(needed("cores") as usize),
            hit_cycles: needed("hit_cycles"),
            dispatch_cycles: needed("dispatch_cycles"),
            invalidate: word(&table, "coherence") == "invalidate",
            seed: seed.or(number(&table, "seed")).unwrap_or(0),
            caches: caches.iter().map(cache).collect(),
        }
    }
}
