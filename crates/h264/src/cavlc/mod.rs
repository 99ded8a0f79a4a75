//! Clause 9.2: CAVLC, the codes of transform coefficients.

mod tables;

use crate::bits::BitReader;
use crate::error::Fault;
pub(crate) use tables::ZIGZAG;
use tables::*;

/// Why a block cannot be read; small, so that results stay in registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    NoCode,
    TooManyCoefficients,
    TooManyZeros,
}

impl From<Broken> for Fault {
    #[cold]
    fn from(broken: Broken) -> Fault {
        Fault::Syntax(match broken {
            Broken::NoCode => "no such CAVLC code",
            Broken::TooManyCoefficients => "too many coefficients",
            Broken::TooManyZeros => "too many zeros in front of coefficients",
        })
    }
}

/// The number of coefficients of a block, and how many of them are trailing ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CoeffToken {
    total: usize,
    ones: usize,
}

/// Bits requested at the start of a block: enough for the longest coeff_token and three signs.
const TOKEN_BITS: u32 = 19;

impl CoeffToken {
    /// Returns the token of a table's entry and skips its code.
    #[inline(always)]
    fn take(reader: &mut BitReader<'_>, entry: u16) -> Result<Self, Broken> {
        if entry == 0 {
            return Err(Broken::NoCode);
        }
        reader.skip(u32::from(entry >> 8));
        Ok(CoeffToken {
            total: usize::from(entry as u8 >> 2),
            ones: usize::from(entry & 3),
        })
    }

    /// Reads and returns the token of a luma or chroma AC block; `context` is nC. Requests [`TOKEN_BITS`].
    #[inline(always)]
    fn read(reader: &mut BitReader<'_>, context: u8) -> Result<Self, Broken> {
        reader.need(TOKEN_BITS);
        let table = COEFF_TOKEN_OF_CONTEXT[usize::from(context.min(16))];
        let table = &COEFF_TOKEN_LOOKUP[usize::from(table & 3)];
        let next = reader.peek(16) as usize;
        let entry = match table.short[next >> 8] {
            0 if next < 2048 => table.long[next],
            entry => entry,
        };
        CoeffToken::take(reader, entry)
    }

    /// Reads and returns the token of a chroma DC block. Requests [`TOKEN_BITS`].
    #[inline(always)]
    fn read_chroma_dc(reader: &mut BitReader<'_>) -> Result<Self, Broken> {
        reader.need(TOKEN_BITS);
        let entry = COEFF_TOKEN_CHROMA_DC_LOOKUP[reader.peek(8) as usize];
        CoeffToken::take(reader, entry)
    }
}

/// The longest level_prefix that is accepted. Profiles with 8 bits a sample need no longer one.
const LONGEST_PREFIX: u32 = 20;
/// By suffixLength, the magnitude of a level above which suffixLength grows (9.2.2.1).
const GROWS_ABOVE: [u32; 7] = [3, 3, 6, 12, 24, 48, u32::MAX];

/// Reads level_prefix and level_suffix and returns levelCode (9.2.2.1), without the increment of the first level.
#[inline(always)]
fn level_code(reader: &mut BitReader<'_>, suffix_length: u32) -> Result<u32, Broken> {
    reader.need(2 * LONGEST_PREFIX - 2);
    let prefix = reader.word().leading_zeros();
    if prefix < 14 + u32::from(suffix_length > 0) {
        let rest = reader.word() << (prefix + 1);
        reader.skip(prefix + 1 + suffix_length);
        // In two shifts, because one shift by 64 (`suffix_length` 0) overflows.
        return Ok((prefix << suffix_length) + (rest >> 1 >> (63 - suffix_length)) as u32);
    }
    if prefix > LONGEST_PREFIX {
        return Err(Broken::NoCode);
    }
    reader.skip(prefix + 1);
    let suffix_size = if prefix == 14 { 4 } else { prefix - 3 };
    let suffix = reader.peek(suffix_size);
    reader.skip(suffix_size);
    let mut code = (prefix.min(15) << suffix_length) + suffix;
    if prefix >= 15 {
        code += if suffix_length == 0 { 15 } else { 0 };
        // 0 for prefix 15, the longest one of the baseline profile.
        code += (1 << (prefix - 3)) - 4096;
    }
    Ok(code)
}

/// Reads the levels (9.2.2), highest frequency first, directly behind the token.
#[inline(always)]
fn levels(
    reader: &mut BitReader<'_>,
    token: CoeffToken,
    out: &mut [i16; 16],
) -> Result<(), Broken> {
    let CoeffToken { total, ones } = token;
    let signs = reader.peek(3);
    out[0] = 1 - (signs >> 1 & 2) as i16;
    out[1] = 1 - (signs & 2) as i16;
    out[2] = 1 - (signs << 1 & 2) as i16;
    reader.skip(ones as u32);
    let mut suffix_length = u32::from(total > 10 && ones < 3);
    let mut more = if ones < 3 { 2 } else { 0 };
    for level in out.iter_mut().take(total).skip(ones) {
        let code = level_code(reader, suffix_length)? + more;
        more = 0;
        let magnitude = (code + 2) >> 1;
        let value = if code & 1 == 0 {
            magnitude as i32
        } else {
            -(magnitude as i32)
        };
        *level = value.clamp(i32::from(i16::MIN), i32::from(i16::MAX)) as i16;
        let grows = magnitude > GROWS_ABOVE[suffix_length as usize];
        suffix_length = suffix_length.max(1) + u32::from(grows);
    }
    Ok(())
}

/// Reads and returns total_zeros of a block with `total` coefficients, fewer than the block can have.
#[inline(always)]
fn total_zeros(reader: &mut BitReader<'_>, total: usize) -> Result<usize, Broken> {
    reader.need(9);
    let entry = if total == 1 {
        TOTAL_ZEROS_OF_ONE_LOOKUP[0][reader.peek(9) as usize]
    } else {
        TOTAL_ZEROS_LOOKUP[total - 1][reader.peek(6) as usize]
    };
    if entry == 0 {
        return Err(Broken::NoCode);
    }
    reader.skip(u32::from(entry >> 4));
    Ok(usize::from(entry & 15))
}

/// Reads and returns run_before with `zeros` > 0 zeros left.
#[inline(always)]
fn run_before(reader: &mut BitReader<'_>, zeros: usize) -> Result<usize, Broken> {
    reader.need(11);
    let entry = RUN_BEFORE_LOOKUP[zeros.min(7) - 1][reader.peek(3) as usize];
    if entry != 0 {
        reader.skip(u32::from(entry >> 4));
        return Ok(usize::from(entry & 15));
    }
    // The codes of 7 to 14 consist of three to ten zeros and a one.
    let leading = reader.word().leading_zeros();
    let run = leading as usize + 4;
    if leading > 10 || run > zeros {
        return Err(Broken::NoCode);
    }
    reader.skip(leading + 1);
    Ok(run)
}

/// Calls `put` for each level with its position in scanning order, from `last` on backwards, and reads the runs of zeros between them.
#[inline(always)]
fn place(
    reader: &mut BitReader<'_>,
    level: &[i16],
    last: usize,
    mut zeros: usize,
    mut put: impl FnMut(usize, i16),
) -> Result<(), Broken> {
    let mut at = last;
    put(at, level[0]);
    for &level in &level[1..] {
        if zeros > 0 {
            let run = run_before(reader, zeros)?;
            zeros -= run;
            at -= run;
        }
        at -= 1;
        put(at, level);
    }
    Ok(())
}

/// The result of [`block`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    /// TotalCoeff.
    pub(crate) total: u8,
    /// Whether there is a coefficient other than the DC coefficient.
    pub(crate) ac: bool,
}

/// Reads a block and stores its levels at their raster positions in `out`; `context` is nC.
///
/// `start` is 1 for AC blocks, whose DC coefficient belongs to another block, else 0. If the block has coefficients, `out` is first cleared
/// if `clear` is set. If it has none, `out` stays unchanged.
#[inline(never)]
pub(crate) fn block(
    reader: &mut BitReader<'_>,
    context: u8,
    start: usize,
    out: &mut [i16; 16],
    clear: bool,
) -> Result<Block, Broken> {
    // A local copy can stay in registers.
    let mut r = *reader;
    let token = CoeffToken::read(&mut r, context)?;
    let total = token.total;
    if total == 0 {
        *reader = r;
        return Ok(Block {
            total: 0,
            ac: false,
        });
    }
    let room = 16 - start;
    if total > room {
        return Err(Broken::TooManyCoefficients);
    }
    if clear {
        *out = [0; 16];
    }
    let mut level = [0; 16];
    levels(&mut r, token, &mut level)?;
    let mut zeros = 0;
    if total < room {
        zeros = total_zeros(&mut r, total)?;
        if total + zeros > room {
            return Err(Broken::TooManyZeros);
        }
    }
    let last = start + total + zeros - 1;
    place(&mut r, &level[..total], last, zeros, |at, level| {
        out[usize::from(ZIGZAG[at & 15])] = level;
    })?;
    *reader = r;
    Ok(Block {
        total: total as u8,
        ac: last > 0,
    })
}

/// Reads a chroma DC block. Returns its levels in raster order and whether it has any.
pub(crate) fn chroma_dc(reader: &mut BitReader<'_>) -> Result<([i16; 4], bool), Broken> {
    let mut r = *reader;
    let mut out = [0; 4];
    let token = CoeffToken::read_chroma_dc(&mut r)?;
    let total = token.total.min(4);
    if total > 0 {
        let mut level = [0; 16];
        levels(&mut r, token, &mut level)?;
        let mut zeros = 0;
        if total < 4 {
            let entry = TOTAL_ZEROS_CHROMA_DC_LOOKUP[total - 1];
            r.need(3);
            let entry = entry[r.peek(3) as usize];
            r.skip(u32::from(entry >> 4));
            zeros = usize::from(entry & 15);
        }
        let last = total + zeros - 1;
        place(&mut r, &level[..total], last, zeros, |at, level| {
            out[at & 3] = level;
        })?;
    }
    *reader = r;
    Ok((out, total > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nal::Rbsp;

    fn lists() -> Vec<Vec<&'static str>> {
        let join = |rows: &[&'static str]| rows.iter().flat_map(|row| row.split(' ')).collect();
        let mut lists: Vec<Vec<&str>> = COEFF_TOKEN.iter().map(|table| join(table)).collect();
        lists.push(join(&COEFF_TOKEN_CHROMA_DC));
        for rows in [&TOTAL_ZEROS[..], &TOTAL_ZEROS_CHROMA_DC, &RUN_BEFORE] {
            lists.extend(rows.iter().map(|row| join(&[row])));
        }
        lists
    }

    /// Returns the codes of a row.
    fn codes(row: &'static str) -> Vec<&'static str> {
        row.split(' ').collect()
    }

    /// A slow form of all tables: returns which of the `codes` the 16 bits `next` begin with, and its length.
    fn find(codes: &[&str], next: u32) -> Option<(usize, u32)> {
        let next = format!("{next:016b}");
        let at = codes.iter().position(|code| next.starts_with(code))?;
        Some((at, codes[at].len() as u32))
    }

    /// Returns a payload that begins with the 16 bits `next` and is no shorter than any block.
    fn payload(next: u32) -> Rbsp {
        let mut writer = Writer::default();
        writer.bits(next, 16);
        writer.bits(u32::MAX, 32);
        writer.rbsp()
    }

    /// Checks that `read` returns what `codes` define, for each combination of 16 bits.
    fn check_codes<T: PartialEq + std::fmt::Debug>(
        codes: &[&str],
        value: impl Fn(usize) -> T,
        read: impl Fn(&mut BitReader<'_>) -> Result<T, Broken>,
    ) {
        for next in 0..1 << 16 {
            let rbsp = payload(next);
            let mut reader = BitReader::new(&rbsp);
            let found = read(&mut reader);
            match find(codes, next) {
                None => assert_eq!(found, Err(Broken::NoCode), "{next:016b}"),
                Some((at, length)) => {
                    assert_eq!(found, Ok(value(at)), "{next:016b}");
                    let mut rest = BitReader::new(&rbsp);
                    rest.bits(length);
                    reader.need(20);
                    rest.need(20);
                    assert_eq!(reader.peek(20), rest.peek(20), "{next:016b}");
                }
            }
        }
    }

    /// Returns the codes of a table of coeff_token and the tokens that they stand for.
    fn tokens(rows: &[&'static str]) -> (Vec<&'static str>, Vec<CoeffToken>) {
        let all = rows.iter().enumerate().flat_map(|(total, row)| {
            let token = move |(ones, code)| (code, CoeffToken { total, ones });
            codes(row).into_iter().enumerate().map(token)
        });
        all.unzip()
    }

    #[test]
    fn coeff_tokens_of_all_bit_patterns_are_those_of_the_table() {
        for context in 0..8 {
            let (codes, values) = tokens(&COEFF_TOKEN[[0, 0, 1, 1, 2, 2, 2, 2][context]]);
            check_codes(
                &codes,
                |at| values[at],
                |reader| CoeffToken::read(reader, context as u8),
            );
        }
        let (codes, values) = tokens(&COEFF_TOKEN_CHROMA_DC);
        check_codes(&codes, |at| values[at], CoeffToken::read_chroma_dc);
        let many: Vec<(String, CoeffToken)> = (0..=16)
            .flat_map(|total: usize| (0..=total.min(3)).map(move |ones| (total, ones)))
            .map(|(total, ones)| match total {
                0 => ("000011".to_string(), CoeffToken { total, ones }),
                _ => {
                    let code = format!("{:04b}{ones:02b}", total - 1);
                    (code, CoeffToken { total, ones })
                }
            })
            .collect();
        let codes: Vec<&str> = many.iter().map(|(code, _)| code.as_str()).collect();
        for context in 8..=16 {
            check_codes(
                &codes,
                |at| many[at].1,
                |reader| CoeffToken::read(reader, context),
            );
        }
    }

    #[test]
    fn zeros_and_runs_of_all_bit_patterns_are_those_of_the_tables() {
        for (row, list) in TOTAL_ZEROS.iter().enumerate() {
            check_codes(&codes(list), |at| at, |reader| total_zeros(reader, row + 1));
        }
        for zeros in 1..16 {
            let mut codes = codes(RUN_BEFORE[zeros.min(7) - 1]);
            codes.truncate(zeros + 1);
            check_codes(&codes, |at| at, |reader| run_before(reader, zeros));
        }
    }

    /// Returns what [`level_code`] returns, more slowly: 9.2.2.1 bit by bit.
    fn slow_level_code(reader: &mut BitReader<'_>, suffix_length: u32) -> Result<u32, Broken> {
        let mut prefix = 0;
        while prefix <= LONGEST_PREFIX && reader.bits(1) == 0 {
            prefix += 1;
        }
        if prefix > LONGEST_PREFIX {
            return Err(Broken::NoCode);
        }
        let size = match prefix {
            14 if suffix_length == 0 => 4,
            15.. => prefix - 3,
            _ => suffix_length,
        };
        let suffix = (0..size).fold(0, |suffix, _| 2 * suffix + reader.bits(1));
        let mut code = (prefix.min(15) << suffix_length) + suffix;
        if prefix >= 15 && suffix_length == 0 {
            code += 15;
        }
        if prefix >= 16 {
            code += (1 << (prefix - 3)) - 4096;
        }
        Ok(code)
    }

    #[test]
    fn levels_of_all_prefixes_are_those_of_the_definition() {
        for suffix_length in 0..7 {
            for prefix in 0..32 {
                for suffix in (0..1 << 11).chain((1 << 11..1 << 17).step_by(97)) {
                    let mut writer = Writer::default();
                    writer.bits(1, prefix + 1);
                    writer.bits(suffix << (32 - 17), 32);
                    writer.bits(suffix, 17);
                    let rbsp = writer.rbsp();
                    let (mut fast, mut slow) = (BitReader::new(&rbsp), BitReader::new(&rbsp));
                    let codes = (
                        level_code(&mut fast, suffix_length),
                        slow_level_code(&mut slow, suffix_length),
                    );
                    assert_eq!(codes.0, codes.1, "{prefix} {suffix_length} {suffix}");
                    if codes.0.is_ok() {
                        assert_eq!(fast.byte_position(), slow.byte_position());
                        assert_eq!(fast.bits(8), slow.bits(8));
                    }
                }
            }
        }
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
            // Kraft's sum in units of 2^-16. The codes are nearly complete: only words of many zeros are unused.
            let sum: u32 = list.iter().map(|code| 1 << (16 - code.len())).sum();
            assert!(((1 << 16) - 128..=1 << 16).contains(&sum), "{sum} {list:?}");
        }
    }

    #[test]
    fn tables_have_a_code_for_each_value() {
        for total in 0..17 {
            let possible = total.min(3) + 1;
            let count = |rows: &[&'static str]| codes(rows[total]).len();
            assert!(COEFF_TOKEN.iter().all(|table| count(table) == possible));
            assert!(total > 4 || count(&COEFF_TOKEN_CHROMA_DC) == possible);
        }
        let lengths = |rows: &[&'static str]| -> Vec<usize> {
            rows.iter().map(|row| codes(row).len()).collect()
        };
        assert!(lengths(&TOTAL_ZEROS).into_iter().eq((2..=16).rev()));
        assert_eq!(lengths(&TOTAL_ZEROS_CHROMA_DC), [4, 3, 2]);
        assert_eq!(lengths(&RUN_BEFORE), [2, 3, 4, 5, 6, 7, 15]);
    }

    /// Writes blocks as bits, directly from the tables and from 9.2: the inverse of the reader.
    #[derive(Default)]
    struct Writer(String);

    impl Writer {
        fn bits(&mut self, value: u32, n: u32) {
            (0..n)
                .rev()
                .for_each(|bit| self.0.push(if value >> bit & 1 == 1 { '1' } else { '0' }));
        }

        fn rbsp(&self) -> Rbsp {
            Rbsp::from_bits(&self.0)
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

        /// Writes a block of coefficients in scanning order; `context` is nC (-1 for chroma DC).
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
                -1 => codes(COEFF_TOKEN_CHROMA_DC[total])[ones].to_string(),
                0..8 => codes(COEFF_TOKEN[[0, 0, 1, 1, 2, 2, 2, 2][context as usize]][total])[ones]
                    .to_string(),
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
                let tables: &[&'static str] = if context == -1 {
                    &TOTAL_ZEROS_CHROMA_DC
                } else {
                    &TOTAL_ZEROS
                };
                self.0.push_str(codes(tables[total - 1])[zeros]);
            }
            for pair in found.windows(2).rev().filter(|_| total > 1) {
                let run = pair[1] - pair[0] - 1;
                if zeros > 0 {
                    self.0.push_str(codes(RUN_BEFORE[zeros.min(7) - 1])[run]);
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
                // Values that must not survive.
                let mut out = [7; 16];
                let start = 16 - size;
                let found =
                    super::block(&mut reader, context as u8, start, &mut out, true).unwrap();
                let place = |i: usize| out[usize::from(ZIGZAG[i])];
                if found.total == 0 {
                    assert_eq!(out, [7; 16]);
                    out = [0; 16];
                } else {
                    assert_eq!(found.ac, (start.max(1)..16).any(|i| place(i) != 0));
                }
                assert_eq!(
                    usize::from(found.total),
                    out.iter().filter(|&&level| level != 0).count()
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
