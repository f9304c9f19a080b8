//! The errors of a walk over a partition's fetched bytes.

use std::sync::Arc;

use monedula_protocol::compression::CompressionError;
use monedula_protocol::records::RecordsError;

use crate::typed::BadValue;

/// Reason why a partition's bytes cannot be walked further.
///
/// All records before `offset` were appended. The walker does not move: the next walk fails in the
/// same way, until the bytes are discarded or the partition is read from an offset past the faulty batch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{topic} [{partition}] at offset {offset}: {kind}")]
pub struct WalkError {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The first offset that was not appended: the walker's position.
    pub offset: i64,
    /// The offset after the faulty batch, if its header could be read. Seeking there skips the rest of
    /// that batch. After a value that cannot be decoded, the offset after its record.
    pub next_offset: Option<i64>,
    /// The fault.
    pub kind: WalkErrorKind,
}

/// A fault in a partition's bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WalkErrorKind {
    /// A batch or record that cannot be read.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// A payload that cannot be decompressed.
    #[error("{0}{remedy}", remedy = remedy(.0))]
    Compression(#[from] CompressionError),
    /// The fetched bytes hold no whole batch, so the same fetch again would make no progress.
    #[error(
        "the fetch returned {fetched_bytes} bytes, less than its first batch ({}); raise max.partition.fetch.bytes",
        batch_bytes.map_or("of unknown size".to_owned(), |bytes| format!("{bytes} bytes"))
    )]
    FetchTooSmall {
        /// Number of fetched bytes.
        fetched_bytes: usize,
        /// Length of the batch in bytes, if its length field was fetched.
        batch_bytes: Option<usize>,
    },
    /// A record whose headers do not fit an Arrow column's 32-bit offsets.
    #[error("the record's headers pass the 2 GiB that an Arrow column can hold")]
    HeadersTooLarge,
    /// A record whose key or value cannot be decoded.
    #[error("the {column} cannot be decoded: {bad}")]
    BadValue {
        /// `key` or `value`.
        column: &'static str,
        /// Fault of the value. Boxed, so that results with errors stay small.
        bad: Box<BadValue>,
    },
    /// A record whose key or value cannot be decoded without its schema, which is unavailable. The bytes may be walked
    /// again.
    #[error("the {column} cannot be decoded: {reason}")]
    Unavailable {
        /// `key` or `value`.
        column: &'static str,
        /// Name of the missing thing, and the reason why it is missing.
        reason: String,
    },
}

fn remedy(error: &CompressionError) -> &'static str {
    match error {
        CompressionError::OutputLimit { .. } => {
            "; raise max.decompressed.batch.bytes if the topic really holds such batches"
        }
        _ => "",
    }
}
