//! Rust text reduced to what a rule about code may look at.

/// The text with every comment, string and character literal blanked, so that columns and lines stay.
pub(super) fn without_comments_and_strings(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut i = 0;
    while i < chars.len() {
        let end = literal_end(&chars, i);
        if end == i {
            out.push(chars[i]);
            i += 1;
            continue;
        }
        out.extend(
            chars[i..end]
                .iter()
                .map(|&c| if c == '\n' { '\n' } else { ' ' }),
        );
        i = end;
    }
    out
}

/// Where the comment or literal that begins at `at` ends; `at` itself when none does.
fn literal_end(chars: &[char], at: usize) -> usize {
    let next = |i: usize| chars.get(at + i).copied().unwrap_or('\0');
    match chars[at] {
        '/' if next(1) == '/' => (at..chars.len())
            .find(|&i| chars[i] == '\n')
            .unwrap_or(chars.len()),
        '/' if next(1) == '*' => block_comment_end(chars, at),
        '"' => quoted_end(chars, at + 1, '"'),
        'r' if matches!(next(1), '"' | '#') && !continues_word(chars, at) => {
            raw_string_end(chars, at)
        }
        // A lifetime has no closing quote two characters on.
        '\'' if next(1) == '\\' || next(2) == '\'' => quoted_end(chars, at + 1, '\''),
        _ => at,
    }
}

fn continues_word(chars: &[char], at: usize) -> bool {
    at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_') && chars[at - 1] != 'b'
}

fn quoted_end(chars: &[char], mut i: usize, quote: char) -> usize {
    while i < chars.len() && chars[i] != quote {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    (i + 1).min(chars.len())
}

/// Block comments nest.
fn block_comment_end(chars: &[char], at: usize) -> usize {
    let (mut depth, mut i) = (0, at);
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') if depth == 1 => return i + 2,
            ('*', '/') => depth -= 1,
            _ => {
                i += 1;
                continue;
            }
        }
        i += 2;
    }
    chars.len()
}

fn raw_string_end(chars: &[char], at: usize) -> usize {
    let hashes = chars[at + 1..].iter().take_while(|&&c| c == '#').count();
    let open = at + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return at; // a raw identifier
    }
    let closes = |i: &usize| {
        chars[*i] == '"'
            && chars[i + 1..]
                .iter()
                .take(hashes)
                .filter(|&&c| c == '#')
                .count()
                == hashes
    };
    (open + 1..chars.len())
        .find(closes)
        .map_or(chars.len(), |i| i + 1 + hashes)
}

/// The code with its `#[cfg(test)] mod ... { }` blocks blanked, as rustfmt lays them out.
pub(super) fn without_tests(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut lines = code.lines().peekable();
    while let Some(line) = lines.next() {
        let module = lines.peek().is_some_and(|next| {
            next.trim_start().contains("mod ") && next.trim_end().ends_with('{')
        });
        if line.trim() == "#[cfg(test)]" && module {
            let indent = &line[..line.len() - line.trim_start().len()];
            let end = format!("{indent}}}");
            out.push('\n');
            for skipped in lines.by_ref() {
                out.push('\n');
                if skipped.trim_end() == end {
                    break;
                }
            }
        } else {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// Whether `text` holds `word`, not as a part of a longer name; a word may contain `::` and end with `!`.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(i, _)| {
        let before = text[..i].chars().next_back().is_some_and(part);
        let after = text[i + word.len()..].chars().next().is_some_and(part);
        !before && (!after || word.ends_with([':', '!']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_blanked() {
        let cases = [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"x("a\"b", c)"#, "x(      , c)"),
            (r##"r#"a"b"# + br"x" + r"y""##, "         + b     +     "),
            ("'a' 'x: &'a '\\n' '\\'' z", "    'x: &'a           z"),
            ("for_r\"x\"", "for_r   "),
            ("r#type", "r#type"),
            ("\"open", "     "),
            ("/* open", "       "),
        ];
        for (text, expected) in cases {
            assert_eq!(without_comments_and_strings(text), expected, "{text}");
        }
    }

    #[test]
    fn test_modules_are_blanked() {
        let code = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {\n    }\n}\nfn c() {}\n#[cfg(test)]\nuse x;\nfn d() {}\n";
        let left = without_tests(code);
        assert_eq!(left.lines().count(), code.lines().count());
        assert!(!left.contains("fn b"));
        assert!(
            left.contains("fn a")
                && left.contains("fn c")
                && left.contains("use x")
                && left.contains("fn d")
        );
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("unsafe { }", "unsafe"));
        assert!(!has_word("forbid(unsafe_code)", "unsafe"));
        assert!(!has_word("an_unsafe", "unsafe"));
        assert!(has_word("std::time::Duration", "std::time"));
        assert!(has_word("println!(1)", "println!"));
        assert!(!has_word("eprintln!(1)", "println!"));
    }
}
