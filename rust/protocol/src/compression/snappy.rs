//! Snappy as Kafka's clients write it: Java and most others in xerial's framing (snappy-java),
//! some as one raw block. Both are decoded; the encoder writes xerial's framing.

use super::decompress::{OutputBuffer, Sink};
use super::{Compression, CompressionError};

const XERIAL_MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
/// The magic, a version and the lowest compatible version.
const XERIAL_HEADER_BYTES: usize = 16;
/// Size of snappy-java's blocks, uncompressed.
const XERIAL_BLOCK_BYTES: usize = 32 << 10;

pub(super) fn decompress<O: OutputBuffer + ?Sized>(
    decoder: &mut snap::raw::Decoder,
    input: &[u8],
    sink: &mut Sink<'_, O>,
) -> Result<(), CompressionError> {
    if !input.starts_with(&XERIAL_MAGIC) {
        return decompress_block(decoder, input, sink);
    }
    let mut rest = input;
    while !rest.is_empty() {
        // Concatenated streams repeat the header; snappy-java reads them as one stream.
        if rest.starts_with(&XERIAL_MAGIC) {
            rest = rest.get(XERIAL_HEADER_BYTES..).ok_or_else(|| sink.corrupt("the xerial header is truncated"))?;
            continue;
        }
        let (block, after) =
            split_block(rest).ok_or_else(|| sink.corrupt("a xerial block is longer than the bytes that remain"))?;
        decompress_block(decoder, block, sink)?;
        rest = after;
    }
    Ok(())
}

fn split_block(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = input.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(i32::from_be_bytes(*length)).ok()?)
}

fn decompress_block<O: OutputBuffer + ?Sized>(
    decoder: &mut snap::raw::Decoder,
    block: &[u8],
    sink: &mut Sink<'_, O>,
) -> Result<(), CompressionError> {
    let declared = snap::raw::decompress_len(block).map_err(|error| sink.corrupt(error.to_string()))?;
    if declared > sink.cap_left() {
        return Err(sink.over_limit());
    }
    let (_, room) = sink.room(declared);
    let written = decoder
        .decompress(block, &mut room[..declared])
        .map_err(|error| CompressionError::corrupt(Compression::Snappy, error.to_string()))?;
    sink.advance(written);
    Ok(())
}

pub(super) fn compress(
    encoder: &mut snap::raw::Encoder,
    input: &[u8],
    output: &mut Vec<u8>,
) -> Result<(), CompressionError> {
    output.extend_from_slice(&XERIAL_MAGIC);
    // Version and lowest compatible version, both 1.
    output.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1]);
    for block in input.chunks(XERIAL_BLOCK_BYTES) {
        let length_at = output.len();
        let data_at = length_at + 4;
        output.resize(data_at + snap::raw::max_compress_len(block.len()), 0);
        let written = encoder
            .compress(block, &mut output[data_at..])
            .map_err(|error| CompressionError::Encode { codec: Compression::Snappy, reason: error.to_string() })?;
        output.truncate(data_at + written);
        output[length_at..data_at].copy_from_slice(&(written as u32).to_be_bytes());
    }
    Ok(())
}
