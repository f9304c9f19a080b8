//! LZ4 frames, parsed and written here over block codecs. Blocks are decoded directly into the output, which
//! lz4_flex's own frame reader (a copy per block, an allocation per frame) cannot do.
//!
//! Levels 1 and 2 use lz4_flex, which compresses as fast as the C library; the C library is used for levels 3 to 12.

use lz4::block::{CompressionMode, compress_to_buffer};
use lz4_flex::block::{
    CompressTable, DecompressError, compress_into_with_table, decompress_into, decompress_into_with_dict,
    get_maximum_output_size,
};
use twox_hash::XxHash32;

use super::decompress::{OutputBuffer, Sink};
use super::{Compression, CompressionError};

const MAGIC: u32 = 0x184D_2204;
/// Skippable frames are `0x184D2A50` to `0x184D2A5F`.
const SKIPPABLE_MAGIC: u32 = 0x184D_2A50;
const SKIPPABLE_MASK: u32 = 0xFFFF_FFF0;
const VERSION: u8 = 0b01;
const FLAG_INDEPENDENT: u8 = 1 << 5;
const FLAG_BLOCK_CHECKSUM: u8 = 1 << 4;
const FLAG_CONTENT_SIZE: u8 = 1 << 3;
const FLAG_CONTENT_CHECKSUM: u8 = 1 << 2;
const FLAG_DICTIONARY: u8 = 1;
const STORED: u32 = 1 << 31;
/// The farthest that a match in a linked block may point back, in bytes.
const WINDOW_BYTES: usize = 64 << 10;
/// An LZ4 block decompresses to at most 255 bytes per compressed byte.
const MAX_RATIO: usize = 255;

struct Frame {
    independent: bool,
    block_checksums: bool,
    content_checksum: bool,
    content_bytes: Option<u64>,
    max_block_bytes: usize,
}

/// Without `checks_descriptor`, checksums of frame descriptors are not compared: clients before Kafka 0.10 computed them
/// over the magic as well (KAFKA-3160).
pub(super) fn decompress<O: OutputBuffer + ?Sized>(
    input: &[u8],
    sink: &mut Sink<'_, O>,
    checks_descriptor: bool,
) -> Result<(), CompressionError> {
    let mut rest = input;
    loop {
        let magic = take_u32(&mut rest).ok_or_else(|| sink.corrupt("the frame is truncated"))?;
        if magic & SKIPPABLE_MASK == SKIPPABLE_MAGIC {
            let skipped = take_u32(&mut rest).and_then(|length| take(&mut rest, length as usize));
            skipped.ok_or_else(|| sink.corrupt("a skippable frame is truncated"))?;
        } else if magic == MAGIC {
            decompress_frame(&mut rest, sink, checks_descriptor)?;
        } else {
            return Err(sink.corrupt("not an LZ4 frame"));
        }
        if rest.is_empty() {
            return Ok(());
        }
    }
}

fn decompress_frame<O: OutputBuffer + ?Sized>(
    rest: &mut &[u8],
    sink: &mut Sink<'_, O>,
    checks_descriptor: bool,
) -> Result<(), CompressionError> {
    let frame = read_descriptor(rest, checks_descriptor).map_err(|reason| sink.corrupt(reason))?;
    let frame_start = sink.written();
    if frame.content_bytes.is_some_and(|bytes| bytes > sink.cap_left() as u64) {
        return Err(sink.over_limit());
    }
    loop {
        let size = take_u32(rest).ok_or_else(|| sink.corrupt("the end mark is missing"))?;
        if size == 0 {
            break;
        }
        let block = take(rest, (size & !STORED) as usize)
            .ok_or_else(|| sink.corrupt("a block is longer than the bytes that remain"))?;
        if frame.block_checksums {
            let stored = take_u32(rest).ok_or_else(|| sink.corrupt("a block checksum is missing"))?;
            if stored != XxHash32::oneshot(0, block) {
                return Err(sink.corrupt("a block checksum does not match"));
            }
        }
        decompress_block(&frame, frame_start, size & STORED != 0, block, sink)?;
    }
    finish_frame(&frame, frame_start, rest, sink)
}

fn decompress_block<O: OutputBuffer + ?Sized>(
    frame: &Frame,
    frame_start: usize,
    stored: bool,
    block: &[u8],
    sink: &mut Sink<'_, O>,
) -> Result<(), CompressionError> {
    if stored {
        if block.len() > frame.max_block_bytes {
            return Err(sink.corrupt("a stored block is longer than the frame allows"));
        }
        if block.len() > sink.cap_left() {
            return Err(sink.over_limit());
        }
        sink.room(block.len()).1[..block.len()].copy_from_slice(block);
        sink.advance(block.len());
        return Ok(());
    }
    let wanted = frame.max_block_bytes.min(block.len().saturating_mul(MAX_RATIO));
    let capped = wanted > sink.cap_left();
    let (done, room) = sink.room(wanted);
    let limit = wanted.min(room.len());
    let room = &mut room[..limit];
    let result = if frame.independent || done.len() == frame_start {
        decompress_into(block, room)
    } else {
        let window_start = frame_start.max(done.len().saturating_sub(WINDOW_BYTES));
        decompress_into_with_dict(block, room, &done[window_start..])
    };
    match result {
        Ok(written) => sink.advance(written),
        Err(DecompressError::OutputTooSmall { .. }) if capped => return Err(sink.over_limit()),
        Err(error) => return Err(sink.corrupt(error.to_string())),
    }
    Ok(())
}

fn finish_frame<O: OutputBuffer + ?Sized>(
    frame: &Frame,
    frame_start: usize,
    rest: &mut &[u8],
    sink: &mut Sink<'_, O>,
) -> Result<(), CompressionError> {
    let content_bytes = (sink.written() - frame_start) as u64;
    if frame.content_bytes.is_some_and(|declared| declared != content_bytes) {
        return Err(sink.corrupt("the content size does not match the data"));
    }
    if frame.content_checksum {
        let stored = take_u32(rest).ok_or_else(|| sink.corrupt("the content checksum is missing"))?;
        if stored != XxHash32::oneshot(0, &sink.room(0).0[frame_start..]) {
            return Err(sink.corrupt("the content checksum does not match"));
        }
    }
    Ok(())
}

fn read_descriptor(rest: &mut &[u8], checks_descriptor: bool) -> Result<Frame, &'static str> {
    const TRUNCATED: &str = "the frame descriptor is truncated";
    let start = *rest;
    let [flags, block_descriptor] = *take_array::<2>(rest).ok_or(TRUNCATED)?;
    if flags >> 6 != VERSION {
        return Err("unknown frame version");
    }
    let content_bytes = if flags & FLAG_CONTENT_SIZE != 0 {
        Some(u64::from_le_bytes(*take_array::<8>(rest).ok_or(TRUNCATED)?))
    } else {
        None
    };
    if flags & FLAG_DICTIONARY != 0 {
        return Err("the frame needs a dictionary, which Kafka has none of");
    }
    let descriptor = &start[..start.len() - rest.len()];
    let [checksum] = *take_array::<1>(rest).ok_or(TRUNCATED)?;
    if checks_descriptor && checksum != (XxHash32::oneshot(0, descriptor) >> 8) as u8 {
        return Err("the frame descriptor's checksum does not match");
    }
    let max_block_bytes = match block_descriptor >> 4 & 0b111 {
        size @ 4..=7 => 1 << (8 + 2 * size),
        _ => return Err("unknown maximal block size"),
    };
    Ok(Frame {
        independent: flags & FLAG_INDEPENDENT != 0,
        block_checksums: flags & FLAG_BLOCK_CHECKSUM != 0,
        content_checksum: flags & FLAG_CONTENT_CHECKSUM != 0,
        content_bytes,
        max_block_bytes,
    })
}

fn take<'i>(rest: &mut &'i [u8], length: usize) -> Option<&'i [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

fn take_array<'i, const N: usize>(rest: &mut &'i [u8]) -> Option<&'i [u8; N]> {
    let (taken, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(taken)
}

fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    take_array::<4>(rest).map(|bytes| u32::from_le_bytes(*bytes))
}

/// The highest level of lz4's high compression.
pub(super) const MAX_LEVEL: i32 = 12;
/// The first level with high compression; lower levels are fast compression, as in lz4's own frame format.
const FIRST_HIGH_LEVEL: i32 = 3;
const BLOCK_BYTES: usize = 64 << 10;
/// The magic; version 1, independent blocks, no checksums and no content size; blocks of 64 KiB; the checksum of these
/// two bytes.
const HEADER: [u8; 7] = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];

/// An encoder of the same frames as Java's producer: independent blocks of 64 KiB, no checksums.
#[derive(Default)]
pub(super) struct Encoder {
    /// The compression table, kept from block to block. lz4_flex's own frame writer copies its input and keeps less
    /// between blocks; it takes 1.5 times as long.
    table: Option<CompressTable>,
}

impl Encoder {
    pub(super) fn compress(&mut self, input: &[u8], level: i32, output: &mut Vec<u8>) -> Result<(), CompressionError> {
        output.extend_from_slice(&HEADER);
        for block in input.chunks(BLOCK_BYTES) {
            let start = output.len();
            output.resize(start + 4 + get_maximum_output_size(block.len()), 0);
            let written = self.compress_block(block, level, &mut output[start + 4..]);
            let written = written.map_err(|reason| CompressionError::Encode { codec: Compression::Lz4, reason })?;
            let mut size = written as u32;
            output.truncate(start + 4 + written);
            if written >= block.len() {
                // Store the block uncompressed: readers refuse a block that is larger than the frame's block size.
                size = block.len() as u32 | STORED;
                output.truncate(start + 4);
                output.extend_from_slice(block);
            }
            output[start..start + 4].copy_from_slice(&size.to_le_bytes());
        }
        output.extend_from_slice(&[0; 4]);
        Ok(())
    }

    fn compress_block(&mut self, block: &[u8], level: i32, room: &mut [u8]) -> Result<usize, String> {
        if level < FIRST_HIGH_LEVEL {
            let table = self.table.get_or_insert_with(CompressTable::large);
            return compress_into_with_table(block, room, table).map_err(|error| error.to_string());
        }
        let mode = Some(CompressionMode::HIGHCOMPRESSION(level));
        compress_to_buffer(block, mode, false, room).map_err(|error| error.to_string())
    }
}
