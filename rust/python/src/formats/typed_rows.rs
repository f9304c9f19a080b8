//! Tables whose rows are written as JSON, Avro or Protobuf: the columns of Kafka's records that are made of them,
//! before any row is sent.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchOptions, RecordBatchReader, StructArray, new_null_array,
};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use monedula_client::producer::{Columns, is_row_number};
use monedula_client::registry::SchemaRegistry;
use monedula_formats::{Unwritable, with_frame};
use pyo3::prelude::*;

use crate::argument::BadArgument;
use crate::arrow::capsule;
use crate::error::to_py;
use crate::formats::PySpec;
use crate::formats::encoder::{Content, Encoder};
use crate::formats::registered_schema::SubjectLookup;

/// Columns that a record has besides its value.
const BESIDE: [&str; 7] = [KEY, "headers", TOPIC, "partition", "timestamp", "offset", "timestampType"];

const KEY: &str = "key";
const TOPIC: &str = "topic";

/// The most rows that are written at once: some ten milliseconds, for which Ctrl-C is not heard.
const PIECE_ROWS: usize = 1 << 16;

/// Format of the keys or values of rows.
#[derive(Clone)]
pub(crate) struct WrittenAs {
    pub(crate) encoder: Encoder,
    /// True if the columns of the table are the fields of a value.
    pub(crate) flatten: bool,
    /// Value of the header that names the schema, in place of bytes before each value.
    pub(crate) header: Option<Vec<u8>>,
}

impl WrittenAs {
    pub(crate) fn new(mut encoder: Encoder, flatten: bool, in_header: bool) -> Self {
        let header = in_header.then(|| encoder.take_frame());
        Self { encoder, flatten, header }
    }
}

/// Headers of all rows.
pub(crate) type Headers = Vec<(String, Vec<u8>)>;

/// Confluent's name of the header that names the schema of keys or values.
pub(crate) fn header_name(name: &str) -> &'static str {
    if name == "key" { "__key_schema_id" } else { "__value_schema_id" }
}

/// Place of the keys or values of rows.
enum EncodedColumns {
    Column(usize),
    /// The fields of a record are columns of their own.
    Fields(Fields, Vec<usize>),
}

/// A column of records that is made of columns of the table.
struct Made {
    name: &'static str,
    written: WrittenAs,
    source: EncodedColumns,
}

/// The table's rows with bytes for keys and values, by the specs, and their headers. A registry is asked only once all
/// rows are written: a registered schema stays there, and a mended one might not be compatible with it.
pub(crate) fn registered(
    py: Python<'_>,
    reader: Box<dyn RecordBatchReader + Send>,
    topic: Option<&str>,
    (key_spec, value_spec): (PySpec<'_>, PySpec<'_>),
    registry: Option<&Arc<SchemaRegistry>>,
) -> PyResult<(Box<dyn RecordBatchReader + Send>, Headers)> {
    let headers_of = |all: [(&str, Option<&WrittenAs>); 2]| -> Headers {
        let header = |(name, written): (&str, Option<&WrittenAs>)| {
            Some((header_name(name).to_owned(), written?.header.clone()?))
        };
        all.into_iter().filter_map(header).collect()
    };
    let written = |spec: &PySpec<'_>, name| spec.as_ref().map(|spec| spec.written(py, name, registry)).transpose();
    let (mut key, mut value) = (written(&key_spec, "key")?, written(&value_spec, "value")?);
    let Some(registry) = registry else {
        let headers = headers_of([("key", key.as_ref()), ("value", value.as_ref())]);
        return Ok((encoded(py, reader, key, value, topic.is_some())?, headers));
    };
    if registry.writes_latest() {
        // Nothing is registered, and rows are written with the schema that is there.
        for (name, spec, written) in [("key", &key_spec, &mut key), ("value", &value_spec, &mut value)] {
            let Some(spec) = spec else { continue };
            let place = SubjectLookup { name, topic, registry, data_type: None, in_header: spec.id_in_header };
            if let Some(latest) = spec.registered(py, place)? {
                *written = Some(latest);
            }
        }
        let headers = headers_of([("key", key.as_ref()), ("value", value.as_ref())]);
        return Ok((encoded(py, reader, key, value, topic.is_some())?, headers));
    }
    let given = reader.schema();
    let rows = Rows::of(&given, key, value, topic.is_some()).map_err(|bad| bad.to_py(py))?;
    Columns::of(&rows.schema, topic.is_some()).map_err(|error| to_py(py, error))?;
    let batches = rows.write(py, reader)?;
    let (mut frames, mut headers) = (Vec::new(), Headers::new());
    // One for each made column, which a spec has asked for.
    for made in &rows.made {
        let Some(spec) = (if made.name == "key" { &key_spec } else { &value_spec }) else { continue };
        let data_type = made.data_type(&given);
        let in_header = spec.id_in_header;
        let place = SubjectLookup { name: made.name, topic, registry, data_type: Some(&data_type), in_header };
        let registered = spec.registered(py, place)?;
        headers.extend(headers_of([(made.name, registered.as_ref().or(Some(&made.written))), ("", None)]));
        frames.push(registered.filter(|_| !in_header).map(|registered| registered.encoder.frame().to_vec()));
    }
    let batches = py.detach(|| batches.into_iter().map(|batch| with_frames(batch, &frames)).collect::<Vec<_>>());
    Ok((Box::new(RecordBatchIterator::new(batches, rows.schema)), headers))
}

/// The rows with these frames before the values of their first columns, in place of those that are there.
fn with_frames(batch: RecordBatch, frames: &[Option<Vec<u8>>]) -> Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let (schema, mut columns, _) = batch.into_parts();
    for (column, frame) in columns.iter_mut().zip(frames) {
        if let Some(frame) = frame {
            let values = column.as_binary::<i64>().clone();
            // So that nobody else has the bytes, which are then changed where they are.
            *column = new_null_array(&DataType::Null, 0);
            *column = Arc::new(with_frame(values, frame));
        }
    }
    RecordBatch::try_new_with_options(schema, columns, &options)
}

/// The table's rows with bytes for keys and values. All of them are written before the first is returned: no row is
/// sent if one is bad. With `has_topic` a column of topics is ignored.
pub(crate) fn encoded(
    py: Python<'_>,
    reader: Box<dyn RecordBatchReader + Send>,
    key: Option<WrittenAs>,
    value: Option<WrittenAs>,
    has_topic: bool,
) -> PyResult<Box<dyn RecordBatchReader + Send>> {
    let rows = Rows::of(&reader.schema(), key, value, has_topic).map_err(|bad| bad.to_py(py))?;
    let batches = rows.write(py, reader)?;
    Ok(Box::new(RecordBatchIterator::new(batches.into_iter().map(Ok), rows.schema)))
}

struct Rows {
    made: Vec<Made>,
    /// The columns that stay as they are.
    kept: Vec<usize>,
    schema: SchemaRef,
}

impl Rows {
    fn of(
        given: &Schema,
        key: Option<WrittenAs>,
        value: Option<WrittenAs>,
        has_topic: bool,
    ) -> Result<Self, BadArgument> {
        let mut made = Vec::new();
        for name in [KEY, "value"] {
            if given.fields().iter().filter(|field| field.name() == name).count() > 1 {
                return Err(format!("there are two columns {name:?}; keep one").into());
            }
        }
        if let Some(written) = key {
            let Some((index, _)) = given.column_with_name("key") else {
                return Err(BadArgument::of("key", "the table has no column \"key\", which it says how to write"));
            };
            made.push(Made { name: "key", written, source: EncodedColumns::Column(index) });
        }
        if let Some(written) = value {
            let source = EncodedColumns::of_values(given, &written, has_topic)?;
            made.push(Made { name: "value", written, source });
        }
        for each in &made {
            each.check(given)?;
        }
        let takes = |index| {
            made.iter().any(|each| match &each.source {
                EncodedColumns::Column(column) => *column == index,
                EncodedColumns::Fields(_, columns) => columns.contains(&index),
            })
        };
        let kept: Vec<usize> = (0..given.fields().len()).filter(|index| !takes(*index)).collect();
        let bytes = |each: &Made| -> FieldRef { Arc::new(Field::new(each.name, DataType::LargeBinary, true)) };
        let fields = made.iter().map(bytes).chain(kept.iter().map(|index| Arc::clone(&given.fields()[*index])));
        let schema = Arc::new(Schema::new(fields.collect::<Fields>()));
        Ok(Self { made, kept, schema })
    }

    /// All rows with their bytes, in batches of at most [`PIECE_ROWS`]; Ctrl-C is heard between these.
    fn write(&self, py: Python<'_>, mut reader: Box<dyn RecordBatchReader + Send>) -> PyResult<Vec<RecordBatch>> {
        let (mut batches, mut first_row) = (Vec::new(), 0);
        while let Some(batch) = py.detach(|| reader.next()) {
            let batch = batch.map_err(|error| capsule::unreadable(py, &error))?;
            // Also one without rows: its columns are checked.
            for first in (0..batch.num_rows().max(1)).step_by(PIECE_ROWS) {
                let piece = batch.slice(first, PIECE_ROWS.min(batch.num_rows() - first));
                let made = py.detach(|| self.make(&piece, first_row + first));
                batches.push(made.map_err(|bad| bad.to_py(py))?);
                py.check_signals()?;
            }
            first_row += batch.num_rows();
        }
        Ok(batches)
    }

    fn make(&self, batch: &RecordBatch, first_row: usize) -> Result<RecordBatch, BadArgument> {
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for each in &self.made {
            columns.push(each.bytes(batch, first_row)?);
        }
        columns.extend(self.kept.iter().map(|index| Arc::clone(batch.column(*index))));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let made = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options);
        made.map_err(|error: ArrowError| format!("this Arrow data cannot be read: {error}").into())
    }
}

impl EncodedColumns {
    fn of_values(given: &Schema, written: &WrittenAs, has_topic: bool) -> Result<Self, BadArgument> {
        let column = given.column_with_name("value").map(|(index, _)| index);
        let content = written.encoder.content();
        if !content.has_fields() {
            return column.map(Self::Column).ok_or_else(|| {
                BadArgument::new(
                    "the table has no column \"value\": the schema is that of no record, whose fields could be columns of \
                     their own",
                )
            });
        }
        if let (Some(column), false) = (column, written.flatten) {
            return Ok(Self::Column(column));
        }
        let mut columns = Vec::new();
        for (index, field) in given.fields().iter().enumerate() {
            let name = field.name().as_str();
            if !BESIDE.contains(&name) {
                if !is_row_number(given, field).map_err(|error| error.to_string())? {
                    columns.push(index);
                }
            } else if matches!(content, Content::AnyFields) && !is_surely_beside(name, has_topic) {
                let reason = format!(
                    "the column {name:?} has the name of one of Kafka's, and may be a field of the values as well"
                );
                return Err(BadArgument::new(reason).with_hint(
                    "If it is, rename it, or give the fields as one column \"value\" of structs; if not, say the fields of \
                     the values`: Json(schema)`",
                ));
            } else if content.has(name) {
                return Err(format!(
                    "the column {name:?} is one of Kafka's records, and {name:?} is a field of the schema too: give the \
                     fields as one column \"value\" of structs"
                )
                .into());
            }
        }
        if columns.is_empty() && matches!(content, Content::AnyFields) {
            let reason = "the table has neither a column \"value\" nor one that could be a field of values";
            return Err(BadArgument::new(reason));
        }
        let own = columns.iter().map(|index| Arc::clone(&given.fields()[*index])).collect();
        Ok(Self::Fields(own, columns))
    }
}

impl Made {
    fn data_type(&self, given: &Schema) -> DataType {
        match &self.source {
            EncodedColumns::Column(index) => given.field(*index).data_type().clone(),
            EncodedColumns::Fields(fields, _) => DataType::Struct(fields.clone()),
        }
    }

    /// Refuses columns of types that cannot be written.
    fn check(&self, given: &Schema) -> Result<(), BadArgument> {
        let data_type = self.data_type(given);
        self.written.encoder.check(&data_type).map_err(|unwritable| {
            let told = self.told(unwritable, 0);
            let takes_columns = self.name == "value" && self.written.encoder.content().has_fields();
            match &self.source {
                EncodedColumns::Fields(fields, _) if fields.is_empty() => {
                    told.with_hint("The fields are columns of the table, or those of one column \"value\" of structs")
                }
                EncodedColumns::Column(_) if takes_columns && !data_type.is_nested() => {
                    told.with_hint("With `flatten=True`, the columns of the table are its fields")
                }
                _ => told,
            }
        })
    }

    fn bytes(&self, batch: &RecordBatch, first_row: usize) -> Result<ArrayRef, BadArgument> {
        let column = match &self.source {
            EncodedColumns::Column(index) => Arc::clone(batch.column(*index)),
            EncodedColumns::Fields(_, columns) if columns.is_empty() => {
                Arc::new(StructArray::new_empty_fields(batch.num_rows(), None))
            }
            EncodedColumns::Fields(fields, columns) => {
                let columns = columns.iter().map(|index| Arc::clone(batch.column(*index))).collect();
                let fields = fields.iter().map(|field| Arc::new(Field::clone(field).with_nullable(true))).collect();
                Arc::new(StructArray::try_new(fields, columns, None).map_err(|error| error.to_string())?)
            }
        };
        let written = self.written.encoder.encode(&column);
        written.map(|bytes| Arc::new(bytes) as ArrayRef).map_err(|unwritable| self.told(unwritable, first_row))
    }

    /// The error with the names of the table's columns, and the row's number in the table.
    fn told(&self, unwritable: Unwritable, first_row: usize) -> BadArgument {
        let (row, path, reason) = match unwritable {
            Unwritable::Column(bad) => (None, bad.path, bad.reason),
            Unwritable::Row { row, path, reason } => (Some(first_row + row), path, reason),
        };
        let place = match (&self.source, path.is_empty()) {
            (EncodedColumns::Fields(..), true) => "the table".to_owned(),
            (EncodedColumns::Fields(..), false) => path,
            (EncodedColumns::Column(_), true) => self.name.to_owned(),
            (EncodedColumns::Column(_), false) if path.starts_with('[') => format!("{}{path}", self.name),
            (EncodedColumns::Column(_), false) => format!("{}.{path}", self.name),
        };
        let bad = BadArgument::new(format!("{place}: {reason}"));
        match row {
            Some(row) => bad.in_row(row).with_hint("`no row was sent`"),
            None => bad,
        }
    }
}

/// True if a column of this name, of a table whose values may have any fields, is the record's own, and all of it is
/// sent: the key, and the topic, unless all rows have another one.
fn is_surely_beside(name: &str, has_topic: bool) -> bool {
    name == KEY || (name == TOPIC && !has_topic)
}
