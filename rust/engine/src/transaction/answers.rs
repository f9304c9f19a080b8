//! What brokers answer, and what it leads to.

use std::collections::BTreeMap;

use monedula_protocol::error_code::ErrorCode;

use super::session::{Contents, InFlight, ProducerSession, Verb};
use super::{
    Answer, Call, CallFailure, CallId, Ending, Output, Reaction, SessionEvent, State, Target, TransactionError,
    reaction,
};
use crate::group::UNKNOWN_TOPIC_ATTEMPTS;
use crate::produce::Identity;
use crate::{Now, TopicPartition};

impl ProducerSession {
    pub(super) fn answered(&mut self, id: CallId, outcome: Result<Answer, CallFailure>, now: Now) {
        let Some(asked) = self.in_flight.take_if(|asked| asked.id == id) else { return };
        if self.state == State::Fatal {
            return;
        }
        match outcome {
            Ok(answer) => self.accept(asked, answer, now),
            Err(CallFailure::Code(code, message)) => self.react(&asked, code, message, now),
            Err(CallFailure::Lost(reason)) => self.lost(&asked, reason, now),
            Err(CallFailure::Fatal(reason)) => match &asked.call {
                Call::AddPartitions { .. } | Call::AddOffsets { .. } | Call::CommitOffsets { .. } => {
                    self.must_abort(reason);
                }
                _ => self.fatal(TransactionError::Fatal(reason)),
            },
        }
    }

    fn accept(&mut self, asked: InFlight, answer: Answer, now: Now) {
        match (&asked.call, answer) {
            (Call::FindCoordinator { group }, Answer::Coordinator { node_id, .. }) => match group {
                None => self.coordinator = Some(node_id),
                Some(group) => _ = self.group_coordinators.insert(group.clone(), node_id),
            },
            (Call::InitProducerId { .. }, Answer::Identity(identity)) => self.initialized(identity),
            (Call::AddPartitions { partitions, .. }, Answer::Partitions(codes)) => {
                let codes = complete(partitions.iter(), codes);
                self.partitions_added(&asked, codes, now);
            }
            (Call::AddOffsets { group, .. }, Answer::Ok) => {
                self.succeeded();
                self.contents.started = true;
                self.contents.groups.insert(group.clone());
            }
            (Call::CommitOffsets { offsets, .. }, Answer::Partitions(codes)) => {
                let codes = complete(offsets.keys(), codes);
                self.offsets_committed(&asked, codes, now);
            }
            (Call::End { .. }, Answer::Identity(identity)) => self.end_answered(Some(identity)),
            (Call::End { .. }, Answer::Ok) => self.end_answered(None),
            // A driver that mixes up answers would be mended by none; brokers cannot do it.
            (call, _) => self.fatal(TransactionError::Fatal(format!("{}: the answer is another call's", call.api()))),
        }
    }

    fn succeeded(&mut self) {
        self.failures = 0;
        self.last_error = None;
    }

    fn initialized(&mut self, identity: Identity) {
        if self.state != State::Initializing {
            return;
        }
        self.enter(State::Ready);
        self.take_identity(identity);
        self.skip_end = false;
        self.tell(|verb| matches!(verb, Verb::Init | Verb::End(_)), Ok(()));
    }

    fn end_answered(&mut self, next: Option<Identity>) {
        if matches!(self.state, State::Committing | State::Aborting) {
            self.ended(next);
        }
    }

    /// The transaction is over; `next` is who the producer is from now on, if the coordinator said so.
    pub(super) fn ended(&mut self, next: Option<Identity>) {
        self.contents = Contents::default();
        self.failure = None;
        self.push(Output::Ended);
        if let Some(next) = next {
            self.take_identity(next);
        }
        if self.raise {
            return self.enter(State::Initializing);
        }
        self.enter(State::Ready);
        self.tell(|verb| matches!(verb, Verb::End(_)), Ok(()));
    }

    fn partitions_added(&mut self, asked: &InFlight, codes: BTreeMap<TopicPartition, ErrorCode>, now: Now) {
        if let Some((partition, code)) = worst(asked.call.api(), &codes) {
            return self.react(asked, code, Some(format!("partition {partition}")), now);
        }
        self.succeeded();
        self.contents.started = true;
        for partition in codes.into_keys() {
            self.contents.joining.remove(&partition);
            self.contents.partitions.insert(partition.clone());
            if self.state != State::Aborting {
                self.push(Output::Joined(partition));
            }
        }
    }

    fn offsets_committed(&mut self, asked: &InFlight, codes: BTreeMap<TopicPartition, ErrorCode>, now: Now) {
        let failed = worst(asked.call.api(), &codes);
        if codes.values().any(|code| *code == ErrorCode::None) {
            self.contents.started = true;
        }
        // What is there need not be sent again.
        let Some(front) = self.contents.offsets.front_mut() else { return };
        front.offsets.retain(|partition, _| codes.get(partition) != Some(&ErrorCode::None));
        if let Some((partition, code)) = failed {
            return self.react(asked, code, Some(format!("offset of {partition}")), now);
        }
        let ticket = front.ticket;
        self.contents.offsets.pop_front();
        self.succeeded();
        // Nobody waits any more where its time was over.
        if self.waiters.iter().any(|waiter| waiter.ticket == ticket) {
            self.waiters.retain(|waiter| waiter.ticket != ticket);
            self.done(ticket, Ok(()));
        }
    }

    fn lost(&mut self, asked: &InFlight, reason: String, now: Now) {
        self.push(Output::Event(SessionEvent::Retried { api: asked.call.api(), reason: reason.clone() }));
        self.last_error = Some(format!("{}: {reason}", asked.call.api()));
        // It may still get there, after what is asked instead of it. Where all transactions have one epoch, a late EndTxn would
        // end the next transaction, and a late TxnOffsetCommit put back its offsets (what KIP-890 is for): so that one gets
        // another epoch.
        let writes = matches!(
            asked.call,
            Call::AddPartitions { .. } | Call::AddOffsets { .. } | Call::CommitOffsets { .. } | Call::End { .. }
        );
        self.raise |= writes && !self.version2;
        self.forget_coordinator(asked);
        self.wait(None, now);
    }

    /// Who was asked is not the coordinator, or is gone. An old one's failure says nothing about a new one.
    fn forget_coordinator(&mut self, asked: &InFlight) {
        let Target::Coordinator { node_id } = asked.target else { return };
        match &asked.call {
            Call::CommitOffsets { group, .. } => _ = self.group_coordinators.remove(&group.group),
            _ => _ = self.coordinator.take_if(|known| *known == node_id),
        }
    }

    fn react(&mut self, asked: &InFlight, code: ErrorCode, message: Option<String>, now: Now) {
        let api = asked.call.api();
        let words = message.as_deref().unwrap_or(code.message());
        let text = format!("{api}: {} ({words})", code.name());
        let nothing_to_abort = matches!(&asked.call, Call::End { ending: Ending::Abort, .. })
            && code == ErrorCode::InvalidTxnState
            && !self.contents.started;
        if nothing_to_abort {
            // The call that would have started it never came through.
            return self.end_answered(None);
        }
        // Brokers hear of a new topic at different times; but one that was deleted never comes back under its id.
        let gone = code == ErrorCode::UnknownTopicId && self.failures + 1 >= UNKNOWN_TOPIC_ATTEMPTS;
        match reaction(api, code) {
            Reaction::Retry if gone => self.abort_for(asked, code, message, text, now),
            Reaction::Retry => self.retry(asked, code, text, now),
            Reaction::Rediscover => {
                self.forget_coordinator(asked);
                self.retry(asked, code, text, now);
            }
            Reaction::Abort => self.abort_for(asked, code, message, text, now),
            Reaction::AbortAndRaise => {
                self.raise = true;
                self.abort_for(asked, code, message, text, now);
            }
            Reaction::Fence => self.fenced(code),
            Reaction::Deny => self.denied(code, message),
            Reaction::Fail => self.fatal(self.error_of(api, code, message)),
        }
    }

    fn abort_for(&mut self, asked: &InFlight, code: ErrorCode, message: Option<String>, text: String, now: Now) {
        match (self.state, &asked.call) {
            // An end whose answer was lost may have committed it, whatever is said of other questions.
            (State::Committing, call) if self.contents.end_sent && !matches!(call, Call::End { .. }) => {
                self.retry(asked, code, text, now);
            }
            (State::InTransaction | State::Committing, _) => {
                // An id that the coordinator does not know is not one whose transaction it ends.
                self.skip_end |= code == ErrorCode::InvalidProducerIdMapping;
                self.must_abort(text);
            }
            // Its end is refused: a new epoch ends it just as well.
            (State::Aborting, Call::End { .. }) => {
                self.skip_end = true;
                self.raise = true;
            }
            // What was on its way before the abort.
            (State::Aborting | State::AbortableError, _) => self.retry(asked, code, text, now),
            _ => self.fatal(self.error_of(asked.call.api(), code, message)),
        }
    }

    fn retry(&mut self, asked: &InFlight, code: ErrorCode, text: String, now: Now) {
        self.push(Output::Event(SessionEvent::Retried { api: asked.call.api(), reason: text.clone() }));
        self.last_error = Some(text);
        self.wait(Some(code), now);
    }

    fn denied(&mut self, code: ErrorCode, message: Option<String>) {
        let error = self.error_of("InitProducerId", code, message);
        if self.state != State::Initializing || self.identity.is_some() || self.config.transactional_id.is_none() {
            return self.fatal(error);
        }
        self.enter(State::Uninitialized);
        self.tell(|verb| verb == Verb::Init, Err(error));
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

/// A code for each partition that was asked for: one that the broker left out may be had by another attempt.
fn complete<'a>(
    asked: impl Iterator<Item = &'a TopicPartition>,
    codes: BTreeMap<TopicPartition, ErrorCode>,
) -> BTreeMap<TopicPartition, ErrorCode> {
    asked
        .map(|partition| (partition.clone(), codes.get(partition).copied().unwrap_or(ErrorCode::NetworkException)))
        .collect()
}

/// The error that decides for all partitions, if there is one: what ends the producer before what ends the transaction, and
/// that before what a repetition may mend.
fn worst(api: &str, codes: &BTreeMap<TopicPartition, ErrorCode>) -> Option<(TopicPartition, ErrorCode)> {
    let rank = |code: ErrorCode| match reaction(api, code) {
        Reaction::Fail | Reaction::Fence | Reaction::Deny => 5,
        Reaction::AbortAndRaise => 4,
        // It only says that another partition has an error.
        Reaction::Abort if code == ErrorCode::OperationNotAttempted => 0,
        Reaction::Abort => 3,
        Reaction::Rediscover => 2,
        Reaction::Retry => 1,
    };
    let errors = codes.iter().filter(|(_, code)| **code != ErrorCode::None);
    errors.max_by_key(|(_, code)| rank(**code)).map(|(partition, code)| (partition.clone(), *code))
}
