//! An embedded broker, and the runtime of its clients.
#![allow(dead_code, reason = "each test program uses a part")]

use std::time::Duration;

use monedula_broker::control::{Command, Record};
use monedula_broker::server::{Broker, FaultHandle};
use monedula_broker::{Effect, Fault, Options, Selector};
use serde_json::Value;
use tokio::runtime::Runtime;

/// How long a test waits for something that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    pub(crate) broker: Broker,
    pub(crate) runtime: Runtime,
}

impl World {
    pub(crate) fn new(topics: &[&str], nodes: u16) -> Self {
        Self::with(topics, nodes, &[])
    }

    /// A cluster with these broker settings.
    pub(crate) fn with(topics: &[&str], nodes: u16, settings: &[(&str, &str)]) -> Self {
        let topics = topics.iter().map(ToString::to_string).collect();
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self::of(Options { nodes, topics, settings, ..Options::default() })
    }

    pub(crate) fn of(options: Options) -> Self {
        let broker = Broker::start(options.settings().expect("settings"), options.clock()).expect("starts");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        Self { broker, runtime: runtime.expect("a runtime") }
    }

    /// The value for `bootstrap.servers`.
    pub(crate) fn servers(&self) -> String {
        let servers: Vec<String> = self.broker.addresses().iter().map(|(_, address)| address.to_string()).collect();
        servers.join(",")
    }

    pub(crate) fn control(&self, command: Command) -> Value {
        self.broker.control(command).expect("a command")
    }

    /// Appends `count` records to a partition.
    pub(crate) fn append(&self, topic: &str, partition: i32, count: usize) {
        let records = vec![Record { value: None, ..Record::default() }; count];
        self.control(Command::Append { topic: topic.into(), partition, records, compression: None });
    }

    pub(crate) fn fault_when(&self, when: Selector, what: Effect, count: Option<u64>) -> FaultHandle<'_> {
        self.broker.fault(Fault { when, what, count, ..Fault::default() }).expect("a fault")
    }
}

/// The usual settings, overridden by those given.
pub(crate) fn beside<'a>(usual: &[(&'a str, &'a str)], given: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let kept = usual.iter().filter(|(name, _)| !given.iter().any(|(other, _)| other == name));
    kept.chain(given).copied().collect()
}
