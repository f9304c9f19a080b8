//! The consumer: the type that users of the crate hold.

mod assignment;
mod failing;
mod membership;
mod non_member_commits;
mod telemetry;
mod transactions;
mod until;

pub use transactions::{PendingOffsets, TransactionOffsets};

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant, SystemTime};

use monedula_columns::{BatchColumns, BufferPool, ColumnBatch, WalkOptions};
use monedula_engine::TopicPartition;
use monedula_engine::assign::{Assignor, builtin_with};
use monedula_engine::cluster::Cluster;
use monedula_protocol::types::Uuid;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

pub use self::membership::Unfinished;
use self::non_member_commits::NonMemberCommits;
pub use self::until::Until;
use crate::budget::Budget;
use crate::committed_starts::CommittedStarts;
use crate::config::ClientConfig;
use crate::coordinator::Coordinators;
pub use crate::coordinator::{Commits, Committed, GroupOffset};
use crate::error::ClientError;
use crate::fetch::buffer::FetchBuffer;
pub use crate::fetch::buffer::{Admission, PartitionStatus, Want, WorkGate};
use crate::fetch::command::FetchCommand;
pub use crate::fetch::command::Position;
use crate::fetch::driver::Driver;
use crate::group::handle::Group;
use crate::group::{GroupObserver, Step};
use crate::lock::lock;
use crate::log::{Log, kinds};
use crate::metrics::Metrics;
use crate::net::metadata::Metadata;
use crate::net::network::Network;
pub use crate::offsets::Found;
use crate::offsets::{EARLIEST, LATEST, MAX_TIMESTAMP, Offsets, Question};
use crate::reach::{Failure, Reach};
use crate::telemetry::{Parts as TelemetryParts, Telemetry};

/// What the pool may keep beyond the byte budget before it gives memory back.
const COLUMNS_BYTES: usize = 28 << 20;

/// How long a member that is dropped without being closed tries to leave its group.
const FORGOTTEN_LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// Partitions by topic and index.
pub type Partitions = Vec<TopicPartition>;

/// The state of the client as a whole.
#[derive(Clone, Debug)]
pub struct Health {
    /// Connections that stand.
    pub connections: usize,
    /// Brokers known from metadata.
    pub brokers: usize,
    /// Whether metadata was ever received.
    pub bootstrapped: bool,
    /// For how long the client has been failing, with the last error; see [`Consumer::failing`]. Failing to get metadata
    /// counts too.
    pub failing: Option<(Duration, String)>,
    /// Bytes of the budget in use, and its size.
    pub budget: (usize, usize),
    /// Retried errors by name.
    pub retried_errors: BTreeMap<String, u64>,
    /// When the client's own certificate expires, if it has one.
    pub certificate_expires: Option<SystemTime>,
    /// Each assigned partition.
    pub partitions: BTreeMap<TopicPartition, PartitionStatus>,
}

/// A consumer of partitions that its group assigns, or that are assigned by hand. Its methods may be called from any
/// thread; those that wait say so.
pub struct Consumer {
    config: Arc<ClientConfig>,
    buffer: Arc<FetchBuffer>,
    metadata: Arc<Metadata>,
    network: Arc<Network>,
    offsets: Offsets,
    coordinators: Coordinators,
    starts: CommittedStarts,
    non_member_commits: Mutex<NonMemberCommits>,
    budget: Budget,
    pool: BufferPool,
    log: Log,
    metrics: Metrics,
    reach: Reach,
    runtime: Handle,
    commands: Mutex<Option<mpsc::UnboundedSender<FetchCommand>>>,
    topics: Mutex<BTreeSet<Arc<str>>>,
    /// The membership, from the first subscription on.
    group: OnceLock<Group>,
    observed: Arc<OnceLock<GroupObserver>>,
    telemetry: Option<Arc<Telemetry>>,
    assignors: Vec<Arc<dyn Assignor>>,
    subscribed: AtomicBool,
    closing: AtomicBool,
    keeps_events: AtomicBool,
    seed: u64,
    /// What the loop with `until` reads to.
    until: Mutex<Until>,
    changing: RwLock<()>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    closed: watch::Sender<bool>,
    /// Gets the task in which a dropped member leaves its group.
    on_leave_task: OnceLock<fn(JoinHandle<()>)>,
}

impl Consumer {
    /// Starts the consumer's tasks on `runtime`. Nothing is connected before something is assigned or looked up.
    pub fn new(config: ClientConfig, columns: impl Into<BatchColumns>, runtime: &Handle, seed: u64) -> Self {
        let assignors = config.assignment_strategy.iter().filter_map(|name| builtin_with(name, config.pace)).collect();
        Self::with_assignors(config, columns, runtime, seed, assignors)
    }

    /// As [`Self::new`], with these assignors, the preferred first, in place of `partition.assignment.strategy`.
    pub fn with_assignors(
        config: ClientConfig,
        columns: impl Into<BatchColumns>,
        runtime: &Handle,
        seed: u64,
        assignors: Vec<Arc<dyn Assignor>>,
    ) -> Self {
        let config = Arc::new(config);
        let budget = Budget::new(config.queued_max_bytes);
        // Beyond the budget, room for the columns of two batches: the one in the user's hands and the next.
        let pool = BufferPool::new(config.queued_max_bytes + COLUMNS_BYTES);
        let log = Log::of(Some(config.client_id.clone()), config.group_id.clone());
        let metrics = Metrics::default();
        config.warnings.iter().for_each(|warning| log.record(&kinds::CONFIG_WARNING, || warning.clone()));
        let network = Arc::new(Network::new(config.clone(), pool.clone(), log.clone(), metrics.clone(), seed));
        let metadata = Arc::new(Metadata::new(config.clone(), network.clone(), log.clone(), metrics.clone()));
        let offsets = Offsets {
            config: config.clone(),
            network: network.clone(),
            metadata: metadata.clone(),
            metrics: metrics.clone(),
        };
        let coordinators =
            Coordinators::new(config.clone(), network.clone(), metadata.clone(), log.clone(), metrics.clone());
        let (commands, inbox) = mpsc::unbounded_channel();
        let buffer = Arc::new(FetchBuffer::new(
            columns.into(),
            walk_options(&config),
            config.decode_threads,
            pool.clone(),
            &budget,
            log.clone(),
            metrics.clone(),
            commands.clone(),
        ));
        if config.group_id.is_some() {
            buffer.keep_ledger(config.auto_commit_records);
        }
        let closed = watch::Sender::new(false);
        let reach = Reach::default();
        let starts = CommittedStarts {
            config: config.clone(),
            coordinators: coordinators.clone(),
            buffer: buffer.clone(),
            log: log.clone(),
            reach: reach.clone(),
            runtime: runtime.clone(),
            closed: closed.subscribe(),
        };
        let observed: Arc<OnceLock<GroupObserver>> = Arc::default();
        let sources = telemetry::Sources {
            config: config.clone(),
            network: network.clone(),
            buffer: buffer.clone(),
            metrics: metrics.clone(),
            group: Arc::clone(&observed),
        };
        let telemetry = config.metrics_push.then(|| {
            let parts = TelemetryParts {
                network: network.clone(),
                metadata: metadata.clone(),
                log: log.clone(),
                attributes: telemetry::attributes(&config),
                read: Box::new(move || sources.figures()),
            };
            Arc::new(Telemetry::start(parts, runtime, seed))
        });
        let consumer = Self {
            config,
            buffer,
            metadata,
            network,
            offsets,
            coordinators,
            starts,
            non_member_commits: Mutex::default(),
            budget,
            pool,
            log,
            metrics,
            reach,
            runtime: runtime.clone(),
            commands: Mutex::new(Some(commands)),
            topics: Mutex::default(),
            group: OnceLock::new(),
            observed,
            telemetry,
            assignors,
            subscribed: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            keeps_events: AtomicBool::new(false),
            seed,
            until: Mutex::new(Until::Latest),
            changing: RwLock::default(),
            tasks: Mutex::default(),
            closed,
            on_leave_task: OnceLock::new(),
        };
        consumer.start_tasks(inbox);
        consumer
    }

    fn start_tasks(&self, commands: mpsc::UnboundedReceiver<FetchCommand>) {
        let driver = Driver {
            config: self.config.clone(),
            network: self.network.clone(),
            metadata: self.metadata.clone(),
            offsets: self.offsets.clone(),
            starts: self.starts.clone(),
            buffer: self.buffer.clone(),
            budget: self.budget.clone(),
            log: self.log.clone(),
            metrics: self.metrics.clone(),
            reach: self.reach.clone(),
        };
        let metadata = self.runtime.spawn(self.metadata.clone().run());
        *lock(&self.tasks) = vec![metadata, self.runtime.spawn(driver.run(commands, self.seed))];
    }

    /// The settings.
    pub fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        lock(&self.commands).is_none()
    }

    /// Stops or resumes handing out and fetching a partition; what was fetched is kept.
    ///
    /// # Errors
    /// If the partition is not assigned, or the consumer is closed.
    pub fn set_paused(&self, partition: &TopicPartition, paused: bool) -> Result<(), ClientError> {
        if self.is_closed() {
            return Err(ClientError::Closed);
        }
        self.buffer.set_paused(partition, paused).ok_or_else(|| self.not_assigned(partition))
    }

    /// The status of a partition.
    ///
    /// # Errors
    /// If the partition is not assigned.
    pub fn status(&self, partition: &TopicPartition) -> Result<PartitionStatus, ClientError> {
        self.buffer.status_of(partition).ok_or_else(|| self.not_assigned(partition))
    }

    /// The status of each partition.
    pub fn statuses(&self) -> BTreeMap<TopicPartition, PartitionStatus> {
        self.buffer.status()
    }

    /// The next batch, for a consumer whose partitions are assigned by hand. Waits, at most until `until`; `None` then.
    ///
    /// # Errors
    /// As those of [`Self::next`]; if the consumer subscribes to topics.
    pub fn next_batch(&self, want: &Want, until: Instant) -> Result<Option<ColumnBatch>, ClientError> {
        self.refuse_if_subscribed()?;
        match self.next(want, until, 0)? {
            Step::Batch(batch) => Ok(Some(batch.columns)),
            Step::Callback(_) | Step::Nothing => Ok(None),
        }
    }

    /// Waits until [`Self::next_batch`] or [`Self::next`] would return something at once, or until `until`. Takes
    /// nothing: a caller that is cancelled meanwhile loses nothing.
    pub fn ready(&self, want: &Want, until: Instant) -> bool {
        self.reads_nothing() || self.buffer.ready(want, until)
    }

    /// While it is held, an empty assignment is no mistake: the new one follows.
    fn changing(&self) -> RwLockReadGuard<'_, ()> {
        self.changing.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn reads_nothing(&self) -> bool {
        // A change of the assignment holds this lock for reading: if it can be locked for writing, none is going on.
        let unchanging = self.changing.try_write().is_ok();
        unchanging && !self.is_subscribed() && self.buffer.is_empty() && lock(&self.topics).is_empty()
    }

    /// A batch without rows, of the same schema as every other.
    pub fn empty_batch(&self) -> ColumnBatch {
        self.buffer.empty()
    }

    /// Whether every partition with an end is read to it.
    pub fn is_done(&self) -> bool {
        self.buffer.all_done()
    }

    /// Ends the current wait of a call, or the next one, with [`ClientError::WokenUp`].
    pub fn wakeup(&self) {
        self.buffer.wake();
    }

    /// The smallest offset of each partition.
    pub fn beginning_offsets(&self, partitions: Partitions, timeout: Duration) -> impl Lookup + use<> {
        self.look_up(partitions.into_iter().map(|partition| (partition, EARLIEST)).collect(), timeout)
    }

    /// The end of each partition; under read_committed, its last stable offset.
    pub fn end_offsets(&self, partitions: Partitions, timeout: Duration) -> impl Lookup + use<> {
        self.look_up(partitions.into_iter().map(|partition| (partition, LATEST)).collect(), timeout)
    }

    /// The first record of each partition whose timestamp is at least the given one, in ms.
    pub fn offsets_for_times(&self, times: Vec<(TopicPartition, i64)>, timeout: Duration) -> impl Lookup + use<> {
        self.look_up(times, timeout)
    }

    /// The first record of each partition whose timestamp is at least the given one, in ms, whatever the isolation
    /// level: no record before it is as young. Under read_committed, a record of an open transaction would be no record.
    pub fn first_at(&self, times: Vec<(TopicPartition, i64)>, timeout: Duration) -> impl Lookup + use<> {
        self.look_up_by(self.offsets.uncommitted(), times, timeout)
    }

    /// The record with the largest timestamp of each partition, whatever the isolation level.
    pub fn max_timestamps(&self, partitions: Partitions, timeout: Duration) -> impl Lookup + use<> {
        let what = partitions.into_iter().map(|partition| (partition, MAX_TIMESTAMP)).collect();
        self.look_up_by(self.offsets.uncommitted(), what, timeout)
    }

    fn look_up(&self, what: Vec<(TopicPartition, i64)>, timeout: Duration) -> impl Lookup + use<> {
        self.look_up_by(self.offsets.clone(), what, timeout)
    }

    fn look_up_by(&self, offsets: Offsets, what: Vec<(TopicPartition, i64)>, timeout: Duration) -> impl Lookup + use<> {
        let questions = what.into_iter().map(|(partition, what)| Question { partition, what });
        let questions: Vec<Question> = questions.collect();
        let closed = self.closed.subscribe();
        async move { unless_closed(closed, offsets.list(questions, timeout)).await }
    }

    /// Every partition of the topics.
    pub fn partitions_of(
        &self,
        topics: Vec<String>,
        timeout: Duration,
    ) -> impl Future<Output = Result<Partitions, ClientError>> + Send + use<> {
        let offsets = self.offsets.clone();
        let closed = self.closed.subscribe();
        async move { unless_closed(closed, offsets.partitions_of(topics, timeout)).await }
    }

    /// The cluster as it is now: brokers, and these topics, or all. The error of a single topic stands in the topic.
    pub fn describe(
        &self,
        topics: Option<Vec<String>>,
        timeout: Duration,
    ) -> impl Future<Output = Result<Cluster, ClientError>> + Send + use<> {
        let metadata = self.metadata.clone();
        let closed = self.closed.subscribe();
        let topics = topics.map(|topics| topics.into_iter().map(Arc::from).collect());
        async move { unless_closed(closed, metadata.describe(topics, timeout)).await }
    }

    /// Commits offsets to a consumer group without being a member of it: to a group that has members this is an error.
    pub fn commit_offsets(
        &self,
        group: String,
        offsets: BTreeMap<TopicPartition, GroupOffset>,
        timeout: Duration,
    ) -> impl Future<Output = Result<Commits, ClientError>> + Send + use<> {
        let (coordinators, closed) = (self.coordinators.clone(), self.closed.subscribe());
        async move { unless_closed(closed, coordinators.commit(group, offsets, timeout)).await }
    }

    /// The offsets that a consumer group has committed of these partitions, or of all.
    pub fn committed_offsets(
        &self,
        group: String,
        partitions: Option<Partitions>,
        timeout: Duration,
    ) -> impl Future<Output = Result<Committed, ClientError>> + Send + use<> {
        let (coordinators, closed) = (self.coordinators.clone(), self.closed.subscribe());
        async move { unless_closed(closed, coordinators.committed(group, partitions, timeout)).await }
    }

    /// The state of the client.
    pub fn health(&self) -> Health {
        let view = self.metadata.watch().borrow().clone();
        Health {
            connections: self.network.connected(),
            brokers: view.cluster.brokers.len(),
            bootstrapped: view.answers > 0,
            failing: self.any_failing(&view),
            budget: (self.budget.used(), self.budget.limit()),
            retried_errors: self.metrics.retriable_errors(),
            certificate_expires: self.config.certificate_expires(),
            partitions: self.buffer.status(),
        }
    }

    /// The counters.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The id that a broker gave this client for the metrics that it pushes (KIP-714).
    pub fn client_instance_id(&self) -> Option<Uuid> {
        self.telemetry.as_ref()?.client_instance_id()
    }

    /// The events that wait to be logged.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The pool of frames and columns.
    pub fn pool(&self) -> &BufferPool {
        &self.pool
    }

    /// Leaves the group, if it is in one, ends every wait and closes the connections. Waits for that, at most
    /// `timeout`. Runs no callbacks: a caller that has some calls [`Self::start_close`] first. May be called again.
    pub fn close(&self, timeout: Duration) {
        let until = Instant::now() + timeout;
        self.leave(timeout);
        NonMemberCommits::finish(&self.non_member_commits, &self.runtime, until);
        if let Some(telemetry) = &self.telemetry {
            telemetry.finish_by(&self.runtime, until);
        }
        let tasks = self.take_tasks();
        end(&self.closed, &self.buffer, &self.network, &tasks);
        let (done, ended) = std::sync::mpsc::channel();
        self.runtime.spawn(async move {
            for task in tasks {
                let _ = task.await;
            }
            let _ = done.send(());
        });
        let _ = ended.recv_timeout(until.saturating_duration_since(Instant::now()));
        self.log.finish();
    }

    /// Has `hook` get the task in which this consumer leaves its group, if it is dropped as a member. The task has to
    /// end before the runtime stops, or the other members wait for `session.timeout.ms`.
    pub fn on_leave_task(&self, hook: fn(JoinHandle<()>)) {
        let _ = self.on_leave_task.set(hook);
    }

    fn take_tasks(&self) -> Vec<JoinHandle<()>> {
        drop(lock(&self.commands).take());
        std::mem::take(&mut *lock(&self.tasks))
    }

    fn send(&self, command: FetchCommand) -> Result<(), ClientError> {
        let commands = lock(&self.commands);
        let sent = commands.as_ref().ok_or(ClientError::Closed)?.send(command);
        sent.map_err(|_| ClientError::Closed)
    }
}

impl Drop for Consumer {
    /// A member that is dropped without [`Self::close`] still tries to commit and to leave the group, for a second and
    /// in the background. Nothing waits for that, unless the hook of [`Self::on_leave_task`] does.
    fn drop(&mut self) {
        let Some(group) = self.group.take().filter(|_| self.is_subscribed() && !self.is_closed()) else {
            return self.close(Duration::ZERO);
        };
        let until = Instant::now() + FORGOTTEN_LEAVE_TIMEOUT;
        if group.close(FORGOTTEN_LEAVE_TIMEOUT).is_ok() {
            group.abandon();
        }
        let tasks = self.take_tasks();
        let (closed, buffer, network) = (self.closed.clone(), self.buffer.clone(), self.network.clone());
        let leaving = self.runtime.spawn_blocking(move || {
            buffer.leaving(until);
            drop(group);
            end(&closed, &buffer, &network, &tasks);
        });
        if let Some(hook) = self.on_leave_task.get() {
            hook(leaving);
        }
    }
}

fn walk_options(config: &ClientConfig) -> WalkOptions {
    WalkOptions {
        check_crcs: config.check_crcs,
        read_committed: config.read_committed,
        max_decompressed_bytes: config.max_decompressed_batch_bytes,
        ..Default::default()
    }
}

/// Ends every wait, and everything that runs.
fn end(closed: &watch::Sender<bool>, buffer: &FetchBuffer, network: &Network, tasks: &[JoinHandle<()>]) {
    closed.send_replace(true);
    buffer.close();
    for task in tasks {
        task.abort();
    }
    network.close();
}

/// `work`, or [`ClientError::Closed`] as soon as the consumer is closed.
async fn unless_closed<T>(
    mut closed: watch::Receiver<bool>,
    work: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    tokio::select! {
        biased;
        _ = closed.wait_for(|&closed| closed) => Err(ClientError::Closed),
        outcome = work => outcome,
    }
}

/// The outcome of an offset lookup: `None` where no record is that young.
pub trait Lookup: Future<Output = Result<BTreeMap<TopicPartition, Option<Found>>, ClientError>> + Send {}

impl<T: Future<Output = Result<BTreeMap<TopicPartition, Option<Found>>, ClientError>> + Send> Lookup for T {}
