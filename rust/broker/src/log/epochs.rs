//! The leader epochs of a log and their start offsets (KIP-101, KIP-320).

/// Stands for no epoch in requests.
const UNDEFINED: i32 = -1;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epochs(Vec<(i32, i64)>);

impl Epochs {
    pub(crate) fn from_entries(entries: Vec<(i32, i64)>) -> Self {
        let mut epochs = Self::default();
        entries.into_iter().for_each(|(epoch, start)| epochs.begin(epoch, start));
        epochs
    }

    pub(crate) fn entries(&self) -> &[(i32, i64)] {
        &self.0
    }

    pub(crate) fn latest(&self) -> Option<i32> {
        self.0.last().map(|&(epoch, _)| epoch)
    }

    /// Begins an epoch at an offset. A known epoch keeps its earlier start. Entries that start at this offset or above
    /// are removed, because nothing was written in those epochs.
    pub(crate) fn begin(&mut self, epoch: i32, start_offset: i64) {
        if epoch < 0 || self.0.last().is_some_and(|&(latest, start)| latest == epoch && start <= start_offset) {
            return;
        }
        self.0.retain(|&(known, start)| known < epoch && start < start_offset);
        self.0.push((epoch, start_offset));
    }

    /// The epoch of the log's first record, if it is known.
    pub(crate) fn earliest(&self, log_start_offset: i64) -> Option<i32> {
        self.0.first().filter(|&&(_, start)| start <= log_start_offset).map(|&(epoch, _)| epoch)
    }

    /// The largest epoch that is not above the requested one, and its end offset. An epoch older than all known ones is
    /// answered with the first known start, because its records are gone.
    pub(crate) fn end_of(&self, epoch: i32, log_end_offset: i64) -> Option<(i32, i64)> {
        let &(latest, _) = self.0.last()?;
        if epoch == latest {
            return Some((epoch, log_end_offset));
        }
        let higher = self.0.partition_point(|&(known, _)| known <= epoch);
        let &(_, end) = self.0.get(higher).filter(|_| epoch != UNDEFINED)?;
        let found = higher.checked_sub(1).and_then(|floor| self.0.get(floor)).map_or(epoch, |&(known, _)| known);
        Some((found, end))
    }

    /// Truncates the entries to a log end offset.
    pub(crate) fn truncate_to(&mut self, end_offset: i64) {
        self.0.retain(|&(_, start)| start < end_offset);
    }

    /// Moves the log start offset: the epoch in force there now starts there.
    pub(crate) fn start_at(&mut self, start_offset: i64) {
        let in_force = self.0.partition_point(|&(_, start)| start <= start_offset);
        if let Some(before) = in_force.checked_sub(1) {
            self.0.drain(..before);
            self.0[0].1 = start_offset;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_ends_where_the_next_begins() {
        let epochs = Epochs::from_entries(vec![(1, 0), (3, 10), (4, 20)]);
        assert_eq!(epochs.end_of(4, 25), Some((4, 25)));
        assert_eq!(epochs.end_of(3, 25), Some((3, 20)));
        // Epoch 2 had no records: the largest epoch below it is 1.
        assert_eq!(epochs.end_of(2, 25), Some((1, 10)));
        assert_eq!(epochs.end_of(0, 25), Some((0, 0)));
        assert_eq!(epochs.end_of(5, 25), None);
        assert_eq!(epochs.end_of(-1, 25), None);
        // Only -1 stands for no epoch.
        assert_eq!(epochs.end_of(-2, 25), Some((-2, 0)));
    }

    #[test]
    fn an_epoch_without_records_is_taken_over() {
        let mut epochs = Epochs::from_entries(vec![(0, 0), (1, 5), (2, 5)]);
        assert_eq!(epochs.entries(), [(0, 0), (2, 5)]);
        epochs.begin(2, 9);
        assert_eq!(epochs.entries(), [(0, 0), (2, 5)]);
        epochs.truncate_to(5);
        assert_eq!(epochs.entries(), [(0, 0)]);
    }

    #[test]
    fn what_is_deleted_at_the_front_moves_the_start() {
        let mut epochs = Epochs::from_entries(vec![(0, 0), (1, 5), (2, 9)]);
        epochs.start_at(7);
        assert_eq!(epochs.entries(), [(1, 7), (2, 9)]);
        assert_eq!((epochs.earliest(7), epochs.earliest(6)), (Some(1), None));
        epochs.start_at(20);
        assert_eq!(epochs.entries(), [(2, 20)]);
    }
}
