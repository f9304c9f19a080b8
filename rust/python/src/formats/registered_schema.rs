//! The schemas that rows are written with, at a registry: registered, looked up, or its newest.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_schema::DataType;
use monedula_client::registry::{NewReference, NewSchema, NoSubject, SchemaRegistry, WrittenSchema};
use monedula_formats::{AvroSchema, WriterKey};
use pyo3::prelude::*;
use serde_json::Value;

use crate::argument::BadArgument;
use crate::error::registry_error_of;
use crate::runtime::asked;

/// Place of the schema of keys or values in a registry.
#[derive(Clone, Copy)]
pub(crate) struct SubjectLookup<'a> {
    /// Part of the record: `key` or `value`.
    pub(crate) name: &'static str,
    pub(crate) topic: Option<&'a str>,
    pub(crate) registry: &'a Arc<SchemaRegistry>,
    /// The type of their column, which fits; not known where the registry's newest schema is written.
    pub(crate) data_type: Option<&'a DataType>,
    /// True if a header names the schema, by its GUID.
    pub(crate) in_header: bool,
}

impl SubjectLookup<'_> {
    /// The subject: the given one, or the one that the settings make of the topic and the record's name.
    pub(crate) fn subject(&self, py: Python<'_>, given: Option<&str>, record: Option<&str>) -> PyResult<String> {
        if given.is_none()
            && let Some(topic) = self.topic
            && let Some(subject) = associated(py, self.registry, self.name, topic)?
        {
            return Ok(subject);
        }
        match given {
            Some(given) => Ok(given.to_owned()),
            None => {
                self.registry.subject(self.name == "key", self.topic, record).map_err(|NoSubject { reason, hint }| {
                    let bad = BadArgument::of(self.name, reason);
                    hint.iter().fold(bad, |bad, hint| bad.with_hint(hint)).to_py(py)
                })
            }
        }
    }

    /// The schema that values of the subject are written with. Asks the registry.
    pub(crate) fn ask(&self, py: Python<'_>, subject: &str, schema: NewSchema) -> PyResult<Arc<WrittenSchema>> {
        let (registry, subject) = (Arc::clone(self.registry), subject.to_owned());
        let found = asked(py, move || registry.written(&subject, &schema))?;
        found.map_err(|reason| registry_error_of(py, self.name, &reason))
    }

    /// The key by which values name the schema with this id. Asks the registry, if that is a GUID.
    pub(crate) fn key(&self, py: Python<'_>, subject: Option<&str>, id: u32) -> PyResult<WriterKey> {
        if !self.in_header {
            return Ok(WriterKey::Id(id));
        }
        let (registry, subject) = (Arc::clone(self.registry), subject.map(str::to_owned));
        let found = asked(py, move || registry.guid(subject.as_deref(), id))?;
        found.map(WriterKey::Guid).map_err(|reason| registry_error_of(py, self.name, &reason))
    }

    /// The error for the newest schema of a subject, which cannot be used.
    pub(crate) fn unreadable(&self, py: Python<'_>, subject: &str, why: impl std::fmt::Display) -> PyErr {
        let reason = format!("the newest schema of subject {subject} cannot be read: {why}");
        registry_error_of(py, self.name, &reason)
    }
}

/// The subject that a registry associates with the keys or values of a topic, if it is asked for one, and has one.
pub(crate) fn associated(
    py: Python<'_>,
    registry: &Arc<SchemaRegistry>,
    name: &str,
    topic: &str,
) -> PyResult<Option<String>> {
    let is_key = name == "key";
    if !registry.asks_for_associations(is_key) {
        return Ok(None);
    }
    let (registry, topic) = (Arc::clone(registry), topic.to_owned());
    let found = asked(py, move || registry.associated(is_key, &topic))?;
    found.map_err(|reason| registry_error_of(py, name, &reason))
}

/// The schemas of Avro that one refers to, by these names, each behind those that its own text refers to.
pub(crate) fn new_references(texts: &[String]) -> Vec<NewReference> {
    let mut references = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        // One that cannot be read was refused before.
        let Ok(schema) = AvroSchema::parse_beside(text, &texts[..index]) else { continue };
        let Some(name) = schema.name() else { continue };
        let refers_to = referred(text, &references);
        references.push(NewReference { name: name.to_owned(), text: text.clone(), refers_to });
    }
    references
}

/// The names of those of these schemas that a text refers to.
pub(crate) fn referred(text: &str, known: &[NewReference]) -> Vec<String> {
    let mut names = BTreeSet::new();
    if let Ok(document) = serde_json::from_str(text) {
        add_texts(&document, &mut names);
    }
    let is_named =
        |full: &str| names.contains(full) || full.rsplit('.').next().is_some_and(|name| names.contains(name));
    known.iter().map(|each| each.name.clone()).filter(|full| is_named(full)).collect()
}

fn add_texts(document: &Value, texts: &mut BTreeSet<String>) {
    match document {
        Value::String(text) => drop(texts.insert(text.clone())),
        Value::Array(values) => values.iter().for_each(|value| add_texts(value, texts)),
        Value::Object(values) => values.values().for_each(|value| add_texts(value, texts)),
        _ => {}
    }
}
