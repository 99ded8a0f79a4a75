//! A TOML file as a tree in which every value has its line, and the reader that reads a table key by key.

use super::MachineError;
use crate::spelling::meant;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use tanada_topology::parse_size;
use toml::de::{DeTable, DeValue};

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the file, at this line (counted from 1).
    Line(u32),
    /// On the command line: the flag and what follows it.
    Override(String),
}

/// One value and its origin.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    value: Value,
    place: Place,
}

#[derive(Clone, Debug)]
enum Value {
    Text(String),
    /// `None`: the number does not fit into 64 unsigned bits.
    Integer(Option<u64>),
    Array(Vec<Item>),
    Table(Table),
    /// From an override: a number or a word, depending on its key.
    Given(String),
    /// What no key takes: a fraction, a flag, a date.
    Other,
}

/// The keys of a table in the order of the file.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    entries: Vec<(String, Item)>,
    place: Place,
}

/// Returns the line of a byte, counted from 1; `ends` are the offsets of the line ends, in ascending order.
fn line_of(ends: &[usize], byte: usize) -> u32 {
    let lines = ends.partition_point(|&end| end < byte) + 1;
    u32::try_from(lines).unwrap_or(u32::MAX)
}

/// Longest machine file that is read: real ones have a few kilobytes, and longer ones that are wrong are refused at once.
pub(crate) const LONGEST_FILE: usize = 64 << 10;

/// Reads TOML and returns its top level.
pub(crate) fn parse(text: &str, file: &str) -> Result<Table, MachineError> {
    let error = |line, message: String| MachineError::new(file, &Place::Line(line), message);
    if text.len() > LONGEST_FILE {
        let message = format!("no machine file: longer than {LONGEST_FILE} bytes");
        return Err(error(1, message));
    }
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    let root = DeTable::parse(text).map_err(|wrong| {
        let line = line_of(&ends, wrong.span().map_or(0, |span| span.start));
        error(line, format!("not TOML: {}", wrong.message()))
    })?;
    Ok(table(root.get_ref(), Place::Line(1), &ends))
}

fn table(from: &DeTable<'_>, place: Place, ends: &[usize]) -> Table {
    let mut keys: Vec<_> = from.iter().collect();
    keys.sort_by_key(|(key, _)| key.span().start);
    let entries = keys.into_iter().map(|(key, value)| {
        let line = line_of(ends, key.span().start);
        let item = item(value.get_ref(), line, value.span().start, ends);
        (key.get_ref().to_string(), item)
    });
    Table {
        entries: entries.collect(),
        place,
    }
}

/// Returns the item of a value; `line` is that of the key. Tables of an array know their own.
fn item(from: &DeValue<'_>, line: u32, start: usize, ends: &[usize]) -> Item {
    let value = match from {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => {
            Value::Integer(u64::from_str_radix(number.as_str(), number.radix()).ok())
        }
        DeValue::Array(items) => {
            let items = items.iter().map(|one| {
                let at = one.span().start;
                item(one.get_ref(), line_of(ends, at), at, ends)
            });
            Value::Array(items.collect())
        }
        DeValue::Table(inner) => {
            Value::Table(table(inner, Place::Line(line_of(ends, start)), ends))
        }
        DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => Value::Other,
    };
    let place = Place::Line(line);
    Item { value, place }
}

impl Item {
    fn table_mut(&mut self) -> Option<&mut Table> {
        match &mut self.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }
}

impl Table {
    fn get(&self, key: &str) -> Option<&Item> {
        let found = self.entries.iter().find(|(name, _)| name == key);
        found.map(|(_, item)| item)
    }

    fn get_mut(&mut self, key: &str) -> Option<&mut Item> {
        let found = self.entries.iter_mut().find(|(name, _)| name == key);
        found.map(|(_, item)| item)
    }

    /// Replaces the value of `key`, or adds it, by one from the command line; `whole` is the flag, for errors.
    pub(crate) fn put(&mut self, key: &str, given: &str, whole: &str) {
        let item = Item {
            value: Value::Given(given.to_owned()),
            place: Place::Override(whole.to_owned()),
        };
        match self.get_mut(key) {
            Some(old) => *old = item,
            None => self.entries.push((key.to_owned(), item)),
        }
    }

    /// Adds a table called `key` with these values; `whole` is the flag, for errors.
    pub(crate) fn put_table(&mut self, key: &str, values: &[(&str, u64)], whole: &str) {
        let place = Place::Override(whole.to_owned());
        let mut table = Table {
            entries: Vec::new(),
            place: place.clone(),
        };
        for (key, value) in values {
            table.put(key, &value.to_string(), whole);
        }
        let value = Value::Table(table);
        self.entries.push((key.to_owned(), Item { value, place }));
    }

    /// Returns the table called `key`.
    pub(crate) fn table_mut(&mut self, key: &str) -> Option<&mut Table> {
        self.get_mut(key)?.table_mut()
    }

    /// Returns the tables of the array `key`, of those that are tables.
    pub(crate) fn tables_mut(&mut self, key: &str) -> impl Iterator<Item = &mut Table> {
        let items = match self.get_mut(key).map(|item| &mut item.value) {
            Some(Value::Array(items)) => items.as_mut_slice(),
            _ => &mut [],
        };
        items.iter_mut().filter_map(Item::table_mut)
    }
}

/// Reads a table key by key. Every key that is asked for counts as known; [`Section::finish`] refuses all others.
#[derive(Debug)]
pub struct Section<'a> {
    table: &'a Table,
    file: &'a str,
    /// The name of the table in messages; empty for the file itself.
    name: String,
    known: BTreeSet<&'static str>,
}

impl<'a> Section<'a> {
    pub(crate) fn new(table: &'a Table, file: &'a str, name: &str) -> Section<'a> {
        Section {
            table,
            file,
            name: name.to_owned(),
            known: BTreeSet::new(),
        }
    }

    fn find(&mut self, key: &'static str) -> Option<&'a Item> {
        self.known.insert(key);
        self.table.get(key)
    }

    fn need<T>(&self, key: &str, found: Option<T>) -> Result<T, MachineError> {
        found.ok_or_else(|| {
            if let Some(wrong) = self.misspelt(key) {
                return wrong;
            }
            let what = match self.name.as_str() {
                "" => format!("`{key}` is missing"),
                name => format!("`{key}` is missing in this {name}"),
            };
            MachineError::new(self.file, &self.table.place, what)
        })
    }

    /// An error about a key that may be meant for `key`: it is spelt nearly the same, and nothing has asked for it.
    pub(crate) fn misspelt(&self, key: &str) -> Option<MachineError> {
        let mut unknown = self.unknown();
        let (wrong, item) = unknown.find(|(wrong, _)| meant(wrong, [key]).is_some())?;
        let message = format!("unknown key `{wrong}`, did you mean `{key}`?");
        Some(MachineError::new(self.file, &item.place, message))
    }

    /// The keys that nothing has asked for.
    fn unknown(&self) -> impl Iterator<Item = &'a (String, Item)> {
        let entries = self.table.entries.iter();
        entries.filter(|(key, _)| !self.known.contains(key.as_str()))
    }

    /// Returns an error about the value of `key`, or about the whole table if it has no such key.
    pub fn wrong(&self, key: &str, message: impl Into<String>) -> MachineError {
        let item = self.table.get(key);
        let place = item.map_or(&self.table.place, |item| &item.place);
        MachineError::new(self.file, place, message.into())
    }

    /// Returns the value of `key` as `of` converts it, if there is one; `must_be` describes the right values in the error about a wrong
    /// one.
    fn read<T>(
        &mut self,
        key: &'static str,
        must_be: &str,
        of: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, MachineError> {
        let Some(item) = self.find(key) else {
            return Ok(None);
        };
        match of(&item.value) {
            None => Err(self.wrong(key, format!("`{key}` must be {must_be}"))),
            read => Ok(read),
        }
    }

    /// Returns whether the table has `key`. The key does not count as known by this.
    pub fn has(&self, key: &str) -> bool {
        self.table.get(key).is_some()
    }

    /// Returns the unsigned number of `key`, which may be absent.
    ///
    /// # Errors
    /// If the value is something else.
    pub fn optional_number(&mut self, key: &'static str) -> Result<Option<u64>, MachineError> {
        self.read(
            key,
            "a whole number from 0 to 2^64-1",
            |value| match value {
                Value::Integer(number) => *number,
                Value::Given(word) => word.parse().ok(),
                _ => None,
            },
        )
    }

    /// Returns the unsigned number of `key`.
    ///
    /// # Errors
    /// If it is missing or something else.
    pub fn number(&mut self, key: &'static str) -> Result<u64, MachineError> {
        let found = self.optional_number(key)?;
        self.need(key, found)
    }

    /// Returns the number of `key`, which is in `range`.
    ///
    /// # Errors
    /// If it is missing, something else or out of range.
    pub fn number_in(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<u64, MachineError> {
        let found = self.optional_number_in(key, range)?;
        self.need(key, found)
    }

    /// Returns the number of `key`, which is in `range` or absent.
    ///
    /// # Errors
    /// If it is something else or out of range.
    pub fn optional_number_in(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, MachineError> {
        let found = self.optional_number(key)?;
        if let Some(number) = found.filter(|number| !range.contains(number)) {
            let (least, most) = range.into_inner();
            let message = format!("`{key}` is {number}; it must be {least} to {most}");
            return Err(self.wrong(key, message));
        }
        Ok(found)
    }

    /// Returns the number of `key`, which is in `range`, or `otherwise` if it is absent.
    ///
    /// # Errors
    /// If it is something else or out of range.
    pub fn number_or(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
        otherwise: u64,
    ) -> Result<u64, MachineError> {
        Ok(self.optional_number_in(key, range)?.unwrap_or(otherwise))
    }

    pub(crate) fn optional_text(
        &mut self,
        key: &'static str,
    ) -> Result<Option<&'a str>, MachineError> {
        self.read(key, "a text in quotes", |value| match value {
            Value::Text(text) | Value::Given(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// Returns the text of `key`.
    ///
    /// # Errors
    /// If it is missing or something else.
    pub fn text(&mut self, key: &'static str) -> Result<&'a str, MachineError> {
        let found = self.optional_text(key)?;
        self.need(key, found)
    }

    /// Returns the value that `words` has for the word of `key`.
    ///
    /// # Errors
    /// If it is missing or another word.
    pub fn one_of<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
    ) -> Result<T, MachineError> {
        let found = self.optional_one_of(key, words)?;
        self.need(key, found)
    }

    /// Returns the value that `words` has for the word of `key`, which may be absent.
    ///
    /// # Errors
    /// If it is another word.
    pub fn optional_one_of<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, MachineError> {
        let Some(text) = self.optional_text(key)? else {
            return Ok(None);
        };
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Ok(Some(*value));
        }
        let right = Vec::from_iter(words.iter().map(|(word, _)| *word)).join(" or ");
        Err(self.wrong(key, format!("`{key}` is \"{text}\"; it must be {right}")))
    }

    /// Returns the size of `key` in bytes: a number, or a text such as `"8K"`.
    ///
    /// # Errors
    /// If it is missing or something else.
    pub fn size(&mut self, key: &'static str) -> Result<u64, MachineError> {
        let found = self.optional_size(key)?;
        self.need(key, found)
    }

    /// Returns the size of `key` in bytes, which may be absent.
    ///
    /// # Errors
    /// If it is something else.
    pub fn optional_size(&mut self, key: &'static str) -> Result<Option<u64>, MachineError> {
        const SIZE: &str =
            "a size of less than 2^64 bytes, such as \"8K\" (K, M, G are powers of 1024)";
        self.read(key, SIZE, |value| match value {
            Value::Integer(number) => *number,
            Value::Text(text) | Value::Given(text) => bytes(text),
            _ => None,
        })
    }

    /// Returns the tables in table `key`, by their names: `[key.NAME]`; none if it is absent.
    ///
    /// # Errors
    /// If `key` is no table, or something in it is none.
    pub fn named_tables(
        &mut self,
        key: &'static str,
    ) -> Result<Vec<(String, Section<'a>)>, MachineError> {
        let Some(outer) = self.optional_table(key)? else {
            return Ok(Vec::new());
        };
        let named = outer.table.entries.iter().map(|(name, item)| {
            let title = format!("[{key}.{name}]");
            match &item.value {
                Value::Table(table) => Ok((name.clone(), Section::new(table, self.file, &title))),
                _ => Err(outer.wrong(name, format!("`{name}` must be a table: {title}"))),
            }
        });
        named.collect()
    }

    /// Returns the table `key`, if it is there.
    ///
    /// # Errors
    /// If `key` is no table.
    pub fn optional_table(
        &mut self,
        key: &'static str,
    ) -> Result<Option<Section<'a>>, MachineError> {
        let (file, name) = (self.file, format!("[{key}]"));
        self.read(key, &format!("a table: {name}"), |value| match value {
            Value::Table(table) => Some(Section::new(table, file, &name)),
            _ => None,
        })
    }

    /// Returns the tables of the array `key`; none if it is absent.
    ///
    /// # Errors
    /// If `key` is something else.
    pub fn tables(&mut self, key: &'static str) -> Result<Vec<Section<'a>>, MachineError> {
        let name = format!("[[{key}]]");
        let must_be = format!("tables: {name}");
        let items = self.read(key, &must_be, |value| match value {
            Value::Array(items) => Some(items),
            _ => None,
        })?;
        let sections = items.into_iter().flatten().map(|item| match &item.value {
            Value::Table(table) => Ok(Section::new(table, self.file, &name)),
            _ => {
                let message = format!("`{key}` must be {must_be}");
                Err(MachineError::new(self.file, &item.place, message))
            }
        });
        sections.collect()
    }

    /// Checks that all keys of the table were asked for.
    ///
    /// # Errors
    /// Returns an error if the table has a key that was never asked for; the error is about the first one.
    pub fn finish(self) -> Result<(), MachineError> {
        let Some((key, item)) = self.unknown().next() else {
            return Ok(());
        };
        let meant = meant(key, self.known.iter().copied());
        let meant = meant.map_or(String::new(), |known| format!(", did you mean `{known}`?"));
        let of = match self.name.as_str() {
            "" => "a machine of this model",
            name => name,
        };
        let known = Vec::from_iter(self.known).join(", ");
        let separator = if meant.is_empty() { ";" } else { "" };
        let message = format!("unknown key `{key}`{meant}{separator} {of} has {known}");
        Err(MachineError::new(self.file, &item.place, message))
    }
}

/// Returns a size such as `8K` in bytes. Machine files have no terabytes.
fn bytes(text: &str) -> Option<u64> {
    parse_size(text).filter(|_| !text.ends_with('T'))
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_have_powers_of_1024() {
        assert_eq!(bytes("8K"), Some(8192));
        assert_eq!(bytes("3M"), Some(3 << 20));
        assert_eq!(bytes("2G"), Some(2 << 30));
        assert_eq!(bytes("100"), Some(100));
        for wrong in [
            "",
            "K",
            "8k",
            "8KB",
            "-1",
            "+1",
            "1.5K",
            "8 K",
            "99999999999999999999",
            "17179869184G",
        ] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }
}
