//! What Confluent's serializers write before a message: the schema's id or GUID, and which of its messages it is.

use super::error::ProtobufReason;
use super::wire::Cursor;
use crate::avro::{Framing, WriterKey};

/// How deep a message may be declared in others.
const MAX_INDEXES: i64 = 64;

const CONFLUENT: &str = "the value does not begin with a zero byte and the id of a schema in a registry, or a one and its \
                         GUID";
const NO_INDEXES: &str =
    "the indexes of the message do not follow the schema's id: a count and so many numbers in zigzag";
const DEPRECATED: &str = "the indexes of the message are in the deprecated format, without zigzag, which old serializers \
                          wrote for Python; write with use.deprecated.format=False";

/// What a frame says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'v> {
    pub(crate) key: WriterKey,
    /// The indexes as they are written, with their count.
    pub(crate) indexes: &'v [u8],
    /// Where the message begins.
    pub(crate) start: usize,
}

impl<'v> Frame<'v> {
    #[inline]
    pub(crate) fn of(value: &'v [u8]) -> Result<Self, ProtobufReason> {
        let (key, at) = Framing::Confluent.key(value).map_err(|_| ProtobufReason::NotFramed(CONFLUENT.into()))?;
        if value.get(at) == Some(&0) {
            return Ok(Self { key, indexes: &[0], start: at + 1 });
        }
        let mut cursor = Cursor::new(value, at);
        read(&mut cursor, |_| {})?;
        Ok(Self { key, indexes: value.get(at..cursor.at).unwrap_or_default(), start: cursor.at })
    }

    /// The same in a header; the value has no frame then.
    #[cold]
    pub(crate) fn of_header(header: &'v [u8]) -> Result<Self, ProtobufReason> {
        match Self::of(header)? {
            frame if frame.start == header.len() => Ok(Self { start: 0, ..frame }),
            _ => Err(ProtobufReason::NotFramed(NO_INDEXES.into())),
        }
    }
}

/// The indexes of a message as they are written.
pub(crate) fn numbers(indexes: &[u8]) -> Vec<u32> {
    let mut numbers = Vec::new();
    let read = read(&mut Cursor::new(indexes, 0), |number| numbers.push(number));
    if read.is_err() || numbers.is_empty() {
        return vec![0];
    }
    numbers
}

fn read(cursor: &mut Cursor<'_>, mut met: impl FnMut(u32)) -> Result<(), ProtobufReason> {
    let none = |reason: &str| ProtobufReason::NotFramed(reason.into());
    let count = cursor.zigzag().map_err(|_| none(NO_INDEXES))?;
    // The plain number 1 is -1 in zigzag.
    if !(0..=MAX_INDEXES).contains(&count) {
        return Err(none(if count < 0 { DEPRECATED } else { NO_INDEXES }));
    }
    for _ in 0..count {
        let number = cursor.zigzag().map_err(|_| none(NO_INDEXES))?;
        met(u32::try_from(number).map_err(|_| none(if number < 0 { DEPRECATED } else { NO_INDEXES }))?);
    }
    Ok(())
}
