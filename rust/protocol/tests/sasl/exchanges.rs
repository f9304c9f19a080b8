//! Client against server: who is admitted, and what refused clients are told.

use monedula_protocol::sasl::scram::ScramHash;
use monedula_protocol::sasl::{
    Authenticated, ClientExchange, Credentials, Mechanism, SaslError, ServerExchange, ServerStep,
};

use super::support::{CLIENT_NONCE, HASHES, SERVER_NONCE, TOKEN, Users, bearer, log_in, scram};

const PASSWORD: &str = "heslo, s=čárkou";

fn plain(username: &str, password: &str) -> Credentials {
    Credentials::Plain { username: username.into(), password: password.into() }
}

fn principal(credentials: &Credentials) -> Authenticated {
    let ended = log_in(credentials, &Users::default());
    assert_eq!(ended.client, Ok(()), "{:?}", ended.server);
    match ended.server {
        Some(ServerStep::Authenticated(_, authenticated)) => authenticated,
        step => panic!("{step:?}"),
    }
}

#[test]
fn the_right_password_lets_in() {
    assert_eq!(principal(&plain("anna", PASSWORD)), Authenticated::user("anna"));
    for hash in HASHES {
        assert_eq!(principal(&scram(hash, "anna", PASSWORD)), Authenticated::user("anna"));
    }
}

#[test]
fn a_bearer_token_lets_in_with_its_expiry() {
    let expected = Authenticated { expires_at_ms: Some(1_000), ..Authenticated::user("anna") };
    assert_eq!(principal(&bearer(TOKEN)), expected);
}

#[test]
fn a_delegation_token_lets_in_as_its_owner() {
    for hash in HASHES {
        let credentials =
            Credentials::Scram { hash, username: "token-1".into(), password: "hmac==".into(), delegation_token: true };
        let expected =
            Authenticated { expires_at_ms: Some(99), by_delegation_token: true, ..Authenticated::user("anna") };
        assert_eq!(principal(&credentials), expected);
        // Tokens are not users, and users are not tokens.
        assert!(log_in(&scram(hash, "token-1", "hmac=="), &Users::default()).client.is_err());
        let user =
            Credentials::Scram { hash, username: "anna".into(), password: PASSWORD.into(), delegation_token: true };
        assert!(log_in(&user, &Users::default()).client.is_err());
    }
}

#[test]
fn wrong_passwords_and_unknown_users_are_told_the_same() {
    let refusal = |credentials: &Credentials| match log_in(credentials, &Users::default()).server {
        Some(ServerStep::Refused(refusal)) => refusal,
        step => panic!("{step:?}"),
    };
    for hash in HASHES {
        let message = refusal(&scram(hash, "anna", "wrong")).message;
        assert_eq!(message, refusal(&scram(hash, "unknown", PASSWORD)).message);
        assert!(message.ends_with(hash.mechanism().name()), "{message}");
    }
    let message = refusal(&plain("anna", "wrong")).message;
    assert_eq!(message, refusal(&plain("unknown", PASSWORD)).message);
    assert_eq!(message, "Authentication failed: Invalid username or password");
}

#[test]
fn no_refusal_repeats_a_password() {
    for credentials in [plain("anna", "canary"), scram(ScramHash::Sha256, "anna", "canary"), bearer("canary")] {
        let ended = log_in(&credentials, &Users::default());
        assert!(!format!("{ended:?} {credentials:?}").contains("canary"));
    }
}

#[test]
fn a_refused_token_is_read_to_its_end() {
    let ended = log_in(&bearer("another"), &Users::default());
    let json = r#"{"status":"invalid_token","scope":"kafka \"all\""}"#;
    match ended.server {
        Some(ServerStep::Refused(refusal)) => assert_eq!(refusal.message, json),
        step => panic!("{step:?}"),
    }
}

#[test]
fn plain_is_what_rfc_4616_says() {
    let (_, message) = ClientExchange::start(&plain("anna", "pass word "), CLIENT_NONCE).unwrap();
    assert_eq!(message.expose(), b"\0anna\0pass word ");
}

#[test]
fn oauthbearer_is_what_rfc_7628_says() {
    let (_, message) = ClientExchange::start(&bearer("abc.def"), CLIENT_NONCE).unwrap();
    assert_eq!(message.expose(), b"n,,\x01auth=Bearer abc.def\x01cluster=lkc-1\x01\x01");
}

#[test]
fn what_a_mechanism_cannot_carry_is_an_error_before_anything_is_sent() {
    let extension = |name: &str, value: &str| Credentials::OauthBearer {
        token: TOKEN.into(),
        extensions: vec![(name.into(), value.into())],
    };
    for credentials in [
        plain("", "x"),
        plain("a", ""),
        plain("a\0b", "x"),
        plain("a", "x\0"),
        scram(ScramHash::Sha256, "", "x"),
        scram(ScramHash::Sha256, "a", ""),
        bearer(""),
        bearer("a b"),
        bearer("a\x01b"),
        bearer("=a"),
        extension("auth", "x"),
        extension("a1", "x"),
        extension("a", ""),
        extension("a", "x\x01y"),
    ] {
        let error = ClientExchange::start(&credentials, CLIENT_NONCE).unwrap_err();
        assert!(matches!(error, SaslError::Credentials { .. }), "{credentials:?}: {error}");
    }
}

#[test]
fn the_broker_takes_messages_as_other_clients_write_them() {
    let accept = |mechanism, message: &[u8]| {
        let mut server = ServerExchange::new(mechanism, SERVER_NONCE).unwrap();
        let step = server.step(message, &Users::default());
        assert!(!matches!(step, ServerStep::Refused(_)), "{}: {step:?}", String::from_utf8_lossy(message));
    };
    let refuse = |mechanism, message: &[u8]| {
        let mut server = ServerExchange::new(mechanism, SERVER_NONCE).unwrap();
        let step = server.step(message, &Users::default());
        assert!(matches!(step, ServerStep::Refused(_)), "{}: {step:?}", String::from_utf8_lossy(message));
    };
    let password = PASSWORD.as_bytes();
    accept(Mechanism::Plain, &[b"anna\0anna\0", password].concat());
    for message in [b"other\0anna\0".as_slice(), b"anna\0", b"\0\0", b"\0anna\0x\0"] {
        refuse(Mechanism::Plain, &[message, password].concat());
    }
    for accepted in ["n,a=anna,n=anna,r=abc", "n,,n=anna,r=abc,ext=1"] {
        accept(Mechanism::ScramSha256, accepted.as_bytes());
    }
    for refused in ["y,,n=anna,r=abc", "p=tls-unique,,n=anna,r=abc", "n,a=eva,n=anna,r=abc", "n,,m=x,n=anna,r=abc"] {
        refuse(Mechanism::ScramSha256, refused.as_bytes());
    }
    for header in ["n,,", "n,a=anna,"] {
        let message = format!("{header}\x01cluster=lkc-1\x01auth=bearer  {TOKEN}\x01\x01");
        accept(Mechanism::OauthBearer, message.as_bytes());
    }
    for refused in
        ["n,,\x01\x01", "n,,\x01auth=Bearer \x01\x01", "n,,\x01auth=Basic abc\x01\x01", "y,,\x01auth=Bearer a\x01\x01"]
    {
        refuse(Mechanism::OauthBearer, refused.as_bytes());
    }
    assert!(ServerExchange::new(Mechanism::Gssapi, SERVER_NONCE).is_none());
}
