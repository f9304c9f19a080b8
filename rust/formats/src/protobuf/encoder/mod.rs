//! Protobuf encoder: rows of an Arrow column become messages.
//!
//! A column is bound to the schema's message (`bind.rs`), and each row is written along the resulting tree of fields
//! (`node.rs`), in the order of field numbers, as Google's serializers write them.

mod bind;
mod node;

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use self::bind::Binder;
use self::node::Root;
use super::schema::ProtobufSchema;
use crate::avro::WriterKey;
use crate::datum::{BadDatum, Datum, column, first};
use crate::varint::put_zigzag;
use crate::writing::{Unwritable, encoder_methods, frame};

/// Encodes the rows of columns as messages of one schema.
#[derive(Debug, Clone)]
pub struct ProtobufEncoder {
    schema: ProtobufSchema,
    frame: Vec<u8>,
    /// Signed columns are taken for unsigned numbers of the same bits.
    unsigned_as_signed: bool,
}

impl ProtobufEncoder {
    /// Makes an encoder for a schema's message. The frame of each value names the schema by `key`, followed by the
    /// message's indexes in its file, as by Confluent's serializers.
    pub fn new(schema: ProtobufSchema, key: WriterKey) -> Self {
        let mut frame = frame(key);
        if key != WriterKey::Only {
            match schema.indexes() {
                [0] => frame.push(0),
                indexes => {
                    put_zigzag(indexes.len() as i64, &mut frame);
                    indexes.iter().for_each(|index| put_zigzag((*index).into(), &mut frame));
                }
            }
        }
        Self { schema, frame, unsigned_as_signed: false }
    }

    /// Takes int32 and int64 columns for unsigned numbers of the same bits, as they are decoded with the option
    /// `unsigned.as.signed`.
    #[must_use]
    pub fn with_unsigned_as_signed(self, unsigned_as_signed: bool) -> Self {
        Self { unsigned_as_signed, ..self }
    }

    /// Names of the message's fields.
    pub fn fields(&self) -> Vec<&str> {
        self.schema.messages[self.schema.root].fields.iter().map(|field| &*field.name).collect()
    }

    encoder_methods!();

    /// One message behind its frame, from a value for a column of this type, that of the message's columns.
    ///
    /// # Errors
    /// The field that is no value of the schema.
    pub fn encode_datum(&self, datum: &Datum, data_type: &DataType) -> Result<Vec<u8>, BadDatum> {
        let column = column(data_type, &[datum])?;
        first(self.encode(&column)?)
    }

    /// Bytes of a message that another encoder has written, behind the frame.
    pub fn framed(&self, message: &[u8]) -> Vec<u8> {
        [&self.frame, message].concat()
    }

    /// Full name of the message.
    pub fn message(&self) -> &str {
        self.schema.message()
    }

    fn bind<'a>(&self, column: &'a ArrayRef) -> Result<Root<'a>, Unwritable> {
        Binder { schema: &self.schema, unsigned_as_signed: self.unsigned_as_signed }
            .root(column)
            .map_err(Unwritable::Column)
    }
}
