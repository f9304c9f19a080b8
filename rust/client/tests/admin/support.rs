//! Admin clients of an embedded cluster, and faults for their requests.

use std::collections::BTreeMap;
use std::future::Future;

use monedula_broker::control::Command;
use monedula_broker::server::FaultHandle;
use monedula_broker::{Effect, Fault, NodeId, Selector, Side};
use monedula_client::admin::{Admin, Items, NewTopic};
use monedula_client::config::ClientConfig;
use monedula_client::error::ClientError;
use monedula_client::group::CommitOffset;
use monedula_engine::TopicPartition;
use tokio::task::JoinHandle;

use crate::cluster::beside;
pub(crate) use crate::cluster::{PATIENCE, World};

impl World {
    pub(crate) fn admin(&self, settings: &[(&str, &str)]) -> Admin {
        let servers = self.servers();
        let all = beside(&[("bootstrap.servers", &servers), ("retry.backoff.ms", "10")], settings);
        Admin::new(ClientConfig::parse_admin(all).expect("settings"), self.runtime.handle(), 7)
    }

    /// Runs a call to its end.
    pub(crate) fn run<T>(&self, call: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
        self.runtime.block_on(async { tokio::time::timeout(PATIENCE, call).await }).expect("in time")
    }

    /// Starts a call in the background.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, ClientError>> + Send + 'static,
    ) -> JoinHandle<Result<T, ClientError>> {
        self.runtime.spawn(call)
    }

    pub(crate) fn ended<T>(&self, call: JoinHandle<Result<T, ClientError>>) -> Result<T, ClientError> {
        self.run(async { call.await.expect("does not panic") })
    }

    pub(crate) fn move_coordinator(&self, group: &str, node: u16) {
        let group = Some(group.to_owned());
        self.control(Command::MoveCoordinator { group, transactional_id: None, node: NodeId(i32::from(node)) });
    }

    pub(crate) fn fault(&self, api: &str, nodes: &[i32], what: Effect, count: Option<u64>) -> FaultHandle<'_> {
        let when = Selector { apis: vec![api.to_owned()], nodes: nodes.to_vec(), ..Selector::default() };
        self.fault_when(when, what, count)
    }

    /// The next request of this API is executed, but its connection is closed instead of a response.
    pub(crate) fn lose_answer(&self, api: &str) -> FaultHandle<'_> {
        let when = Selector { apis: vec![api.to_owned()], ..Selector::default() };
        let fault = Fault { when, what: Effect::Close, on: Some(Side::Answer), count: Some(1), ..Fault::default() };
        self.broker.fault(fault).expect("a fault")
    }

    /// Observes the requests of an API at each of three nodes.
    pub(crate) fn watched(&self, api: &str) -> [FaultHandle<'_>; 3] {
        [1, 2, 3].map(|node| self.fault(api, &[node], Effect::Observe, None))
    }

    /// Creates a group by committing an offset of `events-0` for it.
    pub(crate) fn make_group(&self, admin: &Admin, group: &str) {
        let at = CommitOffset { offset: 0, leader_epoch: -1, metadata: String::new() };
        let offsets = BTreeMap::from([(TopicPartition::new("events", 0), at)]);
        let committed = self.run(admin.alter_group_offsets(group.to_owned(), offsets, PATIENCE)).expect("commits");
        assert!(committed.iter().all(|(_, outcome)| outcome.is_ok()), "{committed:?}");
    }
}

pub(crate) fn hits(watched: &[FaultHandle<'_>]) -> Vec<u64> {
    watched.iter().map(|at| at.hits().expect("is set")).collect()
}

pub(crate) fn refuse(error: &str) -> Effect {
    Effect::Error { error: error.into(), whole: true }
}

pub(crate) fn topic(name: &str) -> NewTopic {
    NewTopic {
        name: name.to_owned(),
        partitions: Some(1),
        replication_factor: Some(1),
        assignments: Vec::new(),
        configs: Vec::new(),
    }
}

/// The outcome of the only item.
pub(crate) fn only<K, V>(items: Items<K, V>) -> Result<V, ClientError> {
    assert_eq!(items.len(), 1);
    items.into_iter().next().expect("one").1
}
