//! The content of a sweep file.

use std::collections::BTreeSet;
use std::fmt::Display;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The longest file that is read: real ones have a few kilobytes.
const LONGEST_FILE: usize = 1 << 20;

/// A value and the line that it stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) line: usize,
}

/// Lists of which a sweep runs the product. A list that the file does not have is empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) traces: Vec<At<String>>,
    pub(super) groups: Vec<At<String>>,
    pub(super) machines: Vec<At<String>>,
    /// Keys of machines, in the order of the file, with the values that each of them takes.
    pub(super) set: Vec<(String, Vec<At<String>>)>,
    pub(super) cores: Vec<At<u16>>,
    pub(super) policies: Vec<At<String>>,
    pub(super) seeds: Vec<At<u64>>,
}

/// The keys of a sweep file.
const KEYS: &str = "traces, groups, machines, set, cores, policies, seeds";

/// Reads a sweep file and returns its lists; messages begin with `file` and the line.
pub(super) fn parse(text: &str, file: &str) -> Result<Spec, String> {
    let reader = Reader { text, file };
    if text.len() > LONGEST_FILE {
        return Err(format!(
            "{file}:1: {} bytes; a sweep file has at most {LONGEST_FILE}",
            text.len()
        ));
    }
    let root = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        format!("{file}:{}: not TOML: {}", reader.line(at), error.message())
    })?;
    let mut spec = Spec::default();
    for (key, value) in root.get_ref() {
        match &**key.get_ref() {
            "traces" => spec.traces = reader.list(key, value, Reader::text)?,
            "groups" => spec.groups = reader.list(key, value, Reader::text)?,
            "machines" => spec.machines = reader.list(key, value, Reader::text)?,
            "policies" => spec.policies = reader.list(key, value, Reader::text)?,
            "cores" => spec.cores = reader.list(key, value, Reader::cores)?,
            "seeds" => spec.seeds = reader.list(key, value, Reader::whole)?,
            "set" => {
                let DeValue::Table(table) = value.get_ref() else {
                    return Err(reader.wrong(key, "`set` is a table of keys of machines: [set]"));
                };
                let mut found = Vec::new();
                reader.set(table, "", &mut found)?;
                found.sort_by_key(|(place, ..)| *place);
                spec.set = found
                    .into_iter()
                    .map(|(_, key, values)| (key, values))
                    .collect();
            }
            other => {
                let what = format!("unknown key `{other}`; a sweep file has {KEYS}");
                return Err(reader.wrong(key, what));
            }
        }
    }
    for (name, list) in [("traces", &spec.traces), ("machines", &spec.machines)] {
        if list.is_empty() {
            return Err(format!(
                "{file}:1: `{name}` is missing; write {name} = [\"...\"]"
            ));
        }
    }
    Ok(spec)
}

struct Reader<'a> {
    text: &'a str,
    file: &'a str,
}

impl Reader<'_> {
    /// Returns the line, from 1, of the byte `at`.
    fn line(&self, at: usize) -> usize {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        before.iter().filter(|&&byte| byte == b'\n').count() + 1
    }

    /// Returns the error message about `place`.
    fn wrong<T>(&self, place: &Spanned<T>, what: impl Display) -> String {
        format!("{}:{}: {what}", self.file, self.line(place.span().start))
    }

    /// Returns a list of distinct values; one value may stand for a list of it.
    fn list<T: Clone + Display>(
        &self,
        key: &Spanned<impl Display>,
        value: &Spanned<DeValue<'_>>,
        read: impl Fn(&Self, &Spanned<DeValue<'_>>) -> Result<T, String>,
    ) -> Result<Vec<At<T>>, String> {
        let one = |value: &Spanned<DeValue<'_>>| {
            Ok::<_, String>(At {
                value: read(self, value)?,
                line: self.line(value.span().start),
            })
        };
        let DeValue::Array(items) = value.get_ref() else {
            return Ok(vec![one(value)?]);
        };
        let mut seen = BTreeSet::new();
        let mut list: Vec<At<T>> = Vec::new();
        for item in items {
            let found = one(item)?;
            if !seen.insert(found.value.to_string()) {
                return Err(self.wrong(item, format!("`{}` is in this list twice", found.value)));
            }
            list.push(found);
        }
        if list.is_empty() {
            let what = format!("`{}` is empty: nothing would run", key.get_ref());
            return Err(self.wrong(key, what));
        }
        Ok(list)
    }

    fn text(&self, value: &Spanned<DeValue<'_>>) -> Result<String, String> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            _ => Err(self.wrong(value, "this must be a text in quotes")),
        }
    }

    fn cores(&self, value: &Spanned<DeValue<'_>>) -> Result<u16, String> {
        let cores = self.number(value, 1, u16::MAX.into())?;
        Ok(cores as u16)
    }

    /// Returns a whole number: a seed, or a value of a machine.
    fn whole(&self, value: &Spanned<DeValue<'_>>) -> Result<u64, String> {
        self.number(value, 0, u64::MAX)
    }

    fn number(&self, value: &Spanned<DeValue<'_>>, min: u64, max: u64) -> Result<u64, String> {
        let number = match value.get_ref() {
            DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        let what = format!("this must be a number from {min} to {max}");
        number
            .filter(|number| (min..=max).contains(number))
            .ok_or_else(|| self.wrong(value, what))
    }

    /// Adds keys of machines, with their places and values, to `found`. `l2.size` is the key `size` in the table `l2` for TOML, if it is
    /// not in quotes.
    fn set(
        &self,
        table: &DeTable<'_>,
        before: &str,
        found: &mut Vec<(usize, String, Vec<At<String>>)>,
    ) -> Result<(), String> {
        for (key, value) in table {
            let name = format!("{before}{}", key.get_ref());
            if let DeValue::Table(inner) = value.get_ref() {
                self.set(inner, &format!("{name}."), found)?;
                continue;
            }
            if let Some((own, list)) = [("cores", "cores"), ("seed", "seeds")]
                .into_iter()
                .find(|(own, _)| name == *own)
            {
                let what =
                    format!("`{own}` has a list of its own: write {list} = [...] above [set]");
                return Err(self.wrong(key, what));
            }
            if found.iter().any(|(_, other, _)| *other == name) {
                return Err(self.wrong(key, format!("`{name}` is set twice")));
            }
            found.push((key.span().start, name, self.list(key, value, Reader::word)?));
        }
        Ok(())
    }

    /// Returns a value as `--set` takes it.
    fn word(&self, value: &Spanned<DeValue<'_>>) -> Result<String, String> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(_) => Ok(self.whole(value)?.to_string()),
            DeValue::Float(number) => Ok(number.as_str().to_owned()),
            DeValue::Boolean(flag) => Ok(flag.to_string()),
            _ => Err(self.wrong(value, "this must be a number, a text or true or false")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_single_values() {
        let text = "traces = ['a.tnt', 'b.tnb']\nmachines = 'toshiba'\ncores = [1, 0x2]\nseeds = 7\n\
                    [set]\ndispatch_cycles = [0, 5]\nl2.size = '64K'\n\"l1i.ways\" = [1,\n 2]\n";
        let spec = parse(text, "s.toml").unwrap();
        let values = |list: &[At<String>]| {
            list.iter()
                .map(|at| (at.value.clone(), at.line))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            values(&spec.traces),
            [("a.tnt".to_owned(), 1), ("b.tnb".to_owned(), 1)]
        );
        assert_eq!(values(&spec.machines), [("toshiba".to_owned(), 2)]);
        assert_eq!(
            spec.cores.iter().map(|at| at.value).collect::<Vec<_>>(),
            [1, 2]
        );
        assert_eq!(
            (spec.seeds[0].value, spec.seeds[0].line, spec.policies.len()),
            (7, 4, 0)
        );
        let keys: Vec<_> = spec
            .set
            .iter()
            .map(|(key, values)| (key.as_str(), values.len()))
            .collect();
        assert_eq!(
            keys,
            [("dispatch_cycles", 2), ("l2.size", 1), ("l1i.ways", 2)]
        );
        assert_eq!(spec.set[2].1[1].line, 9);
    }

    #[test]
    fn faults_have_file_and_line() {
        const GOOD: &str = "traces = 'a'\nmachines = 'b'\n";
        for (text, expected) in [
            (
                "",
                "s.toml:1: `traces` is missing; write traces = [\"...\"]",
            ),
            (
                "traces = 'a'",
                "s.toml:1: `machines` is missing; write machines = [\"...\"]",
            ),
            (
                "traces = 'a'\ntraces = 'b'",
                "s.toml:2: not TOML: duplicate key",
            ),
            ("\ntraces = [1]", "s.toml:2: this must be a text in quotes"),
            (
                "traces = []",
                "s.toml:1: `traces` is empty: nothing would run",
            ),
            (
                "traces = ['a',\n'b',\n'a']",
                "s.toml:3: `a` is in this list twice",
            ),
            (
                "cores = 0",
                "s.toml:1: this must be a number from 1 to 65535",
            ),
            (
                "cores = [1, -1]",
                "s.toml:1: this must be a number from 1 to 65535",
            ),
            (
                "seeds = 1.5",
                "s.toml:1: this must be a number from 0 to 18446744073709551615",
            ),
            (
                "polices = 'a'",
                "s.toml:1: unknown key `polices`; a sweep file has traces, groups, machines, set, cores, policies, seeds",
            ),
            (
                "set = 3",
                "s.toml:1: `set` is a table of keys of machines: [set]",
            ),
            (
                "[set]\ncores = 3",
                "s.toml:2: `cores` has a list of its own: write cores = [...] above [set]",
            ),
            (
                "[set]\nl2.size = '1K'\n\"l2.size\" = '2K'",
                "s.toml:3: `l2.size` is set twice",
            ),
            (
                "[set]\na = [[1]]",
                "s.toml:2: this must be a number, a text or true or false",
            ),
            ("traces = \u{0}", "s.toml:1: not TOML: "),
        ] {
            let error = parse(text, "s.toml").unwrap_err();
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
        assert!(parse(GOOD, "s.toml").is_ok());
    }
}
