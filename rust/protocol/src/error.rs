//! Errors of decoding and encoding, with the message and field at which they arose.

use std::fmt;

/// The message and field at which a [`WireError`] arose; both empty when it arose outside a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Kafka's name of the innermost structure, such as `PartitionData`.
    pub message: &'static str,
    /// The field, in snake case.
    pub field: &'static str,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.message, self.field) {
            ("", "") => f.write_str("Kafka frame"),
            (message, "") => f.write_str(message),
            (message, field) => write!(f, "{message}.{field}"),
        }
    }
}

/// A frame that violates the protocol, or a message that the requested version cannot carry.
///
/// Offsets count from the start of the bytes given to the decoder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes end inside a value.
    #[error("{place}: {needed} bytes needed at offset {offset}, {remaining} remain: truncated frame or wrong version")]
    Truncated {
        /// The message and field.
        place: Place,
        /// Position in the bytes.
        offset: usize,
        /// Number of bytes that the value needs.
        needed: usize,
        /// Number of bytes left.
        remaining: usize,
    },
    /// A length or count that exceeds what the remaining bytes can hold.
    #[error(
        "{place}: length {length} at offset {offset} cannot fit in the {remaining} bytes that remain: corrupt or hostile frame"
    )]
    LengthBeyondFrame {
        /// The message and field.
        place: Place,
        /// Position in the bytes.
        offset: usize,
        /// The length or count read.
        length: usize,
        /// Number of bytes left.
        remaining: usize,
    },
    /// A length below -1.
    #[error("{place}: length {length} at offset {offset} is negative: corrupt frame")]
    NegativeLength {
        /// The message and field.
        place: Place,
        /// Position in the bytes.
        offset: usize,
        /// The length read.
        length: i32,
    },
    /// A null where this version does not allow one.
    #[error("{place}: null at offset {offset}, but this version does not allow null")]
    UnexpectedNull {
        /// The message and field.
        place: Place,
        /// Position in the bytes.
        offset: usize,
    },
    /// A varint that does not end within 32 bits.
    #[error("{place}: varint at offset {offset} does not fit in 32 bits: corrupt frame")]
    VarintTooLong {
        /// The message and field.
        place: Place,
        /// Position in the bytes.
        offset: usize,
    },
    /// A string that is not UTF-8.
    #[error("{place}: string at offset {offset} is not valid UTF-8")]
    InvalidUtf8 {
        /// The message and field.
        place: Place,
        /// Position in the bytes.
        offset: usize,
    },
    /// A tag that is not greater than the one before it.
    #[error("{place}: tag {tag} at offset {offset} follows tag {previous}: tags must be unique and ascending")]
    TagOrder {
        /// The message and field.
        place: Place,
        /// Position in the bytes.
        offset: usize,
        /// The tag read.
        tag: u32,
        /// The tag before it.
        previous: u32,
    },
    /// Bytes left over after the end of a message or of a tagged field.
    #[error("{place}: {count} bytes left over at offset {offset}: wrong version or corrupt frame")]
    TrailingBytes {
        /// The message and field.
        place: Place,
        /// Position in the bytes.
        offset: usize,
        /// The number of bytes left over.
        count: usize,
    },
    /// A version outside the range that this crate supports.
    #[error("{message} version {version} is not spoken here, only {min} to {max}")]
    UnsupportedVersion {
        /// The message.
        message: &'static str,
        /// The requested version.
        version: i16,
        /// The lowest supported version.
        min: i16,
        /// The highest supported version.
        max: i16,
    },
    /// An API key that this crate does not support.
    #[error("API key {code} is not spoken here")]
    UnknownApiKey {
        /// The key on the wire.
        code: i16,
    },
    /// A field that differs from its default, in a version that does not have the field.
    #[error("{place}: set, but version {version} cannot carry it: leave it at its default")]
    FieldNotInVersion {
        /// The field.
        place: Place,
        /// The requested version.
        version: i16,
    },
    /// A null that the version cannot carry.
    #[error("{place}: null, but version {version} cannot carry null")]
    NullNotAllowed {
        /// The field.
        place: Place,
        /// The requested version.
        version: i16,
    },
    /// A value longer than its length prefix or Kafka's own limit allows.
    #[error("{place}: length {length} is above the limit of {limit}")]
    TooLong {
        /// The field.
        place: Place,
        /// The length of the value.
        length: usize,
        /// The highest length allowed.
        limit: usize,
    },
    /// A frame length that is negative or above the limit.
    #[error("frame length {length} is outside 0 to {limit}: not a Kafka peer, or the limit is too low")]
    FrameLength {
        /// The length read.
        length: i32,
        /// The limit.
        limit: usize,
    },
}

impl WireError {
    /// Sets the message and field at which the error arose, unless an inner structure has already set them.
    pub(crate) fn at(mut self, message: &'static str, field: &'static str) -> Self {
        match &mut self {
            Self::Truncated { place, .. }
            | Self::LengthBeyondFrame { place, .. }
            | Self::NegativeLength { place, .. }
            | Self::UnexpectedNull { place, .. }
            | Self::VarintTooLong { place, .. }
            | Self::InvalidUtf8 { place, .. }
            | Self::TagOrder { place, .. }
            | Self::TrailingBytes { place, .. }
            | Self::FieldNotInVersion { place, .. }
            | Self::NullNotAllowed { place, .. }
            | Self::TooLong { place, .. } => {
                if place.message.is_empty() {
                    *place = Place { message, field };
                }
            }
            Self::UnsupportedVersion { .. } | Self::UnknownApiKey { .. } | Self::FrameLength { .. } => {}
        }
        self
    }
}
