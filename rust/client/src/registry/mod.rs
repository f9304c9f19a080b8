//! Schemas of a registry that speaks Confluent's API: asked for by id, in the background, and never twice.
//!
//! [`SchemaRegistry::ask`] does not block: a walk that meets an unknown id is told what to wait for. A few threads,
//! which live while there is something to ask, do the requests.

mod associations;
mod authorization;
mod fetch;
mod http;
mod reaching;
mod registering;
mod schema_cache;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use monedula_columns::{Awaited, Lookup};

use self::fetch::NoAnswer;
use self::http::{Failure, Http};
use self::registering::Registering;
pub use self::registering::{NewReference, NewSchema, NoSubject, WrittenSchema};
use self::schema_cache::SchemaCache;
pub(crate) use self::settings::registry;
use crate::blocking;
use crate::lock::lock;
use crate::log::Log;
use crate::tasks::caught_now;

/// Key of a schema in a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SchemaKey {
    /// By its number.
    Id(u32),
    /// By its GUID.
    Guid(u128),
}

/// The language of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SchemaKind {
    /// Avro.
    Avro,
    /// Protobuf.
    Protobuf,
    /// JSON Schema.
    Json,
}

impl SchemaKind {
    /// As registries call it, in `schemaType`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Avro => "AVRO",
            Self::Protobuf => "PROTOBUF",
            Self::Json => "JSON",
        }
    }
}

impl fmt::Display for SchemaKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Avro => "Avro",
            Self::Protobuf => "Protobuf",
            Self::Json => "JSON Schema",
        })
    }
}

/// A schema of a registry.
#[derive(Debug, PartialEq, Eq)]
pub struct RegisteredSchema {
    /// The schema as it was registered.
    pub text: String,
    /// The schemas that the text refers to, also by way of others, with the names that it has for them; each comes
    /// behind those that its own text refers to.
    pub references: Vec<(String, String)>,
}

impl RegisteredSchema {
    /// The schemas that it refers to, without their names.
    pub fn reference_texts(&self) -> Vec<String> {
        self.references.iter().map(|(_, text)| text.clone()).collect()
    }
}

/// A version of a subject.
#[derive(Debug, PartialEq, Eq)]
pub struct SubjectVersion {
    /// The schema's id.
    pub id: u32,
    /// The version's number.
    pub version: u32,
    /// The schema.
    pub schema: RegisteredSchema,
}

/// Requested schema: its key, a subject of its context unless that is the default one, and the expected kind.
type SchemaRequest = (SchemaKey, Option<Arc<str>>, SchemaKind);

/// Schema of a registry, or the reason that it has none of the requested kind.
pub type SchemaResult = Result<Arc<RegisteredSchema>, String>;

/// A schema registry.
#[derive(Debug)]
pub struct SchemaRegistry {
    inner: Arc<Inner>,
    registering: Registering,
}

#[derive(Debug)]
struct Inner {
    http: Http,
    state: Mutex<RegistryState>,
}

#[derive(Debug, Default)]
struct RegistryState {
    answers: SchemaCache,
    queue: VecDeque<SchemaRequest>,
    threads: usize,
}

/// Most requests at a time. A partition waits for one at a time, so ids that nobody answers stop no others until so
/// many partitions wait for them.
const MAX_THREADS: usize = 64;

impl SchemaRegistry {
    fn new(http: Http, registering: Registering) -> Self {
        Self { inner: Arc::new(Inner { http, state: Mutex::default() }), registering }
    }

    /// Has log events of the registry go to `log` from now on.
    pub(crate) fn report_to(&self, log: &Log) {
        self.inner.http.reaching.report_to(log);
    }

    /// Time for which the registry could not be asked, and the last reason; `None` if it answers, or was not asked yet.
    pub fn failing(&self) -> Option<(Duration, String)> {
        self.inner.http.reaching.failing()
    }

    /// Time for which something has been asked without an answer, over all its attempts, and their last failure.
    pub fn waiting(&self) -> Option<(Duration, Option<String>)> {
        self.inner.http.reaching.waiting()
    }

    /// A version of a subject, the latest if there is no number, of this kind. Blocks as long as the settings allow.
    ///
    /// # Errors
    ///
    /// Reason that there is none, or that the registry cannot be asked.
    pub fn version(&self, subject: &str, version: Option<u32>, kind: SchemaKind) -> Result<SubjectVersion, String> {
        fetch::version(&self.inner.http, subject, version, kind).map_err(|why| match why {
            NoAnswer::Missing(why) | NoAnswer::Failed(why) => why,
        })
    }

    /// Answer at this path, or to a JSON text that is posted there, as JSON. Blocks, as `version` does.
    ///
    /// # Errors
    ///
    /// The registry's own words, or the reason that it cannot be asked.
    pub fn request(&self, path: &str, posted: Option<&str>) -> Result<String, String> {
        let answer = self.inner.http.request(path, posted).map(|answer| answer.to_string());
        answer.map_err(Failure::why)
    }

    /// Requests the schema with this key; never blocks. Ids are unique in a context: that of `subject` is meant.
    pub fn ask(&self, key: SchemaKey, subject: Option<&Arc<str>>, kind: SchemaKind) -> Lookup<SchemaResult> {
        let key = (key, subject.filter(|subject| fetch::context(subject).is_some()).cloned(), kind);
        let mut state = lock(&self.inner.state);
        if let Some(answer) = state.answers.get(&key, Instant::now()) {
            return answer;
        }
        state.queue.push_back(key.clone());
        if state.threads < MAX_THREADS {
            let inner = Arc::clone(&self.inner);
            let spawned = blocking::start_thread(blocking::named("monedula-registry"), move || inner.serve());
            state.threads += usize::from(spawned.is_ok());
            if state.threads == 0 {
                state.queue.clear();
                return Lookup::Unavailable("the system grants no thread to ask the schema registry".into());
            }
        }
        let awaited = Arc::new(Awaited::default());
        state.answers.begin(key, Arc::clone(&awaited));
        Lookup::Pending(awaited)
    }
}

impl Inner {
    /// Asks for what is queued, until nothing is.
    fn serve(&self) {
        loop {
            let key = {
                let mut state = lock(&self.state);
                let Some(key) = state.queue.pop_front() else {
                    state.threads -= 1;
                    return;
                };
                key
            };
            // Whatever happens, who waits is told.
            let answer = caught_now(|| fetch::schema(&self.http, &key))
                .unwrap_or_else(|reason| Err(NoAnswer::Failed(format!("the schema registry's answer: {reason}"))));
            let awaited = lock(&self.state).answers.end(key, answer, Instant::now());
            if let Some(awaited) = awaited {
                awaited.arrived();
            }
        }
    }
}
