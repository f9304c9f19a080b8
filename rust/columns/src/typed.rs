//! Typed columns: keys and values decoded into Arrow columns that replace the binary ones, and the treatment of records
//! whose key or value cannot be decoded.
//!
//! Decoders live in other crates, behind the trait [`TypedColumn`].

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use monedula_protocol::records::RawRecord;

use crate::batch::ColumnBatch;
use crate::builder::BatchBuilder;
use crate::decoded::DecodedSegment;
use crate::filter::{RecordFilter, last_header};
use crate::lookup::Lookup;
use crate::pool::BufferPool;
use crate::schema::ColumnSet;

/// A column of decoded values while it grows.
pub trait TypedColumn: Send {
    /// The type of the finished column.
    fn data_type(&self) -> DataType;

    /// Appends a value as a row; `None` for a record without one. Unwinds with [`OutOfMemory`](crate::OutOfMemory) if
    /// there is no memory. `beside` is the rest of the record: a header may name the value's schema.
    ///
    /// # Errors
    /// `Ready` with the fault of a value that cannot be decoded: [`OnBadValue`] decides about its record. Else the
    /// lookup that decoding needs, pending or without an answer: the walk stops before the record under every
    /// [`OnBadValue`]. Nothing is appended then.
    fn append(&mut self, value: Option<&[u8]>, beside: RecordContext<'_>) -> Result<Decoded, Lookup<BadValue>>;

    /// Number of rows so far.
    fn rows(&self) -> usize;

    /// Cuts the column back to `rows` rows.
    fn truncate(&mut self, rows: usize);

    /// Size of the rows so far in Arrow's layout, in bytes.
    fn bytes(&self) -> usize;

    /// Finishes the rows as an array and returns the bytes of memory that it holds; leaves an empty column.
    fn finish(&mut self) -> (ArrayRef, usize);

    /// Appends rows of an array that another column of the same [`TypedSpec`] has finished. Unwinds with
    /// [`OutOfMemory`](crate::OutOfMemory) if there is no memory.
    fn extend(&mut self, array: &dyn Array, rows: Range<usize>);
}

/// Record around a key or value that is decoded: its headers, and the choice between key and value.
#[derive(Debug, Clone, Copy)]
pub struct RecordContext<'r> {
    is_key: bool,
    /// Headers in the record's encoding: their count, then each of them.
    headers: &'r [u8],
}

impl<'r> RecordContext<'r> {
    /// Context of a value outside any record.
    pub const NOTHING: RecordContext<'static> = RecordContext { is_key: false, headers: &[0] };

    pub(crate) fn new(is_key: bool, headers: &'r [u8]) -> Self {
        Self { is_key, headers }
    }

    /// Header in which Confluent's serializers put the schema id of the key or value. The last one counts, as with
    /// their deserializers.
    #[inline(always)]
    pub fn schema_id(self) -> Option<&'r [u8]> {
        if self.headers.len() <= 1 {
            None
        } else {
            self.last(if self.is_key { KEY_SCHEMA_ID } else { VALUE_SCHEMA_ID })
        }
    }

    /// Value of the header `of_key` for a key, `of_value` for a value. The last one counts.
    pub fn header(self, of_key: &str, of_value: &str) -> Option<&'r [u8]> {
        self.last(if self.is_key { of_key } else { of_value }.as_bytes())
    }

    /// Truncated headers give `None` without an error: the walk checks headers if their column is selected.
    #[inline(never)]
    fn last(self, name: &[u8]) -> Option<&'r [u8]> {
        last_header(self.headers, name).ok().flatten()
    }
}

const KEY_SCHEMA_ID: &[u8] = b"__key_schema_id";
const VALUE_SCHEMA_ID: &[u8] = b"__value_schema_id";

/// Result of decoding a value into a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded {
    /// Row without a fault.
    Whole,
    /// Row with nulls in place of the value or fields that are bad.
    WithNulls,
}

/// A value that cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{reason} (byte {position})", if path.is_empty() { String::new() } else { format!("{path}: ") })]
pub struct BadValue {
    /// Path of the field with the fault, like `items[3].price`; empty if the value as a whole is bad.
    pub path: String,
    /// Description of the fault.
    pub reason: String,
    /// Advice on what to ask for instead; Python's arguments are in backticks, since a command line and Spark have others.
    pub hint: Option<&'static str>,
    /// Position of the fault, in bytes from the start of the value.
    pub position: usize,
}

impl BadValue {
    /// The reason and the hint, for a dead letter, whose reader has no attributes.
    pub fn reason_and_hint(&self) -> String {
        match self.hint {
            Some(hint) => format!("{}; {}", self.reason, hint.replace('`', "")),
            None => self.reason.clone(),
        }
    }
}

/// Treatment of a record whose key or value cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnBadValue {
    /// Stop the walk at it.
    Fail,
    /// Append no row, and count it.
    Drop,
    /// Append no row, and keep the record's bytes beside the batch.
    Refuse,
}

/// Constructor of a typed column in a pool's memory.
pub type MakeTyped = dyn Fn(&BufferPool) -> Box<dyn TypedColumn> + Send + Sync;

/// Decoding of a column.
#[derive(Clone)]
pub struct TypedSpec {
    /// Constructor of the column; each builder of batches has its own column.
    pub make: Arc<MakeTyped>,
    /// Treatment of bad values.
    pub on_bad: OnBadValue,
    /// Replaces a struct column by its fields, as columns of the batch.
    pub flatten: bool,
}

impl fmt::Debug for TypedSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { on_bad, flatten, .. } = self;
        formatter.debug_struct("TypedSpec").field("on_bad", on_bad).field("flatten", flatten).finish_non_exhaustive()
    }
}

/// Choice of a batch's columns and rows, and the decoding of keys and values. Without a spec they are binary.
#[derive(Debug, Clone, Default)]
pub struct BatchColumns {
    /// The columns.
    pub set: ColumnSet,
    /// Decoding of keys.
    pub key: Option<TypedSpec>,
    /// Decoding of values.
    pub value: Option<TypedSpec>,
    /// Condition that records must meet.
    pub filter: Option<Arc<RecordFilter>>,
}

impl From<ColumnSet> for BatchColumns {
    fn from(set: ColumnSet) -> Self {
        Self { set, key: None, value: None, filter: None }
    }
}

/// Reason why columns cannot be combined in a batch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlattenError {
    /// Column to be flattened that is not a struct.
    #[error("{0} is not decoded to a struct, so it has no fields to put beside the other columns; leave flatten out")]
    NotAStruct(&'static str),
    /// Field with the name of one of Kafka's columns, or of a field of the other struct.
    #[error(
        "the field {name:?} of {column} has the name of {other}; leave flatten out, so that {column} is a struct, or \
         leave the field out of its schema"
    )]
    Collision {
        /// The column.
        column: &'static str,
        /// The field.
        name: String,
        /// Owner of the same name.
        other: &'static str,
    },
}

impl BatchColumns {
    /// Returns true if keys or values are decoded.
    pub fn is_typed(&self) -> bool {
        self.key.is_some() || self.value.is_some()
    }

    /// Checks that these columns can make up a batch. With a struct's fields beside Kafka's columns, no two columns may
    /// share a name. Nor may a field have the name of a Kafka column that was left out, since readers find these by
    /// name.
    ///
    /// # Errors
    /// Column that cannot be flattened, or the names that collide.
    pub fn check(&self, pool: &BufferPool) -> Result<(), FlattenError> {
        let mut names: Vec<(String, &'static str)> = Vec::new();
        for (column, spec) in [("key", &self.key), ("value", &self.value)] {
            let Some(spec) = spec.as_ref().filter(|spec| spec.flatten) else { continue };
            let DataType::Struct(fields) = (spec.make)(pool).data_type() else {
                return Err(FlattenError::NotAStruct(column));
            };
            for field in &fields {
                let name = field.name().clone();
                let kafka = ColumnSet::NAMES.contains(&name.as_str()).then_some("a column of Kafka's");
                let other = names.iter().find(|(known, _)| *known == name).map(|(_, column)| *column);
                if let Some(other) = kafka.or(other) {
                    return Err(FlattenError::Collision { column, name, other });
                }
                names.push((name, column));
            }
        }
        Ok(())
    }
}

/// Reason why a record has no row: its key or value cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// `key` or `value`.
    pub column: &'static str,
    /// Fault of its value.
    pub bad: BadValue,
    /// Number of the batch's rows that come before the record.
    pub row: usize,
}

/// Records without a row in a batch, with their bytes.
#[derive(Debug, Clone)]
pub struct RefusedRows {
    /// The records, with every column, keys and values binary.
    pub rows: ColumnBatch,
    /// Reason for each of them.
    pub causes: Vec<Cause>,
}

/// Column without a row, the treatment of its bad values, and the fault or the lookup that is missing.
pub(crate) type Undecoded = (&'static str, OnBadValue, Lookup<BadValue>);

pub(crate) struct TypedField {
    pub(crate) column: Box<dyn TypedColumn>,
    pub(crate) on_bad: OnBadValue,
    flatten: bool,
}

/// Typed columns of a builder, and the counts and records of bad values since the last batch.
pub(crate) struct TypedColumns {
    pub(crate) key: Option<TypedField>,
    pub(crate) value: Option<TypedField>,
    /// Builder of the refused records' batch, made for the first of them.
    pub(crate) refused: Option<Box<BatchBuilder>>,
    pub(crate) causes: Vec<Cause>,
    /// Offsets of the records that were dropped.
    pub(crate) dropped: Vec<i64>,
    pub(crate) with_nulls: usize,
}

impl TypedColumns {
    /// Returns `None` if no column is typed.
    pub(crate) fn new(columns: &BatchColumns, pool: &BufferPool) -> Option<Self> {
        let field = |spec: &Option<TypedSpec>, column| {
            let spec = spec.as_ref().filter(|_| columns.set.contains(column))?;
            Some(TypedField { column: (spec.make)(pool), on_bad: spec.on_bad, flatten: spec.flatten })
        };
        let (key, value) = (field(&columns.key, ColumnSet::KEY), field(&columns.value, ColumnSet::VALUE));
        let none = key.is_none() && value.is_none();
        let typed = Self { key, value, refused: None, causes: Vec::new(), dropped: Vec::new(), with_nulls: 0 };
        if none { None } else { Some(typed) }
    }

    /// Typed column that replaces this one.
    pub(crate) fn of(&self, column: ColumnSet) -> Option<&TypedField> {
        match column {
            ColumnSet::KEY => self.key.as_ref(),
            ColumnSet::VALUE => self.value.as_ref(),
            _ => None,
        }
    }

    /// Number of rows so far.
    pub(crate) fn rows(&self) -> usize {
        [&self.value, &self.key].into_iter().flatten().next().map_or(0, |field| field.column.rows())
    }

    /// Bytes of the rows so far, and of the refused records.
    pub(crate) fn bytes(&self) -> usize {
        let fields = [&self.key, &self.value].into_iter().flatten();
        fields.map(|field| field.column.bytes()).sum::<usize>() + self.refused.as_ref().map_or(0, |rows| rows.bytes())
    }

    /// Decodes a record's key and value as a row. Returns true if neither has a null in place of a fault. After an
    /// error, the columns have to be truncated.
    #[inline]
    pub(crate) fn append(&mut self, record: &RawRecord<'_>) -> Result<bool, Undecoded> {
        let Self { key, value, .. } = self;
        let decode = |name, field: &mut Option<TypedField>, bytes| {
            let Some(field) = field else { return Ok(Decoded::Whole) };
            let beside = RecordContext::new(name == "key", record.headers);
            field.column.append(bytes, beside).map_err(|bad| (name, field.on_bad, bad))
        };
        let decoded = (decode("value", value, record.value)?, decode("key", key, record.key)?);
        Ok(decoded == (Decoded::Whole, Decoded::Whole))
    }

    /// Appends rows that were decoded ahead.
    pub(crate) fn extend(&mut self, decoded: &DecodedSegment, rows: Range<usize>) {
        let fields = [(&mut self.key, &decoded.key), (&mut self.value, &decoded.value)];
        for (field, array) in fields {
            if let (Some(field), Some(array)) = (field, array) {
                field.column.extend(array, rows.clone());
            }
        }
    }

    /// Finishes the rows of a segment that are decoded ahead: the key and the value, and the bytes of memory that these
    /// hold.
    pub(crate) fn finish_arrays(&mut self) -> (Option<ArrayRef>, Option<ArrayRef>, usize) {
        let mut memory_bytes = 0;
        let mut finish = |field: &mut Option<TypedField>| {
            let (array, memory) = field.as_mut()?.column.finish();
            memory_bytes += memory;
            Some(array)
        };
        let (key, value) = (finish(&mut self.key), finish(&mut self.value));
        (key, value, memory_bytes)
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        for field in [&mut self.key, &mut self.value].into_iter().flatten() {
            field.column.truncate(rows);
        }
    }

    pub(crate) fn refused_rows(&self) -> usize {
        self.causes.len()
    }

    /// The refused records since the last batch.
    pub(crate) fn finish_refused(&mut self) -> Option<Box<RefusedRows>> {
        if self.causes.is_empty() {
            return None;
        }
        let rows = self.refused.as_mut()?.finish();
        Some(Box::new(RefusedRows { rows, causes: std::mem::take(&mut self.causes) }))
    }

    /// Finishes the typed column that replaces this one: pushes its array, or the arrays of its fields. Returns false
    /// if the column is not typed.
    pub(crate) fn finish(&mut self, column: ColumnSet, arrays: &mut Vec<ArrayRef>, memory_bytes: &mut usize) -> bool {
        let field = match column {
            ColumnSet::KEY => self.key.as_mut(),
            ColumnSet::VALUE => self.value.as_mut(),
            _ => None,
        };
        let Some(field) = field else { return false };
        let (array, memory) = field.column.finish();
        *memory_bytes += memory;
        match array.as_any().downcast_ref::<StructArray>().filter(|_| field.flatten) {
            // Fields are null wherever their struct is: decoders append a null to each.
            Some(array) => arrays.extend(array.columns().iter().cloned()),
            None => arrays.push(array),
        }
        true
    }

    /// Schema with the typed columns in place of the binary ones.
    pub(crate) fn schema(&self, binary: &Schema) -> SchemaRef {
        let mut fields: Vec<FieldRef> = Vec::new();
        for field in binary.fields() {
            let typed = match field.name().as_str() {
                "key" => self.key.as_ref(),
                "value" => self.value.as_ref(),
                _ => None,
            };
            match typed.map(|typed| (typed.column.data_type(), typed.flatten)) {
                None => fields.push(Arc::clone(field)),
                Some((DataType::Struct(children), true)) => fields.extend(children.iter().cloned()),
                Some((data_type, _)) => fields.push(Arc::new(Field::new(field.name(), data_type, true))),
            }
        }
        Arc::new(Schema::new(Fields::from(fields)))
    }
}
