//! Kafka's rules for topic names.

use crate::error::ClientError;

const MAX_LENGTH: usize = 249;

/// Refuses a name that every broker would refuse.
pub(crate) fn check(name: &str) -> Result<(), ClientError> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if (1..=MAX_LENGTH).contains(&name.len()) && name.bytes().all(legal) && name != "." && name != ".." {
        return Ok(());
    }
    // The name may be arbitrarily long; the error shows only its beginning.
    let shown: String = name.chars().take(MAX_LENGTH + 1).collect();
    let message = format!(
        "{shown:?} is no name for a topic: expected 1 to {MAX_LENGTH} of the characters a-z, A-Z, 0-9, \".\", \"_\" and \
         \"-\", and not \".\" or \"..\""
    );
    Err(ClientError::Argument(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_kafka_takes() {
        for legal in ["a", "...", "Orders.eu_1-x", &"x".repeat(249)] {
            assert!(check(legal).is_ok(), "{legal}");
        }
        for illegal in ["", ".", "..", "a/b", "a b", "\u{e9}", "a\0", "a,b", &"x".repeat(250)] {
            let error = check(illegal).expect_err(illegal).to_string();
            assert!(error.contains("249"), "{error}");
        }
    }
}
