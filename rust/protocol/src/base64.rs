//! Base64 encoding and decoding, for the text form of UUIDs, for JSON and for SASL.

const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Encodes to the URL-safe alphabet, without padding.
pub fn encode_url_safe(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut group = [0; 3];
        group[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes([0, group[0], group[1], group[2]]);
        for index in 0..=chunk.len() {
            let sextet = (bits >> (18 - 6 * index)) & 0x3f;
            text.push(char::from(URL_SAFE[sextet as usize]));
        }
    }
    text
}

/// Encodes to the standard alphabet, with padding.
#[cfg(any(feature = "json", feature = "sasl"))]
pub fn encode(bytes: &[u8]) -> String {
    let mut text = encode_url_safe(bytes).replace('-', "+").replace('_', "/");
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

/// Decodes either alphabet, with or without padding; `None` for any other text.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.chunks(4) {
        let mut bits = 0;
        for &character in group {
            bits = bits << 6 | sextet(character)?;
        }
        let bit_count = group.len() * 6;
        let aligned = bits << (24 - bit_count);
        // A lone character holds six bits, which is less than a byte.
        if group.len() == 1 {
            return None;
        }
        bytes.extend_from_slice(&aligned.to_be_bytes()[1..=bit_count / 8]);
    }
    Some(bytes)
}

/// Decodes the standard alphabet with padding, in which every value has exactly one text; `None` for any other text.
#[cfg(feature = "sasl")]
pub(crate) fn decode_standard(text: &str) -> Option<Vec<u8>> {
    decode(text).filter(|bytes| encode(bytes) == text)
}

fn sextet(character: u8) -> Option<u32> {
    let value = match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'-' | b'+' => 62,
        b'_' | b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_survives_the_round_trip() {
        let bytes: Vec<u8> = (0..=255).rev().collect();
        for length in 0..bytes.len() {
            let text = encode_url_safe(&bytes[..length]);
            assert_eq!(decode(&text).as_deref(), Some(&bytes[..length]));
        }
    }

    #[test]
    fn both_alphabets_and_padding_are_read() {
        assert_eq!(decode("+/8="), Some(vec![0xfb, 0xff]));
        assert_eq!(decode("-_8"), Some(vec![0xfb, 0xff]));
    }

    #[test]
    fn what_is_not_base64_is_refused() {
        assert_eq!(decode("a"), None);
        assert_eq!(decode("ab c"), None);
        assert_eq!(decode("é"), None);
    }
}
