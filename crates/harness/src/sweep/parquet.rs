//! The results as a Parquet file.

use std::sync::Arc;

use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type as Schema;

use super::rows::{Column, Type, plain};

/// Returns the file's bytes, which are a function of the columns: one group of rows, in which every cell may be empty.
pub(super) fn bytes(columns: &[Column]) -> Result<Vec<u8>> {
    let fields = columns
        .iter()
        .map(|column| field(column).map(Arc::new))
        .collect::<Result<Vec<_>>>()?;
    let schema = Arc::new(
        Schema::group_type_builder("sweep")
            .with_fields(fields)
            .build()?,
    );
    let properties = WriterProperties::builder()
        .set_created_by("tanada".to_owned())
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for column in columns {
        let Some(mut out) = group.next_column()? else {
            break;
        };
        let levels = column.values.iter().map(|value| value.is_some().into());
        let levels: Vec<i16> = levels.collect();
        let there = column.values.iter().flatten();
        match column.kind {
            Type::Text => {
                let values: Vec<ByteArray> = there
                    .map(|value| ByteArray::from(plain(value).into_bytes()))
                    .collect();
                out.typed::<ByteArrayType>()
                    .write_batch(&values, Some(&levels), None)?;
            }
            // The same bits; the logical type says that there is no sign.
            Type::Whole => {
                let values: Vec<i64> = there
                    .map(|value| value.as_u64().unwrap_or(0).cast_signed())
                    .collect();
                out.typed::<Int64Type>()
                    .write_batch(&values, Some(&levels), None)?;
            }
            Type::Fraction => {
                let values: Vec<f64> = there
                    .map(|value| value.as_f64().unwrap_or(f64::NAN))
                    .collect();
                out.typed::<DoubleType>()
                    .write_batch(&values, Some(&levels), None)?;
            }
        }
        out.close()?;
    }
    group.close()?;
    writer.into_inner()
}

/// Returns the schema of a column.
fn field(column: &Column) -> Result<Schema> {
    let physical = match column.kind {
        Type::Text => Physical::BYTE_ARRAY,
        Type::Whole => Physical::INT64,
        Type::Fraction => Physical::DOUBLE,
    };
    let field = Schema::primitive_type_builder(&column.name, physical)
        .with_repetition(Repetition::OPTIONAL);
    match column.kind {
        Type::Text => field
            .with_logical_type(Some(LogicalType::String))
            .with_converted_type(ConvertedType::UTF8)
            .build(),
        Type::Whole => field.with_converted_type(ConvertedType::UINT_64).build(),
        Type::Fraction => field.build(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    use serde_json::Value;

    #[test]
    fn what_is_written_is_read() {
        let column = |name: &str, kind, values| Column {
            name: name.to_owned(),
            kind,
            values,
        };
        let columns = [
            column(
                "a.b",
                Type::Text,
                vec![Some(Value::from("x")), None, Some(Value::from("é,\n"))],
            ),
            column(
                "n",
                Type::Whole,
                vec![Some(Value::from(u64::MAX)), Some(Value::from(0)), None],
            ),
            column(
                "f",
                Type::Fraction,
                vec![None, Some(Value::from(0.1)), Some(Value::from(3))],
            ),
        ];
        let written = bytes(&columns).unwrap();
        assert_eq!(written, bytes(&columns).unwrap());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.parquet");
        std::fs::write(&path, &written).unwrap();
        let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        let rows: Vec<Vec<Field>> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| {
                row.unwrap()
                    .get_column_iter()
                    .map(|(_, field)| field.clone())
                    .collect()
            })
            .collect();
        let text = |text: &str| Field::Str(text.to_owned());
        let expected = [
            [text("x"), Field::ULong(u64::MAX), Field::Null],
            [Field::Null, Field::ULong(0), Field::Double(0.1)],
            [text("é,\n"), Field::Null, Field::Double(3.0)],
        ];
        assert_eq!(rows, expected);
    }
}
