//! Appends records as rows to typed columns and to the binary ones beside them. A record whose key or value cannot be
//! decoded gets no row in any column.

use monedula_protocol::records::{BatchHeader, RawRecord};

use crate::builder::BatchBuilder;
use crate::lookup::Lookup;
use crate::records::{BadRecord, BatchSource, UnavailableLookup, WalkStop, offset_of};
use crate::rows::{AnyRows, Rows};
use crate::schema::ColumnSet;
use crate::typed::{BadValue, Cause, Decoded, OnBadValue, RecordContext, TypedColumns, TypedField};

pub(crate) struct TypedRows<'b> {
    source: BatchSource<'b>,
    typed: &'b mut TypedColumns,
    /// Bytes in the typed columns before the first of these rows.
    bytes_before: usize,
    refused_before: usize,
    beside: AnyRows<'b>,
    rows: usize,
    /// Number of refused records.
    kept: usize,
    first_offset: Option<i64>,
}

pub(crate) struct Appended {
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
    pub(crate) refused_bytes: usize,
    pub(crate) first_offset: Option<i64>,
}

impl<'b> TypedRows<'b> {
    pub(crate) fn new(
        builder: &'b mut BatchBuilder,
        typed: &'b mut TypedColumns,
        source: BatchSource<'b>,
        records: usize,
        fixed_bytes: usize,
    ) -> Self {
        let (bytes_before, refused_before) = (typed.bytes(), refused_bytes(typed));
        let refused = typed.refused_rows();
        // Decided before the typed columns are taken out: without them, the builder takes every column for a binary
        // one.
        let plain = |column| typed.of(column).is_none();
        let beside = AnyRows::beside(builder, records, fixed_bytes, refused, plain);
        Self { source, typed, bytes_before, refused_before, beside, rows: 0, kept: 0, first_offset: None }
    }

    pub(crate) fn finish(self) -> Appended {
        let refused_bytes = refused_bytes(self.typed) - self.refused_before;
        let typed_bytes = self.typed.bytes() - self.bytes_before - refused_bytes;
        let bytes = self.beside.finish() + typed_bytes;
        Appended { rows: self.rows, bytes, refused_bytes, first_offset: self.first_offset }
    }

    /// Decodes a record's key and value. Returns true if neither has a null in place of a fault.
    fn decode(&mut self, record: &RawRecord<'_>) -> Result<bool, (&'static str, OnBadValue, Lookup<BadValue>)> {
        let TypedColumns { key, value, .. } = &mut *self.typed;
        let decode = |name, field: &mut Option<TypedField>, bytes| {
            let Some(field) = field else { return Ok(Decoded::Whole) };
            let beside = RecordContext::new(name == "key", record.headers);
            field.column.append(bytes, beside).map_err(|bad| (name, field.on_bad, bad))
        };
        let decoded = (decode("value", value, record.value)?, decode("key", key, record.key)?);
        Ok(decoded == (Decoded::Whole, Decoded::Whole))
    }

    /// Applies the policy to a record that cannot be decoded. Its row is taken back already.
    #[cold]
    fn refuse(
        &mut self,
        record: &RawRecord<'_>,
        header: &BatchHeader,
        payload: &[u8],
        row: usize,
        (column, on_bad, undecoded): (&'static str, OnBadValue, Lookup<BadValue>),
    ) -> WalkStop {
        let bad = match undecoded {
            Lookup::Ready(bad) => bad,
            Lookup::Pending(awaited) => return WalkStop::Pending(awaited),
            Lookup::Unavailable(reason) => {
                return WalkStop::Unavailable(Box::new(UnavailableLookup {
                    offset: offset_of(header, record),
                    column,
                    reason,
                }));
            }
        };
        match on_bad {
            OnBadValue::Fail => {
                WalkStop::BadValue(Box::new(BadRecord { offset: offset_of(header, record), column, bad }))
            }
            OnBadValue::Drop => {
                self.typed.dropped += 1;
                WalkStop::Passed
            }
            // Records beyond the limit go into the next batch, as rows do.
            OnBadValue::Refuse if self.is_over() => WalkStop::Full,
            OnBadValue::Refuse => match self.keep(record, header, payload) {
                Ok(()) => {
                    self.kept += 1;
                    self.typed.causes.push(Cause { column, bad, row });
                    WalkStop::Passed
                }
                Err(stop) => stop,
            },
        }
    }

    fn is_over(&self) -> bool {
        let holds_any = self.rows > 0 || self.typed.refused_rows() > 0;
        holds_any && self.typed.bytes() - self.bytes_before >= self.beside.bytes_left()
    }

    /// Keeps a record's bytes with the refused ones.
    fn keep(&mut self, record: &RawRecord<'_>, header: &BatchHeader, payload: &[u8]) -> Result<(), WalkStop> {
        let pool = self.beside.pool().clone();
        let make = || Box::new(BatchBuilder::new(ColumnSet::ALL, pool, usize::MAX, usize::MAX));
        let builder = self.typed.refused.get_or_insert_with(make);
        let (row, fixed_bytes) = (builder.rows, builder.fixed_row_bytes(self.source.topic));
        let mut rows = AnyRows::new(builder, 1, fixed_bytes);
        // SAFETY: the columns were opened for this row, and the record's fields lie within the payload.
        unsafe { rows.append(row, record, header, payload)? };
        let (bytes, offset) = (rows.finish(), offset_of(header, record));
        builder.commit(self.source.span(1, offset, offset + 1), bytes, header.timestamp_type().id());
        Ok(())
    }
}

fn refused_bytes(typed: &TypedColumns) -> usize {
    typed.refused.as_ref().map_or(0, |rows| rows.bytes())
}

impl Rows for TypedRows<'_> {
    #[inline(always)]
    unsafe fn append(
        &mut self,
        row: usize,
        record: &RawRecord<'_>,
        header: &BatchHeader,
        payload: &[u8],
    ) -> Result<(), WalkStop> {
        // Refused records use up room of the batch, but no row of its columns.
        if self.beside.has_no_row_left(row + self.kept) {
            return Err(WalkStop::Full);
        }
        let is_whole = match self.decode(record) {
            Ok(is_whole) => is_whole,
            Err(bad) => {
                self.typed.truncate(row);
                return Err(self.refuse(record, header, payload, row, bad));
            }
        };
        let grown = self.typed.bytes() - self.bytes_before;
        // SAFETY: the caller keeps to `Rows::append`, which asks for the same.
        let appended = unsafe { self.beside.append_within(row, record, header, payload, grown) };
        if appended.is_err() {
            self.typed.truncate(row);
            return appended;
        }
        self.typed.with_nulls += usize::from(!is_whole);
        self.rows += 1;
        self.first_offset.get_or_insert_with(|| offset_of(header, record));
        Ok(())
    }
}
