//! `RecordTable`: the records of a `send_many`, as Arrow columns of bytes.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, LargeListArray, RecordBatch, StructArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields, Schema};
use monedula_columns::OutOfMemory;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyString, PyTuple};

use super::argument_values::{self, Headers, data, short};
use super::byte_column::{ByteColumn, reserve};
use super::record_encoders::TopicEncoders;
use crate::arrow::capsule;
use crate::error::{argument_error, to_py};

/// The number of records after which signals are looked for.
const SIGNAL_ROWS: usize = 1 << 14;

/// The records of a `send_many`, encoded. Nothing was sent of them.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct RecordTable(RecordBatch);

#[pymethods]
impl RecordTable {
    /// Export as `arrow_schema` and `arrow_array` capsules.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        Ok((capsule::schema(py, self.0.schema_ref())?, capsule::array(py, &self.0)?))
    }
}

impl RecordTable {
    /// The table of an iterable of records: values, `(key, value)` or `(key, value, headers)`. `partition_of` is called
    /// with key and value, where Python chooses the partition.
    ///
    /// # Errors
    /// If a record is invalid, with a note that names it; an error of the iterable.
    pub(super) fn of(
        py: Python<'_>,
        records: &Bound<'_, PyAny>,
        encoders: Option<&TopicEncoders>,
        partition_of: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let mut columns = RecordColumns::default();
        for (row, record) in several(records)?.try_iter()?.enumerate() {
            if row % SIGNAL_ROWS == SIGNAL_ROWS - 1 {
                py.check_signals()?;
            }
            let added = columns.add(&record?, encoders, partition_of);
            added.map_err(|error| with_note(py, error, row))?;
        }
        columns.finish().map(Self).map_err(|error| argument_error(py, error.to_string()))
    }
}

/// Refuses what may be iterated, and is no collection of records.
fn several<'a, 'py>(records: &'a Bound<'py, PyAny>) -> PyResult<&'a Bound<'py, PyAny>> {
    let is_one = records.is_instance_of::<PyBytes>()
        || records.is_instance_of::<PyString>()
        || records.is_instance_of::<PyDict>();
    let advice = if records.hasattr("__arrow_c_stream__")? || records.hasattr("__arrow_c_array__")? {
        "send_batch(data, topic) sends a table"
    } else if is_one || records.try_iter().is_err() {
        "send(topic, value) sends one record"
    } else {
        return Ok(records);
    };
    let message = format!(
        "records={}: expected a list, or an iterable, of values, (key, value) or (key, value, headers); {advice}",
        short(records)
    );
    Err(argument_error(records.py(), message))
}

fn with_note(py: Python<'_>, error: PyErr, row: usize) -> PyErr {
    let note = format!("monedula: raised for records[{row}] of send_many(); none of the records was sent");
    let noted = error.value(py).call_method1("add_note", (note,));
    noted.err().unwrap_or(error)
}

#[derive(Default)]
struct RecordColumns {
    keys: ByteColumn,
    values: ByteColumn,
    header_names: ByteColumn,
    header_values: ByteColumn,
    /// The number of headers up to the end of each row, from the first one that has any.
    header_ends: Vec<i64>,
    partitions: Vec<i32>,
}

impl RecordColumns {
    fn add<'py>(
        &mut self,
        record: &Bound<'py, PyAny>,
        encoders: Option<&TopicEncoders>,
        partition_of: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let py = record.py();
        let (key, value, headers) = parts(record)?;
        let (key, value, headers) = match encoders {
            None => (key, value, headers),
            Some(encoders) => encoders.encode(py, key.as_ref(), value.as_ref(), headers.as_ref())?,
        };
        let refused = |error: OutOfMemory| to_py(py, error.into());
        self.keys.push(data("key", key.as_ref())?.as_ref().map(|key| key.bytes())).map_err(refused)?;
        self.values.push(data("value", value.as_ref())?.as_ref().map(|value| value.bytes())).map_err(refused)?;
        if let Some(partition_of) = partition_of {
            let partition = partition_of.call1((key, value))?;
            self.partitions.push(argument_values::partition(Some(&partition))?.unwrap_or_default());
        }
        if headers.is_some() || !self.header_ends.is_empty() {
            self.add_headers(py, headers.as_ref())?;
        }
        Ok(())
    }

    fn add_headers(&mut self, py: Python<'_>, headers: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let refused = |error: OutOfMemory| to_py(py, error.into());
        let held = Headers::of(headers)?;
        let values = held.values()?;
        for header in held.headers(&values)? {
            self.header_names.push(Some(header.key)).map_err(refused)?;
            self.header_values.push(header.value).map_err(refused)?;
        }
        let rows = self.values.len() - self.header_ends.len();
        reserve(&mut self.header_ends, rows).map_err(refused)?;
        // The rows before the first one with headers have none.
        self.header_ends.resize(self.values.len() - 1, 0);
        self.header_ends.push(self.header_names.len() as i64);
        Ok(())
    }

    fn finish(self) -> Result<RecordBatch, arrow_schema::ArrowError> {
        let mut columns: Vec<(&str, ArrayRef)> = vec![("key", self.keys.finish()), ("value", self.values.finish())];
        if !self.header_ends.is_empty() {
            let fields =
                Fields::from(["key", "value"].map(|name| Field::new(name, DataType::LargeBinary, true)).to_vec());
            let pairs = vec![self.header_names.finish(), self.header_values.finish()];
            let pairs = StructArray::try_new(fields.clone(), pairs, None)?;
            let item = Arc::new(Field::new("item", DataType::Struct(fields), true));
            let offsets: ScalarBuffer<i64> = [0].into_iter().chain(self.header_ends).collect();
            let headers = LargeListArray::try_new(item, OffsetBuffer::new(offsets), Arc::new(pairs), None)?;
            columns.push(("headers", Arc::new(headers)));
        }
        if !self.partitions.is_empty() {
            columns.push(("partition", Arc::new(Int32Array::from(self.partitions))));
        }
        let fields = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
        let schema = Schema::new(fields.collect::<Vec<_>>());
        RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(_, column)| column).collect())
    }
}

type Parts<'py> = (Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

/// Key, value and headers. Only a plain tuple has several of them: a named tuple is a value.
fn parts<'py>(record: &Bound<'py, PyAny>) -> PyResult<Parts<'py>> {
    let given = |part: Bound<'py, PyAny>| (!part.is_none()).then_some(part);
    let Ok(tuple) = record.cast_exact::<PyTuple>() else { return Ok((None, given(record.clone()), None)) };
    match tuple.len() {
        2 => Ok((given(tuple.get_item(0)?), given(tuple.get_item(1)?), None)),
        3 => Ok((given(tuple.get_item(0)?), given(tuple.get_item(1)?), given(tuple.get_item(2)?))),
        _ => {
            let message = format!("{}: expected a value, (key, value) or (key, value, headers)", short(record));
            Err(argument_error(record.py(), message))
        }
    }
}
