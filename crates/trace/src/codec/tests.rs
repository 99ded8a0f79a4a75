//! The worked example of the module's documentation, and the limits of each code.

use super::{Cursor, Decoded, Encoder, PADDING, Stop, decode};
use crate::Record;
use crate::blocks::BlockWriter;

/// Encodes the records of one task into one block that is too short or too irregular to be compressed.
fn encode(records: &[Record]) -> Vec<u8> {
    let mut encoder = Encoder::new(BlockWriter::new(Vec::new(), 0, crate::codec::BLOCK));
    for &record in records {
        encoder.push(record).expect("a vector can be written");
    }
    let start = encoder.end_task().expect("a vector can be written");
    assert_eq!(start, Some((0, 0)));
    let blocks = encoder.finish().expect("a vector can be written");
    assert_eq!(blocks.index[0].stored, blocks.index[0].length);
    blocks.out
}

fn decode_all(block: &[u8]) -> Vec<Record> {
    let padded = [block, &[0; PADDING]].concat();
    let (mut cursor, mut decoded) = (Cursor::at(0, 0), Decoded::new());
    decoded.begin(&cursor);
    assert_eq!(decode(&padded, &mut cursor, &mut decoded), Some(Stop::End));
    decoded.records().to_vec()
}

#[test]
fn example_of_the_module() {
    let mut records = Vec::new();
    for i in 0..8 {
        records.push(Record::read(0x1000 + 8 * i, 8));
        records.push(Record::write(0x2000 + 8 * i, 8));
    }
    records.push(Record::compute(5));
    records.extend((8..18).map(|i| Record::read(0x1000 + 8 * i, 8)));
    let block = [
        &[0x08, 0x00, 0x00, 0x00][..],
        &[0x52, 0x53, 0x02, 0x03, 0xe8, 0x0c, 0x86, 0xe0],
        &[0x00, 0x90, 0x00, 0xa0, 0x02, 0x0c, 0x00, 0x05, 0x0a],
    ]
    .concat();
    assert_eq!(encode(&records), block);
    assert_eq!(decode_all(&block), records);
}

/// Sizes, distances and cycles on both sides of each limit of one, two, three and four bytes.
#[test]
fn limits_of_the_codes() {
    let sizes = [1, 4, 8, 16, 1 << 8, 1 << 16].map(|limit| [limit - 1, limit, limit + 1]);
    let sizes = sizes.as_flattened().iter().chain(&[u32::MAX]);
    for &size in sizes.filter(|&&size| size > 0) {
        // The first record has another size, so that the second cannot refer to the last size.
        let records = [Record::read(0, 77), Record::read(1 << 40, size)];
        assert_eq!(decode_all(&encode(&records)), records);
    }
    let base = 1_u64 << 40;
    for bits in [7, 8, 15, 16, 23, 24, 31, 32] {
        for near in [-1, 0, 1] {
            let distance = (1_u64 << bits).wrapping_add_signed(near);
            for value in [base + distance, base - distance] {
                let records = [Record::read(base, 8), Record::read(value, 8)];
                assert_eq!(decode_all(&encode(&records)), records);
            }
            let records = [Record::compute(distance), Record::compute(7)];
            assert_eq!(decode_all(&encode(&records)), records);
        }
    }
}
