//! `RecordTable`: the records of a `send_many`, as Arrow columns of bytes.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, LargeListArray, RecordBatch, StructArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields, Schema};
use monedula_columns::OutOfMemory;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyIterator, PyList, PyString, PyTuple};

use super::argument_values::{self, Headers, data, short, type_name};
use super::byte_column::{ByteColumn, reserve};
use super::record_encoders::TopicEncoders;
use crate::arrow::capsule;
use crate::error::{argument_error, to_py};

/// The number of records after which signals are looked for, and other threads of Python are let in.
const PAUSE_ROWS: usize = 1 << 12;

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
    /// If a record is invalid, or the iterable raises in its place, with a note that names it.
    pub(super) fn of(
        py: Python<'_>,
        records: &Bound<'_, PyAny>,
        encoders: Option<&TopicEncoders>,
        partition_of: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let mut columns = RecordColumns::default();
        for (row, record) in iterator(records)?.enumerate() {
            if row % PAUSE_ROWS == PAUSE_ROWS - 1 {
                py.check_signals()?;
                py.detach(|| ());
            }
            let added = record.and_then(|record| columns.add(&record, encoders, partition_of));
            added.map_err(|error| with_note(py, error, row))?;
        }
        columns.finish().map(Self).map_err(|error| argument_error(py, error.to_string()))
    }
}

/// The iterator of a collection of records. `__iter__` is called once: that of an outbox takes what waits.
///
/// # Errors
/// Refuses what may be iterated, and is no collection of records; an error of `__iter__`.
fn iterator<'py>(records: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyIterator>> {
    let py = records.py();
    let is_one = records.is_instance_of::<PyBytes>()
        || records.is_instance_of::<PyString>()
        || records.is_instance_of::<PyDict>();
    let is_arrow = records.hasattr("__arrow_c_stream__")? || records.hasattr("__arrow_c_array__")?;
    let one = "send(topic, value) sends one record";
    let advice: Cow<'_, str> = if is_one {
        one.into()
    } else if is_record(records) {
        "a tuple of texts is one record, [(key, value)] a list of it; values without keys go into a list".into()
    } else if let Some(method) = is_arrow.then(|| column_to_list(records)).transpose()?.flatten() {
        format!(".{method}() makes a list of this column, and send_batch(data, topic) sends a table of it").into()
    } else if is_arrow {
        "send_batch(data, topic) sends a table".into()
    } else {
        match records.try_iter() {
            // Of an object without `__iter__`: an error that `__iter__` itself raises has a traceback.
            Err(error) if error.is_instance_of::<PyTypeError>(py) && error.traceback(py).is_none() => one.into(),
            outcome => return outcome,
        }
    };
    // Tables are shown on several lines.
    let given = if is_arrow { type_name(records) } else { short(records) };
    let message = format!(
        "records={given}: expected a list, or an iterable, of values, (key, value) or (key, value, headers); {advice}"
    );
    Err(argument_error(py, message))
}

/// True for a plain tuple that begins with a text and has no tuple in it: a record in place of a list of records.
fn is_record(records: &Bound<'_, PyAny>) -> bool {
    let Ok(tuple) = records.cast_exact::<PyTuple>() else { return false };
    let is_text = |part: &Bound<'_, PyAny>| part.is_instance_of::<PyString>() || part.is_instance_of::<PyBytes>();
    tuple.get_item(0).is_ok_and(|first| is_text(&first)) && !tuple.iter().any(|part| part.is_instance_of::<PyTuple>())
}

/// The method that makes a list of a single column of Arrow data; `None` for a table.
fn column_to_list(data: &Bound<'_, PyAny>) -> PyResult<Option<&'static str>> {
    if data.hasattr("columns")? {
        return Ok(None);
    }
    for method in ["to_list", "tolist", "to_pylist"] {
        if data.hasattr(method)? {
            return Ok(Some(method));
        }
    }
    Ok(None)
}

fn with_note(py: Python<'_>, error: PyErr, row: usize) -> PyErr {
    let note = format!("monedula: raised for records[{row}] of send_many(); none of the records was sent");
    // Fails if the error has something else as its notes: it is raised without this one.
    let _ = error.value(py).call_method1("add_note", (note,));
    error
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
        if record.is_instance_of::<PyList>() && encoders.is_none_or(|encoders| encoders.value.is_none()) {
            let message = format!(
                "value={}: expected bytes, str or None; a record with a key is a tuple, (key, value), and json.dumps() \
                 makes a text of a list",
                short(record)
            );
            return Err(argument_error(py, message));
        }
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
