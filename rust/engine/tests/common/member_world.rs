//! A member in virtual time, with a coordinator whose answers the test chooses. The worlds of both machines share it.

use std::collections::{BTreeSet, VecDeque};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use monedula_engine::Now;
use monedula_engine::group::{
    Call, CallError, CallId, GroupError, GroupEvent, GroupResponse, Input, Member, MemberState, Output, Partitions,
    Subscription, Target, Ticket, consumer,
};
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use super::driver::{Driver, Offsets, WAKES_PER_INSTANT, at, secs};

/// The heartbeat interval; not the default.
pub(crate) const INTERVAL: Duration = Duration::from_secs(3);

pub(crate) struct MemberWorld {
    pub member: Member,
    driver: Driver,
    pub now: Now,
    /// Calls that were sent and that the test has not looked at.
    pub calls: VecDeque<(CallId, Target, Call)>,
    /// The changes of state of a member under KIP-848; those of a classic member are among the events.
    pub steps: Vec<(consumer::ConsumerState, consumer::ConsumerState)>,
    pub raised: Vec<(GroupError, bool)>,
    /// The user polls: a call of the user is waiting.
    pub polling: bool,
    /// Calls that the member cancels were not sent: they wait for a connection.
    pub connecting: bool,
    /// Whether heartbeats are answered at once; under KIP-848 with the epoch that they carry.
    pub beating: bool,
    pub beats: Vec<Now>,
    /// The assignment that a classic leader asked for, and the members to assign to.
    pub assigning: Option<Ticket>,
    pub to_assign: Vec<(String, Option<String>, Vec<u8>)>,
    /// The topic ids whose names a member under KIP-848 asked for.
    pub resolving: Vec<BTreeSet<Uuid>>,
    todo: VecDeque<Input>,
    /// Calls in flight.
    open: BTreeSet<CallId>,
}

/// The world has the driver's fields and methods.
impl Deref for MemberWorld {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        &self.driver
    }
}

impl DerefMut for MemberWorld {
    fn deref_mut(&mut self) -> &mut Driver {
        &mut self.driver
    }
}

impl MemberWorld {
    pub(crate) fn new(member: Member) -> Self {
        Self {
            member,
            driver: Driver::default(),
            now: secs(1000),
            calls: VecDeque::new(),
            steps: Vec::new(),
            raised: Vec::new(),
            polling: true,
            connecting: false,
            beating: false,
            beats: Vec::new(),
            assigning: None,
            to_assign: Vec::new(),
            resolving: Vec::new(),
            todo: VecDeque::new(),
            open: BTreeSet::new(),
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

    /// Passes the user's answers on to the member.
    fn collect(&mut self) {
        let paid = self.take_paid();
        self.todo.extend(paid.into_iter().map(Input::from));
    }

    /// The user makes the next call: all waiting requests are carried out, in order.
    pub(crate) fn user_returns(&mut self) {
        self.busy = false;
        self.pay_all();
        self.collect();
        self.put(Input::Tick);
    }

    /// The user carries out the next waiting request, and is busy again.
    pub(crate) fn pay_one(&mut self) {
        self.driver.pay_one();
        self.collect();
        self.work_off();
    }

    /// Lets time pass, and wakes the member at the times that it asks for. Fails if it asks for wakes without end.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        let mut wakes = 0;
        while let Some(wake) = self.member.wake_at().filter(|wake| *wake <= end) {
            wakes = if wake <= self.now { wakes + 1 } else { 0 };
            assert!(
                wakes < WAKES_PER_INSTANT,
                "woken without end at {:?} in {:?}",
                self.now,
                self.member.status().state
            );
            self.now = self.now.max(wake);
            self.put(Input::Tick);
        }
        self.now = end;
        self.put(Input::Tick);
    }

    /// Stops the process for this time: the member is not woken.
    pub(crate) fn sleep(&mut self, time: Duration) {
        self.now += time;
    }

    #[track_caller]
    pub(crate) fn no_call(&self) {
        assert!(self.calls.is_empty(), "{:?}", self.calls);
    }

    /// The calls that the test has not looked at.
    pub(crate) fn apis(&self) -> Vec<&'static str> {
        self.calls.iter().map(|(_, _, call)| call.api()).collect()
    }

    pub(crate) fn answer(&mut self, id: CallId, answer: GroupResponse) {
        self.put(Input::Answer { id, outcome: Ok(answer) });
    }

    pub(crate) fn lose(&mut self, id: CallId) {
        self.put(Input::Answer { id, outcome: Err(CallError::Lost("the connection was lost".into())) });
    }

    pub(crate) fn subscribe(&mut self, topics: &[&str]) {
        let topics = topics.iter().map(|&topic| topic.into()).collect();
        self.put(Input::Subscribe(Subscription::Topics(topics)));
    }

    pub(crate) fn match_topics(&mut self, topics: &[&str]) {
        let topics = topics.iter().map(|&topic| topic.into()).collect();
        self.put(Input::Subscribe(Subscription::Matched(topics)));
    }

    /// Answers FindCoordinator.
    #[track_caller]
    pub(crate) fn find(&mut self, node_id: i32) {
        let (id, _) = self.call("FindCoordinator");
        self.answer(id, coordinator(ErrorCode::None, node_id));
    }

    /// Answers OffsetFetch: each partition has the committed offset `offset`.
    #[track_caller]
    pub(crate) fn look_up(&mut self, offset: i64) {
        let (id, call) = self.call("OffsetFetch");
        let Call::OffsetFetch { partitions, .. } = call else { panic!("{call:?}") };
        let found = partitions.into_iter().map(|partition| (partition, Ok(Some(at(offset))))).collect();
        self.answer(id, GroupResponse::OffsetFetch { code: ErrorCode::None, offsets: found });
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

    /// All connections are lost: no call in flight gets an answer.
    pub(crate) fn lose_all(&mut self) {
        self.calls.clear();
        for id in std::mem::take(&mut self.open) {
            self.lose(id);
        }
    }

    fn cancel(&mut self, id: CallId) {
        if self.open.contains(&id) {
            let reason = "it was cancelled".into();
            let error = if self.connecting { CallError::Unsent(reason) } else { CallError::Lost(reason) };
            self.todo.push_back(Input::Answer { id, outcome: Err(error) });
        }
    }

    fn take(&mut self, output: Output) {
        assert!(!self.closed, "after the end: {output:?}");
        let is_classic = matches!(self.member, Member::Classic(_));
        match output {
            Output::Call { id, call: Call::Heartbeat { .. }, .. } if self.beating => {
                self.beat_at_once(id, GroupResponse::Heartbeat { code: ErrorCode::None });
            }
            Output::Call { id, call: Call::ConsumerGroupHeartbeat(call), .. } if self.beating && call.epoch > 0 => {
                self.beat_at_once(id, beat(call.epoch, None));
            }
            Output::Call { id, target, call } => {
                self.note(call.api());
                self.open.insert(id);
                self.calls.push_back((id, target, call));
            }
            Output::Raise { error, fatal } => {
                self.note(if fatal { "fatal" } else { "raise" });
                self.raised.push((error, fatal));
            }
            Output::Event(GroupEvent::StateChanged { from, to }) => {
                let is_legal = match (from, to) {
                    (MemberState::Classic(from), MemberState::Classic(to)) => from.successors().contains(&to),
                    (MemberState::Consumer(from), MemberState::Consumer(to)) => from.successors().contains(&to),
                    _ => false,
                };
                assert!(is_legal, "no way from {from:?} to {to:?}");
                let leased = self.lease.filter(|_| to.is_unsubscribed());
                assert_eq!(leased, None, "a lease outlives the membership");
                match (from, to) {
                    (MemberState::Classic(_), MemberState::Classic(_)) if is_classic => {
                        self.events.push(GroupEvent::StateChanged { from, to });
                    }
                    (MemberState::Consumer(from), MemberState::Consumer(to)) if !is_classic => {
                        self.steps.push((from, to))
                    }
                    states => panic!("of the other machine: {states:?}"),
                }
            }
            Output::Event(event) => self.events.push(event),
            Output::ComputeAssignment { ticket, assignor, members } if is_classic => {
                self.note(format!("assign {assignor} {}", members.len()));
                self.assigning = Some(ticket);
                self.to_assign = members;
            }
            Output::RefreshMetadata if is_classic => self.note("refresh"),
            Output::CancelCall { id } if is_classic => self.cancel(id),
            Output::ResolveTopicIds { ids } if !is_classic => {
                self.note(format!("resolve {}", ids.len()));
                self.resolving.push(ids);
            }
            Output::FallBack if !is_classic => self.note("fall back"),
            output => {
                let owned = self.member.status().owned;
                let left = self.driver.carry_out(output, &owned);
                assert_eq!(left, None, "of the other machine");
            }
        }
    }

    /// Answers a heartbeat at once.
    fn beat_at_once(&mut self, id: CallId, answer: GroupResponse) {
        self.beats.push(self.now);
        self.todo.push_back(Input::Answer { id, outcome: Ok(answer) });
    }

    /// Takes the call of `api`: of a classic member the next call has to be one, of a member under KIP-848 it is the first.
    #[track_caller]
    pub(crate) fn call(&mut self, api: &str) -> (CallId, Call) {
        let (id, _, call) = self.call_to(api);
        (id, call)
    }

    /// As [`Self::call`], with the broker that the call is for.
    #[track_caller]
    pub(crate) fn call_to(&mut self, api: &str) -> (CallId, Target, Call) {
        let at = match self.member {
            Member::Classic(_) => Some(0),
            Member::Consumer(_) => self.calls.iter().position(|(_, _, call)| call.api() == api),
        };
        let Some(found) = at.and_then(|at| self.calls.remove(at)) else {
            panic!("no {api} in {:?}: {:?}", self.member.status().state, self.trace())
        };
        assert_eq!(found.2.api(), api);
        match found.1 {
            Target::Any { .. } => assert_eq!(api, "FindCoordinator"),
            Target::Coordinator { node_id } => {
                assert_ne!(api, "FindCoordinator");
                assert!(node_id >= 0);
            }
        }
        found
    }
}

pub(crate) fn beat(epoch: i32, assignment: Option<Partitions>) -> GroupResponse {
    GroupResponse::ConsumerGroupHeartbeat {
        code: ErrorCode::None,
        message: String::new(),
        epoch,
        interval: INTERVAL,
        assignment,
    }
}

pub(crate) fn coordinator(code: ErrorCode, node_id: i32) -> GroupResponse {
    GroupResponse::FindCoordinator { code, node_id, host: "h".into(), port: 9092 }
}

pub(crate) fn commit_codes(offsets: &Offsets, code: ErrorCode) -> GroupResponse {
    GroupResponse::OffsetCommit { codes: offsets.keys().map(|partition| (partition.clone(), code)).collect() }
}
