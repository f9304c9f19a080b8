//! JSON into columns, with the semantics of Spark's `from_json`.

pub(crate) mod base64;
mod comments;
mod cursor;
mod debezium;
mod decoder;
mod number;
mod object;
mod options;
mod path;
mod time;

pub use decoder::{Appended, JsonDecoder};
pub use options::{BadOption, Envelope, JsonOptions, Mode, Syntax};
pub use time::{Pattern, TimeZone};
