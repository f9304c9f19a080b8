//! What is under way, for whoever asks how the producer is: requests as the driver makes them, records as batches close.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::lock::lock;
use monedula_engine::produce::RequestId;

/// Records of closed batches, counted for as long as their batch holds this.
#[derive(Default)]
pub(crate) struct Unfinished {
    closed: Arc<AtomicU64>,
    mine: u64,
}

impl Unfinished {
    /// So many more.
    pub(crate) fn of(&self, records: u32) -> Self {
        let mine = u64::from(records);
        self.closed.fetch_add(mine, Ordering::Relaxed);
        Self { closed: self.closed.clone(), mine }
    }

    /// All of them together.
    pub(crate) fn records(&self) -> u64 {
        self.closed.load(Ordering::Relaxed)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.closed.fetch_sub(self.mine, Ordering::Relaxed);
    }
}

/// Requests without an answer: where they are, and how many batches they have.
#[derive(Default)]
pub(crate) struct InFlight(Mutex<BTreeMap<RequestId, (i32, usize)>>);

impl InFlight {
    pub(crate) fn sent(&self, request: RequestId, broker: i32, batches: usize) {
        self.requests().insert(request, (broker, batches));
    }

    pub(crate) fn answered(&self, request: RequestId) {
        self.requests().remove(&request);
    }

    /// Requests and their batches, by broker.
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
