//! Zigzag varints, the encoding of Protocol Buffers' `sint32` and `sint64`.

use super::RecordFault;

/// Reads a 32-bit varint at `*position` and moves past it.
#[inline(always)]
pub fn read_i32(bytes: &[u8], position: &mut usize) -> Result<i32, RecordFault> {
    match bytes.get(*position) {
        Some(&byte) if byte < 0x80 => {
            *position += 1;
            Ok(i32::from(byte >> 1) ^ -i32::from(byte & 1))
        }
        _ => read_long_i32(bytes, position),
    }
}

/// Reads a 64-bit varint at `*position` and moves past it.
#[inline(always)]
pub fn read_i64(bytes: &[u8], position: &mut usize) -> Result<i64, RecordFault> {
    match bytes.get(*position) {
        Some(&byte) if byte < 0x80 => {
            *position += 1;
            Ok(i64::from(byte >> 1) ^ -i64::from(byte & 1))
        }
        _ => read_long_i64(bytes, position),
    }
}

#[inline(never)]
fn read_long_i32(bytes: &[u8], position: &mut usize) -> Result<i32, RecordFault> {
    let raw = read_unsigned(bytes, position, 5)?;
    let raw = u32::try_from(raw).map_err(|_| RecordFault::VarintTooLong)?;
    Ok((raw >> 1) as i32 ^ -((raw & 1) as i32))
}

#[inline(never)]
fn read_long_i64(bytes: &[u8], position: &mut usize) -> Result<i64, RecordFault> {
    let raw = read_unsigned(bytes, position, 10)?;
    Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
}

fn read_unsigned(bytes: &[u8], position: &mut usize, max_len: usize) -> Result<u64, RecordFault> {
    let mut value = 0u64;
    for index in 0..max_len {
        let byte = *bytes.get(*position + index).ok_or(RecordFault::Truncated)?;
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit. The shift would silently drop higher ones.
        if index == 9 && bits > 1 {
            return Err(RecordFault::VarintTooLong);
        }
        value |= bits << (7 * index);
        if byte < 0x80 {
            *position += index + 1;
            return Ok(value);
        }
    }
    Err(RecordFault::VarintTooLong)
}

/// Appends a 32-bit varint.
pub fn write_i32(output: &mut Vec<u8>, value: i32) {
    write_unsigned(output, u64::from(((value << 1) ^ (value >> 31)) as u32));
}

/// Appends a 64-bit varint.
pub fn write_i64(output: &mut Vec<u8>, value: i64) {
    write_unsigned(output, ((value << 1) ^ (value >> 63)) as u64);
}

/// The length of a varint in bytes.
#[cfg(feature = "codecs")]
pub(super) fn len(value: i64) -> usize {
    let zigzag = ((value << 1) ^ (value >> 63)) as u64;
    if zigzag < 0x80 { 1 } else { (70 - zigzag.leading_zeros() as usize) / 7 }
}

fn write_unsigned(output: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        output.push(value as u8 | 0x80);
        value >>= 7;
    }
    output.push(value as u8);
}
