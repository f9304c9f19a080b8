//! Client quotas on Produce and Fetch (KIP-13, KIP-219).

use monedula_protocol::frame::decode_response;
use monedula_protocol::messages::alter_client_quotas::{
    AlterClientQuotasEntity, AlterClientQuotasEntry, AlterClientQuotasOp, AlterClientQuotasRequest,
};
use monedula_protocol::messages::fetch::{FetchRequest, FetchResponse};
use monedula_protocol::messages::produce::{ProduceRequest, ProduceResponse};

use crate::helpers::*;
use crate::support::{Outcome, World};

/// Bytes a second.
const QUOTA: f64 = 1000.0;

/// A cluster whose clients of the id `test` have a quota.
fn world(key: &'static str) -> World {
    let mut world = world_with(1, &[]);
    set(&mut world, key, QUOTA, false);
    world
}

fn set(world: &mut World, key: &'static str, value: f64, remove: bool) {
    let entity =
        vec![AlterClientQuotasEntity { entity_type: "client-id", entity_name: Some("test"), ..Default::default() }];
    let ops = vec![AlterClientQuotasOp { key, value, remove, ..Default::default() }];
    let entries = vec![AlterClientQuotasEntry { entity, ops, ..Default::default() }];
    let altered = world.call(1, &AlterClientQuotasRequest { entries, ..Default::default() }, 1);
    assert_eq!(altered.entries[0].error_code, 0);
}

/// Produces `bytes` bytes on a new connection. Returns what the client is told and for how long it is not read.
fn produce_bytes(world: &mut World, bytes: usize, acks: i16, client_id: &str) -> (i32, u64) {
    let records = batch(&[&"x".repeat(bytes)]);
    let connection = world.connect(1);
    let request = ProduceRequest { acks, ..produce_request(TOPIC, 0, &records) };
    world.send_as(connection, &request, PRODUCE, Some(client_id));
    match world.outcome(connection).unwrap() {
        Outcome::Frame(frame) => (decode_response::<ProduceRequest<'_>>(&frame, PRODUCE).unwrap().throttle_time_ms, 0),
        Outcome::Nothing => (0, 0),
        Outcome::Wire(frame, wire) if frame.is_empty() => (0, wire.pause_ms),
        Outcome::Wire(frame, wire) => {
            let response: ProduceResponse<'_> = decode_response::<ProduceRequest<'_>>(&frame, PRODUCE).unwrap();
            assert_eq!(
                response.responses[0].partition_responses[0].error_code, 0,
                "the records are taken all the same"
            );
            (response.throttle_time_ms, wire.pause_ms)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_producer_beyond_its_quota_is_told_to_wait_and_not_read() {
    let mut world = world("producer_byte_rate");
    assert_eq!(produce_bytes(&mut world, 5000, -1, "test"), (0, 0), "ten seconds' worth are free");
    let (told_ms, pause_ms) = produce_bytes(&mut world, 10_000, -1, "test");
    // 15,000 bytes and a little for requests and batches, which are 5 seconds too many.
    assert!((5000..5500).contains(&told_ms), "{told_ms}");
    assert_eq!(pause_ms, told_ms as u64);
    assert_eq!(produce_bytes(&mut world, 50_000, -1, "other"), (0, 0), "a client without a quota");
}

#[test]
fn a_producer_that_wants_no_answer_is_not_read() {
    let mut world = world("producer_byte_rate");
    let (told_ms, pause_ms) = produce_bytes(&mut world, 15_000, 0, "test");
    assert_eq!(told_ms, 0);
    assert!((5000..5500).contains(&pause_ms), "{pause_ms}");
}

#[test]
fn a_quota_that_is_removed_throttles_nobody() {
    let mut world = world("producer_byte_rate");
    assert_ne!(produce_bytes(&mut world, 15_000, -1, "test").0, 0);
    set(&mut world, "producer_byte_rate", 0.0, true);
    assert_eq!(produce_bytes(&mut world, 15_000, -1, "test"), (0, 0));
}

/// Fetches. Returns the number of record bytes, and the throttle time.
fn fetched(world: &mut World, offset: i64) -> (usize, i32) {
    let connection = world.connect(1);
    world.send_on(connection, &fetch_request(TOPIC, vec![fetch_partition(0, offset)]), FETCH);
    let read = |frame: &[u8]| {
        let response: FetchResponse<'_> = decode_response::<FetchRequest<'_>>(frame, FETCH).unwrap();
        let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
        (partitions.filter_map(|one| one.records).map(<[u8]>::len).sum(), response.throttle_time_ms)
    };
    match world.outcome(connection).unwrap() {
        Outcome::Frame(frame) => read(&frame),
        Outcome::Wire(frame, wire) => {
            assert_eq!(read(&frame).1 as u64, wire.pause_ms);
            read(&frame)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_consumer_beyond_its_quota_gets_nothing_and_later_all() {
    let mut world = world("consumer_byte_rate");
    for _ in 0..4 {
        produce_bytes(&mut world, 4000, -1, "other");
    }
    let (bytes, throttle_ms) = fetched(&mut world, 0);
    assert!(bytes > 8000 && bytes <= 10_000 && throttle_ms == 0, "no more than ten seconds' worth: {bytes}");
    let (bytes, throttle_ms) = fetched(&mut world, 2);
    assert!(bytes == 0 && throttle_ms > 0, "{bytes} bytes, {throttle_ms} ms");
    // Bytes that were not sent do not count, so the wait does not grow.
    assert_eq!(fetched(&mut world, 2), (0, throttle_ms));
    world.advance(11_000);
    let (bytes, throttle_ms) = fetched(&mut world, 2);
    assert!(bytes > 8000 && throttle_ms == 0, "{bytes} bytes, {throttle_ms} ms");
}
