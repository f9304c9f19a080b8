//! Listeners with TLS: what they show, what they ask of clients, and who a client is then.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use monedula_broker::control::Command;
use monedula_broker::security::{ClientAuth, SecurityProtocol};
use monedula_broker::server::{Broker, Clock};
use monedula_broker::settings::Settings;
use monedula_protocol::frame::{decode_response, encode_request};
use monedula_protocol::messages::metadata::MetadataRequest;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};

/// Far longer than any of this takes.
const TIMEOUT: Duration = Duration::from_secs(30);

fn start(protocol: SecurityProtocol, client_auth: ClientAuth) -> Broker {
    let mut settings = Settings::default();
    settings.security.protocol = protocol;
    settings.security.client_auth = client_auth;
    Broker::start(settings, Clock::system()).unwrap()
}

fn control(broker: &Broker, command: Value) -> Value {
    broker.control(serde_json::from_value::<Command>(command).unwrap()).unwrap()
}

fn address(broker: &Broker) -> SocketAddr {
    broker.addresses()[0].1
}

fn certificates(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).map(Result::unwrap).collect()
}

/// A certificate with its key.
type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity(broker: &Broker, name: &str) -> Identity {
    let issued = control(broker, json!({ "command": "client_certificate", "name": name }));
    let key = PrivateKeyDer::from_pem_slice(issued["key"].as_str().unwrap().as_bytes()).unwrap();
    (certificates(issued["certificate"].as_str().unwrap()), key)
}

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// Connects by TLS, and ends the handshake.
fn connect(broker: &Broker, name: &'static str, identity: Option<Identity>) -> std::io::Result<Stream> {
    let mut roots = RootCertStore::empty();
    let ca = control(broker, json!({ "command": "ca" }));
    for certificate in certificates(ca["certificate"].as_str().unwrap()) {
        roots.add(certificate).unwrap();
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    let config = match identity {
        Some((chain, key)) => config.with_client_auth_cert(chain, key).unwrap(),
        None => config.with_no_client_auth(),
    };
    let mut session = ClientConnection::new(Arc::new(config), name.try_into().unwrap()).unwrap();
    let mut socket = TcpStream::connect(address(broker))?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    while session.is_handshaking() {
        session.complete_io(&mut socket)?;
    }
    Ok(StreamOwned::new(session, socket))
}

/// Asks for Metadata. Returns the number of brokers in the answer.
fn ask(stream: &mut (impl Read + Write)) -> std::io::Result<usize> {
    stream.write_all(&encode_request(&MetadataRequest::default(), 12, 1, Some("test")).unwrap())?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame)?;
    Ok(decode_response::<MetadataRequest<'_>>(&frame, 12).unwrap().brokers.len())
}

fn principal(broker: &Broker) -> Value {
    control(broker, json!({ "command": "connections" }))[0]["principal"].clone()
}

#[test]
fn requests_are_answered_over_tls_by_each_name_of_loopback() {
    let broker = start(SecurityProtocol::Ssl, ClientAuth::None);
    for name in ["localhost", "127.0.0.1", "::1"] {
        assert_eq!(ask(&mut connect(&broker, name, None).unwrap()).unwrap(), 1, "{name}");
    }
    assert!(connect(&broker, "elsewhere.invalid", None).is_err());
}

#[test]
fn a_client_is_who_its_certificate_says() {
    let broker = start(SecurityProtocol::Ssl, ClientAuth::Required);
    let mut stream = connect(&broker, "localhost", Some(identity(&broker, "anna, of O=x"))).unwrap();
    ask(&mut stream).unwrap();
    assert_eq!(principal(&broker), "User:CN=anna\\, of O=x");
}

#[test]
fn a_certificate_is_asked_for_as_set() {
    let required = start(SecurityProtocol::Ssl, ClientAuth::Required);
    // In TLS 1.3 the client learns that it is refused when it reads.
    assert!(connect(&required, "localhost", None).and_then(|mut stream| ask(&mut stream)).is_err());
    let requested = start(SecurityProtocol::Ssl, ClientAuth::Requested);
    let mut stream = connect(&requested, "localhost", None).unwrap();
    ask(&mut stream).unwrap();
    assert_eq!(principal(&requested), "User:ANONYMOUS");
    let of_another = identity(&required, "anna");
    assert!(connect(&requested, "localhost", Some(of_another)).and_then(|mut stream| ask(&mut stream)).is_err());
}

#[test]
fn a_certificate_with_a_flaw_is_shown_on_command() {
    let broker = start(SecurityProtocol::Ssl, ClientAuth::None);
    for flaw in ["expired", "not_yet_valid", "wrong_host", "unknown_ca", "self_signed", "wrong_usage"] {
        control(&broker, json!({ "command": "show_certificate", "flaw": flaw }));
        assert!(connect(&broker, "localhost", None).is_err(), "{flaw}");
    }
    control(&broker, json!({ "command": "show_certificate" }));
    assert_eq!(ask(&mut connect(&broker, "localhost", None).unwrap()).unwrap(), 1);
}

#[test]
fn an_open_connection_outlives_a_new_certificate() {
    let broker = start(SecurityProtocol::Ssl, ClientAuth::None);
    let mut stream = connect(&broker, "localhost", None).unwrap();
    control(&broker, json!({ "command": "show_certificate", "flaw": "expired" }));
    assert_eq!(ask(&mut stream).unwrap(), 1);
}

#[test]
fn what_is_no_tls_is_closed() {
    let broker = start(SecurityProtocol::Ssl, ClientAuth::None);
    let mut socket = TcpStream::connect(address(&broker)).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket.write_all(&encode_request(&MetadataRequest::default(), 12, 1, None).unwrap()).unwrap();
    let mut answer = Vec::new();
    // An alert, and the end of the connection, which may be a reset.
    let _ = socket.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer[0] == 21, "{answer:?}");
}

#[test]
fn nodes_stay_silent_on_command() {
    let broker = start(SecurityProtocol::Plaintext, ClientAuth::None);
    control(&broker, json!({ "command": "stay_silent", "silent": true }));
    let mut socket = TcpStream::connect(address(&broker)).unwrap();
    socket.write_all(&encode_request(&MetadataRequest::default(), 12, 1, None).unwrap()).unwrap();
    let until = Instant::now() + TIMEOUT;
    while control(&broker, json!({ "command": "connections" })).as_array().unwrap().is_empty() {
        assert!(Instant::now() < until, "the broker has no connection");
        std::thread::yield_now();
    }
    control(&broker, json!({ "command": "stay_silent", "silent": false }));
    assert_eq!(ask(&mut TcpStream::connect(address(&broker)).unwrap()).unwrap(), 1);
    socket.set_nonblocking(true).unwrap();
    assert_eq!(socket.read(&mut [0; 1]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn faults_on_bytes_work_under_tls() {
    let broker = start(SecurityProtocol::Ssl, ClientAuth::None);
    let fault = |what: Value| control(&broker, json!({ "command": "fault", "fault": { "what": what, "count": 1 } }));
    fault(json!({ "effect": "fragment", "bytes": 1 }));
    assert_eq!(ask(&mut connect(&broker, "localhost", None).unwrap()).unwrap(), 1);
    fault(json!({ "effect": "truncate", "bytes": 7 }));
    let mut stream = connect(&broker, "localhost", None).unwrap();
    assert_eq!(ask(&mut stream).unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    fault(json!({ "effect": "reset" }));
    let mut stream = connect(&broker, "localhost", None).unwrap();
    assert_eq!(ask(&mut stream).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn a_broker_without_tls_has_no_certificates() {
    let broker = start(SecurityProtocol::Plaintext, ClientAuth::None);
    for command in [json!({ "command": "ca" }), json!({ "command": "show_certificate" })] {
        let error = broker.control(serde_json::from_value::<Command>(command).unwrap()).unwrap_err();
        assert!(error.to_string().contains("no TLS"), "{error}");
    }
}
