//! Unsigned LEB128 varints, as in Protocol Buffers.

/// Maximal length of a 32-bit varint.
const MAX_BYTES: usize = 5;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum VarintError {
    Truncated,
    /// Varint that does not fit in 32 bits.
    TooLong,
}

/// Value at the start of `bytes`, and the length of its varint.
#[inline]
pub(super) fn read(bytes: &[u8]) -> Result<(u32, usize), VarintError> {
    // Nearly every length on the wire is below 128.
    if let Some(&first) = bytes.first()
        && first < 0x80
    {
        return Ok((u32::from(first), 1));
    }
    read_long(bytes)
}

fn read_long(bytes: &[u8]) -> Result<(u32, usize), VarintError> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(MAX_BYTES).enumerate() {
        // The fifth byte has room for four bits only, and must be the last.
        if index == MAX_BYTES - 1 && byte > 0x0f {
            return Err(VarintError::TooLong);
        }
        value |= u32::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Ok((value, index + 1));
        }
    }
    Err(VarintError::Truncated)
}

#[inline]
pub(super) fn write(mut value: u32, bytes: &mut Vec<u8>) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_survives_the_round_trip() {
        let around = |bits: u32| [(1u32 << bits) - 1, 1 << bits, (1 << bits) + 1];
        for value in (0..32).flat_map(around).chain([u32::MAX]) {
            let mut bytes = Vec::new();
            write(value, &mut bytes);
            let length = bytes.len();
            bytes.push(0xff);
            assert_eq!(read(&bytes), Ok((value, length)));
        }
    }

    #[test]
    fn the_low_bits_come_first() {
        assert_eq!(read(&[0xac, 0x02]), Ok((300, 2)));
    }

    #[test]
    fn a_varint_beyond_32_bits_is_refused() {
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x10]), Err(VarintError::TooLong));
        assert_eq!(read(&[0xff; 20]), Err(VarintError::TooLong));
        assert_eq!(read(&[0xff, 0xff]), Err(VarintError::Truncated));
        assert_eq!(read(&[]), Err(VarintError::Truncated));
    }
}
