//! The way back to `bootstrap.servers` (KIP-899, KIP-1102, KIP-1242). The brokers of metadata are one embedded cluster,
//! and the bootstrap leads to another.

use std::time::Instant;

use monedula_broker::control::Command;
use monedula_broker::server::{Broker as Server, FaultHandle};
use monedula_broker::{Effect, Fault, Options, Selector};
use monedula_columns::BufferPool;
use monedula_engine::cluster::Broker;

use super::*;
use crate::base::ClientBase;

const PATIENCE: Duration = Duration::from_secs(60);
/// A timer that never ends in a test.
const NEVER_MS: &str = "86400000";

fn server(nodes: u16) -> Server {
    let options = Options { nodes, ..Options::default() };
    Server::start(options.settings().expect("settings"), options.clock()).expect("starts")
}

fn brokers(server: &Server) -> BTreeMap<i32, Broker> {
    let at =
        |address: std::net::SocketAddr| Broker { host: address.ip().to_string(), port: address.port(), rack: None };
    server.addresses().iter().map(|&(id, address)| (id.0, at(address))).collect()
}

/// A client that knows the brokers of `known`, and whose bootstrap is `bootstrap`.
fn client(known: &Server, bootstrap: &Server, settings: &[(&str, &str)]) -> (Arc<Metadata>, Arc<Network>) {
    let first = bootstrap.addresses().first().expect("a node").1.to_string();
    let given = [("bootstrap.servers", &*first), ("request.timeout.ms", NEVER_MS), ("retry.backoff.ms", "1")];
    let given = given.into_iter().chain(settings.iter().copied());
    let config = Arc::new(ClientConfig::parse(given).expect("settings"));
    let base = ClientBase::new(config, &[], BufferPool::new(1 << 20), Log::default(), 1);
    base.metadata.learn(&Cluster { brokers: brokers(known), ..Cluster::default() });
    tokio::spawn(base.metadata.clone().run());
    (base.metadata, base.network)
}

fn fault(server: &Server, what: Effect) -> FaultHandle<'_> {
    let when = Selector { apis: vec!["Metadata".to_owned()], ..Selector::default() };
    server.fault(Fault { when, what, ..Fault::default() }).expect("a fault")
}

fn connections(server: &Server) -> usize {
    let open = server.control(Command::Connections {}).expect("a list");
    open.as_array().expect("a list").len()
}

async fn refreshed(metadata: &Metadata) -> BTreeMap<i32, Broker> {
    let answer = tokio::time::timeout(PATIENCE, metadata.refreshed()).await;
    answer.expect("in time").expect("an answer").brokers.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_metadata_for_the_trigger_the_known_brokers_are_forgotten() {
    for (nodes, trigger_ms, what) in [(1, "50", Effect::Hold), (3, "50", Effect::Drop), (9, "200", Effect::Hold)] {
        let (known, other) = (server(nodes), server(2));
        let silent = fault(&known, what);
        let settings = [("metadata.recovery.rebootstrap.trigger.ms", trigger_ms)];
        let (metadata, network) = client(&known, &other, &settings);
        assert_eq!(refreshed(&metadata).await, brokers(&other), "{nodes} nodes");
        // One that did not answer was enough: the time is over for all of them.
        assert_eq!(silent.hits().expect("a number"), 1);
        assert!(network.candidates().iter().all(|node| !matches!(node, NodeId::Broker(3..))), "{nodes} nodes");
        // The connection to the silent broker is closed, so that whatever waits for an answer there is told.
        // Connections to the other cluster are not counted: a second refresh connects to one of its brokers.
        let deadline = Instant::now() + PATIENCE;
        while connections(&known) > 0 {
            assert!(Instant::now() < deadline, "{nodes} nodes");
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn brokers_that_refuse_are_left_for_the_bootstrap_in_the_same_turn() {
    // After all of them, long before the trigger; where that is 0, after the first.
    for trigger_ms in ["0", NEVER_MS] {
        let (known, other) = (server(3), server(1));
        let closing = fault(&known, Effect::Close);
        let (metadata, _network) = client(&known, &other, &[("metadata.recovery.rebootstrap.trigger.ms", trigger_ms)]);
        assert_eq!(refreshed(&metadata).await, brokers(&other));
        assert_eq!(closing.hits().expect("a number"), if trigger_ms == "0" { 1 } else { 3 });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_demands_it_is_obeyed_at_once() {
    let (known, other) = (server(3), server(2));
    let demanding = fault(&known, Effect::Error { error: "REBOOTSTRAP_REQUIRED".to_owned(), whole: true });
    let (metadata, _network) = client(&known, &other, &[("metadata.recovery.rebootstrap.trigger.ms", NEVER_MS)]);
    assert_eq!(refreshed(&metadata).await, brokers(&other));
    assert_eq!(demanding.hits().expect("a number"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_strategy_nothing_is_forgotten() {
    let (known, other) = (server(2), server(1));
    let asked = fault(&other, Effect::Observe);
    let demanding = fault(&known, Effect::Error { error: "REBOOTSTRAP_REQUIRED".to_owned(), whole: true });
    let settings = [("metadata.recovery.strategy", "none"), ("metadata.recovery.rebootstrap.trigger.ms", "0")];
    let (metadata, _network) = client(&known, &other, &settings);
    metadata.want();
    let mut watch = metadata.watch();
    let tried = watch.wait_for(|view| view.attempts > 6);
    tokio::time::timeout(PATIENCE, tried).await.expect("in time").expect("a view");
    demanding.remove().expect("removed");
    assert_eq!(refreshed(&metadata).await, brokers(&known));
    assert_eq!(asked.hits().expect("a number"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_behind_the_address_of_another_is_found_out() {
    for strategy in ["rebootstrap", "none"] {
        let (known, other) = (server(3), server(1));
        let settings = [("metadata.recovery.strategy", strategy), ("reconnect.backoff.ms", "0")];
        let (_metadata, network) = client(&known, &other, &settings);
        let mut moved = brokers(&known);
        let ask = |node| network.call(node, Purpose::Control, 4..=12, Duration::ZERO, |_| MetadataRequest::default());
        // A broker that says nothing of the cluster is asked nothing.
        network.set_brokers(&moved);
        ask(NodeId::Broker(1)).await.expect("an answer");
        // The right ones answer.
        let cluster_id = {
            let (answer, version) = ask(NodeId::Broker(1)).await.expect("an answer");
            let response = frame::decode_response::<MetadataRequest<'_>>(answer.as_slice(), version);
            response.expect("metadata").cluster_id.expect("an id").to_owned()
        };
        network.set_cluster_id(Some(&cluster_id));
        ask(NodeId::Broker(2)).await.expect("an answer");
        // The third node has the address of the first now.
        moved.insert(3, moved[&1].clone());
        network.set_brokers(&moved);
        let refused = ask(NodeId::Broker(3)).await.map(|_| ()).expect_err("another node").to_string();
        assert!(refused.contains("REBOOTSTRAP_REQUIRED"), "{refused}");
        let known: Vec<_> = network.candidates().into_iter().filter(|id| matches!(id, NodeId::Broker(_))).collect();
        assert_eq!(known.len(), if strategy == "none" { 3 } else { 0 }, "{strategy}");
        // And another cluster has the addresses of all.
        network.set_brokers(&brokers(&other));
        network.set_cluster_id(Some("another"));
        let refused = ask(NodeId::Broker(1)).await.map(|_| ()).expect_err("another cluster").to_string();
        assert!(refused.contains("REBOOTSTRAP_REQUIRED"), "{refused}");
        // The bootstrap's addresses are whoever's.
        ask(NodeId::Bootstrap(0)).await.expect("an answer");
    }
}
