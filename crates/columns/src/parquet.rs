//! Parquet: every column is optional, and its dictionary is its compression.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use crate::{Column, Kind, Piece, Schema};

/// Writes Parquet.
#[allow(missing_debug_implementations)] // the writer inside has none
pub struct Parquet<W: Write + Send> {
    to: SerializedFileWriter<W>,
}

impl<W: Write + Send> Parquet<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// What the writer says.
    pub fn new(to: W, schema: &Schema) -> io::Result<Self> {
        let fields = schema.iter().map(|(name, kind)| field(name, *kind).map(Arc::new));
        let fields = fields.collect::<Result<_, _>>().map_err(told)?;
        let root = Type::group_type_builder("schema").with_fields(fields).build().map_err(told)?;
        // The version of a library would make other bytes of the same rows.
        let properties = WriterProperties::builder().set_created_by("curtail".to_owned()).build();
        let to = SerializedFileWriter::new(to, Arc::new(root), Arc::new(properties));
        Ok(Self { to: to.map_err(told)? })
    }

    /// Writes rows, as a group of their own.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write(&mut self, piece: &Piece) -> io::Result<()> {
        if piece.rows() == 0 {
            return Ok(());
        }
        let mut group = self.to.next_row_group().map_err(told)?;
        for column in piece.columns() {
            let next = group.next_column().map_err(told)?;
            let mut writer = next.ok_or_else(|| io::Error::other("more columns than names"))?;
            fill(&mut writer, column).map_err(told)?;
            writer.close().map_err(told)?;
        }
        group.close().map_err(told)?;
        Ok(())
    }

    /// Ends the file and gives the writer back.
    ///
    /// # Errors
    /// What the writer says.
    pub fn finish(self) -> io::Result<W> {
        self.to.into_inner().map_err(told)
    }
}

fn told(error: ParquetError) -> io::Error {
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

fn fill(writer: &mut SerializedColumnWriter<'_>, column: &Column) -> Result<(), ParquetError> {
    match column {
        Column::Bool(values) => batch::<BoolType, _>(writer, values, |value| *value),
        Column::Whole(values) => batch::<Int64Type, _>(writer, values, |value| *value),
        Column::Number(values) => batch::<DoubleType, _>(writer, values, |value| *value),
        Column::Text(values) => {
            batch::<ByteArrayType, _>(writer, values, |text| ByteArray::from(text.as_str()))
        }
    }
}

fn batch<T: DataType, V>(
    writer: &mut SerializedColumnWriter<'_>,
    values: &[Option<V>],
    convert: impl Fn(&V) -> T::T,
) -> Result<(), ParquetError> {
    let known: Vec<T::T> = values.iter().flatten().map(convert).collect();
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    writer.typed::<T>().write_batch(&known, Some(&levels), None).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;

    #[test]
    fn what_is_written_is_read_back() {
        let (schema, piece) = crate::sample();
        let mut parquet = Parquet::new(Vec::new(), &schema).expect("a schema");
        parquet.write(&piece).expect("memory takes all");
        parquet.write(&Piece::new(&schema)).expect("nothing to write");
        parquet.write(&piece).expect("memory takes all");
        let bytes = parquet.finish().expect("memory takes all");
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
