//! Writers' schemas that are requested while values are decoded.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use monedula_columns::Awaited;

use crate::avro::{BadSchema, WriterKey};

/// Answer to a request for a schema or the like.
#[derive(Debug)]
pub enum Asked<T> {
    /// Found.
    Known(T),
    /// Requested, but not there yet.
    Awaits(Arc<Awaited>),
    /// Unusable for decoding, and why: the values are bad.
    Refused(String),
    /// Unavailable, and why: the values are not at fault.
    Failed(String),
}

/// Source of schemas, such as a registry. It never blocks.
pub trait SchemaSource<S>: fmt::Debug + Send + Sync {
    /// Requests the schema with this key. The inner error says why the answer is no valid schema.
    fn ask(&self, key: WriterKey) -> Asked<Result<S, BadSchema>>;
}

/// Cache of the writers' schemas that were requested, shared by all decoders of a plan.
#[derive(Debug)]
pub(crate) struct WriterSchemaCache<S, W> {
    source: Arc<dyn SchemaSource<S>>,
    /// Outcome for each schema: its writer's plan, or the reason why it is invalid or the reader's schema cannot
    /// resolve it.
    planned: Mutex<BTreeMap<WriterKey, Result<Arc<W>, String>>>,
}

impl<S, W> WriterSchemaCache<S, W> {
    pub(crate) fn new(source: Arc<dyn SchemaSource<S>>) -> Self {
        Self { source, planned: Mutex::default() }
    }

    /// Returns the writer with this key; `plan` makes it of its schema.
    pub(crate) fn ask(&self, key: WriterKey, plan: impl FnOnce(S) -> Result<W, BadSchema>) -> Asked<Arc<W>> {
        let mut planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Vacant(place) = planned.entry(key) {
            let schema = match self.source.ask(key) {
                Asked::Known(schema) => schema,
                Asked::Awaits(awaited) => return Asked::Awaits(awaited),
                Asked::Refused(why) => return Asked::Refused(why),
                Asked::Failed(why) => return Asked::Failed(why),
            };
            place.insert(schema.and_then(plan).map(Arc::new).map_err(|bad| unreadable(key, &bad).reason));
        }
        match planned.get(&key) {
            Some(Ok(writer)) => Asked::Known(Arc::clone(writer)),
            Some(Err(why)) => Asked::Refused(why.clone()),
            None => Asked::Failed("the schema was lost".into()),
        }
    }
}

/// Error of a writer's schema that cannot be read, with its key.
pub(crate) fn unreadable(key: WriterKey, bad: &BadSchema) -> BadSchema {
    let writer = key.text().map_or_else(|| "the writer's schema".to_owned(), |id| format!("the schema of {id}"));
    BadSchema::new("", format!("{writer} cannot be read: {bad}"))
}
