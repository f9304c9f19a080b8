//! Kafka's rules for topic names.

use crate::error::ClientError;

const MAX_LENGTH: usize = 249;

/// Characters that patterns have and names have not.
const OF_PATTERNS: &[char] = &['*', '+', '?', '|', '^', '$', '(', ')', '[', ']', '{', '}', '\\'];

/// The name of a topic to be read, which users of other clients also give patterns for.
///
/// # Errors
/// As [`check`]; where the name looks like a pattern, the error says how to subscribe to one.
pub(crate) fn check_read(name: &str) -> Result<(), ClientError> {
    let refused = check(name);
    match refused {
        Err(ClientError::Argument(message)) if name.contains(OF_PATTERNS) => {
            Err(ClientError::Argument(format!("{message}; did you mean subscribe(pattern={})?", quoted(name))))
        }
        refused => refused,
    }
}

/// The known topic whose name is nearly this one: a fifth of it differs at most, or only upper and lower case.
pub(crate) fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let (plain, most) = (name.to_lowercase(), (name.len() / 5).clamp(1, 3));
    let near = known.into_iter().filter(|other| *other != name).map(|other| {
        let distance = strsim::damerau_levenshtein(&plain, &other.to_lowercase());
        (distance, other)
    });
    near.filter(|(distance, _)| *distance <= most).min().map(|(_, other)| other)
}

/// Refuses a name that every broker would refuse.
pub(crate) fn check(name: &str) -> Result<(), ClientError> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if (1..=MAX_LENGTH).contains(&name.len()) && name.bytes().all(legal) && name != "." && name != ".." {
        return Ok(());
    }
    let shown = quoted(name);
    let message = format!(
        "{shown} is no name for a topic: expected 1 to {MAX_LENGTH} of the characters a-z, A-Z, 0-9, \".\", \"_\" and \
         \"-\", and not \".\" or \"..\""
    );
    Err(ClientError::Argument(message))
}

/// The name in quotes. It may be arbitrarily long; only its beginning is shown.
fn quoted(name: &str) -> String {
    let shown: String = name.chars().take(MAX_LENGTH + 1).collect();
    format!("{shown:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_in_place_of_a_name_is_answered_with_how_to_subscribe_to_it() {
        for pattern in ["^ux-.*", "ux-.*", "a|b", "orders-[0-9]+", "orders\\..*"] {
            let error = check_read(pattern).expect_err(pattern).to_string();
            assert!(error.ends_with(&format!("; did you mean subscribe(pattern={pattern:?})?")), "{error}");
        }
        let error = check_read("a b").expect_err("a space").to_string();
        assert!(!error.contains("pattern"), "{error}");
        assert!(check_read("orders").is_ok());
    }

    #[test]
    fn the_nearest_topic_is_nearly_the_same() {
        let known = ["orders", "order-lines", "payments", "Returns"];
        for (name, near) in [
            ("orderz", Some("orders")),
            ("oders", Some("orders")),
            ("order-linse", Some("order-lines")),
            ("returns", Some("Returns")),
            ("invoices", None),
            ("o", None),
            ("orders", None),
        ] {
            assert_eq!(nearest(name, known), near, "{name}");
        }
    }

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
