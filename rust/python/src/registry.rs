//! A schema registry that is asked by itself, without a client of Kafka.

use std::sync::Arc;

use monedula_client::registry::{self, NoSubject, SchemaKind};
use monedula_formats::stable_text;
use pyo3::prelude::*;

use crate::argument::BadArgument;
use crate::config;
use crate::error::{argument_error, registry_error};
use crate::formats::registered_schema::associated;
use crate::runtime::asked;
use crate::tokens::Settings;

/// A version of a subject: the schema's id, the version, the schema's text, and the names and texts of those that it
/// refers to.
type PyVersion = (u32, u32, String, Vec<(String, String)>);

/// See `monedula.SchemaRegistry`.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct RegistryCore(pub(crate) Arc<registry::SchemaRegistry>);

const NO_REGISTRY: &str = "give `the setting schema.registry.url`";

#[pymethods]
impl RegistryCore {
    #[new]
    fn new(py: Python<'_>, settings: Settings) -> PyResult<Self> {
        let Some(registry) = config::parse(py, settings)?.schema_registry else {
            return Err(BadArgument::new("the settings name no registry").with_hint(NO_REGISTRY).to_py(py));
        };
        Ok(Self(registry))
    }

    /// A version of a subject, the latest if there is no number, which is to be of this kind, `"AVRO"`, `"PROTOBUF"` or
    /// `"JSON"`.
    fn version(&self, py: Python<'_>, subject: String, version: Option<u32>, kind: &str) -> PyResult<PyVersion> {
        let kind =
            [SchemaKind::Avro, SchemaKind::Protobuf, SchemaKind::Json].into_iter().find(|known| known.name() == kind);
        let Some(kind) = kind else { return Err(argument_error(py, "there is no such kind of schema".into())) };
        let registry = Arc::clone(&self.0);
        let found = asked(py, move || registry.version(&subject, version, kind))?;
        let found = found.map_err(|why| registry_error(py, why))?;
        Ok((found.id, found.version, found.schema.text, found.schema.references))
    }

    /// The subject that the registry associates with the `key` or `value` of a topic, or that the settings say in place
    /// of it; `None` if the registry is not asked for one.
    fn associated(&self, py: Python<'_>, name: &str, topic: &str) -> PyResult<Option<String>> {
        if let Some(subject) = associated(py, &self.0, name, topic)? {
            return Ok(Some(subject));
        }
        if !self.0.asks_for_associations(name == "key") {
            return Ok(None);
        }
        // A record's name is not known before its schema is.
        self.0.subject(name == "key", Some(topic), None).map(Some).map_err(|NoSubject { reason, hint }| {
            let bad = BadArgument::of(name, reason);
            hint.iter().fold(bad, |bad, hint| bad.with_hint(hint)).to_py(py)
        })
    }

    /// The last reason for which it could not be asked; `None` if it answers, or was not asked yet.
    fn failure(&self) -> Option<String> {
        self.0.failing().map(|(_, why)| why)
    }

    /// Answer at this path, or to a JSON text that is posted there, as JSON.
    #[pyo3(signature = (path, posted = None))]
    fn request(&self, py: Python<'_>, path: String, posted: Option<String>) -> PyResult<String> {
        let registry = Arc::clone(&self.0);
        let answer = asked(py, move || registry.request(&path, posted.as_deref()))?;
        answer.map_err(|why| registry_error(py, why))
    }
}

/// The text of an Avro schema as producers register it: the same, however it was given; `None` if it is none by itself,
/// as one that refers to others.
#[pyfunction]
pub(crate) fn stable_avro(text: &str) -> Option<String> {
    stable_text(text).ok()
}
