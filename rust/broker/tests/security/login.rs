//! SaslHandshake and SaslAuthenticate: what may come when, who is logged in, and for how long.

use std::sync::Arc;

use monedula_broker::core::ConnectionId;
use monedula_broker::security::SecurityProtocol;
use monedula_broker::settings::Settings;
use monedula_protocol::api::Request;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame::decode_response;
use monedula_protocol::messages::api_versions::ApiVersionsRequest;
use monedula_protocol::messages::create_delegation_token::CreateDelegationTokenRequest;
use monedula_protocol::messages::metadata::MetadataRequest;
use monedula_protocol::messages::sasl_authenticate::{SaslAuthenticateRequest, SaslAuthenticateResponse};
use monedula_protocol::messages::sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse};
use monedula_protocol::sasl::scram::ScramHash;
use monedula_protocol::sasl::{ClientExchange, Credentials, ExchangeStep};
use monedula_protocol::secret::Secret;
use monedula_protocol::types::SecretBytes;
use serde_json::json;

use crate::support::{Outcome, World};

const REFUSED: ErrorCode = ErrorCode::SaslAuthenticationFailed;

/// A cluster where anna and ben log in, with these settings by Kafka's names.
fn world(kafka: &[(&str, &str)]) -> World {
    let mut settings = Settings::default();
    settings.security.protocol = SecurityProtocol::SaslPlaintext;
    settings.security.users = [("anna".to_owned(), "secret".into()), ("ben".to_owned(), "other".into())].into();
    for (name, value) in kafka {
        settings.set(name, value).unwrap();
    }
    World::new(settings)
}

fn plain(username: &str, password: &str) -> Credentials {
    Credentials::Plain { username: username.to_owned(), password: password.into() }
}

fn scram(hash: ScramHash, username: &str, password: &str) -> Credentials {
    Credentials::Scram { hash, username: username.to_owned(), password: password.into(), delegation_token: false }
}

fn bearer(token: &str) -> Credentials {
    Credentials::OauthBearer { token: token.into(), extensions: Vec::new() }
}

/// The answer to the last request of a connection, whether or not the connection is closed behind it.
#[track_caller]
fn answer<'q, R: Request<'q>>(world: &mut World, connection: ConnectionId, version: i16) -> R::Response<'static> {
    match world.outcome(connection) {
        Some(Outcome::Frame(frame) | Outcome::Refused(frame)) => {
            decode_response::<R>(Box::leak(frame.to_vec().into_boxed_slice()), version).unwrap()
        }
        other => panic!("{} is not answered: {other:?}", R::API_KEY),
    }
}

fn handshake(world: &mut World, connection: ConnectionId, mechanism: &'static str) -> SaslHandshakeResponse<'static> {
    world.send_on(connection, &SaslHandshakeRequest { mechanism, ..Default::default() }, 1);
    answer::<SaslHandshakeRequest<'_>>(world, connection, 1)
}

fn authenticate(world: &mut World, connection: ConnectionId, message: &Secret) -> SaslAuthenticateResponse<'static> {
    let request = SaslAuthenticateRequest { auth_bytes: SecretBytes::new(message.expose()), ..Default::default() };
    world.send_on(connection, &request, 2);
    answer::<SaslAuthenticateRequest<'_>>(world, connection, 2)
}

/// Logs in on a connection. Returns the last answer of the broker.
#[track_caller]
fn login(world: &mut World, connection: ConnectionId, credentials: &Credentials) -> SaslAuthenticateResponse<'static> {
    let mechanism = credentials.mechanism().name();
    assert_eq!(handshake(world, connection, mechanism).error_code, 0);
    let (mut client, mut message) = ClientExchange::start(credentials, [7; 24]).unwrap();
    loop {
        let answer = authenticate(world, connection, &message);
        if answer.error_code != 0 {
            return answer;
        }
        let mut step = client.step(answer.auth_bytes.expose()).unwrap();
        if let ExchangeStep::Derive(work) = &step {
            step = client.derived(Arc::new(work.run())).unwrap();
        }
        match step {
            ExchangeStep::Send(next) => message = next,
            ExchangeStep::Done => return answer,
            ExchangeStep::Derive(_) => unreachable!("keys are derived once"),
        }
    }
}

/// True if the connection may ask for Metadata.
fn may_work(world: &mut World, connection: ConnectionId) -> bool {
    world.send_on(connection, &MetadataRequest::default(), 12);
    matches!(world.outcome(connection), Some(Outcome::Frame(_)))
}

fn principal_of(world: &mut World, connection: usize) -> String {
    world.control(json!({ "command": "connections" }))[connection]["principal"].as_str().unwrap().to_owned()
}

#[test]
fn each_mechanism_logs_in() {
    let mut world = world(&[]);
    let token = world.control(json!({ "command": "mint_token", "user": "anna" }))["token"].as_str().unwrap().to_owned();
    let all = [
        plain("anna", "secret"),
        scram(ScramHash::Sha256, "anna", "secret"),
        scram(ScramHash::Sha512, "anna", "secret"),
        bearer(&token),
    ];
    for (index, credentials) in all.iter().enumerate() {
        let connection = world.connect(1);
        assert_eq!(login(&mut world, connection, credentials).error_code, 0, "{credentials:?}");
        assert!(may_work(&mut world, connection));
        assert_eq!(principal_of(&mut world, index), "User:anna");
    }
}

#[test]
fn wrong_credentials_are_refused_without_telling_which() {
    let mut world = world(&[]);
    let scram = |name, password| scram(ScramHash::Sha256, name, password);
    let mut told = Vec::new();
    for credentials in [
        plain("anna", "wrong"),
        plain("eve", "secret"),
        scram("anna", "wrong"),
        scram("eve", "secret"),
        bearer("not.a.token"),
    ] {
        let connection = world.connect(1);
        if let Credentials::OauthBearer { .. } = credentials {
            assert_eq!(handshake(&mut world, connection, "OAUTHBEARER").error_code, 0);
            let (_, first) = ClientExchange::start(&credentials, [7; 24]).unwrap();
            let challenge = authenticate(&mut world, connection, &first);
            assert_eq!(challenge.auth_bytes.expose(), br#"{"status":"invalid_token"}"#);
            let last = authenticate(&mut world, connection, &Secret::new([1]));
            assert_eq!(last.error_code, REFUSED.code());
            continue;
        }
        let answer = login(&mut world, connection, &credentials);
        assert_eq!(answer.error_code, REFUSED.code(), "{credentials:?}");
        told.push(answer.error_message.unwrap());
        assert!(!may_work(&mut world, connection), "{credentials:?}");
    }
    assert_eq!(told[0], told[1]);
    assert_eq!(told[2], told[3]);
}

#[test]
fn a_mechanism_that_is_not_enabled_is_refused_with_those_that_are() {
    let mut world = world(&[("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-512")]);
    let connection = world.connect(1);
    let answer = handshake(&mut world, connection, "SCRAM-SHA-256");
    assert_eq!(answer.error_code, ErrorCode::UnsupportedSaslMechanism.code());
    assert_eq!(answer.mechanisms, ["PLAIN", "SCRAM-SHA-512"]);
    assert!(!may_work(&mut world, connection));
}

#[test]
fn nothing_but_the_versions_comes_before_the_handshake() {
    let mut world = world(&[]);
    let connection = world.connect(1);
    assert!(!may_work(&mut world, connection));
    let connection = world.connect(1);
    let versions = ApiVersionsRequest { client_software_name: "t", client_software_version: "1", ..Default::default() };
    assert_eq!(world.call_on(connection, &versions, 3).error_code, 0);
    assert_eq!(login(&mut world, connection, &plain("anna", "secret")).error_code, 0);
    let connection = world.connect(1);
    world.call_on(connection, &versions, 3);
    world.send_on(connection, &versions, 3);
    assert!(matches!(world.outcome(connection), Some(Outcome::Closed(_))), "the versions come once");
}

#[test]
fn another_request_during_the_exchange_is_an_illegal_state() {
    let mut world = world(&[]);
    let connection = world.connect(1);
    handshake(&mut world, connection, "PLAIN");
    world.send_on(connection, &MetadataRequest { topics: None, ..Default::default() }, 13);
    let Some(Outcome::Refused(frame)) = world.outcome(connection) else { panic!("it is not refused") };
    let answer = decode_response::<MetadataRequest<'_>>(&frame, 13).unwrap();
    assert_eq!(answer.error_code, ErrorCode::IllegalSaslState.code());
}

#[test]
fn on_a_listener_without_sasl_the_handshake_is_an_illegal_state() {
    let mut world = World::default();
    let connection = world.connect(1);
    assert_eq!(handshake(&mut world, connection, "PLAIN").error_code, ErrorCode::IllegalSaslState.code());
    let answer = authenticate(&mut world, connection, &Secret::from("x"));
    assert_eq!(answer.error_code, ErrorCode::IllegalSaslState.code());
    assert!(may_work(&mut world, connection), "the connection stays open");
}

#[test]
fn after_version_0_of_the_handshake_the_messages_have_no_header() {
    let mut world = world(&[]);
    let connection = world.connect(1);
    world.send_on(connection, &SaslHandshakeRequest { mechanism: "PLAIN", ..Default::default() }, 0);
    assert_eq!(answer::<SaslHandshakeRequest<'_>>(&mut world, connection, 0).error_code, 0);
    world.send_frame(connection, bytes::Bytes::from_static(b"\0anna\0secret"));
    assert_eq!(world.outcome(connection), Some(Outcome::Frame(bytes::Bytes::new())));
    assert!(may_work(&mut world, connection));
}

#[test]
fn a_session_that_is_not_renewed_ends() {
    let mut world = world(&[("connections.max.reauth.ms", "10000")]);
    let connection = world.connect(1);
    assert_eq!(login(&mut world, connection, &plain("anna", "secret")).session_lifetime_ms, 10_000);
    world.advance(10_000);
    assert!(may_work(&mut world, connection));
    world.advance(1);
    assert!(!may_work(&mut world, connection));
}

#[test]
fn a_session_is_renewed_by_the_same_principal_and_mechanism() {
    let mut world = world(&[("connections.max.reauth.ms", "10000")]);
    let renew = |world: &mut World, credentials: &Credentials| {
        let connection = world.connect(1);
        login(world, connection, &plain("anna", "secret"));
        // Late, but no request came in between.
        world.advance(20_000);
        let answer = login(world, connection, credentials);
        (answer.error_code, answer.error_message, may_work(world, connection))
    };
    assert_eq!(
        renew(&mut world, &plain("anna", "secret")),
        (0, Some(""), true),
        "Kafka's message of no error is empty"
    );
    let message = "Cannot change principals during re-authentication from User.anna: User.ben";
    assert_eq!(renew(&mut world, &plain("ben", "other")), (REFUSED.code(), Some(message), false));
    let connection = world.connect(1);
    login(&mut world, connection, &plain("anna", "secret"));
    assert_eq!(handshake(&mut world, connection, "SCRAM-SHA-256").error_code, 0);
    world.send_on(connection, &SaslAuthenticateRequest::default(), 2);
    assert!(matches!(world.outcome(connection), Some(Outcome::Closed(_))), "another mechanism");
}

#[test]
fn a_session_is_renewed_once_a_second_at_most() {
    let mut world = world(&[("connections.max.reauth.ms", "10000")]);
    let connection = world.connect(1);
    for _ in 0..2 {
        login(&mut world, connection, &plain("anna", "secret"));
        world.advance(1000);
    }
    login(&mut world, connection, &plain("anna", "secret"));
    world.advance(999);
    assert_eq!(handshake(&mut world, connection, "PLAIN").error_code, ErrorCode::IllegalSaslState.code());
    assert!(may_work(&mut world, connection), "the session goes on");
}

#[test]
fn a_session_lasts_no_longer_than_its_token() {
    let mut world = world(&[("connections.max.reauth.ms", "10000")]);
    let minted = world.control(json!({ "command": "mint_token", "user": "anna", "lifetime_ms": 2000 }));
    let connection = world.connect(1);
    let answer = login(&mut world, connection, &bearer(minted["token"].as_str().unwrap()));
    assert_eq!(answer.session_lifetime_ms, 2000);
}

#[test]
fn sessions_end_on_command() {
    let mut world = world(&[]);
    let [anna, ben] = [("anna", "secret"), ("ben", "other")].map(|(name, password)| {
        let connection = world.connect(1);
        login(&mut world, connection, &plain(name, password));
        connection
    });
    let expired = world.control(json!({ "command": "expire_sessions", "principal": "User:anna" }));
    assert_eq!(expired["expired"], 1);
    assert!(!may_work(&mut world, anna));
    assert!(may_work(&mut world, ben));
}

#[test]
fn a_password_that_was_changed_counts_for_the_next_login() {
    let mut world = world(&[]);
    world.control(json!({ "command": "set_password", "user": "anna", "password": "new" }));
    let connection = world.connect(1);
    assert_eq!(login(&mut world, connection, &plain("anna", "secret")).error_code, REFUSED.code());
    let connection = world.connect(1);
    assert_eq!(login(&mut world, connection, &scram(ScramHash::Sha512, "anna", "new")).error_code, 0);
    world.control(json!({ "command": "remove_user", "user": "anna" }));
    let connection = world.connect(1);
    assert_eq!(login(&mut world, connection, &plain("anna", "new")).error_code, REFUSED.code());
}

#[test]
fn a_delegation_token_logs_its_owner_in_and_creates_no_other() {
    let mut world = world(&[]);
    let connection = world.connect(1);
    login(&mut world, connection, &plain("anna", "secret"));
    let create = CreateDelegationTokenRequest { max_lifetime_ms: -1, ..Default::default() };
    let token = world.call_on(connection, &create, 3);
    assert_eq!((token.error_code, token.principal_name), (0, "anna"));
    let with_token = Credentials::Scram {
        hash: ScramHash::Sha256,
        username: token.token_id.to_owned(),
        password: monedula_protocol::base64::encode(token.hmac.expose()).into(),
        delegation_token: true,
    };
    let connection = world.connect(1);
    let answer = login(&mut world, connection, &with_token);
    assert_eq!((answer.error_code, answer.session_lifetime_ms), (0, 86_400_000));
    assert_eq!(principal_of(&mut world, 1), "User:anna");
    let refused = world.call_on(connection, &create, 3);
    assert_eq!(refused.error_code, ErrorCode::DelegationTokenRequestNotAllowed.code());
}

/// The broker's messages in a login with SCRAM, while a fault changes them.
fn lied_to(what: &serde_json::Value) -> Vec<String> {
    let mut world = world(&[]);
    world.control(json!({ "command": "fault", "fault": { "what": what } }));
    let connection = world.connect(1);
    let credentials = scram(ScramHash::Sha256, "anna", "secret");
    handshake(&mut world, connection, "SCRAM-SHA-256");
    let (mut client, mut message) = ClientExchange::start(&credentials, [7; 24]).unwrap();
    let mut told = Vec::new();
    loop {
        let answer = authenticate(&mut world, connection, &message);
        told.push(std::str::from_utf8(answer.auth_bytes.expose()).unwrap().to_owned());
        let Ok(mut step) = client.step(answer.auth_bytes.expose()) else { return told };
        if let ExchangeStep::Derive(work) = &step {
            step = client.derived(Arc::new(work.run())).unwrap();
        }
        let ExchangeStep::Send(next) = step else { panic!("the client has not noticed: {told:?}") };
        message = next;
    }
}

#[test]
fn a_client_that_checks_the_broker_notices_its_lies() {
    let wrong = lied_to(&json!({ "effect": "scram", "lie": "wrong_signature" }));
    assert!(wrong.len() == 2 && wrong[1].starts_with("v="), "{wrong:?}");
    assert_eq!(lied_to(&json!({ "effect": "scram", "lie": "no_signature" }))[1], "");
    assert_eq!(lied_to(&json!({ "effect": "scram", "lie": "foreign_nonce" })).len(), 1);
    let huge = lied_to(&json!({ "effect": "scram", "iterations": 2_147_483_647 }));
    assert!(huge.len() == 1 && huge[0].ends_with(",i=2147483647"), "{huge:?}");
}

#[test]
fn frames_before_the_login_are_small() {
    let mut world = world(&[]);
    let connection = world.connect(1);
    assert_eq!(world.core.max_frame_bytes(connection), 524_288);
    login(&mut world, connection, &plain("anna", "secret"));
    assert_eq!(world.core.max_frame_bytes(connection), 104_857_600);
}

#[test]
fn any_frames_before_the_login_are_survived() {
    bolero::check!().with_type::<Vec<Vec<u8>>>().for_each(|frames| {
        let mut world = world(&[]);
        let connection = world.connect(1);
        for frame in frames {
            world.send_frame(connection, bytes::Bytes::copy_from_slice(frame));
        }
        assert_ne!(world.control(json!({ "command": "connections" }))[0]["principal"], "User:anna");
    });
}

#[test]
fn any_messages_of_a_mechanism_are_survived() {
    bolero::check!().with_type::<(u8, Vec<Vec<u8>>)>().for_each(|(mechanism, messages)| {
        let mut world = world(&[]);
        let connection = world.connect(1);
        let names = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"];
        handshake(&mut world, connection, names[usize::from(*mechanism) % names.len()]);
        for message in messages {
            let request = SaslAuthenticateRequest { auth_bytes: SecretBytes::new(message), ..Default::default() };
            world.send_on(connection, &request, 2);
        }
        assert_eq!(world.control(json!({ "command": "connections" }))[0]["principal"], "User:ANONYMOUS");
    });
}
