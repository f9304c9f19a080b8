//! The world of a session: virtual time, and brokers whose answers the test chooses.

use std::collections::BTreeMap;
use std::time::Duration;

use monedula_engine::backoff::Backoff;
use monedula_engine::group::CommitOffset;
use monedula_engine::produce::{ProducerIdentity, SendFault};
use monedula_engine::transaction::{
    Call, CallFailure, CallId, Ending, GroupMetadata, Input, Output, ProducerSession, SessionConfig, SessionEvent,
    SessionState, Target, Ticket, TransactionError, TransactionResponse,
};
use monedula_engine::{Now, TopicPartition};
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

/// More than any backoff with its jitter.
pub(crate) const BACKOFF: Duration = Duration::from_millis(1300);
/// How often a machine may wake at one instant before it counts as a busy loop.
const WAKES_PER_INSTANT: u32 = 12;
/// The coordinator of the transactional id, and of every group.
pub(crate) const COORDINATOR: i32 = 1;
pub(crate) const GROUPS: i32 = 2;

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

pub(crate) fn identity(producer_id: i64, epoch: i16) -> ProducerIdentity {
    ProducerIdentity { producer_id, epoch }
}

pub(crate) fn group() -> GroupMetadata {
    let topic_ids = [("t".into(), Uuid([7; 16]))].into();
    GroupMetadata { group: "g".into(), generation: 5, member_id: "m".into(), instance_id: None, topic_ids }
}

pub(crate) fn offsets(of: &[(i32, i64)]) -> BTreeMap<TopicPartition, CommitOffset> {
    let at = |offset| CommitOffset { offset, leader_epoch: 3, metadata: String::new() };
    of.iter().map(|&(partition, offset)| (t(partition), at(offset))).collect()
}

pub(crate) fn config(transactional_id: Option<&str>) -> SessionConfig {
    SessionConfig {
        transactional_id: transactional_id.map(str::to_owned),
        transaction_timeout: secs(60),
        backoff: Backoff { initial: ms(100), max: ms(1000), factor: 2 },
    }
}

pub(crate) struct World {
    pub(crate) session: ProducerSession,
    pub(crate) now: Now,
    pub(crate) calls: Vec<(CallId, Target, Call)>,
    pub(crate) outcomes: BTreeMap<Ticket, Result<(), TransactionError>>,
    pub(crate) identities: Vec<ProducerIdentity>,
    pub(crate) joined: Vec<TopicPartition>,
    pub(crate) ended: usize,
    pub(crate) failed_unsent: Vec<SendFault>,
    pub(crate) fatal: Option<SendFault>,
    pub(crate) steps: Vec<(SessionState, SessionState)>,
    pub(crate) retried: Vec<String>,
    next_ticket: Ticket,
}

impl World {
    pub(crate) fn new(transactional_id: Option<&str>) -> Self {
        Self::seeded(transactional_id, 7)
    }

    pub(crate) fn seeded(transactional_id: Option<&str>, seed: u64) -> Self {
        Self {
            session: ProducerSession::new(config(transactional_id), seed),
            now: secs(1),
            calls: Vec::new(),
            outcomes: BTreeMap::new(),
            identities: Vec::new(),
            joined: Vec::new(),
            ended: 0,
            failed_unsent: Vec::new(),
            fatal: None,
            steps: Vec::new(),
            retried: Vec::new(),
            next_ticket: 0,
        }
    }

    /// A session that is initialized as producer 9 with epoch 0, and knows its coordinator.
    pub(crate) fn ready(version2: bool) -> Self {
        let mut world = Self::new(Some("id"));
        world.put(Input::TransactionVersion2(version2));
        world.init();
        world.find();
        world.answer("InitProducerId", TransactionResponse::Identity(identity(9, 0)));
        assert_eq!(world.session.state(), SessionState::Ready);
        world
    }

    /// A session in a transaction with partition 0.
    pub(crate) fn open(version2: bool) -> Self {
        let mut world = Self::ready(version2);
        world.begin();
        world.join(0);
        world
    }

    pub(crate) fn put(&mut self, input: Input) {
        self.session.handle(self.now, input);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.session.poll() {
            match output {
                Output::Call { id, target, call } => self.calls.push((id, target, call)),
                Output::Identity(identity) => self.identities.push(identity),
                Output::PartitionAdded(partition) => self.joined.push(partition),
                Output::Ended => self.ended += 1,
                Output::Done { ticket, outcome } => {
                    assert!(self.outcomes.insert(ticket, outcome).is_none(), "ticket {ticket} is answered twice");
                }
                Output::FailUnsent(fault) => self.failed_unsent.push(fault),
                Output::Fatal(fault) => assert!(self.fatal.replace(fault).is_none(), "fatal twice"),
                Output::Event(SessionEvent::StateChanged { from, to }) => self.steps.push((from, to)),
                Output::Event(SessionEvent::Retried { api, reason }) => self.retried.push(format!("{api}: {reason}")),
            }
        }
    }

    /// Lets time pass, and wakes the session at the times that it asks for.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        let mut wakes = 0;
        while let Some(at) = self.session.wake_at().filter(|at| *at <= end) {
            wakes = if at > self.now { 0 } else { wakes + 1 };
            assert!(wakes < WAKES_PER_INSTANT, "it spins");
            self.now = self.now.max(at);
            self.put(Input::Tick);
        }
        self.now = end;
    }

    pub(crate) fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        self.next_ticket
    }

    pub(crate) fn init(&mut self) -> Ticket {
        let (ticket, deadline) = (self.ticket(), self.now + secs(60));
        self.put(Input::Init { ticket, deadline });
        ticket
    }

    pub(crate) fn begin(&mut self) -> Ticket {
        let ticket = self.ticket();
        self.put(Input::Begin { ticket });
        ticket
    }

    pub(crate) fn end(&mut self, ending: Ending) -> Ticket {
        let (ticket, deadline) = (self.ticket(), self.now + secs(60));
        self.put(Input::End { ticket, ending, deadline });
        ticket
    }

    pub(crate) fn send_offsets(&mut self, of: &[(i32, i64)]) -> Ticket {
        let (ticket, deadline) = (self.ticket(), self.now + secs(60));
        self.put(Input::SendOffsets { ticket, group: group(), offsets: offsets(of), deadline });
        ticket
    }

    /// Adds a partition to the transaction, with its call if there is one.
    pub(crate) fn join(&mut self, partition: i32) {
        self.put(Input::AddPartition(t(partition)));
        if !self.session.version2() {
            self.answer("AddPartitionsToTxn", good(&[partition]));
        }
        assert_eq!(self.joined.last(), Some(&t(partition)));
    }

    /// The call in flight, which has to be of this API.
    pub(crate) fn call(&mut self, api: &str) -> (CallId, Target, Call) {
        let found = self.calls.pop().unwrap_or_else(|| panic!("no {api}"));
        assert_eq!(found.2.api(), api);
        assert!(self.calls.is_empty(), "one call at a time");
        found
    }

    pub(crate) fn no_call(&self) {
        assert!(self.calls.is_empty(), "{:?}", self.calls);
    }

    pub(crate) fn answer(&mut self, api: &str, answer: TransactionResponse) -> Call {
        let (id, _, call) = self.call(api);
        self.put(Input::Answer { id, outcome: Ok(answer) });
        call
    }

    pub(crate) fn refuse(&mut self, api: &str, code: ErrorCode) {
        let (id, _, call) = self.call(api);
        self.put(Input::Answer { id, outcome: refusal(&call, code) });
    }

    pub(crate) fn lose(&mut self, api: &str) {
        let (id, ..) = self.call(api);
        self.put(Input::Answer { id, outcome: Err(CallFailure::Lost("the connection broke".into())) });
    }

    /// Answers FindCoordinator.
    pub(crate) fn find(&mut self) {
        let (id, target, call) = self.call("FindCoordinator");
        assert!(matches!(target, Target::Any { .. }));
        let Call::FindCoordinator { group } = call else { unreachable!() };
        let node_id = if group.is_some() { GROUPS } else { COORDINATOR };
        self.put(Input::Answer { id, outcome: Ok(coordinator(node_id)) });
    }

    pub(crate) fn outcome(&self, ticket: Ticket) -> Option<&Result<(), TransactionError>> {
        self.outcomes.get(&ticket)
    }

    pub(crate) fn succeeded(&self, ticket: Ticket) {
        assert_eq!(self.outcome(ticket), Some(&Ok(())));
    }

    pub(crate) fn error(&self, ticket: Ticket) -> &TransactionError {
        self.outcome(ticket).expect("an outcome").as_ref().expect_err("an error")
    }
}

pub(crate) fn coordinator(node_id: i32) -> TransactionResponse {
    TransactionResponse::Coordinator { node_id, host: "h".into(), port: 9092 }
}

/// An answer without an error for these partitions of `t`.
pub(crate) fn good(partitions: &[i32]) -> TransactionResponse {
    TransactionResponse::Partitions(partitions.iter().map(|partition| (t(*partition), ErrorCode::None)).collect())
}

/// The answer to this call with an error.
pub(crate) fn refusal(call: &Call, code: ErrorCode) -> Result<TransactionResponse, CallFailure> {
    match call {
        Call::AddPartitionsToTxn { partitions, .. } => {
            Ok(TransactionResponse::Partitions(partitions.iter().map(|partition| (partition.clone(), code)).collect()))
        }
        Call::TxnOffsetCommit { offsets, .. } => {
            Ok(TransactionResponse::Partitions(offsets.keys().map(|partition| (partition.clone(), code)).collect()))
        }
        _ => Err(CallFailure::Code(code, None)),
    }
}
