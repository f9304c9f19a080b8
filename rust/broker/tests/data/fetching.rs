//! Fetch: limits, waiting, leader epochs, followers.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::fetch::{FetchPartition, FetchRequest, PartitionData};
use monedula_protocol::messages::produce::ProduceRequest;

use crate::helpers::*;
use crate::support::World;

fn error(data: &PartitionData<'_>) -> ErrorCode {
    ErrorCode::from_code(data.error_code)
}

// req: S174
#[test]
fn a_fetch_without_a_session_is_answered_in_full_in_every_version() {
    let mut world = world();
    produce_values(&mut world, &["a", "b"]);
    for version in 4..=12 {
        // No session, no leader epoch.
        let request = fetch_request(TOPIC, vec![fetch_partition(0, 0)]);
        assert_eq!((request.session_id, request.session_epoch), (0, -1));
        assert_eq!(request.topics[0].partitions[0].current_leader_epoch, -1);
        let answer = world.call(1, &request, version);
        assert_eq!(answer.session_id, 0);
        let data = only(answer);
        assert_eq!(records(&data), [(0, "a".to_owned()), (1, "b".to_owned())], "{version}");
        assert_eq!((data.high_watermark, data.last_stable_offset), (2, 2));
        assert_eq!(data.log_start_offset, if version >= 5 { 0 } else { -1 });
        // The same request again: without a session the broker keeps no state.
        assert_eq!(only(world.call(1, &request, version)), data);
    }
}

#[test]
fn offsets_outside_the_log_are_told() {
    let mut world = world();
    produce_values(&mut world, &["a"]);
    assert_eq!(error(&fetch(&mut world, 1)), ErrorCode::None);
    for offset in [2, -1] {
        let data = fetch(&mut world, offset);
        assert_eq!((error(&data), data.high_watermark), (ErrorCode::OffsetOutOfRange, -1));
    }
}

#[test]
fn the_first_batch_comes_whole_and_the_rest_within_the_limits() {
    let mut world = world_with(2, &[]);
    let value = "x".repeat(1000);
    for partition in [0, 1] {
        for _ in 0..3 {
            world.call(1, &produce_request(TOPIC, partition, &batch(&[&value])), PRODUCE);
        }
    }
    let whole = batch(&[&value]).len();
    let size = |world: &mut World, max_bytes: i32, partition_max_bytes: i32| -> Vec<usize> {
        let partition = |index| FetchPartition { partition_max_bytes, ..fetch_partition(index, 0) };
        let mut request = fetch_request(TOPIC, vec![partition(0), partition(1)]);
        request.max_bytes = max_bytes;
        let answer = world.call(1, &request, FETCH);
        let sizes = answer.responses[0].partitions.iter().map(|data| data.records.unwrap().len());
        sizes.collect()
    };
    let all = 3 * whole;
    assert_eq!(size(&mut world, 1 << 20, 1 << 20), [all, all]);
    // KIP-74: the first batch is returned whole even if it exceeds the limits.
    assert_eq!(size(&mut world, 1, 1), [whole, 0]);
    assert_eq!(size(&mut world, 0, 1 << 20), [whole, 0]);
    // The last batch is cut off at the limit.
    assert_eq!(size(&mut world, 1 << 20, whole as i32 + 10), [whole + 10, whole + 10]);
    assert_eq!(size(&mut world, (all + whole) as i32 + 5, 1 << 20), [all, whole + 5]);
    // Less than one whole batch is of no use to a client, so it is left out.
    assert_eq!(size(&mut world, all as i32 + 5, 1 << 20), [all, 0]);
}

// req: S102
#[test]
fn a_fetch_waits_for_records_and_no_longer_than_asked() {
    let mut world = world();
    produce_values(&mut world, &["a"]);
    let waiting = |offset| FetchRequest { max_wait_ms: 500, ..fetch_request(TOPIC, vec![fetch_partition(0, offset)]) };
    // Existing records are answered at once.
    let there = only(world.call(1, &waiting(0), FETCH));
    assert_eq!((values(&there), there.high_watermark, there.last_stable_offset), (vec!["a".to_owned()], 1, 1));
    assert_eq!(there.log_start_offset, 0);
    // A record that is produced during the wait is answered at once, too.
    let pending = world.send(1, &waiting(1), FETCH);
    world.advance(499);
    assert!(world.waits(&pending));
    produce_values(&mut world, &["b"]);
    assert_eq!(values(&only(world.take(&pending).unwrap())), ["b"]);
    // Without a new record the fetch is answered after its maximum wait.
    let pending = world.send(1, &waiting(2), FETCH);
    world.advance(499);
    assert!(world.waits(&pending));
    world.advance(1);
    let empty = only(world.take(&pending).unwrap());
    assert_eq!((error(&empty), values(&empty).len(), empty.high_watermark), (ErrorCode::None, 0, 2));
    // A fetch waits for its minimum bytes.
    let bytes = batch(&["c"]).len() as i32;
    let pending = world.send(1, &FetchRequest { min_bytes: 2 * bytes, ..waiting(2) }, FETCH);
    produce_values(&mut world, &["c"]);
    assert!(world.waits(&pending));
    produce_values(&mut world, &["d"]);
    assert_eq!(values(&only(world.take(&pending).unwrap())), ["c", "d"]);
    // The answer has no more than the maximum bytes of the request, or of the partition.
    for (max_bytes, partition_max_bytes) in [(bytes, 1 << 20), (1 << 20, bytes)] {
        let partition = FetchPartition { partition_max_bytes, ..fetch_partition(0, 0) };
        let request = FetchRequest { max_bytes, ..fetch_request(TOPIC, vec![partition]) };
        assert_eq!(values(&only(world.call(1, &request, FETCH))), ["a"]);
    }
}

#[test]
fn a_fetch_that_waits_hears_of_another_leader() {
    let mut world = World::with(2, &[("default.replication.factor", "2")]);
    create(&mut world, TOPIC);
    let request = FetchRequest { max_wait_ms: 500, ..fetch_request(TOPIC, vec![fetch_partition(0, 0)]) };
    // Version 10 cannot read from followers.
    let pending = world.send(1, &request, 10);
    assert!(world.waits(&pending));
    world.control(serde_json::json!({"command": "move_leader", "topic": TOPIC, "partition": 0, "node": 2}));
    assert_eq!(error(&only(world.take(&pending).unwrap())), ErrorCode::NotLeaderOrFollower);
}

// The records were readable, and the fetch slept until its maximum wait.
#[test]
fn a_fetch_that_waits_is_answered_once_enough_replicas_are_in_sync() {
    let mut world = World::with(2, &[("default.replication.factor", "2"), ("min.insync.replicas", "2")]);
    create(&mut world, TOPIC);
    let isr = |nodes: &[i32]| serde_json::json!({"command": "set_isr", "topic": TOPIC, "partition": 0, "isr": nodes});
    world.control(isr(&[1]));
    let request = FetchRequest { max_wait_ms: 500, ..fetch_request(TOPIC, vec![fetch_partition(0, 0)]) };
    let pending = world.send(1, &request, FETCH);
    let records = batch(&["a"]);
    let answer = world.call(1, &ProduceRequest { acks: 1, ..produce_request(TOPIC, 0, &records) }, PRODUCE);
    assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
    assert!(world.waits(&pending), "one replica is too few for the high watermark to advance");
    world.control(isr(&[1, 2]));
    assert_eq!(values(&only(world.take(&pending).unwrap())), ["a"]);
}

#[test]
fn a_client_that_is_gone_waits_no_longer() {
    let mut world = world();
    let request = FetchRequest { max_wait_ms: 500, ..fetch_request(TOPIC, vec![fetch_partition(0, 0)]) };
    let pending = world.send(1, &request, FETCH);
    assert!(world.core.next_due_ms().is_some_and(|due_ms| due_ms <= world.now_ms + 500));
    world.disconnect(pending.connection);
    produce_values(&mut world, &["a"]);
    assert_eq!(world.outcome(pending.connection), None);
}
