//! The uniform model beside cachegrind, count by count.
//!
//! A program runs under cachegrind, which simulates its caches, and under lackey, whose trace is imported and simulated here: on one core,
//! with caches of the same geometry and LRU. The two tools see the same references (`I` is an instruction; `L` and `M` are data reads, `S`
//! data writes; `M`, a read and a write of one instruction, counts as a read there and is two records here), but count differently:
//!
//! 1. A reference that lies in two lines is one reference and at most one miss there, and a touch of each line here.
//! 2. When one of its lines misses in the first level, both are looked up in the last level there, only the one here.
//! 3. The write of an `M` is a touch of its own here; it follows a touch of the same lines.
//! 4. A reference of more than a line (`fxsave` and the like) is cut to the length of one there.
//!
//! So the test has the rules of cachegrind (`cg_sim.c`: LRU, write-allocate, no write-back) and those of section 3 in a few lines of its
//! own, which differ in these four points only. By the former the result must be cachegrind's nine counts exactly, which shows that the
//! imported trace holds what cachegrind saw; by the latter the simulator's counts exactly.

use crate::tools;

use std::path::Path;
use std::process::Command;
use tanada_sim::{Machine, Options, simulate};
use tanada_trace::import::{self, Fetches};
use tanada_trace::{BinaryWriter, Groups, Kind, Trace};
use tools::{Level, all_records};

const LINE: u64 = 64;

/// Size and ways of I1, D1 and LL.
type Geometry = [(u64, usize); 3];

/// I1, D1, LL as small as to miss often, one of them direct-mapped; and larger ones.
const GEOMETRIES: [Geometry; 2] = [
    [(4 << 10, 2), (2 << 10, 1), (32 << 10, 8)],
    [(16 << 10, 4), (32 << 10, 8), (256 << 10, 16)],
];

/// Where the environment's strings lie in a cache line depends on their length, and this is added to it.
#[derive(Clone, Copy)]
struct Padding(usize);

/// Runs a program under one of Valgrind's tools, so that everything depends on its arguments and on nothing around it.
fn valgrind(folder: &Path, padding: Padding, arguments: &[&str]) -> Option<()> {
    // One thread, a fixed buffer; what it sorts is in the folder.
    let program = ["/usr/bin/sort", "--parallel=1", "-S", "1M", "words"];
    tanada_testing::program(&["valgrind"], "valgrind", "comparing with cachegrind")?;
    if !Path::new(program[0]).exists() {
        tanada_testing::skip(format_args!("no {} to run under Valgrind", program[0]));
        return None;
    }
    let status = Command::new("valgrind")
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("LC_ALL", "C")
        .env("PADDING", "x".repeat(padding.0))
        .current_dir(folder)
        .arg("--command-line-only=yes")
        .args(arguments)
        .args(["--log-file=log", "--"])
        .args(program)
        .stdout(std::process::Stdio::null())
        .status()
        .expect("valgrind starts");
    assert!(status.success(), "{arguments:?}: {status}");
    Some(())
}

/// Words in an order that is neither sorted nor random from run to run.
fn words() -> String {
    let word = |n: u64| format!("{:x}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40);
    (0..1500).map(word).collect()
}

/// Cachegrind's own counts: `Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw`.
fn cachegrind(folder: &Path, padding: Padding, geometry: &Geometry) -> Option<[u64; 9]> {
    let names = ["I1", "D1", "LL"];
    let caches = names.iter().zip(geometry);
    let caches = caches.map(|(name, (size, ways))| format!("--{name}={size},{ways},{LINE}"));
    let mut arguments = vec![
        "--tool=cachegrind".to_owned(),
        "--cache-sim=yes".to_owned(),
        "--cachegrind-out-file=counts".to_owned(),
    ];
    arguments.extend(caches);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    valgrind(folder, padding, &arguments)?;
    let text = std::fs::read_to_string(folder.join("counts")).expect("cachegrind's counts");
    let line = |word: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(word));
        line.unwrap_or_else(|| panic!("no line `{word}` in {text}"))
            .trim()
    };
    assert_eq!(line("events:"), "Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw");
    let counts = line("summary:")
        .split(' ')
        .map(|n| n.parse().expect("a number"));
    Some(
        counts
            .collect::<Vec<u64>>()
            .try_into()
            .expect("nine counts"),
    )
}

/// Lackey's log of the program, without what Valgrind says of itself.
fn lackey(folder: &Path, padding: Padding) -> Option<String> {
    let arguments = ["--tool=lackey", "--trace-mem=yes", "--basic-counts=no"];
    valgrind(folder, padding, &arguments)?;
    let log = std::fs::read_to_string(folder.join("log")).expect("lackey's log");
    let lines = log.split_inclusive('\n');
    Some(lines.filter(|line| !line.starts_with("==")).collect())
}

/// The program's references, as lackey reports them, and the padding at which it makes the same ones each time.
///
/// Before `main`, the loader asks glibc's `strcspn` for the end of `LD_PRELOAD`. That looks up four characters at a time in a table, those
/// behind the string's end, too, and there the kernel's 16 random bytes lie (`AT_RANDOM`). Where the string ends with a group of four it
/// does not.
fn recorded(folder: &Path) -> Option<(Trace, Padding)> {
    for padding in (0..4).map(Padding) {
        let log = lackey(folder, padding)?;
        if lackey(folder, padding)? == log {
            return Some((imported(folder, &log), padding));
        }
    }
    panic!("two runs of one program never made the same references");
}

/// The trace of a log of lackey's.
fn imported(folder: &Path, log: &str) -> Trace {
    let options = import::Options {
        cycles_per_instruction: 0,
        fetches: Fetches::Each,
        ..import::Options::default()
    };
    let mut bytes = std::io::Cursor::new(Vec::new());
    let mut writer = BinaryWriter::new(&mut bytes).expect("memory");
    import::lackey(log.as_bytes(), "log", options, &mut writer).expect("a sound log");
    writer.finish().expect("memory");
    let path = folder.join("sort.tnb");
    std::fs::write(&path, bytes.into_inner()).expect("the folder can be written to");
    Trace::open(&path, &Groups::Plain).expect("a sound trace")
}

/// What differs between cachegrind and section 3 of the design, all of it or nothing.
#[derive(Clone, Copy, PartialEq)]
enum Rules {
    Cachegrind,
    Ours,
}

/// References (or touches), and of these misses in the first and in the last level.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts([u64; 3]);

/// Counts of instructions, reads and writes, and how many references lay in two lines or more.
fn count(trace: &Trace, geometry: &Geometry, rules: Rules) -> ([Counts; 3], u64) {
    let [mut i1, mut d1, mut last] = geometry.map(|(size, ways)| Level::lru(size, ways, LINE));
    let mut counts = [Counts::default(); 3];
    let mut straddling = 0;
    let mut before = None;
    for record in all_records(trace) {
        // A write of what was just read, with no instruction in between, is the other half of an `M`.
        let modifies =
            record.kind == Kind::Write && before == Some((Kind::Read, record.value, record.size));
        before = Some((record.kind, record.value, record.size));
        let (of, first) = match record.kind {
            Kind::Compute => continue,
            Kind::Fetch => (0, &mut i1),
            Kind::Read => (1, &mut d1),
            Kind::Write => (2, &mut d1),
        };
        let count = &mut counts[of].0;
        let mut size = u64::from(record.size);
        if rules == Rules::Ours {
            for line in record.value / LINE..=(record.value + size - 1) / LINE {
                count[0] += 1;
                if first.touch(line) {
                    count[1] += 1;
                    count[2] += u64::from(last.touch(line));
                }
            }
            continue;
        }
        if modifies {
            continue;
        }
        if of != 0 {
            size = size.min(LINE);
        }
        let [a, b] = [record.value / LINE, (record.value + size - 1) / LINE];
        straddling += u64::from(a != b);
        let miss = |level: &mut Level| {
            let missed = level.touch(a);
            missed | (b != a && level.touch(b))
        };
        count[0] += 1;
        if miss(first) {
            count[1] += 1;
            count[2] += u64::from(miss(&mut last));
        }
    }
    (counts, straddling)
}

/// The machine of this geometry: nothing costs anything but a touch.
fn machine(geometry: &Geometry) -> Machine {
    let mut text = tools::CORE.to_owned();
    let kinds = [(1, "instruction"), (1, "data"), (2, "unified")];
    for ((level, kind), (size, ways)) in kinds.iter().zip(geometry) {
        text += &format!(
            "[[cache]]\nlevel = {level}\nkind = \"{kind}\"\nper = \"core\"\nsize = \"{size}\"\nways = {ways}\nline = {LINE}\n\
            replacement = \"lru\"\nmiss_cycles = 0\n"
        );
    }
    Machine::parse(&text, "tool.toml").expect("a sound machine")
}

#[test]
fn counts_agree_with_cachegrind_to_the_last() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("words"), words()).expect("the folder can be written to");
    let Some((trace, padding)) = recorded(folder.path()) else {
        return;
    };
    for geometry in &GEOMETRIES {
        let theirs = cachegrind(folder.path(), padding, geometry).expect("it was there before");
        // Theirs, by their rules.
        let (counts, straddling) = count(&trace, geometry, Rules::Cachegrind);
        let by_their_rules: Vec<u64> = counts.iter().flat_map(|counts| counts.0).collect();
        assert_eq!(
            by_their_rules, theirs,
            "cachegrind's rules on the imported trace, {geometry:?}"
        );
        assert!(
            theirs.iter().all(|count| *count > 0) && straddling > 0,
            "{theirs:?}"
        );
        // Ours, by our rules.
        let (counts, _) = count(&trace, geometry, Rules::Ours);
        let outcome = simulate(
            &trace,
            &machine(geometry),
            "serial",
            &Options::default(),
            &mut (),
        );
        let outcome = outcome.expect("it runs to its end");
        let ours: Vec<[u64; 2]> = outcome
            .caches
            .iter()
            .map(|cache| [cache.count.accesses, cache.count.misses])
            .collect();
        let [i, r, w] = counts.map(|counts| counts.0);
        let expected = [
            [i[0], i[1]],
            [r[0] + w[0], r[1] + w[1]],
            [i[1] + r[1] + w[1], i[2] + r[2] + w[2]],
        ];
        assert_eq!(
            ours, expected,
            "the simulator beside section 3 in a few lines, {geometry:?}"
        );
        // How far apart they are: by the straddling references at most, in the first level.
        let data = |counts: &[u64]| counts[4] + counts[7];
        assert!(i[1] >= theirs[1] && i[1] - theirs[1] <= straddling);
        assert!(r[1] + w[1] >= data(&theirs) && r[1] + w[1] - data(&theirs) <= straddling);
        println!(
            "{geometry:?}: cachegrind {theirs:?}, here {ours:?}, {straddling} references in two lines"
        );
    }
}
