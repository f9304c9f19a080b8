//! Growing columns of texts and bytes, and growing list offsets; all can be cut back to fewer rows.

use std::ops::Range;
use std::str::Utf8Error;

use arrow_array::types::ByteArrayType;
use arrow_array::{Array, BinaryArray, GenericByteArray, StringArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};

use crate::pool::BufferPool;
use crate::write::{Growing, Validity};

/// UTF-8 text of the bytes. Most are ASCII, which is checked many bytes at a time.
///
/// # Errors
/// Invalid UTF-8.
#[inline]
pub fn text_of(bytes: &[u8]) -> Result<&str, Utf8Error> {
    let is_ascii = if bytes.len() < 32 { is_short_ascii(bytes) } else { bytes.is_ascii() };
    if is_ascii {
        // SAFETY: ASCII is UTF-8.
        return Ok(unsafe { std::str::from_utf8_unchecked(bytes) });
    }
    std::str::from_utf8(bytes)
}

/// Returns true if a short slice is ASCII: it is checked in at most four words, of which the last two may overlap. The
/// standard library's check takes as long for 16 bytes as for a hundred.
#[inline]
fn is_short_ascii(bytes: &[u8]) -> bool {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        let mut found = u64::from_ne_bytes(*first) | u64::from_ne_bytes(*last);
        for at in [8, 16] {
            if let Some(between) = bytes.get(at..at + 8).and_then(<[u8]>::first_chunk::<8>) {
                found |= u64::from_ne_bytes(*between);
            }
        }
        return found & HIGH == 0;
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        return (u32::from_ne_bytes(*first) | u32::from_ne_bytes(*last)) & HIGH as u32 == 0;
    }
    bytes.iter().fold(0, |found, byte| found | byte) < 0x80
}

/// End of each row of a list, text or bytes column.
pub struct Offsets {
    ends: Growing,
}

impl Offsets {
    /// Offsets of a column without rows.
    pub fn new(pool: &BufferPool) -> Self {
        Self { ends: Growing::new(pool) }
    }

    /// Writes the end of the row with this number. Offset 0, where the first row begins, is stored only when the batch
    /// is finished: it is always 0.
    #[inline(always)]
    pub fn push(&mut self, row: usize, end: i32) {
        let at = (row + 1) * 4;
        if at + 4 > self.ends.capacity() {
            self.ends.reserve(at, 4);
        }
        self.ends.bytes_mut()[at..at + 4].copy_from_slice(&end.to_ne_bytes());
    }

    /// Start of the row with this number.
    pub fn start(&mut self, row: usize) -> usize {
        if row == 0 {
            return 0;
        }
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.ends.bytes_mut()[row * 4..row * 4 + 4]);
        i32::from_ne_bytes(bytes) as usize
    }

    /// Writes the ends of the rows that follow row `row`, at a total of `end`: as long as those between `ends`.
    pub fn extend(&mut self, row: usize, end: usize, ends: &[i32]) {
        let Some((first, ends)) = ends.split_first() else { return };
        self.ends.reserve((row + 1) * 4, ends.len() * 4);
        let to = &mut self.ends.bytes_mut()[(row + 1) * 4..][..ends.len() * 4];
        // Wraps for no column: its rows together have fewer bytes than a batch, which 32-bit offsets can address.
        let moved = (end as i32).wrapping_sub(*first);
        for (to, end) in to.chunks_exact_mut(4).zip(ends) {
            to.copy_from_slice(&end.wrapping_add(moved).to_ne_bytes());
        }
    }

    /// Offsets of the first `rows` rows and the bytes of memory that they hold; leaves an empty column.
    pub fn finish(&mut self, rows: usize, pool: &BufferPool) -> (OffsetBuffer<i32>, usize) {
        self.ends.reserve((rows + 1) * 4, 0);
        self.ends.bytes_mut()[..4].fill(0);
        let buffer = self.ends.finish((rows + 1) * 4, pool);
        let memory_bytes = buffer.capacity();
        (OffsetBuffer::new(ScalarBuffer::new(buffer.into_buffer(), 0, rows + 1)), memory_bytes)
    }
}

/// A column of bytes, with 32-bit offsets.
pub struct Bytes {
    offsets: Offsets,
    data: Growing,
    data_len: usize,
    validity: Validity,
    rows: usize,
}

impl Bytes {
    /// A column without rows.
    pub fn new(pool: &BufferPool) -> Self {
        Self {
            offsets: Offsets::new(pool),
            data: Growing::new(pool),
            data_len: 0,
            validity: Validity::default(),
            rows: 0,
        }
    }

    /// Number of rows.
    #[inline(always)]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of all rows.
    pub fn data_len(&self) -> usize {
        self.data_len
    }

    /// Appends a row. Returns false, and appends nothing, if the column would exceed its 32-bit offsets.
    #[inline]
    #[must_use]
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        let end = self.data_len + bytes.len();
        if end > i32::MAX as usize {
            return false;
        }
        if end > self.data.capacity() {
            self.data.reserve(self.data_len, bytes.len());
        }
        copy(&mut self.data.bytes_mut()[self.data_len..end], bytes);
        self.data_len = end;
        self.end_row();
        true
    }

    /// Appends a null.
    pub fn push_null(&mut self) {
        self.validity.set_null(self.rows);
        self.end_row();
    }

    /// Appends rows of a finished column.
    pub fn extend<T: ByteArrayType<Offset = i32>>(&mut self, array: &GenericByteArray<T>, rows: Range<usize>) {
        let ends = &array.value_offsets()[rows.start..=rows.end];
        let (start, end) = (ends[0] as usize, ends[rows.len()] as usize);
        let len = self.data_len + end - start;
        assert!(i32::try_from(len).is_ok(), "a batch has too many bytes for its offsets");
        self.offsets.extend(self.rows, self.data_len, ends);
        self.data.reserve(self.data_len, end - start);
        self.data.bytes_mut()[self.data_len..len].copy_from_slice(&array.value_data()[start..end]);
        self.validity.extend(self.rows, array.nulls(), rows.clone());
        (self.data_len, self.rows) = (len, self.rows + rows.len());
    }

    #[inline(always)]
    fn end_row(&mut self) {
        self.offsets.push(self.rows, self.data_len as i32);
        self.rows += 1;
    }

    /// Cuts the column back to `rows` rows.
    pub fn truncate(&mut self, rows: usize) {
        self.validity.truncate(rows);
        self.data_len = self.offsets.start(rows);
        self.rows = rows;
    }

    fn parts(&mut self, pool: &BufferPool) -> (OffsetBuffer<i32>, Buffer, Option<NullBuffer>, usize) {
        let rows = std::mem::take(&mut self.rows);
        let (offsets, memory_bytes) = self.offsets.finish(rows, pool);
        let data = self.data.finish(std::mem::take(&mut self.data_len), pool);
        let memory_bytes = memory_bytes + data.capacity();
        (offsets, data.into_buffer(), self.validity.finish(rows), memory_bytes)
    }

    /// The rows as an array, and the bytes of memory that it holds; leaves an empty column.
    pub fn finish(&mut self, pool: &BufferPool) -> (BinaryArray, usize) {
        let (offsets, data, nulls, memory_bytes) = self.parts(pool);
        (BinaryArray::new(offsets, data, nulls), memory_bytes)
    }
}

/// Copies bytes to a slice of the same length. Most are short, and for these two copies of a fixed size, which may
/// overlap, are faster than a call to memcpy.
#[inline(always)]
fn copy(to: &mut [u8], from: &[u8]) {
    #[inline(always)]
    fn ends<const WIDTH: usize>(to: &mut [u8], from: &[u8]) {
        if let (Some(first), Some(last)) = (from.first_chunk::<WIDTH>(), from.last_chunk::<WIDTH>())
            && to.len() == from.len()
        {
            let last_at = to.len() - WIDTH;
            to[..WIDTH].copy_from_slice(first);
            to[last_at..].copy_from_slice(last);
        }
    }
    match from.len() {
        0 => {}
        1 => to[0] = from[0],
        2..4 => ends::<2>(to, from),
        4..8 => ends::<4>(to, from),
        8..16 => ends::<8>(to, from),
        16..=32 => ends::<16>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// A column of texts, with 32-bit offsets. Only `str` can be pushed, so the array needs no second check for UTF-8.
pub struct Texts(Bytes);

impl Texts {
    /// A column without rows.
    pub fn new(pool: &BufferPool) -> Self {
        Self(Bytes::new(pool))
    }

    /// Number of rows.
    #[inline(always)]
    pub fn rows(&self) -> usize {
        self.0.rows()
    }

    /// Bytes of all rows.
    pub fn data_len(&self) -> usize {
        self.0.data_len()
    }

    /// Same as [`Bytes::push`].
    #[inline(always)]
    #[must_use]
    pub fn push(&mut self, text: &str) -> bool {
        self.0.push(text.as_bytes())
    }

    /// Appends a null.
    pub fn push_null(&mut self) {
        self.0.push_null();
    }

    /// Same as [`Bytes::extend`].
    pub fn extend(&mut self, array: &StringArray, rows: Range<usize>) {
        self.0.extend(array, rows);
    }

    /// Cuts the column back to `rows` rows.
    pub fn truncate(&mut self, rows: usize) {
        self.0.truncate(rows);
    }

    /// Same as [`Bytes::finish`].
    pub fn finish(&mut self, pool: &BufferPool) -> (StringArray, usize) {
        let (offsets, data, nulls, memory_bytes) = self.0.parts(pool);
        // SAFETY: each row is a whole text: only `push` and `extend` write to the data, `data_len` is always the end of a row, and
        // the offsets, which were checked to rise, are ends of rows. The last is the length of the data.
        (unsafe { StringArray::new_unchecked(offsets, data, nulls) }, memory_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_is_no_ascii_is_seen_wherever_it_is() {
        for length in 0..40 {
            let mut bytes = vec![0x7f; length];
            assert_eq!(text_of(&bytes).map(str::len), Ok(length));
            for at in 0..length {
                bytes[at] = 0x80;
                assert_eq!(text_of(&bytes).map_err(|error| error.valid_up_to()), Err(at), "{length} bytes");
                bytes[at] = 0x7f;
            }
        }
    }

    #[test]
    fn texts_of_every_length_are_copied() {
        let pool = BufferPool::new(0);
        let mut bytes = Bytes::new(&pool);
        let text: Vec<u8> = (0..100).collect();
        for length in 0..100 {
            assert!(bytes.push(&text[..length]));
        }
        let (array, _) = bytes.finish(&pool);
        for length in 0..100 {
            assert_eq!(array.value(length), &text[..length]);
        }
    }

    #[test]
    fn rows_that_are_taken_back_leave_no_part_of_a_character() {
        let pool = BufferPool::new(0);
        let mut texts = Texts::new(&pool);
        for round in 0..3 {
            for text in ["é", "", "😀x", "taken back 😀"] {
                assert!(texts.push(text));
            }
            texts.push_null();
            texts.truncate(3);
            texts.push_null();
            assert!(texts.push("ž"));
            let (array, _) = texts.finish(&pool);
            let found: Vec<_> = array.iter().collect();
            assert_eq!(found, [Some("é"), Some(""), Some("😀x"), None, Some("ž")], "{round}");
        }
    }
}
