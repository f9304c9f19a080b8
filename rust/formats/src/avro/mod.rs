//! Avro to columns, with the semantics of Spark's `from_avro`, and columns to Avro. A writer's schema is resolved to
//! the reader's once, into a plan, and each value is decoded along that plan.

mod canonical;
mod compatibility;
mod cursor;
mod decoder;
mod defaults;
mod encoder;
mod error;
mod framing;
mod options;
mod plan;
mod row;
mod schema;
mod shape;
mod stable;

pub use decoder::{AvroAppended, AvroDecoder, AvroPlan};
pub use encoder::AvroEncoder;
pub(crate) use error::bad;
pub use error::{AvroReason, BadAvro, BadSchema};
pub use framing::{Framing, WriterKey};
pub(crate) use framing::{Named, Unframed};
pub use options::AvroOptions;
pub use schema::AvroSchema;
pub use stable::stable_text;
