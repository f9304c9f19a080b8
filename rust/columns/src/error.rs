use std::sync::Arc;

use monedula_protocol::compression::CompressionError;
use monedula_protocol::records::RecordsError;

/// Why a partition's bytes cannot be walked further.
///
/// Everything before `offset` was handed out. The walker stays where it is: the next walk fails the
/// same way, until the bytes are discarded or the partition is sought beyond the trouble.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{topic} [{partition}] at offset {offset}: {kind}")]
pub struct WalkError {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The next offset to be handed out: the first that is not.
    pub offset: i64,
    /// The offset after the batch in question, where its header could be read: seeking there skips
    /// the trouble and the rest of that batch.
    pub next_offset: Option<i64>,
    /// What is wrong.
    pub kind: WalkErrorKind,
}

/// What is wrong with a partition's bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WalkErrorKind {
    /// A batch or record that cannot be read.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// A payload that cannot be decompressed.
    #[error(transparent)]
    Compression(#[from] CompressionError),
    /// The bytes hold no whole batch, so that fetching the same again makes no progress.
    #[error(
        "the fetch returned {fetched_bytes} bytes, less than its first batch ({}); raise max.partition.fetch.bytes",
        batch_bytes.map_or("of unknown size".to_owned(), |bytes| format!("{bytes} bytes"))
    )]
    FetchTooSmall {
        /// How many bytes there are.
        fetched_bytes: usize,
        /// Length of the batch, if the bytes are enough to tell.
        batch_bytes: Option<usize>,
    },
    /// A record whose headers do not fit an Arrow column's 32-bit offsets.
    #[error("the record's headers pass the 2 GiB that an Arrow column can hold")]
    HeadersTooLarge,
}
