//! JSON to columns, with the semantics of Spark's `from_json`, and columns to JSON, with the semantics of `to_json`.

pub(crate) mod base64;
mod comments;
mod cursor;
mod debezium;
mod decoder;
mod encoder;
mod number;
mod object;
mod options;
mod path;
mod schema_text;
mod time;

pub use decoder::JsonDecoder;
pub use encoder::JsonEncoder;
pub use options::{BadOption, Envelope, JsonOptions, Mode, Syntax};
pub use time::{Pattern, TimeZone};
