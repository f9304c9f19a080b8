//! Faults of values.

use std::fmt;

use crate::error::{BadValue, GIVE_CONFLUENT};

/// A value that cannot be decoded.
pub type BadProtobuf = BadValue<ProtobufReason>;

pub(crate) type Decoded<T = ()> = Result<T, Box<BadProtobuf>>;

/// Kinds of faults in a value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtobufReason {
    /// Value, or a message in it, that ends too early.
    Truncated,
    /// Number of more than ten bytes or 64 bits.
    BadNumber,
    /// Length beyond the end of the message.
    BadLength(u64),
    /// Tag with a field number or wire type that does not exist.
    BadTag(u64),
    /// End of a group that has not begun; holds the field's number.
    UnexpectedEnd(u32),
    /// Groups nested too deep.
    TooDeep,
    /// Text that is not UTF-8.
    NotUtf8,
    /// Field with a wire type that does not match its type in the schema.
    WireType {
        /// Wire type in the value.
        found: u8,
        /// Wire type of the schema's type.
        expected: u8,
    },
    /// Time or duration beyond the range of the column's type.
    OutOfRange(&'static str),
    /// Missing required field.
    Missing,
    /// Row that would take more than this many bytes.
    RowTooLarge(usize),
    /// Value that does not begin with the configured framing; holds the fault.
    NotFramed(Box<str>),
    /// Value without the frame, which can be decoded as bare; holds the fault.
    Bare(Box<str>),
    /// Frame that names another message than the column's, by the schema of its id; holds the fault.
    OtherMessage(Box<str>),
    /// As `OtherMessage`, by the given schema, which need not be that of the id.
    MaybeOtherMessage(Box<str>),
    /// Value without an available schema; holds the reason.
    NoSchema(Box<str>),
    /// Value that can be decoded behind a frame of Confluent's, but is configured without; holds the fault without the
    /// frame, and the schema id.
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
