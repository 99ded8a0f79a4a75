//! `tanada sweep`.

mod support;

use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use support::{bad, folder, good, limited, said, tanada};

const BOOK: &str = include_str!("../../../docs/sweep.md");

/// Tasks in two chains over blocks of data, with groups.
fn trace(tasks: u64, records: u64) -> String {
    let mut text = String::from("tanada-trace 1\n");
    for id in 0..tasks {
        let (t, s) = (id / 8 + 1, id % 4 + 1);
        text += &format!("task {id} T={t} S={s} name=block T:own={s} S:own={t}\n");
        for i in 0..records {
            let at = 0x10_0000 * s + (i * 7 + id) % 3000 * 32;
            text += &format!(
                "i 0x400000 128\nr {at:#x} 32\nx {}\nw {:#x} 16\n",
                i % 9,
                at + 0x8_0000
            );
        }
        if id >= 8 {
            text += &format!("dep {} {id}\n", id - 8);
        }
    }
    text
}

/// The example of docs/sweep.md beside a trace.
fn example(folder: &Path, tasks: u64, records: u64) {
    let spec = BOOK
        .split("```toml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    std::fs::write(
        folder.join("caches.toml"),
        spec.expect("the page has an example"),
    )
    .expect("it can be written");
    std::fs::write(folder.join("blocks.tnt"), trace(tasks, records)).expect("it can be written");
}

fn results(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(format!("{name}.csv"))).expect("the results are there")
}

#[test]
fn rows_are_what_sim_says() {
    let folder = folder();
    let folder = folder.path();
    example(folder, 48, 60);
    let dry = good(folder, &["sweep", "caches.toml", "--dry-run"]).out;
    assert!(dry.contains("16 runs, into caches.csv\n"), "{dry}");
    assert!(!folder.join("caches.csv").exists());
    let json = good(folder, &["sweep", "caches.toml", "--json"]).out;
    let rows: Vec<serde_json::Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let csv = results(folder, "caches");
    let csv = String::from_utf8(csv).expect("text");
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().expect("a header").split(',').collect();
    assert_eq!(
        header[..7],
        [
            "trace", "groups", "machine", "l2.size", "policy", "cores", "seed"
        ]
    );
    assert_eq!(header.last(), Some(&"error"));
    assert_eq!((rows.len(), lines.clone().count()), (16, 16));
    for (row, line) in rows.iter().zip(lines) {
        let cells: Vec<&str> = line.split(',').collect();
        let plain = |key: &str| match &row[key] {
            serde_json::Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        for (key, cell) in header
            .iter()
            .zip(&cells)
            .filter(|(key, _)| **key != "error")
        {
            assert_eq!(plain(key), **cell, "{key}");
        }
        let (cores, set) = (plain("cores"), format!("l2.size={}", plain("l2.size")));
        let mut words = vec![
            "sim",
            "blocks.tnt",
            "--machine",
            "toshiba",
            "--json",
            "--cores",
            &cores,
            "--set",
            &set,
        ];
        let (policy, groups) = (plain("policy"), plain("groups"));
        words.extend(["--policy", &policy]);
        if groups != "plain" {
            words.extend(["--groups", &groups]);
        }
        let sim: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(&good(folder, &words).out).expect("JSON");
        for (key, value) in sim.iter().filter(|(key, _)| *key != "machine") {
            assert_eq!(row[key], *value, "{key}");
        }
    }
    assert!(!folder.join("caches.unfinished").exists());

    // Another number of threads, another time, under another name: the same bytes.
    for threads in ["1", "2"] {
        let table = good(
            folder,
            &["sweep", "caches.toml", "-o", "other", "--threads", threads],
        )
        .out;
        assert!(
            table.contains("l2.size") && table.contains("16 runs: other.csv\n"),
            "{table}"
        );
        assert_eq!(results(folder, "other"), csv.as_bytes());
    }
}

#[test]
#[cfg(feature = "parquet")]
fn parquet_is_written_if_it_is_asked_for() {
    let folder = folder();
    let folder = folder.path();
    example(folder, 16, 10);
    let sweep = |name: &str, threads: &str| {
        let words = ["sweep", "caches.toml", "--parquet", "-o", name, "--threads"];
        let said = good(folder, &[&words[..], &[threads]].concat());
        let files = format!("{name}.csv and {name}.parquet");
        assert!(said.out.contains(&files), "{}", said.out);
        let parquet = folder.join(format!("{name}.parquet"));
        std::fs::read(parquet).expect("the results are there")
    };
    let one = sweep("one", "1");
    assert!(one.starts_with(b"PAR1") && one.ends_with(b"PAR1"));
    assert_eq!(one, sweep("two", "2"), "the bytes do not depend on threads");
}

#[test]
#[cfg(not(feature = "parquet"))]
fn a_build_without_parquet_says_how_to_get_it() {
    let folder = folder();
    let folder = folder.path();
    example(folder, 16, 10);
    let before = files(folder);
    let words = ["--parquet", "--features parquet"];
    bad(folder, &["sweep", "caches.toml", "--parquet"], 2, &words);
    assert_eq!(files(folder), before, "nothing was run");
}

/// What is in a folder, hidden files too.
fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn the_page_s_commands_make_its_trace_and_run_its_sweep() {
    let folder = folder();
    let folder = folder.path();
    example(folder, 0, 0);
    std::fs::remove_file(folder.join("blocks.tnt")).expect("it is there");
    let commands = BOOK
        .lines()
        .filter_map(|line| line.strip_prefix("$ tanada "));
    let commands: Vec<Vec<&str>> = commands
        .map(|command| command.split_whitespace().collect())
        .collect();
    assert_eq!(commands.len(), 2, "the trace and the sweep");
    for command in &commands {
        good(folder, command);
    }
    assert_eq!(files(folder), ["blocks.tnt", "caches.csv", "caches.toml"]);
    let csv = results(folder, "caches");
    let csv = String::from_utf8(csv).expect("text");
    assert_eq!(csv.lines().count(), 1 + 16, "{csv}");
    // Groups are there: under `ts` they make a difference.
    let cycles = |groups: &str| -> Vec<&str> {
        let header = csv.lines().next().expect("a header");
        let at = header.split(',').position(|key| key == "makespan");
        let at = at.expect("there is a makespan");
        let rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
        rows.filter(|row| row[1] == groups && row[4] == "ts")
            .map(|row| row[at])
            .collect()
    };
    assert_ne!(cycles("plain"), cycles("none"));
}

/// Starts the sweep, waits until the journal has some results, and sends a signal.
fn stopped(folder: &Path, signal: Signal) -> support::Said {
    let journal = folder.join("caches.unfinished");
    let lines = || std::fs::read_to_string(&journal).map_or(0, |text| text.lines().count());
    let before = lines();
    let mut command = tanada(folder, &["sweep", "caches.toml", "--threads", "1"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let deadline = Instant::now() + Duration::from_secs(120);
    while lines() < before.max(2) + 2 {
        assert!(
            Instant::now() < deadline && child.try_wait().expect("it can be asked").is_none(),
            "it was not to end yet"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    kill_process(Pid::from_child(&child), signal).expect("it still runs");
    let output = child.wait_with_output().expect("it ends");
    assert!(lines() > before, "results are kept");
    assert_eq!(
        files(folder),
        ["blocks.tnt", "caches.toml", "caches.unfinished"]
    );
    said(output)
}

#[test]
fn a_sweep_that_was_stopped_goes_on_and_ends_with_the_same_bytes() {
    let whole = folder();
    example(whole.path(), 200, 2000);
    good(whole.path(), &["sweep", "caches.toml"]);
    let folder = folder();
    let folder = folder.path();
    example(folder, 200, 2000);
    let killed = stopped(folder, Signal::KILL);
    assert_eq!(killed.code, None);
    // Killed in the middle of a line.
    let journal = folder.join("caches.unfinished");
    let mut text = std::fs::read(&journal).expect("it is there");
    text.extend(b"\"blocks.tnt\" 12");
    std::fs::write(&journal, text).expect("it can be written");
    let interrupted = stopped(folder, Signal::INT);
    assert_eq!(interrupted.code, Some(130), "{}", interrupted.err);
    assert_eq!(
        interrupted.err,
        "tanada: stopped; the same command goes on from caches.unfinished\n"
    );
    good(folder, &["sweep", "caches.toml"]);
    assert_eq!(results(folder, "caches"), results(whole.path(), "caches"));
    assert_eq!(files(folder), ["blocks.tnt", "caches.csv", "caches.toml"]);
}

#[test]
fn results_of_other_inputs_or_programs_do_not_count() {
    let folder = folder();
    let folder = folder.path();
    example(folder, 200, 2000);
    stopped(folder, Signal::KILL);
    let journal = folder.join("caches.unfinished");
    let text = std::fs::read_to_string(&journal).expect("it is there");
    // Another trace under the same name: not one of the results is of it.
    std::fs::write(folder.join("blocks.tnt"), trace(16, 10)).expect("it can be written");
    good(folder, &["sweep", "caches.toml"]);
    let fresh = results(folder, "caches");
    // Another program's results are left alone.
    let mut lines = text.lines();
    let (head, build) = (lines.next(), lines.next());
    let (head, build) = head.zip(build).expect("two lines before the rows");
    let rest = lines.collect::<Vec<_>>().join("\n");
    std::fs::write(&journal, format!("{head}\n{build}0\n{rest}\n")).expect("it can be written");
    let said = good(folder, &["sweep", "caches.toml"]);
    assert!(
        said.err
            .contains("from another version of this program; starting over"),
        "{}",
        said.err
    );
    assert_eq!(results(folder, "caches"), fresh);
}

/// Rows with bytes that are no JSON, and rows that someone edited.
#[test]
fn a_damaged_row_of_the_journal_is_done_again() {
    let folder = folder();
    let folder = folder.path();
    example(folder, 200, 2000);
    stopped(folder, Signal::KILL);
    let journal = folder.join("caches.unfinished");
    let text = std::fs::read_to_string(&journal).expect("it is there");
    good(folder, &["sweep", "caches.toml", "-o", "whole"]);
    let one = "1 row is damaged and does not count; its run is done again";
    let all = format!(
        "{} rows are damaged and do not count",
        text.lines().count() - 2
    );
    let edited = "\"makespan\":1";
    for (damaged, note) in [
        (text.replacen('{', "\u{0}", 1), one),
        (text.replacen("\"makespan\":", edited, 1), one),
        (text.replace("\"makespan\":", edited), &*all),
    ] {
        assert_ne!(damaged, text, "there is a row");
        std::fs::write(&journal, damaged).expect("it can be written");
        let said = good(folder, &["sweep", "caches.toml"]);
        let note = format!("caches.unfinished: {note}");
        assert!(said.err.contains(&note), "{note}: {}", said.err);
        assert_eq!(results(folder, "caches"), results(folder, "whole"));
    }
    // Half a line, of a process that was killed, is no damage.
    std::fs::write(&journal, text + "0123").expect("it can be written");
    let said = good(folder, &["sweep", "caches.toml"]);
    assert!(!said.err.contains("damaged"), "{}", said.err);
    assert_eq!(results(folder, "caches"), results(folder, "whole"));
}

#[test]
fn more_runs_than_fit_the_memory_are_refused() {
    let folder = folder();
    let folder = folder.path();
    std::fs::write(folder.join("t.tnt"), trace(1, 1)).expect("it can be written");
    let list = |count: u32| Vec::from_iter((0..count).map(|n| n.to_string())).join(",");
    let spec = |seeds: u32, keys: &[(&str, u32)]| {
        let mut text = format!(
            "traces = 't.tnt'\nmachines = 'toshiba-board'\npolicies = 'fcfs'\nseeds = [{}]\n[set]\n",
            list(seeds)
        );
        for (key, values) in keys {
            text += &format!("{key} = [{}]\n", list(*values));
        }
        std::fs::write(folder.join("many.toml"), text).expect("it can be written");
    };
    let keys = [
        "memory.fill_cycles",
        "memory.write_cycles",
        "invalidate_cycles",
        "scheduler.call_cycles",
        "scheduler.pool_cycles",
        "scheduler.wake_cycles",
    ];
    let ten = |count: usize| Vec::from_iter(keys[..count].iter().map(|key| (*key, 10)));
    for more in [&[][..], &["--dry-run"], &["--dry-run", "--json"]] {
        spec(10_000, &ten(6));
        let words = [
            "many.toml:1: ",
            "have 10,000,000,000 combinations",
            "250,000 at the most",
            "`seeds` (10,000), `memory.fill_cycles` (10)",
        ];
        let mut command = limited(folder, &[&["sweep", "many.toml"], more].concat(), 500_000);
        let refused = said(command.output().expect("a shell"));
        assert_eq!(refused.code, Some(1), "{}", refused.err);
        for word in words {
            assert!(refused.err.contains(word), "{word}: {}", refused.err);
        }
        assert_eq!(files(folder), ["many.toml", "t.tnt"]);
    }
    // A run takes no memory before its turn, nor does its machine.
    spec(1, &ten(4));
    let mut command = limited(folder, &["sweep", "many.toml", "--dry-run"], 100_000);
    let dry = said(command.output().expect("a shell"));
    assert_eq!(dry.code, Some(0), "{}", dry.err);
    assert!(
        dry.out
            .ends_with("... and 9900 more\n10000 runs, into many.csv\n"),
        "{}",
        dry.out
    );
    assert_eq!(dry.out.lines().count(), 102);
}

#[test]
fn a_file_that_is_no_journal_is_left_alone() {
    let folder = folder();
    let folder = folder.path();
    example(folder, 16, 10);
    let journal = folder.join("caches.unfinished");
    for content in [
        "precious",
        "tanada-trace 1\n",
        "tanada-sweep of caches\nprecious\n",
        "tanada-sweep 1\nprecious\n",
        "tanada-sweep 1 caches.toml\nprecious\n",
        "tanada-sweep 1 1-00000000 and more",
        "tanada-sweep 1 12-00000000\n\"blocks.tnt\" 12\t{}\n",
        "tanada-sweep journal\n",
        "tanada-sweep journal 20\n",
    ] {
        std::fs::write(&journal, content).expect("it can be written");
        bad(
            folder,
            &["sweep", "caches.toml"],
            1,
            &[
                "caches.unfinished",
                "journal of a sweep; remove it, or name other results",
            ],
        );
        assert_eq!(
            std::fs::read_to_string(&journal).expect("it is there"),
            content
        );
    }
    std::fs::remove_file(&journal).expect("our file");
    // A link would go at the end, and not the file that it leads to.
    std::fs::write(folder.join("empty"), "").expect("it can be written");
    for to in ["/dev/null", "empty", "nowhere"] {
        std::os::unix::fs::symlink(to, &journal).expect("the system has links");
        let words = ["caches.unfinished: it is a symbolic link; remove it"];
        bad(folder, &["sweep", "caches.toml"], 1, &words);
        assert!(journal.is_symlink() && !folder.join("nowhere").exists());
        std::fs::remove_file(&journal).expect("our link");
    }
    let empty = std::fs::read(folder.join("empty"));
    assert_eq!(empty.expect("it is there"), b"");
    for content in [
        "",
        "tanada-sw",
        "tanada-sweep journal 2",
        "tanada-sweep journal 2\n",
        "tanada-sweep journal 2\n0.1.0\n",
    ] {
        std::fs::write(&journal, content).expect("it can be written");
        good(folder, &["sweep", "caches.toml"]);
    }
    // The rows of an earlier version have no checksum.
    std::fs::write(&journal, "tanada-sweep 1 12-00000000\n").expect("it can be written");
    let words = ["caches.unfinished: it is of an earlier version of tanada"];
    bad(folder, &["sweep", "caches.toml"], 1, &words);
}

/// A sweep opens its outputs before its runs and again after them; the reader of a pipe would take the first time for all.
#[test]
fn outputs_that_are_no_regular_files_are_refused() {
    let folder = folder();
    let folder = folder.path();
    example(folder, 16, 10);
    let output = folder.join("r.csv");
    let refused = || {
        let words = ["r.csv: it is no regular file; remove it, or name other results"];
        bad(folder, &["sweep", "caches.toml", "-o", "r"], 1, &words);
        assert_eq!(files(folder), ["blocks.tnt", "caches.toml", "r.csv"]);
    };
    std::os::unix::fs::symlink("/dev/null", &output).expect("the system has links");
    refused();
    std::fs::remove_file(&output).expect("our link");
    let made = std::process::Command::new("mkfifo").arg(&output).status();
    assert!(made.expect("the system has pipes").success());
    refused();
    std::fs::remove_file(&output).expect("our pipe");
    // A link to a file that is there or not.
    for _ in 0..2 {
        let _ = std::os::unix::fs::symlink("there", &output);
        good(folder, &["sweep", "caches.toml", "-o", "r"]);
        assert!(output.is_symlink() && folder.join("there").is_file());
    }
}

#[test]
fn faults_are_reported_with_file_and_line() {
    let folder = folder();
    let folder = folder.path();
    std::fs::write(
        folder.join("t.tnt"),
        "tanada-trace 1\ntask 1 T:own=1\nx 5\n",
    )
    .expect("it can be written");
    std::fs::write(folder.join("bad.tnt"), "tanada-trace 1\nx 5\n").expect("it can be written");
    std::fs::write(folder.join("m.toml"), "name = 3\n").expect("it can be written");
    let spec = |text: &str| std::fs::write(folder.join("s.toml"), text).expect("it can be written");
    for (text, words) in [
        (
            "traces = 't.tnt'\nmachines = [\n",
            &["s.toml:", "not TOML"][..],
        ),
        (
            "traces = 't.tnt'\nmachines = ['toshiba',\n'unknown']",
            &["s.toml:3: ", "no machine \"unknown\"", "toshiba"],
        ),
        ("traces = 't.tnt'\nmachines = 'm.toml'", &["m.toml:1: "]),
        (
            "machines = 'toshiba'\ntraces = ['t.tnt',\n 'missing.tnt']",
            &["s.toml:3: ", "missing.tnt"],
        ),
        (
            "traces = 'bad.tnt'\nmachines = 'toshiba'",
            &["bad.tnt:2: a record before the first task"],
        ),
        (
            "traces = 't.tnt'\nmachines = 'toshiba'\npolicies = ['fcfs', 'ffcs']",
            &["s.toml:3: ", "ffcs", "lcfs"],
        ),
        (
            "traces = 't.tnt'\nmachines = 'toshiba'\ngroups = 'mine'",
            &["s.toml:3: no task of t.tnt has groups named `mine`; there are: own, plain, none"],
        ),
        (
            "traces = 't.tnt'\nmachines = 'toshiba'\n[set]\nl7.size = '8K'",
            &["s.toml:4: toshiba: ", "l7.size"],
        ),
        (
            "traces = 't.tnt'\nmachines = 'toshiba'\n[set]\nl2.size = ['64K',\n'7']",
            &["s.toml:5: toshiba: ", "l2.size=7"],
        ),
        (
            "traces = 't.tnt'\nmachines = 'toshiba'\nseeds = [1, 1]",
            &["s.toml:3: `1` is in this list twice"],
        ),
    ] {
        spec(text);
        bad(folder, &["sweep", "s.toml"], 1, words);
        assert!(!folder.join("s.csv").exists() && !folder.join("s.unfinished").exists());
    }
    bad(
        folder,
        &["sweep", "none.toml"],
        1,
        &["none.toml: No such file"],
    );
    bad(folder, &["sweep"], 2, &["SPEC"]);
    bad(
        folder,
        &["sweep", "s.toml", "--threads", "0"],
        2,
        &["--threads"],
    );
    spec("traces = 't.tnt'\nmachines = 'toshiba'");
    bad(
        folder,
        &["sweep", "s.toml", "-o", "no/where"],
        1,
        &["no/where.csv: there is no folder no"],
    );
}

#[test]
fn a_run_without_a_result_does_not_hold_up_the_others() {
    let folder = folder();
    let folder = folder.path();
    let text = "tanada-trace 1\ntask 1\nx 18446744073709551615\ntask 2\nx 18446744073709551615\n";
    std::fs::write(folder.join("long.tnt"), text).expect("it can be written");
    // On one core the second task passes the end of the clock, on two it does not.
    std::fs::write(
        folder.join("s.toml"),
        "traces = 'long.tnt'\nmachines = 'toshiba'\npolicies = 'fcfs'\ncores = [1, 2]\n",
    )
    .expect("it can be written");
    bad(
        folder,
        &["sweep", "s.toml"],
        1,
        &["1 of 2 runs have no result", "long.tnt:5"],
    );
    let csv = results(folder, "s");
    let csv = String::from_utf8(csv).expect("text");
    let lines: Vec<&str> = csv.lines().collect();
    assert!(
        lines.len() == 3
            && lines[1].contains("2^64-1")
            && lines[2].contains("18446744073709551615")
            && lines[2].ends_with(','),
        "{csv}"
    );
}

#[test]
fn the_example_of_the_page_shows_what_the_page_says() {
    let folder = folder();
    let folder = folder.path();
    let block = |kind: &str| {
        BOOK.split(&format!("```{kind}\n"))
            .nth(1)
            .and_then(|rest| rest.split("```").next())
    };
    let spec = block("toml").expect("the page has an example");
    std::fs::write(folder.join("caches.toml"), spec).expect("it can be written");
    let commands = BOOK
        .lines()
        .filter_map(|line| line.strip_prefix("$ tanada "));
    let mut printed = String::new();
    for command in commands.take(2) {
        printed = good(folder, &command.split(' ').collect::<Vec<_>>()).out;
    }
    let table = block("text").expect("the page has a table");
    assert!(printed.starts_with(table), "{printed}");
    let text = String::from_utf8(results(folder, "caches")).expect("text");
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().expect("a header");
    let column = |name: &str| {
        header
            .iter()
            .position(|head| *head == name)
            .expect("a column")
    };
    let [groups, policy, cores, cache, makespan] =
        ["groups", "policy", "cores", "l2.size", "makespan"].map(column);
    let lines = Vec::from_iter(lines);
    let cycles = |line: &Vec<&str>| line[makespan].parse::<f64>().expect("a number");
    for fcfs in lines.iter().filter(|line| line[policy] == "fcfs") {
        let same = |line: &&Vec<&str>| {
            [groups, cores, cache]
                .iter()
                .all(|&at| line[at] == fcfs[at])
        };
        let ts = lines
            .iter()
            .filter(same)
            .find(|line| line[policy] == "ts")
            .expect("a row");
        let ratio = cycles(ts) / cycles(fcfs);
        match fcfs[groups] {
            "none" => assert_eq!(ratio, 1.0, "{text}"),
            _ => assert!((0.92..0.955).contains(&ratio), "{ratio}: {text}"),
        }
    }
}
