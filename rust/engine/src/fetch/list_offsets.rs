//! Lookups: where a position is, whether the log still holds it, and whether it is still the same log.

use monedula_protocol::error_code::ErrorCode;

use super::AssignmentId;
use super::fault::Fault;
use super::machine::{FetchMachine, Output};
use super::partition::{EpochEnd, ListedOffset, Phase, ResetPolicy, Start};
use crate::{Now, TopicPartition};

impl FetchMachine {
    /// An offset lookup was answered, or failed with the broker's error.
    pub fn resolved(
        &mut self,
        partition: &TopicPartition,
        span: u64,
        answer: Result<Option<ListedOffset>, ErrorCode>,
        now: Now,
    ) {
        let Some(id) = self.looked_up(partition, span) else { return };
        let Some(state) = self.partitions.get(&id) else { return };
        let (phase, position) = (state.phase, state.offset);
        match (answer, phase) {
            (Ok(Some(found)), Phase::ListingOffset(_)) => self.position(id, found.offset, found.leader_epoch, None),
            (Ok(Some(found)), Phase::OutOfRange) => self.leave_range(id, position, found, now),
            // No offset for that timestamp: the end of the log is where such records will come.
            (Ok(None), _) => self.set_phase(id, Phase::ListingOffset(Start::Latest)),
            (Ok(Some(_)), _) => {}
            (Err(code), _) => self.retry(id, code, now),
        }
        self.touch(id, now);
    }

    /// The leader said where the position's epoch ends, or failed with the broker's error.
    pub fn validated(&mut self, partition: &TopicPartition, span: u64, answer: Result<EpochEnd, ErrorCode>, now: Now) {
        let Some(id) = self.looked_up(partition, span) else { return };
        match answer {
            Ok(Some(end)) => self.truncate_to(id, end),
            // A broker that knows no such epoch proves no loss; fetching itself finds out.
            Ok(None) => self.set_phase(id, Phase::Fetching),
            Err(code) => self.retry(id, code, now),
        }
        self.touch(id, now);
    }

    /// The leader's log of the position's epoch ends at `end` (KIP-320).
    pub(super) fn truncate_to(&mut self, id: AssignmentId, end: i64) {
        let Some(state) = self.partitions.get(&id) else { return };
        let (offset, partition) = (state.offset, state.partition.clone());
        if end >= offset {
            self.set_phase(id, Phase::Fetching);
        } else if self.config.reset == ResetPolicy::Fail {
            self.stop(id, Fault::LogTruncated { partition, offset, divergent: end });
        } else {
            self.position(id, end, -1, Some(offset));
        }
    }

    fn leave_range(&mut self, id: AssignmentId, offset: i64, found: ListedOffset, now: Now) {
        let Some(state) = self.partitions.get(&id) else { return };
        let (partition, log_start, log_end) = (state.partition.clone(), found.log_start.unwrap_or(0), found.offset);
        if (log_start..=log_end).contains(&offset) {
            // The leader that answered holds the position after all: the other answer was an old one.
            // Not at once: a broker that contradicts itself must not be asked in a spin.
            self.set_phase(id, Phase::Fetching);
            return self.back_off(id, now);
        }
        match self.config.reset {
            ResetPolicy::Fail => self.stop(id, Fault::OffsetOutOfRange { partition, offset, log_start, log_end }),
            // Retention passed the position by: what is left starts at the log's start, and must not be skipped.
            _ if offset < log_start => self.position(id, log_start, -1, Some(offset)),
            ResetPolicy::Earliest => self.position(id, log_start, -1, Some(offset)),
            ResetPolicy::Latest => self.position(id, log_end, -1, Some(offset)),
        }
    }

    fn retry(&mut self, id: AssignmentId, code: ErrorCode, now: Now) {
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

    pub(super) fn look_up(&mut self, id: AssignmentId, now: Now) {
        let Some(state) = self.partitions.get_mut(&id) else { return };
        let Some(leader) = state.leader.filter(|_| state.lookup.is_none() && state.retry_at <= now) else { return };
        let (partition, span) = (state.partition.clone(), state.span);
        let output = match state.phase {
            Phase::ListingOffset(start) => Output::ListOffset { partition, span, start },
            Phase::OutOfRange => Output::ListLogRange { partition, span },
            Phase::Validating => Output::OffsetForLeaderEpoch {
                partition,
                span,
                leader_epoch: state.leader_epoch,
                offset_epoch: state.offset_epoch,
            },
            Phase::Fetching | Phase::Failed => return,
        };
        state.lookup = Some(leader);
        let node = self.nodes.entry(leader).or_default();
        if node.lookups == 0 {
            node.hold_until = now + Self::HOLD;
        }
        node.lookups += 1;
        self.emit(output);
    }

    /// The partition whose lookup ended, unless it has moved on meanwhile.
    fn looked_up(&mut self, partition: &TopicPartition, span: u64) -> Option<AssignmentId> {
        let id = self.current(partition, span)?;
        let lookup = self.partitions.get_mut(&id)?.lookup.take()?;
        self.end_lookup(Some(lookup));
        Some(id)
    }

    pub(super) fn end_lookup(&mut self, node: Option<i32>) {
        if let Some(node) = node.and_then(|id| self.nodes.get_mut(&id)) {
            node.lookups = node.lookups.saturating_sub(1);
        }
    }
}
