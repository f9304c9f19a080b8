//! Failures of calls: whether the request was sent.

use std::time::Duration;

use monedula_broker::server::Broker as Server;
use monedula_broker::{Effect, Fault, Options, Selector};
use monedula_columns::BufferPool;
use monedula_engine::cluster::Broker;
use tokio::net::TcpListener;

use super::super::request_order::RequestOrder;
use super::*;
use crate::config::ClientConfig;
use crate::log::Log;
use crate::metrics::Metrics;

const PATIENCE: Duration = Duration::from_secs(60);

/// A client that knows node 1 by this address.
fn network(port: u16) -> Arc<Network> {
    let config = ClientConfig::parse([("bootstrap.servers", "127.0.0.1:1")]).expect("settings");
    let network = Network::new(Arc::new(config), BufferPool::new(1 << 20), Log::default(), Metrics::default(), 1);
    network.set_brokers(&[(1, Broker { host: "127.0.0.1".into(), port, rack: None })].into());
    Arc::new(network)
}

/// A heartbeat to a node.
fn beat(
    network: &Arc<Network>,
    node_id: i32,
) -> (oneshot::Sender<()>, tokio::task::JoinHandle<Result<GroupResponse, CallError>>) {
    let (cancel, cancelled) = oneshot::channel();
    let call = Call::Heartbeat { group_id: "g".into(), member_id: "m".into(), instance_id: None, generation: 1 };
    let target = Target::Coordinator { node_id };
    let turn = RequestOrder::default().next(target, call.purpose());
    let asked = ask_until(cancelled, network.clone(), target, call, turn);
    (cancel, tokio::spawn(asked))
}

async fn outcome(asked: tokio::task::JoinHandle<Result<GroupResponse, CallError>>) -> Result<GroupResponse, CallError> {
    tokio::time::timeout(PATIENCE, asked).await.expect("in time").expect("no panic")
}

#[tokio::test]
async fn a_call_to_a_node_that_is_not_known_was_not_sent() {
    let (_cancel, asked) = beat(&network(1), 9);
    let outcome = outcome(asked).await;
    assert!(matches!(&outcome, Err(CallError::Unsent(reason)) if reason.contains("not known")), "{outcome:?}");
}

#[tokio::test]
async fn a_call_that_is_cancelled_while_it_waits_for_its_connection_is_not_sent() {
    // The handshake has no answer.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let (cancel, asked) = beat(&network(listener.local_addr().expect("bound").port()), 1);
    let _connection = tokio::time::timeout(PATIENCE, listener.accept()).await.expect("in time").expect("connects");
    cancel.send(()).expect("it waits");
    assert!(matches!(outcome(asked).await, Err(CallError::Unsent(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_cancelled_after_it_was_sent_is_lost() {
    let options = Options::default();
    let server = Server::start(options.settings().expect("settings"), options.clock()).expect("starts");
    let when = Selector { apis: vec!["Heartbeat".to_owned()], ..Selector::default() };
    let held = server.fault(Fault { when, what: Effect::Hold, ..Fault::default() }).expect("a fault");
    let port = server.addresses().first().expect("one node").1.port();
    let (cancel, asked) = beat(&network(port), 1);
    assert!(held.wait(1, PATIENCE).expect("waits"), "it arrives");
    cancel.send(()).expect("it waits");
    assert!(matches!(outcome(asked).await, Err(CallError::Lost(_))));
}
