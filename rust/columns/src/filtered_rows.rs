//! Appends those records as rows that meet a condition.

use monedula_protocol::records::{BatchHeader, RawRecord};

use crate::filter::RecordFilter;
use crate::records::{BatchSource, WalkStop, offset_of};
use crate::rows::Rows;

pub(crate) struct FilteredRows<'r, R> {
    filter: &'r RecordFilter,
    source: BatchSource<'r>,
    beside: &'r mut R,
    /// Number of records that are left out before the walk pauses.
    filtered_left: usize,
    pub(crate) filtered: usize,
    pub(crate) rows: usize,
    pub(crate) first_offset: Option<i64>,
}

impl<'r, R: Rows> FilteredRows<'r, R> {
    pub(crate) fn new(
        filter: &'r RecordFilter,
        source: BatchSource<'r>,
        beside: &'r mut R,
        filtered_left: usize,
    ) -> Self {
        Self { filter, source, beside, filtered_left, filtered: 0, rows: 0, first_offset: None }
    }
}

impl<R: Rows> Rows for FilteredRows<'_, R> {
    #[inline(always)]
    unsafe fn append(
        &mut self,
        row: usize,
        record: &RawRecord<'_>,
        header: &BatchHeader,
        payload: &[u8],
    ) -> Result<(), WalkStop> {
        if !self.filter.holds(self.source, record, header)? {
            if self.filtered == self.filtered_left {
                return Err(WalkStop::Full);
            }
            self.filtered += 1;
            self.beside.skip();
            return Err(WalkStop::Passed);
        }
        // SAFETY: the caller keeps to `Rows::append`, which asks for the same.
        unsafe { self.beside.append(row, record, header, payload)? };
        self.rows += 1;
        self.first_offset.get_or_insert_with(|| offset_of(header, record));
        Ok(())
    }
}
