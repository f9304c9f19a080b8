//! Numbers of seven bits a byte, as Avro and Protobuf write them.

/// A number of at most eight bytes, and how many it has; `None` for any other, and if the bytes end within eight of here.
/// Which byte is the last is found in all eight at once: byte after byte, each is a branch that is often guessed wrong.
#[inline(always)]
pub(crate) fn short_varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let eight = bytes.get(at..)?.first_chunk::<8>()?;
    let word = u64::from_le_bytes(*eight);
    let ends = !word & 0x8080_8080_8080_8080;
    // The bits up to the first that says that its byte is the last.
    (ends != 0).then(|| (sevens(word & (ends ^ (ends - 1))), ends.trailing_zeros() as usize / 8 + 1))
}

/// The number that has seven of its bits in each of eight bytes, the lowest first. The eighth bits do not count.
#[inline(always)]
fn sevens(word: u64) -> u64 {
    let word = word & 0x7f7f_7f7f_7f7f_7f7f;
    let word = word & 0x007f_007f_007f_007f | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let word = word & 0x0000_3fff_0000_3fff | (word & 0x3fff_0000_3fff_0000) >> 2;
    word & 0x0fff_ffff | (word & 0x0fff_ffff_0000_0000) >> 4
}

/// Appends a number in as many bytes as it takes. Up to eight of them are made in one word, and appended as eight: how many
/// there are is then neither a loop, whose end is guessed wrong, nor a copy of a length that varies.
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

/// Likewise a signed one, near to zero in few bytes whatever its sign.
#[inline]
pub(crate) fn put_zigzag(value: i64, out: &mut Vec<u8>) {
    put_varint(zigzag(value), out);
}

/// Signed numbers by their distance from zero: 0, -1, 1, -2, 2.
#[inline(always)]
pub(crate) fn zigzag(value: i64) -> u64 {
    (value as u64) << 1 ^ (value >> 63) as u64
}

/// The inverse of `sevens`, of a number of 56 bits.
#[inline(always)]
fn bytes_of_seven(value: u64) -> u64 {
    let word = value & 0x0fff_ffff | (value & 0x00ff_ffff_f000_0000) << 4;
    let word = word & 0x0000_3fff_0000_3fff | (word & 0x0fff_c000_0fff_c000) << 2;
    word & 0x007f_007f_007f_007f | (word & 0x3f80_3f80_3f80_3f80) << 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As both formats define it.
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
