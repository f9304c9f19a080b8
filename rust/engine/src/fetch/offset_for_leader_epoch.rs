//! OffsetForLeaderEpoch: whether the log of a new leader still holds what was read (KIP-320).

use monedula_protocol::error_code::ErrorCode;

use super::AssignmentId;
use super::config::ResetPolicy;
use super::fault::Fault;
use super::io::EpochEnd;
use super::machine::FetchMachine;
use super::partition::Phase;
use crate::{Now, TopicPartition};

impl FetchMachine {
    pub(super) fn epoch_end_found(
        &mut self,
        partition: &TopicPartition,
        reading_id: u64,
        answer: Result<EpochEnd, ErrorCode>,
        now: Now,
    ) {
        let Some(id) = self.take_lookup(partition, reading_id) else { return };
        match answer {
            Ok(Some(end)) => self.truncate_to(id, end),
            // A broker that knows no such epoch proves no loss; fetching itself finds out.
            Ok(None) => self.set_phase(id, Phase::Fetching),
            Err(code) => self.lookup_failed(id, code, now),
        }
        self.touch(id, now);
    }

    /// The leader's log of the position's epoch ends at `end`. Fetch answers say so too, as a diverging epoch.
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
}
