//! OffsetFetch of a classic member.

use monedula_protocol::error_code::ErrorCode;

use super::ClassicState;
use super::error_codes::reaction;
use super::member::Member;
use crate::group::{Answer, Call, CallId, CallKind, InFlight, OffsetsFetched, OnError, Output, Reaction, topic_ids};
use crate::{Now, TopicPartition};

impl Member {
    /// Asks for the committed offsets of assigned partitions.
    pub(super) fn advance_offset_fetch(&mut self, now: Now) {
        self.advance_refresh_metadata(now);
        if self.generation < 0 || self.state == ClassicState::Fatal {
            return;
        }
        let may_ask = |partition: &TopicPartition| self.is_topic_known(partition);
        let Some(partitions) = self.offset_fetch.next(may_ask, &self.out, now) else { return };
        let call = Call::OffsetFetch {
            group_id: self.config.group_id.clone(),
            member: None,
            topic_ids: topic_ids(&self.owned, partitions.iter()),
            partitions: partitions.iter().cloned().collect(),
        };
        let sent = self.send(CallKind::OffsetFetch, call, now);
        self.offset_fetch.sent(sent, partitions);
    }

    pub(super) fn offsets_fetched(&mut self, id: CallId, call: InFlight, outcome: Result<Answer, String>, now: Now) {
        if !self.offset_fetch.is_answer(id) {
            return;
        }
        if let Ok(Answer::OffsetFetch { code, .. }) = outcome {
            self.coordinator_answered(code);
        }
        let on_error = |code| match reaction(CallKind::OffsetFetch, code) {
            Reaction::Report => OnError::Refuse,
            Reaction::Fail => OnError::Fail,
            _ => OnError::Retry,
        };
        match self.offset_fetch.answered(outcome, on_error, &self.topics.first_seen, &mut self.out, now) {
            OffsetsFetched::Done => {}
            OffsetsFetched::Lost(reason) => self.coordinator_lost(call.node_id, &reason, false, now),
            OffsetsFetched::Failed(code) => self.fail(self.group_error(CallKind::OffsetFetch.api(), code), now),
            OffsetsFetched::Retry(code) => {
                self.out.retried(CallKind::OffsetFetch.api(), code);
                if code == ErrorCode::UnknownTopicId {
                    // If the topic was recreated, metadata shows it, and then the partition is lost and assigned again.
                    self.out.push(Output::RefreshMetadata);
                }
                self.coordinator_error(reaction(CallKind::OffsetFetch, code), call, code.name(), now);
            }
        }
    }
}
