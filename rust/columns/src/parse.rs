//! The fast parser of a record: it reads the common encodings without a bounds check per byte.
//!
//! Unusual input (lengths of three bytes, the last records of a payload, malformed records) is left to
//! `RawRecord::parse`, which checks every step and returns the errors. The fast parser therefore only has to be right
//! about the records that it accepts.

use monedula_protocol::records::RawRecord;

/// Number of bytes that must be readable from the start of a record: enough for the fields before the key, with an
/// eight-byte load for the timestamp.
const WINDOW_BYTES: usize = 24;

/// Reads the record at `position` and returns it with the position of the next one; `None` if the slow parser
/// must read it.
#[inline(always)]
pub(crate) fn parse_fast(payload: &[u8], position: usize) -> Option<(RawRecord<'_>, usize)> {
    let window = payload.get(position..)?;
    if window.len() < WINDOW_BYTES {
        return None;
    }
    // SAFETY: the window holds the longest fields before the key's bytes: 2 + 1 + 8 + 4 + 4.
    let (length, timestamp, offset, key, key_start, start) = unsafe {
        let base = window.as_ptr();
        let (length, start) = short(base)?;
        let mut at = start + 1;
        let timestamp = varint_64(base, &mut at)?;
        let offset = varint_32(base, &mut at)?;
        let key = varint_32(base, &mut at)?;
        (length, timestamp, offset, key, at, start)
    };
    // Lengths are zigzag: an even number is twice the length, 1 is null.
    let end = start + (length >> 1) as usize;
    if length & 1 != 0 || end > window.len() {
        return None;
    }
    let (key, value_length_at) = field(window, key, key_start, end)?;
    // The value's length and the header count behind it are within the record, hence readable.
    if value_length_at + 2 > end {
        return None;
    }
    // SAFETY: two bytes were checked.
    let (value, value_length) = unsafe { short(window.as_ptr().add(value_length_at)) }?;
    let (value, headers_at) = field(window, value, value_length_at + value_length, end)?;
    if headers_at >= end {
        return None;
    }
    // SAFETY: `headers_at` is below `end`, which is within the window.
    let headers = unsafe { window.get_unchecked(headers_at..end) };
    let record = RawRecord {
        timestamp_delta: (timestamp >> 1) as i64 ^ -((timestamp & 1) as i64),
        offset_delta: (offset >> 1) as i32 ^ -((offset & 1) as i32),
        key,
        value,
        headers,
    };
    Some((record, position + end))
}

/// The field of this zigzag length at `start`, and its end, which is at most `end`.
#[inline(always)]
fn field(window: &[u8], length: u32, start: usize, end: usize) -> Option<(Option<&[u8]>, usize)> {
    if length & 1 != 0 {
        return (length == 1 && start <= end).then_some((None, start));
    }
    let length = (length >> 1) as usize;
    // Signed, because `start` may have passed `end`.
    if (length as isize) > end as isize - start as isize {
        return None;
    }
    // SAFETY: `start + length <= end`, and `end` is within the window.
    Some((Some(unsafe { window.get_unchecked(start..start + length) }), start + length))
}

/// A varint of one or two bytes, and its length. There is no branch on the length, which would be mispredicted because
/// record sizes vary.
///
/// # Safety
/// Two bytes may be read.
#[inline(always)]
unsafe fn short(at: *const u8) -> Option<(u32, usize)> {
    // SAFETY: the caller lets two bytes be read at `at`.
    let bytes = u32::from(u16::from_le_bytes(unsafe { at.cast::<[u8; 2]>().read() }));
    let two = bytes >> 7 & 1;
    if bytes & 0x8080 == 0x8080 {
        return None;
    }
    let high = (bytes >> 1) & 0x3f80 & two.wrapping_neg();
    Some((bytes & 0x7f | high, 1 + two as usize))
}

/// Reads a 32-bit varint of at most four bytes at `base + *at`. Moves `at` past it.
///
/// # Safety
/// Four bytes may be read.
#[inline(always)]
unsafe fn varint_32(base: *const u8, at: &mut usize) -> Option<u32> {
    // SAFETY: the caller lets four bytes be read at `base + *at`.
    let word = u32::from_le_bytes(unsafe { base.add(*at).cast::<[u8; 4]>().read() });
    if word & 0x80 == 0 {
        *at += 1;
        return Some(word & 0x7f);
    }
    let stops = !word & 0x8080_8080;
    if stops == 0 {
        return None;
    }
    *at += stops.trailing_zeros() as usize / 8 + 1;
    Some(group(u64::from(word & (stops ^ (stops - 1)))) as u32)
}

/// Reads a 64-bit varint of at most eight bytes at `base + *at`. Moves `at` past it.
///
/// # Safety
/// Eight bytes may be read.
#[inline(always)]
unsafe fn varint_64(base: *const u8, at: &mut usize) -> Option<u64> {
    // SAFETY: the caller lets eight bytes be read at `base + *at`.
    let word = u64::from_le_bytes(unsafe { base.add(*at).cast::<[u8; 8]>().read() });
    if word & 0x80 == 0 {
        *at += 1;
        return Some(word & 0x7f);
    }
    let stops = !word & 0x8080_8080_8080_8080;
    if stops == 0 {
        return None;
    }
    *at += stops.trailing_zeros() as usize / 8 + 1;
    Some(group(word & (stops ^ (stops - 1))))
}

/// Drops the top bit of each of eight bytes and joins the rest: in pairs, in fours, in eights.
#[inline(always)]
fn group(word: u64) -> u64 {
    let word = (word & 0x007f_007f_007f_007f) | ((word & 0x7f00_7f00_7f00_7f00) >> 1);
    let word = (word & 0x0000_3fff_0000_3fff) | ((word & 0x3fff_0000_3fff_0000) >> 2);
    (word & 0x0fff_ffff) | ((word & 0x0fff_ffff_0000_0000) >> 4)
}

#[cfg(test)]
mod tests {
    use monedula_protocol::records::varint::{write_i32, write_i64};

    use super::*;

    type Fields<'a> = (i64, i32, Option<&'a [u8]>, Option<&'a [u8]>, &'a [u8]);

    // Compared as tuples, because formatting each byte by `Debug` takes Miri an hour.
    fn fields((record, next): (RawRecord<'_>, usize)) -> (Fields<'_>, usize) {
        let RawRecord { timestamp_delta, offset_delta, key, value, headers } = record;
        ((timestamp_delta, offset_delta, key, value, headers), next)
    }

    fn check(payload: &[u8]) {
        let slow = RawRecord::parse(payload, 0).map(fields);
        if let Some(parsed) = parse_fast(payload, 0) {
            assert_eq!(Ok(fields(parsed)), slow);
        }
    }

    fn record(timestamp_delta: i64, offset_delta: i32, key: Option<&[u8]>, value: Option<&[u8]>) -> Vec<u8> {
        let mut body = vec![0];
        write_i64(&mut body, timestamp_delta);
        write_i32(&mut body, offset_delta);
        for field in [key, value] {
            write_i32(&mut body, field.map_or(-1, |bytes| bytes.len() as i32));
            body.extend_from_slice(field.unwrap_or_default());
        }
        body.push(0);
        let mut record = Vec::new();
        write_i32(&mut record, body.len() as i32);
        record.extend(body);
        record
    }

    #[test]
    fn usual_records_take_the_fast_way_and_mean_the_same() {
        for shift in 0..27 {
            for sign in [1, -1] {
                let delta: i64 = sign << shift;
                let long_delta = delta << 27;
                for (key, value) in
                    [(None, Some(&[7u8; 99][..])), (Some(&b"12345678"[..]), None), (Some(b""), Some(b""))]
                {
                    let mut payload = record(long_delta, delta as i32, key, value);
                    let length = payload.len();
                    payload.extend([0xff; WINDOW_BYTES]);
                    let (parsed, next) = parse_fast(&payload, 0).expect("usual");
                    assert_eq!((parsed.timestamp_delta, parsed.offset_delta), (long_delta, delta as i32));
                    assert_eq!((parsed.key, parsed.value, next), (key, value, length));
                }
            }
        }
    }

    #[test]
    fn fast_and_slow_agree_on_any_bytes() {
        bolero::check!().with_type::<Vec<u8>>().for_each(|bytes| {
            let mut payload = bytes.clone();
            check(&payload);
            payload.resize(payload.len() + WINDOW_BYTES, 0);
            check(&payload);
        });
    }

    #[test]
    fn fast_and_slow_agree_on_damaged_records() {
        let sound = record(-70_000, 300, Some(&[1; 70]), Some(&[2; 200]));
        for position in 0..sound.len() {
            // Sampled under Miri, which is a thousand times slower.
            for flip in (1..=255u8).step_by(if cfg!(miri) { 101 } else { 1 }) {
                let mut payload = sound.clone();
                payload[position] ^= flip;
                check(&payload);
                payload.resize(payload.len() + WINDOW_BYTES, flip);
                check(&payload);
            }
        }
    }
}
