//! Typed keys and values: decoding and writing of one column.

pub(crate) mod avro;
pub(crate) mod datum;
pub(crate) mod encoder;
pub(crate) mod json;
pub(crate) mod parsed;
pub(crate) mod protobuf;
pub(crate) mod record_encoder;
pub(crate) mod registered_schema;
pub(crate) mod registry_source;
pub(crate) mod typed_rows;
pub(crate) mod typed_values;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_schema::{DataType, Field, Fields, Schema};
use monedula_client::registry::SchemaRegistry;
use monedula_columns::{BatchColumns, BufferPool, ColumnSet, OnBadValue, RecordContext, TypedColumn, TypedSpec};
use monedula_formats::{
    AvroEncoder, AvroOptions, AvroSchema, Framing, JsonDecoder, JsonOptions, Mode, ProtobufOptions, UnsupportedField,
    WriterKey, stable_text,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::argument::BadArgument;
use crate::arrow::capsule;
use crate::arrow::table::Table;
use crate::config;
use crate::error::argument_error;
use crate::filter::PyFilter;
use crate::formats::avro::{AvroGiven, make_avro};
use crate::formats::encoder::Encoder;
use crate::formats::json::{JsonGiven, JsonSchemaGiven, json_options};
use crate::formats::protobuf::{ProtobufGiven, SchemaFiles, Writer};
use crate::formats::record_encoder::RecordEncoder;
use crate::formats::registered_schema::{SubjectLookup, new_references};
use crate::formats::registry_source::Registry;
use crate::formats::typed_rows::{WrittenAs, encoded};
use crate::registry::RegistryCore;

/// Decoding of a column; see `monedula.Json`, `monedula.Avro` and `monedula.Protobuf`.
#[pyclass(frozen, module = "monedula._monedula")]
#[derive(Clone)]
pub(crate) struct ColumnSpec {
    typed: TypedSpec,
    data_type: DataType,
    /// JSON, of which some fields may be decoded without the others.
    json: Option<JsonGiven>,
    /// Avro, whose writers' schemas may be asked for.
    avro: Option<AvroGiven>,
    /// Protobuf, whose values may be framed.
    protobuf: Option<ProtobufGiven>,
    /// True if a header names the schema of what is written, in place of bytes before it.
    pub(crate) id_in_header: bool,
}

#[pymethods]
impl ColumnSpec {
    /// Without a schema, rows are written with the fields that their column has.
    #[staticmethod]
    #[pyo3(signature = (schema, mode, flatten, corrupt_record_field, options = Vec::new(), framing = "bare", registered = None))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's")]
    fn json(
        py: Python<'_>,
        schema: Option<&Bound<'_, PyAny>>,
        mode: &str,
        flatten: bool,
        corrupt_record_field: String,
        options: Vec<(String, String)>,
        framing: &str,
        registered: Option<JsonSchemaGiven>,
    ) -> PyResult<Self> {
        let fields = schema.map(capsule::import_schema).transpose()?.map(|schema| schema.fields);
        let (mode, on_bad) = behaviour(py, mode)?;
        let framing = framing_of(py, framing)?;
        let options = JsonOptions { mode, corrupt_record_field, framing, ..json_options(py, options)? };
        JsonDecoder::new(fields.as_ref().unwrap_or(&Fields::empty()), options.clone(), BufferPool::new(0))
            .map_err(|unsupported| BadArgument::of("schema", unsupported.to_string()).to_py(py))?;
        let schema = registered.unwrap_or_default();
        Ok(Self::of_json(JsonGiven { fields, options, schema, id: None }, on_bad, flatten))
    }

    /// `reader` is the text of the reader's schema. `writers` are those of the writers, with their ids or GUIDs for
    /// Confluent's framing. If it `may_ask`, the others are asked for where the settings name a registry, in the
    /// context of `subject`. `references` are the schemas that the reader's refers to.
    #[staticmethod]
    #[pyo3(signature = (reader, writers, framing, mode, flatten, options = Vec::new(), may_ask = false,
                        references = Vec::new(), subject = None))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's")]
    fn avro(
        py: Python<'_>,
        reader: &str,
        writers: Vec<(u64, Option<PyBackedBytes>, String)>,
        framing: &str,
        mode: &str,
        flatten: bool,
        options: Vec<(String, String)>,
        may_ask: bool,
        references: Vec<String>,
        subject: Option<String>,
    ) -> PyResult<Self> {
        let (mode, on_bad) = behaviour(py, mode)?;
        let parse =
            |name: &str, text: &str| AvroSchema::parse(text).map_err(|bad| BadArgument::schema(name, &bad).to_py(py));
        let framing = framing_of(py, framing)?;
        let reader_text = reader;
        let reader = AvroSchema::parse_beside(reader, &references)
            .map_err(|bad| BadArgument::schema("schema", &bad).to_py(py))?;
        // A text that refers to others has no stable one.
        let stable = stable_text(reader_text).ok();
        let mut same = Vec::new();
        let mut schemas = Vec::new();
        for (id, guid, text) in writers {
            let guid = guid.and_then(|guid| guid.first_chunk().copied()).map(u128::from_be_bytes);
            let name = match (framing, guid) {
                (Framing::Bare, _) => "writer".to_owned(),
                (_, None) => format!("schemas[{id}]"),
                (_, Some(guid)) => format!("schemas[{guid:032x}]"),
            };
            let is_readers = text == reader_text;
            // Only the reader's may refer to others.
            let schema = if is_readers { reader.clone() } else { parse(&name, &text)? };
            let key = match (framing, guid) {
                (Framing::Bare, _) => WriterKey::Only,
                (Framing::Confluent, None) => WriterKey::Id(id as u32),
                (Framing::Confluent | Framing::Glue | Framing::Apicurio, Some(guid)) => WriterKey::Guid(guid),
                (Framing::Apicurio | Framing::Glue, None) => WriterKey::Apicurio(id),
                (Framing::SingleObject, _) => WriterKey::Fingerprint(schema.fingerprint()),
            };
            if is_readers || (stable.is_some() && stable_text(&text).ok() == stable) {
                same.push(key);
            }
            schemas.push((key, schema));
        }
        let mut given = AvroOptions { mode, ..AvroOptions::default() };
        given.set(&options).map_err(|bad| BadArgument::from(bad).to_py(py))?;
        let subject = subject.map(Into::into);
        // A registry says itself what it misses in a text that refers to others.
        let text = stable.unwrap_or_else(|| reader_text.to_owned());
        let beside = new_references(&references);
        let avro = AvroGiven { reader, text, beside, schemas, same, framing, options: given, may_ask, subject };
        let plan = avro.plan(framing).map_err(|bad| BadArgument::schema("schema", &bad).to_py(py))?;
        let data_type = plan.data_type().clone();
        let typed = TypedSpec { make: make_avro(plan), on_bad, flatten };
        Ok(Self { typed, data_type, json: None, avro: Some(avro), protobuf: None, id_in_header: false })
    }

    /// `schema` is a `FileDescriptorSet` or `.proto` texts, and `message` the full name of one of its messages.
    /// `writers` are descriptors with their ids or GUIDs. If it `may_ask`, values are framed as Confluent's where the
    /// settings name a registry, and the others' schemas are asked for there, in the context of `subject`. Columns are
    /// made of `fields`, or of all if there are none.
    #[staticmethod]
    #[pyo3(signature = (schema, message, writers, framing, mode, flatten, options = Vec::new(), may_ask = false,
                        subject = None, fields = Vec::new()))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's")]
    fn protobuf(
        py: Python<'_>,
        schema: SchemaFiles,
        message: Option<&str>,
        writers: Vec<Writer>,
        framing: &str,
        mode: &str,
        flatten: bool,
        options: Vec<(String, String)>,
        may_ask: bool,
        subject: Option<String>,
        fields: Vec<String>,
    ) -> PyResult<Self> {
        let (mode, on_bad) = behaviour(py, mode)?;
        let mut set = ProtobufOptions { mode, fields, ..ProtobufOptions::default() };
        set.set(&options).map_err(|bad| BadArgument::from(bad).to_py(py))?;
        let given = ProtobufGiven::new(py, (&schema, message), writers, framing, set, (may_ask, subject))?;
        let (make, data_type) = given.make(py, None)?;
        let typed = TypedSpec { make, on_bad, flatten };
        Ok(Self { typed, data_type, json: None, avro: None, protobuf: Some(given), id_in_header: false })
    }

    /// The same for some of the fields; for all of them if these would be others without the rest.
    fn only(&self, names: Vec<String>) -> Self {
        let Some(given @ JsonGiven { fields: Some(fields), options, .. }) = &self.json else { return self.clone() };
        if names.contains(&options.corrupt_record_field) || !options.partial_results {
            return self.clone();
        }
        let some: Fields = fields.iter().filter(|field| names.contains(field.name())).cloned().collect();
        let made =
            Self::of_json(JsonGiven { fields: Some(some), ..given.clone() }, self.typed.on_bad, self.typed.flatten);
        Self { id_in_header: self.id_in_header, ..made }
    }

    /// The same for writing JSON with this id of its schema, for which no registry is asked then.
    fn with_id(&self, number: u32) -> Self {
        let mut with_id = self.clone();
        if let Some(json) = &mut with_id.json {
            json.id = Some(number);
        }
        with_id
    }

    /// The same for writing with the schema's GUID in a header.
    fn with_id_in_header(&self) -> Self {
        Self { id_in_header: true, ..self.clone() }
    }

    /// Decodes values to a table of one column, `value`, for tests. A value that cannot be decoded is an error.
    fn decode(&self, py: Python<'_>, values: Vec<Option<PyBackedBytes>>) -> PyResult<Table> {
        py.detach(|| {
            let mut column = (self.typed.make)(&BufferPool::new(0));
            for (row, value) in values.iter().enumerate() {
                column
                    .append(value.as_deref(), RecordContext::NOTHING)
                    .map_err(|bad| PyValueError::new_err(format!("row {row}: {bad}")))?;
            }
            let schema = Arc::new(Schema::new(vec![Field::new("value", column.data_type(), true)]));
            let columns = RecordBatch::try_new(schema, vec![column.finish().0]);
            columns.map(Table).map_err(|error| PyValueError::new_err(error.to_string()))
        })
    }

    /// Writes the values of a table's rows, for tests.
    fn encode(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Vec<Option<Py<PyBytes>>>> {
        let written = self.written(py, "value", None)?;
        let mut values = Vec::new();
        for batch in encoded(py, capsule::import(data)?, None, Some(written), true)? {
            let batch = batch.map_err(|error| capsule::unreadable(py, &error))?;
            let bytes = batch.column(0).as_binary::<i64>();
            values.extend(bytes.iter().map(|value| value.map(|value| PyBytes::new(py, value).unbind())));
        }
        Ok(values)
    }

    /// Refuses a table that cannot be written with any schema of a registry.
    fn check(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let unsupported = |bad: UnsupportedField| BadArgument::of("schema", bad.to_string()).to_py(py);
        let encoder = match (&self.json, &self.protobuf, &self.avro) {
            (Some(json), _, _) => Encoder::Json(json.encoder(WriterKey::Only).map_err(unsupported)?),
            (_, Some(protobuf), _) => Encoder::Protobuf(protobuf.encoder_with(WriterKey::Only)),
            (_, _, Some(avro)) => self.written_with(avro, avro.reader.clone(), WriterKey::Only).encoder,
            _ => return Ok(()),
        };
        let written = WrittenAs::new(encoder, self.typed.flatten, false);
        encoded(py, capsule::import(data)?, None, Some(written), true).map(drop)
    }

    /// The id of the schema of a table's column `value` at a registry, registered or looked up as the settings say;
    /// `name` is `key` or `value`. `None` if values of this form name no schema of it.
    fn registered_id(
        &self,
        py: Python<'_>,
        registry: &RegistryCore,
        name: &str,
        topic: Option<&str>,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<Option<u32>> {
        let schema = capsule::import(data)?.schema();
        let data_type = schema.column_with_name("value").map(|(_, field)| field.data_type());
        let name = if name == "key" { "key" } else { "value" };
        let place = SubjectLookup { name, topic, registry: &registry.0, data_type, in_header: false };
        let without_header = Self { id_in_header: false, ..self.clone() };
        let registered = without_header.registered(py, place)?;
        Ok(registered.and_then(|written| {
            let id = written.encoder.frame().strip_prefix(&[0])?.first_chunk()?;
            Some(u32::from_be_bytes(*id))
        }))
    }

    /// The names of the fields; none if keys or values are no structs.
    #[getter]
    fn field_names(&self) -> Vec<&str> {
        match &self.data_type {
            DataType::Struct(fields) => fields.iter().map(|field| field.name().as_str()).collect(),
            _ => Vec::new(),
        }
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

impl ColumnSpec {
    /// With fields of types that are known to be decoded.
    fn of_json(given: JsonGiven, on_bad: OnBadValue, flatten: bool) -> Self {
        let (fields, options) = (given.fields.clone().unwrap_or_default(), given.options.clone());
        let (data_type, json) = (DataType::Struct(fields.clone()), Some(given));
        let make = move |pool: &BufferPool| -> Box<dyn TypedColumn> {
            match JsonDecoder::new(&fields, options.clone(), pool.clone()) {
                Ok(decoder) => Box::new(decoder),
                // The same fields were tried when the spec was made.
                Err(unsupported) => unreachable!("{unsupported}"),
            }
        };
        let typed = TypedSpec { make: Arc::new(make), on_bad, flatten };
        Self { typed, data_type, json, avro: None, protobuf: None, id_in_header: false }
    }

    /// Encoder of the keys or values of rows, by `name`. If a registry is to be asked for the schema's id, that is left
    /// open: see [`Self::registered`].
    pub(crate) fn written(
        &self,
        py: Python<'_>,
        name: &'static str,
        registry: Option<&Arc<SchemaRegistry>>,
    ) -> PyResult<WrittenAs> {
        let refused = |bad: BadArgument| bad.of_argument(name).to_py(py);
        let flatten = self.typed.flatten;
        if let Some(json) = &self.json {
            let key = match (json.id, registry) {
                _ if json.options.framing == Framing::Bare => WriterKey::Only,
                _ if json.options.framing != Framing::Confluent => return Err(refused(only_read())),
                (Some(id), _) => WriterKey::Id(id),
                (None, Some(_)) => WriterKey::Id(0),
                (None, None) => {
                    let bad = BadArgument::new("values of Confluent's framing begin with the id of their schema")
                        .with_hint("give `the setting schema.registry.url`, where it is registered");
                    return Err(refused(bad));
                }
            };
            let unsupported = |bad: UnsupportedField| refused(BadArgument::new(format!("schema: {bad}")));
            let encoder = json.encoder(key).map_err(unsupported)?;
            let written = WrittenAs::new(Encoder::Json(encoder), flatten, self.id_in_header);
            return self.with_header(py, name, written, registry);
        }
        if let Some(protobuf) = &self.protobuf {
            let encoder = match registry {
                Some(_) if protobuf.is_registered() => protobuf.encoder_with(WriterKey::Id(0)),
                _ => protobuf.encoder().map_err(refused)?,
            };
            let written = WrittenAs::new(Encoder::Protobuf(encoder), flatten, self.id_in_header);
            return self.with_header(py, name, written, registry);
        }
        let Some(avro) = &self.avro else { return Err(refused(BadArgument::new("nothing says how rows are written"))) };
        let key =
            if registry.is_some() && avro.is_registered() { WriterKey::Id(0) } else { avro.key().map_err(refused)? };
        self.with_header(py, name, self.written_with(avro, avro.reader.clone(), key), registry)
    }

    /// The same, unless there is no GUID that a header could have: a registry is asked for it later.
    fn with_header(
        &self,
        py: Python<'_>,
        name: &str,
        written: WrittenAs,
        registry: Option<&Arc<SchemaRegistry>>,
    ) -> PyResult<WrittenAs> {
        match written.header.as_deref() {
            None | Some([1, ..]) => Ok(written),
            Some([0, ..]) if registry.is_some() => Ok(written),
            Some(_) => {
                let bad = BadArgument::of(name, "a header names the schema of what is written by its GUID");
                Err(bad
                    .with_hint(
                        "give it as `schemas={GUID: schema}`, or set `schema.registry.url`, where it is asked for",
                    )
                    .to_py(py))
            }
        }
    }

    /// Encoder of the keys or values of single records; asks a registry where one is to be asked.
    pub(crate) fn record_encoder(
        &self,
        py: Python<'_>,
        name: &'static str,
        topic: &str,
        registry: Option<&Arc<SchemaRegistry>>,
    ) -> PyResult<RecordEncoder> {
        let mut written = self.written(py, name, registry)?;
        if let Some(registry) = registry {
            let is_open =
                matches!(&self.json, Some(json) if json.fields.is_none() && json.options.framing == Framing::Confluent);
            if is_open && !registry.writes_latest() {
                let bad =
                    BadArgument::of(name, "the schema that is registered for values must be known before the first");
                return Err(bad.with_hint("give `Json(schema, framing='confluent')`").to_py(py));
            }
            let data_type = Some(&self.data_type).filter(|_| !registry.writes_latest());
            let place = SubjectLookup { name, topic: Some(topic), registry, data_type, in_header: self.id_in_header };
            written = self.registered(py, place)?.unwrap_or(written);
        }
        Ok(RecordEncoder::new(name, written, self.data_type.clone()))
    }

    /// Encoder with the schema that a registry has for the rows, which is asked; `None` if the id is given, or there
    /// is none.
    pub(crate) fn registered(&self, py: Python<'_>, place: SubjectLookup<'_>) -> PyResult<Option<WrittenAs>> {
        let flatten = self.typed.flatten;
        if let Some(json) =
            self.json.as_ref().filter(|json| json.options.framing == Framing::Confluent && json.id.is_none())
        {
            let encoder = Encoder::Json(json.registered(py, place)?);
            return Ok(Some(WrittenAs::new(encoder, flatten, self.id_in_header)));
        }
        if let Some(protobuf) = self.protobuf.as_ref().filter(|protobuf| protobuf.is_registered()) {
            let encoder = Encoder::Protobuf(protobuf.registered(py, place)?);
            return Ok(Some(WrittenAs::new(encoder, flatten, self.id_in_header)));
        }
        let Some(avro) = self.avro.as_ref().filter(|avro| avro.is_registered()) else {
            return self.by_guid(py, place);
        };
        let (schema, key) = avro.registered(py, place)?;
        Ok(Some(self.written_with(avro, schema, key)))
    }

    /// Encoder with the GUID of a schema whose id was given; `None` if no GUID is needed, or it was given.
    fn by_guid(&self, py: Python<'_>, place: SubjectLookup<'_>) -> PyResult<Option<WrittenAs>> {
        let (own, subject) = match (&self.json, &self.protobuf, &self.avro) {
            (Some(json), ..) => (json.id.map(WriterKey::Id), json.schema.subject()),
            (_, Some(protobuf), _) => (protobuf.own_key(), protobuf.subject()),
            (.., Some(avro)) => (avro.key().ok(), avro.subject.as_deref()),
            _ => (None, None),
        };
        let Some(WriterKey::Id(id)) = own.filter(|_| self.id_in_header) else { return Ok(None) };
        let key = place.key(py, subject, id)?;
        let flatten = self.typed.flatten;
        Ok(Some(match (&self.json, &self.protobuf, &self.avro) {
            (Some(json), ..) => {
                let refused = |bad: UnsupportedField| BadArgument::of(place.name, bad.to_string()).to_py(py);
                WrittenAs::new(Encoder::Json(json.encoder(key).map_err(refused)?), flatten, true)
            }
            (_, Some(protobuf), _) => WrittenAs::new(Encoder::Protobuf(protobuf.encoder_with(key)), flatten, true),
            (.., Some(avro)) => self.written_with(avro, avro.reader.clone(), key),
            _ => return Ok(None),
        }))
    }

    fn written_with(&self, avro: &AvroGiven, schema: AvroSchema, key: WriterKey) -> WrittenAs {
        let encoder = AvroEncoder::new(schema, key, avro.options.clone());
        WrittenAs::new(Encoder::Avro(encoder), self.typed.flatten, self.id_in_header)
    }

    /// Decoder of a client's column; the client may have a registry.
    fn typed(&self, py: Python<'_>, registry: Option<&Arc<SchemaRegistry>>) -> PyResult<TypedSpec> {
        if let Some(JsonGiven { fields: None, .. }) = &self.json {
            let message = "Json() without a schema is for writing: the types of the columns that are read must be known \
                           before the first record; give Json(schema), as monedula.formats.schemas.infer() finds it";
            return Err(argument_error(py, message.into()));
        }
        if let Some(protobuf) = &self.protobuf {
            return Ok(TypedSpec { make: protobuf.make(py, registry)?.0, ..self.typed.clone() });
        }
        let Some(avro) = &self.avro else { return Ok(self.typed.clone()) };
        let registry = match registry {
            Some(registry) if avro.may_ask => Registry(Arc::clone(registry), avro.subject.clone()),
            None if matches!(avro.framing, Framing::Confluent | Framing::Apicurio) && avro.schemas.is_empty() => {
                let framing = if avro.framing == Framing::Apicurio { "'apicurio'" } else { "'confluent'" };
                let bad = BadArgument::of("framing", "values name their schema by its id")
                    .with_value(framing)
                    .with_hint(
                        "give `the setting schema.registry.url`, where the schemas are asked for, or `schemas={id: schema}`",
                    );
                return Err(bad.to_py(py));
            }
            _ => return Ok(self.typed.clone()),
        };
        let framing = if avro.framing == Framing::Apicurio { Framing::Apicurio } else { Framing::Confluent };
        let plan = avro.plan(framing).map_err(|bad| BadArgument::schema("schema", &bad).to_py(py))?;
        Ok(TypedSpec { make: make_avro(plan.asking(Arc::new(registry))), ..self.typed.clone() })
    }
}

/// Rows are not written in Apicurio's and AWS Glue's framing.
pub(crate) fn only_read() -> BadArgument {
    BadArgument::new("values are read in this framing, and not written").with_hint("give `framing='confluent'`")
}

/// Confluent's framing asks for the id of the schema that rows are written with.
pub(crate) fn no_id() -> BadArgument {
    BadArgument::new("values of Confluent's framing begin with the id of the schema that they are written with")
        .with_hint("give it as `schemas={7: schema}`, or set `schema.registry.url`, where it is registered")
}

/// Framing of values, by Python's name for it.
pub(crate) fn framing_of(py: Python<'_>, name: &str) -> PyResult<Framing> {
    Ok(match name {
        "bare" => Framing::Bare,
        "confluent" => Framing::Confluent,
        "single_object" => Framing::SingleObject,
        "apicurio" => Framing::Apicurio,
        "glue" => Framing::Glue,
        other => return Err(argument_error(py, format!("no such framing: {other}"))),
    })
}

/// Treatment of bad values: in the decoder, and of the records that it refuses.
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

/// Decoding of keys and values, as Python gives it; `None` for bytes.
pub(crate) type PySpec<'py> = Option<PyRef<'py, ColumnSpec>>;

pub(crate) fn batch_columns(
    py: Python<'_>,
    names: Option<Vec<String>>,
    headers: bool,
    (key, value): (&PySpec<'_>, &PySpec<'_>),
    filter: Option<PyFilter>,
    registry: Option<&Arc<SchemaRegistry>>,
) -> PyResult<BatchColumns> {
    let set = config::columns(py, names, headers)?;
    let typed = |spec: &PySpec<'_>| spec.as_ref().map(|spec| spec.typed(py, registry)).transpose();
    let filter = filter.map(PyFilter::into_filter);
    let columns = BatchColumns { set, key: typed(key)?, value: typed(value)?, filter };
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
