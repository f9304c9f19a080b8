//! Counts for the producer's health: requests in flight, and records of closed batches that are unfinished.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use monedula_engine::produce::RequestId;

use crate::lock::lock;

/// Counts the records of a closed batch until it is dropped with the batch.
#[derive(Default)]
pub(crate) struct UnfinishedRecords {
    total: Arc<AtomicU64>,
    own: u64,
}

impl UnfinishedRecords {
    /// Counts the records of one more batch, in the same total.
    pub(crate) fn count(&self, records: u32) -> Self {
        let own = u64::from(records);
        self.total.fetch_add(own, Ordering::Relaxed);
        Self { total: self.total.clone(), own }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}

impl Drop for UnfinishedRecords {
    fn drop(&mut self) {
        self.total.fetch_sub(self.own, Ordering::Relaxed);
    }
}

/// The requests in flight: the broker and the number of batches of each.
#[derive(Default)]
pub(crate) struct RequestsInFlight(Mutex<BTreeMap<RequestId, (i32, usize)>>);

impl RequestsInFlight {
    pub(crate) fn sent(&self, request: RequestId, broker: i32, batches: usize) {
        self.requests().insert(request, (broker, batches));
    }

    /// A request is over. Returns its broker.
    pub(crate) fn answered(&self, request: RequestId) -> Option<i32> {
        self.requests().remove(&request).map(|(broker, _)| broker)
    }

    /// The number of requests and of their batches, by broker.
    pub(crate) fn by_broker(&self) -> BTreeMap<i32, (usize, usize)> {
        let mut brokers: BTreeMap<i32, (usize, usize)> = BTreeMap::new();
        for &(broker, batches) in self.requests().values() {
            let counted = brokers.entry(broker).or_default();
            *counted = (counted.0 + 1, counted.1 + batches);
        }
        brokers
    }

    fn requests(&self) -> MutexGuard<'_, BTreeMap<RequestId, (i32, usize)>> {
        lock(&self.0)
    }
}
