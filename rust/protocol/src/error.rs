//! What can be wrong with bytes or with a message, and where.

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

/// A frame that breaks the protocol, or a message that the asked version cannot carry.
///
/// Offsets count from the start of the bytes given to the decoder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes end inside a value.
    #[error("{place}: {needed} bytes needed at offset {offset}, {remaining} remain: truncated frame or wrong version")]
    Truncated {
        /// Where in the message.
        place: Place,
        /// Where in the bytes.
        offset: usize,
        /// Bytes the value needs.
        needed: usize,
        /// Bytes left.
        remaining: usize,
    },
    /// A length or count that the remaining bytes cannot back.
    #[error(
        "{place}: length {length} at offset {offset} cannot fit in the {remaining} bytes that remain: corrupt or hostile frame"
    )]
    LengthBeyondFrame {
        /// Where in the message.
        place: Place,
        /// Where in the bytes.
        offset: usize,
        /// The length or count read.
        length: usize,
        /// Bytes left.
        remaining: usize,
    },
    /// A length below -1.
    #[error("{place}: length {length} at offset {offset} is negative: corrupt frame")]
    NegativeLength {
        /// Where in the message.
        place: Place,
        /// Where in the bytes.
        offset: usize,
        /// The length read.
        length: i32,
    },
    /// A null where this version has none.
    #[error("{place}: null at offset {offset}, but this version does not allow null")]
    UnexpectedNull {
        /// Where in the message.
        place: Place,
        /// Where in the bytes.
        offset: usize,
    },
    /// A varint that does not end within 32 bits.
    #[error("{place}: varint at offset {offset} does not fit in 32 bits: corrupt frame")]
    VarintTooLong {
        /// Where in the message.
        place: Place,
        /// Where in the bytes.
        offset: usize,
    },
    /// A string that is not UTF-8.
    #[error("{place}: string at offset {offset} is not valid UTF-8")]
    InvalidUtf8 {
        /// Where in the message.
        place: Place,
        /// Where in the bytes.
        offset: usize,
    },
    /// A tag that is not greater than the one before it.
    #[error("{place}: tag {tag} at offset {offset} follows tag {previous}: tags must be unique and ascending")]
    TagOrder {
        /// Where in the message.
        place: Place,
        /// Where in the bytes.
        offset: usize,
        /// The tag read.
        tag: u32,
        /// The tag before it.
        previous: u32,
    },
    /// Bytes left over after the end of a message or of a tagged field.
    #[error("{place}: {count} bytes left over at offset {offset}: wrong version or corrupt frame")]
    TrailingBytes {
        /// Where in the message.
        place: Place,
        /// Where in the bytes.
        offset: usize,
        /// How many are left over.
        count: usize,
    },
    /// A version outside the range this crate speaks.
    #[error("{message} version {version} is not spoken here, only {min} to {max}")]
    UnsupportedVersion {
        /// The message.
        message: &'static str,
        /// The version asked for.
        version: i16,
        /// The lowest version spoken.
        min: i16,
        /// The highest version spoken.
        max: i16,
    },
    /// An API key that this crate does not speak.
    #[error("API key {code} is not spoken here")]
    UnknownApiKey {
        /// The key on the wire.
        code: i16,
    },
    /// A field that holds more than its default, in a version that does not have it.
    #[error("{place}: set, but version {version} cannot carry it: leave it at its default")]
    FieldNotInVersion {
        /// The field.
        place: Place,
        /// The version asked for.
        version: i16,
    },
    /// A null that the version cannot carry.
    #[error("{place}: null, but version {version} cannot carry null")]
    NullNotAllowed {
        /// The field.
        place: Place,
        /// The version asked for.
        version: i16,
    },
    /// A value longer than its length prefix, or Kafka, allows.
    #[error("{place}: length {length} is above the limit of {limit}")]
    TooLong {
        /// The field.
        place: Place,
        /// The length of the value.
        length: usize,
        /// The highest length allowed.
        limit: usize,
    },
    /// A frame length that is negative or above the cap.
    #[error("frame length {length} is outside 0 to {limit}: not a Kafka peer, or the limit is too low")]
    FrameLength {
        /// The length read.
        length: i32,
        /// The cap.
        limit: usize,
    },
}

impl WireError {
    /// Names the field at which the error arose; the innermost name given stays.
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
