//! A call about several items (topics, partitions, groups, nodes): what each kind of call says of its items. [`super::progress`]
//! does the rest, for items that are numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_protocol::api::Request;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame;

use super::Shared;
use super::progress::{Item, NumberedCall};
use crate::coordinator::{Failure, again, unanswered, unreadable};
use crate::error::{ClientError, Refused, RequestError};
use crate::lock::lock;
use crate::net::connection::Frame;
use crate::net::network::{NodeId, Purpose};
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

/// A call with its items, numbered in their order.
struct Numbered<C: ItemCall> {
    call: C,
    keys: Vec<C::Key>,
    /// What nodes answered; an item whose outcome is an error may have one all the same.
    values: Mutex<BTreeMap<Item, C::Value>>,
}

impl<C: ItemCall> Numbered<C> {
    /// The first value of an item stays.
    fn keep(&self, item: Item, value: C::Value) {
        lock(&self.values).entry(item).or_insert(value);
    }

    fn outcomes(&self, done: BTreeMap<Item, Result<(), ClientError>>) -> Items<C::Key, C::Value> {
        let mut values = lock(&self.values);
        let outcome = |(item, outcome): (Item, Result<(), ClientError>)| {
            let key = self.keys[item].clone();
            let lacks = || ClientError::Internal(format!("no outcome of {}", self.call.what(&key)));
            let value = outcome.and_then(|()| values.remove(&item).ok_or_else(lacks));
            (key, value)
        };
        done.into_iter().map(outcome).collect()
    }
}

impl<C: ItemCall> NumberedCall for Numbered<C> {
    fn what(&self, item: Item) -> String {
        self.call.what(&self.keys[item])
    }

    fn subject(&self, item: Item) -> Subject {
        self.call.subject(&self.keys[item])
    }

    fn place(&self, item: Item) -> Place {
        self.call.place(&self.keys[item])
    }

    fn ask<'a>(&'a self, shared: &'a Shared, node: NodeId, items: &'a [Item]) -> Asking<'a> {
        Box::pin(async move {
            let keys: Vec<C::Key> = items.iter().map(|&item| self.keys[item].clone()).collect();
            let answers = self.call.ask(shared, node, &keys).await?;
            // What was not asked for is nobody's answer.
            let numbered = answers.into_iter().filter_map(|(key, answer)| {
                let item = self.keys.binary_search(&key).ok()?;
                Some((item, answer.map(|value| self.keep(item, value))))
            });
            Ok(numbered.collect())
        })
    }

    fn passes(&self, code: ErrorCode, attempts: u32) -> bool {
        self.call.passes(code, attempts)
    }

    fn settle(&self, item: Item, refusal: Refusal, lost: bool) -> Result<(), Refusal> {
        self.call.settle(refusal, lost).map(|value| self.keep(item, value))
    }
}

/// What a node answers about items, some time.
pub(super) type Asking<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<(Item, Result<(), Refusal>)>, Failure>> + Send + 'a>>;

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
        // In order, each once.
        let keys: BTreeSet<C::Key> = keys.into_iter().collect();
        let keys: Vec<C::Key> = keys.into_iter().collect();
        let count = keys.len();
        let call = Arc::new(Numbered { call, keys, values: Mutex::default() });
        let done = self.run_numbered(call.clone(), count, timeout).await?;
        Ok(call.outcomes(done))
    }

    /// One request; its answer, with the version, is still to be read.
    pub(super) async fn call<'q, R: Request<'q>>(
        &self,
        node: NodeId,
        versions: std::ops::RangeInclusive<i16>,
        build: impl FnOnce(i16) -> R + Send,
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
    refused_of(call.what(key), call.subject(key), refusal)
}

/// As [`refused`], of an item whose name and place in the cluster are known.
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
