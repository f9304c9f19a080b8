//! What can be wrong with a value.

use std::fmt;

use crate::error::{GIVE_CONFLUENT, prefix};

/// A value that cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{reason} (byte {position})", if path.is_empty() { String::new() } else { format!("{path}: ") })]
pub struct BadProtobuf {
    /// The field that the fault was met in, as `items[3].price`; empty if the value as a whole is bad.
    pub path: String,
    /// What is wrong.
    pub reason: ProtobufReason,
    /// Where in the value, in bytes from its start, its frame included. In a message that came in several parts, where its
    /// outer message ends.
    pub position: usize,
}

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtobufReason {
    /// The value, or the message that it has, ends too early.
    Truncated,
    /// A number of more than ten bytes or 64 bits.
    BadNumber,
    /// A length beyond the end of the message.
    BadLength(u64),
    /// A tag with a field or wire type that does not exist.
    BadTag(u64),
    /// A group ends that has not begun: its field.
    UnexpectedEnd(u32),
    /// Groups are nested too deep.
    TooDeep,
    /// A text that is not UTF-8.
    NotUtf8,
    /// A field has another wire type than its type in the schema: the two.
    WireType {
        /// That of the value.
        found: u8,
        /// That of the schema's type.
        expected: u8,
    },
    /// A time or length beyond the range of the column's type.
    OutOfRange(&'static str),
    /// A required field is missing.
    Missing,
    /// The row would take more than this many bytes.
    RowTooLarge(usize),
    /// The value does not begin as the framing has it: what is wrong.
    NotFramed(Box<str>),
    /// The value does not begin as the framing has it, and can be read without a frame: what is wrong.
    Bare(Box<str>),
    /// The frame names another message than that of the column, by the schema of its id.
    OtherMessage(Box<str>),
    /// The frame names another message than that of the column, by the given schema, which need not be that of its id.
    MaybeOtherMessage(Box<str>),
    /// No schema can be had for this value: why.
    NoSchema(Box<str>),
    /// The value can be read behind a frame of Confluent's, which it is not said to have: what is wrong without, and the
    /// schema's id.
    Framed(Box<Self>, u32),
}

fn wire_type(wire: u8) -> &'static str {
    ["varint", "64-bit", "length-delimited", "group", "end of group", "32-bit"].get(usize::from(wire)).unwrap_or(&"no")
}

impl ProtobufReason {
    /// Advice on what to ask for instead; backticks are around Python's names.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Framed(..) => Some(GIVE_CONFLUENT),
            Self::Bare(_) => Some("give `framing='bare'`"),
            Self::MaybeOtherMessage(_) => {
                Some("give `message=` another name, or `schemas=` with the schema of this id")
            }
            _ => None,
        }
    }
}

impl fmt::Display for ProtobufReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => formatter.write_str("the value ends too early"),
            Self::BadNumber => formatter.write_str("a number of more than ten bytes or 64 bits"),
            Self::BadLength(length) => write!(formatter, "a length of {length}, which the rest of the message has not"),
            Self::BadTag(tag) => write!(formatter, "the tag {tag} is of no field or wire type"),
            Self::UnexpectedEnd(number) => write!(formatter, "the end of group {number}, which has not begun"),
            Self::TooDeep => formatter.write_str("the value is nested too deep"),
            Self::NotUtf8 => formatter.write_str("a text that is not UTF-8"),
            Self::WireType { found, expected } => {
                let (found, expected) = (wire_type(*found), wire_type(*expected));
                write!(
                    formatter,
                    "the wire type is {found}, and the schema's is {expected}: the value was written with another schema, \
                     or framed"
                )
            }
            Self::OutOfRange(wanted) => write!(formatter, "beyond the range of {wanted}"),
            Self::Missing => formatter.write_str("the field is required, and the value has none"),
            Self::RowTooLarge(bytes) => write!(formatter, "the row takes more than {bytes} bytes as columns"),
            Self::NotFramed(why) | Self::OtherMessage(why) | Self::MaybeOtherMessage(why) | Self::NoSchema(why) => {
                formatter.write_str(why)
            }
            Self::Bare(why) => write!(formatter, "{why}; it can be read without"),
            Self::Framed(reason, id) => write!(
                formatter,
                "{reason}; behind a frame of Confluent's, a zero byte, the schema's id {id} and indexes, it can be read"
            ),
        }
    }
}

/// A fault on its way out of nested messages, each of which says where in it the fault was.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) path: String,
    pub(crate) reason: ProtobufReason,
    pub(crate) position: usize,
}

pub(crate) type Decoded<T = ()> = Result<T, Box<Fault>>;

impl Fault {
    #[cold]
    pub(crate) fn new(reason: ProtobufReason, position: usize) -> Box<Self> {
        Box::new(Self { path: String::new(), reason, position })
    }

    #[cold]
    pub(crate) fn in_field(mut self: Box<Self>, name: &str) -> Box<Self> {
        prefix(&mut self.path, name);
        self
    }

    #[cold]
    pub(crate) fn in_brackets(mut self: Box<Self>, key: impl fmt::Debug) -> Box<Self> {
        prefix(&mut self.path, &format!("[{key:?}]"));
        self
    }

    /// The same at another place: that of what the bytes were put together from.
    pub(crate) fn at(mut self: Box<Self>, position: usize) -> Box<Self> {
        self.position = position;
        self
    }
}
