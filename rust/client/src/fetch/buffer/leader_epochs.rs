//! Leader epochs of the records that were handed out: an offset that is committed with the epoch of the record before
//! it is checked by its next reader, who learns then that the record was replaced (KIP-320).

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use monedula_engine::TopicPartition;

/// Most epochs of a partition that are kept: the oldest are of records that were read long ago.
const MAX_EPOCHS: usize = 100;

#[derive(Default)]
pub(super) struct LeaderEpochs(BTreeMap<TopicPartition, Read>);

/// Offsets read of a partition without a gap.
#[derive(Default)]
struct Read {
    /// The epochs, each with its first offset.
    epochs: VecDeque<(i64, i32)>,
    /// The offset after the last record.
    end: i64,
}

impl LeaderEpochs {
    /// Notes that these offsets were read; `epochs` began among them, each with its first offset.
    pub(super) fn read(&mut self, partition: &TopicPartition, offsets: Range<i64>, epochs: &[(i64, i32)]) {
        if offsets.is_empty() {
            return;
        }
        if !self.0.contains_key(partition) {
            self.0.insert(partition.clone(), Read { epochs: VecDeque::new(), end: offsets.start });
        }
        let Some(read) = self.0.get_mut(partition) else { return };
        if read.end != offsets.start {
            // The user sought: nothing is known of what lies between.
            read.epochs.clear();
        }
        read.epochs.extend(epochs);
        read.epochs.drain(..read.epochs.len().saturating_sub(MAX_EPOCHS));
        read.end = offsets.end;
    }

    /// The leader epoch of the record before `offset`, -1 if it was not read. One that is too low would make the next
    /// reader believe that records were replaced.
    pub(super) fn before(&self, partition: &TopicPartition, offset: i64) -> i32 {
        let read = self.0.get(partition).filter(|read| offset <= read.end);
        let first = |read: &&Read| read.epochs.iter().rev().find(|(first, _)| *first < offset).map(|(_, epoch)| *epoch);
        read.as_ref().and_then(first).unwrap_or(-1)
    }

    /// The partition is read no longer.
    pub(super) fn forget(&mut self, partition: &TopicPartition) {
        self.0.remove(partition);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition() -> TopicPartition {
        TopicPartition::new("t", 0)
    }

    /// Offsets that were read, and where epochs began in them.
    type Read<'a> = (Range<i64>, &'a [(i64, i32)]);

    fn of(reads: &[Read<'_>]) -> LeaderEpochs {
        let mut epochs = LeaderEpochs::default();
        reads.iter().for_each(|(offsets, began)| epochs.read(&partition(), offsets.clone(), began));
        epochs
    }

    #[test]
    fn an_offset_has_the_epoch_of_the_record_before_it() {
        let epochs = of(&[(10..15, &[(10, 3)]), (15..20, &[(17, 5)])]);
        let before = [10, 11, 15, 17, 18, 20, 21].map(|offset| epochs.before(&partition(), offset));
        assert_eq!(before, [-1, 3, 3, 3, 5, 5, -1]);
    }

    #[test]
    fn what_lies_between_two_reads_is_not_known() {
        let epochs = of(&[(10..15, &[(10, 3)]), (30..35, &[(30, 5)])]);
        let before = [15, 20, 30, 31].map(|offset| epochs.before(&partition(), offset));
        assert_eq!(before, [-1, -1, -1, 5]);
    }

    #[test]
    fn what_was_read_before_a_seek_back_is_not_known() {
        let epochs = of(&[(10..50, &[(10, 3), (40, 5)]), (10..15, &[(10, 3)])]);
        assert_eq!([15, 45].map(|offset| epochs.before(&partition(), offset)), [3, -1]);
    }

    #[test]
    fn the_oldest_epochs_of_many_are_forgotten() {
        let many: Vec<(i64, i32)> = (0..1000).map(|epoch| (epoch, epoch as i32)).collect();
        let epochs = of(&[(0..1000, &many)]);
        assert_eq!([1, 1000].map(|offset| epochs.before(&partition(), offset)), [-1, 999]);
    }
}
