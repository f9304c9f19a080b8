//! The decoder: values in, a column out; which writer's schema a value is of, and what becomes of bad values.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use monedula_columns::{BufferPool, RecordContext, Undecoded};

use super::cursor::Cursor;
use super::error::{AvroReason, BadAvro, BadSchema, Decoded, Fault};
use super::framing::{Framing, Named, WriterKey};
use super::options::AvroOptions;
use super::plan::{Step, resolve};
use super::row::Row;
use super::schema::AvroSchema;
use super::shape::Shape;
use crate::column::{Column, Finishing};
use crate::json::Mode;
use crate::source::{Asked, SchemaSource, WriterSchemaCache, unreadable};

/// A writer's schema, and how its values are read.
#[derive(Debug)]
struct Writer {
    schema: AvroSchema,
    step: Step,
}

/// How values of any of the writers' schemas become one column, that of the reader's schema.
#[derive(Debug)]
pub struct AvroPlan {
    reader: AvroSchema,
    data_type: DataType,
    framing: Framing,
    /// Those that were given, by their keys, ascending.
    writers: Vec<(WriterKey, Arc<Writer>)>,
    /// Where other writers' schemas are asked for.
    late: Option<WriterSchemaCache<AvroSchema, Writer>>,
    shape: Shape,
    options: AvroOptions,
}

impl AvroPlan {
    /// The plan for a reader's schema and the writers', which the framing says how values name.
    ///
    /// # Errors
    /// A reader's schema that cannot be a column, or a writer's that cannot be read by it.
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
            // A schema that is given is meant by whichever id a value has.
            let by_global_id = planned.iter().filter_map(|(key, writer)| match key {
                WriterKey::Apicurio(id) => Some((WriterKey::GlobalId(*id), Arc::clone(writer))),
                _ => None,
            });
            planned.extend(by_global_id.collect::<Vec<_>>());
        }
        planned.sort_by_key(|(key, _)| *key);
        // Schemas that differ in logical types alone have one fingerprint: the first that was given is meant.
        planned.dedup_by_key(|(key, _)| *key);
        let data_type = shape.data_type(&reader);
        Ok(Self { data_type, reader, framing, writers: planned, late: None, shape, options })
    }

    /// The same, with a source of the schemas that were not given.
    #[must_use]
    pub fn asking(self, source: Arc<dyn SchemaSource<AvroSchema>>) -> Self {
        Self { late: Some(WriterSchemaCache::new(source)), ..self }
    }

    /// The writer's schema for a key that no given schema has; `None` if there is nobody to ask.
    fn ask(&self, key: WriterKey) -> Option<Asked<Arc<Writer>>> {
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

/// What [`AvroDecoder::append`] made of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AvroAppended {
    /// A row with all that the schema asks for.
    Good,
    /// A row of nulls: why.
    Bad(BadAvro),
}

/// Decodes Avro values into the rows of a column.
pub struct AvroDecoder {
    plan: Arc<AvroPlan>,
    root: Column,
    /// Those of the plan, and those that were asked for since, by their keys, ascending.
    writers: Vec<(WriterKey, Arc<Writer>)>,
    /// Why the last value has no row, if that is not its own fault.
    missing: Option<Undecoded>,
    /// The writer of the last value: most are followed by one of the same.
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

    /// Takes back the rows from `rows` on.
    pub fn truncate(&mut self, rows: usize) {
        self.root.truncate(rows);
    }

    /// Finishes the rows as an array, and how many bytes of memory it holds; starts anew.
    pub fn finish(&mut self) -> (ArrayRef, usize) {
        let mut finishing = Finishing { pool: &self.pool, memory_bytes: 0 };
        let array = self.root.finish(&mut finishing);
        (array, finishing.memory_bytes)
    }

    /// Appends a value as a row; without a value, the row is null. Unwinds with
    /// [`OutOfMemory`](monedula_columns::OutOfMemory) if there is no memory for the columns.
    ///
    /// # Errors
    /// With [`Mode::FailFast`], what is wrong with a bad value; there is no row then.
    pub fn append(&mut self, value: Option<&[u8]>) -> Result<AvroAppended, BadAvro> {
        self.append_framed(value, None)
    }

    /// As [`Self::append`], of a value whose schema may be named by a header of its record, as Confluent's serializers
    /// write it if they are told to.
    ///
    /// # Errors
    /// As [`Self::append`].
    #[inline]
    pub fn append_framed(&mut self, value: Option<&[u8]>, header: Option<&[u8]>) -> Result<AvroAppended, BadAvro> {
        let Some(value) = value else {
            self.root.push_null();
            return Ok(AvroAppended::Good);
        };
        self.append_named(value, header.map(Framing::key_of_header))
    }

    /// As [`Self::append`], of a value whose schema may be named by what is beside it in its record.
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
            Err(fault) => self.refuse(row, *fault, value),
        }
    }

    #[cold]
    fn refuse(&mut self, row: usize, fault: Fault, value: &[u8]) -> Result<AvroAppended, BadAvro> {
        self.root.truncate(row);
        let Fault { path, reason, position } = fault;
        let reason = match self.confluent_id(value) {
            Some(id) => AvroReason::Framed(Box::new(reason), id),
            None => reason,
        };
        self.root.truncate(row);
        let bad = BadAvro { path, reason, position };
        if self.plan.options.mode == Mode::FailFast || self.missing.is_some() {
            return Err(bad);
        }
        // A struct of nulls, as Spark has it; a tombstone alone is null.
        match &mut self.root {
            Column::Struct(structs) => structs.end_row(),
            other => other.push_null(),
        }
        Ok(AvroAppended::Bad(bad))
    }

    /// The id in a frame of Confluent's, if a bare value has one and can be read behind it. It may leave a row.
    fn confluent_id(&mut self, value: &[u8]) -> Option<u32> {
        let Ok((WriterKey::Id(id), start)) = Framing::Confluent.key(value) else { return None };
        let is_bare = self.plan.framing == Framing::Bare;
        (is_bare && self.decode_as(WriterKey::Only, value, start).is_ok()).then_some(id)
    }

    #[inline]
    fn decode(&mut self, value: &[u8], named: Option<Named>) -> Decoded {
        let framing = self.plan.framing;
        let named = named.unwrap_or_else(|| framing.key(value));
        let (key, start) = named.map_err(|reason| Fault::new(reason, 0))?;
        if framing == Framing::Glue
            && let Some(inflated) = framing.inflated(value, self.plan.options.max_row_bytes)
        {
            let inflated = inflated.map_err(|reason| Fault::new(reason, start))?;
            return self.decode_as(key, &inflated, 0);
        }
        self.decode_as(key, value, start)
    }

    #[inline]
    fn decode_as(&mut self, key: WriterKey, value: &[u8], start: usize) -> Decoded {
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

    /// The number of the writer with this key.
    fn find(&mut self, key: WriterKey) -> Decoded<usize> {
        let place = match self.writers.binary_search_by_key(&key, |(known, _)| *known) {
            Ok(found) => return Ok(found),
            Err(place) => place,
        };
        let reason = match self.plan.ask(key) {
            None => AvroReason::UnknownSchema(key.text().unwrap_or_default().into()),
            Some(Asked::Known(writer)) => {
                self.writers.insert(place, (key, writer));
                return Ok(place);
            }
            Some(Asked::Refused(why)) => AvroReason::NoSchema(why.into()),
            Some(Asked::Awaits(awaited)) => {
                self.missing = Some(Undecoded::Awaits(awaited));
                AvroReason::NoSchema("its schema is being asked for".into())
            }
            Some(Asked::Failed(why)) => {
                let reason = AvroReason::NoSchema(why.as_str().into());
                self.missing = Some(Undecoded::Lacks(why));
                reason
            }
        };
        Err(Fault::new(reason, 0))
    }

    /// Why the last value has no row, if that is not its own fault.
    pub(crate) fn take_missing(&mut self) -> Option<Undecoded> {
        self.missing.take()
    }
}
