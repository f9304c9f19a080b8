//! Parses and iterates the records of an uncompressed payload, and their headers.

use super::{BatchHeader, RecordFault, RecordsError, varint};

/// One record, borrowed from the payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<'a> {
    /// The record's offset in the partition.
    pub offset: i64,
    /// The timestamp in milliseconds since the epoch: the producer's, or the log append time of the batch.
    pub timestamp_ms: i64,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value.
    pub value: Option<&'a [u8]>,
    /// The headers in order, duplicate keys included.
    pub headers: Headers<'a>,
}

/// One record header. The key is bytes because it is UTF-8 by convention only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: Option<&'a [u8]>,
}

/// An iterator over the records of one uncompressed payload, which checks each record fully.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    header: BatchHeader,
    payload: &'a [u8],
    position: usize,
    index: u32,
    previous_delta: i32,
    finished: bool,
}

impl<'a> Records<'a> {
    /// Iterates over `payload`, the uncompressed records of the batch with this header.
    pub fn new(header: &BatchHeader, payload: &'a [u8]) -> Self {
        Self { header: *header, payload, position: 0, index: 0, previous_delta: -1, finished: false }
    }

    fn read(&mut self) -> Result<Option<Record<'a>>, RecordFault> {
        if self.index as usize == self.header.record_count as usize {
            let clean = self.position == self.payload.len();
            return if clean { Ok(None) } else { Err(RecordFault::TooManyRecords) };
        }
        if self.position == self.payload.len() {
            return Err(RecordFault::TooFewRecords);
        }
        let (raw, next_position) = RawRecord::parse(self.payload, self.position)?;
        if raw.offset_delta <= self.previous_delta || raw.offset_delta > self.header.last_offset_delta {
            return Err(RecordFault::OffsetDelta);
        }
        let headers = Headers::checked(raw.headers)?;
        self.previous_delta = raw.offset_delta;
        self.position = next_position;
        self.index += 1;
        Ok(Some(Record {
            offset: self.header.base_offset + i64::from(raw.offset_delta),
            timestamp_ms: raw.timestamp_ms(&self.header),
            key: raw.key,
            value: raw.value,
            headers,
        }))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordsError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        match self.read() {
            Ok(Some(record)) => Some(Ok(record)),
            Ok(None) => {
                self.finished = true;
                None
            }
            Err(fault) => {
                self.finished = true;
                Some(Err(RecordsError::Record {
                    base_offset: self.header.base_offset,
                    index: self.index,
                    position: self.position,
                    fault,
                }))
            }
        }
    }
}

/// A record as in the payload: with deltas, and with unparsed headers.
#[derive(Debug, Clone, Copy)]
pub struct RawRecord<'a> {
    /// The timestamp minus the batch's base timestamp, in milliseconds.
    pub timestamp_delta: i64,
    /// The offset minus the batch's base offset.
    pub offset_delta: i32,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value.
    pub value: Option<&'a [u8]>,
    /// The bytes of the header count and the headers, up to the end of the record.
    pub headers: &'a [u8],
}

impl<'a> RawRecord<'a> {
    /// Parses the record at `position` and returns it with the position of the next one.
    ///
    /// # Errors
    /// A field or length that does not fit.
    #[inline]
    pub fn parse(payload: &'a [u8], position: usize) -> Result<(Self, usize), RecordFault> {
        let mut start = position;
        let length = varint::read_i32(payload, &mut start)?;
        let length = usize::try_from(length).map_err(|_| RecordFault::RecordLength)?;
        let record = payload.get(start..).and_then(|rest| rest.get(..length)).ok_or(RecordFault::RecordLength)?;
        // Byte 0 is the record's attributes, of which Kafka uses none.
        let mut at = 1;
        let timestamp_delta = varint::read_i64(record, &mut at)?;
        let offset_delta = varint::read_i32(record, &mut at)?;
        let key = read_nullable(record, &mut at)?;
        let value = read_nullable(record, &mut at)?;
        let headers = record.get(at..).filter(|headers| !headers.is_empty());
        let headers = headers.ok_or(RecordFault::Truncated)?;
        Ok((Self { timestamp_delta, offset_delta, key, value, headers }, start + length))
    }

    /// The timestamp of the record in a batch with this header, in milliseconds since the epoch. It saturates where a
    /// hostile delta would overflow.
    pub fn timestamp_ms(&self, header: &BatchHeader) -> i64 {
        if header.has_append_time() {
            header.max_timestamp
        } else {
            header.base_timestamp.saturating_add(self.timestamp_delta)
        }
    }
}

#[inline]
fn read_nullable<'a>(record: &'a [u8], at: &mut usize) -> Result<Option<&'a [u8]>, RecordFault> {
    let length = varint::read_i32(record, at)?;
    if length == -1 {
        return Ok(None);
    }
    let length = usize::try_from(length).map_err(|_| RecordFault::FieldLength)?;
    let field = record.get(*at..).and_then(|rest| rest.get(..length));
    *at += length;
    field.map(Some).ok_or(RecordFault::FieldLength)
}

/// A reader of a [`RawRecord`]'s headers, which checks each header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderReader<'a> {
    bytes: &'a [u8],
    at: usize,
    remaining: usize,
}

impl<'a> HeaderReader<'a> {
    /// Reads the count. `bytes` are [`RawRecord::headers`].
    ///
    /// # Errors
    /// [`RecordFault::HeaderCount`] for a count that the bytes cannot hold, and faults of the varint.
    pub fn new(bytes: &'a [u8]) -> Result<Self, RecordFault> {
        let mut at = 0;
        let count = varint::read_i32(bytes, &mut at)?;
        // A header has at least two bytes.
        let remaining = usize::try_from(count)
            .ok()
            .filter(|&count| count <= (bytes.len() - at) / 2)
            .ok_or(RecordFault::HeaderCount)?;
        Ok(Self { bytes, at, remaining })
    }

    /// Number of headers left.
    pub fn remaining(&self) -> usize {
        self.remaining
    }

    /// The next header; `None` after the last one.
    ///
    /// # Errors
    /// A header that does not fit, and bytes left over behind the last one.
    pub fn read(&mut self) -> Result<Option<Header<'a>>, RecordFault> {
        if self.remaining == 0 {
            let clean = self.at == self.bytes.len();
            return if clean { Ok(None) } else { Err(RecordFault::LeftoverBytes) };
        }
        let field = |at: &mut usize| {
            read_nullable(self.bytes, at).map_err(|fault| match fault {
                RecordFault::FieldLength => RecordFault::HeaderLength,
                other => other,
            })
        };
        let key = field(&mut self.at)?.ok_or(RecordFault::HeaderLength)?;
        let value = field(&mut self.at)?;
        self.remaining -= 1;
        Ok(Some(Header { key, value }))
    }
}

/// The headers of a [`Record`], in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headers<'a>(HeaderReader<'a>);

impl<'a> Headers<'a> {
    fn checked(bytes: &'a [u8]) -> Result<Self, RecordFault> {
        let reader = HeaderReader::new(bytes)?;
        let mut check = reader;
        while check.read()?.is_some() {}
        Ok(Self(reader))
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        // `checked` has read every header without a fault.
        self.0.read().ok().flatten()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.remaining(), Some(self.0.remaining()))
    }
}

impl ExactSizeIterator for Headers<'_> {}
