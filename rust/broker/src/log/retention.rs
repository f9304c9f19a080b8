//! Removes records from the front of a log: by age (retention.ms), by size (retention.bytes), and by DeleteRecords.

use monedula_protocol::error_code::ErrorCode;

use super::Log;
use super::segment::Segment;

/// The limits of retention. Negative values keep everything.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Retention {
    /// True if `cleanup.policy` has `delete`. Without it, only segments below the log start offset are removed.
    pub(crate) delete: bool,
    pub(crate) ms: i64,
    pub(crate) bytes: i64,
}

impl Log {
    /// Removes whole segments by age and size. Returns whether anything changed.
    ///
    /// # Errors
    /// KAFKA_STORAGE_ERROR.
    pub(crate) fn retain(&mut self, retention: Retention, now_ms: i64) -> Result<bool, ErrorCode> {
        let before = (self.start_offset, self.segments.len());
        if retention.delete && retention.ms >= 0 {
            self.drop_while(|segment, _| now_ms.saturating_sub(segment.age_from_ms()) > retention.ms)?;
        }
        if retention.delete && retention.bytes >= 0 {
            let mut excess = self.bytes() as i64 - retention.bytes;
            self.drop_while(|segment, _| {
                let drops = excess >= segment.bytes() as i64;
                excess -= segment.bytes() as i64;
                drops
            })?;
        }
        let start_offset = self.start_offset;
        self.drop_while(|_, next| next.is_some_and(|next| next.base_offset <= start_offset))?;
        Ok(before != (self.start_offset, self.segments.len()))
    }

    /// Removes segments from the front while `drops` accepts them, possibly all. Segments with records above the high
    /// watermark stay.
    fn drop_while(&mut self, mut drops: impl FnMut(&Segment, Option<&Segment>) -> bool) -> Result<(), ErrorCode> {
        let mut count = 0;
        while let Some(segment) = self.segments.get(count) {
            let next = self.segments.get(count + 1);
            let end_offset = next.map_or(self.end_offset, |next| next.base_offset);
            let last_and_empty = next.is_none() && segment.is_empty();
            if last_and_empty || end_offset > self.high_watermark || !drops(segment, next) {
                break;
            }
            count += 1;
        }
        if count == self.segments.len() {
            self.roll()?;
        }
        if let (Some(directory), Some(next), 1..) = (&self.directory, self.segments.get(count), count) {
            self.storage(directory.write_start(self.start_offset.max(next.base_offset)))?;
        }
        for _ in 0..count {
            let Some(segment) = self.segments.pop_front() else { break };
            self.storage(segment.remove())?;
        }
        if let Some(first) = self.segments.front() {
            self.start_at(self.start_offset.max(first.base_offset));
        }
        Ok(())
    }

    /// Moves the log start offset. Records below it cannot be read any more, and are removed with their segment.
    ///
    /// # Errors
    /// OFFSET_OUT_OF_RANGE for an offset above the high watermark, or a negative one.
    pub(crate) fn delete_before(&mut self, offset: i64) -> Result<(), ErrorCode> {
        if offset < 0 || offset > self.high_watermark {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        self.start_at(self.start_offset.max(offset));
        Ok(())
    }

    fn start_at(&mut self, offset: i64) {
        if offset > self.start_offset {
            self.start_offset = offset;
            self.epochs.start_at(offset);
            self.aborted.retain(|aborted| aborted.last_offset >= offset);
        }
    }
}
