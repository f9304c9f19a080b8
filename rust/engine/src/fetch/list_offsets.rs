//! ListOffsets: where a position is, and what the log holds where it does not hold the position.

use monedula_protocol::error_code::ErrorCode;

use super::AssignmentId;
use super::config::ResetPolicy;
use super::fault::Fault;
use super::io::{ListOffsetsAnswer, Start};
use super::machine::FetchMachine;
use super::partition::Phase;
use crate::{Now, TopicPartition};

impl FetchMachine {
    pub(super) fn offset_listed(
        &mut self,
        partition: &TopicPartition,
        reading_id: u64,
        answer: Result<Option<ListOffsetsAnswer>, ErrorCode>,
        now: Now,
    ) {
        let Some(id) = self.take_lookup(partition, reading_id) else { return };
        let Some(state) = self.partitions.get(&id) else { return };
        let (phase, position) = (state.phase, state.offset);
        match (answer, phase) {
            (Ok(Some(listed)), Phase::ListingOffset(_)) => self.position(id, listed.offset, listed.leader_epoch, None),
            (Ok(Some(listed)), Phase::OutOfRange) => self.leave_range(id, position, listed, now),
            (Ok(Some(listed)), Phase::Moving(_)) => {
                self.position(id, listed.offset, listed.leader_epoch, Some(position));
            }
            // No record is as young as the timestamp: the end of the log is where such records will come.
            (Ok(None), Phase::Moving(_)) => self.set_phase(id, Phase::Moving(Start::Latest)),
            (Ok(None), _) => self.set_phase(id, Phase::ListingOffset(Start::Latest)),
            (Ok(Some(_)), _) => {}
            (Err(code), _) => self.lookup_failed(id, code, now),
        }
        self.touch(id, now);
    }

    /// The position `offset` was out of range; `listed` has both ends of the log.
    fn leave_range(&mut self, id: AssignmentId, offset: i64, listed: ListOffsetsAnswer, now: Now) {
        let Some(state) = self.partitions.get(&id) else { return };
        let (partition, log_start, log_end) = (state.partition.clone(), listed.log_start.unwrap_or(0), listed.offset);
        if (log_start..=log_end).contains(&offset) {
            // The log holds the position after all, so the fetch was answered by an old leader. Fetched again only
            // after a backoff: a broker that contradicts itself must not be asked in a spin.
            self.set_phase(id, Phase::Fetching);
            return self.back_off(id, now);
        }
        match self.config.reset {
            ResetPolicy::Fail => self.stop(id, Fault::OffsetOutOfRange { partition, offset, log_start, log_end }),
            // Retention passed the position by: what is left starts at the log's start, and must not be skipped.
            _ if offset < log_start => self.position(id, log_start, -1, Some(offset)),
            ResetPolicy::Earliest => self.position(id, log_start, -1, Some(offset)),
            ResetPolicy::Latest => self.position(id, log_end, -1, Some(offset)),
            ResetPolicy::ByDuration(age) => self.set_phase(id, Phase::Moving(Start::Ago(age))),
        }
    }

    /// A lookup was answered with an error: it is repeated, unless no repetition mends that.
    pub(super) fn lookup_failed(&mut self, id: AssignmentId, code: ErrorCode, now: Now) {
        let Some(state) = self.partitions.get(&id) else { return };
        let partition = state.partition.clone();
        match code {
            ErrorCode::TopicAuthorizationFailed => self.stop(id, Fault::TopicDenied { partition }),
            // UNSUPPORTED_FOR_MESSAGE_FORMAT and the like: no retry mends them.
            code if !code.is_retriable()
                && code != ErrorCode::UnknownServerError
                && code != ErrorCode::FencedLeaderEpoch =>
            {
                self.stop(id, Fault::Refused { partition, code });
            }
            _ => {
                self.back_off(id, now);
                self.want_metadata();
            }
        }
    }
}
