//! A schema registry that is asked by itself, without a client of Kafka.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Instant;

use monedula_client::registry::{self, SchemaKind};
use monedula_formats::stable_text;
use pyo3::prelude::*;

use crate::config;
use crate::error::{argument_error, registry_error};
use crate::runtime::in_slices;
use crate::tokens::Settings;

/// A version of a subject: the schema's id, the version, the schema's text, and the names and texts of those that it refers
/// to.
type PyVersion = (u32, u32, String, Vec<(String, String)>);

/// See `monedula.SchemaRegistry`.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct RegistryCore(pub(crate) Arc<registry::SchemaRegistry>);

#[pymethods]
impl RegistryCore {
    #[new]
    fn new(py: Python<'_>, settings: Settings) -> PyResult<Self> {
        let Some(registry) = config::parse(py, settings)?.schema_registry else {
            return Err(argument_error(py, "the settings name no registry: schema.registry.url is not given".into()));
        };
        Ok(Self(registry))
    }

    /// A version of a subject, the latest if there is no number, which is to be of this kind, `"AVRO"`, `"PROTOBUF"` or
    /// `"JSON"`.
    fn version(&self, py: Python<'_>, subject: String, version: Option<u32>, kind: &str) -> PyResult<PyVersion> {
        let kind =
            [SchemaKind::Avro, SchemaKind::Protobuf, SchemaKind::Json].into_iter().find(|known| known.name() == kind);
        let Some(kind) = kind else { return Err(argument_error(py, "there is no such kind of schema".into())) };
        let found = asked(py, &self.0, move |registry| registry.version(&subject, version, kind))?;
        Ok((found.id, found.version, found.schema.text, found.schema.references))
    }

    /// What is answered at this path, or to a JSON text that is posted there, as JSON.
    #[pyo3(signature = (path, posted = None))]
    fn request(&self, py: Python<'_>, path: String, posted: Option<String>) -> PyResult<String> {
        asked(py, &self.0, move |registry| registry.request(&path, posted.as_deref()))
    }
}

/// The text of an Avro schema as producers register it: the same, however it was given; `None` if it is none by itself, as one
/// that refers to others.
#[pyfunction]
pub(crate) fn stable_avro(text: &str) -> Option<String> {
    stable_text(text).ok()
}

/// Asks on a thread of its own: other threads of Python run meanwhile, and Ctrl-C ends the wait.
fn asked<T: Send + 'static>(
    py: Python<'_>,
    registry: &Arc<registry::SchemaRegistry>,
    ask: impl FnOnce(&registry::SchemaRegistry) -> Result<T, String> + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = mpsc::channel();
    let registry = Arc::clone(registry);
    // The receiver is gone if Ctrl-C has ended the wait.
    let work = move || drop(sender.send(ask(&registry)));
    if std::thread::Builder::new().name("monedula-registry".into()).spawn(work).is_err() {
        return Err(registry_error(py, "the system grants no thread to ask the schema registry".into()));
    }
    let answer =
        in_slices(py, move |until| match receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(answer) => Ok(Some(answer)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Ok(Some(Err("asking the schema registry panicked".into()))),
        })?;
    answer.map_err(|why| registry_error(py, why))
}
