//! Answers of brokers, and what they lead to.

use std::collections::BTreeMap;

use monedula_protocol::error_code::ErrorCode;

use super::session::{CallInFlight, ProducerSession, Verb};
use super::{
    Call, CallFailure, CallId, Ending, Output, Reaction, SessionEvent, SessionState, Target, TransactionError,
    TransactionResponse, reaction,
};
use crate::TopicPartition;
use crate::group::UNKNOWN_TOPIC_ATTEMPTS;
use crate::produce::ProducerIdentity;

impl ProducerSession {
    pub(super) fn answered(&mut self, id: CallId, outcome: Result<TransactionResponse, CallFailure>) {
        let Some(sent) = self.in_flight.take_if(|sent| sent.id == id) else { return };
        if self.state == SessionState::Fatal {
            return;
        }
        match outcome {
            Ok(answer) => self.accept(sent, answer),
            Err(CallFailure::Code(code, message)) => self.react(&sent, code, message),
            Err(CallFailure::Lost(reason)) => self.call_lost(&sent, reason),
            Err(CallFailure::Fatal(reason)) => match &sent.call {
                Call::AddPartitionsToTxn { .. } | Call::AddOffsetsToTxn { .. } | Call::TxnOffsetCommit { .. } => {
                    self.must_abort(reason);
                }
                _ => self.fatal(TransactionError::Fatal(reason)),
            },
        }
    }

    fn accept(&mut self, sent: CallInFlight, answer: TransactionResponse) {
        match (&sent.call, answer) {
            (Call::FindCoordinator { group }, TransactionResponse::Coordinator { node_id, .. }) => match group {
                None => self.coordinator = Some(node_id),
                Some(group) => _ = self.group_coordinators.insert(group.clone(), node_id),
            },
            (Call::InitProducerId { .. }, TransactionResponse::Identity(identity)) => self.initialized(identity),
            (Call::AddPartitionsToTxn { partitions, .. }, TransactionResponse::Partitions(codes)) => {
                let codes = complete(partitions.iter(), codes);
                self.partitions_added(&sent, codes);
            }
            (Call::AddOffsetsToTxn { group, .. }, TransactionResponse::Ok) => {
                self.succeeded();
                self.contents.started = true;
                self.contents.groups.insert(group.clone());
            }
            (Call::TxnOffsetCommit { offsets, .. }, TransactionResponse::Partitions(codes)) => {
                let codes = complete(offsets.keys(), codes);
                self.offsets_committed(&sent, codes);
            }
            (Call::EndTxn { .. }, TransactionResponse::Identity(identity)) => self.end_answered(Some(identity)),
            (Call::EndTxn { .. }, TransactionResponse::Ok) => self.end_answered(None),
            // Only a bug of the driver can lead here: it decodes an answer by the call.
            (call, _) => self.fatal(TransactionError::Fatal(format!("{}: the answer is another call's", call.api()))),
        }
    }

    fn succeeded(&mut self) {
        self.failures = 0;
        self.last_error = None;
    }

    fn initialized(&mut self, identity: ProducerIdentity) {
        if self.state != SessionState::Initializing {
            return;
        }
        self.enter(SessionState::Ready);
        self.take_identity(identity);
        self.skip_end_txn = false;
        self.ended_by = None;
        self.finish_waiters(|verb| matches!(verb, Verb::Init | Verb::End(_)), Ok(()));
    }

    fn partitions_added(&mut self, sent: &CallInFlight, codes: BTreeMap<TopicPartition, ErrorCode>) {
        if let Some((partition, code)) = worst(&sent.call, &codes) {
            return self.react(sent, code, Some(format!("partition {partition}")));
        }
        self.succeeded();
        self.contents.started = true;
        for partition in codes.into_keys() {
            self.contents.pending_partitions.remove(&partition);
            self.contents.partitions.insert(partition.clone());
            if self.state != SessionState::Aborting {
                self.push(Output::PartitionAdded(partition));
            }
        }
    }

    fn offsets_committed(&mut self, sent: &CallInFlight, codes: BTreeMap<TopicPartition, ErrorCode>) {
        let failed = worst(&sent.call, &codes);
        if codes.values().any(|code| *code == ErrorCode::None) {
            self.contents.started = true;
        }
        // Offsets that were committed are not sent again.
        let Some(front) = self.contents.offsets.front_mut() else { return };
        front.offsets.retain(|partition, _| codes.get(partition) != Some(&ErrorCode::None));
        if let Some((partition, code)) = failed {
            return self.react(sent, code, Some(format!("offset of {partition}")));
        }
        let ticket = front.ticket;
        self.contents.offsets.pop_front();
        self.succeeded();
        // The waiter is gone if its deadline has passed.
        if self.waiters.iter().any(|waiter| waiter.ticket == ticket) {
            self.waiters.retain(|waiter| waiter.ticket != ticket);
            self.done(ticket, Ok(()));
        }
    }

    fn call_lost(&mut self, sent: &CallInFlight, reason: String) {
        self.push(Output::Event(SessionEvent::Retried { api: sent.call.api(), reason: reason.clone() }));
        self.last_error = Some(format!("{}: {reason}", sent.call.api()));
        // The request may still arrive, after the one that repeats it. Under transaction version 1 all transactions
        // have the same epoch, so that a late EndTxn would end the next transaction, and a late TxnOffsetCommit would
        // set its offsets back (the reason for KIP-890). A new epoch prevents both.
        let writes = matches!(
            sent.call,
            Call::AddPartitionsToTxn { .. }
                | Call::AddOffsetsToTxn { .. }
                | Call::TxnOffsetCommit { .. }
                | Call::EndTxn { .. }
        );
        self.epoch_bump_required |= writes && !self.version2;
        self.forget_coordinator(sent);
        self.back_off(None);
    }

    /// The broker that was asked is not the coordinator, or is gone. A coordinator that was found since is kept.
    fn forget_coordinator(&mut self, sent: &CallInFlight) {
        let Target::Coordinator { node_id } = sent.target else { return };
        match &sent.call {
            Call::TxnOffsetCommit { group, .. } => _ = self.group_coordinators.remove(&group.group),
            _ => _ = self.coordinator.take_if(|known| *known == node_id),
        }
    }

    fn react(&mut self, sent: &CallInFlight, code: ErrorCode, message: Option<String>) {
        let api = sent.call.api();
        let words = message.as_deref().unwrap_or(code.message());
        let text = format!("{api}: {} ({words})", code.name());
        let nothing_to_abort = matches!(&sent.call, Call::EndTxn { ending: Ending::Abort, .. })
            && code == ErrorCode::InvalidTxnState
            && !self.contents.started;
        if nothing_to_abort {
            // No call that starts the transaction arrived, so there is nothing to abort.
            return self.end_answered(None);
        }
        // Brokers learn of a new topic at different times, so the error may pass. A deleted topic never comes back
        // under its id.
        let gone = code == ErrorCode::UnknownTopicId && self.failures + 1 >= UNKNOWN_TOPIC_ATTEMPTS;
        match reaction(&sent.call, code) {
            Reaction::Retry if gone => self.abort_for(sent, code, message, text),
            Reaction::Retry => self.retry(sent, code, text),
            Reaction::Rediscover => {
                self.forget_coordinator(sent);
                self.retry(sent, code, text);
            }
            Reaction::Abort => self.abort_for(sent, code, message, text),
            Reaction::AbortAndBumpEpoch => {
                self.epoch_bump_required = true;
                self.abort_for(sent, code, message, text);
            }
            Reaction::Fence => self.fenced(code),
            Reaction::Deny => self.denied(code, message),
            Reaction::Fail => self.fatal(self.error_of(api, code, message)),
        }
    }

    fn abort_for(&mut self, sent: &CallInFlight, code: ErrorCode, message: Option<String>, text: String) {
        match (self.state, &sent.call) {
            // EndTxn was sent and its answer lost: the transaction may be committed. Errors of other calls do not
            // decide that.
            (SessionState::Committing, call) if self.contents.end_sent && !matches!(call, Call::EndTxn { .. }) => {
                self.retry(sent, code, text);
            }
            (SessionState::InTransaction | SessionState::Committing, _) => {
                // The coordinator does not know the producer id, so it would not accept EndTxn either.
                self.skip_end_txn |= code == ErrorCode::InvalidProducerIdMapping;
                self.must_abort(text);
            }
            // EndTxn was refused: InitProducerId with the current epoch aborts the transaction as well.
            (SessionState::Aborting, Call::EndTxn { .. }) => {
                self.skip_end_txn = true;
                self.epoch_bump_required = true;
            }
            // A call that was sent before the abort.
            (SessionState::Aborting | SessionState::AbortableError, _) => self.retry(sent, code, text),
            _ => self.fatal(self.error_of(sent.call.api(), code, message)),
        }
    }

    fn retry(&mut self, sent: &CallInFlight, code: ErrorCode, text: String) {
        self.push(Output::Event(SessionEvent::Retried { api: sent.call.api(), reason: text.clone() }));
        self.last_error = Some(text);
        self.back_off(Some(code));
    }

    fn denied(&mut self, code: ErrorCode, message: Option<String>) {
        let error = self.error_of("InitProducerId", code, message);
        if self.state != SessionState::Initializing || self.identity.is_some() || self.config.transactional_id.is_none()
        {
            return self.fatal(error);
        }
        self.enter(SessionState::Uninitialized);
        self.finish_waiters(|verb| verb == Verb::Init, Err(error));
    }

    fn error_of(&self, api: &'static str, code: ErrorCode, message: Option<String>) -> TransactionError {
        let what = match code {
            ErrorCode::TransactionalIdAuthorizationFailed => {
                format!("transactional.id={}", self.config.transactional_id.as_deref().unwrap_or_default())
            }
            ErrorCode::ClusterAuthorizationFailed => "writing with idempotence".to_owned(),
            _ => return TransactionError::Refused { what: api, code, message },
        };
        TransactionError::Denied { what, code }
    }
}

/// A code for each partition of the call. One that the broker left out counts as NETWORK_EXCEPTION, which is retried.
fn complete<'a>(
    requested: impl Iterator<Item = &'a TopicPartition>,
    codes: BTreeMap<TopicPartition, ErrorCode>,
) -> BTreeMap<TopicPartition, ErrorCode> {
    requested
        .map(|partition| (partition.clone(), codes.get(partition).copied().unwrap_or(ErrorCode::NetworkException)))
        .collect()
}

/// The error that decides for all partitions, if there is one: errors that end the producer come before errors that end
/// the transaction, and these before errors that are retried.
fn worst(call: &Call, codes: &BTreeMap<TopicPartition, ErrorCode>) -> Option<(TopicPartition, ErrorCode)> {
    let rank = |code: ErrorCode| match reaction(call, code) {
        Reaction::Fail | Reaction::Fence | Reaction::Deny => 5,
        Reaction::AbortAndBumpEpoch => 4,
        // OPERATION_NOT_ATTEMPTED only means that another partition has an error.
        Reaction::Abort if code == ErrorCode::OperationNotAttempted => 0,
        Reaction::Abort => 3,
        Reaction::Rediscover => 2,
        Reaction::Retry => 1,
    };
    let errors = codes.iter().filter(|(_, code)| **code != ErrorCode::None);
    errors.max_by_key(|(_, code)| rank(**code)).map(|(partition, code)| (partition.clone(), *code))
}
