//! What serializers write before a message: the schema's id or GUID, and which of its messages it is.

use monedula_columns::{RecordContext, text_of};

use super::error::{Decoded, ProtobufReason};
use super::wire::{BYTES, Cursor};
use crate::avro::{AvroReason, Framing, WriterKey};

/// How deep a message may be declared in others.
const MAX_INDEXES: i64 = 64;

const NO_INDEXES: &str =
    "the indexes of the message do not follow the schema's id: a count and so many numbers in zigzag";
const DEPRECATED: &str = "the indexes of the message are in the deprecated format, without zigzag, which old serializers \
                          wrote for Python; write with use.deprecated.format=False";
const NO_NUMBER: &str = "the number of the message does not follow the UUID of the schema's version";
const NO_REF: &str = "the name of the message does not follow the schema's id, as Apicurio's serializers write it";

/// How the message is named in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum By {
    /// As Confluent's serializers do it: its number in the file, behind those of the messages that it is declared in, with
    /// their count.
    Indexes,
    /// As AWS Glue's do it: its number among all messages of the file, in the order of their full names.
    Number,
    /// As Apicurio's do it: a message whose field 1 is its name, without package and the messages that it is declared in.
    Ref,
    /// The same name in a header of Apicurio's.
    Name,
}

/// What a frame says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'v> {
    pub(crate) key: WriterKey,
    pub(crate) by: By,
    /// What names the message, as it is written.
    pub(crate) named: &'v [u8],
    /// Where the message begins.
    pub(crate) start: usize,
}

/// A frame, or what is wrong with it.
pub(crate) type Framed<'v> = Result<Frame<'v>, ProtobufReason>;

/// Which message a frame names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    Indexes(Vec<u32>),
    Number(u64),
    Name(Box<str>),
}

impl<'v> Frame<'v> {
    /// The frame of Confluent's before a value.
    #[inline]
    pub(crate) fn of(value: &'v [u8]) -> Framed<'v> {
        let (key, at) = Framing::Confluent.key(value).map_err(unframed)?;
        if value.get(at) == Some(&0) {
            return Ok(Self { key, by: By::Indexes, named: &[0], start: at + 1 });
        }
        let mut cursor = Cursor::new(value, at);
        read(&mut cursor, |_| {})?;
        Ok(Self { key, by: By::Indexes, named: value.get(at..cursor.at).unwrap_or_default(), start: cursor.at })
    }

    /// The same in a header; the value has no frame then.
    #[cold]
    pub(crate) fn of_header(header: &'v [u8]) -> Framed<'v> {
        match Self::of(header)? {
            frame if frame.start == header.len() => Ok(Self { start: 0, ..frame }),
            _ => Err(ProtobufReason::NotFramed(NO_INDEXES.into())),
        }
    }

    /// The frame of Apicurio's before a value. The id, the name or both may stand in headers.
    #[inline]
    pub(crate) fn of_apicurio(value: &'v [u8], beside: RecordContext<'v>) -> Framed<'v> {
        let named = Framing::key_of_apicurio(beside);
        let name = named.as_ref().and_then(|_| beside.header("apicurio.protobuf.type.key", "apicurio.protobuf.type"));
        let (key, at) = named.unwrap_or_else(|| Framing::Apicurio.key(value)).map_err(unframed)?;
        if let Some(named) = name {
            return Ok(Self { key, by: By::Name, named, start: at });
        }
        let mut cursor = Cursor::new(value, at);
        let named = cursor.take().map_err(|_| ProtobufReason::NotFramed(NO_REF.into()))?;
        Ok(Self { key, by: By::Ref, named, start: cursor.at })
    }

    /// The frame of AWS Glue's, of which the number of the message is compressed with it.
    #[inline]
    pub(crate) fn of_glue(key: WriterKey, unframed: &'v [u8], at: usize) -> Framed<'v> {
        let mut cursor = Cursor::new(unframed, at);
        cursor.varint().map_err(|_| ProtobufReason::NotFramed(NO_NUMBER.into()))?;
        Ok(Self { key, by: By::Number, named: unframed.get(at..cursor.at).unwrap_or_default(), start: cursor.at })
    }

    /// Which message it names.
    #[cold]
    pub(crate) fn found(&self) -> Result<Found, ProtobufReason> {
        let mut cursor = Cursor::new(self.named, 0);
        match self.by {
            By::Indexes => Ok(Found::Indexes(numbers(self.named))),
            By::Number => cursor.varint().map(Found::Number).map_err(|_| ProtobufReason::NotFramed(NO_NUMBER.into())),
            By::Name => name(Ok(self.named)),
            By::Ref => name(name_of_ref(&mut cursor)),
        }
    }
}

/// What is wrong with the frame of any format.
#[cold]
pub(crate) fn unframed(reason: AvroReason) -> ProtobufReason {
    match reason {
        AvroReason::RowTooLarge(bytes) => ProtobufReason::RowTooLarge(bytes),
        other => ProtobufReason::NotFramed(other.to_string().into()),
    }
}

fn name(found: Decoded<&[u8]>) -> Result<Found, ProtobufReason> {
    let text = found.ok().and_then(|bytes| text_of(bytes).ok()).filter(|text| !text.is_empty());
    text.map(|text| Found::Name(text.into())).ok_or_else(|| ProtobufReason::NotFramed(NO_REF.into()))
}

fn name_of_ref<'v>(cursor: &mut Cursor<'v>) -> Decoded<&'v [u8]> {
    let mut name = &[][..];
    while !cursor.is_at_end() {
        match cursor.tag()? {
            (1, BYTES) => name = cursor.take()?,
            (number, wire) => cursor.skip(number, wire)?,
        }
    }
    Ok(name)
}

/// The indexes of a message as they are written.
fn numbers(indexes: &[u8]) -> Vec<u32> {
    let mut numbers = Vec::new();
    let read = read(&mut Cursor::new(indexes, 0), |number| numbers.push(number));
    if read.is_err() || numbers.is_empty() {
        return vec![0];
    }
    numbers
}

fn read(cursor: &mut Cursor<'_>, mut met: impl FnMut(u32)) -> Result<(), ProtobufReason> {
    // The plain numbers of the deprecated format are small, and the plain number 1 is -1 in zigzag.
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
