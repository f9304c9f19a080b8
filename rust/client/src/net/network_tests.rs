//! Requests by broker id, on an embedded cluster of three.

use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use monedula_broker::server::{Broker as Server, FaultHandle};
use monedula_broker::{Effect, Fault, Options, Selector};
use monedula_protocol::messages::api_versions::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse};
use monedula_protocol::messages::metadata::MetadataRequest;
use tokio::net::TcpStream;

use super::*;
use crate::base::ClientBase;
use crate::lock::lock;

const PATIENCE: Duration = Duration::from_secs(60);

fn network(settings: &[(&str, &str)]) -> Network {
    let servers = ("bootstrap.servers", "127.0.0.1:1");
    let config = ClientConfig::parse([servers].iter().chain(settings).copied()).expect("settings");
    Network::new(Arc::new(config), BufferPool::new(1 << 20), Log::default(), Metrics::default(), 1)
}

/// A cluster, and connections to none of its nodes yet.
fn world() -> (Server, Network) {
    let options = Options { nodes: 3, ..Options::default() };
    let server = Server::start(options.settings().expect("settings"), options.clock()).expect("starts");
    let network = network(&[]);
    let brokers = server.addresses().iter().map(|(id, address)| {
        let broker = Broker { host: address.ip().to_string(), port: address.port(), rack: None };
        (id.0, broker)
    });
    network.set_brokers(&brokers.collect());
    (server, network)
}

fn ask(
    network: &Network,
    node: i32,
    purpose: Purpose,
) -> impl Future<Output = Result<(Frame, i16), RequestError>> + use<'_> {
    let build = |_| MetadataRequest::default();
    network.call(NodeId::Broker(node), purpose, MetadataRequest::VERSIONS, Duration::ZERO, build)
}

fn fault(server: &Server, node: i32, what: Effect) -> FaultHandle<'_> {
    let when = Selector { apis: vec!["Metadata".to_owned()], nodes: vec![node], ..Selector::default() };
    server.fault(Fault { when, what, ..Fault::default() }).expect("a fault")
}

type Waiting = (i32, Pin<Box<dyn Future<Output = Result<(Frame, i16), RequestError>>>>);

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

// req: S160
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
        // An answer of one node comes back though node 2 answers nothing.
        let api = (ApiKey::Metadata, versions());
        let sent = network
            .send(NodeId::Broker(node), Purpose::Control, api, true, Duration::ZERO, encode)
            .await
            .expect("is sent");
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

/// The next `count` requests for metadata at node 1 are answered with a throttle time.
fn throttle(server: &Server, ms: i32, count: u64) -> FaultHandle<'_> {
    let when = Selector { apis: vec!["Metadata".to_owned()], nodes: vec![1], ..Selector::default() };
    let what = Effect::Throttle { ms };
    server.fault(Fault { when, what, count: Some(count), ..Fault::default() }).expect("a fault")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_throttled_connection_waits_before_its_next_request() {
    let (server, network) = world();
    let _throttled = throttle(&server, 400, 1);
    let before = Instant::now();
    ask(&network, 1, Purpose::Control).await.expect("an answer");
    let first = before.elapsed();
    ask(&network, 1, Purpose::Control).await.expect("an answer");
    assert!(before.elapsed() >= Duration::from_millis(400), "{first:?}");
    assert_eq!(
        network.limits.metrics.snapshot().iter().find(|(name, _)| *name == "throttled").map(|(_, n)| *n),
        Some(1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_throttled_connection_holds_up_no_other() {
    let (server, network) = world();
    let observer = fault(&server, 1, Effect::Observe);
    let _throttled = throttle(&server, i32::MAX, 1);
    ask(&network, 1, Purpose::Control).await.expect("an answer");
    let network = Arc::new(network);
    let waits = {
        let network = network.clone();
        tokio::spawn(async move { ask(&network, 1, Purpose::Control).await.map(|_| ()) })
    };
    // A member's heartbeats, to the same broker, and every other broker.
    for (node, purpose) in
        [(1, Purpose::Heartbeat), (1, Purpose::Fetch), (2, Purpose::Control), (3, Purpose::Heartbeat)]
    {
        tokio::time::timeout(PATIENCE / 2, ask(&network, node, purpose)).await.expect("in time").expect("an answer");
    }
    assert!(!waits.is_finished());
    assert_eq!(observer.hits().expect("a number"), 3, "what waits was not sent");
    assert_eq!(network.connected(), 5, "the throttled connection stands");
    waits.abort();
    network.close();
}

/// A broker that does the handshake, and then what `then` does with each connection and its number. It counts
/// connections by the time at which they came.
async fn played<F, T>(then: F) -> (std::net::SocketAddr, Arc<Mutex<Vec<Instant>>>)
where
    F: Fn(usize, TcpStream) -> T + Send + 'static,
    T: Future<Output = ()> + Send + 'static,
{
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = listener.local_addr().expect("bound");
    let accepted: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let times = accepted.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let number = {
                let mut times = lock(&times);
                times.push(Instant::now());
                times.len()
            };
            let length = stream.read_i32().await.expect("a length");
            let mut request = vec![0; usize::try_from(length).expect("not negative")];
            stream.read_exact(&mut request).await.expect("a request");
            let version = i16::from_be_bytes([request[2], request[3]]);
            let correlation_id = i32::from_be_bytes([request[4], request[5], request[6], request[7]]);
            let api = ApiVersion { api_key: 3, max_version: 12, ..Default::default() };
            let response = ApiVersionsResponse { api_keys: vec![api], ..Default::default() };
            let response = frame::encode_response::<ApiVersionsRequest<'_>>(&response, version, correlation_id);
            stream.write_all(&response.expect("encodes")).await.expect("writes");
            tokio::spawn(then(number, stream));
        }
    });
    (address, accepted)
}

fn point(network: &Network, address: std::net::SocketAddr) {
    let broker = Broker { host: address.ip().to_string(), port: address.port(), rack: None };
    network.set_brokers(&BTreeMap::from([(1, broker)]));
}

#[tokio::test]
async fn connections_that_die_right_after_the_handshake_come_ever_more_slowly() {
    let (address, accepted) = played(|_, stream| async move { drop(stream) }).await;
    let network = network(&[("reconnect.backoff.ms", "40"), ("reconnect.backoff.max.ms", "320")]);
    point(&network, address);
    while accepted.lock().expect("no panic").len() < 6 {
        assert!(ask(&network, 1, Purpose::Fetch).await.is_err());
    }
    let times = accepted.lock().expect("no panic").clone();
    let gaps: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // Less 20 % of jitter.
    for (gap, at_least) in gaps.iter().zip([40, 80, 160, 320, 320]) {
        assert!(*gap >= Duration::from_millis(at_least) * 4 / 5, "{gaps:?}");
    }
    // Somewhere else nothing of that counts.
    let (elsewhere, _) = played(|_, stream| async move { drop(stream) }).await;
    point(&network, elsewhere);
    let slot = network.slots.lock().expect("no panic").values().next().cloned().expect("a slot");
    assert!(slot.lock().await.failures > 3);
    assert!(ask(&network, 1, Purpose::Fetch).await.is_err());
    assert_eq!(slot.lock().await.failures, 0, "it connected, and has not been looked at since it ended");
}

#[tokio::test]
async fn a_heartbeat_without_an_answer_is_given_up_while_its_session_lasts() {
    let (address, _) = played(|_, stream| async move {
        let _held = stream;
        std::future::pending().await
    })
    .await;
    let network = network(&[("session.timeout.ms", "4000"), ("heartbeat.interval.ms", "1000")]);
    point(&network, address);
    let asked =
        tokio::time::timeout(PATIENCE / 4, ask(&network, 1, Purpose::Heartbeat)).await.expect("long before 30 s");
    let error = asked.expect_err("no answer");
    assert!(matches!(error, RequestError::TimedOut { after, .. } if after == Duration::from_secs(2)), "{error}");
    for (session, purpose, expected) in [
        ("45000", Purpose::Heartbeat, 22_500),
        ("600000", Purpose::Heartbeat, 30_000),
        ("500", Purpose::Heartbeat, 1_000),
        ("4000", Purpose::Join, 30_000),
        ("4000", Purpose::Offsets, 30_000),
    ] {
        let network = self::network(&[("session.timeout.ms", session), ("heartbeat.interval.ms", "100")]);
        assert_eq!(
            network.limits_of(purpose).request_timeout,
            Duration::from_millis(expected),
            "{session} {purpose:?}"
        );
    }
}

#[tokio::test]
async fn an_address_that_somebody_gave_up_waiting_for_is_named_among_those_that_failed() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let silent = listener.local_addr().expect("bound").to_string();
    // Its own time would be over at about the same moment: which is first must not matter.
    let settings =
        [("bootstrap.servers", silent.as_str()), ("request.timeout.ms", "700"), ("bootstrap.timeout.ms", "600")];
    let config = Arc::new(ClientConfig::parse(settings).expect("settings"));
    let metadata = ClientBase::new(config, &[], BufferPool::new(1 << 20), Log::default(), 1).metadata;
    tokio::spawn(metadata.clone().run());
    let refreshed = tokio::time::timeout(PATIENCE, metadata.refreshed()).await.expect("in time");
    let error = refreshed.expect_err("nobody answers").to_string();
    assert!(error.contains(&format!("{silent}: no answer within 600 ms")), "{error}");
}

#[tokio::test]
async fn nothing_is_connected_to_once_the_client_is_closed() {
    let (address, accepted) = played(|_, stream| async move { drop(stream) }).await;
    let network = Arc::new(network(&[("reconnect.backoff.ms", "40"), ("reconnect.backoff.max.ms", "40")]));
    point(&network, address);
    assert!(ask(&network, 1, Purpose::Control).await.is_err());
    let waits = {
        let network = network.clone();
        tokio::spawn(async move { ask(&network, 1, Purpose::Control).await.map(|_| ()) })
    };
    // The attempt has begun: its slot is locked while it waits for its turn.
    let slot = network.slots.lock().expect("no panic").values().next().cloned().expect("a slot");
    while slot.try_lock().is_ok() {
        tokio::task::yield_now().await;
    }
    let before = accepted.lock().expect("no panic").len();
    network.close();
    let error = waits.await.expect("no panic").expect_err("closed").to_string();
    assert!(error.ends_with("the client is closed"), "{error}");
    assert!(ask(&network, 1, Purpose::Fetch).await.is_err());
    assert_eq!(accepted.lock().expect("no panic").len(), before);
}
