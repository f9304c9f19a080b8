//! The schemas that values are written with: registered, or looked up, under the subject of their topic or record.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};

use super::fetch::{self, NoAnswer, encoded};
use super::http::{Failure, Http};
use super::{RegisteredSchema, SchemaKind, SchemaRegistry};
use crate::config_values::{ConfigError, Values};
use crate::lock::lock;
use crate::topic_name;

const AUTO: &str = "auto.register.schemas";
const LATEST: &str = "use.latest.version";

/// How the schemas of values that are written are made known.
#[derive(Clone, Debug)]
pub(super) struct Registering {
    how: How,
    normalizes: bool,
    key_naming: Naming,
    value_naming: Naming,
    /// What the registry answered: for good, as ids never change.
    known: Arc<Mutex<Known>>,
}

/// By subject and text.
type Known = BTreeMap<(String, String), Arc<WrittenSchema>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// Registered if it is not there yet.
    Registered,
    /// Only looked up.
    LookedUp,
    /// The subject's newest is written, in place of the given one.
    Latest,
}

/// What a subject is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naming {
    Topic,
    Record,
    TopicRecord,
}

/// A schema to write values with.
#[derive(Debug)]
pub struct WrittenSchema {
    /// Its id, which stands before each value.
    pub id: u32,
    /// The schema, if it is another than the given one.
    pub instead: Option<RegisteredSchema>,
}

impl Registering {
    pub(super) fn of(values: &Values) -> Result<Self, ConfigError> {
        let (auto, latest) = (values.bool(AUTO), values.bool(LATEST));
        if latest && auto && values.is_given(AUTO) {
            let message = format!(
                "{LATEST}=true does not go with {AUTO}=true: values are written with the subject's newest schema, or with \
                 one that is registered for them; set one of the two to false"
            );
            return Err(ConfigError { key: LATEST.into(), message });
        }
        let how = match (latest, auto) {
            (true, _) => How::Latest,
            (false, true) => How::Registered,
            (false, false) => How::LookedUp,
        };
        let naming = |key: &str| match values.text(key).rsplit('.').next() {
            Some("RecordNameStrategy") => Naming::Record,
            Some("TopicRecordNameStrategy") => Naming::TopicRecord,
            _ => Naming::Topic,
        };
        Ok(Self {
            how,
            normalizes: values.bool("normalize.schemas"),
            key_naming: naming("key.subject.name.strategy"),
            value_naming: naming("value.subject.name.strategy"),
            known: Arc::default(),
        })
    }
}

impl SchemaRegistry {
    /// The subject for the schema of keys or values that are written to a topic; `record` is the schema's full name, if it is
    /// that of a record.
    ///
    /// # Errors
    /// What the subject would be made of and is not there, or is no name.
    pub fn subject(&self, is_key: bool, topic: Option<&str>, record: Option<&str>) -> Result<String, String> {
        let registering = &self.registering;
        let (naming, part) = if is_key { (registering.key_naming, "key") } else { (registering.value_naming, "value") };
        let topic = || {
            if let Some(name) = topic {
                topic_name::check(name).map_err(|error| error.to_string())?;
            }
            topic.ok_or_else(|| {
                "the schema's subject is made of the topic's name: give send_batch(data, topic, ...), or set \
                 value.subject.name.strategy=RecordNameStrategy"
                    .to_owned()
            })
        };
        let record = || {
            let setting = format!("{part}.subject.name.strategy");
            record.ok_or_else(|| {
                format!("the setting {setting} makes a subject of a record's name, and the schema is that of no record")
            })
        };
        Ok(match naming {
            Naming::Topic => format!("{}-{part}", topic()?),
            Naming::Record => record()?.to_owned(),
            Naming::TopicRecord => format!("{}-{}", topic()?, record()?),
        })
    }

    /// Whether the subject's newest schema is written, in place of the given one.
    pub fn writes_latest(&self) -> bool {
        self.registering.how == How::Latest
    }

    /// The schema that values of this subject are written with, given its text. Blocks while the registry is asked, which it
    /// is once.
    ///
    /// # Errors
    /// What the registry says against it, or that it cannot be asked.
    pub fn written(&self, subject: &str, text: &str) -> Result<Arc<WrittenSchema>, String> {
        let key = (subject.to_owned(), text.to_owned());
        if let Some(known) = lock(&self.registering.known).get(&key) {
            return Ok(Arc::clone(known));
        }
        let found = Arc::new(self.registering.ask(&self.inner.http, subject, text)?);
        lock(&self.registering.known).insert(key, Arc::clone(&found));
        Ok(found)
    }
}

impl Registering {
    fn ask(&self, http: &Http, subject: &str, text: &str) -> Result<WrittenSchema, String> {
        let (what, at) = (format!("subject {subject}"), format!("/subjects/{}", encoded(subject)));
        let query = if self.normalizes { "?normalize=true" } else { "" };
        let body = json!({ "schema": text }).to_string();
        match self.how {
            How::Latest => {
                let latest =
                    fetch::version(http, subject, None, SchemaKind::Avro).map_err(|no_answer| match no_answer {
                        NoAnswer::Missing(why) | NoAnswer::Failed(why) => why,
                    })?;
                Ok(WrittenSchema { id: latest.id, instead: Some(latest.schema) })
            }
            How::Registered => {
                let answer = http.post(&format!("{at}/versions{query}"), &body);
                let answer = answer.map_err(|failure| match failure {
                    Failure::NotFound(why) | Failure::Other(why) => format!("{what}: {why}"),
                })?;
                Ok(WrittenSchema { id: id(&answer, &what)?, instead: None })
            }
            How::LookedUp => {
                let answer = http.post(&format!("{at}{query}"), &body);
                let answer = answer.map_err(|failure| match failure {
                    Failure::NotFound(why) => format!(
                        "{what}: {why}; the schema is not registered there, and {AUTO}=false, so it is not registered now"
                    ),
                    Failure::Other(why) => format!("{what}: {why}"),
                })?;
                Ok(WrittenSchema { id: id(&answer, &what)?, instead: None })
            }
        }
    }
}

fn id(answer: &Map<String, Value>, what: &str) -> Result<u32, String> {
    let id = answer.get("id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
    id.ok_or_else(|| format!("{what}: the answer has no id in it; is schema.registry.url that of a registry?"))
}
