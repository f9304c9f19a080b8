//! Protobuf to columns, and columns to Protobuf. A descriptor maps fields to columns, and messages are decoded by field
//! number. No message becomes an object, and no descriptor library is linked: descriptors are parsed here.

mod compatibility;
mod decoder;
mod definition;
mod descriptor;
mod encoder;
mod entries;
mod error;
mod framing;
mod options;
mod parsed;
mod plan;
mod resolve;
mod row;
mod scalar;
mod schema;
mod text;
mod types;
mod wire;

pub use decoder::{ProtobufAppended, ProtobufDecoder, ProtobufPlan};
pub use encoder::ProtobufEncoder;
pub use error::{BadProtobuf, ProtobufReason};
pub use options::ProtobufOptions;
pub use parsed::ParsedProtobuf;
pub use schema::{ProtobufFile, ProtobufSchema};
