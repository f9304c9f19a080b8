//! Incremental fetch sessions (KIP-227).

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::fetch::{FetchRequest, FetchResponse, FetchTopic, ForgottenTopic};

use crate::helpers::*;
use crate::support::World;

fn fetch_in(world: &mut World, request: &FetchRequest<'_>, id: i32, epoch: i32) -> FetchResponse<'static> {
    world.call(1, &FetchRequest { session_id: id, session_epoch: epoch, ..request.clone() }, FETCH)
}

fn partitions(answer: &FetchResponse<'_>) -> Vec<i32> {
    answer.responses.iter().flat_map(|topic| &topic.partitions).map(|data| data.partition_index).collect()
}

fn error(answer: &FetchResponse<'_>) -> ErrorCode {
    ErrorCode::from_code(answer.error_code)
}

const NOTHING: FetchRequest<'_> = FetchRequest {
    max_wait_ms: 0,
    min_bytes: 1,
    max_bytes: 1 << 20,
    topics: Vec::new(),
    forgotten_topics_data: Vec::new(),
    cluster_id: None,
    replica_id: -1,
    replica_state: monedula_protocol::messages::fetch::ReplicaState {
        replica_id: -1,
        replica_epoch: -1,
        unknown_tagged_fields: Vec::new(),
    },
    isolation_level: 0,
    session_id: 0,
    session_epoch: 0,
    rack_id: "",
    unknown_tagged_fields: Vec::new(),
};

#[test]
fn a_session_tells_only_what_is_new() {
    let mut world = world_with(3, &[]);
    let all = fetch_request(TOPIC, (0..3).map(|index| fetch_partition(index, 0)).collect());
    let opened = fetch_in(&mut world, &all, 0, 0);
    let id = opened.session_id;
    assert_ne!(id, 0);
    assert_eq!(partitions(&opened), [0, 1, 2]);
    // Nothing changed.
    assert_eq!(partitions(&fetch_in(&mut world, &NOTHING, id, 1)), [0; 0]);
    // One partition has new records.
    world.call(1, &produce_request(TOPIC, 1, &batch(&["a"])), PRODUCE);
    let news = fetch_in(&mut world, &NOTHING, id, 2);
    assert_eq!((news.session_id, partitions(&news)), (id, vec![1]));
    // The client advances in that partition, and forgets another.
    let mut on = fetch_request(TOPIC, vec![fetch_partition(1, 1)]);
    on.forgotten_topics_data = vec![ForgottenTopic { topic: TOPIC, partitions: vec![2], ..Default::default() }];
    assert_eq!(partitions(&fetch_in(&mut world, &on, id, 3)), [0; 0]);
    for index in 0..3 {
        world.call(1, &produce_request(TOPIC, index, &batch(&["b"])), PRODUCE);
    }
    // A partition that was answered with records moves behind the others.
    assert_eq!(partitions(&fetch_in(&mut world, &NOTHING, id, 4)), [0, 1]);
}

#[test]
fn an_error_is_told_until_it_is_gone_and_then_the_partition_again() {
    let mut world = world();
    let request = fetch_request("later", vec![fetch_partition(0, 0)]);
    let opened = fetch_in(&mut world, &request, 0, 0);
    let id = opened.session_id;
    for epoch in 1..3 {
        let told = fetch_in(&mut world, &NOTHING, id, epoch);
        assert_eq!(told.responses[0].partitions[0].error_code, ErrorCode::UnknownTopicOrPartition.code());
    }
    create(&mut world, "later");
    let told = fetch_in(&mut world, &NOTHING, id, 3);
    assert_eq!((told.responses[0].partitions[0].error_code, told.responses[0].topic), (0, "later"));
    assert_eq!(partitions(&fetch_in(&mut world, &NOTHING, id, 4)), [0; 0]);
}

#[test]
fn a_wrong_id_epoch_or_naming_is_refused() {
    let mut world = world();
    let request = fetch_request(TOPIC, vec![fetch_partition(0, 0)]);
    let id = fetch_in(&mut world, &request, 0, 0).session_id;
    let refused = fetch_in(&mut world, &NOTHING, id ^ 1, 1);
    assert_eq!((error(&refused), refused.session_id), (ErrorCode::FetchSessionIdNotFound, 0));
    for epoch in [2, 7] {
        assert_eq!(error(&fetch_in(&mut world, &NOTHING, id, epoch)), ErrorCode::InvalidFetchSessionEpoch);
    }
    let by_id = world.call(1, &FetchRequest { session_id: id, session_epoch: 1, ..NOTHING }, 13);
    assert_eq!(error(&by_id), ErrorCode::FetchSessionTopicIdError);
    // None of these requests has affected the session.
    assert_eq!(error(&fetch_in(&mut world, &NOTHING, id, 1)), ErrorCode::None);
    // Epoch -1 ends the session, epoch 0 opens a new one.
    assert_eq!(fetch_in(&mut world, &request, id, -1).session_id, 0);
    assert_eq!(error(&fetch_in(&mut world, &NOTHING, id, 2)), ErrorCode::FetchSessionIdNotFound);
    let id = fetch_in(&mut world, &request, 0, 0).session_id;
    let other = fetch_in(&mut world, &request, id, 0).session_id;
    assert!(other != 0 && other != id);
    assert_eq!(error(&fetch_in(&mut world, &NOTHING, id, 1)), ErrorCode::FetchSessionIdNotFound);
    // A session without partitions is closed.
    let forgotten = vec![ForgottenTopic { topic: TOPIC, partitions: vec![0], ..Default::default() }];
    let request = FetchRequest { forgotten_topics_data: forgotten, ..NOTHING };
    assert_eq!(fetch_in(&mut world, &request, other, 1).session_id, 0);
}

#[test]
fn a_full_node_gives_a_place_only_for_a_larger_or_a_stale_one() {
    let mut world = world_with(2, &[("max.incremental.fetch.session.cache.slots", "1")]);
    let one = fetch_request(TOPIC, vec![fetch_partition(0, 0)]);
    let two = fetch_request(TOPIC, vec![fetch_partition(0, 0), fetch_partition(1, 0)]);
    let id = fetch_in(&mut world, &one, 0, 0).session_id;
    assert_ne!(id, 0);
    // The existing session is too young to be evicted.
    assert_eq!(fetch_in(&mut world, &two, 0, 0).session_id, 0);
    world.advance(120_001);
    fetch_in(&mut world, &NOTHING, id, 1);
    assert_eq!(fetch_in(&mut world, &one, 0, 0).session_id, 0);
    let larger = fetch_in(&mut world, &two, 0, 0).session_id;
    assert_ne!(larger, 0);
    assert_eq!(error(&fetch_in(&mut world, &NOTHING, id, 2)), ErrorCode::FetchSessionIdNotFound);
    world.advance(120_001);
    assert_ne!(fetch_in(&mut world, &one, 0, 0).session_id, 0);
    assert_eq!(error(&fetch_in(&mut world, &NOTHING, larger, 1)), ErrorCode::FetchSessionIdNotFound);
}

#[test]
fn topics_go_by_id_from_version_13_on() {
    let mut world = world();
    let id = create(&mut world, TOPIC);
    let mut request = fetch_request("", vec![fetch_partition(0, 0)]);
    request.topics[0].topic_id = id;
    let mut unknown = id;
    unknown.0[0] ^= 1;
    let partitions = vec![fetch_partition(0, 0)];
    request.topics.push(FetchTopic { topic_id: unknown, partitions, ..Default::default() });
    produce_values(&mut world, &["a"]);
    for version in 13..=18 {
        let answer = world.call(1, &request, version);
        let codes: Vec<_> =
            answer.responses.iter().map(|topic| (topic.topic_id, topic.partitions[0].error_code)).collect();
        assert_eq!(codes, [(id, 0), (unknown, ErrorCode::UnknownTopicId.code())]);
        assert_eq!(values(&answer.responses[0].partitions[0]), ["a"]);
    }
}
