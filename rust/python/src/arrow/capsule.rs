//! Export and import of Arrow PyCapsules: `arrow_schema`, `arrow_array`, `arrow_array_stream`.
//!
//! The structs of the C data interface release themselves if the capsule is dropped without having been consumed; a
//! consumer that takes one marks it as released.

use std::ffi::CStr;
use std::ptr::NonNull;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    Array, ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchOptions, RecordBatchReader, StructArray,
};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::arrow::imported::{Arrays, check_levels, meant, of_type, type_of};
use crate::error::{argument_error, is_own};
use crate::interpreter::deferred_error::{self, is_of_signal_handler};
use crate::interpreter::thread_exit::park_instead;

pub(crate) fn schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let exported = FFI_ArrowSchema::try_from(schema).map_err(|error| PyValueError::new_err(error.to_string()))?;
    PyCapsule::new_with_value(py, exported, c"arrow_schema")
}

pub(crate) fn array<'py>(py: Python<'py>, batch: &RecordBatch) -> PyResult<Bound<'py, PyCapsule>> {
    let exported = FFI_ArrowArray::new(&StructArray::from(batch.clone()).to_data());
    PyCapsule::new_with_value(py, exported, c"arrow_array")
}

pub(crate) fn stream<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
}

/// The schema that an object exports.
///
/// # Errors
/// An object that is no Arrow schema, or one that cannot be read.
pub(crate) fn import_schema(object: &Bound<'_, PyAny>) -> PyResult<Schema> {
    park_instead();
    let capsule = object.call_method0("__arrow_c_schema__")?;
    let exported = pointer::<FFI_ArrowSchema>(&capsule, c"arrow_schema")?;
    // SAFETY: the capsule's name guarantees the type, and it lives until the end of this function.
    let exported = unsafe { exported.as_ref() };
    let schema = check_levels(exported).and_then(|()| Schema::try_from(exported));
    schema.map_err(|error| unreadable(object.py(), &error))
}

/// The batches of any object that exports an Arrow stream or array.
///
/// # Errors
/// An object that is not Arrow data, or data that cannot be read.
pub(crate) fn import(data: &Bound<'_, PyAny>) -> PyResult<Box<dyn RecordBatchReader + Send>> {
    let py = data.py();
    // A class has the method too, but it can be called only on an instance.
    let is_object = !data.is_instance_of::<pyo3::types::PyType>();
    if is_object && data.hasattr("__arrow_c_stream__")? {
        let capsule = exported(data, "__arrow_c_stream__")?;
        let stream = pointer::<FFI_ArrowArrayStream>(&capsule, c"arrow_array_stream")?;
        // SAFETY: the capsule's name guarantees the type; `from_raw` marks the struct as taken for the capsule's owner.
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.as_ptr()) };
        // Detached, because the schema may come from a Python generator that needs the GIL in another thread.
        let reader = py.detach(|| Structs::try_new(stream)).map_err(|error| unreadable(py, &error))?;
        return Ok(Box::new(reader));
    }
    if is_object && data.hasattr("__arrow_c_array__")? {
        let capsules = exported(data, "__arrow_c_array__")?;
        let capsules = capsules.cast::<PyTuple>()?;
        let schema = pointer::<FFI_ArrowSchema>(&capsules.get_item(0)?, c"arrow_schema")?;
        let array = pointer::<FFI_ArrowArray>(&capsules.get_item(1)?, c"arrow_array")?;
        // SAFETY: as above. The capsule keeps the schema, and lives until the end of this function.
        let batch = unsafe { one_batch(FFI_ArrowArray::from_raw(array.as_ptr()), schema.as_ref()) };
        let batch = batch.map_err(|error| unreadable(py, &error))?;
        let schema = batch.schema();
        return Ok(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
    }
    let name = data.get_type().name()?;
    let message = format!(
        "{name} is no Arrow data: expected a pyarrow Table or RecordBatch, a polars, pandas or DuckDB frame, a \
         monedula.Batch, or anything else with __arrow_c_stream__ or __arrow_c_array__; of a list of dicts, \
         pyarrow.Table.from_pylist() makes a table"
    );
    Err(argument_error(py, message))
}

/// The arrays of an object that exports a stream of arrays, or one.
///
/// # Errors
/// Data that cannot be read.
pub(crate) fn import_arrays(data: &Bound<'_, PyAny>) -> PyResult<Vec<ArrayRef>> {
    let py = data.py();
    if data.hasattr("__arrow_c_stream__")? {
        let capsule = exported(data, "__arrow_c_stream__")?;
        let stream = pointer::<FFI_ArrowArrayStream>(&capsule, c"arrow_array_stream")?;
        // SAFETY: the capsule's name guarantees the type; `from_raw` marks the struct as taken for the capsule's owner.
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.as_ptr()) };
        let arrays = py.detach(|| Arrays::try_new(stream)?.collect::<Result<Vec<ArrayRef>, ArrowError>>());
        return arrays.map_err(|error| unreadable(py, &error));
    }
    let capsules = exported(data, "__arrow_c_array__")?;
    let capsules = capsules.cast::<PyTuple>()?;
    let schema = pointer::<FFI_ArrowSchema>(&capsules.get_item(0)?, c"arrow_schema")?;
    let array = pointer::<FFI_ArrowArray>(&capsules.get_item(1)?, c"arrow_array")?;
    // SAFETY: as above. The capsule keeps the schema, and lives until the end of this function.
    let (array, schema) = unsafe { (FFI_ArrowArray::from_raw(array.as_ptr()), schema.as_ref()) };
    let read = || -> Result<ArrayRef, ArrowError> {
        let data_type = type_of(schema)?;
        let meant = meant(&data_type)?;
        // SAFETY: the array has the type that its schema describes.
        unsafe { of_type(array, &data_type, &meant) }
    };
    read().map(|array| vec![array]).map_err(|error| unreadable(py, &error))
}

/// Arrow stream that a data frame exports. Its own errors are those of the argument, unless they are monedula's.
fn exported<'py>(data: &Bound<'py, PyAny>, method: &str) -> PyResult<Bound<'py, PyAny>> {
    let py = data.py();
    park_instead();
    data.call_method0(method).map_err(|error| {
        let is_told = !error.is_instance_of::<PyException>(py) || is_own(py, &error);
        if is_told || error.is_instance_of::<PyMemoryError>(py) || is_of_signal_handler(py, &error) {
            return error;
        }
        let name = data.get_type().name().map_or_else(|_| "this object".to_owned(), |name| deferred_error::text(&name));
        let text = deferred_error::text(error.value(py));
        let kind = error.get_type(py).name().map_or_else(|_| "error".to_owned(), |name| deferred_error::text(&name));
        let told = argument_error(py, format!("{name} does not export its data as Arrow: {kind}: {text}"));
        told.set_cause(py, Some(error));
        told
    })
}

/// A stream of struct arrays, the form in which Arrow streams transfer tables.
struct Structs {
    arrays: Arrays,
    schema: SchemaRef,
}

impl Structs {
    fn try_new(stream: FFI_ArrowArrayStream) -> Result<Self, ArrowError> {
        let arrays = Arrays::try_new(stream)?;
        let DataType::Struct(fields) = arrays.data_type() else {
            return Err(no_columns(arrays.data_type()));
        };
        let schema = Schema::new(fields.clone()).into();
        Ok(Self { arrays, schema })
    }
}

impl Iterator for Structs {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let array = self.arrays.next()?;
        Some(array.and_then(|array| rows(array.as_struct().clone(), &self.schema)))
    }
}

impl RecordBatchReader for Structs {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// The record batch of an exported struct array.
///
/// # Safety
/// `array` must have the type that `schema` describes.
unsafe fn one_batch(array: FFI_ArrowArray, schema: &FFI_ArrowSchema) -> Result<RecordBatch, ArrowError> {
    let exported = type_of(schema)?;
    let data_type = meant(&exported)?;
    let DataType::Struct(fields) = &data_type else {
        return Err(no_columns(&data_type));
    };
    // SAFETY: the caller has `array` of the type that `schema` describes, and `exported` is that type.
    let array = unsafe { of_type(array, &exported, &data_type)? };
    rows(array.as_struct().clone(), &Schema::new(fields.clone()).into())
}

fn no_columns(given: &DataType) -> ArrowError {
    let advice = "pyarrow.table({\"value\": array}) makes a table of it";
    ArrowError::InvalidArgumentError(format!("expected columns, not an array of {given}; {advice}"))
}

/// Converts a struct array to a record batch. A null struct is an error: its columns hold masked values, not a record.
fn rows(structs: StructArray, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(structs.len()));
    let (_, columns, nulls) = structs.into_parts();
    if let Some(row) = nulls.and_then(|nulls| (0..nulls.len()).find(|&row| nulls.is_null(row))) {
        let message = format!("row {row} of a batch is null as a whole, which no record can be: leave such rows out");
        return Err(ArrowError::InvalidArgumentError(message));
    }
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
}

fn pointer<T>(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<NonNull<T>> {
    let capsule = capsule.cast::<PyCapsule>()?;
    Ok(capsule.pointer_checked(Some(name))?.cast())
}

/// The error of Arrow data that cannot be read. Ctrl-C in a generator of batches stays what it is.
pub(crate) fn unreadable(py: Python<'_>, error: &ArrowError) -> PyErr {
    let text = error.to_string();
    if is_interrupt(&text) {
        PyKeyboardInterrupt::new_err(())
    } else {
        argument_error(py, format!("this Arrow data cannot be read: {text}"))
    }
}

/// True if Ctrl-C ended a generator, by pyarrow's text: a stream has no other error than a text, with a traceback.
fn is_interrupt(text: &str) -> bool {
    text.contains("Python exception") && text.lines().rev().find(|line| !line.is_empty()) == Some("KeyboardInterrupt")
}
