//! The Python classes `Batch`, `Span` and the iterator over a batch's rows.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch, RecordBatchIterator};
use monedula_client::consumer::Unfinished;
use monedula_client::error::counted;
use monedula_client::group::{HandedBatch, RowCursor};
use monedula_columns::ColumnBatch;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyString, PyTuple, PyType};

use crate::arrow::capsule;
use crate::arrow::schema::Schema;
use crate::arrow::table::Table;
use crate::convert;
use crate::error::argument_error;
use crate::interpreter::thread_ids::this_thread;
use crate::record::{LockedBatch, Record};
use crate::runtime::Own;

/// Kafka records as Arrow columns.
///
/// Any library with Arrow's PyCapsule interface accepts a batch: `polars.DataFrame(batch)`,
/// `pyarrow.record_batch(batch)`, `pandas.DataFrame.from_arrow(batch)`, DuckDB. The data is not copied; the memory
/// lives as long as any object that uses it. `batch["value"]` is one column, as a `pyarrow.Array`.
#[pyclass(frozen, mapping, module = "monedula")]
pub(crate) struct Batch(pub(crate) HandedBatch, pub(crate) Option<Hold>);

/// What somebody has to do with a batch.
pub(crate) enum Hold {
    /// The end of this guard says that nobody can finish the batch any more.
    Unfinished(#[expect(dead_code, reason = "it is dropped")] Own<Unfinished>),
    /// The rows are of a share group, and locked.
    Locks(Arc<LockedBatch>),
}

impl From<ColumnBatch> for Batch {
    fn from(columns: ColumnBatch) -> Self {
        Self(HandedBatch { columns, id: 0, places: Vec::new() }, None)
    }
}

/// The values of one row's headers, in the order of the names that were asked for.
type PyHeaderValues = Vec<Option<Py<PyBytes>>>;

/// Cause of a record without a row: the column, the path of the field, the reason.
type PyCause = (&'static str, String, String);

/// The attributes of a span, in the order of the constructor.
type PySpan = (String, i32, usize, i64, i64, i32);

/// Consecutive rows of one partition in a batch.
#[pyclass(frozen, get_all, module = "monedula")]
pub(crate) struct Span {
    /// Topic.
    topic: String,
    /// Partition.
    partition: i32,
    /// Number of rows.
    rows: usize,
    /// Offset of the first row.
    first_offset: i64,
    /// The consumer's position after the last row.
    next_offset: i64,
    /// Leader epoch of the last row, -1 if unknown.
    leader_epoch: i32,
}

#[pymethods]
impl Span {
    #[new]
    #[pyo3(signature = (topic, partition, rows, first_offset, next_offset, leader_epoch))]
    fn new(topic: String, partition: i32, rows: usize, first_offset: i64, next_offset: i64, leader_epoch: i32) -> Self {
        Self { topic, partition, rows, first_offset, next_offset, leader_epoch }
    }

    /// Support for pickling and copying.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, PySpan) {
        let Self { topic, partition, rows, first_offset, next_offset, leader_epoch } = slf.get();
        (slf.get_type(), (topic.clone(), *partition, *rows, *first_offset, *next_offset, *leader_epoch))
    }

    fn __repr__(&self) -> String {
        let Self { topic, partition, rows, first_offset, next_offset, .. } = self;
        let rows = counted(*rows as u64, "row");
        format!("<monedula.Span of {rows}: {topic}-{partition} {first_offset}..{next_offset}>")
    }
}

#[pymethods]
impl Batch {
    /// Number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.columns.record_batch.num_rows()
    }

    /// Number of columns.
    #[getter]
    fn num_columns(&self) -> usize {
        self.0.columns.record_batch.num_columns()
    }

    /// Bytes of memory that the columns hold.
    #[getter]
    fn nbytes(&self) -> usize {
        self.0.columns.memory_bytes
    }

    /// The Arrow schema, which is the same for every batch of a consumer, empty ones included.
    #[getter]
    fn schema(&self) -> Schema {
        Schema(self.0.columns.record_batch.schema())
    }

    /// The spans of consecutive rows of one partition, in row order.
    #[getter]
    fn spans(&self) -> Vec<Span> {
        let spans = self.0.columns.spans.iter();
        spans
            .map(|span| Span {
                topic: span.topic.to_string(),
                partition: span.partition,
                rows: span.rows,
                first_offset: span.first_offset,
                next_offset: span.next_offset,
                leader_epoch: span.leader_epoch,
            })
            .collect()
    }

    /// The positions after this batch: `{(topic, partition): next offset}`, a valid argument of `assign`.
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let offsets = PyDict::new(py);
        for span in &self.0.columns.spans {
            offsets.set_item((&*span.topic, span.partition), span.next_offset)?;
        }
        Ok(offsets)
    }

    /// When the first lock of an undecided row ends, in seconds as `time.monotonic()` counts; `None` if everything is
    /// decided, or if the batch is of no `ShareConsumer`. Renewals move it.
    #[getter]
    fn deadline(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        match &self.1 {
            Some(Hold::Locks(batch)) => crate::share::deadline(py, batch.consumer()?, batch.id()),
            _ => Ok(None),
        }
    }

    /// The rows as `Record` objects, one by one. For services; analysis is faster on the columns.
    fn records(&self) -> PyResult<Records> {
        let records = Records::of(&self.0.columns.record_batch);
        Ok(match &self.1 {
            Some(Hold::Locks(batch)) => Records { columns: records.columns.locked(batch.clone(), 0), ..records },
            _ => records,
        })
    }

    /// The first rows, as a table that shares the batch's memory.
    ///
    /// Args:
    ///     n: the number of rows; fewer if the batch has no more.
    #[pyo3(signature = (n=None), text_signature = "($self, n=10)")]
    fn head(&self, py: Python<'_>, n: Option<&Bound<'_, PyAny>>) -> PyResult<Table> {
        let wanted = match n {
            None => HEAD_ROWS,
            Some(n) => match n.extract() {
                Ok(wanted) => wanted,
                Err(_) => {
                    let reason = format!("n={}: expected a number of rows, 0 to 2**64 - 1", n.repr()?);
                    return Err(argument_error(py, reason));
                }
            },
        };
        let rows = &self.0.columns.record_batch;
        Ok(Table(rows.slice(0, wanted.min(rows.num_rows()))))
    }

    /// A column by its name, as a `pyarrow.Array`, without a copy. Needs pyarrow (`pip install 'monedula[arrow]'`).
    fn __getitem__<'py>(slf: &Bound<'py, Self>, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        convert::column(slf, name)
    }

    /// Records that have no row since their key or value cannot be decoded, as they are in Kafka, and for each of them
    /// the column, the path of the field and the reason; `None` if there are none.
    fn _refused(&self) -> Option<(Self, Vec<PyCause>)> {
        let refused = self.0.columns.refused.as_ref()?;
        let causes =
            refused.causes.iter().map(|cause| (cause.column, cause.bad.path.clone(), cause.bad.reason_and_hint()));
        Some((Self::from(refused.rows.clone()), causes.collect()))
    }

    /// The values that rows have in the headers of these names, each combination once, in the order of the first rows
    /// that have it, and at most `limit` of them. Rows without any of the headers are left out.
    fn _header_values(&self, py: Python<'_>, names: Vec<String>, limit: usize) -> Vec<PyHeaderValues> {
        let batch = &self.0.columns.record_batch;
        let found = py.detach(|| header_values(batch, &names, limit));
        found
            .iter()
            .map(|values| values.iter().map(|value| value.map(|value| PyBytes::new(py, value).unbind())).collect())
            .collect()
    }

    /// As a `pyarrow.RecordBatch`, without a copy. Needs pyarrow (`pip install 'monedula[arrow]'`).
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_pyarrow(slf)
    }

    /// As a `pandas.DataFrame`. Needs pandas and pyarrow (`pip install 'monedula[pandas]'`).
    ///
    /// Args:
    ///     **options: those of pyarrow's `to_pandas`, such as `types_mapper=pandas.ArrowDtype`.
    #[pyo3(signature = (**options))]
    fn to_pandas<'py>(slf: &Bound<'py, Self>, options: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_pandas(slf, options)
    }

    /// As a `polars.DataFrame`. Needs polars (`pip install 'monedula[polars]'`).
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_polars(slf)
    }

    /// Refuses: rows are iterated by `records()`.
    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let _ = slf;
        Err(PyTypeError::new_err(
            "a Batch is not iterable; here: records() yields its rows one by one, to_pyarrow(), to_pandas() and \
             to_polars() have its columns",
        ))
    }

    /// Refuses: numpy would make an array of objects.
    #[pyo3(signature = (*_arguments, **_options))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        _arguments: &Bound<'py, PyTuple>,
        _options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Err(convert::no_array(slf))
    }

    /// Refuses: only the consumer that read a batch can hear that it is finished.
    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
        let _ = slf;
        Err(PyTypeError::new_err(
            "a Batch can be neither pickled nor copied, because its consumer waits to hear what became of it. Send \
             batch.to_pyarrow(), which can be pickled, and finish(batch), or accept(batch) of a share group, here",
        ))
    }

    /// Attributes of other clients' messages and tables: the error says what to use.
    fn __getattr__(slf: &Bound<'_, Self>, name: &Bound<'_, PyString>) -> PyResult<()> {
        Err(convert::no_attribute(slf, name))
    }

    /// Export as `arrow_schema` and `arrow_array` capsules. `requested_schema` is ignored, as the interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        let schema = capsule::schema(py, self.0.columns.record_batch.schema_ref())?;
        Ok((schema, capsule::array(py, &self.0.columns.record_batch)?))
    }

    /// Export as an `arrow_array_stream` capsule of one batch. `requested_schema` is ignored, as the interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batch: RecordBatch = self.0.columns.record_batch.clone();
        let schema = batch.schema();
        capsule::stream(py, Box::new(RecordBatchIterator::new([Ok(batch)], schema)))
    }

    /// Export as an `arrow_schema` capsule.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema(py, self.0.columns.record_batch.schema_ref())
    }

    fn __len__(&self) -> usize {
        self.num_rows()
    }

    fn __repr__(&self) -> String {
        let spans = self.0.columns.spans.iter().take(4);
        let mut parts: Vec<String> = spans
            .map(|span| format!("{}-{} {}..{}", span.topic, span.partition, span.first_offset, span.next_offset))
            .collect();
        if self.0.columns.spans.len() > parts.len() {
            parts.push(format!("{} more", self.0.columns.spans.len() - parts.len()));
        }
        let (rows, colon) = (counted(self.num_rows() as u64, "row"), if parts.is_empty() { "" } else { ": " });
        format!("<monedula.Batch of {rows}{colon}{}>", parts.join(", "))
    }

    /// The first rows, for notebooks.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_html(slf, &slf.get().0.columns.record_batch)
    }
}

/// Iterator over the rows of a batch.
#[pyclass(frozen, module = "monedula")]
pub(crate) struct Records {
    columns: crate::record::Columns,
    next: Next,
}

/// The source of the next row's index.
enum Next {
    /// A counter: the user has received the whole batch.
    Row(AtomicUsize),
    /// Each row is taken from here first: it may be stopped.
    Cursor { cursor: Own<Arc<RowCursor>>, by_threads: bool },
}

impl Next {
    fn row(&self) -> PyResult<usize> {
        Ok(match self {
            Self::Row(next) => next.load(Ordering::Acquire),
            // In a forked child this raises: rows that were read ahead belong to the parent, which hands them out too.
            Self::Cursor { cursor, .. } => cursor.get()?.taken(),
        })
    }

    /// Takes a row and returns its index, beyond the last row once all are taken; `None` if the cursor has stopped.
    fn take(&self) -> PyResult<Option<usize>> {
        Ok(match self {
            Self::Row(next) => Some(next.fetch_add(1, Ordering::AcqRel)),
            Self::Cursor { cursor, by_threads: true } => cursor.get()?.take_by(this_thread()),
            Self::Cursor { cursor, by_threads: false } => cursor.get()?.take(),
        })
    }
}

impl Records {
    fn of(rows: &RecordBatch) -> Self {
        Self { columns: crate::record::Columns::of(rows), next: Next::Row(AtomicUsize::new(0)) }
    }

    /// The rows, each taken from `cursor` first; `by_threads` if the thread that takes one holds it, and not a task.
    pub(crate) fn behind(rows: &RecordBatch, cursor: Arc<RowCursor>, by_threads: bool) -> Self {
        let next = Next::Cursor { cursor: Own::new(cursor), by_threads };
        Self { columns: crate::record::Columns::of(rows), next }
    }
}

#[pymethods]
impl Records {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        // Create the record before taking the row: if there is no memory for it, the user has not received it, and it
        // is returned again.
        let next = self.next.row()?;
        let record = self.columns.record(py, next)?;
        match self.next.take()? {
            Some(row) if row == next => Ok(record),
            Some(row) => self.columns.record(py, row),
            None => Ok(None),
        }
    }

    fn __length_hint__(&self) -> PyResult<usize> {
        Ok(self.columns.rows().saturating_sub(self.next.row()?))
    }
}

/// The values of a row in the headers of some names; the first one of those with the same name.
/// Number of rows that `head()` has by default.
const HEAD_ROWS: usize = 10;

type HeaderValues<'b> = Vec<Option<&'b [u8]>>;

/// The distinct values of rows in the headers of these names, in the order of the rows, and at most `limit` of them.
/// Rows without any of the headers are left out.
fn header_values<'b>(batch: &'b RecordBatch, names: &[String], limit: usize) -> Vec<HeaderValues<'b>> {
    let Some(column) = batch.column_by_name("headers") else { return Vec::new() };
    let lists = column.as_list::<i32>();
    let pairs = lists.values().as_struct();
    let (keys, values) = (pairs.column(0).as_string::<i32>(), pairs.column(1).as_binary::<i32>());
    let offsets = lists.value_offsets();
    let (mut known, mut found) = (HashSet::new(), Vec::new());
    for row in 0..batch.num_rows() {
        if found.len() >= limit {
            break;
        }
        if lists.is_null(row) {
            continue;
        }
        let mut of_row: HeaderValues<'b> = vec![None; names.len()];
        // Backwards, so that the first one of a name is the one that stays.
        for at in (offsets[row] as usize..offsets[row + 1] as usize).rev() {
            if let Some(place) = names.iter().position(|name| name == keys.value(at)) {
                of_row[place] = (!values.is_null(at)).then(|| values.value(at));
            }
        }
        if of_row.iter().any(Option::is_some) && known.insert(of_row.clone()) {
            found.push(of_row);
        }
    }
    found
}
