//! Bytes that are never printed: passwords, keys, tokens.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// A password, key or token.
///
/// `Debug` prints `Secret(***)`, and there is neither `Display` nor serialization, so that a struct with a secret in it
/// can be logged. Comparison takes constant time for secrets of equal length. The bytes are overwritten when the value
/// is dropped; that does not reach copies which the caller made of [`Secret::expose`], nor the memory that a growing
/// `String` left behind before it became a secret.
#[derive(Clone, Default)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes ownership of the bytes; a `String` or `Vec` is not copied.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(Zeroizing::new(bytes.into()))
    }

    /// The bytes. The name marks each place at which a secret leaves its type.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// The bytes as text; `None` if they are not UTF-8.
    pub fn expose_text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// Returns true if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_slice().ct_eq(other.0.as_slice()).into()
    }
}

impl Eq for Secret {}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<Vec<u8>> for Secret {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_neither_the_bytes_nor_how_many_there_are() {
        assert_eq!(format!("{:?}", Secret::from("hunter2")), "Secret(***)");
        assert_eq!(format!("{:#?}", Some(Secret::default())), "Some(\n    Secret(***),\n)");
    }

    #[test]
    fn secrets_are_equal_if_their_bytes_are() {
        assert_eq!(Secret::from("hunter2"), Secret::new(*b"hunter2"));
        assert_ne!(Secret::from("hunter2"), Secret::from("hunter3"));
        assert_ne!(Secret::from("hunter2"), Secret::from("hunter"));
    }

    #[test]
    fn bytes_that_are_not_text_are_kept_as_they_are() {
        let secret = Secret::new([0xff, 0, b' ']);
        assert_eq!(secret.expose(), [0xff, 0, b' ']);
        assert_eq!(secret.expose_text(), None);
        assert_eq!(Secret::from(" a ").expose_text(), Some(" a "));
    }
}
