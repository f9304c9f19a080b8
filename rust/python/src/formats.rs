//! Typed decoding of keys and values: how one column is decoded, and a function for tests, which compare the decoder with
//! Spark's `from_json`.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Fields, Schema};
use monedula_columns::{BatchColumns, BufferPool, ColumnSet, OnBadValue, TypedColumn, TypedSpec};
use monedula_formats::{JsonDecoder, JsonOptions, Mode, UnsupportedField};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::error::argument_error;
use crate::table::Table;
use crate::{capsule, config};

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
    let options = JsonOptions { mode, ..json_options(py, options)? };
    let mut decoder = JsonDecoder::new(&fields, options, BufferPool::new(0))
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

/// Options by Spark's names.
fn json_options(py: Python<'_>, given: Vec<(String, String)>) -> PyResult<JsonOptions> {
    let mut options = JsonOptions::default();
    for (name, value) in given {
        options.set(&name, &value).map_err(|bad| argument_error(py, bad.to_string()))?;
    }
    Ok(options)
}

/// How a column of JSON is decoded; see `monedula.Json`.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct JsonSpec {
    fields: Fields,
    options: JsonOptions,
    on_bad: OnBadValue,
    flatten: bool,
}

#[pymethods]
impl JsonSpec {
    #[new]
    #[pyo3(signature = (schema, mode, flatten, corrupt_record_field, options = Vec::new()))]
    fn new(
        py: Python<'_>,
        schema: &Bound<'_, PyAny>,
        mode: &str,
        flatten: bool,
        corrupt_record_field: String,
        options: Vec<(String, String)>,
    ) -> PyResult<Self> {
        let fields = capsule::import_schema(schema)?.fields;
        let on_bad = match mode {
            // Such a decoder refuses no value.
            "null" | "fail" => OnBadValue::Fail,
            "drop" => OnBadValue::Drop,
            "dead_letter" => OnBadValue::Refuse,
            other => return Err(argument_error(py, format!("no such mode: {other}"))),
        };
        let mode = if mode == "null" { Mode::Permissive } else { Mode::FailFast };
        let options = JsonOptions { mode, corrupt_record_field, ..json_options(py, options)? };
        let spec = Self { fields, options, on_bad, flatten };
        spec.decoder(&BufferPool::new(0))
            .map_err(|unsupported| argument_error(py, format!("schema: {unsupported}")))?;
        Ok(spec)
    }

    /// Each field as `name: type`.
    #[getter]
    fn fields(&self) -> Vec<String> {
        self.fields
            .iter()
            .map(|field| format!("{}: {}", field.name(), field.data_type().to_string().to_lowercase()))
            .collect()
    }

    /// The same for some of the fields; for all of them if these would be others without the rest.
    fn only(&self, names: Vec<String>) -> Self {
        let is_corrupt_record = |name: &String| *name == self.options.corrupt_record_field;
        let all = names.iter().any(is_corrupt_record) || !self.decodes_each_by_itself();
        let fields = self.fields.iter().filter(|field| all || names.contains(field.name())).cloned().collect();
        Self { fields, options: self.options.clone(), on_bad: self.on_bad, flatten: self.flatten }
    }
}

impl JsonSpec {
    /// Whether a field has the same values when fields beside it are not decoded.
    fn decodes_each_by_itself(&self) -> bool {
        self.options.partial_results
    }

    fn decoder(&self, pool: &BufferPool) -> Result<JsonDecoder, UnsupportedField> {
        JsonDecoder::new(&self.fields, self.options.clone(), pool.clone())
    }

    fn typed(&self) -> TypedSpec {
        let (fields, options) = (self.fields.clone(), self.options.clone());
        let make = move |pool: &BufferPool| -> Box<dyn TypedColumn> {
            match JsonDecoder::new(&fields, options.clone(), pool.clone()) {
                Ok(decoder) => Box::new(decoder),
                // The same fields were tried when the spec was made.
                Err(unsupported) => unreachable!("{unsupported}"),
            }
        };
        TypedSpec { make: Arc::new(make), on_bad: self.on_bad, flatten: self.flatten }
    }
}

/// How keys and values are decoded, as Python gives it; `None` for bytes.
pub(crate) type PySpec<'py> = Option<PyRef<'py, JsonSpec>>;

/// The columns of batches.
pub(crate) fn batch_columns(
    py: Python<'_>,
    names: Option<Vec<String>>,
    headers: bool,
    key: &PySpec<'_>,
    value: &PySpec<'_>,
) -> PyResult<BatchColumns> {
    let set = config::columns(py, names, headers)?;
    let typed = |spec: &PySpec<'_>| spec.as_ref().map(|spec| spec.typed());
    let columns = BatchColumns { set, key: typed(key), value: typed(value) };
    for (name, spec, column) in [("key", &columns.key, ColumnSet::KEY), ("value", &columns.value, ColumnSet::VALUE)] {
        if spec.is_some() && !set.contains(column) {
            let message =
                format!("columns leaves out {name}, which is to be decoded; name it there too, or leave out {name}=");
            return Err(argument_error(py, message));
        }
    }
    columns.check(&BufferPool::new(0)).map_err(|error| argument_error(py, error.to_string()))?;
    Ok(columns)
}
