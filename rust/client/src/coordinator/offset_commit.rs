//! OffsetCommit by a client that is no member of the group.

use std::collections::BTreeMap;
use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_engine::group::{CommitOffset, TopicIds, commit_topics};
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame;
use monedula_protocol::messages::offset_commit::OffsetCommitRequest;

use super::{Commits, Failure, GroupCall, again, fault, refused, unanswered, unreadable};
use crate::net::network::{Network, NodeId, Purpose};
use crate::offsets::UNKNOWN_TO_SOME;
use crate::run_time::RunInstant;

pub(super) struct Commit {
    pub(super) group: String,
    /// Partitions without an outcome yet.
    pub(super) open: BTreeMap<TopicPartition, CommitOffset>,
    pub(super) done: Commits,
    pub(super) began: RunInstant,
}

impl GroupCall for Commit {
    type Outcome = Commits;

    fn group(&self) -> &str {
        &self.group
    }

    fn what(&self) -> String {
        format!("the commit of offsets to group {}", self.group)
    }

    async fn ask(&mut self, network: &Network, node: i32) -> Result<Commits, Failure> {
        let topics = commit_topics(&self.open, &TopicIds::new());
        let build = |_| OffsetCommitRequest { group_id: &self.group, topics, ..Default::default() };
        let call = network.call(NodeId::Broker(node), Purpose::Control, 2..=9, Duration::ZERO, build).await;
        let (answer, version) = call.map_err(unanswered)?;
        let response = frame::decode_response::<OffsetCommitRequest<'_>>(answer.as_slice(), version)
            .map_err(|error| unreadable(&error))?;
        let mut failure = again(ErrorCode::UnknownServerError, true);
        for topic in &response.topics {
            for partition in &topic.partitions {
                let named = TopicPartition::new(topic.name, partition.partition_index);
                let outcome = ErrorCode::check(partition.error_code);
                match outcome {
                    // Brokers hear of a new topic one after the other.
                    Err(ErrorCode::UnknownTopicOrPartition) if self.began.elapsed() < UNKNOWN_TO_SOME => {
                        failure = again(ErrorCode::UnknownTopicOrPartition, false);
                        continue;
                    }
                    Ok(()) => {}
                    Err(code) if is_of_partition(code) => {}
                    Err(code) if code.is_retriable() => {
                        failure = again(code, true);
                        continue;
                    }
                    Err(code) => return Err(Failure::Final(refused(&self.group, self.what(), code))),
                }
                if self.open.remove(&named).is_some() {
                    self.done.insert(named.clone(), outcome.map_err(|code| fault(named, code)));
                }
            }
        }
        match self.open.is_empty() {
            true => Ok(std::mem::take(&mut self.done)),
            false => Err(failure),
        }
    }
}

/// True if an error in the answer to a commit is about its partition, not about the group.
fn is_of_partition(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::TopicAuthorizationFailed
            | ErrorCode::UnknownTopicOrPartition
            | ErrorCode::OffsetMetadataTooLarge
            | ErrorCode::InvalidCommitOffsetSize
    )
}
