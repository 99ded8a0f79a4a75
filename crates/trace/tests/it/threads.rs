//! Thread traces: a decoder that is written from docs/traces.md alone, bad texts, damaged files, and spools.

use std::path::Path;

use proptest::prelude::*;
use tanada_trace::TraceError;
use tanada_trace::fuzzing::threads_of;
use tanada_trace::threads::spool::{Chunk, Spool, assemble};
use tanada_trace::threads::{
    Encoder, Event, InstructionSet, Sync, ThreadTrace, ThreadWriter, Totals,
};

const SAMPLE: &str = "tanada-threads 1\nprogram two words\nisa mips\npartial\nthread 0 stack=0x7ff0\nb 0x1000 12 3\nw 2 0x5000 8\nx 1\n\
    b 0x2000 40 9\nr 1 0x100 1\nr 0 0x108 255\nx 2\nlock 0\nx 1\nw 5 0xffffffffffffffff 1\ncreate 1\n\
    b 0x1000 12 3\nw 2 0x5008 8\nb 0x2000 40 9\n\
    r 1 0x100 1\nr 0 0x110 255\nunlock 0\nbarrier 1 2\nmark 7 0x1 0xffffffffffffffff\njoin 1\nexit\nthread 1 parent=0\nb 0x1000 12 3\nx 3\n\
    share 2\nwait 3 2\nwait 3 2 70000\nsignal 3\nbroadcast 3\npost 4\ntake 4\n\
    region 1 2\nloop 5\niteration 0 9\nendloop\nendregion\nbarrier 1 2\nexit\n";

fn events(trace: &ThreadTrace, thread: u32) -> Result<Vec<Event>, TraceError> {
    let mut reader = trace.reader(thread)?;
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        reader.fill(&mut batch)?;
        if batch.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(&batch);
    }
}

fn everything(trace: &ThreadTrace) -> Result<Vec<Vec<Event>>, TraceError> {
    (0..trace.threads().len() as u32)
        .map(|thread| events(trace, thread))
        .collect()
}

fn text_of(trace: &ThreadTrace) -> String {
    let mut text = Vec::new();
    trace.write_text(&mut text).expect("memory");
    String::from_utf8(text).expect("text")
}

#[test]
fn text_comes_back_as_it_was() {
    let trace = ThreadTrace::parse(SAMPLE.as_bytes(), "sample").expect("a thread trace");
    let written = text_of(&trace);
    // `x` after `lock`, and the end of the first second block, are written as they are read.
    assert_eq!(written.lines().count(), SAMPLE.lines().count());
    assert_eq!(written, SAMPLE);
    assert_eq!((trace.head().partial, trace.head().objects), (true, 6));
    assert_eq!(trace.threads()[1].parent, Some(0));
    let totals = Totals {
        instructions: 3 + 9 + 2 + 1,
        loads: 4,
        stores: 3,
    };
    assert_eq!(trace.threads()[0].totals, totals);
}

/// A decoder of one stream by the page, with nothing but what the page says.
mod by_the_page {
    pub(super) struct Reader<'a>(pub(super) &'a [u8]);

    impl Reader<'_> {
        pub(super) fn varint(&mut self) -> u64 {
            let (mut value, mut shift) = (0, 0);
            loop {
                let byte = self.0[0];
                self.0 = &self.0[1..];
                value |= u64::from(byte & 127) << shift;
                shift += 7;
                if byte < 128 {
                    return value;
                }
            }
        }

        fn signed(&mut self) -> u64 {
            signed(self.varint())
        }
    }

    fn signed(value: u64) -> u64 {
        if value.is_multiple_of(2) {
            value / 2
        } else {
            !(value / 2)
        }
    }

    #[derive(Clone, Copy, Default)]
    struct Code {
        address: u64,
        bytes: u64,
        instructions: u64,
        first: usize,
        successor: usize,
    }

    #[derive(Clone, Copy, Default)]
    struct Slot {
        address: u64,
        position: u64,
        bytes: u64,
        store: bool,
        next: usize,
    }

    /// Returns the lines of the text form for the stream of a thread that names these objects and threads.
    pub(super) fn lines(stream: &[u8], objects: &[u64], threads: &[u64]) -> Vec<String> {
        let mut reader = Reader(stream);
        let (mut codes, mut slots) = (vec![Code::default()], vec![Slot::default()]);
        let (mut code, mut position, mut last, mut expected, mut address) =
            (0usize, 0, 0usize, 0usize, 0u64);
        let mut out: Vec<String> = Vec::new();
        let access = |store: bool, after: u64, address: u64, bytes: u64| {
            format!(
                "{} {after} {address:#x} {bytes}",
                if store { "w" } else { "r" }
            )
        };
        while !reader.0.is_empty() {
            let item = reader.varint();
            let rest = codes[code].instructions - position;
            if item % 2 == 0 {
                let slot = &mut slots[expected];
                slot.address = slot.address.wrapping_add(signed(item / 2));
                address = slot.address;
                out.push(access(
                    slot.store,
                    slot.position - position,
                    address,
                    slot.bytes,
                ));
                (position, last, expected) = (slot.position, expected, slot.next);
                continue;
            }
            let known = item % 4 == 1;
            if known || item / 4 == 1 {
                let to = if known && item / 4 == 0 {
                    codes[code].successor
                } else if known {
                    (item / 4) as usize
                } else {
                    let end = codes[code].address.wrapping_add(codes[code].bytes);
                    codes.push(Code {
                        address: end.wrapping_add(reader.signed()),
                        bytes: reader.varint(),
                        instructions: reader.varint(),
                        ..Code::default()
                    });
                    codes.len() - 1
                };
                if rest > 0 {
                    out.push(format!("x {rest}"));
                }
                codes[code].successor = to;
                (code, position, last, expected) = (to, 0, 0, codes[to].first);
                let Code {
                    address,
                    bytes,
                    instructions,
                    ..
                } = codes[to];
                out.push(format!("b {address:#x} {bytes} {instructions}"));
                continue;
            }
            let object = |reader: &mut Reader<'_>| objects[reader.varint() as usize];
            match item / 4 {
                0 => {
                    let (after, what, distance) =
                        (reader.varint(), reader.varint(), reader.signed());
                    address = address.wrapping_add(distance);
                    position += after;
                    let slot = match expected {
                        0 => {
                            slots.push(Slot::default());
                            let new = slots.len() - 1;
                            if last == 0 {
                                codes[code].first = new;
                            } else {
                                slots[last].next = new;
                            }
                            new
                        }
                        expected => expected,
                    };
                    let next = slots[slot].next;
                    slots[slot] = Slot {
                        address,
                        position,
                        bytes: what / 2,
                        store: what % 2 == 1,
                        next,
                    };
                    (last, expected) = (slot, next);
                    out.push(access(what % 2 == 1, after, address, what / 2));
                }
                2 => {
                    out.push(format!("x {rest}"));
                    position += rest;
                }
                3 => {
                    let count = reader.varint();
                    out.push(format!("x {count}"));
                    position += count;
                }
                4 => position += rest,
                5 => out.push(format!("create {}", threads[reader.varint() as usize])),
                6 => out.push(format!("join {}", threads[reader.varint() as usize])),
                7 => out.push(format!("lock {}", object(&mut reader))),
                8 => out.push(format!("share {}", object(&mut reader))),
                9 => out.push(format!("unlock {}", object(&mut reader))),
                10 => out.push(format!(
                    "barrier {} {}",
                    object(&mut reader),
                    reader.varint()
                )),
                11 => out.push(format!(
                    "wait {} {}",
                    object(&mut reader),
                    object(&mut reader)
                )),
                23 => out.push(format!(
                    "wait {} {} {}",
                    object(&mut reader),
                    object(&mut reader),
                    reader.varint()
                )),
                12 => out.push(format!("signal {}", object(&mut reader))),
                13 => out.push(format!("broadcast {}", object(&mut reader))),
                14 => out.push(format!("post {}", object(&mut reader))),
                15 => out.push(format!("take {}", object(&mut reader))),
                16 => out.push(format!(
                    "region {} {}",
                    object(&mut reader),
                    reader.varint()
                )),
                17 => out.push("endregion".to_owned()),
                18 => out.push(format!("loop {}", object(&mut reader))),
                19 => out.push(format!("iteration {} {}", reader.varint(), reader.varint())),
                20 => out.push("endloop".to_owned()),
                21 => out.push(format!(
                    "mark {} {:#x} {:#x}",
                    reader.varint(),
                    reader.varint(),
                    reader.varint()
                )),
                22 => out.push("exit".to_owned()),
                other => panic!("item {other}"),
            }
        }
        let rest = codes[code].instructions - position;
        if rest > 0 {
            out.push(format!("x {rest}"));
        }
        out
    }
}

/// Reads a file by the page: header, footer, index, head, streams.
#[test]
fn a_reader_written_from_the_page_finds_the_same() {
    let bytes = tanada_trace::threads::read_thread_text(SAMPLE.as_bytes(), "sample", Vec::new())
        .expect("a thread trace");
    assert_eq!(bytes[..16], *b"\x89TNB\r\n\x1a\n\x02\0\0\0\0\0\0\0");
    let word =
        |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes")) as usize;
    let footer = bytes.len() - 32;
    assert_eq!(bytes[footer + 24..], *b"TNBEND\r\n");
    assert_eq!(
        crc32fast::hash(&bytes[footer..footer + 20]) as usize,
        word(footer + 20)
    );
    let (streams, heads) = (word(footer), word(footer + 8));
    let index = footer - 12 * (streams + heads);
    assert_eq!(
        crc32fast::hash(&bytes[index..footer]) as usize,
        word(footer + 16)
    );
    let mut at = 16;
    let mut blocks = Vec::new();
    for entry in (index..footer).step_by(12) {
        let (stored, length) = (word(entry), word(entry + 4));
        let block = &bytes[at..at + stored];
        assert_eq!(crc32fast::hash(block) as usize, word(entry + 8));
        at += stored;
        blocks.push(match stored == length {
            true => block.to_vec(),
            false => lz4_flex::block::decompress(block, length).expect("a block"),
        });
    }
    assert_eq!(at, index);
    let head = blocks.split_off(streams).concat();
    let mut head = by_the_page::Reader(&head);
    let length = head.varint() as usize;
    let (name, rest) = head.0.split_at(length);
    head.0 = rest;
    assert_eq!(name, b"two words");
    assert_eq!(
        [head.varint(), head.varint(), head.varint(), head.varint()],
        [3, 1, 6, 2]
    );
    let mut lines = SAMPLE
        .lines()
        .skip(4)
        .map(str::to_owned)
        .collect::<Vec<_>>();
    let mut blocks = blocks.into_iter();
    for thread in 0..2 {
        assert_eq!(head.varint(), thread);
        if head.varint() == 1 {
            assert_eq!(head.varint(), 0x7ff0);
        }
        let totals = [head.varint(), head.varint(), head.varint()];
        assert_eq!(totals, [[15, 4, 3], [3, 0, 0]][thread as usize]);
        let count = head.varint() as usize;
        let stream = blocks.by_ref().take(count).collect::<Vec<_>>().concat();
        let mut list = || {
            (0..head.varint())
                .map(|_| head.varint())
                .collect::<Vec<_>>()
        };
        let (objects, threads) = (list(), list());
        let found = by_the_page::lines(&stream, &objects, &threads);
        let end = lines
            .iter()
            .skip(1)
            .position(|line| line.starts_with("thread"))
            .map_or(lines.len(), |end| end + 1);
        assert_eq!(found, lines[1..end]);
        lines.drain(..end);
    }
    assert!(head.0.is_empty() && lines.is_empty());
}

#[test]
fn bad_texts_are_refused_with_their_line() {
    for (text, line, what) in [
        ("", 0, "header"),
        ("tanada-trace 1\n", 1, "first line"),
        ("tanada-threads 2\n", 1, "version 2"),
        ("tanada-threads 1\nx 1\n", 2, "before the first `thread`"),
        ("tanada-threads 1\nisa z80\n", 2, "x86-64, arm"),
        ("tanada-threads 1\nthread 1\n", 2, "thread 0"),
        (
            "tanada-threads 1\nthread 0 parent=0\n",
            2,
            "no earlier thread",
        ),
        ("tanada-threads 1\nthread 0 stack=1 stack=2\n", 2, "twice"),
        ("tanada-threads 1\nthread 0 colour=1\n", 2, "unknown word"),
        (
            "tanada-threads 1\nthread 0\nisa arm\n",
            3,
            "before the first",
        ),
        (
            "tanada-threads 1\nthread 0\nr 0 0 8\n",
            3,
            "more than their block",
        ),
        (
            "tanada-threads 1\nthread 0\nb 0 4 2\nr 3 0 8\n",
            4,
            "more than their block",
        ),
        (
            "tanada-threads 1\nthread 0\nb 0 4 2\nx 0\n",
            4,
            "more than their block",
        ),
        (
            "tanada-threads 1\nthread 0\nb 0 4 2\nr 1 0 0\n",
            4,
            "1 to 255",
        ),
        ("tanada-threads 1\nthread 0\nb 0 4 2\nr 1 0 256\n", 4, "255"),
        (
            "tanada-threads 1\nthread 0\nb 0 4 2\nr 1 0xffffffffffffffff 2\n",
            4,
            "2^64",
        ),
        (
            "tanada-threads 1\nthread 0\nb 0xffffffffffffffff 2 1\n",
            3,
            "2^64",
        ),
        ("tanada-threads 1\nthread 0\nb 0 4 0\n", 3, "instructions"),
        (
            "tanada-threads 1\nthread 0\nb 0 4 4194304\n",
            3,
            "instructions",
        ),
        ("tanada-threads 1\nthread 0\nb 0 1048577 1\n", 3, "bytes"),
        ("tanada-threads 1\nthread 0\nlock\n", 3, "missing"),
        ("tanada-threads 1\nthread 0\nlock 1 2\n", 3, "surplus"),
        ("tanada-threads 1\nthread 0\nlock -1\n", 3, "no number"),
        ("tanada-threads 1\nthread 0\nlock 4294967296\n", 3, "2^32"),
        ("tanada-threads 1\nthread 0\nmark 0 0 0x\n", 3, "no number"),
        ("tanada-threads 1\nthread 0\nfly\n", 3, "unknown line"),
        (
            "tanada-threads 1\nthread 0\ncreate 1\n",
            0,
            "thread 0 creates or joins thread 1",
        ),
    ] {
        let error = ThreadTrace::parse(text.as_bytes(), "in.tnt")
            .expect_err(text)
            .to_string();
        assert!(error.contains(what), "{text}: {error}");
        if line > 0 {
            assert!(
                error.starts_with(&format!("in.tnt:{line}: ")),
                "{text}: {error}"
            );
        }
    }
    for (text, what) in [
        (
            &b"tanada-threads 1\n\xff\n"[..],
            "in:2: the line is no UTF-8",
        ),
        (b"\xff\n", "in:1: no thread trace"),
    ] {
        let error = ThreadTrace::parse(text, "in").expect_err("it is wrong");
        assert!(error.to_string().starts_with(what), "{error}");
    }
    let long = format!("tanada-threads 1\nprogram {}\n", "n".repeat(5000));
    assert!(
        ThreadTrace::parse(long.as_bytes(), "in")
            .expect_err("too long")
            .to_string()
            .contains("4096")
    );
    let empty = ThreadTrace::parse(b"# nothing\n\ntanada-threads 1\r\n", "in").expect("no thread");
    assert!(empty.threads().is_empty() && empty.reader(0).is_err());
}

#[test]
fn the_two_kinds_of_traces_are_told_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, text) = (folder.path().join("a.tnb"), folder.path().join("a.tnt"));
    let mut writer = ThreadTrace::create(&path, "p", InstructionSet::Arm).expect("a file");
    writer.thread(None, None).expect("a thread");
    writer.keep().expect("written");
    std::fs::write(&text, SAMPLE).expect("written");
    assert!(ThreadTrace::is_one(&path) && ThreadTrace::is_one(&text));
    assert!(!ThreadTrace::is_one(folder.path()) && !ThreadTrace::is_one(Path::new("/nowhere")));
    let error =
        tanada_trace::Trace::open(&path, &tanada_trace::Groups::Plain).expect_err("no tasks");
    assert!(error.to_string().contains("a trace of threads"), "{error}");
    let tasks = folder.path().join("tasks.tnb");
    std::fs::write(folder.path().join("t.tnt"), "tanada-trace 1\ntask 1\n").expect("written");
    tanada_trace::convert(&folder.path().join("t.tnt"), &tasks).expect("written");
    assert!(!ThreadTrace::is_one(&tasks));
    let error = ThreadTrace::open(&tasks)
        .expect_err("no threads")
        .to_string();
    assert!(error.contains("tasks, not of threads"), "{error}");
    let trace = ThreadTrace::open(&text).expect("a thread trace");
    assert_eq!(everything(&trace).expect("all").len(), 2);
}

#[test]
fn every_cut_and_every_changed_byte_is_found() {
    let bytes = tanada_trace::threads::read_thread_text(SAMPLE.as_bytes(), "sample", Vec::new())
        .expect("a thread trace");
    let whole =
        everything(&ThreadTrace::from_bytes(bytes.clone(), "in").expect("whole")).expect("whole");
    let read =
        |bytes: Vec<u8>| ThreadTrace::from_bytes(bytes, "in").and_then(|trace| everything(&trace));
    assert_eq!(read(bytes.clone()).expect("whole"), whole);
    for end in 0..bytes.len() {
        assert!(read(bytes[..end].to_vec()).is_err(), "cut at {end}");
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        assert!(read(changed).is_err(), "changed at {at}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Right checksums, any content: an error or events that can be written and read again.
    #[test]
    fn made_up_streams_are_errors_or_events(stream in proptest::collection::vec(prop_oneof![0u8..24, any::<u8>()], 1..80)) {
        let head = [0, 0, 0, 2, 1, 0, 0, 1, 1, 1, 1, 2, 0, 1, 1, 0];
        let trace = ThreadTrace::from_bytes(threads_of(&head, &stream), "in").expect("the head is right");
        // The head's totals are wrong for nearly all streams: only the last batch is refused for that.
        let _ = everything(&trace);
    }

    #[test]
    fn made_up_heads_are_errors_or_heads(head in proptest::collection::vec(prop_oneof![0u8..3, any::<u8>()], 0..40)) {
        if let Ok(trace) = ThreadTrace::from_bytes(threads_of(&head, &[3, 3]), "in") {
            let _ = everything(&trace);
        }
    }
}

/// Appends a thread of one block of code and the given events.
fn append(spool: &Spool, thread: u32, parent: Option<u32>, syncs: &[(Sync, [u64; 2])]) {
    let mut encoder = Encoder::new();
    encoder.code(0x1000 + u64::from(thread), 4, 2);
    encoder.access(1, 0x2000, 8, true);
    for &(sync, names) in syncs {
        encoder.rest();
        encoder.named(sync, names);
    }
    let mut packed = Vec::new();
    ThreadWriter::pack(encoder.block(), &mut packed);
    let chunk = Chunk {
        thread,
        parent,
        stack: Some(u64::from(thread)),
        totals: encoder.totals(),
        length: encoder.block().len() as u32,
        objects: encoder.objects(),
        threads: encoder.threads(),
        packed: &packed,
    };
    spool.append(&chunk).expect("written");
}

#[test]
fn a_spool_becomes_a_trace_whatever_the_order_of_its_chunks() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("spool");
    let create = |thread: u64| (Sync::Create(0), [thread, 0]);
    let lock = |object: u64| (Sync::Lock(0), [object, 0]);
    // Thread 0 creates 5 and 3, in this order; 5 creates 9. The recorder numbered them by time.
    type Thread = (u32, Option<u32>, Vec<(Sync, [u64; 2])>);
    let threads: [Thread; 4] = [
        (
            0,
            None,
            vec![create(5), lock(0xaaaa), create(3), (Sync::Join(0), [5, 0])],
        ),
        (5, Some(0), vec![lock(0xbbbb), create(9)]),
        (3, Some(0), vec![lock(0xbbbb), lock(0xaaaa)]),
        (9, Some(5), vec![lock(0xcccc)]),
    ];
    let mut files = Vec::new();
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
        let spool = Spool::create(&path).expect("a file");
        for i in order {
            let (thread, parent, syncs) = &threads[i];
            append(&spool, *thread, *parent, syncs);
        }
        drop(spool);
        // Something that was not written to its end.
        let whole = std::fs::metadata(&path).expect("a file").len();
        let file = std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .expect("a file");
        std::io::Write::write_all(
            &mut &file,
            &std::fs::read(&path).expect("a file")[..whole as usize / 5],
        )
        .expect("written");
        let mut writer =
            ThreadWriter::new(Vec::new(), "p", InstructionSet::X86_64).expect("memory");
        let made = assemble(&path, &mut writer).expect("a spool");
        assert_eq!((made.threads, made.objects), (4, 3));
        assert_eq!(
            made.totals,
            Totals {
                instructions: 8,
                loads: 0,
                stores: 4
            }
        );
        files.push(writer.finish().expect("memory"));
    }
    assert!(files[0] == files[1] && files[1] == files[2]);
    let trace = ThreadTrace::from_bytes(files.swap_remove(0), "in").expect("a thread trace");
    let parents: Vec<_> = trace.threads().iter().map(|thread| thread.parent).collect();
    assert_eq!(parents, [None, Some(0), Some(0), Some(1)]);
    let stacks: Vec<_> = trace
        .threads()
        .iter()
        .filter_map(|thread| thread.stack)
        .collect();
    assert_eq!(stacks, [0, 5, 3, 9]);
    let syncs = |thread| -> Vec<Sync> {
        let events = events(&trace, thread).expect("it can be read").into_iter();
        events
            .filter_map(|event| {
                if let Event::Sync(sync) = event {
                    Some(sync)
                } else {
                    None
                }
            })
            .collect()
    };
    assert_eq!(
        syncs(0),
        [
            Sync::Create(1),
            Sync::Lock(0),
            Sync::Create(2),
            Sync::Join(1)
        ]
    );
    assert_eq!(syncs(1), [Sync::Lock(1), Sync::Create(3)]);
    assert_eq!(syncs(2), [Sync::Lock(1), Sync::Lock(0)]);
    assert_eq!(syncs(3), [Sync::Lock(2)]);
}

#[test]
fn a_spool_of_anything_is_no_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("spool");
    for bytes in [Vec::new(), vec![0; 1000], vec![0xff; 1000]] {
        std::fs::write(&path, bytes).expect("written");
        let mut writer =
            ThreadWriter::new(Vec::new(), "p", InstructionSet::X86_64).expect("memory");
        assert_eq!(assemble(&path, &mut writer).expect("nothing").threads, 0);
    }
    let mut writer = ThreadWriter::new(Vec::new(), "p", InstructionSet::X86_64).expect("memory");
    assert!(assemble(&folder.path().join("none"), &mut writer).is_err());
}
