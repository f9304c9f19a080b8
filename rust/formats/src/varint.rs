//! LEB128 varints and zigzag, as Avro and Protobuf write them.

/// Reads a varint of at most eight bytes, and returns its length with it; `None` if it is longer, or if fewer than
/// eight bytes are left. The last byte is found among all eight at once: a loop has a branch for each byte, which is
/// often mispredicted.
#[inline(always)]
pub(crate) fn short_varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let eight = bytes.get(at..)?.first_chunk::<8>()?;
    let word = u64::from_le_bytes(*eight);
    let ends = !word & 0x8080_8080_8080_8080;
    // Mask of the bits up to and including the first cleared continuation bit.
    (ends != 0).then(|| (sevens(word & (ends ^ (ends - 1))), ends.trailing_zeros() as usize / 8 + 1))
}

/// Joins the low seven bits of each of eight bytes, least significant group first. The top bits are ignored.
#[inline(always)]
fn sevens(word: u64) -> u64 {
    let word = word & 0x7f7f_7f7f_7f7f_7f7f;
    let word = word & 0x007f_007f_007f_007f | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let word = word & 0x0000_3fff_0000_3fff | (word & 0x3fff_0000_3fff_0000) >> 2;
    word & 0x0fff_ffff | (word & 0x0fff_ffff_0000_0000) >> 4
}

/// Appends a varint. Up to eight bytes are made in one word, appended as eight, and then cut: this needs neither a
/// loop, whose end is mispredicted, nor a copy of variable length.
#[inline]
pub(crate) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    if value < 0x80 {
        out.push(value as u8);
    } else if value < 1 << 56 {
        let length = (63 - value.leading_zeros() as usize) / 7 + 1;
        let more = 0x8080_8080_8080_8080 & ((1 << (8 * (length - 1))) - 1);
        out.extend_from_slice(&(bytes_of_seven(value) | more).to_le_bytes());
        out.truncate(out.len() - 8 + length);
    } else {
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    }
}

/// Appends a signed number in zigzag, so that numbers near zero are short, whatever their sign.
#[inline]
pub(crate) fn put_zigzag(value: i64, out: &mut Vec<u8>) {
    put_varint(zigzag(value), out);
}

/// Zigzag encoding: 0, -1, 1, -2, 2 become 0, 1, 2, 3, 4.
#[inline(always)]
pub(crate) fn zigzag(value: i64) -> u64 {
    (value as u64) << 1 ^ (value >> 63) as u64
}

/// Inverse of `sevens`, for numbers of 56 bits.
#[inline(always)]
fn bytes_of_seven(value: u64) -> u64 {
    let word = value & 0x0fff_ffff | (value & 0x00ff_ffff_f000_0000) << 4;
    let word = word & 0x0000_3fff_0000_3fff | (word & 0x0fff_c000_0fff_c000) << 2;
    word & 0x007f_007f_007f_007f | (word & 0x3f80_3f80_3f80_3f80) << 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference encoder, byte by byte.
    fn written(mut value: u64, bytes: usize) -> Vec<u8> {
        let mut written = Vec::new();
        for left in (0..bytes).rev() {
            written.push(value as u8 & 0x7f | if left > 0 { 0x80 } else { 0 });
            value >>= 7;
        }
        written
    }

    #[test]
    fn numbers_of_up_to_eight_bytes_are_read_whatever_follows() {
        for bytes in 1..=8 {
            for value in
                [0, 1, (1 << (7 * bytes)) - 1, 1 << (7 * bytes - 1), 0x00aa_5533_0f0f_cc33 & ((1 << (7 * bytes)) - 1)]
            {
                for follows in [0x00, 0x7f, 0x80, 0xff] {
                    let mut all = vec![0xff; 3];
                    all.extend(written(value, bytes));
                    all.extend([follows; 8]);
                    assert_eq!(short_varint(&all, 3), Some((value, bytes)), "{value} in {bytes} before {follows}");
                }
            }
        }
    }

    #[test]
    fn longer_numbers_and_ends_are_left_to_the_slow_path() {
        assert_eq!(short_varint(&[0x80; 20], 0), None);
        assert_eq!(short_varint(&[1; 7], 0), None);
        assert_eq!(short_varint(&[1; 8], 1), None);
        assert_eq!(short_varint(&[1; 8], 9), None);
        assert_eq!(short_varint(&[], 0), None);
    }

    #[test]
    fn numbers_are_written_in_as_many_bytes_as_they_take() {
        for bits in 0..64 {
            for value in [1 << bits, (1 << bits) - 1, (1 << bits) | 0x0055_aa33_cc0f_f0a5 & ((1 << bits) - 1)] {
                let bytes = (64 - u64::leading_zeros(value) as usize).max(1).div_ceil(7);
                let mut out = vec![0xee];
                put_varint(value, &mut out);
                assert_eq!((out[0], &out[1..]), (0xee, &written(value, bytes)[..]), "{value}");
            }
        }
        let mut out = Vec::new();
        put_varint(u64::MAX, &mut out);
        assert_eq!(out, written(u64::MAX, 10));
    }

    #[test]
    fn signed_numbers_are_written_by_their_distance_from_zero() {
        for (value, unsigned) in [(0, 0), (-1, 1), (1, 2), (i64::MAX, u64::MAX - 1), (i64::MIN, u64::MAX)] {
            assert_eq!(zigzag(value), unsigned);
            let (mut out, mut expected) = (Vec::new(), Vec::new());
            put_zigzag(value, &mut out);
            put_varint(unsigned, &mut expected);
            assert_eq!(out, expected);
        }
    }
}
