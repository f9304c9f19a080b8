//! Arrow PyCapsules: `arrow_schema`, `arrow_array`, `arrow_array_stream`.
//!
//! The structs of the C data interface release themselves when the capsule goes without having been consumed; a consumer
//! that takes one marks it as released.

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, RecordBatchReader, StructArray};
use arrow_schema::Schema;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

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
