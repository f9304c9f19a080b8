//! Gzip (RFC 1952) over raw deflate. Member headers and trailers are parsed here, so that one inflate state is reused
//! for every member of every batch.

use std::io::Write;

use flate2::{Decompress, FlushDecompress, Status};

use super::decompress::{OutputBuffer, Sink};
use super::{Compression, CompressionError};

const MAGIC: [u8; 2] = [0x1f, 0x8b];
const DEFLATE: u8 = 8;
const FLAG_HEADER_CRC: u8 = 2;
const FLAG_EXTRA: u8 = 4;
const FLAG_NAME: u8 = 8;
const FLAG_COMMENT: u8 = 16;
const FIRST_ROOM_BYTES: usize = 64 << 10;

pub(super) fn decompress<O: OutputBuffer + ?Sized>(
    context: &mut Option<Decompress>,
    input: &[u8],
    sink: &mut Sink<'_, O>,
) -> Result<(), CompressionError> {
    let inflate = context.get_or_insert_with(|| Decompress::new(false));
    let mut rest = input;
    loop {
        rest = skip_header(rest).ok_or_else(|| sink.corrupt("bad or truncated gzip header"))?;
        rest = inflate_member(inflate, rest, sink)?;
        // Bytes after the last member are ignored, as by java.util.zip.GZIPInputStream.
        if !rest.starts_with(&MAGIC) {
            return Ok(());
        }
    }
}

fn skip_header(input: &[u8]) -> Option<&[u8]> {
    let (fixed, mut rest) = input.split_first_chunk::<10>()?;
    if fixed[..2] != MAGIC || fixed[2] != DEFLATE {
        return None;
    }
    let flags = fixed[3];
    if flags & FLAG_EXTRA != 0 {
        let (length, after) = rest.split_first_chunk::<2>()?;
        rest = after.get(usize::from(u16::from_le_bytes(*length))..)?;
    }
    for text in [FLAG_NAME, FLAG_COMMENT] {
        if flags & text != 0 {
            let end = rest.iter().position(|&byte| byte == 0)?;
            rest = &rest[end + 1..];
        }
    }
    if flags & FLAG_HEADER_CRC != 0 {
        rest = rest.get(2..)?;
    }
    Some(rest)
}

fn inflate_member<'i, O: OutputBuffer + ?Sized>(
    inflate: &mut Decompress,
    input: &'i [u8],
    sink: &mut Sink<'_, O>,
) -> Result<&'i [u8], CompressionError> {
    inflate.reset(false);
    let member_start = sink.written();
    let mut rest = input;
    loop {
        let wanted = FIRST_ROOM_BYTES.max(rest.len());
        let (_, room) = sink.room(wanted);
        let room_len = room.len();
        let (in_before, out_before) = (inflate.total_in(), inflate.total_out());
        let status =
            inflate.decompress(rest, room, FlushDecompress::None).map_err(|error| sink.corrupt(error.to_string()))?;
        let consumed = (inflate.total_in() - in_before) as usize;
        let produced = (inflate.total_out() - out_before) as usize;
        rest = &rest[consumed..];
        sink.advance(produced);
        if status == Status::StreamEnd {
            return check_trailer(rest, member_start, sink);
        }
        if produced == room_len && sink.cap_left() == 0 {
            return Err(sink.over_limit());
        }
        if consumed == 0 && produced == 0 {
            return Err(sink.corrupt("the deflate stream ends early"));
        }
    }
}

fn check_trailer<'i, O: OutputBuffer + ?Sized>(
    rest: &'i [u8],
    member_start: usize,
    sink: &mut Sink<'_, O>,
) -> Result<&'i [u8], CompressionError> {
    let Some((trailer, after)) = rest.split_first_chunk::<8>() else {
        return Err(sink.corrupt("the gzip trailer is truncated"));
    };
    let member = &sink.room(0).0[member_start..];
    let [c0, c1, c2, c3, s0, s1, s2, s3] = *trailer;
    let mut crc = flate2::Crc::new();
    crc.update(member);
    if crc.sum() != u32::from_le_bytes([c0, c1, c2, c3]) || member.len() as u32 != u32::from_le_bytes([s0, s1, s2, s3])
    {
        return Err(sink.corrupt("the gzip trailer does not match the data"));
    }
    Ok(after)
}

pub(super) fn compress(input: &[u8], level: u32, output: &mut Vec<u8>) -> Result<(), CompressionError> {
    let failed =
        |error: std::io::Error| CompressionError::Encode { codec: Compression::Gzip, reason: error.to_string() };
    let mut encoder = flate2::write::GzEncoder::new(output, flate2::Compression::new(level));
    encoder.write_all(input).map_err(failed)?;
    encoder.finish().map_err(failed)?;
    Ok(())
}
