//! The membership: joining, assignments, fencing, leaving.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use monedula_engine::Now;
use monedula_engine::backoff::Backoff;
use monedula_engine::group::share::{ShareMember, ShareMemberConfig, ShareState};
use monedula_engine::group::{
    Call, CallError, CallId, GroupError, GroupResponse, HeartbeatCall, Input, Output, Partitions, Subscription,
    TopicInfo,
};
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use crate::common::member_world::{INTERVAL, coordinator};
use crate::world::{BACKOFF, ms, secs, t};

const MEMBER: &str = "Bb6rqoyHQ1mzDXWcLb1Yxg";
const T: Uuid = Uuid([b't'; 16]);
const U: Uuid = Uuid([b'u'; 16]);

struct World {
    member: ShareMember,
    now: Now,
    calls: VecDeque<(CallId, Call)>,
    outputs: Vec<Output>,
}

impl World {
    fn new() -> Self {
        let backoff = Backoff { initial: ms(100), max: ms(1000), factor: 2 };
        let config = ShareMemberConfig { group_id: "g".into(), rack: Some("r".into()), backoff };
        let member = ShareMember::new(config, MEMBER.into(), 7);
        Self { member, now: secs(1000), calls: VecDeque::new(), outputs: Vec::new() }
    }

    /// Subscribes to `t`, of which metadata knows, and has found its coordinator.
    fn joining() -> Self {
        let mut world = Self::new();
        world.put(Input::Subscribe(Subscription::Topics(["t".into()].into())));
        world.know(&[("t", T)]);
        let (id, _) = world.call();
        world.answer(id, coordinator(ErrorCode::None, 1));
        world
    }

    /// In the group with epoch 1, and with these partitions of `t`.
    fn stable(partitions: &[i32]) -> Self {
        let mut world = Self::joining();
        world.beat(1, Some(of(T, partitions)));
        world.outputs.clear();
        world
    }

    fn put(&mut self, input: Input) {
        self.member.handle(self.now, input);
        while let Some(output) = self.member.poll() {
            match output {
                Output::Call { id, call, .. } => self.calls.push_back((id, call)),
                Output::Event(_) => {}
                output => self.outputs.push(output),
            }
        }
    }

    fn pass(&mut self, time: Now) {
        let end = self.now + time;
        while let Some(wake) = self.member.wake_at().filter(|wake| *wake <= end) {
            self.now = self.now.max(wake);
            self.put(Input::Tick);
            if self.member.wake_at() == Some(wake) {
                break;
            }
        }
        self.now = end;
        self.put(Input::Tick);
    }

    fn know(&mut self, topics: &[(&str, Uuid)]) {
        let infos = topics.iter().map(|&(name, id)| (name.into(), TopicInfo { id, partitions: 4 }));
        let topics: BTreeMap<Arc<str>, TopicInfo> = infos.collect();
        self.put(Input::Topics { topics });
    }

    #[track_caller]
    fn call(&mut self) -> (CallId, Call) {
        self.calls.pop_front().expect("a call")
    }

    #[track_caller]
    fn heartbeat(&mut self) -> (CallId, HeartbeatCall) {
        match self.call() {
            (id, Call::ShareGroupHeartbeat(call)) => (id, call),
            other => panic!("{other:?}"),
        }
    }

    fn answer(&mut self, id: CallId, answer: GroupResponse) {
        self.put(Input::Answer { id, outcome: Ok(answer) });
    }

    /// Answers the heartbeat in flight.
    #[track_caller]
    fn beat(&mut self, epoch: i32, assignment: Option<Partitions>) {
        let (id, _) = self.heartbeat();
        self.answer(id, answered(ErrorCode::None, epoch, assignment));
    }

    #[track_caller]
    fn refuse(&mut self, code: ErrorCode) {
        let (id, _) = self.heartbeat();
        self.answer(id, answered(code, 0, None));
    }

    fn lose(&mut self, id: CallId) {
        self.put(Input::Answer { id, outcome: Err(CallError::Lost("the connection was lost".into())) });
    }

    fn assigned(&self) -> Vec<i32> {
        self.member.assigned().keys().map(|at| at.partition).collect()
    }

    fn state(&self) -> ShareState {
        self.member.status().state
    }

    fn raised(&self) -> Vec<(&GroupError, bool)> {
        let raised = self.outputs.iter().filter_map(|output| match output {
            Output::Raise { error, fatal } => Some((error, *fatal)),
            _ => None,
        });
        raised.collect()
    }
}

fn of(id: Uuid, partitions: &[i32]) -> Partitions {
    partitions.iter().map(|&partition| (id, partition)).collect()
}

fn answered(code: ErrorCode, epoch: i32, assignment: Option<Partitions>) -> GroupResponse {
    GroupResponse::ConsumerGroupHeartbeat { code, message: String::new(), epoch, interval: INTERVAL, assignment }
}

#[test]
fn a_join_has_epoch_0_the_rack_and_the_topics_and_later_heartbeats_have_neither() {
    let mut world = World::joining();
    let (id, call) = world.heartbeat();
    assert_eq!((call.member_id.as_str(), call.epoch, call.rack.as_deref()), (MEMBER, 0, Some("r")));
    assert_eq!(call.topics, Some(["t".into()].into()));
    world.answer(id, answered(ErrorCode::None, 4, None));
    assert_eq!(world.state(), ShareState::Stable);
    world.pass(INTERVAL);
    let (_, call) = world.heartbeat();
    assert_eq!((call.epoch, call.topics, call.rack), (4, None, None));
}

#[test]
fn an_assignment_is_taken_at_once_and_replaces_the_one_before() {
    let mut world = World::joining();
    world.beat(1, Some(of(T, &[0, 1])));
    assert_eq!(world.assigned(), [0, 1]);
    assert_eq!(world.outputs, [Output::Assigned { partitions: [t(0), t(1)].into() }]);
    world.outputs.clear();
    world.pass(INTERVAL);
    world.beat(2, Some(of(T, &[1, 2])));
    let (released, added) = ([t(0)].into(), [t(2)].into());
    let changes = [Output::Released { partitions: released, are_lost: false }, Output::Assigned { partitions: added }];
    assert_eq!(world.outputs, changes);
    world.pass(INTERVAL);
    world.beat(2, None);
    assert_eq!(world.assigned(), [1, 2], "nothing has changed");
}

// The state of a partition is initialized before it is assigned: a new group has none at first.
#[test]
fn heartbeats_are_more_frequent_after_a_join() {
    let mut world = World::stable(&[]);
    world.pass(INTERVAL / 4);
    world.beat(1, None);
    for _ in 0..12 {
        world.pass(INTERVAL / 4);
        while !world.calls.is_empty() {
            world.beat(1, None);
        }
    }
    world.pass(INTERVAL / 2);
    assert!(world.calls.is_empty(), "not for long");
}

// The coordinator does not repeat an assignment.
#[test]
fn partitions_of_a_topic_whose_name_is_not_known_wait_for_it() {
    let mut world = World::stable(&[0]);
    world.put(Input::Subscribe(Subscription::Topics(["t".into(), "u".into()].into())));
    world.beat(2, Some([of(T, &[0]), of(U, &[0])].concat_all()));
    assert_eq!(world.assigned(), [0]);
    assert_eq!(world.outputs, [Output::RefreshMetadata]);
    world.pass(BACKOFF);
    assert!(world.outputs.len() > 1, "it asks again");
    assert_eq!(world.member.status().unresolved, [U].into());
    world.know(&[("t", T), ("u", U)]);
    assert_eq!(world.member.assigned().len(), 2);
    world.outputs.clear();
    world.pass(secs(2));
    assert!(world.outputs.is_empty(), "all names are known");
}

trait ConcatAll {
    fn concat_all(self) -> Partitions;
}

impl<const N: usize> ConcatAll for [Partitions; N] {
    fn concat_all(self) -> Partitions {
        self.into_iter().flatten().collect()
    }
}

#[test]
fn a_member_that_is_fenced_joins_again_with_its_id_and_epoch_0() {
    for code in [ErrorCode::UnknownMemberId, ErrorCode::FencedMemberEpoch, ErrorCode::GroupIdNotFound] {
        let mut world = World::stable(&[0]);
        world.pass(INTERVAL);
        world.refuse(code);
        assert_eq!((world.state(), world.assigned()), (ShareState::Joining, vec![]), "{code:?}");
        world.pass(BACKOFF);
        let (_, call) = world.heartbeat();
        assert_eq!((call.member_id.as_str(), call.epoch, call.topics.is_some()), (MEMBER, 0, true), "{code:?}");
    }
}

#[test]
fn a_group_of_another_kind_ends_the_membership() {
    let mut world = World::joining();
    world.refuse(ErrorCode::GroupIdNotFound);
    assert!(matches!(&world.raised()[..], [(GroupError::NoShareGroup { .. }, true)]));
    assert_eq!(world.state(), ShareState::Fatal);
}

#[test]
fn a_broker_without_share_groups_ends_the_membership() {
    let mut world = World::joining();
    let (id, _) = world.heartbeat();
    world.put(Input::Answer { id, outcome: Err(CallError::Never("no common version".into())) });
    assert!(matches!(&world.raised()[..], [(GroupError::NoShareGroups { .. }, true)]));
    assert_eq!(world.member.wake_at(), None);
}

#[test]
fn a_denied_topic_is_told_once_and_the_member_goes_on_trying() {
    let mut world = World::joining();
    for _ in 0..3 {
        world.refuse(ErrorCode::TopicAuthorizationFailed);
        world.pass(BACKOFF);
    }
    assert!(matches!(&world.raised()[..], [(GroupError::TopicDenied { .. }, false)]));
    world.beat(1, Some(of(T, &[0])));
    assert_eq!(world.state(), ShareState::Stable);
}

// The answer that was lost may have had an assignment, which a coordinator repeats for epoch 0 alone.
#[test]
fn heartbeats_after_one_that_was_lost_join_again_and_keep_what_is_read() {
    let mut world = World::stable(&[0]);
    world.pass(INTERVAL);
    let (id, _) = world.heartbeat();
    world.lose(id);
    let (id, _) = world.call();
    world.answer(id, coordinator(ErrorCode::None, 2));
    world.pass(BACKOFF);
    for _ in 0..3 {
        let (id, call) = world.heartbeat();
        assert_eq!((call.epoch, call.topics), (0, Some(["t".into()].into())));
        world.answer(id, answered(ErrorCode::None, 1, Some(of(T, &[0]))));
        world.pass(INTERVAL);
    }
    assert_eq!(world.assigned(), [0], "it keeps what it reads meanwhile");
}

#[test]
fn a_coordinator_that_moved_is_found_again() {
    let mut world = World::stable(&[0]);
    world.pass(INTERVAL);
    world.refuse(ErrorCode::NotCoordinator);
    let (id, call) = world.call();
    assert!(matches!(call, Call::FindCoordinator { .. }));
    world.answer(id, coordinator(ErrorCode::None, 2));
    let (_, call) = world.heartbeat();
    assert_eq!(call.epoch, 1);
}

#[test]
fn a_coordinator_that_never_answers_counts_as_dead_after_the_session() {
    let mut world = World::stable(&[0]);
    world.pass(secs(46));
    let (_, _) = world.heartbeat();
    assert!(matches!(world.call().1, Call::FindCoordinator { .. }));
    assert_eq!(world.assigned(), [0]);
}

#[test]
fn closing_leaves_with_epoch_minus_1_and_ends_with_the_answer() {
    let mut world = World::stable(&[0]);
    world.put(Input::Close { deadline: world.now + secs(5), leave: true });
    let (id, call) = world.heartbeat();
    assert_eq!((call.epoch, call.topics), (-1, None));
    assert!(!world.outputs.contains(&Output::Closed));
    world.answer(id, answered(ErrorCode::None, -1, None));
    assert_eq!(world.outputs.last(), Some(&Output::Closed));
    assert_eq!((world.state(), world.member.wake_at()), (ShareState::Unsubscribed, None));
}

#[test]
fn closing_ends_at_its_deadline_and_at_once_outside_of_the_group() {
    let mut world = World::stable(&[0]);
    world.put(Input::Close { deadline: world.now + secs(5), leave: true });
    world.pass(secs(5));
    assert_eq!(world.outputs.last(), Some(&Output::Closed));
    let mut world = World::new();
    world.put(Input::Close { deadline: world.now + secs(5), leave: true });
    assert_eq!(world.outputs, [Output::Closed]);
}

#[test]
fn a_member_that_leaves_may_subscribe_again() {
    let mut world = World::stable(&[0]);
    world.put(Input::Unsubscribe);
    let (id, _) = world.heartbeat();
    world.put(Input::Subscribe(Subscription::Topics(["t".into()].into())));
    assert!(world.calls.is_empty(), "first it has left");
    world.answer(id, answered(ErrorCode::None, -1, None));
    assert_eq!(world.state(), ShareState::Joining);
    world.put(Input::Tick);
    assert_eq!(world.heartbeat().1.epoch, 0);
}

#[test]
fn each_error_code_in_the_answer_to_a_heartbeat_leads_to_a_state_of_the_table() {
    for code in (-1..=150).filter(|code| *code != 0).map(ErrorCode::from_code) {
        for joins in [true, false] {
            let mut world = if joins { World::joining() } else { World::stable(&[0]) };
            if !joins {
                world.pass(INTERVAL);
            }
            world.refuse(code);
            world.pass(secs(2));
            let is_fatal = world.state() == ShareState::Fatal;
            assert_eq!(world.raised().iter().any(|(_, fatal)| *fatal), is_fatal, "{code:?}");
            assert!(is_fatal || !world.calls.is_empty(), "{code:?} is tried again");
        }
    }
}
