//! Makes a record batch of messages of formats 0 and 1, so that all that reads batches reads them.

use super::{BatchHeader, LegacyMessage, RecordFault, RecordsError, varint};

/// Appends `set` to `output` as the payload of a batch of format 2, which is never longer, and returns its header, which
/// keeps the format that the messages had.
///
/// `set` is a message alone, or what a message holds, decompressed. `header` is that of the message, or what an earlier
/// call returned for it.
///
/// # Errors
/// A message that cannot be read or does not fit the others, offsets that do not grow or that the message cannot hold,
/// and with `check_crcs` a CRC that does not match.
pub fn rewrite_legacy(
    header: &BatchHeader,
    set: &[u8],
    check_crcs: bool,
    output: &mut Vec<u8>,
) -> Result<BatchHeader, RecordsError> {
    let set_offset = header.last_offset();
    let fault = |index, position, fault| RecordsError::Record { base_offset: set_offset, index, position, fault };
    let (mut position, mut index) = (0, 0);
    let (mut first, mut last) = (0, 0);
    while position < set.len() {
        let (message, next) = LegacyMessage::parse(set, position).map_err(|found| fault(index, position, found))?;
        if index == 0 {
            first = message.offset;
        }
        let delta = message.offset.checked_sub(first).and_then(|delta| i32::try_from(delta).ok());
        let delta = delta.filter(|_| first >= 0 && (index == 0 || message.offset > last));
        let delta = check(header, &message)
            .and_then(|()| delta.ok_or(RecordFault::OffsetDelta))
            .map_err(|found| fault(index, position, found))?;
        if check_crcs {
            message.verify_crc(set_offset)?;
        }
        write(&message, delta, output);
        (position, index, last) = (next, index + 1, message.offset);
    }
    // In format 1 offsets are relative, and the set has the offset of its last message: compaction may have removed
    // those before (KIP-31). A set of format 0 has absolute offsets.
    let base_offset = if header.magic == 0 { first } else { set_offset.saturating_sub(last).saturating_add(first) };
    let delta = set_offset.checked_sub(base_offset).and_then(|delta| i32::try_from(delta).ok());
    let delta = delta.filter(|&delta| base_offset >= 0 && last - first <= i64::from(delta));
    let last_offset_delta = match (index, delta) {
        (0, _) => return Err(fault(0, 0, RecordFault::TooFewRecords)),
        (_, None) => return Err(fault(index - 1, position, RecordFault::OffsetDelta)),
        (_, Some(delta)) => delta,
    };
    Ok(BatchHeader { base_offset, last_offset_delta, base_timestamp: 0, record_count: index as i32, ..*header })
}

fn check(header: &BatchHeader, message: &LegacyMessage<'_>) -> Result<(), RecordFault> {
    if message.magic != header.magic {
        return Err(RecordFault::Magic(message.magic));
    }
    if message.is_compressed() { Err(RecordFault::CompressedTwice) } else { Ok(()) }
}

/// Appends the message as a record of format 2, whose timestamp is relative to 0.
fn write(message: &LegacyMessage<'_>, offset_delta: i32, output: &mut Vec<u8>) {
    let field_bytes = |field: Option<&[u8]>| {
        let length = field.map_or(-1, |bytes| bytes.len() as i64);
        varint::len(length) + field.map_or(0, <[u8]>::len)
    };
    let body_bytes = 2
        + varint::len(message.timestamp_ms)
        + varint::len(offset_delta.into())
        + field_bytes(message.key)
        + field_bytes(message.value);
    varint::write_i32(output, body_bytes as i32);
    output.push(0);
    varint::write_i64(output, message.timestamp_ms);
    varint::write_i32(output, offset_delta);
    for field in [message.key, message.value] {
        varint::write_i32(output, field.map_or(-1, |bytes| bytes.len() as i32));
        output.extend_from_slice(field.unwrap_or_default());
    }
    // The number of headers.
    output.push(0);
}
