//! Frames before messages: the schema's id or GUID, and which of the schema's messages follows.

use monedula_columns::{RecordContext, text_of};

use super::error::{DecodeResult, ProtobufReason};
use super::wire::{BYTES, Cursor};
use crate::avro::{AvroReason, Framing, WriterKey};

/// Limit on the nesting of message declarations.
const MAX_INDEXES: i64 = 64;

const NO_INDEXES: &str =
    "the indexes of the message do not follow the schema's id: a count and so many numbers in zigzag";
const DEPRECATED: &str = "the indexes of the message are in the deprecated format, without zigzag, which old serializers \
                          wrote for Python; write with use.deprecated.format=False";
const NO_NUMBER: &str = "the number of the message does not follow the UUID of the schema's version";
const NO_REF: &str = "the name of the message does not follow the schema's id, as Apicurio's serializers write it";

/// Ways in which a frame names its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MessageNaming {
    /// Confluent's: its index in the file, preceded by the indexes of the messages that enclose its declaration, and by
    /// their count.
    Indexes,
    /// AWS Glue's: its index among all messages of the file, sorted by full name.
    Number,
    /// Apicurio's: a message whose field 1 is the name, without the package and the enclosing messages.
    Ref,
    /// Apicurio's header with the same name.
    Name,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'v> {
    pub(crate) key: WriterKey,
    pub(crate) by: MessageNaming,
    /// Name of the message, in the frame's own encoding.
    pub(crate) named: &'v [u8],
    pub(crate) start: usize,
}

pub(crate) type Framed<'v> = Result<Frame<'v>, ProtobufReason>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MessageName {
    Indexes(Vec<u32>),
    Number(u64),
    Name(Box<str>),
}

impl<'v> Frame<'v> {
    /// Reads Confluent's frame before a value.
    #[inline]
    pub(crate) fn of(value: &'v [u8]) -> Framed<'v> {
        let (key, at) = Framing::Confluent.key(value).map_err(unframed)?;
        if value.get(at) == Some(&0) {
            return Ok(Self { key, by: MessageNaming::Indexes, named: &[0], start: at + 1 });
        }
        let mut cursor = Cursor::new(value, at);
        read(&mut cursor, |_| {})?;
        let named = value.get(at..cursor.at).unwrap_or_default();
        Ok(Self { key, by: MessageNaming::Indexes, named, start: cursor.at })
    }

    /// Reads Confluent's frame from a header; the value has no frame then.
    #[cold]
    pub(crate) fn of_header(header: &'v [u8]) -> Framed<'v> {
        match Self::of(header)? {
            frame if frame.start == header.len() => Ok(Self { start: 0, ..frame }),
            _ => Err(ProtobufReason::NotFramed(NO_INDEXES.into())),
        }
    }

    /// Reads Apicurio's frame before a value. The id, the name or both may be in headers.
    #[inline]
    pub(crate) fn of_apicurio(value: &'v [u8], beside: RecordContext<'v>) -> Framed<'v> {
        let named = Framing::key_of_apicurio(beside);
        let name = named.as_ref().and_then(|_| beside.header("apicurio.protobuf.type.key", "apicurio.protobuf.type"));
        let (key, at) = named.unwrap_or_else(|| Framing::Apicurio.key(value)).map_err(unframed)?;
        if let Some(named) = name {
            return Ok(Self { key, by: MessageNaming::Name, named, start: at });
        }
        let mut cursor = Cursor::new(value, at);
        let named = cursor.take().map_err(|_| ProtobufReason::NotFramed(NO_REF.into()))?;
        Ok(Self { key, by: MessageNaming::Ref, named, start: cursor.at })
    }

    /// Reads AWS Glue's frame, whose message index is decompressed together with the message.
    #[inline]
    pub(crate) fn of_glue(key: WriterKey, unframed: &'v [u8], at: usize) -> Framed<'v> {
        let mut cursor = Cursor::new(unframed, at);
        cursor.varint().map_err(|_| ProtobufReason::NotFramed(NO_NUMBER.into()))?;
        let named = unframed.get(at..cursor.at).unwrap_or_default();
        Ok(Self { key, by: MessageNaming::Number, named, start: cursor.at })
    }

    #[cold]
    pub(crate) fn message_name(&self) -> Result<MessageName, ProtobufReason> {
        let mut cursor = Cursor::new(self.named, 0);
        match self.by {
            MessageNaming::Indexes => Ok(MessageName::Indexes(numbers(self.named))),
            MessageNaming::Number => {
                cursor.varint().map(MessageName::Number).map_err(|_| ProtobufReason::NotFramed(NO_NUMBER.into()))
            }
            MessageNaming::Name => name(Ok(self.named)),
            MessageNaming::Ref => name(name_of_ref(&mut cursor)),
        }
    }
}

/// Translates a fault in a frame, which Avro and Protobuf share.
#[cold]
pub(crate) fn unframed(reason: AvroReason) -> ProtobufReason {
    match reason {
        AvroReason::RowTooLarge(bytes) => ProtobufReason::RowTooLarge(bytes),
        other => ProtobufReason::NotFramed(other.to_string().into()),
    }
}

fn name(found: DecodeResult<&[u8]>) -> Result<MessageName, ProtobufReason> {
    let text = found.ok().and_then(|bytes| text_of(bytes).ok()).filter(|text| !text.is_empty());
    text.map(|text| MessageName::Name(text.into())).ok_or_else(|| ProtobufReason::NotFramed(NO_REF.into()))
}

fn name_of_ref<'v>(cursor: &mut Cursor<'v>) -> DecodeResult<&'v [u8]> {
    let mut name = &[][..];
    while !cursor.is_at_end() {
        match cursor.tag()? {
            (1, BYTES) => name = cursor.take()?,
            (number, wire) => cursor.skip(number, wire)?,
        }
    }
    Ok(name)
}

fn numbers(indexes: &[u8]) -> Vec<u32> {
    let mut numbers = Vec::new();
    let read = read(&mut Cursor::new(indexes, 0), |number| numbers.push(number));
    if read.is_err() || numbers.is_empty() {
        return vec![0];
    }
    numbers
}

fn read(cursor: &mut Cursor<'_>, mut met: impl FnMut(u32)) -> Result<(), ProtobufReason> {
    // The deprecated format has plain varints, which are small; read as zigzag, a plain 1 is -1.
    let is_deprecated = cursor.peek().is_some_and(|count| count < 8);
    let none = |number: i64| {
        let reason = if number < 0 && is_deprecated { DEPRECATED } else { NO_INDEXES };
        ProtobufReason::NotFramed(reason.into())
    };
    let count = cursor.zigzag().map_err(|_| none(0))?;
    if !(0..=MAX_INDEXES).contains(&count) {
        return Err(none(count));
    }
    for _ in 0..count {
        let number = cursor.zigzag().map_err(|_| none(0))?;
        met(u32::try_from(number).map_err(|_| none(number))?);
    }
    Ok(())
}
