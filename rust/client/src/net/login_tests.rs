//! Logins against a listener in the test, which plays a broker: a good one, and ones that are not to be trusted.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use monedula_columns::BufferPool;
use monedula_protocol::api::Message;
use monedula_protocol::frame::{decode_request_body, decode_request_header, encode_request, encode_response};
use monedula_protocol::messages::api_versions::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse};
use monedula_protocol::messages::metadata::{MetadataRequest, MetadataResponse};
use monedula_protocol::messages::sasl_handshake::SaslHandshakeResponse;
use monedula_protocol::sasl::oauthbearer::{Extensions, TokenRefusal};
use monedula_protocol::sasl::scram::{ScramCredential, ScramHash};
use monedula_protocol::sasl::{
    Accounts, Authenticated, ClientExchange, ExchangeStep, Mechanism, ServerExchange, ServerStep,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::*;
use crate::config::ClientConfig;
use crate::error::ClientError;
use crate::lock::lock;
use crate::metrics::Metrics;
use crate::net::network::{Network, NodeId, Purpose};

const PATIENCE: Duration = Duration::from_secs(60);
pub(super) const PASSWORD: &str = "canary";

/// Behaviour of the broker. The default is Kafka's.
#[derive(Default)]
pub(super) struct Script {
    pub(super) lifetime_ms: i64,
    /// Answers nothing to this message of SASL, counted from 1: the handshake, then those of the exchange, then those
    /// of the next login.
    pub(super) is_silent_at: Option<usize>,
    /// Answers this message of SASL, counted likewise, one byte at a time at this distance.
    pub(super) is_slow_at: Option<(usize, Duration)>,
    /// Answers this message of SASL, counted likewise, by a frame that is said to have so many bytes.
    pub(super) says_length: Option<(usize, i32)>,
    /// Offers PLAIN, and refuses the handshake of any other mechanism.
    pub(super) offers_plain_alone: bool,
    /// Answers the first message of an exchange with error code 0 and these bytes, and takes every request then.
    pub(super) succeeds_with: Option<&'static str>,
    /// Answers the last message of SCRAM with error code 0 and nothing else.
    pub(super) hides_signature: bool,
    /// Takes any user name and password under SCRAM, and signs with a guess.
    pub(super) knows_no_password: bool,
    /// Never ends the exchange.
    pub(super) is_endless: bool,
    /// Refuses every login from this one on, counted from 1.
    pub(super) refuses_from: Option<usize>,
    /// Metadata is answered when this is notified.
    pub(super) holds_metadata: bool,
}

/// The broker, and what it saw.
#[derive(Default)]
pub(super) struct World {
    script: Script,
    pub(super) seen: Mutex<Vec<ApiKey>>,
    logins: AtomicUsize,
    /// Messages of SASL that have come.
    messages: AtomicUsize,
    pub(super) connections: AtomicUsize,
    pub(super) release: Notify,
    changed: Notify,
}

impl Accounts for World {
    fn has_password(&self, username: &str, password: &Secret) -> bool {
        username == "anna" && *password == PASSWORD.into()
    }

    fn scram_credential(&self, hash: ScramHash, username: &str) -> Option<ScramCredential> {
        let credential = ScramCredential::from_password(hash, &PASSWORD.into(), b"salt", 4096);
        if self.script.knows_no_password {
            // Knowledge of a man in the middle: nothing but that somebody logs in.
            let guess = ScramCredential::from_password(hash, &"guess".into(), b"salt", 4096);
            return Some(ScramCredential { server_key: guess.server_key, ..credential });
        }
        (username == "anna").then_some(credential)
    }

    fn delegation_token(&self, _hash: ScramHash, _token_id: &str) -> Option<(ScramCredential, Authenticated)> {
        None
    }

    fn check_token(&self, _token: &str, _extensions: &Extensions) -> Result<Authenticated, TokenRefusal> {
        Err(TokenRefusal::status("invalid_token"))
    }
}

impl World {
    pub(super) async fn start(script: Script) -> (Arc<Self>, u16) {
        let world = Arc::new(Self { script, ..Self::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let port = listener.local_addr().expect("bound").port();
        let serving = world.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serving.connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        (world, port)
    }

    /// Waits until `is_met` is true of the requests that the broker has seen.
    pub(super) async fn until(&self, is_met: impl Fn(&[ApiKey]) -> bool) {
        let met = async {
            loop {
                let changed = self.changed.notified();
                if is_met(&lock(&self.seen)) {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(PATIENCE, met).await.expect("in time");
    }

    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        let mut exchange = None;
        while let Ok(length) = stream.read_i32().await {
            let mut bytes = vec![0; usize::try_from(length).expect("not negative")];
            stream.read_exact(&mut bytes).await.expect("a request");
            let (header, body) = decode_request_header(&bytes).expect("a header");
            let (version, id) = (header.request_api_version, header.correlation_id);
            let api = ApiKey::from_code(header.request_api_key).expect("an API");
            lock(&self.seen).push(api);
            self.changed.notify_waiters();
            let mut distance = None;
            if matches!(api, ApiKey::SaslHandshake | ApiKey::SaslAuthenticate) {
                let message = self.messages.fetch_add(1, Ordering::Relaxed) + 1;
                if self.script.is_silent_at == Some(message) {
                    std::future::pending::<()>().await;
                }
                distance = self.script.is_slow_at.filter(|(at, _)| *at == message).map(|(_, distance)| distance);
                if let Some((_, length)) = self.script.says_length.filter(|(at, _)| *at == message) {
                    let _ = stream.write_all(&length.to_be_bytes()).await;
                    std::future::pending::<()>().await;
                }
            }
            let answer = match api {
                ApiKey::ApiVersions => encode_response::<ApiVersionsRequest<'_>>(&versions(), version, id),
                ApiKey::SaslHandshake => {
                    let request = decode_request_body::<SaslHandshakeRequest<'_>>(body, version).expect("a handshake");
                    let is_offered = |known: &Mechanism| {
                        *known != Mechanism::Gssapi && (*known == Mechanism::Plain || !self.script.offers_plain_alone)
                    };
                    let mechanism = Mechanism::from_name(request.mechanism).filter(is_offered);
                    exchange = mechanism.and_then(|known| ServerExchange::new(known, [9; NONCE_BYTES]));
                    encode_response::<SaslHandshakeRequest<'_>>(&self.handshaken(exchange.is_some()), version, id)
                }
                ApiKey::SaslAuthenticate => {
                    let request = decode_request_body::<SaslAuthenticateRequest<'_>>(body, version).expect("a message");
                    let exchange = exchange.as_mut().expect("after a handshake");
                    let step = match self.script.succeeds_with {
                        Some(bytes) => ServerStep::Challenge(bytes.into()),
                        None => exchange.step(request.auth_bytes.expose(), &*self),
                    };
                    self.answer(step, version, id)
                }
                ApiKey::Metadata => {
                    if self.script.holds_metadata {
                        self.release.notified().await;
                    }
                    encode_response::<MetadataRequest<'_>>(&MetadataResponse::default(), version, id)
                }
                other => panic!("{other}"),
            };
            let answer = answer.expect("encoded");
            for piece in answer.chunks(if distance.is_some() { 1 } else { answer.len() }) {
                tokio::time::sleep(distance.unwrap_or_default()).await;
                if stream.write_all(piece).await.is_err() {
                    return;
                }
            }
        }
    }

    fn handshaken(&self, taken: bool) -> SaslHandshakeResponse<'static> {
        let error = if taken { ErrorCode::None } else { ErrorCode::UnsupportedSaslMechanism };
        let mechanisms = if self.script.offers_plain_alone { vec!["PLAIN"] } else { vec!["PLAIN", "SCRAM-SHA-256"] };
        SaslHandshakeResponse { error_code: error.code(), mechanisms, ..Default::default() }
    }

    fn answer(&self, step: ServerStep, version: i16, id: i32) -> Result<Vec<u8>, monedula_protocol::error::WireError> {
        let mut response = SaslAuthenticateResponse::default();
        let mut bytes = Secret::default();
        match step {
            ServerStep::Challenge(challenge) => bytes = challenge,
            ServerStep::Authenticated(last, _) => {
                let login = self.logins.fetch_add(1, Ordering::Relaxed) + 1;
                bytes = last;
                response.session_lifetime_ms = self.script.lifetime_ms;
                if self.script.refuses_from.is_some_and(|first| login >= first) {
                    response.error_code = ErrorCode::SaslAuthenticationFailed.code();
                }
                if self.script.hides_signature {
                    bytes = Secret::default();
                }
                if self.script.is_endless {
                    bytes = "r=more".into();
                }
            }
            ServerStep::Refused(_) => response.error_code = ErrorCode::SaslAuthenticationFailed.code(),
        }
        response.error_message = Some("as the broker says");
        response.auth_bytes = SecretBytes::new(bytes.expose());
        encode_response::<SaslAuthenticateRequest<'_>>(&response, version, id)
    }
}

fn versions() -> ApiVersionsResponse<'static> {
    let api = |api: ApiKey, min, max| ApiVersion {
        api_key: api.code(),
        min_version: min,
        max_version: max,
        ..Default::default()
    };
    let api_keys = vec![
        api(ApiKey::Metadata, 0, 13),
        api(ApiKey::SaslHandshake, 0, 1),
        api(ApiKey::ApiVersions, 0, 5),
        api(ApiKey::SaslAuthenticate, 0, 2),
    ];
    ApiVersionsResponse { api_keys, ..Default::default() }
}

/// A client of the broker at `port`, with what it logs.
fn network(port: u16, mechanism: &str, password: &str) -> (Arc<Network>, Log) {
    network_with(port, mechanism, &[("sasl.password", password)])
}

/// The same, with more settings.
pub(super) fn network_with(port: u16, mechanism: &str, settings: &[(&str, &str)]) -> (Arc<Network>, Log) {
    let servers = format!("127.0.0.1:{port}");
    let needed = [
        ("bootstrap.servers", servers.as_str()),
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanism", mechanism),
        ("sasl.username", "anna"),
        ("reconnect.backoff.ms", "1"),
    ];
    let config = ClientConfig::parse(needed.iter().chain(settings).copied());
    let log = Log::default();
    log.set_threshold(0);
    let pool = BufferPool::new(1 << 20);
    let config = Arc::new(config.expect("settings"));
    (Arc::new(Network::new(config, pool, log.clone(), Metrics::default(), 1)), log)
}

pub(super) async fn ask(network: &Network) -> Result<(Frame, i16), RequestError> {
    let build = |_| MetadataRequest::default();
    let versions = MetadataRequest::VERSIONS;
    let asked = network.call(NodeId::Bootstrap(0), Purpose::Control, versions, Duration::ZERO, build);
    tokio::time::timeout(PATIENCE, asked).await.expect("in time")
}

pub(super) async fn refused(network: &Network) -> AuthenticationError {
    match ask(network).await.expect_err("refused") {
        RequestError::Fatal(error) => match *error {
            ClientError::Authentication(error) => *error,
            other => panic!("{other}"),
        },
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn the_client_logs_in_before_its_first_request() {
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let (world, port) = World::start(Script::default()).await;
        let (network, _) = network(port, mechanism, PASSWORD);
        ask(&network).await.unwrap_or_else(|error| panic!("{mechanism}: {error}"));
        let seen = lock(&world.seen).clone();
        assert_eq!(seen[..2], [ApiKey::ApiVersions, ApiKey::SaslHandshake]);
        assert_eq!(seen.last(), Some(&ApiKey::Metadata));
        assert_eq!(world.logins.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn a_wrong_password_is_final_and_is_sent_once() {
    for mechanism in ["PLAIN", "SCRAM-SHA-256"] {
        let (world, port) = World::start(Script::default()).await;
        let (network, _) = network(port, mechanism, "wrong");
        let error = refused(&network).await;
        assert_eq!(error.mechanism, mechanism);
        let text = error.to_string();
        assert!(text.contains("anna") && text.contains("as the broker says"), "{text}");
        assert!(text.contains("sasl.password") && !text.contains("wrong"), "{text}");
        assert_eq!(refused(&network).await, error);
        assert_eq!(world.connections.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn a_mechanism_that_the_broker_lacks_is_not_replaced_by_another() {
    let (world, port) = World::start(Script::default()).await;
    let (network, _) = network(port, "OAUTHBEARER", PASSWORD);
    // Without a token nothing is asked of the broker; with one, the list of mechanisms comes.
    assert!(refused(&network).await.to_string().contains("token"));
    assert!(!lock(&world.seen).contains(&ApiKey::SaslHandshake));
}

#[tokio::test]
async fn no_login_succeeds_without_the_brokers_signature() {
    for script in [
        Script { hides_signature: true, ..Script::default() },
        Script { knows_no_password: true, ..Script::default() },
        Script { is_endless: true, ..Script::default() },
    ] {
        let (world, port) = World::start(script).await;
        let (network, _) = network(port, "SCRAM-SHA-256", PASSWORD);
        refused(&network).await;
        assert!(!lock(&world.seen).contains(&ApiKey::Metadata));
    }
}

#[tokio::test]
async fn nothing_of_a_login_is_logged_but_that_it_happened() {
    for (mechanism, password) in [("PLAIN", PASSWORD), ("SCRAM-SHA-256", PASSWORD), ("PLAIN", "canary-wrong")] {
        let (_world, port) = World::start(Script::default()).await;
        let (network, log) = network(port, mechanism, password);
        let _ = ask(&network).await;
        let events = log.drain(false).events;
        assert!(!events.is_empty());
        for event in events {
            assert!(!event.message.contains("canary"), "{}", event.message);
            // Its size would tell the length of the password.
            let is_login = event.message.contains("sent SaslAuthenticate");
            assert!(!(is_login && event.message.contains("bytes")), "{}", event.message);
        }
    }
}

#[tokio::test]
async fn keys_are_derived_once_for_all_connections() {
    let derivation = |password: &str| {
        let (mut exchange, first) = ClientExchange::start(
            &monedula_protocol::sasl::Credentials::Scram {
                hash: ScramHash::Sha256,
                username: "anna".into(),
                password: password.into(),
                delegation_token: false,
            },
            [7; NONCE_BYTES],
        )
        .expect("starts");
        let nonce = first.expose_text().expect("text").split("r=").nth(1).expect("a nonce").to_owned();
        match exchange.step(format!("r={nonce}x,s=c2FsdA==,i=4096").as_bytes()) {
            Ok(ExchangeStep::Derive(derivation)) => derivation,
            other => panic!("{other:?}"),
        }
    };
    let keys = DerivedKeys::default();
    let first = keys.derive(derivation(PASSWORD)).await.expect("derived");
    let second = keys.derive(derivation(PASSWORD)).await.expect("derived");
    assert!(Arc::ptr_eq(&first, &second));
}

#[tokio::test]
async fn the_client_logs_in_again_over_the_same_connection() {
    let (world, port) = World::start(Script { lifetime_ms: 1, ..Script::default() }).await;
    let (network, _) = network(port, "SCRAM-SHA-256", PASSWORD);
    ask(&network).await.expect("answered");
    world.until(|seen| seen.iter().filter(|api| **api == ApiKey::SaslHandshake).count() >= 2).await;
    // Waits behind the gate, and is sent once the login is over.
    ask(&network).await.expect("answered");
    assert_eq!(world.connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_request_in_flight_delays_the_login_and_those_behind_wait_for_it() {
    let (world, port) = World::start(Script { lifetime_ms: 1, holds_metadata: true, ..Script::default() }).await;
    let (network, _) = network(port, "PLAIN", PASSWORD);
    let encode =
        |version, id, client_id: &str| encode_request(&MetadataRequest::default(), version, id, Some(client_id));
    let asked = (ApiKey::Metadata, MetadataRequest::VERSIONS);
    let first =
        network.send(NodeId::Bootstrap(0), Purpose::Control, asked, true, Duration::ZERO, encode).await.expect("sent");
    world.until(|seen| seen.contains(&ApiKey::Metadata)).await;
    // The session of a millisecond is over, and the login waits for the answer to the first.
    let gate_closes = async {
        while !first.connection().is_gate_closed() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, gate_closes).await.expect("in time");
    let asking = network.clone();
    let second = tokio::spawn(async move { ask(&asking).await.map(drop) });
    world.release.notify_one();
    first.answer().await.expect("answered");
    world.until(|seen| seen.iter().filter(|api| **api == ApiKey::SaslHandshake).count() >= 2).await;
    world.release.notify_one();
    second.await.expect("joins").expect("answered");
    let seen = lock(&world.seen).clone();
    let metadata: Vec<usize> = (0..seen.len()).filter(|&place| seen[place] == ApiKey::Metadata).collect();
    let again = seen.iter().rposition(|api| *api == ApiKey::SaslHandshake).expect("a second login");
    assert!(metadata[0] < again && again < metadata[1], "{seen:?}");
    // Nothing but SASL between the handshake and the end of the exchange.
    assert_eq!(seen[again + 1], ApiKey::SaslAuthenticate);
}

#[tokio::test]
async fn a_refused_renewal_is_tried_on_one_new_connection_and_then_is_final() {
    let (world, port) = World::start(Script { lifetime_ms: 1, refuses_from: Some(2), ..Script::default() }).await;
    let (network, _) = network(port, "PLAIN", PASSWORD);
    ask(&network).await.expect("answered");
    world.until(|seen| seen.iter().filter(|api| **api == ApiKey::SaslHandshake).count() >= 2).await;
    // The renewal was refused, which closed the connection; a request that waited behind the gate says why.
    let error = loop {
        match ask(&network).await {
            Ok(_) => panic!("the session had ended"),
            Err(RequestError::Disconnected { reason, .. }) => assert!(reason.contains("again"), "{reason}"),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(&error, RequestError::Fatal(fatal) if matches!(**fatal, ClientError::Authentication(_))),
        "{error}"
    );
    assert_eq!(world.connections.load(Ordering::Relaxed), 2);
}

#[test]
fn a_request_for_a_login_shows_nothing_of_its_bytes() {
    let request = SaslAuthenticateRequest { auth_bytes: SecretBytes::new(b"canary"), ..Default::default() };
    assert!(!format!("{request:?}").contains("canary"));
    assert_eq!(SaslAuthenticateRequest::NAME, "SaslAuthenticateRequest");
}
