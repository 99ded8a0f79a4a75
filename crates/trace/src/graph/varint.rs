//! Variable-length integers: seven bits a byte, the lowest first (LEB128).

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Maps 0, -1, 1, -2, ... to 0, 1, 2, 3, ..., so that small negative numbers become small varints too.
pub(crate) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

pub(crate) const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

pub(crate) fn put_zigzag(out: &mut Vec<u8>, value: i64) {
    put_varint(out, zigzag(value));
}

/// Reads what [`put_varint`] wrote. Returns `None` at the end and if the bytes are no number of 64 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Varints<'a> {
    bytes: &'a [u8],
}

impl<'a> Varints<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn zigzag(&mut self) -> Option<i64> {
        self.varint().map(unzigzag)
    }
}
