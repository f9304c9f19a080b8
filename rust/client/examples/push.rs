//! The floor that every producer stands on: ready-made batches down one plain socket, several requests in flight.
//!
//! `push <host:port> <topic> <records> <none|lz4|zstd>` prints one JSON line: records, seconds, cpu_seconds. Each request
//! has one batch for every partition, acks=all; the batches are made before the clock starts.

mod raw_socket;

use std::error::Error;
use std::io::Write;
use std::time::Instant;

use monedula_protocol::compression::{Compression, Compressor};
use monedula_protocol::frame;
use monedula_protocol::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use monedula_protocol::records::{BatchEncoder, NewRecord};
use raw_socket::{Broker, cpu_seconds};

const PRODUCE_VERSION: i16 = 9;
/// Java's default for max.in.flight.requests.per.connection.
const IN_FLIGHT: u64 = 5;
/// With about 107 bytes a record this is what a producer under load fills a batch with.
const RECORDS_PER_BATCH: u64 = 1000;
const FIRST_TIMESTAMP_MS: i64 = 1_790_000_000_000;
/// Frames that differ, so that no compressor and no cache sees the same bytes all the time.
const FRAMES: u64 = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, topic, wanted, codec] = arguments.as_slice() else {
        return Err("usage: push <host:port> <topic> <records> <none|lz4|zstd>".into());
    };
    let codec = match codec.as_str() {
        "none" => Compression::None,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        other => return Err(format!("no codec {other}").into()),
    };
    let mut broker = Broker::connect(address, None)?;
    let partitions = broker.partitions(topic)?;
    let frames = (0..FRAMES).map(|seed| request(topic, &partitions, codec, seed)).collect::<Result<Vec<_>, _>>()?;
    let records_per_request = RECORDS_PER_BATCH * partitions.len() as u64;
    let requests = wanted.parse::<u64>()?.div_ceil(records_per_request);
    let (started, cpu_before) = (Instant::now(), cpu_seconds()?);
    for number in 0..requests + IN_FLIGHT {
        if number >= IN_FLIGHT && number - IN_FLIGHT < requests {
            acknowledged(&mut broker, partitions.len())?;
        }
        if number < requests {
            broker.socket.write_all(&frames[(number % FRAMES) as usize])?;
        }
    }
    let (seconds, cpu_seconds) = (started.elapsed().as_secs_f64(), cpu_seconds()? - cpu_before);
    let records = requests * records_per_request;
    println!("{{\"records\": {records}, \"seconds\": {seconds:.6}, \"cpu_seconds\": {cpu_seconds:.6}}}");
    Ok(())
}

/// One request with a batch for each partition, of events like those of the benches' topics.
fn request(topic: &str, partitions: &[i32], codec: Compression, seed: u64) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut batches = Vec::new();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    for _ in partitions {
        let mut encoder = BatchEncoder::new().compression(codec, None);
        for index in 0..RECORDS_PER_BATCH {
            let timestamp_ms = FIRST_TIMESTAMP_MS + (index / 100) as i64;
            let user = draw(100_000_000);
            let key = format!("{user:08}");
            let event = ["view", "cart", "order", "return"][draw(4) as usize];
            let value = format!(
                "{{\"user\":{user},\"event\":\"{event}\",\"cents\":{},\"item\":{},\"from\":\"{}\",\"at\":{timestamp_ms},\"ok\":true}}",
                draw(100_000),
                draw(50_000),
                ["CZ", "DE", "FR", "PL"][draw(4) as usize],
            );
            encoder.append(NewRecord {
                timestamp_ms,
                key: Some(key.as_bytes()),
                value: Some(value.as_bytes()),
                headers: &[],
            });
        }
        let mut batch = Vec::new();
        encoder.encode(&mut Compressor::new(), &mut batch)?;
        batches.push(batch);
    }
    let data = partitions.iter().zip(&batches).map(|(&index, batch)| PartitionProduceData {
        index,
        records: Some(batch),
        ..Default::default()
    });
    let topic_data = vec![TopicProduceData { name: topic, partition_data: data.collect(), ..Default::default() }];
    let request = ProduceRequest { acks: -1, timeout_ms: 30_000, topic_data, ..Default::default() };
    Ok(frame::encode_request(&request, PRODUCE_VERSION, 0, Some("push"))?)
}

/// Reads one answer; every partition must have taken its batch.
fn acknowledged(broker: &mut Broker, partitions: usize) -> Result<(), Box<dyn Error>> {
    broker.receive()?;
    let response = frame::decode_response::<ProduceRequest<'_>>(&broker.frame, PRODUCE_VERSION)?;
    let answers: Vec<_> = response.responses.iter().flat_map(|topic| &topic.partition_responses).collect();
    match answers.iter().find(|answer| answer.error_code != 0) {
        Some(refused) => Err(format!("partition {}: error code {}", refused.index, refused.error_code).into()),
        None if answers.len() != partitions => Err(format!("{} partitions answered", answers.len()).into()),
        None => Ok(()),
    }
}
