//! Implementations of typed columns, to which the walk over record batches appends, by the decoders.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use monedula_columns::{BadValue, Decoded, Lookup, RecordContext, TypedColumn};

use crate::avro::{AvroAppended, AvroDecoder, BadAvro};
use crate::json::{Appended, JsonDecoder};
use crate::protobuf::{BadProtobuf, ProtobufAppended, ProtobufDecoder};

/// Methods that every decoder has under the same name.
macro_rules! rows {
    () => {
        fn rows(&self) -> usize {
            self.rows()
        }

        fn truncate(&mut self, rows: usize) {
            self.truncate(rows);
        }

        fn bytes(&self) -> usize {
            self.bytes()
        }
    };
}

impl TypedColumn for JsonDecoder {
    fn data_type(&self) -> DataType {
        DataType::Struct(self.fields().clone())
    }

    fn append(&mut self, value: Option<&[u8]>, beside: RecordContext<'_>) -> Result<Decoded, Lookup<BadValue>> {
        match self.append_beside(value, beside) {
            Ok(Appended::Good) => Ok(Decoded::Whole),
            Ok(Appended::Bad(_)) => Ok(Decoded::WithNulls),
            Err(bad) => Err(BadValue::from(bad).into()),
        }
    }

    rows!();

    fn finish(&mut self) -> (ArrayRef, usize) {
        let (array, memory_bytes) = self.finish();
        (Arc::new(array), memory_bytes)
    }
}

impl TypedColumn for AvroDecoder {
    fn data_type(&self) -> DataType {
        self.data_type().clone()
    }

    #[inline]
    fn append(&mut self, value: Option<&[u8]>, beside: RecordContext<'_>) -> Result<Decoded, Lookup<BadValue>> {
        match self.append_beside(value, beside) {
            Ok(AvroAppended::Good) => Ok(Decoded::Whole),
            Ok(AvroAppended::Bad(_)) => Ok(Decoded::WithNulls),
            Err(bad) => Err(self.take_missing().unwrap_or_else(|| BadValue::from(bad).into())),
        }
    }

    rows!();

    fn finish(&mut self) -> (ArrayRef, usize) {
        self.finish()
    }
}

impl TypedColumn for ProtobufDecoder {
    fn data_type(&self) -> DataType {
        self.data_type().clone()
    }

    #[inline]
    fn append(&mut self, value: Option<&[u8]>, beside: RecordContext<'_>) -> Result<Decoded, Lookup<BadValue>> {
        match self.append_beside(value, beside) {
            Ok(ProtobufAppended::Good) => Ok(Decoded::Whole),
            Ok(ProtobufAppended::Bad(_)) => Ok(Decoded::WithNulls),
            Err(bad) => Err(self.take_missing().unwrap_or_else(|| BadValue::from(bad).into())),
        }
    }

    rows!();

    fn finish(&mut self) -> (ArrayRef, usize) {
        self.finish()
    }
}

impl From<BadProtobuf> for BadValue {
    fn from(bad: BadProtobuf) -> Self {
        let (reason, hint) = (bad.reason.to_string(), bad.reason.hint());
        Self { path: bad.path, reason, hint, position: bad.position }
    }
}

impl From<BadAvro> for BadValue {
    fn from(bad: BadAvro) -> Self {
        let (reason, hint) = (bad.reason.to_string(), bad.reason.hint());
        Self { path: bad.path, reason, hint, position: bad.position }
    }
}

impl From<crate::BadValue> for BadValue {
    fn from(bad: crate::BadValue) -> Self {
        let (reason, hint) = (bad.reason.to_string(), bad.reason.hint());
        Self { path: bad.path, reason, hint, position: bad.position }
    }
}
