//! Each fault of a text is reported with its file, its line and what to do.

use std::time::{Duration, Instant};

use tanada_trace::{Groups, Trace};

/// Returns the error message of a text that must be refused.
fn message(text: impl AsRef<[u8]>) -> String {
    let begin = Instant::now();
    let error = Trace::parse(text.as_ref(), "in.tnt", &Groups::Plain).unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(1), "{error}");
    assert!(!error.is_usage());
    error.to_string()
}

/// The text with a header before it.
fn after_header(text: &str) -> String {
    message(format!("tanada-trace 1\n{text}"))
}

#[test]
fn headers() {
    for (text, expected) in [
        (
            "",
            "in.tnt:1: the text ends before the header; a trace begins with the line `tanada-trace 1`",
        ),
        (
            "\n# nothing\n\n",
            "in.tnt:3: the text ends before the header; a trace begins with the line `tanada-trace 1`",
        ),
        (
            "task 1\n",
            "in.tnt:1: not a trace: found `task` where the header `tanada-trace 1` must stand",
        ),
        (
            "\ntanada-trace 2\n",
            "in.tnt:2: version `2` of the text form is not supported, only 1 is",
        ),
        (
            "tanada-trace\n",
            "in.tnt:1: the header lacks its version; write `tanada-trace 1`",
        ),
        (
            "tanada-trace 1 2\n",
            "in.tnt:1: unknown or surplus word `2`",
        ),
        (
            "tanada-threads 1\n",
            "in.tnt:1: not a trace: found `tanada-threads` where the header `tanada-trace 1` must stand",
        ),
        (
            "\u{7f}ELF\u{2}\0\0\0",
            "in.tnt:1: not a trace: found `\\x7fELF\\x02\\x00\\x00\\x00` where the header `tanada-trace 1` must stand",
        ),
        (
            "tanada-trace 1\r\r\n",
            "in.tnt:1: version `1\\r` of the text form is not supported, only 1 is",
        ),
    ] {
        assert_eq!(message(text), expected);
    }
}

#[test]
fn items() {
    for (text, expected) in [
        (
            "x 5",
            "2: a record before the first task; put a line `task ID` before it",
        ),
        (
            "w 5 5\ntask 1",
            "2: a record before the first task; put a line `task ID` before it",
        ),
        ("task", "2: `task` lacks its ID; write `task ID`"),
        (
            "task x",
            "2: `x` is not a valid ID; write decimal or 0x-hex digits without a sign",
        ),
        (
            "task -1",
            "2: `-1` is not a valid ID; write decimal or 0x-hex digits without a sign",
        ),
        (
            "task +1",
            "2: `+1` is not a valid ID; write decimal or 0x-hex digits without a sign",
        ),
        (
            "task 0x",
            "2: `0x` is not a valid ID; write decimal or 0x-hex digits without a sign",
        ),
        (
            "task 1e3",
            "2: `1e3` is not a valid ID; write decimal or 0x-hex digits without a sign",
        ),
        (
            "task 0X10",
            "2: `0X10` is not a valid ID; write decimal or 0x-hex digits without a sign",
        ),
        ("task 4294967296", "2: the ID `4294967296` passes 2^32-1"),
        (
            "task 1\n\ntask 1",
            "4: task 1 is declared twice; give every task an ID of its own",
        ),
        (
            "task 5\ntask 3\ntask 9\ntask 0x3",
            "5: task 3 is declared twice; give every task an ID of its own",
        ),
        (
            "task 1 T=",
            "2: `` is not a valid T group; write decimal or 0x-hex digits without a sign",
        ),
        (
            "task 1 T=0x100000000",
            "2: the T group `0x100000000` passes 2^32-1",
        ),
        ("task 1 S=1 S=1", "2: `S=1` is given twice"),
        ("task 1 depth=1 depth=2", "2: `depth=2` is given twice"),
        ("task 1 name=", "2: an empty name; leave `name=` out"),
        ("task 1 name=a name=b", "2: `name=b` is given twice"),
        ("task 1 T:a=1 T:a=2", "2: `T:a=2` is given twice"),
        ("task 1 T:=1", "2: `T:=1` lacks a name between `:` and `=`"),
        (
            "task 1 T:a=b",
            "2: `b` is not a valid group; write decimal or 0x-hex digits without a sign",
        ),
        ("task 1 h:a=", "2: `h:a=` lacks a value"),
        ("task 1 h:a=1 h:a=2", "2: task 1 has the hint `a` twice"),
        ("task 1 prio=3", "2: unknown or surplus word `prio=3`"),
        ("task 1 2", "2: unknown or surplus word `2`"),
        ("task 1 U:a=3", "2: unknown or surplus word `U:a=3`"),
        ("task 1\nx", "3: `x` lacks its cycles; write `x N`"),
        ("task 1\nx 1 2", "3: unknown or surplus word `2`"),
        (
            "task 1\nx 18446744073709551616",
            "3: the number of cycles `18446744073709551616` passes 2^64-1",
        ),
        ("task 1\nr 5", "3: `r` lacks its size; write `r ADDR SIZE`"),
        ("task 1\ni", "3: `i` lacks its address; write `i ADDR SIZE`"),
        (
            "task 1\nw 5 0",
            "3: size 0; a record touches 1 to 4294967295 bytes",
        ),
        (
            "task 1\nw 5 4294967296",
            "3: the size `4294967296` passes 2^32-1",
        ),
        (
            "task 1\nr 0xffffffffffffffff 2",
            "3: 0xffffffffffffffff and 2 bytes pass the last address, 2^64-1",
        ),
        ("task 1\nr 1 2 3", "3: unknown or surplus word `3`"),
        (
            "task 1\nR 1 2",
            "3: unknown word `R`; a line begins with task, x, i, r, w, dep or fork",
        ),
        (
            "task 1\rx 1\n",
            "2: `1\\rx` is not a valid ID; write decimal or 0x-hex digits without a sign",
        ),
        (
            "task 1\r\n\r\nx 1 \r 2\r\n",
            "4: unknown or surplus word `\\r`",
        ),
        (
            "tanada-trace 1",
            "2: unknown word `tanada-trace`; a line begins with task, x, i, r, w, dep or fork",
        ),
        (
            "task 1\ndep 1",
            "3: `dep` lacks the ID of the task that waits; write `dep A B`",
        ),
        (
            "task 1\nfork",
            "3: `fork` lacks the ID of the task that ends; write `fork A B`",
        ),
        ("task 1\ndep 1 1 1", "3: unknown or surplus word `1`"),
        (
            "task 1\ndep 1 2\n",
            "3: `dep 1 2`: there is no task 2; declare it or remove this line",
        ),
        (
            "fork 7 1\ntask 1\n",
            "2: `fork 7 1`: there is no task 7; declare it or remove this line",
        ),
        (
            "task 1\n\ndep 1 1",
            "4: a cycle: task 1 waits for itself; remove this line",
        ),
    ] {
        assert_eq!(after_header(text), format!("in.tnt:{expected}"), "{text}");
    }
}

#[test]
fn not_utf8_and_long() {
    assert_eq!(
        message(b"tanada-trace 1\ntask 1 name=\xff"),
        "in.tnt:2: `name=\\xff` is not UTF-8"
    );
    assert!(Trace::parse(b"tanada-trace 1\ntask 1 # \xff", "in.tnt", &Groups::Plain).is_ok());
    let long = format!(
        "in.tnt:2: a line of more than {} bytes; is this a text trace?",
        64 << 10
    );
    assert_eq!(after_header(&"x".repeat(1 << 20)), long);
    assert_eq!(after_header(&" ".repeat(70_000)), long);
    let word = "x".repeat(60_000);
    let message = after_header(&word);
    assert!(
        message.len() < 200 && message.starts_with("in.tnt:2: unknown word `xxxx"),
        "{message}"
    );
    // A comment may have any length, and its end is found.
    let comment = format!(
        "tanada-trace 1 #{}\ntask 1\n{}#{}\nx 7\nx -1",
        "y".repeat(3 << 20),
        "",
        "z".repeat(700_000)
    );
    assert_eq!(
        self::message(comment),
        "in.tnt:5: `-1` is not a valid number of cycles; write decimal or 0x-hex digits without a sign"
    );
}

/// Files whose lines end with a carriage return and a line feed are the same traces.
#[test]
fn carriage_returns_before_line_feeds() {
    let text = "tanada-trace 1 # a\n\ntask 1 name=a T=2 # b\nx 5\n\nr 0x10 4\ntask 2 h:a=b\n dep 1 2\nw 1 1";
    let parse = |text: &str| Trace::parse(text.as_bytes(), "in.tnt", &Groups::Plain).unwrap();
    let (plain, windows) = (parse(text), parse(&text.replace('\n', "\r\n")));
    assert_eq!(plain.tasks(), windows.tasks());
    assert_eq!((plain.name(0), plain.records()), (windows.name(0), 3));
    assert_eq!(windows.hint(1, "a"), Some("b"));
    assert!(windows.name(0) == "a" && parse(&format!("{text}\r")).records() == 3);
}

/// Random bytes with and without a header are refused in time.
#[test]
fn junk() {
    let mut state = 1_u64;
    let junk: Vec<u8> = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    })
    .take(4 << 20)
    .collect();
    message(&junk);
    message([b"tanada-trace 1\n", &*junk].concat());
    message(vec![0; 4 << 20]);
    message([b"tanada-trace 1\n", &*vec![0; 4 << 20]].concat());
}

#[test]
fn cycles_name_a_task_and_a_line() {
    // 1 -> 2 -> 3 -> 4 -> 2, with 5 behind the cycle.
    let text =
        "task 1\ntask 2\ntask 3\ntask 4\ntask 5\ndep 1 2\ndep 2 3\nfork 3 4\ndep 4 2\ndep 4 5\n";
    let message = after_header(text);
    let good = [
        "in.tnt:8: tasks wait for each other in a cycle: task 3 waits for task 2, which waits for task 3 in turn; remove a dependency",
        "in.tnt:9: tasks wait for each other in a cycle: task 4 waits for task 3, which waits for task 4 in turn; remove a dependency",
        "in.tnt:10: tasks wait for each other in a cycle: task 2 waits for task 4, which waits for task 2 in turn; remove a dependency",
    ];
    assert!(good.contains(&&*message), "{message}");
    // Too deep for a recursive search.
    let count = 300_000;
    let mut text = String::from("tanada-trace 1\n");
    for id in 0..count {
        text.push_str(&format!("task {id}\ndep {id} {}\n", (id + 1) % count));
    }
    let message = self::message(text);
    assert!(message.contains("in a cycle: task "), "{message}");
}

#[test]
fn missing_groups() {
    let text = b"tanada-trace 1\ntask 1 T:a=1 S:b=2\n";
    let error = Trace::parse(text, "in.tnt", &Groups::Named("c".into())).unwrap_err();
    assert!(error.is_usage());
    assert_eq!(
        error.to_string(),
        "in.tnt: no task has groups named `c`; there are: a, b, none"
    );
    assert!(Trace::parse(text, "in.tnt", &Groups::Named("b".into())).is_ok());
}

#[test]
fn limits_are_allowed() {
    let text = "tanada-trace 1 # a trace\n\t task\t4294967295 T=0xffffffff S=00 depth=4294967295 name=a=b T:a=1\n\
                x 0\nx 18446744073709551615\nr 0xffffffffffffffff 1\nw 0 4294967295\ni 0xffffffff00000001 4294967295\n\
                task 0\ndep 4294967295 0#x\nfork 4294967295 0\ndep 4294967295 0\n";
    let trace = Trace::parse(text.as_bytes(), "in.tnt", &Groups::Plain).unwrap();
    assert_eq!(
        (
            trace.len(),
            trace.records(),
            trace.name(0),
            trace.tasks()[1].waits
        ),
        (2, 5, "a=b", 1)
    );
    assert!(trace.successors(0)[0].is_fork());
}

#[test]
fn files_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.tnt");
    let error = Trace::open(&missing, &Groups::Plain)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with(&format!("{}: No such file", missing.display())),
        "{error}"
    );
    assert!(Trace::open(folder.path(), &Groups::Plain).is_err());
}
