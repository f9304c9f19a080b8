//! The decompressor of record batches, for all codecs, and the limits and buffers of its output.

use super::{Compression, CompressionError, gzip, lz4, snappy, zstd};

/// Output buffers below this size double when they grow; larger ones grow by a quarter.
const DOUBLED_BELOW_BYTES: usize = 16 << 20;

/// Default limit on the output of one decompression, in bytes. The ratio of output to input has no limit: honest data
/// can be as compressible as an attacker's, and megabytes of zeros are a few hundred bytes of zstd.
pub const MAX_OUTPUT_BYTES: usize = 512 << 20;

/// A buffer that a codec writes to. All of it is initialised, so that codecs need no `unsafe`.
pub trait OutputBuffer {
    /// The whole writable buffer, from its start.
    fn bytes_mut(&mut self) -> &mut [u8];
    /// Makes [`bytes_mut`](Self::bytes_mut) at least `min_len` bytes long, and keeps its content.
    fn grow(&mut self, min_len: usize);
}

/// A vector's length is its writable extent. Do not shorten it between calls, so that no byte is zeroed twice.
impl OutputBuffer for Vec<u8> {
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.as_mut_slice()
    }

    fn grow(&mut self, min_len: usize) {
        if self.len() < min_len {
            self.resize(min_len, 0);
        }
    }
}

/// The part of an output buffer that one call may write: at most `cap` bytes from `start` on.
pub(super) struct Sink<'a, O: OutputBuffer + ?Sized> {
    output: &'a mut O,
    start: usize,
    written: usize,
    cap: usize,
    codec: Compression,
    compressed_bytes: usize,
}

impl<O: OutputBuffer + ?Sized> Sink<'_, O> {
    pub(super) fn written(&self) -> usize {
        self.written
    }

    pub(super) fn cap_left(&self) -> usize {
        self.cap - self.written
    }

    /// Returns the bytes written so far, and the room behind them: at least `wanted` bytes, or fewer if the cap leaves
    /// fewer.
    pub(super) fn room(&mut self, wanted: usize) -> (&mut [u8], &mut [u8]) {
        let position = self.start + self.written;
        let end = self.start.saturating_add(self.cap);
        let needed = position + wanted.min(self.cap - self.written);
        let extent = self.output.bytes_mut().len();
        if extent < needed {
            // Growth by a fraction of the size keeps the total cost of copies linear when a codec asks block by block.
            // Large buffers grow by a smaller fraction, because the unused part takes memory too.
            let step = if extent < DOUBLED_BELOW_BYTES { extent } else { extent / 4 };
            self.output.grow(needed.max(extent.saturating_add(step).min(end)));
        }
        let bytes = self.output.bytes_mut();
        let end = end.min(bytes.len());
        let (done, room) = bytes[self.start..end].split_at_mut(self.written);
        (done, room)
    }

    pub(super) fn advance(&mut self, bytes: usize) {
        self.written += bytes;
        debug_assert!(self.written <= self.cap);
    }

    pub(super) fn over_limit(&self) -> CompressionError {
        CompressionError::OutputLimit {
            codec: self.codec,
            compressed_bytes: self.compressed_bytes,
            limit_bytes: self.cap,
        }
    }

    pub(super) fn corrupt(&self, reason: impl Into<String>) -> CompressionError {
        CompressionError::corrupt(self.codec, reason)
    }
}

/// A decompressor that keeps each codec's context from batch to batch.
#[derive(Default)]
pub struct Decompressor {
    gzip: Option<flate2::Decompress>,
    snappy: snap::raw::Decoder,
    zstd: zstd::Context,
}

impl Decompressor {
    /// A decompressor without contexts: each is created when first needed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decompresses `input` to `output` from byte `start` on, growing it as needed, and returns the number of
    /// bytes written.
    ///
    /// # Errors
    /// Corrupt input, or more output than `max_output_bytes`. The bytes from `start` on are unspecified then.
    pub fn decompress<O: OutputBuffer + ?Sized>(
        &mut self,
        codec: Compression,
        input: &[u8],
        output: &mut O,
        start: usize,
        max_output_bytes: usize,
    ) -> Result<usize, CompressionError> {
        let mut sink = Sink { output, start, written: 0, cap: max_output_bytes, codec, compressed_bytes: input.len() };
        match codec {
            Compression::None => copy(input, &mut sink)?,
            Compression::Gzip => gzip::decompress(&mut self.gzip, input, &mut sink)?,
            Compression::Snappy => snappy::decompress(&mut self.snappy, input, &mut sink)?,
            Compression::Lz4 => lz4::decompress(input, &mut sink, true)?,
            Compression::Zstd => self.zstd.decompress(input, &mut sink)?,
        }
        Ok(sink.written)
    }

    /// Like [`Self::decompress`] from byte 0 on, for the messages within one of this format, `magic`.
    ///
    /// # Errors
    /// Errors of [`Self::decompress`].
    pub fn decompress_legacy<O: OutputBuffer + ?Sized>(
        &mut self,
        magic: i8,
        codec: Compression,
        input: &[u8],
        output: &mut O,
        max_output_bytes: usize,
    ) -> Result<usize, CompressionError> {
        if magic > 0 || codec != Compression::Lz4 {
            return self.decompress(codec, input, output, 0, max_output_bytes);
        }
        let compressed_bytes = input.len();
        let mut sink = Sink { output, start: 0, written: 0, cap: max_output_bytes, codec, compressed_bytes };
        lz4::decompress(input, &mut sink, false)?;
        Ok(sink.written)
    }

    /// Like [`Self::decompress`], to a new vector.
    ///
    /// # Errors
    /// Errors of [`Self::decompress`].
    pub fn decompress_to_vec(
        &mut self,
        codec: Compression,
        input: &[u8],
        max_output_bytes: usize,
    ) -> Result<Vec<u8>, CompressionError> {
        let mut output = Vec::new();
        let written = self.decompress(codec, input, &mut output, 0, max_output_bytes)?;
        output.truncate(written);
        Ok(output)
    }
}

fn copy<O: OutputBuffer + ?Sized>(input: &[u8], sink: &mut Sink<'_, O>) -> Result<(), CompressionError> {
    if input.len() > sink.cap_left() {
        return Err(sink.over_limit());
    }
    sink.room(input.len()).1[..input.len()].copy_from_slice(input);
    sink.advance(input.len());
    Ok(())
}
