//! Record batches written by Apache Kafka's own classes: `tests/golden/RecordWriter.java`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use monedula_protocol::compression::{Compression, Compressor, Decompressor, MAX_OUTPUT_BYTES};
use monedula_protocol::records::{
    BatchEncoder, Batches, ControlRecordType, Header, LegacyMessage, NewRecord, RawBatch, Record, Records,
    RecordsError, TimestampType, control_record, rewrite_legacy,
};
use serde_json::Value;

struct Golden {
    name: String,
    json: Value,
    bytes: Vec<u8>,
}

fn golden() -> Vec<Golden> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/record_batches.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let parse = |line: &str| {
        let json: Value = serde_json::from_str(line).unwrap();
        let bytes = hex(&json["bytes"]).unwrap();
        Golden { name: json["case"].as_str().unwrap().to_owned(), json, bytes }
    };
    text.lines().map(parse).collect()
}

fn hex(value: &Value) -> Option<Vec<u8>> {
    let digits = value.as_str()?;
    Some((0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect())
}

impl Golden {
    fn is_current(&self) -> bool {
        self.json["magic"] == 2
    }

    fn batch(&self) -> RawBatch<'_> {
        let mut batches = Batches::new(&self.bytes);
        let batch = batches.next().unwrap().unwrap_or_else(|error| panic!("{}: {error}", self.name));
        assert!(batches.next().is_none(), "{}", self.name);
        batch
    }

    fn payload(&self) -> Vec<u8> {
        let batch = self.batch();
        let codec = batch.header.compression();
        Decompressor::new().decompress_to_vec(codec, batch.payload(), MAX_OUTPUT_BYTES).unwrap()
    }

    fn number(&self, field: &str) -> i64 {
        self.json[field].as_i64().unwrap()
    }
}

#[test]
fn there_are_cases_of_every_codec_and_format() {
    let golden = golden();
    for codec in Compression::ALL {
        assert!(golden.iter().any(|case| case.is_current() && case.json["codec"] == codec.name()), "{codec}");
    }
    assert!(golden.len() >= 26);
}

#[test]
fn headers_mean_what_kafka_reads() {
    for case in golden().iter().filter(|case| case.is_current()) {
        let batch = case.batch();
        let header = batch.header;
        assert_eq!(batch.verify_crc(), Ok(()), "{}", case.name);
        let fields = [
            (header.base_offset, "base_offset"),
            (header.last_offset(), "last_offset"),
            (header.partition_leader_epoch.into(), "leader_epoch"),
            (header.max_timestamp, "max_timestamp"),
            (header.producer_id, "producer_id"),
            (header.producer_epoch.into(), "producer_epoch"),
            (header.base_sequence.into(), "base_sequence"),
        ];
        for (value, field) in fields {
            assert_eq!(value, case.number(field), "{}: {field}", case.name);
        }
        assert_eq!(header.compression().name(), case.json["codec"], "{}", case.name);
        assert_eq!(header.timestamp_type() == TimestampType::LogAppendTime, case.json["append_time"], "{}", case.name);
        assert_eq!(header.is_transactional(), case.json["transactional"], "{}", case.name);
        assert_eq!(header.is_control(), case.json["control"], "{}", case.name);
    }
}

#[test]
fn records_mean_what_kafka_reads() {
    for case in golden().iter().filter(|case| case.is_current() && !case.name.starts_with("many")) {
        let payload = case.payload();
        check_records(case, case.batch().records(&payload));
    }
}

fn check_records(case: &Golden, records: Records<'_>) {
    let records: Vec<Record<'_>> = records.map(Result::unwrap).collect();
    let expected = case.json["records"].as_array().unwrap();
    assert_eq!(records.len(), expected.len(), "{}", case.name);
    for (record, expected) in records.into_iter().zip(expected) {
        assert_eq!(record.offset, expected["offset"], "{}", case.name);
        assert_eq!(record.timestamp_ms, expected["timestamp"], "{}", case.name);
        assert_eq!(record.key.map(<[u8]>::to_vec), hex(&expected["key"]), "{}", case.name);
        assert_eq!(record.value.map(<[u8]>::to_vec), hex(&expected["value"]), "{}", case.name);
        let headers: Vec<_> = record.headers.map(|h| (Some(h.key.to_vec()), h.value.map(<[u8]>::to_vec))).collect();
        let header = |pair: &Value| (hex(&pair[0]), hex(&pair[1]));
        let expected: Vec<_> = expected["headers"].as_array().unwrap().iter().map(header).collect();
        assert_eq!(headers, expected, "{}", case.name);
    }
}

#[test]
fn payloads_of_several_blocks_decompress_whole() {
    let cases = golden();
    let many: Vec<_> = cases.iter().filter(|case| case.name.starts_with("many")).collect();
    assert_eq!(many.len(), 7);
    for case in many {
        let payload = case.payload();
        assert!(payload.len() > 130_000, "more than two blocks of LZ4");
        let mut count = 0;
        for record in case.batch().records(&payload) {
            let record = record.unwrap();
            let index = record.offset as usize;
            assert_eq!(record.key, Some(index.to_string().as_bytes()), "{}", case.name);
            assert_eq!(record.value, Some("jackdaw".repeat(40 + index % 40).as_bytes()), "{}", case.name);
            count += 1;
        }
        assert_eq!(count, 400, "{}", case.name);
    }
}

/// The batch with log append time as its timestamp type.
fn with_append_time(batch: &[u8], append_time_ms: i64) -> Vec<u8> {
    let batch = Batches::new(batch).next().unwrap().unwrap();
    let mut header = batch.header;
    header.set_log_append_time(append_time_ms);
    header.crc = header.crc_over(batch.payload());
    [&header.to_bytes()[..], batch.payload()].concat()
}

#[test]
fn uncompressed_batches_are_written_byte_for_byte() {
    for case in golden().iter().filter(|case| case.is_current() && case.json["codec"] == "none") {
        let header = case.batch().header;
        let mut encoder = BatchEncoder::new()
            .base_offset(header.base_offset)
            .partition_leader_epoch(header.partition_leader_epoch)
            .producer(header.producer_id, header.producer_epoch, header.base_sequence)
            .last_offset_delta(header.last_offset_delta)
            .max_timestamp(header.max_timestamp);
        if header.is_control() {
            let payload = case.payload();
            let marker = control_record(case.batch().records(&payload)).unwrap().unwrap();
            encoder = encoder.control_marker(marker, 21, header.max_timestamp);
        } else if header.is_transactional() {
            encoder = encoder.transactional();
        }
        for record in case.batch().records(&case.payload()).map(Result::unwrap).filter(|_| !header.is_control()) {
            let headers: Vec<Header<'_>> = record.headers.clone().collect();
            let delta = (record.offset - header.base_offset) as i32;
            let Record { mut timestamp_ms, key, value, .. } = record;
            if header.timestamp_type() == TimestampType::LogAppendTime {
                // Producer's timestamps, 7 and 8, are below the append time.
                timestamp_ms = header.base_timestamp + i64::from(delta);
            }
            encoder.append_at(delta, NewRecord { timestamp_ms, key, value, headers: &headers });
        }
        let mut bytes = Vec::new();
        encoder.encode(&mut Compressor::new(), &mut bytes).unwrap();
        if header.timestamp_type() == TimestampType::LogAppendTime {
            bytes = with_append_time(&bytes, header.max_timestamp);
        }
        assert_eq!(bytes, case.bytes, "{}", case.name);
    }
}

#[test]
fn markers_are_told_apart() {
    for (name, expected) in [("marker COMMIT", ControlRecordType::Commit), ("marker ABORT", ControlRecordType::Abort)] {
        let cases = golden();
        let case = cases.iter().find(|case| case.name == name).unwrap();
        assert_eq!(control_record(case.batch().records(&case.payload())), Ok(Some(expected)));
    }
}

#[test]
fn messages_of_old_formats_mean_what_kafka_reads() {
    let golden = golden();
    let old: Vec<_> = golden.iter().filter(|case| !case.is_current()).collect();
    assert_eq!(old.len(), 9);
    for case in old {
        let batch = Batches::of_any_format(&case.bytes, 0).next().unwrap().unwrap();
        assert_eq!(i64::from(batch.header.magic), case.number("magic"), "{}", case.name);
        let (message, _) = LegacyMessage::parse(batch.bytes(), 0).unwrap();
        message.verify_crc(0).unwrap();
        let codec = batch.header.compression();
        assert_eq!(codec.name(), case.json["codec"], "{}", case.name);
        let mut set = case.bytes.clone();
        if codec != Compression::None {
            let value = message.value.unwrap();
            let mut unpack = Decompressor::new();
            let written =
                unpack.decompress_legacy(batch.header.magic, codec, value, &mut set, MAX_OUTPUT_BYTES).unwrap();
            set.truncate(written);
        }
        let mut payload = Vec::new();
        let header = rewrite_legacy(&batch.header, &set, true, &mut payload).unwrap();
        assert!(payload.len() <= set.len(), "{}", case.name);
        assert_eq!(header.base_offset, case.number("base_offset"), "{}", case.name);
        assert_eq!(header.last_offset(), case.number("last_offset"), "{}", case.name);
        assert_eq!(header.timestamp_type() == TimestampType::LogAppendTime, case.json["append_time"], "{}", case.name);
        check_records(case, Records::new(&header, &payload));
    }
}

#[test]
fn only_format_0_may_have_a_wrong_checksum_of_the_lz4_descriptor() {
    let golden = golden();
    let case = golden.iter().find(|case| case.name == "format 0, lz4").unwrap();
    let (message, _) = LegacyMessage::parse(&case.bytes, 0).unwrap();
    let unpack = |magic| {
        let (codec, value) = (Compression::Lz4, message.value.unwrap());
        Decompressor::new().decompress_legacy(magic, codec, value, &mut Vec::new(), MAX_OUTPUT_BYTES)
    };
    assert!(unpack(0).is_ok());
    assert!(unpack(1).unwrap_err().to_string().contains("descriptor's checksum"));
}

#[test]
fn old_formats_are_refused_by_name() {
    for case in golden().iter().filter(|case| !case.is_current()) {
        let magic = case.number("magic") as i8;
        let error = Batches::new(&case.bytes).next().unwrap().unwrap_err();
        assert_eq!(error, RecordsError::UnsupportedMagic { base_offset: case.number("last_offset"), magic });
    }
}
