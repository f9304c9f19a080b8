//! The consumer: the type that users of the crate hold.

mod assignment;
mod closing;
mod failing;
mod lookups;
mod membership;
mod non_member_commits;
mod telemetry;
mod transactions;
mod until;

pub use lookups::OffsetLookup;
pub use transactions::{PendingOffsets, TransactionOffsets};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant, SystemTime};

use monedula_columns::{BatchColumns, BufferPool, ColumnBatch, WalkOptions};
use monedula_engine::TopicPartition;
use monedula_engine::assign::{Assignor, builtin_with};
use monedula_protocol::types::Uuid;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

pub use self::membership::Unfinished;
use self::non_member_commits::NonMemberCommits;
pub use self::until::Until;
use crate::base::ClientBase;
use crate::budget::Budget;
use crate::committed_starts::CommittedStarts;
use crate::config::ClientConfig;
pub use crate::coordinator::{Commits, CommittedOffsets};
use crate::error::ClientError;
pub use crate::fetch::buffer::{BatchLimits, PartitionStatus, RowPermission, WorkGate};
use crate::fetch::buffer::{BufferState, FetchBuffer};
use crate::fetch::command::FetchCommand;
pub use crate::fetch::command::Position;
use crate::fetch::driver::Driver;
use crate::group::handle::Group;
use crate::group::{GroupObserver, Polled};
use crate::lock::lock;
use crate::log::Log;
use crate::metrics::Metrics;
pub use crate::offsets::FoundOffset;
use crate::reach::Reach;
use crate::telemetry::{RegisteredMetrics, Telemetry};

/// Bytes that the pool keeps beyond the byte budget before it gives memory back.
pub(crate) const COLUMNS_BYTES: usize = 28 << 20;

/// Partitions by topic and index.
pub type Partitions = Vec<TopicPartition>;

/// The state of the client as a whole.
#[derive(Clone, Debug)]
pub struct Health {
    /// Connections that stand.
    pub connections: usize,
    /// Brokers known from metadata.
    pub brokers: usize,
    /// True if metadata was ever received.
    pub bootstrapped: bool,
    /// Time for which the client has been failing, also to get metadata, with the last error; see
    /// [`Consumer::failing`].
    pub failing: Option<(Duration, String)>,
    /// Bytes of the budget in use, and its size.
    pub budget: (usize, usize),
    /// Retried errors by name.
    pub retried_errors: BTreeMap<String, u64>,
    /// Expiry of the client's own certificate, if it has one.
    pub certificate_expires: Option<SystemTime>,
    /// Time for which the schema registry could not be asked, and the last reason.
    pub registry_failing: Option<(Duration, String)>,
    /// Each assigned partition.
    pub partitions: BTreeMap<TopicPartition, PartitionStatus>,
}

/// A consumer of partitions that its group assigns, or that are assigned by hand. Its methods may be called from any
/// thread; those that wait say so.
pub struct Consumer {
    base: ClientBase,
    buffer: Arc<FetchBuffer>,
    starts: CommittedStarts,
    non_member_commits: Mutex<NonMemberCommits>,
    budget: Budget,
    pool: BufferPool,
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
    /// Target of the loop with `until`.
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
        let base = ClientBase::new(config.clone(), &config.warnings, pool.clone(), log, seed);
        let (commands, inbox) = mpsc::unbounded_channel();
        let buffer = fetch_buffer(&base, columns.into(), pool.clone(), &budget, commands.clone());
        let closed = watch::Sender::new(false);
        let reach = Reach::default();
        let starts = CommittedStarts {
            base: base.clone(),
            buffer: buffer.clone(),
            reach: reach.clone(),
            runtime: runtime.clone(),
            closed: closed.subscribe(),
        };
        let observed: Arc<OnceLock<GroupObserver>> = Arc::default();
        let telemetry = telemetry::start(&base, &buffer, &observed, runtime, seed);
        let consumer = Self {
            base,
            buffer,
            starts,
            non_member_commits: Mutex::default(),
            budget,
            pool,
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
            base: self.base.clone(),
            starts: self.starts.clone(),
            buffer: self.buffer.clone(),
            budget: self.budget.clone(),
            reach: self.reach.clone(),
        };
        let metadata = self.runtime.spawn(self.base.metadata.clone().run());
        *lock(&self.tasks) = vec![metadata, self.runtime.spawn(driver.run(commands, self.seed))];
    }

    /// The settings.
    pub fn config(&self) -> &ClientConfig {
        &self.base.config
    }

    /// True if it was closed.
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
        self.buffer.assignment().set_paused(partition, paused).ok_or_else(|| self.not_assigned(partition))
    }

    /// The status of a partition.
    ///
    /// # Errors
    /// If the partition is not assigned.
    pub fn status(&self, partition: &TopicPartition) -> Result<PartitionStatus, ClientError> {
        self.buffer.status_of(partition).ok_or_else(|| self.not_assigned(partition))
    }

    /// The status of each assigned partition: where it is read, what is queued, and why it stopped.
    pub fn statuses(&self) -> BTreeMap<TopicPartition, PartitionStatus> {
        self.buffer.status()
    }

    /// The next batch, for a consumer whose partitions are assigned by hand. Waits, at most until `until`; `None` then.
    ///
    /// # Errors
    /// As those of [`Self::next`]; if the consumer subscribes to topics.
    pub fn next_batch(&self, want: &BatchLimits, until: Instant) -> Result<Option<ColumnBatch>, ClientError> {
        self.refuse_if_subscribed()?;
        match self.next(want, until, 0)? {
            Polled::Batch(batch) => Ok(Some(batch.columns)),
            Polled::Callback(_) | Polled::Nothing => Ok(None),
        }
    }

    /// Waits until [`Self::next_batch`] or [`Self::next`] would return something at once, or until `until`. Takes
    /// nothing: a caller that is cancelled meanwhile loses nothing.
    pub fn ready(&self, want: &BatchLimits, until: Instant) -> bool {
        self.reads_nothing() || self.buffer.ready(want, until)
    }

    /// While it is held, an empty assignment is no mistake: the new one follows.
    fn changing(&self) -> RwLockReadGuard<'_, ()> {
        self.changing.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn reads_nothing(&self) -> bool {
        // A change of the assignment holds this lock for reading: if it can be locked for writing, none is going on.
        let unchanging = self.changing.try_write().is_ok();
        unchanging && !self.is_subscribed() && self.buffer.look(BufferState::is_empty) && lock(&self.topics).is_empty()
    }

    /// A batch without rows, of the same schema as every other.
    pub fn empty_batch(&self) -> ColumnBatch {
        self.buffer.empty()
    }

    /// True if every partition with an end is read to it.
    pub fn is_done(&self) -> bool {
        self.buffer.look(BufferState::all_done)
    }

    /// Ends the current wait of a call, or the next one, with [`ClientError::WokenUp`].
    pub fn wakeup(&self) {
        self.buffer.wake();
    }

    /// The state of the client.
    pub fn health(&self) -> Health {
        let view = self.base.metadata.watch().borrow().clone();
        Health {
            connections: self.base.network.connected(),
            brokers: view.cluster.brokers.len(),
            bootstrapped: view.answers > 0,
            failing: self.any_failing(&view),
            budget: (self.budget.used(), self.budget.limit()),
            retried_errors: self.base.metrics.retriable_errors(),
            certificate_expires: self.base.config.certificate_expires(),
            registry_failing: self.base.config.schema_registry.as_ref().and_then(|registry| registry.failing()),
            partitions: self.buffer.status(),
        }
    }

    /// The counters.
    pub fn metrics(&self) -> &Metrics {
        &self.base.metrics
    }

    /// The metrics that the user registered, to be pushed with the client's own (KIP-1076).
    pub fn registered_metrics(&self) -> &Arc<RegisteredMetrics> {
        &self.base.registered_metrics
    }

    /// The id that a broker gave this client for the metrics that it pushes (KIP-714).
    pub fn client_instance_id(&self) -> Option<Uuid> {
        self.telemetry.as_ref()?.client_instance_id()
    }

    /// The events that wait to be logged.
    pub fn log(&self) -> &Log {
        &self.base.log
    }

    /// The pool of frames and columns.
    pub fn pool(&self) -> &BufferPool {
        &self.pool
    }

    fn send(&self, command: FetchCommand) -> Result<(), ClientError> {
        let commands = lock(&self.commands);
        let sent = commands.as_ref().ok_or(ClientError::Closed)?.send(command);
        sent.map_err(|_| ClientError::Closed)
    }
}

fn fetch_buffer(
    base: &ClientBase,
    columns: BatchColumns,
    pool: BufferPool,
    budget: &Budget,
    commands: mpsc::UnboundedSender<FetchCommand>,
) -> Arc<FetchBuffer> {
    let ClientBase { config, log, metrics, .. } = base.clone();
    let walk = walk_options(&config);
    let buffer = FetchBuffer::new(columns, walk, config.decode_threads, pool, budget, log, metrics, commands);
    if config.group_id.is_some() {
        buffer.handed_out(|handed_out| handed_out.keep_ledger(config.auto_commit_records));
    }
    Arc::new(buffer)
}

fn walk_options(config: &ClientConfig) -> WalkOptions {
    WalkOptions {
        check_crcs: config.check_crcs,
        read_committed: config.read_committed,
        max_decompressed_bytes: config.max_decompressed_batch_bytes,
    }
}
