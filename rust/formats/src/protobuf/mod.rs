//! Protobuf into columns, and out of columns: a descriptor says which field goes where, and messages are decoded by the numbers of their
//! fields. No message becomes an object, and no library of descriptors is linked: what is read of them is read here.

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
mod wanted;
mod wire;

pub use decoder::{ProtobufAppended, ProtobufDecoder, ProtobufPlan};
pub use encoder::ProtobufEncoder;
pub use error::{BadProtobuf, ProtobufReason};
pub use options::ProtobufOptions;
pub use parsed::ParsedProtobuf;
pub use schema::{ProtobufFile, ProtobufSchema};
