//! The user of transactions, who begins them, adds a group's offsets, commits or aborts; and the session that carries
//! it out.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use monedula_broker::NodeId;
use monedula_broker::control::Command;
use monedula_engine::backoff::Backoff;
use monedula_engine::group::CommitOffset;
use monedula_engine::produce::{self, SendFault};
use monedula_engine::transaction::{
    Call, CallFailure, CallId, Ending, GroupMetadata, Input, Output, ProducerSession, SessionConfig, Target, Ticket,
    TransactionError, TransactionResponse,
};
use monedula_engine::{Now, TopicPartition};
use monedula_protocol::error_code::ErrorCode;

use crate::broker::{GROUP, NODES, TOPIC, TRANSACTIONAL_ID};
use crate::judge::{Bug, Rule};
use crate::network::PendingRequest;
use crate::sim::{Event, Sim, TROUBLE, ms};

/// How long the user waits for a call before repeating it.
const PATIENCE_MS: u64 = 900;

/// The call that the user waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Init,
    Begin,
    Offsets,
    /// The records in the queue up to this number.
    Waiting(u64),
    /// The flush of its records.
    Flush(Ending),
    End(Ending),
}

/// A transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transaction {
    pub(crate) records: Vec<u64>,
    /// The group's offset if this transaction is committed.
    offset: Option<i64>,
    /// How it ended.
    pub(crate) ended: Option<Ending>,
}

pub(crate) struct User {
    pub(crate) version2: bool,
    pub(crate) transactions: Vec<Transaction>,
    session: ProducerSession,
    config: SessionConfig,
    calls: BTreeMap<CallId, (Call, i16)>,
    waits: Option<(Waits, Ticket)>,
    next_ticket: Ticket,
    is_open: bool,
    /// A record found no room; the session does not know that.
    pub(crate) spoilt: bool,
    /// InitProducerId calls without an answer.
    inits: BTreeSet<CallId>,
    /// Those that the coordinator has carried out: it raised the epoch, and the producer has fenced itself.
    raised: BTreeSet<CallId>,
    /// Whether an InitProducerId was ever without an answer.
    lost_init: bool,
}

impl User {
    pub(crate) fn new(seed: u64, version2: bool) -> Self {
        let config = SessionConfig {
            transactional_id: Some(TRANSACTIONAL_ID.to_owned()),
            transaction_timeout: ms(300_000),
            backoff: Backoff { initial: ms(50), max: ms(400), factor: 2 },
        };
        let mut session = ProducerSession::new(config.clone(), seed);
        session.handle(Now::ZERO, Input::TransactionVersion2(version2));
        let (transactions, calls) = (Vec::new(), BTreeMap::new());
        let (waits, next_ticket, is_open, spoilt) = (None, 0, false, false);
        let (inits, raised) = (BTreeSet::new(), BTreeSet::new());
        let lost_init = false;
        Self {
            version2,
            transactions,
            session,
            config,
            calls,
            waits,
            next_ticket,
            is_open,
            spoilt,
            inits,
            raised,
            lost_init,
        }
    }

    pub(crate) fn wake_at(&self) -> Option<Now> {
        self.session.wake_at()
    }

    pub(crate) fn drain(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.session.poll()).collect()
    }

    pub(crate) fn may_send(&self) -> bool {
        self.is_open && self.session.refusal().is_none()
    }

    /// Whether a waiting record is added to a batch; also while a commit waits for it.
    pub(crate) fn admits_waiting(&self) -> bool {
        (self.is_open || self.awaits_waiting().is_some()) && self.session.refusal().is_none()
    }

    pub(crate) fn awaits_waiting(&self) -> Option<u64> {
        match self.waits {
            Some((Waits::Waiting(last), _)) => Some(last),
            _ => None,
        }
    }

    pub(crate) fn sent(&mut self, record: u64) {
        if let Some(transaction) = self.transactions.last_mut() {
            transaction.records.push(record);
        }
    }

    /// The transactional id and the version of Produce for transactional records.
    pub(crate) fn place(&self) -> (&'static str, i16) {
        (TRANSACTIONAL_ID, if self.version2 { 12 } else { 11 })
    }

    /// Whether the epoch was raised without the producer's knowledge.
    pub(crate) fn is_fenced(&self) -> bool {
        !self.raised.is_empty()
    }

    /// The group's offset in the end.
    pub(crate) fn offset(&self) -> Option<i64> {
        let committed = self.transactions.iter().filter(|transaction| transaction.ended == Some(Ending::Commit));
        committed.filter_map(|transaction| transaction.offset).next_back()
    }

    /// The coordinator has carried out a call.
    pub(crate) fn worked(&mut self, call: CallId) {
        if self.inits.contains(&call) {
            self.raised.insert(call);
        }
    }

    /// The answer to a call arrived. The producer knows the epoch now, and with it all earlier ones.
    fn heard(&mut self, call: CallId, good: bool) {
        if self.inits.remove(&call) {
            self.raised.retain(|raised| *raised != call && !good);
        }
    }

    fn wait(&mut self, waits: Waits) -> Ticket {
        self.next_ticket += 1;
        self.waits = Some((waits, self.next_ticket));
        self.next_ticket
    }
}

impl Sim {
    pub(crate) fn user(&mut self) -> &mut User {
        self.user.as_mut().expect("there are transactions")
    }

    /// Whether no transaction is open, and none will follow.
    pub(crate) fn is_idle(&self) -> bool {
        self.user.as_ref().is_none_or(|user| !user.is_open && user.waits.is_none())
    }

    /// Gives the session an input, or lets it notice that time has passed.
    pub(crate) fn session(&mut self, input: Option<Input>) {
        let now = self.now;
        if let Some(user) = &mut self.user {
            user.session.handle(now, input.unwrap_or(Input::Tick));
        }
    }

    pub(crate) fn initialize(&mut self) {
        let ticket = self.user().wait(Waits::Init);
        let deadline = self.now + ms(PATIENCE_MS);
        self.session(Some(Input::Init { ticket, deadline }));
    }

    pub(crate) fn begin(&mut self) {
        if self.now >= TROUBLE {
            return;
        }
        let ticket = self.user().wait(Waits::Begin);
        self.session(Some(Input::Begin { ticket }));
    }

    /// Ends the open transaction by commit or abort.
    pub(crate) fn end(&mut self) {
        if !self.user().is_open {
            return;
        }
        if self.below(4) == 0 {
            return self.end_with(Ending::Abort);
        }
        if self.below(2) == 0 {
            return self.end_with(Ending::Commit);
        }
        let user = self.user();
        let ticket = user.wait(Waits::Offsets);
        let offset = user.transactions.len() as i64;
        user.transactions.last_mut().expect("one is open").offset = Some(offset);
        let group = GroupMetadata {
            group: GROUP.to_owned(),
            generation: -1,
            member_id: String::new(),
            instance_id: None,
            topic_ids: BTreeMap::new(),
        };
        let at = CommitOffset { offset, leader_epoch: -1, metadata: String::new() };
        let offsets = [(TopicPartition::new(TOPIC, 0), at)].into();
        let deadline = self.now + ms(PATIENCE_MS);
        self.session(Some(Input::SendOffsets { ticket, group, offsets, deadline }));
    }

    /// As in the client: a commit waits for the waiting records first, then for delivery; an abort fails what was not sent.
    fn end_with(&mut self, ending: Ending) {
        let last = self.waiting.last_number();
        let user = self.user();
        user.is_open = false;
        if ending == Ending::Commit {
            user.wait(Waits::Waiting(last));
            return self.deliver_if_none_waits();
        }
        let transaction = user.transactions.len() as u64;
        self.waiting.abort(transaction);
        self.deliver(Ending::Abort);
    }

    pub(crate) fn deliver(&mut self, ending: Ending) {
        if ending == Ending::Abort {
            self.machine.handle(self.now, produce::Input::FailUnsent(SendFault::Aborted));
        }
        let ticket = self.user().wait(Waits::Flush(ending));
        self.machine.handle(self.now, produce::Input::Flush { ticket });
        if self.bug == Some(Bug::CommitsAtOnce) {
            self.flushed();
        }
    }

    pub(crate) fn flushed(&mut self) {
        if let Some((Waits::Flush(ending), _)) = self.user().waits {
            self.ask_for_end(ending);
        }
    }

    fn ask_for_end(&mut self, ending: Ending) {
        let ticket = self.user().wait(Waits::End(ending));
        let deadline = self.now + ms(PATIENCE_MS);
        let ending = if self.bug == Some(Bug::AbortCommits) { Ending::Commit } else { ending };
        self.session(Some(Input::End { ticket, ending, deadline }));
    }

    /// Takes the session's outputs.
    pub(crate) fn said(&mut self, output: Output) {
        self.trace(|| format!("session: {output:?}"));
        let input = match output {
            Output::Call { id, target, call } => return self.call(id, &target, call),
            Output::Done { ticket, outcome } => return self.done(ticket, outcome),
            Output::Identity(identity) => produce::Input::Identity(identity),
            Output::PartitionAdded(partition) => produce::Input::AddedToTransaction(partition),
            Output::Ended => produce::Input::TransactionEnded,
            Output::FailUnsent(fault) => produce::Input::TransactionFailed(fault),
            Output::Fatal(fault) => produce::Input::FailAll(fault),
            Output::Event(_) => return,
        };
        if let produce::Input::Identity(_) = input {
            self.figures.epochs += 1;
        }
        self.machine.handle(self.now, input);
    }

    fn done(&mut self, ticket: Ticket, outcome: Result<(), TransactionError>) {
        let Some((waits, _)) = self.user().waits.take_if(|(_, waited)| *waited == ticket) else { return };
        match (waits, outcome) {
            (Waits::Init, Ok(())) => self.at(ms(1), Event::Begin),
            (Waits::Init, Err(TransactionError::TimedOut { .. })) => self.initialize(),
            (Waits::Begin, Ok(())) => {
                let user = self.user();
                user.transactions.push(Transaction::default());
                (user.is_open, user.spoilt) = (true, false);
                if user.transactions.len() == 1 {
                    self.at(ms(1), Event::Record);
                }
                let takes = 10 + self.below(250);
                self.at(ms(takes), Event::End);
            }
            // The waiting records continue, and the commit waits for them.
            (Waits::Offsets, Ok(()) | Err(TransactionError::TimedOut { .. })) => self.end_with(Ending::Commit),
            (Waits::End(ending), Ok(())) => {
                self.user().transactions.last_mut().expect("one was open").ended = Some(ending);
                match ending {
                    Ending::Commit => self.figures.committed += 1,
                    Ending::Abort => self.figures.aborted += 1,
                }
                let pause = self.below(10);
                self.at(ms(pause), Event::Begin);
            }
            (Waits::End(ending), Err(TransactionError::TimedOut { .. })) => {
                self.figures.unheard += 1;
                self.ask_for_end(ending);
            }
            (Waits::Offsets | Waits::End(Ending::Commit), Err(TransactionError::MustAbort { .. })) => {
                let records = self.user().transactions.last().expect("one is open").records.clone();
                if !self.has_failed(&records) {
                    self.problem.get_or_insert((Rule::Causeless, format!("{waits:?}: nothing of it failed")));
                }
                self.figures.spoilt += 1;
                self.end_with(Ending::Abort);
            }
            (waits, Err(TransactionError::Fenced { .. })) if self.user().is_fenced() => self.fenced(waits),
            (waits, outcome) => {
                self.problem = Some((Rule::Ends, format!("{waits:?}: {outcome:?}")));
                self.calm = true;
            }
        }
    }

    /// The producer cannot continue, and its open transaction was aborted.
    fn fenced(&mut self, waits: Waits) {
        self.figures.fenced += 1;
        let user = self.user();
        user.is_open = false;
        if let Some(transaction) = user.transactions.last_mut().filter(|_| waits != Waits::Begin) {
            transaction.ended = Some(Ending::Abort);
        }
    }

    fn call(&mut self, id: CallId, target: &Target, call: Call) {
        let node = match target {
            Target::Any { attempt } => 1 + (attempt % u32::from(NODES)) as i32,
            Target::Coordinator { node_id } => *node_id,
        };
        if self.bug == Some(Bug::OffsetsDropped)
            && let Call::TxnOffsetCommit { offsets, .. } = &call
        {
            let good = offsets.keys().map(|place| (place.clone(), ErrorCode::None));
            let outcome = Ok(TransactionResponse::Partitions(good.collect()));
            return self.session(Some(Input::Answer { id, outcome }));
        }
        let user = self.user();
        let version = *call.versions().end();
        let frame = call.encode(&user.config, version, 1, Some("sim")).unwrap();
        if let Call::InitProducerId { .. } = call {
            user.inits.insert(id);
        }
        user.calls.insert(id, (call, version));
        self.send_call(id, node, Bytes::from(frame).slice(4..));
    }

    pub(crate) fn call_answered(&mut self, id: CallId, frame: &[u8]) {
        let bug = self.bug;
        let user = self.user();
        let Some((call, version)) = user.calls.remove(&id) else { return };
        let mut outcome = call.decode(&user.config, &frame[4..], version).unwrap();
        user.heard(id, outcome.is_ok());
        if bug == Some(Bug::FencedForNothing) && user.lost_init && !user.is_fenced() {
            let abort = matches!(call, Call::EndTxn { ending: Ending::Abort, .. });
            outcome = if abort { Err(CallFailure::Code(ErrorCode::ProducerFenced, None)) } else { outcome };
        }
        self.trace(|| format!("answer to {:?}: {outcome:?}", PendingRequest::Call(id)));
        self.session(Some(Input::Answer { id, outcome }));
    }

    pub(crate) fn call_lost(&mut self, id: CallId, reason: &str) {
        let user = self.user();
        let lost = user.calls.remove(&id);
        user.lost_init |= matches!(lost, Some((Call::InitProducerId { .. }, _)));
        self.figures.lost_calls += 1;
        self.session(Some(Input::Answer { id, outcome: Err(CallFailure::Lost(reason.to_owned())) }));
    }

    /// The coordinator of the transactions or of the group's offsets.
    pub(crate) fn move_coordinator(&mut self, node: NodeId) {
        let of_group = self.below(2) == 0;
        let group = of_group.then(|| GROUP.to_owned());
        let transactional_id = (!of_group).then(|| TRANSACTIONAL_ID.to_owned());
        let moved = self.broker.command(self.now, Command::MoveCoordinator { group, transactional_id, node });
        self.trace(|| format!("a coordinator moves to {node:?}: {moved}"));
    }
}
