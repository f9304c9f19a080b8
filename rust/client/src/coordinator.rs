//! Offsets of consumer groups, committed and looked up at each group's coordinator by a client that is no member of it.
//!
//! Topics go by their names, not by their ids, so versions with ids (10 of both requests) are not used.

mod non_member_offset_fetch;
mod offset_commit;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use monedula_engine::TopicPartition;
use monedula_engine::backoff::Jitter;
use monedula_engine::cluster::Broker;
use monedula_engine::fetch::Fault;
use monedula_engine::group::CommitOffset;
use monedula_protocol::api::Request;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame;
use monedula_protocol::messages::find_coordinator::{Coordinator, FindCoordinatorRequest};

use self::non_member_offset_fetch::CommittedOffsetsCall;
use self::offset_commit::Commit;
use crate::config::ClientConfig;
use crate::error::{ClientError, Refused, RequestError};
use crate::lock::lock;
use crate::log::{Entry, Log, kinds};
use crate::metrics::Metrics;
use crate::net::metadata::{Endpoint, Metadata};
use crate::net::network::{Network, NodeFallback, NodeId, Purpose};
use crate::run_time::{self, RunInstant};

const GROUP: i8 = FindCoordinatorRequest::GROUP;

/// Outcome of each partition of a commit.
pub type Commits = BTreeMap<TopicPartition, Result<(), Fault>>;

/// Committed offset of each partition; `None` where there is none.
pub type CommittedOffsets = BTreeMap<TopicPartition, Result<Option<CommitOffset>, Fault>>;

/// Reason that an attempt failed.
pub(crate) enum Failure {
    /// Another attempt may succeed.
    Again {
        /// Name of the error, for the counters.
        name: &'static str,
        /// Failure, for the error if there is no time for another attempt.
        why: String,
        /// True if the group may have another coordinator now.
        moved: bool,
    },
    /// Every other attempt would fail too.
    Final(ClientError),
}

trait GroupCall: Send {
    type Outcome: Send;

    fn group(&self) -> &str;

    /// Name of the call, for errors.
    fn what(&self) -> String;

    /// One attempt. Partitions that it gets an outcome for are not asked about by the next.
    fn ask(&mut self, network: &Network, node: i32) -> impl Future<Output = Result<Self::Outcome, Failure>> + Send;
}

/// Coordinators of groups and transactional ids, as far as they are known, and the way to find them.
#[derive(Clone)]
pub(crate) struct Coordinators {
    config: Arc<ClientConfig>,
    network: Arc<Network>,
    metadata: Arc<Metadata>,
    log: Log,
    metrics: Metrics,
    /// By key type and key of FindCoordinator.
    known: Arc<Mutex<BTreeMap<(i8, String), i32>>>,
}

impl Coordinators {
    pub(crate) fn new(
        config: Arc<ClientConfig>,
        network: Arc<Network>,
        metadata: Arc<Metadata>,
        log: Log,
        metrics: Metrics,
    ) -> Self {
        Self { config, network, metadata, log, metrics, known: Arc::default() }
    }

    /// Commits offsets to a group without members.
    ///
    /// # Errors
    /// [`ClientError::GroupInUse`] if the group has members, [`ClientError::GroupDenied`], [`ClientError::TimedOut`]
    /// past `timeout`; what is wrong with single partitions stands at these.
    pub(crate) async fn commit(
        &self,
        group: String,
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        timeout: Duration,
    ) -> Result<Commits, ClientError> {
        check_group(&group)?;
        if let Some((partition, at)) = offsets.iter().find(|(_, at)| at.offset < 0) {
            return Err(ClientError::Argument(format!("{partition}: offset {} cannot be committed", at.offset)));
        }
        if offsets.is_empty() {
            return Ok(Commits::new());
        }
        self.run(Commit { group, open: offsets, done: Commits::new(), began: RunInstant::now() }, timeout).await
    }

    /// Committed offsets of a group, for these partitions or all.
    ///
    /// # Errors
    /// [`ClientError::GroupDenied`], [`ClientError::TimedOut`] past `timeout`; what is wrong with single partitions
    /// stands at these.
    pub(crate) async fn committed(
        &self,
        group: String,
        partitions: Option<Vec<TopicPartition>>,
        timeout: Duration,
    ) -> Result<CommittedOffsets, ClientError> {
        check_group(&group)?;
        if partitions.as_ref().is_some_and(Vec::is_empty) {
            return Ok(CommittedOffsets::new());
        }
        self.run(CommittedOffsetsCall { group, partitions, stable: false }, timeout).await
    }

    /// As [`Self::committed`], to start there: offsets that an open transaction may still change are waited for
    /// (KIP-447).
    pub(crate) async fn stable(
        &self,
        group: String,
        partitions: Vec<TopicPartition>,
        timeout: Duration,
    ) -> Result<CommittedOffsets, ClientError> {
        check_group(&group)?;
        self.run(CommittedOffsetsCall { group, partitions: Some(partitions), stable: true }, timeout).await
    }

    /// The last error of a wait that is over, with what is wrong with brokers.
    pub(crate) fn explain(&self, last_error: &str) -> Option<String> {
        self.network.explain(Some(last_error.into()))
    }

    async fn run<C: GroupCall>(&self, mut call: C, timeout: Duration) -> Result<C::Outcome, ClientError> {
        let what = call.what();
        let mut last_error = None;
        let outcome = self.network.within(timeout, self.until_answered(&mut call, &mut last_error)).await;
        outcome.unwrap_or_else(|owed| {
            let failing = || self.metadata.watch().borrow().failing.as_ref().map(|(_, error)| error.clone());
            let last_error = owed.explain(last_error.or_else(failing));
            Err(ClientError::TimedOut { what, after: timeout, last_error })
        })
    }

    async fn until_answered<C: GroupCall>(
        &self,
        call: &mut C,
        last_error: &mut Option<String>,
    ) -> Result<C::Outcome, ClientError> {
        let nothing_known = self.metadata.watch().borrow().answers == 0;
        if nothing_known {
            // Without metadata there would be no other broker to ask once the coordinator is gone.
            self.metadata.refreshed().await?;
        }
        let mut jitter = Jitter::new(Instant::now().elapsed().as_nanos() as u64);
        for attempt in 0.. {
            match self.attempt(call).await {
                Ok(outcome) => return Ok(outcome),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Again { name, why, moved }) => {
                    self.metrics.retriable_error(name);
                    self.log.record(&kinds::GROUP_REQUEST_RETRIED, || format!("{}: {why}", call.what()));
                    *last_error = Some(why);
                    if moved {
                        self.forget(GROUP, call.group());
                        self.metadata.want();
                    }
                }
            }
            tokio::time::sleep(self.config.retry_backoff.delay(attempt, &mut jitter)).await;
        }
        Err(ClientError::Closed)
    }

    async fn attempt<C: GroupCall>(&self, call: &mut C) -> Result<C::Outcome, Failure> {
        let node = self.node_of(GROUP, call.group(), &call.what()).await?;
        call.ask(&self.network, node).await
    }

    /// The broker that coordinates a group or transactional id, as far as it is known; else one attempt to find out.
    pub(crate) async fn node_of(&self, key_type: i8, key: &str, what: &str) -> Result<i32, Failure> {
        match self.known_node(key_type, key) {
            Some(node) => Ok(node),
            None => self.find(key_type, key, what).await,
        }
    }

    pub(crate) fn known_node(&self, key_type: i8, key: &str) -> Option<i32> {
        lock(&self.known).get(&(key_type, key.to_owned())).copied()
    }

    /// The key may have another coordinator now.
    pub(crate) fn forget(&self, key_type: i8, key: &str) {
        lock(&self.known).remove(&(key_type, key.to_owned()));
    }

    /// Asks one broker after the other until one answers.
    async fn find(&self, key_type: i8, key: &str, what: &str) -> Result<i32, Failure> {
        let mut failure = again(ErrorCode::CoordinatorNotAvailable, false);
        let mut nodes = NodeFallback::new(self.network.candidates());
        let ask = |node| async move {
            let asked = self.find_from(node, key_type, key, what);
            let found = run_time::timeout(self.config.request_timeout, asked).await;
            found.unwrap_or_else(|| Err(again(ErrorCode::RequestTimedOut, false)))
        };
        while let Some((_, asked)) = nodes.next(ask).await {
            match asked {
                Err(failed @ Failure::Again { .. }) => failure = failed,
                decided => return decided,
            }
        }
        Err(failure)
    }

    async fn find_from(&self, node: NodeId, key_type: i8, key: &str, what: &str) -> Result<i32, Failure> {
        let build = |version| FindCoordinatorRequest::of_key(key, key_type, version);
        let versions = 1..=*FindCoordinatorRequest::VERSIONS.end();
        let call = self.network.call(node, Purpose::Control, versions, Duration::ZERO, build).await;
        let (answer, version) = call.map_err(unanswered)?;
        let response = frame::decode_response::<FindCoordinatorRequest<'_>>(answer.as_slice(), version)
            .map_err(|error| unreadable(&error))?;
        let Coordinator { error_code, node_id, host, port, .. } = response.of_key(key, version);
        match ErrorCode::check(error_code) {
            Ok(()) => {}
            Err(code) if code.is_retriable() => return Err(again(code, false)),
            Err(code) if key_type == GROUP => return Err(Failure::Final(refused(key, what.into(), code))),
            Err(code) => {
                let (what, detail, topic, partition, group) = (what.into(), None, None, None, None);
                let refused = Refused { what, code, detail, topic, partition, group };
                return Err(Failure::Final(ClientError::Refused(Box::new(refused))));
            }
        }
        self.learn(node_id, host, port);
        lock(&self.known).insert((key_type, key.to_owned()), node_id);
        self.log.record(&kinds::COORDINATOR_FOUND, || {
            let kind = if key_type == GROUP { "group" } else { "transactional id" };
            Entry::new(format!("broker {node_id} coordinates {kind} {key}"))
                .broker(self.network.name_of(NodeId::Broker(node_id)))
        });
        Ok(node_id)
    }

    /// Takes a coordinator's address, if metadata has another or none.
    pub(crate) fn learn(&self, node_id: i32, host: &str, port: i32) {
        let Ok(port) = u16::try_from(port) else { return };
        let cluster = self.metadata.cluster();
        let known = cluster.brokers.get(&node_id);
        if known.is_none_or(|broker| broker.host != host || broker.port != port) {
            let rack = known.and_then(|broker| broker.rack.clone());
            self.metadata
                .learn_endpoints(&[Endpoint { node_id, broker: Broker { host: host.to_owned(), port, rack } }]);
        }
    }
}

pub(crate) fn check_group(group: &str) -> Result<(), ClientError> {
    match group.is_empty() {
        true => Err(ClientError::Argument("the id of a consumer group must not be empty".into())),
        false => Ok(()),
    }
}

pub(crate) fn fault(partition: TopicPartition, code: ErrorCode) -> Fault {
    match code {
        ErrorCode::TopicAuthorizationFailed => Fault::TopicDenied { partition },
        ErrorCode::UnknownTopicOrPartition => Fault::UnknownTopicOrPartition { partition, what: "partition" },
        code => Fault::Refused { partition, code },
    }
}

/// The error for a client that is no member, of an error of the group that no retry mends.
fn refused(group: &str, what: String, code: ErrorCode) -> ClientError {
    let group = group.to_owned();
    match code {
        ErrorCode::GroupAuthorizationFailed => ClientError::GroupDenied { group },
        ErrorCode::UnknownMemberId
        | ErrorCode::IllegalGeneration
        | ErrorCode::RebalanceInProgress
        | ErrorCode::FencedInstanceId
        | ErrorCode::FencedMemberEpoch
        | ErrorCode::StaleMemberEpoch => ClientError::GroupInUse { group, code },
        // Commits of who is no member create a group that does not exist: this one is of another kind.
        ErrorCode::GroupIdNotFound => {
            let detail = Some(format!("{group} is no consumer group; if it is a share group, use ShareConsumer"));
            let group = Some(group);
            ClientError::Refused(Box::new(Refused { what, code, detail, topic: None, partition: None, group }))
        }
        code => ClientError::Broker { what, code },
    }
}

pub(crate) fn again(code: ErrorCode, moved: bool) -> Failure {
    Failure::Again { name: code.name(), why: code.name().into(), moved }
}

/// A request without an answer.
pub(crate) fn unanswered(error: RequestError) -> Failure {
    match error {
        RequestError::Fatal(error) => Failure::Final(*error),
        error => Failure::Again { name: ErrorCode::NetworkException.name(), why: error.to_string(), moved: true },
    }
}

/// An answer that cannot be read.
pub(crate) fn unreadable(error: &monedula_protocol::error::WireError) -> Failure {
    let name = ErrorCode::UnknownServerError.name();
    Failure::Again { name, why: error.to_string(), moved: true }
}

#[cfg(test)]
#[path = "coordinator_tests.rs"]
mod tests;
