//! Imports of small texts.

use super::{Fetches, Imported, Options, TASK_MARK, dinero, lackey, tasks};
use crate::threads::ThreadTrace;
use crate::{TextWriter, TraceError};

const EACH: Options = Options {
    cycles_per_instruction: 0,
    fetches: Fetches::Each,
    renumber: false,
};

trait Importer:
    FnOnce(&[u8], Options, &mut TextWriter<Vec<u8>>) -> Result<Imported, TraceError>
{
}
impl<F: FnOnce(&[u8], Options, &mut TextWriter<Vec<u8>>) -> Result<Imported, TraceError>> Importer
    for F
{
}

fn import(by: impl Importer, text: &str, options: Options) -> Result<(Imported, String), String> {
    let mut writer = TextWriter::new(Vec::new()).expect("a vector can be written");
    let imported = by(text.as_bytes(), options, &mut writer).map_err(|error| error.to_string())?;
    let text = writer.finish().expect("a vector can be written");
    let text = String::from_utf8(text).expect("a text trace is UTF-8");
    let body = text.strip_prefix("tanada-trace 1\n").expect("the header");
    Ok((imported, body.to_owned()))
}

fn from_lackey(text: &str, options: Options) -> Result<(Imported, String), String> {
    import(
        |text, options, to| lackey(text, "log", options, to),
        text,
        options,
    )
}

fn from_dinero(text: &str) -> Result<(Imported, String), String> {
    import(
        |text, options, to| dinero(text, "a.din", options, to),
        text,
        EACH,
    )
}

#[test]
fn lackey_lines_become_records() {
    let own = "==7== Lackey\n\n--7-- note\n**7** message\n==7== \n";
    let log = &format!("I  0023c790,2\n L 1fff000768,8\n{own} S 10,4\n M 0421c7cc,16\n{own}");
    assert_eq!(
        from_lackey(&log.replace('\n', "\r\n"), EACH),
        from_lackey(log, EACH)
    );
    let (imported, text) = from_lackey(log, EACH).expect("a good log");
    let records = "i 0x23c790 2\nr 0x1fff000768 8\nw 0x10 4\nr 0x421c7cc 16\nw 0x421c7cc 16\n";
    assert_eq!(text, format!("task 0\n{records}"));
    let counts = [imported.tasks, imported.records, imported.instructions];
    assert_eq!(counts, [1, 5, 1]);
    assert_eq!([imported.reads, imported.writes], [2, 2]);
}

#[test]
fn computation_is_summed_up_to_the_next_access() {
    let options = Options {
        cycles_per_instruction: 3,
        fetches: Fetches::None,
        ..EACH
    };
    let (_, text) = from_lackey("I  10,4\nI  14,4\n L 100,1\nI  18,4\n", options).expect("good");
    assert_eq!(text, "task 0\nx 6\nr 0x100 1\nx 3\n");
}

#[test]
fn blocks_are_fetched_once_in_a_row() {
    let options = Options {
        fetches: Fetches::Blocks(16),
        ..EACH
    };
    // Two in one block, one across two blocks, one right behind it, one after a jump back, and one across three blocks.
    let log = "I  100,4\nI  104,4\nI  10e,4\nI  112,4\n S 8,1\nI  116,2\nI  100,2\nI  10f,18\n";
    let (_, text) = from_lackey(log, options).expect("good");
    let records = "i 0x100 16\ni 0x110 16\nw 0x8 1\ni 0x100 16\ni 0x110 32\n";
    assert_eq!(text, format!("task 0\n{records}"));
}

/// The sum stays exact: what does not fit into one record goes into the next.
#[test]
fn computation_beyond_one_record_is_two() {
    let options = Options {
        cycles_per_instruction: u64::MAX - 1,
        fetches: Fetches::None,
        ..EACH
    };
    let (imported, text) =
        from_lackey("I  10,4\nI  14,4\n L 100,1\nI  18,4\n", options).expect("good");
    let x = format!("x {}\n", u64::MAX - 1);
    assert_eq!(text, format!("task 0\n{x}{x}r 0x100 1\n{x}"));
    assert_eq!((imported.records, imported.instructions), (4, 3));
}

#[test]
fn pages_are_numbered_by_first_touch_and_split_accesses() {
    let options = Options {
        renumber: true,
        ..EACH
    };
    let log = " L 7fff5008,4\n S 1000,4\n L 7fff5ffe,4\n S ffffffffffffffff,1\nI  7fff6010,2\n";
    let (imported, text) = from_lackey(log, options).expect("good");
    let records = "r 0x1008 4\nw 0x2000 4\nr 0x1ffe 2\nr 0x3000 2\nw 0x4fff 1\ni 0x3010 2\n";
    assert_eq!(text, format!("task 0\n{records}"));
    assert_eq!((imported.pages, imported.reads), (4, 2));
}

#[test]
fn bad_lines_of_lackey_are_named() {
    for (line, why) in [
        ("hello world", "not a line of lackey's memory trace"),
        (" X 10,4", "not a line"),
        ("I 10,4", "not a line"),
        ("==x== hello", "not a line"),
        (" L 10,", "ADDRESS,SIZE"),
        (" L ,4", "ADDRESS,SIZE"),
        (" L 10,4 ", "ADDRESS,SIZE"),
        (" L 10;4", "ADDRESS,SIZE"),
        (" L 0x10,4", "ADDRESS,SIZE"),
        (" L 10,-4", "ADDRESS,SIZE"),
        (" L 10,0", "from 1 to 1048576"),
        (" L 10,1048577", "from 1 to 1048576"),
        (" L 10,99999999999999999999999", "ADDRESS,SIZE"),
        (" L 11112222333344445,4", "ADDRESS,SIZE"),
        (" L fffffffffffffffe,3", "2^64-1"),
        ("\u{0}\u{1}\u{2}", "not a line"),
    ] {
        let error = from_lackey(&format!("I  10,4\n{line}\nI  14,4\n"), EACH).expect_err(line);
        assert!(
            error.starts_with("log:2: ") && error.contains(why),
            "{error}"
        );
    }
    let long = " L 10,4".repeat(100_000);
    let error = from_lackey(&format!("I  10,4\n{long}"), EACH).expect_err("a long line");
    assert!(error.starts_with("log:2: a line of more than"), "{error}");
    assert!(error.len() < 200, "{error}");
    // A trace that was cut off.
    let error = from_lackey("I  10,4\n L 1", EACH).expect_err("cut off");
    assert!(error.starts_with("log:2: "), "{error}");
}

#[test]
fn both_of_dineros_formats_are_read() {
    let din = "2 430d70 main\n0 7fff9b77\n1 0x7fff9b7C\n 3 10\nr 0x11 2 comment\nw 13 10\ni 20 4\nm 30 1\r\n";
    let (imported, text) = from_dinero(din).expect("a good trace");
    let records = "i 0x430d70 4\nr 0x7fff9b74 4\nw 0x7fff9b7c 4\nr 0x10 4\nr 0x11 2\nw 0x13 16\ni 0x20 4\nr 0x30 1\n";
    assert_eq!(text, format!("task 0\n{records}"));
    assert_eq!(
        [imported.instructions, imported.reads, imported.writes],
        [2, 4, 2]
    );
}

#[test]
fn bad_lines_of_dinero_are_named() {
    for (line, why) in [
        ("", "not a line of Dinero's"),
        ("0", "not a line"),
        ("0 ", "the address"),
        ("7 10", "not a line"),
        ("read 10 4", "not a line"),
        ("00 10", "not a line"),
        ("0 xyz", "the address"),
        ("0 10z", "the address"),
        ("0 10000000000000000", "the address"),
        ("r 10", "the size"),
        ("r 10 z", "the size"),
        ("r 10 0", "from 1 to 1048576"),
        ("r 10 100001", "from 1 to 1048576"),
        ("w ffffffffffffffff 2", "2^64-1"),
        ("4 0", "copy-back"),
        ("v 10 4", "copy-back"),
    ] {
        let error = from_dinero(&format!("0 10\n{line}\n0 20\n")).expect_err(line);
        assert!(
            error.starts_with("a.din:2: ") && error.contains(why),
            "{error}"
        );
    }
}

/// Returns what `lines` say, as a thread trace and the list of its marks: marks, accesses (`L ADDRESS,SIZE`, `S` for stores; hexadecimal,
/// decimal) and who goes on (`on THREAD`). A line with several accesses is one instruction at address 0x40. Empty lines are dropped.
pub(super) fn recorded(lines: &str) -> (ThreadTrace, String) {
    let mut marks = String::new();
    let mut streams = [(); 3].map(|()| String::new());
    let (mut thread, mut number) = (0, 0);
    let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
    for line in lines {
        if let Some(number) = line.strip_prefix("on ") {
            thread = number.parse().expect("a thread");
        } else if line.starts_with("L ") || line.starts_with("S ") {
            streams[thread] += "b 0x40 4 1\n";
            for (at, access) in line.split("; ").enumerate() {
                let (address, bytes) = access[2..].split_once(',').expect("an access");
                let kind = if access.starts_with('L') { "r" } else { "w" };
                streams[thread] += &format!("{kind} {} 0x{address} {bytes}\n", u8::from(at == 0));
            }
        } else {
            number += 1;
            marks += &format!("{thread} {line}\n");
            streams[thread] += &format!("mark {TASK_MARK} {number} 0\n");
        }
    }
    let [a, b, c] = streams;
    let text = format!("tanada-threads 1\nthread 0\n{a}thread 1\n{b}thread 2\n{c}");
    let trace = ThreadTrace::parse(text.as_bytes(), "threads").expect("a good trace");
    (trace, marks)
}

/// Imports marks without fetches.
pub(super) fn import_with(
    marks: &str,
    by: impl FnOnce(&[u8], Options, &mut TextWriter<Vec<u8>>) -> Result<Imported, TraceError>,
) -> Result<(Imported, String), String> {
    let options = Options {
        fetches: Fetches::None,
        ..EACH
    };
    import(by, marks, options)
}

/// Imports what `lines` say, as [`recorded`] reads them, of a program on the runtime.
fn from_marks(lines: &str) -> Result<(Imported, String), String> {
    let (trace, marks) = recorded(lines);
    import_with(&marks, |marks, options, to| {
        tasks(&trace, marks, "marks", options, to)
    })
}

/// A graph of three tasks on two threads; one of its tasks waits for a graph of its own.
const NESTED: &str = "
    on 1
    L 1,1
    hello 2
    task 1 a0 0 3 4 0 0 0 0 7 first
    task 1 b0 0 0 0 1 0 0 0 0 second
    (
    L 2,1
    edge 1 a0 0 b0 0
    wait 1
    on 2
    L 3,1
    start a0
    L 4,1
    on 1
    L 5,1
    on 2
    (
    S 6,1
    task 2 c0 0 0 0 0 0 0 0 0 inner one
    wait 2
    L 7,1
    start c0
    L 8,1
    end
    L 9,1
    woke 2
    S a,1
    end
    start b0
    end
    on 1
    woke 1
    task 3 a0 1 0 0 0 0 0 0 0 third
    wait 3
    on 2
    start a0
    S b,1
    end
";

#[test]
fn marks_become_tasks_and_a_waiting_one_is_cut() {
    let (imported, text) = from_marks(NESTED).expect("a good log");
    assert_eq!(
        text,
        "task 0 T=3 S=4 name=first h:index=7\nr 0x4 1\n\
         task 1 name=inner_one\ndep 0 1\nr 0x8 1\n\
         task 2 T=3 S=4 name=first h:index=7 h:part=2\ndep 0 2\ndep 1 2\nw 0xa 1\n\
         task 3 depth=1 name=second\ndep 2 3\n\
         task 4 name=third\ndep 3 4\nw 0xb 1\n"
    );
    assert!(imported.marked);
    assert_eq!((imported.reads, imported.writes), (2, 2));
    assert_eq!(imported.dropped_accesses, 7);
}

#[test]
fn runs_of_a_template_follow_each_other() {
    let run = "
        room f00 1
        task 1 a0 0 0 0 0 0 0 0 0 a
        task 1 b0 0 0 0 0 0 0 0 1 a
        roomed";
    let both = "
        start a0
        end
        start b0
        end";
    let lines =
        format!("hello 2 {run}\nwait 1{both}{run}{both}\nwoke 1\ntask 2 a0 0 0 0 0 0 0 0 0 z");
    let (_, text) = from_marks(&lines).expect("a good log");
    assert_eq!(
        text,
        "task 0 name=a\ntask 1 name=a h:index=1\ndep 0 2\ndep 1 2\ntask 2 name=wait\n\
         task 3 name=a\ndep 2 3\ntask 4 name=a h:index=1\ndep 2 4\ndep 3 5\ndep 4 5\ntask 5 name=wait\n"
    );
}

#[test]
fn who_resolves_or_has_ended_comes_before() {
    let lines = "
        hello 2
        task 1 a0 0 0 0 0 0 0 0 0 a
        task 1 b0 0 0 0 0 0 0 0 0 b
        wait 1
        start a0
        resolve 1 b0 0
        task 1 c0 0 0 0 0 0 0 0 0 c
        end
        start b0
        end
        start c0
        task 1 a0 1 0 0 0 0 0 0 0 d
        edge 1 b0 0 a0 1
        end
        start a0
        end
        woke 1";
    let (imported, text) = from_marks(lines).expect("a good log");
    assert_eq!(
        text,
        "task 0 name=a\ntask 1 name=b\ndep 0 1\ntask 2 name=c\ndep 0 2\ntask 3 name=d\ndep 1 3\ndep 2 3\n"
    );
    assert_eq!(imported.dependencies, 4);
}

#[test]
fn marks_that_make_no_sense_are_named() {
    let task = "task 1 a0 0 0 0 0 0 0 0 0 a\n";
    for (lines, why) in [
        ("start a0", "a mark before the first"),
        ("hello 1", "version 1"),
        ("hello 2\nstart a0", "not registered"),
        ("hello 2\nend", "none runs"),
        ("hello 2\nwoke 1", "without its wait"),
        ("hello 2\nedge 1 a0 0 b0 0", "a dependency of a task"),
        ("hello 2\ngarbage", "unknown mark"),
        ("hello 2\ntask 1 a0 0 0", "lacks a word"),
        ("hello 2\ntask 1 a0 0 x 0 0 0 0 0 0 a", "not a number"),
        ("hello 2\ntask 1 a0 0 4294967296 0 0 0 0 0 0 a", "2^32-1"),
        ("hello 2\ntask 1 a0 0 0 0 0 0 0 0 x a", "not a number"),
        (
            "hello 2\ntask 1 a0 0 0 0 0 -2147483649 0 0 0 a",
            "not a number",
        ),
        ("hello 2\ntask 1 zz 0 0 0 0 0 0 0 0 a", "bad address"),
        ("hello 2\nroomed of all", "surplus words"),
        (
            &format!("hello 2\n{task}{task}"),
            "at the address of another",
        ),
        (
            &format!("hello 2\n{task}edge 1 a0 0 a0 0"),
            "waits for itself",
        ),
        (
            &format!("hello 2\n{task}start a0\nstart a0"),
            "inside of another",
        ),
        (
            &format!("hello 2\n{task}start a0\nwait 2\nstart a0"),
            "runs already",
        ),
        (
            &format!("hello 2\n{task}start a0\nwait 2\nwoke 1"),
            "of which a task runs",
        ),
        (
            &format!("hello 2\n{task}start a0\n"),
            "ends inside of task `a`",
        ),
    ] {
        let lines = lines.trim_end();
        let error = from_marks(lines).expect_err(lines);
        let line = lines.lines().count();
        assert!(
            error.starts_with(&format!("marks:{line}: ")),
            "{lines}: {error}"
        );
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn nothing_marked_is_said() {
    let (imported, text) = from_marks("L 10,4\nS 10,4").expect("good streams");
    assert!(!imported.marked && text.is_empty());
    assert_eq!(
        (imported.dropped_instructions, imported.dropped_accesses),
        (2, 2)
    );
}

#[test]
fn marks_and_streams_that_do_not_fit_are_named() {
    let trace = |body: &str| {
        let text = format!("tanada-threads 1\nthread 0\n{body}");
        ThreadTrace::parse(text.as_bytes(), "threads").expect("a good trace")
    };
    let of = |body: &str, marks: &str| {
        let trace = trace(body);
        import(
            |marks, options, to| tasks(&trace, marks, "marks", options, to),
            marks,
            EACH,
        )
        .expect_err(marks)
    };
    let mark = |number: u32| format!("mark {TASK_MARK} {number} 0\n");
    for (body, marks, why) in [
        ("", "hello 2\n", "marks:1: not a mark of a thread"),
        ("", "x hello 2\n", "marks:1: not a mark of a thread"),
        (
            "",
            "0 hello 2\n",
            "marks:1: a mark that the thread's stream lacks",
        ),
        ("", "1 hello 2\n", "there is no thread 1"),
        (
            &mark(2),
            "0 hello 2\n",
            "marks:1: a mark that the thread's stream lacks",
        ),
        (
            &mark(1),
            "0 hello 2\n0 )\n",
            "marks:2: a mark that the thread's stream lacks",
        ),
        (
            &format!("{}{}{}b 0x40 4 2\n", mark(1), mark(2), mark(3)),
            "0 hello 2\n0 task 1 a0 0 0 0 0 0 0 0 0 a\n0 start a0\n",
            "marks:3: a stream with several instructions a block",
        ),
    ] {
        let error = of(body, marks);
        assert!(error.contains(why), "{marks}: {error}");
    }
}
