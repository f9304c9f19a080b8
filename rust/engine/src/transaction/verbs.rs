//! Inputs of the user and of the delivery machine: what they queue. Which call follows is decided in `session`.

use std::collections::BTreeMap;

use monedula_protocol::error_code::ErrorCode;

use super::session::{PendingOffsets, ProducerSession, TransactionContents, Verb, Waiter};
use super::{GroupMetadata, Output, SessionState, Ticket, TransactionError};
use crate::group::CommitOffset;
use crate::produce::{ProducerIdentity, SendFault};
use crate::{Now, TopicPartition};

impl ProducerSession {
    /// The delivery machine has no identity, or must not use `old` any more.
    pub(super) fn need_identity(&mut self, old: Option<ProducerIdentity>) {
        let Some(identity) = self.identity else {
            // A transactional one comes with init_transactions.
            if self.config.transactional_id.is_none() && self.state == SessionState::Uninitialized {
                self.enter(SessionState::Initializing);
            }
            return;
        };
        if old != Some(identity) {
            self.push(Output::Identity(identity));
        } else if self.config.transactional_id.is_some() {
            self.require_epoch_bump();
        } else if self.state == SessionState::Ready {
            self.bump_epoch_locally(identity);
        }
    }

    pub(super) fn take_identity(&mut self, identity: ProducerIdentity) {
        self.identity = Some(identity);
        self.epoch_bump_required = false;
        self.push(Output::Identity(identity));
    }

    pub(super) fn init(&mut self, ticket: Ticket, deadline: Now) {
        match self.state {
            SessionState::Uninitialized => self.enter(SessionState::Initializing),
            SessionState::Initializing => {}
            SessionState::Ready => return self.done(ticket, Ok(())),
            _ => return self.refuse(ticket, "init_transactions() is called once, before the first transaction"),
        }
        self.waiters.push(Waiter { ticket, began: self.now, deadline, verb: Verb::Init });
    }

    pub(super) fn begin(&mut self, ticket: Ticket) {
        match (self.state, self.timed_out_end) {
            (SessionState::Ready, None) => {
                self.contents = TransactionContents::default();
                self.version2 = self.cluster_version2;
                self.enter(SessionState::InTransaction);
                self.done(ticket, Ok(()));
            }
            (SessionState::Ready, Some(ending)) => {
                let verb = Verb::End(ending).name();
                let text =
                    format!("{verb}() did not end within its time before: call it again to hear what came of it");
                self.refuse(ticket, &text);
            }
            (SessionState::Uninitialized | SessionState::Initializing, _) => {
                self.refuse(ticket, "begin_transaction() comes after init_transactions()");
            }
            (SessionState::InTransaction, _) => {
                self.refuse(ticket, "a transaction is open already: commit or abort it first");
            }
            _ => self.refuse(ticket, "the last transaction has not ended yet"),
        }
    }

    /// A partition is about to get its first records of this transaction.
    pub(super) fn add_partition(&mut self, partition: TopicPartition) {
        if !matches!(self.state, SessionState::InTransaction | SessionState::Committing) {
            return;
        }
        if self.version2 {
            // The Produce request itself adds the partition (KIP-890).
            self.contents.started = true;
            self.contents.partitions.insert(partition.clone());
        }
        if self.contents.partitions.contains(&partition) {
            return self.push(Output::PartitionAdded(partition));
        }
        self.contents.pending_partitions.insert(partition);
    }

    pub(super) fn send_offsets(
        &mut self,
        ticket: Ticket,
        group: GroupMetadata,
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        deadline: Now,
    ) {
        if self.state != SessionState::InTransaction {
            return self.refuse(ticket, "send_offsets() belongs into a transaction: call begin_transaction() first");
        }
        if offsets.is_empty() {
            return self.done(ticket, Ok(()));
        }
        self.waiters.push(Waiter { ticket, began: self.now, deadline, verb: Verb::SendOffsets });
        self.contents.offsets.push_back(PendingOffsets { ticket, group, offsets });
    }

    /// Records of the transaction failed.
    pub(super) fn delivery_failed(&mut self, fault: SendFault) {
        if self.config.transactional_id.is_none() {
            return;
        }
        match &fault {
            SendFault::Fenced { .. } => return self.fenced(ErrorCode::ProducerFenced),
            SendFault::Refused { code: code @ ErrorCode::TransactionalIdAuthorizationFailed, .. } => {
                return self.fatal(TransactionError::Denied { what: "the transactional id".into(), code: *code });
            }
            // All records were flushed before EndTxn, so this failure does not concern the transaction that is being
            // ended.
            _ if self.contents.end_sent => return,
            _ => {}
        }
        // Sequence numbers were assigned to records that are not in the log: the broker would refuse the next ones.
        if matches!(
            self.state,
            SessionState::InTransaction
                | SessionState::Committing
                | SessionState::Aborting
                | SessionState::AbortableError
        ) {
            self.epoch_bump_required |= !self.version2;
        }
        self.must_abort(fault.to_string());
    }

    pub(super) fn fenced(&mut self, code: ErrorCode) {
        let transactional_id = self.config.transactional_id.clone().unwrap_or_default();
        self.fatal(TransactionError::Fenced { transactional_id, code: code.name() });
    }

    /// Fails a verb that does not belong here. An earlier failure of the producer is the better error.
    pub(super) fn refuse(&mut self, ticket: Ticket, text: &str) {
        let error = self.failure.clone().unwrap_or_else(|| TransactionError::State(text.to_owned()));
        self.done(ticket, Err(error));
    }
}
