//! JSON into columns, with the semantics of Spark's `from_json`.

mod base64;
mod cursor;
mod decoder;
mod number;
mod object;
mod path;
mod time;

pub use decoder::{Appended, JsonDecoder, JsonOptions, Mode};
