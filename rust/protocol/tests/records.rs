//! Record batches: skipping, reading, and the places of errors.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use bolero::TypeGenerator;
use monedula_protocol::compression::{Compression, Compressor, Decompressor, MAX_OUTPUT_BYTES};
use monedula_protocol::records::varint::{read_i32, read_i64, write_i32, write_i64};
use monedula_protocol::records::{
    BATCH_HEADER_BYTES, BatchEncoder, Batches, Header, NewRecord, RawBatch, RecordFault, Records, RecordsError, Tail,
    crc_of,
};

const VALUE: NewRecord<'_> = NewRecord { timestamp_ms: 5, key: Some(b"key"), value: Some(b"value"), headers: &[] };

fn encode(encoder: &BatchEncoder) -> Vec<u8> {
    let mut bytes = Vec::new();
    encoder.encode(&mut Compressor::new(), &mut bytes).unwrap();
    bytes
}

fn batch(base_offset: i64, count: usize) -> Vec<u8> {
    let mut encoder = BatchEncoder::new().base_offset(base_offset);
    (0..count).for_each(|_| encoder.append(VALUE));
    encode(&encoder)
}

/// A batch of one record with this body and a correct length field.
fn batch_of(body: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    write_i32(&mut record, body.len() as i32);
    record.extend_from_slice(body);
    // Padding, so that the count is possible; nothing reads this far.
    record.extend([0; 8]);
    with_payload(batch(9, 1), &record)
}

fn with_payload(mut batch: Vec<u8>, payload: &[u8]) -> Vec<u8> {
    batch.truncate(BATCH_HEADER_BYTES);
    batch.extend_from_slice(payload);
    let length = (batch.len() - 12) as i32;
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    batch
}

fn only(data: &[u8]) -> RawBatch<'_> {
    Batches::new(data).next().unwrap().unwrap()
}

fn fault(data: &[u8]) -> RecordFault {
    let batch = only(data);
    match batch.records(batch.payload()).find_map(Result::err) {
        Some(RecordsError::Record { base_offset: 9, fault, .. }) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_header_becomes_the_bytes_it_was_read_from() {
    let mut encoder = BatchEncoder::new().base_offset(5).partition_leader_epoch(3).producer(7, 8, 9).transactional();
    (0..2).for_each(|_| encoder.append(VALUE));
    let bytes = encode(&encoder);
    let mut header = only(&bytes).header;
    assert_eq!(header.to_bytes()[..], bytes[..BATCH_HEADER_BYTES]);
    assert_eq!(header.crc_over(&bytes[BATCH_HEADER_BYTES..]), header.crc);
    header.set_log_append_time(77);
    header.set_compression(Compression::Lz4);
    let changed = [&header.to_bytes()[..], &bytes[BATCH_HEADER_BYTES..]].concat();
    let read = only(&changed).header;
    assert_eq!((read, read.compression(), read.max_timestamp), (header, Compression::Lz4, 77));
    assert_eq!(header.crc_over(&changed[BATCH_HEADER_BYTES..]), crc_of(&changed));
    assert_ne!(crc_of(&changed), header.crc);
}

#[test]
fn batches_are_stepped_over_in_order() {
    let data = [batch(5, 2), batch(7, 1), batch(8, 0)].concat();
    let mut batches = Batches::new(&data);
    let offsets: Vec<_> = batches.by_ref().map(|batch| batch.unwrap().header.next_offset()).collect();
    assert_eq!(offsets, [7, 8, 9]);
    assert_eq!((batches.position(), batches.tail()), (data.len(), Some(Tail::Clean)));
}

#[test]
fn a_partial_batch_ends_the_steps() {
    let (first, second) = (batch(5, 2), batch(7, 1));
    let data = [first.clone(), second.clone()].concat();
    for cut in 1..second.len() {
        let mut batches = Batches::new(&data[..first.len() + cut]);
        assert_eq!(batches.by_ref().filter(Result::is_ok).count(), 1);
        let batch_bytes = (cut >= 12).then_some(second.len());
        assert_eq!(batches.tail(), Some(Tail::Partial { first: false, batch_bytes }));
        assert_eq!(batches.position(), first.len());
        let mut alone = Batches::new(&second[..cut]);
        assert!(alone.next().is_none());
        assert_eq!(alone.tail(), Some(Tail::Partial { first: true, batch_bytes }));
    }
}

#[test]
fn impossible_lengths_are_refused_where_they_are() {
    let first = batch(5, 2);
    for length in [i32::MIN, -1, 0, 11, 13, 48] {
        let mut data = [first.clone(), batch(7, 1)].concat();
        let at = first.len() + 8;
        data[at..at + 4].copy_from_slice(&length.to_be_bytes());
        let mut batches = Batches::new(&data);
        assert!(batches.next().unwrap().is_ok());
        let expected = RecordsError::BatchLength { base_offset: 7, position: first.len(), batch_length: length };
        assert_eq!(batches.next().unwrap().unwrap_err(), expected);
        assert!(batches.next().is_none());
        assert_eq!(batches.tail(), Some(Tail::Malformed));
    }
}

#[test]
fn contradicting_headers_are_refused() {
    let cases: [(usize, &[u8], &str); 7] = [
        (0, &(-1i64).to_be_bytes(), "base offset"),
        (0, &i64::MAX.to_be_bytes(), "last offset delta"),
        (23, &(-1i32).to_be_bytes(), "last offset delta"),
        (22, &[5], "compression codec"),
        (57, &(-1i32).to_be_bytes(), "record count"),
        (57, &3i32.to_be_bytes(), "record count"),
        (57, &i32::MAX.to_be_bytes(), "record count"),
    ];
    for (at, bytes, name) in cases {
        let mut data = batch(9, 2);
        data[at..at + bytes.len()].copy_from_slice(bytes);
        match Batches::new(&data).next() {
            Some(Err(RecordsError::Header { field, position: 0, .. })) => assert_eq!(field, name),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn a_count_beyond_what_the_bytes_can_hold_is_refused() {
    let mut data = batch(9, 2);
    data[23..27].copy_from_slice(&1_000_000i32.to_be_bytes());
    data[57..61].copy_from_slice(&1_000_000i32.to_be_bytes());
    let error = Batches::new(&data).next().unwrap().unwrap_err();
    assert!(matches!(error, RecordsError::Header { field: "record count", value: 1_000_000, .. }));
}

#[test]
fn any_damaged_byte_fails_the_crc() {
    let sound = batch(9, 2);
    assert_eq!(only(&sound).verify_crc(), Ok(()));
    for position in (17..21).chain(27..57).chain(BATCH_HEADER_BYTES..sound.len()) {
        let mut data = sound.clone();
        data[position] ^= 0x40;
        let error = only(&data).verify_crc().unwrap_err();
        assert!(matches!(error, RecordsError::Crc { base_offset: 9, last_offset: 10, .. }), "byte {position}");
    }
}

#[test]
fn counts_that_lie_are_noticed() {
    let mut few = batch(9, 3);
    few[57..61].copy_from_slice(&2i32.to_be_bytes());
    assert_eq!(fault(&few), RecordFault::TooManyRecords);
    let large = encode(&{
        let mut encoder = BatchEncoder::new().base_offset(9).last_offset_delta(5);
        encoder.append(NewRecord { value: Some(&[7; 100]), ..VALUE });
        encoder
    });
    let mut many = large;
    many[57..61].copy_from_slice(&2i32.to_be_bytes());
    assert_eq!(fault(&many), RecordFault::TooFewRecords);
}

#[test]
fn malformed_records_are_told_apart() {
    let cases: [(&[u8], RecordFault); 12] = [
        (&[], RecordFault::Truncated),
        (&[0, 0, 0, 2, b'k', 0], RecordFault::Truncated),
        (&[0, 0, 0, 3, 0, 0], RecordFault::FieldLength),
        (&[0, 0, 0, 200, 1, 0, 0], RecordFault::FieldLength),
        (&[0, 0, 0, 0, 99, 0], RecordFault::FieldLength),
        (&[0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2, 0, 0, 0, 0], RecordFault::VarintTooLong),
        (&[0, 0, 0x80, 0x80, 0x80, 0x80, 0x10, 0, 0, 0], RecordFault::VarintTooLong),
        (&[0, 0, 0, 0, 0, 1], RecordFault::HeaderCount),
        (&[0, 0, 0, 0, 0, 200, 1, 0], RecordFault::HeaderCount),
        (&[0, 0, 0, 0, 0, 2, 1, 0], RecordFault::HeaderLength),
        (&[0, 0, 0, 0, 0, 2, 2, b'k', 200, 1], RecordFault::HeaderLength),
        (&[0, 0, 0, 0, 0, 0, 7], RecordFault::LeftoverBytes),
    ];
    for (body, expected) in cases {
        assert_eq!(fault(&batch_of(body)), expected, "{body:?}");
    }
    for length in [[0x01, 0], [0xff, 0x01]] {
        assert_eq!(fault(&with_payload(batch(9, 1), &[&length[..], &[0; 6]].concat())), RecordFault::RecordLength);
    }
}

#[test]
fn offset_deltas_must_grow_within_the_batch() {
    let delta = |value: u8| [12, 0, 0, value, 0, 0, 0];
    for (first, second) in [(0, 0), (2, 0), (0, 1), (0, 4)] {
        let payload = [delta(first), delta(second)].concat();
        let data = with_payload(batch(9, 2), &payload);
        assert_eq!(fault(&data), RecordFault::OffsetDelta, "{first} {second}");
    }
}

#[test]
fn errors_name_the_record() {
    let mut payload = only(&batch(9, 2)).payload().to_vec();
    let second = payload.len() / 2;
    payload[second] = 1;
    let data = with_payload(batch(9, 2), &payload);
    let batch = only(&data);
    let error = batch.records(batch.payload()).find_map(Result::err).unwrap();
    let expected =
        RecordsError::Record { base_offset: 9, index: 1, position: second, fault: RecordFault::RecordLength };
    assert_eq!(error, expected);
    assert!(error.to_string().starts_with("record 1 of the batch at offset 9"), "{error}");
}

#[test]
fn headers_keep_duplicates_and_any_bytes() {
    let headers = [
        Header { key: b"a", value: Some(b"1") },
        Header { key: b"a", value: None },
        Header { key: b"\xff", value: Some(b"") },
    ];
    let mut encoder = BatchEncoder::new();
    encoder.append(NewRecord { headers: &headers, ..VALUE });
    let data = encode(&encoder);
    let record = only(&data).records(only(&data).payload()).next().unwrap().unwrap();
    assert_eq!(record.headers.len(), 3);
    assert_eq!(record.headers.collect::<Vec<_>>(), headers);
}

#[test]
fn varints_come_back_at_every_length() {
    for shift in 0..64 {
        for value in [1i64 << shift, (1i64 << shift).wrapping_neg(), (1i64 << shift).wrapping_sub(1)] {
            let mut bytes = Vec::new();
            write_i64(&mut bytes, value);
            let mut position = 0;
            assert_eq!(read_i64(&bytes, &mut position), Ok(value));
            assert_eq!(position, bytes.len());
            bytes.clear();
            write_i32(&mut bytes, value as i32);
            position = 0;
            assert_eq!(read_i32(&bytes, &mut position), Ok(value as i32));
            assert_eq!(position, bytes.len());
            bytes.pop();
            assert_eq!(read_i32(&bytes, &mut 0), Err(RecordFault::Truncated));
        }
    }
}

/// A generated record.
#[derive(Debug, Clone, TypeGenerator)]
struct Made {
    gap: u8,
    timestamp_ms: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

#[test]
fn any_batch_comes_back() {
    bolero::check!().with_type::<(u8, Vec<Made>)>().for_each(|(codec, made)| {
        let codec = Compression::ALL[usize::from(*codec) % 5];
        let mut encoder = BatchEncoder::new().base_offset(77).compression(codec, None);
        let mut delta = -1;
        let mut deltas = Vec::new();
        for record in made {
            delta += 1 + i32::from(record.gap);
            deltas.push(delta);
            let header = |(key, value): &(Vec<u8>, Option<Vec<u8>>)| (key.clone(), value.clone());
            let owned: Vec<_> = record.headers.iter().map(header).collect();
            let headers: Vec<_> = owned.iter().map(|(key, value)| Header { key, value: value.as_deref() }).collect();
            let Made { key, value, timestamp_ms, .. } = record;
            // Masked to positive timestamps, as Kafka's are: deltas that do not fit 64 bits saturate on the way back.
            let timestamp_ms = *timestamp_ms & i64::MAX;
            let new = NewRecord { timestamp_ms, key: key.as_deref(), value: value.as_deref(), headers: &headers };
            encoder.append_at(delta, new);
        }
        let data = encode(&encoder);
        let batch = only(&data);
        batch.verify_crc().unwrap();
        let payload = Decompressor::new().decompress_to_vec(codec, batch.payload(), MAX_OUTPUT_BYTES).unwrap();
        let mut records = batch.records(&payload);
        for (made, delta) in made.iter().zip(deltas) {
            let record = records.next().unwrap().unwrap();
            assert_eq!(record.offset, 77 + i64::from(delta));
            assert_eq!(record.timestamp_ms, made.timestamp_ms & i64::MAX);
            assert_eq!((record.key, record.value), (made.key.as_deref(), made.value.as_deref()));
            let headers: Vec<_> = record.headers.map(|h| (h.key.to_vec(), h.value.map(<[u8]>::to_vec))).collect();
            assert_eq!(headers, made.headers);
        }
        assert!(records.next().is_none());
    });
}

/// Reads all records until a fault, and counts them.
fn walk_everything(data: &[u8]) -> usize {
    let mut records_seen = 0;
    for batch in Batches::new(data).map_while(Result::ok) {
        let _ = batch.verify_crc();
        for record in Records::new(&batch.header, batch.payload()).map_while(Result::ok) {
            records_seen += 1 + record.headers.count();
        }
    }
    records_seen
}

#[test]
fn arbitrary_bytes_are_walked_to_an_end() {
    bolero::check!().with_type::<Vec<u8>>().for_each(|bytes| {
        assert!(walk_everything(bytes) <= bytes.len());
    });
}

#[test]
fn damaged_batches_are_walked_to_an_end() {
    let headers = [Header { key: b"a", value: Some(b"1") }, Header { key: b"b", value: None }];
    let mut encoder = BatchEncoder::new().base_offset(9);
    encoder.append(VALUE);
    encoder.append(NewRecord { headers: &headers, ..VALUE });
    let sound = [encode(&encoder), batch(11, 3)].concat();
    assert_eq!(walk_everything(&sound), 7);
    bolero::check!().with_type::<Vec<(u16, u8)>>().for_each(|flips| {
        let mut data = sound.clone();
        for (position, flip) in flips {
            let position = usize::from(*position) % data.len();
            data[position] ^= flip;
        }
        assert!(walk_everything(&data) <= data.len());
    });
}
