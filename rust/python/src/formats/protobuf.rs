//! Protobuf as a column: the schemas that Python gives or a registry has, and the plans that are made of them.

use std::sync::Arc;

use arrow_schema::DataType;
use monedula_client::registry::{NewReference, NewSchema, SchemaKind, SchemaRegistry};
use monedula_columns::{BufferPool, Lookup, MakeTyped, TypedColumn};
use monedula_formats::{
    BadSchema, Framing, NoSchema, ProtobufDecoder, ProtobufEncoder, ProtobufFile, ProtobufOptions, ProtobufPlan,
    ProtobufSchema, SchemaSource, WriterKey,
};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::argument::BadArgument;
use crate::formats::registered_schema::SubjectLookup;
use crate::formats::registry_source::Registry;
use crate::formats::{framing_of, no_id, only_read};

#[derive(FromPyObject)]
pub(crate) enum SchemaFiles {
    Descriptors(PyBackedBytes),
    Texts(Vec<(String, String)>),
}

impl SchemaFiles {
    fn schema(&self, message: Option<&str>) -> Result<ProtobufSchema, BadSchema> {
        match self {
            Self::Descriptors(bytes) => ProtobufSchema::from_descriptor_set(bytes, message),
            Self::Texts(texts) => ProtobufSchema::from_texts(texts, message),
        }
    }
}

/// A writer's schema, behind its id, and its GUID if it is named by that.
pub(crate) type Writer = (u64, Option<PyBackedBytes>, SchemaFiles);

#[derive(Clone)]
pub(crate) struct ProtobufGiven {
    schema: ProtobufSchema,
    writers: Vec<(WriterKey, ProtobufSchema)>,
    framing: Framing,
    options: ProtobufOptions,
    /// True if values are framed as Confluent's where the client has a registry, which is asked for writers' schemas.
    may_ask: bool,
    /// Subject of the context of the schemas that are asked for.
    subject: Option<Arc<str>>,
}

/// A registry as a source of schemas, whose message has this name.
#[derive(Debug)]
struct ProtobufRegistry(Registry, Box<str>);

impl SchemaSource<ProtobufSchema> for ProtobufRegistry {
    fn ask(&self, key: WriterKey) -> Lookup<Result<ProtobufSchema, NoSchema>> {
        self.0.ask(key, SchemaKind::Protobuf, |schema| {
            let mut texts = schema.references.clone();
            texts.push(("schema.proto".to_owned(), schema.text.clone()));
            ProtobufSchema::from_texts(&texts, Some(&self.1))
        })
    }
}

impl ProtobufGiven {
    pub(crate) fn new(
        py: Python<'_>,
        (schema, message): (&SchemaFiles, Option<&str>),
        writers: Vec<Writer>,
        framing: &str,
        options: ProtobufOptions,
        (may_ask, subject): (bool, Option<String>),
    ) -> PyResult<Self> {
        let refused = |name: &str, bad: BadSchema| BadArgument::schema(name, &bad).to_py(py);
        let framing = framing_of(py, framing)?;
        let schema = schema.schema(message).map_err(|bad| refused("schema", bad))?;
        let mut schemas = Vec::new();
        for (id, guid, source) in writers {
            let guid = guid.and_then(|guid| guid.first_chunk().copied()).map(u128::from_be_bytes);
            let (name, key) = match guid {
                None if framing == Framing::Apicurio => (format!("schemas[{id}]"), WriterKey::Apicurio(id)),
                None => (format!("schemas[{id}]"), WriterKey::Id(id as u32)),
                Some(guid) => (format!("schemas[{guid:032x}]"), WriterKey::Guid(guid)),
            };
            // The writer's message is that of the same name.
            let writer = source.schema(Some(schema.message()));
            schemas.push((key, writer.map_err(|bad| refused(&name, bad))?));
        }
        Ok(Self { schema, writers: schemas, framing, options, may_ask, subject: subject.map(Into::into) })
    }

    /// Factory of decoders, and the type of their columns. If there is a registry, it may be asked.
    pub(crate) fn make(
        &self,
        py: Python<'_>,
        registry: Option<&Arc<SchemaRegistry>>,
    ) -> PyResult<(Arc<MakeTyped>, DataType)> {
        let registry = registry.filter(|_| self.may_ask);
        let framing = match self.framing {
            Framing::Bare if registry.is_some() => Framing::Confluent,
            given => given,
        };
        let plan = ProtobufPlan::new(self.schema.clone(), self.writers.clone(), framing, self.options.clone())
            .map_err(|bad| BadArgument::schema("schema", &bad).to_py(py))?;
        let plan = match registry {
            Some(registry) => {
                let registry = Registry(Arc::clone(registry), self.subject.clone());
                plan.asking(Arc::new(ProtobufRegistry(registry, self.schema.message().into())))
            }
            None => plan,
        };
        let (data_type, plan) = (plan.data_type().clone(), Arc::new(plan));
        let make = move |pool: &BufferPool| -> Box<dyn TypedColumn> {
            Box::new(ProtobufDecoder::new(Arc::clone(&plan), pool.clone()))
        };
        Ok((Arc::new(make), data_type))
    }

    /// True if a registry, if there is one, is asked for the id of the schema that rows are written with.
    pub(crate) fn is_registered(&self) -> bool {
        self.may_ask && self.framing != Framing::Apicurio && self.own_key().is_none()
    }

    /// The subject of the context of the schemas.
    pub(crate) fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// The highest of the keys that the schema was given with.
    pub(crate) fn own_key(&self) -> Option<WriterKey> {
        self.writers.iter().filter(|(_, writer)| writer.is_same(&self.schema)).map(|(key, _)| *key).max()
    }

    /// Encoder, if no registry is asked.
    ///
    /// # Errors
    /// Missing argument: with frames, the id of the schema must be known.
    pub(crate) fn encoder(&self) -> Result<ProtobufEncoder, BadArgument> {
        let key = match self.framing {
            Framing::Confluent => self.own_key().ok_or_else(no_id)?,
            Framing::Apicurio | Framing::Glue => return Err(only_read()),
            Framing::Bare | Framing::SingleObject => WriterKey::Only,
        };
        Ok(self.encoder_with(key))
    }

    pub(crate) fn encoder_with(&self, key: WriterKey) -> ProtobufEncoder {
        self.encoder_of(self.schema.clone(), key)
    }

    /// Encoder with the schema that a registry has for the rows.
    pub(crate) fn registered(&self, py: Python<'_>, place: SubjectLookup<'_>) -> PyResult<ProtobufEncoder> {
        let message = self.schema.message();
        let subject = place.subject(py, self.subject.as_deref(), Some(message))?;
        let found = place.ask(py, &subject, self.new_schema())?;
        let schema = match &found.instead {
            None => self.schema.clone(),
            Some(instead) => {
                let mut texts = instead.references.clone();
                texts.push((subject.clone(), instead.text.clone()));
                ProtobufSchema::from_texts(&texts, Some(message)).map_err(|bad| place.unreadable(py, &subject, bad))?
            }
        };
        Ok(self.encoder_of(schema, place.key(py, Some(&subject), found.id)?))
    }

    fn encoder_of(&self, schema: ProtobufSchema, key: WriterKey) -> ProtobufEncoder {
        ProtobufEncoder::new(schema, key).with_unsigned_as_signed(self.options.unsigned_as_signed)
    }

    /// The schema as it is registered: each file by itself. Those that every registry has are not.
    fn new_schema(&self) -> NewSchema {
        let is_known = |name: &str| name.starts_with("google/protobuf/") || name.starts_with("google/type/");
        let mut files: Vec<_> = self.schema.files().into_iter().filter(|file| !is_known(&file.name)).collect();
        let own = files.pop();
        let names: Vec<String> = files.iter().map(|file| file.name.clone()).collect();
        let refers_to =
            |file: &ProtobufFile| file.imports.iter().filter(|name| names.contains(name)).cloned().collect();
        NewSchema {
            kind: SchemaKind::Protobuf,
            text: own.map(|file| file.text.clone()).unwrap_or_default(),
            refers_to: own.map(&refers_to).unwrap_or_default(),
            references: files
                .iter()
                .map(|file| NewReference {
                    name: file.name.clone(),
                    text: file.text.clone(),
                    refers_to: refers_to(file),
                })
                .collect(),
        }
    }
}
