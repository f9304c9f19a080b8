//! Decodes the values of Kafka records (JSON, Avro and Protobuf) from their bytes straight into typed Arrow columns,
//! and encodes the rows of such columns into values.
//!
//! A [`JsonDecoder`] is made for a list of Arrow fields, an [`AvroDecoder`] for a reader's schema and the schemas of
//! writers, a [`ProtobufDecoder`] for a message. Each value becomes one row of a column. Bad values follow one rule:
//! the row's writes are undone in every column and in every child. Only bad rows pay for this, since every column
//! derives what to undo from its own number of rows.
//!
//! Column memory comes from the pool of `monedula-columns`. This crate does no I/O (except reading the system's time
//! zones), reads no clock, and has no unsafe code. The nesting of a value and the size of a row are bounded, whatever
//! the bytes are.

#![forbid(unsafe_code)]

mod avro;
mod column;
mod datum;
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
pub use datum::{BadDatum, Datum};
pub use error::{Reason, UnsupportedField, ValueFault};
pub use json::base64::encode as encode_base64;
pub use json::{BadOption, Envelope, JsonDecoder, JsonEncoder, JsonOptions, Mode, Pattern, Syntax, TimeZone};
pub use protobuf::{
    BadProtobuf, ParsedProtobuf, ProtobufAppended, ProtobufDecoder, ProtobufEncoder, ProtobufFile, ProtobufOptions,
    ProtobufPlan, ProtobufReason, ProtobufSchema,
};
pub use source::{NoSchema, SchemaSource};
pub use typed::Appended;
pub use writing::{Meaning, Unwritable, with_frame};
