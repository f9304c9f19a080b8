//! Kills the broker's program with SIGKILL while producers write: acknowledged records must survive the restart.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use monedula_protocol::compression::{Compression, Compressor, Decompressor, MAX_OUTPUT_BYTES};
use monedula_protocol::frame::{decode_response, encode_request};
use monedula_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use monedula_protocol::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use monedula_protocol::records::{BatchEncoder, Batches, NewRecord};

const TOPIC: &str = "orders";
const PARTITIONS: i32 = 3;
/// The number of acknowledged requests before the kill.
const ACKNOWLEDGED: usize = 40;

struct Running {
    process: Child,
    address: String,
}

impl Running {
    fn start(data_dir: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_monedula-broker"))
            .args(["--port", "0", "--topic", &format!("{TOPIC}:{PARTITIONS}")])
            // Small segments, so that kills also happen while a segment is closed.
            .args(["--setting", "log.segment.bytes=4000", "--data-dir"])
            .arg(data_dir)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("bootstrap.servers=").unwrap_or_else(|| panic!("{line:?}"));
        Self { address: address.to_owned(), process }
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn exchange(stream: &mut TcpStream, frame: &[u8]) -> std::io::Result<Vec<u8>> {
    stream.write_all(frame)?;
    let mut prefix = [0; 4];
    stream.read_exact(&mut prefix)?;
    let mut answer = vec![0; u32::from_be_bytes(prefix) as usize];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

/// Writes until the broker is killed. Returns the acknowledged values with their offsets.
fn write_until_killed(address: &str, partition: i32, round: usize, acknowledged: &AtomicUsize) -> Vec<(i64, String)> {
    let mut stored = Vec::new();
    // The other writer may have written enough for the kill before this one connects.
    let Ok(mut stream) = TcpStream::connect(address) else { return stored };
    for count in 0.. {
        let values: Vec<String> = (0..1 + count % 7).map(|index| format!("{round}/{count}/{index}")).collect();
        let codec = Compression::ALL[count % 5];
        let mut encoder = BatchEncoder::new().compression(codec, None);
        let timestamp_ms = 1_700_000_000_000;
        values.iter().for_each(|value| {
            encoder.append(NewRecord { timestamp_ms, value: Some(value.as_bytes()), ..NewRecord::default() });
        });
        let mut records = Vec::new();
        encoder.encode(&mut Compressor::new(), &mut records).unwrap();
        let partition_data =
            vec![PartitionProduceData { index: partition, records: Some(&records), ..Default::default() }];
        let topic_data = vec![TopicProduceData { name: TOPIC, partition_data, ..Default::default() }];
        let request = ProduceRequest { acks: -1, timeout_ms: 1000, topic_data, ..Default::default() };
        let Ok(answer) = exchange(&mut stream, &encode_request(&request, 9, 1, None).unwrap()) else { break };
        let answer = decode_response::<ProduceRequest<'_>>(&answer, 9).unwrap();
        let answer = &answer.responses[0].partition_responses[0];
        assert_eq!(answer.error_code, 0);
        stored.extend((answer.base_offset..).zip(values));
        acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    stored
}

fn read_all(address: &str, partition: i32) -> BTreeMap<i64, String> {
    let mut stream = TcpStream::connect(address).unwrap();
    let (mut offset, mut all) = (0, BTreeMap::new());
    loop {
        let wanted =
            FetchPartition { partition, fetch_offset: offset, partition_max_bytes: 1 << 20, ..Default::default() };
        let topics = vec![FetchTopic { topic: TOPIC, partitions: vec![wanted], ..Default::default() }];
        let request = FetchRequest { max_bytes: 1 << 20, topics, ..Default::default() };
        let answer = exchange(&mut stream, &encode_request(&request, 12, 1, None).unwrap()).unwrap();
        let answer = decode_response::<FetchRequest<'_>>(&answer, 12).unwrap();
        let data = &answer.responses[0].partitions[0];
        assert_eq!(data.error_code, 0);
        if offset == data.high_watermark {
            return all;
        }
        for batch in Batches::new(data.records.unwrap()).map(Result::unwrap) {
            batch.verify_crc().unwrap();
            let codec = batch.header.compression();
            let payload = Decompressor::new().decompress_to_vec(codec, batch.payload(), MAX_OUTPUT_BYTES).unwrap();
            for record in batch.records(&payload).map(Result::unwrap) {
                all.insert(record.offset, String::from_utf8(record.value.unwrap().to_vec()).unwrap());
            }
            offset = batch.header.next_offset();
        }
    }
}

fn kill_and_look(rounds: usize) {
    let directory = TempDir(std::env::temp_dir().join(format!("monedula-kills-{}-{rounds}", std::process::id())));
    let mut stored: Vec<BTreeMap<i64, String>> = vec![BTreeMap::new(); PARTITIONS as usize];
    for round in 0..rounds {
        let broker = Running::start(&directory.0);
        let address = broker.address.clone();
        let acknowledged = AtomicUsize::new(0);
        thread::scope(|scope| {
            let writers: Vec<_> = (0..PARTITIONS)
                .map(|partition| {
                    scope.spawn({
                        let (address, acknowledged) = (&address, &acknowledged);
                        move || write_until_killed(address, partition, round, acknowledged)
                    })
                })
                .collect();
            // Each round kills after another number of requests.
            while acknowledged.load(Ordering::Relaxed) < ACKNOWLEDGED + round * 7 % 100 {
                assert!(!writers.iter().all(|writer| writer.is_finished()), "round {round}: nobody writes any more");
                thread::yield_now();
            }
            broker.kill();
            for (stored, writer) in stored.iter_mut().zip(writers) {
                stored.extend(writer.join().unwrap());
            }
        });
        let broker = Running::start(&directory.0);
        for (partition, stored) in (0..).zip(&stored) {
            let there = read_all(&broker.address, partition);
            for (offset, value) in stored {
                assert_eq!(there.get(offset), Some(value), "round {round}, {TOPIC}-{partition} at {offset}");
            }
        }
        broker.kill();
    }
}

/// A directory that is removed on drop.
struct TempDir(PathBuf);

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_was_acknowledged_outlives_a_kill() {
    kill_and_look(3);
}

#[test]
#[ignore = "takes a while: cargo test --release -p monedula-broker --test kills -- --ignored"]
fn what_was_acknowledged_outlives_fifty_kills() {
    kill_and_look(50);
}
