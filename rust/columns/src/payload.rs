//! Encoder of records into the payload of a record batch: the hot loop of the producer.

use monedula_protocol::records::{NO_TIMESTAMP, NewRecord};

use crate::memory::OutOfMemory;
use crate::pool::{BufferPool, PooledVec};

/// The payload of one record batch, to which records are encoded one by one.
pub struct PayloadWriter {
    buffer: PooledVec,
    records: u32,
    base_timestamp_ms: i64,
    max_timestamp_ms: i64,
}

/// Error of a record that does not fit into the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// The record's encoded size in bytes, including its length field.
    pub record_bytes: usize,
}

impl PayloadWriter {
    /// An empty payload with room for at least `capacity` bytes. Unwinds with [`OutOfMemory`] if there is no memory for
    /// it.
    pub fn new(pool: &BufferPool, capacity: usize) -> Self {
        Self::of(pool.take(capacity))
    }

    /// Like [`Self::new`], but returns the error.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the buffer cannot be allocated.
    pub fn try_new(pool: &BufferPool, capacity: usize) -> Result<Self, OutOfMemory> {
        pool.try_take(capacity).map(Self::of)
    }

    fn of(buffer: PooledVec) -> Self {
        Self { buffer, records: 0, base_timestamp_ms: NO_TIMESTAMP, max_timestamp_ms: NO_TIMESTAMP }
    }

    /// The encoded size of a record as the first of a payload, in bytes.
    pub fn first_record_bytes(record: &NewRecord<'_>) -> usize {
        let body_bytes = body_bytes(record, 0, 0);
        varint_bytes((body_bytes as u64) << 1) + body_bytes
    }

    /// Number of records appended.
    pub fn records(&self) -> u32 {
        self.records
    }

    /// Length of the payload in bytes.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Returns true if no record was appended.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Number of bytes that the payload can hold without growing.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// The timestamp of the first record, and the largest one, in milliseconds since the epoch.
    pub fn timestamps_ms(&self) -> (i64, i64) {
        (self.base_timestamp_ms, self.max_timestamp_ms)
    }

    /// Makes the capacity at least this. Unwinds with [`OutOfMemory`] if there is no memory for it.
    pub fn grow(&mut self, min_capacity: usize) {
        self.buffer.grow(min_capacity);
    }

    /// Like [`Self::grow`], but returns the error and leaves the payload unchanged.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the larger buffer cannot be allocated.
    pub fn try_grow(&mut self, min_capacity: usize) -> Result<(), OutOfMemory> {
        self.buffer.try_grow(min_capacity)
    }

    /// The payload.
    pub fn into_buffer(self) -> PooledVec {
        self.buffer
    }

    /// Appends a record if the payload stays within its capacity and `max_bytes`, and returns the record's index.
    ///
    /// # Errors
    /// [`NoRoom`] with the record's size if it does not fit; the payload is unchanged.
    #[inline]
    pub fn append(&mut self, record: &NewRecord<'_>, max_bytes: usize) -> Result<u32, NoRoom> {
        let base_timestamp_ms = if self.records == 0 { record.timestamp_ms } else { self.base_timestamp_ms };
        let timestamp_delta = zigzag(record.timestamp_ms.wrapping_sub(base_timestamp_ms));
        let offset_delta = u64::from(self.records) << 1;
        let body_bytes = body_bytes(record, timestamp_delta, offset_delta);
        let record_bytes = varint_bytes((body_bytes as u64) << 1) + body_bytes;
        let start = self.buffer.len();
        if record_bytes > max_bytes.min(self.buffer.capacity()).saturating_sub(start) {
            return Err(NoRoom { record_bytes });
        }
        // SAFETY: every field is written with the length that it was counted with above, and their sum fits behind
        // `start`.
        unsafe {
            let first = self.buffer.whole_mut().as_mut_ptr().add(start);
            let mut at = put_varint(first, (body_bytes as u64) << 1);
            at.write(0);
            at = put_varint(at.add(1), timestamp_delta);
            at = put_varint(at, offset_delta);
            at = put_field(at, record.key);
            at = put_field(at, record.value);
            at = put_varint(at, (record.headers.len() as u64) << 1);
            for header in record.headers {
                at = put_field(at, Some(header.key));
                at = put_field(at, header.value);
            }
            debug_assert_eq!(at.offset_from(first), record_bytes as isize);
        }
        self.buffer.set_len(start + record_bytes);
        let index = self.records;
        self.records += 1;
        self.base_timestamp_ms = base_timestamp_ms;
        self.max_timestamp_ms = self.max_timestamp_ms.max(record.timestamp_ms);
        Ok(index)
    }
}

#[inline(always)]
fn body_bytes(record: &NewRecord<'_>, timestamp_delta: u64, offset_delta: u64) -> usize {
    1 + varint_bytes(timestamp_delta)
        + varint_bytes(offset_delta)
        + field_bytes(record.key)
        + field_bytes(record.value)
        + headers_bytes(record)
}

#[inline(always)]
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[inline(always)]
fn varint_bytes(value: u64) -> usize {
    if value < 0x80 { 1 } else { (70 - value.leading_zeros() as usize) / 7 }
}

#[inline(always)]
fn field_bytes(field: Option<&[u8]>) -> usize {
    field.map_or(1, |bytes| varint_bytes((bytes.len() as u64) << 1) + bytes.len())
}

#[inline(always)]
fn headers_bytes(record: &NewRecord<'_>) -> usize {
    if record.headers.is_empty() {
        return 1;
    }
    let each = record.headers.iter().map(|header| field_bytes(Some(header.key)) + field_bytes(header.value));
    varint_bytes((record.headers.len() as u64) << 1) + each.sum::<usize>()
}

/// Writes an unsigned varint and returns the address behind it.
///
/// # Safety
/// `varint_bytes(value)` bytes may be written at `at`.
#[inline(always)]
unsafe fn put_varint(mut at: *mut u8, mut value: u64) -> *mut u8 {
    // SAFETY: `varint_bytes` counts as many bytes as are written.
    unsafe {
        while value >= 0x80 {
            at.write(value as u8 | 0x80);
            at = at.add(1);
            value >>= 7;
        }
        at.write(value as u8);
        at.add(1)
    }
}

/// Writes a length-prefixed field, or a null, and returns the address behind it.
///
/// # Safety
/// `field_bytes(field)` bytes may be written at `at`.
#[inline(always)]
unsafe fn put_field(at: *mut u8, field: Option<&[u8]>) -> *mut u8 {
    // SAFETY: the caller lets `field_bytes(field)` bytes be written: the length and the bytes, or for a null one byte,
    // the length -1, zigzag 1.
    unsafe {
        let Some(bytes) = field else {
            at.write(1);
            return at.add(1);
        };
        let at = put_varint(at, (bytes.len() as u64) << 1);
        copy(bytes, at);
        at.add(bytes.len())
    }
}

/// Like memcpy, but without a call for fields below 128 bytes, which most keys and values are. Two overlapping copies
/// of a fixed size cover every length between that size and its double.
///
/// # Safety
/// `bytes.len()` bytes may be written at `target`, which is not part of `bytes`.
#[inline(always)]
unsafe fn copy(bytes: &[u8], target: *mut u8) {
    let length = bytes.len();
    // SAFETY: each copy ends at or before the end of source and target.
    unsafe {
        match length {
            0 => {}
            1..8 => {
                for (index, byte) in bytes.iter().enumerate() {
                    target.add(index).write(*byte);
                }
            }
            8..16 => both_ends::<8>(bytes, target),
            16..32 => both_ends::<16>(bytes, target),
            32..64 => both_ends::<32>(bytes, target),
            64..128 => both_ends::<64>(bytes, target),
            _ => std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, length),
        }
    }
}

/// Copies the first and the last `SIZE` bytes.
///
/// # Safety
/// Same as for [`copy`], and `bytes` has between `SIZE` and twice `SIZE` bytes.
#[inline(always)]
unsafe fn both_ends<const SIZE: usize>(bytes: &[u8], target: *mut u8) {
    let last = bytes.len() - SIZE;
    // SAFETY: the caller lets as many bytes be written as `bytes` has, which are at least `SIZE`.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, SIZE);
        std::ptr::copy_nonoverlapping(bytes.as_ptr().add(last), target.add(last), SIZE);
    }
}

#[cfg(test)]
mod tests {
    use monedula_protocol::compression::Compressor;
    use monedula_protocol::records::{BATCH_HEADER_BYTES, BatchEncoder, Header};

    use super::*;

    /// Payload that the protocol crate's encoder makes of the same records.
    fn expected(records: &[NewRecord<'_>]) -> Vec<u8> {
        let mut encoder = BatchEncoder::new();
        records.iter().for_each(|record| encoder.append(*record));
        let mut bytes = Vec::new();
        encoder.encode(&mut Compressor::new(), &mut bytes).expect("encodes");
        bytes.split_off(BATCH_HEADER_BYTES)
    }

    fn filler(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|byte| byte as u8).collect()
    }

    #[test]
    fn records_are_those_of_the_protocol_s_encoder() {
        let bytes = filler(40_000);
        let lengths = [0, 1, 7, 8, 15, 16, 31, 32, 63, 64, 65, 127, 128, 129, 8191, 8192, 40_000];
        // Shortened under Miri, which takes many minutes for long and for many records.
        let (most_bytes, more_records) = if cfg!(miri) { (129, 100) } else { (40_000, 9000) };
        let headers = [
            Header { key: b"a", value: Some(b"1") },
            Header { key: b"a", value: None },
            Header { key: b"", value: Some(b"") },
        ];
        let mut records = Vec::new();
        for (number, length) in lengths.into_iter().filter(|length| *length <= most_bytes).enumerate() {
            let field = Some(&bytes[..length]);
            let timestamp_ms = 1_790_000_000_000 + [0, -5, 63, 64, 1 << 40][number % 5];
            records.push(NewRecord { timestamp_ms, key: field, value: None, headers: &[] });
            records.push(NewRecord { timestamp_ms, key: None, value: field, headers: &headers[..number % 4] });
        }
        for _ in 0..more_records {
            records.push(NewRecord { timestamp_ms: 7, ..NewRecord::default() });
        }
        let mut writer = PayloadWriter::new(&BufferPool::new(0), 1 << 20);
        for (index, record) in records.iter().enumerate() {
            assert_eq!(writer.append(record, usize::MAX), Ok(index as u32));
        }
        let max_timestamp_ms = records.iter().map(|record| record.timestamp_ms).max();
        assert_eq!(Some(writer.timestamps_ms().1), max_timestamp_ms);
        assert_eq!(writer.timestamps_ms().0, records[0].timestamp_ms);
        assert!(writer.into_buffer()[..] == expected(&records)[..]);
    }

    #[test]
    fn a_record_that_does_not_fit_changes_nothing() {
        let record = NewRecord { timestamp_ms: 5, value: Some(&[7; 100]), ..NewRecord::default() };
        let mut writer = PayloadWriter::new(&BufferPool::new(0), 1024);
        let record_bytes = expected(&[record]).len();
        assert_eq!(writer.append(&record, record_bytes - 1), Err(NoRoom { record_bytes }));
        assert!(writer.is_empty());
        assert_eq!(writer.append(&record, record_bytes), Ok(0));
        assert_eq!(writer.append(&record, record_bytes), Err(NoRoom { record_bytes }));
        let room = writer.capacity() / record_bytes - 1;
        assert!((0..room).all(|_| writer.append(&record, usize::MAX).is_ok()));
        assert_eq!(writer.append(&record, usize::MAX), Err(NoRoom { record_bytes }));
        assert_eq!((writer.records() as usize, writer.len()), (room + 1, (room + 1) * record_bytes));
    }
}
