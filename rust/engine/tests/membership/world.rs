//! The world of a member under KIP-848: virtual time, and a coordinator whose answers the test chooses.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::group::MemberState as In;
use monedula_engine::group::consumer::{ConsumerProtocolConfig, ConsumerState};
use monedula_engine::group::{
    Call, CallError, CallId, GroupResponse, HeartbeatCall, Input, Member, Partitions, Subscription, TopicInfo,
};
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

pub(crate) use crate::common::driver::{AUTO_COMMIT, BACKOFF, MAX_POLL, Owed, SESSION, at, ms, offsets, secs, t};
use crate::common::driver::{WAKES_PER_INSTANT, member_config};
use crate::common::member_world::MemberWorld;
pub(crate) use crate::common::member_world::{INTERVAL, beat, commit_codes, coordinator};

pub(crate) const MEMBER: &str = "Bb6rqoyHQ1mzDXWcLb1Yxg";
/// The id of a topic: `t` has 1, `u` has 2, and `x` one that no metadata knows.
pub(crate) fn id(topic: &str) -> Uuid {
    Uuid([topic.as_bytes()[0]; 16])
}

/// Partitions of `t`, as the protocol names them.
pub(crate) fn ids(partitions: &[i32]) -> Partitions {
    of("t", partitions)
}

pub(crate) fn of(topic: &str, partitions: &[i32]) -> Partitions {
    partitions.iter().map(|&partition| (id(topic), partition)).collect()
}

pub(crate) fn names(topics: &[&str]) -> BTreeSet<Arc<str>> {
    topics.iter().map(|&topic| topic.into()).collect()
}

pub(crate) fn config() -> ConsumerProtocolConfig {
    ConsumerProtocolConfig { member: member_config(), assignor: None, falls_back: false }
}

/// A static member.
pub(crate) fn fixed() -> ConsumerProtocolConfig {
    let mut fixed = config();
    fixed.member.instance_id = Some("i".into());
    fixed
}

/// Without auto-commit.
pub(crate) fn by_hand() -> ConsumerProtocolConfig {
    let mut by_hand = config();
    by_hand.member.auto_commit_interval = None;
    by_hand
}

pub(crate) struct World {
    world: MemberWorld,
    /// Whether the member gets metadata at once when it asks for it.
    pub metadata: BTreeMap<Arc<str>, TopicInfo>,
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
    pub(crate) fn new(config: ConsumerProtocolConfig) -> Self {
        Self::seeded(config, 7)
    }

    pub(crate) fn seeded(config: ConsumerProtocolConfig, seed: u64) -> Self {
        let metadata = [("t".into(), TopicInfo { id: id("t"), partitions: 4 })].into();
        Self { metadata, world: MemberWorld::new(Member::consumer(config, MEMBER.into(), seed)) }
    }

    /// A member that is subscribed to `t`, has its metadata, and whose coordinator is node 1.
    pub(crate) fn subscribed(config: ConsumerProtocolConfig) -> Self {
        let mut world = Self::new(config);
        world.subscribe(&["t"]);
        world.learn();
        world.find(1);
        world
    }

    /// A stable member in epoch 1 with these partitions of `t`, each at offset 10, all acknowledged.
    pub(crate) fn stable(config: ConsumerProtocolConfig, partitions: &[i32]) -> Self {
        let mut world = Self::subscribed(config);
        world.assigned(1, &ids(partitions));
        if !partitions.is_empty() {
            world.look_up(10);
        }
        assert_eq!(world.state(), ConsumerState::Stable);
        // The acknowledgement was sent upon the answer; its own answer changes nothing.
        world.no_call();
        world.trace();
        world
    }

    /// Answers the heartbeat in flight with a target, and then all heartbeats that follow from it.
    #[track_caller]
    pub(crate) fn assigned(&mut self, epoch: i32, target: &Partitions) {
        let (id, _) = self.heartbeat();
        self.ok(id, epoch, Some(target));
        self.settle_heartbeats(epoch);
    }

    pub(crate) fn state(&self) -> ConsumerState {
        match self.member.status().state {
            In::Consumer(state) => state,
            In::Classic(state) => panic!("of the classic machine: {state:?}"),
        }
    }

    /// Answers heartbeats with this epoch as long as one is waiting.
    pub(crate) fn settle_heartbeats(&mut self, epoch: i32) {
        for _ in 0..WAKES_PER_INSTANT {
            if !self.apis().contains(&"ConsumerGroupHeartbeat") {
                return;
            }
            let (id, _) = self.heartbeat();
            self.ok(id, epoch, None);
        }
        panic!("heartbeats without end in {:?}", self.state());
    }

    /// Takes the first heartbeat that was sent.
    #[track_caller]
    pub(crate) fn heartbeat(&mut self) -> (CallId, HeartbeatCall) {
        match self.call("ConsumerGroupHeartbeat") {
            (id, Call::ConsumerGroupHeartbeat(call)) => (id, call),
            (_, call) => panic!("{call:?}"),
        }
    }

    /// Lets an interval pass, and takes the next heartbeat.
    #[track_caller]
    pub(crate) fn next_heartbeat(&mut self) -> (CallId, HeartbeatCall) {
        self.pass(INTERVAL);
        self.heartbeat()
    }

    /// An answer without an error.
    pub(crate) fn ok(&mut self, id: CallId, epoch: i32, target: Option<&Partitions>) {
        self.answer(id, beat(epoch, target.cloned()));
    }

    pub(crate) fn refuse(&mut self, id: CallId, code: ErrorCode) {
        self.answer(id, refused(code));
    }

    /// The call can never be sent.
    pub(crate) fn never(&mut self, id: CallId) {
        self.put(Input::Answer { id, outcome: Err(CallError::Never("no version in common".into())) });
    }

    pub(crate) fn subscribe_regex(&mut self, regex: &str) {
        self.put(Input::Subscribe(Subscription::Regex(regex.into())));
    }

    /// The member gets the metadata.
    pub(crate) fn learn(&mut self) {
        let topics = self.metadata.clone();
        self.put(Input::Topics { topics });
    }

    /// Adds a topic, and gives the member its metadata.
    pub(crate) fn topic(&mut self, topic: &str, partitions: usize) {
        self.topic_with(topic, id(topic), partitions);
    }

    pub(crate) fn topic_with(&mut self, topic: &str, id: Uuid, partitions: usize) {
        self.metadata.insert(topic.into(), TopicInfo { id, partitions });
        self.learn();
    }

    /// Lets an interval pass, and answers the next heartbeat with an error.
    #[track_caller]
    pub(crate) fn refuse_next(&mut self, code: ErrorCode) {
        let (id, _) = self.next_heartbeat();
        self.refuse(id, code);
    }

    /// Lets an interval pass, and answers the next heartbeat with a target.
    #[track_caller]
    pub(crate) fn target(&mut self, epoch: i32, target: &Partitions) {
        let (id, _) = self.next_heartbeat();
        self.trace();
        self.ok(id, epoch, Some(target));
    }
}

pub(crate) fn refused(code: ErrorCode) -> GroupResponse {
    let message = "in the broker's words".into();
    GroupResponse::ConsumerGroupHeartbeat { code, message, epoch: 0, interval: Duration::ZERO, assignment: None }
}

/// Whether a heartbeat has all fields.
pub(crate) fn is_full(call: &HeartbeatCall) -> bool {
    let all = [call.rebalance_timeout.is_some(), call.topics.is_some(), call.owned.is_some()];
    assert!(all.iter().all(|it| *it) || !all[0], "{call:?}");
    all[0]
}
