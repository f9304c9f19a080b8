//! The Python class `Record`: single rows, for services that handle one record at a time.

use std::sync::{Arc, Weak};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch};
use arrow_schema::DataType;
use monedula_client::share::ShareConsumer;
use monedula_columns::ColumnSet;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyType};

use crate::convert;
use crate::formats::typed_values::{bytes, typed_value};
use crate::runtime::Own;

/// One record. Attributes of columns that the consumer does not read are `None`.
#[pyclass(frozen, module = "monedula")]
pub(crate) struct Record {
    /// Topic.
    #[pyo3(get)]
    topic: Option<Py<PyString>>,
    /// Partition.
    #[pyo3(get)]
    partition: Option<i32>,
    /// Offset.
    #[pyo3(get)]
    offset: Option<i64>,
    /// Timestamp in milliseconds since the Unix epoch.
    #[pyo3(get)]
    timestamp: Option<i64>,
    /// 0 for the producer's time (CreateTime), 1 for the broker's (LogAppendTime).
    #[pyo3(get)]
    timestamp_type: Option<i32>,
    /// Key, or `None`. Bytes, or what the consumer's `key=` makes of them.
    #[pyo3(get)]
    key: Option<Py<PyAny>>,
    /// Value, or `None`. Bytes, or what the consumer's `value=` makes of them.
    #[pyo3(get)]
    value: Option<Py<PyAny>>,
    /// Headers as `[(key, value), ...]` with duplicate keys; `None` if there are none, or if the consumer does not read
    /// them.
    #[pyo3(get)]
    headers: Option<Py<PyList>>,
    /// How often the record was delivered, this time included: of a `ShareConsumer` with the column `deliveryCount`.
    #[pyo3(get)]
    delivery_count: Option<i16>,
    /// The row of a share group's batch that it is.
    locked: Option<(Arc<LockedBatch>, usize)>,
}

/// The attributes of a record, in the order of the constructor.
type PyFields<'py> = (
    Option<Bound<'py, PyString>>,
    Option<i32>,
    Option<i64>,
    Option<i64>,
    Option<i32>,
    Option<Bound<'py, PyAny>>,
    Option<Bound<'py, PyAny>>,
    Option<Bound<'py, PyList>>,
    Option<i16>,
);

#[pymethods]
impl Record {
    #[new]
    #[pyo3(signature = (topic, partition, offset, timestamp, timestamp_type, key, value, headers, delivery_count=None))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's")]
    fn new(
        topic: Option<Py<PyString>>,
        partition: Option<i32>,
        offset: Option<i64>,
        timestamp: Option<i64>,
        timestamp_type: Option<i32>,
        key: Option<Py<PyAny>>,
        value: Option<Py<PyAny>>,
        headers: Option<Py<PyList>>,
        delivery_count: Option<i16>,
    ) -> Self {
        let locked = None;
        Self { topic, partition, offset, timestamp, timestamp_type, key, value, headers, delivery_count, locked }
    }

    /// Support for pickling and copying, such as for a pool of processes.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, PyFields<'py>) {
        (slf.get_type(), fields(slf))
    }

    /// Equal to a record with the same fields, such as a pickled copy.
    fn __eq__(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) -> PyResult<bool> {
        Ok(slf.is(other) || fields(slf).into_pyobject(slf.py())?.eq(fields(other))?)
    }

    fn __hash__(slf: &Bound<'_, Self>) -> PyResult<isize> {
        let (topic, partition, offset, ..) = fields(slf);
        (topic, partition, offset).into_pyobject(slf.py())?.hash()
    }

    /// Attributes of other clients' messages: the error says what to use.
    fn __getattr__(slf: &Bound<'_, Self>, name: &Bound<'_, PyString>) -> PyResult<()> {
        Err(convert::no_attribute(slf, name))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let show = |cell: &Option<Py<PyAny>>| match cell {
            Some(cell) => cell.bind(py).repr().map(|text| text.to_string_lossy().into_owned()),
            None => Ok("None".into()),
        };
        let topic = self.topic.as_ref().map_or("?".into(), |topic| topic.bind(py).to_string_lossy().into_owned());
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

impl Record {
    /// The batch of a share group and the row that it is; `None` for a copy, too.
    pub(crate) fn locked(&self) -> Option<(&LockedBatch, usize)> {
        self.locked.as_ref().map(|(batch, row)| (&**batch, *row))
    }

    /// Topic, partition and offset, if the consumer reads them.
    pub(crate) fn place(&self, py: Python<'_>) -> Option<(String, i32, i64)> {
        let topic = self.topic.as_ref()?.bind(py).to_string_lossy().into_owned();
        Some((topic, self.partition?, self.offset?))
    }
}

fn fields<'py>(record: &Bound<'py, Record>) -> PyFields<'py> {
    let (py, record) = (record.py(), record.get());
    let cell = |cell: &Option<Py<PyAny>>| cell.as_ref().map(|cell| cell.bind(py).clone());
    (
        record.topic.as_ref().map(|topic| topic.bind(py).clone()),
        record.partition,
        record.offset,
        record.timestamp,
        record.timestamp_type,
        cell(&record.key),
        cell(&record.value),
        record.headers.as_ref().map(|headers| headers.bind(py).clone()),
        record.delivery_count,
    )
}

/// A batch of a share group: its rows are locked, and its consumer knows until when.
pub(crate) struct LockedBatch {
    consumer: Own<Weak<ShareConsumer>>,
    id: u64,
}

impl LockedBatch {
    pub(crate) fn new(consumer: &Arc<ShareConsumer>, id: u64) -> Self {
        Self { consumer: Own::new(Arc::downgrade(consumer)), id }
    }

    pub(crate) fn consumer(&self) -> PyResult<&Weak<ShareConsumer>> {
        self.consumer.get()
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }
}

/// The columns of a batch, looked up by name once.
pub(crate) struct Columns {
    rows: usize,
    /// The share group's batch of which these rows are a part, and the first of them.
    locked: Option<(Arc<LockedBatch>, usize)>,
    key: Option<Cells>,
    value: Option<Cells>,
    topic: Option<ArrayRef>,
    partition: Option<ArrayRef>,
    offset: Option<ArrayRef>,
    timestamp: Option<ArrayRef>,
    timestamp_type: Option<ArrayRef>,
    headers: Option<ArrayRef>,
    delivery_count: Option<ArrayRef>,
}

impl Columns {
    pub(crate) fn of(batch: &RecordBatch) -> Self {
        let column = |name| batch.column_by_name(name).cloned();
        Self {
            rows: batch.num_rows(),
            locked: None,
            key: column("key").map(Cells::of),
            value: column("value").map_or_else(|| Cells::flattened(batch), |column| Some(Cells::of(column))),
            topic: column("topic"),
            partition: column("partition"),
            offset: column("offset"),
            timestamp: column("timestamp"),
            timestamp_type: column("timestampType"),
            headers: column("headers"),
            delivery_count: column("deliveryCount").filter(|column| *column.data_type() == DataType::Int16),
        }
    }

    /// These rows as rows of a share group's batch, of which `first_row` is the first.
    pub(crate) fn locked(self, batch: Arc<LockedBatch>, first_row: usize) -> Self {
        Self { locked: Some((batch, first_row)), ..self }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The offset of a row, if the column is read.
    pub(crate) fn offset(&self, row: usize) -> Option<i64> {
        Some(self.offset.as_ref()?.as_primitive::<Int64Type>().value(row))
    }

    /// The keys of the rows.
    pub(crate) fn keys(&self, py: Python<'_>) -> PyResult<Keys<'_>> {
        Ok(match &self.key {
            None => Keys::Null,
            Some(Cells::Binary(column)) => Keys::Binary(column.as_binary()),
            Some(cells) => {
                let text = |row| match cells.get(py, row)? {
                    None => Ok(None),
                    Some(key) => Ok(Some(key.bind(py).repr()?.to_string_lossy().into_owned())),
                };
                Keys::Decoded((0..self.rows).map(text).collect::<PyResult<_>>()?)
            }
        })
    }

    pub(crate) fn record(&self, py: Python<'_>, row: usize) -> PyResult<Option<Record>> {
        if row >= self.rows {
            return Ok(None);
        }
        let integer = |column: &Option<ArrayRef>| Some(column.as_ref()?.as_primitive::<Int32Type>().value(row));
        let micros = |column: &ArrayRef| column.as_primitive::<TimestampMicrosecondType>().value(row);
        Ok(Some(Record {
            // Interned, because the same few names occur in all rows.
            topic: self
                .topic
                .as_ref()
                .map(|column| PyString::intern(py, column.as_string::<i32>().value(row)).unbind()),
            partition: integer(&self.partition),
            offset: self.offset.as_ref().map(|column| column.as_primitive::<Int64Type>().value(row)),
            timestamp: self.timestamp.as_ref().map(|column| micros(column).div_euclid(1000)),
            timestamp_type: integer(&self.timestamp_type),
            key: self.key.as_ref().map(|cells| cells.get(py, row)).transpose()?.flatten(),
            value: self.value.as_ref().map(|cells| cells.get(py, row)).transpose()?.flatten(),
            headers: self.headers.as_ref().map(|column| headers(py, column, row)).transpose()?.flatten(),
            delivery_count: self.delivery_count.as_ref().map(|counts| counts.as_primitive::<Int16Type>().value(row)),
            locked: self.locked.as_ref().map(|(batch, first_row)| (batch.clone(), first_row + row)),
        }))
    }
}

/// The keys of a batch's rows, as bytes that are equal where the keys are.
pub(crate) enum Keys<'c> {
    Null,
    Binary(&'c BinaryArray),
    /// The text forms of decoded keys, which may be dicts.
    Decoded(Vec<Option<String>>),
}

impl Keys<'_> {
    pub(crate) fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Null => None,
            Self::Binary(column) => (!column.is_null(row)).then(|| column.value(row)),
            Self::Decoded(texts) => texts[row].as_ref().map(String::as_bytes),
        }
    }
}

enum Cells {
    Binary(ArrayRef),
    Typed(ArrayRef),
    /// The fields of a struct, which are columns of their own.
    Flattened(Vec<(String, ArrayRef)>),
}

impl Cells {
    fn of(column: ArrayRef) -> Self {
        if *column.data_type() == DataType::Binary { Self::Binary(column) } else { Self::Typed(column) }
    }

    /// The columns that are none of Kafka's.
    fn flattened(batch: &RecordBatch) -> Option<Self> {
        let schema = batch.schema();
        let columns = schema.fields().iter().zip(batch.columns());
        let columns = columns.map(|(field, column)| (field.name().clone(), column.clone()));
        let fields: Vec<_> =
            columns.filter(|(name, _)| !ColumnSet::NAMES.contains(&name.as_str()) && name != "deliveryCount").collect();
        (!fields.is_empty()).then_some(Self::Flattened(fields))
    }

    fn get(&self, py: Python<'_>, row: usize) -> PyResult<Option<Py<PyAny>>> {
        match self {
            Self::Binary(column) => Ok(binary(py, column, row)?.map(Py::into_any)),
            Self::Typed(column) if column.is_null(row) => Ok(None),
            Self::Typed(column) => Ok(Some(typed_value(py, column, row)?.unbind())),
            Self::Flattened(fields) => {
                let value = PyDict::new(py);
                for (name, column) in fields {
                    value.set_item(name, typed_value(py, column, row)?)?;
                }
                Ok(Some(value.into_any().unbind()))
            }
        }
    }
}

/// A binary cell, `None` for null.
fn binary(py: Python<'_>, column: &ArrayRef, row: usize) -> PyResult<Option<Py<PyBytes>>> {
    let column = column.as_binary::<i32>();
    if column.is_null(row) {
        return Ok(None);
    }
    Ok(Some(bytes(py, column.value(row))?.unbind()))
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
        list.append((keys.value(index), binary(py, values, index)?))?;
    }
    Ok(Some(list.unbind()))
}
