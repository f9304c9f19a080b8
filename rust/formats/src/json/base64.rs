//! Base64, as Jackson reads it: padding is needed, and white space may stand between groups of four.

/// Appends what the text stands for; `None` if it is not base64.
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
