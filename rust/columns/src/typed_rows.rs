//! Appends records as rows to typed columns and to the binary ones beside them. A record whose key or value cannot be
//! decoded gets no row in any column.

use std::ops::Range;

use monedula_protocol::records::{BatchHeader, RawRecord};

use crate::builder::BatchBuilder;
use crate::decoded::DecodedRecord;
use crate::lookup::Lookup;
use crate::records::{BadRecord, BatchSource, UnavailableLookup, WalkStop, offset_of};
use crate::rows::{AnyRows, Rows};
use crate::schema::ColumnSet;
use crate::typed::{Cause, OnBadValue, TypedColumns, Undecoded};

pub(crate) struct TypedRows<'b> {
    source: BatchSource<'b>,
    typed: &'b mut TypedColumns,
    /// Records that were decoded ahead, from the next one on.
    decoded: std::slice::Iter<'b, DecodedRecord>,
    /// Rows that were decoded ahead and are still to be copied: those that follow one another at once.
    ahead: Range<usize>,
    /// Bytes in the typed columns before the first of these rows.
    bytes_before: usize,
    /// Bytes by which they have grown since, those that are still to be copied included.
    grown_bytes: usize,
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
        (next_record, records): (u32, usize),
        fixed_bytes: usize,
    ) -> Self {
        let (bytes_before, refused_before) = (typed.bytes(), refused_bytes(typed));
        let refused = typed.refused_rows();
        // Decided before the typed columns are taken out: without them, the builder takes every column for a binary
        // one.
        let plain = |column| typed.of(column).is_none();
        let beside = AnyRows::beside(builder, records, fixed_bytes, refused, plain);
        let decoded = source.decoded.map_or(&[][..], |decoded| decoded.records_from(next_record)).iter();
        Self {
            source,
            typed,
            decoded,
            ahead: 0..0,
            bytes_before,
            grown_bytes: 0,
            refused_before,
            beside,
            rows: 0,
            kept: 0,
            first_offset: None,
        }
    }

    pub(crate) fn finish(mut self) -> Appended {
        self.copy_ahead();
        let refused_bytes = refused_bytes(self.typed) - self.refused_before;
        let typed_bytes = self.typed.bytes() - self.bytes_before - refused_bytes;
        let bytes = self.beside.finish() + typed_bytes;
        Appended { rows: self.rows, bytes, refused_bytes, first_offset: self.first_offset }
    }

    /// Copies the rows that were decoded ahead. Due before anything else is done with the typed columns.
    #[inline]
    fn copy_ahead(&mut self) {
        let ahead = std::mem::take(&mut self.ahead);
        if let Some(decoded) = self.source.decoded.filter(|_| !ahead.is_empty()) {
            self.typed.extend(&decoded.segment, ahead);
            debug_assert_eq!(self.typed.bytes() - self.bytes_before, self.grown_bytes);
        }
    }

    /// Appends a record whose key and value were decoded ahead, as row `ahead` of its segment.
    ///
    /// # Safety
    /// Same as for [`Rows::append`].
    #[inline(always)]
    unsafe fn append_ahead(
        &mut self,
        (row, ahead, decoded): (usize, usize, DecodedRecord),
        record: &RawRecord<'_>,
        header: &BatchHeader,
        payload: &[u8],
    ) -> Result<(), WalkStop> {
        if self.ahead.end != ahead {
            self.copy_ahead();
            self.ahead = ahead..ahead;
        }
        let grown_bytes = self.grown_bytes + decoded.bytes();
        // SAFETY: the caller keeps to `Rows::append`, which asks for the same.
        unsafe { self.beside.append_within(row, record, header, payload, grown_bytes)? };
        self.ahead.end += 1;
        self.note_row(record, header, (decoded.is_whole(), grown_bytes));
        Ok(())
    }

    #[inline(always)]
    fn note_row(&mut self, record: &RawRecord<'_>, header: &BatchHeader, (is_whole, grown_bytes): (bool, usize)) {
        self.grown_bytes = grown_bytes;
        self.typed.with_nulls += usize::from(!is_whole);
        self.rows += 1;
        self.first_offset.get_or_insert_with(|| offset_of(header, record));
    }

    /// Applies the policy to a record that cannot be decoded. Its row is taken back already.
    #[cold]
    fn refuse(
        &mut self,
        record: &RawRecord<'_>,
        header: &BatchHeader,
        payload: &[u8],
        row: usize,
        (column, on_bad, undecoded): Undecoded,
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
                self.typed.dropped.push(offset_of(header, record));
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
        if let Some((ahead, decoded)) = self.decoded.next().and_then(|decoded| Some((decoded.row()?, *decoded))) {
            // SAFETY: the caller keeps to this method, which asks for the same.
            return unsafe { self.append_ahead((row, ahead, decoded), record, header, payload) };
        }
        self.copy_ahead();
        let is_whole = match self.typed.append(record) {
            Ok(is_whole) => is_whole,
            Err(bad) => {
                self.typed.truncate(row);
                let stop = self.refuse(record, header, payload, row, bad);
                self.grown_bytes = self.typed.bytes() - self.bytes_before;
                return Err(stop);
            }
        };
        let grown_bytes = self.typed.bytes() - self.bytes_before;
        // SAFETY: the caller keeps to `Rows::append`, which asks for the same.
        let appended = unsafe { self.beside.append_within(row, record, header, payload, grown_bytes) };
        if appended.is_err() {
            self.typed.truncate(row);
            return appended;
        }
        self.note_row(record, header, (is_whole, grown_bytes));
        Ok(())
    }

    fn skip(&mut self) {
        self.decoded.next();
    }
}
