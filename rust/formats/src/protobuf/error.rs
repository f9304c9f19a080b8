//! Faults of values.

use crate::error::{GIVE_CONFLUENT, ValueFault};

/// A value that cannot be decoded.
pub type BadProtobuf = ValueFault<ProtobufReason>;

pub(crate) type DecodeResult<T = ()> = Result<T, Box<BadProtobuf>>;

/// Kinds of faults in a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtobufReason {
    /// Value, or a message in it, that ends too early.
    #[error("the value ends too early")]
    Truncated,
    /// Number of more than ten bytes or 64 bits.
    #[error("a number of more than ten bytes or 64 bits")]
    BadNumber,
    /// Length beyond the end of the message.
    #[error("a length of {0}, which the rest of the message has not")]
    BadLength(u64),
    /// Tag with a field number or wire type that does not exist.
    #[error("the tag {0} is of no field or wire type")]
    BadTag(u64),
    /// End of a group that has not begun; holds the field's number.
    #[error("the end of group {0}, which has not begun")]
    UnexpectedEnd(u32),
    /// Groups nested too deep.
    #[error("the value is nested too deep")]
    TooDeep,
    /// Text that is not UTF-8.
    #[error("a text that is not UTF-8")]
    NotUtf8,
    /// Field with a wire type that does not match its type in the schema.
    #[error(
        "the wire type is {}, and the schema's is {}: the value was written with another schema, \
         or framed",
        wire_type(*found),
        wire_type(*expected)
    )]
    WireType {
        /// Wire type in the value.
        found: u8,
        /// Wire type of the schema's type.
        expected: u8,
    },
    /// Time or duration beyond the range of the column's type.
    #[error("beyond the range of {0}")]
    OutOfRange(&'static str),
    /// Missing required field.
    #[error("the field is required, and the value has none")]
    Missing,
    /// Row that would take more than this many bytes.
    #[error("the row takes more than {0} bytes as columns")]
    RowTooLarge(usize),
    /// Value that does not begin with the configured framing; holds the fault.
    #[error("{0}")]
    NotFramed(Box<str>),
    /// Value without the frame, which can be decoded as bare; holds the fault.
    #[error("{0}; it can be read without")]
    Bare(Box<str>),
    /// Frame that names another message than the column's, by the schema of its id; holds the fault.
    #[error("{0}")]
    OtherMessage(Box<str>),
    /// As `OtherMessage`, by the given schema, which need not be that of the id.
    #[error("{0}")]
    MaybeOtherMessage(Box<str>),
    /// Value without an available schema; holds the reason.
    #[error("{0}")]
    NoSchema(Box<str>),
    /// Value that can be decoded behind a frame of Confluent's, but is configured without; holds the fault without the
    /// frame, and the schema id.
    #[error("{0}; behind a frame of Confluent's, a zero byte, the schema's id {1} and indexes, it can be read")]
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
