//! The encoder: the rows of an Arrow column into Avro values, one behind the other in one buffer.
//!
//! A column is bound to the schema once, which makes a tree of nodes (`bind.rs`); each row is then written along that tree
//! (`node.rs`). What can be known from the types alone is an error of the binding, before the first row.

mod bind;
mod node;

use arrow_array::{ArrayRef, LargeBinaryArray, new_empty_array};
use arrow_schema::DataType;

use self::bind::Binder;
use self::node::Node;
use super::framing::WriterKey;
use super::options::AvroOptions;
use super::schema::{AvroSchema, Kind};
use crate::writing::{Unwritable, frame, values};

/// Writes the rows of columns as Avro values of one schema.
#[derive(Debug, Clone)]
pub struct AvroEncoder {
    schema: AvroSchema,
    options: AvroOptions,
    /// What stands before each value.
    frame: Vec<u8>,
    /// Whether the value is bytes without their length, as Confluent's serializers write bytes that are not in a record.
    is_raw: bool,
}

impl AvroEncoder {
    /// An encoder for a schema, whose values name it by `key`. The options say what the fields of a union's struct are called.
    pub fn new(schema: AvroSchema, key: WriterKey, options: AvroOptions) -> Self {
        let is_confluent = matches!(key, WriterKey::Id(_) | WriterKey::Guid(_));
        let is_raw = is_confluent && matches!(schema.kind(schema.root), Kind::Bytes);
        Self { schema, options, frame: frame(key), is_raw }
    }

    /// The names of the fields, if the schema is that of a record.
    pub fn fields(&self) -> Option<Vec<&str>> {
        match self.schema.kind(self.schema.root) {
            Kind::Record { fields, .. } => Some(fields.iter().map(|field| &*field.name).collect()),
            _ => None,
        }
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
        let node = self.bind(column)?;
        values(column, &self.frame, |row, out| node.write(row, out))
    }

    fn bind<'a>(&self, column: &'a ArrayRef) -> Result<Node<'a>, Unwritable> {
        let binder = Binder::new(&self.schema, &self.options);
        let node = binder.root(column).map_err(Unwritable::Column)?;
        Ok(if self.is_raw { node.raw() } else { node })
    }
}
