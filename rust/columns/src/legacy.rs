//! Messages of formats 0 and 1, which a walk reads as the batch that is made of them.

use std::panic::resume_unwind;

use monedula_protocol::compression::{Compression, CompressionError};
use monedula_protocol::records::{BatchHeader, LegacyMessage, RecordFault, RecordsError, rewrite_legacy};

use crate::error::WalkErrorKind;
use crate::memory::{OutOfMemory, refusable};
use crate::walker::{RefusableBuffer, Scratch, WalkOptions};

/// The batch of a message, or of those that it holds compressed: its header and its payload.
pub(crate) fn unpack(
    header: &BatchHeader,
    message: &[u8],
    options: &WalkOptions,
    scratch: &mut Scratch,
) -> Result<(BatchHeader, Vec<u8>), WalkErrorKind> {
    let offset = header.last_offset();
    let in_message = |fault| RecordsError::Record { base_offset: offset, index: 0, position: 0, fault };
    let (outer, _) = LegacyMessage::parse(message, 0).map_err(in_message)?;
    if options.check_crcs {
        outer.verify_crc(offset)?;
    }
    let codec = header.compression();
    if codec == Compression::None {
        return rewrite(header, message, false, scratch);
    }
    let compressed = outer.value.ok_or(in_message(RecordFault::NoValue))?;
    let mut set = RefusableBuffer(scratch.take_set());
    let limit = options.max_decompressed_bytes;
    let written = scratch.decompressor.decompress_legacy(header.magic, codec, compressed, &mut set, limit);
    if let Err(CompressionError::NoMemory { .. }) = written {
        resume_unwind(Box::new(OutOfMemory { bytes: compressed.len() }));
    }
    let batch = rewrite(header, &set.0[..written?], options.check_crcs, scratch);
    scratch.keep_set(set.0);
    batch
}

fn rewrite(
    header: &BatchHeader,
    set: &[u8],
    check_crcs: bool,
    scratch: &mut Scratch,
) -> Result<(BatchHeader, Vec<u8>), WalkErrorKind> {
    let mut payload = scratch.take_payload();
    payload.clear();
    // A batch is never longer than its messages: the vector does not grow, which would abort without memory.
    if refusable(|| payload.try_reserve_exact(set.len())).is_err() {
        resume_unwind(Box::new(OutOfMemory { bytes: set.len() }));
    }
    let header = rewrite_legacy(header, set, check_crcs, &mut payload)?;
    Ok((header, payload))
}
