//! The floor that every client stands on: fetch over one socket, step over the batches, drop the bytes.
//!
//! `drain <host:port> <topic> <records> [authorities.pem]` prints one JSON line: records, seconds, cpu_seconds. With a
//! file of authorities the socket is encrypted by rustls.

mod raw_socket;

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use monedula_protocol::frame;
use monedula_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use monedula_protocol::records::Batches;
use raw_socket::{Broker, cpu_seconds};

const FETCH_VERSION: i16 = 11;
const FETCH_BYTES: i32 = 8 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, topic, wanted, authorities @ ..] = arguments.as_slice() else {
        return Err("usage: drain <host:port> <topic> <records> [authorities.pem]".into());
    };
    let wanted: u64 = wanted.parse()?;
    let mut broker = Broker::connect(address, authorities.first().map(Path::new))?;
    let mut positions: Vec<_> = broker.partitions(topic)?.into_iter().map(|partition| (partition, 0)).collect();
    let (started, cpu_before) = (Instant::now(), cpu_seconds()?);
    let mut records = 0;
    while records < wanted {
        records += fetch(&mut broker, topic, &mut positions)?;
    }
    let (seconds, cpu_seconds) = (started.elapsed().as_secs_f64(), cpu_seconds()? - cpu_before);
    println!("{{\"records\": {records}, \"seconds\": {seconds:.6}, \"cpu_seconds\": {cpu_seconds:.6}}}");
    Ok(())
}

fn fetch(broker: &mut Broker, topic: &str, positions: &mut [(i32, i64)]) -> Result<u64, Box<dyn Error>> {
    let partitions = positions.iter().map(|&(partition, fetch_offset)| FetchPartition {
        partition,
        fetch_offset,
        partition_max_bytes: FETCH_BYTES / 2,
        ..Default::default()
    });
    let topics = vec![FetchTopic { topic, partitions: partitions.collect(), ..Default::default() }];
    let request = FetchRequest { max_wait_ms: 500, min_bytes: 1, max_bytes: FETCH_BYTES, topics, ..Default::default() };
    broker.send(&request, FETCH_VERSION)?;
    broker.receive()?;
    let response = frame::decode_response::<FetchRequest<'_>>(&broker.frame, FETCH_VERSION)?;
    let mut records = 0;
    for data in response.responses.iter().flat_map(|topic| &topic.partitions) {
        for batch in Batches::new(data.records.unwrap_or_default()) {
            let header = batch?.header;
            records += header.record_count as u64;
            if let Some(position) = positions.iter_mut().find(|(index, _)| *index == data.partition_index) {
                position.1 = header.last_offset() + 1;
            }
        }
    }
    // The first partition with data takes most of an answer: turns keep them even.
    positions.rotate_left(1);
    Ok(records)
}
