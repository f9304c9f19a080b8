//! Typed columns: what decodes keys and values into Arrow columns in place of the binary ones, and what becomes of a
//! record whose key or value cannot be decoded.
//!
//! Decoders are in other crates: this one knows the trait alone.

use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, StructArray};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};

use monedula_protocol::records::HeaderReader;

use crate::awaited::Awaited;
use crate::batch::ColumnBatch;
use crate::builder::BatchBuilder;
use crate::pool::BufferPool;
use crate::schema::ColumnSet;

/// A column of decoded values while it grows.
pub trait TypedColumn: Send {
    /// The type of the finished column.
    fn data_type(&self) -> DataType;

    /// Appends a value as a row; `None` is a record without one. Unwinds with [`OutOfMemory`](crate::OutOfMemory) if
    /// there is no memory. What is beside the value in its record may say how it is to be read.
    ///
    /// # Errors
    /// A value that cannot be decoded, or not yet; nothing is appended then.
    fn append(&mut self, value: Option<&[u8]>, beside: RecordContext<'_>) -> Result<Decoded, Undecoded>;

    /// Number of rows so far.
    fn rows(&self) -> usize;

    /// Takes back the rows from `rows` on.
    fn truncate(&mut self, rows: usize);

    /// Size of the rows so far in Arrow's layout, in bytes.
    fn bytes(&self) -> usize;

    /// Finishes the rows as an array, with the bytes of memory that it holds; starts anew.
    fn finish(&mut self) -> (ArrayRef, usize);
}

/// What a record has beside a key or value that is decoded.
#[derive(Debug, Clone, Copy)]
pub struct RecordContext<'r> {
    is_key: bool,
    /// Their count and they themselves, as the record has them.
    headers: &'r [u8],
}

impl<'r> RecordContext<'r> {
    /// Nothing: a value of no record.
    pub const NOTHING: RecordContext<'static> = RecordContext { is_key: false, headers: &[0] };

    pub(crate) fn new(is_key: bool, headers: &'r [u8]) -> Self {
        Self { is_key, headers }
    }

    /// The header by which Confluent's serializers name the schema of the key or value. The last counts, as in theirs.
    #[inline(always)]
    pub fn schema_id(self) -> Option<&'r [u8]> {
        if self.headers.len() <= 1 {
            None
        } else {
            self.last(if self.is_key { KEY_SCHEMA_ID } else { VALUE_SCHEMA_ID })
        }
    }

    /// The header of this name, that for keys or that for values. The last counts.
    pub fn header(self, of_key: &str, of_value: &str) -> Option<&'r [u8]> {
        self.last(if self.is_key { of_key } else { of_value }.as_bytes())
    }

    /// Headers that are cut off are another's matter: the walk checks them where they are asked for.
    #[inline(never)]
    fn last(self, name: &[u8]) -> Option<&'r [u8]> {
        let mut headers = HeaderReader::new(self.headers).ok()?;
        let mut found = None;
        while let Ok(Some(header)) = headers.read() {
            if header.key == name {
                found = header.value;
            }
        }
        found
    }
}

const KEY_SCHEMA_ID: &[u8] = b"__key_schema_id";
const VALUE_SCHEMA_ID: &[u8] = b"__value_schema_id";

/// What a typed column made of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded {
    /// A row with all that the column asks for.
    Whole,
    /// A row with nulls where the value is bad.
    WithNulls,
}

/// Why a value got no row.
#[derive(Debug)]
pub enum Undecoded {
    /// It cannot be decoded: [`OnBadValue`] says what becomes of its record.
    Bad(BadValue),
    /// What it is decoded with is asked for. The walk stops before its record, and goes on there later.
    Awaits(Arc<Awaited>),
    /// What it is decoded with cannot be had: why. That says nothing about the value: the walk stops before its record,
    /// whatever is to become of bad ones.
    Lacks(String),
}

impl From<BadValue> for Undecoded {
    fn from(bad: BadValue) -> Self {
        Self::Bad(bad)
    }
}

impl fmt::Display for Undecoded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bad(bad) => write!(formatter, "{bad}"),
            Self::Awaits(_) => formatter.write_str("its schema is being asked for"),
            Self::Lacks(why) => formatter.write_str(why),
        }
    }
}

/// A value that cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadValue {
    /// The field that the fault was met in, as `items[3].price`; empty if the value as a whole is bad.
    pub path: String,
    /// What is wrong.
    pub reason: String,
    /// Advice on what to ask for instead; backticks are around Python's names, since a command line and Spark have others.
    pub hint: Option<&'static str>,
    /// Where in the value, in bytes from its start.
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

impl fmt::Display for BadValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(formatter, "{}: ", self.path)?;
        }
        write!(formatter, "{} (byte {})", self.reason, self.position)
    }
}

/// What becomes of a record whose key or value cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnBadValue {
    /// The walk stops at it.
    Fail,
    /// It gets no row, and is counted.
    Drop,
    /// It gets no row, and is kept beside the batch with its bytes.
    Refuse,
}

/// Makes one typed column of a pool's memory.
pub type MakeTyped = dyn Fn(&BufferPool) -> Box<dyn TypedColumn> + Send + Sync;

/// How a column is decoded.
#[derive(Clone)]
pub struct TypedSpec {
    /// Makes one column; each builder of batches has its own.
    pub make: Arc<MakeTyped>,
    /// What becomes of bad values.
    pub on_bad: OnBadValue,
    /// Whether a struct's fields stand beside the other columns, in place of the struct.
    pub flatten: bool,
}

impl fmt::Debug for TypedSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { on_bad, flatten, .. } = self;
        formatter.debug_struct("TypedSpec").field("on_bad", on_bad).field("flatten", flatten).finish_non_exhaustive()
    }
}

/// The columns of batches: which, and how keys and values are decoded. Without a spec they are binary.
#[derive(Debug, Clone, Default)]
pub struct BatchColumns {
    /// Which columns.
    pub set: ColumnSet,
    /// How keys are decoded.
    pub key: Option<TypedSpec>,
    /// How values are decoded.
    pub value: Option<TypedSpec>,
}

impl From<ColumnSet> for BatchColumns {
    fn from(set: ColumnSet) -> Self {
        Self { set, key: None, value: None }
    }
}

/// Why columns cannot stand beside each other in a batch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlattenError {
    /// Fields can be taken only out of a struct.
    #[error("{0} is not decoded to a struct, so it has no fields to put beside the other columns; leave flatten out")]
    NotAStruct(&'static str),
    /// A field has the name of one of Kafka's columns, or of a field of the other struct.
    #[error(
        "the field {name:?} of {column} has the name of {other}; leave flatten out, so that {column} is a struct, or \
         leave the field out of its schema"
    )]
    Collision {
        /// The column.
        column: &'static str,
        /// The field.
        name: String,
        /// What has the same name.
        other: &'static str,
    },
}

impl BatchColumns {
    /// Whether a batch can have these columns. With a struct's fields beside Kafka's columns, no two may have one name;
    /// neither may a field have the name of a Kafka column that was left out, since readers find these by name.
    ///
    /// # Errors
    /// What cannot be flattened, or which names collide.
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

/// A record that has no row since its key or value cannot be decoded: why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// `key` or `value`.
    pub column: &'static str,
    /// What is wrong with it.
    pub bad: BadValue,
}

/// Records that have no row in a batch, with their bytes.
#[derive(Debug, Clone)]
pub struct RefusedRows {
    /// The records, with every column, keys and values binary.
    pub rows: ColumnBatch,
    /// Why, for each of them.
    pub causes: Vec<Cause>,
}

/// One typed column of a builder.
pub(crate) struct TypedField {
    pub(crate) column: Box<dyn TypedColumn>,
    pub(crate) on_bad: OnBadValue,
    flatten: bool,
}

/// The typed columns of a builder, and what has become of bad values since the last batch.
pub(crate) struct TypedColumns {
    pub(crate) key: Option<TypedField>,
    pub(crate) value: Option<TypedField>,
    /// Made for the first record that is refused.
    pub(crate) refused: Option<Box<BatchBuilder>>,
    pub(crate) causes: Vec<Cause>,
    pub(crate) dropped: usize,
    pub(crate) with_nulls: usize,
}

impl TypedColumns {
    /// `None` if no column is typed.
    pub(crate) fn new(columns: &BatchColumns, pool: &BufferPool) -> Option<Self> {
        let field = |spec: &Option<TypedSpec>, column| {
            let spec = spec.as_ref().filter(|_| columns.set.contains(column))?;
            Some(TypedField { column: (spec.make)(pool), on_bad: spec.on_bad, flatten: spec.flatten })
        };
        let (key, value) = (field(&columns.key, ColumnSet::KEY), field(&columns.value, ColumnSet::VALUE));
        let none = key.is_none() && value.is_none();
        let typed = Self { key, value, refused: None, causes: Vec::new(), dropped: 0, with_nulls: 0 };
        if none { None } else { Some(typed) }
    }

    /// The typed column in place of this one.
    pub(crate) fn of(&self, column: ColumnSet) -> Option<&TypedField> {
        match column {
            ColumnSet::KEY => self.key.as_ref(),
            ColumnSet::VALUE => self.value.as_ref(),
            _ => None,
        }
    }

    fn of_mut(&mut self, column: ColumnSet) -> Option<&mut TypedField> {
        match column {
            ColumnSet::KEY => self.key.as_mut(),
            ColumnSet::VALUE => self.value.as_mut(),
            _ => None,
        }
    }

    /// Bytes of the rows so far, and of the records that were refused.
    pub(crate) fn bytes(&self) -> usize {
        let fields = [&self.key, &self.value].into_iter().flatten();
        fields.map(|field| field.column.bytes()).sum::<usize>() + self.refused.as_ref().map_or(0, |rows| rows.bytes())
    }

    /// Takes back the rows from `rows` on, in every column.
    pub(crate) fn truncate(&mut self, rows: usize) {
        for field in [&mut self.key, &mut self.value].into_iter().flatten() {
            field.column.truncate(rows);
        }
    }

    /// Records without a row that are kept.
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

    /// Finishes the column in place of this one: its array, or those of its fields. False if it is not typed.
    pub(crate) fn finish(&mut self, column: ColumnSet, arrays: &mut Vec<ArrayRef>, memory_bytes: &mut usize) -> bool {
        let Some(field) = self.of_mut(column) else { return false };
        let (array, memory) = field.column.finish();
        *memory_bytes += memory;
        match array.as_any().downcast_ref::<StructArray>().filter(|_| field.flatten) {
            Some(array) => arrays.extend(beside(array)),
            None => arrays.push(array),
        }
        true
    }

    /// The schema with the typed columns in place of the binary ones.
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

/// The fields of a struct column as columns: null where the struct is.
fn beside(array: &StructArray) -> Vec<ArrayRef> {
    // Where a struct is null, so are its fields: decoders append a null to each.
    array.columns().to_vec()
}
