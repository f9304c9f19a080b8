//! The compressor of record batches, for all codecs.

use super::{Compression, CompressionError, gzip, lz4, snappy, zstd};

/// A compressor that keeps each codec's context from batch to batch.
#[derive(Default)]
pub struct Compressor {
    snappy: Option<snap::raw::Encoder>,
    lz4: lz4::Encoder,
    zstd: Option<zstd_safe::CCtx<'static>>,
}

impl Compressor {
    /// A compressor without contexts: each is created when first needed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the compressed form of `input` to `output`.
    ///
    /// `level` is 0 to 9 for gzip (default 6), any level of the zstd library, negative ones included, for zstd (default
    /// 3), and 1 to 12 for lz4 (default 1), of which 1 and 2 are its fast compression. Snappy has no levels and ignores
    /// it.
    ///
    /// # Errors
    /// [`CompressionError::Encode`]: a level outside the codec's range, no memory, or a failure of the codec.
    pub fn compress(
        &mut self,
        codec: Compression,
        level: Option<i32>,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(), CompressionError> {
        let level_range = match codec {
            Compression::Gzip => 0..=9,
            Compression::Lz4 => 1..=lz4::MAX_LEVEL,
            Compression::Zstd => zstd_safe::min_c_level()..=zstd_safe::max_c_level(),
            _ => i32::MIN..=i32::MAX,
        };
        if let Some(level) = level.filter(|level| !level_range.contains(level)) {
            let reason = format!("level {level} is outside {} to {}", level_range.start(), level_range.end());
            return Err(CompressionError::Encode { codec, reason });
        }
        // Upper bound on the output of every codec, including its own worst case. Reserved here with an error, because
        // a vector that fails to grow later aborts the process.
        let most_bytes = input.len() + input.len() / 6 + (4 << 10);
        if output.try_reserve(most_bytes).is_err() {
            return Err(CompressionError::Encode { codec, reason: format!("no memory for {most_bytes} bytes") });
        }
        match codec {
            Compression::None => output.extend_from_slice(input),
            Compression::Gzip => gzip::compress(input, level.unwrap_or(6) as u32, output)?,
            Compression::Snappy => {
                snappy::compress(self.snappy.get_or_insert_with(snap::raw::Encoder::new), input, output)?;
            }
            Compression::Lz4 => self.lz4.compress(input, level.unwrap_or(1), output)?,
            Compression::Zstd => zstd::compress(&mut self.zstd, input, level.unwrap_or(3), output)?,
        }
        Ok(())
    }
}
