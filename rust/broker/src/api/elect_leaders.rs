//! ElectLeaders, versions 0-2 (KIP-460): elects preferred leaders, and from version 1 on also leaders outside the
//! in-sync replicas (unclean). An election ends within the request.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::elect_leaders::{
    ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult, TopicPartitions,
};

use super::{ApiError, Handled, has_no_time};
use crate::core::{Core, Election};
use crate::request::{Call, Mentions, TopicKey};
use crate::security::{Operation, Resource};

const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

/// A topic with the outcome of each of its partitions.
type ElectedTopic = (String, Vec<(i32, Result<(), ApiError>)>);

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &ElectLeadersRequest<'_>) -> Handled {
    core.authorize(call, Operation::Alter, Resource::Cluster)?;
    if has_no_time(request.timeout_ms) {
        return Ok(call.answer::<ElectLeadersRequest<'_>>(&refused(request, ErrorCode::RequestTimedOut, None)));
    }
    let election = match request.election_type {
        PREFERRED => Election::Preferred,
        UNCLEAN => Election::Unclean,
        kind => {
            let message = format!("Unknown election type {kind}");
            let refused = refused(request, ErrorCode::InvalidRequest, Some(&message));
            return Ok(call.answer::<ElectLeadersRequest<'_>>(&refused));
        }
    };
    let outcomes = match &request.topic_partitions {
        Some(wanted) => wanted.iter().map(|topic| elect_in(core, call, topic, election)).collect(),
        None => elect_all(core, election),
    };
    let results = outcomes.iter().map(|(topic, partitions)| ReplicaElectionResult {
        topic,
        partition_result: partitions
            .iter()
            .map(|(index, outcome)| match outcome {
                Ok(()) => result(*index, ErrorCode::None, None),
                Err(error) => result(*index, error.code, error.message.as_deref()),
            })
            .collect(),
        ..Default::default()
    });
    let response = ElectLeadersResponse { replica_election_results: results.collect(), ..Default::default() };
    Ok(call.answer::<ElectLeadersRequest<'_>>(&response))
}

fn elect_in(core: &mut Core, call: &Call<'_>, topic: &TopicPartitions<'_>, election: Election) -> ElectedTopic {
    let name = topic.topic;
    let mut partitions = Vec::with_capacity(topic.partitions.len());
    for &index in &topic.partitions {
        let outcome = match core.faults.partition_error(call, name, index) {
            Some(error) => Err(error.into()),
            None => elect(core, name, index, election),
        };
        partitions.push((index, outcome));
    }
    (name.to_owned(), partitions)
}

/// Holds an election for all partitions. Partitions that needed none (ELECTION_NOT_NEEDED) are left out of the outcome.
fn elect_all(core: &mut Core, election: Election) -> Vec<ElectedTopic> {
    let topics: Vec<_> = core.topics.all().map(|topic| (topic.name.clone(), topic.partitions.len())).collect();
    let mut outcomes = Vec::with_capacity(topics.len());
    for (name, count) in topics {
        let mut partitions = Vec::new();
        for index in 0..count as i32 {
            let outcome = elect(core, &name, index, election);
            if !matches!(&outcome, Err(error) if error.code == ErrorCode::ElectionNotNeeded) {
                partitions.push((index, outcome));
            }
        }
        outcomes.push((name.to_string(), partitions));
    }
    outcomes
}

fn elect(core: &mut Core, topic: &str, index: i32, election: Election) -> Result<(), ApiError> {
    let unknown = |message: String| Err(ApiError::new(ErrorCode::UnknownTopicOrPartition, message));
    if core.topics.get(topic).is_none() {
        return unknown(format!("No such topic as {topic}"));
    }
    if core.topics.partition(topic, index).is_none() {
        return unknown(format!("No such partition as {topic}-{index}"));
    }
    core.elect_leader(topic, index, election).map_err(|code| {
        let message = match code {
            ErrorCode::ElectionNotNeeded => "Leader election not needed for topic partition.",
            ErrorCode::PreferredLeaderNotAvailable => "The preferred leader was not available.",
            ErrorCode::EligibleLeadersNotAvailable => "Eligible topic partition leaders are not available.",
            code => code.message(),
        };
        ApiError::new(code, message)
    })
}

fn result(partition_id: i32, error: ErrorCode, error_message: Option<&str>) -> PartitionResult<'_> {
    PartitionResult { partition_id, error_code: error.code(), error_message, ..Default::default() }
}

fn refused<'a>(
    request: &ElectLeadersRequest<'a>,
    error: ErrorCode,
    message: Option<&'a str>,
) -> ElectLeadersResponse<'a> {
    let topics = request.topic_partitions.iter().flatten().map(|topic| ReplicaElectionResult {
        topic: topic.topic,
        partition_result: topic.partitions.iter().map(|&index| result(index, error, message)).collect(),
        ..Default::default()
    });
    let replica_election_results = topics.collect();
    ElectLeadersResponse { error_code: error.code(), replica_election_results, ..Default::default() }
}

pub(super) fn refuse<'a>(request: &ElectLeadersRequest<'a>, error: ErrorCode) -> ElectLeadersResponse<'a> {
    refused(request, error, Some(error.message()))
}

pub(super) fn mentions<'a>(request: &ElectLeadersRequest<'a>) -> Mentions<'a> {
    let topics = request.topic_partitions.iter().flatten();
    let partitions =
        topics.flat_map(|topic| topic.partitions.iter().map(|index| (TopicKey::Name(topic.topic), *index)));
    Mentions { partitions: partitions.collect(), ..Default::default() }
}
