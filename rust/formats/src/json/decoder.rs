//! JSON decoder: values become rows of a struct column, and bad values are treated by the mode.

use std::ops::Range;

use arrow_array::{Array, StructArray};
use arrow_schema::{DataType, Fields};
use monedula_columns::{BufferPool, RecordContext, text_of};

use super::comments;
use super::cursor::{Cursor, Fault, MAX_DEPTH, Value};
use super::debezium::{Change, ChangeFields};
use super::object::{Objects, Row, RowOutcome};
use super::options::{Envelope, JsonOptions, Mode};
use super::path::Path;
use crate::avro::{Framing, Named};
use crate::column::{Column, Finishing, nullable, structs};
use crate::error::{Reason, UnsupportedField, ValueFault};
use crate::nested::Structs;
use crate::typed::Appended;

/// Decodes JSON texts into the rows of a struct column.
pub struct JsonDecoder {
    fields: Fields,
    root: Structs,
    /// Bytes of all rows so far and of the next one, without the next one's texts, elements and entries.
    bytes: usize,
    row_bytes: usize,
    corrupt_record: Option<usize>,
    /// Fields that an envelope fills, if values have one.
    change_fields: Option<ChangeFields>,
    objects: Objects,
    pool: BufferPool,
    /// Buffer for a value whose comments are replaced by spaces, if comments are permitted.
    without_comments: String,
}

impl JsonDecoder {
    /// Limit on the nesting of objects and arrays in a value, also within fields that are not selected.
    pub const MAX_DEPTH: usize = MAX_DEPTH;

    /// Makes a decoder of these fields, with memory from this pool. The fields' own nullability is ignored: each may be
    /// missing from a value, so each is nullable in [`Self::fields`].
    ///
    /// # Errors
    /// Field of an unsupported type, or two fields of one name.
    pub fn new(fields: &Fields, options: JsonOptions, pool: BufferPool) -> Result<Self, UnsupportedField> {
        let fields = nullable(fields, "", 0)?;
        let corrupt_record = fields
            .iter()
            .position(|field| *field.name() == options.corrupt_record_field && *field.data_type() == DataType::Utf8);
        let change_fields = match options.envelope {
            Envelope::None => None,
            Envelope::Debezium => Some(ChangeFields::new(&fields)?),
        };
        let root = structs(&fields, &pool);
        Ok(Self {
            change_fields,
            bytes: 0,
            row_bytes: root.children.iter().map(Column::row_bytes).sum(),
            root,
            fields,
            corrupt_record,
            objects: Objects::new(options),
            pool,
            without_comments: String::new(),
        })
    }

    /// Fields of the struct column.
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// Number of rows so far.
    pub fn rows(&self) -> usize {
        self.root.rows()
    }

    /// Size of the rows so far in Arrow's layout, in bytes. Null bits are counted only for structs within the rows, as
    /// a byte for each.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn summed_bytes(&self) -> usize {
        self.root.children.iter().map(Column::bytes).sum()
    }

    /// Appends rows of an array that a decoder of the same fields has finished.
    pub fn extend(&mut self, array: &dyn Array, rows: Range<usize>) {
        self.root.extend(array, rows);
        self.bytes = self.summed_bytes();
    }

    /// Cuts the column back to `rows` rows.
    pub fn truncate(&mut self, rows: usize) {
        self.root.truncate(rows.min(self.root.rows()));
        self.bytes = self.summed_bytes();
    }

    /// Appends a value as a row. Null for a missing or blank value, as in Spark. Unwinds with
    /// [`OutOfMemory`](monedula_columns::OutOfMemory) if there is no memory for the columns.
    ///
    /// # Errors
    /// The first fault of a bad value under [`Mode::FailFast`]; then no row is appended.
    pub fn append(&mut self, value: Option<&[u8]>) -> Result<Appended, ValueFault> {
        self.append_framed(value, None)
    }

    /// Same as [`Self::append`], for a value whose schema id may be in a header of its record, where Confluent's
    /// serializers can be configured to write it.
    ///
    /// # Errors
    /// Same as [`Self::append`].
    pub fn append_framed(&mut self, value: Option<&[u8]>, header: Option<&[u8]>) -> Result<Appended, ValueFault> {
        self.append_named(value, header.map(Framing::key_of_header))
    }

    /// Same as [`Self::append`], for a value whose schema may be named by its record's headers.
    pub(crate) fn append_beside(
        &mut self,
        value: Option<&[u8]>,
        beside: RecordContext<'_>,
    ) -> Result<Appended, ValueFault> {
        let named = match self.objects.options.framing {
            Framing::Confluent => beside.schema_id().map(Framing::key_of_header),
            Framing::Apicurio => Framing::key_of_apicurio(beside),
            Framing::Bare | Framing::SingleObject | Framing::Glue => None,
        };
        self.append_named(value, named)
    }

    fn append_named(&mut self, value: Option<&[u8]>, named: Option<Named>) -> Result<Appended, ValueFault> {
        let (framing, max_bytes) = (self.objects.options.framing, self.objects.options.max_row_bytes);
        let (Some(framed), true) = (value, framing != Framing::Bare) else {
            return self.append_text(value.map(|value| (value, 0)));
        };
        match framing.unframed(framed, named, max_bytes) {
            Ok(unframed) => self.append_text(Some((&unframed.bytes, unframed.start))),
            Err(reason) => {
                let (row, reason) = (self.root.rows(), Reason::of_frame(reason));
                self.refuse(row, Err(whole(Fault { reason, position: 0 })), framed)
            }
        }
    }

    /// Appends the text that begins at an offset in a value, behind its frame.
    fn append_text(&mut self, value: Option<(&[u8], usize)>) -> Result<Appended, ValueFault> {
        let row = self.root.rows();
        let decoded = match value {
            Some((value, 0)) => self.decode(value),
            Some((value, start)) => {
                let at = |bad: ValueFault| ValueFault { position: bad.position + start, ..bad };
                let made = self.decode(value.get(start..).unwrap_or_default());
                made.map_err(at).map(|made| DecodedRow { bad: made.bad.map(at), ..made })
            }
            None => Ok(self.null()),
        };
        match decoded {
            Ok(DecodedRow { bad: None, bytes }) => {
                self.bytes = match bytes {
                    Some(bytes) => self.bytes + self.row_bytes + bytes,
                    None => self.summed_bytes(),
                };
                debug_assert_eq!(self.bytes, self.summed_bytes());
                Ok(Appended::Good)
            }
            Ok(DecodedRow { bad: Some(bad), .. }) => self.refuse(row, Ok(bad), value.unwrap_or_default().0),
            Err(bad) => self.refuse(row, Err(bad), value.unwrap_or_default().0),
        }
    }

    /// Applies the mode to a bad value, which may have a row already.
    #[cold]
    fn refuse(
        &mut self,
        row: usize,
        bad: Result<ValueFault, ValueFault>,
        value: &[u8],
    ) -> Result<Appended, ValueFault> {
        let bad = match bad {
            Ok(bad) => bad,
            Err(mut bad) => {
                self.root.truncate(row);
                if let (Framing::Bare, [0, a, b, c, d, b'{', ..]) = (self.objects.options.framing, value) {
                    bad.reason = Reason::Framed(u32::from_be_bytes([*a, *b, *c, *d]));
                }
                if self.objects.options.mode == Mode::Permissive {
                    self.root.end_row();
                }
                bad
            }
        };
        if self.objects.options.mode == Mode::FailFast {
            self.root.truncate(row);
            return Err(bad);
        }
        self.keep_text(row, value);
        self.bytes = self.summed_bytes();
        Ok(Appended::Bad(bad))
    }

    fn null(&mut self) -> DecodedRow {
        self.root.push_null();
        DecodedRow { bad: None, bytes: Some(0) }
    }

    /// Decodes a value into a row; an error has left no row.
    fn decode(&mut self, value: &[u8]) -> Result<DecodedRow, ValueFault> {
        match text_of(value) {
            Ok(text) => self.decode_text(text),
            Err(error) => self.decode_foreign(value, error.valid_up_to()),
        }
    }

    /// Decodes a value with invalid UTF-8, which is a fault only within selected fields. Each invalid byte is replaced
    /// by [`FOREIGN`], which may occur in texts, but nowhere else in JSON.
    #[cold]
    fn decode_foreign(&mut self, value: &[u8], first: usize) -> Result<DecodedRow, ValueFault> {
        let mut text = String::with_capacity(value.len());
        for chunk in value.utf8_chunks() {
            text.push_str(chunk.valid());
            for _ in chunk.invalid() {
                self.objects.invalid_utf8.push(text.len());
                text.push(FOREIGN);
            }
        }
        let decoded = self.decode_text(&text).map_err(|bad| match bad.path.is_empty() {
            true => whole(Fault { reason: Reason::NotUtf8, position: first }),
            false if self.objects.invalid_utf8.contains(&bad.position) => ValueFault { reason: Reason::NotUtf8, ..bad },
            false => bad,
        });
        self.objects.invalid_utf8.clear();
        decoded
    }

    fn decode_text(&mut self, text: &str) -> Result<DecodedRow, ValueFault> {
        let syntax = self.objects.options.syntax;
        let text = if syntax.comments && text.contains('/') {
            comments::blank(text, syntax.single_quotes, &mut self.without_comments);
            &*self.without_comments
        } else {
            text
        };
        let mut cursor = Cursor::new(text, syntax);
        if cursor.peek().is_none() {
            return Ok(self.null());
        }
        let Some(change_fields) = &self.change_fields else {
            return object(&mut self.root, &mut self.objects, self.corrupt_record, &mut cursor);
        };
        let row = self.root.rows();
        let Some(change) = Change::read(&mut cursor).map_err(whole)? else { return Ok(self.null()) };
        if !self.objects.invalid_utf8.is_empty() && change.op.contains(FOREIGN) {
            return Err(whole(cursor.fault(Reason::NotAnEnvelope)));
        }
        let trailing = cursor.peek().map(|_| whole(cursor.fault(Reason::TrailingText)));
        let first = match change.row {
            Some(start) => {
                cursor.at = start;
                row_of(&mut self.root, &mut self.objects, self.corrupt_record, &mut cursor)?.bad
            }
            None => {
                self.root.end_row();
                None
            }
        };
        if !change_fields.set(&mut self.root, row, &change) {
            return Err(whole(cursor.fault(Reason::RowTooLarge(i32::MAX as usize))));
        }
        Ok(DecodedRow { bad: first.or(trailing), bytes: None })
    }

    /// Writes the text of a bad value to the corrupt-record field. Invalid UTF-8 becomes U+FFFD.
    fn keep_text(&mut self, row: usize, value: &[u8]) {
        let Some(index) = self.corrupt_record else { return };
        if let Some(column @ Column::Utf8(_)) = self.root.children.get_mut(index) {
            column.truncate(row);
            let Column::Utf8(texts) = column else { return };
            if !texts.push(&String::from_utf8_lossy(value)) {
                texts.push_null();
            }
        }
    }

    /// Finishes the rows as an array and returns the bytes of memory that it holds; leaves an empty column.
    pub fn finish(&mut self) -> (StructArray, usize) {
        let mut finishing = Finishing { pool: &self.pool, memory_bytes: 0 };
        self.bytes = 0;
        let array = self.root.finish(&mut finishing);
        (array, finishing.memory_bytes)
    }
}

struct DecodedRow {
    /// First fault that left a null in it.
    bad: Option<ValueFault>,
    /// Bytes of its texts, elements and entries; `None` if they were not counted.
    bytes: Option<usize>,
}

/// Decodes the value at the cursor as a row; nothing may follow it.
fn object(
    root: &mut Structs,
    objects: &mut Objects,
    corrupt_record: Option<usize>,
    cursor: &mut Cursor<'_>,
) -> Result<DecodedRow, ValueFault> {
    let mut made = row_of(root, objects, corrupt_record, cursor)?;
    // A row that already has a fault keeps that one as its first.
    if made.bad.is_none() && cursor.peek().is_some() {
        made.bad = Some(whole(cursor.fault(Reason::TrailingText)));
    }
    Ok(made)
}

/// Decodes the object at the cursor as a row; an error has left no row.
fn row_of(
    root: &mut Structs,
    objects: &mut Objects,
    corrupt_record: Option<usize>,
    cursor: &mut Cursor<'_>,
) -> Result<DecodedRow, ValueFault> {
    let start = cursor.at;
    match cursor.value() {
        Ok(Value::Object) => {}
        Ok(_) => return Err(whole(Fault { reason: Reason::NotAnObject, position: start })),
        Err(fault) => return Err(whole(fault)),
    }
    let mut row = Row::new(corrupt_record, objects);
    let object = row.object(root, cursor, &Path::Root, 1);
    let RowOutcome { first, ended, bytes } = row.outcome();
    match object {
        Err(_) if ended => root.end_row(),
        Err(fault) => return Err(first.unwrap_or_else(|| whole(fault))),
        Ok(()) => {}
    }
    Ok(DecodedRow { bad: first, bytes })
}

/// Substitute for an invalid UTF-8 byte.
const FOREIGN: char = '\x7f';

fn whole(fault: Fault) -> ValueFault {
    ValueFault { path: String::new(), reason: fault.reason, position: fault.position }
}
