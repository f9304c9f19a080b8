//! Single rows, for services that handle one record at a time.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, RecordBatch};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

/// One record. Columns that were not asked for are `None`.
#[pyclass(frozen, get_all, module = "monedula")]
pub(crate) struct Record {
    /// Topic.
    topic: Option<Py<PyString>>,
    /// Partition.
    partition: Option<i32>,
    /// Offset.
    offset: Option<i64>,
    /// Milliseconds since 1970, UTC.
    timestamp: Option<i64>,
    /// 0 for the producer's time (CreateTime), 1 for the broker's (LogAppendTime).
    timestamp_type: Option<i32>,
    /// Key, or `None`.
    key: Option<Py<PyBytes>>,
    /// Value, or `None`.
    value: Option<Py<PyBytes>>,
    /// Headers as `[(key, value), ...]`, duplicates kept; `None` if there are none, or if they were not asked for.
    headers: Option<Py<PyList>>,
}

#[pymethods]
impl Record {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let show = |bytes: &Option<Py<PyBytes>>| match bytes {
            Some(bytes) => bytes.bind(py).repr().map(|text| text.to_string()),
            None => Ok("None".into()),
        };
        let topic = self.topic.as_ref().map_or("?".into(), |topic| topic.bind(py).to_string());
        let number = |value: Option<i64>| value.map_or("?".into(), |value| value.to_string());
        Ok(format!(
            "<monedula.Record {topic}-{} @{}: key={}, value={}>",
            number(self.partition.map(i64::from)),
            number(self.offset),
            show(&self.key)?,
            show(&self.value)?
        ))
    }
}

/// The columns of a batch, looked up once.
pub(crate) struct Columns {
    rows: usize,
    key: Option<ArrayRef>,
    value: Option<ArrayRef>,
    topic: Option<ArrayRef>,
    partition: Option<ArrayRef>,
    offset: Option<ArrayRef>,
    timestamp: Option<ArrayRef>,
    timestamp_type: Option<ArrayRef>,
    headers: Option<ArrayRef>,
}

impl Columns {
    pub(crate) fn of(batch: &RecordBatch) -> Self {
        let column = |name| batch.column_by_name(name).cloned();
        Self {
            rows: batch.num_rows(),
            key: column("key"),
            value: column("value"),
            topic: column("topic"),
            partition: column("partition"),
            offset: column("offset"),
            timestamp: column("timestamp"),
            timestamp_type: column("timestampType"),
            headers: column("headers"),
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn record(&self, py: Python<'_>, row: usize) -> PyResult<Option<Record>> {
        if row >= self.rows {
            return Ok(None);
        }
        let integer = |column: &Option<ArrayRef>| Some(column.as_ref()?.as_primitive::<Int32Type>().value(row));
        let micros = |column: &ArrayRef| column.as_primitive::<TimestampMicrosecondType>().value(row);
        Ok(Some(Record {
            // The same few names come again and again: interned, they are made once.
            topic: self
                .topic
                .as_ref()
                .map(|column| PyString::intern(py, column.as_string::<i32>().value(row)).unbind()),
            partition: integer(&self.partition),
            offset: self.offset.as_ref().map(|column| column.as_primitive::<Int64Type>().value(row)),
            timestamp: self.timestamp.as_ref().map(|column| micros(column).div_euclid(1000)),
            timestamp_type: integer(&self.timestamp_type),
            key: self.key.as_ref().and_then(|column| binary(py, column, row)),
            value: self.value.as_ref().and_then(|column| binary(py, column, row)),
            headers: self.headers.as_ref().map(|column| headers(py, column, row)).transpose()?.flatten(),
        }))
    }
}

fn binary(py: Python<'_>, column: &ArrayRef, row: usize) -> Option<Py<PyBytes>> {
    let column = column.as_binary::<i32>();
    column.is_valid(row).then(|| PyBytes::new(py, column.value(row)).unbind())
}

fn headers(py: Python<'_>, column: &ArrayRef, row: usize) -> PyResult<Option<Py<PyList>>> {
    let column = column.as_list::<i32>();
    if column.is_null(row) {
        return Ok(None);
    }
    let entries = column.value(row);
    let entries = entries.as_struct();
    let (keys, values) = (entries.column(0).as_string::<i32>(), entries.column(1));
    let list = PyList::empty(py);
    for index in 0..entries.len() {
        list.append((keys.value(index), binary(py, values, index)))?;
    }
    Ok(Some(list.unbind()))
}
