//! Clauses 7.2 and 9.1: reading bits and Exp-Golomb codes.

use crate::error::Fault;
use crate::nal::Rbsp;

/// Reads the bits of a payload from the first on. Behind the end it reads zeros; [`BitReader::overrun`] tells.
#[derive(Debug, Clone)]
pub(crate) struct BitReader<'a> {
    /// The payload and eight bytes of padding.
    data: &'a [u8],
    /// Bits read so far.
    position: usize,
    /// Position of the rbsp_stop_one_bit.
    end: usize,
}

impl<'a> BitReader<'a> {
    pub(crate) fn new(rbsp: &'a Rbsp) -> Self {
        let data = rbsp.padded();
        // The payload has no zero bytes at its end, so its last byte holds the stop bit.
        let end = match rbsp.len() {
            0 => 0,
            length => length * 8 - 1 - data[length - 1].trailing_zeros() as usize,
        };
        BitReader {
            data,
            position: 0,
            end,
        }
    }

    /// Whether bits in front of the stop bit are left (`more_rbsp_data`).
    #[inline]
    pub(crate) fn more_data(&self) -> bool {
        self.position < self.end
    }

    /// Whether more bits were read than there are.
    #[inline]
    pub(crate) fn overrun(&self) -> bool {
        self.position > self.end
    }

    /// Fails when more bits were read than there are.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if self.overrun() {
            Err(Fault::Syntax("data ends too early"))
        } else {
            Ok(())
        }
    }

    /// Payload byte that is read next.
    pub(crate) fn byte_position(&self) -> usize {
        self.position.min(self.end) / 8
    }

    /// The next 32 bits, without reading them.
    #[inline(always)]
    pub(crate) fn peek32(&self) -> u32 {
        let at = self.position >> 3;
        match self.data.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(bytes) => ((u64::from_be_bytes(*bytes) << (self.position & 7)) >> 32) as u32,
            None => 0,
        }
    }

    /// The next `n` bits, without reading them; 1 <= n <= 32.
    #[inline(always)]
    pub(crate) fn peek(&self, n: u32) -> u32 {
        self.peek32() >> (32 - n)
    }

    #[inline(always)]
    pub(crate) fn skip(&mut self, n: u32) {
        self.position += n as usize;
    }

    /// u(n), 1 <= n <= 32.
    #[inline(always)]
    pub(crate) fn bits(&mut self, n: u32) -> u32 {
        let value = self.peek(n);
        self.skip(n);
        value
    }

    /// u(1) as a flag.
    #[inline(always)]
    pub(crate) fn flag(&mut self) -> bool {
        self.bits(1) != 0
    }

    /// ue(v). A code of more than 32 bits gives at least 2^16 - 1 and, with more than 63 bits, fails by overrun.
    #[inline(always)]
    pub(crate) fn ue(&mut self) -> u32 {
        let word = self.peek32();
        let zeros = word.leading_zeros();
        if zeros < 16 {
            self.skip(2 * zeros + 1);
            return (word >> (31 - 2 * zeros)) - 1;
        }
        self.long_ue(zeros)
    }

    #[cold]
    fn long_ue(&mut self, zeros: u32) -> u32 {
        if zeros >= 32 {
            // No syntax element needs it: treated as the end of the data.
            self.position = self.end + 1;
            return u32::MAX;
        }
        self.skip(zeros + 1);
        let rest = self.bits(zeros);
        ((1u32 << zeros) - 1).wrapping_add(rest)
    }

    /// se(v).
    #[inline(always)]
    pub(crate) fn se(&mut self) -> i32 {
        let code = self.ue();
        let magnitude = (code / 2 + code % 2) as i32;
        if code & 1 == 1 { magnitude } else { -magnitude }
    }

    /// te(v) with values up to `max`.
    #[inline(always)]
    pub(crate) fn te(&mut self, max: u32) -> u32 {
        if max == 1 {
            1 - self.bits(1)
        } else {
            self.ue()
        }
    }

    /// ue(v) that must not be above `max`; else the fault says `what`.
    pub(crate) fn ue_max(&mut self, max: u32, what: &'static str) -> Result<u32, Fault> {
        let value = self.ue();
        if value > max {
            Err(Fault::Syntax(what))
        } else {
            Ok(value)
        }
    }

    /// se(v) that must lie in `range`; else the fault says `what`.
    pub(crate) fn se_in(
        &mut self,
        range: std::ops::RangeInclusive<i32>,
        what: &'static str,
    ) -> Result<i32, Fault> {
        let value = self.se();
        if range.contains(&value) {
            Ok(value)
        } else {
            Err(Fault::Syntax(what))
        }
    }

    /// Goes to the next whole byte.
    pub(crate) fn align(&mut self) {
        self.position = self.position.next_multiple_of(8);
    }

    /// The next `n` whole bytes; the position must be aligned. None when there are not so many.
    pub(crate) fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let at = self.position / 8;
        let bytes = self.data.get(at..at + n)?;
        self.position += n * 8;
        if self.overrun() { None } else { Some(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rbsp(bits: &str) -> Rbsp {
        let mut bits = bits.replace(' ', "");
        bits.push('1');
        while !bits.len().is_multiple_of(8) {
            bits.push('0');
        }
        let bytes: Vec<u8> = (0..bits.len() / 8)
            .map(|i| u8::from_str_radix(&bits[8 * i..8 * i + 8], 2).unwrap())
            .collect();
        let mut rbsp = Rbsp::default();
        rbsp.load(&bytes);
        rbsp
    }

    #[test]
    fn exp_golomb_codes_of_table_9_2() {
        let rbsp = rbsp("1 010 011 00100 00101 00110 00111 0001000 0001010");
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
        let rbsp = rbsp(&format!("{}1{}", "0".repeat(20), "1".repeat(20)));
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
        let rbsp = rbsp("0 1 0");
        let mut reader = BitReader::new(&rbsp);
        assert_eq!((reader.te(1), reader.te(1)), (1, 0));
        assert_eq!(reader.bits(1), 0);
        assert_eq!(reader.byte_position(), 0);
    }
}
