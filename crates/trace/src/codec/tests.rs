//! The worked example of the module's documentation.

use super::{Cursor, Encoder, PADDING, SCRATCH, Step, decode};
use crate::Record;
use crate::blocks::BlockWriter;

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

    let mut encoder = Encoder::new(BlockWriter::new(Vec::new(), 0));
    for &record in &records {
        encoder.push(record).expect("a vector can be written");
    }
    let start = encoder.end_task().expect("a vector can be written");
    assert_eq!(start, Some((0, 0)));
    let blocks = encoder.finish().expect("a vector can be written");
    assert_eq!(blocks.out, block, "too short to be compressed");

    let padded = [&block[..], &[0; PADDING]].concat();
    let (mut cursor, mut window) = (Cursor::at(0, 0), Vec::new());
    let step = decode(&padded, &mut cursor, &mut window, 100, &mut SCRATCH.clone());
    assert_eq!(step, Some(Step::End));
    assert_eq!(window, records);
}
