//! Faults of schemas and of values.

use crate::error::ValueFault;

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
pub type BadAvro = ValueFault<AvroReason>;

pub(crate) type DecodeResult<T = ()> = Result<T, Box<BadAvro>>;

/// Kinds of faults in a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AvroReason {
    /// Value that ends too early.
    #[error("the value ends too early")]
    Truncated,
    /// Number with more bytes than its type permits, or beyond its range.
    #[error("a number with too many bytes, or beyond the range of its type")]
    BadNumber,
    /// Length below zero, or beyond the end of the value.
    #[error("a length of {0}, which the rest of the value has not")]
    BadLength(i64),
    /// Boolean that is neither 0 nor 1.
    #[error("a boolean is 0 or 1, and not {0}")]
    BadBoolean(u8),
    /// Text that is not UTF-8.
    #[error("a text that is not UTF-8")]
    NotUtf8,
    /// Index of a union's branch that does not exist.
    #[error("the union has no branch {0}")]
    NoBranch(i64),
    /// Index of an enum's symbol that does not exist.
    #[error("the enum has no symbol {0}")]
    NoSymbol(i64),
    /// Symbol of the writer's that the reader's enum lacks, without a default there.
    #[error("the symbol {0:?} is none of the reader's enum, which has no default")]
    UnknownSymbol(Box<str>),
    /// Branch of the writer's union that the reader's type cannot resolve; holds the reason.
    #[error("the writer's branch of the union cannot be read: {0}")]
    Unresolvable(Box<str>),
    /// Number or time beyond the range of the column's type.
    #[error("beyond the range of {0}")]
    OutOfRange(&'static str),
    /// Values nested too deep.
    #[error("the value is nested too deep")]
    TooDeep,
    /// Bytes after the end of the value; holds their number.
    #[error("{0} bytes follow the value: it was written with another schema, or framed")]
    TrailingBytes(usize),
    /// Value that can be decoded behind a frame of Confluent's, but is configured without; holds the fault without the
    /// frame, and the schema id.
    #[error("{0}; behind a frame of Confluent's, a zero byte and the schema's id {1}, it can be read")]
    Framed(Box<Self>, u32),
    /// Row that would take more than this many bytes.
    #[error("the row takes more than {0} bytes as columns")]
    RowTooLarge(usize),
    /// Value that does not begin with the configured framing; holds what was expected.
    #[error("the value does not begin with {0}")]
    NotFramed(&'static str),
    /// Bytes after the frame that are not compressed in the way the frame says.
    #[error("the value is not compressed by zlib, as its frame says")]
    BadCompression,
    /// Bytes after the end of the compressed data; holds their number.
    #[error("{0} bytes follow the compressed value")]
    BehindCompressed(usize),
    /// Header with the id of a schema in Apicurio's registry, of this length instead of an id's.
    #[error("the header with the schema's id in Apicurio's registry has {0} bytes, and not 8")]
    BadHeader(usize),
    /// Value without an available schema; holds the reason.
    #[error("{0}")]
    NoSchema(Box<str>),
    /// Id or fingerprint of a schema that was not given.
    #[error("no schema was given for {0}")]
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
