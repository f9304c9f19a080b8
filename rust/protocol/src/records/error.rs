//! Errors of reading record batches and records.

/// A fault in a partition's record bytes, with its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordsError {
    /// A batch with a message format that is unknown, or that its reader does not take.
    #[error(
        "the batch at offset {base_offset} has message format {magic}; formats 0 to 2 are read, and format 2 is written"
    )]
    UnsupportedMagic {
        /// The offset in the batch's header.
        base_offset: i64,
        /// The magic byte found.
        magic: i8,
    },
    /// A length field that is impossible, so that the next batch cannot be found either.
    #[error("the batch at offset {base_offset} (byte {position}) has the impossible length {batch_length}")]
    BatchLength {
        /// The offset in the batch's header.
        base_offset: i64,
        /// The position at which the batch starts in the bytes.
        position: usize,
        /// The length field.
        batch_length: i32,
    },
    /// A header field with an impossible value, or one that contradicts another field.
    #[error("the batch at offset {base_offset} (byte {position}) has an impossible {field}: {value}")]
    Header {
        /// The offset in the batch's header.
        base_offset: i64,
        /// The position at which the batch starts in the bytes.
        position: usize,
        /// Kafka's name of the field.
        field: &'static str,
        /// The field's value.
        value: i64,
    },
    /// A CRC that does not match the batch's bytes.
    #[error(
        "the batch at offsets {base_offset} to {last_offset} is damaged: its CRC is {computed:#010x}, its header says \
         {stored:#010x}; fetch it again, and if it stays so, it is damaged on the broker's disk"
    )]
    Crc {
        /// First offset of the batch.
        base_offset: i64,
        /// Last offset of the batch.
        last_offset: i64,
        /// The CRC in the header.
        stored: u32,
        /// The CRC of the bytes.
        computed: u32,
    },
    /// A record that cannot be read.
    #[error("record {index} of the batch at offset {base_offset} (byte {position} of its records): {fault}")]
    Record {
        /// First offset of the batch.
        base_offset: i64,
        /// Index of the record in the batch, from 0.
        index: u32,
        /// The position at which the record starts in the uncompressed payload.
        position: usize,
        /// The fault.
        fault: RecordFault,
    },
}

impl RecordsError {
    /// The base offset of the faulty batch, from its header.
    pub fn base_offset(&self) -> i64 {
        match *self {
            Self::UnsupportedMagic { base_offset, .. }
            | Self::BatchLength { base_offset, .. }
            | Self::Header { base_offset, .. }
            | Self::Crc { base_offset, .. }
            | Self::Record { base_offset, .. } => base_offset,
        }
    }
}

/// A fault in one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordFault {
    /// A field reaches past the end of the payload.
    #[error("the bytes end inside a field")]
    Truncated,
    /// A varint with more bytes or bits than its type allows.
    #[error("a varint is longer than its type allows")]
    VarintTooLong,
    /// A record length that is negative, too short, or reaches past the payload.
    #[error("the record length does not fit the batch")]
    RecordLength,
    /// A key or value length below -1 or beyond the record.
    #[error("a key or value length does not fit the record")]
    FieldLength,
    /// A header count that is negative or more than the record's bytes can hold.
    #[error("the header count does not fit the record")]
    HeaderCount,
    /// A header without a key, or with a length that does not fit.
    #[error("a header's key or value length does not fit the record")]
    HeaderLength,
    /// The record's fields end before the record does.
    #[error("the record has bytes that belong to no field")]
    LeftoverBytes,
    /// An offset delta that does not grow, or that passes the batch's last offset.
    #[error("the offset delta is not between the previous record's and the batch's last one")]
    OffsetDelta,
    /// The payload ends before as many records as the header counts.
    #[error("the batch counts more records than it has")]
    TooFewRecords,
    /// The payload has bytes behind as many records as the header counts.
    #[error("the batch has more bytes than the records it counts")]
    TooManyRecords,
    /// A message of another format than the one that holds it.
    #[error("the message has format {0}, unlike the one that holds it")]
    Magic(i8),
    /// A message that is compressed itself, within a compressed one.
    #[error("the message is compressed within a compressed one")]
    CompressedTwice,
    /// A compressed message without a value: no messages are in it.
    #[error("the message is compressed and has no value")]
    NoValue,
    /// A control record whose key is not a version and a type.
    #[error("the control record's key is not a version and a type")]
    ControlKey,
}
