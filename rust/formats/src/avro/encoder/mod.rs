//! Avro encoder: rows of an Arrow column become Avro values in one buffer.
//!
//! A column is bound to the schema once, as a tree of nodes (`bind.rs`); each row is then written along that tree
//! (`node.rs`). Faults that the types reveal are found by the binding, before the first row.

mod bind;
mod datum;
mod node;

use arrow_array::ArrayRef;

use self::bind::Binder;
use self::datum::DatumWriter;
use self::node::Node;
use super::framing::WriterKey;
use super::options::AvroOptions;
use super::schema::{AvroSchema, Kind};
use crate::datum::{BadDatum, Datum};
use crate::writing::{Unwritable, encoder_methods, frame};

/// Encodes the rows of columns as Avro values of one schema.
#[derive(Debug, Clone)]
pub struct AvroEncoder {
    schema: AvroSchema,
    options: AvroOptions,
    frame: Vec<u8>,
    /// True if the value is bytes without their length, as Confluent's serializers write top-level bytes.
    is_raw: bool,
}

impl AvroEncoder {
    /// Makes an encoder for a schema. The frame of each value names the schema by `key`. The options determine the
    /// names of the fields of a union's struct.
    pub fn new(schema: AvroSchema, key: WriterKey, options: AvroOptions) -> Self {
        let is_confluent = matches!(key, WriterKey::Id(_) | WriterKey::Guid(_));
        let is_raw = is_confluent && matches!(schema.kind(schema.root), Kind::Bytes);
        Self { schema, options, frame: frame(key), is_raw }
    }

    /// Names of the fields, if the schema is a record.
    pub fn fields(&self) -> Option<Vec<&str>> {
        match self.schema.kind(self.schema.root) {
            Kind::Record { fields, .. } => Some(fields.iter().map(|field| &*field.name).collect()),
            _ => None,
        }
    }

    encoder_methods!();

    /// One value behind its frame.
    ///
    /// # Errors
    /// The field that is no value of the schema.
    pub fn encode_datum(&self, datum: &Datum) -> Result<Vec<u8>, BadDatum> {
        let mut out = self.frame.clone();
        if let (true, Datum::Bytes(bytes)) = (self.is_raw, datum) {
            out.extend_from_slice(bytes);
            return Ok(out);
        }
        DatumWriter::new(&self.schema).write(self.schema.root, datum, &mut out, 0)?;
        Ok(out)
    }

    fn bind<'a>(&self, column: &'a ArrayRef) -> Result<Node<'a>, Unwritable> {
        let binder = Binder::new(&self.schema, &self.options);
        let node = binder.root(column).map_err(Unwritable::Column)?;
        Ok(if self.is_raw { node.raw() } else { node })
    }
}
