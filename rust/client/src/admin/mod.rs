//! The admin client: topics, configs, groups and their offsets, transactions, reassignments, the cluster; ACLs, SCRAM
//! credentials, client quotas and delegation tokens.
//!
//! Each kind of call is a [`call::ItemCall`]: it names the item, the broker that each item is sent to, and one request.
//! [`progress`] sends the requests, retries and collects the outcomes.

mod acls;
mod call;
mod client_quotas;
mod cluster;
mod configs;
mod delegation_tokens;
mod group_offsets;
mod groups;
mod hanging_transactions;
mod lag;
mod listed;
mod log_dirs;
mod offsets;
mod producers;
mod progress;
mod quorum;
mod reassignments;
mod scram_credentials;
mod share_groups;
mod topics;
mod transactions;
mod words;

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use monedula_columns::BufferPool;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use self::acls::{Acl, AclBinding, AclFilter, AclOperation, AclPatternType, AclPermissionType, AclResourceType};
use self::call::ItemCall;
pub use self::call::{AdminCall, Items};
pub use self::client_quotas::{QuotaEntity, QuotaMatch, Quotas};
pub use self::cluster::{ClusterDescription, Node};
pub use self::configs::{ConfigChange, ConfigEntry, ConfigOperation, ConfigResource, ConfigSynonym};
pub use self::delegation_tokens::{DelegationToken, Principal};
pub use self::group_offsets::{OffsetReset, ResetTarget, Which};
pub use self::groups::{GroupDescription, GroupFilter, GroupListing, MemberDescription};
pub use self::hanging_transactions::HangingTransaction;
pub use self::lag::{GroupLag, PartitionLag};
pub use self::listed::Listed;
pub use self::log_dirs::{BrokerReplica, LogDir, LogDirReplica};
pub use self::offsets::{ListedOffset, OffsetSpec};
pub use self::producers::{ProducerState, TransactionAbort};
pub use self::quorum::{QuorumController, QuorumDescription, QuorumReplica};
pub use self::reassignments::Reassignment;
pub use self::scram_credentials::{ScramAlteration, ScramCredentialInfo, ScramMechanism, UserMechanism};
pub use self::topics::{CreatedTopic, NewPartitions, NewTopic, PartitionDescription, TopicDescription};
pub use self::transactions::{FencedProducer, TransactionDescription, TransactionFilter, TransactionListing};
use crate::base::ClientBase;
use crate::config::ClientConfig;
use crate::error::ClientError;
use crate::lock::lock;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::tasks::block_until;
use crate::telemetry::{Counters, Figure, RegisteredMetrics, Telemetry, common_figures, figure_count};

/// Bytes of response buffers that are kept for further responses.
const POOL_BYTES: usize = 4 << 20;

/// The parts that every call uses; cheap to clone.
#[derive(Clone)]
struct AdminContext {
    base: ClientBase,
    /// Rotates the brokers for requests that any broker answers.
    turns: Arc<AtomicUsize>,
}

/// A client for the administration of a cluster. It connects with the first call. Its methods may be called from any
/// thread; the futures that they return run on the runtime and end with [`ClientError::AdminClosed`] once it is closed.
pub struct Admin {
    context: AdminContext,
    runtime: Handle,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    telemetry: Option<Arc<Telemetry>>,
    closed: watch::Sender<bool>,
}

impl Admin {
    /// Starts the metadata task on `runtime`.
    pub fn new(config: ClientConfig, runtime: &Handle, seed: u64) -> Self {
        let config = Arc::new(config);
        let log = Log::of(Some(config.client_id.clone()), None);
        let base = ClientBase::new(config.clone(), &config.warnings, BufferPool::new(POOL_BYTES), log, seed);
        let tasks = Mutex::new(vec![runtime.spawn(base.metadata.clone().run())]);
        let telemetry = start_telemetry(&base, runtime, seed);
        let context = AdminContext { base, turns: Arc::new(AtomicUsize::new(seed as usize)) };
        Self { context, runtime: runtime.clone(), tasks, telemetry, closed: watch::Sender::new(false) }
    }

    /// The settings.
    pub fn config(&self) -> &ClientConfig {
        &self.context.base.config
    }

    /// The counters of requests and errors.
    pub fn metrics(&self) -> &Metrics {
        &self.context.base.metrics
    }

    /// The records for the user's logging.
    pub fn log(&self) -> &Log {
        &self.context.base.log
    }

    /// The metrics that the user registered, to be pushed with the client's own (KIP-1076).
    pub fn registered_metrics(&self) -> &Arc<RegisteredMetrics> {
        &self.context.base.registered_metrics
    }

    /// Pushes metrics a last time, `timeout` at most; `None` if no broker has asked for any. For those that may not
    /// block in [`Self::close`].
    pub fn last_push(&self, timeout: Duration) -> Option<AdminCall<()>> {
        let telemetry = self.telemetry.clone().filter(|telemetry| telemetry.client_instance_id().is_some())?;
        let until = Instant::now() + timeout;
        Some(Box::pin(async move {
            telemetry.finish(until).await;
            Ok(())
        }))
    }

    /// Pushes metrics a last time, ends all calls with [`ClientError::AdminClosed`] and closes the connections. Waits at most
    /// `timeout` for the tasks to end. May be called again.
    pub fn close(&self, timeout: Duration) {
        let until = Instant::now() + timeout;
        self.closed.send_replace(true);
        if let Some(telemetry) = &self.telemetry {
            telemetry.finish_by(&self.runtime, until);
        }
        self.context.base.registered_metrics.close();
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        for task in &tasks {
            task.abort();
        }
        self.context.base.network.close();
        block_until(&self.runtime, until, async move {
            for task in tasks {
                let _ = task.await;
            }
        });
        self.context.base.log.finish();
    }

    /// Runs `work` on the context parts until it ends or the client is closed.
    fn until_closed<T, F>(&self, work: impl FnOnce(AdminContext) -> F) -> AdminCall<T>
    where
        F: Future<Output = Result<T, ClientError>> + Send + 'static,
    {
        let mut closed = self.closed.subscribe();
        let work = work(self.context.clone());
        Box::pin(async move {
            tokio::select! {
                biased;
                _ = closed.wait_for(|&closed| closed) => Err(ClientError::AdminClosed),
                outcome = work => outcome,
            }
        })
    }

    fn run<C: ItemCall>(&self, call: C, keys: Vec<C::Key>, timeout: Duration) -> AdminCall<Items<C::Key, C::Value>> {
        self.until_closed(move |context| async move { context.run(call, keys, timeout).await })
    }

    fn run_one<C: ItemCall>(&self, call: C, key: C::Key, timeout: Duration) -> AdminCall<C::Value> {
        self.until_closed(move |context| async move { context.run_one(call, key, timeout).await })
    }
}

/// Starts the task that pushes the figures, unless the settings forbid it.
fn start_telemetry(base: &ClientBase, runtime: &Handle, seed: u64) -> Option<Arc<Telemetry>> {
    let (metrics, network) = (base.metrics.clone(), base.network.clone());
    let read = move || common_figures!("org.apache.kafka.admin.client", Counters::of(&metrics), network);
    base.start_telemetry(Vec::new(), Box::new(read), runtime, seed)
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}
