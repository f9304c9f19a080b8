//! Connections that are cut, altered, or drawn to something weaker, by a server in the test or by one in between.

use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use monedula_columns::BufferPool;
use monedula_protocol::messages::api_versions::ApiVersionsRequest;
use rustls::SupportedProtocolVersion;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::test_support::{Authority, BOTH, server_config, text, tls};
use super::*;
use crate::metrics::Metrics;
use crate::net::connection::{Connection, Frame, Limits};
use crate::net::transport::Transport;

const PATIENCE: Duration = Duration::from_secs(60);
const TLS12: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];

/// The server's socket, with changes of the bytes on their way.
struct Meddling {
    stream: TcpStream,
    /// Changes what the client has sent.
    to_server: fn(&mut [u8]),
    /// Changes what the server sends, once it is switched on.
    to_client: fn(&mut [u8]),
    is_on: Arc<AtomicBool>,
}

impl AsyncRead for Meddling {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        let before = into.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, into);
        (this.to_server)(&mut into.filled_mut()[before..]);
        read
    }
}

impl AsyncWrite for Meddling {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        let this = self.get_mut();
        let mut bytes = bytes.to_vec();
        if this.is_on.load(Ordering::Relaxed) {
            (this.to_client)(&mut bytes);
        }
        Pin::new(&mut this.stream).poll_write(context, &bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

fn nothing(_: &mut [u8]) {}

fn flip_the_last_byte(bytes: &mut [u8]) {
    if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
}

type Server = tokio_rustls::server::TlsStream<Meddling>;

/// A connection that stands, and the broker's end of it, with the switch of who stands in between.
async fn connected(
    versions: &[&'static SupportedProtocolVersion],
    to_client: fn(&mut [u8]),
) -> (Arc<Connection>, Server, Arc<AtomicBool>) {
    let authority = Authority::new();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("binds");
    let port = listener.local_addr().expect("bound").port();
    let acceptor = TlsAcceptor::from(Arc::new(server_config(&authority.server(), None, versions)));
    let is_on = Arc::new(AtomicBool::new(false));
    let switch = is_on.clone();
    let accepting = async move {
        let (stream, _) = listener.accept().await.expect("accepts");
        let meddling = Meddling { stream, to_server: nothing, to_client, is_on };
        acceptor.accept(meddling).await.expect("a handshake")
    };
    let tls = tls(&[("ssl.ca.pem", &authority.pem())]);
    let log = Log::default();
    let connecting = async {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("connects");
        tls.connect(("localhost", port), stream, 4096, &log).await.expect("a handshake")
    };
    let (server, client) = tokio::join!(accepting, connecting);
    let connection = Connection::start(Transport::Tls(Box::new(client)), "broker:1".into(), limits());
    (Arc::new(connection), server, switch)
}

fn limits() -> Limits {
    Limits {
        client_id: "test".into(),
        request_timeout: PATIENCE,
        max_idle: PATIENCE,
        receive_max_bytes: 1 << 20,
        oversized: Arc::default(),
        pool: BufferPool::new(1 << 20),
        log: Log::default(),
        metrics: Metrics::default(),
    }
}

type Call = tokio::task::JoinHandle<Result<Frame, RequestError>>;

/// A request under way, which the server has read; with its correlation id.
async fn called(connection: &Arc<Connection>, server: &mut Server) -> (Call, i32) {
    let calling = connection.clone();
    let call = tokio::spawn(async move { calling.call(&ApiVersionsRequest::default(), 0, Duration::ZERO).await });
    let length = server.read_i32().await.expect("a length");
    let mut frame = vec![0; usize::try_from(length).expect("not negative")];
    server.read_exact(&mut frame).await.expect("a request");
    (call, i32::from_be_bytes(frame[4..8].try_into().expect("four bytes")))
}

fn answer(id: i32, bytes: usize) -> Vec<u8> {
    let mut frame = i32::try_from(4 + bytes).expect("short").to_be_bytes().to_vec();
    frame.extend(id.to_be_bytes());
    frame.resize(8 + bytes, 7);
    frame
}

async fn failed(call: Call) -> String {
    let ended = tokio::time::timeout(PATIENCE, call).await.expect("ends at once").expect("joins");
    text(&ended.map(drop).expect_err("no answer"))
}

#[tokio::test]
async fn an_altered_record_ends_the_connection_and_nothing_of_it_is_taken() {
    for version in BOTH {
        let (connection, mut server, is_on) = connected(&[version], flip_the_last_byte).await;
        let (call, id) = called(&connection, &mut server).await;
        is_on.store(true, Ordering::Relaxed);
        server.write_all(&answer(id, 100)).await.expect("writes");
        server.flush().await.expect("writes");
        let error = failed(call).await;
        // Another attempt may go better.
        assert!(error.starts_with("not refused: ") && error.contains("decrypt"), "{version:?}: {error}");
        assert!(connection.is_closed());
    }
}

#[tokio::test]
async fn records_of_one_byte_are_put_together() {
    for version in BOTH {
        let (connection, mut server, _) = connected(&[version], nothing).await;
        for bytes in [0, 100] {
            let (call, id) = called(&connection, &mut server).await;
            for byte in answer(id, bytes) {
                server.write_all(&[byte]).await.expect("writes");
                server.flush().await.expect("writes");
            }
            let answered =
                tokio::time::timeout(PATIENCE, call).await.expect("in time").expect("joins").expect("answered");
            assert_eq!(answered.as_slice().len(), 4 + bytes);
        }
    }
}

#[tokio::test]
async fn an_end_in_the_middle_of_a_record_is_told_from_one_in_an_answer_and_from_an_orderly_one() {
    for version in BOTH {
        let ends = |cut: Cut| async move {
            let (connection, mut server, _) = connected(&[version], nothing).await;
            let (call, id) = called(&connection, &mut server).await;
            cut.end(server, id).await;
            failed(call).await
        };
        for (cut, expected) in [
            (Cut::Record, "the connection was cut in the middle of a record of TLS"),
            (Cut::Header, "the connection was cut in the middle of a record of TLS"),
            (Cut::Answer, "the broker closed the connection in the middle of an answer"),
            (Cut::Length, "the broker closed the connection in the middle of an answer"),
            (Cut::WithoutNotice, "broker:1: the broker closed the connection"),
            (Cut::Orderly, "broker:1: the broker closed the connection"),
        ] {
            let error = ends(cut).await;
            assert!(error.starts_with("not refused: ") && error.ends_with(expected), "{version:?} {cut:?}: {error}");
        }
    }
}

/// End of the server's side.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// After some bytes of a record's body.
    Record,
    /// After some bytes of a record's header.
    Header,
    /// After a whole record, with part of an answer in it.
    Answer,
    /// The same, with two bytes of a length in it.
    Length,
    /// Between two records, without close_notify.
    WithoutNotice,
    /// By close_notify.
    Orderly,
}

impl Cut {
    async fn end(self, mut server: Server, id: i32) {
        let whole = answer(id, 100);
        match self {
            Self::Record => server.get_mut().0.stream.write_all(&[0x17, 3, 3, 0, 200, 1, 2, 3]).await.expect("writes"),
            Self::Header => server.get_mut().0.stream.write_all(&[0x17, 3]).await.expect("writes"),
            Self::Answer => server.write_all(&whole[..50]).await.expect("writes"),
            Self::Length => server.write_all(&whole[..2]).await.expect("writes"),
            Self::WithoutNotice => {}
            Self::Orderly => server.shutdown().await.expect("ends"),
        }
        server.flush().await.expect("writes");
        let socket = server.get_mut().0.stream.shutdown().await;
        assert!(socket.is_ok() || matches!(self, Self::Orderly));
    }
}

/// The server reads until the end, which it gets only by close_notify.
async fn ends_in_order(mut server: Server) -> std::io::Result<usize> {
    let mut rest = Vec::new();
    tokio::time::timeout(PATIENCE, server.read_to_end(&mut rest)).await.expect("it ends")
}

#[tokio::test]
async fn a_connection_that_the_client_closes_ends_by_close_notify() {
    for version in BOTH {
        let (connection, server, _) = connected(&[version], nothing).await;
        connection.close();
        assert_eq!(ends_in_order(server).await.expect("in order"), 0, "{version:?}");
        // Nobody holds it any more.
        let (connection, server, _) = connected(&[version], nothing).await;
        drop(connection);
        assert_eq!(ends_in_order(server).await.expect("in order"), 0, "{version:?}");
    }
}

#[tokio::test]
async fn a_broker_that_reads_nothing_does_not_keep_a_connection_from_ending() {
    let (connection, _server, _) = connected(BOTH, nothing).await;
    let calling = connection.clone();
    let encode = |_, _: &str| Ok(vec![0; 64 << 20]);
    let sent = calling.send(
        monedula_protocol::api::ApiKey::Produce,
        9,
        crate::net::connection::Expected::default(),
        true,
        encode,
    );
    let reply = sent.expect("is queued");
    let ended = connection.ended();
    connection.close();
    tokio::time::timeout(PATIENCE, ended).await.expect("it ends");
    assert!(connection.reply(reply).await.is_err());
}

/// The error of a handshake in which somebody changes what passes.
async fn handshake_with(
    versions: &[&'static SupportedProtocolVersion],
    to_server: fn(&mut [u8]),
    to_client: fn(&mut [u8]),
) -> String {
    let authority = Authority::new();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("binds");
    let port = listener.local_addr().expect("bound").port();
    let acceptor = TlsAcceptor::from(Arc::new(server_config(&authority.server(), None, versions)));
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("accepts");
        let _ = acceptor.accept(Meddling { stream, to_server, to_client, is_on: Arc::new(true.into()) }).await;
    });
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("connects");
    let tls = tls(&[("ssl.ca.pem", &authority.pem())]);
    let ended = tls.connect(("localhost", port), stream, 4096, &Log::default()).await;
    text(&ended.map(drop).expect_err("no handshake"))
}

/// Puts other bytes in the place of the first such ones.
fn replace(bytes: &mut [u8], these: &[u8], by: &[u8]) {
    if let Some(at) = bytes.windows(these.len()).position(|window| window == these) {
        bytes[at..at + by.len()].copy_from_slice(by);
    }
}

#[tokio::test]
async fn a_handshake_that_somebody_draws_down_to_tls_1_2_fails() {
    // The extension supported_versions: its length, then 1.3 and 1.2, and then 1.2 twice.
    let draw_down: fn(&mut [u8]) =
        |hello| replace(hello, &[0, 0x2b, 0, 5, 4, 3, 4, 3, 3], &[0, 0x2b, 0, 5, 4, 3, 3, 3, 3]);
    let error = handshake_with(BOTH, draw_down, nothing).await;
    assert!(error.contains("AttemptedDowngradeToTls12WhenTls13IsSupported"), "{error}");
}

/// The place of the compression method in a record with a ServerHello.
fn place_of_compression(record: &[u8]) -> Option<usize> {
    let is_server_hello = record.first() == Some(&0x16) && record.get(5) == Some(&2);
    let session_id = usize::from(*record.get(43).filter(|_| is_server_hello)?);
    Some(44 + session_id + 2)
}

#[tokio::test]
async fn compression_is_never_taken() {
    let compress: fn(&mut [u8]) = |record| {
        if let Some(at) = place_of_compression(record) {
            record[at] = 1;
        }
    };
    for version in BOTH {
        let error = handshake_with(&[version], nothing, compress).await;
        assert!(error.to_ascii_lowercase().contains("compression"), "{version:?}: {error}");
    }
}

#[tokio::test]
async fn tls_1_1_is_not_taken_of_a_server_that_chooses_it() {
    let older: fn(&mut [u8]) = |record| {
        if place_of_compression(record).is_some() {
            record[9..11].copy_from_slice(&[3, 2]);
        }
    };
    let error = handshake_with(TLS12, nothing, older).await;
    assert!(error.starts_with("refused: ") && error.contains("TLS 1.2 and 1.3"), "{error}");
}

/// The socket of a broker that refuses the client once it has sent its part of the handshake.
struct Refusing {
    stream: Option<TcpStream>,
    has_written: bool,
}

impl AsyncRead for Refusing {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        if this.has_written
            && let Some(stream) = this.stream.take()
        {
            // The alert certificate_unknown; and a reset, as of one who has closed when more comes. The client, on the
            // same thread, has read nothing yet.
            let written = stream.try_write(&[0x15, 3, 3, 0, 2, 2, 46]).expect("there is room");
            assert_eq!(written, 7);
            socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("it can be");
        }
        match &mut this.stream {
            Some(stream) => Pin::new(stream).poll_read(context, into),
            None => Poll::Ready(Err(std::io::ErrorKind::ConnectionAborted.into())),
        }
    }
}

impl AsyncWrite for Refusing {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        let this = self.get_mut();
        this.has_written = true;
        match &mut this.stream {
            Some(stream) => Pin::new(stream).poll_write(context, bytes),
            None => Poll::Ready(Err(std::io::ErrorKind::ConnectionAborted.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A broker that refuses the client's certificate may have closed before the client has sent its last message: its
/// refusal is told, not that nothing could be sent.
#[tokio::test]
async fn a_refusal_that_has_come_counts_before_a_message_that_cannot_be_sent() {
    let authority = Authority::new();
    let own = authority.sign(&[], |_| {});
    let trust = authority.pem();
    let tls = tls(&[("ssl.ca.pem", &*trust), ("ssl.certificate.pem", &own.chain), ("ssl.key.pem", &own.key)]);
    let acceptor = TlsAcceptor::from(Arc::new(server_config(&authority.server(), Some(&authority), TLS12)));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("binds");
    let port = listener.local_addr().expect("bound").port();
    let refusing = async move {
        let (stream, _) = listener.accept().await.expect("accepts");
        let refused = acceptor.accept(Refusing { stream: Some(stream), has_written: false }).await;
        assert!(refused.is_err());
    };
    let log = Log::default();
    let connecting = async {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("connects");
        // One byte after the other: the client answers the broker's last message before it reads the alert behind it.
        tokio::time::timeout(PATIENCE, tls.connect(("localhost", port), stream, 1, &log)).await.expect("it ends")
    };
    let (ended, ()) = tokio::join!(connecting, refusing);
    let error = text(&ended.map(drop).expect_err("is refused"));
    assert!(error.starts_with("refused: ") && error.contains("does not know the authority"), "{error}");
}
