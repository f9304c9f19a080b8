//! Speed at which the broker takes and gives records: one raw connection each way, frames made beforehand.
//!
//! `cargo run --release -p monedula-broker --example data_path_throughput [none|gzip|snappy|lz4|zstd] [data directory]`
#![allow(clippy::unwrap_used, reason = "a tool for developers")]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use monedula_broker::server::{Broker, Clock};
use monedula_broker::settings::Settings;
use monedula_protocol::compression::{Compression, Compressor};
use monedula_protocol::frame::{decode_response, encode_request};
use monedula_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use monedula_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use monedula_protocol::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use monedula_protocol::records::{BatchEncoder, Batches, NewRecord};

const TOPIC: &str = "throughput";
const RECORDS: usize = 3_000_000;
const RECORDS_PER_BATCH: usize = 150;
/// Batches of one request, one for each partition.
const PARTITIONS: i32 = 4;
const IN_FLIGHT: usize = 5;

fn main() {
    let codec = std::env::args().nth(1).unwrap_or_else(|| "none".to_owned());
    let codec = Compression::ALL.into_iter().find(|one| one.name() == codec).unwrap();
    let mut settings = Settings { data_dir: std::env::args().nth(2).map(Into::into), ..Settings::default() };
    settings.kafka.num_partitions = PARTITIONS;
    let broker = Broker::start(settings, Clock::system()).unwrap();
    let mut stream = TcpStream::connect(broker.addresses()[0].1).unwrap();
    stream.set_nodelay(true).unwrap();
    create(&mut stream);
    let before = cpu_seconds();
    report("produce", before, produce(&mut stream, codec));
    let before = cpu_seconds();
    report("fetch", before, fetch(&mut stream));
}

fn report(what: &str, cpu_before: f64, seconds: f64) {
    let cpu = cpu_seconds() - cpu_before;
    let million = |seconds: f64| RECORDS as f64 / seconds / 1e6;
    println!("{what}: {:.2} M records/s; {:.2} M a second of the broker's thread", million(seconds), million(cpu));
}

/// The processor time that the broker's thread has used.
fn cpu_seconds() -> f64 {
    let tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let mut total = 0.0;
    for task in tasks {
        let stat = fs::read_to_string(task.join("stat")).unwrap_or_default();
        let Some((name, rest)) = stat.rsplit_once(')') else { continue };
        if name.ends_with("(monedula-broker") {
            let fields: Vec<&str> = rest.split_whitespace().collect();
            total += (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0;
        }
    }
    total
}

fn receive(stream: &mut TcpStream, buffer: &mut Vec<u8>) {
    let mut prefix = [0; 4];
    stream.read_exact(&mut prefix).unwrap();
    buffer.resize(u32::from_be_bytes(prefix) as usize, 0);
    stream.read_exact(buffer).unwrap();
}

fn create(stream: &mut TcpStream) {
    let topics = Some(vec![MetadataRequestTopic { name: Some(TOPIC), ..Default::default() }]);
    let request = MetadataRequest { topics, allow_auto_topic_creation: true, ..Default::default() };
    stream.write_all(&encode_request(&request, 12, 1, None).unwrap()).unwrap();
    receive(stream, &mut Vec::new());
}

fn batch(codec: Compression) -> Vec<u8> {
    let mut encoder = BatchEncoder::new().compression(codec, None);
    for index in 0..RECORDS_PER_BATCH {
        let value = format!(
            "{{\"id\": {index:08}, \"name\": \"jackdaw {}\", \"amount\": {:.3}, \"flag\": true, \"text\": \"black and grey\"}}",
            index * 7919,
            index as f64 / 3.0
        );
        encoder.append(NewRecord { timestamp_ms: now_ms(), key: None, value: Some(value.as_bytes()), headers: &[] });
    }
    let mut bytes = Vec::new();
    encoder.encode(&mut Compressor::new(), &mut bytes).unwrap();
    bytes
}

fn now_ms() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64
}

fn produce(stream: &mut TcpStream, codec: Compression) -> f64 {
    let batch = batch(codec);
    let partition = |index| PartitionProduceData { index, records: Some(&batch), ..Default::default() };
    let partition_data = (0..PARTITIONS).map(partition).collect();
    let topic_data = vec![TopicProduceData { name: TOPIC, partition_data, ..Default::default() }];
    let request = ProduceRequest { acks: -1, timeout_ms: 1000, topic_data, ..Default::default() };
    let frame = encode_request(&request, 9, 2, None).unwrap();
    let requests = RECORDS / RECORDS_PER_BATCH / PARTITIONS as usize;
    let started = Instant::now();
    let mut buffer = Vec::new();
    for index in 0..requests + IN_FLIGHT {
        if index < requests {
            stream.write_all(&frame).unwrap();
        }
        if index >= IN_FLIGHT {
            receive(stream, &mut buffer);
        }
    }
    started.elapsed().as_secs_f64()
}

fn fetch(stream: &mut TcpStream) -> f64 {
    let mut offsets = vec![0; PARTITIONS as usize];
    let started = Instant::now();
    let (mut count, mut buffer) = (0, Vec::new());
    while count < RECORDS / RECORDS_PER_BATCH * RECORDS_PER_BATCH {
        let partition = |(index, &fetch_offset)| FetchPartition {
            partition: index as i32,
            fetch_offset,
            partition_max_bytes: 4 << 20,
            ..Default::default()
        };
        let partitions = offsets.iter().enumerate().map(partition).collect();
        let topics = vec![FetchTopic { topic: TOPIC, partitions, ..Default::default() }];
        let request =
            FetchRequest { max_bytes: 16 << 20, max_wait_ms: 500, min_bytes: 1, topics, ..Default::default() };
        stream.write_all(&encode_request(&request, 12, 3, None).unwrap()).unwrap();
        receive(stream, &mut buffer);
        let answer = decode_response::<FetchRequest<'_>>(&buffer, 12).unwrap();
        for data in answer.responses.iter().flat_map(|topic| &topic.partitions) {
            for batch in Batches::new(data.records.unwrap_or_default()).map(Result::unwrap) {
                count += batch.header.record_count as usize;
                offsets[data.partition_index as usize] = batch.header.next_offset();
            }
        }
    }
    started.elapsed().as_secs_f64()
}
