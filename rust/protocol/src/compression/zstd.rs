//! Zstandard, with one call per batch that decodes directly into the output.
//!
//! Java's producer writes frames without a content size. The streaming interface would decode those
//! through its own window buffer and copy; the one-shot call decodes any frame in place if there is enough
//! room. The room is guessed from the ratio of the last batch, and doubled until it suffices. The call keeps no
//! window, so a hostile window size costs no memory. Legacy formats are not compiled in.

use zstd_safe::{CCtx, DCtx};

use super::decompress::{OutputBuffer, Sink};
use super::{Compression, CompressionError};

const FIRST_ROOM_BYTES: usize = 64 << 10;
const MAGIC: u32 = 0xFD2F_B528;
/// Skippable frames are `0x184D2A50` to `0x184D2A5F`.
const SKIPPABLE_MAGIC: u32 = 0x184D_2A50;
const SKIPPABLE_MASK: u32 = 0xFFFF_FFF0;
/// The largest uncompressed size of a block.
const MAX_BLOCK_BYTES: usize = 128 << 10;
/// The error code `ZSTD_error_dstSize_tooSmall`; the library returns error codes negated.
const DESTINATION_TOO_SMALL: usize = 70;
/// The error code `ZSTD_error_memory_allocation`. Data that finds no memory is not corrupt: it can be read later.
const NO_MEMORY_CODE: usize = 64;
const NO_MEMORY: CompressionError = CompressionError::NoMemory { codec: Compression::Zstd };

#[derive(Default)]
pub(super) struct Context {
    decoder: Option<DCtx<'static>>,
    ratio: usize,
}

impl Context {
    pub(super) fn decompress<O: OutputBuffer + ?Sized>(
        &mut self,
        input: &[u8],
        sink: &mut Sink<'_, O>,
    ) -> Result<(), CompressionError> {
        let most = most_bytes(input).unwrap_or(usize::MAX);
        let mut wanted = self.first_room(input, sink)?.min(most);
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert(DCtx::try_create().ok_or(NO_MEMORY)?),
        };
        loop {
            let (_, room) = sink.room(wanted);
            let room_len = room.len();
            match decoder.decompress(room, input) {
                Ok(written) => {
                    sink.advance(written);
                    self.ratio = written / input.len().max(1) + 1;
                    return Ok(());
                }
                Err(code) if code.wrapping_neg() == NO_MEMORY_CODE => return Err(NO_MEMORY),
                Err(code) if code.wrapping_neg() != DESTINATION_TOO_SMALL => {
                    return Err(sink.corrupt(zstd_safe::get_error_name(code)));
                }
                Err(_) if room_len >= sink.cap_left() => return Err(sink.over_limit()),
                Err(_) if room_len >= most => {
                    return Err(sink.corrupt("a block becomes more than its header says"));
                }
                Err(_) => wanted = room_len.saturating_mul(2).min(most),
            }
        }
    }

    fn first_room<O: OutputBuffer + ?Sized>(
        &self,
        input: &[u8],
        sink: &Sink<'_, O>,
    ) -> Result<usize, CompressionError> {
        let declared =
            zstd_safe::get_frame_content_size(input).map_err(|_| sink.corrupt("not a zstd frame"))?.unwrap_or(0);
        if declared > sink.cap_left() as u64 {
            return Err(sink.over_limit());
        }
        Ok(FIRST_ROOM_BYTES.max(declared as usize).max(input.len().saturating_mul(self.ratio)))
    }
}

/// An upper bound on the uncompressed size of the frames, from the headers of their blocks; `None` if the headers are
/// malformed.
fn most_bytes(input: &[u8]) -> Option<usize> {
    let (mut rest, mut most) = (input, 0_usize);
    while let Some((magic, after)) = rest.split_first_chunk::<4>() {
        let magic = u32::from_le_bytes(*magic);
        if magic & SKIPPABLE_MASK == SKIPPABLE_MAGIC {
            let (length, after) = after.split_first_chunk::<4>()?;
            rest = after.get(u32::from_le_bytes(*length) as usize..)?;
            continue;
        }
        let (&descriptor, after) = after.split_first()?;
        if magic != MAGIC {
            return None;
        }
        let is_single_segment = descriptor & 0x20 != 0;
        let window_bytes = usize::from(!is_single_segment);
        let dictionary_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
        let size_bytes = [usize::from(is_single_segment), 2, 4, 8][usize::from(descriptor >> 6)];
        rest = after.get(window_bytes + dictionary_bytes + size_bytes..)?;
        loop {
            let (&[low, middle, high], after) = rest.split_first_chunk::<3>()?;
            let header = u32::from_le_bytes([low, middle, high, 0]);
            let length = (header >> 3) as usize;
            let (stored, becomes) = match header >> 1 & 3 {
                0 => (length, length),
                1 => (1, length),
                2 => (length, MAX_BLOCK_BYTES),
                _ => return None,
            };
            most = most.checked_add(becomes)?;
            rest = after.get(stored..)?;
            if header & 1 == 1 {
                break;
            }
        }
        if descriptor & 4 != 0 {
            rest = rest.get(4..)?;
        }
    }
    rest.is_empty().then_some(most)
}

pub(super) fn compress(
    context: &mut Option<CCtx<'static>>,
    input: &[u8],
    level: i32,
    output: &mut Vec<u8>,
) -> Result<(), CompressionError> {
    let failed = |reason: &str| CompressionError::Encode { codec: Compression::Zstd, reason: reason.into() };
    let encoder = match context {
        Some(encoder) => encoder,
        none => none.insert(CCtx::try_create().ok_or_else(|| failed("no memory for a zstd context"))?),
    };
    let start = output.len();
    output.resize(start + zstd_safe::compress_bound(input.len()), 0);
    let written =
        encoder.compress(&mut output[start..], input, level).map_err(|code| failed(zstd_safe::get_error_name(code)))?;
    output.truncate(start + written);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compressed(input: &[u8]) -> Vec<u8> {
        let mut output = Vec::new();
        compress(&mut None, input, 3, &mut output).expect("compresses");
        output
    }

    #[test]
    fn blocks_tell_what_a_frame_becomes_at_most() {
        let mut state = 1_u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 60) as u8
        };
        for length in [0, 1, 1000, MAX_BLOCK_BYTES, MAX_BLOCK_BYTES + 1, 3_000_000] {
            let zeros = vec![0; length];
            let noise: Vec<u8> = (0..length).map(|_| noise()).collect();
            for input in [zeros, noise] {
                let frame = compressed(&input);
                let most = most_bytes(&frame).expect("a sound frame");
                assert!((length..=length + MAX_BLOCK_BYTES).contains(&most), "{most} for {length}");
                let skippable = [&SKIPPABLE_MAGIC.to_le_bytes()[..], &[3, 0, 0, 0, 1, 2, 3]].concat();
                assert_eq!(most_bytes(&[&frame[..], &skippable, &frame].concat()), Some(2 * most));
                for cut in (1..frame.len()).step_by(frame.len() / 50 + 1) {
                    assert_eq!(most_bytes(&frame[..cut]), None, "cut at {cut}");
                }
            }
        }
    }
}
