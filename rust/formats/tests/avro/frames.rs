//! Apicurio's and AWS Glue's framing.

use std::io::Write;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use monedula_columns::{BufferPool, RecordContext, TypedColumn};
use monedula_formats::{AvroDecoder, AvroOptions, AvroPlan, AvroReason, Framing, Mode, WriterKey};

use super::support::{long, schema};

fn decoder(framing: Framing, key: WriterKey, max_row_bytes: usize) -> AvroDecoder {
    let options = AvroOptions { mode: Mode::FailFast, max_row_bytes, ..AvroOptions::default() };
    let plan = AvroPlan::new(schema(r#""bytes""#), vec![(key, schema(r#""bytes""#))], framing, options);
    AvroDecoder::new(Arc::new(plan.expect("a plan")), BufferPool::new(1 << 20))
}

fn refused(decoder: &mut AvroDecoder, value: &[u8]) -> AvroReason {
    decoder.append(Some(value)).expect_err("a bad value").reason
}

#[test]
fn ids_of_apicurio_have_four_or_eight_bytes() {
    let mut decoder = decoder(Framing::Apicurio, WriterKey::Apicurio(7), 1 << 20);
    for frame in [&[0, 0, 0, 0, 7][..], &[0, 0, 0, 0, 0, 0, 0, 0, 7]] {
        decoder.append(Some(&[frame, &[2, b'x']].concat())).expect("a value");
    }
    assert_eq!(decoder.rows(), 2);
    assert!(refused(&mut decoder, &[0, 0, 0, 0, 8, 0]).to_string().ends_with("no schema was given for id 8"));
    for cut in [&[][..], &[0], &[0, 0, 0, 7], &[1, 0, 0, 0, 7, 0], &[3; 20]] {
        assert!(matches!(refused(&mut decoder, cut), AvroReason::NotFramed(_)), "{cut:?}");
    }
    // Without a frame and without a header.
    TypedColumn::append(&mut decoder, Some(&[2, b'x']), RecordContext::NOTHING).expect_err("no frame");
}

const UUID: u128 = 0x8979_1762_2336_4186_9674_299b_90a8_02e2;

/// Value of this many zeros in AWS Glue's framing.
fn glue(zeros: usize, is_compressed: bool) -> Vec<u8> {
    let mut body = [long(zeros as i64), vec![0; zeros]].concat();
    if is_compressed {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&body).expect("memory");
        body = encoder.finish().expect("memory");
    }
    [&[3, if is_compressed { 5 } else { 0 }][..], &UUID.to_be_bytes(), &body].concat()
}

#[test]
fn values_of_glue_may_be_compressed() {
    let mut decoder = decoder(Framing::Glue, WriterKey::Guid(UUID), 1 << 20);
    for is_compressed in [false, true, true, false] {
        decoder.append(Some(&glue(1_000, is_compressed))).expect("a value");
    }
    assert_eq!(decoder.rows(), 4);
    let unknown = refused(&mut decoder, &[&[3, 0][..], &[0; 17]].concat()).to_string();
    assert!(unknown.ends_with("no schema was given for GUID 00000000-0000-0000-0000-000000000000"), "{unknown}");
    for cut in [&[][..], &[3], &[3, 0, 1], &[3; 20], &[0, 0, 0, 0, 7, 0]] {
        assert!(matches!(refused(&mut decoder, cut), AvroReason::NotFramed(_)), "{cut:?}");
    }
    let whole = glue(1_000, true);
    for end in 18..whole.len() {
        assert!(decoder.append(Some(&whole[..end])).is_err(), "{end}");
    }
    assert_eq!(decoder.rows(), 4);
}

#[test]
fn what_is_inflated_is_bounded() {
    let bomb = glue(100 << 20, true);
    assert!(bomb.len() < 200_000, "{}", bomb.len());
    let mut decoder = decoder(Framing::Glue, WriterKey::Guid(UUID), 1 << 20);
    let (reason, bytes) = crate::allocations::allocated_by(|| refused(&mut decoder, &bomb));
    assert_eq!(reason, AvroReason::RowTooLarge(1 << 20));
    assert!(bytes < 8 << 20, "{bytes}");
    let mut decoder = self::decoder(Framing::Glue, WriterKey::Guid(UUID), 1 << 20);
    let mut broken = glue(10, true);
    broken[18] ^= 0xff;
    assert_eq!(refused(&mut decoder, &broken), AvroReason::BadCompression);
}

#[test]
fn bytes_behind_the_compressed_value_are_not_ignored() {
    let mut decoder = decoder(Framing::Glue, WriterKey::Guid(UUID), 1 << 20);
    let whole = glue(1_000, true);
    assert_eq!(refused(&mut decoder, &[&whole[..], &[0]].concat()), AvroReason::BehindCompressed(1));
    let twice = [&whole[..], &whole[18..]].concat();
    assert_eq!(refused(&mut decoder, &twice), AvroReason::BehindCompressed(whole.len() - 18));
    decoder.append(Some(&whole)).expect("a value");
}
