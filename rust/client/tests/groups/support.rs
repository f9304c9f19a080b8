//! A cluster and consumers in a group.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use monedula_broker::control::{Command, Record};
use monedula_broker::server::{Broker, FaultHandle};
use monedula_broker::{Effect, Fault, Options, Selector, Side};
use monedula_client::config::ClientConfig;
use monedula_client::consumer::{BatchLimits, Consumer};
use monedula_client::error::ClientError;
use monedula_client::group::{
    CallbackKind, CommitOutcome, CommitWhat, HandedBatch, Leaving, Listens, Polled, Subscribed,
};
use monedula_columns::ColumnSet;
use monedula_engine::TopicPartition;
use monedula_engine::assign::Assignor;
use serde_json::Value;
use tokio::runtime::Runtime;

pub(crate) const GROUP: &str = "etl";

/// How long a test waits for something that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster, and the runtime of its consumers.
pub(crate) struct World {
    pub(crate) broker: Broker,
    pub(crate) runtime: ConsumerRuntime,
    /// The `group.protocol` of its consumers.
    protocol: String,
}

/// A runtime whose end waits for nobody: a consumer that was dropped tries to leave its group for a second.
pub(crate) struct ConsumerRuntime(Option<Runtime>);

impl Deref for ConsumerRuntime {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        self.0.as_ref().expect("it is taken when it is dropped")
    }
}

impl Drop for ConsumerRuntime {
    fn drop(&mut self) {
        self.0.take().expect("it is dropped once").shutdown_background();
    }
}

impl World {
    pub(crate) fn new(topics: &[&str], nodes: u16) -> Self {
        Self::under("classic", topics, nodes)
    }

    pub(crate) fn under(protocol: &str, topics: &[&str], nodes: u16) -> Self {
        Self::with_session(protocol, topics, nodes, 45_000)
    }

    /// With this session timeout for members under KIP-848, where it is the broker's setting.
    pub(crate) fn with_session(protocol: &str, topics: &[&str], nodes: u16, session_ms: u32) -> Self {
        Self::with_settings(protocol, topics, nodes, &[("group.consumer.session.timeout.ms", &session_ms.to_string())])
    }

    /// With these broker settings in addition to the usual ones.
    pub(crate) fn with_settings(protocol: &str, topics: &[&str], nodes: u16, settings: &[(&str, &str)]) -> Self {
        let usual = [
            ("group.min.session.timeout.ms", "10"),
            ("group.consumer.min.heartbeat.interval.ms", "10"),
            ("group.consumer.heartbeat.interval.ms", "50"),
            ("group.consumer.min.session.timeout.ms", "60"),
        ];
        let settings = usual.iter().chain(settings);
        let settings = settings.map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let topics = topics.iter().map(ToString::to_string).collect();
        let options = Options { nodes, topics, settings, ..Options::default() };
        let broker = Broker::start(options.settings().expect("settings"), options.clock()).expect("starts");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        Self { broker, runtime: ConsumerRuntime(runtime.ok()), protocol: protocol.to_owned() }
    }

    /// The API of the heartbeats.
    pub(crate) fn heartbeat(&self) -> &'static str {
        if self.protocol == "classic" { "Heartbeat" } else { "ConsumerGroupHeartbeat" }
    }

    pub(crate) fn control(&self, command: Command) -> Value {
        self.broker.control(command).expect("a command")
    }

    /// Appends `count` records to a partition.
    pub(crate) fn append(&self, topic: &str, partition: i32, count: usize) {
        let records = vec![Record { value: None, ..Record::default() }; count];
        self.control(Command::Append { topic: topic.into(), partition, records, compression: None });
    }

    pub(crate) fn fault(&self, apis: &[&str], what: Effect, count: Option<u64>) -> FaultHandle<'_> {
        let when = Selector { apis: apis.iter().map(ToString::to_string).collect(), ..Selector::default() };
        self.broker.fault(Fault { when, what, count, ..Fault::default() }).expect("a fault")
    }

    /// Observes the requests of an API at a node.
    pub(crate) fn observe_at(&self, node: i32, api: &str) -> FaultHandle<'_> {
        let when = Selector { apis: vec![api.to_owned()], nodes: vec![node], ..Selector::default() };
        self.broker.fault(Fault { when, what: Effect::Observe, ..Fault::default() }).expect("a fault")
    }

    /// A fault for all requests of these APIs by one client.
    pub(crate) fn fault_of(&self, client_id: &str, apis: &[&str], what: Effect) -> FaultHandle<'_> {
        let apis = apis.iter().map(ToString::to_string).collect();
        let when = Selector { apis, client_id: Some(client_id.to_owned()), ..Selector::default() };
        self.broker.fault(Fault { when, what, ..Fault::default() }).expect("a fault")
    }

    /// Requests of this API are executed, but their responses are lost.
    pub(crate) fn lose_answers(&self, api: &str) -> FaultHandle<'_> {
        let when = Selector { apis: vec![api.to_owned()], ..Selector::default() };
        let fault = Fault { when, what: Effect::Drop, on: Some(Side::Answer), ..Fault::default() };
        self.broker.fault(fault).expect("a fault")
    }

    /// The committed offsets of the group, by partition.
    pub(crate) fn committed(&self, topic: &str) -> BTreeMap<i32, i64> {
        let group = self.control(Command::Group { group: GROUP.into() });
        let offset = |(index, at): (&String, &Value)| {
            (index.parse().expect("a partition"), at["offset"].as_i64().expect("an offset"))
        };
        group["offsets"][topic].as_object().into_iter().flatten().map(offset).collect()
    }

    pub(crate) fn members(&self) -> usize {
        self.control(Command::Group { group: GROUP.into() })["members"].as_array().map_or(0, Vec::len)
    }

    /// A consumer of the group with these settings in addition to the usual ones.
    pub(crate) fn consumer(&self, settings: &[(&str, &str)]) -> User {
        let (config, columns) = (self.config(settings), ColumnSet::default());
        User::new(Consumer::new(config, columns, self.runtime.handle(), 7))
    }

    /// A consumer of the group with these assignors.
    pub(crate) fn consumer_with(&self, settings: &[(&str, &str)], assignors: Vec<Arc<dyn Assignor>>) -> User {
        let (config, columns) = (self.config(settings), ColumnSet::default());
        User::new(Consumer::with_assignors(config, columns, self.runtime.handle(), 7, assignors))
    }

    fn config(&self, settings: &[(&str, &str)]) -> ClientConfig {
        let servers: Vec<String> = self.broker.addresses().iter().map(|(_, address)| address.to_string()).collect();
        let servers = servers.join(",");
        let mut all = vec![
            ("bootstrap.servers", servers.as_str()),
            ("group.id", GROUP),
            ("group.protocol", self.protocol.as_str()),
            ("auto.offset.reset", "earliest"),
            ("heartbeat.interval.ms", "50"),
            ("auto.commit.interval.ms", "50"),
            ("retry.backoff.ms", "10"),
            ("topic.metadata.propagation.max.ms", "1000"),
            ("fetch.max.wait.ms", "50"),
        ];
        all.retain(|(name, _)| !settings.iter().any(|(given, _)| given == name));
        all.extend(settings);
        ClientConfig::parse(all).expect("settings")
    }
}

/// Waits until the condition is true.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A user with one thread, with what it has read and which callbacks it has run.
pub(crate) struct User {
    pub(crate) consumer: Consumer,
    /// Offsets of the rows handed out, by partition, in order.
    pub(crate) read: BTreeMap<i32, Vec<i64>>,
    pub(crate) called: Vec<(CallbackKind, BTreeSet<i32>)>,
    pub(crate) last: Option<HandedBatch>,
}

pub(crate) const HOLDER: u64 = 1;

impl User {
    fn new(consumer: Consumer) -> Self {
        Self { consumer, read: BTreeMap::new(), called: Vec::new(), last: None }
    }

    pub(crate) fn subscribe(&self, topics: &[&str]) {
        let listens = Listens { assigned: true, revoked: true, lost: true };
        self.consumer.subscribe(topics_of(topics), listens).expect("subscribes");
    }

    /// Makes one call; true if it returned a batch.
    pub(crate) fn poll(&mut self) -> Result<bool, ClientError> {
        self.poll_rows(1000)
    }

    pub(crate) fn poll_rows(&mut self, max_rows: usize) -> Result<bool, ClientError> {
        let want = BatchLimits { max_rows, max_bytes: 1 << 20, max_wait: Duration::ZERO, deadline: None };
        match self.consumer.next(&want, Instant::now() + Duration::from_millis(20), HOLDER)? {
            Polled::Batch(batch) => {
                let mut row = 0;
                for span in &batch.columns.spans {
                    let offsets = (row..row + span.rows).map(|row| batch.columns.offset_of(row).expect("a column"));
                    self.read.entry(span.partition).or_default().extend(offsets);
                    row += span.rows;
                }
                self.last = Some(batch);
                Ok(true)
            }
            Polled::Callback(callback) => {
                let partitions = callback.partitions.iter().map(|partition| partition.partition).collect();
                self.called.push((callback.kind, partitions));
                self.consumer.called_back(callback.ticket, false);
                Ok(false)
            }
            Polled::Nothing => Ok(false),
        }
    }

    /// Polls until the condition is true.
    pub(crate) fn poll_until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            let (read, partitions) = (&self.read, self.consumer.statuses());
            assert!(
                Instant::now() < deadline,
                "never: {what}; {read:?} {partitions:?} {:?}",
                self.consumer.group_status()
            );
            self.poll().expect("a poll");
        }
    }

    /// Polls until it gets a batch, of at most `max_rows` rows.
    pub(crate) fn take(&mut self, max_rows: usize) {
        let deadline = Instant::now() + PATIENCE;
        while !self.poll_rows(max_rows).expect("a poll") {
            assert!(Instant::now() < deadline, "no batch; {:?}", self.consumer.group_status());
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.read.values().map(Vec::len).sum()
    }

    pub(crate) fn owned(&self) -> BTreeSet<i32> {
        self.consumer.assignment().iter().map(|partition| partition.partition).collect()
    }

    pub(crate) fn commit(&self, world: &World, what: CommitWhat) -> Result<CommitOutcome, ClientError> {
        world.runtime.block_on(self.consumer.commit(what, PATIENCE))
    }

    pub(crate) fn commit_last(&self, world: &World) -> Result<CommitOutcome, ClientError> {
        let last = self.last.as_ref().expect("a batch");
        self.commit(world, CommitWhat::Batch { id: last.id, places: last.places.clone() })
    }

    /// Runs callbacks until the member has left the group.
    pub(crate) fn leave(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.consumer.leaving(deadline) {
                Leaving::Callback(callback) => {
                    let partitions = callback.partitions.iter().map(|partition| partition.partition).collect();
                    self.called.push((callback.kind, partitions));
                    self.consumer.called_back(callback.ticket, false);
                }
                Leaving::Waiting => panic!("it does not leave"),
                Leaving::Done => return,
            }
        }
    }

    pub(crate) fn close(&mut self) {
        self.consumer.start_close(PATIENCE).expect("closes");
        self.leave();
        self.consumer.close(PATIENCE);
    }
}

pub(crate) fn topics_of(topics: &[&str]) -> Subscribed {
    Subscribed::Topics(topics.iter().map(|&topic| topic.into()).collect())
}

pub(crate) fn partition(topic: &str, index: i32) -> TopicPartition {
    TopicPartition::new(topic, index)
}
