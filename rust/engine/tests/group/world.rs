//! One member in a world whose coordinator says what the test tells it to, and whose time moves when told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::assign::{
    AssignError, Assignment, Assignor, MemberAssignment, Protocol, Subscription, Topics, assignment_bytes,
    read_subscription,
};
use monedula_engine::group::classic::{GroupConfig, Member, State};
use monedula_engine::group::{
    Answer, Call, CallError, CallId, GroupError, GroupEvent, Input, Output, Target, Ticket, TopicInfo,
};
use monedula_engine::group::{State as In, Subscription as Subscribes};
use monedula_engine::{Now, TopicPartition};
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

pub(crate) use crate::common::driver::{
    AUTO_COMMIT, BACKOFF, MAX_POLL, Offsets, Owed, SESSION, at, ms, offsets, secs, t,
};
use crate::common::driver::{Driver, WAKES_PER_INSTANT, backoff};

pub(crate) const HEARTBEAT: Duration = Duration::from_secs(3);

/// The name of an assignor that leaves things for later.
pub(crate) const DEFERS: &str = "defers";

/// An assignor by name only: the tests write its assignments.
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

    fn assign(&self, _: &Topics, _: &[Subscription]) -> Result<Assignment, AssignError> {
        Err(AssignError::Failed { assignor: self.0.into(), reason: "the test assigns".into() })
    }
}

pub(crate) fn config(protocol: Protocol) -> GroupConfig {
    let name = if protocol == Protocol::Eager { "range" } else { "cooperative-sticky" };
    GroupConfig {
        group_id: "g".into(),
        instance_id: None,
        rack: None,
        assignors: vec![Arc::new(Named(name, protocol))],
        session_timeout: SESSION,
        heartbeat_interval: HEARTBEAT,
        quick_heartbeats: 1,
        max_poll_interval: MAX_POLL,
        auto_commit_interval: Some(AUTO_COMMIT),
        backoff: backoff(),
    }
}

pub(crate) struct World {
    pub member: Member,
    driver: Driver,
    pub now: Now,
    assignor: String,
    /// Sent and not looked at by the test yet.
    calls: VecDeque<(CallId, Target, Call)>,
    pub raised: Vec<(GroupError, bool)>,
    /// The user is in a call that waits.
    pub polling: bool,
    /// What is abandoned was not sent: it waits for a connection.
    pub connecting: bool,
    /// Heartbeats are answered at once.
    pub beating: bool,
    pub beats: Vec<Now>,
    pub assigning: Option<Ticket>,
    /// What the member was to assign by.
    pub told: Vec<(String, Option<String>, Vec<u8>)>,
    todo: VecDeque<Input>,
    /// Calls that have no outcome yet.
    open: BTreeSet<CallId>,
    /// What the member was told of topics last.
    metadata: BTreeMap<Arc<str>, TopicInfo>,
}

/// What the driver knows is asked of the world.
impl Deref for World {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        &self.driver
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Driver {
        &mut self.driver
    }
}

impl World {
    pub(crate) fn new(config: GroupConfig) -> Self {
        Self::seeded(config, 7)
    }

    pub(crate) fn seeded(config: GroupConfig, seed: u64) -> Self {
        Self {
            assignor: config.assignors[0].name().to_owned(),
            member: Member::new(config, seed),
            driver: Driver::default(),
            now: secs(1000),
            calls: VecDeque::new(),
            raised: Vec::new(),
            polling: true,
            connecting: false,
            beating: false,
            beats: Vec::new(),
            assigning: None,
            told: Vec::new(),
            todo: VecDeque::new(),
            open: BTreeSet::new(),
            metadata: BTreeMap::new(),
        }
    }

    /// Subscribed to `t`, and its coordinator is node 1.
    pub(crate) fn subscribed(config: GroupConfig) -> Self {
        let mut world = Self::new(config);
        world.subscribe(&["t"]);
        world.find(1);
        world
    }

    /// In generation 1 as member `m`, a follower, with these partitions of `t`, at offset 10 each.
    pub(crate) fn stable(config: GroupConfig, partitions: &[i32]) -> Self {
        let mut world = Self::subscribed(config);
        world.rebalance(1, partitions);
        world.look_up(10);
        assert_eq!(world.state(), State::Stable);
        world.trace();
        world
    }

    pub(crate) fn state(&self) -> State {
        match self.member.status().state {
            In::Classic(state) => state,
            In::Consumer(state) => panic!("of the other machine: {state:?}"),
        }
    }

    pub(crate) fn owned(&self) -> Vec<i32> {
        self.member.status().owned.iter().map(|partition| partition.partition).collect()
    }

    pub(crate) fn put(&mut self, input: Input) {
        self.todo.push_back(input);
        self.work_off();
    }

    fn work_off(&mut self) {
        while let Some(input) = self.todo.pop_front() {
            self.closed = false;
            if let Input::Answer { id, .. } = &input {
                self.open.remove(id);
            }
            if self.polling {
                self.member.polled(self.now);
            }
            self.member.handle(self.now, input);
            self.drain();
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.member.poll() {
            self.take(output);
            self.collect();
        }
    }

    /// What the user did goes to the member.
    fn collect(&mut self) {
        let paid = self.take_paid();
        self.todo.extend(paid.into_iter().map(Input::from));
    }

    fn take(&mut self, output: Output) {
        assert!(!self.closed, "after the end: {output:?}");
        match output {
            Output::Call { id, call: Call::Heartbeat { .. }, .. } if self.beating => {
                self.beats.push(self.now);
                self.todo.push_back(Input::Answer { id, outcome: Ok(Answer::Heartbeat { code: ErrorCode::None }) });
            }
            Output::Call { id, target, call } => {
                self.note(call.api());
                self.open.insert(id);
                self.calls.push_back((id, target, call));
            }
            Output::ComputeAssignment { ticket, assignor, members } => {
                self.note(format!("assign {assignor} {}", members.len()));
                self.assigning = Some(ticket);
                self.told = members;
            }
            Output::Raise { error, fatal } => {
                self.note(if fatal { "fatal" } else { "raise" });
                self.raised.push((error, fatal));
            }
            Output::Event(event) => {
                if let GroupEvent::StateChanged { from, to } = event {
                    assert!(from.may_become(to), "no way from {from:?} to {to:?}");
                    let leased = self.driver.lease.filter(|_| to.is_unsubscribed());
                    assert_eq!(leased, None, "a lease outlives the membership");
                }
                self.events.push(event);
            }
            Output::RefreshMetadata => self.note("refresh"),
            Output::AbandonCall { id } => {
                if self.open.contains(&id) {
                    let reason = "it was abandoned".into();
                    let error = if self.connecting { CallError::Unsent(reason) } else { CallError::Lost(reason) };
                    self.todo.push_back(Input::Answer { id, outcome: Err(error) });
                }
            }
            output => {
                let owned = self.member.status().owned;
                let left = self.driver.carry_out(output, &owned);
                assert_eq!(left, None, "of the other machine");
            }
        }
    }

    /// The user comes into the next call: what waits for him is done, in order.
    pub(crate) fn user_returns(&mut self) {
        self.busy = false;
        self.pay_all();
        self.collect();
        self.put(Input::Tick);
    }

    /// The user does the next thing that waits for him, and is busy again.
    pub(crate) fn pay_one(&mut self) {
        self.driver.pay_one();
        self.collect();
        self.work_off();
    }

    /// Lets time pass, waking the member when it wants to be woken; it must not want that without end.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        let mut wakes = 0;
        while let Some(wake) = self.member.wake_at().filter(|wake| *wake <= end) {
            wakes = if wake <= self.now { wakes + 1 } else { 0 };
            assert!(wakes < WAKES_PER_INSTANT, "woken without end at {:?} in {:?}", self.now, self.state());
            self.now = self.now.max(wake);
            self.put(Input::Tick);
        }
        self.now = end;
        self.put(Input::Tick);
    }

    /// The process is stopped for so long: nothing is woken.
    pub(crate) fn sleep(&mut self, time: Duration) {
        self.now += time;
    }

    /// Takes the next call, which has to be one of `api`.
    #[track_caller]
    pub(crate) fn call(&mut self, api: &str) -> (CallId, Call) {
        let Some((id, target, call)) = self.calls.pop_front() else {
            panic!("no {api} in {:?}: {:?}", self.state(), self.trace())
        };
        assert_eq!(call.api(), api);
        if let Target::Coordinator { node_id } = target {
            assert_ne!(call.api(), "FindCoordinator");
            assert!(node_id >= 0);
        }
        (id, call)
    }

    /// As [`Self::call`], with who is asked.
    #[track_caller]
    pub(crate) fn call_to(&mut self, api: &str) -> (CallId, Target, Call) {
        let target = self.calls.front().map(|(_, target, _)| *target);
        let (id, call) = self.call(api);
        (id, target.unwrap_or(Target::Any { attempt: 0 }), call)
    }

    #[track_caller]
    pub(crate) fn no_call(&self) {
        assert!(self.calls.is_empty(), "{:?}", self.calls);
    }

    /// The calls that the test has not looked at.
    pub(crate) fn apis(&self) -> Vec<&'static str> {
        self.calls.iter().map(|(_, _, call)| call.api()).collect()
    }

    pub(crate) fn answer(&mut self, id: CallId, answer: Answer) {
        self.put(Input::Answer { id, outcome: Ok(answer) });
    }

    pub(crate) fn lose(&mut self, id: CallId) {
        self.put(Input::Answer { id, outcome: Err(CallError::Lost("the connection was lost".into())) });
    }

    /// No connection could be made.
    pub(crate) fn refuse(&mut self, id: CallId) {
        self.put(Input::Answer { id, outcome: Err(CallError::Unsent("connection refused".into())) });
    }

    /// Metadata has the topics already.
    pub(crate) fn subscribe(&mut self, topics: &[&str]) {
        self.know(topics);
        self.subscribe_to_unknown(topics);
    }

    /// Metadata has nothing of topics that it was not told of before.
    pub(crate) fn subscribe_to_unknown(&mut self, topics: &[&str]) {
        let topics = topics.iter().map(|&topic| topic.into()).collect();
        self.put(Input::Subscribe(Subscribes::Topics(topics)));
    }

    pub(crate) fn match_topics(&mut self, topics: &[&str]) {
        self.know(topics);
        let topics = topics.iter().map(|&topic| topic.into()).collect();
        self.put(Input::Subscribe(Subscribes::Matched(topics)));
    }

    /// Tells the member of topics, if it was not told of them before, as brokers do that have no ids.
    fn know(&mut self, topics: &[&str]) {
        let known = self.metadata.len();
        for &topic in topics {
            self.metadata.entry(topic.into()).or_insert(TopicInfo { id: Uuid::ZERO, partitions: 8 });
        }
        if self.metadata.len() > known {
            self.put(Input::Topics { topics: self.metadata.clone() });
        }
    }

    pub(crate) fn topics(&mut self, counts: &[(&str, usize)]) {
        let old: Vec<_> = counts.iter().map(|&(topic, count)| (topic, 0, count)).collect();
        self.topics_by_id(&old);
    }

    /// As [`Self::topics`], each with its id; 0: the broker tells none.
    pub(crate) fn topics_by_id(&mut self, topics: &[(&str, u8, usize)]) {
        let info = |id, partitions| TopicInfo { id: Uuid([id; 16]), partitions };
        self.metadata = topics.iter().map(|&(topic, id, count)| (topic.into(), info(id, count))).collect();
        self.put(Input::Topics { topics: self.metadata.clone() });
    }

    /// Answers FindCoordinator.
    #[track_caller]
    pub(crate) fn find(&mut self, node_id: i32) {
        let (id, _) = self.call("FindCoordinator");
        self.answer(id, coordinator(ErrorCode::None, node_id));
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
    ) -> Answer {
        Answer::JoinGroup {
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

    /// Answers JoinGroup and SyncGroup; what went before is in the trace.
    #[track_caller]
    pub(crate) fn rebalance(&mut self, generation: i32, partitions: &[i32]) {
        let (id, _) = self.call("JoinGroup");
        self.join(id, generation);
        let (id, _) = self.call("SyncGroup");
        self.answer(id, synced(partitions));
    }

    /// Answers the lookup of committed offsets: each partition is at `offset`.
    #[track_caller]
    pub(crate) fn look_up(&mut self, offset: i64) {
        let (id, call) = self.call("OffsetFetch");
        let Call::OffsetFetch { partitions, .. } = call else { panic!("{call:?}") };
        let found = partitions.into_iter().map(|partition| (partition, Ok(Some(at(offset))))).collect();
        self.answer(id, Answer::OffsetFetch { code: ErrorCode::None, offsets: found });
    }

    /// Answers the next heartbeat, after an interval.
    #[track_caller]
    pub(crate) fn beat(&mut self, code: ErrorCode) {
        self.pass(HEARTBEAT);
        let (id, _) = self.call("Heartbeat");
        self.answer(id, Answer::Heartbeat { code });
    }

    /// Answers the next commit with one code for all its partitions.
    #[track_caller]
    pub(crate) fn commit_answered(&mut self, code: ErrorCode) -> Offsets {
        let (id, call) = self.call("OffsetCommit");
        let Call::OffsetCommit { offsets, .. } = call else { panic!("{call:?}") };
        self.answer(id, commit_codes(&offsets, code));
        offsets
    }

    pub(crate) fn commit(&mut self, ticket: Ticket, offsets: Offsets) {
        let deadline = self.now + secs(60);
        self.put(Input::Commit { ticket, offsets, deadline });
    }

    pub(crate) fn close(&mut self) {
        let deadline = self.now + secs(30);
        self.put(Input::Close { deadline, leave: true });
    }

    /// Nothing but one call of this API waits.
    #[track_caller]
    pub(crate) fn no_call_but(&self, api: &str) {
        assert_eq!(self.apis(), [api]);
    }

    /// As [`Self::call`]; heartbeats before it are nobody's business.
    #[track_caller]
    pub(crate) fn call_past_heartbeats(&mut self, api: &str) -> (CallId, Call) {
        while api != "Heartbeat" && self.apis().first() == Some(&"Heartbeat") {
            self.calls.pop_front();
        }
        self.call(api)
    }

    /// Every connection is lost: no call that is under way gets an answer.
    pub(crate) fn lose_all(&mut self) {
        self.calls.clear();
        for id in std::mem::take(&mut self.open) {
            self.lose(id);
        }
    }

    /// The user wants a rebalance now.
    pub(crate) fn rejoin(&mut self) {
        let at = self.now;
        self.put(Input::Rejoin { at, reason: "the user wants it".into() });
    }
}

pub(crate) fn coordinator(code: ErrorCode, node_id: i32) -> Answer {
    Answer::FindCoordinator { code, node_id, host: "h".into(), port: 9092 }
}

pub(crate) fn join_error(code: ErrorCode, member_id: &str) -> Answer {
    Answer::JoinGroup {
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

pub(crate) fn synced(partitions: &[i32]) -> Answer {
    let partitions: Vec<TopicPartition> = partitions.iter().map(|&partition| t(partition)).collect();
    Answer::SyncGroup {
        code: ErrorCode::None,
        protocol_type: Some("consumer".into()),
        protocol: None,
        assignment: assignment(&partitions),
    }
}

pub(crate) fn sync_error(code: ErrorCode) -> Answer {
    Answer::SyncGroup { code, protocol_type: None, protocol: None, assignment: Vec::new() }
}

pub(crate) fn commit_codes(offsets: &Offsets, code: ErrorCode) -> Answer {
    Answer::OffsetCommit { codes: offsets.keys().map(|partition| (partition.clone(), code)).collect() }
}

/// What a JoinGroup tells the leader.
pub(crate) fn subscription(call: &Call) -> Subscription {
    let Call::JoinGroup { protocols, .. } = call else { panic!("{call:?}") };
    read_subscription("m", None, &protocols[0].1).expect("it decodes")
}

/// Member id and generation that a call carries.
pub(crate) fn identity(call: &Call) -> (&str, i32) {
    match call {
        Call::JoinGroup { member_id, .. } | Call::LeaveGroup { member_id, .. } => (member_id, -1),
        Call::SyncGroup { member_id, generation, .. }
        | Call::Heartbeat { member_id, generation, .. }
        | Call::OffsetCommit { member_id, generation_or_epoch: generation, .. } => (member_id, *generation),
        Call::ConsumerGroupHeartbeat(_) | Call::FindCoordinator { .. } | Call::OffsetFetch { .. } => ("", -1),
    }
}
