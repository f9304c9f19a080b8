//! Reader of the primitive values of Avro's binary encoding; it also skips whole values.

use monedula_columns::text_of;

use super::error::{AvroReason, BadAvro, DecodeResult};
use super::schema::{AvroSchema, Kind, TypeId};
use crate::varint::short_varint;

/// Limit on the nesting of skipped values. DecodeResult values are only as deep as the columns.
const MAX_DEPTH: usize = 1_000;

pub(crate) struct Cursor<'v> {
    bytes: &'v [u8],
    pub(crate) at: usize,
}

impl<'v> Cursor<'v> {
    pub(crate) fn new(bytes: &'v [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    #[cold]
    pub(crate) fn fault(&self, reason: AvroReason) -> Box<BadAvro> {
        BadAvro::new(reason, self.at)
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    #[inline(always)]
    pub(crate) fn take(&mut self, length: usize) -> DecodeResult<&'v [u8]> {
        match self.bytes.get(self.at..).and_then(|rest| rest.get(..length)) {
            Some(taken) => {
                self.at += length;
                Ok(taken)
            }
            None => Err(self.fault(AvroReason::Truncated)),
        }
    }

    #[inline(always)]
    pub(crate) fn array<const LENGTH: usize>(&mut self) -> DecodeResult<[u8; LENGTH]> {
        match self.bytes.get(self.at..).and_then(|rest| rest.first_chunk()) {
            Some(taken) => {
                self.at += LENGTH;
                Ok(*taken)
            }
            None => Err(self.fault(AvroReason::Truncated)),
        }
    }

    /// Reads a varint of at most `BITS` bits, still in zigzag.
    #[inline(always)]
    fn unsigned<const BITS: u32>(&mut self) -> DecodeResult<u64> {
        match self.bytes.get(self.at) {
            Some(byte) if *byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(*byte))
            }
            _ => self.long_unsigned::<BITS>(),
        }
    }

    #[inline]
    fn long_unsigned<const BITS: u32>(&mut self) -> DecodeResult<u64> {
        if BITS == 64
            && let Some((value, length)) = short_varint(self.bytes, self.at)
        {
            self.at += length;
            return Ok(value);
        }
        let (mut value, mut shift) = (0_u64, 0);
        for byte in self.bytes.get(self.at..).unwrap_or_default() {
            let part = u64::from(byte & 0x7f);
            if shift + (u64::BITS - part.leading_zeros()) > BITS || shift >= BITS {
                return Err(self.fault(AvroReason::BadNumber));
            }
            value |= part << shift;
            shift += 7;
            if *byte < 0x80 {
                self.at += shift as usize / 7;
                return Ok(value);
            }
        }
        Err(self.fault(AvroReason::Truncated))
    }

    #[inline(always)]
    pub(crate) fn long(&mut self) -> DecodeResult<i64> {
        let zigzag = self.unsigned::<64>()?;
        Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
    }

    #[inline(always)]
    pub(crate) fn int(&mut self) -> DecodeResult<i32> {
        let zigzag = self.unsigned::<32>()? as u32;
        Ok((zigzag >> 1) as i32 ^ -((zigzag & 1) as i32))
    }

    /// Reads the index of a branch or symbol.
    #[inline(always)]
    pub(crate) fn index(&mut self) -> DecodeResult<i64> {
        self.long()
    }

    #[inline(always)]
    pub(crate) fn boolean(&mut self) -> DecodeResult<bool> {
        match self.array::<1>()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(BadAvro::new(AvroReason::BadBoolean(other), self.at - 1)),
        }
    }

    /// Reads length-prefixed bytes.
    #[inline(always)]
    pub(crate) fn bytes(&mut self) -> DecodeResult<&'v [u8]> {
        let start = self.at;
        let length = self.long()?;
        match usize::try_from(length).ok().filter(|length| *length <= self.left()) {
            Some(length) => self.take(length),
            None => Err(BadAvro::new(AvroReason::BadLength(length), start)),
        }
    }

    #[inline(always)]
    pub(crate) fn text(&mut self) -> DecodeResult<&'v str> {
        let start = self.at;
        let bytes = self.bytes()?;
        text_of(bytes).map_err(|_| BadAvro::new(AvroReason::NotUtf8, start))
    }

    /// Reads the header of a block of an array or map: the number of items, 0 at the end, and the size in bytes if
    /// present. Items take at least `min_bytes` each, so the value's remaining bytes bound their number.
    #[inline(always)]
    pub(crate) fn block(&mut self, min_bytes: usize) -> DecodeResult<(u64, Option<usize>)> {
        let start = self.at;
        let count = self.long()?;
        let bytes = if count < 0 {
            let length = self.long()?;
            let Some(length) = usize::try_from(length).ok().filter(|length| *length <= self.left()) else {
                return Err(BadAvro::new(AvroReason::BadLength(length), start));
            };
            Some(length)
        } else {
            None
        };
        if count != 0 && min_bytes != 0 && count.unsigned_abs() > (self.left() / min_bytes) as u64 {
            return Err(BadAvro::new(AvroReason::BadLength(count), start));
        }
        Ok((count.unsigned_abs(), bytes))
    }

    /// Skips a value of a writer's type. The time is bounded by the value's bytes: types whose values take none are
    /// skipped at once.
    pub(crate) fn skip(&mut self, schema: &AvroSchema, id: TypeId, depth: usize) -> DecodeResult {
        let each = &schema.types[id];
        if each.is_empty {
            return Ok(());
        }
        if depth == MAX_DEPTH {
            return Err(self.fault(AvroReason::TooDeep));
        }
        match &each.kind {
            Kind::Null => {}
            Kind::Boolean => {
                self.boolean()?;
            }
            Kind::Int => {
                self.int()?;
            }
            Kind::Long | Kind::Enum { .. } => {
                self.long()?;
            }
            Kind::Float => {
                self.array::<4>()?;
            }
            Kind::Double => {
                self.array::<8>()?;
            }
            Kind::Bytes | Kind::String => {
                self.bytes()?;
            }
            Kind::Fixed { size, .. } => {
                self.take(*size)?;
            }
            Kind::Union(branches) => {
                let start = self.at;
                let branch = self.index()?;
                let id = usize::try_from(branch).ok().and_then(|branch| branches.get(branch));
                let Some(id) = id else { return Err(BadAvro::new(AvroReason::NoBranch(branch), start)) };
                self.skip(schema, *id, depth + 1)?;
            }
            Kind::Record { fields, .. } => {
                for field in fields {
                    self.skip(schema, field.type_id, depth + 1).map_err(|fault| fault.in_field(&field.name))?;
                }
            }
            Kind::Array(items) => self.skip_blocks(schema, *items, false, depth)?,
            Kind::Map(values) => self.skip_blocks(schema, *values, true, depth)?,
        }
        Ok(())
    }

    fn skip_blocks(&mut self, schema: &AvroSchema, id: TypeId, has_keys: bool, depth: usize) -> DecodeResult {
        let is_empty = schema.types[id].is_empty && !has_keys;
        loop {
            let (count, bytes) = self.block(usize::from(!is_empty))?;
            match (count, bytes) {
                (0, _) => return Ok(()),
                (_, Some(bytes)) => {
                    self.take(bytes)?;
                }
                _ if is_empty => {}
                _ => {
                    for index in 0..count {
                        if has_keys {
                            self.bytes()?;
                        }
                        self.skip(schema, id, depth + 1).map_err(|fault| fault.in_brackets(index))?;
                    }
                }
            }
        }
    }
}
