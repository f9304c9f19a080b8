//! The partition of records without a key (KIP-480, KIP-794): one until `batch.size` bytes went there, then another
//! one, which is less likely to be drawn the more batches wait for it.

use crate::backoff::Jitter;

/// The load of a partition, by which it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Batches that wait to be sent, or are in flight.
    pub queued: u32,
    /// Set if it has a leader.
    pub is_led: bool,
}

/// Draws the index of the next partition. Prefers partitions that have a leader, and then any other than `current`.
pub fn draw_partition(current: Option<usize>, loads: &[Load], jitter: &mut Jitter) -> Option<usize> {
    let any_led = loads.iter().any(|load| load.is_led);
    let usable = |index: usize| loads.get(index).is_some_and(|load| load.is_led || !any_led);
    let others = (0..loads.len()).filter(|&index| usable(index) && Some(index) != current).count();
    let candidates = || (0..loads.len()).filter(|&index| usable(index) && (others == 0 || Some(index) != current));
    let queued = |index: usize| loads.get(index).map_or(0, |load| u64::from(load.queued));
    let longest = candidates().map(queued).max()?;
    // As in Java: the longest queue has weight 1, and each batch fewer adds 1.
    let weight = |index: usize| longest + 1 - queued(index);
    let total: u64 = candidates().map(weight).sum();
    let mut drawn = jitter.next() % total.max(1);
    candidates().find(|&index| {
        let found = drawn < weight(index);
        drawn = drawn.saturating_sub(weight(index));
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(current: Option<usize>, loads: &[Load]) -> Vec<usize> {
        let (mut jitter, mut counts) = (Jitter::new(5), vec![0; loads.len()]);
        for _ in 0..3000 {
            counts[draw_partition(current, loads, &mut jitter).expect("there is one")] += 1;
        }
        counts
    }

    fn led(queued: u32) -> Load {
        Load { queued, is_led: true }
    }

    #[test]
    fn all_are_drawn_alike_but_for_the_current_one() {
        let counts = counts(Some(1), &[led(2); 4]);
        assert_eq!(counts[1], 0);
        assert!([0, 2, 3].into_iter().all(|index| (900..1100).contains(&counts[index])), "{counts:?}");
    }

    #[test]
    fn longer_queues_are_drawn_less() {
        // Weights 4, 1 and 3.
        let counts = counts(None, &[led(0), led(3), led(1)]);
        assert!((1400..1600).contains(&counts[0]) && (300..450).contains(&counts[1]), "{counts:?}");
    }

    #[test]
    fn those_without_a_leader_are_left_out_unless_none_has_one() {
        let stuck = Load { queued: 0, is_led: false };
        assert_eq!(counts(None, &[stuck, led(9), stuck]), [0, 3000, 0]);
        assert_eq!(counts(Some(1), &[stuck, led(9), stuck]), [0, 3000, 0]);
        assert!(counts(None, &[stuck; 3]).into_iter().all(|count| count > 800));
        assert_eq!(counts(Some(0), &[led(0)]), [3000]);
        assert_eq!(draw_partition(None, &[], &mut Jitter::new(1)), None);
    }
}
