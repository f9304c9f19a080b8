//! The world of a classic member: virtual time, and a coordinator whose answers the test chooses.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use monedula_engine::TopicPartition;
use monedula_engine::assign::{
    AssignError, Assignment, Assignor, MemberAssignment, MemberSubscription, Protocol, Topics, assignment_bytes,
    read_subscriptions,
};
use monedula_engine::group::MemberState as In;
use monedula_engine::group::classic::{ClassicConfig, ClassicState};
use monedula_engine::group::{Call, CallError, CallId, GroupResponse, Input, Member, TopicInfo};
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use crate::common::driver::member_config;
pub(crate) use crate::common::driver::{
    AUTO_COMMIT, BACKOFF, MAX_POLL, Offsets, Owed, SESSION, at, ms, offsets, secs, t,
};
use crate::common::member_world::MemberWorld;
pub(crate) use crate::common::member_world::{INTERVAL as HEARTBEAT, commit_codes, coordinator};

/// The name of an assignor that defers.
pub(crate) const DEFERS: &str = "defers";

/// An assignor that only has a name; the tests write its assignments.
pub(crate) struct Named(pub &'static str, pub Protocol);

impl Assignor for Named {
    fn name(&self) -> &str {
        self.0
    }

    fn protocol(&self) -> Protocol {
        self.1
    }

    fn defers(&self) -> bool {
        self.0 == DEFERS
    }

    fn assign(&self, _: &Topics, _: &[MemberSubscription]) -> Result<Assignment, AssignError> {
        Err(AssignError::Failed { assignor: self.0.into(), reason: "the test assigns".into() })
    }
}

pub(crate) fn config(protocol: Protocol) -> ClassicConfig {
    let name = if protocol == Protocol::Eager { "range" } else { "cooperative-sticky" };
    ClassicConfig {
        member: member_config(),
        assignors: vec![Arc::new(Named(name, protocol))],
        heartbeat_interval: HEARTBEAT,
    }
}

pub(crate) struct World {
    world: MemberWorld,
    assignor: String,
    /// The topics that the member got last.
    metadata: BTreeMap<Arc<str>, TopicInfo>,
}

/// The worlds of both machines share [`MemberWorld`].
impl Deref for World {
    type Target = MemberWorld;

    fn deref(&self) -> &MemberWorld {
        &self.world
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut MemberWorld {
        &mut self.world
    }
}

impl World {
    pub(crate) fn new(config: ClassicConfig) -> Self {
        Self::seeded(config, 7)
    }

    pub(crate) fn seeded(config: ClassicConfig, seed: u64) -> Self {
        let assignor = config.assignors[0].name().to_owned();
        Self { assignor, metadata: BTreeMap::new(), world: MemberWorld::new(Member::classic(config, seed)) }
    }

    /// A member that is subscribed to `t`; its coordinator is node 1.
    pub(crate) fn subscribed(config: ClassicConfig) -> Self {
        let mut world = Self::new(config);
        world.subscribe(&["t"]);
        world.find(1);
        world
    }

    /// A stable follower `m` in generation 1 with these partitions of `t`, each at offset 10.
    pub(crate) fn stable(config: ClassicConfig, partitions: &[i32]) -> Self {
        let mut world = Self::subscribed(config);
        world.rebalance(1, partitions);
        world.look_up(10);
        assert_eq!(world.state(), ClassicState::Stable);
        world.trace();
        world
    }

    pub(crate) fn state(&self) -> ClassicState {
        match self.member.status().state {
            In::Classic(state) => state,
            In::Consumer(state) => panic!("of the other machine: {state:?}"),
        }
    }

    /// Subscribes to topics that metadata has.
    pub(crate) fn subscribe(&mut self, topics: &[&str]) {
        self.know(topics);
        self.world.subscribe(topics);
    }

    /// Subscribes to topics that metadata does not have, unless the member got them before.
    pub(crate) fn subscribe_to_unknown(&mut self, topics: &[&str]) {
        self.world.subscribe(topics);
    }

    /// Subscribes to a pattern that matches topics that metadata has.
    pub(crate) fn match_topics(&mut self, topics: &[&str]) {
        self.know(topics);
        self.world.match_topics(topics);
    }

    /// Gives the member the topics that it has not got yet, as brokers do that have no topic ids.
    fn know(&mut self, topics: &[&str]) {
        let known = self.metadata.len();
        for &topic in topics {
            self.metadata.entry(topic.into()).or_insert(TopicInfo { id: Uuid::ZERO, partitions: 8 });
        }
        if self.metadata.len() > known {
            let topics = self.metadata.clone();
            self.put(Input::Topics { topics });
        }
    }

    pub(crate) fn topics(&mut self, counts: &[(&str, usize)]) {
        let old: Vec<_> = counts.iter().map(|&(topic, count)| (topic, 0, count)).collect();
        self.topics_by_id(&old);
    }

    /// As [`Self::topics`], each with its id; 0 if the broker has no topic ids.
    pub(crate) fn topics_by_id(&mut self, topics: &[(&str, u8, usize)]) {
        let info = |id, partitions| TopicInfo { id: Uuid([id; 16]), partitions };
        self.metadata = topics.iter().map(|&(topic, id, count)| (topic.into(), info(id, count))).collect();
        let topics = self.metadata.clone();
        self.put(Input::Topics { topics });
    }

    /// No connection could be made for this call.
    pub(crate) fn refuse(&mut self, id: CallId) {
        self.put(Input::Answer { id, outcome: Err(CallError::Unsent("connection refused".into())) });
    }

    /// Answers a JoinGroup as for a follower.
    pub(crate) fn join(&mut self, id: CallId, generation: i32) {
        let answer = self.joined(generation, "other", Vec::new());
        self.answer(id, answer);
    }

    pub(crate) fn joined(
        &self,
        generation: i32,
        leader: &str,
        members: Vec<(String, Option<String>, Vec<u8>)>,
    ) -> GroupResponse {
        GroupResponse::JoinGroup {
            code: ErrorCode::None,
            generation,
            member_id: "m".into(),
            leader: leader.into(),
            protocol_type: Some("consumer".into()),
            protocol: Some(self.assignor.clone()),
            skip_assignment: false,
            members,
        }
    }

    /// Answers JoinGroup and SyncGroup.
    #[track_caller]
    pub(crate) fn rebalance(&mut self, generation: i32, partitions: &[i32]) {
        let (id, _) = self.call("JoinGroup");
        self.join(id, generation);
        let (id, _) = self.call("SyncGroup");
        self.answer(id, synced(partitions));
    }

    /// Lets an interval pass, and answers the next heartbeat.
    #[track_caller]
    pub(crate) fn beat(&mut self, code: ErrorCode) {
        self.pass(HEARTBEAT);
        let (id, _) = self.call("Heartbeat");
        self.answer(id, GroupResponse::Heartbeat { code });
    }

    /// Checks that exactly one call is waiting, of this API.
    #[track_caller]
    pub(crate) fn no_call_but(&self, api: &str) {
        assert_eq!(self.apis(), [api]);
    }

    /// As [`Self::call`], but drops heartbeats before the call.
    #[track_caller]
    pub(crate) fn call_past_heartbeats(&mut self, api: &str) -> (CallId, Call) {
        while api != "Heartbeat" && self.apis().first() == Some(&"Heartbeat") {
            self.calls.pop_front();
        }
        self.call(api)
    }

    /// The user asks for a rebalance.
    pub(crate) fn rejoin(&mut self) {
        let at = self.now;
        self.put(Input::Rejoin { at, reason: "the user wants it".into() });
    }
}

pub(crate) fn join_error(code: ErrorCode, member_id: &str) -> GroupResponse {
    GroupResponse::JoinGroup {
        code,
        generation: -1,
        member_id: member_id.into(),
        leader: String::new(),
        protocol_type: None,
        protocol: None,
        skip_assignment: false,
        members: Vec::new(),
    }
}

pub(crate) fn assignment(partitions: &[TopicPartition]) -> Vec<u8> {
    let assignment = MemberAssignment { partitions: partitions.to_vec(), user_data: None };
    assignment_bytes(&assignment).expect("it encodes")
}

pub(crate) fn synced(partitions: &[i32]) -> GroupResponse {
    let partitions: Vec<TopicPartition> = partitions.iter().map(|&partition| t(partition)).collect();
    GroupResponse::SyncGroup {
        code: ErrorCode::None,
        protocol_type: Some("consumer".into()),
        protocol: None,
        assignment: assignment(&partitions),
    }
}

pub(crate) fn sync_error(code: ErrorCode) -> GroupResponse {
    GroupResponse::SyncGroup { code, protocol_type: None, protocol: None, assignment: Vec::new() }
}

/// The subscription in a JoinGroup.
pub(crate) fn subscription(call: &Call) -> MemberSubscription {
    let Call::JoinGroup { protocols, .. } = call else { panic!("{call:?}") };
    let member = ("m".into(), None, protocols[0].1.clone());
    read_subscriptions(&[member]).expect("it decodes").remove(0)
}

/// Member id and generation that a call carries.
pub(crate) fn identity(call: &Call) -> (&str, i32) {
    match call {
        Call::JoinGroup { member_id, .. } | Call::LeaveGroup { member_id, .. } => (member_id, -1),
        Call::SyncGroup { member_id, generation, .. }
        | Call::Heartbeat { member_id, generation, .. }
        | Call::OffsetCommit { member_id, generation_or_epoch: generation, .. } => (member_id, *generation),
        Call::ConsumerGroupHeartbeat(_)
        | Call::ShareGroupHeartbeat(_)
        | Call::FindCoordinator { .. }
        | Call::OffsetFetch { .. } => ("", -1),
    }
}
