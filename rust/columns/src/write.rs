//! Growing columns: copies into reserved room, with one branch per field.

use std::ops::Range;

use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};

use crate::pool::{BufferPool, PooledVec};

/// Room that every data buffer keeps behind its last field, so that a copy may write past the field's length: for the
/// short fields of most Kafka records, copies of a fixed size are faster than a call to memcpy.
const SLACK_BYTES: usize = 128;
const CHUNK_BYTES: usize = 64;
/// Longest field that is copied in chunks; beyond it memcpy is as fast.
const MAX_CHUNKED_BYTES: usize = 512;

/// Null rows of a column. Allocates nothing until the first null.
#[derive(Default)]
pub struct Validity {
    bits: Vec<u8>,
    nulls: usize,
}

impl Validity {
    /// Makes this row null. It must not be null yet.
    #[inline(always)]
    pub fn set_null(&mut self, row: usize) {
        if row / 8 >= self.bits.len() {
            self.lengthen(row);
        }
        self.bits[row / 8] &= !(1 << (row % 8));
        self.nulls += 1;
    }

    #[cold]
    #[inline(never)]
    fn lengthen(&mut self, row: usize) {
        self.bits.resize((row / 8 + 1).next_multiple_of(64), u8::MAX);
    }

    /// Makes those rows null that are null among `rows` of another column, and come from row `row` on here.
    pub fn extend(&mut self, row: usize, nulls: Option<&NullBuffer>, rows: Range<usize>) {
        let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { return };
        let start = rows.start;
        rows.filter(|from| nulls.is_null(*from)).for_each(|from| self.set_null(row + from - start));
    }

    /// Forgets the nulls from row `rows` on.
    pub fn truncate(&mut self, rows: usize) {
        let Some(first) = self.bits.get_mut(rows / 8) else { return };
        let kept = *first | u8::MAX << (rows % 8);
        self.nulls -= (kept ^ *first).count_ones() as usize;
        *first = kept;
        for byte in &mut self.bits[rows / 8 + 1..] {
            self.nulls -= byte.count_zeros() as usize;
            *byte = u8::MAX;
        }
    }

    /// Nulls among the first `rows` rows, `None` if there are none; leaves an empty bitmap.
    pub fn finish(&mut self, rows: usize) -> Option<NullBuffer> {
        if self.nulls == 0 {
            return None;
        }
        self.bits.resize(rows.div_ceil(8), u8::MAX);
        let bits = Buffer::from_vec(std::mem::take(&mut self.bits));
        self.nulls = 0;
        Some(NullBuffer::new(BooleanBuffer::new(bits, 0, rows)))
    }
}

/// A growing pooled buffer, which starts at about the size that recent batches needed.
pub struct Growing {
    buffer: PooledVec,
    expected_bytes: usize,
}

impl Growing {
    /// An empty buffer of this pool.
    pub fn new(pool: &BufferPool) -> Self {
        Self { buffer: pool.take(0), expected_bytes: 0 }
    }

    /// Makes room for `used + additional` bytes, of which the first `used` are kept. Unwinds with
    /// [`OutOfMemory`](crate::OutOfMemory) if there is no memory.
    pub fn reserve(&mut self, used: usize, additional: usize) {
        let needed = used + additional;
        if needed > self.buffer.capacity() {
            self.buffer.set_len(used);
            let doubled = self.buffer.capacity() * 2;
            self.buffer.grow(needed.max(self.expected_bytes).max(doubled));
        }
    }

    /// Number of bytes that there is room for.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    pub(crate) fn pointer(&mut self) -> *mut u8 {
        self.buffer.whole_mut().as_mut_ptr()
    }

    /// All bytes that there is room for, initialised.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.whole_mut()
    }

    /// Returns the buffer, or a smaller copy if more than a third of it is empty: a batch that Python holds
    /// must not keep memory that it does not use.
    pub fn finish(&mut self, used: usize, pool: &BufferPool) -> PooledVec {
        // The next batch is likely as large; a run of smaller batches lowers the expectation.
        self.expected_bytes = (used + used / 8).max(self.expected_bytes / 8 * 7);
        let mut full = std::mem::replace(&mut self.buffer, pool.take(0));
        full.set_len(used);
        if full.capacity() - used > used / 2 + 1024 {
            let mut fitting = pool.take(used);
            fitting.extend_from_slice(&full);
            full = fitting;
        }
        full
    }
}

/// A binary or utf8 column.
pub(crate) struct ByteColumn {
    offsets: Growing,
    data: Growing,
    data_len: usize,
    pub(crate) validity: Validity,
}

pub(crate) struct ByteParts {
    pub(crate) offsets: PooledVec,
    pub(crate) data: PooledVec,
    pub(crate) nulls: Option<NullBuffer>,
}

impl ByteColumn {
    pub(crate) fn new(pool: &BufferPool) -> Self {
        Self { offsets: Growing::new(pool), data: Growing::new(pool), data_len: 0, validity: Validity::default() }
    }

    pub(crate) fn data_len(&self) -> usize {
        self.data_len
    }

    pub(crate) fn reserve_data(&mut self, additional: usize) {
        self.data.reserve(self.data_len, additional + SLACK_BYTES);
    }

    /// A writer for the rows from `row` on, at most `additional` of them.
    pub(crate) fn writer(&mut self, row: usize, additional: usize) -> ByteWriter<'_> {
        self.offsets.reserve((row + 1) * 4, additional * 4);
        if row == 0 {
            self.offsets.bytes_mut()[..4].fill(0);
        }
        ByteWriter {
            offsets: self.offsets.pointer().cast(),
            data: self.data.pointer(),
            len: self.data_len,
            room_end: self.data.capacity().saturating_sub(SLACK_BYTES),
            end_row: row + additional,
            column: self,
        }
    }

    /// Appends one row, through a writer for this row alone: slow, but safe.
    pub(crate) fn append(&mut self, row: usize, bytes: Option<&[u8]>) {
        let mut writer = self.writer(row, 1);
        // SAFETY: the row is the one that the writer was made for.
        unsafe {
            match bytes {
                Some(bytes) => writer.push::<0, false>(row, bytes, bytes.len()),
                None => writer.push_null(row),
            }
        }
        writer.finish();
    }

    pub(crate) fn finish(&mut self, rows: usize, pool: &BufferPool) -> ByteParts {
        if rows == 0 {
            self.writer(0, 0).finish();
        }
        let parts = ByteParts {
            offsets: self.offsets.finish((rows + 1) * 4, pool),
            data: self.data.finish(self.data_len, pool),
            nulls: self.validity.finish(rows),
        };
        self.data_len = 0;
        parts
    }

    #[cold]
    #[inline(never)]
    fn more_room(&mut self, len: usize, additional: usize) -> (*mut u8, usize) {
        self.data.reserve(len, additional + SLACK_BYTES);
        (self.data.pointer(), self.data.capacity() - SLACK_BYTES)
    }
}

/// A writer with a [`ByteColumn`]'s pointers, which stay in registers while a record batch is walked.
pub(crate) struct ByteWriter<'c> {
    column: &'c mut ByteColumn,
    offsets: *mut i32,
    data: *mut u8,
    len: usize,
    /// Longest data for which the slack after it is still within the buffer.
    room_end: usize,
    end_row: usize,
}

impl ByteWriter<'_> {
    /// Appends the first `length` bytes of `readable` as this row. Bytes that follow them may be copied too; the next
    /// row overwrites them.
    ///
    /// # Safety
    /// `row` is one of those the writer was made for, and `readable` has at least `length` bytes. With `ROOMY`,
    /// [`ByteColumn::reserve_data`] was called for these bytes before the writer was made.
    #[inline(always)]
    pub(crate) unsafe fn push<const FIRST_BYTES: usize, const ROOMY: bool>(
        &mut self,
        row: usize,
        readable: &[u8],
        length: usize,
    ) {
        if !ROOMY && (length > self.room_end.wrapping_sub(self.len) || self.room_end == 0) {
            (self.data, self.room_end) = self.column.more_room(self.len, length);
        }
        // SAFETY: there is room for the bytes and the slack behind them.
        unsafe { copy::<FIRST_BYTES>(readable, length, self.data.add(self.len)) };
        self.len += length;
        // SAFETY: the caller's `row` is one of those the writer was made for.
        unsafe { self.end(row) };
    }

    /// Appends a null as this row.
    ///
    /// # Safety
    /// `row` is one of those the writer was made for.
    #[inline(always)]
    pub(crate) unsafe fn push_null(&mut self, row: usize) {
        self.column.validity.set_null(row);
        // SAFETY: the caller's `row` is one of those the writer was made for.
        unsafe { self.end(row) };
    }

    #[inline(always)]
    unsafe fn end(&mut self, row: usize) {
        debug_assert!(row < self.end_row);
        // SAFETY: `writer` reserved an offset for each row of this writer, and one before the first.
        unsafe { self.offsets.add(row + 1).write(self.len as i32) };
    }

    /// Stores the new data length in the column, and returns by how many bytes it has grown. The next writer
    /// overwrites rows that were reserved but not pushed.
    pub(crate) fn finish(self) -> usize {
        self.len - std::mem::replace(&mut self.column.data_len, self.len)
    }
}

/// Copies the first `length` bytes of `readable` to `target`: in one copy of a fixed size if that covers them, else in
/// whole chunks; with memcpy if the field is long or the source too short to read whole chunks.
///
/// # Safety
/// `readable` has at least `length` bytes, and `length` and `SLACK_BYTES` more may be written to `target`.
#[inline(always)]
unsafe fn copy<const FIRST_BYTES: usize>(readable: &[u8], length: usize, target: *mut u8) {
    const { assert!(FIRST_BYTES <= SLACK_BYTES && CHUNK_BYTES <= SLACK_BYTES) };
    debug_assert!(length <= readable.len());
    let source = readable.as_ptr();
    // SAFETY: source and target are different allocations. Reads are within `readable`, and writes end at most one
    // slack beyond the length.
    unsafe {
        if length <= FIRST_BYTES && FIRST_BYTES <= readable.len() {
            std::ptr::copy_nonoverlapping(source, target, FIRST_BYTES);
        } else if length <= MAX_CHUNKED_BYTES && length + CHUNK_BYTES <= readable.len() {
            let mut at = 0;
            while at < length {
                std::ptr::copy_nonoverlapping(source.add(at), target.add(at), CHUNK_BYTES);
                at += CHUNK_BYTES;
            }
        } else {
            copy_exactly(source, target, length);
        }
    }
}

/// Copies any length, in a function of its own: beside the copies of a fixed size, the compiler merges all of them into
/// one call of memcpy.
///
/// # Safety
/// `length` bytes may be read from `source` and written to `target`, which do not overlap.
#[inline(never)]
unsafe fn copy_exactly(source: *const u8, target: *mut u8, length: usize) {
    // SAFETY: the caller lets `length` bytes be read and written, and the two do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(source, target, length) }
}

/// An int64 column without nulls.
pub(crate) struct LongColumn(Growing);

impl LongColumn {
    pub(crate) fn new(pool: &BufferPool) -> Self {
        Self(Growing::new(pool))
    }

    /// A writer for the rows from `row` on, at most `additional` of them.
    pub(crate) fn writer(&mut self, row: usize, additional: usize) -> LongWriter<'_> {
        self.0.reserve(row * 8, additional * 8);
        LongWriter { values: self.0.pointer().cast(), end_row: row + additional, column: std::marker::PhantomData }
    }

    pub(crate) fn finish(&mut self, rows: usize, pool: &BufferPool) -> PooledVec {
        self.0.finish(rows * 8, pool)
    }
}

/// A writer with a [`LongColumn`]'s pointer, which stays in a register while a record batch is walked.
pub(crate) struct LongWriter<'c> {
    values: *mut i64,
    end_row: usize,
    column: std::marker::PhantomData<&'c mut LongColumn>,
}

impl LongWriter<'_> {
    /// Sets the value of this row.
    ///
    /// # Safety
    /// `row` is one of those the writer was made for.
    #[inline(always)]
    pub(crate) unsafe fn push(&mut self, row: usize, value: i64) {
        debug_assert!(row < self.end_row);
        // SAFETY: the caller's `row` is one of those the writer was made for, which `LongColumn::writer` reserved.
        unsafe { self.values.add(row).write(value) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_taken_back_are_not_null_any_more() {
        for rows in 0..40 {
            let mut validity = Validity::default();
            (0..40).filter(|row| row % 3 == 0).for_each(|row| validity.set_null(row));
            validity.truncate(rows);
            validity.set_null(rows);
            let nulls = validity.finish(41).expect("one at least");
            let expected: Vec<_> = (0..41).filter(|row| *row == rows || (*row < rows && row % 3 == 0)).collect();
            let found: Vec<_> = (0..41).filter(|row| nulls.is_null(*row)).collect();
            assert_eq!((found, nulls.null_count()), (expected.clone(), expected.len()));
        }
    }
}
