//! JSON as a column: its arguments and its encoder; and a function for tests, which compare the decoder with Spark's
//! `from_json`.

use std::sync::Arc;

use arrow_array::{BinaryArray, RecordBatch};
use arrow_schema::{DataType, Field, Fields, Schema};
use monedula_client::registry::{NewSchema, SchemaKind};
use monedula_columns::BufferPool;
use monedula_formats::{JsonDecoder, JsonEncoder, JsonOptions, Mode, UnsupportedField, WriterKey};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::argument::BadArgument;
use crate::arrow::capsule;
use crate::arrow::table::Table;
use crate::batch::Batch;
use crate::error::argument_error;
use crate::formats::registered_schema::SubjectLookup;

#[derive(Clone)]
pub(crate) struct JsonGiven {
    /// None if rows are written with the fields of their column.
    pub(crate) fields: Option<Fields>,
    pub(crate) options: JsonOptions,
    /// Options about the schema in a registry.
    pub(crate) schema: JsonSchemaGiven,
    /// Id of the schema there, if that is known.
    pub(crate) id: Option<u32>,
}

/// The JSON Schema that values are registered with.
#[derive(Clone, Default, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct JsonSchemaGiven {
    /// The schema's text; none if it follows from the columns.
    text: Option<String>,
    /// Name of the described value.
    title: Option<String>,
    subject: Option<String>,
}

impl JsonSchemaGiven {
    pub(crate) fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }
}

impl JsonGiven {
    pub(crate) fn encoder(&self, key: WriterKey) -> Result<JsonEncoder, UnsupportedField> {
        JsonEncoder::new(self.fields.as_ref(), key, self.options.clone())
    }

    /// Encoder with the id that a registry has for the rows' schema.
    pub(crate) fn registered(&self, py: Python<'_>, place: SubjectLookup<'_>) -> PyResult<JsonEncoder> {
        let refused = |reason: String| BadArgument::of(place.name, reason).to_py(py);
        let JsonSchemaGiven { text, title, subject } = &self.schema;
        let subject = place.subject(py, subject.as_deref(), title.as_deref())?;
        let text = match (text, place.data_type) {
            (Some(text), _) => text.clone(),
            (None, Some(data_type)) => {
                let encoder = self.encoder(WriterKey::Only).map_err(|bad| refused(bad.to_string()))?;
                encoder.schema_text(data_type).map_err(|bad| refused(bad.to_string()))?
            }
            // The registry's own is written with.
            (None, None) => String::new(),
        };
        let new = NewSchema { kind: SchemaKind::Json, text, refers_to: Vec::new(), references: Vec::new() };
        let found = place.ask(py, &subject, new)?;
        let instead = match &found.instead {
            None => None,
            Some(instead) => {
                let module = py.import("monedula.formats.json")?;
                let columns = module.call_method1("registered_columns", (&instead.text, &instead.references));
                let columns = columns.map_err(|bad| place.unreadable(py, &subject, bad.value(py)))?;
                Some(capsule::import_schema(&columns)?.fields)
            }
        };
        let fields = instead.as_ref().or(self.fields.as_ref());
        let key = place.key(py, Some(&subject), found.id)?;
        JsonEncoder::new(fields, key, self.options.clone()).map_err(|bad| refused(bad.to_string()))
    }
}

/// The batch with its decoded values as JSON texts, for outputs that are text.
#[pyfunction]
pub(crate) fn with_json_values(py: Python<'_>, batch: &Batch) -> PyResult<Batch> {
    let mut columns = batch.0.columns.clone();
    let Some((index, _)) = columns.record_batch.schema_ref().column_with_name("value") else {
        return Ok(Batch::from(columns));
    };
    let written = py.detach(|| {
        let texts = JsonEncoder::shown().encode(columns.record_batch.column(index)).map_err(|bad| bad.to_string())?;
        if i32::try_from(texts.values().len()).is_err() {
            return Err("the values of a batch pass 2 GiB as JSON".to_owned());
        }
        let texts: BinaryArray = texts.iter().collect();
        let (schema, mut arrays, _) = columns.record_batch.clone().into_parts();
        let mut fields = schema.fields().to_vec();
        fields[index] = Arc::new(Field::new("value", DataType::Binary, true));
        arrays[index] = Arc::new(texts);
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(|error| error.to_string())
    });
    columns.record_batch = written.map_err(|reason| BadArgument::of("value", reason).to_py(py))?;
    Ok(Batch::from(columns))
}

/// Decodes JSON texts to a table of one struct column, `value`, with the fields of an Arrow schema. With `fail_fast`,
/// the first bad value is an error. Options are those of Spark's `from_json`.
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
pub(crate) fn json_options(py: Python<'_>, given: Vec<(String, String)>) -> PyResult<JsonOptions> {
    let mut options = JsonOptions::default();
    for (name, value) in given {
        options.set(&name, &value).map_err(|bad| BadArgument::from(bad).to_py(py))?;
    }
    Ok(options)
}
