//! The schemas that values are written with: registered, or looked up, under the subject of their topic or record.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};

use super::associations::{ASSOCIATED, Associations, FALLBACK};
use super::fetch::{self, NoAnswer, encoded};
use super::http::{self, Failure, Http};
use super::{RegisteredSchema, SchemaKind, SchemaRegistry};
use crate::config_values::{ConfigError, ConfigValues};
use crate::lock::lock;
use crate::topic_name;

const AUTO: &str = "auto.register.schemas";
const LATEST: &str = "use.latest.version";

/// Registration of the schemas of values that are written.
#[derive(Clone, Debug)]
pub(super) struct Registering {
    resolution: SchemaResolution,
    normalizes: bool,
    key_naming: Naming,
    value_naming: Naming,
    /// Subjects that are associated with topics, if they are asked for.
    associations: Arc<Associations>,
    guids: Arc<Mutex<Guids>>,
    /// Schemas that the registry has, kept for good, as ids never change.
    known: Arc<Mutex<Known>>,
}

/// Written schemas by subject and given schema.
type Known = BTreeMap<(String, NewSchema), Arc<WrittenSchema>>;

/// GUIDs of schemas by their context, unless that is the default one, and their id.
type Guids = BTreeMap<(Option<String>, u32), u128>;

/// The versions that references were found to have, by their names.
type Versions<'s> = BTreeMap<&'s str, Value>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SchemaResolution {
    /// Registered if it is not there yet.
    Registered,
    LookedUp,
    /// The subject's newest is written, in place of the given one.
    Latest,
}

/// Parts of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naming {
    Topic,
    Record,
    TopicRecord,
    /// Nothing: a topic without an associated subject is refused.
    None,
}

/// A schema that values are to be written with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NewSchema {
    /// The language.
    pub kind: SchemaKind,
    /// The text.
    pub text: String,
    /// The names of the schemas that its own text refers to.
    pub refers_to: Vec<String>,
    /// All that the text refers to, also by way of others; each schema comes behind those that its own text refers to.
    pub references: Vec<NewReference>,
}

/// A schema that another one refers to. Its name is its subject.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NewReference {
    /// As the other one refers to it.
    pub name: String,
    /// The text.
    pub text: String,
    /// The names of the schemas that its own text refers to.
    pub refers_to: Vec<String>,
}

/// A schema to write values with.
#[derive(Debug)]
pub struct WrittenSchema {
    /// The id, which stands before each value.
    pub id: u32,
    /// The schema, if it is another than the given one.
    pub instead: Option<RegisteredSchema>,
}

impl Registering {
    pub(super) fn of(values: &ConfigValues) -> Result<Self, ConfigError> {
        let (auto, latest) = (values.bool(AUTO), values.bool(LATEST));
        if latest && auto && values.is_given(AUTO) {
            let message = format!(
                "{LATEST}=true does not go with {AUTO}=true: values are written with the subject's newest schema, or with \
                 one that is registered for them; set one of the two to false"
            );
            return Err(ConfigError { key: LATEST.into(), message });
        }
        let resolution = match (latest, auto) {
            (true, _) => SchemaResolution::Latest,
            (false, true) => SchemaResolution::Registered,
            (false, false) => SchemaResolution::LookedUp,
        };
        let fallback = match &*values.text(FALLBACK) {
            "RECORD" => Naming::Record,
            "TOPIC_RECORD" => Naming::TopicRecord,
            "NONE" => Naming::None,
            _ => Naming::Topic,
        };
        let naming = |key: &str| match values.text(key).rsplit('.').next() {
            Some("RecordNameStrategy") => Naming::Record,
            Some("TopicRecordNameStrategy") => Naming::TopicRecord,
            Some(ASSOCIATED) => fallback,
            _ => Naming::Topic,
        };
        Ok(Self {
            resolution,
            normalizes: values.bool("normalize.schemas"),
            key_naming: naming("key.subject.name.strategy"),
            value_naming: naming("value.subject.name.strategy"),
            associations: Arc::new(Associations::of(values)),
            guids: Arc::default(),
            known: Arc::default(),
        })
    }
}

/// Nothing says under which subject a schema is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoSubject {
    /// Reason: the part of the subject that is lacking.
    pub reason: String,
    /// Advice on what to give; backticks are around Python's names, since Spark has others.
    pub hint: Option<String>,
}

impl SchemaRegistry {
    /// The subject for the schema of keys or values that are written to a topic; `record` is the schema's full name, if
    /// it is that of a record.
    ///
    /// # Errors
    /// The part of the subject that is not there, or is no name.
    pub fn subject(&self, is_key: bool, topic: Option<&str>, record: Option<&str>) -> Result<String, NoSubject> {
        let registering = &self.registering;
        let (naming, part) = if is_key { (registering.key_naming, "key") } else { (registering.value_naming, "value") };
        let topic = || {
            if let Some(name) = topic {
                topic_name::check(name).map_err(|error| NoSubject { reason: error.to_string(), hint: None })?;
            }
            topic.ok_or_else(|| NoSubject {
                reason: "the schema's subject is made of the topic's name".to_owned(),
                hint: Some(format!(
                    "give `send_batch(data, topic, ...)`, or set `{part}.subject.name.strategy`=RecordNameStrategy"
                )),
            })
        };
        let record = || {
            record.ok_or_else(|| NoSubject {
                reason: format!(
                    "{part}.subject.name.strategy makes a subject of a record's name, and the schema has none: a JSON \
                     Schema is named by its title"
                ),
                hint: Some("or give `subject=`".to_owned()),
            })
        };
        Ok(match naming {
            Naming::Topic => format!("{}-{part}", topic()?),
            Naming::Record => record()?.to_owned(),
            Naming::TopicRecord => format!("{}-{}", topic()?, record()?),
            Naming::None => {
                let topic = topic()?;
                return Err(NoSubject {
                    reason: format!("the registry associates no subject with the {part}s of the topic {topic}"),
                    hint: Some(format!("or set `{FALLBACK}`=TOPIC")),
                });
            }
        })
    }

    /// The subject that the registry associates with keys or values of this topic; `None` if it has none for it, or the
    /// settings do not have it asked. Blocks while it is asked, once for each topic.
    ///
    /// # Errors
    /// The registry's refusal, or that it cannot be asked; or it associates several subjects.
    pub fn associated(&self, is_key: bool, topic: &str) -> Result<Option<String>, String> {
        self.registering.associations.subject(&self.inner.http, is_key, topic)
    }

    /// True if a subject that is associated with a topic is asked for.
    pub fn asks_for_associations(&self, is_key: bool) -> bool {
        self.registering.associations.are_asked(is_key)
    }

    /// The GUID of a schema with this id, in the context of a subject. Blocks while the registry is asked, once for
    /// each schema.
    ///
    /// # Errors
    /// The registry's refusal, that it cannot be asked, or that it has no GUIDs.
    pub fn guid(&self, subject: Option<&str>, id: u32) -> Result<u128, String> {
        let key = (subject.and_then(fetch::context).map(str::to_owned), id);
        if let Some(known) = lock(&self.registering.guids).get(&key) {
            return Ok(*known);
        }
        let guid = fetch::guid(&self.inner.http, subject, id)?;
        lock(&self.registering.guids).insert(key, guid);
        Ok(guid)
    }

    /// True if the subject's newest schema is written, in place of the given one.
    pub fn writes_latest(&self) -> bool {
        self.registering.resolution == SchemaResolution::Latest
    }

    /// The schema that values of this subject are written with, in place of the given one perhaps. Blocks while the
    /// registry is asked, which it is once.
    ///
    /// # Errors
    /// The registry's refusal, or that it cannot be asked.
    pub fn written(&self, subject: &str, schema: &NewSchema) -> Result<Arc<WrittenSchema>, String> {
        let key = (subject.to_owned(), schema.clone());
        if let Some(known) = lock(&self.registering.known).get(&key) {
            return Ok(Arc::clone(known));
        }
        let found = Arc::new(self.registering.ask(&self.inner.http, subject, schema)?);
        lock(&self.registering.known).insert(key, Arc::clone(&found));
        Ok(found)
    }
}

impl Registering {
    fn ask(&self, http: &Http, subject: &str, schema: &NewSchema) -> Result<WrittenSchema, String> {
        if self.resolution == SchemaResolution::Latest {
            let latest = fetch::version(http, subject, None, schema.kind).map_err(|no_answer| match no_answer {
                NoAnswer::Missing(why) | NoAnswer::Failed(why) => why,
            })?;
            return Ok(WrittenSchema { id: latest.id, instead: Some(latest.schema) });
        }
        let context = fetch::context(subject).unwrap_or_default();
        let mut versions = Versions::new();
        for reference in &schema.references {
            let subject = format!("{context}{}", reference.name);
            let body = body(schema.kind, &reference.text, &reference.refers_to, context, &versions);
            if self.resolution == SchemaResolution::Registered {
                self.register(http, &subject, &body)?;
            }
            // Only what is looked up has a version.
            let found = self.look_up(http, &subject, &body)?;
            let version = found.get("version").filter(|version| version.is_u64()).cloned();
            let version = version.ok_or_else(|| format!("subject {subject}: the answer has no version in it"))?;
            versions.insert(&reference.name, version);
        }
        let body = body(schema.kind, &schema.text, &schema.refers_to, context, &versions);
        let answer = match self.resolution {
            SchemaResolution::Registered => self.register(http, subject, &body)?,
            _ => self.look_up(http, subject, &body)?,
        };
        let id = answer.get("id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
        let id = id.ok_or_else(|| {
            format!("subject {subject}: the answer has no id in it; is schema.registry.url that of a registry?")
        })?;
        Ok(WrittenSchema { id, instead: None })
    }

    fn register(&self, http: &Http, subject: &str, body: &str) -> Result<Map<String, Value>, String> {
        http.post(&format!("/subjects/{}/versions{}", encoded(subject), self.query()), body).map_err(|failure| {
            let reasons =
                if let Failure::Incompatible(_) = &failure { reasons(http, subject, body) } else { Vec::new() };
            let why = failure.why();
            let more: Vec<_> = reasons.into_iter().filter(|reason| !why.contains(&**reason)).collect();
            let more = if more.is_empty() { String::new() } else { format!("; {}", more.join("; ")) };
            format!("subject {subject}: {why}{more}")
        })
    }

    fn look_up(&self, http: &Http, subject: &str, body: &str) -> Result<Map<String, Value>, String> {
        let answer = http.post(&format!("/subjects/{}{}", encoded(subject), self.query()), body);
        answer.map_err(|failure| match failure {
            Failure::NotFound(why) if self.resolution == SchemaResolution::LookedUp => format!(
                "subject {subject}: {why}; the schema is not registered there, and {AUTO}=false, so it is not registered now"
            ),
            failure => format!("subject {subject}: {}", failure.why()),
        })
    }

    fn query(&self) -> &'static str {
        if self.normalizes { "?normalize=true" } else { "" }
    }
}

/// Body of a request about a schema. References are to subjects of the same context.
fn body(kind: SchemaKind, text: &str, refers_to: &[String], context: &str, versions: &Versions<'_>) -> String {
    let mut body = json!({ "schema": text });
    if kind != SchemaKind::Avro {
        body["schemaType"] = kind.name().into();
    }
    let reference = |name: &String| {
        let version = versions.get(&**name)?;
        Some(json!({ "name": name, "subject": format!("{context}{name}"), "version": version }))
    };
    let references: Vec<Value> = refers_to.iter().filter_map(reference).collect();
    if !references.is_empty() {
        body["references"] = references.into();
    }
    body.to_string()
}

/// Reasons that a schema is not compatible with the subject's newest, of registries that refuse without any.
fn reasons(http: &Http, subject: &str, body: &str) -> Vec<String> {
    let path = format!("/compatibility/subjects/{}/versions/latest?verbose=true", encoded(subject));
    let answer = http.post(&path, body).unwrap_or_default();
    let messages = answer.get("messages").and_then(Value::as_array);
    messages.into_iter().flatten().filter_map(Value::as_str).map(http::readable).collect()
}
