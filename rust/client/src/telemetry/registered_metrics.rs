//! Metrics that users register, so that they are pushed with the client's own (KIP-1076).
//!
//! Their values are read at a push, each on a thread of its own: the user's code may raise or hang, and neither the
//! client nor other metrics wait for it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::closed;
use crate::blocking;
use crate::lock::lock;
use crate::log::{Log, kinds};
use crate::tasks::caught_now;

/// Time that a value may take, before a push leaves it out.
const PATIENCE: Duration = Duration::from_secs(5);

/// The same while the client closes, which waits a second for the last push.
const LAST_PATIENCE: Duration = Duration::from_millis(250);

/// The user's code that returns the value of a metric, or why there is none.
pub type ReadMetric = Box<dyn Fn() -> Result<f64, String> + Send + Sync>;

type Value = oneshot::Receiver<Result<f64, String>>;

/// The kind of a registered metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisteredKind {
    /// The value of now.
    Gauge,
    /// A sum that only grows.
    Counter,
}

/// The identity of a registered metric.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetricId {
    /// The name.
    pub name: String,
    /// The attributes, sorted by key.
    pub attributes: Vec<(String, String)>,
}

/// A metric that a user registered.
pub struct RegisteredMetric {
    pub(super) id: MetricId,
    pub(super) kind: RegisteredKind,
    pub(super) unit: String,
    read: ReadMetric,
    is_reading: AtomicBool,
    is_failure_told: AtomicBool,
}

impl fmt::Debug for RegisteredMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisteredMetric").field("id", &self.id).field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl RegisteredMetric {
    /// A metric, whose value `read` returns.
    pub fn new(id: MetricId, kind: RegisteredKind, unit: String, read: ReadMetric) -> Self {
        Self { id, kind, unit, read, is_reading: AtomicBool::new(false), is_failure_told: AtomicBool::new(false) }
    }

    /// Begins to read the value; `None` while an earlier push still does, or without a thread for it.
    fn begin(self: &Arc<Self>) -> Option<Value> {
        if self.is_reading.swap(true, Ordering::AcqRel) {
            return None;
        }
        let (sender, value) = oneshot::channel();
        let metric = self.clone();
        let work = move || {
            let read = caught_now(|| (metric.read)()).and_then(|value| value);
            metric.is_reading.store(false, Ordering::Release);
            // Nobody may wait any more.
            let _ = sender.send(read);
        };
        if blocking::start_thread(blocking::named("monedula-metric"), work).is_err() {
            self.is_reading.store(false, Ordering::Release);
            return None;
        }
        Some(value)
    }

    /// The value, if it came and is a number.
    fn checked(&self, value: Option<Result<f64, String>>, log: &Log) -> Option<f64> {
        let why = match value {
            Some(Ok(value)) if value.is_finite() => return Some(value),
            Some(Ok(value)) => format!("its function returned {value}, not a finite number"),
            Some(Err(why)) => why,
            None => "its function does not return".to_owned(),
        };
        if !self.is_failure_told.swap(true, Ordering::Relaxed) {
            log.record(&kinds::METRIC_NOT_READ, || {
                format!("the metric {} is left out of pushes for now: {why}", self.id.name)
            });
        }
        None
    }
}

/// The value of a registered metric at a push.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) metric: Arc<RegisteredMetric>,
    pub(super) value: f64,
}

/// The metrics that were registered with a client.
#[derive(Debug, Default)]
pub struct RegisteredMetrics {
    state: Mutex<RegistryState>,
}

#[derive(Debug, Default)]
struct RegistryState {
    metrics: BTreeMap<MetricId, Arc<RegisteredMetric>>,
    is_closed: bool,
}

impl RegisteredMetrics {
    /// Adds a metric, in place of an earlier one of the same name and attributes. Returns false if the client is
    /// closed.
    pub fn register(&self, metric: RegisteredMetric) -> bool {
        let mut state = lock(&self.state);
        if state.is_closed {
            return false;
        }
        let before = state.metrics.insert(metric.id.clone(), Arc::new(metric));
        // The user's code is dropped without the lock.
        drop(state);
        drop(before);
        true
    }

    /// Removes a metric. Returns false if there is none.
    pub fn unregister(&self, id: &MetricId) -> bool {
        let removed = lock(&self.state).metrics.remove(id);
        removed.is_some()
    }

    /// Removes all of them: the client is closed.
    pub(crate) fn close(&self) {
        let all = std::mem::replace(&mut *lock(&self.state), RegistryState { is_closed: true, ..Default::default() });
        drop(all);
    }

    /// The values of those that are wanted. Those that take too long, the more so once the client closes, are left out.
    pub(super) async fn read(
        &self,
        is_wanted: impl Fn(&str) -> bool,
        closing: &mut watch::Receiver<bool>,
        log: &Log,
    ) -> Vec<Reading> {
        let wanted: Vec<Arc<RegisteredMetric>> =
            lock(&self.state).metrics.values().filter(|metric| is_wanted(&metric.id.name)).cloned().collect();
        let begun: Vec<(Arc<RegisteredMetric>, Value)> =
            wanted.into_iter().filter_map(|metric| Some((metric.clone(), metric.begin()?))).collect();
        let mut over = std::pin::pin!(async {
            tokio::select! {
                () = tokio::time::sleep(PATIENCE) => {}
                () = async { closed(closing).await; tokio::time::sleep(LAST_PATIENCE).await } => {}
            }
        });
        let mut is_over = false;
        let mut readings = Vec::new();
        for (metric, mut value) in begun {
            if !is_over {
                tokio::select! {
                    biased;
                    read = &mut value => {
                        let read = read.unwrap_or_else(|_| Err("its thread ended".to_owned()));
                        readings.extend(metric.checked(Some(read), log).map(|value| Reading { metric, value }));
                        continue;
                    }
                    () = &mut over => is_over = true,
                }
            }
            let read = value.try_recv().ok();
            readings.extend(metric.checked(read, log).map(|value| Reading { metric, value }));
        }
        readings
    }
}
