//! Parses messages of formats 0 and 1, which stand one behind the other in a set.

use flate2::Crc;

use super::header::{LEGACY_ATTRIBUTES, array};
use super::{LOG_OVERHEAD_BYTES, NO_TIMESTAMP, RecordFault, RecordsError};
use crate::compression::Compression;

/// CRC, magic and attributes.
const FIXED_BYTES: usize = 6;
/// The part of a message before what its CRC covers: offset, length and the CRC.
const CRC_END: usize = 16;

/// One message of format 0 or 1, borrowed from the bytes of its set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LegacyMessage<'a> {
    /// The offset; relative within a compressed message of format 1 (KIP-31).
    pub offset: i64,
    /// The format, 0 or 1.
    pub magic: i8,
    /// The timestamp in milliseconds since the epoch; -1 in format 0.
    pub timestamp_ms: i64,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value; if the message is compressed, the messages that it holds.
    pub value: Option<&'a [u8]>,
    attributes: u8,
    crc: u32,
    checked: &'a [u8],
}

impl<'a> LegacyMessage<'a> {
    /// Parses the message at `position` and returns it with the position of the next one.
    ///
    /// # Errors
    /// A field or length that does not fit, and a format other than 0 and 1.
    pub fn parse(set: &'a [u8], position: usize) -> Result<(Self, usize), RecordFault> {
        let rest = set.get(position..).unwrap_or_default();
        let head = rest.first_chunk::<LOG_OVERHEAD_BYTES>().ok_or(RecordFault::Truncated)?;
        let length = usize::try_from(i32::from_be_bytes(array(head, 8))).map_err(|_| RecordFault::RecordLength)?;
        let end = LOG_OVERHEAD_BYTES.saturating_add(length);
        let message = rest.get(..end).filter(|_| length >= FIXED_BYTES).ok_or(RecordFault::RecordLength)?;
        let magic = message[CRC_END] as i8;
        if !matches!(magic, 0 | 1) {
            return Err(RecordFault::Magic(magic));
        }
        let mut at = LOG_OVERHEAD_BYTES + FIXED_BYTES;
        let timestamp_ms = match magic {
            0 => NO_TIMESTAMP,
            _ => i64::from_be_bytes(*take::<8>(message, &mut at)?),
        };
        let key = read_nullable(message, &mut at)?;
        let value = read_nullable(message, &mut at)?;
        if at != end {
            return Err(RecordFault::LeftoverBytes);
        }
        let (offset, crc) = (i64::from_be_bytes(array(message, 0)), u32::from_be_bytes(array(message, 12)));
        let (attributes, checked) = (message[CRC_END + 1], &message[CRC_END..]);
        Ok((Self { offset, magic, timestamp_ms, key, value, attributes, crc, checked }, position + end))
    }

    /// True if the value holds other messages, compressed.
    pub fn is_compressed(&self) -> bool {
        i16::from(self.attributes) & LEGACY_ATTRIBUTES[0] != i16::from(Compression::None.id())
    }

    /// Compares the CRC-32 of the message with the one that it has.
    ///
    /// # Errors
    /// [`RecordsError::Crc`] with this offset, of the message or of the one that holds it, if they differ.
    pub fn verify_crc(&self, offset: i64) -> Result<(), RecordsError> {
        let mut crc = Crc::new();
        crc.update(self.checked);
        if crc.sum() == self.crc {
            return Ok(());
        }
        Err(RecordsError::Crc { base_offset: offset, last_offset: offset, stored: self.crc, computed: crc.sum() })
    }
}

fn take<'a, const N: usize>(message: &'a [u8], at: &mut usize) -> Result<&'a [u8; N], RecordFault> {
    let taken = message.get(*at..).and_then(|rest| rest.first_chunk::<N>()).ok_or(RecordFault::Truncated)?;
    *at += N;
    Ok(taken)
}

fn read_nullable<'a>(message: &'a [u8], at: &mut usize) -> Result<Option<&'a [u8]>, RecordFault> {
    let length = i32::from_be_bytes(*take::<4>(message, at)?);
    if length == -1 {
        return Ok(None);
    }
    let length = usize::try_from(length).map_err(|_| RecordFault::FieldLength)?;
    let field = message.get(*at..).and_then(|rest| rest.get(..length)).ok_or(RecordFault::FieldLength)?;
    *at += length;
    Ok(Some(field))
}
