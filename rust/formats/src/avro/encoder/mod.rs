//! The encoder: the rows of an Arrow column into Avro values, one behind the other in one buffer.
//!
//! A column is bound to the schema once, which makes a tree of nodes (`bind.rs`); each row is then written along that tree
//! (`node.rs`). What can be known from the types alone is an error of the binding, before the first row.

mod bind;
mod node;
mod numbers;
mod texts;

use arrow_array::{Array, ArrayRef, LargeBinaryArray, new_empty_array};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;

use self::bind::Binder;
use self::node::Node;
use super::error::BadSchema;
use super::framing::WriterKey;
use super::options::AvroOptions;
use super::schema::{AvroSchema, Kind};

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

/// A column that cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unwritable {
    /// Its type is none that the schema takes, whatever is in its rows.
    #[error("{0}")]
    Column(BadSchema),
    /// A row of it is no value of the schema.
    #[error("row {row}: {}{reason}", if path.is_empty() { String::new() } else { format!("{path}: ") })]
    Row {
        /// The first such row.
        row: usize,
        /// The field that the fault was met in, as `items[3].price`; empty if it is the value as a whole.
        path: String,
        /// What is wrong, and what was expected.
        reason: String,
    },
}

impl AvroEncoder {
    /// An encoder for a schema, whose values name it by `key`. The options say what the fields of a union's struct are called.
    pub fn new(schema: AvroSchema, key: WriterKey, options: AvroOptions) -> Self {
        let frame = match key {
            WriterKey::Only => Vec::new(),
            WriterKey::Id(id) => [&[0][..], &id.to_be_bytes()].concat(),
            WriterKey::Guid(guid) => [&[1][..], &guid.to_be_bytes()].concat(),
            WriterKey::Fingerprint(fingerprint) => [&[0xc3, 0x01][..], &fingerprint.to_le_bytes()].concat(),
        };
        let is_confluent = matches!(key, WriterKey::Id(_) | WriterKey::Guid(_));
        let is_raw = is_confluent && matches!(schema.kind(schema.root), Kind::Bytes);
        Self { schema, options, frame, is_raw }
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

    /// The values of a column's rows. A null row is a null, and no value.
    ///
    /// # Errors
    /// [`Unwritable`] if there is a row that cannot be written; then there are no values at all.
    pub fn encode(&self, column: &ArrayRef) -> Result<LargeBinaryArray, Unwritable> {
        let node = self.bind(column)?;
        let rows = column.len();
        let nulls = column.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let mut offsets = Vec::with_capacity(rows + 1);
        let mut values = Vec::with_capacity(rows.saturating_mul(self.frame.len() + 8));
        offsets.push(0);
        for row in 0..rows {
            if row == SAMPLE {
                // What the first rows took, the others are likely to take too. If only these are large, there may be no such
                // room, and none is needed.
                let _ = values.try_reserve((values.len() / SAMPLE).saturating_mul(rows - SAMPLE) / 16 * 17);
            }
            if !nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                values.extend_from_slice(&self.frame);
                node.write(row, &mut values).map_err(|fault| Unwritable::Row {
                    row,
                    path: fault.path,
                    reason: fault.reason,
                })?;
            }
            offsets.push(values.len() as i64);
        }
        Ok(finished(offsets, values, nulls))
    }

    fn bind<'a>(&self, column: &'a ArrayRef) -> Result<Node<'a>, Unwritable> {
        let binder = Binder::new(&self.schema, &self.options);
        let node = binder.root(column).map_err(Unwritable::Column)?;
        Ok(if self.is_raw { node.raw() } else { node })
    }
}

/// How many rows say how many bytes a row takes.
const SAMPLE: usize = 256;

fn finished(offsets: Vec<i64>, values: Vec<u8>, nulls: Option<NullBuffer>) -> LargeBinaryArray {
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    LargeBinaryArray::new(offsets, Buffer::from_vec(values), nulls)
}
