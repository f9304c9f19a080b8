//! Comments in JSON, `/* */` and `//`, which Spark's option `allowComments` permits.

/// Replaces comments by spaces. Quoted text stays, and so does an unterminated comment.
pub(crate) fn blank(text: &str, single_quotes: bool, scratch: &mut String) {
    scratch.clear();
    let (bytes, mut at, mut kept) = (text.as_bytes(), 0, 0);
    let mut quote = None;
    while let Some(byte) = bytes.get(at) {
        match (quote, byte) {
            (Some(_), b'\\') => at += 1,
            (Some(open), close) if open == *close => quote = None,
            (Some(_), _) => {}
            (None, b'"') => quote = Some(b'"'),
            (None, b'\'') if single_quotes => quote = Some(b'\''),
            (None, b'/') => {
                if let Some(length) = length(text, at) {
                    scratch.push_str(text.get(kept..at).unwrap_or_default());
                    scratch.extend(std::iter::repeat_n(' ', length));
                    at += length;
                    kept = at;
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    scratch.push_str(text.get(kept..).unwrap_or_default());
}

/// Length of the comment that begins at `at`, not counting the line end.
fn length(text: &str, at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    if let Some(inner) = rest.strip_prefix("/*") {
        return inner.find("*/").map(|end| end + 4);
    }
    rest.strip_prefix("//").map(|line| line.find(['\n', '\r']).unwrap_or(line.len()) + 2)
}

#[cfg(test)]
mod tests {
    #[test]
    fn comments_become_spaces_and_texts_stay() {
        let cases = [
            ("{/*a*/\"b\"://c\n1}", "{     \"b\":   \n1}"),
            (r#"{"a//b":"\"/*c*/"}"#, r#"{"a//b":"\"/*c*/"}"#),
            ("{'/*':1}//", "{'/*':1}  "),
            ("{}/*", "{}/*"),
            ("/", "/"),
        ];
        for (text, expected) in cases {
            let mut blanked = String::new();
            super::blank(text, true, &mut blanked);
            assert_eq!(blanked, expected);
        }
    }
}
