//! One member in a world whose coordinator says what the test tells it to, and whose time moves when told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::assign::{
    AssignError, Assignment, Assignor, MemberAssignment, Protocol, Subscription, Topics, assignment_bytes,
    read_subscription,
};
use monedula_engine::backoff::Backoff;
use monedula_engine::group::{
    Answer, Call, CallError, CallId, CallbackKind, CommitError, CommitOffset, Committed, GroupConfig, GroupError,
    GroupEvent, Input, Member, Output, Scope, State, Target, Ticket,
};
use monedula_engine::{Now, TopicPartition};
use monedula_protocol::error_code::ErrorCode;

pub(crate) const SESSION: Duration = Duration::from_secs(45);
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(3);
pub(crate) const MAX_POLL: Duration = Duration::from_secs(300);
pub(crate) const AUTO_COMMIT: Duration = Duration::from_secs(5);
/// More than any backoff with its jitter.
pub(crate) const BACKOFF: Duration = Duration::from_millis(1300);
/// Wakes that one instant may take before it counts as spinning.
const WAKES_PER_INSTANT: u32 = 12;

pub(crate) type Offsets = BTreeMap<TopicPartition, CommitOffset>;
type Outcomes = BTreeMap<TopicPartition, (CommitOffset, Result<(), CommitError>)>;

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A partition of topic `t`.
pub(crate) fn t(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

pub(crate) fn at(offset: i64) -> CommitOffset {
    CommitOffset { offset, leader_epoch: 3, metadata: String::new() }
}

pub(crate) fn offsets(of: &[(i32, i64)]) -> Offsets {
    of.iter().map(|&(partition, offset)| (t(partition), at(offset))).collect()
}

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
        max_poll_interval: MAX_POLL,
        auto_commit_interval: Some(AUTO_COMMIT),
        backoff: Backoff { initial: ms(100), max: ms(1000), factor: 2 },
    }
}

/// What the driver was asked for and has not answered: the user is busy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owed {
    Settle(Ticket, BTreeSet<TopicPartition>),
    Callback(Ticket, CallbackKind),
}

pub(crate) struct World {
    pub member: Member,
    pub now: Now,
    assignor: String,
    /// Sent and not looked at by the test yet.
    calls: VecDeque<(CallId, Target, Call)>,
    /// What came out since the test looked last, in a few words each.
    trace: Vec<String>,
    pub events: Vec<GroupEvent>,
    pub raised: Vec<(GroupError, bool)>,
    pub committed: Vec<(Option<Ticket>, Outcomes)>,
    pub starts: Vec<(TopicPartition, Committed, bool)>,
    pub lease: Option<Now>,
    /// What the user finished and was not brought to be committed.
    pub finished: Offsets,
    /// The user is in a call that waits.
    pub polling: bool,
    /// The user is busy with a batch: what waits for him waits.
    pub busy: bool,
    pub owed: VecDeque<Owed>,
    /// Heartbeats are answered at once.
    pub beating: bool,
    pub beats: Vec<Now>,
    pub assigning: Option<Ticket>,
    /// What the member was to assign by.
    pub told: Vec<(String, Option<String>, Vec<u8>)>,
    todo: VecDeque<Input>,
    /// Calls that have no outcome yet.
    open: BTreeSet<CallId>,
    /// Closing ended with the input at hand: nothing may follow.
    closed: bool,
}

impl World {
    pub(crate) fn new(config: GroupConfig) -> Self {
        Self::seeded(config, 7)
    }

    pub(crate) fn seeded(config: GroupConfig, seed: u64) -> Self {
        Self {
            assignor: config.assignors[0].name().to_owned(),
            member: Member::new(config, seed),
            now: secs(1000),
            calls: VecDeque::new(),
            trace: Vec::new(),
            events: Vec::new(),
            raised: Vec::new(),
            committed: Vec::new(),
            starts: Vec::new(),
            lease: None,
            finished: Offsets::new(),
            polling: true,
            busy: false,
            owed: VecDeque::new(),
            beating: false,
            beats: Vec::new(),
            assigning: None,
            told: Vec::new(),
            todo: VecDeque::new(),
            open: BTreeSet::new(),
            closed: false,
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
        self.member.status().state
    }

    pub(crate) fn owned(&self) -> Vec<i32> {
        self.member.status().owned.iter().map(|partition| partition.partition).collect()
    }

    pub(crate) fn put(&mut self, input: Input) {
        self.todo.push_back(input);
        while let Some(input) = self.todo.pop_front() {
            self.closed = false;
            if let Input::Answer { id, .. } = &input {
                self.open.remove(id);
            }
            if self.polling {
                self.member.handle(self.now, Input::Polled { at: self.now });
                self.drain();
            }
            self.member.handle(self.now, input);
            self.drain();
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.member.poll() {
            self.take(output);
        }
    }

    fn take(&mut self, output: Output) {
        assert!(!self.closed, "after the end: {output:?}");
        match output {
            Output::Call { id, call: Call::Heartbeat { .. }, .. } if self.beating => {
                self.beats.push(self.now);
                self.todo.push_back(Input::Answer { id, outcome: Ok(Answer::Heartbeat { code: ErrorCode::None }) });
            }
            Output::Call { id, target, call } => {
                self.note(call.api().to_owned());
                self.open.insert(id);
                self.calls.push_back((id, target, call));
            }
            Output::Assign { ticket, assignor, members } => {
                self.note(format!("assign {assignor} {}", members.len()));
                self.assigning = Some(ticket);
                self.told = members;
            }
            Output::Gained { partitions } => self.note_partitions("gained", &partitions),
            Output::Start { partitions } => {
                self.note_partitions("start", &partitions.iter().map(|(partition, ..)| partition.clone()).collect());
                self.starts.extend(partitions);
            }
            Output::StartFailed { partition, code } => self.note(format!("start of {partition} failed: {code}")),
            Output::Settle { ticket, partitions } => {
                self.note_partitions("settle", &partitions);
                self.owe(Owed::Settle(ticket, partitions));
            }
            Output::Snapshot { ticket, scope } => {
                assert_eq!(scope, Scope::All);
                let offsets = std::mem::take(&mut self.finished);
                self.todo.push_back(Input::Settled { ticket, offsets });
            }
            Output::Callback { ticket, kind, partitions } => {
                self.note_partitions(&format!("{kind:?}"), &partitions);
                self.owe(Owed::Callback(ticket, kind));
            }
            Output::Dropped { partitions } => {
                self.finished.retain(|partition, _| !partitions.contains(partition));
                self.note_partitions("dropped", &partitions);
            }
            Output::Committed { ticket, outcomes } => {
                for (partition, (offset, outcome)) in &outcomes {
                    // What the ledger does of `not_committed`.
                    if outcome.is_err() && ticket.is_none() && self.member.status().owned.contains(partition) {
                        self.finished.entry(partition.clone()).or_insert_with(|| offset.clone());
                    }
                }
                self.committed.push((ticket, outcomes));
            }
            Output::Lease { until } => self.lease = until,
            Output::Raise { error, fatal } => {
                self.note(if fatal { "fatal".into() } else { "raise".into() });
                self.raised.push((error, fatal));
            }
            Output::Event(event) => {
                if let GroupEvent::StateChanged { from, to } = event {
                    assert!(from.successors().contains(&to), "no way from {from:?} to {to:?}");
                }
                self.events.push(event);
            }
            Output::RefreshMetadata => self.note("refresh".into()),
            Output::Closed => {
                self.note("closed".into());
                self.closed = true;
            }
        }
    }

    fn note(&mut self, what: String) {
        self.trace.push(what);
    }

    fn note_partitions(&mut self, what: &str, partitions: &BTreeSet<TopicPartition>) {
        let names: Vec<String> = partitions.iter().map(ToString::to_string).collect();
        self.note(format!("{what} {}", names.join(" ")));
    }

    fn owe(&mut self, owed: Owed) {
        self.owed.push_back(owed);
        if !self.busy {
            self.pay();
        }
    }

    /// The user comes into the next call: what waits for him is done, in order.
    pub(crate) fn user_returns(&mut self) {
        self.busy = false;
        self.pay();
        self.put(Input::Tick);
    }

    fn pay(&mut self) {
        while let Some(owed) = self.owed.pop_front() {
            let input = match owed {
                Owed::Settle(ticket, partitions) => {
                    let offsets = self.finished.extract_if(.., |partition, _| partitions.contains(partition)).collect();
                    Input::Settled { ticket, offsets }
                }
                Owed::Callback(ticket, _) => Input::CalledBack { ticket },
            };
            self.todo.push_back(input);
        }
    }

    /// What came out since the last look; heartbeats that were answered at once are left out.
    pub(crate) fn trace(&mut self) -> Vec<String> {
        std::mem::take(&mut self.trace)
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
        let (id, target, call) =
            self.calls.pop_front().unwrap_or_else(|| panic!("no {api} in {:?}: {:?}", self.state(), self.trace));
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

    pub(crate) fn subscribe(&mut self, topics: &[&str]) {
        let topics = topics.iter().map(|&topic| topic.into()).collect();
        self.put(Input::Subscribe { topics, from_pattern: false });
    }

    pub(crate) fn match_topics(&mut self, topics: &[&str]) {
        let topics = topics.iter().map(|&topic| topic.into()).collect();
        self.put(Input::Subscribe { topics, from_pattern: true });
    }

    pub(crate) fn topics(&mut self, counts: &[(&str, usize)]) {
        let counts = counts.iter().map(|&(topic, count)| (topic.into(), count)).collect();
        self.put(Input::Topics { counts });
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
        Answer::Join {
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
        let Call::FetchOffsets { partitions, .. } = call else { panic!("{call:?}") };
        let found = partitions.into_iter().map(|partition| (partition, Ok(Some(at(offset))))).collect();
        self.answer(id, Answer::FetchOffsets { code: ErrorCode::None, offsets: found });
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
        let Call::Commit { offsets, .. } = call else { panic!("{call:?}") };
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

    /// What became of the user's commit.
    pub(crate) fn outcome(&self, ticket: Ticket) -> Option<&Outcomes> {
        let mut of = self.committed.iter().filter(|(known, _)| *known == Some(ticket));
        let first = of.next();
        assert_eq!(of.next(), None, "commit {ticket} was answered twice");
        first.map(|(_, outcomes)| outcomes)
    }

    /// The one error of a commit of one partition.
    #[track_caller]
    pub(crate) fn commit_error(&self, ticket: Ticket) -> CommitError {
        let outcomes = self.outcome(ticket).unwrap_or_else(|| panic!("commit {ticket} is not answered"));
        let error = outcomes.values().find_map(|(_, outcome)| outcome.as_ref().err());
        error.cloned().unwrap_or_else(|| panic!("commit {ticket} went well"))
    }
}

pub(crate) fn coordinator(code: ErrorCode, node_id: i32) -> Answer {
    Answer::FindCoordinator { code, node_id, host: "h".into(), port: 9092 }
}

pub(crate) fn join_error(code: ErrorCode, member_id: &str) -> Answer {
    Answer::Join {
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
    Answer::Sync {
        code: ErrorCode::None,
        protocol_type: Some("consumer".into()),
        protocol: None,
        assignment: assignment(&partitions),
    }
}

pub(crate) fn sync_error(code: ErrorCode) -> Answer {
    Answer::Sync { code, protocol_type: None, protocol: None, assignment: Vec::new() }
}

pub(crate) fn commit_codes(offsets: &Offsets, code: ErrorCode) -> Answer {
    Answer::Commit { codes: offsets.keys().map(|partition| (partition.clone(), code)).collect() }
}

/// What a JoinGroup tells the leader.
pub(crate) fn subscription(call: &Call) -> Subscription {
    let Call::Join { protocols, .. } = call else { panic!("{call:?}") };
    read_subscription("m", None, &protocols[0].1).expect("it decodes")
}

/// Member id and generation that a call carries.
pub(crate) fn identity(call: &Call) -> (&str, i32) {
    match call {
        Call::Join { member_id, .. } | Call::Leave { member_id, .. } => (member_id, -1),
        Call::Sync { member_id, generation, .. }
        | Call::Heartbeat { member_id, generation, .. }
        | Call::Commit { member_id, generation, .. } => (member_id, *generation),
        Call::FindCoordinator { .. } | Call::FetchOffsets { .. } => ("", -1),
    }
}

/// Every API of a member.
pub(crate) const APIS: [&str; 7] =
    ["FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch"];

/// The ticket of the user's commit in [`pending`].
pub(crate) const TICKET: Ticket = 77;

/// A cooperative member with a call of this API under way. It owns t-0 and t-1, but for the first calls of all.
pub(crate) fn pending(api: &str) -> (World, CallId, Call) {
    let mut config = config(Protocol::Cooperative);
    config.auto_commit_interval = None;
    let mut world = match api {
        "FindCoordinator" => {
            let mut world = World::new(config);
            world.subscribe(&["t"]);
            world
        }
        "OffsetFetch" => {
            let mut world = World::subscribed(config);
            world.rebalance(1, &[0, 1]);
            world
        }
        _ => World::stable(config, &[0, 1]),
    };
    match api {
        "JoinGroup" => world.beat(ErrorCode::RebalanceInProgress),
        "SyncGroup" => {
            world.beat(ErrorCode::RebalanceInProgress);
            let (id, _) = world.call("JoinGroup");
            world.join(id, 2);
        }
        "Heartbeat" => world.pass(HEARTBEAT),
        "LeaveGroup" => world.put(Input::Unsubscribe),
        "OffsetCommit" => world.commit(TICKET, offsets(&[(0, 20)])),
        _ => {}
    }
    let (id, call) = world.call(api);
    world.no_call();
    world.trace();
    (world, id, call)
}

/// An answer of this API with an error.
pub(crate) fn failed(api: &str, code: ErrorCode) -> Answer {
    match api {
        "FindCoordinator" => coordinator(code, -1),
        "JoinGroup" => join_error(code, "given"),
        "SyncGroup" => sync_error(code),
        "Heartbeat" => Answer::Heartbeat { code },
        "LeaveGroup" => Answer::Leave { code },
        "OffsetCommit" => commit_codes(&offsets(&[(0, 20)]), code),
        _ => Answer::FetchOffsets { code, offsets: BTreeMap::new() },
    }
}

/// What is sent again after such a call came to nothing: an assignment is had by a new join only.
pub(crate) fn again(api: &str) -> &str {
    if api == "SyncGroup" { "JoinGroup" } else { api }
}

impl World {
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
