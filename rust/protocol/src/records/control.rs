use super::{Record, RecordFault, Records, RecordsError, header::array};

/// What the record of a control batch says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ControlRecordType {
    /// The producer's transaction was aborted.
    Abort,
    /// The producer's transaction was committed.
    Commit,
    /// Another type: KRaft's, or one that Kafka has added since.
    Other(i16),
}

impl ControlRecordType {
    /// Kafka's number.
    pub fn id(self) -> i16 {
        match self {
            Self::Abort => 0,
            Self::Commit => 1,
            Self::Other(id) => id,
        }
    }

    /// Reads the key of a control record: a version, which later ones may append to, and a type.
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

/// The type of the first record of a control batch, `None` if compaction has removed it.
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
