//! Tests logs in memory and on disk against a model (a list of records), and what recovery finds after a kill.

use std::fs;
use std::path::{Path, PathBuf};

use monedula_protocol::compression::{Compression, Compressor};
use monedula_protocol::records::{BatchEncoder, Batches, NewRecord};

use super::*;
use crate::draw::Draw;

const ROLLING: Rolling = Rolling { segment_bytes: 400, segment_ms: i64::MAX, now_ms: 0 };

/// A temporary directory, which is removed when the value is dropped.
struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("monedula-log-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn on_disk(directory: &Path) -> Log {
    let mut log = Log::default();
    log.attach(|| directory.to_owned(), &OpenFiles::default()).unwrap();
    log
}

fn reopen(log: Log, directory: &Path) -> Log {
    let state = log.state();
    drop(log);
    Log::open(directory.to_owned(), &state, &OpenFiles::default()).unwrap()
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    offset: i64,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
    timestamp_ms: i64,
}

fn batch_of(entries: &[Entry], encoder: BatchEncoder) -> Batch {
    let mut encoder = encoder;
    for Entry { key, value, timestamp_ms, .. } in entries {
        let (timestamp_ms, key, value) = (*timestamp_ms, Some(&key[..]), value.as_deref());
        encoder.append(NewRecord { timestamp_ms, key, value, headers: &[] });
    }
    let mut bytes = Vec::new();
    encoder.encode(&mut Compressor::new(), &mut bytes).unwrap();
    Batch::first_of(&bytes.into()).unwrap().unwrap()
}

fn append(log: &mut Log, entries: &[Entry], encoder: BatchEncoder) {
    log.append(batch_of(entries, encoder), 0, ROLLING).unwrap();
    log.commit_to_end();
}

/// The records in bytes that were read, from an offset on. A batch that is cut off is left out.
fn entries(bytes: &[u8], from: i64) -> Vec<Entry> {
    let mut all = Vec::new();
    for raw in Batches::new(bytes).map(Result::unwrap) {
        raw.verify_crc().unwrap();
        let batch = Batch { header: raw.header, payload: bytes::Bytes::copy_from_slice(raw.payload()) };
        let payload = lookup::decompressed(&batch).unwrap();
        for record in Records::new(&batch.header, &payload).map(Result::unwrap).filter(|one| one.offset >= from) {
            let (key, value) = (record.key.unwrap().to_vec(), record.value.map(<[u8]>::to_vec));
            all.push(Entry { offset: record.offset, key, value, timestamp_ms: record.timestamp_ms });
        }
    }
    all
}

/// Reads from an offset to the end, chunk by chunk.
fn read_all(log: &Log, from: i64, max_bytes: usize) -> Vec<Entry> {
    let (mut offset, mut all) = (from, Vec::new());
    while offset < log.end_offset() {
        let chunk = log.read(offset, log.end_offset(), max_bytes, true).unwrap();
        let bytes = chunk.concat();
        assert_eq!(bytes.len(), chunk.bytes);
        if bytes.is_empty() {
            break;
        }
        all.extend(entries(&bytes, offset));
        offset = Batches::new(&bytes).map(Result::unwrap).last().unwrap().header.next_offset();
    }
    all
}

#[derive(Debug, Default)]
struct Model {
    entries: Vec<Entry>,
    start_offset: i64,
    end_offset: i64,
}

impl Model {
    fn compact(&mut self) {
        let latest = |one: &Entry| self.entries.iter().rev().find(|other| other.key == one.key).map(|one| one.offset);
        self.entries = self.entries.iter().filter(|one| latest(one) == Some(one.offset)).cloned().collect();
    }

    fn check(&self, log: &Log, draw: &mut Draw) {
        assert_eq!((log.start_offset(), log.end_offset()), (self.start_offset, self.end_offset));
        let span = (self.end_offset - self.start_offset + 1) as u64;
        let from = self.start_offset + (draw.next() % span) as i64;
        let max_bytes = (draw.next() % 600) as usize;
        let expected: Vec<_> = self.entries.iter().filter(|one| one.offset >= from).cloned().collect();
        assert_eq!(read_all(log, from, max_bytes), expected, "from {from}, {max_bytes} bytes at a time");
        let time = (draw.next() % 200) as i64;
        let first = self.entries.iter().find(|one| one.offset >= self.start_offset && one.timestamp_ms >= time);
        let found = log.first_at(time).unwrap().map(|found| (found.offset, found.timestamp_ms));
        assert_eq!(found, first.map(|one| (one.offset, one.timestamp_ms)), "at time {time}");
    }
}

/// Makes one random change to the log and the model. `directory` is that of a log on disk.
fn step(log: Log, model: &mut Model, directory: Option<&Path>, draw: &mut Draw) -> Log {
    let mut log = log;
    let pick = |draw: &mut Draw, count: i64| (draw.next() % count as u64) as i64;
    match pick(draw, 20) {
        0..12 => {
            let entry = |index, draw: &mut Draw| Entry {
                offset: model.end_offset + index,
                key: vec![b'a' + pick(draw, 8) as u8],
                value: (pick(draw, 5) > 0).then(|| vec![b'x'; pick(draw, 60) as usize]),
                timestamp_ms: pick(draw, 200),
            };
            let count = 1 + pick(draw, 4);
            let new: Vec<Entry> = (0..count).map(|index| entry(index, draw)).collect();
            let codec = Compression::ALL[pick(draw, 5) as usize];
            append(&mut log, &new, BatchEncoder::new().compression(codec, None));
            model.end_offset += count;
            model.entries.extend(new);
        }
        12..14 => {
            let span = model.end_offset - model.start_offset + 1;
            let end_offset = model.start_offset + pick(draw, span);
            log.truncate_to(end_offset).unwrap();
            model.entries.retain(|one| one.offset < end_offset);
            model.end_offset = end_offset;
        }
        14..16 => {
            let before = model.start_offset + pick(draw, model.end_offset - model.start_offset + 1);
            log.delete_before(before).unwrap();
            model.start_offset = before;
        }
        16 => {
            let kept = pick(draw, 3000);
            log.retain(Retention { delete: true, ms: -1, bytes: kept }, 0).unwrap();
            // Whole segments are removed, so less than one segment more than the limit is left.
            assert!(log.bytes() < kept as u64 + ROLLING.segment_bytes.max(600), "{} bytes, {kept} kept", log.bytes());
            assert!(log.start_offset() >= model.start_offset);
            model.start_offset = log.start_offset();
        }
        17..19 => {
            let cleaning =
                Cleaning { now_ms: 0, delete_retention_ms: 1000, min_lag_ms: 0, segment_bytes: ROLLING.segment_bytes };
            log.compact(cleaning).unwrap();
            model.compact();
        }
        _ => {
            if let Some(directory) = directory {
                log = reopen(log, directory);
            }
        }
    }
    log
}

#[test]
fn a_log_reads_like_a_list_of_records() {
    for seed in 0..60 {
        let directory = TempDir::new(&format!("model-{seed}"));
        for directory in [None, Some(directory.0.as_path())] {
            let mut draw = Draw::new(seed);
            let mut model = Model::default();
            let mut log = directory.map_or_else(Log::default, on_disk);
            for count in 0..60 {
                log = step(log, &mut model, directory, &mut draw);
                let place = format!("seed {seed}, step {count}, on disk: {}", directory.is_some());
                let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| model.check(&log, &mut draw)));
                assert!(checked.is_ok(), "{place}");
            }
        }
    }
}

fn one(value: &str) -> Vec<Entry> {
    vec![Entry { offset: 0, key: b"k".to_vec(), value: Some(value.as_bytes().to_vec()), timestamp_ms: 1 }]
}

#[test]
fn a_torn_end_is_cut_off_wherever_it_tore() {
    let directory = TempDir::new("torn");
    let mut log = on_disk(&directory.0);
    for (sequence, value) in (0..).zip(["a", "b", "c"]) {
        append(&mut log, &one(value), BatchEncoder::new().producer(7, 0, sequence));
    }
    let file = directory.0.join(file::name_of(0));
    let whole = fs::read(&file).unwrap();
    let batch = whole.len() / 3;
    drop(log);
    for length in 0..whole.len() {
        fs::write(&file, &whole[..length]).unwrap();
        let mut log = Log::open(directory.0.clone(), &LogState::default(), &OpenFiles::default()).unwrap();
        let left = length / batch;
        assert_eq!(log.end_offset(), left as i64, "{length} bytes");
        assert_eq!(fs::metadata(&file).unwrap().len(), (left * batch) as u64);
        assert_eq!(
            log.producers().get(7).map(|producer| producer.last_sequence()),
            (left > 0).then(|| left as i32 - 1)
        );
        // The log can be appended to.
        append(&mut log, &one("d"), BatchEncoder::new());
        assert_eq!(read_all(&log, 0, 1000).last().unwrap().value, Some(b"d".to_vec()));
    }
}

#[test]
fn damage_in_the_middle_is_told_with_its_place() {
    let directory = TempDir::new("damaged");
    let mut log = on_disk(&directory.0);
    ["a", "b", "c"].iter().for_each(|value| append(&mut log, &one(value), BatchEncoder::new()));
    drop(log);
    let file = directory.0.join(file::name_of(0));
    let whole = fs::read(&file).unwrap();
    let batch = whole.len() / 3;
    for position in [0, 8, 20, 60, batch - 1, batch, batch + 30, 2 * batch - 1] {
        let mut damaged = whole.clone();
        damaged[position] ^= 0x55;
        fs::write(&file, &damaged).unwrap();
        let error =
            Log::open(directory.0.clone(), &LogState::default(), &OpenFiles::default()).unwrap_err().to_string();
        let at = position / batch * batch;
        assert!(error.contains(&format!("damaged at byte {at},")) && error.contains("0.log"), "{position}: {error}");
        assert_eq!(fs::read(&file).unwrap(), damaged, "nothing is cut off");
    }
    // The last batch may be one that a crash of the machine left incomplete.
    let mut damaged = whole.clone();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(&file, &damaged).unwrap();
    let log = Log::open(directory.0.clone(), &LogState::default(), &OpenFiles::default()).unwrap();
    assert_eq!(log.end_offset(), 2);
}

#[test]
fn a_torn_end_is_damage_in_a_file_that_is_not_the_last() {
    let directory = TempDir::new("torn-first");
    let mut log = on_disk(&directory.0);
    (0..20).for_each(|_| append(&mut log, &one("a"), BatchEncoder::new()));
    assert!(log.segments.len() > 1);
    drop(log);
    let file = directory.0.join(file::name_of(0));
    let length = fs::metadata(&file).unwrap().len();
    fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(length - 1).unwrap();
    let error = Log::open(directory.0.clone(), &LogState::default(), &OpenFiles::default()).unwrap_err();
    assert!(error.to_string().contains("damaged at byte"), "{error}");
}

#[test]
fn what_batches_tell_is_known_again_after_a_restart() {
    let directory = TempDir::new("restart");
    let mut log = on_disk(&directory.0);
    let data = |sequence| BatchEncoder::new().producer(7, 1, sequence).transactional();
    append(&mut log, &one("a"), data(0));
    append(&mut log, &one("b"), data(1));
    let abort = |id| BatchEncoder::new().producer(id, 1, -1).control_marker(ControlRecordType::Abort, 4, 9);
    append(&mut log, &[], abort(7));
    append(&mut log, &one("c"), BatchEncoder::new().producer(8, 0, 0).transactional());
    log.begin_epoch(3);
    assert_eq!((log.last_stable_offset(), log.high_watermark()), (3, 4));
    let (producers, aborted, epochs) = (log.producers.clone(), log.aborted.clone(), log.epochs.clone());
    assert_eq!(aborted, [Aborted { producer_id: 7, first_offset: 0, last_offset: 2 }]);
    let log = reopen(log, &directory.0);
    assert_eq!((&log.producers, &log.aborted, &log.epochs), (&producers, &aborted, &epochs));
    assert_eq!((log.last_stable_offset(), log.high_watermark()), (3, 4));
    assert_eq!(log.aborted_between(1, 2).count(), 1);
    assert_eq!(log.aborted_between(3, 4).count(), 0);
}

#[test]
fn compaction_drops_aborted_records_and_in_time_their_marker() {
    let mut log = Log::default();
    let data = |id, sequence| BatchEncoder::new().producer(id, 0, sequence).transactional();
    append(&mut log, &one("a"), data(7, 0));
    let end = |id, kind| BatchEncoder::new().producer(id, 0, -1).control_marker(kind, 0, 9);
    append(&mut log, &[], end(7, ControlRecordType::Abort));
    // The producer continues, so the aborted batch is not its last one.
    append(&mut log, &one("b"), data(7, 1));
    append(&mut log, &[], end(7, ControlRecordType::Commit));
    append(&mut log, &one("c"), data(8, 0));
    let clean = |log: &mut Log, now_ms| {
        log.compact(Cleaning { now_ms, delete_retention_ms: 100, min_lag_ms: 0, segment_bytes: 1000 }).unwrap();
        log.batches().map(|batch| batch.unwrap().header.base_offset).collect::<Vec<_>>()
    };
    // The open transaction holds back its own records, not those before it.
    assert_eq!(clean(&mut log, 0), [1, 2, 3, 4]);
    assert_eq!(clean(&mut log, 50), [1, 2, 3, 4]);
    // The second round sees no records of the aborted transaction; the delete horizon of its marker counts from there.
    assert_eq!(clean(&mut log, 149), [1, 2, 3, 4]);
    assert_eq!(clean(&mut log, 150), [2, 3, 4]);
    let read = log.read(0, 5, 10_000, true).unwrap().concat();
    assert!(entries(&read, 0).iter().all(|one| one.value.as_deref() != Some(b"a")));
}
