//! The decoder: values in, a struct column out; what becomes of bad values.

use arrow_array::StructArray;
use arrow_schema::{DataType, Fields};
use monedula_columns::BufferPool;

use super::cursor::{Cursor, Fault, MAX_DEPTH, Value};
use super::object::{Objects, Row};
use super::path::Path;
use crate::column::{Column, Finishing, nullable, structs};
use crate::error::{BadValue, Reason, UnsupportedField};
use crate::nested::Structs;

/// What becomes of a bad value: Spark's `mode` of `from_json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// The row stays. A field whose value is bad is null, and of a value that is no JSON object, all fields are.
    #[default]
    Permissive,
    /// There is no row; [`JsonDecoder::append`] returns the error.
    FailFast,
}

/// The options of a decoder, with the defaults of Spark's `from_json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonOptions {
    /// What becomes of a bad value. Default permissive.
    pub mode: Mode,
    /// The field that gets the text of bad values, if the fields have a utf8 one of this name at the top. Default
    /// `_corrupt_record`.
    pub corrupt_record_field: String,
    /// The zone of timestamps that name none, in seconds east of UTC. Default 0.
    pub offset_seconds: i32,
    /// How much one row may take as columns, in bytes: a list of empty objects grows by the width of its fields with every
    /// three bytes. Default 64 MiB.
    pub max_row_bytes: usize,
}

impl Default for JsonOptions {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            corrupt_record_field: "_corrupt_record".to_owned(),
            offset_seconds: 0,
            max_row_bytes: 64 << 20,
        }
    }
}

/// What [`JsonDecoder::append`] made of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Appended {
    /// A row with all that the fields ask for.
    Good,
    /// A row with nulls where the value is bad. The first fault.
    Bad(BadValue),
}

/// Decodes JSON texts into the rows of a struct column.
pub struct JsonDecoder {
    fields: Fields,
    root: Structs,
    corrupt_record: Option<usize>,
    mode: Mode,
    objects: Objects,
    pool: BufferPool,
}

impl JsonDecoder {
    /// How deep objects and arrays may be nested in a value, also in fields that nobody asks for.
    pub const MAX_DEPTH: usize = MAX_DEPTH;

    /// A decoder of these fields, with memory from this pool. What the fields say about nulls is not looked at: each may be
    /// missing from a value, so each is nullable in [`Self::fields`].
    ///
    /// # Errors
    /// A field of a type that no values are decoded to, or two fields of one name.
    pub fn new(fields: &Fields, options: JsonOptions, pool: BufferPool) -> Result<Self, UnsupportedField> {
        let fields = nullable(fields, "", 0)?;
        let corrupt_record = fields
            .iter()
            .position(|field| *field.name() == options.corrupt_record_field && *field.data_type() == DataType::Utf8);
        Ok(Self {
            root: structs(&fields, &pool),
            fields,
            corrupt_record,
            mode: options.mode,
            objects: Objects::new(&options),
            pool,
        })
    }

    /// The fields of the struct column.
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// Number of rows so far.
    pub fn rows(&self) -> usize {
        self.root.rows()
    }

    /// Size of the rows so far in Arrow's layout, in bytes, without the bits of nulls.
    pub fn bytes(&self) -> usize {
        self.root.children.iter().map(Column::bytes).sum()
    }

    /// Takes back the rows from `rows` on.
    pub fn truncate(&mut self, rows: usize) {
        self.root.truncate(rows.min(self.root.rows()));
    }

    /// Appends a value as a row. Without a value, and of one that is blank, the row is null, as Spark has it. Unwinds with
    /// [`OutOfMemory`](monedula_columns::OutOfMemory) if there is no memory for the columns.
    ///
    /// # Errors
    /// With [`Mode::FailFast`], the first fault of a bad value; there is no row then.
    pub fn append(&mut self, value: Option<&[u8]>) -> Result<Appended, BadValue> {
        let row = self.root.rows();
        let Some(value) = value else {
            self.root.push_null();
            return Ok(Appended::Good);
        };
        let bad = match self.decode(value) {
            Ok(None) => return Ok(Appended::Good),
            Ok(Some(bad)) => bad,
            Err(bad) => {
                self.root.truncate(row);
                if self.mode == Mode::Permissive {
                    self.root.end_row();
                }
                bad
            }
        };
        if self.mode == Mode::FailFast {
            self.root.truncate(row);
            return Err(bad);
        }
        self.keep_text(row, value);
        Ok(Appended::Bad(bad))
    }

    /// Ok if there is a row, with the first fault that left a null in it.
    fn decode(&mut self, value: &[u8]) -> Result<Option<BadValue>, BadValue> {
        let text = std::str::from_utf8(value)
            .map_err(|error| whole(Fault { reason: Reason::NotUtf8, position: error.valid_up_to() }))?;
        let mut cursor = Cursor::new(text);
        if cursor.peek().is_none() {
            self.root.push_null();
            return Ok(None);
        }
        let start = cursor.at;
        match cursor.value() {
            Ok(Value::Object) => {}
            Ok(_) => return Err(whole(Fault { reason: Reason::NotAnObject, position: start })),
            Err(fault) => return Err(whole(fault)),
        }
        let mut row = Row::new(self.corrupt_record, self.mode, &mut self.objects);
        let object = row.object(&mut self.root, &mut cursor, &Path::Root, 1);
        let first = row.first_fault();
        if let Err(fault) = object {
            return Err(first.unwrap_or_else(|| whole(fault)));
        }
        let trailing = cursor.peek().map(|_| whole(cursor.fault(Reason::TrailingText)));
        Ok(first.or(trailing))
    }

    /// Puts the text of a bad value into its field. Bytes that are not UTF-8 become U+FFFD there.
    fn keep_text(&mut self, row: usize, value: &[u8]) {
        let Some(index) = self.corrupt_record else { return };
        if let Some(column @ Column::Utf8(_)) = self.root.children.get_mut(index) {
            column.truncate(row);
            let Column::Utf8(texts) = column else { return };
            if !texts.push(String::from_utf8_lossy(value).as_bytes()) {
                texts.push_null();
            }
        }
    }

    /// Finishes the rows as an array, and how many bytes of memory it holds; starts anew.
    pub fn finish(&mut self) -> (StructArray, usize) {
        let mut finishing = Finishing { pool: &self.pool, memory_bytes: 0 };
        let array = self.root.finish(&mut finishing);
        (array, finishing.memory_bytes)
    }
}

fn whole(fault: Fault) -> BadValue {
    BadValue { path: String::new(), reason: fault.reason, position: fault.position }
}
