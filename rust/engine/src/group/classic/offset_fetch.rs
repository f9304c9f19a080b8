//! OffsetFetch of a classic member.

use monedula_protocol::error_code::ErrorCode;

use super::error_codes::reaction;
use super::member::ClassicMember;
use crate::group::messages::{CallId, CallKind, GroupOutcome, Output};
use crate::group::offsets::OffsetsFetched;
use crate::group::outbox::InFlight;
use crate::group::state::ClassicState;
use crate::{Now, TopicPartition};

impl ClassicMember {
    /// Asks for the committed offsets of assigned partitions.
    pub(super) fn advance_offset_fetch(&mut self, now: Now) {
        self.advance_refresh_metadata(now);
        if self.generation < 0 || self.state == ClassicState::Fatal {
            return;
        }
        let may_ask = |partition: &TopicPartition| self.is_topic_known(partition);
        let Some(partitions) = self.base.offset_fetch.next(may_ask, &self.base.out, now) else { return };
        self.base.fetch_offsets(partitions, None, self.generation, now);
    }

    pub(super) fn offsets_fetched(&mut self, id: CallId, call: InFlight, outcome: GroupOutcome, now: Now) {
        match self.base.offsets_fetched(id, outcome, reaction, &self.topics.first_seen, now) {
            OffsetsFetched::Done => {}
            OffsetsFetched::Lost(reason) => self.coordinator_lost(call.node_id, &reason, false, now),
            OffsetsFetched::Failed(code) => self.fail(self.group_error(CallKind::OffsetFetch.name(), code), now),
            OffsetsFetched::Retry(code) => {
                self.base.out.retried(CallKind::OffsetFetch.name(), code);
                if code == ErrorCode::UnknownTopicId {
                    // If the topic was recreated, metadata shows it, and then the partition is lost and assigned again.
                    self.base.out.push(Output::RefreshMetadata);
                }
                self.coordinator_error(reaction(CallKind::OffsetFetch, code), call, code.name(), now);
            }
        }
    }
}
