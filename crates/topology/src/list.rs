//! Lists of numbers as the kernel writes them (`0-3,8`), and sizes (`32K`, `1M`).

use std::fmt::Write;

/// Parses and returns a list such as `0-3,8,10-11`. Keeps the order; numbers may repeat; an empty text is an empty list.
///
/// Source: `cpulist` in Documentation/admin-guide/cputopology.rst of Linux (without its `:stride` form, which the kernel never writes).
pub(crate) fn parse_list(text: &str, at_most: usize) -> Result<Vec<u32>, String> {
    let number = |text: &str| {
        let number = text.trim().parse::<u32>();
        number.map_err(|_| format!("`{text}` is not a number"))
    };
    let mut list = Vec::new();
    for part in text.split(',').filter(|_| !text.trim().is_empty()) {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if first > last {
            return Err(format!("the range `{part}` runs backwards"));
        }
        if list.len() + (last - first) as usize >= at_most {
            return Err(format!("more than {at_most} numbers"));
        }
        list.extend(first..=last);
    }
    Ok(list)
}

/// Returns `list` as text in the form that [`parse_list`] reads; keeps the order.
pub(crate) fn format_list(list: &[u32]) -> String {
    let mut text = String::new();
    for run in list.chunk_by(|a, b| a.checked_add(1) == Some(*b)) {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = match run {
            [only] => write!(text, "{comma}{only}"),
            _ => write!(text, "{comma}{}-{}", run[0], run[run.len() - 1]),
        };
    }
    text
}

/// Parses and returns a number of bytes with an optional suffix K, M, G or T (powers of 1024).
pub fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['K', 'M', 'G', 'T']);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None; // `parse` alone would take a sign
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Returns a number of bytes as text, exactly, with the greatest suffix that divides it.
pub fn format_size(bytes: u64) -> String {
    let suffixes = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
    let divides = |&(shift, _): &(u32, &str)| bytes != 0 && bytes.is_multiple_of(1 << shift);
    match suffixes.into_iter().find(divides) {
        Some((shift, suffix)) => format!("{}{suffix}", bytes >> shift),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_their_order() {
        assert_eq!(
            parse_list("0-3,8, 10-11\n", 99).unwrap(),
            [0, 1, 2, 3, 8, 10, 11]
        );
        assert_eq!(parse_list("4,0-1", 99).unwrap(), [4, 0, 1]);
        assert_eq!(parse_list(" \n", 99).unwrap(), []);
        assert_eq!(format_list(&[4, 0, 1, 2, 7]), "4,0-2,7");
        assert_eq!(format_list(&[u32::MAX, 0]), "4294967295,0");
    }

    #[test]
    fn wrong_lists_are_refused() {
        for wrong in ["3-1", "x", "1,,2", "1-", "-1", "0-4294967295"] {
            assert!(parse_list(wrong, 99).is_err(), "{wrong}");
        }
        assert!(parse_list("0-9", 9).is_err());
        assert!(parse_list("0-8", 9).is_ok());
    }

    #[test]
    fn sizes_round_trip() {
        for (text, bytes) in [
            ("0", 0),
            ("7", 7),
            ("48K", 49_152),
            ("2M", 2 << 20),
            ("300M", 300 << 20),
            ("1T", 1 << 40),
        ] {
            assert_eq!(parse_size(text), Some(bytes));
            assert_eq!(format_size(bytes), text);
        }
        for wrong in [
            "",
            "K",
            "1KK",
            "+1",
            "-1",
            "1k",
            "99999999999999999999",
            "18446744073709551615K",
            "1é",
        ] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
    }
}
