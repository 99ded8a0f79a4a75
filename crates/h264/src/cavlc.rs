//! Clause 9.2: CAVLC, the codes of transform coefficients.
//!
//! The code tables are written as in the standard; lookup tables indexed by the next bits are made of them at compile time.

use crate::bits::BitReader;
use crate::error::Fault;

/// Table 9-5, coeff_token for nC below 8: a row for each TotalCoeff, a column for each TrailingOnes.
const COEFF_TOKEN: [[[&str; 4]; 17]; 3] = [
    // 0 <= nC < 2
    [
        ["1", "", "", ""],
        ["000101", "01", "", ""],
        ["00000111", "000100", "001", ""],
        ["000000111", "00000110", "0000101", "00011"],
        ["0000000111", "000000110", "00000101", "000011"],
        ["00000000111", "0000000110", "000000101", "0000100"],
        ["0000000001111", "00000000110", "0000000101", "00000100"],
        ["0000000001011", "0000000001110", "00000000101", "000000100"],
        [
            "0000000001000",
            "0000000001010",
            "0000000001101",
            "0000000100",
        ],
        [
            "00000000001111",
            "00000000001110",
            "0000000001001",
            "00000000100",
        ],
        [
            "00000000001011",
            "00000000001010",
            "00000000001101",
            "0000000001100",
        ],
        [
            "000000000001111",
            "000000000001110",
            "00000000001001",
            "00000000001100",
        ],
        [
            "000000000001011",
            "000000000001010",
            "000000000001101",
            "00000000001000",
        ],
        [
            "0000000000001111",
            "000000000000001",
            "000000000001001",
            "000000000001100",
        ],
        [
            "0000000000001011",
            "0000000000001110",
            "0000000000001101",
            "000000000001000",
        ],
        [
            "0000000000000111",
            "0000000000001010",
            "0000000000001001",
            "0000000000001100",
        ],
        [
            "0000000000000100",
            "0000000000000110",
            "0000000000000101",
            "0000000000001000",
        ],
    ],
    // 2 <= nC < 4
    [
        ["11", "", "", ""],
        ["001011", "10", "", ""],
        ["000111", "00111", "011", ""],
        ["0000111", "001010", "001001", "0101"],
        ["00000111", "000110", "000101", "0100"],
        ["00000100", "0000110", "0000101", "00110"],
        ["000000111", "00000110", "00000101", "001000"],
        ["00000001111", "000000110", "000000101", "000100"],
        ["00000001011", "00000001110", "00000001101", "0000100"],
        ["000000001111", "00000001010", "00000001001", "000000100"],
        [
            "000000001011",
            "000000001110",
            "000000001101",
            "00000001100",
        ],
        [
            "000000001000",
            "000000001010",
            "000000001001",
            "00000001000",
        ],
        [
            "0000000001111",
            "0000000001110",
            "0000000001101",
            "000000001100",
        ],
        [
            "0000000001011",
            "0000000001010",
            "0000000001001",
            "0000000001100",
        ],
        [
            "0000000000111",
            "00000000001011",
            "0000000000110",
            "0000000001000",
        ],
        [
            "00000000001001",
            "00000000001000",
            "00000000001010",
            "0000000000001",
        ],
        [
            "00000000000111",
            "00000000000110",
            "00000000000101",
            "00000000000100",
        ],
    ],
    // 4 <= nC < 8
    [
        ["1111", "", "", ""],
        ["001111", "1110", "", ""],
        ["001011", "01111", "1101", ""],
        ["001000", "01100", "01110", "1100"],
        ["0001111", "01010", "01011", "1011"],
        ["0001011", "01000", "01001", "1010"],
        ["0001001", "001110", "001101", "1001"],
        ["0001000", "001010", "001001", "1000"],
        ["00001111", "0001110", "0001101", "01101"],
        ["00001011", "00001110", "0001010", "001100"],
        ["000001111", "00001010", "00001101", "0001100"],
        ["000001011", "000001110", "00001001", "00001100"],
        ["000001000", "000001010", "000001101", "00001000"],
        ["0000001101", "000000111", "000001001", "000001100"],
        ["0000001001", "0000001100", "0000001011", "0000001010"],
        ["0000000101", "0000001000", "0000000111", "0000000110"],
        ["0000000001", "0000000100", "0000000011", "0000000010"],
    ],
];

/// Table 9-5, coeff_token for nC = -1 (chroma DC).
const COEFF_TOKEN_CHROMA_DC: [[&str; 4]; 5] = [
    ["01", "", "", ""],
    ["000111", "1", "", ""],
    ["000100", "000110", "001", ""],
    ["000011", "0000011", "0000010", "000101"],
    ["000010", "00000011", "00000010", "0000000"],
];

/// Tables 9-7 and 9-8: total_zeros, a row for each TotalCoeff from 1 on.
const TOTAL_ZEROS: [&[&str]; 15] = [
    &[
        "1",
        "011",
        "010",
        "0011",
        "0010",
        "00011",
        "00010",
        "000011",
        "000010",
        "0000011",
        "0000010",
        "00000011",
        "00000010",
        "000000011",
        "000000010",
        "000000001",
    ],
    &[
        "111", "110", "101", "100", "011", "0101", "0100", "0011", "0010", "00011", "00010",
        "000011", "000010", "000001", "000000",
    ],
    &[
        "0101", "111", "110", "101", "0100", "0011", "100", "011", "0010", "00011", "00010",
        "000001", "00001", "000000",
    ],
    &[
        "00011", "111", "0101", "0100", "110", "101", "100", "0011", "011", "0010", "00010",
        "00001", "00000",
    ],
    &[
        "0101", "0100", "0011", "111", "110", "101", "100", "011", "0010", "00001", "0001", "00000",
    ],
    &[
        "000001", "00001", "111", "110", "101", "100", "011", "010", "0001", "001", "000000",
    ],
    &[
        "000001", "00001", "101", "100", "011", "11", "010", "0001", "001", "000000",
    ],
    &[
        "000001", "0001", "00001", "011", "11", "10", "010", "001", "000000",
    ],
    &["000001", "000000", "0001", "11", "10", "001", "01", "00001"],
    &["00001", "00000", "001", "11", "10", "01", "0001"],
    &["0000", "0001", "001", "010", "1", "011"],
    &["0000", "0001", "01", "1", "001"],
    &["000", "001", "1", "01"],
    &["00", "01", "1"],
    &["0", "1"],
];

/// Table 9-9 (a): total_zeros of chroma DC blocks, a row for each TotalCoeff from 1 on.
const TOTAL_ZEROS_CHROMA_DC: [&[&str]; 3] =
    [&["1", "01", "001", "000"], &["1", "01", "00"], &["1", "0"]];

/// Table 9-10: run_before, a row for each zerosLeft from 1 on; the last is for all above 6.
const RUN_BEFORE: [&[&str]; 7] = [
    &["1", "0"],
    &["1", "01", "00"],
    &["11", "10", "01", "00"],
    &["11", "10", "01", "001", "000"],
    &["11", "10", "011", "010", "001", "000"],
    &["11", "000", "001", "011", "010", "101", "100"],
    &[
        "111",
        "110",
        "101",
        "100",
        "011",
        "010",
        "001",
        "0001",
        "00001",
        "000001",
        "0000001",
        "00000001",
        "000000001",
        "0000000001",
        "00000000001",
    ],
];
/// Figure 8-8 (zig-zag): raster position of each coefficient of a 4x4 block.
pub(crate) const ZIGZAG: [u8; 16] = [0, 1, 4, 8, 5, 2, 3, 6, 9, 12, 13, 10, 7, 11, 14, 15];

/// Looks up codes of up to 16 bits: an entry is value + 256 * length of the code, 0 for no code.
struct CoeffTokenTable {
    /// By the next 8 bits: codes of up to 8 bits.
    short: [u16; 256],
    /// By the last 11 of the next 16 bits, the others being 0: longer codes.
    long: [u16; 2048],
}

/// Sets all entries of `table`, which is indexed by `width` bits, that begin with `code`.
const fn enter<const N: usize>(table: &mut [u16; N], width: usize, code: &[u8], value: u16) {
    let mut prefix = 0;
    let mut i = 0;
    while i < code.len() {
        prefix = prefix * 2 + (code[i] - b'0') as usize;
        i += 1;
    }
    let free = width - code.len();
    let first = (prefix << free) & (N - 1);
    let mut i = 0;
    while i < 1 << free {
        table[first + i] = value + 256 * code.len() as u16;
        i += 1;
    }
}

const fn coeff_token_table(codes: &[[&str; 4]; 17]) -> CoeffTokenTable {
    let mut table = CoeffTokenTable {
        short: [0; 256],
        long: [0; 2048],
    };
    let mut total = 0;
    while total < 17 {
        let mut ones = 0;
        while ones < 4 {
            let code = codes[total][ones].as_bytes();
            let value = (total * 4 + ones) as u16;
            if code.len() > 8 {
                enter(&mut table.long, 16, code, value);
            } else if !code.is_empty() {
                enter(&mut table.short, 8, code, value);
            }
            ones += 1;
        }
        total += 1;
    }
    table
}

const fn chroma_dc_token_table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut total = 0;
    while total < 5 {
        let mut ones = 0;
        while ones < 4 {
            let code = COEFF_TOKEN_CHROMA_DC[total][ones].as_bytes();
            if !code.is_empty() {
                enter(&mut table, 8, code, (total * 4 + ones) as u16);
            }
            ones += 1;
        }
        total += 1;
    }
    table
}

/// Lookup tables of `ROWS` code lists, indexed by the next bits, of which there are log2(N).
const fn list_tables<const N: usize, const ROWS: usize>(
    codes: &[&[&str]; ROWS],
) -> [[u16; N]; ROWS] {
    let mut tables = [[0; N]; ROWS];
    let mut row = 0;
    while row < ROWS {
        let mut value = 0;
        while value < codes[row].len() {
            let code = codes[row][value].as_bytes();
            enter(
                &mut tables[row],
                N.trailing_zeros() as usize,
                code,
                value as u16,
            );
            value += 1;
        }
        row += 1;
    }
    tables
}

static COEFF_TOKEN_LOOKUP: [CoeffTokenTable; 3] = [
    coeff_token_table(&COEFF_TOKEN[0]),
    coeff_token_table(&COEFF_TOKEN[1]),
    coeff_token_table(&COEFF_TOKEN[2]),
];
static COEFF_TOKEN_CHROMA_DC_LOOKUP: [u16; 256] = chroma_dc_token_table();
static TOTAL_ZEROS_LOOKUP: [[u16; 512]; 15] = list_tables(&TOTAL_ZEROS);
static TOTAL_ZEROS_CHROMA_DC_LOOKUP: [[u16; 8]; 3] = list_tables(&TOTAL_ZEROS_CHROMA_DC);
static RUN_BEFORE_LOOKUP: [[u16; 2048]; 7] = list_tables(&RUN_BEFORE);

const NO_CODE: Fault = Fault::Syntax("no such CAVLC code");

/// How many coefficients a block has, and how many of them are trailing ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CoeffToken {
    pub(crate) total: u8,
    ones: u8,
}

impl CoeffToken {
    #[inline(always)]
    fn take(reader: &mut BitReader<'_>, entry: u16) -> Result<Self, Fault> {
        if entry == 0 {
            return Err(NO_CODE);
        }
        reader.skip(u32::from(entry >> 8));
        Ok(CoeffToken {
            total: (entry as u8) >> 2,
            ones: entry as u8 & 3,
        })
    }
}

/// Reads coeff_token of a luma or chroma AC block, `context` being nC.
#[inline]
pub(crate) fn coeff_token(reader: &mut BitReader<'_>, context: u8) -> Result<CoeffToken, Fault> {
    let table = match context {
        0 | 1 => &COEFF_TOKEN_LOOKUP[0],
        2 | 3 => &COEFF_TOKEN_LOOKUP[1],
        4..=7 => &COEFF_TOKEN_LOOKUP[2],
        _ => {
            // Six bits: TotalCoeff - 1 and TrailingOnes, with 000011 for no coefficients.
            let code = reader.bits(6) as u8;
            let (total, ones) = if code == 3 {
                (0, 0)
            } else {
                ((code >> 2) + 1, code & 3)
            };
            return if ones > total {
                Err(NO_CODE)
            } else {
                Ok(CoeffToken { total, ones })
            };
        }
    };
    let next = reader.peek(16) as usize;
    let entry = match table.short[next >> 8] {
        0 if next < 2048 => table.long[next],
        entry => entry,
    };
    CoeffToken::take(reader, entry)
}

/// Reads the levels (9.2.2), highest frequency first.
#[inline]
fn levels(reader: &mut BitReader<'_>, token: CoeffToken, out: &mut [i16; 16]) -> Result<(), Fault> {
    let (total, ones) = (usize::from(token.total), usize::from(token.ones));
    for level in &mut out[..ones] {
        *level = 1 - 2 * reader.bits(1) as i16;
    }
    let mut suffix_length = u32::from(total > 10 && ones < 3);
    for (i, level) in out[..total].iter_mut().enumerate().skip(ones) {
        let prefix = reader.peek32().leading_zeros();
        if prefix > 20 {
            return Err(NO_CODE);
        }
        reader.skip(prefix + 1);
        let suffix_size = match prefix {
            14 if suffix_length == 0 => 4,
            15.. => prefix - 3,
            _ => suffix_length,
        };
        let mut code = prefix.min(15) << suffix_length;
        if suffix_size > 0 {
            code += reader.bits(suffix_size);
        }
        if prefix >= 15 {
            code += if suffix_length == 0 { 15 } else { 0 };
            // Zero for the prefix of 15, which is the longest of the baseline profile.
            code += (1 << (prefix - 3)) - 4096;
        }
        code += if i == ones && ones < 3 { 2 } else { 0 };
        let magnitude = (code + 2) >> 1;
        let value = if code & 1 == 0 {
            magnitude as i32
        } else {
            -(magnitude as i32)
        };
        *level = value.clamp(i32::from(i16::MIN), i32::from(i16::MAX)) as i16;
        suffix_length = suffix_length.max(1);
        if magnitude > 3 << (suffix_length - 1) && suffix_length < 6 {
            suffix_length += 1;
        }
    }
    Ok(())
}

/// Reads the levels and runs of a block with `token.total` > 0 and puts the levels at their raster positions in `out`.
///
/// `start` is 1 for AC blocks, whose first coefficient belongs to another block; else 0. The answer tells whether a
/// coefficient other than the first of all is there.
#[inline]
pub(crate) fn coefficients(
    reader: &mut BitReader<'_>,
    token: CoeffToken,
    start: usize,
    out: &mut [i16; 16],
) -> Result<bool, Fault> {
    let total = usize::from(token.total);
    let room = 16 - start;
    if total > room {
        return Err(Fault::Syntax("too many coefficients"));
    }
    let mut level = [0; 16];
    levels(reader, token, &mut level)?;
    let mut zeros = 0;
    if total < room {
        let entry = TOTAL_ZEROS_LOOKUP[total - 1][reader.peek(9) as usize];
        if entry == 0 {
            return Err(NO_CODE);
        }
        reader.skip(u32::from(entry >> 8));
        zeros = usize::from(entry & 255);
        if total + zeros > room {
            return Err(Fault::Syntax("too many zeros in front of coefficients"));
        }
    }
    let last = start + total + zeros - 1;
    let mut at = last;
    out[usize::from(ZIGZAG[at & 15])] = level[0];
    for &level in &level[1..total] {
        if zeros > 0 {
            let entry = RUN_BEFORE_LOOKUP[zeros.min(7) - 1][reader.peek(11) as usize];
            let run = usize::from(entry & 255);
            if entry == 0 || run > zeros {
                return Err(NO_CODE);
            }
            reader.skip(u32::from(entry >> 8));
            zeros -= run;
            at -= run;
        }
        at -= 1;
        out[usize::from(ZIGZAG[at & 15])] = level;
    }
    Ok(last > 0)
}

/// Reads a chroma DC block: its levels in raster order and whether there are any.
pub(crate) fn chroma_dc(reader: &mut BitReader<'_>) -> Result<([i16; 4], bool), Fault> {
    let mut out = [0; 4];
    let token = CoeffToken::take(
        reader,
        COEFF_TOKEN_CHROMA_DC_LOOKUP[reader.peek(8) as usize],
    )?;
    let total = usize::from(token.total);
    if total == 0 {
        return Ok((out, false));
    }
    let mut level = [0; 16];
    levels(reader, token, &mut level)?;
    let mut zeros = 0;
    if total < 4 {
        let entry = TOTAL_ZEROS_CHROMA_DC_LOOKUP[total - 1][reader.peek(3) as usize];
        reader.skip(u32::from(entry >> 8));
        zeros = usize::from(entry & 255);
    }
    let mut at = total + zeros - 1;
    out[at & 3] = level[0];
    for &level in &level[1..total] {
        if zeros > 0 {
            let entry = RUN_BEFORE_LOOKUP[zeros - 1][reader.peek(11) as usize];
            let run = usize::from(entry & 255);
            reader.skip(u32::from(entry >> 8));
            zeros -= run;
            at -= run;
        }
        at -= 1;
        out[at & 3] = level;
    }
    Ok((out, true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nal::Rbsp;

    fn lists() -> Vec<Vec<&'static str>> {
        let mut lists: Vec<Vec<&str>> = COEFF_TOKEN
            .iter()
            .map(|table| {
                table
                    .as_flattened()
                    .iter()
                    .copied()
                    .filter(|code| !code.is_empty())
                    .collect()
            })
            .collect();
        lists.push(
            COEFF_TOKEN_CHROMA_DC
                .as_flattened()
                .iter()
                .copied()
                .filter(|code| !code.is_empty())
                .collect(),
        );
        for rows in [&TOTAL_ZEROS[..], &TOTAL_ZEROS_CHROMA_DC, &RUN_BEFORE] {
            lists.extend(rows.iter().map(|row| row.to_vec()));
        }
        lists
    }

    #[test]
    fn codes_are_prefix_free_and_leave_out_only_zeros() {
        for list in lists() {
            for (i, a) in list.iter().enumerate() {
                assert!(
                    list.iter()
                        .enumerate()
                        .all(|(j, b)| i == j || !b.starts_with(a)),
                    "{a}"
                );
            }
            // Kraft's sum, in units of 2^-16: nearly complete, what is missing are words of many zeros.
            let sum: u32 = list.iter().map(|code| 1 << (16 - code.len())).sum();
            assert!(((1 << 16) - 128..=1 << 16).contains(&sum), "{sum} {list:?}");
        }
    }

    #[test]
    fn tables_have_a_code_for_each_value() {
        for (total, ones) in (0..17).flat_map(|total| (0..4).map(move |ones| (total, ones))) {
            let possible = ones <= total;
            assert!(
                COEFF_TOKEN
                    .iter()
                    .all(|table| table[total][ones].is_empty() != possible)
            );
            if total < 5 {
                assert_eq!(COEFF_TOKEN_CHROMA_DC[total][ones].is_empty(), !possible);
            }
        }
        assert!(
            TOTAL_ZEROS
                .iter()
                .enumerate()
                .all(|(row, codes)| codes.len() == 16 - row)
        );
        assert!(
            RUN_BEFORE[..6]
                .iter()
                .enumerate()
                .all(|(row, codes)| codes.len() == row + 2)
        );
        assert_eq!(RUN_BEFORE[6].len(), 15);
    }

    /// Writes bits; the counterpart of the reader, made directly from the tables and from 9.2.
    #[derive(Default)]
    struct Writer(String);

    impl Writer {
        fn bits(&mut self, value: u32, n: u32) {
            (0..n)
                .rev()
                .for_each(|bit| self.0.push(if value >> bit & 1 == 1 { '1' } else { '0' }));
        }

        fn rbsp(&self) -> Rbsp {
            let mut bits = format!("{}1", self.0);
            while !bits.len().is_multiple_of(8) {
                bits.push('0');
            }
            let bytes: Vec<u8> = bits
                .as_bytes()
                .chunks(8)
                .map(|byte| byte.iter().fold(0, |b, bit| b << 1 | (bit - b'0')))
                .collect();
            // Emulation prevention: a payload of zeros would else be taken for it.
            let mut escaped = Vec::new();
            for byte in bytes {
                if byte <= 3 && escaped.ends_with(&[0, 0]) {
                    escaped.push(3);
                }
                escaped.push(byte);
            }
            let mut rbsp = Rbsp::default();
            rbsp.load(&escaped);
            rbsp
        }

        fn level(&mut self, level: i32, escape_two: bool, suffix_length: u32) {
            let code = if level > 0 {
                2 * level - 2
            } else {
                -2 * level - 1
            } as u32
                - if escape_two { 2 } else { 0 };
            let (prefix, suffix, size) = if suffix_length == 0 {
                match code {
                    0..14 => (code, 0, 0),
                    14..30 => (14, code - 14, 4),
                    _ => (15, code - 30, 12),
                }
            } else if code < 15 << suffix_length {
                (
                    code >> suffix_length,
                    code & ((1 << suffix_length) - 1),
                    suffix_length,
                )
            } else {
                (15, code - (15 << suffix_length), 12)
            };
            assert!(suffix < 4096);
            self.bits(1, prefix + 1);
            self.bits(suffix, size);
        }

        /// A block of coefficients in scanning order, with context `context` (-1 for chroma DC).
        fn block(&mut self, coefficients: &[i32], context: i32) {
            let found: Vec<usize> = (0..coefficients.len())
                .filter(|&i| coefficients[i] != 0)
                .collect();
            let total = found.len();
            let ones = found
                .iter()
                .rev()
                .take(3)
                .take_while(|&&i| coefficients[i].abs() == 1)
                .count();
            self.0.push_str(&match context {
                -1 => COEFF_TOKEN_CHROMA_DC[total][ones].to_string(),
                0..8 => {
                    COEFF_TOKEN[[0, 0, 1, 1, 2, 2, 2, 2][context as usize]][total][ones].to_string()
                }
                _ if total == 0 => "000011".to_string(),
                _ => format!("{:04b}{ones:02b}", total - 1),
            });
            let mut suffix_length = u32::from(total > 10 && ones < 3);
            for (n, &i) in found.iter().rev().enumerate() {
                let level = coefficients[i];
                if n < ones {
                    self.bits(u32::from(level < 0), 1);
                    continue;
                }
                self.level(level, n == ones && ones < 3, suffix_length);
                suffix_length = suffix_length.max(1);
                if level.abs() > 3 << (suffix_length - 1) && suffix_length < 6 {
                    suffix_length += 1;
                }
            }
            let Some(&last) = found.last() else { return };
            let mut zeros = last + 1 - total;
            if total < coefficients.len() {
                let tables: &[&[&str]] = if context == -1 {
                    &TOTAL_ZEROS_CHROMA_DC
                } else {
                    &TOTAL_ZEROS
                };
                self.0.push_str(tables[total - 1][zeros]);
            }
            for pair in found.windows(2).rev().filter(|_| total > 1) {
                let run = pair[1] - pair[0] - 1;
                if zeros > 0 {
                    self.0.push_str(RUN_BEFORE[zeros.min(7) - 1][run]);
                    zeros -= run;
                }
            }
        }
    }

    #[test]
    fn random_blocks_are_read_as_written() {
        let mut state = 5u64;
        let mut random = |n: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        for round in 0..5000 {
            let (size, context) = [
                (16, 0),
                (16, 2),
                (16, 5),
                (16, 9),
                (15, 1),
                (15, 3),
                (15, 7),
                (4, -1),
            ][round % 8];
            let density = random(9);
            let largest = [1, 2, 20, 900][random(4) as usize];
            let block: Vec<i32> = (0..size)
                .map(|_| {
                    if random(8) < density {
                        random(2 * largest + 1) as i32 - largest as i32
                    } else {
                        0
                    }
                })
                .collect();
            let mut writer = Writer::default();
            writer.block(&block, context);
            let rbsp = writer.rbsp();
            let mut reader = BitReader::new(&rbsp);
            let read: Vec<i32> = if context == -1 {
                let (levels, any) = chroma_dc(&mut reader).unwrap();
                assert_eq!(any, block.iter().any(|&level| level != 0));
                levels.iter().map(|&level| i32::from(level)).collect()
            } else {
                let mut out = [0; 16];
                let start = 16 - size;
                let token = coeff_token(&mut reader, context as u8).unwrap();
                let ac =
                    token.total > 0 && coefficients(&mut reader, token, start, &mut out).unwrap();
                assert_eq!(
                    ac,
                    (start..16).any(|i| i > 0 && out[usize::from(ZIGZAG[i])] != 0)
                );
                (start..16)
                    .map(|i| i32::from(out[usize::from(ZIGZAG[i])]))
                    .collect()
            };
            assert_eq!(read, block, "round {round}");
            assert!(!reader.more_data() && !reader.overrun());
        }
    }
}
