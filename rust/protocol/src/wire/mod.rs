//! The primitive types of the protocol, and the macros that generate messages from tables of fields.

#[cfg(feature = "json")]
pub mod json;
mod reader;
mod spec;
mod table;
#[cfg(test)]
#[expect(unreachable_pub, reason = "tables make public structures")]
mod table_tests;
mod tags;
mod value;
mod varint;
mod writer;

pub use reader::Reader;
pub use writer::Writer;

pub(crate) use spec::{Format, Spec};
pub(crate) use table::{api, message, structure};
pub(crate) use tags::{TagReader, TagWriter};
pub(crate) use value::{Nullable, Value};
