//! The decoder: values in, a column out; what their frames must say, and what becomes of bad values.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use monedula_columns::BufferPool;

use super::error::{BadProtobuf, Decoded, Fault, ProtobufReason};
use super::framing::{Frame, numbers};
use super::options::ProtobufOptions;
use super::plan::{MessagePlan, plan};
use super::row::{Part, Row};
use super::schema::{ProtobufSchema, bad};
use super::wire::Cursor;
use crate::avro::{BadSchema, Framing, WriterKey};
use crate::column::{Column, Finishing, structs};
use crate::json::Mode;
use crate::nested::Structs;

/// For how many parts of a row room is kept for the next.
const MAX_KEPT_PARTS: usize = 4_096;

/// How the values of a message become a column.
#[derive(Debug)]
pub struct ProtobufPlan {
    schema: ProtobufSchema,
    message: MessagePlan,
    data_type: DataType,
    is_framed: bool,
    /// The numbers of the message, if any schema will do.
    indexes: Indexes,
    /// Those in each writer's schema. Empty if any schema will do.
    writers: BTreeMap<WriterKey, Indexes>,
    options: ProtobufOptions,
}

/// The numbers that a frame may have for the message.
#[derive(Debug)]
struct Indexes {
    all: Box<[u32]>,
    without_maps: Option<Box<[u32]>>,
}

impl Indexes {
    fn of(schema: &ProtobufSchema) -> Self {
        Self { all: schema.indexes().into(), without_maps: schema.indexes_without_maps() }
    }
}

impl ProtobufPlan {
    /// The plan for a schema's message. Values are bare or framed as Confluent's serializers do it. Fields are known by
    /// their numbers, so the writers' schemas are not needed; where they are given, other ids are refused, and they say
    /// what number the message has.
    ///
    /// # Errors
    /// A schema that cannot be a column, or a writer's that has not the message.
    pub fn new(
        schema: ProtobufSchema,
        writers: Vec<(WriterKey, ProtobufSchema)>,
        framing: Framing,
        options: ProtobufOptions,
    ) -> Result<Self, BadSchema> {
        let (message, data_type) = plan(&schema, &options)?;
        let is_framed = match framing {
            Framing::Bare => false,
            Framing::Confluent => true,
            Framing::SingleObject => return Err(bad("", "single-object encoding is of Avro alone".to_owned())),
        };
        let writers = writers.into_iter().map(|(key, writer)| (key, Indexes::of(&writer))).collect();
        Ok(Self { indexes: Indexes::of(&schema), schema, message, data_type, is_framed, writers, options })
    }

    /// The type of the column.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Whether the frame names the message of the column.
    fn check(&self, frame: &Frame<'_>) -> Result<(), ProtobufReason> {
        let wanted = match self.writers.get(&frame.key) {
            Some(indexes) => indexes,
            None if self.writers.is_empty() => &self.indexes,
            None => return Err(ProtobufReason::UnknownSchema(frame.key.text().unwrap_or_default().into())),
        };
        let found = numbers(frame.indexes);
        if *found == *wanted.all || wanted.without_maps.as_deref() == Some(&*found) {
            return Ok(());
        }
        let wanted = &wanted.all;
        let named = match self.schema.named_by(&found) {
            Some(name) if self.writers.is_empty() => format!(", which in the given schema is {name}"),
            _ => String::new(),
        };
        let message = self.schema.message();
        let reason = format!(
            "the frame of {} names message {found:?}{named}; the column is of {message}, which is {wanted:?}: give message= \
             another name, or schemas= with the schema of this id",
            frame.key.text().unwrap_or_default()
        );
        Err(ProtobufReason::OtherMessage(reason.into()))
    }
}

/// What [`ProtobufDecoder::append`] made of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProtobufAppended {
    /// A row with all that the schema asks for.
    Good,
    /// A row of nulls: why.
    Bad(BadProtobuf),
}

/// Decodes Protobuf messages into the rows of a column.
pub struct ProtobufDecoder {
    plan: Arc<ProtobufPlan>,
    root: Structs,
    parts: Vec<Part>,
    /// The frame that was last found to be of the message: its schema and indexes.
    last: Option<(WriterKey, Vec<u8>)>,
    pool: BufferPool,
}

impl ProtobufDecoder {
    /// A decoder with memory from this pool.
    pub fn new(plan: Arc<ProtobufPlan>, pool: BufferPool) -> Self {
        let fields = match &plan.data_type {
            DataType::Struct(fields) => fields.clone(),
            _ => unreachable!("a message is a struct"),
        };
        Self { root: structs(&fields, &pool), plan, parts: Vec::new(), last: None, pool }
    }

    /// The type of the column.
    pub fn data_type(&self) -> &DataType {
        &self.plan.data_type
    }

    pub(crate) fn is_framed(&self) -> bool {
        self.plan.is_framed
    }

    /// Number of rows so far.
    pub fn rows(&self) -> usize {
        self.root.rows()
    }

    /// Bytes of all rows so far in Arrow's layout, without the bits of nulls.
    pub fn bytes(&self) -> usize {
        self.root.rows() + self.root.children.iter().map(Column::bytes).sum::<usize>()
    }

    /// Takes back the rows from `rows` on.
    pub fn truncate(&mut self, rows: usize) {
        self.root.truncate(rows.min(self.root.rows()));
    }

    /// Finishes the rows as an array, and how many bytes of memory it holds; starts anew.
    pub fn finish(&mut self) -> (ArrayRef, usize) {
        let mut finishing = Finishing { pool: &self.pool, memory_bytes: 0 };
        let array = self.root.finish(&mut finishing);
        (Arc::new(array), finishing.memory_bytes)
    }

    /// Appends a value as a row; without a value, the row is null. Unwinds with
    /// [`OutOfMemory`](monedula_columns::OutOfMemory) if there is no memory for the columns.
    ///
    /// # Errors
    /// With [`Mode::FailFast`], what is wrong with a bad value; there is no row then.
    pub fn append(&mut self, value: Option<&[u8]>) -> Result<ProtobufAppended, BadProtobuf> {
        self.append_framed(value, None)
    }

    /// As [`Self::append`], of a value whose frame may be in a header of its record, as Confluent's serializers write it
    /// if they are told to.
    ///
    /// # Errors
    /// As [`Self::append`].
    #[inline]
    pub fn append_framed(
        &mut self,
        value: Option<&[u8]>,
        header: Option<&[u8]>,
    ) -> Result<ProtobufAppended, BadProtobuf> {
        let Some(value) = value else {
            self.root.push_null();
            return Ok(ProtobufAppended::Good);
        };
        let row = self.root.rows();
        match self.decode(value, header) {
            Ok(()) => Ok(ProtobufAppended::Good),
            Err(fault) => self.refuse(row, *fault, value),
        }
    }

    #[cold]
    fn refuse(&mut self, row: usize, fault: Fault, value: &[u8]) -> Result<ProtobufAppended, BadProtobuf> {
        self.root.truncate(row);
        let Fault { path, reason, position } = fault;
        let reason = match (reason, self.confluent_id(value)) {
            (reason, Some(id)) => ProtobufReason::Framed(Box::new(reason), id),
            (ProtobufReason::NotFramed(why), None) if !value.is_empty() && self.message(value, 0).is_ok() => {
                ProtobufReason::NotFramed(format!("{why}; it can be read without: give framing='bare'").into())
            }
            (reason, None) => reason,
        };
        self.root.truncate(row);
        let bad = BadProtobuf { path, reason, position };
        if self.plan.options.mode == Mode::FailFast {
            return Err(bad);
        }
        // A struct of nulls; a tombstone alone is null.
        self.root.end_row();
        Ok(ProtobufAppended::Bad(bad))
    }

    /// The id in a frame of Confluent's, if a bare value has one and can be read behind it. It may leave a row.
    fn confluent_id(&mut self, value: &[u8]) -> Option<u32> {
        let Ok(Frame { key: WriterKey::Id(id), start, .. }) = Frame::of(value) else { return None };
        (!self.plan.is_framed && self.message(value, start).is_ok()).then_some(id)
    }

    #[inline]
    fn decode(&mut self, value: &[u8], header: Option<&[u8]>) -> Decoded {
        if !self.plan.is_framed {
            return self.message(value, 0);
        }
        let frame = match header {
            None => Frame::of(value),
            Some(header) => Frame::of_header(header),
        };
        let frame = frame.map_err(|reason| Fault::new(reason, 0))?;
        if self.last.as_ref().is_none_or(|(key, indexes)| *key != frame.key || **indexes != *frame.indexes) {
            self.plan.check(&frame).map_err(|reason| Fault::new(reason, 0))?;
            self.last = Some((frame.key, frame.indexes.to_vec()));
        }
        self.message(value, frame.start)
    }

    #[inline]
    fn message(&mut self, value: &[u8], start: usize) -> Decoded {
        let Self { plan, root, parts, .. } = self;
        if parts.capacity() > MAX_KEPT_PARTS {
            *parts = Vec::new();
        }
        parts.clear();
        let max_row_bytes = plan.options.max_row_bytes;
        let mut row = Row { parts, bytes_left: max_row_bytes, max_row_bytes };
        row.message(&plan.message, root, &mut Cursor::new(value, start))
    }
}
