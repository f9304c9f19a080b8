//! `ssl.principal.mapping.rules` (KIP-371): which principal a certificate's subject becomes.
//!
//! Patterns have the syntax of Rust's `regex`: there is no looking around, and no back reference in a pattern.

use std::fmt::Write;

use regex::{Captures, Regex};

/// The rules, of which the first that matches counts.
#[derive(Clone, Debug)]
pub struct PrincipalMapping(Vec<MappingRule>);

#[derive(Clone, Debug)]
enum MappingRule {
    /// The subject as it is.
    Default,
    /// `RULE:pattern/replacement/[LU]`. The pattern matches the whole subject.
    Replace { pattern: Regex, replacement: String, case: Case },
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Case {
    AsItIs,
    Lower,
    Upper,
}

impl Default for PrincipalMapping {
    fn default() -> Self {
        Self(vec![MappingRule::Default])
    }
}

impl PrincipalMapping {
    /// Parses rules, which are separated by commas.
    ///
    /// # Errors
    /// Rules that cannot be parsed.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (rule, behind) = rule(rest)?;
            rules.push(rule);
            rest = behind.trim_start();
            match rest.strip_prefix(',') {
                Some(more) => rest = more.trim_start(),
                None if rest.is_empty() => {}
                None => return Err(format!("{rest:?} follows a rule, where a comma is expected")),
            }
        }
        Ok(if rules.is_empty() { Self::default() } else { Self(rules) })
    }

    /// The principal's name; `None` if no rule matches, which refuses the client.
    pub(crate) fn apply(&self, subject: &str) -> Option<String> {
        self.0.iter().find_map(|rule| match rule {
            MappingRule::Default => Some(subject.to_owned()),
            MappingRule::Replace { pattern, replacement, case } => {
                let name = expanded(replacement, &pattern.captures(subject)?);
                Some(match case {
                    Case::AsItIs => name,
                    Case::Lower => name.to_lowercase(),
                    Case::Upper => name.to_uppercase(),
                })
            }
        })
    }
}

/// The first rule of a text, and what follows it.
fn rule(text: &str) -> Result<(MappingRule, &str), String> {
    if let Some(rest) = text.strip_prefix("DEFAULT") {
        return Ok((MappingRule::Default, rest));
    }
    let parts = text.strip_prefix("RULE:").and_then(|rest| {
        let (pattern, rest) = to_slash(rest)?;
        let (replacement, rest) = to_slash(rest)?;
        Some((pattern, replacement, rest))
    });
    let (pattern, replacement, rest) =
        parts.ok_or_else(|| format!("{text:?} is neither DEFAULT nor RULE:pattern/replacement/[LU]"))?;
    let pattern = Regex::new(&format!("^(?:{pattern})$")).map_err(|error| format!("{pattern:?}: {error}"))?;
    let (case, rest) = match rest.chars().next() {
        Some('L') => (Case::Lower, &rest[1..]),
        Some('U') => (Case::Upper, &rest[1..]),
        _ => (Case::AsItIs, rest),
    };
    Ok((MappingRule::Replace { pattern, replacement: replacement.to_owned(), case }, rest))
}

/// The text up to a slash without a backslash before it, and what follows the slash.
fn to_slash(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '/' if !escaped => return Some((&text[..at], &text[at + 1..])),
            letter => escaped = letter == '\\' && !escaped,
        }
    }
    None
}

/// A replacement as Java's `replaceAll` reads it: `$1` is a group if the pattern has it, and `\` takes what follows it
/// literally.
fn expanded(replacement: &str, found: &Captures<'_>) -> String {
    let mut name = String::new();
    let mut letters = replacement.chars();
    while let Some(letter) = letters.next() {
        let group = letters.clone().next().and_then(|next| next.to_digit(10)).map(|digit| digit as usize);
        match (letter, group) {
            ('\\', _) => name.extend(letters.next()),
            ('$', Some(group)) if group < found.len() => {
                letters.next();
                let _ = write!(name, "{}", found.get(group).map_or("", |found| found.as_str()));
            }
            _ => name.push(letter),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBJECT: &str = "CN=Anna,OU=Ops,O=Example,C=CZ";

    fn mapped(rules: &str) -> Option<String> {
        PrincipalMapping::parse(rules).unwrap().apply(SUBJECT)
    }

    #[test]
    fn the_first_rule_that_matches_counts() {
        assert_eq!(mapped(""), Some(SUBJECT.to_owned()));
        assert_eq!(mapped("DEFAULT"), Some(SUBJECT.to_owned()));
        assert_eq!(mapped("RULE:^CN=(.*?),OU=Ops.*$/$1/"), Some("Anna".to_owned()));
        assert_eq!(mapped("RULE:^CN=(.*?),.*$/$1@example/L"), Some("anna@example".to_owned()));
        assert_eq!(mapped("RULE:CN=(.*?),OU=(.*?),.*/$2-$1/U , DEFAULT"), Some("OPS-ANNA".to_owned()));
        assert_eq!(mapped("RULE:CN=(.*?),OU=Dev.*/$1/, RULE:CN=(.*?),.*/other-$1/"), Some("other-Anna".to_owned()));
        assert_eq!(mapped("RULE:CN=(.*?),OU=Dev.*/$1/,DEFAULT"), Some(SUBJECT.to_owned()));
    }

    #[test]
    fn a_subject_without_a_rule_has_no_principal() {
        assert_eq!(mapped("RULE:CN=Ben,.*/ben/"), None);
        assert_eq!(mapped("RULE:CN=Anna/anna/"), None, "a pattern matches the whole subject");
    }

    #[test]
    fn replacements_are_read_as_java_reads_them() {
        assert_eq!(mapped(r"RULE:CN=(.*?),.*/a\/b$7\$1$1/"), Some("a/b$7$1Anna".to_owned()));
    }

    #[test]
    fn what_is_no_rule_is_told() {
        for (rules, problem) in [
            ("RULE:CN=(.*)/$1", "neither DEFAULT nor RULE"),
            ("default", "neither DEFAULT nor RULE"),
            ("RULE:CN=(/x/", "unclosed"),
            ("DEFAULT RULE:a/b/", "where a comma is expected"),
        ] {
            let error = PrincipalMapping::parse(rules).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}
