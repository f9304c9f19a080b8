//! Reader of Protobuf's wire format.

use monedula_columns::text_of;

use super::error::{BadProtobuf, DecodeResult, ProtobufReason};
use crate::varint::short_varint;

/// Limit on the nesting of groups that are skipped, as in Google's parsers.
const MAX_DEPTH: usize = 100;
/// Field numbers have 29 bits.
const MAX_NUMBER: u64 = (1 << 29) - 1;

pub(crate) const VARINT: u8 = 0;
pub(crate) const FIXED64: u8 = 1;
pub(crate) const BYTES: u8 = 2;
pub(crate) const GROUP: u8 = 3;
pub(crate) const END_GROUP: u8 = 4;
pub(crate) const FIXED32: u8 = 5;

/// Position in a message, counted from the start of the whole value.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'v> {
    pub(crate) bytes: &'v [u8],
    pub(crate) at: usize,
}

impl<'v> Cursor<'v> {
    pub(crate) fn new(bytes: &'v [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// Cursor over the part of the value from `start` to `end`.
    #[inline(always)]
    pub(crate) fn part(&self, start: usize, end: usize) -> Self {
        Self { bytes: self.bytes.get(..end).unwrap_or_default(), at: start }
    }

    #[cold]
    pub(crate) fn fault(&self, reason: ProtobufReason) -> Box<BadProtobuf> {
        BadProtobuf::new(reason, self.at)
    }

    #[inline(always)]
    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// Returns the next byte without consuming it.
    #[inline(always)]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline(always)]
    pub(crate) fn varint(&mut self) -> DecodeResult<u64> {
        match self.bytes.get(self.at) {
            Some(byte) if *byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    #[inline]
    fn long_varint(&mut self) -> DecodeResult<u64> {
        if let Some((value, length)) = short_varint(self.bytes, self.at) {
            self.at += length;
            return Ok(value);
        }
        let (mut value, mut shift) = (0_u64, 0);
        for byte in self.bytes.get(self.at..).unwrap_or_default() {
            // The tenth byte has only the topmost bit, and must be the last.
            if shift == 63 && *byte > 1 {
                return Err(self.fault(ProtobufReason::BadNumber));
            }
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if *byte < 0x80 {
                self.at += shift / 7;
                return Ok(value);
            }
        }
        Err(self.fault(ProtobufReason::Truncated))
    }

    #[inline(always)]
    pub(crate) fn zigzag(&mut self) -> DecodeResult<i64> {
        let zigzag = self.varint()?;
        Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
    }

    #[inline(always)]
    pub(crate) fn array<const LENGTH: usize>(&mut self) -> DecodeResult<[u8; LENGTH]> {
        match self.bytes.get(self.at..).and_then(|rest| rest.first_chunk()) {
            Some(taken) => {
                self.at += LENGTH;
                Ok(*taken)
            }
            None => Err(self.fault(ProtobufReason::Truncated)),
        }
    }

    /// Reads length-prefixed bytes.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> DecodeResult<&'v [u8]> {
        let start = self.at;
        let length = self.varint()?;
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        match usize::try_from(length).ok().and_then(|length| rest.get(..length)) {
            Some(taken) => {
                self.at += taken.len();
                Ok(taken)
            }
            None => Err(BadProtobuf::new(ProtobufReason::BadLength(length), start)),
        }
    }

    #[inline(always)]
    pub(crate) fn text(&mut self) -> DecodeResult<&'v str> {
        let start = self.at;
        text_of(self.take()?).map_err(|_| BadProtobuf::new(ProtobufReason::NotUtf8, start))
    }

    /// Reads a field's number and wire type.
    #[inline]
    pub(crate) fn tag(&mut self) -> DecodeResult<(u32, u8)> {
        let start = self.at;
        let tag = self.varint()?;
        let (number, wire) = (tag >> 3, (tag & 7) as u8);
        if number == 0 || number > MAX_NUMBER || wire > FIXED32 {
            return Err(BadProtobuf::new(ProtobufReason::BadTag(tag), start));
        }
        Ok((number as u32, wire))
    }

    /// Skips the content of a field.
    pub(crate) fn skip(&mut self, number: u32, wire: u8) -> DecodeResult {
        match wire {
            VARINT => self.varint().map(|_| ()),
            FIXED64 => self.array::<8>().map(|_| ()),
            BYTES => self.take().map(|_| ()),
            FIXED32 => self.array::<4>().map(|_| ()),
            GROUP => self.group(number).map(|_| ()),
            _ => Err(self.fault(ProtobufReason::UnexpectedEnd(number))),
        }
    }

    /// Start and end of a sub-message's content; moves the cursor behind it.
    #[inline(always)]
    pub(crate) fn message(&mut self, number: u32, wire: u8) -> DecodeResult<(usize, usize)> {
        if wire == GROUP {
            return self.group(number);
        }
        let length = self.take()?.len();
        Ok((self.at - length, self.at))
    }

    /// Same as [`Self::message`], for a group whose start tag has been read.
    fn group(&mut self, number: u32) -> DecodeResult<(usize, usize)> {
        let start = self.at;
        let (mut open, mut depth) = ([0; MAX_DEPTH], 1);
        open[0] = number;
        loop {
            let at = self.at;
            let (number, wire) = self.tag()?;
            match wire {
                GROUP if depth == MAX_DEPTH => return Err(BadProtobuf::new(ProtobufReason::TooDeep, at)),
                GROUP => {
                    open[depth] = number;
                    depth += 1;
                }
                END_GROUP if open[depth - 1] != number => {
                    return Err(BadProtobuf::new(ProtobufReason::UnexpectedEnd(number), at));
                }
                END_GROUP if depth == 1 => return Ok((start, at)),
                END_GROUP => depth -= 1,
                _ => self.skip(number, wire)?,
            }
        }
    }
}
