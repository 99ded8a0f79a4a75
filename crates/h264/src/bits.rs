//! Clauses 7.2 and 9.1: reading bits and Exp-Golomb codes.

use crate::error::Fault;
use crate::nal::Rbsp;

/// Reads the bits of a payload in order. Behind the end it reads zeros, which [`BitReader::overrun`] reports.
///
/// The next bits are kept in a word that is refilled eight bytes at a time. The reader is small and `Copy`, so that inner loops can keep a
/// copy in registers and write it back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BitReader<'a> {
    /// The payload and eight bytes of padding.
    data: &'a [u8],
    /// The next bits; the first one is the highest bit.
    word: u64,
    /// The number of bits in `word`.
    valid: u32,
    /// Position of the bit behind those in `word`.
    loaded: usize,
    /// Position of the `rbsp_stop_one_bit`.
    end: usize,
}

impl<'a> BitReader<'a> {
    /// After a refill, at least this many bits can be peeked at.
    const FILLED: u32 = 57;

    pub(crate) fn new(rbsp: &'a Rbsp) -> Self {
        let data = rbsp.padded();
        // The payload has no zero bytes at its end, so its last byte has the stop bit.
        let end = match rbsp.len() {
            0 => 0,
            length => length * 8 - 1 - data[length - 1].trailing_zeros() as usize,
        };
        BitReader {
            data,
            word: 0,
            valid: 0,
            loaded: 0,
            end,
        }
    }

    /// Returns the number of bits read so far.
    #[inline(always)]
    fn position(&self) -> usize {
        self.loaded - self.valid as usize
    }

    /// Moves to bit `position`.
    #[inline(always)]
    fn seek(&mut self, position: usize) {
        let byte = position >> 3;
        let bytes = self.data.get(byte..).and_then(|rest| rest.first_chunk());
        self.word = bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes)) << (position & 7);
        self.loaded = (byte + 8) << 3;
        self.valid = 64 - (position & 7) as u32;
    }

    /// Makes at least `n` bits (at most [`Self::FILLED`]) available to [`peek`](Self::peek) and [`skip`](Self::skip).
    #[inline(always)]
    pub(crate) fn need(&mut self, n: u32) {
        debug_assert!(n <= Self::FILLED);
        if self.valid < n {
            self.seek(self.position());
        }
    }

    /// Returns whether there are bits before the stop bit (`more_rbsp_data`).
    #[inline(always)]
    pub(crate) fn more_data(&self) -> bool {
        self.position() < self.end
    }

    /// Returns whether more bits were read than the payload has.
    #[inline(always)]
    pub(crate) fn overrun(&self) -> bool {
        self.position() > self.end
    }

    /// Returns an error if more bits were read than the payload has.
    #[inline(always)]
    pub(crate) fn check(&self) -> Result<(), Fault> {
        Fault::Syntax("data ends too early").when(self.overrun())
    }

    /// Returns the index of the payload byte that is read next.
    pub(crate) fn byte_position(&self) -> usize {
        self.position().min(self.end) / 8
    }

    /// Returns the word whose highest bits come next; as many are valid as were last requested by [`need`](Self::need), minus those
    /// skipped.
    #[inline(always)]
    pub(crate) fn word(&self) -> u64 {
        self.word
    }

    /// Returns the next `n` bits without reading them; 1 <= `n`, and at least `n` must be available by [`need`](Self::need).
    #[inline(always)]
    pub(crate) fn peek(&self, n: u32) -> u32 {
        debug_assert!(n <= self.valid);
        (self.word >> (64 - n)) as u32
    }

    /// Reads `n` bits, which must be available by [`need`](Self::need).
    #[inline(always)]
    pub(crate) fn skip(&mut self, n: u32) {
        debug_assert!(n <= self.valid && n < 64);
        self.word <<= n;
        self.valid -= n;
    }

    /// Reads and returns u(n); 1 <= `n` <= 32.
    #[inline(always)]
    pub(crate) fn bits(&mut self, n: u32) -> u32 {
        self.need(n);
        let value = self.peek(n);
        self.skip(n);
        value
    }

    /// Reads and returns u(1) as a flag.
    #[inline(always)]
    pub(crate) fn flag(&mut self) -> bool {
        self.bits(1) != 0
    }

    /// Reads ue(v). A code of more than 32 bits returns at least 2^16 - 1; one of more than 63 bits fails by overrun.
    #[inline(always)]
    pub(crate) fn ue(&mut self) -> u32 {
        self.need(32);
        let zeros = self.word.leading_zeros();
        if zeros < 16 {
            let length = 2 * zeros + 1;
            let value = self.peek(length) - 1;
            self.skip(length);
            return value;
        }
        self.long_ue()
    }

    #[cold]
    #[inline(never)]
    fn long_ue(&mut self) -> u32 {
        let zeros = self.peek(32).leading_zeros();
        if zeros >= 32 {
            // No syntax element has such a code: treated as the end of the data.
            self.seek(self.end + 1);
            return u32::MAX;
        }
        self.bits(zeros + 1);
        let rest = self.bits(zeros);
        ((1u32 << zeros) - 1).wrapping_add(rest)
    }

    /// Reads and returns se(v).
    #[inline(always)]
    pub(crate) fn se(&mut self) -> i32 {
        let code = self.ue();
        let magnitude = (code / 2 + code % 2) as i32;
        if code & 1 == 1 { magnitude } else { -magnitude }
    }

    /// Reads and returns te(v) with values up to `max`.
    #[inline(always)]
    pub(crate) fn te(&mut self, max: u32) -> u32 {
        if max == 1 {
            1 - self.bits(1)
        } else {
            self.ue()
        }
    }

    /// Reads and returns ue(v). Fails with `what` if the value is above `max`.
    pub(crate) fn ue_max(&mut self, max: u32, what: &'static str) -> Result<u32, Fault> {
        let value = self.ue();
        Fault::Syntax(what).when(value > max)?;
        Ok(value)
    }

    /// Reads and returns se(v). Fails with `what` if the value is outside `range`.
    pub(crate) fn se_in(
        &mut self,
        range: std::ops::RangeInclusive<i32>,
        what: &'static str,
    ) -> Result<i32, Fault> {
        let value = self.se();
        Fault::Syntax(what).when(!range.contains(&value))?;
        Ok(value)
    }

    /// Moves to the next whole byte.
    pub(crate) fn align(&mut self) {
        self.seek(self.position().next_multiple_of(8));
    }

    /// Reads and returns `n` whole bytes from an aligned position; `None` if fewer are left.
    pub(crate) fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let at = self.position() / 8;
        let bytes = self.data.get(at..at + n)?;
        self.seek((at + n) * 8);
        if self.overrun() { None } else { Some(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_golomb_codes_of_table_9_2() {
        let rbsp = Rbsp::from_bits("1 010 011 00100 00101 00110 00111 0001000 0001010");
        let mut reader = BitReader::new(&rbsp);
        assert_eq!(
            (0..9).map(|_| reader.ue()).collect::<Vec<_>>(),
            [0, 1, 2, 3, 4, 5, 6, 7, 9]
        );
        assert!(!reader.more_data() && !reader.overrun());
        let mut reader = BitReader::new(&rbsp);
        assert_eq!(
            (0..9).map(|_| reader.se()).collect::<Vec<_>>(),
            [0, 1, -1, 2, -2, 3, -3, 4, 5]
        );
    }

    #[test]
    fn long_codes_and_the_end() {
        let rbsp = Rbsp::from_bits(&format!("{}1{}", "0".repeat(20), "1".repeat(20)));
        let mut reader = BitReader::new(&rbsp);
        assert_eq!(reader.ue(), (1 << 21) - 2);
        assert!(!reader.more_data());
        reader.ue();
        assert!(reader.overrun());
        let empty = Rbsp::default();
        let mut reader = BitReader::new(&empty);
        assert_eq!((reader.ue(), reader.overrun()), (u32::MAX, true));
    }

    #[test]
    fn truncated_codes() {
        let rbsp = Rbsp::from_bits("0 1 0");
        let mut reader = BitReader::new(&rbsp);
        assert_eq!((reader.te(1), reader.te(1)), (1, 0));
        assert_eq!(reader.bits(1), 0);
        assert_eq!(reader.byte_position(), 0);
    }
}
