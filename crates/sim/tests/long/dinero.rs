//! The uniform model beside the rules that Dinero IV publishes, on Dinero's own traces.
//!
//! Dinero is in no distribution and may not be passed on freely, so its rules stand here in a few lines (`tools::Level`), from its manual
//! and the comments of its source: demand fetch, write-allocate, write-back; LRU or FIFO; a reference that lies in several blocks counts
//! once in each. Compared are, for instruction and data caches apart or a unified one, fetches, misses, and dirty blocks that were replaced
//! (Dinero's "bytes to memory" are these and, since it writes everything back at the end, the dirty blocks that are left, times the block).
//! Only first levels: Dinero lets blocks that are written back be accesses of the next level, which the uniform model does not.
//!
//! Where `DINERO_IV` names Dinero's program, it is run on the same traces and must say the same.

use crate::tools;

use proptest::prelude::*;
use std::process::{Command, Stdio};
use tanada_sim::{Machine, Options, Outcome, simulate};
use tanada_trace::import::{self, Fetches};
use tanada_trace::{Groups, Kind, TextWriter, Trace};
use tools::{Level, all_records};

/// A cache of the first level: size, ways, block.
#[derive(Clone, Copy, Debug)]
struct Cache {
    size: u64,
    ways: usize,
    block: u64,
}

/// What is simulated: an instruction and a data cache, or a unified one.
#[derive(Clone, Debug)]
struct Setting {
    caches: Vec<Cache>,
    lru: bool,
}

/// Fetches and misses of each cache, and dirty blocks that were replaced.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    caches: Vec<[u64; 2]>,
    writebacks: u64,
    /// Dirty at the end.
    left: u64,
}

fn imported(din: &str) -> Trace {
    let options = import::Options {
        cycles_per_instruction: 0,
        fetches: Fetches::Each,
        ..import::Options::default()
    };
    let mut writer = TextWriter::new(Vec::new()).expect("memory");
    import::dinero(din.as_bytes(), "t.din", options, &mut writer).expect("a sound trace");
    let text = writer.finish().expect("memory");
    Trace::parse(&text, "t.tnt", &Groups::Plain).expect("a sound trace")
}

/// By Dinero's rules.
fn by_the_rules(trace: &Trace, setting: &Setting) -> Counts {
    let level = |cache: &Cache| match setting.lru {
        true => Level::lru(cache.size, cache.ways, cache.block),
        false => Level::fifo(cache.size, cache.ways, cache.block),
    };
    let mut levels: Vec<Level> = setting.caches.iter().map(level).collect();
    for record in all_records(trace) {
        let which = match record.kind {
            Kind::Compute => continue,
            Kind::Fetch => 0,
            _ => setting.caches.len() - 1,
        };
        let block = setting.caches[which].block;
        for line in record.value / block..=(record.value + u64::from(record.size) - 1) / block {
            levels[which].access(line, record.kind == Kind::Write);
        }
    }
    Counts {
        caches: levels
            .iter()
            .map(|level| [level.accesses, level.misses])
            .collect(),
        writebacks: levels.iter().map(|level| level.dirty_victims).sum(),
        left: levels.iter().map(Level::dirty).sum(),
    }
}

fn simulated(trace: &Trace, setting: &Setting) -> Outcome {
    let mut text = tools::CORE.to_owned();
    let kinds: &[&str] = match setting.caches.len() {
        1 => &["unified"],
        _ => &["instruction", "data"],
    };
    let replacement = if setting.lru { "lru" } else { "fifo" };
    for (Cache { size, ways, block }, kind) in setting.caches.iter().zip(kinds) {
        text += &format!(
            "[[cache]]\nlevel = 1\nkind = \"{kind}\"\nper = \"core\"\nsize = \"{size}\"\nways = {ways}\nline = {block}\n\
            replacement = \"{replacement}\"\nmiss_cycles = 0\n"
        );
    }
    let machine = Machine::parse(&text, "dinero.toml").expect("a sound machine");
    simulate(trace, &machine, "serial", &Options::default(), &mut ()).expect("it runs to its end")
}

fn ours(trace: &Trace, setting: &Setting) -> (Vec<[u64; 2]>, u64) {
    let outcome = simulated(trace, setting);
    let counts = outcome
        .caches
        .iter()
        .map(|cache| [cache.count.accesses, cache.count.misses]);
    (counts.collect(), outcome.writebacks)
}

/// What Dinero IV itself says, if it is there: fetches and misses of each cache, and bytes to memory.
fn by_dinero(din: &str, extended: bool, setting: &Setting) -> Option<(Vec<[u64; 2]>, u64)> {
    let program = std::env::var_os("DINERO_IV")?;
    let names: &[&str] = match setting.caches.len() {
        1 => &["l1-u"],
        _ => &["l1-i", "l1-d"],
    };
    let mut command = Command::new(program);
    command.args(["-informat", if extended { "D" } else { "d" }]);
    for (cache, name) in setting.caches.iter().zip(names) {
        command.args([format!("-{name}size"), cache.size.to_string()]);
        command.args([format!("-{name}bsize"), cache.block.to_string()]);
        command.args([format!("-{name}assoc"), cache.ways.to_string()]);
        command.args([
            format!("-{name}repl"),
            if setting.lru { "l" } else { "f" }.to_owned(),
        ]);
    }
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("DINERO_IV names a program");
    let mut stdin = child.stdin.take().expect("it is piped");
    let text = din.to_owned();
    let feed = std::thread::spawn(move || std::io::Write::write_all(&mut stdin, text.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    feed.join().expect("no panic").expect("it reads all");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let all = |word: &str| -> Vec<u64> {
        let lines = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix(word));
        lines
            .map(|rest| {
                rest.split_whitespace()
                    .next()
                    .expect("a number")
                    .parse()
                    .expect("a number")
            })
            .collect()
    };
    let (fetches, misses) = (all("Demand Fetches"), all("Demand Misses"));
    let counts = fetches
        .into_iter()
        .zip(misses)
        .map(|(fetches, misses)| [fetches, misses]);
    Some((counts.collect(), all("Bytes To Memory").iter().sum()))
}

fn compare(din: &str, extended: bool, setting: &Setting) {
    let trace = imported(din);
    let rules = by_the_rules(&trace, setting);
    assert_eq!(
        ours(&trace, setting),
        (rules.caches.clone(), rules.writebacks),
        "{setting:?}"
    );
    if let Some((caches, bytes)) = by_dinero(din, extended, setting) {
        let block = setting.caches.last().expect("one at least").block;
        assert_eq!(
            (caches, bytes),
            (rules.caches, (rules.writebacks + rules.left) * block),
            "{setting:?}"
        );
    }
}

fn any_cache() -> impl Strategy<Value = Cache> {
    (0..4u32, 0..4u32, 3..7u32).prop_map(|(sets, ways, block)| Cache {
        size: 1 << (sets + ways + block),
        ways: 1 << ways,
        block: 1 << block,
    })
}

fn any_setting() -> impl Strategy<Value = Setting> {
    let setting = |(caches, lru)| Setting { caches, lru };
    (prop::collection::vec(any_cache(), 1..=2), any::<bool>()).prop_map(setting)
}

/// Lines of the traditional form: label and address.
fn any_din() -> impl Strategy<Value = String> {
    let line = (0..3u32, 0..0x800u32).prop_map(|(label, address)| format!("{label} {address:x}\n"));
    prop::collection::vec(line, 0..600).prop_map(|lines| lines.concat())
}

/// Lines of the extended form: word, address and size.
fn any_xdin() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec!['r', 'w', 'i']);
    let line = (word, 0..0x800u32, 1..0x28u32);
    let line = line.prop_map(|(word, address, size)| format!("{word} 0x{address:x} {size:x}\n"));
    prop::collection::vec(line, 0..400).prop_map(|lines| lines.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn traditional_traces_give_dineros_counts(din in any_din(), setting in any_setting()) {
        compare(&din, false, &setting);
    }

    #[test]
    fn extended_traces_give_dineros_counts(din in any_xdin(), setting in any_setting()) {
        compare(&din, true, &setting);
    }
}

#[test]
fn it_is_said_whether_dinero_itself_was_asked() {
    if std::env::var_os("DINERO_IV").is_none() {
        tanada_testing::skip(
            "DINERO_IV names no program, so only Dinero's rules are compared, as this test writes them down",
        );
    }
}
