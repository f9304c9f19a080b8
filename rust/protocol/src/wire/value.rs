//! Encoding and decoding of each field type.

use crate::error::{Place, WireError};
use crate::types::{SecretBytes, Uuid};
use crate::wire::{Format, Reader, Writer};

/// Kafka's limit on the length of a string, in flexible versions too.
const MAX_STRING_BYTES: usize = i16::MAX as usize;
/// Limit of a 32-bit length. Also enforced in flexible versions, whose encoding could hold one more.
const MAX_LENGTH: usize = i32::MAX as usize;

/// A type of field.
pub(crate) trait Value<'a>: Sized + PartialEq {
    /// The default of a field whose table gives none.
    const DEFAULT: Self;

    /// Minimal number of bytes of a value, which bounds the length of an array in a frame.
    fn min_bytes(format: Format) -> usize;

    fn read(reader: &mut Reader<'a>, format: Format) -> Result<Self, WireError>;

    fn write(&self, writer: &mut Writer, format: Format) -> Result<(), WireError>;

    /// Adds the error codes of the value, which is a field of this name.
    fn error_codes(&self, _field: &str, _found: &mut Vec<i16>) {}
}

/// A type of field that can be null.
pub(crate) trait Nullable<'a>: Value<'a> {
    /// Minimal number of bytes if null is allowed.
    #[inline]
    fn min_nullable_bytes(format: Format) -> usize {
        Self::min_bytes(format)
    }

    fn read_nullable(reader: &mut Reader<'a>, format: Format) -> Result<Option<Self>, WireError>;

    fn write_null(writer: &mut Writer, format: Format);

    /// Writes the marker that precedes a value that is not null; only structures have one.
    fn write_present(_writer: &mut Writer) {}
}

macro_rules! fixed_width {
    ($($type:ty, $method:ident, $default:expr;)*) => {
        $(
            impl<'a> Value<'a> for $type {
                const DEFAULT: Self = $default;

                #[inline]
                fn min_bytes(_format: Format) -> usize {
                    size_of::<$type>()
                }

                #[inline]
                fn read(reader: &mut Reader<'a>, _format: Format) -> Result<Self, WireError> {
                    reader.$method()
                }

                #[inline]
                fn write(&self, writer: &mut Writer, _format: Format) -> Result<(), WireError> {
                    writer.$method(*self);
                    Ok(())
                }
            }
        )*
    };
}

fixed_width! {
    bool, boolean, false;
    i8, i8, 0;
    u16, u16, 0;
    i32, i32, 0;
    i64, i64, 0;
    f64, f64, 0.0;
    Uuid, uuid, Uuid::ZERO;
}

impl<'a> Value<'a> for i16 {
    const DEFAULT: Self = 0;

    #[inline]
    fn min_bytes(_format: Format) -> usize {
        size_of::<Self>()
    }

    #[inline]
    fn read(reader: &mut Reader<'a>, _format: Format) -> Result<Self, WireError> {
        reader.i16()
    }

    #[inline]
    fn write(&self, writer: &mut Writer, _format: Format) -> Result<(), WireError> {
        writer.i16(*self);
        Ok(())
    }

    fn error_codes(&self, field: &str, found: &mut Vec<i16>) {
        if field.ends_with("error_code") {
            found.push(*self);
        }
    }
}

impl<'a> Value<'a> for &'a str {
    const DEFAULT: Self = "";

    #[inline]
    fn min_bytes(format: Format) -> usize {
        if format.flexible { 1 } else { 2 }
    }

    fn read(reader: &mut Reader<'a>, format: Format) -> Result<Self, WireError> {
        not_null(reader, format)
    }

    fn write(&self, writer: &mut Writer, format: Format) -> Result<(), WireError> {
        let length = within(self.len(), MAX_STRING_BYTES)?;
        if format.flexible {
            writer.unsigned_varint(length as u32 + 1);
        } else {
            writer.i16(length as i16);
        }
        writer.bytes(self.as_bytes());
        Ok(())
    }
}

impl<'a> Nullable<'a> for &'a str {
    fn read_nullable(reader: &mut Reader<'a>, format: Format) -> Result<Option<Self>, WireError> {
        let length = if format.flexible { reader.length_compact()? } else { reader.length_16()? };
        let Some(length) = length else {
            return Ok(None);
        };
        let offset = reader.position();
        let bytes = counted_bytes(reader, length)?;
        within(length, MAX_STRING_BYTES)?;
        let text =
            std::str::from_utf8(bytes).map_err(|_| WireError::InvalidUtf8 { place: Place::default(), offset })?;
        Ok(Some(text))
    }

    fn write_null(writer: &mut Writer, format: Format) {
        if format.flexible {
            writer.unsigned_varint(0);
        } else {
            writer.i16(-1);
        }
    }
}

impl<'a> Value<'a> for &'a [u8] {
    const DEFAULT: Self = &[];

    #[inline]
    fn min_bytes(format: Format) -> usize {
        min_length_bytes(format)
    }

    fn read(reader: &mut Reader<'a>, format: Format) -> Result<Self, WireError> {
        not_null(reader, format)
    }

    fn write(&self, writer: &mut Writer, format: Format) -> Result<(), WireError> {
        write_length(writer, self.len(), format)?;
        writer.bytes(self);
        Ok(())
    }
}

impl<'a> Nullable<'a> for &'a [u8] {
    fn read_nullable(reader: &mut Reader<'a>, format: Format) -> Result<Option<Self>, WireError> {
        match read_length(reader, format)? {
            Some(length) => counted_bytes(reader, length).map(Some),
            None => Ok(None),
        }
    }

    fn write_null(writer: &mut Writer, format: Format) {
        write_null_length(writer, format);
    }
}

impl<'a> Value<'a> for SecretBytes<'a> {
    const DEFAULT: Self = Self::new(&[]);

    #[inline]
    fn min_bytes(format: Format) -> usize {
        <&[u8]>::min_bytes(format)
    }

    fn read(reader: &mut Reader<'a>, format: Format) -> Result<Self, WireError> {
        Value::read(reader, format).map(Self::new)
    }

    fn write(&self, writer: &mut Writer, format: Format) -> Result<(), WireError> {
        self.expose().write(writer, format)
    }
}

impl<'a, T: Value<'a>> Value<'a> for Vec<T> {
    const DEFAULT: Self = Vec::new();

    #[inline]
    fn min_bytes(format: Format) -> usize {
        min_length_bytes(format)
    }

    fn read(reader: &mut Reader<'a>, format: Format) -> Result<Self, WireError> {
        not_null(reader, format)
    }

    fn write(&self, writer: &mut Writer, format: Format) -> Result<(), WireError> {
        write_length(writer, self.len(), format)?;
        self.iter().try_for_each(|item| item.write(writer, format.element()))
    }

    fn error_codes(&self, field: &str, found: &mut Vec<i16>) {
        self.iter().for_each(|item| item.error_codes(field, found));
    }
}

impl<'a, T: Value<'a>> Nullable<'a> for Vec<T> {
    fn read_nullable(reader: &mut Reader<'a>, format: Format) -> Result<Option<Self>, WireError> {
        let offset = reader.position();
        let Some(count) = read_length(reader, format)? else {
            return Ok(None);
        };
        let remaining = reader.remaining();
        if count > remaining / T::min_bytes(format.element()).max(1) {
            let place = Place::default();
            return Err(WireError::LengthBeyondFrame { place, offset, length: count, remaining });
        }
        // Items may be far larger in memory than on the wire, so reserve at most as many bytes as the frame has left;
        // the vector grows further as items are actually read.
        let affordable = (remaining / size_of::<T>().max(1)).max(1);
        let mut items = Vec::with_capacity(count.min(affordable));
        for _ in 0..count {
            items.push(T::read(reader, format.element())?);
        }
        Ok(Some(items))
    }

    fn write_null(writer: &mut Writer, format: Format) {
        write_null_length(writer, format);
    }
}

/// Null is an error in versions where the field is not nullable.
impl<'a, T: Nullable<'a>> Value<'a> for Option<T> {
    // Empty, not null, unless the table says otherwise, as in Kafka.
    const DEFAULT: Self = Some(T::DEFAULT);

    #[inline]
    fn min_bytes(format: Format) -> usize {
        if format.nullable { T::min_nullable_bytes(format) } else { T::min_bytes(format) }
    }

    fn read(reader: &mut Reader<'a>, format: Format) -> Result<Self, WireError> {
        if format.nullable { T::read_nullable(reader, format) } else { T::read(reader, format).map(Some) }
    }

    fn write(&self, writer: &mut Writer, format: Format) -> Result<(), WireError> {
        match self {
            Some(value) => {
                if format.nullable {
                    T::write_present(writer);
                }
                value.write(writer, format)
            }
            None if format.nullable => {
                T::write_null(writer, format);
                Ok(())
            }
            None => {
                let place = Place::default();
                Err(WireError::NullNotAllowed { place, version: format.version })
            }
        }
    }

    fn error_codes(&self, field: &str, found: &mut Vec<i16>) {
        self.iter().for_each(|value| value.error_codes(field, found));
    }
}

fn not_null<'a, T: Nullable<'a>>(reader: &mut Reader<'a>, format: Format) -> Result<T, WireError> {
    let offset = reader.position();
    T::read_nullable(reader, format)?.ok_or(WireError::UnexpectedNull { place: Place::default(), offset })
}

#[inline]
fn counted_bytes<'a>(reader: &mut Reader<'a>, length: usize) -> Result<&'a [u8], WireError> {
    let (offset, remaining) = (reader.position(), reader.remaining());
    reader.bytes(length).map_err(|_| WireError::LengthBeyondFrame {
        place: Place::default(),
        offset,
        length,
        remaining,
    })
}

#[inline]
fn min_length_bytes(format: Format) -> usize {
    if format.flexible { 1 } else { 4 }
}

#[inline]
fn read_length(reader: &mut Reader<'_>, format: Format) -> Result<Option<usize>, WireError> {
    if format.flexible { reader.length_compact() } else { reader.length_32() }
}

fn write_length(writer: &mut Writer, length: usize, format: Format) -> Result<(), WireError> {
    let length = within(length, MAX_LENGTH)?;
    if format.flexible {
        writer.unsigned_varint(length as u32 + 1);
    } else {
        writer.i32(length as i32);
    }
    Ok(())
}

fn write_null_length(writer: &mut Writer, format: Format) {
    if format.flexible {
        writer.unsigned_varint(0);
    } else {
        writer.i32(-1);
    }
}

fn within(length: usize, limit: usize) -> Result<usize, WireError> {
    if length > limit {
        return Err(WireError::TooLong { place: Place::default(), length, limit });
    }
    Ok(length)
}
