//! A writer of primitive values.

use crate::types::Uuid;
use crate::wire::varint;

/// Writes primitive values to the end of a `Vec<u8>`.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

macro_rules! big_endian {
    ($($(#[$meta:meta])* $name:ident;)*) => {
        $(
            $(#[$meta])*
            #[inline]
            pub fn $name(&mut self, value: $name) {
                self.bytes.extend_from_slice(&value.to_be_bytes());
            }
        )*
    };
}

impl Writer {
    /// An empty writer.
    pub fn new() -> Self {
        Self::default()
    }

    /// All bytes written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Number of bytes written so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns true if nothing was written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    big_endian! {
        /// One signed byte.
        i8;
        /// Two bytes, signed.
        i16;
        /// Two bytes, unsigned.
        u16;
        /// Four bytes, signed.
        i32;
        /// Eight bytes, signed.
        i64;
        /// Eight bytes, a double.
        f64;
    }

    /// One byte, 0 or 1.
    pub fn boolean(&mut self, value: bool) {
        self.i8(i8::from(value));
    }

    /// Sixteen bytes.
    pub fn uuid(&mut self, value: Uuid) {
        self.bytes(&value.0);
    }

    /// An unsigned varint.
    #[inline]
    pub fn unsigned_varint(&mut self, value: u32) {
        varint::write(value, &mut self.bytes);
    }

    /// Bytes as they are, without a length.
    #[inline]
    pub fn bytes(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
    }
}
