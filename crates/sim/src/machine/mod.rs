//! Machine descriptions: the caches, costs and cores of a TOML file, checked as a whole.

pub(crate) mod contended;
mod document;
mod draft;
pub mod regions;
pub mod registry;
pub mod rtos;
pub mod smt;
mod topology;

pub(crate) use document::LONGEST_FILE;

pub use document::Section;
use document::{Place, Table};
pub use draft::{Geometry, draft};

use contended::{LONGEST_CYCLES, SharedTable, Tables};
use regions::RegionsTable;
use rtos::RtosTable;
use smt::{Share, SmtTable};

/// A moment or a span of time, in cycles of the cores' clock.
pub type Cycle = u64;

/// The most cores of a machine: the time that a simulation takes to begin, and the memory of some parts, grow with the square.
const MOST_CORES: u16 = 4096;

/// The most lines that all caches of a machine may have together, so that a machine takes at most a gigabyte of memory.
pub const MOST_LINES: u64 = 1 << 26;

/// An error in a machine file, or in an override of its values.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct MachineError {
    place: String,
    message: String,
    usage: bool,
}

impl std::fmt::Debug for MachineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl MachineError {
    pub(crate) fn new(file: &str, place: &Place, message: String) -> MachineError {
        let (place, usage) = match place {
            Place::Line(line) => (format!("{file}:{line}"), false),
            Place::Override(text) => (text.clone(), true),
        };
        MachineError {
            place,
            message,
            usage,
        }
    }

    /// Returns this error with `flags` as the cause: the machine was valid without them.
    fn because_of(self, flags: &[String]) -> MachineError {
        if self.usage || flags.is_empty() {
            return self;
        }
        MachineError {
            place: flags.join(" "),
            message: self.to_string(),
            usage: true,
        }
    }

    /// Returns whether the command line is at fault and not the file.
    pub fn is_usage(&self) -> bool {
        self.usage
    }
}

/// The rules of time that a machine follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Model {
    /// Every miss of a level costs the same, and no request waits for another.
    Uniform,
    /// Requests wait for shared caches, memory and the dispatcher; see `models/contended/RULES.md`.
    Contended,
}

impl Model {
    /// The words of machine files, in the order of the variants.
    const WORDS: [(&str, Model); 2] =
        [("uniform", Model::Uniform), ("contended", Model::Contended)];

    /// Returns the word for the model in machine files.
    pub fn as_str(self) -> &'static str {
        Model::WORDS[self as usize].0
    }
}

/// What a write does to copies of its line in caches that are not on the writer's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coherence {
    /// Nothing.
    None,
    /// They are removed.
    Invalidate,
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Instructions.
    Instruction,
    /// Data.
    Data,
    /// Instructions and data.
    Unified,
}

impl Kind {
    /// The words of machine files, in the order of the variants.
    const WORDS: [(&str, Kind); 3] = [
        ("instruction", Kind::Instruction),
        ("data", Kind::Data),
        ("unified", Kind::Unified),
    ];

    /// The word that stands for it in machine files.
    pub fn as_str(self) -> &'static str {
        Kind::WORDS[self as usize].0
    }
}

/// The cores that share one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// A single core.
    Core,
    /// `cores_per_cluster` cores.
    Cluster,
    /// `cores_per_socket` cores.
    Socket,
    /// All cores.
    Machine,
}

impl Per {
    /// The words of machine files, in the order of the variants.
    const WORDS: [(&str, Per); 4] = [
        ("core", Per::Core),
        ("cluster", Per::Cluster),
        ("socket", Per::Socket),
        ("machine", Per::Machine),
    ];

    /// Returns the word for this part in machine files.
    pub fn as_str(self) -> &'static str {
        Per::WORDS[self as usize].0
    }
}

/// Which line of a full set is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The line that was filled first.
    Fifo,
    /// The line that was used least recently.
    Lru,
    /// A random line.
    Random,
}

/// One `[[cache]]` table: all caches of one level and kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheTable {
    /// 1 is next to the core.
    pub level: u8,
    /// Whether it holds instructions, data or both.
    pub kind: Kind,
    /// The cores that share one of them.
    pub per: Per,
    /// Bytes of one cache.
    pub size: u64,
    /// Lines of a set.
    pub ways: u64,
    /// Bytes of a line; a power of two.
    pub line: u64,
    /// Which line of a full set is evicted.
    pub replacement: Replacement,
    /// Cycles that are added when this level misses.
    pub miss_cycles: u64,
    /// The way into the cache (contended model).
    pub shared: SharedTable,
}

impl CacheTable {
    /// Returns the level, and the kind unless it is unified: `l1i`, `l1d`, `l2`.
    pub fn label(&self) -> String {
        CacheTable::label_of(self.level, self.kind)
    }

    /// Returns the label of a level and kind.
    pub(crate) fn label_of(level: u8, kind: Kind) -> String {
        let kind = match kind {
            Kind::Instruction => "i",
            Kind::Data => "d",
            Kind::Unified => "",
        };
        format!("l{level}{kind}")
    }

    /// Returns the number of sets of one cache; at least 1.
    pub fn sets(&self) -> u64 {
        self.size / self.line / self.ways
    }

    /// Returns log2 of the line's length.
    pub fn shift(&self) -> u32 {
        self.line.trailing_zeros()
    }

    /// Returns whether what is fetched (or else: read and written) goes through this cache.
    pub fn serves(&self, instruction: bool) -> bool {
        match self.kind {
            Kind::Unified => true,
            Kind::Instruction => instruction,
            Kind::Data => !instruction,
        }
    }
}

/// A simulated machine. Every value of this type was checked as a whole.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// What it is, in one line; empty: the file does not say.
    pub about: String,
    /// Which rules of time hold.
    pub model: Model,
    /// Number of cores; 1 to 4,096.
    pub cores: u16,
    /// Cycles of any line touch, without penalties.
    pub hit_cycles: u64,
    /// Cycles from the call of `next` to the first record.
    pub dispatch_cycles: u64,
    /// What writes do to copies in other caches.
    pub coherence: Coherence,
    /// Seed of random replacement and of policies, unless a run overrides it.
    pub seed: u64,
    /// Cores of a cluster, if there are clusters.
    pub cores_per_cluster: Option<u64>,
    /// Cores of a socket, if there are sockets.
    pub cores_per_socket: Option<u64>,
    /// The `[[cache]]` tables in the order of the file.
    pub caches: Vec<CacheTable>,
    /// What else takes time (contended model; else nothing does).
    pub contended: Tables,
    /// How cores run logical threads; `None`: one a core. Recorded tasks do not depend on it.
    pub smt: Option<SmtTable>,
    /// How cores run parallel regions; `None`: they do not. Recorded tasks and threads do not depend on it.
    pub regions: Option<RegionsTable>,
    /// How cores run a real-time kernel; `None`: they do not. Nothing else depends on it.
    pub rtos: Option<RtosTable>,
    file: String,
    document: Table,
}

impl Machine {
    /// Reads and returns a machine. `file` is what messages call it.
    ///
    /// ```
    /// # use tanada_sim::Machine;
    /// let text = r#"
    /// name = "small"
    /// model = "uniform"
    /// cores = 2
    /// hit_cycles = 1
    /// dispatch_cycles = 0
    /// coherence = "none"
    /// "#;
    /// assert_eq!(Machine::parse(text, "small.toml")?.cores, 2);
    /// let wrong = Machine::parse(&text.replace("2", "0"), "small.toml").unwrap_err();
    /// assert_eq!(wrong.to_string(), "small.toml:4: `cores` is 0; it must be 1 to 4096");
    /// # Ok::<(), tanada_sim::MachineError>(())
    /// ```
    ///
    /// # Errors
    /// If `text` is no TOML, lacks a key, has an unknown one, or contradicts itself; with file and line.
    pub fn parse(text: &str, file: &str) -> Result<Machine, MachineError> {
        Machine::of(document::parse(text, file)?, file)
    }

    /// Returns this machine with some values replaced, all at once, and checked again.
    ///
    /// `KEY=VALUE` with a key of the file (`dispatch_cycles=5`), of a cache (`l2.size=128K`, `l1i.ways=4`; `l1.` means all of level 1) or
    /// of another table of the machine's model (`TABLE.KEY=VALUE`).
    ///
    /// # Errors
    /// If an override names no value of this machine, or the machine would contradict itself.
    pub fn overridden<S: AsRef<str>>(&self, overrides: &[S]) -> Result<Machine, MachineError> {
        let mut document = self.document.clone();
        let mut flags = Vec::with_capacity(overrides.len());
        for text in overrides.iter().map(AsRef::as_ref) {
            self.put(&mut document, text)?;
            flags.push(format!("--set {text}"));
        }
        Machine::of(document, &self.file).map_err(|wrong| wrong.because_of(&flags))
    }

    /// Returns this machine with another number of cores.
    ///
    /// # Errors
    /// If `cores` is 0, or its caches would have too many lines.
    pub fn with_cores(&self, cores: u16) -> Result<Machine, MachineError> {
        let mut document = self.document.clone();
        let flag = format!("--cores {cores}");
        document.put("cores", &cores.to_string(), &flag);
        Machine::of(document, &self.file).map_err(|wrong| wrong.because_of(&[flag]))
    }

    fn put(&self, document: &mut Table, text: &str) -> Result<(), MachineError> {
        let whole = format!("--set {text}");
        let wrong = |message| MachineError::new("", &Place::Override(whole.clone()), message);
        let Some((key, value)) = text.split_once('=') else {
            return Err(wrong("an override is KEY=VALUE".to_owned()));
        };
        let (key, value) = (key.trim(), value.trim());
        let Some((table, key)) = key.split_once('.') else {
            document.put(key, value, &whole);
            return Ok(());
        };
        if table == "smt" && document.table_mut(table).is_none() {
            document.put_table(table, &SmtTable::PLAIN, &whole);
        }
        if let Some(mut inner) = document.table_mut(table) {
            // Tables lie in tables: background.NAME.KEY.
            let mut key = key;
            while let Some((name, rest)) = key.split_once('.') {
                inner = inner
                    .table_mut(name)
                    .ok_or_else(|| wrong(format!("{} has no table `{name}` there", self.name)))?;
                key = rest;
            }
            inner.put(key, value, &whole);
            return Ok(());
        }
        let named = |cache: &CacheTable| {
            let label = cache.label();
            label == table || label.trim_end_matches(['i', 'd']) == table
        };
        let chosen: Vec<bool> = self.caches.iter().map(named).collect();
        if !chosen.contains(&true) {
            let labels = Vec::from_iter(self.caches.iter().map(CacheTable::label)).join(", ");
            let name = &self.name;
            return Err(wrong(format!(
                "{name} has no `{table}`; its caches are {labels}"
            )));
        }
        for (inner, chosen) in document.tables_mut("cache").zip(chosen) {
            if chosen {
                inner.put(key, value, &whole);
            }
        }
        Ok(())
    }

    fn of(document: Table, file: &str) -> Result<Machine, MachineError> {
        let mut section = Section::new(&document, file, "");
        let name = section.text("name")?.to_owned();
        let about = section.optional_text("about")?.unwrap_or("").to_owned();
        let model = section.one_of("model", &Model::WORDS)?;
        let cores = section.number_in("cores", 1..=u64::from(MOST_CORES))? as u16;
        let hit_cycles = section.number("hit_cycles")?;
        let dispatch_cycles = section.number("dispatch_cycles")?;
        let coherence = section.one_of(
            "coherence",
            &[
                ("none", Coherence::None),
                ("invalidate", Coherence::Invalidate),
            ],
        )?;
        let seed = section.optional_number("seed")?.unwrap_or(0);
        let most = u64::from(u32::MAX);
        let cores_per_cluster = section.optional_number_in("cores_per_cluster", 1..=most)?;
        let cores_per_socket = section.optional_number_in("cores_per_socket", 1..=most)?;
        let sections = section.tables("cache")?;
        let mut caches: Vec<CacheTable> = Vec::with_capacity(sections.len().min(64));
        let mut lines = 0_u64;
        for mut one in sections {
            let cache = cache(&mut one, model)?;
            let cores_each = match cache.per {
                Per::Core => Some(1),
                Per::Cluster => cores_per_cluster,
                Per::Socket => cores_per_socket,
                Per::Machine => Some(u64::from(cores)),
            };
            let Some(cores_each) = cores_each else {
                let per = cache.per.as_str();
                let needed = format!("cores_per_{per}");
                let wrong = || one.wrong("per", format!("a cache per {per} needs `{needed}`"));
                return Err(section.misspelt(&needed).unwrap_or_else(wrong));
            };
            let instances = u64::from(cores).div_ceil(cores_each);
            lines = lines.saturating_add((cache.size / cache.line).saturating_mul(instances));
            if lines > MOST_LINES {
                let message = format!(
                    "with this cache the machine has more than {MOST_LINES} cache lines, which are too many"
                );
                return Err(one.wrong("size", message));
            }
            compatible(&caches, &cache, &one)?;
            one.finish()?;
            caches.push(cache);
        }
        let contended = match model {
            Model::Uniform => Tables::default(),
            Model::Contended => {
                read_contended(&mut section, cores, cores_per_socket, &caches, coherence)?
            }
        };
        let smt = match section.optional_table("smt")? {
            None => None,
            Some(mut one) => {
                let table = SmtTable::read(&mut one)?;
                divisible(&table, &caches, &one)?;
                one.finish()?;
                Some(table)
            }
        };
        let regions = match section.optional_table("regions")? {
            None => None,
            Some(mut one) => {
                let table = RegionsTable::read(&mut one)?;
                let line = |at: &usize| caches[*at].line;
                let data: Vec<usize> = (0..caches.len())
                    .filter(|&at| caches[at].serves(false))
                    .collect();
                let private = data.iter().all(|&at| caches[at].per == Per::Core);
                let one_line = data.iter().map(line).all(|one| one == caches[data[0]].line);
                if smt.is_none() || data.len() != 2 || !private || !one_line {
                    let message = "`[regions]` needs `[smt]` and two levels of data caches, each of one core, with the same lines";
                    return Err(one.wrong("hop_cycles", message));
                }
                one.finish()?;
                Some(table)
            }
        };
        let rtos = match section.optional_table("rtos")? {
            None => None,
            Some(mut one) => {
                let table = RtosTable::read(&mut one)?;
                let first = |at: &CacheTable| {
                    at.level == 1 && at.per == Per::Core && at.kind != Kind::Unified
                };
                if caches.len() != 2 || !caches.iter().all(first) {
                    let message = "`[rtos]` needs two caches, one for instructions and one for data, of level 1 and of one core";
                    return Err(one.wrong("bus_cycles", message));
                }
                one.finish()?;
                Some(table)
            }
        };
        section.finish()?;
        Ok(Machine {
            name,
            about,
            model,
            cores,
            hit_cycles,
            dispatch_cycles,
            coherence,
            seed,
            cores_per_cluster,
            cores_per_socket,
            caches,
            contended,
            smt,
            regions,
            rtos,
            file: file.to_owned(),
            document,
        })
    }

    /// Returns the number of cores that share one cache that is `per` something.
    pub fn cores_per(&self, per: Per) -> u64 {
        let some = match per {
            Per::Core => Some(1),
            Per::Cluster => self.cores_per_cluster,
            Per::Socket => self.cores_per_socket,
            Per::Machine => None,
        };
        some.unwrap_or(u64::from(self.cores))
    }

    /// Returns the numbers of the `[[cache]]` tables through which what is fetched (or else: read and written) goes, the first level first.
    pub fn path(&self, instruction: bool) -> Vec<usize> {
        let serves = |&table: &usize| self.caches[table].serves(instruction);
        let mut path: Vec<usize> = (0..self.caches.len()).filter(serves).collect();
        path.sort_by_key(|&table| self.caches[table].level);
        path
    }

    /// Returns the numbers of the `[[cache]]` tables in the order of reports: by level, then instruction, data, unified.
    pub fn tables_in_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.caches.len()).collect();
        order.sort_by_key(|&table| (self.caches[table].level, self.caches[table].kind));
        order
    }
}

/// Returns an error if the first data cache cannot be divided as `table` says, or cores share it.
fn divisible(
    table: &SmtTable,
    caches: &[CacheTable],
    section: &Section<'_>,
) -> Result<(), MachineError> {
    let first = caches.iter().filter(|cache| cache.serves(false));
    let first = first.min_by_key(|cache| cache.level);
    let (Share::Static, Some(first)) = (table.l1d, first) else {
        return Ok(());
    };
    let (label, threads) = (first.label(), u64::from(table.threads_per_core));
    if first.per != Per::Core || first.kind != Kind::Data {
        let message = format!("{label} is no data cache of one core, and cannot be divided");
        return Err(section.wrong("l1d", message));
    }
    if first.sets() % threads != 0 {
        let message = format!(
            "the {} sets of {label} cannot be divided by {threads} hardware threads",
            first.sets()
        );
        return Err(section.wrong("l1d", message));
    }
    Ok(())
}

/// Reads and returns the keys of the contended model.
fn read_contended(
    section: &mut Section<'_>,
    cores: u16,
    cores_per_socket: Option<u64>,
    caches: &[CacheTable],
    coherence: Coherence,
) -> Result<Tables, MachineError> {
    for key in ["hit_cycles", "dispatch_cycles"] {
        section.number_in(key, 0..=LONGEST_CYCLES)?;
    }
    let line = caches.iter().map(|cache| cache.line).max().unwrap_or(1);
    let invalidates = coherence == Coherence::Invalidate;
    Tables::read(section, cores, line, invalidates, cores_per_socket)
}

/// Returns one `[[cache]]` table by itself.
fn cache(section: &mut Section<'_>, model: Model) -> Result<CacheTable, MachineError> {
    let level = section.number_in("level", 1..=255)? as u8;
    let kind = section.one_of("kind", &Kind::WORDS)?;
    let per = section.one_of("per", &Per::WORDS)?;
    let size = section.size("size")?;
    let ways = section.number_in("ways", 1..=u64::MAX)?;
    let line = section.number("line")?;
    if !line.is_power_of_two() {
        let message = format!("`line` is {line}; it must be a power of two");
        return Err(section.wrong("line", message));
    }
    let replacements = [
        ("fifo", Replacement::Fifo),
        ("lru", Replacement::Lru),
        ("random", Replacement::Random),
    ];
    let replacement = section.one_of("replacement", &replacements)?;
    let miss_cycles = section.number("miss_cycles")?;
    let shared = match model {
        Model::Uniform => SharedTable::default(),
        Model::Contended => SharedTable::read(section, per == Per::Core)?,
    };
    let set = ways.checked_mul(line);
    if size == 0 || set.is_none_or(|set| size % set != 0) {
        let message = format!(
            "`size` is {size} bytes; it must be a multiple of ways x line ({ways} x {line}) and not 0"
        );
        return Err(section.wrong("size", message));
    }
    Ok(CacheTable {
        level,
        kind,
        per,
        size,
        ways,
        line,
        replacement,
        miss_cycles,
        shared,
    })
}

/// Returns an error if a further table contradicts those before it.
fn compatible(
    before: &[CacheTable],
    cache: &CacheTable,
    section: &Section<'_>,
) -> Result<(), MachineError> {
    for other in before {
        let both_serve = |fetch| cache.serves(fetch) && other.serves(fetch);
        if !both_serve(true) && !both_serve(false) {
            continue;
        }
        if other.level == cache.level {
            let message = match other.kind == cache.kind {
                true => format!("there is a cache `{}` already", cache.label()),
                false => format!(
                    "level {} has a unified cache and one of another kind",
                    cache.level
                ),
            };
            return Err(section.wrong("level", message));
        }
        let mut pair = [other, cache];
        pair.sort_by_key(|cache| cache.level);
        let [(upper, above), (deeper, below)] = pair.map(|cache| (cache.label(), cache.line));
        if below < above {
            let message = format!(
                "a line of {upper} has {above} bytes and one of {deeper}, which is deeper, only {below}"
            );
            return Err(section.wrong("line", message));
        }
    }
    Ok(())
}
