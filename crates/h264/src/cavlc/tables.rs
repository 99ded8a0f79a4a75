//! The tables of clause 9.2.
//!
//! The codes are written as in the standard. Lookup tables, indexed by the next bits, are computed from them at compile time.

/// Table 9-5, coeff_token for nC below 8: a row for each TotalCoeff, in it a code for each possible TrailingOnes.
pub(super) const COEFF_TOKEN: [[&str; 17]; 3] = [
    // 0 <= nC < 2
    [
        "1",
        "000101 01",
        "00000111 000100 001",
        "000000111 00000110 0000101 00011",
        "0000000111 000000110 00000101 000011",
        "00000000111 0000000110 000000101 0000100",
        "0000000001111 00000000110 0000000101 00000100",
        "0000000001011 0000000001110 00000000101 000000100",
        "0000000001000 0000000001010 0000000001101 0000000100",
        "00000000001111 00000000001110 0000000001001 00000000100",
        "00000000001011 00000000001010 00000000001101 0000000001100",
        "000000000001111 000000000001110 00000000001001 00000000001100",
        "000000000001011 000000000001010 000000000001101 00000000001000",
        "0000000000001111 000000000000001 000000000001001 000000000001100",
        "0000000000001011 0000000000001110 0000000000001101 000000000001000",
        "0000000000000111 0000000000001010 0000000000001001 0000000000001100",
        "0000000000000100 0000000000000110 0000000000000101 0000000000001000",
    ],
    // 2 <= nC < 4
    [
        "11",
        "001011 10",
        "000111 00111 011",
        "0000111 001010 001001 0101",
        "00000111 000110 000101 0100",
        "00000100 0000110 0000101 00110",
        "000000111 00000110 00000101 001000",
        "00000001111 000000110 000000101 000100",
        "00000001011 00000001110 00000001101 0000100",
        "000000001111 00000001010 00000001001 000000100",
        "000000001011 000000001110 000000001101 00000001100",
        "000000001000 000000001010 000000001001 00000001000",
        "0000000001111 0000000001110 0000000001101 000000001100",
        "0000000001011 0000000001010 0000000001001 0000000001100",
        "0000000000111 00000000001011 0000000000110 0000000001000",
        "00000000001001 00000000001000 00000000001010 0000000000001",
        "00000000000111 00000000000110 00000000000101 00000000000100",
    ],
    // 4 <= nC < 8
    [
        "1111",
        "001111 1110",
        "001011 01111 1101",
        "001000 01100 01110 1100",
        "0001111 01010 01011 1011",
        "0001011 01000 01001 1010",
        "0001001 001110 001101 1001",
        "0001000 001010 001001 1000",
        "00001111 0001110 0001101 01101",
        "00001011 00001110 0001010 001100",
        "000001111 00001010 00001101 0001100",
        "000001011 000001110 00001001 00001100",
        "000001000 000001010 000001101 00001000",
        "0000001101 000000111 000001001 000001100",
        "0000001001 0000001100 0000001011 0000001010",
        "0000000101 0000001000 0000000111 0000000110",
        "0000000001 0000000100 0000000011 0000000010",
    ],
];

/// Table 9-5, coeff_token for nC = -1 (chroma DC).
pub(super) const COEFF_TOKEN_CHROMA_DC: [&str; 5] = [
    "01",
    "000111 1",
    "000100 000110 001",
    "000011 0000011 0000010 000101",
    "000010 00000011 00000010 0000000",
];

/// Tables 9-7 and 9-8: total_zeros, a row for each TotalCoeff from 1 on.
pub(super) const TOTAL_ZEROS: [&str; 15] = [
    "1 011 010 0011 0010 00011 00010 000011 000010 0000011 0000010 00000011 00000010 000000011 000000010 000000001",
    "111 110 101 100 011 0101 0100 0011 0010 00011 00010 000011 000010 000001 000000",
    "0101 111 110 101 0100 0011 100 011 0010 00011 00010 000001 00001 000000",
    "00011 111 0101 0100 110 101 100 0011 011 0010 00010 00001 00000",
    "0101 0100 0011 111 110 101 100 011 0010 00001 0001 00000",
    "000001 00001 111 110 101 100 011 010 0001 001 000000",
    "000001 00001 101 100 011 11 010 0001 001 000000",
    "000001 0001 00001 011 11 10 010 001 000000",
    "000001 000000 0001 11 10 001 01 00001",
    "00001 00000 001 11 10 01 0001",
    "0000 0001 001 010 1 011",
    "0000 0001 01 1 001",
    "000 001 1 01",
    "00 01 1",
    "0 1",
];

/// Table 9-9 (a): total_zeros of chroma DC blocks, a row for each TotalCoeff from 1 on.
pub(super) const TOTAL_ZEROS_CHROMA_DC: [&str; 3] = ["1 01 001 000", "1 01 00", "1 0"];

/// Table 9-10: run_before, a row for each zerosLeft from 1 on; the last is for all above 6.
pub(super) const RUN_BEFORE: [&str; 7] = [
    "1 0",
    "1 01 00",
    "11 10 01 00",
    "11 10 01 001 000",
    "11 10 011 010 001 000",
    "11 000 001 011 010 101 100",
    "111 110 101 100 011 010 001 0001 00001 000001 0000001 00000001 000000001 0000000001 00000000001",
];

/// Figure 8-8 (zig-zag): raster position of each coefficient of a 4x4 block.
pub(crate) const ZIGZAG: [u8; 16] = [0, 1, 4, 8, 5, 2, 3, 6, 9, 12, 13, 10, 7, 11, 14, 15];

/// Returns the start and the end of the first code at or behind `at` in a row of codes with blanks between them; `None` behind the last.
const fn next_code(row: &[u8], at: usize) -> Option<(usize, usize)> {
    let mut begin = at;
    while begin < row.len() && row[begin] == b' ' {
        begin += 1;
    }
    let mut end = begin;
    while end < row.len() && row[end] != b' ' {
        end += 1;
    }
    if begin < end {
        Some((begin, end))
    } else {
        None
    }
}

/// The codes of a row that are entered into a table, and the form of their entries.
#[derive(Clone, Copy)]
struct Entries {
    /// Bits that index the table.
    width: usize,
    /// Least and greatest length of the codes that are entered.
    shortest: usize,
    longest: usize,
    /// The value of the row's first code; each further code has the next value.
    first: u16,
    /// The entry is the value, plus the length of the code shifted left by this.
    shift: u32,
}

/// Sets all entries of `table` whose index begins with a code of `row`. Only the last log2(N) bits of the index are used.
const fn enter<const N: usize>(table: &mut [u16; N], row: &str, entries: Entries) {
    let row = row.as_bytes();
    let (mut at, mut value) = (0, entries.first);
    while let Some((begin, end)) = next_code(row, at) {
        let length = end - begin;
        if entries.shortest <= length && length <= entries.longest {
            let (mut prefix, mut i) = (0, begin);
            while i < end {
                prefix = prefix * 2 + (row[i] - b'0') as usize;
                i += 1;
            }
            let free = entries.width - length;
            let mut i = 0;
            while i < 1 << free {
                table[((prefix << free) + i) % N] = value + ((length as u16) << entries.shift);
                i += 1;
            }
        }
        at = end;
        value += 1;
    }
}

/// Lookup of coeff_token. Entries are TrailingOnes + 4 * TotalCoeff + 256 * length of the code.
pub(super) struct CoeffTokenTable {
    /// Codes of up to 8 bits, by the next 8 bits.
    pub(super) short: [u16; 256],
    /// Longer codes, by the last 11 of the next 16 bits; the bits before them are 0.
    pub(super) long: [u16; 2048],
}

const NO_TOKENS: CoeffTokenTable = CoeffTokenTable {
    short: [0; 256],
    long: [0; 2048],
};

/// Returns the form of the entries of coeff_tokens with TotalCoeff `total` and codes of up to 8 bits.
const fn short_tokens(total: usize) -> Entries {
    Entries {
        width: 8,
        shortest: 1,
        longest: 8,
        first: 4 * total as u16,
        shift: 8,
    }
}

const fn coeff_token_table(codes: &[&str; 17]) -> CoeffTokenTable {
    let mut table = NO_TOKENS;
    let mut total = 0;
    while total < 17 {
        let short = short_tokens(total);
        let long = Entries {
            width: 16,
            shortest: 9,
            longest: 16,
            ..short
        };
        enter(&mut table.short, codes[total], short);
        enter(&mut table.long, codes[total], long);
        total += 1;
    }
    table
}

/// Computes and returns the table of nC 8 and more (Table 9-5): six bits, TotalCoeff - 1 and TrailingOnes; 000011 is no coefficients.
const fn coeff_token_table_of_many() -> CoeffTokenTable {
    let mut table = NO_TOKENS;
    let mut i = 0;
    while i < 256 {
        let code = (i >> 2) as u16;
        let (total, ones) = if code == 3 {
            (0, 0)
        } else {
            ((code >> 2) + 1, code & 3)
        };
        if ones <= total {
            table.short[i] = 6 * 256 + 4 * total + ones;
        }
        i += 1;
    }
    table
}

const fn chroma_dc_token_table() -> [u16; 256] {
    let mut table = [0u16; 256];
    let mut total = 0;
    while total < 5 {
        enter(
            &mut table,
            COEFF_TOKEN_CHROMA_DC[total],
            short_tokens(total),
        );
        total += 1;
    }
    table
}

/// Computes tables of `ROWS` rows of codes for values below 16, indexed by the next log2(N) bits, without longer codes. Entries are the
/// value + 16 * length of the code.
const fn value_tables<const N: usize, const ROWS: usize>(codes: [&str; ROWS]) -> [[u8; N]; ROWS] {
    let width = N.trailing_zeros() as usize;
    let mut tables = [[0; N]; ROWS];
    let mut row = 0;
    while row < ROWS {
        let entries = Entries {
            width,
            shortest: 1,
            longest: width,
            first: 0,
            shift: 4,
        };
        let mut table = [0; N];
        enter(&mut table, codes[row], entries);
        let mut i = 0;
        while i < N {
            tables[row][i] = table[i] as u8;
            i += 1;
        }
        row += 1;
    }
    tables
}

pub(super) static COEFF_TOKEN_LOOKUP: [CoeffTokenTable; 4] = [
    coeff_token_table(&COEFF_TOKEN[0]),
    coeff_token_table(&COEFF_TOKEN[1]),
    coeff_token_table(&COEFF_TOKEN[2]),
    coeff_token_table_of_many(),
];
/// By nC, the index of its table in [`COEFF_TOKEN_LOOKUP`].
pub(super) static COEFF_TOKEN_OF_CONTEXT: [u8; 17] =
    [0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3];
pub(super) static COEFF_TOKEN_CHROMA_DC_LOOKUP: [u16; 256] = chroma_dc_token_table();
/// For TotalCoeff 1, whose codes are the longest; the next table is for TotalCoeff 1 to 15.
pub(super) static TOTAL_ZEROS_OF_ONE_LOOKUP: [[u8; 512]; 1] = value_tables([TOTAL_ZEROS[0]]);
pub(super) static TOTAL_ZEROS_LOOKUP: [[u8; 64]; 15] = value_tables(TOTAL_ZEROS);
pub(super) static TOTAL_ZEROS_CHROMA_DC_LOOKUP: [[u8; 8]; 3] = value_tables(TOTAL_ZEROS_CHROMA_DC);
/// For zerosLeft from 1 on. The last row has no entry at 000: the codes that begin with it are longer.
pub(super) static RUN_BEFORE_LOOKUP: [[u8; 8]; 7] = value_tables(RUN_BEFORE);
