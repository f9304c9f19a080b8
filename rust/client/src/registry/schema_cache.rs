//! SchemaCache of a registry. A schema never changes, so it is kept for good; that there is none may change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use monedula_columns::{Awaited, Lookup};

use super::fetch::NoAnswer;
use super::{RegisteredSchema, SchemaRequest, SchemaResult};

/// Time for which an id counts as unknown: a schema may be registered after the record that names it was read, or not
/// yet be known to every node of the registry.
const MISSING_FOR: Duration = Duration::from_secs(10);

/// Time for which a failure stands for the other partitions that ask for the same: each is told, and none asks anew.
const FAILED_FOR: Duration = Duration::from_secs(1);

/// Number of unknown ids that are kept: records may name any.
const MAX_MISSING: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct SchemaCache {
    known: BTreeMap<SchemaRequest, Arc<RegisteredSchema>>,
    asked: BTreeMap<SchemaRequest, Arc<Awaited>>,
    without: BTreeMap<SchemaRequest, (NoAnswer, Instant)>,
}

impl SchemaCache {
    /// The answer that is kept; `None` if the registry is to be asked.
    pub(super) fn get(&self, key: &SchemaRequest, now: Instant) -> Option<Lookup<SchemaResult>> {
        if let Some(schema) = self.known.get(key) {
            return Some(Lookup::Ready(Ok(Arc::clone(schema))));
        }
        if let Some(awaited) = self.asked.get(key) {
            return Some(Lookup::Pending(Arc::clone(awaited)));
        }
        let (answer, until) = self.without.get(key)?;
        (now < *until).then(|| match answer {
            NoAnswer::Missing(why) => Lookup::Ready(Err(why.clone())),
            NoAnswer::Failed(why) => Lookup::Unavailable(why.clone()),
        })
    }

    pub(super) fn begin(&mut self, key: SchemaRequest, awaited: Arc<Awaited>) {
        self.asked.insert(key, awaited);
    }

    /// Keeps an answer; returns what waits for it.
    pub(super) fn end(
        &mut self,
        key: SchemaRequest,
        answer: Result<RegisteredSchema, NoAnswer>,
        now: Instant,
    ) -> Option<Arc<Awaited>> {
        match answer {
            Ok(schema) => {
                self.without.remove(&key);
                self.known.insert(key.clone(), Arc::new(schema));
            }
            Err(answer) => {
                if self.without.len() >= MAX_MISSING {
                    self.without.clear();
                }
                let stands_for = if matches!(answer, NoAnswer::Missing(_)) { MISSING_FOR } else { FAILED_FOR };
                self.without.insert(key.clone(), (answer, now + stands_for));
            }
        }
        self.asked.remove(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::{SchemaKey, SchemaKind};

    const KEY: SchemaRequest = (SchemaKey::Id(7), None, SchemaKind::Avro);

    #[test]
    fn what_there_is_stands_for_good_and_what_there_is_not_for_a_short_time() {
        let (mut answers, now) = (SchemaCache::default(), Instant::now());
        assert!(answers.get(&KEY, now).is_none());
        answers.begin(KEY, Arc::default());
        assert!(matches!(answers.get(&KEY, now), Some(Lookup::Pending(_))));
        assert!(answers.end(KEY, Err(NoAnswer::Missing("none".into())), now).is_some());
        assert!(matches!(answers.get(&KEY, now), Some(Lookup::Ready(Err(_)))));
        assert!(answers.get(&KEY, now + MISSING_FOR).is_none());
        answers.end(KEY, Err(NoAnswer::Failed("down".into())), now);
        assert!(matches!(answers.get(&KEY, now), Some(Lookup::Unavailable(_))));
        assert!(answers.get(&KEY, now + FAILED_FOR).is_none());
        let schema = RegisteredSchema { text: "\"int\"".into(), references: Vec::new() };
        answers.end(KEY, Ok(schema), now);
        assert!(matches!(answers.get(&KEY, now + MISSING_FOR * 1_000_000), Some(Lookup::Ready(Ok(_)))));
    }
}
