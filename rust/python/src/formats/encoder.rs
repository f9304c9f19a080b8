//! Encoder of a table's rows, in any format.

use arrow_array::{ArrayRef, LargeBinaryArray};
use arrow_schema::DataType;
use monedula_formats::{AvroEncoder, JsonEncoder, ProtobufEncoder, Unwritable};

#[derive(Clone)]
pub(crate) enum Encoder {
    Avro(AvroEncoder),
    Json(JsonEncoder),
    Protobuf(ProtobufEncoder),
}

pub(crate) enum Content<'e> {
    Value,
    /// A struct with these fields.
    Fields(Vec<&'e str>),
    /// The fields that its column has.
    AnyFields,
}

impl Content<'_> {
    pub(crate) fn has_fields(&self) -> bool {
        !matches!(self, Self::Value)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        matches!(self, Self::Fields(fields) if fields.contains(&name))
    }
}

impl Encoder {
    pub(crate) fn content(&self) -> Content<'_> {
        match self {
            Self::Avro(encoder) => encoder.fields().map_or(Content::Value, Content::Fields),
            Self::Json(encoder) => encoder.fields().map_or(Content::AnyFields, Content::Fields),
            Self::Protobuf(encoder) => Content::Fields(encoder.fields()),
        }
    }

    /// Refuses columns of types that cannot be written.
    pub(crate) fn check(&self, data_type: &DataType) -> Result<(), Unwritable> {
        match self {
            Self::Avro(encoder) => encoder.check(data_type),
            Self::Json(encoder) => encoder.check(data_type),
            Self::Protobuf(encoder) => encoder.check(data_type),
        }
    }

    pub(crate) fn frame(&self) -> &[u8] {
        match self {
            Self::Avro(encoder) => encoder.frame(),
            Self::Json(encoder) => encoder.frame(),
            Self::Protobuf(encoder) => encoder.frame(),
        }
    }

    /// Takes the frame away: see [`AvroEncoder::take_frame`].
    pub(crate) fn take_frame(&mut self) -> Vec<u8> {
        match self {
            Self::Avro(encoder) => encoder.take_frame(),
            Self::Json(encoder) => encoder.take_frame(),
            Self::Protobuf(encoder) => encoder.take_frame(),
        }
    }

    pub(crate) fn encode(&self, column: &ArrayRef) -> Result<LargeBinaryArray, Unwritable> {
        match self {
            Self::Avro(encoder) => encoder.encode(column),
            Self::Json(encoder) => encoder.encode(column),
            Self::Protobuf(encoder) => encoder.encode(column),
        }
    }
}
