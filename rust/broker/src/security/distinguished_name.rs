//! The distinguished name of a client's certificate, in the form that Java gives it: `CN=anna,O=Example`.
//!
//! Only as much of X.509 is read as leads to the subject. The certificate comes from a client that has not been
//! authenticated when it is read, but its chain has been verified.

/// The subject of a certificate in DER, in RFC 2253's order and with its escapes; `None` if the bytes are no
/// certificate.
pub(crate) fn subject(certificate: &[u8]) -> Option<String> {
    let mut certificate = Der(Der(certificate).expect(SEQUENCE)?);
    let mut fields = Der(certificate.expect(SEQUENCE)?);
    // The version stands in a tag of its own, and is absent in version 1.
    if fields.0.first() == Some(&VERSION) {
        fields.next()?;
    }
    let (_serial, _algorithm, _issuer, _validity) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    name(fields.expect(SEQUENCE)?)
}

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const TELETEX_STRING: u8 = 0x14;
const IA5_STRING: u8 = 0x16;
const BMP_STRING: u8 = 0x1e;
const VERSION: u8 = 0xa0;

/// The attribute types that RFC 2253 gives a name, by their object identifiers.
const KNOWN: &[(&[u8], &str)] = &[
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "STREET"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], "UID"),
];

fn name(rdns: &[u8]) -> Option<String> {
    let mut parts = Vec::new();
    let mut rdns = Der(rdns);
    while !rdns.0.is_empty() {
        let mut attributes = Der(rdns.expect(SET)?);
        let mut values = Vec::new();
        while !attributes.0.is_empty() {
            let mut attribute = Der(attributes.expect(SEQUENCE)?);
            let kind = attribute.expect(OBJECT_IDENTIFIER)?;
            let (tag, value) = attribute.next()?;
            values.push(pair(kind, tag, value)?);
        }
        parts.push(values.join("+"));
    }
    // RFC 2253 begins with the most special part, which stands last in the certificate.
    parts.reverse();
    Some(parts.join(","))
}

fn pair(kind: &[u8], tag: u8, value: &[u8]) -> Option<String> {
    let known = KNOWN.iter().find(|(identifier, _)| *identifier == kind);
    let text = text(tag, value);
    match (known, text) {
        (Some((_, name)), Some(text)) => Some(format!("{name}={}", escaped(&text))),
        // As in Java, a type without a name has its value in hexadecimal DER.
        (_, _) => {
            let length = u8::try_from(value.len()).ok().filter(|length| *length < 0x80)?;
            let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            Some(format!("{}=#{tag:02x}{length:02x}{hex}", dotted(kind)?))
        }
    }
}

fn text(tag: u8, value: &[u8]) -> Option<String> {
    match tag {
        UTF8_STRING | PRINTABLE_STRING | IA5_STRING => String::from_utf8(value.to_vec()).ok(),
        TELETEX_STRING => Some(value.iter().map(|&byte| char::from(byte)).collect()),
        BMP_STRING => {
            let units: Vec<u16> = value.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
            String::from_utf16(&units).ok()
        }
        _ => None,
    }
}

fn escaped(text: &str) -> String {
    let last = text.chars().count().saturating_sub(1);
    let mut result = String::with_capacity(text.len());
    for (place, character) in text.chars().enumerate() {
        let at_edge = place == 0 || place == last;
        if matches!(character, ',' | '+' | '"' | '\\' | '<' | '>' | ';')
            || character == ' ' && at_edge
            || character == '#' && place == 0
        {
            result.push('\\');
        }
        result.push(character);
    }
    result
}

/// An object identifier as numbers with dots.
fn dotted(identifier: &[u8]) -> Option<String> {
    let (first, rest) = identifier.split_first()?;
    let mut numbers = vec![u64::from(first / 40), u64::from(first % 40)];
    let mut number: u64 = 0;
    for &byte in rest {
        number = number.checked_mul(128)? + u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            numbers.push(std::mem::take(&mut number));
        }
    }
    Some(numbers.iter().map(u64::to_string).collect::<Vec<_>>().join("."))
}

/// The rest of a DER encoding.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The next value with its tag. Every length is checked against the bytes that there are.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            ..=0x7f => (usize::from(first), rest),
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (bytes.iter().fold(0, |length, &byte| length << 8 | usize::from(byte)), rest)
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, value))
    }

    fn expect(&mut self, wanted: u8) -> Option<&'a [u8]> {
        self.next().filter(|(tag, _)| *tag == wanted).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn certificate(parts: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in parts {
            params.distinguished_name.push(kind.clone(), *value);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_name_begins_with_its_last_part() {
        let der = certificate(&[
            (DnType::CountryName, "CZ"),
            (DnType::OrganizationName, "Kavka, s.r.o."),
            (DnType::CommonName, "anna"),
        ]);
        assert_eq!(subject(&der).unwrap(), "CN=anna,O=Kavka\\, s.r.o.,C=CZ");
    }

    #[test]
    fn special_characters_are_escaped() {
        let der = certificate(&[(DnType::CommonName, " #a+b=\"c\" ")]);
        assert_eq!(subject(&der).unwrap(), "CN=\\ #a\\+b=\\\"c\\\"\\ ");
    }

    #[test]
    fn a_type_without_a_name_is_told_by_its_number() {
        let der = certificate(&[(DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 1]), "a@b")]);
        assert_eq!(subject(&der).unwrap(), "1.2.840.113549.1.9.1=#0c03614062");
    }

    #[test]
    fn bytes_that_are_no_certificate_have_no_name() {
        let der = certificate(&[(DnType::CommonName, "anna")]);
        for length in 0..der.len() / 3 {
            assert_eq!(subject(&der[..length]), None, "{length}");
        }
        assert_eq!(subject(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }

    #[test]
    fn any_bytes_are_survived() {
        bolero::check!().for_each(|bytes| _ = subject(bytes));
    }
}
