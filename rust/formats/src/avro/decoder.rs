//! Avro decoder: values become rows of a column. It finds the writer's schema of each value, and treats bad values by
//! the mode.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use monedula_columns::{BadValue, BufferPool, Lookup, RecordContext};

use super::cursor::Cursor;
use super::error::{AvroReason, BadAvro, BadSchema, DecodeResult};
use super::framing::{Framing, Named, WriterKey};
use super::options::AvroOptions;
use super::plan::{Step, resolve};
use super::row::Row;
use super::schema::AvroSchema;
use super::shape::Shape;
use crate::column::{Column, Finishing};
use crate::json::Mode;
use crate::source::{SchemaSource, WriterSchemaCache, unreadable};
use crate::typed::Appended;

#[derive(Debug)]
struct Writer {
    schema: AvroSchema,
    step: Step,
}

/// Plan by which values of any of the writers' schemas become one column, that of the reader's schema.
#[derive(Debug)]
pub struct AvroPlan {
    reader: AvroSchema,
    data_type: DataType,
    framing: Framing,
    /// Writers' schemas that were given, ascending by key.
    writers: Vec<(WriterKey, Arc<Writer>)>,
    /// Source of the other writers' schemas.
    late: Option<WriterSchemaCache<AvroSchema, Writer>>,
    shape: Shape,
    options: AvroOptions,
}

impl AvroPlan {
    /// Makes the plan for a reader's schema and writers' schemas, which values name by the framing.
    ///
    /// # Errors
    /// Reader's schema that cannot be a column, or a writer's schema that it cannot resolve.
    pub fn new(
        reader: AvroSchema,
        writers: Vec<(WriterKey, AvroSchema)>,
        framing: Framing,
        options: AvroOptions,
    ) -> Result<Self, BadSchema> {
        let shape = Shape::of(&reader, &options)?;
        let mut planned = Vec::new();
        for (key, schema) in writers {
            let step = resolve(&schema, &reader, &shape, framing == Framing::Confluent)
                .map_err(|bad| unreadable(key, &bad))?;
            planned.push((key, Arc::new(Writer { schema, step })));
        }
        if framing == Framing::Apicurio {
            // A given schema matches its id as a contentId and as a globalId.
            let by_global_id = planned.iter().filter_map(|(key, writer)| match key {
                WriterKey::Apicurio(id) => Some((WriterKey::GlobalId(*id), Arc::clone(writer))),
                _ => None,
            });
            planned.extend(by_global_id.collect::<Vec<_>>());
        }
        planned.sort_by_key(|(key, _)| *key);
        // Schemas that differ only in logical types share a fingerprint: the first one given is used.
        planned.dedup_by_key(|(key, _)| *key);
        let data_type = shape.data_type(&reader);
        Ok(Self { data_type, reader, framing, writers: planned, late: None, shape, options })
    }

    /// Adds a source of the schemas that were not given.
    #[must_use]
    pub fn asking(self, source: Arc<dyn SchemaSource<AvroSchema>>) -> Self {
        Self { late: Some(WriterSchemaCache::new(source)), ..self }
    }

    /// Requests the writer's schema for a key that no given schema has; `None` without a source.
    fn ask(&self, key: WriterKey) -> Option<Lookup<Result<Arc<Writer>, String>>> {
        let asked = self.late.as_ref()?.ask(key, |schema| {
            let step = resolve(&schema, &self.reader, &self.shape, self.framing == Framing::Confluent)?;
            Ok(Writer { schema, step })
        });
        Some(asked)
    }

    /// The type of the column.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }
}

/// Result of [`AvroDecoder::append`]; a bad value's row is one of nulls.
pub type AvroAppended = Appended<AvroReason>;

/// Decodes Avro values into the rows of a column.
pub struct AvroDecoder {
    plan: Arc<AvroPlan>,
    root: Column,
    /// Writers of the plan, and those requested since, ascending by key.
    writers: Vec<(WriterKey, Arc<Writer>)>,
    /// Reason why the last value has no row, if that is not the value's own fault.
    missing: Option<Lookup<BadValue>>,
    /// Index of the last value's writer: most values are followed by one with the same writer.
    last: usize,
    pool: BufferPool,
}

impl AvroDecoder {
    /// A decoder with memory from this pool.
    pub fn new(plan: Arc<AvroPlan>, pool: BufferPool) -> Self {
        let (root, writers) = (Column::new(&plan.data_type, &pool), plan.writers.clone());
        Self { root, writers, missing: None, plan, last: 0, pool }
    }

    /// The type of the column.
    pub fn data_type(&self) -> &DataType {
        &self.plan.data_type
    }

    /// Number of rows so far.
    pub fn rows(&self) -> usize {
        self.root.rows()
    }

    /// Bytes of all rows so far in Arrow's layout, without the bits of nulls.
    pub fn bytes(&self) -> usize {
        self.root.bytes()
    }

    /// Appends rows of an array that a decoder of the same plan has finished.
    pub fn extend(&mut self, array: &dyn Array, rows: Range<usize>) {
        self.root.extend(array, rows);
    }

    /// Cuts the column back to `rows` rows.
    pub fn truncate(&mut self, rows: usize) {
        self.root.truncate(rows);
    }

    /// Finishes the rows as an array and returns the bytes of memory that it holds; leaves an empty column.
    pub fn finish(&mut self) -> (ArrayRef, usize) {
        let mut finishing = Finishing { pool: &self.pool, memory_bytes: 0 };
        let array = self.root.finish(&mut finishing);
        (array, finishing.memory_bytes)
    }

    /// Appends a value as a row; null without a value. Unwinds with [`OutOfMemory`](monedula_columns::OutOfMemory) if
    /// there is no memory for the columns.
    ///
    /// # Errors
    /// The fault of a bad value under [`Mode::FailFast`]; then no row is appended.
    pub fn append(&mut self, value: Option<&[u8]>) -> Result<AvroAppended, BadAvro> {
        self.append_framed(value, None)
    }

    /// Same as [`Self::append`], for a value whose schema may be named in a header of its record, where Confluent's
    /// serializers can be configured to write it.
    ///
    /// # Errors
    /// Same as [`Self::append`].
    #[inline]
    pub fn append_framed(&mut self, value: Option<&[u8]>, header: Option<&[u8]>) -> Result<AvroAppended, BadAvro> {
        let Some(value) = value else {
            self.root.push_null();
            return Ok(AvroAppended::Good);
        };
        self.append_named(value, header.map(Framing::key_of_header))
    }

    /// Same as [`Self::append`], for a value whose schema may be named by its record's headers.
    #[inline]
    pub(crate) fn append_beside(
        &mut self,
        value: Option<&[u8]>,
        beside: RecordContext<'_>,
    ) -> Result<AvroAppended, BadAvro> {
        match (self.plan.framing, value) {
            (Framing::Confluent, _) => self.append_framed(value, beside.schema_id()),
            (Framing::Apicurio, Some(value)) => self.append_named(value, Framing::key_of_apicurios_avro(beside)),
            _ => self.append_framed(value, None),
        }
    }

    #[inline]
    fn append_named(&mut self, value: &[u8], named: Option<Named>) -> Result<AvroAppended, BadAvro> {
        let row = self.root.rows();
        match self.decode(value, named) {
            Ok(()) => Ok(AvroAppended::Good),
            Err(bad) => self.refuse(row, *bad, value),
        }
    }

    #[cold]
    fn refuse(&mut self, row: usize, mut bad: BadAvro, value: &[u8]) -> Result<AvroAppended, BadAvro> {
        self.root.truncate(row);
        if let Some(id) = self.confluent_id(value) {
            bad.reason = AvroReason::Framed(Box::new(bad.reason), id);
        }
        self.root.truncate(row);
        if self.plan.options.mode == Mode::FailFast || self.missing.is_some() {
            return Err(bad);
        }
        // Struct of nulls, as in Spark; only a tombstone is a null struct.
        match &mut self.root {
            Column::Struct(structs) => structs.end_row(),
            other => other.push_null(),
        }
        Ok(AvroAppended::Bad(bad))
    }

    /// Schema id of a frame of Confluent's, if a bare value begins with one and can be decoded behind it. Leaves a row
    /// if it decoded one.
    fn confluent_id(&mut self, value: &[u8]) -> Option<u32> {
        let Ok((WriterKey::Id(id), start)) = Framing::Confluent.key(value) else { return None };
        let is_bare = self.plan.framing == Framing::Bare;
        (is_bare && self.decode_as(WriterKey::Only, value, start).is_ok()).then_some(id)
    }

    #[inline]
    fn decode(&mut self, value: &[u8], named: Option<Named>) -> DecodeResult {
        let framing = self.plan.framing;
        let named = named.unwrap_or_else(|| framing.key(value));
        let (key, start) = named.map_err(|reason| BadAvro::new(reason, 0))?;
        if framing == Framing::Glue
            && let Some(inflated) = framing.inflated(value, self.plan.options.max_row_bytes)
        {
            let inflated = inflated.map_err(|reason| BadAvro::new(reason, start))?;
            return self.decode_as(key, &inflated, 0);
        }
        self.decode_as(key, value, start)
    }

    #[inline]
    fn decode_as(&mut self, key: WriterKey, value: &[u8], start: usize) -> DecodeResult {
        if self.writers.get(self.last).is_none_or(|(known, _)| *known != key) {
            self.last = self.find(key)?;
        }
        let Self { plan, root, last, writers, .. } = self;
        let Some((_, writer)) = writers.get(*last) else { return Ok(()) };
        let max_row_bytes = plan.options.max_row_bytes;
        let mut row = Row { writer: &writer.schema, reader: &plan.reader, bytes_left: max_row_bytes, max_row_bytes };
        let mut cursor = Cursor::new(value, start);
        row.value(&writer.step, root, &mut cursor)?;
        match cursor.left() {
            0 => Ok(()),
            left => Err(cursor.fault(AvroReason::TrailingBytes(left))),
        }
    }

    fn find(&mut self, key: WriterKey) -> DecodeResult<usize> {
        let place = match self.writers.binary_search_by_key(&key, |(known, _)| *known) {
            Ok(found) => return Ok(found),
            Err(place) => place,
        };
        let reason = match self.plan.ask(key) {
            None => AvroReason::UnknownSchema(key.text().unwrap_or_default().into()),
            Some(Lookup::Ready(Ok(writer))) => {
                self.writers.insert(place, (key, writer));
                return Ok(place);
            }
            Some(Lookup::Ready(Err(why))) => AvroReason::NoSchema(why.into()),
            Some(Lookup::Pending(awaited)) => {
                self.missing = Some(Lookup::Pending(awaited));
                AvroReason::NoSchema("its schema is being asked for".into())
            }
            Some(Lookup::Unavailable(why)) => {
                let reason = AvroReason::NoSchema(why.as_str().into());
                self.missing = Some(Lookup::Unavailable(why));
                reason
            }
        };
        Err(BadAvro::new(reason, 0))
    }

    /// Takes the reason why the last value has no row, if that is not the value's own fault.
    pub(crate) fn take_missing(&mut self) -> Option<Lookup<BadValue>> {
        self.missing.take()
    }
}
