//! Hostile brokers against the client side, hostile clients against the broker side, and arbitrary bytes against both.

use std::sync::Arc;

use monedula_protocol::sasl::scram::{MAX_ITERATIONS, ScramHash};
use monedula_protocol::sasl::{ClientExchange, ExchangeStep, Mechanism, SaslError, ServerExchange, ServerStep};

use super::support::{CLIENT_NONCE, HASHES, SERVER_NONCE, TOKEN, Users, advance, bearer, log_in, scram};

const MECHANISM: Mechanism = Mechanism::ScramSha256;
const SALT: &str = "c29sbmljemth";

/// A client that awaits the server's first message, and its nonce.
fn begun() -> (ClientExchange, String) {
    let (client, first) = ClientExchange::start(&scram(ScramHash::Sha256, "anna", "password"), CLIENT_NONCE).unwrap();
    let first = first.expose_text().unwrap().to_owned();
    let nonce = first.split("r=").nth(1).unwrap().to_owned();
    (client, nonce)
}

/// Client's answer to a server's first message.
fn answer_to(server_first: impl Fn(&str) -> String) -> Result<ExchangeStep, SaslError> {
    let (mut client, nonce) = begun();
    client.step(server_first(&nonce).as_bytes())
}

/// A client that has sent its proof.
fn proven() -> ClientExchange {
    let (mut client, nonce) = begun();
    let step = advance(&mut client, format!("r={nonce}server,s={SALT},i=4096").as_bytes());
    assert!(matches!(step, Ok(ExchangeStep::Send(_))));
    client
}

#[test]
fn iterations_below_4096_or_beyond_a_million_are_refused() {
    for iterations in ["1", "4095", "1000001", "2147483648", "18446744073709551616"] {
        let error = answer_to(|nonce| format!("r={nonce}server,s={SALT},i={iterations}")).unwrap_err();
        assert!(matches!(error, SaslError::Iterations { .. }), "{iterations}: {error}");
    }
    for iterations in [4096, MAX_ITERATIONS] {
        let step = answer_to(|nonce| format!("r={nonce}server,s={SALT},i={iterations}")).unwrap();
        assert!(matches!(step, ExchangeStep::Derive(derivation) if derivation.iterations == iterations));
    }
}

#[test]
fn an_iteration_count_that_is_not_a_number_is_malformed() {
    for iterations in ["4096x", "x", "", "-4096", "+4096", "04096", " 4096", "4096 ", "4096.0", "٤٠٩٦"] {
        let error = answer_to(|nonce| format!("r={nonce}server,s={SALT},i={iterations}")).unwrap_err();
        assert!(matches!(error, SaslError::Malformed { .. }), "{iterations:?}: {error}");
    }
}

#[test]
fn a_nonce_that_does_not_extend_the_clients_is_foreign() {
    let foreign = Err(SaslError::ForeignNonce { mechanism: MECHANISM });
    assert_eq!(answer_to(|_| format!("r=someoneElses,s={SALT},i=4096")), foreign);
    // Replayed nonce of the client, without the server's part.
    assert_eq!(answer_to(|nonce| format!("r={nonce},s={SALT},i=4096")), foreign);
    assert_eq!(answer_to(|nonce| format!("r={},s={SALT},i=4096", &nonce[1..])), foreign);
    for nonce_end in ["\u{7f}", " x", "ž"] {
        let error = answer_to(|nonce| format!("r={nonce}{nonce_end},s={SALT},i=4096")).unwrap_err();
        assert!(matches!(error, SaslError::Malformed { .. }), "{error}");
    }
}

#[test]
fn a_recorded_exchange_does_not_convince_a_new_client() {
    let users = Users::default();
    let credentials = scram(ScramHash::Sha256, "anna", users.password);
    let (_, first) = ClientExchange::start(&credentials, CLIENT_NONCE).unwrap();
    let mut server = ServerExchange::new(MECHANISM, SERVER_NONCE).unwrap();
    let ServerStep::Challenge(recorded) = server.step(first.expose(), &users) else { panic!("no challenge") };
    let (mut client, _) = ClientExchange::start(&credentials, [8; 24]).unwrap();
    assert_eq!(client.step(recorded.expose()), Err(SaslError::ForeignNonce { mechanism: MECHANISM }));
}

#[test]
fn a_recorded_proof_does_not_convince_the_broker() {
    let users = Users::default();
    let credentials = scram(ScramHash::Sha256, "anna", users.password);
    let (mut client, first) = ClientExchange::start(&credentials, CLIENT_NONCE).unwrap();
    let mut server = ServerExchange::new(MECHANISM, SERVER_NONCE).unwrap();
    let ServerStep::Challenge(challenge) = server.step(first.expose(), &users) else { panic!("no challenge") };
    let Ok(ExchangeStep::Send(proof)) = advance(&mut client, challenge.expose()) else { panic!("no proof") };
    assert!(matches!(server.step(proof.expose(), &users), ServerStep::Authenticated(..)));

    let mut other = ServerExchange::new(MECHANISM, [1; 24]).unwrap();
    assert!(matches!(other.step(first.expose(), &users), ServerStep::Challenge(_)));
    assert!(matches!(other.step(proof.expose(), &users), ServerStep::Refused(_)));
    // A second proof is refused on a connection that has logged in.
    assert!(matches!(server.step(proof.expose(), &users), ServerStep::Refused(_)));
}

#[test]
fn mandatory_extensions_are_refused_wherever_they_stand() {
    let refused = Err(SaslError::MandatoryExtension { mechanism: MECHANISM });
    assert_eq!(answer_to(|nonce| format!("m=x,r={nonce}server,s={SALT},i=4096")), refused);
    assert_eq!(answer_to(|nonce| format!("r={nonce}server,s={SALT},i=4096,m=x")), refused);
    assert_eq!(proven().step(b"m=x,v=AAAA"), refused);
}

#[test]
fn unknown_extensions_are_signed_and_ignored() {
    let step = answer_to(|nonce| format!("r={nonce}server,s={SALT},i=4096,x=1,why=not"));
    assert!(matches!(step, Ok(ExchangeStep::Derive(_))));
    let error = answer_to(|nonce| format!("r={nonce}server,s={SALT},i=4096,x")).unwrap_err();
    assert!(matches!(error, SaslError::Malformed { .. }));
}

#[test]
fn success_without_a_signature_is_no_success() {
    // Error code 0 with an empty message, in place of the server's first message and of its last.
    assert!(begun().0.step(b"").is_err());
    for message in [&b""[..], b"v", b"v=", b"ok", b"x=1", b"v=AAAA,", b"r=abc"] {
        assert!(proven().step(message).is_err(), "{message:?}");
    }
}

#[test]
fn a_signature_before_its_turn_is_no_success() {
    assert!(begun().0.step(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").is_err());
    // Signature in the first message: it counts as an extension there, and the proof is sent all the same.
    let (mut client, nonce) = begun();
    let step = advance(&mut client, format!("r={nonce}server,s={SALT},i=4096,v=AAAA").as_bytes());
    assert!(matches!(step, Ok(ExchangeStep::Send(_))));
}

#[test]
fn a_broker_that_does_not_know_the_password_is_found_out() {
    for hash in HASHES {
        let users = Users { signs_with: Some("guess"), ..Users::default() };
        let ended = log_in(&scram(hash, "anna", users.password), &users);
        assert!(matches!(ended.server, Some(ServerStep::Authenticated(..))), "{:?}", ended.server);
        assert_eq!(ended.client, Err(SaslError::ServerSignature { mechanism: hash.mechanism() }));
    }
    for signature in ["v=AAAA", "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="] {
        let error = proven().step(signature.as_bytes()).unwrap_err();
        assert_eq!(error, SaslError::ServerSignature { mechanism: MECHANISM });
        assert!(!error.to_string().contains('='), "{error}");
    }
}

#[test]
fn an_error_of_the_server_is_a_refusal_with_its_words() {
    let refused = |reason: &str| Err(SaslError::Refused { mechanism: MECHANISM, reason: reason.into() });
    assert_eq!(proven().step(b"e=invalid-proof,x=1"), refused("invalid-proof"));
    assert_eq!(begun().0.step(b"e=unknown-user\r\n"), refused("unknown-user"));
}

#[test]
fn rounds_beyond_the_exchange_are_refused() {
    let ended = Err(SaslError::Ended { mechanism: MECHANISM });
    // No message is accepted while keys are being derived.
    let (mut client, nonce) = begun();
    assert!(matches!(client.step(format!("r={nonce}server,s={SALT},i=4096").as_bytes()), Ok(ExchangeStep::Derive(_))));
    assert_eq!(client.step(b"v=AAAA"), ended);
    // No message is accepted after an error.
    let mut client = proven();
    assert!(client.step(b"v=AAAA").is_err());
    assert_eq!(client.step(b"v=AAAA"), ended);

    let (mut client, _) = ClientExchange::start(&bearer(TOKEN), CLIENT_NONCE).unwrap();
    assert_eq!(client.step(b""), Ok(ExchangeStep::Done));
    assert_eq!(client.step(b""), Err(SaslError::Ended { mechanism: Mechanism::OauthBearer }));
}

#[test]
fn keys_that_nobody_asked_for_are_refused() {
    let (mut client, nonce) = begun();
    let (mut other, _) = ClientExchange::start(&scram(ScramHash::Sha512, "anna", "password"), CLIENT_NONCE).unwrap();
    let server_first = format!("r={nonce}server,s={SALT},i=4096");
    let Ok(ExchangeStep::Derive(derivation)) = client.step(server_first.as_bytes()) else { panic!("no derivation") };
    let keys = Arc::new(derivation.run());
    assert!(other.derived(Arc::clone(&keys)).is_err());
    let Ok(ExchangeStep::Derive(_)) = other.step(server_first.as_bytes()) else { return };
    assert!(other.derived(keys).is_err());
}

#[test]
fn base64_is_taken_in_its_one_form_only() {
    for salt in ["c29s bmlj", "c29sbmljemth=", "c29sbmljemt", "c29sbmlje-th", "c2==", "c2F=", "", "====", "č"] {
        let error = answer_to(|nonce| format!("r={nonce}server,s={salt},i=4096")).unwrap_err();
        assert!(matches!(error, SaslError::Malformed { .. }), "{salt:?}: {error}");
    }
    for signature in ["v=AAA", "v=AA=A", "v=!!!!"] {
        assert!(matches!(proven().step(signature.as_bytes()), Err(SaslError::Malformed { .. })), "{signature}");
    }
}

#[test]
fn a_refused_token_is_never_a_success() {
    let mechanism = Mechanism::OauthBearer;
    let (mut client, _) = ClientExchange::start(&bearer(TOKEN), CLIENT_NONCE).unwrap();
    let Ok(ExchangeStep::Send(end)) = client.step(br#"{"status":"invalid_token"}"#) else { panic!("no answer") };
    assert_eq!(end.expose(), [1]);
    // Refusal stands, even if the broker then reports success.
    let reason = r#"{"status":"invalid_token"}"#.to_owned();
    assert_eq!(client.step(b""), Err(SaslError::Refused { mechanism, reason }));
}

#[test]
fn a_proof_of_another_length_or_nonce_is_refused() {
    let users = Users::default();
    let answers = |change: &dyn Fn(&str) -> String| {
        let credentials = scram(ScramHash::Sha256, "anna", users.password);
        let (mut client, first) = ClientExchange::start(&credentials, CLIENT_NONCE).unwrap();
        let mut server = ServerExchange::new(MECHANISM, SERVER_NONCE).unwrap();
        let ServerStep::Challenge(challenge) = server.step(first.expose(), &users) else { panic!("no challenge") };
        let Ok(ExchangeStep::Send(proof)) = advance(&mut client, challenge.expose()) else { panic!("no proof") };
        server.step(change(proof.expose_text().unwrap()).as_bytes(), &users)
    };
    assert!(matches!(answers(&|proof| proof.to_owned()), ServerStep::Authenticated(..)));
    let changes: [&dyn Fn(&str) -> String; 6] = [
        &|proof| format!("{}p=", proof.split("p=").next().unwrap()),
        &|proof| proof.replace(",p=", ",p=AAAA"),
        &|proof| proof.replace("r=", "r=x"),
        &|proof| proof.replace(",p=", "x,p="),
        &|proof| proof.replace("biws", "eSws"),
        &|proof| proof.replace(",p=", ",x=1,p="),
    ];
    for change in changes {
        assert!(matches!(answers(change), ServerStep::Refused(_)));
    }
}

#[test]
fn arbitrary_bytes_neither_panic_nor_let_in() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let users = Users { iterations: 1, ..Users::default() };
        for mechanism in [Mechanism::Plain, Mechanism::ScramSha256, Mechanism::OauthBearer] {
            let mut server = ServerExchange::new(mechanism, SERVER_NONCE).unwrap();
            let mut rest = bytes;
            // Sent as one message, and cut into several.
            while let Some((length, after)) = rest.split_first() {
                let (message, next) = after.split_at(after.len().min(usize::from(*length)));
                assert!(!matches!(server.step(message, &users), ServerStep::Authenticated(..)));
                rest = next;
            }
            let mut server = ServerExchange::new(mechanism, SERVER_NONCE).unwrap();
            assert!(!matches!(server.step(bytes, &users), ServerStep::Authenticated(..)));
        }
        let (mut client, nonce) = begun();
        assert!(!matches!(client.step(bytes), Ok(ExchangeStep::Done)));
        let (mut client, _) = begun();
        let derivation = client.step([format!("r={nonce}").as_bytes(), bytes].concat().as_slice());
        assert!(!matches!(derivation, Ok(ExchangeStep::Done)));
        let (mut client, _) = ClientExchange::start(&bearer(TOKEN), CLIENT_NONCE).unwrap();
        assert_eq!(matches!(client.step(bytes), Ok(ExchangeStep::Done)), bytes.is_empty());
    });
}
