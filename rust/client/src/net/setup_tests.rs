//! The one deadline of a connection that is being made, and peers that speak something else.

use std::net::Ipv4Addr;
use std::time::Duration;

use monedula_broker::Options;
use monedula_broker::server::Broker as Server;
use monedula_protocol::messages::metadata::MetadataRequest;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::*;
use crate::config::ConfigError;
use crate::net::tls::test_support::answering;

/// Long enough for a connection on a machine that is busy, short beside the test's patience.
const SETUP: &str = "500";
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that sends these bytes one at a time, at this distance, without an end, and reads nothing.
async fn trickle(bytes: &'static [u8], distance: Duration) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("binds");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                for byte in bytes.iter().cycle() {
                    tokio::time::sleep(distance).await;
                    if stream.write_all(&[*byte]).await.is_err() {
                        return;
                    }
                }
                std::future::pending::<()>().await;
            });
        }
    });
    port
}

fn network(port: u16, settings: &[(&str, &str)]) -> Network {
    let servers = format!("127.0.0.1:{port}");
    let all = [("bootstrap.servers", &*servers), ("socket.connection.setup.timeout.ms", SETUP)];
    let config = ClientConfig::parse(all.iter().chain(settings).copied()).expect("settings");
    Network::new(Arc::new(config), BufferPool::new(1 << 20), Log::default(), Metrics::default(), 1)
}

async fn ask(network: &Network) -> Result<(), RequestError> {
    let build = |_| MetadataRequest::default();
    let versions = MetadataRequest::VERSIONS;
    let call = network.call(NodeId::Bootstrap(0), Purpose::Control, versions, Duration::ZERO, build);
    tokio::time::timeout(PATIENCE, call).await.expect("ends by its own deadline").map(|_| ())
}

async fn error(port: u16, settings: &[(&str, &str)]) -> String {
    ask(&network(port, settings)).await.expect_err("no broker").to_string()
}

/// The wrong setting and the text about it, at the first attempt.
async fn wrong_setting(network: &Network) -> (String, String) {
    match ask(network).await.expect_err("no broker") {
        RequestError::Fatal(error) => match *error {
            ClientError::Config(ConfigError { key, message }) => (key, message),
            other => panic!("{other}"),
        },
        other => panic!("tried again: {other}"),
    }
}

/// A broker without security, but for the client that asks.
fn plain_broker() -> (Server, u16) {
    let options = Options::default();
    let server = Server::start(options.settings().expect("settings"), options.clock()).expect("starts");
    let port = server.addresses()[0].1.port();
    (server, port)
}

const TLS: &[(&str, &str)] = &[("security.protocol", "SSL"), ("enable.ssl.certificate.verification", "false")];

#[tokio::test]
async fn a_server_that_is_silent_or_slow_holds_up_no_step_beyond_the_deadline() {
    let day = Duration::from_secs(86_400);
    let a_while = Duration::from_millis(50);
    // A length of 256 kB, within what an answer before the login may have; a TLS record of 16 kB of a handshake.
    let frame = [0, 4, 0, 0].as_slice();
    let record = [22, 3, 3, 0x40, 0, 2, 0, 0x3f, 0xfc].as_slice();
    for (bytes, distance) in [(frame, day), (frame, a_while)] {
        let error = error(trickle(bytes, distance).await, &[]).await;
        assert!(error.contains("no answer to ApiVersions within 500 ms"), "{error}");
    }
    for (bytes, distance) in [(record, day), (record, a_while)] {
        let error = error(trickle(bytes, distance).await, TLS).await;
        assert!(error.contains("TLS handshake"), "{error}");
    }
}

#[tokio::test]
async fn a_port_with_tls_and_an_http_server_are_named_as_such() {
    let http = b"HTTP/1.1 400 Bad Request\r\n\r\n".as_slice();
    for (answer, settings, wrong, says) in [
        (ALERT, &[][..], "security.protocol", "set SSL, or SASL_SSL"),
        (http, &[], "bootstrap.servers", "an HTTP server answers here"),
        (http, TLS, "bootstrap.servers", "an HTTP server without TLS answers here"),
        (&[0, 0, 0, 4, 0, 0, 0, 0], TLS, "security.protocol", "set PLAINTEXT or SASL_PLAINTEXT"),
    ] {
        let port = answering(answer).await;
        let network = network(port, settings);
        let (key, message) = wrong_setting(&network).await;
        assert!(key == wrong && message.starts_with(&format!("{wrong}: 127.0.0.1:{port}: ")), "{message}");
        assert!(message.contains(says), "{message}");
        // No call after it connects again.
        assert_eq!(wrong_setting(&network).await, (key, message));
        assert!(network.refusal().is_some());
    }
}

/// A fatal alert of TLS: unexpected_message.
const ALERT: &[u8] = &[0x15, 3, 3, 0, 2, 2, 10];

#[tokio::test]
async fn a_broker_that_changes_its_protocol_once_the_cluster_was_reached_is_tried_again() {
    let port = answering(ALERT).await;
    let network = network(port, &[("reconnect.backoff.ms", "1")]);
    network.set_brokers(&BTreeMap::from([(1, Broker { host: "127.0.0.1".into(), port, rack: None })]));
    for _ in 0..2 {
        let error = ask(&network).await.expect_err("no broker");
        assert!(matches!(&error, RequestError::Disconnected { reason, .. } if reason.contains("SASL_SSL")), "{error}");
    }
    assert!(network.refusal().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_without_tls_that_drops_a_handshake_is_found_out_at_once() {
    let (_server, port) = plain_broker();
    for (settings, says) in [
        (TLS, "set PLAINTEXT, or"),
        (
            &[
                ("security.protocol", "SASL_SSL"),
                ("enable.ssl.certificate.verification", "false"),
                ("sasl.mechanism", "PLAIN"),
                ("sasl.username", "anna"),
                ("sasl.password", "x"),
            ],
            "set SASL_PLAINTEXT, or",
        ),
    ] {
        let (key, message) = wrong_setting(&network(port, settings)).await;
        assert!(key == "security.protocol" && message.contains(says), "{message}");
        assert!(message.contains("answers without TLS"), "{message}");
    }
}

#[tokio::test]
async fn a_port_that_closes_every_connection_is_tried_again_since_its_broker_may_be_starting() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("binds");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    for settings in [&[][..], TLS] {
        let network = network(port, settings);
        for _ in 0..2 {
            let error = ask(&network).await.expect_err("no broker");
            assert!(matches!(error, RequestError::Disconnected { .. }), "{error}");
        }
    }
}
