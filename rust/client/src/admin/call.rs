//! A call about several items (topics, partitions, groups, nodes), each at its place in the cluster, until each has its
//! outcome or the time is over.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use monedula_engine::TopicPartition;
use monedula_engine::backoff::Jitter;
use monedula_engine::cluster::Cluster;
use monedula_protocol::api::Request;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame;
use tokio::task::JoinSet;

use super::Shared;
use crate::connection::Frame;
use crate::coordinator::{Failure, again, unanswered, unreadable};
use crate::error::{ClientError, Refused, RequestError};
use crate::log::Level;
use crate::network::{NodeId, Purpose};
use crate::offsets::UNKNOWN_TOPIC_ANSWERS;

/// What became of each item.
pub type Items<K, V> = Vec<(K, Result<V, ClientError>)>;

/// What a node answered, by item.
pub(super) type Answers<K, V> = Vec<(K, Result<V, Refusal>)>;

/// A broker's word against one item.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) code: ErrorCode,
    pub(super) detail: Option<String>,
}

impl Refusal {
    /// The error of an answer, if it has one.
    pub(super) fn check(code: i16, detail: Option<&str>) -> Result<(), Self> {
        let detail = detail.filter(|detail| !detail.is_empty()).map(str::to_owned);
        ErrorCode::check(code).map_err(|code| Self { code, detail })
    }
}

/// Who is to be asked about an item.
pub(super) enum Place {
    /// Any broker.
    Any,
    /// The one that takes changes of the cluster.
    Controller,
    /// This one.
    Broker(i32),
    /// Who leads the partition.
    Leader(TopicPartition),
    /// Who coordinates the group.
    Coordinator(String),
}

/// What an item is called in errors.
#[derive(Default)]
pub(super) struct Subject {
    pub(super) topic: Option<String>,
    pub(super) partition: Option<i32>,
    pub(super) group: Option<String>,
}

impl Subject {
    pub(super) fn topic(topic: &str) -> Self {
        Self { topic: Some(topic.to_owned()), ..Self::default() }
    }

    pub(super) fn partition(partition: &TopicPartition) -> Self {
        Self { partition: Some(partition.partition), ..Self::topic(&partition.topic) }
    }

    pub(super) fn group(group: &str) -> Self {
        Self { group: Some(group.to_owned()), ..Self::default() }
    }
}

/// A kind of call. What is the same for all of its items is in `self`.
pub(super) trait ItemCall: Send + Sync + 'static {
    type Key: Ord + Clone + Send + Sync + 'static;
    type Value: Send + 'static;

    /// What is done to an item, for errors: "deleting topic orders".
    fn what(&self, key: &Self::Key) -> String;

    fn subject(&self, key: &Self::Key) -> Subject;

    fn place(&self, key: &Self::Key) -> Place;

    /// One request to one node, about these items.
    fn ask(
        &self,
        shared: &Shared,
        node: NodeId,
        keys: &[Self::Key],
    ) -> impl Future<Output = Result<Answers<Self::Key, Self::Value>, Failure>> + Send;

    /// Whether another attempt may go better, after so many.
    fn passes(&self, code: ErrorCode, attempts: u32) -> bool {
        match code {
            // Brokers hear of a new topic one after the other.
            ErrorCode::UnknownTopicOrPartition => attempts < UNKNOWN_TOPIC_ANSWERS,
            code => code.is_retriable(),
        }
    }

    /// What a refusal means if the answer to an earlier attempt was `lost`, which may have done it.
    fn settle(&self, refusal: Refusal, lost: bool) -> Result<Self::Value, Refusal> {
        let _ = lost;
        Err(refusal)
    }
}

/// A call under way.
struct Progress<C: ItemCall> {
    call: Arc<C>,
    open: BTreeSet<C::Key>,
    done: BTreeMap<C::Key, Result<C::Value, ClientError>>,
    /// Items of which it is not known what became of an attempt.
    lost: BTreeSet<C::Key>,
    attempts: u32,
    last_error: Option<String>,
}

impl Shared {
    /// Asks until each item has its outcome.
    ///
    /// # Errors
    /// What stands in the way of all items: no broker is reached, or none speaks the API; and [`ClientError::TimedOut`] if
    /// none of several has its outcome within `timeout`. Else what is wrong with an item stands at the item.
    pub(super) async fn run<C: ItemCall>(
        &self,
        call: C,
        keys: impl IntoIterator<Item = C::Key>,
        timeout: Duration,
    ) -> Result<Items<C::Key, C::Value>, ClientError> {
        let mut progress = Progress {
            call: Arc::new(call),
            open: keys.into_iter().collect(),
            done: BTreeMap::new(),
            lost: BTreeSet::new(),
            attempts: 0,
            last_error: None,
        };
        if progress.open.is_empty() {
            return Ok(Items::new());
        }
        let started = Instant::now();
        let ended = tokio::time::timeout(timeout, self.until_done(&mut progress)).await;
        if let Ok(Err(error)) = ended {
            return Err(error);
        }
        self.out_of_time(&mut progress, started)?;
        Ok(progress.done.into_iter().collect())
    }

    /// Items without an outcome get one.
    fn out_of_time<C: ItemCall>(&self, progress: &mut Progress<C>, started: Instant) -> Result<(), ClientError> {
        let after = started.elapsed();
        let (answers, failing) = {
            let view = self.metadata.watch().borrow().clone();
            (view.answers, view.failing)
        };
        if !progress.open.is_empty() && answers == 0 {
            return Err(ClientError::Unreachable { after, reasons: self.network.failures() });
        }
        for key in std::mem::take(&mut progress.open) {
            let what = progress.call.what(&key);
            let last_error = progress.last_error.clone().or_else(|| failing.as_ref().map(|(_, error)| error.clone()));
            progress.done.insert(key, Err(ClientError::TimedOut { what, after, last_error }));
        }
        Ok(())
    }

    async fn until_done<C: ItemCall>(&self, progress: &mut Progress<C>) -> Result<(), ClientError> {
        if self.metadata.watch().borrow().answers == 0 {
            self.metadata.refreshed().await?;
        }
        let mut jitter = Jitter::new(Instant::now().elapsed().as_nanos() as u64);
        while !progress.open.is_empty() {
            self.attempt(progress).await?;
            if !progress.open.is_empty() {
                tokio::time::sleep(self.config.retry_backoff.delay(progress.attempts, &mut jitter)).await;
                progress.attempts += 1;
            }
        }
        Ok(())
    }

    async fn attempt<C: ItemCall>(&self, progress: &mut Progress<C>) -> Result<(), ClientError> {
        let mut by_node: BTreeMap<NodeId, Vec<C::Key>> = BTreeMap::new();
        let cluster = self.cluster_for(&*progress.call, &progress.open).await?;
        for key in progress.open.clone() {
            match self.locate(progress.call.place(&key), cluster.as_ref(), &progress.call.what(&key)).await {
                Ok(node) => by_node.entry(node).or_default().push(key),
                Err(Located::Refused(refusal)) => self.answered(progress, key, Err(refusal)),
                Err(Located::Failed(failure)) => self.failed(progress, &[key], failure, false)?,
            }
        }
        let mut tasks = JoinSet::new();
        for (node, keys) in by_node {
            let (shared, call) = (self.clone(), progress.call.clone());
            tasks.spawn(async move {
                let asked = call.ask(&shared, node, &keys).await;
                (keys, asked)
            });
        }
        while let Some(joined) = tasks.join_next().await {
            let (keys, asked) = joined.map_err(|error| ClientError::Internal(error.to_string()))?;
            match asked {
                Ok(answers) => {
                    answers.into_iter().for_each(|(key, answer)| self.answered(progress, key, answer));
                }
                Err(failure) => self.failed(progress, &keys, failure, true)?,
            }
        }
        Ok(())
    }

    fn answered<C: ItemCall>(&self, progress: &mut Progress<C>, key: C::Key, answer: Result<C::Value, Refusal>) {
        if !progress.open.contains(&key) {
            return;
        }
        let outcome = match answer {
            Err(refusal) if progress.call.passes(refusal.code, progress.attempts + 1) => {
                self.again(progress, &key, refusal.code.name(), refusal.code.name().into());
                if refusal.code == ErrorCode::RequestTimedOut {
                    progress.lost.insert(key);
                }
                return;
            }
            Err(refusal) => progress.call.settle(refusal, progress.lost.contains(&key)),
            answered => answered,
        };
        progress.open.remove(&key);
        let outcome = outcome.map_err(|refusal| refused(&*progress.call, &key, refusal));
        progress.done.insert(key, outcome);
    }

    /// A request failed, or there is nobody to send it to.
    fn failed<C: ItemCall>(
        &self,
        progress: &mut Progress<C>,
        keys: &[C::Key],
        failure: Failure,
        sent: bool,
    ) -> Result<(), ClientError> {
        for key in keys {
            match &failure {
                Failure::Again { name, why, .. } => {
                    self.again(progress, key, name, why.clone());
                    if sent {
                        progress.lost.insert(key.clone());
                    }
                }
                Failure::Final(error @ ClientError::UnsupportedVersion { .. }) => return Err(error.clone()),
                Failure::Final(error) => {
                    progress.open.remove(key);
                    progress.done.insert(key.clone(), Err(error.clone()));
                }
            }
        }
        Ok(())
    }

    fn again<C: ItemCall>(&self, progress: &mut Progress<C>, key: &C::Key, name: &str, why: String) {
        self.metrics.retriable_error(name);
        self.log.record(Level::Debug, "admin", || format!("{}: {why}", progress.call.what(key)));
        if let Place::Coordinator(group) = progress.call.place(key) {
            self.coordinators.forget(&group);
        }
        progress.last_error = Some(why);
    }

    /// The cluster as it is now, if someone has to be found by it.
    async fn cluster_for<C: ItemCall>(
        &self,
        call: &C,
        keys: &BTreeSet<C::Key>,
    ) -> Result<Option<Cluster>, ClientError> {
        let mut wanted = false;
        let mut topics = BTreeSet::new();
        for key in keys {
            match call.place(key) {
                Place::Any | Place::Coordinator(_) => {}
                Place::Controller | Place::Broker(_) => wanted = true,
                Place::Leader(partition) => drop(topics.insert(partition.topic)),
            }
        }
        if !wanted && topics.is_empty() {
            return Ok(None);
        }
        // The caller's time is shorter, or this is.
        let described = self.metadata.describe(Some(topics.into_iter().collect()), self.config.default_api_timeout);
        described.await.map(Some)
    }

    async fn locate(&self, place: Place, cluster: Option<&Cluster>, what: &str) -> Result<NodeId, Located> {
        let partition = match place {
            Place::Any => return self.any(),
            Place::Coordinator(group) => {
                let found = self.coordinators.node_of(&group, what).await;
                return found.map(NodeId::Broker).map_err(Located::Failed);
            }
            Place::Controller => {
                let controller = cluster.and_then(|cluster| cluster.controller_id);
                return controller.map_or_else(|| self.any(), |node| Ok(NodeId::Broker(node)));
            }
            Place::Broker(node) => {
                return match cluster.is_some_and(|cluster| cluster.brokers.contains_key(&node)) {
                    true => Ok(NodeId::Broker(node)),
                    false => Err(Located::refused(ErrorCode::BrokerNotAvailable, no_broker(node, cluster))),
                };
            }
            Place::Leader(partition) => partition,
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
                let count = topic.map_or(0, |topic| topic.partitions.len());
                let detail = format!("the topic has {count} partitions, numbered from 0");
                Err(Located::refused(ErrorCode::UnknownTopicOrPartition, detail))
            }
        }
    }

    fn any(&self) -> Result<NodeId, Located> {
        let turn = self.turns.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let nodes = self.network.candidates_from(0);
        match nodes.is_empty() {
            true => Err(Located::Failed(again(ErrorCode::BrokerNotAvailable, false))),
            false => Ok(nodes[turn % nodes.len()]),
        }
    }

    /// One request; its answer, with the version, is still to be read.
    pub(super) async fn call<'q, R: Request<'q>>(
        &self,
        node: NodeId,
        versions: std::ops::RangeInclusive<i16>,
        build: impl FnOnce(i16) -> R,
    ) -> Result<(Frame, i16), Failure> {
        let call = self.network.call(node, Purpose::Control, versions, Duration::ZERO, build).await;
        call.map_err(|error| match error {
            // Metadata has not told of the broker yet, or not any more.
            RequestError::UnknownNode(_) => again(ErrorCode::BrokerNotAvailable, true),
            error => unanswered(error),
        })
    }

    /// How long a broker may take to do what it is asked.
    pub(super) fn broker_time_ms(&self) -> i32 {
        // Less than a request has, so that what it came to is heard.
        i32::try_from(self.config.request_timeout.as_millis() * 3 / 4).unwrap_or(i32::MAX)
    }
}

/// Why nobody could be found.
enum Located {
    Refused(Refusal),
    Failed(Failure),
}

impl Located {
    fn refused(code: ErrorCode, detail: String) -> Self {
        Self::Refused(Refusal { code, detail: Some(detail) })
    }
}

fn no_broker(node: i32, cluster: Option<&Cluster>) -> String {
    let known: Vec<String> =
        cluster.into_iter().flat_map(|cluster| cluster.brokers.keys().map(i32::to_string)).collect();
    format!("there is no broker {node}; those that are reached: {}", known.join(", "))
}

/// The body of an answer.
pub(super) fn read<'f, R: Request<'f>>(frame: &'f Frame, version: i16) -> Result<R::Response<'f>, Failure> {
    frame::decode_response::<R>(frame.as_slice(), version).map_err(|error| unreadable(&error))
}

/// The partitions of each topic, as most requests want them.
pub(super) fn by_topic<'p>(partitions: impl IntoIterator<Item = &'p TopicPartition>) -> BTreeMap<&'p str, Vec<i32>> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        topics.entry(&partition.topic).or_default().push(partition.partition);
    }
    topics
}

/// The same refusal for every item.
pub(super) fn refuse_all<K: Clone, V>(keys: &[K], refusal: &Refusal) -> Answers<K, V> {
    keys.iter().map(|key| (key.clone(), Err(refusal.clone()))).collect()
}

/// A refusal of an item, for the user.
pub(super) fn refused<C: ItemCall>(call: &C, key: &C::Key, refusal: Refusal) -> ClientError {
    let Subject { topic, partition, group } = call.subject(key);
    let group_in_use = matches!(refusal.code, ErrorCode::NonEmptyGroup | ErrorCode::GroupSubscribedToTopic);
    match group {
        Some(group) if group_in_use => ClientError::GroupInUse { group, code: refusal.code },
        Some(group) if refusal.code == ErrorCode::GroupAuthorizationFailed => ClientError::GroupDenied { group },
        group => ClientError::Refused(Box::new(Refused {
            what: call.what(key),
            code: refusal.code,
            detail: refusal.detail,
            topic,
            partition,
            group,
        })),
    }
}
