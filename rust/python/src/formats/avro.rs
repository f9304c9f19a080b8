//! Avro as a column: the schemas that Python gives or a registry has, and the plans that are made of them.

use std::sync::Arc;

use monedula_client::registry::{NewReference, NewSchema, SchemaKind};
use monedula_columns::{BufferPool, Lookup, MakeTyped};
use monedula_formats::{
    AvroDecoder, AvroOptions, AvroPlan, AvroSchema, BadSchema, Framing, NoSchema, SchemaSource, WriterKey,
};
use pyo3::prelude::*;

use crate::argument::BadArgument;
use crate::formats::registered_schema::{SubjectLookup, referred};
use crate::formats::registry_source::Registry;
use crate::formats::{no_id, only_read};

#[derive(Clone)]
pub(crate) struct AvroGiven {
    pub(crate) reader: AvroSchema,
    /// The reader's schema, as it is registered.
    pub(crate) text: String,
    /// Referenced schemas, as they are registered.
    pub(crate) beside: Vec<NewReference>,
    pub(crate) schemas: Vec<(WriterKey, AvroSchema)>,
    /// The keys of those that are the reader's own.
    pub(crate) same: Vec<WriterKey>,
    pub(crate) framing: Framing,
    pub(crate) options: AvroOptions,
    pub(crate) may_ask: bool,
    /// Subject of the context of the schemas that are asked for.
    pub(crate) subject: Option<Arc<str>>,
}

impl AvroGiven {
    /// True if a registry, if there is one, is asked for the id of the schema that rows are written with.
    pub(crate) fn is_registered(&self) -> bool {
        self.may_ask && (self.framing == Framing::Bare || (self.framing == Framing::Confluent && self.same.is_empty()))
    }

    /// Key of the schema of written values.
    pub(crate) fn key(&self) -> Result<WriterKey, BadArgument> {
        match self.framing {
            Framing::Bare if self.schemas.len() == self.same.len() => Ok(WriterKey::Only),
            Framing::Bare => Err(BadArgument::new("writer= is for reading; values are written with the schema itself")),
            Framing::SingleObject => Ok(WriterKey::Fingerprint(self.reader.fingerprint())),
            Framing::Apicurio | Framing::Glue => Err(only_read()),
            Framing::Confluent => self.same.iter().max().copied().ok_or_else(no_id),
        }
    }

    /// The schema that a registry has values written with, and its id.
    pub(crate) fn registered(&self, py: Python<'_>, place: SubjectLookup<'_>) -> PyResult<(AvroSchema, WriterKey)> {
        let subject = place.subject(py, self.subject.as_deref(), self.reader.record_name())?;
        let new = NewSchema {
            kind: SchemaKind::Avro,
            text: self.text.clone(),
            refers_to: referred(&self.text, &self.beside),
            references: self.beside.clone(),
        };
        let found = place.ask(py, &subject, new)?;
        let schema = match &found.instead {
            None => self.reader.clone(),
            Some(instead) => AvroSchema::parse_beside(&instead.text, &instead.reference_texts())
                .map_err(|bad| place.unreadable(py, &subject, bad))?,
        };
        Ok((schema, place.key(py, Some(&subject), found.id)?))
    }

    /// In another framing than the given, no given schema is a writer's.
    pub(crate) fn plan(&self, framing: Framing) -> Result<AvroPlan, BadSchema> {
        let schemas = if framing == self.framing { self.schemas.clone() } else { Vec::new() };
        AvroPlan::new(self.reader.clone(), schemas, framing, self.options.clone())
    }
}

pub(crate) fn make_avro(plan: AvroPlan) -> Arc<MakeTyped> {
    let plan = Arc::new(plan);
    Arc::new(move |pool: &BufferPool| Box::new(AvroDecoder::new(Arc::clone(&plan), pool.clone())))
}

impl SchemaSource<AvroSchema> for Registry {
    fn ask(&self, key: WriterKey) -> Lookup<Result<AvroSchema, NoSchema>> {
        self.ask(key, SchemaKind::Avro, |schema| AvroSchema::parse_beside(&schema.text, &schema.reference_texts()))
    }
}
