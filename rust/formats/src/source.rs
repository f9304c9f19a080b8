//! Writers' schemas that are asked for while values are decoded.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use monedula_columns::Awaited;

use crate::avro::{BadSchema, WriterKey};

/// What asking for something brought.
#[derive(Debug)]
pub enum Asked<T> {
    /// It is there.
    Known(T),
    /// It is on its way.
    Awaits(Arc<Awaited>),
    /// There is none that the values could be decoded with, so they are bad: why.
    Refused(String),
    /// It cannot be had, which is not the fault of the values: why.
    Failed(String),
}

/// Where schemas are asked for. It never blocks.
pub trait SchemaSource<S>: fmt::Debug + Send + Sync {
    /// The schema with this key, or why what is there is no schema.
    fn ask(&self, key: WriterKey) -> Asked<Result<S, BadSchema>>;
}

/// The writers that were asked for, shared by all decoders of a plan: of each what its schema has become.
#[derive(Debug)]
pub(crate) struct WriterSchemaCache<S, W> {
    source: Arc<dyn SchemaSource<S>>,
    /// What became of each schema: its writer, or why it is none, or none that the reader's schema can read.
    planned: Mutex<BTreeMap<WriterKey, Result<Arc<W>, String>>>,
}

impl<S, W> WriterSchemaCache<S, W> {
    pub(crate) fn new(source: Arc<dyn SchemaSource<S>>) -> Self {
        Self { source, planned: Mutex::default() }
    }

    /// The writer with this key. `plan` makes one of its schema.
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

/// That a writer's schema cannot be read, with its key.
pub(crate) fn unreadable(key: WriterKey, bad: &BadSchema) -> BadSchema {
    let writer = key.text().map_or_else(|| "the writer's schema".to_owned(), |id| format!("the schema of {id}"));
    BadSchema::new("", format!("{writer} cannot be read: {bad}"))
}
