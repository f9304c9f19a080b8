//! One member in a world whose coordinator says what the test tells it to, and whose time moves when told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::Now;
use monedula_engine::group::State as In;
use monedula_engine::group::consumer::{Member, MembershipConfig, State};
use monedula_engine::group::{
    Answer, Call, CallError, CallId, GroupError, GroupEvent, HeartbeatCall, Input, Output, Partitions, Subscription,
    Target, Ticket, TopicInfo,
};
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

pub(crate) use crate::common::driver::{
    AUTO_COMMIT, BACKOFF, MAX_POLL, Offsets, Owed, SESSION, at, ms, offsets, secs, t,
};
use crate::common::driver::{Driver, WAKES_PER_INSTANT, backoff};

/// What the coordinator of these tests wants; not the default.
pub(crate) const INTERVAL: Duration = Duration::from_secs(3);
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

pub(crate) fn config() -> MembershipConfig {
    MembershipConfig {
        group_id: "g".into(),
        instance_id: None,
        rack: None,
        assignor: None,
        falls_back: false,
        session_timeout: SESSION,
        quick_heartbeats: 1,
        max_poll_interval: MAX_POLL,
        auto_commit_interval: Some(AUTO_COMMIT),
        backoff: backoff(),
    }
}

/// A static member.
pub(crate) fn fixed() -> MembershipConfig {
    MembershipConfig { instance_id: Some("i".into()), ..config() }
}

/// Without auto-commit.
pub(crate) fn by_hand() -> MembershipConfig {
    MembershipConfig { auto_commit_interval: None, ..config() }
}

pub(crate) struct World {
    pub member: Member,
    driver: Driver,
    pub now: Now,
    /// Sent and not looked at by the test yet.
    calls: VecDeque<(CallId, Target, Call)>,
    pub steps: Vec<(State, State)>,
    pub raised: Vec<(GroupError, bool)>,
    /// The user is in a call that waits.
    pub polling: bool,
    /// Heartbeats are answered at once, with the epoch that they carry.
    pub beating: bool,
    pub beats: Vec<Now>,
    /// Metadata is brought at once when it is asked for.
    pub metadata: BTreeMap<Arc<str>, TopicInfo>,
    pub resolving: Vec<BTreeSet<Uuid>>,
    todo: VecDeque<Input>,
    /// Calls that have no outcome yet.
    open: BTreeSet<CallId>,
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
    pub(crate) fn new(config: MembershipConfig) -> Self {
        Self::seeded(config, 7)
    }

    pub(crate) fn seeded(config: MembershipConfig, seed: u64) -> Self {
        Self {
            member: Member::new(config, MEMBER.into(), seed),
            driver: Driver::default(),
            now: secs(1000),
            calls: VecDeque::new(),
            steps: Vec::new(),
            raised: Vec::new(),
            polling: true,
            beating: false,
            beats: Vec::new(),
            metadata: [("t".into(), TopicInfo { id: id("t"), partitions: 4 })].into(),
            resolving: Vec::new(),
            todo: VecDeque::new(),
            open: BTreeSet::new(),
        }
    }

    /// Subscribed to `t`, whose metadata is known, and the coordinator is node 1.
    pub(crate) fn subscribed(config: MembershipConfig) -> Self {
        let mut world = Self::new(config);
        world.subscribe(&["t"]);
        world.learn();
        world.find(1);
        world
    }

    /// In epoch 1 with these partitions of `t`, at offset 10 each, all acknowledged.
    pub(crate) fn stable(config: MembershipConfig, partitions: &[i32]) -> Self {
        let mut world = Self::subscribed(config);
        world.assigned(1, &ids(partitions));
        if !partitions.is_empty() {
            world.look_up(10);
        }
        assert_eq!(world.state(), State::Stable);
        // The acknowledgement went out with the answer; its own answer brings nothing new.
        world.no_call();
        world.trace();
        world
    }

    /// Answers the heartbeat under way with a target, and those that follow from it, to the end.
    #[track_caller]
    pub(crate) fn assigned(&mut self, epoch: i32, target: &Partitions) {
        let (id, _) = self.heartbeat();
        self.ok(id, epoch, Some(target));
        self.settle_heartbeats(epoch);
    }

    pub(crate) fn state(&self) -> State {
        match self.member.status().state {
            In::Consumer(state) => state,
            In::Classic(state) => panic!("of the classic machine: {state:?}"),
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
            Output::Call { id, call: Call::ConsumerGroupHeartbeat(call), .. } if self.beating && call.epoch > 0 => {
                self.beats.push(self.now);
                self.todo.push_back(Input::Answer { id, outcome: Ok(beat(call.epoch, None)) });
            }
            Output::Call { id, target, call } => {
                self.note(call.api());
                self.open.insert(id);
                self.calls.push_back((id, target, call));
            }
            Output::ResolveTopicIds { ids } => {
                self.note(format!("resolve {}", ids.len()));
                self.resolving.push(ids);
            }
            Output::Raise { error, fatal } => {
                self.note(if fatal { "fatal" } else { "raise" });
                self.raised.push((error, fatal));
            }
            Output::FallBack => self.note("fall back"),
            Output::Event(GroupEvent::StateChanged { from: In::Consumer(from), to: In::Consumer(to) }) => {
                assert!(from.successors().contains(&to), "no way from {from:?} to {to:?}");
                let leased = self.driver.lease.filter(|_| to == State::Unsubscribed);
                assert_eq!(leased, None, "a lease outlives the membership");
                self.steps.push((from, to));
            }
            Output::Event(event) => {
                assert!(!matches!(event, GroupEvent::StateChanged { .. }), "of the classic machine");
                self.events.push(event);
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

    /// Takes the first call of `api`.
    #[track_caller]
    pub(crate) fn call(&mut self, api: &str) -> (CallId, Call) {
        let (id, _, call) = self.call_to(api);
        (id, call)
    }

    /// As [`Self::call`], with who is asked.
    #[track_caller]
    pub(crate) fn call_to(&mut self, api: &str) -> (CallId, Target, Call) {
        let at = self.calls.iter().position(|(_, _, call)| call.api() == api);
        let Some(found) = at.and_then(|at| self.calls.remove(at)) else {
            panic!("no {api} in {:?}: {:?}", self.state(), self.trace())
        };
        assert_eq!(matches!(found.1, Target::Any { .. }), api == "FindCoordinator");
        found
    }

    /// Answers heartbeats with this epoch as long as one waits.
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

    /// After an interval, the next heartbeat.
    #[track_caller]
    pub(crate) fn next_heartbeat(&mut self) -> (CallId, HeartbeatCall) {
        self.pass(INTERVAL);
        self.heartbeat()
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

    /// A good answer to a heartbeat.
    pub(crate) fn ok(&mut self, id: CallId, epoch: i32, target: Option<&Partitions>) {
        self.answer(id, beat(epoch, target.cloned()));
    }

    pub(crate) fn refuse(&mut self, id: CallId, code: ErrorCode) {
        self.answer(id, refused(code));
    }

    pub(crate) fn lose(&mut self, id: CallId) {
        self.put(Input::Answer { id, outcome: Err(CallError::Lost("the connection was lost".into())) });
    }

    /// Every connection is lost: no call that is under way gets an answer.
    pub(crate) fn lose_all(&mut self) {
        self.calls.clear();
        for id in std::mem::take(&mut self.open) {
            self.lose(id);
        }
    }

    /// A call that cannot be made at all.
    pub(crate) fn never(&mut self, id: CallId) {
        self.put(Input::Answer { id, outcome: Err(CallError::Never("no version in common".into())) });
    }

    pub(crate) fn subscribe(&mut self, topics: &[&str]) {
        self.put(Input::Subscribe(Subscription::Topics(names(topics))));
    }

    pub(crate) fn match_topics(&mut self, topics: &[&str]) {
        self.put(Input::Subscribe(Subscription::Matched(names(topics))));
    }

    pub(crate) fn subscribe_regex(&mut self, regex: &str) {
        self.put(Input::Subscribe(Subscription::Regex(regex.into())));
    }

    /// Metadata comes in, as it is.
    pub(crate) fn learn(&mut self) {
        let topics = self.metadata.clone();
        self.put(Input::Topics { topics });
    }

    /// There is a topic, and metadata of it comes in.
    pub(crate) fn topic(&mut self, topic: &str, partitions: usize) {
        self.topic_with(topic, id(topic), partitions);
    }

    pub(crate) fn topic_with(&mut self, topic: &str, id: Uuid, partitions: usize) {
        self.metadata.insert(topic.into(), TopicInfo { id, partitions });
        self.learn();
    }

    /// Answers FindCoordinator.
    #[track_caller]
    pub(crate) fn find(&mut self, node_id: i32) {
        let (id, _) = self.call("FindCoordinator");
        self.answer(id, coordinator(ErrorCode::None, node_id));
    }

    /// Answers the lookup of committed offsets: each partition is at `offset`.
    #[track_caller]
    pub(crate) fn look_up(&mut self, offset: i64) {
        let (id, call) = self.call("OffsetFetch");
        let Call::OffsetFetch { partitions, .. } = call else { panic!("{call:?}") };
        let found = partitions.into_iter().map(|partition| (partition, Ok(Some(at(offset))))).collect();
        self.answer(id, Answer::OffsetFetch { code: ErrorCode::None, offsets: found });
    }

    /// After an interval, answers the next heartbeat with an error.
    #[track_caller]
    pub(crate) fn refuse_next(&mut self, code: ErrorCode) {
        let (id, _) = self.next_heartbeat();
        self.refuse(id, code);
    }

    /// After an interval, answers the next heartbeat with a target.
    #[track_caller]
    pub(crate) fn target(&mut self, epoch: i32, target: &Partitions) {
        let (id, _) = self.next_heartbeat();
        self.trace();
        self.ok(id, epoch, Some(target));
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
}

pub(crate) fn coordinator(code: ErrorCode, node_id: i32) -> Answer {
    Answer::FindCoordinator { code, node_id, host: "h".into(), port: 9092 }
}

pub(crate) fn beat(epoch: i32, assignment: Option<Partitions>) -> Answer {
    Answer::ConsumerGroupHeartbeat {
        code: ErrorCode::None,
        message: String::new(),
        epoch,
        interval: INTERVAL,
        assignment,
    }
}

pub(crate) fn refused(code: ErrorCode) -> Answer {
    let message = "in the broker's words".into();
    Answer::ConsumerGroupHeartbeat { code, message, epoch: 0, interval: Duration::ZERO, assignment: None }
}

pub(crate) fn commit_codes(offsets: &Offsets, code: ErrorCode) -> Answer {
    Answer::OffsetCommit { codes: offsets.keys().map(|partition| (partition.clone(), code)).collect() }
}

/// Whether a heartbeat says everything.
pub(crate) fn is_full(call: &HeartbeatCall) -> bool {
    let all = [call.rebalance_timeout.is_some(), call.topics.is_some(), call.owned.is_some()];
    assert!(all.iter().all(|it| *it) || !all[0], "{call:?}");
    all[0]
}
