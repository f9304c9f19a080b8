//! Typed decoding of keys and values: how one column is decoded, and a function for tests, which compare the decoder with
//! Spark's `from_json`.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema};
use monedula_columns::{BatchColumns, Beside, BufferPool, ColumnSet, OnBadValue, TypedColumn, TypedSpec};
use monedula_formats::{
    AvroDecoder, AvroOptions, AvroPlan, AvroSchema, Framing, JsonDecoder, JsonOptions, Mode, WriterKey,
};
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

/// How a column is decoded; see `monedula.Json` and `monedula.Avro`.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct ColumnSpec {
    typed: TypedSpec,
    data_type: DataType,
}

#[pymethods]
impl ColumnSpec {
    #[staticmethod]
    #[pyo3(signature = (schema, mode, flatten, corrupt_record_field, options = Vec::new()))]
    fn json(
        py: Python<'_>,
        schema: &Bound<'_, PyAny>,
        mode: &str,
        flatten: bool,
        corrupt_record_field: String,
        options: Vec<(String, String)>,
    ) -> PyResult<Self> {
        let fields = capsule::import_schema(schema)?.fields;
        let (mode, on_bad) = behaviour(py, mode)?;
        let options = JsonOptions { mode, corrupt_record_field, ..json_options(py, options)? };
        JsonDecoder::new(&fields, options.clone(), BufferPool::new(0))
            .map_err(|unsupported| argument_error(py, format!("schema: {unsupported}")))?;
        let data_type = DataType::Struct(fields.clone());
        let make = move |pool: &BufferPool| -> Box<dyn TypedColumn> {
            match JsonDecoder::new(&fields, options.clone(), pool.clone()) {
                Ok(decoder) => Box::new(decoder),
                // The same fields were tried when the spec was made.
                Err(unsupported) => unreachable!("{unsupported}"),
            }
        };
        Ok(Self { typed: TypedSpec { make: Arc::new(make), on_bad, flatten }, data_type })
    }

    /// `reader` is the text of the reader's schema. `writers` are those of the writers, with their ids or GUIDs for
    /// Confluent's framing.
    #[staticmethod]
    #[pyo3(signature = (reader, writers, framing, mode, flatten, options = Vec::new()))]
    fn avro(
        py: Python<'_>,
        reader: &str,
        writers: Vec<(u32, Option<PyBackedBytes>, String)>,
        framing: &str,
        mode: &str,
        flatten: bool,
        options: Vec<(String, String)>,
    ) -> PyResult<Self> {
        let (mode, on_bad) = behaviour(py, mode)?;
        let parse = |name: &str, text: &str| {
            AvroSchema::parse(text).map_err(|bad| argument_error(py, format!("{name}: {bad}")))
        };
        let framing = match framing {
            "bare" => Framing::Bare,
            "confluent" => Framing::Confluent,
            "single_object" => Framing::SingleObject,
            other => return Err(argument_error(py, format!("no such framing: {other}"))),
        };
        let reader = parse("schema", reader)?;
        let mut schemas = Vec::new();
        for (id, guid, text) in writers {
            let guid = guid.and_then(|guid| guid.first_chunk().copied()).map(u128::from_be_bytes);
            let name = match (framing, guid) {
                (Framing::Bare, _) => "writer".to_owned(),
                (_, None) => format!("schemas[{id}]"),
                (_, Some(guid)) => format!("schemas[{guid:032x}]"),
            };
            let schema = parse(&name, &text)?;
            let key = match (framing, guid) {
                (Framing::Bare, _) => WriterKey::Only,
                (Framing::Confluent, None) => WriterKey::Id(id),
                (Framing::Confluent, Some(guid)) => WriterKey::Guid(guid),
                (Framing::SingleObject, _) => WriterKey::Fingerprint(schema.fingerprint()),
            };
            schemas.push((key, schema));
        }
        let mut given = AvroOptions { mode, ..AvroOptions::default() };
        given.set(&options).map_err(|bad| argument_error(py, bad.to_string()))?;
        let plan = AvroPlan::new(reader, schemas, framing, given)
            .map(Arc::new)
            .map_err(|bad| argument_error(py, format!("schema: {bad}")))?;
        let data_type = plan.data_type().clone();
        let make = move |pool: &BufferPool| -> Box<dyn TypedColumn> {
            Box::new(AvroDecoder::new(Arc::clone(&plan), pool.clone()))
        };
        Ok(Self { typed: TypedSpec { make: Arc::new(make), on_bad, flatten }, data_type })
    }

    /// Decodes values to a table of one column, `value`, for tests. A value that cannot be decoded is an error.
    fn decode(&self, py: Python<'_>, values: Vec<Option<PyBackedBytes>>) -> PyResult<Table> {
        py.detach(|| {
            let mut column = (self.typed.make)(&BufferPool::new(0));
            for (row, value) in values.iter().enumerate() {
                column
                    .append(value.as_deref(), Beside::NOTHING)
                    .map_err(|bad| PyValueError::new_err(format!("row {row}: {bad}")))?;
            }
            let schema = Arc::new(Schema::new(vec![Field::new("value", column.data_type(), true)]));
            let columns = RecordBatch::try_new(schema, vec![column.finish().0]);
            columns.map(Table).map_err(|error| PyValueError::new_err(error.to_string()))
        })
    }

    /// Each field as `name: type`, or the type if there are none.
    #[getter]
    fn fields(&self) -> Vec<String> {
        let text = |data_type: &DataType| data_type.to_string().to_lowercase();
        match &self.data_type {
            DataType::Struct(fields) => {
                fields.iter().map(|field| format!("{}: {}", field.name(), text(field.data_type()))).collect()
            }
            other => vec![text(other)],
        }
    }
}

/// What becomes of bad values: in the decoder, and of the records that it refuses.
fn behaviour(py: Python<'_>, mode: &str) -> PyResult<(Mode, OnBadValue)> {
    Ok(match mode {
        // Such a decoder refuses no value.
        "null" => (Mode::Permissive, OnBadValue::Fail),
        "fail" => (Mode::FailFast, OnBadValue::Fail),
        "drop" => (Mode::FailFast, OnBadValue::Drop),
        "dead_letter" => (Mode::FailFast, OnBadValue::Refuse),
        other => return Err(argument_error(py, format!("no such mode: {other}"))),
    })
}

/// How keys and values are decoded, as Python gives it; `None` for bytes.
pub(crate) type PySpec<'py> = Option<PyRef<'py, ColumnSpec>>;

/// The columns of batches.
pub(crate) fn batch_columns(
    py: Python<'_>,
    names: Option<Vec<String>>,
    headers: bool,
    key: &PySpec<'_>,
    value: &PySpec<'_>,
) -> PyResult<BatchColumns> {
    let set = config::columns(py, names, headers)?;
    let typed = |spec: &PySpec<'_>| spec.as_ref().map(|spec| spec.typed.clone());
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
