//! Protobuf decoder: values become rows of a column. It checks their frames, and treats bad values by the mode.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use monedula_columns::{BadValue, BufferPool, Lookup, RecordContext};

use super::error::{BadProtobuf, DecodeResult, ProtobufReason};
use super::framing::{Frame, Framed, MessageName, MessageNaming, unframed};
use super::options::ProtobufOptions;
use super::plan::{MessagePlan, plan};
use super::resolve;
use super::row::{Part, Row};
use super::schema::ProtobufSchema;
use super::wire::Cursor;
use crate::avro::{BadSchema, Framing, Unframed, WriterKey, bad};
use crate::column::{Column, Finishing, structs};
use crate::json::Mode;
use crate::nested::Structs;
use crate::source::{SchemaSource, WriterSchemaCache, unreadable};
use crate::typed::Appended;

/// Limit on the noted parts of a row whose memory is kept for the next row.
const MAX_KEPT_PARTS: usize = 4_096;

/// Limit on the frames known at a time: one message may be named in many ways, since varints may be longer than
/// necessary.
const MAX_KNOWN: usize = 10_000;

/// Plan by which values of a message become a column.
#[derive(Debug)]
pub struct ProtobufPlan {
    schema: ProtobufSchema,
    message: MessagePlan,
    data_type: DataType,
    framing: Framing,
    /// Writers' schemas that were given. If there are none, and no source, any schema is accepted.
    writers: BTreeMap<WriterKey, Arc<Writer>>,
    /// Source of the other writers' schemas.
    late: Option<WriterSchemaCache<ProtobufSchema, Writer>>,
    options: ProtobufOptions,
}

/// A writer's schema, rooted at the message of the same name as the column's.
#[derive(Debug)]
struct Writer(ProtobufSchema);

impl Writer {
    fn new(schema: ProtobufSchema, reader: &ProtobufSchema) -> Result<Self, BadSchema> {
        resolve::check(&schema, reader)?;
        Ok(Self(schema))
    }
}

impl ProtobufPlan {
    /// Makes the plan for a schema's message. Values are bare, or framed as by a registry's serializers. Fields are
    /// matched by number, so decoding does not need the writers' schemas. If some are given, values with other schema
    /// ids are refused or their schema is requested, and the schemas determine which of their messages a frame names.
    ///
    /// # Errors
    /// Schema that cannot be a column, or a writer's schema that encodes a field differently.
    pub fn new(
        schema: ProtobufSchema,
        writers: Vec<(WriterKey, ProtobufSchema)>,
        framing: Framing,
        options: ProtobufOptions,
    ) -> Result<Self, BadSchema> {
        let (message, data_type) = plan(&schema, &options)?;
        if framing == Framing::SingleObject {
            return Err(bad("", "this framing is read of Avro alone".to_owned()));
        }
        let mut given = BTreeMap::new();
        for (key, writer) in writers {
            let writer = Writer::new(writer, &schema).map_err(|bad| unreadable(key, &bad))?;
            let writer = Arc::new(writer);
            if let WriterKey::Apicurio(id) = key {
                // A given schema matches its id as a contentId and as a globalId.
                given.insert(WriterKey::GlobalId(id), Arc::clone(&writer));
            }
            given.insert(key, writer);
        }
        Ok(Self { schema, message, data_type, framing, writers: given, late: None, options })
    }

    /// Adds a source of the schemas that were not given. Each must declare a message of the same name as the column's.
    #[must_use]
    pub fn asking(self, source: Arc<dyn SchemaSource<ProtobufSchema>>) -> Self {
        Self { late: Some(WriterSchemaCache::new(source)), ..self }
    }

    /// The type of the column.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Writer's schema for a key, or why values of it are bad; `None` if any schema is accepted.
    fn writer(&self, key: WriterKey) -> Lookup<Result<Option<Arc<Writer>>, String>> {
        if let Some(writer) = self.writers.get(&key) {
            return Lookup::Ready(Ok(Some(Arc::clone(writer))));
        }
        match &self.late {
            Some(late) => late.ask(key, |schema| Writer::new(schema, &self.schema)).map(|writer| writer.map(Some)),
            None if self.writers.is_empty() => Lookup::Ready(Ok(None)),
            None => Lookup::Ready(Err(format!("no schema was given for {}", key.text().unwrap_or_default()))),
        }
    }

    /// Checks that the frame of a writer's value names the column's message.
    fn check(&self, frame: &Frame<'_>, writer: Option<&Writer>) -> Result<(), ProtobufReason> {
        let schema = writer.map_or(&self.schema, |Writer(schema)| schema);
        let found = frame.message_name()?;
        let is_ours = match &found {
            MessageName::Indexes(found) => {
                **found == *schema.indexes() || schema.indexes_without_maps().as_deref() == Some(&**found)
            }
            MessageName::Number(number) => {
                schema.sorted_by_name().get(*number as usize).is_some_and(|name| name == schema.message())
            }
            MessageName::Name(name) => schema.is_called(name),
        };
        if is_ours {
            return Ok(());
        }
        let (key, message) = (frame.key.text().unwrap_or_default(), self.schema.message());
        let place = if writer.is_some() { "its schema" } else { "the given schema" };
        let (what, name, ours) = match &found {
            MessageName::Indexes(found) => {
                let name = schema.named_by(found).map(ToOwned::to_owned);
                (format!("{found:?}"), name, format!(", which is {:?}", schema.indexes()))
            }
            MessageName::Number(number) => {
                let messages = schema.sorted_by_name();
                let own = messages.iter().position(|name| *name == schema.message()).unwrap_or_default();
                let name = messages.get(*number as usize).map(|name| name.to_string());
                (number.to_string(), name, format!(", which is {own}"))
            }
            MessageName::Name(name) => (name.to_string(), None, String::new()),
        };
        let named = name.map_or_else(String::new, |name| format!(", which in {place} is {name}"));
        let reason = format!("the frame of {key} names message {what}{named}; the column is of {message}{ours}").into();
        Err(match writer {
            Some(_) => ProtobufReason::OtherMessage(reason),
            None => ProtobufReason::MaybeOtherMessage(reason),
        })
    }
}

/// Result of [`ProtobufDecoder::append`]; a bad value's row is null.
pub type ProtobufAppended = Appended<ProtobufReason>;

/// Decodes Protobuf messages into the rows of a column.
pub struct ProtobufDecoder {
    plan: Arc<ProtobufPlan>,
    root: Structs,
    parts: Vec<Part>,
    /// Frames that were checked to name the column's message, ascending by schema and by the name of the message.
    known: Vec<(WriterKey, MessageNaming, Box<[u8]>)>,
    /// Index of the last value's frame: most are followed by one with the same frame.
    last: usize,
    /// Reason why the last value has no row, if that is not the value's own fault.
    missing: Option<Lookup<BadValue>>,
    pool: BufferPool,
}

impl ProtobufDecoder {
    /// A decoder with memory from this pool.
    pub fn new(plan: Arc<ProtobufPlan>, pool: BufferPool) -> Self {
        let fields = match &plan.data_type {
            DataType::Struct(fields) => fields.clone(),
            _ => unreachable!("a message is a struct"),
        };
        Self { root: structs(&fields, &pool), plan, parts: Vec::new(), known: Vec::new(), last: 0, missing: None, pool }
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
        self.root.rows() + self.root.children.iter().map(Column::bytes).sum::<usize>()
    }

    /// Appends rows of an array that a decoder of the same plan has finished.
    pub fn extend(&mut self, array: &dyn Array, rows: Range<usize>) {
        self.root.extend(array, rows);
    }

    /// Cuts the column back to `rows` rows.
    pub fn truncate(&mut self, rows: usize) {
        self.root.truncate(rows.min(self.root.rows()));
    }

    /// Finishes the rows as an array and returns the bytes of memory that it holds; leaves an empty column.
    pub fn finish(&mut self) -> (ArrayRef, usize) {
        let mut finishing = Finishing { pool: &self.pool, memory_bytes: 0 };
        let array = self.root.finish(&mut finishing);
        (Arc::new(array), finishing.memory_bytes)
    }

    /// Appends a value as a row; null without a value. Unwinds with [`OutOfMemory`](monedula_columns::OutOfMemory) if
    /// there is no memory for the columns.
    ///
    /// # Errors
    /// The fault of a bad value under [`Mode::FailFast`]; then no row is appended.
    pub fn append(&mut self, value: Option<&[u8]>) -> Result<ProtobufAppended, BadProtobuf> {
        self.append_framed(value, None)
    }

    /// Same as [`Self::append`], for a value whose frame may be in a header of its record, where Confluent's
    /// serializers can be configured to write it.
    ///
    /// # Errors
    /// Same as [`Self::append`].
    #[inline]
    pub fn append_framed(
        &mut self,
        value: Option<&[u8]>,
        header: Option<&[u8]>,
    ) -> Result<ProtobufAppended, BadProtobuf> {
        let frame = if self.plan.framing == Framing::Confluent { header.map(Frame::of_header) } else { None };
        self.append_named(value, frame)
    }

    /// Same as [`Self::append`], for a value whose frame may be, all or in part, in its record's headers.
    #[inline]
    pub(crate) fn append_beside(
        &mut self,
        value: Option<&[u8]>,
        beside: RecordContext<'_>,
    ) -> Result<ProtobufAppended, BadProtobuf> {
        match (self.plan.framing, value) {
            (Framing::Confluent, _) => self.append_framed(value, beside.schema_id()),
            (Framing::Apicurio, Some(framed)) => self.append_named(value, Some(Frame::of_apicurio(framed, beside))),
            _ => self.append_named(value, None),
        }
    }

    #[inline]
    fn append_named(
        &mut self,
        value: Option<&[u8]>,
        frame: Option<Framed<'_>>,
    ) -> Result<ProtobufAppended, BadProtobuf> {
        let Some(value) = value else {
            self.root.push_null();
            return Ok(ProtobufAppended::Good);
        };
        let row = self.root.rows();
        match self.decode(value, frame) {
            Ok(()) => Ok(ProtobufAppended::Good),
            Err(bad) => self.refuse(row, *bad, value),
        }
    }

    #[cold]
    fn refuse(&mut self, row: usize, mut bad: BadProtobuf, value: &[u8]) -> Result<ProtobufAppended, BadProtobuf> {
        self.root.truncate(row);
        bad.reason = match (bad.reason, self.confluent_id(value)) {
            (reason, Some(id)) => ProtobufReason::Framed(Box::new(reason), id),
            (
                ProtobufReason::NotFramed(why)
                | ProtobufReason::OtherMessage(why)
                | ProtobufReason::MaybeOtherMessage(why),
                None,
            ) if self.is_without_indexes(value) => {
                let reason = format!(
                    "{why}; read right behind the schema's id the message is whole, so its serializer wrote no indexes, as \
                     Confluent's do (00 for the first message of a file)"
                );
                ProtobufReason::NotFramed(reason.into())
            }
            (ProtobufReason::NotFramed(why), None) if !value.is_empty() && self.message(value, 0).is_ok() => {
                ProtobufReason::Bare(why)
            }
            (reason, None) => reason,
        };
        self.root.truncate(row);
        if self.plan.options.mode == Mode::FailFast || self.missing.is_some() {
            return Err(bad);
        }
        // Null instead of a struct of nulls, as in Spark's `from_protobuf`, unlike its `from_avro` and `from_json`.
        self.root.push_null();
        Ok(ProtobufAppended::Bad(bad))
    }

    /// Schema id of a frame of Confluent's, if a bare value begins with one and can be decoded behind it. Leaves a row
    /// if it decoded one.
    fn confluent_id(&mut self, value: &[u8]) -> Option<u32> {
        let Ok(Frame { key: WriterKey::Id(id), start, .. }) = Frame::of(value) else { return None };
        (self.plan.framing == Framing::Bare && self.message(value, start).is_ok()).then_some(id)
    }

    /// Returns true if the message directly follows the id in a frame of Confluent's, without indexes. Leaves a row if
    /// it decoded one.
    fn is_without_indexes(&mut self, value: &[u8]) -> bool {
        let Ok((_, at)) = Framing::Confluent.key(value) else { return false };
        // Numbers below 8 would be tags of field 0, which does not exist.
        let is_tag = value.get(at).is_some_and(|first| *first >= 8);
        self.plan.framing == Framing::Confluent && is_tag && self.message(value, at).is_ok()
    }

    /// Decodes a value, whose frame may have been found in the headers.
    #[inline]
    fn decode(&mut self, value: &[u8], frame: Option<Framed<'_>>) -> DecodeResult {
        let frame = match (self.plan.framing, frame) {
            (Framing::Bare | Framing::SingleObject, _) => return self.message(value, 0),
            (Framing::Glue, _) => return self.decode_glue(value),
            (_, Some(frame)) => frame,
            (Framing::Confluent, None) => Frame::of(value),
            (Framing::Apicurio, None) => Frame::of_apicurio(value, RecordContext::NOTHING),
        };
        self.decode_framed(value, &frame.map_err(|reason| BadProtobuf::new(reason, 0))?)
    }

    fn decode_glue(&mut self, value: &[u8]) -> DecodeResult {
        let framed = Framing::Glue.unframed(value, None, self.plan.options.max_row_bytes);
        let Unframed { key, bytes, start } = framed.map_err(|reason| BadProtobuf::new(unframed(reason), 0))?;
        let frame = Frame::of_glue(key, &bytes, start).map_err(|reason| BadProtobuf::new(reason, start))?;
        self.decode_framed(&bytes, &frame)
    }

    #[inline]
    fn decode_framed(&mut self, value: &[u8], frame: &Frame<'_>) -> DecodeResult {
        let named = (frame.key, frame.by, frame.named);
        if self.known.get(self.last).is_none_or(|(key, by, name)| (*key, *by, &**name) != named) {
            self.last = self.find(frame).map_err(|reason| BadProtobuf::new(reason, 0))?;
        }
        self.message(value, frame.start)
    }

    /// Index of a frame among the known ones; a new one is checked and added.
    #[cold]
    fn find(&mut self, frame: &Frame<'_>) -> Result<usize, ProtobufReason> {
        let named = (frame.key, frame.by, frame.named);
        let found = self.known.binary_search_by(|(key, by, name)| (*key, *by, &**name).cmp(&named));
        let Err(place) = found else { return Ok(found.unwrap_or_default()) };
        let writer = match self.plan.writer(frame.key) {
            Lookup::Ready(Ok(writer)) => writer,
            Lookup::Ready(Err(why)) => return Err(ProtobufReason::NoSchema(why.into())),
            Lookup::Pending(awaited) => {
                self.missing = Some(Lookup::Pending(awaited));
                return Err(ProtobufReason::NoSchema("its schema is being asked for".into()));
            }
            Lookup::Unavailable(why) => {
                let reason = ProtobufReason::NoSchema(why.as_str().into());
                self.missing = Some(Lookup::Unavailable(why));
                return Err(reason);
            }
        };
        self.plan.check(frame, writer.as_deref())?;
        if self.known.len() == MAX_KNOWN {
            self.known.clear();
            self.known.push((frame.key, frame.by, frame.named.into()));
            return Ok(0);
        }
        self.known.insert(place, (frame.key, frame.by, frame.named.into()));
        Ok(place)
    }

    /// Takes the reason why the last value has no row, if that is not the value's own fault.
    pub(crate) fn take_missing(&mut self) -> Option<Lookup<BadValue>> {
        self.missing.take()
    }

    #[inline]
    fn message(&mut self, value: &[u8], start: usize) -> DecodeResult {
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
