//! What all encoders share: the rows of Arrow columns, whatever arrays hold them, and what becomes of one that cannot be
//! written.
//!
//! An encoder binds a column to a type once; what can be known from the types alone is an error of the binding, before the
//! first row. Then every row is written, one behind the other in one buffer. Every conversion is exact, or an error.

mod entries;
mod meaning;
mod numbers;
mod texts;

use arrow_array::{Array, ArrayRef, LargeBinaryArray};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};

pub(crate) use self::entries::{Entries, Keys};
pub use self::meaning::Meaning;
pub(crate) use self::meaning::{UUID_TEXT_BYTES, uuid_text};
pub(crate) use self::numbers::{Decimals, Floats, Ints, Times, beyond, units};
pub(crate) use self::texts::{Bounds, Texts, placed};
use crate::avro::{BadSchema, WriterKey};
use crate::error::prefix;

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

/// Why a row cannot be written, on its way out of nested values.
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

    /// In the element of this number.
    #[cold]
    pub(crate) fn at(self: Box<Self>, index: usize) -> Box<Self> {
        self.within(&format!("[{index}]"))
    }

    /// In the entry of a map with this key.
    #[cold]
    pub(crate) fn under(self: Box<Self>, key: &[u8]) -> Box<Self> {
        self.within(&format!("[{:?}]", String::from_utf8_lossy(key)))
    }
}

/// How many rows say how many bytes a row takes.
const SAMPLE: usize = 256;

/// The values of a column's rows, each behind a frame. A null row is a null, and no value.
///
/// # Errors
/// [`Unwritable::Row`] for the first row that cannot be written; then there are no values at all.
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
            // What the first rows took, the others are likely to take too. If only these are large, there may be no such
            // room, and none is needed.
            let _ = values.try_reserve((values.len() / SAMPLE).saturating_mul(rows - SAMPLE) / 16 * 17);
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

/// The values with this frame in place of theirs, which is as long.
pub fn with_frame(values: LargeBinaryArray, frame: &[u8]) -> LargeBinaryArray {
    let (offsets, values, nulls) = values.into_parts();
    let mut values = values.into_vec().unwrap_or_else(|shared| shared.to_vec());
    for row in offsets.windows(2) {
        let value = values.get_mut(row[0] as usize..row[1] as usize);
        // A null has no bytes, and no frame.
        if let Some(framed) = value.and_then(|value| value.get_mut(..frame.len())) {
            framed.copy_from_slice(frame);
        }
    }
    LargeBinaryArray::new(offsets, Buffer::from_vec(values), nulls)
}

/// The path of a field in a struct that has this path.
pub(crate) fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// A column that does not fit: where, and why.
pub(crate) fn bad(path: &str, reason: impl Into<String>) -> BadSchema {
    BadSchema::new(path, reason)
}

/// What stands before each value, by which it names its schema.
pub(crate) fn frame(key: WriterKey) -> Vec<u8> {
    match key {
        WriterKey::Only => Vec::new(),
        WriterKey::Id(id) => [&[0][..], &id.to_be_bytes()].concat(),
        WriterKey::Apicurio(id) | WriterKey::GlobalId(id) => [&[0][..], &id.to_be_bytes()].concat(),
        WriterKey::Guid(guid) => [&[1][..], &guid.to_be_bytes()].concat(),
        WriterKey::Fingerprint(fingerprint) => [&[0xc3, 0x01][..], &fingerprint.to_le_bytes()].concat(),
    }
}
