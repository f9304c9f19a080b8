//! Property tests: the walk of any generated partition gives the rows of a model, however the bytes are cut into
//! pieces, and no bytes make the walker panic or exceed its limits.

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use bolero::{TypeGenerator, produce};
use bytes::Bytes;
use common::{Row, ZSTD, codecs, encode, header, rows, walker, with_append_time};
use monedula_columns::{
    AbortedTransaction, BatchBuilder, BufferPool, ColumnBatch, ColumnSet, PartitionWalker, Scratch, WalkError,
    WalkOptions, Walked, inflate, segments,
};
use monedula_protocol::compression::Compression;
use monedula_protocol::records::{BatchEncoder, ControlRecordType, NewRecord};

/// Most batches of a partition: few under Miri, which is a thousand times slower.
const MOST_BATCHES: usize = if cfg!(miri) { 3 } else { usize::MAX };
/// Number of records in a batch, and of headers in a record. The range is bolero's default, or one that Miri can bear:
/// it needed more than a night to generate 64 batches of 64 records of 64 headers.
const LENGTHS: std::ops::RangeInclusive<usize> = if cfg!(miri) { 0..=4 } else { 0..=64 };

#[derive(Debug, Clone, TypeGenerator)]
struct MadeRecord {
    gap: u8,
    timestamp_ms: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    #[generator(produce::<Vec<(Vec<u8>, Option<Vec<u8>>)>>().with().len(LENGTHS))]
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

#[derive(Debug, Clone, TypeGenerator)]
enum MadeBatch {
    Plain {
        codec: u8,
        append_time_ms: Option<u32>,
        tail_gap: u8,
        #[generator(produce::<Vec<MadeRecord>>().with().len(LENGTHS))]
        records: Vec<MadeRecord>,
    },
    Transactional {
        codec: u8,
        producer: u8,
        #[generator(produce::<Vec<MadeRecord>>().with().len(LENGTHS))]
        records: Vec<MadeRecord>,
    },
    End {
        producer: u8,
        abort: bool,
    },
}

/// A partition's bytes, and the rows that a walk of them must give.
#[derive(Default)]
struct Model {
    data: Vec<u8>,
    next_offset: i64,
    rows: Vec<(Row, Option<usize>)>,
    /// Fate of each transaction by its number: true if aborted.
    aborted: Vec<bool>,
    open: BTreeMap<i64, (usize, i64)>,
    list: Vec<AbortedTransaction>,
}

impl Model {
    fn of(batches: &[MadeBatch]) -> Self {
        let mut model = Self::default();
        for batch in batches.iter().take(MOST_BATCHES) {
            match batch {
                MadeBatch::Plain { codec, append_time_ms, tail_gap, records } => {
                    let encoder = BatchEncoder::new().compression(codec_of(*codec), None);
                    model.append(encoder, records, i32::from(*tail_gap), append_time_ms.map(i64::from), None);
                }
                MadeBatch::Transactional { codec, producer, records } => {
                    let producer = i64::from(producer % 3);
                    let opened = (model.aborted.len(), model.next_offset);
                    let (transaction, _) = *model.open.entry(producer).or_insert_with(|| {
                        model.aborted.push(false);
                        opened
                    });
                    let encoder = BatchEncoder::new().compression(codec_of(*codec), None);
                    let encoder = encoder.producer(producer, 0, 0).transactional();
                    model.append(encoder, records, 0, None, Some(transaction));
                }
                MadeBatch::End { producer, abort } => model.end(i64::from(producer % 3), *abort),
            }
        }
        // The walker must not rely on the list's order; a broker may sort it by marker.
        model.list.reverse();
        model
    }

    fn append(
        &mut self,
        encoder: BatchEncoder,
        records: &[MadeRecord],
        tail_gap: i32,
        append_time_ms: Option<i64>,
        transaction: Option<usize>,
    ) {
        let mut encoder = encoder.base_offset(self.next_offset).partition_leader_epoch(3);
        let mut delta = -1;
        for record in records.iter() {
            delta += 1 + i32::from(record.gap);
            let headers: Vec<_> = record.headers.iter().map(|(key, value)| header(key, value.as_deref())).collect();
            let timestamp_ms = record.timestamp_ms & i64::MAX;
            let (key, value) = (record.key.as_deref(), record.value.as_deref());
            encoder.append_at(delta, NewRecord { timestamp_ms, key, value, headers: &headers });
            let lossy = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
            let headers: Vec<_> = record.headers.iter().map(|(key, value)| (lossy(key), value.clone())).collect();
            let row = Row {
                key: record.key.clone(),
                value: record.value.clone(),
                topic: "orders".to_owned(),
                partition: 3,
                offset: self.next_offset + i64::from(delta),
                timestamp_us: append_time_ms.unwrap_or(timestamp_ms).saturating_mul(1000),
                timestamp_type: append_time_ms.is_some().into(),
                headers: (!headers.is_empty()).then_some(headers),
            };
            self.rows.push((row, transaction));
        }
        let last = delta.max(0) + tail_gap;
        let batch = encode(&encoder.last_offset_delta(last));
        match append_time_ms {
            Some(append_time_ms) => self.data.extend(with_append_time(&batch, append_time_ms)),
            None => self.data.extend(batch),
        }
        self.next_offset += i64::from(last) + 1;
    }

    fn end(&mut self, producer: i64, abort: bool) {
        let Some((transaction, first_offset)) = self.open.remove(&producer) else { return };
        self.aborted[transaction] = abort;
        if abort {
            self.list.push(AbortedTransaction { producer_id: producer, first_offset });
        }
        let marker = if abort { ControlRecordType::Abort } else { ControlRecordType::Commit };
        let encoder = BatchEncoder::new().base_offset(self.next_offset).producer(producer, 0, -1);
        self.data.extend(encode(&encoder.control_marker(marker, 0, 1)));
        self.next_offset += 1;
    }

    fn expected(&self, start: i64, read_committed: bool) -> Vec<Row> {
        let hidden =
            |transaction: Option<usize>| read_committed && transaction.is_some_and(|index| self.aborted[index]);
        let wanted = self.rows.iter().filter(|(row, transaction)| row.offset >= start && !hidden(*transaction));
        wanted.map(|(row, _)| row.clone()).collect()
    }
}

fn codec_of(choice: u8) -> Compression {
    // Skipped under Miri, which takes minutes for an encoder's tables alone; `walking` has each codec once.
    if cfg!(miri) {
        return Compression::None;
    }
    let codecs = codecs();
    codecs[usize::from(choice) % codecs.len()]
}

fn options(read_committed: bool) -> WalkOptions {
    WalkOptions { read_committed, ..WalkOptions::default() }
}

/// No shrinking: it checks the time only between its rounds, and one round of a large partition ran for longer than CI
/// waits, so that a failed test looked like a hang.
const SHRINK_TIME: Duration = Duration::ZERO;

/// Way in which the bytes are fed to the walker.
#[derive(Debug, Clone, Copy, TypeGenerator)]
enum Feeding {
    Whole,
    Segments,
    Inflated,
    InflatedWhole,
}

fn feed(
    walker: &mut PartitionWalker,
    data: &Bytes,
    aborted: &[AbortedTransaction],
    feeding: Feeding,
    options: &WalkOptions,
) {
    let pool = BufferPool::new(1 << 20);
    let mut scratch = Scratch::new();
    let max_segment_bytes = if matches!(feeding, Feeding::InflatedWhole) { usize::MAX } else { 500 };
    match feeding {
        Feeding::Whole => walker.feed(data.clone(), aborted),
        Feeding::Segments => {
            segments(data, max_segment_bytes).into_iter().for_each(|piece| walker.feed(piece, aborted))
        }
        Feeding::Inflated | Feeding::InflatedWhole => {
            for piece in segments(data, max_segment_bytes) {
                // Grants memory for none, some or all of the piece.
                let room = [0, piece.len(), 3 * piece.len(), usize::MAX][piece.len() % 4];
                let inflated = inflate(&piece, options, &pool, &mut scratch, &mut |bytes| bytes.min(room));
                walker.feed_inflated(inflated, aborted);
            }
        }
    }
}

/// Walks to the end or to an error, and checks each batch on the way: its Arrow data and its spans.
fn drain(walker: &mut PartitionWalker, builder: &mut BatchBuilder) -> (Vec<Row>, Result<(), WalkError>) {
    let mut scratch = Scratch::new();
    let mut seen = Vec::new();
    loop {
        let walked = walker.walk(builder, &mut scratch);
        let full = builder.is_full();
        let batch = builder.finish();
        let rows = rows(&batch.record_batch);
        check_spans(&batch, &rows, walker.position());
        assert!(!rows.is_empty() || !full);
        seen.extend(rows);
        match walked {
            Ok(Walked::Full) => {
                assert!(full);
                // Shelve at every second batch, so that it has to be decompressed again.
                if seen.len() % 2 == 0 {
                    walker.shelve();
                }
            }
            Ok(Walked::Drained) => return (seen, Ok(())),
            Ok(Walked::Pending(_)) => unreachable!("binary columns wait for nothing"),
            Err(error) => {
                assert_eq!(error.offset, walker.position());
                return (seen, Err(error));
            }
        }
    }
}

fn check_spans(batch: &ColumnBatch, rows: &[Row], position: i64) {
    assert!(batch.spans.len() <= 1, "one partition has one span");
    assert_eq!(batch.spans.iter().map(|span| span.rows).sum::<usize>(), rows.len());
    for span in &batch.spans {
        assert_eq!(span.first_offset, rows[0].offset);
        assert!(span.next_offset > rows[rows.len() - 1].offset);
        assert_eq!(span.next_offset, position);
    }
}

#[test]
fn any_partition_walks_to_its_rows() {
    type Input = (Vec<MadeBatch>, Feeding, bool, u8, u16, u16);
    bolero::check!().with_shrink_time(SHRINK_TIME).with_type::<Input>().for_each(
        |(batches, feeding, read_committed, max_rows, max_bytes, start)| {
            let model = Model::of(batches);
            let start = i64::from(*start) % (model.next_offset + 1);
            let options = options(*read_committed);
            let mut walker = walker(start, options);
            let pool = BufferPool::new(1 << 20);
            let mut builder =
                BatchBuilder::new(ColumnSet::ALL, pool, usize::from(*max_rows), usize::from(*max_bytes) * 16);
            feed(&mut walker, &Bytes::from(model.data.clone()), &model.list, *feeding, &options);
            let (seen, result) = drain(&mut walker, &mut builder);
            assert_eq!(result, Ok(()));
            assert_eq!(seen, model.expected(start, *read_committed));
            assert_eq!((walker.position(), walker.pending_bytes()), (model.next_offset, 0));
        },
    );
}

#[test]
fn every_cut_by_rows_gives_the_same_rows() {
    bolero::check!().with_shrink_time(SHRINK_TIME).with_type::<(Vec<MadeBatch>, Feeding)>().for_each(
        |(batches, feeding)| {
            // Use at most 6 batches, because every cut walks them all again.
            let model = Model::of(&batches[..batches.len().min(6)]);
            let expected = model.expected(0, true);
            for max_rows in 1..=expected.len().min(30) + 1 {
                let mut walker = walker(0, options(true));
                let mut builder = BatchBuilder::new(ColumnSet::ALL, BufferPool::new(1 << 20), max_rows, 1 << 30);
                feed(&mut walker, &Bytes::from(model.data.clone()), &model.list, *feeding, &options(true));
                assert_eq!(drain(&mut walker, &mut builder), (expected.clone(), Ok(())));
            }
        },
    );
}

#[test]
fn responses_that_overlap_give_each_row_once() {
    bolero::check!().with_shrink_time(SHRINK_TIME).with_type::<(Vec<MadeBatch>, u16, u16)>().for_each(
        |(batches, cut, again)| {
            let model = Model::of(batches);
            let data = Bytes::from(model.data.clone());
            let mut bounds = vec![0];
            bounds.extend(segments(&data, 1).iter().scan(0, |end, piece| {
                *end += piece.len();
                Some(*end)
            }));
            let cut = usize::from(*cut) % bounds.len();
            let again = usize::from(*again) % (cut + 1);
            let mut walker = walker(0, options(true));
            let mut builder = BatchBuilder::new(ColumnSet::ALL, BufferPool::new(1 << 20), 1 << 20, 1 << 30);
            walker.feed(data.slice(..bounds[cut]), &*model.list);
            walker.feed(data.slice(bounds[again]..), &*model.list);
            let (seen, result) = drain(&mut walker, &mut builder);
            assert_eq!((seen, result), (model.expected(0, true), Ok(())));
        },
    );
}

/// Walks arbitrary bytes and checks the bounds on rows and memory. Every row takes at least seven bytes of an
/// uncompressed payload, which may be far larger than the compressed one.
fn walk_hostile(data: &Bytes, feeding: Feeding, max_rows: usize) {
    let options = WalkOptions { check_crcs: false, read_committed: true, max_decompressed_bytes: 1 << 16 };
    let aborted = [AbortedTransaction { producer_id: 0, first_offset: 0 }];
    let gauge = {
        let pool = BufferPool::new(1 << 20);
        let gauge = pool.gauge();
        let mut walker = walker(0, options);
        let mut builder = BatchBuilder::new(ColumnSet::ALL, pool, max_rows, 1 << 20);
        feed(&mut walker, data, &aborted, feeding, &options);
        let (seen, _) = drain(&mut walker, &mut builder);
        let batches = data.len() / 61;
        assert!(seen.len() <= data.len() / 7 + batches * (1 << 16) / 7);
        assert!(gauge.outstanding_bytes() <= 8 << 20);
        gauge
    };
    assert_eq!((gauge.outstanding_bytes(), gauge.idle_bytes()), (0, 0));
}

#[test]
fn arbitrary_bytes_are_walked_to_an_end() {
    bolero::check!().with_shrink_time(SHRINK_TIME).with_type::<(Vec<u8>, Feeding)>().for_each(|(bytes, feeding)| {
        walk_hostile(&Bytes::copy_from_slice(bytes), *feeding, 5);
    });
}

#[test]
fn arbitrary_payloads_are_walked_to_an_end() {
    let header = encode(&BatchEncoder::new().last_offset_delta(1000));
    bolero::check!().with_shrink_time(SHRINK_TIME).with_type::<(Vec<u8>, u8, u16, Feeding)>().for_each(
        |(payload, attributes, count, feeding)| {
            let mut data = header[..61].to_vec();
            data.extend_from_slice(payload);
            let length = (data.len() - 12) as i32;
            data[8..12].copy_from_slice(&length.to_be_bytes());
            // Miri cannot call the C of zstd, which an arbitrary codec may be.
            data[22] = if cfg!(miri) { *attributes & !7 } else { *attributes };
            data[59..61].copy_from_slice(&(count % 1000).to_be_bytes());
            walk_hostile(&Bytes::from(data), *feeding, 50);
        },
    );
}

#[test]
fn damaged_partitions_are_walked_to_an_end() {
    type Input = (Vec<MadeBatch>, Vec<(u16, u8)>, Feeding);
    bolero::check!().with_shrink_time(SHRINK_TIME).with_type::<Input>().for_each(|(batches, flips, feeding)| {
        let mut data = Model::of(batches).data;
        for (position, flip) in flips {
            if let Some(byte) = (usize::from(*position)).checked_rem(data.len()).and_then(|at| data.get_mut(at)) {
                *byte ^= flip;
            }
        }
        walk_hostile(&Bytes::from(data), *feeding, 7);
    });
}

#[test]
fn a_hostile_count_in_a_small_compressed_batch_allocates_nothing_for_it() {
    let mut encoder = BatchEncoder::new().compression(ZSTD, None).last_offset_delta(i32::MAX - 1);
    encoder.append(NewRecord::default());
    let mut data = encode(&encoder);
    data[57..61].copy_from_slice(&i32::MAX.to_be_bytes());
    let options = WalkOptions { check_crcs: false, ..WalkOptions::default() };
    let pool = BufferPool::new(0);
    let mut builder = BatchBuilder::new(ColumnSet::ALL, pool.clone(), usize::MAX, usize::MAX);
    let mut walker = walker(0, options);
    walker.feed(Bytes::from(data), vec![]);
    let error = walker.walk(&mut builder, &mut Scratch::new()).expect_err("a lie");
    assert!(error.to_string().contains("counts more records than it has"), "{error}");
    assert!(pool.outstanding_bytes() < 1 << 16);
}
