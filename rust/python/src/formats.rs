//! Typed decoding of values: so far a function for tests, which compare it with Spark's `from_json`.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema};
use monedula_columns::BufferPool;
use monedula_formats::{JsonDecoder, JsonOptions, Mode};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::capsule;
use crate::error::argument_error;
use crate::table::Table;

/// Decodes JSON texts to a table of one struct column, `value`, with the fields of an Arrow schema. With `fail_fast`, the
/// first bad value is an error. Options are those of Spark's `from_json`.
#[pyfunction]
#[pyo3(signature = (schema, values, fail_fast = false, options = Vec::new()))]
pub(crate) fn decode_json(
    py: Python<'_>,
    schema: &Bound<'_, PyAny>,
    values: Vec<Option<PyBackedBytes>>,
    fail_fast: bool,
    options: Vec<(String, String)>,
) -> PyResult<Table> {
    let fields = capsule::import_schema(schema)?.fields;
    let mode = if fail_fast { Mode::FailFast } else { Mode::Permissive };
    let mut made = JsonOptions { mode, ..JsonOptions::default() };
    for (name, value) in options {
        made.set(&name, &value).map_err(|bad| argument_error(py, bad.to_string()))?;
    }
    let mut decoder = JsonDecoder::new(&fields, made, BufferPool::new(0))
        .map_err(|unsupported| argument_error(py, unsupported.to_string()))?;
    py.detach(|| {
        for (row, value) in values.iter().enumerate() {
            decoder.append(value.as_deref()).map_err(|bad| PyValueError::new_err(format!("row {row}: {bad}")))?;
        }
        let field = Field::new("value", DataType::Struct(decoder.fields().clone()), true);
        let schema = Arc::new(Schema::new(vec![field]));
        let columns = RecordBatch::try_new(schema, vec![Arc::new(decoder.finish().0)]);
        columns.map(Table).map_err(|error| PyValueError::new_err(error.to_string()))
    })
}
