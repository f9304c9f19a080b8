//! Columns of texts and bytes while they grow.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, StringArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use monedula_columns::{BufferPool, Growing, Validity};

use crate::column::Finishing;

/// Texts or bytes, with 32-bit offsets.
pub(crate) struct Texts {
    offsets: Growing,
    data: Growing,
    data_len: usize,
    validity: Validity,
    rows: usize,
}

impl Texts {
    pub(crate) fn new(pool: &BufferPool) -> Self {
        Self {
            offsets: Growing::new(pool),
            data: Growing::new(pool),
            data_len: 0,
            validity: Validity::default(),
            rows: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn data_len(&self) -> usize {
        self.data_len
    }

    /// Appends a row; false, and nothing is appended, if the column would exceed its 32-bit offsets.
    #[inline]
    #[must_use]
    pub(crate) fn push(&mut self, bytes: &[u8]) -> bool {
        let end = self.data_len + bytes.len();
        if end > i32::MAX as usize {
            return false;
        }
        if end > self.data.capacity() {
            self.data.reserve(self.data_len, bytes.len());
        }
        self.data.bytes_mut()[self.data_len..end].copy_from_slice(bytes);
        self.data_len = end;
        self.end_row();
        true
    }

    pub(crate) fn push_null(&mut self) {
        self.validity.set_null(self.rows);
        self.end_row();
    }

    #[inline(always)]
    fn end_row(&mut self) {
        push_offset(&mut self.offsets, self.rows, self.data_len as i32);
        self.rows += 1;
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        self.validity.truncate(rows);
        self.data_len = offset_of(&mut self.offsets, rows);
        self.rows = rows;
    }

    fn finish(&mut self, finishing: &mut Finishing<'_>) -> (OffsetBuffer<i32>, Buffer, Option<NullBuffer>) {
        let rows = std::mem::take(&mut self.rows);
        let offsets = finish_offsets(&mut self.offsets, rows, finishing);
        let data = finishing.buffer(&mut self.data, std::mem::take(&mut self.data_len));
        (offsets, data, self.validity.finish(rows))
    }

    pub(crate) fn finish_utf8(&mut self, finishing: &mut Finishing<'_>) -> ArrayRef {
        let (offsets, data, nulls) = self.finish(finishing);
        Arc::new(StringArray::new(offsets, data, nulls))
    }

    pub(crate) fn finish_binary(&mut self, finishing: &mut Finishing<'_>) -> ArrayRef {
        let (offsets, data, nulls) = self.finish(finishing);
        Arc::new(BinaryArray::new(offsets, data, nulls))
    }
}

/// Writes where the row ends that has this number. Offset 0, where the first row begins, is not stored before a batch is
/// finished: it is always 0.
#[inline(always)]
pub(crate) fn push_offset(offsets: &mut Growing, row: usize, end: i32) {
    let at = (row + 1) * 4;
    if at + 4 > offsets.capacity() {
        offsets.reserve(at, 4);
    }
    offsets.bytes_mut()[at..at + 4].copy_from_slice(&end.to_ne_bytes());
}

/// Where the row begins that has this number.
pub(crate) fn offset_of(offsets: &mut Growing, row: usize) -> usize {
    if row == 0 {
        return 0;
    }
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&offsets.bytes_mut()[row * 4..row * 4 + 4]);
    i32::from_ne_bytes(bytes) as usize
}

pub(crate) fn finish_offsets(offsets: &mut Growing, rows: usize, finishing: &mut Finishing<'_>) -> OffsetBuffer<i32> {
    offsets.reserve((rows + 1) * 4, 0);
    offsets.bytes_mut()[..4].fill(0);
    let buffer = finishing.buffer(offsets, (rows + 1) * 4);
    OffsetBuffer::new(ScalarBuffer::new(buffer, 0, rows + 1))
}
