//! The producer without Python: records sent one by one, each with its future.
//!
//! `produce <host:port> <topic> <records> <codec> [name=value ...]` prints one JSON line: records, seconds, cpu_seconds, and
//! how long the calls of `send` took.

#[allow(dead_code, reason = "of what the floors share, the CPU time is enough")]
mod raw_socket;

use std::error::Error;
use std::time::{Duration, Instant};

use monedula_client::producer::{Producer, ProducerConfig, Record, Refused};
use raw_socket::cpu_seconds;

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Records that differ; they are sent in turns.
const RECORDS: usize = 1 << 16;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, topic, wanted, codec, settings @ ..] = arguments.as_slice() else {
        return Err("usage: produce <host:port> <topic> <records> <codec> [name=value ...]".into());
    };
    let mut all = vec![("bootstrap.servers", address.as_str()), ("compression.type", codec.as_str())];
    all.extend(settings.iter().filter_map(|setting| setting.split_once('=')));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let producer = Producer::new(ProducerConfig::parse(all)?, runtime.handle(), 7);
    let rows: Vec<(String, String)> = (0..RECORDS).map(row).collect();
    runtime.block_on(producer.partitions_for(topic.clone(), PATIENCE))?;
    send(&producer, topic, &rows[0])?.wait(Instant::now() + PATIENCE).ok_or("no answer")??;

    let (wanted, mut last, mut waited) = (wanted.parse::<usize>()?, None, Duration::ZERO);
    let (started, cpu_before) = (Instant::now(), cpu_seconds()?);
    for number in 0..wanted {
        let record = &rows[number % RECORDS];
        last = Some(match try_send(&producer, topic, record) {
            Ok(sent) => sent,
            Err(_) => {
                let waiting = Instant::now();
                let sent = send(&producer, topic, record)?;
                waited += waiting.elapsed();
                sent
            }
        });
    }
    let sending = started.elapsed() - waited;
    runtime.block_on(producer.flush())?;
    let (seconds, cpu_seconds) = (started.elapsed().as_secs_f64(), cpu_seconds()? - cpu_before);
    last.ok_or("nothing was sent")?.wait(Instant::now() + PATIENCE).ok_or("no answer")??;
    let send_ns = sending.as_nanos() / wanted as u128;
    println!(
        "{{\"records\": {wanted}, \"seconds\": {seconds:.6}, \"cpu_seconds\": {cpu_seconds:.6}, \"send_ns\": {send_ns}}}"
    );
    producer.close(PATIENCE);
    Ok(())
}

fn try_send(
    producer: &Producer,
    topic: &str,
    (key, value): &(String, String),
) -> Result<monedula_client::producer::RecordFuture, Refused> {
    let (key, value) = (Some(key.as_bytes()), Some(value.as_bytes()));
    producer.send(&Record { topic, key, value, ..Record::default() })
}

fn send(
    producer: &Producer,
    topic: &str,
    record: &(String, String),
) -> Result<monedula_client::producer::RecordFuture, Box<dyn Error>> {
    loop {
        match try_send(producer, topic, record) {
            Ok(sent) => return Ok(sent),
            Err(Refused::Error(error)) => return Err(error.into()),
            Err(Refused::Full { needed }) => {
                if !producer.wait_for_room(needed, Instant::now() + PATIENCE, None)? {
                    return Err("no room".into());
                }
            }
        }
    }
}

/// An event of about 107 bytes, as in the benches' topics.
fn row(number: usize) -> (String, String) {
    let mut state = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let (user, event) = (draw(100_000_000), ["view", "cart", "order", "return"][draw(4) as usize]);
    let value = format!(
        "{{\"user\":{user},\"event\":\"{event}\",\"cents\":{},\"item\":{},\"from\":\"{}\",\"at\":1790000000000,\"ok\":true}}",
        draw(100_000),
        draw(50_000),
        ["CZ", "DE", "FR", "PL"][draw(4) as usize],
    );
    (format!("{user:08}"), value)
}
