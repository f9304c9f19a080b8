//! Filter for batches of aborted transactions (KIP-98).
//!
//! A read_committed Fetch response lists, for each partition, the aborted transactions that overlap
//! it: producer id and first offset. A producer's transactional batches are hidden from that offset on
//! until its abort marker.

use std::collections::BTreeMap;
use std::sync::Arc;

use monedula_protocol::records::BatchHeader;

/// An aborted transaction of a Fetch response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AbortedTransaction {
    /// The producer's id.
    pub producer_id: i64,
    /// The first offset of its aborted transaction.
    pub first_offset: i64,
}

/// Aborted transactions of one Fetch response, with those that are open at the walk's offset.
#[derive(Debug, Default)]
pub(crate) struct AbortedList {
    by_offset: Arc<[AbortedTransaction]>,
    begun: usize,
    active: Vec<i64>,
}

/// Offset of each producer's last abort marker. Several segments of one response come with the same list: without the
/// markers, a later segment's list would also hide the producer's next transaction.
#[derive(Debug, Default)]
pub(crate) struct AbortMarkers(BTreeMap<i64, i64>);

impl AbortedList {
    pub(crate) fn new(aborted: impl Into<Arc<[AbortedTransaction]>>) -> Self {
        let mut by_offset = aborted.into();
        if !by_offset.is_sorted_by_key(|transaction| transaction.first_offset) {
            let mut sorted = by_offset.to_vec();
            sorted.sort_by_key(|transaction| transaction.first_offset);
            by_offset = sorted.into();
        }
        Self { by_offset, begun: 0, active: Vec::new() }
    }

    /// Returns true if the batch belongs to an aborted transaction. Must be called in offset order.
    pub(crate) fn hides(&mut self, header: &BatchHeader, markers: &AbortMarkers) -> bool {
        while let Some(next) = self.by_offset.get(self.begun) {
            if next.first_offset > header.last_offset() {
                break;
            }
            self.begun += 1;
            if !markers.has_ended(next) && !self.active.contains(&next.producer_id) {
                self.active.push(next.producer_id);
            }
        }
        header.is_transactional() && self.active.contains(&header.producer_id)
    }

    /// Ends the producer's aborted transaction at its abort marker.
    pub(crate) fn end(&mut self, header: &BatchHeader, markers: &mut AbortMarkers) {
        if let Some(index) = self.active.iter().position(|id| *id == header.producer_id) {
            self.active.swap_remove(index);
            markers.0.insert(header.producer_id, header.last_offset());
        }
    }

    fn names(&self, producer_id: i64) -> bool {
        self.by_offset.iter().any(|transaction| transaction.producer_id == producer_id)
    }
}

impl AbortMarkers {
    fn has_ended(&self, transaction: &AbortedTransaction) -> bool {
        self.0.get(&transaction.producer_id).is_some_and(|marker| transaction.first_offset <= *marker)
    }

    /// Removes producers that no list names any more, since a consumer that runs for months meets many.
    pub(crate) fn retain_named<'l>(&mut self, lists: impl Iterator<Item = &'l AbortedList> + Clone) {
        self.0.retain(|producer_id, _| lists.clone().any(|list| list.names(*producer_id)));
    }
}
