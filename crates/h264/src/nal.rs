//! Annex B: NAL units in a byte stream, and the payload of a NAL unit (7.3.1).

/// The NAL units of an Annex B byte stream in memory.
#[derive(Debug, Clone)]
pub struct NalStream<'a> {
    data: &'a [u8],
    /// Position of the first byte behind the start code of the next NAL unit; `data.len()` at the end.
    next: usize,
}

/// One NAL unit with its header byte and its emulation prevention bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NalUnit<'a> {
    pub(crate) offset: usize,
    pub(crate) bytes: &'a [u8],
}

impl<'a> NalStream<'a> {
    /// Returns a stream that begins at the first start code in `data`.
    pub fn new(data: &'a [u8]) -> Self {
        let next = find_start_code(data, 0).map_or(data.len(), |at| at + 3);
        NalStream { data, next }
    }

    /// Returns the byte offset of the next NAL unit; the length of the stream at its end.
    pub fn offset(&self) -> usize {
        self.next
    }

    /// Returns the next NAL unit that is not empty.
    pub(crate) fn next_unit(&mut self) -> Option<NalUnit<'a>> {
        while self.next < self.data.len() {
            let start = self.next;
            let (end, next) = match find_start_code(self.data, start) {
                Some(at) => (at, at + 3),
                None => (self.data.len(), self.data.len()),
            };
            self.next = next;
            // trailing_zero_8bits and the zero_byte of the next start code are not part of the unit.
            let bytes = without_zeros(&self.data[start..end]);
            if !bytes.is_empty() {
                let offset = start;
                return Some(NalUnit { offset, bytes });
            }
        }
        None
    }
}

/// Returns `bytes` without the zeros at their end.
fn without_zeros(bytes: &[u8]) -> &[u8] {
    let last = bytes.iter().rposition(|&byte| byte != 0);
    &bytes[..last.map_or(0, |last| last + 1)]
}

/// Returns the position of the first start code (00 00 01) at or behind `from`.
fn find_start_code(data: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    // The third byte of a start code is 1, so a greater byte there rules out three positions at once.
    while let Some(&[a, b, c]) = data.get(at..at + 3) {
        match c {
            1 if a == 0 && b == 0 => return Some(at),
            0 => at += 1,
            _ => at += 3,
        }
    }
    None
}

/// The raw byte sequence payload of a NAL unit, without emulation prevention bytes. Its memory is reused from unit to unit.
#[derive(Debug, Default)]
pub(crate) struct Rbsp {
    bytes: Vec<u8>,
    length: usize,
    /// Payload positions before which an emulation prevention byte was removed.
    removed: Vec<u32>,
}

/// Zero bytes behind the payload, so that eight bytes can be loaded at each of its bytes.
const PADDING: usize = 8;

impl Rbsp {
    /// Extracts the payload of a NAL unit, which is passed without its header byte.
    pub(crate) fn load(&mut self, payload: &[u8]) {
        self.bytes.clear();
        self.removed.clear();
        let mut copied = 0;
        let mut at = 0;
        while let Some(&[a, b, c]) = payload.get(at..at + 3) {
            if c > 3 {
                at += 3;
            } else if c == 3 && a == 0 && b == 0 {
                self.bytes.extend_from_slice(&payload[copied..at + 2]);
                self.removed.push(self.bytes.len() as u32);
                copied = at + 3;
                at += 3;
            } else {
                at += 1;
            }
        }
        self.bytes.extend_from_slice(&payload[copied..]);
        // cabac_zero_words and a final 03 leave zeros behind the payload.
        self.length = without_zeros(&self.bytes).len();
        self.bytes.truncate(self.length);
        self.bytes.resize(self.length + PADDING, 0);
    }

    /// Returns the payload, followed by [`PADDING`] zero bytes.
    pub(crate) fn padded(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the length of the payload in bytes.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Returns the position of payload byte `position` in the NAL unit, counted from behind its header byte.
    pub(crate) fn original_position(&self, position: usize) -> usize {
        position + self.removed.partition_point(|&at| at as usize <= position)
    }
}

#[cfg(test)]
impl Rbsp {
    /// Returns the payload of these bits (blanks between them do not count) and a stop bit.
    pub(crate) fn from_bits(bits: &str) -> Rbsp {
        let mut bits = format!("{}1", bits.replace(' ', ""));
        while !bits.len().is_multiple_of(8) {
            bits.push('0');
        }
        // Emulation prevention bytes, so that zeros of the payload are not taken for a start code.
        let mut escaped = Vec::new();
        for byte in bits.as_bytes().chunks(8) {
            let byte = byte.iter().fold(0, |b, bit| b << 1 | (bit - b'0'));
            if byte <= 3 && escaped.ends_with(&[0, 0]) {
                escaped.push(3);
            }
            escaped.push(byte);
        }
        let mut rbsp = Rbsp::default();
        rbsp.load(&escaped);
        rbsp
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(data: &[u8]) -> Vec<(usize, Vec<u8>)> {
        let mut stream = NalStream::new(data);
        std::iter::from_fn(|| {
            stream
                .next_unit()
                .map(|unit| (unit.offset, unit.bytes.to_vec()))
        })
        .collect()
    }

    #[test]
    fn units_lie_between_start_codes() {
        let data = [
            9, 0, 0, 1, 0x67, 5, 0, 0, 0, 1, 0x68, 0, 0, 1, 0, 0, 1, 0x65,
        ];
        assert_eq!(
            units(&data),
            [(4, vec![0x67, 5]), (10, vec![0x68]), (17, vec![0x65])]
        );
        assert_eq!(units(&[]), []);
        assert_eq!(units(&[0, 0, 1]), []);
        assert_eq!(units(&[0, 0, 0, 0, 1, 7]), [(5, vec![7])]);
    }

    #[test]
    fn emulation_prevention_is_removed_and_positions_map_back() {
        let mut rbsp = Rbsp::default();
        rbsp.load(&[1, 0, 0, 3, 1, 0, 0, 3, 0, 0, 3, 2, 0x80, 0, 0, 3]);
        assert_eq!(
            &rbsp.padded()[..rbsp.len()],
            [1, 0, 0, 1, 0, 0, 0, 0, 2, 0x80]
        );
        assert_eq!(rbsp.original_position(2), 2);
        assert_eq!(rbsp.original_position(3), 4);
        assert_eq!(rbsp.original_position(8), 11);
        assert_eq!(rbsp.padded().len(), rbsp.len() + PADDING);
    }
}
