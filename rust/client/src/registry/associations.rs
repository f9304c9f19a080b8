//! Subjects that a registry associates with topics, as Confluent's `AssociatedNameStrategy` asks for them.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde_json::Value;

use super::fetch::encoded;
use super::http::{Failure, Http};
use crate::config_values::ConfigValues;
use crate::lock::lock;

/// Name of the strategy, without that of its package.
pub(super) const ASSOCIATED: &str = "AssociatedNameStrategy";

/// Setting for the subject of topics without an association.
pub(super) const FALLBACK: &str = "subject.name.strategy.fallback.type";

const CLUSTER: &str = "subject.name.strategy.kafka.cluster.id";

/// Namespace of all clusters.
const ANY_CLUSTER: &str = "-";

/// The associations of a registry, as far as they were asked for.
#[derive(Debug)]
pub(super) struct Associations {
    of_keys: bool,
    of_values: bool,
    cluster: String,
    /// Subjects by topic, of keys or values. A topic without one is asked for again: it may get one.
    known: Mutex<BTreeMap<(bool, String), String>>,
}

impl Associations {
    pub(super) fn of(values: &ConfigValues) -> Self {
        let is_asked = |key: &str| values.text(key).ends_with(ASSOCIATED);
        let cluster = values.given(CLUSTER).unwrap_or_else(|| ANY_CLUSTER.to_owned());
        Self {
            of_keys: is_asked("key.subject.name.strategy"),
            of_values: is_asked("value.subject.name.strategy"),
            cluster,
            known: Mutex::default(),
        }
    }

    pub(super) fn are_asked(&self, is_key: bool) -> bool {
        if is_key { self.of_keys } else { self.of_values }
    }

    pub(super) fn subject(&self, http: &Http, is_key: bool, topic: &str) -> Result<Option<String>, String> {
        if !self.are_asked(is_key) {
            return Ok(None);
        }
        let key = (is_key, topic.to_owned());
        if let Some(known) = lock(&self.known).get(&key) {
            return Ok(Some(known.clone()));
        }
        let part = if is_key { "key" } else { "value" };
        let (cluster, name) = (encoded(&self.cluster), encoded(topic));
        let path = format!("/associations/resources/{cluster}/{name}?resourceType=topic&associationType={part}");
        let what = format!("the subject that is associated with the {part}s of the topic {topic}");
        let answer = match http.request(&path, None) {
            Ok(answer) => answer,
            // As a registry answers that has no such resource.
            Err(Failure::NotFound(_)) => return Ok(None),
            Err(failure) => return Err(format!("{what}: {}", failure.why())),
        };
        let found = answer.as_array().ok_or_else(|| format!("{what}: the answer is no list of associations"))?;
        let subjects: Vec<&str> = found.iter().filter_map(|each| each.get("subject").and_then(Value::as_str)).collect();
        match subjects[..] {
            [] => Ok(None),
            [subject] => {
                lock(&self.known).insert(key, subject.to_owned());
                Ok(Some(subject.to_owned()))
            }
            _ => Err(format!("{what}: there are several, {}", subjects.join(", "))),
        }
    }
}
