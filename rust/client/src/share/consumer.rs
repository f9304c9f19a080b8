//! The consumer of a share group: the type that users of the crate hold.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use monedula_columns::{BatchColumns, BufferPool, ColumnBatch};
use monedula_engine::TopicPartition;
use monedula_engine::group::consumer::member_id;
use monedula_engine::share::{AcknowledgeType, Decided};
use monedula_protocol::types::Uuid;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinHandle};

use super::ShareStatus;
use super::buffer::ShareBuffer;
use super::command::{AcknowledgeOutcome, Scope, ShareCommand};
use super::driver::{Driver, Observed};
use super::telemetry;
use super::undecided::Undecided;
use crate::base::ClientBase;
use crate::budget::Budget;
use crate::config::ClientConfig;
use crate::consumer::{BatchLimits, COLUMNS_BYTES};
use crate::error::ClientError;
use crate::fetch::polled::HandedBatch;
use crate::group::handle::random;
use crate::group::{GroupEvent, GroupFigures};
use crate::lock::lock;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::net::metadata::View;
use crate::reach::Reach;
use crate::tasks::block_until;
use crate::telemetry::{RegisteredMetrics, Telemetry};
use crate::trouble::{Trouble, check_registry};

/// Time for which a member that is dropped without being closed tries to leave its group.
const FORGOTTEN_LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// The state of a share group's consumer.
#[derive(Clone, Debug)]
pub struct ShareHealth {
    /// Connections that stand.
    pub connections: usize,
    /// Brokers known from metadata.
    pub brokers: usize,
    /// True if metadata was ever received.
    pub bootstrapped: bool,
    /// Time for which the client has been failing, with the last error.
    pub failing: Option<(Duration, String)>,
    /// Time for which the schema registry could not be asked, and the last reason.
    pub registry_failing: Option<(Duration, String)>,
    /// Bytes of the budget in use, and its size.
    pub budget: (usize, usize),
    /// Retried errors by name.
    pub retried_errors: BTreeMap<String, u64>,
    /// Expiry of the client's own certificate, if it has one.
    pub certificate_expires: Option<SystemTime>,
    /// The membership.
    pub status: Option<ShareStatus>,
    /// Counters of the membership.
    pub figures: GroupFigures,
    /// The id that a broker gave this client for the metrics that it pushes (KIP-714).
    pub client_instance_id: Option<Uuid>,
    /// The group.
    pub group_id: Option<String>,
    /// Rows in the user's hands of which nothing was decided, and which are locked.
    pub rows_in_hand: usize,
    /// Records whose acknowledgement took no effect, or may not have.
    pub unacknowledged: u64,
    /// The error about what a broker refuses to give, as of now.
    pub denied: Option<String>,
    /// Subscribed topics that do not exist.
    pub unknown_topics: BTreeSet<Arc<str>>,
    /// The last error of the membership that was retried, and how long ago.
    pub last_error: Option<(Duration, String)>,
}

/// A member of a share group. Its methods may be called from any thread; those that wait say so.
pub struct ShareConsumer {
    base: ClientBase,
    buffer: Arc<ShareBuffer>,
    budget: Budget,
    pool: BufferPool,
    reach: Reach,
    observed: Arc<Mutex<Observed>>,
    telemetry: Option<Arc<Telemetry>>,
    runtime: Handle,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// Gets the task in which a dropped member leaves its group.
    on_leave_task: OnceLock<fn(JoinHandle<()>)>,
}

impl ShareConsumer {
    /// Starts the consumer's tasks on `runtime`. Nothing is connected before it subscribes. `has_delivery_count`: batches
    /// have the column `deliveryCount`, too.
    pub fn new(
        config: ClientConfig,
        columns: impl Into<BatchColumns>,
        has_delivery_count: bool,
        runtime: &Handle,
        seed: u64,
    ) -> Self {
        let config = Arc::new(config);
        let budget = Budget::new(config.queued_max_bytes);
        let pool = BufferPool::new(config.queued_max_bytes + COLUMNS_BYTES);
        let log = Log::of(Some(config.client_id.clone()), config.group_id.clone());
        let base = ClientBase::new(config.clone(), &config.warnings, pool.clone(), log, seed);
        let (commands, inbox) = mpsc::unbounded_channel();
        let metrics = base.metrics.clone();
        let buffer = ShareBuffer::new(&config, columns.into(), has_delivery_count, pool.clone(), metrics, commands);
        let (buffer, reach, observed) = (Arc::new(buffer), Reach::default(), Arc::default());
        let telemetry = telemetry::start(&base, &observed, runtime, seed);
        let driver = Driver {
            base: base.clone(),
            buffer: buffer.clone(),
            budget: budget.clone(),
            reach: reach.clone(),
            member_id: member_id(random(seed)).into(),
            observed: Arc::clone(&observed),
            seed,
        };
        let tasks = vec![runtime.spawn(base.metadata.clone().run()), runtime.spawn(driver.run(inbox))];
        Self {
            base,
            buffer,
            budget,
            pool,
            reach,
            observed,
            telemetry,
            runtime: runtime.clone(),
            tasks: Mutex::new(tasks),
            on_leave_task: OnceLock::new(),
        }
    }

    /// Joins the group in the background, and reads these topics, in place of those of an earlier call.
    ///
    /// # Errors
    /// If no topic is named, or the consumer is closed.
    pub fn subscribe(&self, topics: BTreeSet<Arc<str>>) -> Result<(), ClientError> {
        match topics.is_empty() {
            true => Err(ClientError::Argument("name at least one topic".into())),
            false => self.buffer.command(ShareCommand::Subscribe(topics)),
        }
    }

    /// Leaves the group in the background. Rows in hand can still be acknowledged.
    ///
    /// # Errors
    /// If the consumer is closed.
    pub fn unsubscribe(&self) -> Result<(), ClientError> {
        self.buffer.command(ShareCommand::Unsubscribe)
    }

    /// The next batch. Waits, at most until `until`; `None` then. `holder` names the thread or task that asks: what it was
    /// handed before is accepted, unless `share.acknowledgement.mode` is explicit.
    ///
    /// # Errors
    /// Errors of single partitions and records, once each; of the whole client and the membership, on every call.
    pub fn next(&self, want: &BatchLimits, until: Instant, holder: u64) -> Result<Option<HandedBatch>, ClientError> {
        self.buffer.next(want, until, holder)
    }

    /// Waits until [`Self::next`] would return something at once, or until `until`. Takes nothing.
    pub fn ready(&self, until: Instant) -> bool {
        self.buffer.ready(until)
    }

    /// What `holder` was handed is accepted, as by [`Self::next`]. To be called before [`Self::ready`].
    pub fn enter(&self, holder: u64) {
        self.buffer.enter(holder);
    }

    /// While the returned value lives, brokers are asked for records.
    pub fn waits(&self) -> impl Send + Sync + use<> {
        self.buffer.wait()
    }

    /// Decides what becomes of rows of a batch; it is sent with the next request for records, by a commit, or before the
    /// lock ends.
    pub fn decide(&self, batch: u64, rows: &[Range<usize>], kind: AcknowledgeType) -> Decided {
        self.buffer.state().held.decide(batch, rows, kind)
    }

    /// Decides what becomes of those of these rows of a batch that are undecided. Returns how many these are.
    pub fn decide_undecided(&self, batch: u64, rows: Range<usize>, kind: AcknowledgeType) -> usize {
        self.buffer.state().held.decide_undecided(batch, rows, kind)
    }

    /// The rows of a batch go to handlers, which decide of each by itself: what its holder asks for next accepts none of
    /// them. Returns the rows of each partition.
    pub fn hand_over(&self, batch: u64) -> Vec<(TopicPartition, Range<usize>)> {
        self.buffer.hand_over(batch)
    }

    /// Asks whether the handler of a row may begin: its lock is not over. Locks of the batch are renewed for
    /// `share.renew.max.ms` from now on.
    pub fn begin(&self, batch: u64, row: usize) -> bool {
        let now = self.buffer.now();
        self.buffer.state().held.begin(batch, row, now)
    }

    /// A value to drop when this thread or task of the user's ends: what is undecided of its rows is released then.
    pub fn undecided_of(&self, holder: u64) -> Undecided {
        Undecided::new(&self.buffer, holder, self.base.log.clone())
    }

    /// True if these are rows of this consumer.
    pub fn has(&self, undecided: &Undecided) -> bool {
        undecided.is_of(&self.buffer)
    }

    /// A loop over the records of a batch goes on to this row. `accepts`: the row before is accepted, if it is undecided.
    /// False if there is no such row, or if its lock is over.
    ///
    /// # Errors
    /// As [`Self::check_ended`]: the row before is accepted, and this one not received.
    pub fn read(&self, batch: u64, row: usize, accepts: bool) -> Result<bool, ClientError> {
        let now = self.buffer.now();
        let mut state = self.buffer.state();
        if let Err(ended) = state.check_ended() {
            if let Some(before) = row.checked_sub(1).filter(|_| accepts) {
                state.held.decide_undecided(batch, before..row, AcknowledgeType::Accept);
            }
            return Err(ended);
        }
        Ok(state.held.read(batch, row, accepts, now))
    }

    /// Looks for what ends a wait of the user.
    ///
    /// # Errors
    /// [`ClientError::WokenUp`], once; if it was closed; the error of the whole client or of the membership.
    pub fn check_ended(&self) -> Result<(), ClientError> {
        self.buffer.state().check_ended()
    }

    /// Sends what was decided, in the background.
    pub fn send_decided(&self) {
        self.buffer.send_decided();
    }

    /// What `holder` was handed is accepted.
    pub fn accept_rest(&self, holder: u64) {
        self.buffer.state().held.accept_rest(holder);
    }

    /// What is undecided of a batch is accepted.
    pub fn accept_rest_of(&self, batch: u64) {
        self.buffer.state().held.accept_rest_of(batch);
    }

    /// The batch and row of a record in the user's hands.
    pub fn find(&self, partition: &TopicPartition, offset: i64) -> Option<(u64, usize)> {
        self.buffer.state().held.find(partition, offset)
    }

    /// The number of rows of a batch in the user's hands.
    pub fn rows(&self, batch: u64) -> Option<usize> {
        self.buffer.state().held.rows(batch)
    }

    /// When the first lock of an undecided row of the batch ends; `None` if everything is decided.
    pub fn deadline(&self, batch: u64) -> Option<Instant> {
        let deadline = self.buffer.state().held.deadline(batch)?;
        Some(self.buffer.instant(deadline))
    }

    /// Sends what was decided, and resolves with its outcomes, and with those of all that is under way.
    ///
    /// # Errors
    /// [`ClientError::TimedOut`] past `timeout`; if the consumer is closed.
    pub fn commit(
        &self,
        scope: Scope,
        timeout: Duration,
    ) -> impl Future<Output = Result<Vec<AcknowledgeOutcome>, ClientError>> + Send + use<> {
        let only = match scope {
            Scope::All => None,
            Scope::Batch(id) => Some(id),
        };
        let now = self.buffer.now();
        let acknowledgements = self.buffer.state().held.take_decided(only, now);
        let (reply, outcomes) = oneshot::channel();
        let sent = self.buffer.command(ShareCommand::Acknowledge { acknowledgements, reply: Some(reply) });
        awaited("commit", sent, outcomes, timeout)
    }

    /// Renews the locks of these rows of a batch, and of those that were acquired together with them, as far as they are
    /// undecided. Resolves with the outcomes; [`Self::deadline`] has the new deadline then.
    ///
    /// # Errors
    /// As those of [`Self::commit`].
    pub fn renew(
        &self,
        batch: u64,
        rows: &[Range<usize>],
        timeout: Duration,
    ) -> impl Future<Output = Result<Vec<AcknowledgeOutcome>, ClientError>> + Send + use<> {
        let now = self.buffer.now();
        let mut state = self.buffer.state();
        // Their locks are not renewed with the others'.
        let acknowledgements = state.held.take_decided(Some(batch), now);
        let refused = state.held.not_renewable(batch, rows, now);
        let renewals = state.held.renew(batch, rows, now);
        drop(state);
        let renewals = renewals.into_iter().map(|renewal| (renewal, None));
        let renewals = renewals.chain(refused.into_iter().map(|(refused, error)| (refused, Some(error)))).collect();
        let (reply, outcomes) = oneshot::channel();
        let sent = self
            .buffer
            .command(ShareCommand::Acknowledge { acknowledgements, reply: None })
            .and_then(|()| self.buffer.command(ShareCommand::Renew { renewals, reply }));
        awaited("renew", sent, outcomes, timeout)
    }

    /// The error of a wait that ended without records, if the client has been failing for at least `at_least`: no broker
    /// was reached yet, none that leads an assigned partition answers, or the group's coordinator does not. Or at once if
    /// a broker refuses to give a partition.
    ///
    /// # Errors
    /// What a broker refuses, [`ClientError::Unavailable`], or [`ClientError::RegistryUnavailable`] if records wait for a schema.
    pub fn check_failing(&self, at_least: Duration) -> Result<(), ClientError> {
        if let Some(denied) = lock(&self.observed).denied.clone() {
            return Err(denied);
        }
        if let Some(trouble) = self.trouble(&self.base.metadata.view()) {
            trouble.check(&self.base, at_least)?;
        }
        check_registry(&self.base, || self.buffer.is_schema_awaited(), at_least)
    }

    fn trouble(&self, view: &View) -> Option<Trouble> {
        if self.is_closed() {
            return None;
        }
        let is_fetching = || !self.budget.is_awaited() && !self.base.network.is_throttled();
        Trouble::of(&self.base, view, &self.reach, is_fetching, || false)
    }

    /// Keeps events of the membership for [`Self::take_events`], or no more.
    pub fn keep_events(&self, keep: bool) {
        lock(&self.observed).figures.keep_events(keep);
    }

    /// The events since the last call.
    pub fn take_events(&self) -> Vec<(SystemTime, GroupEvent)> {
        lock(&self.observed).figures.take_events()
    }

    /// A batch without rows, of the same schema as every other.
    pub fn empty_batch(&self) -> ColumnBatch {
        self.buffer.empty()
    }

    /// Ends the current wait of a call, or the next one, with [`ClientError::WokenUp`].
    pub fn wakeup(&self) {
        self.buffer.wake();
    }

    /// True if it was closed.
    pub fn is_closed(&self) -> bool {
        self.buffer.is_closed()
    }

    /// The settings.
    pub fn config(&self) -> &ClientConfig {
        &self.base.config
    }

    /// The counters.
    pub fn metrics(&self) -> &Metrics {
        &self.base.metrics
    }

    /// The user's metrics, which are pushed to brokers.
    pub fn registered_metrics(&self) -> &Arc<RegisteredMetrics> {
        &self.base.registered_metrics
    }

    /// The events that wait to be logged.
    pub fn log(&self) -> &Log {
        &self.base.log
    }

    /// The pool of frames and columns.
    pub fn pool(&self) -> &BufferPool {
        &self.pool
    }

    /// The state of the client and of its membership.
    pub fn health(&self) -> ShareHealth {
        let view = self.base.metadata.view();
        let failing = Trouble::first(self.trouble(&view), &self.base, &view);
        let observed = lock(&self.observed);
        ShareHealth {
            connections: self.base.network.connected(),
            brokers: view.cluster.brokers.len(),
            bootstrapped: view.answers > 0,
            failing,
            registry_failing: self.base.config.schema_registry.as_ref().and_then(|registry| registry.failing()),
            budget: (self.budget.used(), self.budget.limit()),
            retried_errors: self.base.metrics.retriable_errors(),
            certificate_expires: self.base.config.certificate_expires(),
            status: observed.status.clone(),
            figures: observed.figures.counted.clone(),
            client_instance_id: self.telemetry.as_ref().and_then(|telemetry| telemetry.client_instance_id()),
            group_id: self.base.config.group_id.clone(),
            rows_in_hand: self.buffer.state().held.undecided(self.buffer.now()),
            unacknowledged: observed.unacknowledged,
            denied: observed.denied.as_ref().map(ToString::to_string),
            unknown_topics: observed.figures.unknown_topics.clone(),
            last_error: observed.figures.last_error.as_ref().map(|(at, error)| (at.elapsed(), error.clone())),
        }
    }

    /// Begins to close: sends what was decided, releases the rest, closes the sessions and leaves the group, in
    /// `timeout`.
    fn begin_close(&self, timeout: Duration) {
        let now = self.buffer.now();
        let mut state = self.buffer.state();
        state.held.release_rest();
        let acknowledgements = state.held.take_decided(None, now);
        drop(state);
        // A driver that has ended has nothing to send.
        let _ = self.buffer.command(ShareCommand::Acknowledge { acknowledgements, reply: None });
        let _ = self.buffer.command(ShareCommand::Close { deadline: now + timeout });
    }

    /// Has `hook` get the task in which this consumer leaves its group, if it is dropped without [`Self::close`].
    pub fn on_leave_task(&self, hook: fn(JoinHandle<()>)) {
        let _ = self.on_leave_task.set(hook);
    }

    /// True if the driver has ended.
    fn has_left(&self) -> bool {
        lock(&self.tasks).last().is_none_or(JoinHandle::is_finished)
    }

    /// Closes the consumer, as [`Self::begin_close`], and waits for it. May be called again.
    pub fn close(&self, timeout: Duration) {
        let until = Instant::now() + timeout;
        if !self.is_closed() && !self.has_left() && !timeout.is_zero() {
            self.begin_close(timeout);
        }
        let mut tasks = std::mem::take(&mut *lock(&self.tasks));
        let aborts: Vec<_> = tasks.iter().map(JoinHandle::abort_handle).collect();
        if let Some(driver) = tasks.pop() {
            block_until(&self.runtime, until, async move { _ = driver.await });
        }
        if let Some(telemetry) = &self.telemetry {
            telemetry.finish_by(&self.runtime, until);
        }
        end(&aborts, &self.buffer, &self.base);
        self.base.log.finish();
    }
}

impl Drop for ShareConsumer {
    /// A member that is dropped without [`Self::close`] still tries to release what it holds and to leave the group, for a
    /// second and in the background.
    fn drop(&mut self) {
        if self.is_closed() || self.has_left() {
            return self.close(Duration::ZERO);
        }
        self.begin_close(FORGOTTEN_LEAVE_TIMEOUT);
        let mut tasks = std::mem::take(&mut *lock(&self.tasks));
        let aborts: Vec<_> = tasks.iter().map(JoinHandle::abort_handle).collect();
        let (buffer, base) = (self.buffer.clone(), self.base.clone());
        let leaving = self.runtime.spawn(async move {
            if let Some(driver) = tasks.pop() {
                let _ = tokio::time::timeout(FORGOTTEN_LEAVE_TIMEOUT, driver).await;
            }
            end(&aborts, &buffer, &base);
        });
        if let Some(hook) = self.on_leave_task.get() {
            hook(leaving);
        }
    }
}

/// Ends every wait, and everything that runs.
fn end(tasks: &[AbortHandle], buffer: &ShareBuffer, base: &ClientBase) {
    tasks.iter().for_each(AbortHandle::abort);
    buffer.close();
    base.registered_metrics.close();
    base.network.close();
}

/// The outcomes of acknowledgements that were handed to the driver.
async fn awaited(
    what: &'static str,
    sent: Result<(), ClientError>,
    outcomes: oneshot::Receiver<Vec<AcknowledgeOutcome>>,
    timeout: Duration,
) -> Result<Vec<AcknowledgeOutcome>, ClientError> {
    sent?;
    match tokio::time::timeout(timeout, outcomes).await {
        Ok(outcomes) => outcomes.map_err(|_| ClientError::Closed),
        Err(_) => Err(ClientError::TimedOut { what: what.into(), after: timeout, last_error: None }),
    }
}
