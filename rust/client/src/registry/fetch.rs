//! A schema with its references, out of the registry's answers.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::http::{Failure, Http};
use super::{RegisteredSchema, SchemaKey, SchemaKind, SchemaRequest, SubjectVersion};

/// Reason that there is no schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// The registry has none of the kind that is expected.
    Missing(String),
    /// The registry cannot be asked, or its answer cannot be used.
    Failed(String),
}

/// Number of schemas that one may refer to, with all that these refer to.
const MAX_REFERENCES: usize = 1_000;

/// Depth to which references may be nested.
const MAX_DEPTH: usize = 64;

/// Asks for a schema. Blocks, for as long as the settings allow.
pub(super) fn schema(http: &Http, (key, subject, kind): &SchemaRequest) -> Result<RegisteredSchema, NoAnswer> {
    let (mut what, mut path) = match key {
        SchemaKey::Id(id) => (format!("schema id {id}"), format!("/schemas/ids/{id}")),
        SchemaKey::Guid(guid) => {
            let hex = format!("{guid:032x}");
            let guid = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-");
            (format!("schema GUID {guid}"), format!("/schemas/guids/{guid}"))
        }
    };
    if let Some(subject) = subject {
        what = format!("{what} in the context of {subject}");
        path = format!("{path}?subject={}", encoded(subject));
    }
    let answer = get(http, *kind, &what, &path)?;
    let mut references = References::new(http, subject.as_deref().and_then(context), *kind);
    references.registered(&answer, &what)
}

/// Asks for a version of a subject, the latest if there is none. Blocks, as [`schema`] does.
pub(super) fn version(
    http: &Http,
    subject: &str,
    version: Option<u32>,
    kind: SchemaKind,
) -> Result<SubjectVersion, NoAnswer> {
    let number = version.map_or_else(|| "latest".to_owned(), |version| version.to_string());
    let what = match version {
        Some(version) => format!("version {version} of subject {subject}"),
        None => format!("the latest version of subject {subject}"),
    };
    let answer = get(http, kind, &what, &format!("/subjects/{}/versions/{number}", encoded(subject)))?;
    let number = |name: &str| answer.get(name).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
    let (Some(id), Some(version)) = (number("id"), number("version")) else {
        return Err(NoAnswer::Failed(format!("{what}: the answer has no id and version in it")));
    };
    let mut references = References::new(http, context(subject), kind);
    Ok(SubjectVersion { id, version, schema: references.registered(&answer, &what)? })
}

/// Asks for the GUID of a schema by its id. Blocks, as [`schema`] does.
pub(super) fn guid(http: &Http, subject: Option<&str>, id: u32) -> Result<u128, String> {
    let query = subject.map(|subject| format!("?subject={}", encoded(subject))).unwrap_or_default();
    let answer = http.get(&format!("/schemas/ids/{id}{query}"));
    let answer = answer.map_err(|failure| format!("schema id {id}: {}", failure.why()))?;
    let guid = answer.get("guid").and_then(Value::as_str).map(|guid| guid.replace('-', ""));
    let guid = guid.filter(|hex| hex.len() == 32).and_then(|hex| u128::from_str_radix(&hex, 16).ok());
    guid.ok_or_else(|| {
        format!(
            "schema id {id}: the registry names no GUID for it, by which headers name schemas; Confluent's does from 8.0 \
             on. Write the id before the value instead"
        )
    })
}

/// The context of a subject, `:.name:`; `None` for the default one.
pub(super) fn context(subject: &str) -> Option<&str> {
    let end = subject.strip_prefix(":.")?.find(':')? + 3;
    (end > 3).then(|| &subject[..end])
}

struct References<'h> {
    http: &'h Http,
    /// Context of the referring schema: names of subjects without one mean those of the same.
    context: Option<&'h str>,
    kind: SchemaKind,
    seen: BTreeSet<(String, i64)>,
    /// Texts with the names that they are referred to by.
    texts: Vec<(String, String)>,
}

impl<'h> References<'h> {
    fn new(http: &'h Http, context: Option<&'h str>, kind: SchemaKind) -> Self {
        Self { http, context, kind, seen: BTreeSet::new(), texts: Vec::new() }
    }

    /// The schema of an answer, with those that it refers to.
    fn registered(&mut self, answer: &Map<String, Value>, what: &str) -> Result<RegisteredSchema, NoAnswer> {
        self.of(answer, what, 0)?;
        Ok(RegisteredSchema { text: text(answer, what)?, references: std::mem::take(&mut self.texts) })
    }

    /// Adds the references of a schema, each behind those of its own.
    fn of(&mut self, answer: &Map<String, Value>, what: &str, depth: usize) -> Result<(), NoAnswer> {
        let Some(Value::Array(references)) = answer.get("references") else { return Ok(()) };
        for reference in references {
            let (subject, version) = (reference.get("subject"), reference.get("version"));
            let name = reference.get("name").and_then(Value::as_str).unwrap_or_default();
            let (Some(subject), Some(version)) = (subject.and_then(Value::as_str), version.and_then(Value::as_i64))
            else {
                return Err(NoAnswer::Failed(format!("{what}: a reference without subject and version: {reference}")));
            };
            let subject = match self.context {
                Some(context) if !subject.starts_with(":.") => format!("{context}{subject}"),
                _ => subject.to_owned(),
            };
            if !self.seen.insert((subject.clone(), version)) {
                continue;
            }
            if self.seen.len() > MAX_REFERENCES || depth == MAX_DEPTH {
                return Err(NoAnswer::Failed(format!("{what} refers to too many schemas, or in a circle")));
            }
            let what = format!("{what}, which refers to version {version} of {subject}");
            // One that was deleted softly is still what values were written with.
            let path = format!("/subjects/{}/versions/{version}?deleted=true", encoded(&subject));
            let answer = get(self.http, self.kind, &what, &path)?;
            self.of(&answer, &what, depth + 1)?;
            self.texts.push((name.to_owned(), text(&answer, &what)?));
        }
        Ok(())
    }
}

fn get(http: &Http, kind: SchemaKind, what: &str, path: &str) -> Result<Map<String, Value>, NoAnswer> {
    let answer = http.get(path).map_err(|failure| match failure {
        Failure::NotFound(why) => NoAnswer::Missing(format!("{what}: {why}")),
        failure => NoAnswer::Failed(format!("{what}: {}", failure.why())),
    })?;
    let found = answer.get("schemaType").and_then(Value::as_str).unwrap_or(SchemaKind::Avro.name());
    if found != kind.name() {
        return Err(NoAnswer::Missing(format!("{what} is a schema of type {found}, where {kind} is expected")));
    }
    if has_rules(&answer) {
        return Err(NoAnswer::Failed(format!(
            "{what} has rules (ruleSet), such as for encrypted fields, which are not applied here: values would be \
             decoded to what the rules have made of them. Read this topic with Confluent's own deserializer"
        )));
    }
    Ok(answer)
}

/// True if values are changed by rules when they are written.
fn has_rules(answer: &Map<String, Value>) -> bool {
    let Some(Value::Object(rules)) = answer.get("ruleSet") else { return false };
    rules.values().any(|rules| rules.as_array().is_some_and(|rules| !rules.is_empty()))
}

fn text(answer: &Map<String, Value>, what: &str) -> Result<String, NoAnswer> {
    let text = answer.get("schema").and_then(Value::as_str).map(str::to_owned);
    text.ok_or_else(|| {
        NoAnswer::Failed(format!("{what}: the answer has no schema in it; is schema.registry.url that of a registry?"))
    })
}

/// Everything but letters, digits and `-._~` in hexadecimal, also slashes and colons.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}
