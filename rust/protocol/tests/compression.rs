//! The codecs: output of other libraries is read, and nothing passes the limits.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use monedula_protocol::compression::{Compression, CompressionError, Compressor, Decompressor, MAX_OUTPUT_BYTES};
use serde_json::Value;

const CODECS: [Compression; 4] = [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

fn compress(codec: Compression, level: Option<i32>, input: &[u8]) -> Vec<u8> {
    let mut output = Vec::new();
    Compressor::new().compress(codec, level, input, &mut output).unwrap();
    output
}

fn decompress(codec: Compression, input: &[u8]) -> Result<Vec<u8>, CompressionError> {
    Decompressor::new().decompress_to_vec(codec, input, MAX_OUTPUT_BYTES)
}

fn noise(length: usize) -> Vec<u8> {
    let mut state = 1u64;
    let next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

fn jackdaws() -> Vec<u8> {
    (0..150).map(|i| format!("jackdaw {};", i * i % 1009)).collect::<String>().repeat(100).into_bytes()
}

#[test]
fn any_input_comes_back() {
    let inputs = [vec![], b"k".to_vec(), jackdaws(), noise(300_000), vec![0; 1_000_000]];
    for codec in Compression::ALL {
        for input in &inputs {
            assert!(decompress(codec, &compress(codec, None, input)).unwrap() == *input, "{codec}, {}", input.len());
        }
    }
}

#[test]
fn levels_come_back_and_unknown_ones_are_refused() {
    let codecs = [(Compression::Gzip, 0..=9, 10), (Compression::Lz4, 1..=12, 13), (Compression::Zstd, -5..=22, 23)];
    for (codec, levels, refused) in codecs {
        let sizes = levels.clone().map(|level| {
            let compressed = compress(codec, Some(level), &jackdaws());
            assert!(decompress(codec, &compressed).unwrap() == jackdaws());
            compressed.len()
        });
        let sizes: Vec<usize> = sizes.collect();
        assert!(sizes.last() < sizes.first(), "{codec}: a high level compresses better: {sizes:?}");
        let error = Compressor::new().compress(codec, Some(refused), b"", &mut vec![]).unwrap_err();
        assert!(matches!(error, CompressionError::Encode { .. }), "{error}");
    }
}

/// Other frames are read by Java and librdkafka, but not by all brokers' tools.
#[test]
fn lz4_frames_are_those_of_javas_producer() {
    for (level, input) in
        [(None, jackdaws()), (Some(12), jackdaws()), (None, noise(150_000)), (Some(9), noise(150_000))]
    {
        let frame = compress(Compression::Lz4, level, &input);
        assert_eq!(frame[..7], [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82], "independent blocks of 64 KiB, unchecked");
        let (mut at, mut blocks) = (7, 0);
        loop {
            let size = u32::from_le_bytes(frame[at..at + 4].try_into().unwrap());
            at += 4 + (size & !(1 << 31)) as usize;
            if size == 0 {
                break;
            }
            assert!(size & !(1 << 31) <= 64 << 10, "a block beyond the frame's size is refused by readers");
            blocks += 1;
        }
        assert_eq!((at, blocks), (frame.len(), input.len().div_ceil(64 << 10)));
    }
}

#[test]
fn frames_of_the_reference_libraries_are_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/frames.jsonl");
    let mut seen = 0;
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let json: Value = serde_json::from_str(line).unwrap();
        let digits = json["bytes"].as_str().unwrap();
        let bytes: Vec<u8> =
            (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect();
        let case = json["case"].as_str().unwrap();
        let codec = Compression::ALL.into_iter().find(|codec| codec.name() == json["codec"]).unwrap();
        let expected = match case {
            "stored blocks" => (0..=255).collect(),
            case if case.starts_with("two frames") => b"jackdaw".to_vec(),
            _ => jackdaws(),
        };
        assert!(decompress(codec, &bytes).unwrap() == expected, "{codec}: {case}");
        seen += 1;
    }
    assert_eq!(seen, 14);
}

#[test]
fn checksums_of_lz4_frames_are_verified() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/frames.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let line = text.lines().find(|line| line.contains("level 0, linked True, checked and sized True")).unwrap();
    let json: Value = serde_json::from_str(line).unwrap();
    let digits = json["bytes"].as_str().unwrap();
    let sound: Vec<u8> =
        (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect();
    // Positions in the descriptor, the literals of the first block, and the content checksum.
    for position in [5, 14, 40, sound.len() - 1] {
        let mut damaged = sound.clone();
        damaged[position] ^= 1;
        let error = decompress(Compression::Lz4, &damaged).unwrap_err();
        assert!(error.to_string().contains("corrupt lz4 data"), "{error}");
    }
}

#[test]
fn several_gzip_members_and_optional_fields_are_read() {
    let mut data = vec![0x1f, 0x8b, 8, 4 | 8 | 16 | 2, 0, 0, 0, 0, 0, 3];
    data.extend([2, 0, b'x', b'y']);
    data.extend(b"name\0comment\0");
    data.extend([0, 0]);
    data.extend(&compress(Compression::Gzip, None, b"jack")[10..]);
    data.extend(compress(Compression::Gzip, None, b"daw"));
    data.extend([0; 7]);
    assert_eq!(decompress(Compression::Gzip, &data).unwrap(), b"jackdaw");
}

#[test]
fn concatenated_xerial_streams_are_read() {
    let mut data = compress(Compression::Snappy, None, b"jack");
    data.extend(compress(Compression::Snappy, None, b"daw"));
    assert_eq!(decompress(Compression::Snappy, &data).unwrap(), b"jackdaw");
}

#[test]
fn output_stops_at_the_limit_exactly() {
    let input = jackdaws();
    for codec in Compression::ALL {
        let compressed = compress(codec, None, &input);
        let mut decompressor = Decompressor::new();
        let fits = decompressor.decompress_to_vec(codec, &compressed, input.len());
        assert!(fits.unwrap() == input, "{codec}");
        for limit in [0, 1, 1000, 65536, input.len() - 1] {
            let mut output = Vec::new();
            let error = decompressor.decompress(codec, &compressed, &mut output, 0, limit).unwrap_err();
            let expected =
                CompressionError::OutputLimit { codec, compressed_bytes: compressed.len(), limit_bytes: limit };
            assert_eq!(error, expected);
            assert!(output.len() <= limit, "{codec}: {} bytes of memory for a limit of {limit}", output.len());
        }
    }
}

#[test]
fn zeros_are_read_however_well_they_compress() {
    let zeros = vec![0; 64 << 20];
    for codec in CODECS {
        let compressed = compress(codec, None, &zeros);
        let read = Decompressor::new().decompress_to_vec(codec, &compressed, zeros.len());
        assert!(read.unwrap() == zeros, "{codec}: {} bytes", compressed.len());
    }
}

#[test]
fn declared_sizes_are_not_believed() {
    // Declared sizes. Snappy: 4 GiB - 1. Zstd: a frame header with an 8-byte content size. LZ4: the same, with a
    // correct checksum.
    let zstd = [&[0x28, 0xb5, 0x2f, 0xfd, 0xe0][..], &(1u64 << 60).to_le_bytes(), &[1, 0, 0]].concat();
    let mut lz4 = compress(Compression::Lz4, None, b"x");
    lz4.splice(4..7, [0x68, 0x40].into_iter().chain((1u64 << 60).to_le_bytes()).chain([0]));
    lz4[14] = (twox_hash::XxHash32::oneshot(0, &lz4[4..14]) >> 8) as u8;
    let snappy = vec![0xff, 0xff, 0xff, 0xff, 0x0f, 0];
    for (codec, data) in [(Compression::Snappy, snappy), (Compression::Zstd, zstd), (Compression::Lz4, lz4)] {
        let mut output = Vec::new();
        let result = Decompressor::new().decompress(codec, &data, &mut output, 0, MAX_OUTPUT_BYTES);
        assert!(matches!(result, Err(CompressionError::OutputLimit { .. })), "{codec}: {result:?}");
        assert!(output.len() <= 64 << 10, "{codec}");
    }
}

#[test]
fn truncated_input_is_an_error_or_less_output() {
    let input = jackdaws();
    for codec in CODECS {
        let compressed = compress(codec, None, &input);
        for length in (0..compressed.len()).step_by(41) {
            // Xerial's framing has no end mark, so a cut between two blocks goes unnoticed.
            if let Ok(output) = decompress(codec, &compressed[..length]) {
                assert!(codec == Compression::Snappy && input.starts_with(&output) && output.len() < input.len());
            }
        }
    }
}

#[test]
fn a_context_works_on_after_an_error() {
    let mut decompressor = Decompressor::new();
    let input = jackdaws();
    for codec in CODECS {
        let sound = compress(codec, None, &input);
        for _ in 0..3 {
            let mut damaged = sound.clone();
            damaged.truncate(sound.len() / 2);
            damaged[10] ^= 0xff;
            let _ = decompressor.decompress_to_vec(codec, &damaged, MAX_OUTPUT_BYTES);
            assert!(decompressor.decompress_to_vec(codec, &sound, MAX_OUTPUT_BYTES).unwrap() == input, "{codec}");
        }
    }
}

#[test]
fn output_goes_where_it_is_told() {
    let mut output = vec![7; 3];
    for codec in Compression::ALL {
        let input = compress(codec, None, b"jackdaw");
        let written = Decompressor::new().decompress(codec, &input, &mut output, 3, MAX_OUTPUT_BYTES).unwrap();
        assert_eq!((&output[..3], &output[3..3 + written]), (&[7, 7, 7][..], &b"jackdaw"[..]));
    }
}

#[test]
fn arbitrary_bytes_never_panic_and_stay_within_the_limits() {
    bolero::check!().with_type::<(u8, Vec<u8>)>().for_each(|(codec, bytes)| {
        let codec = CODECS[usize::from(*codec) % 4];
        let mut output = Vec::new();
        let _ = Decompressor::new().decompress(codec, bytes, &mut output, 0, 1 << 20);
        assert!(output.len() <= 1 << 20);
    });
}

#[test]
fn damaged_frames_never_panic_and_stay_within_the_limits() {
    let frames = CODECS.map(|codec| compress(codec, None, &jackdaws()));
    bolero::check!().with_type::<(u8, Vec<(u16, u8)>)>().for_each(|(codec, flips)| {
        let index = usize::from(*codec) % 4;
        let mut frame = frames[index].clone();
        for (position, flip) in flips {
            let position = usize::from(*position) % frame.len();
            frame[position] ^= flip;
        }
        let mut output = Vec::new();
        let _ = Decompressor::new().decompress(CODECS[index], &frame, &mut output, 0, 1 << 20);
        assert!(output.len() <= 1 << 20);
    });
}
