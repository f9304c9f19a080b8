//! Chooses which logs to compact, by Kafka's rules: by how much of a log is new since the last round (dirty), and by
//! how long it has waited.
//!
//! The active segment is never compacted, nor are records that an open transaction holds back.

use monedula_protocol::error_code::ErrorCode;

use super::{Cleaning, Log};

/// The conditions for a round of compaction.
#[derive(Copy, Clone, Debug)]
pub(crate) struct CompactionConditions {
    /// The dirty part of what may be compacted must be larger than this ratio (min.cleanable.dirty.ratio).
    pub(crate) min_ratio: f64,
    /// After this time in milliseconds a round is due whatever the ratio is (max.compaction.lag.ms).
    pub(crate) max_lag_ms: i64,
}

impl Log {
    /// Compacts the log if the conditions hold. Returns when they may hold again by the passage of time alone.
    ///
    /// # Errors
    /// KAFKA_STORAGE_ERROR.
    pub(crate) fn clean_if_due(
        &mut self,
        conditions: CompactionConditions,
        cleaning: Cleaning,
    ) -> Result<Option<i64>, ErrorCode> {
        let now_ms = cleaning.now_ms;
        let first_dirty = self.first_dirty_segment();
        let stable = self.last_stable_offset();
        let committed = |index: &usize| self.segments[index + 1].base_offset <= stable;
        // The time from which on a segment may be compacted (min.compaction.lag.ms).
        let ripe_ms = |index: usize| match cleaning.min_lag_ms {
            ..=0 => i64::MIN,
            lag_ms => self.segments[index].age_from_ms().saturating_add(lag_ms),
        };
        let dirty = first_dirty..self.closed_segments();
        let ripe = dirty.clone().take_while(committed).take_while(|index| ripe_ms(*index) <= now_ms).count();
        let end = first_dirty + ripe;
        let bytes = |range: std::ops::Range<usize>| self.segments.range(range).map(|one| one.bytes()).sum::<u64>();
        let (clean_bytes, dirty_bytes) = (bytes(0..first_dirty), bytes(first_dirty..end));
        let oldest_ms = dirty.filter_map(|index| self.segments[index].first_timestamp_ms()).filter(|ms| *ms > 0).min();
        let overdue_ms = oldest_ms.map(|oldest_ms| oldest_ms.saturating_add(conditions.max_lag_ms).saturating_add(1));
        let is_overdue = overdue_ms.is_some_and(|overdue_ms| overdue_ms <= now_ms);
        let ratio = dirty_bytes as f64 / (clean_bytes + dirty_bytes).max(1) as f64;
        if dirty_bytes > 0 && (is_overdue || ratio > conditions.min_ratio) {
            self.clean(cleaning, end)?;
            // The segments that are left are protected by the lag. Returns when the first of them may be compacted.
            return self.clean_if_due(conditions, cleaning);
        }
        let next_ripe_ms = (end < self.closed_segments()).then(|| ripe_ms(end));
        Ok([next_ripe_ms, overdue_ms].into_iter().flatten().filter(|due_ms| *due_ms > now_ms).min())
    }

    /// The index of the first segment with dirty records.
    fn first_dirty_segment(&self) -> usize {
        let first_dirty = match self.cleaned_offset {
            offset if (self.start_offset()..=self.end_offset()).contains(&offset) => offset,
            _ => self.start_offset(),
        };
        self.segment_of(first_dirty)
    }
}
