//! Implementations of typed columns, to which the walk over record batches appends, by the decoders.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use monedula_columns::{BadValue, Decoded, Lookup, RecordContext, TypedColumn};

use crate::avro::{AvroDecoder, AvroReason};
use crate::error::{self, Reason};
use crate::json::JsonDecoder;
use crate::protobuf::{ProtobufDecoder, ProtobufReason};

/// Result of appending a value to a decoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Appended<R = Reason> {
    /// Row without a fault.
    Good,
    /// Row with nulls where the value is bad; holds the first fault.
    Bad(error::ValueFault<R>),
}

impl<R> From<Appended<R>> for Decoded {
    #[inline]
    fn from(appended: Appended<R>) -> Self {
        match appended {
            Appended::Good => Self::Whole,
            Appended::Bad(_) => Self::WithNulls,
        }
    }
}

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

        fn extend(&mut self, array: &dyn Array, rows: Range<usize>) {
            self.extend(array, rows);
        }
    };
}

impl TypedColumn for JsonDecoder {
    fn data_type(&self) -> DataType {
        DataType::Struct(self.fields().clone())
    }

    fn append(&mut self, value: Option<&[u8]>, beside: RecordContext<'_>) -> Result<Decoded, Lookup<BadValue>> {
        let appended = self.append_beside(value, beside).map(Decoded::from);
        appended.map_err(|bad| BadValue::from(bad).into())
    }

    rows!();

    fn finish(&mut self) -> (ArrayRef, usize) {
        let (array, memory_bytes) = self.finish();
        (Arc::new(array), memory_bytes)
    }
}

/// Columns of decoders that may wait for a writer's schema.
macro_rules! typed_columns {
    ($($decoder:ty),*) => {
        $(
            impl TypedColumn for $decoder {
                fn data_type(&self) -> DataType {
                    self.data_type().clone()
                }

                #[inline]
                fn append(
                    &mut self,
                    value: Option<&[u8]>,
                    beside: RecordContext<'_>,
                ) -> Result<Decoded, Lookup<BadValue>> {
                    let appended = self.append_beside(value, beside).map(Decoded::from);
                    appended.map_err(|bad| self.take_missing().unwrap_or_else(|| BadValue::from(bad).into()))
                }

                rows!();

                fn finish(&mut self) -> (ArrayRef, usize) {
                    self.finish()
                }
            }
        )*
    };
}

typed_columns!(AvroDecoder, ProtobufDecoder);

macro_rules! bad_values {
    ($($reason:ty),*) => {
        $(
            impl From<error::ValueFault<$reason>> for BadValue {
                fn from(bad: error::ValueFault<$reason>) -> Self {
                    let (reason, hint) = (bad.reason.to_string(), bad.reason.hint());
                    Self { path: bad.path, reason, hint, position: bad.position }
                }
            }
        )*
    };
}

bad_values!(Reason, AvroReason, ProtobufReason);
