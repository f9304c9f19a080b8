//! Numbers of the protocol that users know by words. A number of a newer broker has the word `unknown_` and the number,
//! so that it can be shown, and be sent back.

use crate::error::ClientError;

const UNKNOWN: &str = "unknown_";

pub(super) fn word_of(words: &[(i8, &'static str)], number: i8) -> String {
    let known = words.iter().find(|(known, _)| *known == number);
    known.map_or_else(|| format!("{UNKNOWN}{number}"), |(_, word)| (*word).to_owned())
}

pub(super) fn number_of(words: &[(i8, &'static str)], word: &str, what: &str) -> Result<i8, ClientError> {
    if let Some((number, _)) = words.iter().find(|(_, known)| *known == word) {
        return Ok(*number);
    }
    let unknown = word.strip_prefix(UNKNOWN).and_then(|number| number.parse().ok());
    unknown.ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(_, word)| *word).collect();
        ClientError::Argument(format!("{word:?} is no {what}: expected one of {}", known.join(", ")))
    })
}

/// Generates a type of number with its words.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident, $what:literal { $($number:literal = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub i8);

        impl $name {
            const WORDS: &[(i8, &'static str)] = &[$(($number, $word),)*];

            /// The number of a word, such as the ones that `Display` writes.
            ///
            /// # Errors
            /// [`ClientError::Argument`], with the words that there are.
            pub fn from_word(word: &str) -> Result<Self, $crate::error::ClientError> {
                $crate::admin::words::number_of(Self::WORDS, word, $what).map(Self)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&$crate::admin::words::word_of(Self::WORDS, self.0))
            }
        }
    };
}

pub(super) use words;

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &[(i8, &str)] = &[(2, "deny"), (3, "allow")];

    #[test]
    fn a_number_of_a_newer_broker_has_a_word_that_leads_back_to_it() {
        assert_eq!(word_of(WORDS, 3), "allow");
        assert_eq!(word_of(WORDS, 17), "unknown_17");
        assert_eq!(number_of(WORDS, "unknown_17", "permission").unwrap(), 17);
        assert_eq!(number_of(WORDS, "unknown_-1", "permission").unwrap(), -1);
    }

    #[test]
    fn a_word_that_does_not_exist_is_refused_with_those_that_do() {
        let error = number_of(WORDS, "alow", "permission").unwrap_err().to_string();
        assert_eq!(error, r#""alow" is no permission: expected one of deny, allow"#);
        assert!(number_of(WORDS, "unknown_300", "permission").is_err());
    }
}
