//! Conditions on a record that are decided before its key and value are decoded.

use monedula_protocol::records::{BatchHeader, HeaderReader, RawRecord, RecordFault};

use crate::bytes_test::BytesTest;
use crate::records::{BatchSource, offset_of};
use crate::rows::timestamp_us;

/// Intervals of numbers with both their ends.
pub type Intervals = Vec<(i64, i64)>;

/// A condition on a record as it was written. Records that do not meet it get no row, and are not decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordFilter {
    /// Every one of these holds.
    All(Vec<RecordFilter>),
    /// One of these holds.
    Any(Vec<RecordFilter>),
    /// Name of the topic.
    Topic(BytesTest),
    /// Number of the partition.
    Partition(Intervals),
    /// Offset.
    Offset(Intervals),
    /// Timestamp in microseconds since the epoch.
    Timestamp(Intervals),
    /// Bytes of the key.
    Key(BytesTest),
    /// Value of the last header with this name; absent if there is none, or if its value is null.
    Header(Vec<u8>, BytesTest),
}

impl RecordFilter {
    /// True if the record meets the condition.
    ///
    /// # Errors
    /// Headers that cannot be read, if the condition asks for one.
    pub(crate) fn holds(
        &self,
        source: BatchSource<'_>,
        record: &RawRecord<'_>,
        header: &BatchHeader,
    ) -> Result<bool, RecordFault> {
        let within = |intervals: &Intervals, number: i64| {
            intervals.iter().any(|&(first, last)| (first..=last).contains(&number))
        };
        Ok(match self {
            Self::All(parts) => {
                for part in parts {
                    if !part.holds(source, record, header)? {
                        return Ok(false);
                    }
                }
                true
            }
            Self::Any(parts) => {
                for part in parts {
                    if part.holds(source, record, header)? {
                        return Ok(true);
                    }
                }
                false
            }
            Self::Topic(test) => test.holds(Some(source.topic.as_bytes())),
            Self::Partition(intervals) => within(intervals, source.partition.into()),
            Self::Offset(intervals) => within(intervals, offset_of(header, record)),
            Self::Timestamp(intervals) => within(intervals, timestamp_us(record, header)),
            Self::Key(test) => test.holds(record.key),
            Self::Header(name, test) => test.holds(last_header(record.headers, name)?),
        })
    }
}

/// Value of the last header with this name, among headers in the record's encoding.
///
/// # Errors
/// Headers that cannot be read.
pub(crate) fn last_header<'r>(headers: &'r [u8], name: &[u8]) -> Result<Option<&'r [u8]>, RecordFault> {
    let mut reader = HeaderReader::new(headers)?;
    let mut found = None;
    while let Some(header) = reader.read()? {
        if header.key == name {
            found = header.value;
        }
    }
    Ok(found)
}
