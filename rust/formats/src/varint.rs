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
}
