//! Base of all encoders: access to the rows of any Arrow array, and errors of rows that cannot be encoded.
//!
//! An encoder binds a column to a type once; faults that the types reveal are found by the binding, before the first
//! row. Then every row is written to one buffer. Every conversion is exact, or an error.

mod entries;
mod meaning;
mod numbers;
mod texts;

use arrow_array::{Array, ArrayRef, LargeBinaryArray, StructArray};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use monedula_columns::refusable;

pub(crate) use self::entries::{Entries, Keys};
pub use self::meaning::Meaning;
pub(crate) use self::meaning::{UUID_TEXT_BYTES, uuid_text};
pub(crate) use self::numbers::{Decimals, Floats, Ints, Times, beyond, units};
pub(crate) use self::texts::{Bounds, Texts, indexed};
use crate::avro::{BadSchema, WriterKey, bad};
use crate::error::{below, prefix};

/// Error of a column that cannot be encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unwritable {
    /// Column of a type that the schema does not accept, whatever is in its rows.
    #[error("{0}")]
    Column(BadSchema),
    /// Row that is no value of the schema.
    #[error("row {row}: {}{reason}", if path.is_empty() { String::new() } else { format!("{path}: ") })]
    Row {
        /// First such row.
        row: usize,
        /// Path of the field with the fault, like `items[3].price`; empty if the value as a whole is bad.
        path: String,
        /// Description of the fault, and what was expected.
        reason: String,
    },
}

/// Fault of a row that is passed up through nested values, each of which prepends its part of the path.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) path: String,
    pub(crate) reason: String,
}

pub(crate) type Written<T = ()> = Result<T, Box<Fault>>;

impl Fault {
    #[cold]
    pub(crate) fn new(reason: impl Into<String>) -> Box<Self> {
        Box::new(Self { path: String::new(), reason: reason.into() })
    }

    #[cold]
    pub(crate) fn within(mut self: Box<Self>, place: &str) -> Box<Self> {
        prefix(&mut self.path, place);
        self
    }

    /// Prepends an element's index to the path.
    #[cold]
    pub(crate) fn at(self: Box<Self>, index: usize) -> Box<Self> {
        self.within(&format!("[{index}]"))
    }

    /// Prepends a map key to the path.
    #[cold]
    pub(crate) fn under(self: Box<Self>, key: &[u8]) -> Box<Self> {
        self.within(&format!("[{:?}]", String::from_utf8_lossy(key)))
    }
}

/// Methods of an encoder, which holds a `frame` and binds columns.
macro_rules! encoder_methods {
    () => {
        /// Checks that columns of this type can be encoded.
        ///
        /// # Errors
        /// [`Unwritable::Column`] if they cannot.
        pub fn check(&self, data_type: &arrow_schema::DataType) -> Result<(), Unwritable> {
            self.bind(&arrow_array::new_empty_array(data_type)).map(drop)
        }

        /// Frame before each value, which names its schema.
        pub fn frame(&self) -> &[u8] {
            &self.frame
        }

        /// Takes the frame away: values are written without it from now on, and it stands in a header.
        pub fn take_frame(&mut self) -> Vec<u8> {
            std::mem::take(&mut self.frame)
        }

        /// Values of a column's rows. A null row becomes null, and no value of the format.
        ///
        /// # Errors
        /// [`Unwritable`] if any row cannot be encoded; then no values are returned.
        pub fn encode(&self, column: &ArrayRef) -> Result<arrow_array::LargeBinaryArray, Unwritable> {
            let bound = self.bind(column)?;
            $crate::writing::values(column, &self.frame, |row, out| bound.write(row, out))
        }
    };
}

pub(crate) use encoder_methods;

/// Number of rows that the size of a row is estimated from.
const SAMPLE: usize = 256;

/// Values of a column's rows, each behind a frame; an error for the first that cannot be encoded. A null row becomes
/// null.
pub(crate) fn values(
    column: &ArrayRef,
    frame: &[u8],
    write: impl Fn(usize, &mut Vec<u8>) -> Written,
) -> Result<LargeBinaryArray, Unwritable> {
    let rows = column.len();
    let nulls = column.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    let mut offsets = Vec::with_capacity(rows + 1);
    let mut values = Vec::with_capacity(rows.saturating_mul(frame.len() + 8));
    offsets.push(0);
    for row in 0..rows {
        if row == SAMPLE {
            // Reserve room as if the other rows took as much as the first ones. A failure is ignored: if only the first
            // ones are large, no such room is needed.
            let more = (values.len() / SAMPLE).saturating_mul(rows - SAMPLE) / 16 * 17;
            let _ = refusable(|| values.try_reserve(more));
        }
        if !nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            values.extend_from_slice(frame);
            write(row, &mut values).map_err(|fault| Unwritable::Row { row, path: fault.path, reason: fault.reason })?;
        }
        offsets.push(values.len() as i64);
    }
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    Ok(LargeBinaryArray::new(offsets, Buffer::from_vec(values), nulls))
}

/// Replaces the frame of each value by one of the same length.
pub fn with_frame(values: LargeBinaryArray, frame: &[u8]) -> LargeBinaryArray {
    let (offsets, values, nulls) = values.into_parts();
    let mut values = values.into_vec().unwrap_or_else(|shared| shared.to_vec());
    for row in offsets.windows(2) {
        let value = values.get_mut(row[0] as usize..row[1] as usize);
        // Nulls have no bytes, hence no frame.
        if let Some(framed) = value.and_then(|value| value.get_mut(..frame.len())) {
            framed.copy_from_slice(frame);
        }
    }
    LargeBinaryArray::new(offsets, Buffer::from_vec(values), nulls)
}

/// Refuses columns of a struct that are none of `fields`, or that share a name.
pub(crate) fn check_columns(of: &str, fields: &[&str], structs: &StructArray, path: &str) -> Result<(), BadSchema> {
    let columns = structs.column_names();
    for (index, column) in columns.iter().enumerate() {
        if !fields.contains(column) {
            let known = fields.join(", ");
            let reason = format!("{of} has no such field, only {known}; drop the column, or add the field");
            return Err(bad(&below(path, column), reason));
        }
        if columns[..index].contains(column) {
            return Err(bad(&below(path, column), "there are two columns of this name"));
        }
    }
    Ok(())
}

/// Frame before each value, which names its schema.
pub(crate) fn frame(key: WriterKey) -> Vec<u8> {
    match key {
        WriterKey::Only => Vec::new(),
        WriterKey::Id(id) => [&[0][..], &id.to_be_bytes()].concat(),
        WriterKey::Apicurio(id) | WriterKey::GlobalId(id) => [&[0][..], &id.to_be_bytes()].concat(),
        WriterKey::Guid(guid) => [&[1][..], &guid.to_be_bytes()].concat(),
        WriterKey::Fingerprint(fingerprint) => [&[0xc3, 0x01][..], &fingerprint.to_le_bytes()].concat(),
    }
}
