//! Writers' schemas that are requested while values are decoded.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use monedula_columns::Lookup;

use crate::avro::{BadSchema, WriterKey};

/// Answer without a usable schema: the values that need it are bad.
#[derive(Debug)]
pub enum NoSchema {
    /// No schema under this key, and why; one may be registered later.
    Missing(String),
    /// Invalid schema.
    Unreadable(BadSchema),
}

/// Source of schemas, such as a registry. It never blocks.
pub trait SchemaSource<S>: fmt::Debug + Send + Sync {
    /// Requests the schema with this key.
    fn ask(&self, key: WriterKey) -> Lookup<Result<S, NoSchema>>;
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

    /// Returns the writer with this key, or why values of it are bad; `plan` makes the writer of its schema.
    pub(crate) fn ask(
        &self,
        key: WriterKey,
        plan: impl FnOnce(S) -> Result<W, BadSchema>,
    ) -> Lookup<Result<Arc<W>, String>> {
        let mut planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = planned.get(&key) {
            return Lookup::Ready(writer.clone());
        }
        self.source.ask(key).map(|answer| {
            let writer = match answer {
                Ok(schema) => plan(schema),
                Err(NoSchema::Unreadable(bad)) => Err(bad),
                Err(NoSchema::Missing(why)) => return Err(why),
            };
            let writer = writer.map(Arc::new).map_err(|bad| unreadable(key, &bad).reason);
            planned.insert(key, writer.clone());
            writer
        })
    }
}

/// Error of a writer's schema that cannot be read, with its key.
pub(crate) fn unreadable(key: WriterKey, bad: &BadSchema) -> BadSchema {
    let writer = key.text().map_or_else(|| "the writer's schema".to_owned(), |id| format!("the schema of {id}"));
    BadSchema::new("", format!("{writer} cannot be read: {bad}"))
}
