//! Zstandard in one call per batch, straight to the output.
//!
//! Java's producer writes frames without a content size. The streaming interface would decode those
//! through a window buffer of its own and copy; the one-shot call decodes any frame in place if the
//! room suffices, so room is guessed from the ratio last seen, and doubled until it does. It keeps no
//! window, hence a hostile window size costs nothing. Legacy formats are not compiled in.

use zstd_safe::{CCtx, DCtx};

use super::decompress::{OutputBuffer, Sink};
use super::{Compression, CompressionError};

const FIRST_ROOM_BYTES: usize = 64 << 10;
/// `ZSTD_error_dstSize_tooSmall`; codes are returned negated.
const DESTINATION_TOO_SMALL: usize = 70;

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
        let mut wanted = self.first_room(input, sink)?;
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert(DCtx::try_create().ok_or_else(|| sink.corrupt("no memory for a zstd context"))?),
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
                Err(code) if code.wrapping_neg() != DESTINATION_TOO_SMALL => {
                    return Err(sink.corrupt(zstd_safe::get_error_name(code)));
                }
                Err(_) if room_len >= sink.cap_left() => return Err(sink.over_limit()),
                Err(_) => wanted = room_len.saturating_mul(2),
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
