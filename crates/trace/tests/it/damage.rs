//! Binary traces that are cut, changed or made up lead to a clear error: never to a panic, never to other content.

use crate::common;

use std::time::{Duration, Instant};

use proptest::prelude::*;
use tanada_trace::{Groups, Kind, Record, Trace, TraceError, convert, fuzzing::file_of};

/// Returns everything in a file that can be read to its end.
fn read_all(bytes: &[u8]) -> Result<(Vec<tanada_trace::Task>, Vec<Record>), TraceError> {
    let trace = Trace::parse(bytes, "in.tnb", &Groups::Plain)?;
    let mut reader = trace.reader()?;
    let (mut records, mut window) = (Vec::new(), Vec::new());
    for task in 0..trace.len() as u32 {
        let mut cursor = reader.start(task);
        loop {
            reader.fill(&mut cursor, &mut window)?;
            if window.is_empty() {
                break;
            }
            assert!(window.iter().all(|record| record.is_valid()));
            records.extend_from_slice(&window);
        }
    }
    Ok((trace.tasks().to_vec(), records))
}

fn sample() -> Vec<u8> {
    let mut text = String::from("tanada-trace 1\n");
    for id in 0..40 {
        text.push_str(&format!(
            "task {id} T={} name=n{} T:a=3 h:key=v{id}\n",
            id / 4,
            id % 3
        ));
        for i in 0..id {
            text.push_str(&format!(
                "i 0x400000 {}\nr {} 8\nw {} 4\nx {i}\n",
                32 + i * i % 7,
                0x1000 + i * id * 8,
                0x90000 + i * 4
            ));
        }
        if id > 0 {
            text.push_str(&format!("dep {} {id}\n", id / 2));
        }
    }
    common::text_to_binary(text.as_bytes())
}

#[test]
fn every_cut_is_reported() {
    let bytes = sample();
    for length in 0..bytes.len() {
        let message = read_all(&bytes[..length]).unwrap_err().to_string();
        let not_complete = "in.tnb: not complete: it ends before its footer; copy it again, or record \
                            it again if its recording was stopped";
        assert!(length < 8 || message == not_complete, "{length}: {message}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(read_all(&longer).is_err());
}

#[test]
fn every_changed_bit_is_reported() {
    let bytes = sample();
    let good = read_all(&bytes).unwrap();
    assert!(good.1.len() > 3000);
    for at in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[at / 8] ^= 1 << (at % 8);
        let error = read_all(&changed)
            .expect_err("an unchecked bit")
            .to_string();
        assert!(error.starts_with("in.tnb:"), "{error}");
    }
}

#[test]
fn errors_name_the_fault() {
    let bytes = sample();
    let with = |at: usize, byte: u8| {
        let mut changed = bytes.clone();
        changed[at] = byte;
        read_all(&changed).unwrap_err().to_string()
    };
    let version = "in.tnb: version 3 of the binary form is not supported, only 1 is; convert it with the program that wrote it";
    assert_eq!(with(8, 3), version);
    let block = with(20, !bytes[20]);
    assert!(
        block.starts_with("in.tnb: damaged: the block of ")
            && block.contains(" bytes at byte 16: its checksum is wrong"),
        "{block}"
    );
    let footer =
        "in.tnb: damaged: the checksum of its footer is wrong; make or copy the file again";
    assert_eq!(with(bytes.len() - 30, !bytes[bytes.len() - 30]), footer);
}

/// A short file that claims 2^40 tasks or blocks.
#[test]
fn claims_are_not_believed() {
    for tasks in [1, 1 << 20, (1 << 31) - 1, 1 << 40, u64::MAX] {
        let error = read_all(&file_of(&[], &[0], [tasks, tasks, 0]))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("in.tnb: damaged: "), "{error}");
    }
    let mut bytes = file_of(&[1, 0, 0, 0, 0xe0], &[0], [0, 0, 0]);
    for blocks in [u32::MAX as u64, 1 << 40, u64::MAX] {
        forge(&mut bytes, 0, blocks);
        let error = read_all(&bytes).unwrap_err().to_string();
        assert!(error.starts_with("in.tnb: damaged: its footer "), "{error}");
    }
}

/// Returns the position of the footer.
fn footer(bytes: &[u8]) -> usize {
    bytes.len() - 56
}

/// Replaces a number of the footer by `value` and corrects its checksum.
fn forge(bytes: &mut [u8], number: usize, value: u64) {
    let footer = footer(bytes);
    bytes[footer + number * 8..][..8].copy_from_slice(&value.to_le_bytes());
    let crc = crc32fast::hash(&bytes[footer..footer + 44]);
    bytes[footer + 44..footer + 48].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn every_number_of_the_footer_is_checked() {
    let bytes = sample();
    assert!(read_all(&bytes).is_ok());
    // Blocks of records, blocks of the graph, tasks, dependencies, records.
    for number in 0..5 {
        let at = footer(&bytes) + number * 8;
        let value = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        for wrong in [value - 1, value + 1, 0, value * 2, u64::MAX] {
            let mut forged = bytes.clone();
            forge(&mut forged, number, wrong);
            let begin = Instant::now();
            let error = read_all(&forged)
                .expect_err("an unchecked number")
                .to_string();
            assert!(begin.elapsed() < Duration::from_secs(1), "{error}");
            assert!(error.starts_with("in.tnb: damaged: "), "{error}");
        }
    }
    let records = read_all(&bytes).unwrap().1.len() as u64;
    let with = |count| {
        let mut forged = bytes.clone();
        forge(&mut forged, 4, count);
        forged
    };
    let message = |count| read_all(&with(count)).unwrap_err().to_string();
    let (less, more) = (records - 1, records + 1);
    let again = "make or copy the file again";
    assert_eq!(
        message(less),
        format!(
            "in.tnb: damaged: its footer counts {less} records, but its tasks have at least {records}; {again}"
        )
    );
    assert_eq!(
        message(more),
        format!(
            "in.tnb: damaged: its footer counts {more} records, but its tasks have only {records}; {again}"
        )
    );
    // A count that the blocks cannot hold is refused before a record is read.
    let opened = Trace::parse(&with(1 << 50), "in.tnb", &Groups::Plain);
    assert_eq!(
        opened.unwrap_err().to_string(),
        "in.tnb: damaged: its footer counts more than its blocks can hold"
    );
    // A conversion reports the wrong count as well.
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("in.tnb"), folder.path().join("out.tnt"));
    std::fs::write(&from, with(less)).unwrap();
    assert!(convert(&from, &to).is_err() && !to.exists());
}

/// Tasks that are read several times, by several cursors, or not at all do not change the count.
#[test]
fn tasks_may_be_read_again() {
    let bytes = sample();
    let trace = Trace::parse(&bytes, "in.tnb", &Groups::Plain).unwrap();
    let mut reader = trace.reader().unwrap();
    let mut window = Vec::new();
    let mut records = 0;
    for task in [39, 39, 0, 38, 39].into_iter().chain(0..40).chain(0..40) {
        let mut cursors = [reader.start(task), reader.start(task)];
        for _ in 0..3 {
            for cursor in &mut cursors {
                reader.fill(cursor, &mut window).unwrap();
                records += window.len() as u64;
            }
        }
    }
    assert!(records > 4 * trace.records());
}

/// The bytes of a graph of one task whose records begin at the start of the first block.
const ONE_TASK: [u8; 11] = [0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0];

/// A block of these operations and operands.
fn block(ops: &[u8], operands: &[u8]) -> Vec<u8> {
    [&(ops.len() as u32).to_le_bytes(), ops, operands].concat()
}

#[test]
fn operations_as_documented() {
    let records = |ops: &[u8], operands: &[u8], count| {
        read_all(&file_of(&block(ops, operands), &ONE_TASK, [1, 0, count])).map(|read| read.1)
    };
    // A read of 8 bytes at 0x10; one at the same distance; one behind it; 200 cycles of computation; a run of 3 more of those.
    let read = Kind::Read as u8;
    let ops = [
        read | 3 << 2 | 2 << 5,
        read | 1 << 2,
        read,
        3 << 2,
        1 << 2 | 4 << 5,
        0xe0,
    ];
    let expected = [
        Record::read(0x10, 8),
        Record::read(0x20, 8),
        Record::read(0x28, 8),
        Record::compute(200),
        Record::compute(200),
        Record::compute(200),
        Record::compute(200),
    ];
    assert_eq!(records(&ops, &[0x90, 200, 3], 7).unwrap(), expected);
    // A loop of period 2 that ends in the middle of its third round.
    let ops = [
        read | 3 << 2 | 2 << 5,
        3 << 2,
        read | 3 << 2,
        3 << 2,
        0xe8,
        0xe0,
    ];
    let expected = [(0x10, 1), (0x14, 2), (0x18, 3), (0x1c, 4), (0x20, 5)];
    let expected: Vec<_> = expected
        .into_iter()
        .flat_map(|(at, x)| [Record::read(at, 8), Record::compute(x)])
        .take(9)
        .collect();
    assert_eq!(
        records(&ops, &[0x90, 1, 0x84, 2, 2, 5, 0], 9).unwrap(),
        expected
    );

    // Enough records before the loop that only its period is at fault.
    let long_loop = [&[0; 66][..], &[0xe8, 0xe0]].concat();
    for (ops, operands, what) in [
        (&[][..], &[][..], "no end"),
        (&[0xe4], &[], "continues in a missing block"),
        (&[0xec], &[], "an unknown control operation"),
        (&[0xfc], &[], "an unknown control operation"),
        (&[0xe8, 0xe0], &[1, 1, 0], "a loop of period 1 at the start"),
        (&[0xe8, 0xe0], &[2, 1, 0], "a loop of period 2 at the start"),
        (&[0, 0, 0xe8, 0xe0], &[0, 1, 0], "a loop of period 0"),
        (&[0, 0, 0xe8, 0xe0], &[0, 0, 0], "no records of period 0"),
        (&long_loop, &[33, 40, 0], "a loop of period 33"),
        (&[1 << 2 | 4 << 5, 0xe0], &[0], "a run of 0 records"),
        (
            &[read | 7 << 2 | 2 << 5, 0xe0],
            &[0xff; 8],
            "beyond the last address",
        ),
        (
            &[read | 7 << 2 | 7 << 5, 0xe0],
            &[0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
            "a size of 2^32",
        ),
        (
            &[read | 3 << 2, read | 3 << 2 | 4 << 5, 0xe0],
            &[0x80 + 100, 0x80 - 60, 2],
            "a run below 0",
        ),
    ] {
        let error = records(ops, operands, 1).expect_err(what).to_string();
        assert!(
            error.starts_with("in.tnb: damaged: the block of ")
                && error.contains(": its records are invalid"),
            "{what}: {error}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 400 }))]

    #[test]
    fn any_operations(ops in proptest::collection::vec(any::<u8>(), 0..200), operands in proptest::collection::vec(any::<u8>(), 0..900)) {
        let _ = read_all(&file_of(&block(&ops, &operands), &ONE_TASK, [1, 0, 0]));
    }

    #[test]
    fn any_graph(graph in proptest::collection::vec(prop_oneof![0..4_u8, any::<u8>()], 0..300), tasks in 0..40_u64, edges in 0..40_u64) {
        let _ = read_all(&file_of(&block(&[0xe0; 8], &[]), &graph, [tasks, edges, 0]));
    }

    #[test]
    fn several_changes(model in common::model(), changes in proptest::collection::vec((any::<u32>(), any::<u8>()), 1..4)) {
        let good = common::to_binary(&model);
        let mut changed = good.clone();
        for (at, byte) in changes {
            let at = at as usize % changed.len();
            changed[at] = byte;
        }
        if changed != good {
            prop_assert!(read_all(&changed).is_err());
        }
    }
}
