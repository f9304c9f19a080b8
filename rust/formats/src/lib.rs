//! Turns the values of Kafka records into typed Arrow columns: JSON, Avro and Protobuf, decoded straight from the bytes; and
//! the rows of such columns into values.
//!
//! A [`JsonDecoder`] is made for a list of Arrow fields, an [`AvroDecoder`] for a reader's schema and those of writers,
//! a [`ProtobufDecoder`] for a message. Each value that it is given becomes one row of a column.
//! There is one rule for bad values: what a row wrote is taken back in every column and in every child, and it is taken
//! back only then; good rows pay nothing for it. Every column derives from its own number of rows what has to go.
//!
//! Column memory comes from the pool of `monedula-columns`. This crate does no I/O, reads no clock, and has no unsafe
//! code. How deep a value may be nested, and how much one row may take, is bounded whatever the bytes are.
//!
//! The registry of the embedded broker, which compares schemas alone, reads them by [`AvroSchema::parse_strictly`] and
//! [`ParsedProtobuf`].

#![forbid(unsafe_code)]

mod avro;
mod column;
mod error;
mod fixed;
mod json;
mod names;
mod nested;
mod protobuf;
mod source;
mod typed;
mod varint;
mod writing;

pub use avro::{
    AvroAppended, AvroDecoder, AvroEncoder, AvroOptions, AvroPlan, AvroReason, AvroSchema, BadAvro, BadSchema, Framing,
    WriterKey, stable_text,
};
pub use error::{BadValue, Reason, UnsupportedField};
pub use json::base64::encode as encode_base64;
pub use json::{Appended, BadOption, Envelope, JsonDecoder, JsonEncoder, JsonOptions, Mode, Pattern, Syntax, TimeZone};
pub use protobuf::{
    BadProtobuf, ParsedProtobuf, ProtobufAppended, ProtobufDecoder, ProtobufEncoder, ProtobufFile, ProtobufOptions,
    ProtobufPlan, ProtobufReason, ProtobufSchema,
};
pub use source::{Asked, SchemaSource};
pub use writing::{Meaning, Unwritable, with_frame};
