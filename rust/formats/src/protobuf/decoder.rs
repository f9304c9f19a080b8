//! The decoder: values in, a column out; what their frames must say, and what becomes of bad values.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use monedula_columns::{BufferPool, RecordContext, Undecoded};

use super::error::{BadProtobuf, Decoded, Fault, ProtobufReason};
use super::framing::{By, Found, Frame, Framed, unframed};
use super::options::ProtobufOptions;
use super::plan::{MessagePlan, plan};
use super::resolve;
use super::row::{Part, Row};
use super::schema::{ProtobufSchema, bad};
use super::wire::Cursor;
use crate::avro::{BadSchema, Framing, Unframed, WriterKey};
use crate::column::{Column, Finishing, structs};
use crate::json::Mode;
use crate::nested::Structs;
use crate::source::{Asked, SchemaSource, WriterSchemaCache, unreadable};

/// For how many parts of a row room is kept for the next.
const MAX_KEPT_PARTS: usize = 4_096;

/// How many frames are known at a time: one message may be named in many ways, with longer numbers than are needed.
const MAX_KNOWN: usize = 10_000;

/// How the values of a message become a column.
#[derive(Debug)]
pub struct ProtobufPlan {
    schema: ProtobufSchema,
    message: MessagePlan,
    data_type: DataType,
    framing: Framing,
    /// Those that were given. If there are none, and nobody to ask, any schema will do.
    writers: BTreeMap<WriterKey, Arc<Writer>>,
    /// Where other writers' schemas are asked for.
    late: Option<WriterSchemaCache<ProtobufSchema, Writer>>,
    options: ProtobufOptions,
}

/// A writer's schema, whose message is that of the column's name.
#[derive(Debug)]
struct Writer(ProtobufSchema);

impl Writer {
    fn new(schema: ProtobufSchema, reader: &ProtobufSchema) -> Result<Self, BadSchema> {
        resolve::check(&schema, reader)?;
        Ok(Self(schema))
    }
}

impl ProtobufPlan {
    /// The plan for a schema's message. Values are bare, or framed as the serializers of a registry do it. Fields are known by
    /// their numbers, so the writers' schemas are not needed; where they are given, other ids are refused or asked for,
    /// and they say which of its messages is meant.
    ///
    /// # Errors
    /// A schema that cannot be a column, or a writer's whose fields are written in another way.
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
                // A schema that is given is meant by whichever id a value has.
                given.insert(WriterKey::GlobalId(id), Arc::clone(&writer));
            }
            given.insert(key, writer);
        }
        Ok(Self { schema, message, data_type, framing, writers: given, late: None, options })
    }

    /// The same, with a source of the schemas that were not given. The message of each is to be that of the column's name.
    #[must_use]
    pub fn asking(self, source: Arc<dyn SchemaSource<ProtobufSchema>>) -> Self {
        Self { late: Some(WriterSchemaCache::new(source)), ..self }
    }

    /// The type of the column.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// The writer's schema for a key; `None` if any schema will do.
    fn writer(&self, key: WriterKey) -> Asked<Option<Arc<Writer>>> {
        if let Some(writer) = self.writers.get(&key) {
            return Asked::Known(Some(Arc::clone(writer)));
        }
        match &self.late {
            Some(late) => match late.ask(key, |schema| Writer::new(schema, &self.schema)) {
                Asked::Known(writer) => Asked::Known(Some(writer)),
                Asked::Awaits(awaited) => Asked::Awaits(awaited),
                Asked::Refused(why) => Asked::Refused(why),
                Asked::Failed(why) => Asked::Failed(why),
            },
            None if self.writers.is_empty() => Asked::Known(None),
            None => Asked::Refused(format!("no schema was given for {}", key.text().unwrap_or_default())),
        }
    }

    /// Whether the frame of a writer's value names the message of the column.
    fn check(&self, frame: &Frame<'_>, writer: Option<&Writer>) -> Result<(), ProtobufReason> {
        let schema = writer.map_or(&self.schema, |Writer(schema)| schema);
        let found = frame.found()?;
        let is_ours = match &found {
            Found::Indexes(found) => {
                **found == *schema.indexes() || schema.indexes_without_maps().as_deref() == Some(&**found)
            }
            Found::Number(number) => {
                schema.sorted_by_name().get(*number as usize).is_some_and(|name| name == schema.message())
            }
            Found::Name(name) => schema.is_called(name),
        };
        if is_ours {
            return Ok(());
        }
        let (key, message) = (frame.key.text().unwrap_or_default(), self.schema.message());
        let place = if writer.is_some() { "its schema" } else { "the given schema" };
        let (what, name, ours) = match &found {
            Found::Indexes(found) => {
                let name = schema.named_by(found).map(ToOwned::to_owned);
                (format!("{found:?}"), name, format!(", which is {:?}", schema.indexes()))
            }
            Found::Number(number) => {
                let messages = schema.sorted_by_name();
                let own = messages.iter().position(|name| *name == schema.message()).unwrap_or_default();
                let name = messages.get(*number as usize).map(|name| name.to_string());
                (number.to_string(), name, format!(", which is {own}"))
            }
            Found::Name(name) => (name.to_string(), None, String::new()),
        };
        let named = name.map_or_else(String::new, |name| format!(", which in {place} is {name}"));
        let reason = format!("the frame of {key} names message {what}{named}; the column is of {message}{ours}").into();
        Err(match writer {
            Some(_) => ProtobufReason::OtherMessage(reason),
            None => ProtobufReason::MaybeOtherMessage(reason),
        })
    }
}

/// What [`ProtobufDecoder::append`] made of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProtobufAppended {
    /// A row with all that the schema asks for.
    Good,
    /// A row that is null: why.
    Bad(BadProtobuf),
}

/// Decodes Protobuf messages into the rows of a column.
pub struct ProtobufDecoder {
    plan: Arc<ProtobufPlan>,
    root: Structs,
    parts: Vec<Part>,
    /// The frames that were found to be of the message, ascending: their schemas, and what names the message.
    known: Vec<(WriterKey, By, Box<[u8]>)>,
    /// The frame of the last value: most are followed by one of the same.
    last: usize,
    /// Why the last value has no row, if that is not its own fault.
    missing: Option<Undecoded>,
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
        let frame = if self.plan.framing == Framing::Confluent { header.map(Frame::of_header) } else { None };
        self.append_named(value, frame)
    }

    /// As [`Self::append`], of a value whose frame may be, all or in part, beside it in its record.
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
            Err(fault) => self.refuse(row, *fault, value),
        }
    }

    #[cold]
    fn refuse(&mut self, row: usize, fault: Fault, value: &[u8]) -> Result<ProtobufAppended, BadProtobuf> {
        self.root.truncate(row);
        let Fault { path, reason, position } = fault;
        let reason = match (reason, self.confluent_id(value)) {
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
        let bad = BadProtobuf { path, reason, position };
        if self.plan.options.mode == Mode::FailFast || self.missing.is_some() {
            return Err(bad);
        }
        // As Spark's `from_protobuf` has it, unlike its `from_avro` and `from_json`.
        self.root.push_null();
        Ok(ProtobufAppended::Bad(bad))
    }

    /// The id in a frame of Confluent's, if a bare value has one and can be read behind it. It may leave a row.
    fn confluent_id(&mut self, value: &[u8]) -> Option<u32> {
        let Ok(Frame { key: WriterKey::Id(id), start, .. }) = Frame::of(value) else { return None };
        (self.plan.framing == Framing::Bare && self.message(value, start).is_ok()).then_some(id)
    }

    /// Whether the message follows the id in a frame of Confluent's at once. It may leave a row.
    fn is_without_indexes(&mut self, value: &[u8]) -> bool {
        let Ok((_, at)) = Framing::Confluent.key(value) else { return false };
        // Below 8 there is no tag.
        let is_tag = value.get(at).is_some_and(|first| *first >= 8);
        self.plan.framing == Framing::Confluent && is_tag && self.message(value, at).is_ok()
    }

    /// A value, of which the frame may be known already.
    #[inline]
    fn decode(&mut self, value: &[u8], frame: Option<Framed<'_>>) -> Decoded {
        let frame = match (self.plan.framing, frame) {
            (Framing::Bare | Framing::SingleObject, _) => return self.message(value, 0),
            (Framing::Glue, _) => return self.decode_glue(value),
            (_, Some(frame)) => frame,
            (Framing::Confluent, None) => Frame::of(value),
            (Framing::Apicurio, None) => Frame::of_apicurio(value, RecordContext::NOTHING),
        };
        self.decode_framed(value, &frame.map_err(|reason| Fault::new(reason, 0))?)
    }

    fn decode_glue(&mut self, value: &[u8]) -> Decoded {
        let framed = Framing::Glue.unframed(value, None, self.plan.options.max_row_bytes);
        let Unframed { key, bytes, start } = framed.map_err(|reason| Fault::new(unframed(reason), 0))?;
        let frame = Frame::of_glue(key, &bytes, start).map_err(|reason| Fault::new(reason, start))?;
        self.decode_framed(&bytes, &frame)
    }

    #[inline]
    fn decode_framed(&mut self, value: &[u8], frame: &Frame<'_>) -> Decoded {
        let named = (frame.key, frame.by, frame.named);
        if self.known.get(self.last).is_none_or(|(key, by, name)| (*key, *by, &**name) != named) {
            self.last = self.find(frame).map_err(|reason| Fault::new(reason, 0))?;
        }
        self.message(value, frame.start)
    }

    /// Where a frame is among the known ones, after a check if it is new.
    #[cold]
    fn find(&mut self, frame: &Frame<'_>) -> Result<usize, ProtobufReason> {
        let named = (frame.key, frame.by, frame.named);
        let found = self.known.binary_search_by(|(key, by, name)| (*key, *by, &**name).cmp(&named));
        let Err(place) = found else { return Ok(found.unwrap_or_default()) };
        let writer = match self.plan.writer(frame.key) {
            Asked::Known(writer) => writer,
            Asked::Refused(why) => return Err(ProtobufReason::NoSchema(why.into())),
            Asked::Awaits(awaited) => {
                self.missing = Some(Undecoded::Awaits(awaited));
                return Err(ProtobufReason::NoSchema("its schema is being asked for".into()));
            }
            Asked::Failed(why) => {
                let reason = ProtobufReason::NoSchema(why.as_str().into());
                self.missing = Some(Undecoded::Lacks(why));
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

    /// Why the last value has no row, if that is not its own fault.
    pub(crate) fn take_missing(&mut self) -> Option<Undecoded> {
        self.missing.take()
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
