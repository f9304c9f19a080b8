//! The producer, as its user holds it: sends records, waits for room, flushes, closes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use monedula_columns::BufferPool;
use monedula_engine::transaction::SessionConfig;
use monedula_protocol::types::Uuid;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::accumulator::Accumulator;
use super::admission::{SendPermit, TransactionAdmission};
use super::config::ProducerConfig;
use super::driver::Driver;
use super::failures::Failures;
use super::in_flight::RequestsInFlight;
use super::queued_sends::QueuedSends;
use super::receipt::RecordFuture;
use super::record::{Record, Refused};
use super::session::Session;
use super::telemetry;
use super::transactions::OffsetsInTransaction;
use crate::base::ClientBase;
use crate::error::ClientError;
use crate::lock::lock;
use crate::log::{Log, kinds};
use crate::metrics::Metrics;
use crate::net::network::joined;
use crate::reach::Reach;
use crate::run_time::RunInstant;
use crate::tasks::caught;
use crate::telemetry::{RegisteredMetrics, Telemetry};

/// Memory that the pool for answers keeps: answers are small.
const ANSWERS_BYTES: usize = 1 << 20;

/// The state of a producer, for its user.
#[derive(Clone, Debug)]
pub struct ProducerHealth {
    /// Open connections.
    pub connections: usize,
    /// Brokers known from metadata.
    pub brokers: usize,
    /// True if metadata was ever received.
    pub bootstrapped: bool,
    /// Time for which no broker has answered Produce requests, or every attempt to get metadata has failed, with the
    /// last error.
    pub failing: Option<(Duration, String)>,
    /// Bytes of `buffer.memory` in use, and its size.
    pub memory: (usize, usize),
    /// Number of senders that wait for room in it.
    pub waiting: usize,
    /// Topics that are kept, and whose metadata is refreshed: those that were sent to within `metadata.max.idle.ms`.
    pub topics: usize,
    /// Records without an outcome, waiting, in batches or in flight.
    pub records_unfinished: u64,
    /// Requests in flight and their batches, by broker.
    pub in_flight: BTreeMap<i32, (usize, usize)>,
    /// Retried errors by name.
    pub retried_errors: BTreeMap<String, u64>,
    /// Expiry of the client's own certificate, if it has one.
    pub certificate_expires: Option<SystemTime>,
}

/// Sends records. Its methods may be called from any thread; those that block say so. When it is dropped, it delivers
/// in the background what was sent.
pub struct Producer {
    config: Arc<ProducerConfig>,
    pub(super) accumulator: Arc<Accumulator>,
    pub(super) base: ClientBase,
    pub(super) admission: Arc<TransactionAdmission>,
    in_flight: Arc<RequestsInFlight>,
    failures: Arc<Failures>,
    reach: Reach,
    pub(super) runtime: Handle,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    telemetry: Option<Arc<Telemetry>>,
    pub(super) offsets: OffsetsInTransaction,
}

impl Producer {
    /// Starts the producer's tasks on `runtime`. Connects only when something is sent or requested.
    pub fn new(config: ProducerConfig, runtime: &Handle, seed: u64) -> Self {
        let config = Arc::new(config);
        let client = config.client.clone();
        let log = Log::of(Some(client.client_id.clone()), None);
        let base = ClientBase::new(client.clone(), &config.warnings, BufferPool::new(ANSWERS_BYTES), log, seed);
        let (commands, inbox) = mpsc::unbounded_channel();
        let admission = Arc::new(TransactionAdmission::default());
        let accumulator = Arc::new(Accumulator::new(&config, admission.clone(), commands, seed));
        let session = SessionConfig {
            transactional_id: config.transactional_id.clone(),
            transaction_timeout: config.transaction_timeout,
            backoff: client.retry_backoff,
        };
        let (outcomes, calls) = mpsc::unbounded_channel();
        let session = Session::new(session, admission.clone(), &base, outcomes, seed);
        let in_flight = Arc::new(RequestsInFlight::default());
        let failures = Arc::new(Failures::default());
        let reach = Reach::default();
        let driver = Driver {
            config: config.clone(),
            base: base.clone(),
            accumulator: accumulator.clone(),
            session,
            in_flight: in_flight.clone(),
            failures: failures.clone(),
            reach: reach.clone(),
            started: RunInstant::now(),
        };
        let metadata_task = runtime.spawn(base.metadata.clone().run());
        let driver = until_closed(driver.run(inbox, calls, seed), base.log.clone(), metadata_task);
        let tasks = Mutex::new(vec![runtime.spawn(driver)]);
        let telemetry = telemetry::start(&base, &config, &accumulator, &in_flight, runtime, seed);
        Self {
            telemetry,
            config,
            accumulator,
            base,
            admission,
            in_flight,
            failures,
            reach,
            runtime: runtime.clone(),
            tasks,
            offsets: OffsetsInTransaction::default(),
        }
    }

    /// The settings.
    pub fn config(&self) -> &ProducerConfig {
        &self.config
    }

    /// The records that failed, with the number of these failures that were seen.
    pub fn failures(&self) -> &Arc<Failures> {
        &self.failures
    }

    /// Puts a record into its partition's batch. Never blocks: if the topic is not known yet, the record waits for
    /// metadata.
    ///
    /// # Errors
    /// [`Refused::Full`] if `buffer.memory` has no room, or what is wrong with the record.
    #[inline]
    pub fn send(&self, record: &Record<'_>) -> Result<RecordFuture, Refused> {
        self.accumulator.send(record)
    }

    /// Checks a record that is sent later for errors that no wait would change, whatever the producer's state.
    ///
    /// # Errors
    /// What is wrong with the record.
    pub fn check(&self, record: &Record<'_>) -> Result<(), ClientError> {
        self.accumulator.check_record(record)
    }

    /// Acquires a permit of the open transaction, for a caller that may have to wait. The transaction is not committed
    /// before the permit is dropped. Records that are sent under it, and waits for room, have to name its transaction.
    ///
    /// # Errors
    /// If nothing can be sent now.
    pub fn acquire_permit(&self) -> Result<SendPermit, ClientError> {
        self.admission.acquire()
    }

    /// Queues for records that wait, in the transactions of this producer.
    pub fn queued_sends<T: Clone>(&self) -> QueuedSends<T> {
        QueuedSends::new(self.admission.clone())
    }

    /// Waits for room in `buffer.memory`, at most until `until`. Returns false if there was none in time. `sent_in` is
    /// the transaction that the room is for.
    ///
    /// # Errors
    /// If the producer was closed, or that transaction has ended.
    pub fn wait_for_room(&self, bytes: usize, until: Instant, sent_in: Option<u64>) -> Result<bool, ClientError> {
        let mut there = false;
        while !there {
            if sent_in.is_some() {
                self.admission.check(sent_in)?;
            }
            let slice = until.min(Instant::now() + LOOK_AGAIN);
            there = self.accumulator.memory.wait(bytes, slice);
            if there {
                break;
            }
            // Also at the end: callers may wait in slices of their own, and other senders open batches meanwhile.
            self.accumulator.report_exhausted();
            if slice == until {
                break;
            }
        }
        if self.is_closed() { Err(ClientError::ProducerClosed) } else { Ok(there) }
    }

    /// As [`Self::wait_for_room`], for a task that bounds the wait itself.
    pub fn room(&self, bytes: usize) -> impl Future<Output = Result<(), ClientError>> + Send + 'static {
        let accumulator = self.accumulator.clone();
        async move {
            accumulator.memory.wait_async(bytes).await;
            if accumulator.is_closed() { Err(ClientError::ProducerClosed) } else { Ok(()) }
        }
    }

    /// Resolves when everything that was sent before is done. The outcome of a record is that of its own future.
    ///
    /// # Errors
    /// If another producer has taken over.
    pub fn flush(&self) -> impl Future<Output = Result<(), ClientError>> + Send + 'static {
        let (reply, done) = oneshot::channel();
        self.accumulator.flush(reply);
        let admission = self.admission.clone();
        async move {
            // Fails only if the driver is gone, which has failed everything then.
            let _ = done.await;
            Ok(admission.check_fenced()?)
        }
    }

    /// Number of partitions of the topic. `None` while it is not known; the topic's metadata is requested then.
    pub fn partition_count(&self, topic: &str) -> Option<i32> {
        self.accumulator.partition_count(topic)
    }

    /// The topic's partitions. Resolves when they are known, or fails after `timeout`, or once no broker has known the
    /// topic for `topic.metadata.propagation.max.ms`.
    pub fn partitions_for(
        &self,
        topic: String,
        timeout: Duration,
    ) -> impl Future<Output = Result<Vec<i32>, ClientError>> + Send + 'static {
        let closed = self.accumulator.is_closed();
        let lookup = self.base.offsets.clone();
        async move {
            if closed {
                // A lookup would open a connection that nothing would close.
                return Err(ClientError::ProducerClosed);
            }
            let found = lookup.partitions_of(vec![topic], timeout).await?;
            Ok(found.into_iter().map(|partition| partition.partition).collect())
        }
    }

    /// Delivers what was sent; records that are not done after `timeout` fail. Blocks. Closing again does nothing.
    pub fn close(&self, timeout: Duration) {
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        if tasks.is_empty() {
            return;
        }
        self.accumulator.close();
        let (flush, (done, wait)) = (self.flush(), std::sync::mpsc::channel());
        let (accumulator, telemetry) = (self.accumulator.clone(), self.telemetry.clone());
        let until = Instant::now() + timeout.min(LONGEST_CLOSE);
        self.runtime.spawn(async move {
            // The driver fails everything that is not done at its end.
            let _ = tokio::time::timeout(timeout, flush).await;
            if let Some(telemetry) = telemetry {
                telemetry.finish(until).await;
            }
            accumulator.stop(true);
            for task in tasks {
                let _ = task.await;
            }
            let _ = done.send(());
        });
        // If the runtime is gone already, there is nothing to wait for.
        let _ = wait.recv_timeout(timeout.saturating_add(LAST_STEPS));
        self.base.registered_metrics.close();
        self.base.log.finish();
    }

    /// Has the producer deliver in the background what was sent. Returns the tasks that do it.
    pub fn leave(&self) -> Vec<JoinHandle<()>> {
        self.accumulator.close();
        self.accumulator.stop(false);
        std::mem::take(&mut *lock(&self.tasks))
    }

    /// True if it was closed.
    pub fn is_closed(&self) -> bool {
        self.accumulator.is_closed()
    }

    /// The producer's log.
    pub fn log(&self) -> &Log {
        &self.base.log
    }

    /// The producer's counters.
    pub fn metrics(&self) -> &Metrics {
        &self.base.metrics
    }

    /// The metrics that the user registered, to be pushed with the client's own (KIP-1076).
    pub fn registered_metrics(&self) -> &Arc<RegisteredMetrics> {
        &self.base.registered_metrics
    }

    /// Present trouble with topics or brokers, for the error of a wait that is over; `None` if there is none.
    pub fn trouble(&self) -> Option<String> {
        let topics = self.base.metadata.topic_troubles();
        let brokers = match topics.is_empty() {
            true => self.base.network.explain(self.failing().map(|(_, error)| error)),
            false => self.base.network.trouble(),
        };
        joined(brokers.into_iter().chain(topics))
    }

    /// As [`Self::trouble`], for whoever may outlive the producer.
    pub fn trouble_source(&self) -> impl Fn() -> Option<String> + Send + Sync + 'static {
        let (metadata, network) = (self.base.metadata.clone(), self.base.network.clone());
        move || joined(network.trouble().into_iter().chain(metadata.topic_troubles()))
    }

    /// Time for which brokers have not answered Produce requests, or metadata was not to be had, with the last error.
    fn failing(&self) -> Option<(Duration, String)> {
        let metadata = self.base.metadata.view().failing;
        let delivery = self.reach.leaders(PATIENCE).map(|failure| {
            let error = self.base.network.explain(failure.last_error);
            (failure.since, error.unwrap_or_else(|| "no broker has answered a Produce request".into()))
        });
        let first = delivery.into_iter().chain(metadata).min_by_key(|(since, _)| *since);
        first.map(|(since, error)| (since.elapsed(), error))
    }

    /// The id that a broker gave this client for the metrics that it pushes (KIP-714).
    pub fn client_instance_id(&self) -> Option<Uuid> {
        self.telemetry.as_ref()?.client_instance_id()
    }

    /// The state of the producer.
    pub fn health(&self) -> ProducerHealth {
        let view = self.base.metadata.view();
        let (topics, records_unfinished) = self.accumulator.counts();
        ProducerHealth {
            connections: self.base.network.connected(),
            brokers: view.cluster.brokers.len(),
            bootstrapped: view.answers > 0,
            failing: self.failing(),
            memory: self.accumulator.memory.usage(),
            waiting: self.accumulator.memory.waiting(),
            topics: topics.max(self.base.metadata.held()),
            records_unfinished,
            in_flight: self.in_flight.by_broker(),
            retried_errors: self.base.metrics.retriable_errors(),
            certificate_expires: self.config.client.certificate_expires(),
        }
    }
}

/// Drives the producer until it is closed, and then ends the task of its metadata.
async fn until_closed(driver: impl Future<Output = ()>, log: Log, metadata: JoinHandle<()>) {
    // The driver has failed its records when it was dropped.
    if let Err(reason) = caught(driver).await {
        let error = ClientError::Internal(format!("the producer's task ended, and the producer is closed: {reason}"));
        log.record(&kinds::RECORDS_LOST, || error.to_string());
    }
    metadata.abort();
}

/// With `acks=all` a broker answers once its followers have the records.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Interval at which a sender that waits for room has lingering batches sent.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// As good as for ever, and no overflow.
const LONGEST_CLOSE: Duration = Duration::from_secs(86_400);

/// Longest time that closing takes after its timeout.
const LAST_STEPS: Duration = Duration::from_secs(5);

impl Drop for Producer {
    fn drop(&mut self) {
        self.leave();
    }
}
