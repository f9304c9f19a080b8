//! The encoder: the rows of an Arrow column into messages.
//!
//! A column is bound to the schema's message (`bind.rs`), and each row is written along the tree of fields that this makes
//! (`node.rs`), in the order of their numbers, as Google's serializers write them.

mod bind;
mod node;

use arrow_array::{ArrayRef, LargeBinaryArray, new_empty_array};
use arrow_schema::DataType;

use self::bind::Binder;
use self::node::Root;
use super::schema::ProtobufSchema;
use crate::avro::WriterKey;
use crate::varint::put_zigzag;
use crate::writing::{Unwritable, frame, values};

/// Writes the rows of columns as messages of one schema.
#[derive(Debug, Clone)]
pub struct ProtobufEncoder {
    schema: ProtobufSchema,
    /// What stands before each message.
    frame: Vec<u8>,
    /// Whether signed columns are unsigned numbers of the same bits.
    unsigned_as_signed: bool,
}

impl ProtobufEncoder {
    /// An encoder for a schema's message, whose values name it by `key`, as Confluent's serializers do: behind it stands the
    /// place of the message in its file.
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

    /// The same for columns that were read with the option `unsigned.as.signed`, or not: int32 and int64 are then unsigned
    /// numbers of the same bits.
    #[must_use]
    pub fn with_unsigned_as_signed(self, unsigned_as_signed: bool) -> Self {
        Self { unsigned_as_signed, ..self }
    }

    /// The names of the message's fields.
    pub fn fields(&self) -> Vec<&str> {
        self.schema.messages[self.schema.root].fields.iter().map(|field| &*field.name).collect()
    }

    /// Whether columns of this type can be written.
    ///
    /// # Errors
    /// [`Unwritable::Column`] if not.
    pub fn check(&self, data_type: &DataType) -> Result<(), Unwritable> {
        self.bind(&new_empty_array(data_type)).map(drop)
    }

    /// What stands before each value, by which it names its schema.
    pub fn frame(&self) -> &[u8] {
        &self.frame
    }

    /// The values of a column's rows. A null row is a null, and no value.
    ///
    /// # Errors
    /// [`Unwritable`] if there is a row that cannot be written; then there are no values at all.
    pub fn encode(&self, column: &ArrayRef) -> Result<LargeBinaryArray, Unwritable> {
        let root = self.bind(column)?;
        values(column, &self.frame, |row, out| root.write(row, out))
    }

    fn bind<'a>(&self, column: &'a ArrayRef) -> Result<Root<'a>, Unwritable> {
        Binder { schema: &self.schema, unsigned_as_signed: self.unsigned_as_signed }
            .root(column)
            .map_err(Unwritable::Column)
    }
}
