//! Writes Parquet. Every column is optional. Columns are dictionary-encoded, but not compressed in
//! any other way.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use super::{Kind, Row, Schema, Value};

pub(crate) struct Parquet<W: Write + Send> {
    to: SerializedFileWriter<W>,
    kinds: Vec<Kind>,
}

impl<W: Write + Send> Parquet<W> {
    pub(crate) fn new(to: W, schema: &Schema) -> io::Result<Self> {
        let fields = schema.iter().map(|(name, kind)| field(name, *kind).map(Arc::new));
        let fields = fields.collect::<Result<_, _>>().map_err(reported)?;
        let root =
            Type::group_type_builder("schema").with_fields(fields).build().map_err(reported)?;
        // The default value contains the library's version, so an upgrade would change the bytes of
        // a file even if its rows are the same.
        let properties = WriterProperties::builder().set_created_by("curtail".to_owned()).build();
        let to = SerializedFileWriter::new(to, Arc::new(root), Arc::new(properties));
        let kinds = schema.iter().map(|(_, kind)| *kind).collect();
        Ok(Self { to: to.map_err(reported)?, kinds })
    }

    /// Writes rows as a separate row group.
    pub(crate) fn write(&mut self, rows: &[Row]) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut group = self.to.next_row_group().map_err(reported)?;
        for (at, kind) in self.kinds.iter().enumerate() {
            let next = group.next_column().map_err(reported)?;
            let mut writer = next.expect("every column has a name");
            fill(&mut writer, *kind, rows.iter().map(|row| &row[at])).map_err(reported)?;
            writer.close().map_err(reported)?;
        }
        group.close().map(drop).map_err(reported)
    }

    pub(crate) fn finish(self) -> io::Result<W> {
        self.to.into_inner().map_err(reported)
    }
}

fn reported(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

fn field(name: &str, kind: Kind) -> Result<Type, ParquetError> {
    let (physical, logical) = match kind {
        Kind::Bool => (Physical::BOOLEAN, None),
        Kind::Whole => (Physical::INT64, None),
        Kind::Number => (Physical::DOUBLE, None),
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    Type::primitive_type_builder(name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build()
}

fn fill<'a>(
    writer: &mut SerializedColumnWriter<'_>,
    kind: Kind,
    values: impl Iterator<Item = &'a Value>,
) -> Result<(), ParquetError> {
    match kind {
        Kind::Bool => batch::<BoolType>(writer, values.map(Value::as_bool)),
        Kind::Whole => batch::<Int64Type>(writer, values.map(Value::as_whole)),
        Kind::Number => batch::<DoubleType>(writer, values.map(Value::as_number)),
        Kind::Text => {
            let texts = values.map(|value| value.as_text().map(ByteArray::from));
            batch::<ByteArrayType>(writer, texts)
        }
    }
}

fn batch<T: DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    values: impl Iterator<Item = Option<T::T>>,
) -> Result<(), ParquetError> {
    let values: Vec<Option<T::T>> = values.collect();
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let known: Vec<T::T> = values.into_iter().flatten().collect();
    writer.typed::<T>().write_batch(&known, Some(&levels), None).map(drop)
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;

    #[test]
    fn written_rows_are_read_back() {
        let (schema, rows) = crate::columns::tests::sample();
        let mut parquet = crate::columns::Writer::parquet(Vec::new(), &schema).expect("a schema");
        for rows in [&rows[..], &[], &rows[..]] {
            parquet.write(rows).expect("writing to memory succeeds");
        }
        let bytes = parquet.finish().expect("writing to memory succeeds");
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("a file");
        assert_eq!(reader.metadata().num_row_groups(), 2);
        let rows = reader.get_row_iter(None).expect("rows");
        let rows: Vec<Vec<(String, Field)>> = rows
            .map(|row| {
                let row = row.expect("a row");
                row.get_column_iter().map(|(name, field)| (name.clone(), field.clone())).collect()
            })
            .collect();
        assert_eq!(rows.len(), 6);
        let names: Vec<&str> = rows[0].iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names, ["on", "n", "x", "t"]);
        let fields = |row: usize| rows[row].iter().map(|(_, field)| field.clone());
        let last = [
            Field::Bool(false),
            Field::Long(i64::MAX),
            Field::Double(1e-9),
            Field::Str("Æ\n".to_owned()),
        ];
        assert!(fields(5).eq(last));
        assert!(fields(1).all(|field| field == Field::Null));
    }
}
