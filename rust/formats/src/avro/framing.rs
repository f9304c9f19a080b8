//! What stands before a value and names the schema that it was written with.

use super::error::AvroReason;

/// What stands before a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Nothing: all values are of one schema.
    Bare,
    /// `C3 01` and the CRC-64-AVRO fingerprint of the schema.
    SingleObject,
    /// A zero and the schema's id in a registry, or a one and its GUID, as Confluent's serializers write before a value or
    /// into a header.
    Confluent,
}

/// What a value names its writer's schema by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WriterKey {
    /// By nothing.
    Only,
    /// By the fingerprint of the schema.
    Fingerprint(u64),
    /// By its id in a registry.
    Id(u32),
    /// By its GUID in a registry.
    Guid(u128),
}

const CONFLUENT: &str = "a zero byte and the id of a schema in a registry, or a one and its GUID";

impl WriterKey {
    /// In messages; none if there is but one schema.
    pub(crate) fn text(self) -> Option<String> {
        match self {
            Self::Only => None,
            Self::Fingerprint(fingerprint) => Some(format!("fingerprint {fingerprint:016x}")),
            Self::Id(id) => Some(format!("id {id}")),
            Self::Guid(guid) => {
                let hex = format!("{guid:032x}");
                let [a, b, c, d, e] = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
                Some(format!("GUID {a}-{b}-{c}-{d}-{e}"))
            }
        }
    }
}

impl Framing {
    /// The key of the writer's schema, and where the value itself begins.
    #[inline(always)]
    pub(crate) fn key(self, value: &[u8]) -> Result<(WriterKey, usize), AvroReason> {
        match (self, value) {
            (Self::Bare, _) => Ok((WriterKey::Only, 0)),
            (Self::Confluent, [0, a, b, c, d, ..]) => Ok((WriterKey::Id(u32::from_be_bytes([*a, *b, *c, *d])), 5)),
            (Self::Confluent, _) => Self::guid(value).ok_or(AvroReason::NotFramed(CONFLUENT)),
            (Self::SingleObject, [0xc3, 0x01, a, b, c, d, e, f, g, h, ..]) => {
                let fingerprint = u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
                Ok((WriterKey::Fingerprint(fingerprint), 10))
            }
            (Self::SingleObject, _) => Err(AvroReason::NotFramed("C3 01 and the fingerprint of a schema")),
        }
    }

    /// The key in a header of Confluent's; the value has no frame then.
    #[cold]
    pub(crate) fn key_of_header(header: &[u8]) -> Result<(WriterKey, usize), AvroReason> {
        match Self::Confluent.key(header)? {
            (key, length) if length == header.len() => Ok((key, 0)),
            _ => Err(AvroReason::NotFramed(CONFLUENT)),
        }
    }

    #[cold]
    fn guid(value: &[u8]) -> Option<(WriterKey, usize)> {
        let guid = value.strip_prefix(&[1])?.first_chunk()?;
        Some((WriterKey::Guid(u128::from_be_bytes(*guid)), 17))
    }
}
