//! Variable-length integers: seven bits a byte, the lowest first (LEB128).

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Returns 0, 1, 2, 3, ... for the values 0, -1, 1, -2, ..., so that small negative numbers become small varints too.
pub(crate) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

pub(crate) const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

pub(crate) fn put_zigzag(out: &mut Vec<u8>, value: i64) {
    put_varint(out, zigzag(value));
}

/// Reads and returns a varint byte by byte; fails with `too_long` if it has more than 64 bits.
#[inline]
pub(crate) fn varint_from<E>(
    mut next: impl FnMut() -> Result<u8, E>,
    too_long: impl FnOnce() -> E,
) -> Result<u64, E> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = next()?;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            break;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(too_long())
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
        let next = || {
            let (&byte, rest) = self.bytes.split_first().ok_or(())?;
            self.bytes = rest;
            Ok(byte)
        };
        varint_from(next, || ()).ok()
    }

    pub(crate) fn zigzag(&mut self) -> Option<i64> {
        self.varint().map(unzigzag)
    }
}
