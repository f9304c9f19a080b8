//! A cursor over the bytes of a frame.

use crate::error::{Place, WireError};
use crate::types::Uuid;
use crate::wire::varint::{self, VarintError};

/// A reader of primitive values, from the front of a slice. Strings and bytes are borrowed from the slice.
///
/// Every method either moves past a whole value, or fails and leaves the position unchanged.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    position: usize,
}

macro_rules! big_endian {
    ($($(#[$meta:meta])* $name:ident -> $type:ty;)*) => {
        $(
            $(#[$meta])*
            #[inline]
            pub fn $name(&mut self) -> Result<$type, WireError> {
                self.array().map(<$type>::from_be_bytes)
            }
        )*
    };
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, position: 0 }
    }

    /// Number of bytes not read yet.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Number of bytes read so far, counted from the start of the whole frame.
    #[inline]
    pub fn position(&self) -> usize {
        self.position
    }

    big_endian! {
        /// One signed byte.
        i8 -> i8;
        /// Two bytes, signed.
        i16 -> i16;
        /// Two bytes, unsigned.
        u16 -> u16;
        /// Four bytes, signed.
        i32 -> i32;
        /// Eight bytes, signed.
        i64 -> i64;
        /// Eight bytes, a double.
        f64 -> f64;
    }

    /// One byte; as in Kafka, any value except zero is true.
    #[inline]
    pub fn boolean(&mut self) -> Result<bool, WireError> {
        self.i8().map(|byte| byte != 0)
    }

    /// Sixteen bytes.
    #[inline]
    pub fn uuid(&mut self) -> Result<Uuid, WireError> {
        self.array().map(Uuid)
    }

    /// An unsigned varint of at most 32 bits.
    #[inline]
    pub fn unsigned_varint(&mut self) -> Result<u32, WireError> {
        match varint::read(self.rest) {
            Ok((value, length)) => {
                self.bytes(length)?;
                Ok(value)
            }
            Err(VarintError::Truncated) => Err(self.truncated(self.rest.len() + 1)),
            Err(VarintError::TooLong) => {
                Err(WireError::VarintTooLong { place: Place::default(), offset: self.position })
            }
        }
    }

    /// The next `length` bytes.
    #[inline]
    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let Some((head, tail)) = self.rest.split_at_checked(length) else {
            return Err(self.truncated(length));
        };
        self.rest = tail;
        self.position += length;
        Ok(head)
    }

    /// A reader of only the next `length` bytes, whose positions still count from the frame's start.
    pub(super) fn section(&mut self, length: usize) -> Result<Reader<'a>, WireError> {
        let position = self.position;
        Ok(Reader { rest: self.bytes(length)?, position })
    }

    /// All remaining bytes.
    pub(crate) fn take_rest(&mut self) -> &'a [u8] {
        let rest = std::mem::take(&mut self.rest);
        self.position += rest.len();
        rest
    }

    /// The 16-bit length before a string: `None` for null.
    #[inline]
    pub(super) fn length_16(&mut self) -> Result<Option<usize>, WireError> {
        let offset = self.position;
        let length = self.i16()?;
        signed_length(i32::from(length), offset)
    }

    /// The 32-bit length before bytes, or count before an array: `None` for null.
    #[inline]
    pub(super) fn length_32(&mut self) -> Result<Option<usize>, WireError> {
        let offset = self.position;
        let length = self.i32()?;
        signed_length(length, offset)
    }

    /// The compact length of flexible versions, a varint of the length + 1: `None` for null.
    #[inline]
    pub(super) fn length_compact(&mut self) -> Result<Option<usize>, WireError> {
        let length = self.unsigned_varint()?;
        Ok((length as usize).checked_sub(1))
    }

    /// Checks that all bytes were read.
    ///
    /// # Errors
    /// [`WireError::TrailingBytes`] for bytes left over.
    pub fn finish(&self) -> Result<(), WireError> {
        match self.remaining() {
            0 => Ok(()),
            count => Err(WireError::TrailingBytes { place: Place::default(), offset: self.position, count }),
        }
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let Some((head, tail)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.truncated(N));
        };
        self.rest = tail;
        self.position += N;
        Ok(*head)
    }

    #[cold]
    fn truncated(&self, needed: usize) -> WireError {
        WireError::Truncated { place: Place::default(), offset: self.position, needed, remaining: self.remaining() }
    }
}

#[inline]
fn signed_length(length: i32, offset: usize) -> Result<Option<usize>, WireError> {
    match length {
        -1 => Ok(None),
        0.. => Ok(Some(length as usize)),
        _ => Err(WireError::NegativeLength { place: Place::default(), offset, length }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_read_leaves_the_position() {
        let mut reader = Reader::new(&[1, 2, 3]);
        assert_eq!(reader.i8(), Ok(1));
        let error = WireError::Truncated { place: Place::default(), offset: 1, needed: 4, remaining: 2 };
        assert_eq!(reader.i32(), Err(error));
        assert_eq!((reader.position(), reader.remaining()), (1, 2));
        assert_eq!(reader.i16(), Ok(0x0203));
    }

    #[test]
    fn positions_in_a_section_count_from_the_frame() {
        let mut reader = Reader::new(&[9, 1, 2, 3]);
        assert_eq!(reader.i8(), Ok(9));
        let section = reader.section(2).unwrap();
        assert_eq!((section.position(), section.remaining()), (1, 2));
        assert_eq!(reader.i8(), Ok(3));
    }

    #[test]
    fn lengths_below_minus_one_are_refused() {
        assert_eq!(Reader::new(&[0xff, 0xff]).length_16(), Ok(None));
        assert_eq!(Reader::new(&[0xff; 4]).length_32(), Ok(None));
        assert_eq!(Reader::new(&[0]).length_compact(), Ok(None));
        let negative = |length| Err(WireError::NegativeLength { place: Place::default(), offset: 0, length });
        assert_eq!(Reader::new(&[0xff, 0xfe]).length_16(), negative(-2));
        assert_eq!(Reader::new(&[0x80, 0, 0, 0]).length_32(), negative(i32::MIN));
    }
}
