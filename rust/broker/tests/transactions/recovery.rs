//! Failovers of the transaction coordinator: the next one completes what it had begun.

use monedula_protocol::error_code::ErrorCode;
use serde_json::json;

use crate::producer::*;

/// Moves the coordinator of `t` to another node.
fn fail_over(world: &mut Cluster) {
    let old = world.coordinator(1, "t").unwrap();
    world.stop(old);
    assert_ne!(world.coordinator(1, "t"), Ok(old));
    world.start(old);
}

#[test]
fn an_open_transaction_goes_on_at_the_next_coordinator() {
    for commit in [true, false] {
        let mut world = Cluster::new(3, &[]);
        let producer = init(&mut world, "t").unwrap();
        assert_eq!(write(&mut world, "t", producer, 0, 0, "a"), ErrorCode::None);
        let before = describe(&mut world, "t");
        fail_over(&mut world);
        assert_eq!(describe(&mut world, "t"), before);
        assert_eq!(write(&mut world, "t", producer, 0, 1, "b"), ErrorCode::None);
        assert_eq!(end(&mut world, "t", producer, commit, Speaks::Two), Ok((0, 1)));
        // The new coordinator recognises a repetition, too.
        fail_over(&mut world);
        assert_eq!(end(&mut world, "t", producer, commit, Speaks::Two), Ok((0, 1)));
        let expected: &[&str] = if commit { &["a", "b"] } else { &[] };
        assert_eq!(read(&mut world, 0, true).0, expected);
        assert_eq!(init(&mut world, "t"), Ok((0, 2)));
    }
}

#[test]
fn an_open_transaction_times_out_at_the_next_coordinator() {
    let mut world = Cluster::new(3, &[]);
    let producer = init(&mut world, "t").unwrap();
    write(&mut world, "t", producer, 0, 0, "a");
    fail_over(&mut world);
    world.advance(i64::from(TIMEOUT_MS) + 11_000);
    assert_eq!(state(&mut world, "t").0, "CompleteAbort");
    assert_eq!(read(&mut world, 0, true), (vec![], 2));
}

#[test]
fn a_prepared_transaction_is_completed_by_the_next_coordinator() {
    for commit in [true, false] {
        let mut world = Cluster::new(3, &[]);
        world.control(json!({"command": "move_coordinator", "transactional_id": "t", "node": 1}));
        world.control(json!({"command": "move_leader", "topic": TOPIC, "partition": 0, "node": 3}));
        world.control(json!({"command": "set_isr", "topic": TOPIC, "partition": 0, "isr": [3]}));
        let producer = init(&mut world, "t").unwrap();
        for partition in [0, 1] {
            assert_eq!(write(&mut world, "t", producer, partition, 0, "a"), ErrorCode::None);
        }
        world.stop(3);
        assert_eq!(end(&mut world, "t", producer, commit, Speaks::Two), Ok((0, 1)));
        let prepared = if commit { "PrepareCommit" } else { "PrepareAbort" };
        let found = describe(&mut world, "t");
        // One marker is written. The other one has to wait for its partition's leader.
        assert_eq!((found.transaction_state, &found.topics[0].partitions), (prepared, &vec![0]));
        world.stop(1);
        assert_eq!(state(&mut world, "t").0, prepared);
        world.start(3);
        world.advance(1000);
        assert_eq!(state(&mut world, "t").0, if commit { "CompleteCommit" } else { "CompleteAbort" });
        let expected: &[&str] = if commit { &["a"] } else { &[] };
        for partition in [0, 1] {
            assert_eq!(read(&mut world, partition, true).0, expected, "partition {partition}");
        }
    }
}

#[test]
fn a_coordinator_that_loads_says_so() {
    let mut settings = monedula_broker::settings::Settings { nodes: 2, coordinator_load_ms: 500, ..Default::default() };
    settings.kafka.set("transaction.state.log.num.partitions", "1").unwrap();
    let mut world = Cluster::of(settings);
    assert_eq!(init(&mut world, "t"), Err(ErrorCode::CoordinatorLoadInProgress));
    world.advance(500);
    let producer = init(&mut world, "t").unwrap();
    assert_eq!(write(&mut world, "t", producer, 0, 0, "a"), ErrorCode::None);
    fail_over(&mut world);
    assert_eq!(end(&mut world, "t", producer, true, Speaks::Two), Err(ErrorCode::CoordinatorLoadInProgress));
    // A write whose transaction cannot be checked at the coordinator gets a retriable error.
    assert_eq!(write(&mut world, "t", producer, 1, 0, "a"), ErrorCode::NotEnoughReplicas);
    world.advance(500);
    assert_eq!(end(&mut world, "t", producer, true, Speaks::Two), Ok((0, 1)));
}
