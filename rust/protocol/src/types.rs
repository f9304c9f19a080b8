//! Types that messages share.

use std::fmt;
use std::str::FromStr;

use crate::base64;

/// A topic id or directory id. Its text form is Kafka's: 22 characters of URL-safe base64.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Debug)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// The id that means "no id".
    pub const ZERO: Self = Self([0; 16]);

    /// Returns true for [`Uuid::ZERO`].
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base64::encode_url_safe(&self.0))
    }
}

/// Text that is not a [`Uuid`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a Kafka UUID: 22 characters of URL-safe base64 are expected")]
pub struct ParseUuidError {
    text: String,
}

impl FromStr for Uuid {
    type Err = ParseUuidError;

    fn from_str(text: &str) -> Result<Self, ParseUuidError> {
        let refused = || ParseUuidError { text: text.chars().take(64).collect() };
        // Kafka has the same limit: longer text cannot be a UUID.
        if text.len() > 24 {
            return Err(refused());
        }
        let bytes = base64::decode(text).ok_or_else(refused)?;
        bytes.try_into().map(Self).map_err(|_| refused())
    }
}

/// Bytes of a message that must not be printed: the HMAC of a delegation token, a salted password. `Debug` hides them.
///
/// Comparison is the plain comparison of slices, for tests of whole messages: its time depends on the number of equal
/// bytes, so it must not decide whether a secret is correct.
#[derive(Copy, Clone, PartialEq, Eq, Default)]
pub struct SecretBytes<'a>(&'a [u8]);

impl<'a> SecretBytes<'a> {
    /// Hides `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes themselves.
    pub const fn expose(&self) -> &'a [u8] {
        self.0
    }
}

impl fmt::Debug for SecretBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBytes(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_bytes_are_not_printed() {
        let secret = SecretBytes::new(b"canary");
        assert_eq!(format!("{secret:?} {secret:#?}"), "SecretBytes(***) SecretBytes(***)");
        assert_eq!(secret.expose(), b"canary");
    }

    #[test]
    fn text_is_that_of_kafka() {
        // org.apache.kafka.common.Uuid.METADATA_TOPIC_ID, which is (0, 1).
        let mut bytes = [0; 16];
        bytes[15] = 1;
        assert_eq!(Uuid(bytes).to_string(), "AAAAAAAAAAAAAAAAAAAAAQ");
        assert_eq!("AAAAAAAAAAAAAAAAAAAAAQ".parse(), Ok(Uuid(bytes)));
    }

    #[test]
    fn other_text_is_refused_by_name() {
        for text in ["", "AAAA", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "????????????????????=="] {
            let error = text.parse::<Uuid>().unwrap_err();
            assert!(error.to_string().contains(text));
        }
    }
}
