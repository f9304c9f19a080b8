//! A call about several items (topics, partitions, groups, brokers): [`ItemCall`], which each kind of call implements.
//! [`super::progress`] runs it, on items that are numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_protocol::api::Request;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame;

use super::AdminContext;
use super::progress::{ItemNumber, NumberedCall};
use crate::coordinator::{Failure, again, unanswered, unreadable};
use crate::error::{ClientError, Refused, RequestError};
use crate::lock::lock;
use crate::net::connection::Frame;
use crate::net::network::{NodeId, Purpose};
use crate::offsets::UNKNOWN_TO_SOME;

/// A call in progress. It ends with its result, or with [`ClientError::AdminClosed`] once the client is closed.
pub type AdminCall<T> = Pin<Box<dyn Future<Output = Result<T, ClientError>> + Send>>;

/// The outcome of each item.
pub type Items<K, V> = Vec<(K, Result<V, ClientError>)>;

pub(super) type Answers<K, V> = Vec<(K, Result<V, Refusal>)>;

pub(super) type CallResult<C> = Result<Answers<<C as ItemCall>::Key, <C as ItemCall>::Value>, Failure>;

/// An error code in a response, for one item.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) code: ErrorCode,
    pub(super) detail: Option<String>,
}

impl Refusal {
    /// An error code of a response as an error, unless it is 0 (none).
    pub(super) fn check(code: i16, detail: Option<&str>) -> Result<(), Self> {
        let detail = detail.filter(|detail| !detail.is_empty()).map(str::to_owned);
        ErrorCode::check(code).map_err(|code| Self { code, detail })
    }
}

/// The broker that an item is sent to.
pub(super) enum Recipient {
    /// Any broker, for what may change something.
    Any,
    /// Any broker, and the next one too where one is silent.
    InTurn,
    /// The controller, which executes changes of the cluster.
    Controller,
    Broker(i32),
    Leader(TopicPartition),
    /// The coordinator of a group.
    Coordinator(String),
    /// The coordinator of a transactional id.
    TransactionCoordinator(String),
}

/// The topic, partition and group of an item, for errors.
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

/// A kind of call. `self` holds the parameters that all items share.
pub(super) trait ItemCall: Sized + Send + Sync + 'static {
    type Key: Ord + Clone + Send + Sync + 'static;
    type Value: Send + 'static;
    /// The broker of all items, unless [`Self::recipient`] tells them apart.
    const RECIPIENT: Recipient = Recipient::Any;

    /// The action on an item, for errors: "deleting topic orders".
    fn what(&self, key: &Self::Key) -> String;

    /// The topic, partition or group that an item is about.
    fn subject(&self, _: &Self::Key) -> Subject {
        Subject::default()
    }

    fn recipient(&self, _: &Self::Key) -> Recipient {
        Self::RECIPIENT
    }

    /// Sends one request about these items to one broker.
    fn ask(
        &self,
        context: &AdminContext,
        node: NodeId,
        keys: &[Self::Key],
    ) -> impl Future<Output = CallResult<Self>> + Send;

    /// True if this error is retried, `after` so long.
    fn passes(&self, code: ErrorCode, after: Duration) -> bool {
        match code {
            // A new topic reaches the brokers one after the other.
            ErrorCode::UnknownTopicOrPartition => after < UNKNOWN_TO_SOME,
            code => code.is_retriable(),
        }
    }

    /// The final outcome of a refusal. `lost` says that the answer to an earlier attempt was lost,
    /// so that the broker may have executed that attempt.
    fn settle(&self, refusal: Refusal, lost: bool) -> Result<Self::Value, Refusal> {
        let _ = lost;
        Err(refusal)
    }
}

/// A call with its items, which are numbered in their order.
struct Numbered<C: ItemCall> {
    call: C,
    keys: Vec<C::Key>,
    /// Values that brokers have answered. There may be one for an item whose outcome is an error.
    values: Mutex<BTreeMap<ItemNumber, C::Value>>,
}

impl<C: ItemCall> Numbered<C> {
    /// Keeps the value of an item, unless it has one already.
    fn keep(&self, item: ItemNumber, value: C::Value) {
        lock(&self.values).entry(item).or_insert(value);
    }

    fn outcomes(&self, done: BTreeMap<ItemNumber, Result<(), ClientError>>) -> Items<C::Key, C::Value> {
        let mut values = lock(&self.values);
        let outcome = |(item, outcome): (ItemNumber, Result<(), ClientError>)| {
            let key = self.keys[item].clone();
            let lacks = || ClientError::Internal(format!("no outcome of {}", self.call.what(&key)));
            let value = outcome.and_then(|()| values.remove(&item).ok_or_else(lacks));
            (key, value)
        };
        done.into_iter().map(outcome).collect()
    }
}

impl<C: ItemCall> NumberedCall for Numbered<C> {
    fn what(&self, item: ItemNumber) -> String {
        self.call.what(&self.keys[item])
    }

    fn subject(&self, item: ItemNumber) -> Subject {
        self.call.subject(&self.keys[item])
    }

    fn recipient(&self, item: ItemNumber) -> Recipient {
        self.call.recipient(&self.keys[item])
    }

    fn ask<'a>(&'a self, context: &'a AdminContext, node: NodeId, items: &'a [ItemNumber]) -> Asking<'a> {
        Box::pin(async move {
            let keys: Vec<C::Key> = items.iter().map(|&item| self.keys[item].clone()).collect();
            let answers = self.call.ask(context, node, &keys).await?;
            // Ignores items of the response that the request did not contain.
            let numbered = answers.into_iter().filter_map(|(key, answer)| {
                let item = self.keys.binary_search(&key).ok()?;
                Some((item, answer.map(|value| self.keep(item, value))))
            });
            Ok(numbered.collect())
        })
    }

    fn passes(&self, code: ErrorCode, after: Duration) -> bool {
        self.call.passes(code, after)
    }

    fn settle(&self, item: ItemNumber, refusal: Refusal, lost: bool) -> Result<(), Refusal> {
        self.call.settle(refusal, lost).map(|value| self.keep(item, value))
    }
}

pub(super) type Asking<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<(ItemNumber, Result<(), Refusal>)>, Failure>> + Send + 'a>>;

impl AdminContext {
    /// Sends requests until each item has its outcome.
    ///
    /// # Errors
    /// Failures for all items: no broker has ever answered, a broker does not support the API, or there is no metadata
    /// to find brokers by. Errors of single items, including [`ClientError::TimedOut`], are in the returned items.
    pub(super) async fn run<C: ItemCall>(
        &self,
        call: C,
        keys: impl IntoIterator<Item = C::Key>,
        timeout: Duration,
    ) -> Result<Items<C::Key, C::Value>, ClientError> {
        // Sorted (for the binary search) and without duplicates.
        let keys: BTreeSet<C::Key> = keys.into_iter().collect();
        let keys: Vec<C::Key> = keys.into_iter().collect();
        let count = keys.len();
        let call = Arc::new(Numbered { call, keys, values: Mutex::default() });
        let done = self.run_numbered(call.clone(), count, timeout).await?;
        Ok(call.outcomes(done))
    }

    /// [`Self::run`] for a single item, whose error is that of the call.
    pub(super) async fn run_one<C: ItemCall>(
        &self,
        call: C,
        key: C::Key,
        timeout: Duration,
    ) -> Result<C::Value, ClientError> {
        let outcome = self.run(call, [key], timeout).await?.pop();
        outcome.map_or_else(|| Err(ClientError::Internal("no outcome of a call".into())), |(_, outcome)| outcome)
    }

    /// Sends one request. Returns the undecoded response with its version.
    pub(super) async fn call<'q, R: Request<'q>>(
        &self,
        node: NodeId,
        versions: std::ops::RangeInclusive<i16>,
        build: impl FnOnce(i16) -> R + Send,
    ) -> Result<(Frame, i16), Failure> {
        let call = self.base.network.call(node, Purpose::Control, versions, Duration::ZERO, build).await;
        call.map_err(|error| match error {
            // The metadata does not contain the broker yet, or no longer.
            RequestError::UnknownNode(_) => again(ErrorCode::BrokerNotAvailable, true),
            error => unanswered(error),
        })
    }

    /// The `timeout_ms` of requests: how long a broker may take to execute them.
    pub(super) fn broker_time_ms(&self) -> i32 {
        // Shorter than the request timeout, so that the response arrives before the client stops waiting for it.
        i32::try_from(self.base.config.request_timeout.as_millis() * 3 / 4).unwrap_or(i32::MAX)
    }
}

pub(super) fn read<'f, R: Request<'f>>(frame: &'f Frame, version: i16) -> Result<R::Response<'f>, Failure> {
    frame::decode_response::<R>(frame.as_slice(), version).map_err(|error| unreadable(&error))
}

/// Groups partitions by topic, as most requests do.
pub(super) fn by_topic<'p>(partitions: impl IntoIterator<Item = &'p TopicPartition>) -> BTreeMap<&'p str, Vec<i32>> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        topics.entry(&partition.topic).or_default().push(partition.partition);
    }
    topics
}

pub(super) fn refuse_all<K: Clone, V>(keys: &[K], refusal: &Refusal) -> Answers<K, V> {
    keys.iter().map(|key| (key.clone(), Err(refusal.clone()))).collect()
}

/// The error for the user when a broker refused an item.
pub(super) fn refused<C: ItemCall>(call: &C, key: &C::Key, refusal: Refusal) -> ClientError {
    refused_of(call.what(key), call.subject(key), refusal)
}

/// Like [`refused`], for an item whose description is known.
pub(super) fn refused_of(what: String, subject: Subject, refusal: Refusal) -> ClientError {
    let Subject { topic, partition, group } = subject;
    let group_in_use = matches!(refusal.code, ErrorCode::NonEmptyGroup | ErrorCode::GroupSubscribedToTopic);
    match group {
        Some(group) if group_in_use => ClientError::GroupInUse { group, code: refusal.code },
        Some(group) if refusal.code == ErrorCode::GroupAuthorizationFailed => ClientError::GroupDenied { group },
        group => ClientError::Refused(Box::new(Refused {
            what,
            code: refusal.code,
            detail: refusal.detail,
            topic,
            partition,
            group,
        })),
    }
}
