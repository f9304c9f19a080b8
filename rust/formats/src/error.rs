//! Errors of this crate: values that cannot be decoded, and fields that no decoder can fill.

use std::fmt;

use crate::avro::AvroReason;

/// A value that cannot be decoded, or does not fit the requested fields.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{reason} (byte {position})", if path.is_empty() { String::new() } else { format!("{path}: ") })]
pub struct ValueFault<R = Reason> {
    /// Path of the field with the fault, like `items[3].price`; empty if the value as a whole is bad.
    pub path: String,
    /// Kind of the fault.
    pub reason: R,
    /// Position of the fault, in bytes from the start of the value, its frame included. In a Protobuf message that came
    /// in several parts, the end of its outer message.
    pub position: usize,
}

/// A fault passes up through nested values, each of which prepends its part of the path.
impl<R> ValueFault<R> {
    #[cold]
    pub(crate) fn new(reason: R, position: usize) -> Box<Self> {
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

    /// Moves the fault to the position of a default, or of a message whose bytes were joined from several parts.
    pub(crate) fn at(mut self: Box<Self>, position: usize) -> Box<Self> {
        self.position = position;
        self
    }
}

pub(crate) const GIVE_CONFLUENT: &str = "give `framing='confluent'`";

/// Kinds of faults in a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Bytes that are not valid UTF-8.
    NotUtf8,
    /// Text that is not JSON; holds what was expected instead.
    NotJson(&'static str),
    /// Objects and arrays nested deeper than [`MAX_DEPTH`](crate::JsonDecoder::MAX_DEPTH).
    TooDeep,
    /// Text after the end of the value.
    TrailingText,
    /// Value that is not an object.
    NotAnObject,
    /// Object that is no envelope of Debezium.
    NotAnEnvelope,
    /// Value of a kind that the field's type does not accept; holds the type.
    WrongKind(&'static str),
    /// Number or time beyond the range of the field's type; holds the type.
    OutOfRange(&'static str),
    /// Text that cannot be parsed as the field's type; holds the type.
    Unreadable(&'static str),
    /// Half of a surrogate pair, which no UTF-8 text can hold.
    LoneSurrogate,
    /// Row that would take more than this many bytes.
    RowTooLarge(usize),
    /// Value that does not begin with the configured framing; holds what was expected.
    NotFramed(&'static str),
    /// Bytes after the frame that are not compressed in the way the frame says.
    BadCompression,
    /// Bytes after the end of the compressed data; holds their number.
    BehindCompressed(usize),
    /// Header with the id of a schema in Apicurio's registry, of this length instead of an id's.
    BadHeader(usize),
    /// Frame of Confluent's with this schema id, before a value that is configured as bare.
    Framed(u32),
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUtf8 => formatter.write_str("the value is not UTF-8"),
            Self::NotJson(expected) => write!(formatter, "the value is not JSON: expected {expected}"),
            Self::TooDeep => formatter.write_str("the value is nested too deep"),
            Self::TrailingText => formatter.write_str("text follows the JSON value"),
            Self::NotAnObject => formatter.write_str("the value is not a JSON object"),
            Self::NotAnEnvelope => {
                formatter.write_str("the object is no envelope of Debezium: op, with before or after")
            }
            Self::WrongKind(wanted) => write!(formatter, "no JSON value for a field of type {wanted}"),
            Self::OutOfRange(wanted) => write!(formatter, "beyond the range of {wanted}"),
            Self::Unreadable(wanted) => write!(formatter, "cannot be read as {wanted}"),
            Self::LoneSurrogate => formatter.write_str("half of a surrogate pair"),
            Self::NotFramed(expected) => AvroReason::NotFramed(expected).fmt(formatter),
            Self::BadCompression => AvroReason::BadCompression.fmt(formatter),
            Self::BehindCompressed(bytes) => AvroReason::BehindCompressed(*bytes).fmt(formatter),
            Self::BadHeader(bytes) => AvroReason::BadHeader(*bytes).fmt(formatter),
            Self::Framed(id) => write!(
                formatter,
                "the value is not JSON: a frame of Confluent's stands before it, a zero byte and the schema's id {id}"
            ),
            Self::RowTooLarge(bytes) => write!(formatter, "the row takes more than {bytes} bytes as columns"),
        }
    }
}

impl Reason {
    /// Advice on what to ask for instead; Python's names are in backticks.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotFramed(_) => Some("if it is JSON alone, leave `framing=` out"),
            Self::Framed(_) => Some(GIVE_CONFLUENT),
            _ => None,
        }
    }

    /// Translates a fault in the frame of a value.
    #[cold]
    pub(crate) fn of_frame(reason: AvroReason) -> Self {
        match reason {
            AvroReason::RowTooLarge(bytes) => Self::RowTooLarge(bytes),
            AvroReason::BadCompression => Self::BadCompression,
            AvroReason::BehindCompressed(bytes) => Self::BehindCompressed(bytes),
            AvroReason::BadHeader(bytes) => Self::BadHeader(bytes),
            AvroReason::NotFramed(expected) => Self::NotFramed(expected),
            _ => Self::NotFramed("a frame"),
        }
    }
}

/// Path or full name of what is within this one.
pub(crate) fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Prepends a parent to a path: a field's name, or an index or key in brackets.
#[cold]
pub(crate) fn prefix(path: &mut String, place: &str) {
    let between = if path.is_empty() || path.starts_with('[') { "" } else { "." };
    path.insert_str(0, between);
    path.insert_str(0, place);
}

/// A field that no column can be made for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("field {path}: {reason}")]
pub struct UnsupportedField {
    /// Path of the field, like `items[].price`.
    pub path: String,
    /// Reason, with a type to use instead.
    pub reason: String,
}
