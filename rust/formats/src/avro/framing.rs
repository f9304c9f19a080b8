//! Framing: bytes before a value, or headers, that name the writer's schema.

use std::borrow::Cow;
use std::io::Read;

use flate2::read::ZlibDecoder;
use monedula_columns::RecordContext;

use super::error::AvroReason;

/// Framing of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// No frame: all values have the same schema.
    Bare,
    /// Single-object encoding: `C3 01` and the CRC-64-AVRO fingerprint of the schema.
    SingleObject,
    /// Confluent's: a byte 0 and the schema's id in a registry, or a byte 1 and its GUID; before the value or in a
    /// header.
    Confluent,
    /// Apicurio's: a byte 0 and the schema's id in Apicurio's registry, of four or eight bytes; or the id in a header.
    Apicurio,
    /// AWS Glue's: a byte 3, the compression, and the UUID of the schema's version.
    Glue,
}

/// Key by which a value names its writer's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WriterKey {
    /// No key: there is only one schema.
    Only,
    /// Fingerprint of the schema.
    Fingerprint(u64),
    /// Id in a registry.
    Id(u32),
    /// GUID in a registry, or the UUID of the version in AWS Glue.
    Guid(u128),
    /// Id in Apicurio's registry: a contentId, or the kind of id that its serializers are configured to write.
    Apicurio(u64),
    /// `globalId` in Apicurio's registry, from a header.
    GlobalId(u64),
}

const APICURIO: &str = "a zero byte and the id of a schema in Apicurio's registry, which no header has either";
const GLUE: &str = "a three, 00 or 05, and the UUID of a schema's version, as AWS Glue's serializers write";
const GLUE_BYTES: usize = 18;
const ZLIB: u8 = 5;

const CONFLUENT: &str = "a zero byte and the id of a schema in a registry, or a one and its GUID";

/// Key of a value's schema, and the start of the value behind the frame.
pub(crate) type Named = Result<(WriterKey, usize), AvroReason>;

pub(crate) struct Unframed<'v> {
    pub(crate) key: WriterKey,
    pub(crate) bytes: Cow<'v, [u8]>,
    pub(crate) start: usize,
}

impl WriterKey {
    /// Text of the key, for errors; `None` if there is only one schema.
    pub(crate) fn text(self) -> Option<String> {
        match self {
            Self::Only => None,
            Self::Fingerprint(fingerprint) => Some(format!("fingerprint {fingerprint:016x}")),
            Self::Id(id) => Some(format!("id {id}")),
            Self::Apicurio(id) => Some(format!("id {id}")),
            Self::GlobalId(id) => Some(format!("globalId {id}")),
            Self::Guid(guid) => {
                let hex = format!("{guid:032x}");
                let [a, b, c, d, e] = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
                Some(format!("GUID {a}-{b}-{c}-{d}-{e}"))
            }
        }
    }
}

impl Framing {
    /// Reads the key of the writer's schema, and returns the start of the value with it.
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
            // Eight bytes, since an id of four bytes is not 0.
            (Self::Apicurio, [0, 0, 0, 0, 0, a, b, c, d, ..]) => {
                Ok((WriterKey::Apicurio(u64::from(u32::from_be_bytes([*a, *b, *c, *d]))), 9))
            }
            (Self::Apicurio, _) => Self::apicurio(value).ok_or(AvroReason::NotFramed(APICURIO)),
            (Self::Glue, [3, 0 | ZLIB, uuid @ ..]) if let Some(uuid) = uuid.first_chunk() => {
                Ok((WriterKey::Guid(u128::from_be_bytes(*uuid)), GLUE_BYTES))
            }
            (Self::Glue, _) => Err(AvroReason::NotFramed(GLUE)),
        }
    }

    /// Reads the key in Confluent's header; the value has no frame then.
    #[cold]
    pub(crate) fn key_of_header(header: &[u8]) -> Result<(WriterKey, usize), AvroReason> {
        match Self::Confluent.key(header)? {
            (key, length) if length == header.len() => Ok((key, 0)),
            _ => Err(AvroReason::NotFramed(CONFLUENT)),
        }
    }

    /// Reads the key in Apicurio's headers; the value has no frame then.
    pub(crate) fn key_of_apicurio(beside: RecordContext<'_>) -> Option<Named> {
        let id = |of_key, of_value, key: fn(u64) -> WriterKey| {
            let header = beside.header(of_key, of_value)?;
            Some(match <[u8; 8]>::try_from(header) {
                Ok(id) => Ok((key(u64::from_be_bytes(id)), 0)),
                Err(_) => Err(AvroReason::BadHeader(header.len())),
            })
        };
        id("apicurio.key.contentId", "apicurio.value.contentId", WriterKey::Apicurio)
            .or_else(|| id("apicurio.key.globalId", "apicurio.value.globalId", WriterKey::GlobalId))
    }

    /// Same as [`Self::key_of_apicurio`], but refuses Avro that these serializers have written as JSON.
    pub(crate) fn key_of_apicurios_avro(beside: RecordContext<'_>) -> Option<Named> {
        let key = Self::key_of_apicurio(beside)?;
        match beside.header("apicurio.key.encoding", "apicurio.value.encoding") {
            Some(b"JSON") => Some(Err(AvroReason::NoSchema(
                "the header apicurio.value.encoding says JSON: the value is Avro's JSON and not its binary encoding"
                    .into(),
            ))),
            _ => Some(key),
        }
    }

    /// A value behind its frame, or the whole of it if its key was `named` in a header. It may be inflated to at most
    /// this many bytes.
    pub(crate) fn unframed(
        self,
        value: &[u8],
        named: Option<Named>,
        max_bytes: usize,
    ) -> Result<Unframed<'_>, AvroReason> {
        let (key, start) = named.unwrap_or_else(|| self.key(value))?;
        match self.inflated(value, max_bytes) {
            None => Ok(Unframed { key, bytes: value.into(), start }),
            Some(inflated) => Ok(Unframed { key, bytes: inflated?.into(), start: 0 }),
        }
    }

    /// Value of AWS Glue's framing, decompressed to at most `max_bytes`; `None` if it is not compressed.
    pub(crate) fn inflated(self, value: &[u8], max_bytes: usize) -> Option<Result<Vec<u8>, AvroReason>> {
        let (Self::Glue, Some(&ZLIB)) = (self, value.get(1)) else { return None };
        let compressed = value.get(GLUE_BYTES..).unwrap_or_default();
        let (mut inflated, mut decoder) = (Vec::new(), ZlibDecoder::new(compressed));
        let read = decoder.by_ref().take(max_bytes as u64 + 1).read_to_end(&mut inflated);
        let behind = compressed.len() - usize::try_from(decoder.total_in()).unwrap_or_default();
        Some(match read {
            Ok(_) if inflated.len() > max_bytes => Err(AvroReason::RowTooLarge(max_bytes)),
            Ok(_) if behind > 0 => Err(AvroReason::BehindCompressed(behind)),
            Ok(_) => Ok(inflated),
            Err(_) => Err(AvroReason::BadCompression),
        })
    }

    #[cold]
    fn apicurio(value: &[u8]) -> Option<(WriterKey, usize)> {
        let id: &[u8; 4] = value.strip_prefix(&[0])?.first_chunk()?;
        Some((WriterKey::Apicurio(u64::from(u32::from_be_bytes(*id))), 5))
    }

    #[cold]
    fn guid(value: &[u8]) -> Option<(WriterKey, usize)> {
        let guid = value.strip_prefix(&[1])?.first_chunk()?;
        Some((WriterKey::Guid(u128::from_be_bytes(*guid)), 17))
    }
}
