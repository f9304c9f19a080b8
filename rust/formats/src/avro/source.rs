//! Writers' schemas that are asked for while values are decoded.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use monedula_columns::Awaited;

use super::error::{AvroReason, BadSchema};
use super::framing::WriterKey;
use super::plan::Step;
use super::schema::AvroSchema;

/// What asking for something brought.
#[derive(Debug)]
pub enum Asked<T> {
    /// It is there.
    Known(T),
    /// It is on its way.
    Awaits(Arc<Awaited>),
    /// There is none that the values could be decoded with: they are bad.
    Refused(AvroReason),
    /// It cannot be had, which is not the fault of the values: why.
    Failed(String),
}

/// Where schemas are asked for. It never blocks.
pub trait SchemaSource: fmt::Debug + Send + Sync {
    /// The schema with this key, or why what is there is no schema.
    fn ask(&self, key: WriterKey) -> Asked<Result<AvroSchema, BadSchema>>;
}

/// A writer's schema, and how its values are read.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) schema: AvroSchema,
    pub(crate) step: Step,
}

/// The writers that were asked for, shared by all decoders of a plan.
#[derive(Debug)]
pub(crate) struct LateWriters {
    source: Arc<dyn SchemaSource>,
    /// What became of each schema: its writer, or why it is none, or none that the reader's schema can read.
    planned: Mutex<BTreeMap<WriterKey, Result<Arc<Writer>, String>>>,
}

impl LateWriters {
    pub(crate) fn new(source: Arc<dyn SchemaSource>) -> Self {
        Self { source, planned: Mutex::default() }
    }

    /// The writer with this key. `plan` makes one of its schema.
    pub(crate) fn ask(
        &self,
        key: WriterKey,
        plan: impl FnOnce(AvroSchema) -> Result<Writer, BadSchema>,
    ) -> Asked<Arc<Writer>> {
        let mut planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Vacant(place) = planned.entry(key) {
            let schema = match self.source.ask(key) {
                Asked::Known(schema) => schema,
                Asked::Awaits(awaited) => return Asked::Awaits(awaited),
                Asked::Refused(reason) => return Asked::Refused(reason),
                Asked::Failed(why) => return Asked::Failed(why),
            };
            place.insert(schema.and_then(plan).map(Arc::new).map_err(|bad| bad.to_string()));
        }
        match planned.get(&key) {
            Some(Ok(writer)) => Asked::Known(Arc::clone(writer)),
            Some(Err(bad)) => {
                let id = key.text().unwrap_or_default();
                Asked::Refused(AvroReason::NoSchema(format!("the schema of {id} cannot be read: {bad}").into()))
            }
            None => Asked::Failed("the schema was lost".into()),
        }
    }
}
