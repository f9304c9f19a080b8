//! Faults of schemas and of values.

use std::fmt;

use crate::error::BadValue;

/// A schema that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}", self.facts(), hint.as_deref().map(|hint| format!("; {}", hint.replace('`', ""))).unwrap_or_default())]
pub struct BadSchema {
    /// Path of the field, like `items[].price`; empty for the schema as a whole.
    pub path: String,
    /// Description of the fault.
    pub reason: String,
    /// Advice on what to give instead; backticks are around Python's names.
    pub hint: Option<String>,
}

impl BadSchema {
    pub(crate) fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { path: path.into(), reason: reason.into(), hint: None }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The message without its hint.
    pub fn facts(&self) -> String {
        if self.path.is_empty() { self.reason.clone() } else { format!("{}: {}", self.path, self.reason) }
    }
}

pub(crate) fn bad(path: &str, reason: impl Into<String>) -> BadSchema {
    BadSchema::new(path, reason)
}

/// A value that cannot be decoded.
pub type BadAvro = BadValue<AvroReason>;

pub(crate) type Decoded<T = ()> = Result<T, Box<BadAvro>>;

/// Kinds of faults in a value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AvroReason {
    /// Value that ends too early.
    Truncated,
    /// Number with more bytes than its type permits, or beyond its range.
    BadNumber,
    /// Length below zero, or beyond the end of the value.
    BadLength(i64),
    /// Boolean that is neither 0 nor 1.
    BadBoolean(u8),
    /// Text that is not UTF-8.
    NotUtf8,
    /// Index of a union's branch that does not exist.
    NoBranch(i64),
    /// Index of an enum's symbol that does not exist.
    NoSymbol(i64),
    /// Symbol of the writer's that the reader's enum lacks, without a default there.
    UnknownSymbol(Box<str>),
    /// Branch of the writer's union that the reader's type cannot resolve; holds the reason.
    Unresolvable(Box<str>),
    /// Number or time beyond the range of the column's type.
    OutOfRange(&'static str),
    /// Values nested too deep.
    TooDeep,
    /// Bytes after the end of the value; holds their number.
    TrailingBytes(usize),
    /// Value that can be decoded behind a frame of Confluent's, but is configured without; holds the fault without the
    /// frame, and the schema id.
    Framed(Box<Self>, u32),
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
    /// Value without an available schema; holds the reason.
    NoSchema(Box<str>),
    /// Id or fingerprint of a schema that was not given.
    UnknownSchema(Box<str>),
}

impl AvroReason {
    /// Advice on what to ask for instead; backticks are around Python's names.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Framed(..) => {
                Some("give `schemas={id: schema}`, or `the setting schema.registry.url`, where it is asked for")
            }
            _ => None,
        }
    }
}

impl fmt::Display for AvroReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => formatter.write_str("the value ends too early"),
            Self::BadNumber => formatter.write_str("a number with too many bytes, or beyond the range of its type"),
            Self::BadLength(length) => write!(formatter, "a length of {length}, which the rest of the value has not"),
            Self::BadBoolean(byte) => write!(formatter, "a boolean is 0 or 1, and not {byte}"),
            Self::NotUtf8 => formatter.write_str("a text that is not UTF-8"),
            Self::NoBranch(branch) => write!(formatter, "the union has no branch {branch}"),
            Self::NoSymbol(symbol) => write!(formatter, "the enum has no symbol {symbol}"),
            Self::UnknownSymbol(symbol) => {
                write!(formatter, "the symbol {symbol:?} is none of the reader's enum, which has no default")
            }
            Self::Unresolvable(why) => write!(formatter, "the writer's branch of the union cannot be read: {why}"),
            Self::OutOfRange(wanted) => write!(formatter, "beyond the range of {wanted}"),
            Self::TooDeep => formatter.write_str("the value is nested too deep"),
            Self::TrailingBytes(bytes) => {
                write!(formatter, "{bytes} bytes follow the value: it was written with another schema, or framed")
            }
            Self::Framed(reason, id) => write!(
                formatter,
                "{reason}; behind a frame of Confluent's, a zero byte and the schema's id {id}, it can be read"
            ),
            Self::RowTooLarge(bytes) => write!(formatter, "the row takes more than {bytes} bytes as columns"),
            Self::NotFramed(expected) => write!(formatter, "the value does not begin with {expected}"),
            Self::BadCompression => formatter.write_str("the value is not compressed by zlib, as its frame says"),
            Self::BehindCompressed(bytes) => write!(formatter, "{bytes} bytes follow the compressed value"),
            Self::BadHeader(bytes) => {
                write!(formatter, "the header with the schema's id in Apicurio's registry has {bytes} bytes, and not 8")
            }
            Self::NoSchema(why) => formatter.write_str(why),
            Self::UnknownSchema(id) => write!(formatter, "no schema was given for {id}"),
        }
    }
}
