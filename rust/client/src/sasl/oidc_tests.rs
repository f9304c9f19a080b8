//! The token source against a listener in the test, which plays an identity provider.

use std::io::{Read, Write};
use std::net::TcpListener;

use super::*;

const PATIENCE: Timeouts =
    Timeouts { connect: Duration::from_secs(10), read: Duration::from_secs(10), whole: Duration::from_secs(20) };

/// Answers one request with these bytes. The thread returns the request.
fn endpoint(answer: impl Into<Vec<u8>>) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let url = format!("http://{}/token", listener.local_addr().expect("bound"));
    let answer = answer.into();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("accepts");
        let mut request = Vec::new();
        let mut chunk = [0; 4096];
        loop {
            let read = stream.read(&mut chunk).expect("reads");
            request.extend_from_slice(&chunk[..read]);
            let text = String::from_utf8_lossy(&request).to_ascii_lowercase();
            let length = text.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
            let body = text.split("\r\n\r\n").nth(1).map(str::len);
            if read == 0 || body.is_some() && body >= length.and_then(|length| length.parse().ok()) {
                break;
            }
        }
        // The client hangs up where the answer is too large for it.
        let _ = stream.write_all(&answer);
        String::from_utf8_lossy(&request).into_owned()
    });
    (url, serving)
}

fn http(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nLocation: http://127.0.0.1:1/\r\n\r\n{body}", body.len())
}

fn source(url: String, timeouts: Timeouts) -> OidcSource {
    OidcSource {
        agent: agent(timeouts, None, None, None),
        url,
        grant: Grant::ClientCredentials { id: "the id".into(), secret: "canary&".into(), url_encode: false },
        scope: Some("kafka read".into()),
        extensions: vec![("cluster".into(), "lkc-1".into())],
        is_reached: AtomicBool::new(false),
    }
}

fn fetch(answer: impl Into<Vec<u8>>) -> (Result<Token, TokenError>, String) {
    let (url, serving) = endpoint(answer);
    let fetched = source(url, PATIENCE).fetch();
    (fetched, serving.join().expect("served"))
}

#[test]
fn client_credentials_become_a_token_with_the_life_that_the_answer_says() {
    let before = now_ms();
    let (token, request) =
        fetch(http("200 OK", r#"{"access_token": "opaque", "expires_in": "300", "token_type": "bearer"}"#));
    let token = token.expect("a token");
    assert_eq!(token.value, "opaque".into());
    assert!((before + 300_000..=now_ms() + 300_000).contains(&token.expires_at_ms));
    assert_eq!(token.extensions, [("cluster".to_owned(), "lkc-1".to_owned())]);
    assert!(request.starts_with("POST /token HTTP/1.1\r\n"), "{request}");
    assert!(request.ends_with("grant_type=client_credentials&scope=kafka+read"), "{request}");
    let authorization = format!("Basic {}", base64::encode(b"the id:canary&"));
    assert!(request.contains(&authorization), "{request}");
}

#[test]
fn without_expires_in_the_claim_of_the_token_counts() {
    let claims = serde_json::json!({"exp": 4_000_000_000_u32});
    let jwt = jwt::unsecured(claims.as_object().expect("an object"));
    let (token, _) = fetch(http("200 OK", &format!(r#"{{"access_token": "{jwt}"}}"#)));
    assert_eq!(token.expect("a token").expires_at_ms, 4_000_000_000_000);
}

#[test]
fn what_the_provider_refuses_is_final_and_what_fails_is_not() {
    let refused = |status, body| match fetch(http(status, body)).0 {
        Err(TokenError::Refused(reason)) => reason,
        other => panic!("{other:?}"),
    };
    let reason = refused("401 Unauthorized", r#"{"error": "invalid_client", "error_description": "no such client"}"#);
    assert!(reason.contains("401: invalid_client (no such client)"), "{reason}");
    assert!(refused("400 Bad Request", "<html>").contains("400"));
    assert!(refused("302 Found", "").contains("redirect"));
    for (status, body) in [
        ("429 Too Many Requests", ""),
        ("503 Service Unavailable", ""),
        ("200 OK", "<html>"),
        ("200 OK", "[]"),
        ("200 OK", "{}"),
        ("200 OK", r#"{"access_token": ""}"#),
        ("200 OK", r#"{"access_token": 5}"#),
    ] {
        let (fetched, _) = fetch(http(status, body));
        assert!(matches!(fetched, Err(TokenError::Failed(_))), "{status} {body}: {fetched:?}");
    }
}

#[test]
fn a_token_with_a_line_break_is_refused_before_it_is_sent() {
    let (token, _) = fetch(http("200 OK", r#"{"access_token": "first\nsecond"}"#));
    let Err(TokenError::Refused(reason)) = token else { panic!("{token:?}") };
    assert!(reason.contains("line breaks") && !reason.contains("first"), "{reason}");
}

#[test]
fn no_more_is_read_than_a_token_may_have() {
    let body = format!(r#"{{"access_token": "{}"}}"#, "x".repeat(1 << 20));
    let (fetched, _) = fetch(http("200 OK", &body));
    assert!(matches!(fetched, Err(TokenError::Failed(_))), "{fetched:?}");
}

#[test]
fn a_provider_that_does_not_answer_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let url = format!("http://{}/token", listener.local_addr().expect("bound"));
    let timeouts = Timeouts::of_parts(Duration::from_millis(50), Duration::from_millis(50));
    assert!(matches!(source(url, timeouts).fetch(), Err(TokenError::Failed(_))));
}

#[test]
fn no_error_and_no_debug_has_the_secret() {
    let (fetched, _) = fetch(http("401 Unauthorized", r#"{"error": "invalid_client"}"#));
    let source = source("http://127.0.0.1:1/".into(), PATIENCE);
    assert!(!format!("{fetched:?} {source:?}").contains("canary"));
}

#[test]
fn forms_are_encoded() {
    assert_eq!(encoded("a b&c=d/ž-._*~"), "a+b%26c%3Dd%2F%C5%BE-._*%7E");
}
