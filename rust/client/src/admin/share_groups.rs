//! Share groups (KIP-932): describing them, and listing, changing and deleting the offsets where their partitions start.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use monedula_engine::TopicPartition;
use monedula_engine::group::CommitOffset;
use monedula_protocol::api::Request;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::alter_share_group_offsets::{
    AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsRequestPartition, AlterShareGroupOffsetsRequestTopic,
};
use monedula_protocol::messages::delete_share_group_offsets::{
    DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsRequestTopic,
};
use monedula_protocol::messages::describe_share_group_offsets::{
    DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsRequestGroup, DescribeShareGroupOffsetsResponsePartition,
};
use monedula_protocol::messages::share_group_describe::{self, ShareGroupDescribeRequest};

use super::AdminContext;
use super::call::{
    Answers, CallResult, ItemCall, Items, Recipient, Refusal, Subject, by_topic, read, refuse_all, refused_of,
};
use super::groups::{GroupDescription, MemberDescription};
use crate::coordinator::Failure;
use crate::error::ClientError;
use crate::net::network::NodeId;

/// The type of share groups.
pub(super) const SHARE: &str = "share";

/// How far a share group is in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShareOffset {
    /// The first offset that is not done with; `None` before the group has begun to read the partition.
    pub(super) start: Option<i64>,
    leader_epoch: i32,
    /// The number of records that are not done with; `None` if the broker does not say it (before KIP-1226).
    pub(super) lag: Option<i64>,
}

impl ShareOffset {
    /// The start offset in the form of a committed one.
    pub(super) fn committed(self) -> Option<CommitOffset> {
        let Self { start, leader_epoch, .. } = self;
        start.map(|offset| CommitOffset { offset, leader_epoch, metadata: String::new() })
    }
}

pub(super) type ShareOffsets = BTreeMap<TopicPartition, Result<ShareOffset, ClientError>>;

impl AdminContext {
    /// True if there is a share group of this name. Brokers answer other requests about its offsets as for a group that
    /// does not exist, or has committed nothing.
    pub(super) async fn is_share_group(&self, group: &str, timeout: Duration) -> Result<bool, ClientError> {
        match self.run_one(DescribeShareGroups, group.to_owned(), timeout).await {
            Ok(_) => Ok(true),
            Err(ClientError::UnsupportedVersion { .. }) => Ok(false),
            Err(ClientError::Refused(refused)) if is_of_another_type(refused.code) => Ok(false),
            Err(ClientError::Refused(refused)) if refused.code == ErrorCode::TopicAuthorizationFailed => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// How far a share group is in its partitions; none if there is no such group.
    pub(super) async fn share_offsets(&self, group: &str, timeout: Duration) -> Result<ShareOffsets, ClientError> {
        self.run_one(DescribeShareOffsets, group.to_owned(), timeout).await
    }

    /// Sets the start offsets of a share group.
    pub(super) async fn alter_share_offsets(
        &self,
        group: String,
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        timeout: Duration,
    ) -> Result<Items<TopicPartition, i64>, ClientError> {
        if let Some((partition, _)) = offsets.iter().find(|(_, at)| !at.metadata.is_empty()) {
            let reason = format!("{partition}: {group} is a share group, whose offsets have no metadata; leave it out");
            return Err(ClientError::Argument(reason));
        }
        let offsets: BTreeMap<TopicPartition, i64> = offsets.into_iter().map(|(at, to)| (at, to.offset)).collect();
        let partitions: Vec<TopicPartition> = offsets.keys().cloned().collect();
        self.run(AlterShareOffsets { group, offsets }, partitions, timeout).await
    }

    /// Deletes what a share group knows of topics. `partitions` names all of each topic's: they go together.
    pub(super) async fn delete_share_offsets(
        &self,
        group: String,
        partitions: Vec<TopicPartition>,
        timeout: Duration,
    ) -> Result<Items<TopicPartition, ()>, ClientError> {
        let started = Instant::now();
        for (partition, offset) in self.share_offsets(&group, timeout).await? {
            // A partition of which nothing was acknowledged yet has no offset to delete.
            if offset.is_ok_and(|offset| offset.committed().is_none()) {
                continue;
            }
            let is_topic_named = partitions.iter().any(|named| named.topic == partition.topic);
            if is_topic_named && !partitions.contains(&partition) {
                let reason = format!("{group} is a share group, whose offsets go by topic; name {partition} too");
                return Err(ClientError::Argument(reason));
            }
        }
        let topics: Vec<String> = by_topic(&partitions).into_keys().map(str::to_owned).collect();
        let left = timeout.saturating_sub(started.elapsed());
        let outcomes: BTreeMap<_, _> =
            self.run(DeleteShareOffsets { group }, topics, left).await?.into_iter().collect();
        let outcome = |partition: TopicPartition| {
            let outcome = outcomes.get(&*partition.topic)?.clone();
            Some((partition, outcome))
        };
        Ok(partitions.into_iter().filter_map(outcome).collect())
    }
}

/// True if a broker says by this code that there is no share group of the name.
pub(super) fn is_of_another_type(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::GroupIdNotFound | ErrorCode::UnsupportedVersion)
}

struct DescribeShareGroups;

impl ItemCall for DescribeShareGroups {
    type Key = String;
    type Value = GroupDescription;

    fn what(&self, group: &String) -> String {
        format!("describing share group {group}")
    }

    fn subject(&self, group: &String) -> Subject {
        Subject::group(group)
    }

    fn recipient(&self, group: &String) -> Recipient {
        Recipient::Coordinator(group.clone())
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, groups: &[String]) -> CallResult<Self> {
        describe_share_groups(context, node, groups).await
    }
}

/// Asks the coordinator of these groups for those of them that are share groups.
pub(super) async fn describe_share_groups(
    context: &AdminContext,
    node: NodeId,
    groups: &[String],
) -> Result<Answers<String, GroupDescription>, Failure> {
    let build =
        |_| ShareGroupDescribeRequest { group_ids: groups.iter().map(String::as_str).collect(), ..Default::default() };
    let (frame, version) = context.call(node, ShareGroupDescribeRequest::VERSIONS, build).await?;
    let response = read::<ShareGroupDescribeRequest<'_>>(&frame, version)?;
    let answers = response.groups.iter().map(|group| {
        let outcome = Refusal::check(group.error_code, group.error_message);
        (group.group_id.to_owned(), outcome.map(|()| described(group)))
    });
    Ok(answers.collect())
}

fn described(group: &share_group_describe::DescribedGroup<'_>) -> GroupDescription {
    let member = |member: &share_group_describe::Member<'_>| {
        let topics = member.assignment.topic_partitions.iter();
        let each =
            topics.flat_map(|topic| topic.partitions.iter().map(|&index| TopicPartition::new(topic.topic_name, index)));
        let mut assignment: Vec<TopicPartition> = each.collect();
        assignment.sort();
        MemberDescription {
            member_id: member.member_id.to_owned(),
            client_id: member.client_id.to_owned(),
            host: member.client_host.to_owned(),
            rack: member.rack_id.map(str::to_owned),
            epoch: Some(member.member_epoch),
            topics: member.subscribed_topic_names.iter().map(|&topic| topic.to_owned()).collect(),
            assignment,
            ..Default::default()
        }
    };
    GroupDescription {
        state: group.group_state.to_owned(),
        kind: SHARE,
        protocol_type: SHARE.to_owned(),
        assignor: group.assignor_name.to_owned(),
        coordinator: None,
        epoch: Some(group.group_epoch),
        members: group.members.iter().map(member).collect(),
    }
}

struct DescribeShareOffsets;

impl ItemCall for DescribeShareOffsets {
    type Key = String;
    type Value = ShareOffsets;

    fn what(&self, group: &String) -> String {
        format!("listing the offsets of share group {group}")
    }

    fn subject(&self, group: &String) -> Subject {
        Subject::group(group)
    }

    fn recipient(&self, group: &String) -> Recipient {
        Recipient::Coordinator(group.clone())
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, groups: &[String]) -> CallResult<Self> {
        let group = |group_id| DescribeShareGroupOffsetsRequestGroup { group_id, topics: None, ..Default::default() };
        let build = |_| DescribeShareGroupOffsetsRequest {
            groups: groups.iter().map(|name| group(name.as_str())).collect(),
            ..Default::default()
        };
        let (frame, version) = context.call(node, DescribeShareGroupOffsetsRequest::VERSIONS, build).await?;
        let response = read::<DescribeShareGroupOffsetsRequest<'_>>(&frame, version)?;
        let answers = response.groups.iter().map(|group| {
            let outcome = Refusal::check(group.error_code, group.error_message);
            let partitions = group.topics.iter().flat_map(|topic| {
                topic
                    .partitions
                    .iter()
                    .map(|found| (TopicPartition::new(topic.topic_name, found.partition_index), found))
            });
            let offsets = partitions.map(|(partition, found)| {
                let offset = offset_of(group.group_id, &partition, found);
                (partition, offset)
            });
            (group.group_id.to_owned(), outcome.map(|()| offsets.collect()))
        });
        Ok(answers.collect())
    }
}

fn offset_of(
    group: &str,
    partition: &TopicPartition,
    found: &DescribeShareGroupOffsetsResponsePartition<'_>,
) -> Result<ShareOffset, ClientError> {
    let subject = || Subject { group: Some(group.to_owned()), ..Subject::partition(partition) };
    let what = || format!("listing the offset of share group {group} for {partition}");
    Refusal::check(found.error_code, found.error_message).map_err(|refusal| refused_of(what(), subject(), refusal))?;
    let known = |number: i64| (number >= 0).then_some(number);
    Ok(ShareOffset { start: known(found.start_offset), leader_epoch: found.leader_epoch, lag: known(found.lag) })
}

struct AlterShareOffsets {
    group: String,
    offsets: BTreeMap<TopicPartition, i64>,
}

impl ItemCall for AlterShareOffsets {
    type Key = TopicPartition;
    type Value = i64;

    fn what(&self, partition: &TopicPartition) -> String {
        format!("setting the offset of share group {} for {partition}", self.group)
    }

    fn subject(&self, partition: &TopicPartition) -> Subject {
        Subject { group: Some(self.group.clone()), ..Subject::partition(partition) }
    }

    fn recipient(&self, _: &TopicPartition) -> Recipient {
        Recipient::Coordinator(self.group.clone())
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, partitions: &[TopicPartition]) -> CallResult<Self> {
        let of = |partition: &TopicPartition| self.offsets.get(partition).copied().unwrap_or_default();
        let topic = |(topic_name, indexes): (_, Vec<i32>)| AlterShareGroupOffsetsRequestTopic {
            topic_name,
            partitions: indexes
                .into_iter()
                .map(|partition_index| AlterShareGroupOffsetsRequestPartition {
                    partition_index,
                    start_offset: of(&TopicPartition::new(topic_name, partition_index)),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        };
        let build = |_| AlterShareGroupOffsetsRequest {
            group_id: &self.group,
            topics: by_topic(partitions).into_iter().map(topic).collect(),
            ..Default::default()
        };
        let (frame, version) = context.call(node, AlterShareGroupOffsetsRequest::VERSIONS, build).await?;
        let response = read::<AlterShareGroupOffsetsRequest<'_>>(&frame, version)?;
        if let Err(refusal) = Refusal::check(response.error_code, response.error_message) {
            return Ok(refuse_all(partitions, &refusal));
        }
        let answers = response.responses.iter().flat_map(|topic| {
            topic.partitions.iter().map(|answer| {
                let partition = TopicPartition::new(topic.topic_name, answer.partition_index);
                let offset = of(&partition);
                (partition, Refusal::check(answer.error_code, answer.error_message).map(|()| offset))
            })
        });
        Ok(answers.collect())
    }
}

struct DeleteShareOffsets {
    group: String,
}

impl ItemCall for DeleteShareOffsets {
    type Key = String;
    type Value = ();

    fn what(&self, topic: &String) -> String {
        format!("deleting the offsets of share group {} for {topic}", self.group)
    }

    fn subject(&self, topic: &String) -> Subject {
        Subject { group: Some(self.group.clone()), ..Subject::topic(topic) }
    }

    fn recipient(&self, _: &String) -> Recipient {
        Recipient::Coordinator(self.group.clone())
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, topics: &[String]) -> CallResult<Self> {
        let topic = |topic_name| DeleteShareGroupOffsetsRequestTopic { topic_name, ..Default::default() };
        let build = |_| DeleteShareGroupOffsetsRequest {
            group_id: &self.group,
            topics: topics.iter().map(|name| topic(name.as_str())).collect(),
            ..Default::default()
        };
        let (frame, version) = context.call(node, DeleteShareGroupOffsetsRequest::VERSIONS, build).await?;
        let response = read::<DeleteShareGroupOffsetsRequest<'_>>(&frame, version)?;
        if let Err(refusal) = Refusal::check(response.error_code, response.error_message) {
            return Ok(refuse_all(topics, &refusal));
        }
        let answers = response.responses.iter();
        let checked = answers
            .map(|answer| (answer.topic_name.to_owned(), Refusal::check(answer.error_code, answer.error_message)));
        Ok(checked.collect())
    }
}
