//! EndTxn: a transaction is committed or aborted.

use super::session::{ProducerSession, TransactionContents, Verb, Waiter};
use super::{Call, Ending, Output, SessionState, Ticket, TransactionError};
use crate::Now;
use crate::produce::ProducerIdentity;

impl ProducerSession {
    /// The user commits or aborts.
    pub(super) fn end(&mut self, ticket: Ticket, ending: Ending, deadline: Now) {
        match (ending, self.state) {
            (Ending::Commit, SessionState::InTransaction) => self.enter(SessionState::Committing),
            (Ending::Abort, SessionState::InTransaction | SessionState::AbortableError) => {
                self.enter(SessionState::Aborting);
                self.failure = None;
                self.contents.pending_partitions.clear();
                self.contents.offsets.clear();
                let reason = "the transaction was aborted".into();
                self.finish_waiters(|verb| verb == Verb::SendOffsets, Err(TransactionError::MustAbort { reason }));
            }
            // The user calls it again after its deadline.
            (Ending::Commit, SessionState::Committing) | (Ending::Abort, SessionState::Aborting) => {}
            // The transaction has ended, and the epoch of the next one is requested: no other may begin before.
            (_, SessionState::Initializing) if self.ended_by == Some(ending) => {}
            (_, SessionState::Ready) if self.timed_out_end == Some(ending) => {
                self.timed_out_end = None;
                return self.done(ticket, Ok(()));
            }
            (Ending::Abort, SessionState::Committing) => {
                return self
                    .refuse(ticket, "the transaction is being committed already: call commit_transaction() again");
            }
            (Ending::Commit, SessionState::Aborting) => {
                return self.refuse(ticket, "the transaction is being aborted already: call abort_transaction() again");
            }
            _ => return self.refuse(ticket, "no transaction is open: call begin_transaction() first"),
        }
        self.timed_out_end = None;
        self.waiters.push(Waiter { ticket, began: self.now, deadline, verb: Verb::End(ending) });
    }

    /// EndTxn, if the coordinator may know of the transaction.
    pub(super) fn next_end(&self, ending: Ending) -> Option<Call> {
        let identity = self.identity?;
        let known = self.contents.started || self.contents.may_have_started;
        (known && !self.skip_end_txn).then_some(Call::EndTxn { identity, ending, version2: self.version2 })
    }

    pub(super) fn end_answered(&mut self, next: Option<ProducerIdentity>) {
        if matches!(self.state, SessionState::Committing | SessionState::Aborting) {
            self.ended(next);
        }
    }

    /// The transaction has ended. `next` is the producer's identity from now on, if EndTxn returned one (KIP-890).
    pub(super) fn ended(&mut self, next: Option<ProducerIdentity>) {
        self.contents = TransactionContents::default();
        self.failure = None;
        self.push(Output::Ended);
        if let Some(next) = next {
            self.take_identity(next);
        }
        if self.epoch_bump_required {
            let ending = if self.state == SessionState::Committing { Ending::Commit } else { Ending::Abort };
            self.ended_by = Some(ending);
            return self.enter(SessionState::Initializing);
        }
        self.enter(SessionState::Ready);
        self.finish_waiters(|verb| matches!(verb, Verb::End(_)), Ok(()));
    }
}
