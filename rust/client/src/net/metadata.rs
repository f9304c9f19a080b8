//! Metadata: one task keeps the cluster view fresh; any part of the client may ask for a newer one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_engine::backoff::Jitter;
use monedula_engine::cluster::Cluster;
use monedula_protocol::api::Request;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame;
use monedula_protocol::messages::fetch::NodeEndpoint;
use monedula_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use monedula_protocol::types::Uuid;
use tokio::sync::{Notify, watch};

use crate::config::ClientConfig;
use crate::error::{ClientError, RequestError};
use crate::lock::lock;
use crate::log::{Entry, Log, kinds};
use crate::metrics::Metrics;
use crate::net::connection::Frame;
use crate::net::network::{Network, NodeFallback, NodeId, Purpose};
use crate::run_time::{self, RunInstant};
use crate::tasks::caught;

/// The cluster view, with the number of answers merged into it, and the failure of the last attempts.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub(crate) cluster: Arc<Cluster>,
    /// Answers merged so far.
    pub(crate) answers: u64,
    /// Attempts so far, each over every known address.
    pub(crate) attempts: u64,
    /// Beginning of the failure of all attempts, and the last error.
    pub(crate) failing: Option<(RunInstant, String)>,
    /// True if the last answer was about all topics, and the view has all that match the filter.
    pub(crate) complete: bool,
    /// An error of the last attempt that no repetition mends.
    pub(crate) fatal: Option<ClientError>,
}

/// True if a topic of that name, internal or not, is of interest.
pub(crate) type Filter = Arc<dyn Fn(&str, bool) -> bool + Send + Sync>;

/// The topics that a Metadata request asks for.
pub(super) enum MetadataTopics {
    All,
    Names(Vec<Arc<str>>),
    Ids(BTreeSet<Uuid>),
}

pub(crate) struct Metadata {
    pub(super) config: Arc<ClientConfig>,
    pub(super) network: Arc<Network>,
    log: Log,
    pub(super) metrics: Metrics,
    topics: Mutex<BTreeMap<Arc<str>, usize>>,
    /// Topics of interest beyond those that are held by name. Where there is a filter, all topics are asked for.
    filter: Mutex<Option<Filter>>,
    pub(super) view: watch::Sender<View>,
    wanted: Notify,
    pub(crate) started: RunInstant,
    first_attempt: OnceLock<RunInstant>,
}

impl Metadata {
    pub(crate) fn new(config: Arc<ClientConfig>, network: Arc<Network>, log: Log, metrics: Metrics) -> Self {
        Self {
            config,
            network,
            log,
            metrics,
            topics: Mutex::default(),
            filter: Mutex::default(),
            view: watch::Sender::new(View::default()),
            wanted: Notify::new(),
            started: RunInstant::now(),
            first_attempt: OnceLock::new(),
        }
    }

    pub(crate) fn watch(&self) -> watch::Receiver<View> {
        self.view.subscribe()
    }

    pub(crate) fn cluster(&self) -> Arc<Cluster> {
        self.view.borrow().cluster.clone()
    }

    pub(crate) fn view(&self) -> View {
        self.view.borrow().clone()
    }

    /// Time after which a topic that no answer knows counts as missing.
    pub(crate) fn propagation(&self) -> Duration {
        self.config.propagation
    }

    /// Number of topics that are asked for.
    pub(crate) fn held(&self) -> usize {
        lock(&self.topics).len()
    }

    /// Present trouble with a topic by the latest answers; `None` if there is none, or if they do not say.
    pub(crate) fn trouble_of(&self, topic: &str) -> Option<String> {
        Some(match self.cluster().topics.get(topic)?.error {
            ErrorCode::None => return None,
            code @ ErrorCode::UnknownTopicOrPartition => {
                format!("the topic {topic} is not known to the brokers ({})", code.name())
            }
            code => format!("the topic {topic}: {} ({})", code.message(), code.name()),
        })
    }

    /// [`Self::trouble_of`] all topics of interest.
    pub(crate) fn topic_troubles(&self) -> Vec<String> {
        let held: Vec<Arc<str>> = lock(&self.topics).keys().cloned().collect();
        held.iter().filter_map(|topic| self.trouble_of(topic)).collect()
    }

    /// Adds topics of interest; metadata is asked for them from now on, until [`Self::release`].
    pub(crate) fn hold(&self, topics: impl IntoIterator<Item = Arc<str>>) {
        let mut held = lock(&self.topics);
        let mut fresh = Vec::new();
        for topic in topics {
            let count = held.entry(topic.clone()).or_default();
            *count += 1;
            if *count == 1 {
                fresh.push(topic);
            }
        }
        drop(held);
        self.forget_failures(&fresh);
    }

    /// Drops errors of these topics: they are of interest again, and the errors may be out of date.
    fn forget_failures(&self, topics: &[Arc<str>]) {
        let failed = |cluster: &Cluster, topic: &Arc<str>| {
            cluster.topics.get(topic).is_some_and(|known| known.error != ErrorCode::None)
        };
        self.view.send_if_modified(|view| {
            if !topics.iter().any(|topic| failed(&view.cluster, topic)) {
                return false;
            }
            let mut cluster = (*view.cluster).clone();
            cluster.topics.retain(|topic, known| known.error == ErrorCode::None || !topics.contains(topic));
            view.cluster = Arc::new(cluster);
            true
        });
    }

    /// Ends one [`Self::hold`].
    pub(crate) fn release(&self, topics: impl IntoIterator<Item = Arc<str>>) {
        let mut held = lock(&self.topics);
        for topic in topics {
            if let Some(count) = held.get_mut(&topic) {
                *count -= 1;
                if *count == 0 {
                    held.remove(&topic);
                }
            }
        }
    }

    /// All topics are asked for from now on, and those kept that match; `None` ends it.
    pub(crate) fn set_filter(&self, filter: Option<Filter>) {
        *lock(&self.filter) = filter;
        // The last answer was complete for another filter.
        self.view.send_if_modified(|view| std::mem::take(&mut view.complete));
    }

    /// Asks for a newer view, soon.
    pub(crate) fn want(&self) {
        self.wanted.notify_one();
    }

    /// Merges a hint of a fetch answer (KIP-951).
    pub(crate) fn hint(&self, partition: &TopicPartition, leader: i32, epoch: i32) {
        self.view.send_if_modified(|view| {
            let mut cluster = (*view.cluster).clone();
            let newer = cluster.hint_leader(partition, leader, epoch);
            if newer {
                view.cluster = Arc::new(cluster);
            }
            newer
        });
    }

    /// Takes addresses of brokers from a fetch answer (KIP-951).
    pub(crate) fn learn_endpoints(&self, endpoints: &[Endpoint]) {
        self.view.send_modify(|view| {
            let mut cluster = (*view.cluster).clone();
            cluster.brokers.extend(endpoints.iter().map(|endpoint| (endpoint.node_id, endpoint.broker.clone())));
            self.network.set_brokers(&cluster.brokers);
            view.cluster = Arc::new(cluster);
        });
    }

    /// The view after the next answer.
    ///
    /// # Errors
    /// If the cluster was never reached within `bootstrap.timeout.ms`, or speaks no common version. Once it was
    /// reached, this waits without end: callers have a timeout of their own.
    pub(crate) async fn refreshed(&self) -> Result<Arc<Cluster>, ClientError> {
        let mut watch = self.watch();
        let before = watch.borrow().answers;
        loop {
            self.want();
            let failure = {
                let view = watch.borrow_and_update();
                if view.answers > before {
                    return Ok(view.cluster.clone());
                }
                self.unreachable(&view)
            };
            if let Some(error) = failure {
                return Err(error);
            }
            if watch.changed().await.is_err() {
                return Err(ClientError::Closed);
            }
        }
    }

    /// Time of the first request.
    pub(crate) fn first_attempt(&self) -> Option<RunInstant> {
        self.first_attempt.get().copied()
    }

    /// The error of a cluster that was not reached within `bootstrap.timeout.ms`, or that speaks no common version.
    pub(crate) fn unreachable(&self, view: &View) -> Option<ClientError> {
        if view.fatal.is_some() {
            return view.fatal.clone();
        }
        let (since, error) = view.failing.as_ref()?;
        let after = since.elapsed();
        // A broker that can be connected to but does not answer Metadata is not among the addresses that failed.
        (view.answers == 0 && after >= self.config.bootstrap_timeout).then(|| self.network.unreachable_or(after, error))
    }

    /// Keeps the view fresh, for ever, from the first [`Self::want`] on: before that nothing is connected.
    pub(crate) async fn run(self: Arc<Self>) {
        tokio::select! {
            () = self.keep_fresh() => {}
            () = run_time::watch() => {}
        }
    }

    async fn keep_fresh(&self) {
        self.wanted.notified().await;
        let first = *self.first_attempt.get_or_init(RunInstant::now);
        let mut jitter = Jitter::new(first.since(self.started).as_nanos() as u64);
        let (mut failures, mut repetitions, mut unresolved) = (0u32, 0u32, 0u32);
        let mut unresolved_since: Option<RunInstant> = None;
        // Time since which no broker of metadata has answered, or the bootstrap was repeated.
        let mut unanswered_since = first;
        loop {
            let asked_at = RunInstant::now();
            if failures == 0 {
                unanswered_since = asked_at;
            }
            let refreshed = caught(self.refresh(&mut unanswered_since)).await.unwrap_or_else(|reason| {
                Err(RequestError::Disconnected { broker: "the metadata of the cluster".into(), reason })
            });
            match refreshed {
                Ok(()) => failures = 0,
                Err(error) => {
                    failures = failures.saturating_add(1);
                    self.fail(&error);
                }
            }
            if failures == 0 {
                let unresolved_for = unresolved_since.map_or(Duration::ZERO, RunInstant::elapsed);
                if self.has_unresolved(unresolved_for) {
                    unresolved_since.get_or_insert_with(RunInstant::now);
                    unresolved = unresolved.saturating_add(1);
                } else {
                    (unresolved_since, unresolved) = (None, 0);
                }
                let age = match unresolved {
                    0 => self.config.metadata_max_age,
                    attempt => self.config.retry_backoff.delay(attempt - 1, &mut jitter),
                };
                let _ = tokio::time::timeout(age.min(self.config.metadata_max_age), self.wanted.notified()).await;
            }
            // A refresh after a quiet second is sent at once; those in quick succession wait ever longer.
            repetitions = if asked_at.elapsed() < Duration::from_secs(1) { repetitions + 1 } else { 0 };
            let pause = match (failures, repetitions) {
                (0, 0 | 1) => Duration::ZERO,
                (0, repeated) => self.config.retry_backoff.delay((repeated - 2).min(4), &mut jitter) / 2,
                (failed, _) => self.config.retry_backoff.delay(failed - 1, &mut jitter),
            };
            tokio::time::sleep(pause.saturating_sub(asked_at.elapsed())).await;
        }
    }

    /// True if a topic of interest is to be asked for again after a backoff, as it was for `unresolved_for`: brokers
    /// did not know it, or had no leader for it. Its creation takes a while to reach every broker, and it may also be
    /// created later. Java's consumer does the same.
    fn has_unresolved(&self, unresolved_for: Duration) -> bool {
        let (held, view) = (lock(&self.topics), self.view.borrow());
        held.keys().any(|name| match view.cluster.topics.get(name) {
            Some(topic) => topic.error.is_retriable(),
            // A list of all topics has no entry for one that does not exist. Such lists may be long, so they are
            // requested again only for as long as it takes until every broker knows a new topic.
            None => unresolved_for < self.config.propagation,
        })
    }

    fn fail(&self, error: &RequestError) {
        self.metrics.retriable_error("metadata");
        self.view.send_modify(|view| {
            view.attempts += 1;
            let since = view.failing.as_ref().map_or_else(RunInstant::now, |(since, _)| *since);
            let first = self.first_attempt.get().copied().unwrap_or(since);
            let since = if view.answers == 0 { first } else { since };
            view.failing = Some((since, error.to_string()));
            view.fatal = match error {
                RequestError::Fatal(error) => Some((**error).clone()),
                _ => None,
            };
        });
    }

    /// One attempt at each known address until one answers. Where none has for the rebootstrap's trigger, the known
    /// brokers are forgotten amid the attempt, and it goes on with the bootstrap's (KIP-1102).
    async fn refresh(&self, unanswered_since: &mut RunInstant) -> Result<(), RequestError> {
        let mut last = RequestError::UnknownNode(-1);
        let mut nodes = NodeFallback::new(self.network.candidates());
        loop {
            let since = *unanswered_since;
            let ask = |node| async move {
                let timeout = self.attempt_timeout(node, since);
                run_time::timeout(timeout, self.ask(node))
                    .await
                    .unwrap_or_else(|| Err(self.network.gave_up(node, timeout)))
            };
            let Some((node, outcome)) = nodes.next(ask).await else { return Err(last) };
            match outcome {
                Ok(()) => return Ok(()),
                Err(error @ RequestError::Fatal(_)) => return Err(error),
                Err(error) => last = error,
            }
            self.log.record(&kinds::METADATA_FAILED, || {
                Entry::new(format!("no metadata: {last}")).broker(self.network.name_of(node))
            });
            // Every failed address changes the view, so that the error of `bootstrap.timeout.ms` comes on time.
            self.fail(&last);
            let is_known = |node| matches!(node, NodeId::Broker(_));
            let unanswered = unanswered_since.elapsed();
            if is_known(node) && self.config.rebootstrap && unanswered >= self.config.rebootstrap_trigger {
                *unanswered_since = RunInstant::now();
                nodes.retain(|node| !is_known(node));
                self.network.rebootstrap(&format!("no metadata for {} ms", unanswered.as_millis()));
            }
        }
    }

    /// Time for an address: one of metadata has no more than until the rebootstrap is due.
    fn attempt_timeout(&self, node: NodeId, unanswered_since: RunInstant) -> Duration {
        let timeout = self.config.request_timeout.min(self.config.bootstrap_timeout);
        let left = self.config.rebootstrap_trigger.saturating_sub(unanswered_since.elapsed());
        match node {
            NodeId::Broker(_) if self.config.rebootstrap && !left.is_zero() => timeout.min(left),
            _ => timeout,
        }
    }

    async fn ask(&self, node: NodeId) -> Result<(), RequestError> {
        let topics: Vec<Arc<str>> = lock(&self.topics).keys().cloned().collect();
        let asked = lock(&self.filter).clone();
        let wanted = if asked.is_none() { MetadataTopics::Names(topics) } else { MetadataTopics::All };
        let (answer, version) = self.request(node, &wanted).await?;
        let response = self.response(node, &answer, version)?;
        self.view.send_modify(|view| {
            let mut cluster = (*view.cluster).clone();
            cluster.update(&response, self.started.elapsed());
            // Topics that are not of interest any more must not pile up.
            let held = lock(&self.topics);
            let filter = lock(&self.filter);
            let matches = |name: &str, internal| filter.as_ref().is_some_and(|filter| filter(name, internal));
            // An answer about all topics leaves out those that were deleted.
            let named: Option<BTreeSet<&str>> =
                asked.as_ref().map(|_| response.topics.iter().filter_map(|topic| topic.name).collect());
            cluster.topics.retain(|topic, known| {
                let exists = named.as_ref().is_none_or(|named| named.contains(&**topic));
                exists && (held.contains_key(topic) || matches(topic, known.is_internal))
            });
            // The subscription may have changed while the request was in flight.
            let same = |asked: &Filter| filter.as_ref().is_some_and(|filter| Arc::ptr_eq(asked, filter));
            view.complete = asked.as_ref().is_some_and(same);
            drop((held, filter));
            self.network.set_cluster_id(cluster.cluster_id.as_deref());
            self.network.set_brokers(&cluster.brokers);
            view.cluster = Arc::new(cluster);
            view.answers += 1;
            view.attempts += 1;
            view.failing = None;
            view.fatal = None;
        });
        Ok(())
    }
}

impl Metadata {
    /// Merges a view of the cluster from another client, so that nothing has to be looked up before the first fetch; or
    /// from a lookup. Topics that it does not know are asked for soon.
    pub(crate) fn learn(&self, newer: &Cluster) {
        let mut has_unknown = false;
        self.view.send_modify(|view| {
            let mut cluster = (*view.cluster).clone();
            let held = lock(&self.topics);
            let mut newer = newer.clone();
            newer.topics.retain(|topic, _| held.contains_key(topic));
            has_unknown = newer.topics.values().any(|topic| topic.error.is_retriable());
            drop(held);
            cluster.learn(&newer);
            self.network.set_brokers(&cluster.brokers);
            view.cluster = Arc::new(cluster);
        });
        if has_unknown {
            self.want();
        }
    }

    pub(super) async fn request(&self, node: NodeId, topics: &MetadataTopics) -> Result<(Frame, i16), RequestError> {
        let named = |name| MetadataRequestTopic { name: Some(name), ..Default::default() };
        let build = |_| MetadataRequest {
            topics: match topics {
                MetadataTopics::All => None,
                MetadataTopics::Names(names) => Some(names.iter().map(|name| named(&**name)).collect()),
                MetadataTopics::Ids(ids) => {
                    let by_id = |&topic_id| MetadataRequestTopic { topic_id, name: None, ..Default::default() };
                    Some(ids.iter().map(by_id).collect())
                }
            },
            allow_auto_topic_creation: self.config.allow_auto_create_topics,
            ..Default::default()
        };
        // Without a name from version 12 on (KIP-516).
        let first = if matches!(topics, MetadataTopics::Ids(_)) { 12 } else { *MetadataRequest::VERSIONS.start() };
        let versions = first..=*MetadataRequest::VERSIONS.end();
        self.network.call(node, Purpose::Control, versions, Duration::ZERO, build).await
    }

    pub(super) fn response<'a>(
        &self,
        node: NodeId,
        answer: &'a Frame,
        version: i16,
    ) -> Result<MetadataResponse<'a>, RequestError> {
        let response = frame::decode_response::<MetadataRequest<'_>>(answer.as_slice(), version)
            .map_err(|error| RequestError::Wire { broker: format!("{node:?}"), error })?;
        let error = ErrorCode::from_code(response.error_code);
        if error == ErrorCode::None {
            self.metrics.metadata_updates(1);
            return Ok(response);
        }
        if error == ErrorCode::RebootstrapRequired {
            self.network.rebootstrap(&format!("{node:?} answered {}", error.name()));
        }
        let reason = format!("metadata failed: {}", error.name());
        Err(RequestError::Disconnected { broker: format!("{node:?}"), reason })
    }
}

/// A broker's address from a fetch answer (KIP-951).
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) node_id: i32,
    pub(crate) broker: monedula_engine::cluster::Broker,
}

impl Endpoint {
    pub(crate) fn new(endpoint: &NodeEndpoint<'_>) -> Option<Self> {
        Self::at(endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack)
    }

    pub(crate) fn at(node_id: i32, host: &str, port: i32, rack: Option<&str>) -> Option<Self> {
        let broker = monedula_engine::cluster::Broker {
            host: host.to_owned(),
            port: u16::try_from(port).ok()?,
            rack: rack.map(str::to_owned),
        };
        Some(Self { node_id, broker })
    }
}

#[cfg(test)]
#[path = "rebootstrap_tests.rs"]
mod tests;
