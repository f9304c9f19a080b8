//! Requests by broker id, on an embedded cluster of three.

use std::pin::Pin;
use std::task::Poll;

use monedula_broker::server::{Broker as Server, FaultHandle};
use monedula_broker::{Effect, Fault, Options, Selector};
use monedula_protocol::messages::metadata::MetadataRequest;

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster, and connections to none of its nodes yet.
fn world() -> (Server, Network) {
    let options = Options { nodes: 3, ..Options::default() };
    let server = Server::start(options.settings().expect("settings"), options.clock()).expect("starts");
    let config = ClientConfig::parse([("bootstrap.servers", "127.0.0.1:1")]).expect("settings");
    let network = Network::new(Arc::new(config), BufferPool::new(1 << 20), Log::default(), Metrics::default(), 1);
    let brokers = server.addresses().iter().map(|(id, address)| {
        let broker = Broker { host: address.ip().to_string(), port: address.port(), rack: None };
        (id.0, broker)
    });
    network.set_brokers(&brokers.collect());
    (server, network)
}

fn fault(server: &Server, node: i32, what: Effect) -> FaultHandle<'_> {
    let when = Selector { apis: vec!["Metadata".to_owned()], nodes: vec![node], ..Selector::default() };
    server.fault(Fault { when, what, ..Fault::default() }).expect("a fault")
}

type Waiting = (i32, Pin<Box<dyn Future<Output = Result<(Frame, i16), RequestError>>>>);

/// Takes what is there, without waiting for anything.
async fn poll(waiting: &mut Vec<Waiting>) -> Vec<i32> {
    std::future::poll_fn(|context| {
        let mut ready = Vec::new();
        waiting.retain_mut(|(node, answer)| match answer.as_mut().poll(context) {
            Poll::Ready(answer) => {
                answer.expect("an answer");
                ready.push(*node);
                false
            }
            Poll::Pending => true,
        });
        Poll::Ready(ready)
    })
    .await
}

// seed: S160
#[tokio::test(flavor = "multi_thread")]
async fn requests_go_out_by_broker_id_and_their_answers_are_taken_as_they_come() {
    let (server, network) = world();
    let observers: Vec<_> = (1..=3).map(|node| fault(&server, node, Effect::Observe)).collect();
    let held = fault(&server, 2, Effect::Hold);
    let versions = || MetadataRequest::VERSIONS;
    let mut waiting: Vec<Waiting> = Vec::new();
    for node in [2, 1, 3] {
        let encode = |version, id, client_id: &str| {
            frame::encode_request(&MetadataRequest::default(), version, id, Some(client_id))
        };
        // It comes back though node 2 answers nothing.
        let api = (ApiKey::Metadata, versions());
        let sent = network.send(NodeId::Broker(node), Purpose::Control, api, true, encode).await.expect("is sent");
        waiting.push((node, Box::pin(sent.answer())));
    }
    let (mut ready, deadline) = (Vec::new(), Instant::now() + PATIENCE);
    while ready.len() < 2 {
        assert!(Instant::now() < deadline, "{ready:?}");
        ready.extend(poll(&mut waiting).await);
        tokio::task::yield_now().await;
    }
    ready.sort_unstable();
    assert_eq!(ready, [1, 3]);
    assert!(poll(&mut waiting).await.is_empty(), "node 2 holds its answer back");
    // Each went by a connection of its own.
    assert_eq!(network.connected(), 3);
    let hits = || observers.iter().map(|observer| observer.hits().expect("a number")).collect::<Vec<_>>();
    assert_eq!(hits(), [1, 1, 1]);
    held.remove().expect("removed");
    let (_, last) = waiting.pop().expect("node 2's");
    last.await.expect("an answer");
    // Or whoever asks waits for the answer.
    let asked =
        network.call(NodeId::Broker(3), Purpose::Control, versions(), Duration::ZERO, |_| MetadataRequest::default());
    asked.await.expect("an answer");
    assert_eq!(hits(), [1, 1, 2]);
    assert_eq!(network.connected(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_connection_is_told_also_to_those_who_ask_later() {
    let (server, network) = world();
    let link = network.link(NodeId::Broker(1), Purpose::Produce).await.expect("connects");
    let ended = tokio::spawn(link.connection.ended());
    let closing = fault(&server, 1, Effect::Close);
    let asked = network.call(NodeId::Broker(1), Purpose::Produce, MetadataRequest::VERSIONS, Duration::ZERO, |_| {
        MetadataRequest::default()
    });
    assert!(asked.await.is_err());
    closing.remove().expect("removed");
    tokio::time::timeout(PATIENCE, ended).await.expect("in time").expect("is told");
    tokio::time::timeout(PATIENCE, link.connection.ended()).await.expect("in time");
}
