//! The floor that every client stands on: fetch over one plain socket, step over the batches, drop the bytes.
//!
//! `drain <host:port> <topic> <records>` prints one JSON line: records, seconds, cpu_seconds.

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use monedula_protocol::frame;
use monedula_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use monedula_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use monedula_protocol::records::Batches;

const METADATA_VERSION: i16 = 9;
const FETCH_VERSION: i16 = 11;
const FETCH_BYTES: i32 = 8 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, topic, wanted] = arguments.as_slice() else {
        return Err("usage: drain <host:port> <topic> <records>".into());
    };
    let wanted: u64 = wanted.parse()?;
    let mut broker = Broker { socket: TcpStream::connect(address)?, frame: Vec::new() };
    let mut positions = broker.partitions(topic)?;
    let (started, cpu_before) = (Instant::now(), cpu_seconds()?);
    let mut records = 0;
    while records < wanted {
        records += broker.fetch(topic, &mut positions)?;
    }
    let (seconds, cpu_seconds) = (started.elapsed().as_secs_f64(), cpu_seconds()? - cpu_before);
    println!("{{\"records\": {records}, \"seconds\": {seconds:.6}, \"cpu_seconds\": {cpu_seconds:.6}}}");
    Ok(())
}

struct Broker {
    socket: TcpStream,
    frame: Vec<u8>,
}

impl Broker {
    fn partitions(&mut self, topic: &str) -> Result<Vec<(i32, i64)>, Box<dyn Error>> {
        let topics = vec![MetadataRequestTopic { name: Some(topic), ..Default::default() }];
        let request = MetadataRequest { topics: Some(topics), ..Default::default() };
        self.socket.write_all(&frame::encode_request(&request, METADATA_VERSION, 0, None)?)?;
        self.receive()?;
        let response = frame::decode_response::<MetadataRequest<'_>>(&self.frame, METADATA_VERSION)?;
        let topic = response.topics.first().ok_or("no such topic")?;
        Ok(topic.partitions.iter().map(|partition| (partition.partition_index, 0)).collect())
    }

    fn fetch(&mut self, topic: &str, positions: &mut [(i32, i64)]) -> Result<u64, Box<dyn Error>> {
        let partitions = positions.iter().map(|&(partition, fetch_offset)| FetchPartition {
            partition,
            fetch_offset,
            partition_max_bytes: FETCH_BYTES / 2,
            ..Default::default()
        });
        let topics = vec![FetchTopic { topic, partitions: partitions.collect(), ..Default::default() }];
        let request =
            FetchRequest { max_wait_ms: 500, min_bytes: 1, max_bytes: FETCH_BYTES, topics, ..Default::default() };
        self.socket.write_all(&frame::encode_request(&request, FETCH_VERSION, 0, None)?)?;
        self.receive()?;
        let response = frame::decode_response::<FetchRequest<'_>>(&self.frame, FETCH_VERSION)?;
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

    fn receive(&mut self) -> Result<(), Box<dyn Error>> {
        let mut prefix = [0; 4];
        self.socket.read_exact(&mut prefix)?;
        self.frame.resize(frame::frame_length(prefix, 1 << 30)?, 0);
        Ok(self.socket.read_exact(&mut self.frame)?)
    }
}

/// User and system time of this process so far, from `/proc`, in clock ticks of 1/100 s.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks =
        |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).ok_or("no /proc/self/stat");
    Ok((ticks(11)? + ticks(12)?) / 100.0)
}
