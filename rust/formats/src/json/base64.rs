//! Base64 with Jackson's rules: padding is required, and white space may stand between groups of four.

/// Appends the decoded bytes; `None` if the text is not base64.
pub(crate) fn decode(text: &str, into: &mut Vec<u8>) -> Option<()> {
    let mut bytes = text.bytes();
    loop {
        let Some(first) = bytes.find(|byte| *byte > b' ') else { return Some(()) };
        let mut group = digit(first)? << 6 | digit(bytes.next()?)?;
        let third = bytes.next()?;
        if third == b'=' {
            if bytes.next()? != b'=' {
                return None;
            }
            into.push((group >> 4) as u8);
            continue;
        }
        group = group << 6 | digit(third)?;
        let fourth = bytes.next()?;
        if fourth == b'=' {
            into.extend_from_slice(&[(group >> 10) as u8, (group >> 2) as u8]);
            continue;
        }
        group = group << 6 | digit(fourth)?;
        into.extend_from_slice(&group.to_be_bytes()[1..]);
    }
}

/// Appends the text of bytes.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |bits: u32| DIGITS[(bits & 63) as usize];
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        let third = if group.len() > 1 { digit(bits >> 6) } else { b'=' };
        let fourth = if group.len() > 2 { digit(bits) } else { b'=' };
        out.extend_from_slice(&[digit(bits >> 18), digit(bits >> 12), third, fourth]);
    }
}

/// Text of bytes.
pub(crate) fn text(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    encode(bytes, &mut text);
    String::from_utf8(text).unwrap_or_default()
}

fn digit(byte: u8) -> Option<u32> {
    Some(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn texts_are_read_as_jackson_reads_them() {
        let cases: [(&str, Option<&[u8]>); 11] = [
            ("", Some(b"")),
            ("aGk=", Some(b"hi")),
            ("aB==", Some(b"h")),
            ("YQ==YQ==", Some(b"aa")),
            ("YWJj\nZGVm", Some(b"abcdef")),
            ("aGk=\n", Some(b"hi")),
            ("aG k=", None),
            ("aGk", None),
            ("aGk==", None),
            ("-_8=", None),
            ("!!", None),
        ];
        for (text, expected) in cases {
            let mut bytes = Vec::new();
            assert_eq!(decode(text, &mut bytes).map(|()| &bytes[..]), expected, "{text}");
        }
    }
}
