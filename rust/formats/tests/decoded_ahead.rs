//! Keys and values decoded ahead of the walk: batches are the same as if the walk had decoded them, whatever the
//! records, limits and memory.

mod common;

use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::{DataType, Fields};
use bolero::TypeGenerator;
use bytes::Bytes;
use common::{every_type, field, list, map, structs};
use monedula_columns::{
    AbortedTransaction, Awaited, BatchBuilder, BatchColumns, BufferPool, BytesTest, ColumnBatch, ColumnSet, Inflated,
    OnBadValue, Operator, PartitionWalker, RecordFilter, Scratch, SegmentDecoder, TypedColumn, TypedSpec, WalkError,
    WalkOptions, Walked, inflate, segments,
};
use monedula_formats::{
    AvroDecoder, AvroOptions, AvroPlan, AvroSchema, Framing, JsonDecoder, JsonOptions, Mode, NoSchema, SchemaSource,
    WriterKey,
};
use monedula_protocol::compression::{Compression, Compressor};
use monedula_protocol::records::{BatchEncoder, ControlRecordType, Header, NewRecord};

/// A value of [`every_type`], and one of its lists and maps alone.
const WIDE: &str = r#"{"boolean":true,"int8":-5,"int16":300,"int32":7,"int64":9007199254740993,"float32":1.5,
    "float64":-2.25,"decimal":12.3456,"text":"čau","binary":"AAEC","date":"2026-11-30",
    "timestamp":"2026-11-30T01:02:03.5Z","local":"2026-11-30T01:02:03","items":[{"price":1.25,"tags":["a","b"]},null],
    "matrix":[[1,2],[],null],"attributes":{"x":{"on":true,"names":{"k":"v","l":null}},"y":null}}"#;
const SMALL: &str = r#"{"int64":1,"text":"","items":[],"attributes":{}}"#;
const BAD: &str = r#"{"boolean":true,"items":[{"price":1.25,"tags":["a"]}],"matrix":[[1],["x"]]}"#;

#[derive(Debug, Clone, TypeGenerator)]
enum MadeValue {
    Wide,
    Small,
    Bad,
    Tombstone,
    Garbage(Vec<u8>),
}

impl MadeValue {
    fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Wide => Some(WIDE.into()),
            Self::Small => Some(SMALL.into()),
            Self::Bad => Some(BAD.into()),
            Self::Tombstone => None,
            Self::Garbage(bytes) => Some(bytes.clone()),
        }
    }
}

#[derive(Debug, Clone, TypeGenerator)]
struct MadeBatch {
    codec: u8,
    /// Transaction that it is part of: none, committed or aborted.
    fate: u8,
    gap: u8,
    records: Vec<(MadeValue, MadeValue)>,
}

/// How the records are read.
#[derive(Debug, Clone, TypeGenerator)]
struct MadeReading {
    mode: u8,
    is_key_typed: bool,
    is_flat: bool,
    is_filtered: bool,
    has_headers: bool,
    from: u8,
    end: Option<u16>,
    max_rows: u8,
    max_bytes: Option<u16>,
    segment_bytes: u16,
    granted_bytes: Option<u16>,
}

fn json(fields: Fields, mode: Mode, on_bad: OnBadValue, flatten: bool) -> TypedSpec {
    let make = move |pool: &BufferPool| -> Box<dyn TypedColumn> {
        let options = JsonOptions { mode, ..JsonOptions::default() };
        Box::new(JsonDecoder::new(&fields, options, pool.clone()).expect("known types"))
    };
    TypedSpec { make: Arc::new(make), on_bad, flatten }
}

impl MadeReading {
    fn columns(&self) -> BatchColumns {
        let (mode, on_bad) = match self.mode % 4 {
            0 => (Mode::Permissive, OnBadValue::Fail),
            1 => (Mode::FailFast, OnBadValue::Fail),
            2 => (Mode::FailFast, OnBadValue::Drop),
            _ => (Mode::FailFast, OnBadValue::Refuse),
        };
        let item = structs(vec![field("price", DataType::Float64), field("tags", list(DataType::Utf8))]);
        let key = Fields::from(vec![field("items", list(item)), field("attributes", map(structs(vec![])))]);
        let filter = RecordFilter::Header(b"kept".to_vec(), BytesTest::new(Operator::In, vec![b"y".to_vec()], false));
        BatchColumns {
            set: if self.has_headers { ColumnSet::ALL } else { ColumnSet::default() },
            key: self.is_key_typed.then(|| json(key, mode, on_bad, false)),
            value: Some(json(every_type(), mode, on_bad, self.is_flat)),
            filter: self.is_filtered.then(|| Arc::new(filter)),
        }
    }
}

/// A partition's bytes, its aborted transactions, and its end.
fn encode(batches: &[MadeBatch]) -> (Bytes, Vec<AbortedTransaction>, i64) {
    let (mut data, mut aborted, mut offset) = (Vec::new(), Vec::new(), 0);
    let mut put = |encoder: BatchEncoder| {
        let mut bytes = Vec::new();
        encoder.encode(&mut Compressor::new(), &mut bytes).expect("encodes");
        data.extend(bytes);
    };
    for (number, batch) in batches.iter().enumerate().filter(|(_, batch)| !batch.records.is_empty()) {
        let codec = [Compression::None, Compression::Lz4, Compression::None][usize::from(batch.codec % 3)];
        let mut encoder = BatchEncoder::new().base_offset(offset).compression(codec, None);
        let (is_transactional, is_aborted) = (batch.fate % 4 > 1, batch.fate % 4 == 3);
        if is_transactional {
            encoder = encoder.producer(number as i64, 0, 0).transactional();
        }
        for (index, (key, value)) in batch.records.iter().enumerate() {
            let (key, value, delta) = (key.bytes(), value.bytes(), (index * (1 + usize::from(batch.gap % 2))) as i32);
            let kept = if index % 3 == 1 { b"n" } else { b"y" };
            let headers = [Header { key: "kept".as_bytes(), value: Some(kept) }];
            let record = NewRecord { timestamp_ms: 5, key: key.as_deref(), value: value.as_deref(), headers: &headers };
            encoder.append_at(delta, record);
        }
        let last = (batch.records.len() * 2) as i32;
        put(encoder.last_offset_delta(last));
        let first_offset = offset;
        offset += i64::from(last) + 1;
        if is_transactional {
            let kind = if is_aborted { ControlRecordType::Abort } else { ControlRecordType::Commit };
            put(BatchEncoder::new().base_offset(offset).producer(number as i64, 0, -1).control_marker(kind, 0, 5));
            offset += 1;
        }
        if is_aborted {
            aborted.push(AbortedTransaction { producer_id: number as i64, first_offset });
        }
    }
    (Bytes::from(data), aborted, offset)
}

/// All that a user sees of a batch.
fn seen(batch: &ColumnBatch) -> String {
    let ColumnBatch { record_batch, spans, refused, dropped, with_nulls, filtered, .. } = batch;
    let refused = refused.as_ref().map(|refused| (&refused.causes, &refused.rows.record_batch, &refused.rows.spans));
    format!("{record_batch:?} {spans:?} {refused:?} {dropped} {with_nulls} {filtered}")
}

/// Batches and errors of a walk that goes on behind each error.
fn read(
    data: &Bytes,
    aborted: &[AbortedTransaction],
    reading: &MadeReading,
    mut feed: impl FnMut(&mut PartitionWalker, Bytes, Vec<AbortedTransaction>),
) -> Vec<Result<String, WalkError>> {
    let options = WalkOptions { read_committed: true, ..WalkOptions::default() };
    let max_bytes = reading.max_bytes.map_or(1 << 20, |bytes| usize::from(bytes) + 1);
    let mut builder =
        BatchBuilder::new(reading.columns(), BufferPool::new(1 << 20), usize::from(reading.max_rows), max_bytes);
    let (mut outcomes, mut scratch, mut from) = (Vec::new(), Scratch::new(), i64::from(reading.from % 8));
    loop {
        let mut walker = PartitionWalker::new("t".into(), 3, from, options);
        walker.set_end(reading.end.map(i64::from));
        for piece in segments(data, usize::from(reading.segment_bytes)) {
            feed(&mut walker, piece, aborted.to_vec());
        }
        let error = loop {
            let walked = walker.walk(&mut builder, &mut scratch);
            outcomes.push(Ok(format!("{} {}", builder.bytes(), seen(&builder.finish()))));
            match walked {
                Ok(Walked::Drained) => break None,
                Ok(_) => {}
                Err(error) => break Some(error),
            }
        };
        outcomes.push(Ok(format!("at {}", walker.position())));
        let Some(error) = error else { return outcomes };
        from = error.next_offset.expect("the record is known");
        outcomes.push(Err(error));
    }
}

#[test]
fn batches_are_the_same_as_if_the_walk_had_decoded_them() {
    bolero::check!().with_type::<(Vec<MadeBatch>, MadeReading)>().for_each(|(batches, reading)| {
        let (data, aborted, _) = encode(batches);
        let options = WalkOptions { read_committed: true, ..WalkOptions::default() };
        let pool = BufferPool::new(1 << 20);
        let expected = read(&data, &aborted, reading, |walker, piece, aborted| walker.feed(piece, aborted));
        let mut decoder = SegmentDecoder::new(&reading.columns(), &pool).expect("typed columns");
        let mut scratch = Scratch::new();
        let room = reading.granted_bytes.map_or(usize::MAX, usize::from);
        let found = read(&data, &aborted, reading, |walker, piece, aborted| {
            let mut inflated = inflate(&piece, &options, &pool, &mut scratch, &mut |bytes| bytes.min(room));
            decoder.decode(&mut inflated, (&"t".into(), 3), &options, &mut |bytes| bytes.min(room));
            walker.feed_inflated(inflated, aborted);
        });
        assert_eq!(found, expected);
    });
}

fn json_reading(max_rows: u8) -> MadeReading {
    MadeReading {
        mode: 2,
        is_key_typed: false,
        is_flat: false,
        is_filtered: false,
        has_headers: false,
        from: 0,
        end: None,
        max_rows,
        max_bytes: None,
        segment_bytes: u16::MAX,
        granted_bytes: None,
    }
}

fn batch_of(values: &[MadeValue]) -> MadeBatch {
    MadeBatch {
        codec: 0,
        fate: 0,
        gap: 0,
        records: values.iter().map(|value| (MadeValue::Tombstone, value.clone())).collect(),
    }
}

/// Counts the values that its column decodes by itself.
struct Counted(JsonDecoder, Arc<Mutex<usize>>);

impl TypedColumn for Counted {
    fn data_type(&self) -> DataType {
        TypedColumn::data_type(&self.0)
    }

    fn append(
        &mut self,
        value: Option<&[u8]>,
        beside: monedula_columns::RecordContext<'_>,
    ) -> Result<monedula_columns::Decoded, monedula_columns::Lookup<monedula_columns::BadValue>> {
        *self.1.lock().expect("no test panics") += 1;
        TypedColumn::append(&mut self.0, value, beside)
    }

    fn rows(&self) -> usize {
        self.0.rows()
    }

    fn truncate(&mut self, rows: usize) {
        self.0.truncate(rows);
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn finish(&mut self) -> (arrow_array::ArrayRef, usize) {
        TypedColumn::finish(&mut self.0)
    }

    fn extend(&mut self, array: &dyn arrow_array::Array, rows: std::ops::Range<usize>) {
        self.0.extend(array, rows);
    }
}

fn counted() -> (BatchColumns, Arc<Mutex<usize>>) {
    let count = Arc::new(Mutex::new(0));
    let given = Arc::clone(&count);
    let make = move |pool: &BufferPool| -> Box<dyn TypedColumn> {
        let options = JsonOptions { mode: Mode::FailFast, ..JsonOptions::default() };
        let decoder = JsonDecoder::new(&every_type(), options, pool.clone()).expect("known types");
        Box::new(Counted(decoder, Arc::clone(&given)))
    };
    let value = Some(TypedSpec { make: Arc::new(make), on_bad: OnBadValue::Drop, flatten: false });
    (BatchColumns { set: ColumnSet::default(), key: None, value, filter: None }, count)
}

fn decode(columns: &BatchColumns, data: &Bytes, granted: &mut dyn FnMut(usize) -> usize) -> Inflated {
    let (options, pool) = (WalkOptions::default(), BufferPool::new(1 << 20));
    let mut inflated = inflate(data, &options, &pool, &mut Scratch::new(), &mut |bytes| bytes);
    let mut decoder = SegmentDecoder::new(columns, &pool).expect("typed columns");
    decoder.decode(&mut inflated, (&"t".into(), 0), &options, granted);
    inflated
}

#[test]
fn the_walk_decodes_only_what_was_not_decoded_ahead() {
    use MadeValue::{Bad, Small, Wide};
    let values: Vec<_> = [Wide, Bad, Small, Small, Bad, Wide].into_iter().cycle().take(60).collect();
    let (data, _, end) = encode(&[batch_of(&values), batch_of(&values)]);
    let (columns, count) = counted();
    let inflated = decode(&columns, &data, &mut |bytes| bytes);
    assert_eq!(std::mem::take(&mut *count.lock().expect("no test panics")), 120);
    for max_rows in [7, 1000] {
        let inflated = decode(&columns, &data, &mut |bytes| bytes);
        *count.lock().expect("no test panics") = 0;
        let mut builder = BatchBuilder::new(columns.clone(), BufferPool::new(0), max_rows, 1 << 20);
        let mut walker = PartitionWalker::new("t".into(), 0, 0, WalkOptions::default());
        walker.feed_inflated(inflated, vec![]);
        let (mut rows, mut dropped) = (0, 0);
        while walker.position() < end {
            walker.walk(&mut builder, &mut Scratch::new()).expect("walks");
            let batch = builder.finish();
            (rows, dropped) = (rows + batch.record_batch.num_rows(), dropped + batch.dropped);
        }
        // Those that have no row are decoded again, to know why.
        assert_eq!((rows, dropped, *count.lock().expect("no test panics")), (80, 40, 40), "{max_rows} rows");
    }
    drop(inflated);
}

#[test]
fn no_more_is_decoded_than_memory_is_granted_for() {
    let (data, ..) = encode(&vec![batch_of(&vec![MadeValue::Wide; 50]); 20]);
    let (columns, count) = counted();
    let all = decode(&columns, &data, &mut |bytes| bytes).bytes();
    let mut before = 0;
    for room in [0, data.len(), data.len() + 20_000, data.len() + 100_000, usize::MAX] {
        *count.lock().expect("no test panics") = 0;
        let inflated = decode(&columns, &data, &mut |bytes| bytes.min(room));
        let decoded = *count.lock().expect("no test panics");
        // A kilobyte of each buffer may be empty.
        assert!(
            inflated.bytes() <= room.max(data.len()).saturating_add(64 << 10),
            "{} bytes where {room} were granted",
            inflated.bytes()
        );
        assert!(decoded >= before, "{decoded} values, {before} before");
        before = decoded;
    }
    assert_eq!((before, all > data.len()), (1000, true));
}

#[test]
fn a_damaged_batch_is_found_by_the_walk_after_the_rows_before_it() {
    let (data, ..) = encode(&vec![batch_of(&vec![MadeValue::Small; 5]); 3]);
    let mut damaged = data.to_vec();
    damaged[data.len() / 3 + 70] ^= 1;
    let data = Bytes::from(damaged);
    let reading = json_reading(100);
    let options = WalkOptions::default();
    let pool = BufferPool::new(0);
    let walk = |is_ahead: bool| {
        let mut walker = PartitionWalker::new("t".into(), 0, 0, options);
        if is_ahead {
            walker.feed_inflated(decode(&reading.columns(), &data, &mut |bytes| bytes), vec![]);
        } else {
            walker.feed(data.clone(), vec![]);
        }
        let mut builder = BatchBuilder::new(reading.columns(), pool.clone(), 100, 1 << 20);
        let error = walker.walk(&mut builder, &mut Scratch::new()).expect_err("a damaged batch");
        (error, builder.finish().record_batch.num_rows())
    };
    let (ahead, plain) = (walk(true), walk(false));
    assert_eq!((&ahead, ahead.1), (&plain, 5));
}

/// Source of schemas that knows those below 7 at once, and 7 when it is told.
#[derive(Debug, Default)]
struct Source {
    is_known: Mutex<bool>,
    awaited: Arc<Awaited>,
}

impl SchemaSource<AvroSchema> for Source {
    fn ask(&self, key: WriterKey) -> monedula_columns::Lookup<Result<AvroSchema, NoSchema>> {
        if key == WriterKey::Id(7) && !*self.is_known.lock().expect("no test panics") {
            return monedula_columns::Lookup::Pending(Arc::clone(&self.awaited));
        }
        monedula_columns::Lookup::Ready(AvroSchema::parse(r#""long""#).map_err(NoSchema::Unreadable))
    }
}

#[test]
fn a_walk_waits_at_a_value_whose_schema_is_not_known_yet() {
    let source = Arc::new(Source::default());
    let asked = Arc::clone(&source);
    let make = move |pool: &BufferPool| -> Box<dyn TypedColumn> {
        let long = AvroSchema::parse(r#""long""#).expect("a schema");
        let plan = AvroPlan::new(long, vec![], Framing::Confluent, AvroOptions::default()).expect("a plan");
        let asked: Arc<dyn SchemaSource<AvroSchema>> = Arc::<Source>::clone(&asked);
        Box::new(AvroDecoder::new(Arc::new(plan.asking(asked)), pool.clone()))
    };
    let value = Some(TypedSpec { make: Arc::new(make), on_bad: OnBadValue::Fail, flatten: false });
    let columns = BatchColumns { set: ColumnSet::default(), key: None, value, filter: None };
    let mut encoder = BatchEncoder::new();
    for id in [5, 5, 7, 5, 7] {
        encoder.append(NewRecord { value: Some(&[0, 0, 0, 0, id, id * 2]), ..NewRecord::default() });
    }
    let mut data = Vec::new();
    encoder.encode(&mut Compressor::new(), &mut data).expect("encodes");
    let inflated = decode(&columns, &Bytes::from(data), &mut |bytes| bytes);
    let mut walker = PartitionWalker::new("t".into(), 0, 0, WalkOptions::default());
    walker.feed_inflated(inflated, vec![]);
    let mut builder = BatchBuilder::new(columns, BufferPool::new(0), 100, 1 << 20);
    for _ in 0..2 {
        assert_eq!(walker.walk(&mut builder, &mut Scratch::new()), Ok(Walked::Pending(Arc::clone(&source.awaited))));
        assert_eq!((builder.rows(), walker.position()), (2, 2));
    }
    *source.is_known.lock().expect("no test panics") = true;
    assert_eq!(walker.walk(&mut builder, &mut Scratch::new()), Ok(Walked::Drained));
    let batch = builder.finish().record_batch;
    assert_eq!(batch["value"].as_primitive::<Int64Type>().values(), &[5, 5, 7, 5, 7]);
}
