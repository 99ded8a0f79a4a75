//! A reader of the binary form written from docs/traces.md alone: if it and the crate agree, the page is exact.

use crate::common;

use lz4_flex::block::decompress;
use proptest::prelude::*;
use tanada_trace::{Groups, Kind, Record, Trace};

const BOOK: &str = include_str!("../../../../docs/traces.md");

/// Reads a little-endian number.
fn fixed(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// Removes `count` bytes from the front and returns them.
fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (front, rest) = bytes.split_at(count);
    *bytes = rest;
    front
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = take(bytes, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}

fn signed(bytes: &mut &[u8]) -> i64 {
    let value = varint(bytes);
    if value.is_multiple_of(2) {
        (value / 2) as i64
    } else {
        -((value / 2) as i64) - 1
    }
}

/// ID, T, S, depth, name, groupings, hints, edges, and block and position of the records.
type BookTask = (
    i64,
    i64,
    i64,
    i64,
    Option<String>,
    Vec<(String, u64, u64)>,
    Vec<(String, String)>,
    Vec<(i64, bool)>,
    Option<(u64, u64)>,
);

struct Book {
    blocks: Vec<Vec<u8>>,
    tasks: Vec<BookTask>,
}

fn read(file: &[u8]) -> Book {
    assert_eq!(file[..16], *b"\x89TNB\r\n\x1a\n\x01\0\0\0\0\0\0\0");
    let footer = &file[file.len() - 56..];
    assert_eq!(footer[48..], *b"TNBEND\r\n");
    assert_eq!(
        fixed(&footer[44..48]),
        u64::from(crc32fast::hash(&footer[..44]))
    );
    let [records, graph, tasks, edges] = [0, 8, 16, 24].map(|at| fixed(&footer[at..at + 8]));
    let index = &file[file.len() - 56 - (records + graph) as usize * 12..file.len() - 56];
    assert_eq!(fixed(&footer[40..44]), u64::from(crc32fast::hash(index)));
    let mut rest = &file[16..];
    let blocks: Vec<Vec<u8>> = index
        .chunks(12)
        .map(|entry| {
            let stored = take(&mut rest, fixed(&entry[..4]) as usize);
            assert_eq!(fixed(&entry[8..]), u64::from(crc32fast::hash(stored)));
            let length = fixed(&entry[4..8]) as usize;
            assert!((1..=65536).contains(&length));
            if stored.len() == length {
                stored.to_vec()
            } else {
                decompress(stored, length).unwrap()
            }
        })
        .collect();
    let stream = blocks[records as usize..].concat();
    let mut stream = &*stream;
    let words: Vec<String> = (0..varint(&mut stream))
        .map(|_| {
            let length = varint(&mut stream) as usize;
            String::from_utf8(take(&mut stream, length).to_vec()).unwrap()
        })
        .collect();
    let (mut last, mut at) = ([0_i64; 4], (0, 0));
    let mut all_edges = 0;
    let tasks = (0..tasks as i64)
        .map(|i| {
            last[0] += signed(&mut stream) + 1;
            for last in &mut last[1..] {
                *last += signed(&mut stream);
            }
            let name = varint(&mut stream)
                .checked_sub(1)
                .map(|word| words[word as usize].clone());
            let place = varint(&mut stream).checked_sub(1).map(|further| {
                at = (
                    at.0 + further,
                    if further == 0 { at.1 } else { 0 } + varint(&mut stream),
                );
                at
            });
            let word = |stream: &mut &[u8]| words[varint(stream) as usize].clone();
            let groupings = (0..varint(&mut stream))
                .map(|_| (word(&mut stream), varint(&mut stream), varint(&mut stream)))
                .collect();
            let hints = (0..varint(&mut stream))
                .map(|_| (word(&mut stream), word(&mut stream)))
                .collect();
            let edges: Vec<_> = (0..varint(&mut stream))
                .map(|_| signed(&mut stream))
                .map(|edge| ((edge >> 1) + i, edge & 1 == 1))
                .collect();
            all_edges += edges.len() as u64;
            (
                last[0], last[1], last[2], last[3], name, groupings, hints, edges, place,
            )
        })
        .collect();
    assert!(stream.is_empty() && all_edges == edges);
    Book { blocks, tasks }
}

/// Returns the records of the task that begins at this block and position.
fn records(book: &Book, (block, place): (u64, u64)) -> Vec<Record> {
    let parts = |block: u64| {
        let bytes = &book.blocks[block as usize];
        bytes[4..].split_at(fixed(&bytes[..4]) as usize)
    };
    let mut block = block;
    let (mut ops, mut operands) = parts(block);
    (ops, operands) = (
        &ops[place as usize % 65536..],
        &operands[place as usize / 65536..],
    );
    let (mut address, mut size, mut distance, mut differed) =
        ([0_u64; 4], [0_u64, 1, 1, 1], [0_u64; 4], [0_u64; 4]);
    let mut out: Vec<Record> = Vec::new();
    loop {
        let op = take(&mut ops, 1)[0];
        let (kind, place, large) = (usize::from(op & 3), op >> 2 & 7, op >> 5);
        match op {
            0xe0 => return out,
            0xe4 => {
                block += 1;
                (ops, operands) = parts(block);
            }
            0xe8 => {
                let period = fixed(take(&mut operands, 1)) as usize;
                for _ in 0..fixed(take(&mut operands, 2)) {
                    let (last, before) = (out[out.len() - period], out[out.len() - 2 * period]);
                    out.push(Record {
                        value: last
                            .value
                            .wrapping_add(last.value.wrapping_sub(before.value)),
                        ..last
                    });
                    let kind = last.kind as usize;
                    if kind > 0 {
                        address[kind] = out.last().unwrap().value;
                        size[kind] = last.size.into();
                    }
                }
            }
            _ => {
                let bias = |bits: u32| if kind == 0 { 0 } else { 1_u64 << (bits - 1) };
                let far = match place {
                    0 => size[kind],
                    1 => distance[kind],
                    2 => differed[kind],
                    3 => fixed(take(&mut operands, 1)).wrapping_sub(bias(8)),
                    4 => fixed(take(&mut operands, 2)).wrapping_sub(bias(16)),
                    5 => fixed(take(&mut operands, 3)).wrapping_sub(bias(24)),
                    6 => fixed(take(&mut operands, 4)).wrapping_sub(bias(32)),
                    _ => fixed(take(&mut operands, 8)),
                };
                let mut count = 1;
                match large {
                    0 => {}
                    1..4 => size[kind] = 2 << large,
                    4 => count = fixed(take(&mut operands, 1)),
                    5 => size[kind] = 1 + fixed(take(&mut operands, 1)),
                    6 => size[kind] = 1 + fixed(take(&mut operands, 2)),
                    _ => size[kind] = 1 + fixed(take(&mut operands, 4)),
                }
                if far != distance[kind] {
                    (differed[kind], distance[kind]) = (distance[kind], far);
                }
                for _ in 0..count {
                    let value = address[kind].wrapping_add(far);
                    if kind > 0 {
                        address[kind] = value;
                    }
                    let kind = [Kind::Compute, Kind::Fetch, Kind::Read, Kind::Write][kind];
                    out.push(Record {
                        kind,
                        size: size[kind as usize] as u32,
                        value,
                    });
                }
            }
        }
    }
}

fn check(model: &common::Model) {
    let book = read(&common::to_binary(model));
    assert_eq!(book.tasks.len(), model.tasks.len());
    let graph = model.graph();
    for (i, (task, model)) in book.tasks.iter().zip(&model.tasks).enumerate() {
        assert_eq!(
            (task.0, task.1, task.2, task.3),
            (
                model.id.into(),
                model.t.into(),
                model.s.into(),
                model.depth.into()
            )
        );
        let groupings: Vec<_> = model
            .groupings
            .iter()
            .map(|(name, t, s)| (name.clone(), (*t).into(), (*s).into()))
            .collect();
        assert_eq!(
            (&task.4, &task.5, &task.6),
            (&model.name, &groupings, &model.hints)
        );
        let edges: Vec<_> = task
            .7
            .iter()
            .map(|&(to, fork)| (to as usize, fork))
            .collect();
        assert_eq!(edges, graph[i]);
        assert_eq!(
            task.8.map_or(Vec::new(), |place| records(&book, place)),
            model.records
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 300 }))]

    #[test]
    fn the_page_is_exact(model in common::model()) {
        check(&model);
    }
}

#[test]
fn the_example_is_a_trace() {
    let text = BOOK
        .split("```text\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .unwrap();
    let trace = Trace::parse(
        text.as_bytes(),
        "docs/traces.md",
        &Groups::Named("own".into()),
    )
    .unwrap();
    assert_eq!(
        (
            trace.len(),
            trace.records(),
            trace.tasks()[1].t,
            trace.hint(1, "footprint")
        ),
        (4, 8, 7, Some("4096"))
    );
}
