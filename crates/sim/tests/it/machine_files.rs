//! What machine files may say, and the exact answer to each that is wrong.

use tanada_sim::Machine;
use tanada_sim::machines;

const GOOD: &str = r#"name = "m"
model = "uniform"
cores = 4
hit_cycles = 1
dispatch_cycles = 0
coherence = "none"
cores_per_cluster = 2

[[cache]]
level = 1
kind = "instruction"
per = "core"
size = "8K"
ways = 2
line = 64
replacement = "fifo"
miss_cycles = 10

[[cache]]
level = 1
kind = "data"
per = "core"
size = "8K"
ways = 2
line = 64
replacement = "fifo"
miss_cycles = 10

[[cache]]
level = 2
kind = "unified"
per = "cluster"
size = "128K"
ways = 4
line = 256
replacement = "lru"
miss_cycles = 200
"#;

fn wrong(text: &str) -> String {
    Machine::parse(text, "m.toml")
        .expect_err("it is wrong")
        .to_string()
}

/// `GOOD` with occurrence `number` (from 0) of a line replaced.
fn with(old: &str, number: usize, new: &str) -> String {
    let (at, _) = GOOD.match_indices(old).nth(number).expect("it is there");
    format!("{}{new}{}", &GOOD[..at], &GOOD[at + old.len()..])
}

#[test]
fn a_good_one_is_read() {
    let machine = Machine::parse(GOOD, "m.toml").expect("it is sound");
    let labels: Vec<String> = machine.caches.iter().map(|cache| cache.label()).collect();
    assert_eq!(labels, ["l1i", "l1d", "l2"]);
    assert_eq!(
        (machine.caches[2].sets(), machine.caches[2].shift()),
        (128, 8)
    );
    assert_eq!(
        (machine.path(true), machine.path(false)),
        (vec![0, 2], vec![1, 2])
    );
    let placement = machine.placement();
    let w = |n| tanada_policy::WorkerId(n);
    assert_eq!(
        (
            placement.distance(w(0), w(1)),
            placement.distance(w(1), w(2))
        ),
        (2, 4)
    );
}

#[test]
fn every_wrong_value_is_answered_with_its_line() {
    for (old, number, new, answer) in [
        (
            "cores = 4",
            0,
            "cores = 0",
            "m.toml:3: `cores` is 0; it must be 1 to 4096",
        ),
        (
            "cores = 4",
            0,
            "cores = 4097",
            "m.toml:3: `cores` is 4097; it must be 1 to 4096",
        ),
        (
            "cores = 4",
            0,
            "cores = -4",
            "m.toml:3: `cores` must be a whole number from 0 to 2^64-1",
        ),
        (
            "cores = 4",
            0,
            "cores = 4.0",
            "m.toml:3: `cores` must be a whole number from 0 to 2^64-1",
        ),
        (
            "cores = 4",
            0,
            "cores = \"4\"",
            "m.toml:3: `cores` must be a whole number from 0 to 2^64-1",
        ),
        (
            "hit_cycles = 1\n",
            0,
            "",
            "m.toml:1: `hit_cycles` is missing",
        ),
        (
            "hit_cycles = 1",
            0,
            "hit_cycles = 18446744073709551616",
            "m.toml:4: `hit_cycles` must be a whole number from 0 to 2^64-1",
        ),
        (
            "\"none\"",
            0,
            "\"some\"",
            "m.toml:6: `coherence` is \"some\"; it must be none or invalidate",
        ),
        (
            "\"uniform\"",
            0,
            "\"quick\"",
            "m.toml:2: `model` is \"quick\"; it must be uniform or contended",
        ),
        (
            "name = \"m\"",
            0,
            "name = 7",
            "m.toml:1: `name` must be a text in quotes",
        ),
        (
            "cores_per_cluster = 2\n",
            0,
            "",
            "m.toml:31: a cache per cluster needs `cores_per_cluster`",
        ),
        (
            "cores_per_cluster = 2",
            0,
            "cores_per_cluster = 0",
            "m.toml:7: `cores_per_cluster` is 0; it must be 1 to 4294967295",
        ),
        (
            "\"cluster\"",
            0,
            "\"socket\"",
            "m.toml:32: a cache per socket needs `cores_per_socket`",
        ),
        (
            "\"cluster\"",
            0,
            "\"rack\"",
            "m.toml:32: `per` is \"rack\"; it must be core or cluster or socket or machine",
        ),
        (
            "level = 1",
            0,
            "level = 0",
            "m.toml:10: `level` is 0; it must be 1 to 255",
        ),
        (
            "level = 1",
            1,
            "level = 256",
            "m.toml:20: `level` is 256; it must be 1 to 255",
        ),
        (
            "kind = \"data\"",
            0,
            "kind = \"instruction\"",
            "m.toml:20: there is a cache `l1i` already",
        ),
        (
            "kind = \"data\"",
            0,
            "kind = \"unified\"",
            "m.toml:20: level 1 has a unified cache and one of another kind",
        ),
        (
            "size = \"8K\"",
            0,
            "size = \"8k\"",
            "m.toml:13: `size` must be a size of less than 2^64 bytes, such as \"8K\" (K, M, G are powers of 1024)",
        ),
        (
            "size = \"8K\"",
            0,
            "size = \"0K\"",
            "m.toml:13: `size` is 0 bytes; it must be a multiple of ways x line (2 x 64) and not 0",
        ),
        (
            "size = \"8K\"",
            0,
            "size = 8200",
            "m.toml:13: `size` is 8200 bytes; it must be a multiple of ways x line (2 x 64) and not 0",
        ),
        (
            "size = \"8K\"",
            0,
            "size = \"17179869184G\"",
            "m.toml:13: `size` must be a size of less than 2^64 bytes, such as \"8K\" (K, M, G are powers of 1024)",
        ),
        (
            "size = \"8K\"",
            0,
            "size = \"17179869183G\"",
            "m.toml:13: with this cache the machine has more than 67108864 cache lines, which are too many",
        ),
        (
            "ways = 2",
            0,
            "ways = 3",
            "m.toml:13: `size` is 8192 bytes; it must be a multiple of ways x line (3 x 64) and not 0",
        ),
        (
            "ways = 2",
            0,
            "ways = 256",
            "m.toml:13: `size` is 8192 bytes; it must be a multiple of ways x line (256 x 64) and not 0",
        ),
        (
            "line = 64",
            0,
            "line = 16384",
            "m.toml:13: `size` is 8192 bytes; it must be a multiple of ways x line (2 x 16384) and not 0",
        ),
        (
            "line = 64",
            1,
            "line = 512",
            "m.toml:35: a line of l1d has 512 bytes and one of l2, which is deeper, only 256",
        ),
        (
            "level = 2",
            0,
            "level = 1",
            "m.toml:30: level 1 has a unified cache and one of another kind",
        ),
        (
            "ways = 2",
            0,
            "ways = 0",
            "m.toml:14: `ways` is 0; it must be 1 to 18446744073709551615",
        ),
        (
            "ways = 2",
            0,
            "ways = 18446744073709551615",
            "m.toml:13: `size` is 8192 bytes; it must be a multiple of ways x line (18446744073709551615 x 64) and not 0",
        ),
        (
            "line = 64",
            0,
            "line = 48",
            "m.toml:15: `line` is 48; it must be a power of two",
        ),
        (
            "line = 64",
            0,
            "line = 0",
            "m.toml:15: `line` is 0; it must be a power of two",
        ),
        (
            "line = 256",
            0,
            "line = 32",
            "m.toml:35: a line of l1i has 64 bytes and one of l2, which is deeper, only 32",
        ),
        (
            "\"lru\"",
            0,
            "\"plru\"",
            "m.toml:36: `replacement` is \"plru\"; it must be fifo or lru or random",
        ),
        (
            "miss_cycles = 10\n",
            1,
            "",
            "m.toml:19: `miss_cycles` is missing in this [[cache]]",
        ),
    ] {
        assert_eq!(wrong(&with(old, number, new)), answer, "{new}");
    }
}

/// Whichever table comes first in the file: the line at fault is that of the second.
#[test]
fn a_shorter_line_behind_a_longer_one_is_refused_in_any_order() {
    let cache = |level: u32, line: u32| {
        format!(
            "[[cache]]\nlevel = {level}\nkind = \"unified\"\nper = \"core\"\nsize = \"8K\"\nways = 2\nline = {line}\n\
             replacement = \"lru\"\nmiss_cycles = 1\n"
        )
    };
    let head = "name = \"m\"\nmodel = \"uniform\"\ncores = 1\nhit_cycles = 1\ndispatch_cycles = 0\ncoherence = \"none\"\n";
    let answer = "m.toml:22: a line of l2 has 64 bytes and one of l5, which is deeper, only 32";
    for (first, second) in [((2, 64), (5, 32)), ((5, 32), (2, 64))] {
        let text = [
            head,
            &cache(first.0, first.1),
            &cache(second.0, second.1),
            &cache(3, 64),
        ];
        assert_eq!(wrong(&text.concat()), answer);
    }
}

/// Machines that are unlikely, and have a meaning by the rules: docs/simulator.md names them.
#[test]
fn odd_shapes_are_no_contradiction() {
    let labels = |text: &str| {
        let machine = Machine::parse(text, "m.toml").expect("it has a meaning");
        assert_eq!(machine.placement().workers(), 4);
        let path = machine.path(false);
        path.into_iter()
            .map(|table| machine.caches[table].label())
            .collect::<Vec<_>>()
            .join(" ")
    };
    // Smaller than what is above it.
    assert_eq!(labels(&with("\"128K\"", 0, "\"1K\"")), "l1d l2");
    // Shared above, private below.
    let shared = with("per = \"core\"", 1, "per = \"machine\"");
    assert_eq!(labels(&shared.replace("\"cluster\"", "\"core\"")), "l1d l2");
    // Levels that are not there: only their order counts.
    assert_eq!(labels(&with("level = 2", 0, "level = 7")), "l1d l7");
    // 43 sets.
    assert_eq!(labels(&with("\"128K\"", 0, "\"43K\"")), "l1d l2");
}

#[test]
fn a_misspelt_key_is_unknown_and_not_missing() {
    for (right, number, misspelt, answer) in [
        (
            "hit_cycles",
            0,
            "hit_cycle",
            "m.toml:4: unknown key `hit_cycle`, did you mean `hit_cycles`?",
        ),
        (
            "cores =",
            0,
            "Cores =",
            "m.toml:3: unknown key `Cores`, did you mean `cores`?",
        ),
        (
            "line =",
            1,
            "lien =",
            "m.toml:25: unknown key `lien`, did you mean `line`?",
        ),
        (
            "miss_cycles",
            2,
            "miss-cylces",
            "m.toml:37: unknown key `miss-cylces`, did you mean `miss_cycles`?",
        ),
        (
            "cores_per_cluster",
            0,
            "cores_per_clusters",
            "m.toml:7: unknown key `cores_per_clusters`, did you mean `cores_per_cluster`?",
        ),
    ] {
        assert_eq!(wrong(&with(right, number, misspelt)), answer);
    }
    let optional = wrong(&with("coherence", 0, "sede = 1\ncoherence"));
    let words = "m.toml:6: unknown key `sede`, did you mean `seed`? a machine of this model has";
    assert!(optional.starts_with(words), "{optional}");
    // Keys of other meaning are not taken for a missing one.
    let missing = wrong(&with("size = \"8K\"\n", 0, ""));
    assert_eq!(missing, "m.toml:9: `size` is missing in this [[cache]]");
}

#[test]
fn unknown_keys_and_tables_are_refused() {
    let answer = wrong(&with("coherence", 0, "colour = 1\ncoherence"));
    assert!(
        answer.starts_with(
            "m.toml:6: unknown key `colour`; a machine of this model has about, cache, coherence,"
        ),
        "{answer}"
    );
    let answer = wrong(&with("level = 2", 0, "latency = 3\nlevel = 2"));
    assert!(
        answer.starts_with("m.toml:30: unknown key `latency`; [[cache]] has kind, level, line,"),
        "{answer}"
    );
    let answer = wrong(&format!("{GOOD}[memory]\n"));
    assert!(
        answer.starts_with("m.toml:38: unknown key `memory`"),
        "{answer}"
    );
    assert_eq!(
        wrong(&GOOD.replace("[[cache]]", "[[caches]]"))
            .split('?')
            .next(),
        Some("m.toml:9: unknown key `caches`, did you mean `cache`")
    );
    assert_eq!(
        wrong(
            "cache = 3\nname = \"m\"\nmodel = \"uniform\"\ncores = 1\nhit_cycles = 1\ndispatch_cycles = 1\ncoherence = \"none\"\n"
        ),
        "m.toml:1: `cache` must be tables: [[cache]]"
    );
}

#[test]
fn what_is_no_toml_is_answered_with_its_line() {
    for (text, line) in [
        ("name = \n", 1),
        ("name = \"m\"\n\u{0}", 2),
        ("name = \"m\"\nname = \"n\"\n", 2),
        ("a = [[[[", 1),
        ("\u{fffd}\n", 1),
    ] {
        let answer = wrong(text);
        assert!(
            answer.starts_with(&format!("m.toml:{line}: not TOML: ")),
            "{text:?}: {answer}"
        );
    }
    let long = format!("# {}\n{GOOD}", "x".repeat(2 << 20));
    assert!(wrong(&long).contains("no machine file: longer than 65536 bytes"));
    assert!(wrong(&"[a.".repeat(20_000)).starts_with("m.toml:1: not TOML: "));
}

#[test]
fn overrides_replace_values_and_are_checked_together() {
    let machine = Machine::parse(GOOD, "m.toml").expect("it is sound");
    let changed = machine.overridden(&[
        "dispatch_cycles=5",
        "l2.size=64K",
        "l1i.ways=4",
        "seed=7",
        "l1.miss_cycles=12",
        "l2.replacement=random",
    ]);
    let changed = changed.expect("it is sound");
    assert_eq!((changed.dispatch_cycles, changed.seed), (5, 7));
    assert_eq!(
        (
            changed.caches[2].size,
            changed.caches[0].ways,
            changed.caches[1].ways
        ),
        (64 << 10, 4, 2)
    );
    assert_eq!(
        (changed.caches[0].miss_cycles, changed.caches[1].miss_cycles),
        (12, 12)
    );
    // Without `[smt]` the command line begins with what such a machine has.
    let threads = machine
        .overridden(&["smt.threads_per_core=2", "smt.period_cycles=5"])
        .expect("two threads are sound");
    let smt = threads.smt.expect("a table");
    assert_eq!(
        (smt.threads_per_core, smt.issue_width, smt.period_cycles),
        (2, 1, 5)
    );
    // Each by itself would contradict the rest.
    let longer = machine
        .overridden(&["l1.line=512", "l2.line=1024"])
        .expect("together they are sound");
    assert_eq!(longer.caches[2].line, 1024);
    for (text, answer) in [
        (
            "l2.size=100",
            "--set l2.size=100: `size` is 100 bytes; it must be a multiple of ways x line (4 x 256) and not 0",
        ),
        (
            "l3.size=1M",
            "--set l3.size=1M: m has no `l3`; its caches are l1i, l1d, l2",
        ),
        (
            "colour=1",
            "--set colour=1: unknown key `colour`; a machine of this model has about, cache, coherence, \
             cores, cores_per_cluster, cores_per_socket, dispatch_cycles, hit_cycles, model, name, regions, rtos, seed, smt",
        ),
        ("cores", "--set cores: an override is KEY=VALUE"),
        (
            "cores=many",
            "--set cores=many: `cores` must be a whole number from 0 to 2^64-1",
        ),
        (
            "l1.line=512",
            "--set l1.line=512: m.toml:35: a line of l1i has 512 bytes and one of l2, which is deeper, only 256",
        ),
    ] {
        let wrong = machine.overridden(&[text]).expect_err("it is wrong");
        assert_eq!(
            (wrong.to_string().as_str(), wrong.is_usage()),
            (answer, true)
        );
    }
    assert_eq!(machine.with_cores(9).expect("it is sound").cores, 9);
    let large = Machine::parse(&with("\"8K\"", 1, "\"1M\""), "m.toml").expect("it is sound");
    let wrong = large.with_cores(4096).expect_err("too many lines");
    let answer = "--cores 4096: m.toml:23: with this cache the machine has more than 67108864 cache lines, which are too many";
    assert_eq!(
        (wrong.to_string().as_str(), wrong.is_usage()),
        (answer, true)
    );
}

#[test]
fn any_shipped_machine_takes_any_number_of_cores() {
    for shipped in machines::all() {
        for cores in [1, 3, 64, 200] {
            let machine = shipped.machine().with_cores(cores).expect("few lines");
            assert_eq!(machine.placement().workers(), cores, "{}", shipped.name);
        }
    }
}

#[test]
fn every_machine_that_comes_along_says_what_it_is_and_other_files_need_not() {
    for shipped in machines::all() {
        let about = shipped.machine().about;
        assert!(
            (20..140).contains(&about.len()),
            "{}: {about:?}",
            shipped.name
        );
        assert!(!about.contains(['\n', '\u{1b}']), "{about:?}");
    }
    let mut all = machines::all();
    let toshiba = all.find(|shipped| shipped.name == "toshiba");
    let text = toshiba.expect("it comes along").text;
    let text = text.replacen("about = ", "# ", 1);
    let machine = Machine::parse(&text, "m.toml").expect("it needs no such line");
    assert_eq!(machine.about, "");
    let wrong = Machine::parse(&format!("about = 3\n{text}"), "m.toml");
    let wrong = wrong.expect_err("a number says nothing").to_string();
    assert!(
        wrong.contains("`about` must be a text in quotes"),
        "{wrong}"
    );
}

#[test]
fn wrong_values_of_real_time_kernels_are_refused_with_their_line_or_key() {
    let nec = machines::find("nec").expect("it is registered");
    for (text, answer) in [
        ("rtos.row_size=0", "a row has at least one byte"),
        ("rtos.bank_size=1500", "whole rows, at least one"),
        ("rtos.bank_size=0", "whole rows, at least one"),
        ("rtos.banks=0", "`banks`"),
        ("rtos.banks=5000", "`banks`"),
        ("rtos.bus_cycles=0", "`bus_cycles`"),
        ("rtos.device_cycles=1048577", "`device_cycles`"),
        ("rtos.latency_cycles=-1", "`latency_cycles`"),
        ("rtos.caches=maybe", "`caches`"),
        ("rtos.arbitration=random", "`arbitration`"),
        ("rtos.write_miss=never", "`write_miss`"),
        ("rtos.colour=1", "unknown key"),
    ] {
        let wrong = nec.overridden(&[text]).expect_err(text);
        let said = wrong.to_string();
        assert!(
            said.contains(answer) && said.contains(text) && wrong.is_usage(),
            "{said}"
        );
    }
    let short = format!("{GOOD}[rtos]\nbanks = 4\n");
    assert!(wrong(&short).contains("row_size"), "{}", wrong(&short));
    // `[rtos]` has caches of each core in mind: an instruction and a data cache, and no more.
    let table = "[rtos]\nmicrosecond_cycles = 200\nbus_cycles = 2\nlatency_cycles = 4\nactivate_cycles = 4\n\
                 precharge_cycles = 4\nbanks = 4\nrow_size = \"1K\"\ndevice_cycles = 12\nbranch_cycles = 2\n";
    let said = wrong(&format!("{GOOD}{table}"));
    assert!(said.contains("`[rtos]` needs two caches"), "{said}");
}

#[test]
fn several_memories_are_described_whole() {
    let good = "name = \"m\"\nmodel = \"contended\"\ncores = 4\ncores_per_socket = 2\nhit_cycles = 1\ndispatch_cycles = 0\n\
                coherence = \"none\"\n[numa]\nsockets = 3\npages = \"interleave\"\npage_size = \"4K\"\nlinks = \"0-1 2-1\"\n";
    let machine = Machine::parse(good, "m.toml").expect("it is sound");
    let numa = machine.contended.numa.expect("it has several memories");
    assert_eq!((numa.sockets, numa.page_size), (3, 4096));
    assert_eq!(numa.links, [(0, 1), (1, 2)]);
    let all = good.replace("links = \"0-1 2-1\"\n", "");
    let machine = Machine::parse(&all, "m.toml").expect("it is sound");
    let links = machine.contended.numa.map(|numa| numa.links);
    assert_eq!(links, Some(vec![(0, 1), (0, 2), (1, 2)]));
    for (old, new, message) in [
        (
            "cores_per_socket = 2\n",
            "",
            "m.toml:7: `[numa]` needs `cores_per_socket`",
        ),
        (
            "sockets = 3",
            "sockets = 65",
            "m.toml:9: `sockets` is 65; it must be 1 to 64",
        ),
        (
            "\"interleave\"",
            "\"interleave\"\nsocket = 1",
            "m.toml:11: `socket` needs `pages = \"socket\"`",
        ),
        (
            "\"interleave\"",
            "\"socket\"\nsocket = 3",
            "m.toml:11: `socket` is 3; it must be 0 to 2",
        ),
        (
            "\"4K\"",
            "5000",
            "m.toml:11: `page_size` must be a power of two and not less than the longest cache line, 1 bytes",
        ),
        (
            "2-1",
            "2-3",
            "m.toml:12: `2-3` in `links` is no pair of sockets such as 0-1; the last socket is 2",
        ),
        ("2-1", "1-0", "m.toml:12: `links` has `1-0` twice"),
        (
            "0-1 2-1",
            "2-1",
            "m.toml:12: no `links` lead from socket 0 to socket 1",
        ),
    ] {
        assert_eq!(wrong(&good.replacen(old, new, 1)), message);
    }
}
