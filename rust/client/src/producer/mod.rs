//! The producer: records into batches, batches to brokers, outcomes to futures.
//!
//! `accumulator` encodes records into the open batch of their partition on the caller's thread; `driver` owns the
//! delivery machine ([`monedula_engine::produce`]) and does what it says, with `pack` to compress, `lanes` to send and
//! `lookups` to find topics; `receipt` carries what became of each record back.

mod accumulator;
mod calls;
mod config;
mod driver;
mod gate;
mod lanes;
mod lookups;
mod memory;
mod open_batch;
mod pack;
mod parked;
mod receipt;
mod record;
mod report;
mod session;
mod table;
mod transactions;
mod under_way;
mod waiting;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use monedula_columns::BufferPool;
use monedula_engine::transaction::SessionConfig;
use monedula_protocol::error_code::ErrorCode;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use accumulator::Accumulator;
pub use config::ProducerConfig;
use driver::Driver;
use gate::Gate;
pub use gate::Turn;
pub use receipt::Sent;
pub use record::{Delivered, DeliveryResult, Header, Record, Refused};
pub use report::{Report, Summary};
use session::Session;
pub use table::Columns;
use transactions::Pending;
use under_way::InFlight;
pub use waiting::{First, WaitingLines};

use crate::coordinator::Coordinators;
use crate::error::ClientError;
use crate::lock::lock;
use crate::log::{Level, Log};
use crate::metrics::Metrics;
use crate::net::metadata::Metadata;
use crate::net::network::Network;
use crate::tasks::caught;

/// What the pool of answers keeps: they are small.
const ANSWERS_BYTES: usize = 1 << 20;

/// How a producer is.
#[derive(Clone, Debug)]
pub struct ProducerHealth {
    /// Connections that stand.
    pub connections: usize,
    /// Brokers known from metadata.
    pub brokers: usize,
    /// Whether metadata was ever received.
    pub bootstrapped: bool,
    /// For how long every attempt to get metadata has failed, with the last error.
    pub failing: Option<(Duration, String)>,
    /// Bytes of `buffer.memory` in use, and its size.
    pub memory: (usize, usize),
    /// Senders that wait for room in it.
    pub waiting: usize,
    /// Topics that are kept, with metadata asked for them: those that were sent to within `metadata.max.idle.ms`.
    pub topics: usize,
    /// Records whose end is not known yet, wherever they are.
    pub records_unfinished: u64,
    /// Requests without an answer, and their batches, by broker.
    pub in_flight: BTreeMap<i32, (usize, usize)>,
    /// Retried errors by name.
    pub retried_errors: BTreeMap<String, u64>,
}

/// Sends records. Its methods may be called from any thread; those that wait say so. Dropped, it delivers what it has in
/// the background.
pub struct Producer {
    config: Arc<ProducerConfig>,
    accumulator: Arc<Accumulator>,
    metadata: Arc<Metadata>,
    network: Arc<Network>,
    gate: Arc<Gate>,
    in_flight: Arc<InFlight>,
    log: Log,
    metrics: Metrics,
    runtime: Handle,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    pending: Pending,
}

impl Producer {
    /// Starts the producer's tasks on `runtime`. Nothing is connected before something is sent or asked.
    pub fn new(config: ProducerConfig, runtime: &Handle, seed: u64) -> Self {
        let config = Arc::new(config);
        let client = config.client.clone();
        let (log, metrics) = (Log::default(), Metrics::default());
        config.warnings.iter().for_each(|warning| log.record(Level::Warning, "config", || warning.clone()));
        let pool = BufferPool::new(ANSWERS_BYTES);
        let network = Arc::new(Network::new(client.clone(), pool, log.clone(), metrics.clone(), seed));
        let metadata = Arc::new(Metadata::new(client.clone(), network.clone(), log.clone(), metrics.clone()));
        let coordinators =
            Coordinators::new(client.clone(), network.clone(), metadata.clone(), log.clone(), metrics.clone());
        let (orders, inbox) = mpsc::unbounded_channel();
        let gate = Arc::new(Gate::default());
        let accumulator = Arc::new(Accumulator::new(&config, gate.clone(), orders, seed));
        let session = SessionConfig {
            transactional_id: config.transactional_id.clone(),
            transaction_timeout: config.transaction_timeout,
            backoff: client.retry_backoff,
        };
        let (events, calls) = mpsc::unbounded_channel();
        let session = Session::new(session, gate.clone(), network.clone(), coordinators, log.clone(), events, seed);
        let (started, in_flight) = (Instant::now(), Arc::new(InFlight::default()));
        let driver = Driver {
            config: config.clone(),
            network: network.clone(),
            metadata: metadata.clone(),
            accumulator: accumulator.clone(),
            session,
            in_flight: in_flight.clone(),
            log: log.clone(),
            metrics: metrics.clone(),
            started,
        };
        let metadata_task = runtime.spawn(metadata.clone().run());
        let driver = driver.run(inbox, calls, seed);
        let driver_log = log.clone();
        let tasks = vec![runtime.spawn(async move {
            // What it had was failed when it was dropped.
            if let Err(reason) = caught(driver).await {
                let error =
                    ClientError::Internal(format!("the producer's task ended, and the producer is closed: {reason}"));
                driver_log.record(Level::Warning, "producer.end", || error.to_string());
            }
            metadata_task.abort();
        })];
        Self {
            config,
            accumulator,
            metadata,
            network,
            gate,
            in_flight,
            log,
            metrics,
            runtime: runtime.clone(),
            tasks: Mutex::new(tasks),
            pending: Pending::default(),
        }
    }

    /// The settings.
    pub fn config(&self) -> &ProducerConfig {
        &self.config
    }

    /// Puts a record into its partition's batch. Never waits; where the topic is not known yet, the record waits for it.
    ///
    /// # Errors
    /// [`Refused::Full`] where there is no room, and whatever is wrong with the record.
    #[inline]
    pub fn send(&self, record: &Record<'_>) -> Result<Sent, Refused> {
        self.accumulator.send(record)
    }

    /// Begins something that may have to wait: until what comes back is dropped, the open transaction is not committed. It
    /// belongs to that one, of which records and waits for room are to be told.
    ///
    /// # Errors
    /// If nothing can be sent now.
    pub fn enter(&self) -> Result<Turn, ClientError> {
        self.gate.enter()
    }

    /// Lines for records that wait, whose transactions are this producer's.
    pub fn lines<T: Clone>(&self) -> WaitingLines<T> {
        WaitingLines::new(self.gate.clone())
    }

    /// Waits for room in `buffer.memory`, at most until `until`; false if the time was over first.
    ///
    /// # Errors
    /// If the producer was closed, or the transaction is over that it is for, if that is given.
    pub fn wait_for_room(&self, bytes: usize, until: Instant, sent_in: Option<u64>) -> Result<bool, ClientError> {
        let mut there = false;
        while !there {
            if sent_in.is_some() {
                self.gate.check(sent_in)?;
            }
            let slice = until.min(Instant::now() + LOOK_AGAIN);
            there = self.accumulator.memory.wait(bytes, slice);
            if there || slice == until {
                break;
            }
            self.accumulator.is_exhausted();
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

    /// Waits until everything that was sent before is done; what became of it is in each record's own future.
    ///
    /// # Errors
    /// If another producer has taken over.
    pub fn flush(&self) -> impl Future<Output = Result<(), ClientError>> + Send + 'static {
        let (reply, done) = oneshot::channel();
        self.accumulator.flush(reply);
        let gate = self.gate.clone();
        async move {
            // A driver that is gone has failed everything, so that nothing is left to be done.
            let _ = done.await;
            Ok(gate.fenced()?)
        }
    }

    /// How many partitions the topic has; `None` while that is not known, which it will be soon if the topic exists.
    pub fn partition_count(&self, topic: &str) -> Option<i32> {
        self.accumulator.partition_count(topic)
    }

    /// The topic's partitions. Waits until they are known, at most for `timeout`.
    pub fn partitions_for(
        &self,
        topic: String,
        timeout: Duration,
    ) -> impl Future<Output = Result<Vec<i32>, ClientError>> + Send + 'static {
        let (metadata, closed) = (self.metadata.clone(), self.accumulator.is_closed());
        async move {
            if closed {
                // It would connect, and nobody would close the connection again.
                return Err(ClientError::ProducerClosed);
            }
            let name: Arc<str> = topic.into();
            let cluster = metadata.describe(Some(vec![name.clone()]), timeout).await?;
            match cluster.topics.get(&name) {
                Some(topic) if topic.error == ErrorCode::None => Ok(topic.partitions.keys().copied().collect()),
                Some(topic) if topic.error != ErrorCode::UnknownTopicOrPartition => {
                    Err(ClientError::Broker { what: format!("looking up the topic {name}"), code: topic.error })
                }
                _ => Err(ClientError::UnknownTopic { topic: name, attempts: 1, after: Duration::ZERO }),
            }
        }
    }

    /// Sends what there is, at most for `timeout`; what is not done by then fails. Waits. Closing again does nothing.
    pub fn close(&self, timeout: Duration) {
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        if tasks.is_empty() {
            return;
        }
        self.accumulator.close();
        let (flush, (done, wait)) = (self.flush(), std::sync::mpsc::channel());
        let accumulator = self.accumulator.clone();
        self.runtime.spawn(async move {
            // What is over in time needs no failing; what is not gets it from the driver's end.
            let _ = tokio::time::timeout(timeout, flush).await;
            accumulator.stop(true);
            for task in tasks {
                let _ = task.await;
            }
            let _ = done.send(());
        });
        // The runtime may be gone already: then there is nothing to wait for.
        let _ = wait.recv_timeout(timeout.saturating_add(LAST_STEPS));
    }

    /// Has it deliver what it has in the background, which these tasks do.
    pub fn leave(&self) -> Vec<JoinHandle<()>> {
        self.accumulator.close();
        self.accumulator.stop(false);
        std::mem::take(&mut *lock(&self.tasks))
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.accumulator.is_closed()
    }

    /// Its log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Its counters.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// How it is.
    pub fn health(&self) -> ProducerHealth {
        let view = self.metadata.view();
        let (topics, records_unfinished) = self.accumulator.kept();
        ProducerHealth {
            connections: self.network.connected(),
            brokers: view.cluster.brokers.len(),
            bootstrapped: view.answers > 0,
            failing: view.failing.map(|(since, error)| (since.elapsed(), error)),
            memory: self.accumulator.memory.usage(),
            waiting: self.accumulator.memory.waiting(),
            topics: topics.max(self.metadata.held()),
            records_unfinished,
            in_flight: self.in_flight.by_broker(),
            retried_errors: self.metrics.retriable_errors(),
        }
    }
}

/// How long a sender waits for room before what lingers is asked for once more.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What closing takes beyond its timeout.
const LAST_STEPS: Duration = Duration::from_secs(5);

impl Drop for Producer {
    fn drop(&mut self) {
        self.leave();
    }
}
