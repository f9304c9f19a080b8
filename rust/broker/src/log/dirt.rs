//! Which logs are worth compacting, by Kafka's rules: how much of a log came since the last round, and how long it has waited.
//!
//! The segment that is appended to is never compacted, nor is what an open transaction holds back.

use monedula_protocol::error_code::ErrorCode;

use super::{Cleaning, Log};

/// What makes a log worth a round.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Dirt {
    /// More than this part of what may be compacted must be new.
    pub(crate) min_ratio: f64,
    /// After this time a round is due, whatever part is new.
    pub(crate) max_lag_ms: i64,
}

impl Log {
    /// Compacts what is worth it now. Returns when it might be worth it again, if it takes nothing but time.
    ///
    /// # Errors
    /// KAFKA_STORAGE_ERROR.
    pub(crate) fn clean_dirt(&mut self, dirt: Dirt, cleaning: Cleaning) -> Result<Option<i64>, ErrorCode> {
        let now_ms = cleaning.now_ms;
        let first_dirty = self.first_dirty_segment();
        let stable = self.last_stable_offset();
        let committed = |index: &usize| self.segments[index + 1].base_offset <= stable;
        // The times from which on the dirty segments may be compacted, oldest first.
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
        let overdue_ms = oldest_ms.map(|oldest_ms| oldest_ms.saturating_add(dirt.max_lag_ms).saturating_add(1));
        let is_overdue = overdue_ms.is_some_and(|overdue_ms| overdue_ms <= now_ms);
        let ratio = dirty_bytes as f64 / (clean_bytes + dirty_bytes).max(1) as f64;
        if dirty_bytes > 0 && (is_overdue || ratio > dirt.min_ratio) {
            self.clean(cleaning, end)?;
            // What is left waits for its lag, and is looked at then.
            return self.clean_dirt(dirt, cleaning);
        }
        let next_ripe_ms = (end < self.closed_segments()).then(|| ripe_ms(end));
        Ok([next_ripe_ms, overdue_ms].into_iter().flatten().filter(|due_ms| *due_ms > now_ms).min())
    }

    /// The place of the first segment that has something new.
    fn first_dirty_segment(&self) -> usize {
        let first_dirty = match self.cleaned_offset {
            offset if (self.start_offset()..=self.end_offset()).contains(&offset) => offset,
            _ => self.start_offset(),
        };
        self.segment_of(first_dirty)
    }
}
