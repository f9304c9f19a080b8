//! Messages of formats 0 and 1, generated and damaged; `record_golden` of the protocol crate has those that Kafka wrote.

mod common;

use bolero::TypeGenerator;
use bytes::Bytes;
use common::{Row, builder, encode, offsets, rows, walker};
use monedula_columns::{
    BatchBuilder, BufferPool, ColumnSet, PartitionWalker, Scratch, WalkErrorKind, WalkOptions, Walked, inflate,
    segments,
};
use monedula_protocol::compression::{Compression, Compressor};
use monedula_protocol::records::{BatchEncoder, NewRecord, RecordFault, RecordsError};

/// One message of a test.
#[derive(Clone, Default)]
struct Message {
    offset: i64,
    timestamp_ms: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
}

impl Message {
    fn encode(&self, magic: u8, attributes: u8) -> Vec<u8> {
        let mut checked = vec![magic, attributes];
        if magic == 1 {
            checked.extend(self.timestamp_ms.to_be_bytes());
        }
        for field in [&self.key, &self.value] {
            checked.extend(field.as_ref().map_or(-1, |bytes| bytes.len() as i32).to_be_bytes());
            checked.extend(field.as_deref().unwrap_or_default());
        }
        let mut message = self.offset.to_be_bytes().to_vec();
        message.extend((checked.len() as i32 + 4).to_be_bytes());
        message.extend(crc32(&checked).to_be_bytes());
        message.extend(checked);
        message
    }

    fn row(&self, magic: u8, append_time_ms: Option<i64>) -> Row {
        let timestamp_ms = if magic == 0 { -1 } else { append_time_ms.unwrap_or(self.timestamp_ms) };
        Row {
            key: self.key.clone(),
            value: self.value.clone(),
            topic: "orders".into(),
            partition: 3,
            offset: self.offset,
            timestamp_us: timestamp_ms.saturating_mul(1000),
            timestamp_type: if magic == 0 { -1 } else { i32::from(append_time_ms.is_some()) },
            headers: None,
        }
    }
}

/// The CRC-32 of zlib, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 0 { crc >> 1 } else { crc >> 1 ^ 0xEDB8_8320 };
    !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step))
}

/// A message that holds these, compressed.
fn set(magic: u8, codec: Compression, append_time_ms: Option<i64>, messages: &[Message]) -> Vec<u8> {
    let (first, last) = (messages[0].offset, messages[messages.len() - 1].offset);
    let mut inner = Vec::new();
    for message in messages {
        let offset = if magic == 0 { message.offset } else { message.offset - first };
        inner.extend(Message { offset, ..message.clone() }.encode(magic, 0));
    }
    let mut value = Vec::new();
    Compressor::new().compress(codec, None, &inner, &mut value).expect("compresses");
    if magic == 0 && codec == Compression::Lz4 {
        // The checksum of the frame's descriptor, which clients of this format got wrong.
        value[6] ^= 0xff;
    }
    let attributes = codec.id() | if append_time_ms.is_some() { 8 } else { 0 };
    let timestamp_ms = append_time_ms.unwrap_or(7);
    Message { offset: last, timestamp_ms, key: None, value: Some(value) }.encode(magic, attributes)
}

fn message(offset: i64) -> Message {
    let (key, value) = (Some(format!("k{offset}").into()), Some(format!("value-{offset}").into()));
    Message { offset, timestamp_ms: 1_700_000_000_000 + offset, key, value }
}

fn walk(walker: &mut PartitionWalker, data: Vec<u8>) -> (Vec<Row>, Option<WalkErrorKind>) {
    let mut builder = builder(ColumnSet::ALL);
    walker.feed(Bytes::from(data), vec![]);
    let error = walker.walk(&mut builder, &mut Scratch::new()).err();
    (rows(&builder.finish().record_batch), error.map(|error| error.kind))
}

#[test]
fn a_walk_begins_and_ends_within_a_set() {
    for (magic, codec) in [(0, Compression::Lz4), (1, Compression::Snappy)] {
        let some: Vec<Message> = [10, 12, 13, 20, 21].map(message).into();
        let data = [set(magic, codec, None, &some), message(22).encode(magic, 0)].concat();
        let mut walker = walker(13, WalkOptions { read_committed: true, ..WalkOptions::default() });
        walker.set_end(Some(21));
        let (found, error) = walk(&mut walker, data);
        assert_eq!((found.iter().map(|row| row.offset).collect::<Vec<_>>(), error), (vec![13, 20], None));
        assert_eq!(walker.position(), 21);
    }
}

#[test]
fn an_end_before_the_offset_of_a_set_is_reached_within_it() {
    let some: Vec<Message> = [10, 11, 12].map(message).into();
    let mut walker = walker(0, WalkOptions::default());
    walker.set_end(Some(11));
    let (found, error) = walk(&mut walker, set(1, Compression::Snappy, None, &some));
    assert_eq!((found.len(), error, walker.position()), (1, None, 11));
}

#[test]
fn a_truncated_message_at_the_end_is_left_for_the_next_fetch() {
    let whole = [message(5).encode(0, 0), message(6).encode(1, 0)].concat();
    let length = message(6).encode(1, 0).len();
    for cut in 1..length {
        let mut walker = walker(5, WalkOptions::default());
        let (found, error) = walk(&mut walker, whole[..whole.len() - cut].to_vec());
        assert_eq!((found.len(), error, walker.position()), (1, None, 6), "{cut} bytes cut");
        let alone = message(6).encode(1, 0)[..length - cut].to_vec();
        let (_, error) = walk(&mut common::walker(6, WalkOptions::default()), alone);
        assert!(matches!(error, Some(WalkErrorKind::FetchTooSmall { .. })), "{error:?}");
    }
}

#[test]
fn damaged_messages_are_named_and_those_before_are_kept() {
    let some: Vec<Message> = [7, 8, 9].map(message).into();
    let sound = set(1, Compression::Snappy, None, &some);
    for position in 16..sound.len() {
        let mut damaged = sound.clone();
        damaged[position] ^= 0x10;
        let (found, error) = walk(&mut walker(6, WalkOptions::default()), [message(6).encode(1, 0), damaged].concat());
        assert_eq!(found.len(), 1);
        assert!(matches!(error, Some(WalkErrorKind::Records(_))), "byte {position}: {error:?}");
    }
}

#[test]
fn messages_that_do_not_fit_the_one_that_holds_them_are_refused() {
    let fault = |data: Vec<u8>| match walk(&mut walker(0, WalkOptions::default()), data) {
        (found, Some(WalkErrorKind::Records(RecordsError::Record { fault, .. }))) if found.is_empty() => fault,
        other => panic!("{other:?}"),
    };
    let holding = |magic, offset, inner: Vec<u8>| {
        let mut value = Vec::new();
        Compressor::new().compress(Compression::Snappy, None, &inner, &mut value).expect("compresses");
        let outer = Message { offset, value: Some(value), ..Message::default() };
        fault(outer.encode(magic, Compression::Snappy.id()))
    };
    assert_eq!(holding(1, 9, message(0).encode(0, 0)), RecordFault::Magic(0));
    assert_eq!(holding(1, 9, message(0).encode(1, 2)), RecordFault::CompressedTwice);
    assert_eq!(holding(1, 9, vec![]), RecordFault::TooFewRecords);
    assert_eq!(holding(1, 9, [message(1).encode(1, 0), message(1).encode(1, 0)].concat()), RecordFault::OffsetDelta);
    assert_eq!(holding(1, 0, [message(0).encode(1, 0), message(5).encode(1, 0)].concat()), RecordFault::OffsetDelta);
    assert_eq!(holding(0, 9, message(10).encode(0, 0)), RecordFault::OffsetDelta);
    assert_eq!(holding(1, 9, message(0).encode(1, 0)[..30].to_vec()), RecordFault::RecordLength);
    let empty = Message { offset: 3, ..Message::default() }.encode(1, Compression::Gzip.id());
    assert_eq!(fault(empty), RecordFault::NoValue);
    let (_, error) = walk(&mut walker(0, WalkOptions::default()), message(3).encode(1, Compression::Zstd.id()));
    assert!(matches!(
        error,
        Some(WalkErrorKind::Records(RecordsError::Header { field: "compression codec", value: 4, .. }))
    ));
}

#[test]
fn an_inner_crc_is_checked_only_if_crcs_are() {
    let mut inner = message(0).encode(1, 0);
    inner[30] ^= 1;
    let mut value = Vec::new();
    Compressor::new().compress(Compression::Snappy, None, &inner, &mut value).expect("compresses");
    let outer = Message { offset: 4, value: Some(value), ..Message::default() }.encode(1, Compression::Snappy.id());
    let (_, error) = walk(&mut walker(0, WalkOptions::default()), outer.clone());
    assert!(matches!(error, Some(WalkErrorKind::Records(RecordsError::Crc { base_offset: 4, .. }))), "{error:?}");
    let unchecked = WalkOptions { check_crcs: false, ..WalkOptions::default() };
    assert_eq!(walk(&mut walker(0, unchecked), outer).0.len(), 1);
}

#[test]
fn a_limit_on_decompressed_bytes_holds_for_sets() {
    let large = Message { value: Some(vec![0; 100_000]), ..message(1) };
    let options = WalkOptions { max_decompressed_bytes: 10_000, ..WalkOptions::default() };
    let (_, error) = walk(&mut walker(0, options), set(0, Compression::Lz4, None, &[large]));
    assert!(matches!(error, Some(WalkErrorKind::Compression(_))), "{error:?}");
}

#[derive(Debug, Clone, TypeGenerator)]
struct MadeMessage {
    gap: u8,
    timestamp_ms: u32,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
}

#[derive(Debug, Clone, TypeGenerator)]
struct MadeSet {
    format: u8,
    codec: u8,
    append_time_ms: Option<u32>,
    messages: Vec<MadeMessage>,
}

/// The bytes of a partition whose sets have any of the three formats, and its rows.
fn partition(sets: &[MadeSet]) -> (Vec<u8>, Vec<Row>) {
    let (mut data, mut rows, mut next) = (Vec::new(), Vec::new(), 0);
    let codecs = [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4];
    for made in sets.iter().filter(|made| !made.messages.is_empty()) {
        let magic = made.format % 3;
        let append_time_ms = made.append_time_ms.filter(|_| magic == 1).map(i64::from);
        let messages: Vec<Message> = made
            .messages
            .iter()
            .map(|message| {
                let offset = next + i64::from(message.gap);
                next = offset + 1;
                let MadeMessage { timestamp_ms, key, value, .. } = message.clone();
                Message { offset, timestamp_ms: timestamp_ms.into(), key, value }
            })
            .collect();
        match (magic, codecs[usize::from(made.codec) % codecs.len()]) {
            (2, codec) => {
                let first = messages[0].offset;
                let mut encoder = BatchEncoder::new().base_offset(first).compression(codec, None);
                for Message { offset, timestamp_ms, key, value } in &messages {
                    let record = NewRecord {
                        timestamp_ms: *timestamp_ms,
                        key: key.as_deref(),
                        value: value.as_deref(),
                        headers: &[],
                    };
                    encoder.append_at((offset - first) as i32, record);
                }
                data.extend(encode(&encoder));
                rows.extend(messages.iter().map(|message| message.row(1, None)));
            }
            (_, Compression::None) => {
                for message in &messages {
                    let stamped = append_time_ms.map_or(message.timestamp_ms, |time_ms| time_ms);
                    let attributes = if append_time_ms.is_some() { 8 } else { 0 };
                    data.extend(Message { timestamp_ms: stamped, ..message.clone() }.encode(magic, attributes));
                    rows.push(message.row(magic, append_time_ms));
                }
            }
            (_, codec) => {
                data.extend(set(magic, codec, append_time_ms, &messages));
                rows.extend(messages.iter().map(|message| message.row(magic, append_time_ms)));
            }
        }
    }
    (data, rows)
}

#[test]
#[cfg_attr(miri, ignore = "it compresses by gzip, which is C to Miri")]
fn any_partition_of_mixed_formats_walks_to_its_rows() {
    type Input = (Vec<MadeSet>, bool, u8, u16, u16);
    bolero::check!().with_type::<Input>().for_each(|(sets, inflated, max_rows, start, cut)| {
        let (data, mut expected) = partition(sets);
        let start = i64::from(*start) % (expected.last().map_or(0, |row| row.offset) + 1);
        expected.retain(|row| row.offset >= start);
        let (options, pool) = (WalkOptions::default(), BufferPool::new(1 << 20));
        let mut walker = walker(start, options);
        let mut builder = BatchBuilder::new(ColumnSet::ALL, pool.clone(), usize::from(*max_rows), 1 << 20);
        let (data, mut scratch) = (Bytes::from(data), Scratch::new());
        for piece in segments(&data, usize::from(*cut)) {
            if *inflated {
                walker.feed_inflated(inflate(&piece, &options, &pool, &mut scratch, &mut |bytes| bytes), vec![]);
            } else {
                walker.feed(piece, vec![]);
            }
        }
        let mut found = Vec::new();
        loop {
            let walked = walker.walk(&mut builder, &mut scratch).expect("sound");
            found.extend(rows(&builder.finish().record_batch));
            if walked == Walked::Drained {
                break;
            }
            walker.shelve();
        }
        assert_eq!(found, expected);
    });
}

#[test]
fn damaged_partitions_give_errors_and_never_panic() {
    bolero::check!().with_type::<(Vec<MadeSet>, Vec<(u16, u8)>)>().for_each(|(sets, flips)| {
        let (mut data, _) = partition(sets);
        if data.is_empty() {
            return;
        }
        for (position, flip) in flips {
            let position = usize::from(*position) % data.len();
            data[position] ^= flip;
        }
        let options = WalkOptions { check_crcs: false, max_decompressed_bytes: 1 << 20, ..WalkOptions::default() };
        let mut walker = walker(0, options);
        walker.feed(Bytes::from(data), vec![]);
        let mut builder = builder(ColumnSet::ALL);
        let _ = walker.walk(&mut builder, &mut Scratch::new());
        let offsets = offsets(&builder.finish());
        assert!(offsets.windows(2).all(|pair| pair[0] < pair[1]), "{offsets:?}");
    });
}
