//! OffsetFetch by a client that is no member of the group.

use std::collections::BTreeMap;
use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_engine::group::CommitOffset;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame;
use monedula_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics, OffsetFetchResponse,
};

use super::{Committed, Failure, GroupCall, again, fault, refused, unanswered, unreadable};
use crate::net::network::{Network, NodeId, Purpose};

/// A lookup of committed offsets, of these partitions or of all.
pub(super) struct CommittedOffsetsCall {
    pub(super) group: String,
    pub(super) partitions: Option<Vec<TopicPartition>>,
    /// True if offsets that an open transaction may still change are refused (KIP-447).
    pub(super) stable: bool,
}

impl GroupCall for CommittedOffsetsCall {
    type Outcome = Committed;

    fn group(&self) -> &str {
        &self.group
    }

    fn what(&self) -> String {
        format!("the lookup of offsets of group {}", self.group)
    }

    async fn ask(&mut self, network: &Network, node: i32) -> Result<Committed, Failure> {
        let build = |version| match version {
            ..=7 => self.of_one_group(version),
            _ => self.of_groups(),
        };
        let call = network.call(NodeId::Broker(node), Purpose::Control, 2..=9, Duration::ZERO, build).await;
        let (answer, version) = call.map_err(unanswered)?;
        let response = frame::decode_response::<OffsetFetchRequest<'_>>(answer.as_slice(), version)
            .map_err(|error| unreadable(&error))?;
        let (code, found) = committed_in(&response, &self.group, version);
        match ErrorCode::check(code) {
            Ok(()) => {}
            Err(code) if code.is_retriable() => return Err(again(code, true)),
            Err(code) => return Err(Failure::Final(refused(&self.group, self.what(), code))),
        }
        let asked = self.partitions.iter().flatten();
        let mut committed: Committed = asked.map(|partition| (partition.clone(), Ok(None))).collect();
        committed.extend(found);
        Ok(committed)
    }
}

impl CommittedOffsetsCall {
    fn of_one_group(&self, version: i16) -> OffsetFetchRequest<'_> {
        let topic =
            |(name, partition_indexes)| OffsetFetchRequestTopic { name, partition_indexes, ..Default::default() };
        let topics = self.by_topic().map(|topics| topics.into_iter().map(topic).collect());
        let require_stable = self.stable && version >= 7;
        OffsetFetchRequest { group_id: &self.group, topics, require_stable, ..Default::default() }
    }

    fn of_groups(&self) -> OffsetFetchRequest<'_> {
        let topic =
            |(name, partition_indexes)| OffsetFetchRequestTopics { name, partition_indexes, ..Default::default() };
        let topics = self.by_topic().map(|topics| topics.into_iter().map(topic).collect());
        let group = OffsetFetchRequestGroup { group_id: &self.group, topics, ..Default::default() };
        OffsetFetchRequest { groups: vec![group], require_stable: self.stable, ..Default::default() }
    }

    fn by_topic(&self) -> Option<BTreeMap<&str, Vec<i32>>> {
        let partitions = self.partitions.as_ref()?;
        let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for partition in partitions {
            topics.entry(&partition.topic).or_default().push(partition.partition);
        }
        Some(topics)
    }
}

/// The error of the group, and what `response` has of its partitions.
fn committed_in(response: &OffsetFetchResponse<'_>, group: &str, version: i16) -> (i16, Committed) {
    let mut committed = Committed::new();
    let mut add = |topic: &str, index, code, offset, leader_epoch, metadata: Option<&str>| {
        let partition = TopicPartition::new(topic, index);
        let found = CommitOffset { offset, leader_epoch, metadata: metadata.unwrap_or_default().to_owned() };
        let outcome = ErrorCode::check(code).map(|()| (offset >= 0).then_some(found));
        committed.insert(partition.clone(), outcome.map_err(|code| fault(partition, code)));
    };
    if version <= 7 {
        for topic in &response.topics {
            for at in &topic.partitions {
                let (offset, epoch) = (at.committed_offset, at.committed_leader_epoch);
                add(topic.name, at.partition_index, at.error_code, offset, epoch, at.metadata);
            }
        }
        return (response.error_code, committed);
    }
    let Some(group) = response.groups.iter().find(|answered| answered.group_id == group) else {
        return (ErrorCode::CoordinatorNotAvailable.code(), committed);
    };
    for topic in &group.topics {
        for at in &topic.partitions {
            let (offset, epoch) = (at.committed_offset, at.committed_leader_epoch);
            add(topic.name, at.partition_index, at.error_code, offset, epoch, at.metadata);
        }
    }
    (group.error_code, committed)
}
