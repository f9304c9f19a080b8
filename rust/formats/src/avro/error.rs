//! What can be wrong with a schema, and with a value.

use std::fmt;

use crate::error::prefix;

/// A schema that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}", self.facts(), hint.as_deref().map(|hint| format!("; {}", hint.replace('`', ""))).unwrap_or_default())]
pub struct BadSchema {
    /// The field, as `items[].price`; empty for the schema as a whole.
    pub path: String,
    /// What is wrong with it.
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

/// A value that cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{reason} (byte {position})", if path.is_empty() { String::new() } else { format!("{path}: ") })]
pub struct BadAvro {
    /// The field that the fault was met in, as `items[3].price`; empty if the value as a whole is bad.
    pub path: String,
    /// What is wrong.
    pub reason: AvroReason,
    /// Where in the value, in bytes from its start, its frame included.
    pub position: usize,
}

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AvroReason {
    /// The value ends too early.
    Truncated,
    /// A number of more bytes than its type has, or beyond its range.
    BadNumber,
    /// A length below zero, or beyond the end of the value.
    BadLength(i64),
    /// A byte that is neither 0 nor 1.
    BadBoolean(u8),
    /// A text that is not UTF-8.
    NotUtf8,
    /// A union has no branch of this number.
    NoBranch(i64),
    /// An enum has no symbol of this number.
    NoSymbol(i64),
    /// The writer's symbol is none of the reader's, which have no default.
    UnknownSymbol(Box<str>),
    /// The writer's branch of a union, which the reader's type cannot take: why.
    Unresolvable(Box<str>),
    /// A number or a time beyond the range of the column's type.
    OutOfRange(&'static str),
    /// Values are nested too deep.
    TooDeep,
    /// Bytes follow the value: how many.
    TrailingBytes(usize),
    /// The value can be read behind a frame of Confluent's, which it is not said to have: what is wrong without, and the
    /// schema's id.
    Framed(Box<Self>, u32),
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
    /// No schema can be had for this value: why.
    NoSchema(Box<str>),
    /// No schema was given with this id or fingerprint.
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

/// A fault on its way out of nested values, each of which says where in it the fault was.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) path: String,
    pub(crate) reason: AvroReason,
    pub(crate) position: usize,
}

pub(crate) type Decoded<T = ()> = Result<T, Box<Fault>>;

impl Fault {
    #[cold]
    pub(crate) fn new(reason: AvroReason, position: usize) -> Box<Self> {
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
}
