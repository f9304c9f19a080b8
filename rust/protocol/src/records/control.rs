//! Control records: the markers that end a transaction (KIP-98).

use super::{Record, RecordFault, Records, RecordsError, header::array};

/// The type of a control record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ControlRecordType {
    /// The producer's transaction was aborted.
    Abort,
    /// The producer's transaction was committed.
    Commit,
    /// Another type: one of KRaft's, or one that a later Kafka has added.
    Other(i16),
}

impl ControlRecordType {
    /// Kafka's number of the type.
    pub fn id(self) -> i16 {
        match self {
            Self::Abort => 0,
            Self::Commit => 1,
            Self::Other(id) => id,
        }
    }

    /// Parses the key of a control record: a version and a type. Bytes that a later version appends are ignored.
    pub fn parse_key(key: &[u8]) -> Result<Self, RecordFault> {
        if key.len() < 4 {
            return Err(RecordFault::ControlKey);
        }
        Ok(match i16::from_be_bytes(array(key, 2)) {
            0 => Self::Abort,
            1 => Self::Commit,
            other => Self::Other(other),
        })
    }
}

/// The type of a control batch's first record; `None` if compaction has removed the record.
pub fn control_record(mut records: Records<'_>) -> Result<Option<ControlRecordType>, RecordsError> {
    let Some(record) = records.next() else {
        return Ok(None);
    };
    let Record { offset, key, .. } = record?;
    ControlRecordType::parse_key(key.unwrap_or_default()).map(Some).map_err(|fault| RecordsError::Record {
        base_offset: offset,
        index: 0,
        position: 0,
        fault,
    })
}
