//! Commits and lookups against a listener in the test, which plays a cluster of one broker.

use std::collections::VecDeque;

use monedula_columns::BufferPool;
use monedula_protocol::api::{ApiKey, supported};
use monedula_protocol::messages::api_versions::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse};
use monedula_protocol::messages::find_coordinator::FindCoordinatorResponse;
use monedula_protocol::messages::metadata::{MetadataRequest, MetadataResponse, MetadataResponseBroker};
use monedula_protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use monedula_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions, OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::base::ClientBase;
use crate::offsets::UNKNOWN_TO_SOME;

const GROUP_ID: &str = "readers";
const TIMEOUT: Duration = Duration::from_secs(30);

/// A broker that plays its part of errors and then does as it is told.
#[derive(Default)]
struct Script {
    /// The highest version of each API; that of this client by default.
    highest: BTreeMap<ApiKey, i16>,
    /// Errors of the answers to FindCoordinator, then none.
    find: VecDeque<ErrorCode>,
    /// Errors of the answers to OffsetCommit, at every partition, then none.
    commit: VecDeque<ErrorCode>,
    /// Errors of single topics in the answers to OffsetCommit.
    topics: BTreeMap<&'static str, ErrorCode>,
    /// Error of the group in the answers to OffsetFetch.
    fetch: Option<ErrorCode>,
    /// Requests so far.
    asked: Vec<(ApiKey, i16)>,
}

type Shared = Arc<Mutex<Script>>;

/// The coordinators' view of a broker that follows `script`.
async fn coordinators(script: Script) -> (Coordinators, Shared) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let port = listener.local_addr().expect("bound").port();
    let script = Arc::new(Mutex::new(script));
    tokio::spawn(serve(listener, port, script.clone()));
    let server = format!("127.0.0.1:{port}");
    let settings = [("bootstrap.servers", server.as_str()), ("retry.backoff.ms", "1"), ("retry.backoff.max.ms", "1")];
    let config = Arc::new(ClientConfig::parse(settings).expect("settings"));
    let base = ClientBase::new(config, &[], BufferPool::new(1 << 20), Log::default(), 1);
    tokio::spawn(base.metadata.run());
    (base.coordinators, script)
}

async fn serve(listener: TcpListener, port: u16, script: Shared) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(converse(stream, port, script.clone()));
    }
}

async fn converse(mut stream: TcpStream, port: u16, script: Shared) {
    while let Ok(length) = stream.read_i32().await {
        let mut request = vec![0; usize::try_from(length).expect("not negative")];
        stream.read_exact(&mut request).await.expect("a request");
        let answer = answer(&request, i32::from(port), &mut script.lock().expect("a script"));
        stream.write_all(&answer).await.expect("writes");
    }
}

fn answer(request: &[u8], port: i32, script: &mut Script) -> Vec<u8> {
    let (header, body) = frame::decode_request_header(request).expect("a header");
    let (version, id) = (header.request_api_version, header.correlation_id);
    let key = ApiKey::from_code(header.request_api_key).expect("a known API");
    script.asked.push((key, version));
    match key {
        ApiKey::ApiVersions => respond::<ApiVersionsRequest<'_>>(&versions(script), version, id),
        ApiKey::Metadata => {
            let broker = MetadataResponseBroker { node_id: 7, host: "127.0.0.1", port, ..Default::default() };
            let response = MetadataResponse { brokers: vec![broker], ..Default::default() };
            respond::<MetadataRequest<'_>>(&response, version, id)
        }
        ApiKey::FindCoordinator => {
            let code = script.find.pop_front().unwrap_or(ErrorCode::None).code();
            respond::<FindCoordinatorRequest<'_>>(&coordinator(port, code, version), version, id)
        }
        ApiKey::OffsetCommit => {
            let request: OffsetCommitRequest<'_> = frame::decode_request_body(body, version).expect("a commit");
            assert_eq!(
                (request.group_id, request.generation_id_or_member_epoch, request.member_id),
                (GROUP_ID, -1, "")
            );
            respond::<OffsetCommitRequest<'_>>(&committed(&request, script), version, id)
        }
        ApiKey::OffsetFetch => {
            let code = script.fetch.unwrap_or(ErrorCode::None).code();
            respond::<OffsetFetchRequest<'_>>(&fetched(code, version), version, id)
        }
        other => panic!("{other} was not expected"),
    }
}

fn respond<'q, R: Request<'q>>(response: &R::Response<'_>, version: i16, id: i32) -> Vec<u8> {
    frame::encode_response::<R>(response, version, id).unwrap_or_else(|error| panic!("{}: {error}", R::NAME))
}

fn versions(script: &Script) -> ApiVersionsResponse<'static> {
    let offered = supported().iter().map(|&(key, min_version, max)| {
        let max_version = script.highest.get(&key).copied().unwrap_or(max);
        ApiVersion { api_key: key.code(), min_version, max_version, ..Default::default() }
    });
    ApiVersionsResponse { api_keys: offered.collect(), ..Default::default() }
}

fn coordinator(port: i32, error_code: i16, version: i16) -> FindCoordinatorResponse<'static> {
    let (node_id, host) = (7, "127.0.0.1");
    if version <= 3 {
        return FindCoordinatorResponse { error_code, node_id, host, port, ..Default::default() };
    }
    let found = Coordinator { key: GROUP_ID, node_id, host, port, error_code, ..Default::default() };
    FindCoordinatorResponse { coordinators: vec![found], ..Default::default() }
}

fn committed<'r>(request: &OffsetCommitRequest<'r>, script: &mut Script) -> OffsetCommitResponse<'r> {
    let code = script.commit.pop_front();
    let topics = request.topics.iter().map(|topic| {
        let code = code.or_else(|| script.topics.get(topic.name).copied()).unwrap_or(ErrorCode::None);
        let partitions = topic.partitions.iter().map(|partition| OffsetCommitResponsePartition {
            partition_index: partition.partition_index,
            error_code: code.code(),
            ..Default::default()
        });
        OffsetCommitResponseTopic { name: topic.name, partitions: partitions.collect(), ..Default::default() }
    });
    OffsetCommitResponse { topics: topics.collect(), ..Default::default() }
}

/// Topic t: partition 0 at 23, nothing at 1, partition 2 denied.
fn fetched(error_code: i16, version: i16) -> OffsetFetchResponse<'static> {
    let found = [(0, 23, 0, "mine"), (1, -1, 0, ""), (2, -1, ErrorCode::TopicAuthorizationFailed.code(), "")];
    if version <= 7 {
        let partitions =
            found.map(|(partition_index, committed_offset, error_code, metadata)| OffsetFetchResponsePartition {
                partition_index,
                committed_offset,
                metadata: Some(metadata),
                error_code,
                ..Default::default()
            });
        let topic = OffsetFetchResponseTopic { name: "t", partitions: partitions.into(), ..Default::default() };
        return OffsetFetchResponse { topics: vec![topic], error_code, ..Default::default() };
    }
    let partitions =
        found.map(|(partition_index, committed_offset, error_code, metadata)| OffsetFetchResponsePartitions {
            partition_index,
            committed_offset,
            metadata: Some(metadata),
            error_code,
            ..Default::default()
        });
    let topic = OffsetFetchResponseTopics { name: "t", partitions: partitions.into(), ..Default::default() };
    let group = OffsetFetchResponseGroup { group_id: GROUP_ID, topics: vec![topic], error_code, ..Default::default() };
    OffsetFetchResponse { groups: vec![group], ..Default::default() }
}

fn at(offset: i64) -> CommitOffset {
    CommitOffset { offset, leader_epoch: -1, metadata: String::new() }
}

fn offsets(topics: &[&'static str]) -> BTreeMap<TopicPartition, CommitOffset> {
    topics.iter().map(|&topic| (TopicPartition::new(topic, 0), at(5))).collect()
}

fn count(script: &Shared, key: ApiKey) -> usize {
    script.lock().expect("a script").asked.iter().filter(|(asked, _)| *asked == key).count()
}

#[tokio::test]
async fn a_commit_finds_its_coordinator_once() {
    let (coordinators, script) = coordinators(Script::default()).await;
    for _ in 0..2 {
        let commits = coordinators.commit(GROUP_ID.into(), offsets(&["a", "b"]), TIMEOUT).await.expect("commits");
        assert_eq!(commits.len(), 2);
        assert!(commits.values().all(Result::is_ok));
    }
    assert_eq!((count(&script, ApiKey::FindCoordinator), count(&script, ApiKey::OffsetCommit)), (1, 2));
}

#[tokio::test]
async fn a_coordinator_that_is_missing_loads_or_moves_is_waited_for() {
    let script = Script {
        find: [ErrorCode::CoordinatorNotAvailable, ErrorCode::CoordinatorLoadInProgress].into(),
        commit: [ErrorCode::CoordinatorLoadInProgress, ErrorCode::NotCoordinator].into(),
        ..Default::default()
    };
    let (coordinators, script) = coordinators(script).await;
    let commits = coordinators.commit(GROUP_ID.into(), offsets(&["a"]), TIMEOUT).await.expect("commits");
    assert!(commits.values().all(Result::is_ok));
    assert_eq!(count(&script, ApiKey::OffsetCommit), 3);
    assert!(count(&script, ApiKey::FindCoordinator) >= 4, "a coordinator that has moved is looked up again");
}

#[tokio::test]
async fn what_is_wrong_with_one_partition_stands_at_it() {
    let script = Script {
        topics: [("denied", ErrorCode::TopicAuthorizationFailed), ("gone", ErrorCode::UnknownTopicOrPartition)].into(),
        ..Default::default()
    };
    let (coordinators, script) = coordinators(script).await;
    let began = Instant::now();
    let mut commits =
        coordinators.commit(GROUP_ID.into(), offsets(&["a", "denied", "gone"]), TIMEOUT).await.expect("answers");
    let mut outcome = |topic| commits.remove(&TopicPartition::new(topic, 0)).expect("an outcome");
    assert_eq!(outcome("a"), Ok(()));
    assert!(matches!(outcome("denied"), Err(Fault::TopicDenied { .. })));
    assert!(matches!(outcome("gone"), Err(Fault::UnknownTopicOrPartition { .. })));
    // A topic may be too new for the coordinator; what is done is not done again.
    assert!(count(&script, ApiKey::OffsetCommit) > 1);
    assert!(began.elapsed() >= UNKNOWN_TO_SOME);
}

#[tokio::test]
async fn a_group_with_members_is_named_as_such_at_once() {
    for code in [ErrorCode::UnknownMemberId, ErrorCode::IllegalGeneration, ErrorCode::StaleMemberEpoch] {
        let script = Script { commit: [code].into(), ..Default::default() };
        let (coordinators, script) = coordinators(script).await;
        let error = coordinators.commit(GROUP_ID.into(), offsets(&["a"]), TIMEOUT).await.expect_err("refused");
        assert!(error.to_string().contains("in use by running consumers"), "{error}");
        assert!(error.to_string().contains("use another group id"), "{error}");
        assert_eq!(count(&script, ApiKey::OffsetCommit), 1);
    }
}

#[tokio::test]
async fn a_denied_group_is_not_asked_for_again() {
    let script = Script { find: [ErrorCode::GroupAuthorizationFailed].into(), ..Default::default() };
    let (coordinators, script) = coordinators(script).await;
    let error = coordinators.commit(GROUP_ID.into(), offsets(&["a"]), TIMEOUT).await.expect_err("refused");
    assert!(matches!(&error, ClientError::GroupDenied { group } if group == GROUP_ID), "{error}");
    assert_eq!(count(&script, ApiKey::FindCoordinator), 1);
}

#[tokio::test]
async fn the_time_of_a_call_ends_it_with_the_last_failure() {
    let script =
        Script { commit: std::iter::repeat_n(ErrorCode::NotCoordinator, 10_000).collect(), ..Default::default() };
    let (coordinators, script) = coordinators(script).await;
    let mut time = Duration::from_millis(300);
    // However busy the machine is: as much time as it takes to hear of a failure. A second attempt follows the answer
    // to the first.
    let error = loop {
        let before = count(&script, ApiKey::OffsetCommit);
        let error = coordinators.commit(GROUP_ID.into(), offsets(&["a"]), time).await.expect_err("timed out");
        if count(&script, ApiKey::OffsetCommit) >= before + 2 {
            break error;
        }
        time *= 2;
    };
    assert!(
        matches!(&error, ClientError::TimedOut { last_error: Some(last), .. } if last.starts_with("NOT_COORDINATOR")),
        "{error}"
    );
}

#[tokio::test]
async fn old_and_new_versions_of_a_lookup_say_the_same() {
    let old = [(ApiKey::FindCoordinator, 1), (ApiKey::OffsetFetch, 2)];
    let between = [(ApiKey::FindCoordinator, 3), (ApiKey::OffsetFetch, 7)];
    for highest in [&old[..], &between[..], &[]] {
        let script = Script { highest: highest.iter().copied().collect(), ..Default::default() };
        let (coordinators, script) = coordinators(script).await;
        let partitions = (0..4).map(|index| TopicPartition::new("t", index)).collect();
        let found = coordinators.committed(GROUP_ID.into(), Some(partitions), TIMEOUT).await.expect("answers");
        let found: Vec<_> = found.into_values().collect();
        assert_eq!(found[0], Ok(Some(CommitOffset { metadata: "mine".into(), ..at(23) })), "{highest:?}");
        assert_eq!((&found[1], &found[3]), (&Ok(None), &Ok(None)));
        assert!(matches!(found[2], Err(Fault::TopicDenied { .. })));
        let asked = script.lock().expect("a script").asked.clone();
        let version = asked.iter().find(|(key, _)| *key == ApiKey::OffsetFetch).expect("asked").1;
        assert_eq!(version, highest.get(1).map_or(9, |(_, highest)| *highest), "names, not ids");
    }
}

#[tokio::test]
async fn the_error_of_a_group_ends_a_lookup() {
    let script = Script { fetch: Some(ErrorCode::GroupAuthorizationFailed), ..Default::default() };
    let (coordinators, _) = coordinators(script).await;
    let error = coordinators.committed(GROUP_ID.into(), None, TIMEOUT).await.expect_err("refused");
    assert!(matches!(error, ClientError::GroupDenied { .. }), "{error}");
}

#[tokio::test]
async fn nonsense_is_refused_before_anything_is_asked() {
    let (coordinators, script) = coordinators(Script::default()).await;
    let negative = [(TopicPartition::new("a", 0), at(-2))].into();
    let error = coordinators.commit(GROUP_ID.into(), negative, TIMEOUT).await.expect_err("refused");
    assert!(error.to_string().contains("a-0: offset -2"), "{error}");
    let error = coordinators.committed(String::new(), None, TIMEOUT).await.expect_err("refused");
    assert!(matches!(error, ClientError::Argument(_)), "{error}");
    assert!(script.lock().expect("a script").asked.is_empty());
}
