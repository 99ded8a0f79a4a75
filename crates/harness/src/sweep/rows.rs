//! Results as a table: a row a run, a column a key.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// The key of the column with the reason why a run has no result.
pub(super) const ERROR: &str = "error";

/// A run and its results: keys and values in their order. Its JSON form is one object.
#[derive(Clone, Debug, Default)]
pub struct Row(pub(super) Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Row, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Row;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Row, A::Error> {
                let mut row = Row::default();
                while let Some(pair) = map.next_entry()? {
                    row.0.push(pair);
                }
                Ok(row)
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

impl serde::Serialize for Row {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl Row {
    /// Returns why the run has no result; `None` if it has one.
    pub fn error(&self) -> Option<String> {
        self.get(ERROR).map(plain)
    }

    /// Returns keys and values on one line, for people.
    pub fn title(&self) -> String {
        let pairs = self.0.iter();
        let pairs = pairs.map(|(key, value)| format!("{key} {}", plain(value)));
        pairs.collect::<Vec<_>>().join(", ")
    }

    /// Returns the value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let mut pairs = self.0.iter();
        Some(&pairs.find(|(name, _)| name == key)?.1)
    }
}

/// The type of a column: each can hold the values of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Type {
    Whole,
    Fraction,
    Text,
}

/// A column: its name and its values, row by row.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Type,
    pub(super) values: Vec<Option<Value>>,
}

/// Returns the columns in the order in which keys come first; lists have none. `error` is the last, and always there.
pub(super) fn columns(rows: &[Row]) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let mut near = 0;
        let pairs = row.0.iter();
        for (key, value) in
            pairs.filter(|(key, value)| key != ERROR && !value.is_array() && !value.is_null())
        {
            let kind = match value {
                Value::Number(number) if number.is_u64() => Type::Whole,
                Value::Number(_) => Type::Fraction,
                _ => Type::Text,
            };
            let known = columns.iter().position(|column| column.name == *key);
            let at = known.unwrap_or_else(|| {
                let new = Column {
                    name: key.clone(),
                    kind,
                    values: vec![None; number],
                };
                // Beside the column that it follows in this row.
                columns.insert(near, new);
                near
            });
            near = at + 1;
            let column = &mut columns[at];
            column.kind = column.kind.max(kind);
            column.values.push(Some(value.clone()));
        }
        for column in &mut columns {
            column.values.resize(number + 1, None);
        }
    }
    let values = rows.iter().map(|row| row.get(ERROR).cloned()).collect();
    columns.push(Column {
        name: ERROR.to_owned(),
        kind: Type::Text,
        values,
    });
    columns
}

/// Returns a value as text, as it stands in a CSV file before quoting.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// Returns the columns as CSV (RFC 4180, but lines end with a line feed alone).
pub(super) fn csv(columns: &[Column], rows: usize) -> String {
    let quoted = |text: &str| {
        if text.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text.to_owned()
        }
    };
    let line = |cells: Vec<String>| cells.join(",") + "\n";
    let mut out = line(columns.iter().map(|column| quoted(&column.name)).collect());
    for row in 0..rows {
        let cells = columns.iter().map(|column| &column.values[row]);
        let text = |value: &Value| quoted(&plain(value));
        let cells = cells.map(|cell| cell.as_ref().map_or_else(String::new, text));
        out += &line(cells.collect());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_rows_that_differ() {
        let texts = [
            r#"{"a":"x,y","n":1,"busy":[1,2]}"#,
            r#"{"a":"\"q\"","m":2,"n":1.5}"#,
            r#"{"a":"z","error":"no"}"#,
        ];
        let rows: Vec<Row> = texts
            .iter()
            .map(|text| serde_json::from_str(text).unwrap())
            .collect();
        let columns = columns(&rows);
        assert_eq!(
            csv(&columns, 3),
            "a,m,n,error\n\"x,y\",,1,\n\"\"\"q\"\"\",2,1.5,\nz,,,no\n"
        );
        let kinds: Vec<_> = columns.iter().map(|column| column.kind).collect();
        assert_eq!(kinds, [Type::Text, Type::Whole, Type::Fraction, Type::Text]);
    }
}
