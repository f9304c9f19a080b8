//! The one deadline of a connection that is being made, and peers that speak something else.

use std::net::Ipv4Addr;

use monedula_protocol::messages::metadata::MetadataRequest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

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

/// A server that answers whatever comes with these bytes.
async fn answering(bytes: &'static [u8]) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("binds");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 16];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(bytes).await;
        }
    });
    port
}

/// The error of a request to the server.
async fn error(port: u16, settings: &[(&str, &str)]) -> String {
    let servers = format!("127.0.0.1:{port}");
    let all = [("bootstrap.servers", &*servers), ("socket.connection.setup.timeout.ms", SETUP)];
    let config = ClientConfig::parse(all.iter().chain(settings).copied()).expect("settings");
    let network = Network::new(Arc::new(config), BufferPool::new(1 << 20), Log::default(), Metrics::default(), 1);
    let build = |_| MetadataRequest::default();
    let versions = MetadataRequest::VERSIONS;
    let call = network.call(NodeId::Bootstrap(0), Purpose::Control, versions, Duration::ZERO, build);
    let answer = tokio::time::timeout(PATIENCE, call).await.expect("ends by its own deadline");
    answer.map(|_| ()).expect_err("no broker").to_string()
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
    // A fatal alert: unexpected_message.
    let error_of_tls = error(answering(&[0x15, 3, 3, 0, 2, 2, 10]).await, &[]).await;
    assert!(error_of_tls.contains("set security.protocol=SSL"), "{error_of_tls}");
    let error_of_http = error(answering(b"HTTP/1.1 400 Bad Request\r\n\r\n").await, &[]).await;
    assert!(error_of_http.contains("an HTTP server answers here"), "{error_of_http}");
}
