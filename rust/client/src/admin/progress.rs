//! Runs a call about several items: finds the broker of each item, sends the requests and retries
//! until each item has its outcome or the time is over.
//!
//! Items are numbers here and the call is a trait object, so that this is compiled once instead of for each of twenty
//! kinds of calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use monedula_engine::backoff::Jitter;
use monedula_engine::cluster::Cluster;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::find_coordinator::FindCoordinatorRequest;
use tokio::task::JoinSet;

use super::AdminContext;
use super::call::{Asking, Recipient, Refusal, Subject, refused_of};
use crate::coordinator::{Failure, again};
use crate::error::{ClientError, counted};
use crate::log::kinds;
use crate::net::network::{NodeId, Owed};

const GROUP: i8 = FindCoordinatorRequest::GROUP;
const TRANSACTION: i8 = FindCoordinatorRequest::TRANSACTION;

/// An item, by its index in the call.
pub(super) type ItemNumber = usize;

/// [`super::call::ItemCall`] by item numbers.
pub(super) trait NumberedCall: Send + Sync {
    fn what(&self, item: ItemNumber) -> String;

    fn subject(&self, item: ItemNumber) -> Subject;

    fn recipient(&self, item: ItemNumber) -> Recipient;

    fn ask<'a>(&'a self, context: &'a AdminContext, node: NodeId, items: &'a [ItemNumber]) -> Asking<'a>;

    fn passes(&self, code: ErrorCode, after: Duration) -> bool;

    fn settle(&self, item: ItemNumber, refusal: Refusal, lost: bool) -> Result<(), Refusal>;
}

struct Progress {
    call: Arc<dyn NumberedCall>,
    open: BTreeSet<ItemNumber>,
    done: BTreeMap<ItemNumber, Result<(), ClientError>>,
    /// Items with an attempt whose answer was lost, so that its outcome is unknown.
    lost: BTreeSet<ItemNumber>,
    began: Instant,
    /// Attempts of items that are open.
    attempts: BTreeMap<ItemNumber, u32>,
    /// Items whose last attempt has failed just now.
    failed: Vec<ItemNumber>,
    /// Items of which no request is in flight, by when they are asked about again.
    waiting: BTreeMap<Instant, Vec<ItemNumber>>,
    jitter: Jitter,
    last_error: Option<String>,
}

/// The outcome of a request to one broker, and the items that it was about.
type Answered = (Vec<ItemNumber>, Result<Vec<(ItemNumber, Result<(), Refusal>)>, Failure>);

impl AdminContext {
    /// Sends requests about items 0 to `count` until each has its outcome. Errors as for [`Self::run`].
    pub(super) async fn run_numbered(
        &self,
        call: Arc<dyn NumberedCall>,
        count: usize,
        timeout: Duration,
    ) -> Result<BTreeMap<ItemNumber, Result<(), ClientError>>, ClientError> {
        let mut progress = Progress {
            call,
            open: (0..count).collect(),
            done: BTreeMap::new(),
            lost: BTreeSet::new(),
            began: Instant::now(),
            attempts: BTreeMap::new(),
            failed: Vec::new(),
            waiting: BTreeMap::new(),
            jitter: Jitter::new(self.turns.load(Ordering::Relaxed) as u64),
            last_error: None,
        };
        if progress.open.is_empty() {
            return Ok(progress.done);
        }
        let started = Instant::now();
        match self.base.network.within(timeout, self.until_done(&mut progress)).await {
            Ok(ended) => ended?,
            Err(owed) => self.out_of_time(&mut progress, started, owed)?,
        }
        Ok(progress.done)
    }

    /// Gives each item without an outcome the error [`ClientError::TimedOut`].
    fn out_of_time(&self, progress: &mut Progress, started: Instant, owed: Owed) -> Result<(), ClientError> {
        let after = started.elapsed();
        let (answers, failing) = {
            let view = self.base.metadata.watch().borrow().clone();
            (view.answers, view.failing)
        };
        if !progress.open.is_empty() && answers == 0 {
            return Err(self.base.network.unreachable(after));
        }
        let failing = || failing.as_ref().map(|(_, error)| error.clone());
        let last_error = owed.explain(progress.last_error.clone().or_else(failing));
        for item in std::mem::take(&mut progress.open) {
            let what = progress.call.what(item);
            let last_error = last_error.clone();
            progress.done.insert(item, Err(ClientError::TimedOut { what, after, last_error }));
        }
        Ok(())
    }

    /// Each broker's answer counts when it comes, and its items are asked about again after a backoff of their own: no
    /// broker is waited for before another is asked.
    async fn until_done(&self, progress: &mut Progress) -> Result<(), ClientError> {
        if self.base.metadata.watch().borrow().answers == 0 {
            self.base.metadata.refreshed().await?;
        }
        let mut requests = JoinSet::new();
        self.send(progress, progress.open.clone(), &mut requests).await?;
        while !progress.open.is_empty() {
            let next = progress.waiting.first_key_value().map(|(at, _)| *at);
            tokio::select! {
                Some(joined) = requests.join_next() => {
                    let answered = joined.map_err(|error| ClientError::Internal(error.to_string()))?;
                    self.take(progress, answered)?;
                }
                () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now).into()), if next.is_some() => {
                    let due = progress.waiting.pop_first().map(|(_, items)| items).unwrap_or_default();
                    self.send(progress, due.into_iter().collect(), &mut requests).await?;
                }
                else => return Err(ClientError::Internal("items that no broker is asked about".into())),
            }
        }
        Ok(())
    }

    async fn send(
        &self,
        progress: &mut Progress,
        items: BTreeSet<ItemNumber>,
        requests: &mut JoinSet<Answered>,
    ) -> Result<(), ClientError> {
        let mut by_node: BTreeMap<NodeId, Vec<ItemNumber>> = BTreeMap::new();
        let mut in_turn = Vec::new();
        let cluster = self.cluster_for(&*progress.call, &items).await?;
        for item in items {
            let recipient = progress.call.recipient(item);
            if matches!(recipient, Recipient::InTurn) {
                in_turn.push(item);
                continue;
            }
            match self.locate(recipient, cluster.as_ref(), &progress.call.what(item)).await {
                Ok(node) => by_node.entry(node).or_default().push(item),
                Err(Located::Refused(refusal)) => self.answered(progress, item, Err(refusal)),
                Err(Located::Failed(failure)) => self.failed(progress, &[item], failure, false)?,
            }
        }
        for (node, items) in by_node {
            let (context, call) = (self.clone(), progress.call.clone());
            requests.spawn(async move {
                let asked = call.ask(&context, node, &items).await;
                (items, asked)
            });
        }
        if !in_turn.is_empty() {
            let (context, call) = (self.clone(), progress.call.clone());
            let turn = self.turns.fetch_add(1, Ordering::Relaxed) as u32;
            requests.spawn(async move {
                let asked = context.base.network.any_of(turn, |node| call.ask(&context, node, &in_turn)).await;
                (in_turn, asked.unwrap_or_else(|| Err(again(ErrorCode::BrokerNotAvailable, false))))
            });
        }
        self.back_off(progress);
        Ok(())
    }

    fn take(&self, progress: &mut Progress, (items, asked): Answered) -> Result<(), ClientError> {
        match asked {
            Ok(answers) => {
                let named: BTreeSet<ItemNumber> = answers.iter().map(|(item, _)| *item).collect();
                answers.into_iter().for_each(|(item, answer)| self.answered(progress, item, answer));
                // A broker that leaves out an item has not answered it.
                progress.failed.extend(items.iter().filter(|item| !named.contains(item)));
            }
            Err(failure) => self.failed(progress, &items, failure, true)?,
        }
        self.back_off(progress);
        Ok(())
    }

    /// Items that have failed are asked about again together, after a backoff.
    fn back_off(&self, progress: &mut Progress) {
        let Progress { failed, open, attempts, .. } = progress;
        let failed: Vec<ItemNumber> = std::mem::take(failed).into_iter().filter(|item| open.contains(item)).collect();
        let Some(most) = failed.iter().map(|item| attempts.get(item).copied().unwrap_or(0)).max() else { return };
        failed.iter().for_each(|item| *attempts.entry(*item).or_default() += 1);
        let at = Instant::now() + self.base.config.retry_backoff.delay(most, &mut progress.jitter);
        progress.waiting.entry(at).or_default().extend(failed);
    }

    fn answered(&self, progress: &mut Progress, item: ItemNumber, answer: Result<(), Refusal>) {
        if !progress.open.contains(&item) {
            return;
        }
        let outcome = match answer {
            Err(refusal) if progress.call.passes(refusal.code, progress.began.elapsed()) => {
                self.again(progress, item, refusal.code.name(), refusal.code.name().into());
                if refusal.code == ErrorCode::RequestTimedOut {
                    progress.lost.insert(item);
                }
                return;
            }
            Err(refusal) => progress.call.settle(item, refusal, progress.lost.contains(&item)),
            Ok(()) => Ok(()),
        };
        progress.open.remove(&item);
        let call = &progress.call;
        let outcome = outcome.map_err(|refusal| refused_of(call.what(item), call.subject(item), refusal));
        progress.done.insert(item, outcome);
    }

    /// A request failed, or no broker was found to send it to (`sent` is false then).
    fn failed(
        &self,
        progress: &mut Progress,
        items: &[ItemNumber],
        failure: Failure,
        sent: bool,
    ) -> Result<(), ClientError> {
        for &item in items {
            match &failure {
                Failure::Again { name, why, .. } => {
                    self.again(progress, item, name, why.clone());
                    if sent {
                        progress.lost.insert(item);
                    }
                }
                Failure::Final(error @ ClientError::UnsupportedVersion { .. }) => return Err(error.clone()),
                Failure::Final(error) => {
                    progress.open.remove(&item);
                    progress.done.insert(item, Err(error.clone()));
                }
            }
        }
        Ok(())
    }

    fn again(&self, progress: &mut Progress, item: ItemNumber, name: &str, why: String) {
        self.base.metrics.retriable_error(name);
        self.base.log.record(&kinds::ADMIN_RETRIED, || format!("{}: {why}", progress.call.what(item)));
        match progress.call.recipient(item) {
            Recipient::Coordinator(group) => self.base.coordinators.forget(GROUP, &group),
            Recipient::TransactionCoordinator(id) => self.base.coordinators.forget(TRANSACTION, &id),
            _ => {}
        }
        progress.last_error = Some(why);
        progress.failed.push(item);
    }

    /// Fresh metadata, if an item's broker has to be found by it.
    async fn cluster_for(
        &self,
        call: &dyn NumberedCall,
        items: &BTreeSet<ItemNumber>,
    ) -> Result<Option<Cluster>, ClientError> {
        let mut wanted = false;
        let mut topics = BTreeSet::new();
        for &item in items {
            match call.recipient(item) {
                Recipient::Any
                | Recipient::InTurn
                | Recipient::Coordinator(_)
                | Recipient::TransactionCoordinator(_) => {}
                Recipient::Controller | Recipient::Broker(_) => wanted = true,
                Recipient::Leader(partition) => drop(topics.insert(partition.topic)),
            }
        }
        if !wanted && topics.is_empty() {
            return Ok(None);
        }
        // Normally the caller's timeout, which is outside of this, ends it earlier.
        let described =
            self.base.metadata.describe(Some(topics.into_iter().collect()), self.base.config.default_api_timeout);
        described.await.map(Some)
    }

    async fn locate(&self, recipient: Recipient, cluster: Option<&Cluster>, what: &str) -> Result<NodeId, Located> {
        let partition = match recipient {
            Recipient::Any | Recipient::InTurn => return self.any(),
            Recipient::Coordinator(group) => return self.coordinator(GROUP, &group, what).await,
            Recipient::TransactionCoordinator(id) => return self.coordinator(TRANSACTION, &id, what).await,
            Recipient::Controller => {
                let controller = cluster.and_then(|cluster| cluster.controller_id);
                return controller.map_or_else(|| self.any(), |node| Ok(NodeId::Broker(node)));
            }
            Recipient::Broker(node) => {
                return match cluster {
                    Some(cluster) if !cluster.brokers.contains_key(&node) => {
                        Err(Located::refused(ErrorCode::BrokerNotAvailable, no_broker(node, cluster)))
                    }
                    _ => Ok(NodeId::Broker(node)),
                };
            }
            Recipient::Leader(partition) => partition,
        };
        let topic = cluster.and_then(|cluster| cluster.topics.get(&partition.topic));
        let error = topic.map_or(ErrorCode::UnknownTopicOrPartition, |topic| topic.error);
        if error != ErrorCode::None {
            return Err(Located::Refused(Refusal { code: error, detail: None }));
        }
        match topic.and_then(|topic| topic.partitions.get(&partition.partition)) {
            Some(known) => known
                .leader
                .map(NodeId::Broker)
                .ok_or(Located::Refused(Refusal { code: ErrorCode::LeaderNotAvailable, detail: None })),
            None => {
                let count = topic.map_or(0, |topic| topic.partitions.len()) as u64;
                let detail = format!("the topic has {}, numbered from 0", counted(count, "partition"));
                Err(Located::refused(ErrorCode::UnknownTopicOrPartition, detail))
            }
        }
    }

    async fn coordinator(&self, key_type: i8, key: &str, what: &str) -> Result<NodeId, Located> {
        let found = self.base.coordinators.node_of(key_type, key, what).await;
        found.map(NodeId::Broker).map_err(Located::Failed)
    }

    fn any(&self) -> Result<NodeId, Located> {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let nodes = self.base.network.candidates_from(0);
        match nodes.is_empty() {
            true => Err(Located::Failed(again(ErrorCode::BrokerNotAvailable, false))),
            false => Ok(nodes[turn % nodes.len()]),
        }
    }
}

enum Located {
    Refused(Refusal),
    Failed(Failure),
}

impl Located {
    fn refused(code: ErrorCode, detail: String) -> Self {
        Self::Refused(Refusal { code, detail: Some(detail) })
    }
}

/// The detail of an error about a broker that the cluster does not have.
pub(super) fn no_broker(node: i32, cluster: &Cluster) -> String {
    let known: Vec<String> = cluster.brokers.keys().map(i32::to_string).collect();
    format!("there is no broker {node}; those that are reached: {}", known.join(", "))
}
