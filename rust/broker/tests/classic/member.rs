//! A test member of a classic group, which sends its requests one by one.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::describe_groups::{DescribeGroupsRequest, DescribedGroup};
use monedula_protocol::messages::find_coordinator::FindCoordinatorRequest;
use monedula_protocol::messages::heartbeat::HeartbeatRequest;
use monedula_protocol::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse};
use monedula_protocol::messages::leave_group::{LeaveGroupRequest, MemberIdentity};
use monedula_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use monedula_protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use monedula_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponsePartitions,
};
use monedula_protocol::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse};

use crate::support::{Pending, World};

/// The default session timeout of members.
pub(crate) const SESSION_MS: i32 = 10_000;
/// The default rebalance timeout of members.
pub(crate) const REBALANCE_MS: i32 = 60_000;

pub(crate) type JoinWaiting = Pending<JoinGroupRequest<'static>>;
pub(crate) type SyncWaiting = Pending<SyncGroupRequest<'static>>;

/// A member of a classic group.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) group: &'static str,
    /// The node that it sends its requests to.
    pub(crate) node: i32,
    pub(crate) id: String,
    pub(crate) instance: Option<&'static str>,
    pub(crate) generation: i32,
    pub(crate) session_ms: i32,
    pub(crate) rebalance_ms: i32,
    pub(crate) protocol_type: &'static str,
    pub(crate) protocols: Vec<(&'static str, Vec<u8>)>,
    pub(crate) version: i16,
}

impl Member {
    pub(crate) fn new(world: &mut World, group: &'static str) -> Self {
        Self {
            group,
            node: coordinator(world, group),
            id: String::new(),
            instance: None,
            generation: -1,
            session_ms: SESSION_MS,
            rebalance_ms: REBALANCE_MS,
            protocol_type: "consumer",
            protocols: vec![("range", subscription(&["orders"]))],
            version: 9,
        }
    }

    pub(crate) fn fixed(world: &mut World, group: &'static str, instance: &'static str) -> Self {
        Self { instance: Some(instance), ..Self::new(world, group) }
    }

    /// Sends one JoinGroup, without a second one after MEMBER_ID_REQUIRED.
    pub(crate) fn send_join(&self, world: &mut World) -> JoinWaiting {
        let protocols = self.protocols.iter().map(|(name, metadata)| JoinGroupRequestProtocol {
            name: leak(name),
            metadata: leak_bytes(metadata),
            ..Default::default()
        });
        let request = JoinGroupRequest {
            group_id: self.group,
            session_timeout_ms: self.session_ms,
            rebalance_timeout_ms: if self.version == 0 { -1 } else { self.rebalance_ms },
            member_id: leak(&self.id),
            group_instance_id: self.instance,
            protocol_type: self.protocol_type,
            protocols: protocols.collect(),
            ..Default::default()
        };
        world.send(self.node, &request, self.version)
    }

    /// Joins. If the answer is MEMBER_ID_REQUIRED, joins again with the assigned id.
    pub(crate) fn join(&mut self, world: &mut World) -> JoinWaiting {
        let waiting = self.send_join(world);
        if !self.id.is_empty() || self.instance.is_some() || self.version < 4 {
            return waiting;
        }
        let answer = world.take(&waiting).unwrap();
        assert_eq!(ErrorCode::from_code(answer.error_code), ErrorCode::MemberIdRequired);
        self.id = answer.member_id.to_owned();
        self.send_join(world)
    }

    /// Takes the answer of a join, which must be complete and without an error.
    #[track_caller]
    pub(crate) fn joined(&mut self, world: &mut World, waiting: &JoinWaiting) -> JoinGroupResponse<'static> {
        let answer = world.take(waiting).expect("the join waits still");
        assert_eq!(ErrorCode::from_code(answer.error_code), ErrorCode::None, "{answer:?}");
        self.id = answer.member_id.to_owned();
        self.generation = answer.generation_id;
        answer
    }

    pub(crate) fn send_sync(&self, world: &mut World, assignments: &[(&str, &[u8])]) -> SyncWaiting {
        let assignments = assignments.iter().map(|(id, bytes)| SyncGroupRequestAssignment {
            member_id: leak(id),
            assignment: leak_bytes(bytes),
            ..Default::default()
        });
        let request = SyncGroupRequest {
            group_id: self.group,
            generation_id: self.generation,
            member_id: leak(&self.id),
            group_instance_id: self.instance,
            assignments: assignments.collect(),
            ..Default::default()
        };
        // From version 5 on, a SyncGroup must have the protocol type and name.
        world.send(self.node, &request, 4)
    }

    /// Takes the answer of a sync, which must be complete and without an error.
    #[track_caller]
    pub(crate) fn synced(&self, world: &mut World, waiting: &SyncWaiting) -> SyncGroupResponse<'static> {
        let answer = world.take(waiting).expect("the sync waits still");
        assert_eq!(ErrorCode::from_code(answer.error_code), ErrorCode::None, "{answer:?}");
        answer
    }

    pub(crate) fn heartbeat(&self, world: &mut World) -> ErrorCode {
        let request = HeartbeatRequest {
            group_id: self.group,
            generation_id: self.generation,
            member_id: leak(&self.id),
            group_instance_id: self.instance,
            ..Default::default()
        };
        ErrorCode::from_code(world.call(self.node, &request, 4).error_code)
    }

    pub(crate) fn leave(&self, world: &mut World) -> ErrorCode {
        let member = MemberIdentity { member_id: leak(&self.id), ..Default::default() };
        let request = LeaveGroupRequest { group_id: self.group, members: vec![member], ..Default::default() };
        let answer = world.call(self.node, &request, 5);
        assert_eq!(answer.error_code, 0);
        ErrorCode::from_code(answer.members[0].error_code)
    }

    pub(crate) fn commit(&self, world: &mut World, partition: i32, offset: i64) -> ErrorCode {
        self.commit_with(world, partition, offset, None)
    }

    pub(crate) fn commit_with(
        &self,
        world: &mut World,
        partition: i32,
        offset: i64,
        metadata: Option<&'static str>,
    ) -> ErrorCode {
        let partition = OffsetCommitRequestPartition {
            partition_index: partition,
            committed_offset: offset,
            committed_metadata: metadata,
            ..Default::default()
        };
        let topic = OffsetCommitRequestTopic { name: "orders", partitions: vec![partition], ..Default::default() };
        let request = OffsetCommitRequest {
            group_id: self.group,
            generation_id_or_member_epoch: self.generation,
            member_id: leak(&self.id),
            group_instance_id: self.instance,
            topics: vec![topic],
            ..Default::default()
        };
        let answer = world.call(self.node, &request, 9);
        ErrorCode::from_code(answer.topics[0].partitions[0].error_code)
    }
}

/// Makes the group stable: all members join and sync, and the leader assigns each member its own id.
#[track_caller]
pub(crate) fn settle(world: &mut World, members: &mut [&mut Member]) {
    let waiting: Vec<_> = members.iter_mut().map(|member| member.join(world)).collect();
    finish(world, members, &waiting);
}

/// Completes a rebalance after the joins: takes their answers, and syncs.
#[track_caller]
pub(crate) fn finish(world: &mut World, members: &mut [&mut Member], waiting: &[JoinWaiting]) {
    let mut leader = String::new();
    for (member, waiting) in members.iter_mut().zip(waiting) {
        leader = member.joined(world, waiting).leader.to_owned();
    }
    let ids: Vec<_> = members.iter().map(|member| member.id.clone()).collect();
    let assignments: Vec<_> = ids.iter().map(|id| (id.as_str(), id.as_bytes())).collect();
    let syncs: Vec<_> = members
        .iter()
        .map(|member| member.send_sync(world, if member.id == leader { &assignments } else { &[] }))
        .collect();
    for (member, sync) in members.iter().zip(&syncs) {
        assert_eq!(member.synced(world, sync).assignment, member.id.as_bytes());
    }
}

/// The node that coordinates a group.
pub(crate) fn coordinator(world: &mut World, group: &'static str) -> i32 {
    let request = FindCoordinatorRequest { coordinator_keys: vec![group], ..Default::default() };
    let mut answer = world.call(1, &request, 6);
    // The first request of a cluster makes the coordinators.
    if answer.coordinators[0].error_code == ErrorCode::CoordinatorNotAvailable.code() {
        answer = world.call(1, &request, 6);
    }
    assert_eq!(answer.coordinators[0].error_code, 0);
    answer.coordinators[0].node_id
}

/// Creates the topic that members subscribe to.
pub(crate) fn make_topic(world: &mut World, name: &'static str) {
    let topic = MetadataRequestTopic { name: Some(name), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![topic]), allow_auto_topic_creation: true, ..Default::default() };
    world.call(1, &request, 9);
}

/// The committed offset of a group for a partition of `orders`.
pub(crate) fn fetch(world: &mut World, group: &'static str, partition: i32) -> OffsetFetchResponsePartitions<'static> {
    let topic = OffsetFetchRequestTopics { name: "orders", partition_indexes: vec![partition], ..Default::default() };
    let wanted = OffsetFetchRequestGroup { group_id: group, topics: Some(vec![topic]), ..Default::default() };
    let node = coordinator(world, group);
    let answer = world.call(node, &OffsetFetchRequest { groups: vec![wanted], ..Default::default() }, 8);
    assert_eq!(answer.groups[0].error_code, 0);
    answer.groups[0].topics[0].partitions[0].clone()
}

/// A consumer's subscription in version 0.
pub(crate) fn subscription(topics: &[&str]) -> Vec<u8> {
    let mut bytes = vec![0, 0];
    bytes.extend((topics.len() as i32).to_be_bytes());
    for topic in topics {
        bytes.extend((topic.len() as i16).to_be_bytes());
        bytes.extend(topic.as_bytes());
    }
    bytes.extend((-1i32).to_be_bytes());
    bytes
}

/// Leaks a text, because requests borrow for as long as their answers are pending. That is a few bytes in each test.
pub(crate) fn leak(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

pub(crate) fn leak_bytes(bytes: &[u8]) -> &'static [u8] {
    Box::leak(bytes.to_vec().into_boxed_slice())
}

impl Member {
    /// Joins, which must be refused at once. Returns the error.
    #[track_caller]
    pub(crate) fn refused_join(&self, world: &mut World) -> ErrorCode {
        let waiting = self.send_join(world);
        ErrorCode::from_code(world.take(&waiting).expect("the join waits").error_code)
    }

    /// Advances the time, sending heartbeats.
    #[track_caller]
    pub(crate) fn keep_alive(&self, world: &mut World, for_ms: i64) {
        let step_ms = i64::from(self.session_ms) / 3;
        let mut left_ms = for_ms;
        while left_ms > 0 {
            world.advance(step_ms.min(left_ms));
            left_ms -= step_ms;
            assert_eq!(self.heartbeat(world), ErrorCode::None);
        }
    }

    /// The leader of the generation, from the answer to another join before the leader has sent the assignment.
    #[track_caller]
    pub(crate) fn generation_leader(&mut self, world: &mut World) -> String {
        let waiting = self.join(world);
        self.joined(world, &waiting).leader.to_owned()
    }
}

/// Lets all members join, into one generation: the first to join an empty group gets a generation of its own, and joins
/// again.
#[track_caller]
pub(crate) fn join_all(world: &mut World, members: &mut [&mut Member]) -> Vec<JoinWaiting> {
    let mut waiting: Vec<_> = members.iter_mut().map(|member| member.join(world)).collect();
    for (member, waiting) in members.iter_mut().zip(&mut waiting) {
        if !world.waits(waiting) && members_wait(world, member) {
            member.joined(world, waiting);
            *waiting = member.join(world);
        }
    }
    waiting
}

fn members_wait(world: &mut World, member: &Member) -> bool {
    state(world, member.group) == "PreparingRebalance"
}

/// The answer to DescribeGroups.
pub(crate) fn describe(world: &mut World, group: &'static str) -> DescribedGroup<'static> {
    let request = DescribeGroupsRequest { groups: vec![group], ..Default::default() };
    let node = coordinator(world, group);
    world.call(node, &request, 5).groups[0].clone()
}

/// The group's state.
pub(crate) fn state(world: &mut World, group: &'static str) -> &'static str {
    describe(world, group).group_state
}
