//! How many bytes the answer to a share fetch is likely to take.

/// What a record took before one was seen.
const FIRST_RECORD_BYTES: usize = 1 << 10;

/// The least that a fetch asks of each partition.
const LEAST_PARTITION_BYTES: usize = 1 << 16;

/// What the answers to recent fetches took.
#[derive(Debug)]
pub(super) struct AnswerSizes {
    /// What a record took, on average of the answer where it was most.
    record_bytes: usize,
    /// What the largest part took that a partition had in one.
    partition_bytes: usize,
}

impl Default for AnswerSizes {
    fn default() -> Self {
        Self { record_bytes: FIRST_RECORD_BYTES, partition_bytes: 0 }
    }
}

impl AnswerSizes {
    /// Notes an answer: the bytes of each of its partitions, and the number of records that it gave out. What was seen
    /// before counts for an eighth less with each.
    pub(super) fn note(&mut self, partitions: impl Iterator<Item = usize> + Clone, records: u64) {
        let records = usize::try_from(records).unwrap_or(usize::MAX);
        if let Some(mean) = partitions.clone().sum::<usize>().checked_div(records) {
            self.record_bytes = (mean + 1).max(self.record_bytes - self.record_bytes / 8);
            let largest = partitions.max().unwrap_or(0);
            self.partition_bytes = largest.max(self.partition_bytes - self.partition_bytes / 8);
        }
    }

    /// Bytes that have as many records as may be given. The broker looks at all record batches of what it may send, in each
    /// of the session's partitions, and then sends those of which it gives records: of 50 MB that was half of its work.
    pub(super) fn likely_bytes(&self, partitions: usize, records: i32) -> usize {
        let records = usize::try_from(records).unwrap_or(usize::MAX);
        // Locks may bound what a partition gives.
        let bytes = records.saturating_mul(self.record_bytes).min(self.partition_bytes.saturating_mul(2));
        match partitions {
            // The fetch opens the session.
            0 => usize::MAX,
            partitions => bytes.max(LEAST_PARTITION_BYTES).saturating_mul(partitions),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest part of a partition, and its records.
    const LARGEST: usize = 4 << 20;

    fn noted(answers: &[(&[usize], u64)]) -> AnswerSizes {
        let mut sizes = AnswerSizes::default();
        answers.iter().for_each(|(partitions, records)| sizes.note(partitions.iter().copied(), *records));
        sizes
    }

    #[test]
    fn a_fetch_that_opens_a_session_takes_all_that_there_is_room_for() {
        assert_eq!(noted(&[(&[LARGEST], 1000)]).likely_bytes(0, 500), usize::MAX);
    }

    #[test]
    fn each_partition_may_have_all_the_records_with_the_mean_of_the_answer() {
        let sizes = noted(&[(&[LARGEST, LARGEST], 2 * (LARGEST as u64) / 2000)]);
        assert_eq!(sizes.likely_bytes(3, 500), 3 * 500 * 2001);
    }

    #[test]
    fn no_partition_is_asked_for_more_than_twice_what_one_gave() {
        let sizes = noted(&[(&[1 << 20, 3 << 20], 256)]);
        assert_eq!(sizes.likely_bytes(2, 5000), 2 * 2 * (3 << 20));
        assert_eq!(sizes.likely_bytes(2, i32::MAX), 2 * 2 * (3 << 20));
    }

    #[test]
    fn small_records_and_none_at_all_leave_a_least_for_each_partition() {
        assert_eq!(noted(&[(&[100], 10)]).likely_bytes(4, 1), 4 * LEAST_PARTITION_BYTES);
        assert_eq!(AnswerSizes::default().likely_bytes(4, 500), 4 * LEAST_PARTITION_BYTES);
    }

    #[test]
    fn what_was_large_is_forgotten_by_and_by_and_answers_without_records_say_nothing() {
        let large = noted(&[(&[LARGEST], 1024)]);
        let empty = noted(&[(&[LARGEST], 1024), (&[], 0), (&[0], 0)]);
        assert_eq!(empty.likely_bytes(1, 500), large.likely_bytes(1, 500));
        let mut answers: Vec<(&[usize], u64)> = vec![(&[LARGEST], 1024), (&[1000], 10)];
        let once = noted(&answers).likely_bytes(1, 500);
        assert_eq!(once, 500 * (4097 - 4097 / 8));
        answers.extend([(&[1000][..], 10); 100]);
        assert_eq!(noted(&answers).likely_bytes(1, 500), LEAST_PARTITION_BYTES);
    }
}
