//! The machine: its state, and which call comes next. It makes one call at a time, as Java's TransactionManager does:
//! calls have an order within a transaction, and the coordinator handles them one after the other anyway.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;

use super::{
    Call, CallId, Ending, GroupMetadata, Input, Output, SessionConfig, SessionEvent, SessionState, Target, Ticket,
    TransactionError,
};
use crate::backoff::{Backoff, Jitter};
use crate::group::CommitOffset;
use crate::produce::{ProducerIdentity, SendFault};
use crate::{Now, TopicPartition};

/// A call of the user that waits for the end of a verb.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) ticket: Ticket,
    pub(super) began: Now,
    pub(super) deadline: Now,
    pub(super) verb: Verb,
}

/// The verbs that take time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Init,
    SendOffsets,
    End(Ending),
}

impl Verb {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Init => "init_transactions",
            Self::SendOffsets => "send_offsets",
            Self::End(Ending::Commit) => "commit_transaction",
            Self::End(Ending::Abort) => "abort_transaction",
        }
    }
}

/// The request that has no answer yet.
#[derive(Clone, Debug)]
pub(super) struct CallInFlight {
    pub(super) id: CallId,
    pub(super) target: Target,
    pub(super) call: Call,
}

/// Offsets that are to be committed with the transaction.
#[derive(Clone, Debug)]
pub(super) struct PendingOffsets {
    pub(super) ticket: Ticket,
    pub(super) group: GroupMetadata,
    pub(super) offsets: BTreeMap<TopicPartition, CommitOffset>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct TransactionContents {
    /// The coordinator knows of the transaction, so it has to be ended there.
    pub(super) started: bool,
    /// A call was sent that starts the transaction at the coordinator, even if no answer confirms it.
    pub(super) may_have_started: bool,
    /// EndTxn was sent, so the transaction may have ended.
    pub(super) end_sent: bool,
    pub(super) partitions: BTreeSet<TopicPartition>,
    /// Partitions that are to be added to it.
    pub(super) pending_partitions: BTreeSet<TopicPartition>,
    /// Groups that are part of the transaction.
    pub(super) groups: BTreeSet<String>,
    pub(super) offsets: VecDeque<PendingOffsets>,
}

/// Gets a producer's identity and carries out its transactions. It does no I/O: a driver gives it inputs, and does what it puts out.
///
/// # Contract
///
/// **Time** is an argument of [`handle`](Self::handle) alone, and never goes back. After the input, verbs whose deadline has passed
/// end, and the next call is made if its backoff is over.
///
/// **Inputs.** [`handle`](Self::handle) is the only way to change the session: verbs of the user, requests of the delivery machine
/// ([`Input::NeedIdentity`], [`Input::AddPartition`], [`Input::DeliveryFailed`]), answers, or nothing but time ([`Input::Tick`]).
/// [`Input::TransactionVersion2`] comes before the input that makes the first call. An answer to another call than the one in
/// flight is ignored.
///
/// **Outputs.** Call [`poll`](Self::poll) after `handle`, until it returns `None`, and carry the outputs out in their order; several
/// inputs may be handled before. Only `handle` makes outputs. At most one [`Output::Call`] is in flight, and exactly one
/// [`Input::Answer`] must follow it. Every verb is answered by one [`Output::Done`]. Outputs for the delivery machine have to reach it
/// before the user learns of a `Done` that comes later, since the user may send as soon as a transaction is open.
///
/// **Waking.** [`wake_at`](Self::wake_at), asked once the outputs are drained, says when to give an [`Input::Tick`] if nothing else
/// happens before.
pub struct ProducerSession {
    pub(super) config: SessionConfig,
    pub(super) state: SessionState,
    jitter: Jitter,
    /// The time of the last input.
    pub(super) now: Now,
    outputs: VecDeque<Output>,
    next_call: CallId,
    pub(super) in_flight: Option<CallInFlight>,
    /// No call is made before this time.
    retry_at: Option<Now>,
    /// Failures in a row, of any calls.
    pub(super) failures: u32,
    /// The last failure, for verbs that time out.
    pub(super) last_error: Option<String>,
    /// Counts FindCoordinator calls: each one goes to another broker.
    find_attempts: u32,

    pub(super) identity: Option<ProducerIdentity>,
    pub(super) coordinator: Option<i32>,
    pub(super) group_coordinators: BTreeMap<String, i32>,
    /// Set if the cluster supports transaction version 2 (KIP-890).
    pub(super) cluster_version2: bool,
    /// Set if the current transaction uses it.
    pub(super) version2: bool,

    pub(super) contents: TransactionContents,
    /// The current epoch must not be used for another transaction: InitProducerId bumps it once this one has ended
    /// (KIP-360).
    pub(super) epoch_bump_required: bool,
    /// The coordinator would not accept EndTxn. InitProducerId aborts the transaction as well.
    pub(super) skip_end_txn: bool,
    pub(super) waiters: Vec<Waiter>,
    /// A commit or abort that timed out for the user. It goes on, and the user has to call it again before anything
    /// else.
    pub(super) timed_out_end: Option<Ending>,
    /// The end of the last transaction, while the epoch of the next one is being requested.
    pub(super) ended_by: Option<Ending>,
    /// The reason why the transaction can only be aborted, or the producer cannot be used any more.
    pub(super) failure: Option<TransactionError>,
}

impl ProducerSession {
    /// Backoff after CONCURRENT_TRANSACTIONS: the markers of the last transaction are being written, which does not
    /// take long.
    const MARKER_BACKOFF: Duration = Duration::from_millis(20);

    /// A session without an identity; `seed` decides its jitter.
    pub fn new(config: SessionConfig, seed: u64) -> Self {
        Self {
            config,
            state: SessionState::Uninitialized,
            jitter: Jitter::new(seed),
            now: Now::ZERO,
            outputs: VecDeque::new(),
            next_call: 0,
            in_flight: None,
            retry_at: None,
            failures: 0,
            last_error: None,
            find_attempts: 0,
            identity: None,
            coordinator: None,
            group_coordinators: BTreeMap::new(),
            cluster_version2: false,
            version2: false,
            contents: TransactionContents::default(),
            epoch_bump_required: false,
            skip_end_txn: false,
            waiters: Vec::new(),
            timed_out_end: None,
            ended_by: None,
            failure: None,
        }
    }

    /// Takes an input.
    pub fn handle(&mut self, now: Now, input: Input) {
        self.now = now;
        match input {
            Input::Tick => {}
            Input::Init { ticket, .. }
            | Input::Begin { ticket }
            | Input::SendOffsets { ticket, .. }
            | Input::End { ticket, .. }
                if self.config.transactional_id.is_none() =>
            {
                self.refuse(ticket, "transactions need a transactional.id: set one");
            }
            Input::NeedIdentity { old } => self.need_identity(old),
            Input::TransactionVersion2(on) => self.cluster_version2 = on,
            Input::Answer { id, outcome } => self.answered(id, outcome),
            Input::Init { ticket, deadline } => self.init(ticket, deadline),
            Input::Begin { ticket } => self.begin(ticket),
            Input::AddPartition(partition) => self.add_partition(partition),
            Input::SendOffsets { ticket, group, offsets, deadline } => {
                self.send_offsets(ticket, group, offsets, deadline);
            }
            Input::End { ticket, ending, deadline } => self.end(ticket, ending, deadline),
            Input::DeliveryFailed(fault) => self.delivery_failed(fault),
        }
        self.expire_waiters();
        self.advance();
    }

    /// The next output; `None` when all are drained.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The time to give an [`Input::Tick`] if nothing else happens before.
    pub fn wake_at(&self) -> Option<Now> {
        let retry = self.retry_at.filter(|_| self.in_flight.is_none());
        self.waiters.iter().map(|waiter| waiter.deadline).chain(retry).min()
    }

    /// The state.
    pub fn state(&self) -> SessionState {
        self.state
    }

    /// The producer id and epoch, once they are known.
    pub fn identity(&self) -> Option<ProducerIdentity> {
        self.identity
    }

    /// Tells whether the current transaction uses transaction version 2 (KIP-890): Produce requests then add their
    /// partitions to it, from version 12 on. Without it, transactional batches are sent with Produce version 11 at
    /// most.
    pub fn version2(&self) -> bool {
        self.version2
    }

    /// The reason why the latest call failed; `None` once one has succeeded.
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// The reason why records cannot be sent now; `None` if they can.
    pub fn refusal(&self) -> Option<TransactionError> {
        if self.config.transactional_id.is_none() || self.state == SessionState::InTransaction {
            return self.failure.clone();
        }
        Some(self.failure.clone().unwrap_or_else(|| {
            let state = match self.state {
                SessionState::Uninitialized => "init_transactions() was not called yet",
                SessionState::Initializing => "init_transactions() has not ended yet",
                SessionState::Committing => "the transaction is being committed",
                SessionState::Aborting => "the transaction is being aborted",
                _ => "no transaction is open: call begin_transaction() first",
            };
            TransactionError::State(format!("a producer with a transactional.id sends in transactions only: {state}"))
        }))
    }

    pub(super) fn push(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(super) fn enter(&mut self, to: SessionState) {
        let from = std::mem::replace(&mut self.state, to);
        debug_assert!(from.successors().contains(&to), "{from:?} -> {to:?}");
        self.push(Output::Event(SessionEvent::StateChanged { from, to }));
        // The new state does not wait for failures of the old one.
        self.retry_at = None;
        self.failures = 0;
        self.last_error = None;
    }

    pub(super) fn done(&mut self, ticket: Ticket, outcome: Result<(), TransactionError>) {
        self.push(Output::Done { ticket, outcome });
    }

    /// Ends all calls of the user that wait for one of these verbs.
    pub(super) fn finish_waiters(&mut self, which: impl Fn(Verb) -> bool, outcome: Result<(), TransactionError>) {
        let (finished, rest): (Vec<_>, Vec<_>) = self.waiters.drain(..).partition(|waiter| which(waiter.verb));
        self.waiters = rest;
        for waiter in finished {
            self.done(waiter.ticket, outcome.clone());
        }
    }

    fn expire_waiters(&mut self) {
        let (late, rest): (Vec<_>, Vec<_>) = self.waiters.drain(..).partition(|waiter| waiter.deadline <= self.now);
        self.waiters = rest;
        for waiter in late {
            if let Verb::End(ending) = waiter.verb {
                self.timed_out_end = Some(ending);
            }
            let last_error = self.last_error.clone().unwrap_or_else(|| "no broker has answered yet".into());
            let outcome = Err(TransactionError::TimedOut {
                what: waiter.verb.name(),
                after: self.now.saturating_sub(waiter.began),
                last_error,
            });
            self.done(waiter.ticket, outcome);
        }
    }

    /// Makes the next call, unless one is in flight or a backoff is not over. Ends a transaction that needs no call.
    fn advance(&mut self) {
        while self.in_flight.is_none() {
            if self.retry_at.is_some_and(|at| at > self.now) {
                return;
            }
            self.retry_at = None;
            let Some(call) = self.next_call() else {
                // The coordinator never learned of the transaction, so it ends without EndTxn.
                match self.state {
                    SessionState::Committing | SessionState::Aborting => self.ended(None),
                    _ => return,
                }
                continue;
            };
            let (target, call) = self.route(call);
            let id = self.next_call;
            self.next_call += 1;
            self.push(Output::Call { id, target, call: call.clone() });
            self.in_flight = Some(CallInFlight { id, target, call });
        }
    }

    fn next_call(&mut self) -> Option<Call> {
        match self.state {
            SessionState::Initializing => {
                Some(Call::InitProducerId { current: self.identity.filter(|_| self.epoch_bump_required) })
            }
            SessionState::InTransaction => self.next_addition(),
            SessionState::Committing => self.next_addition().or_else(|| self.next_end(Ending::Commit)),
            SessionState::Aborting => self.next_end(Ending::Abort),
            SessionState::Uninitialized | SessionState::Ready | SessionState::AbortableError | SessionState::Fatal => {
                None
            }
        }
    }

    fn next_addition(&mut self) -> Option<Call> {
        let identity = self.identity?;
        if !self.contents.pending_partitions.is_empty() {
            return Some(Call::AddPartitionsToTxn { identity, partitions: self.contents.pending_partitions.clone() });
        }
        let PendingOffsets { group, offsets, .. } = self.contents.offsets.front()?;
        if !self.version2 && !self.contents.groups.contains(&group.group) {
            return Some(Call::AddOffsetsToTxn { identity, group: group.group.clone() });
        }
        let (group, offsets, version2) = (group.clone(), offsets.clone(), self.version2);
        Some(Call::TxnOffsetCommit { identity, group, offsets, version2 })
    }

    /// The call and its coordinator; FindCoordinator if that is not known.
    fn route(&mut self, call: Call) -> (Target, Call) {
        let (node_id, find) = match &call {
            Call::InitProducerId { .. } if self.config.transactional_id.is_none() => {
                return (Target::Any { attempt: self.failures }, call);
            }
            Call::TxnOffsetCommit { group, .. } => {
                (self.group_coordinators.get(&group.group).copied(), Some(group.group.clone()))
            }
            _ => (self.coordinator, None),
        };
        match node_id {
            Some(node_id) => {
                match &call {
                    Call::AddPartitionsToTxn { .. }
                    | Call::AddOffsetsToTxn { .. }
                    | Call::TxnOffsetCommit { version2: true, .. } => {
                        self.contents.may_have_started = true;
                    }
                    Call::EndTxn { .. } => self.contents.end_sent = true,
                    _ => {}
                }
                (Target::Coordinator { node_id }, call)
            }
            None => {
                let attempt = self.find_attempts;
                self.find_attempts = self.find_attempts.wrapping_add(1);
                (Target::Any { attempt }, Call::FindCoordinator { group: find })
            }
        }
    }

    /// Delays the next call by a backoff.
    pub(super) fn back_off(&mut self, code: Option<ErrorCode>) {
        let backoff = match code {
            Some(ErrorCode::ConcurrentTransactions) => {
                Backoff { initial: Self::MARKER_BACKOFF.min(self.config.backoff.initial), ..self.config.backoff }
            }
            _ => self.config.backoff,
        };
        self.retry_at = Some(self.now + backoff.delay(self.failures, &mut self.jitter));
        self.failures = self.failures.saturating_add(1);
    }

    /// From now on the transaction can only be aborted.
    pub(super) fn must_abort(&mut self, reason: String) {
        if !matches!(self.state, SessionState::InTransaction | SessionState::Committing) {
            return;
        }
        self.enter(SessionState::AbortableError);
        self.contents.pending_partitions.clear();
        self.contents.offsets.clear();
        self.push(Output::FailUnsent(SendFault::TransactionFailed { reason: reason.clone() }));
        let error = TransactionError::MustAbort { reason };
        self.failure = Some(error.clone());
        self.timed_out_end = None;
        self.finish_waiters(|_| true, Err(error));
    }

    /// The producer cannot be used any more.
    pub(super) fn fatal(&mut self, error: TransactionError) {
        if self.state == SessionState::Fatal {
            return;
        }
        if self.state == SessionState::Initializing {
            // The transaction is committed: what failed is the epoch bump for the next one.
            self.finish_waiters(|verb| verb == Verb::End(Ending::Commit), Ok(()));
        }
        self.enter(SessionState::Fatal);
        let fault = match &error {
            TransactionError::Fenced { code, .. } => SendFault::Fenced { reason: (*code).to_owned() },
            error => SendFault::Fatal { reason: error.to_string() },
        };
        self.push(Output::Fatal(fault));
        self.contents = TransactionContents::default();
        self.failure = Some(error.clone());
        self.timed_out_end = None;
        self.finish_waiters(|_| true, Err(error));
    }
}
