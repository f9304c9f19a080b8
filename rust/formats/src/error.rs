//! The errors of this crate: a value that cannot be decoded, and a field that no decoder can fill.

use std::fmt;

use crate::avro::AvroReason;

/// A value that is not what the fields ask for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{reason} (byte {position})", if path.is_empty() { String::new() } else { format!("{path}: ") })]
pub struct BadValue {
    /// The field that the fault was met in, as `items[3].price`; empty if the value as a whole is bad.
    pub path: String,
    /// What is wrong.
    pub reason: Reason,
    /// Where in the value, in bytes from its start.
    pub position: usize,
}

pub(crate) const GIVE_CONFLUENT: &str = "give `framing='confluent'`";

/// What is wrong with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The bytes are not valid UTF-8.
    NotUtf8,
    /// The text is not JSON: what was expected there.
    NotJson(&'static str),
    /// Objects and arrays are nested deeper than [`MAX_DEPTH`](crate::JsonDecoder::MAX_DEPTH).
    TooDeep,
    /// Something follows the value.
    TrailingText,
    /// The value as a whole is not an object.
    NotAnObject,
    /// The object is no envelope of Debezium.
    NotAnEnvelope,
    /// A value of another kind than the field's type takes: the type.
    WrongKind(&'static str),
    /// A number or a time beyond the range of the field's type: the type.
    OutOfRange(&'static str),
    /// A text that the field's type cannot be read from: the type.
    Unreadable(&'static str),
    /// Half of a surrogate pair, which no UTF-8 text can hold.
    LoneSurrogate,
    /// The row would take more than this many bytes.
    RowTooLarge(usize),
    /// The value does not begin as the framing has it: what was expected.
    NotFramed(&'static str),
    /// What follows the frame is not compressed as the frame says.
    BadCompression,
    /// Bytes follow what is compressed: how many.
    BehindCompressed(usize),
    /// The header that names the schema in Apicurio's registry has another length than an id: which.
    BadHeader(usize),
    /// A frame of Confluent's with this id stands before the value, which is not said to have one.
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
    /// Advice on what to ask for instead; backticks are around Python's names.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotFramed(_) => Some("if it is JSON alone, leave `framing=` out"),
            Self::Framed(_) => Some(GIVE_CONFLUENT),
            _ => None,
        }
    }

    /// What is wrong with the frame of a value.
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

/// Puts the place of what a path leads to before it: a field's name, or a number or key in brackets.
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
    /// The field, as `items[].price`.
    pub path: String,
    /// Why not, and what to use instead.
    pub reason: String,
}
