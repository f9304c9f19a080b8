//! Kafka's compression codecs, with a hard limit on their output.
//!
//! A size declared in the data is only a hint: no codec allocates beyond the limit of its output, whatever the bytes
//! claim. Contexts are kept in a [`Decompressor`] or [`Compressor`] and reused from batch to batch.
//! The codecs work on bytes and do not depend on the format of record batches.

#[cfg(feature = "codecs")]
mod compress;
#[cfg(feature = "codecs")]
mod decompress;
#[cfg(feature = "codecs")]
mod gzip;
#[cfg(feature = "codecs")]
mod lz4;
#[cfg(feature = "codecs")]
mod snappy;
#[cfg(feature = "codecs")]
mod zstd;

#[cfg(feature = "codecs")]
pub use compress::Compressor;
#[cfg(feature = "codecs")]
pub use decompress::{Decompressor, MAX_OUTPUT_BYTES, OutputBuffer};

/// The codec of a record batch: bits 0 to 2 of its attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// Gzip (RFC 1952), possibly with several members.
    Gzip,
    /// Snappy blocks in xerial's framing, or one raw block.
    Snappy,
    /// LZ4 frames.
    Lz4,
    /// Zstandard frames (KIP-110).
    Zstd,
}

impl Compression {
    /// Every codec, in the order of the ids.
    pub const ALL: [Compression; 5] =
        [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

    /// The codec with this id; `None` for an id that Kafka has not defined.
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.get(usize::from(id)).copied()
    }

    /// The id in a batch's attributes.
    pub fn id(self) -> u8 {
        self as u8
    }

    /// The name in `compression.type`.
    pub fn name(self) -> &'static str {
        ["none", "gzip", "snappy", "lz4", "zstd"][self as usize]
    }
}

impl std::fmt::Display for Compression {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Reason why bytes could not be compressed or decompressed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompressionError {
    /// Damaged bytes, or bytes of another codec.
    #[error("corrupt {codec} data: {reason}")]
    Corrupt {
        /// The codec of the call.
        codec: Compression,
        /// The fault in the bytes.
        reason: String,
    },
    /// The codec's context cannot be allocated.
    #[error("no memory to decompress {codec} data")]
    NoMemory {
        /// The codec of the call.
        codec: Compression,
    },
    /// Output beyond its limit.
    #[error("{compressed_bytes} bytes of {codec} data decompress to more than the allowed {limit_bytes} bytes")]
    OutputLimit {
        /// The codec of the call.
        codec: Compression,
        /// Length of the compressed input in bytes.
        compressed_bytes: usize,
        /// The limit, in bytes.
        limit_bytes: usize,
    },
    /// Input or level that the encoder refused.
    #[error("cannot compress with {codec}: {reason}")]
    Encode {
        /// The codec of the call.
        codec: Compression,
        /// The encoder's message, or the refused level.
        reason: String,
    },
}

#[cfg(feature = "codecs")]
impl CompressionError {
    pub(crate) fn corrupt(codec: Compression, reason: impl Into<String>) -> Self {
        Self::Corrupt { codec, reason: reason.into() }
    }
}
