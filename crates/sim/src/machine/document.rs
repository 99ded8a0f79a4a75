//! A TOML file as a tree in which every value has its line, and the reader that reads a table key by key.

use super::MachineError;
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
    Float(f64),
    Flag(bool),
    Array(Vec<Item>),
    Table(Table),
    /// From an override: a number or a word, depending on its key.
    Given(String),
    Date,
}

/// The keys of a table in the order of the file.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    entries: Vec<(String, Item)>,
    place: Place,
}

/// The line of each byte.
struct Lines {
    /// Offsets of the line ends, in ascending order.
    ends: Vec<usize>,
}

impl Lines {
    fn of(text: &str) -> Lines {
        Lines {
            ends: text.match_indices('\n').map(|(at, _)| at).collect(),
        }
    }

    fn at(&self, byte: usize) -> u32 {
        let lines = self.ends.partition_point(|&end| end < byte) + 1;
        u32::try_from(lines).unwrap_or(u32::MAX)
    }
}

/// Longest machine file that is read: real ones have a few kilobytes, and longer ones that are wrong are refused at once.
pub(crate) const LONGEST_FILE: usize = 64 << 10;

/// Reads TOML.
pub(crate) fn parse(text: &str, file: &str) -> Result<Table, MachineError> {
    let error = |line, message: String| MachineError::new(file, &Place::Line(line), message);
    if text.len() > LONGEST_FILE {
        return Err(error(
            1,
            format!(
                "a machine file of {} bytes; the longest that is read has {LONGEST_FILE}",
                text.len()
            ),
        ));
    }
    let lines = Lines::of(text);
    let root = DeTable::parse(text).map_err(|wrong| {
        let line = lines.at(wrong.span().map_or(0, |span| span.start));
        error(line, format!("no TOML: {}", wrong.message()))
    })?;
    Ok(table(root.get_ref(), Place::Line(1), &lines))
}

fn table(from: &DeTable<'_>, place: Place, lines: &Lines) -> Table {
    let mut entries: Vec<(usize, String, Item)> = from
        .iter()
        .map(|(key, value)| {
            let at = key.span().start;
            let line = lines.at(at);
            let item = item(value.get_ref(), line, value.span().start, lines);
            (at, key.get_ref().to_string(), item)
        })
        .collect();
    entries.sort_by_key(|(at, ..)| *at);
    let entries = entries
        .into_iter()
        .map(|(_, key, item)| (key, item))
        .collect();
    Table { entries, place }
}

/// `line`: of the key. Tables of an array know their own.
fn item(from: &DeValue<'_>, line: u32, start: usize, lines: &Lines) -> Item {
    let place = Place::Line(line);
    let value = match from {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => {
            Value::Integer(u64::from_str_radix(number.as_str(), number.radix()).ok())
        }
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(items) => {
            let items = items.iter().map(|one| {
                let at = one.span().start;
                item(one.get_ref(), lines.at(at), at, lines)
            });
            Value::Array(items.collect())
        }
        DeValue::Table(inner) => Value::Table(table(inner, Place::Line(lines.at(start)), lines)),
    };
    Item { value, place }
}

impl Table {
    /// Replaces the value of `key`, or adds it, by one from the command line; `whole` is the flag, for errors.
    pub(crate) fn put(&mut self, key: &str, given: &str, whole: &str) {
        let item = Item {
            value: Value::Given(given.to_owned()),
            place: Place::Override(whole.to_owned()),
        };
        match self.entries.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = item,
            None => self.entries.push((key.to_owned(), item)),
        }
    }

    /// The table called `key`.
    pub(crate) fn table_mut(&mut self, key: &str) -> Option<&mut Table> {
        let (_, item) = self.entries.iter_mut().find(|(name, _)| name == key)?;
        match &mut item.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The tables of the array `key`, of those that are tables.
    pub(crate) fn tables_mut(&mut self, key: &str) -> impl Iterator<Item = &mut Table> {
        let item = self.entries.iter_mut().find(|(name, _)| name == key);
        let items = match item.map(|(_, item)| &mut item.value) {
            Some(Value::Array(items)) => items.as_mut_slice(),
            _ => &mut [],
        };
        items.iter_mut().filter_map(|item| match &mut item.value {
            Value::Table(table) => Some(table),
            _ => None,
        })
    }
}

/// Reads a table key by key. Every key that is asked for counts as known; [`Section::finish`] refuses all others.
#[derive(Debug)]
pub struct Section<'a> {
    table: &'a Table,
    file: &'a str,
    /// The name of the table in messages; empty for the file itself.
    name: String,
    known: Vec<&'static str>,
}

impl<'a> Section<'a> {
    pub(crate) fn new(table: &'a Table, file: &'a str, name: &str) -> Section<'a> {
        Section {
            table,
            file,
            name: name.to_owned(),
            known: Vec::new(),
        }
    }

    fn find(&mut self, key: &'static str) -> Option<&'a Item> {
        self.known.push(key);
        let found = self.table.entries.iter().find(|(name, _)| name == key);
        found.map(|(_, item)| item)
    }

    fn need<T>(&self, key: &str, found: Option<T>) -> Result<T, MachineError> {
        found.ok_or_else(|| {
            let what = match self.name.as_str() {
                "" => format!("`{key}` is missing"),
                name => format!("`{key}` is missing in this {name}"),
            };
            MachineError::new(self.file, &self.table.place, what)
        })
    }

    /// An error about the value of `key`, or about the whole table if it has no such key.
    pub fn wrong(&self, key: &str, message: impl Into<String>) -> MachineError {
        let item = self.table.entries.iter().find(|(name, _)| name == key);
        let place = item.map_or(&self.table.place, |(_, item)| &item.place);
        MachineError::new(self.file, place, message.into())
    }

    /// An unsigned number that may be absent.
    ///
    /// # Errors
    /// If the value is something else.
    pub fn optional_number(&mut self, key: &'static str) -> Result<Option<u64>, MachineError> {
        let Some(item) = self.find(key) else {
            return Ok(None);
        };
        let number = match &item.value {
            Value::Integer(number) => *number,
            Value::Given(word) => word.parse().ok(),
            _ => None,
        };
        match number {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(
                key,
                format!("`{key}` must be a whole number from 0 to 2^64-1"),
            )),
        }
    }

    /// An unsigned number.
    ///
    /// # Errors
    /// If it is missing or something else.
    pub fn number(&mut self, key: &'static str) -> Result<u64, MachineError> {
        let found = self.optional_number(key)?;
        self.need(key, found)
    }

    /// A number in a range.
    ///
    /// # Errors
    /// If it is missing, something else or out of range.
    pub fn number_in(
        &mut self,
        key: &'static str,
        least: u64,
        most: u64,
    ) -> Result<u64, MachineError> {
        let number = self.number(key)?;
        self.check_range(key, number, least, most)
    }

    /// A number in a range that may be absent.
    ///
    /// # Errors
    /// If it is something else or out of range.
    pub fn optional_number_in(
        &mut self,
        key: &'static str,
        least: u64,
        most: u64,
    ) -> Result<Option<u64>, MachineError> {
        let number = self.optional_number(key)?;
        number
            .map(|number| self.check_range(key, number, least, most))
            .transpose()
    }

    fn check_range(
        &self,
        key: &str,
        number: u64,
        least: u64,
        most: u64,
    ) -> Result<u64, MachineError> {
        if (least..=most).contains(&number) {
            return Ok(number);
        }
        Err(self.wrong(
            key,
            format!("`{key}` is {number}; it must be {least} to {most}"),
        ))
    }

    /// A text that may be absent.
    ///
    /// # Errors
    /// If the value is something else.
    pub fn optional_text(&mut self, key: &'static str) -> Result<Option<&'a str>, MachineError> {
        match self.find(key).map(|item| &item.value) {
            None => Ok(None),
            Some(Value::Text(text) | Value::Given(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(key, format!("`{key}` must be a text in quotes"))),
        }
    }

    /// A text.
    ///
    /// # Errors
    /// If it is missing or something else.
    pub fn text(&mut self, key: &'static str) -> Result<&'a str, MachineError> {
        let found = self.optional_text(key)?;
        self.need(key, found)
    }

    /// One of some words.
    ///
    /// # Errors
    /// If it is missing or another word.
    pub fn one_of<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
    ) -> Result<T, MachineError> {
        let text = self.text(key)?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Ok(*value);
        }
        let right: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        Err(self.wrong(
            key,
            format!("`{key}` is \"{text}\"; it must be {}", right.join(" or ")),
        ))
    }

    /// A flag that may be absent.
    ///
    /// # Errors
    /// If the value is something else.
    pub fn optional_flag(&mut self, key: &'static str) -> Result<Option<bool>, MachineError> {
        let flag = match self.find(key).map(|item| &item.value) {
            None => return Ok(None),
            Some(Value::Flag(flag)) => Some(*flag),
            Some(Value::Given(word)) => word.parse().ok(),
            Some(_) => None,
        };
        match flag {
            Some(flag) => Ok(Some(flag)),
            None => Err(self.wrong(key, format!("`{key}` must be true or false"))),
        }
    }

    /// A finite number with a fraction, not negative, that may be absent.
    ///
    /// # Errors
    /// If the value is something else.
    pub fn optional_fraction(&mut self, key: &'static str) -> Result<Option<f64>, MachineError> {
        let number = match self.find(key).map(|item| &item.value) {
            None => return Ok(None),
            Some(Value::Float(number)) => *number,
            Some(Value::Integer(Some(number))) => *number as f64,
            Some(Value::Given(word)) => word.parse().unwrap_or(f64::NAN),
            Some(_) => f64::NAN,
        };
        if number.is_finite() && number >= 0.0 {
            return Ok(Some(number));
        }
        Err(self.wrong(
            key,
            format!("`{key}` must be a number that is not negative"),
        ))
    }

    /// A size in bytes: a number, or a text such as `"8K"`.
    ///
    /// # Errors
    /// If it is missing or something else.
    pub fn size(&mut self, key: &'static str) -> Result<u64, MachineError> {
        let found = self.find(key);
        let size = match &self.need(key, found)?.value {
            Value::Integer(number) => *number,
            Value::Text(text) | Value::Given(text) => bytes(text),
            _ => None,
        };
        size.ok_or_else(|| {
            self.wrong(
                key,
                format!("`{key}` must be a size of less than 2^64 bytes, such as \"8K\" (K, M, G are powers of 1024)"),
            )
        })
    }

    /// A size in bytes that may be absent.
    ///
    /// # Errors
    /// If it is something else.
    pub fn optional_size(&mut self, key: &'static str) -> Result<Option<u64>, MachineError> {
        match self.find(key) {
            None => Ok(None),
            Some(_) => self.size(key).map(Some),
        }
    }

    /// One of some words, or nothing.
    ///
    /// # Errors
    /// If it is another word.
    pub fn optional_one_of<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, MachineError> {
        match self.find(key) {
            None => Ok(None),
            Some(_) => self.one_of(key, words).map(Some),
        }
    }

    /// The tables in table `key`, by their names: `[key.NAME]`; none if it is absent.
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

    /// The table `key`, if it is there.
    ///
    /// # Errors
    /// If `key` is no table.
    pub fn optional_table(
        &mut self,
        key: &'static str,
    ) -> Result<Option<Section<'a>>, MachineError> {
        match self.find(key).map(|item| &item.value) {
            None => Ok(None),
            Some(Value::Table(table)) => {
                Ok(Some(Section::new(table, self.file, &format!("[{key}]"))))
            }
            Some(_) => Err(self.wrong(key, format!("`{key}` must be a table: [{key}]"))),
        }
    }

    /// The tables of the array `key`; none if it is absent.
    ///
    /// # Errors
    /// If `key` is something else.
    pub fn tables(&mut self, key: &'static str) -> Result<Vec<Section<'a>>, MachineError> {
        let name = format!("[[{key}]]");
        let wrong = |place: &Place| {
            MachineError::new(self.file, place, format!("`{key}` must be tables: {name}"))
        };
        let Some(found) = self
            .table
            .entries
            .iter()
            .find(|(word, _)| word == key)
            .map(|(_, item)| item)
        else {
            self.known.push(key);
            return Ok(Vec::new());
        };
        let Value::Array(items) = &found.value else {
            return Err(wrong(&found.place));
        };
        let sections = items.iter().map(|item| match &item.value {
            Value::Table(table) => Ok(Section::new(table, self.file, &name)),
            _ => Err(wrong(&item.place)),
        });
        let sections = sections.collect();
        self.known.push(key);
        sections
    }

    /// Checks that all keys of the table were asked for.
    ///
    /// # Errors
    /// If the table has a key that was never asked for; the error is about the first one.
    pub fn finish(self) -> Result<(), MachineError> {
        let unknown = |key: &str| !self.known.contains(&key);
        let Some((key, item)) = self.table.entries.iter().find(|(key, _)| unknown(key)) else {
            return Ok(());
        };
        let mut known = self.known.clone();
        known.sort_unstable();
        let of = if self.name.is_empty() {
            "a machine of this model"
        } else {
            &self.name
        };
        Err(MachineError::new(
            self.file,
            &item.place,
            format!("unknown key `{key}`; {of} has {}", known.join(", ")),
        ))
    }
}

/// `8K` in bytes.
fn bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(unit)
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
