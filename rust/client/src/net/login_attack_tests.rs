//! Brokers that are silent in the middle of a login, say too much, or are done too early.

use monedula_protocol::api::ApiKey;

use super::tests::{PASSWORD, Script, World, ask, network_with, refused};
use super::*;
use crate::lock::lock;

const SETUP: (&str, &str) = ("socket.connection.setup.timeout.ms", "300");

#[tokio::test]
async fn silence_at_any_step_of_a_login_ends_with_the_deadline_of_the_connection() {
    // The handshake, and the messages of the exchange.
    for (mechanism, messages) in [("PLAIN", 2), ("SCRAM-SHA-256", 3)] {
        for message in 1..=messages {
            let (world, port) = World::start(Script { is_silent_at: Some(message), ..Script::default() }).await;
            login_is_late_once(&world, port, mechanism, message).await;
        }
    }
}

/// Asks a broker that does not end the first login in time, and ends the second.
async fn login_is_late_once(world: &World, port: u16, mechanism: &str, message: usize) {
    let (network, _) = network_with(port, mechanism, &[("sasl.password", PASSWORD), SETUP]);
    let error = ask(&network).await.expect_err("no login");
    let text = error.to_string();
    assert!(text.contains("the login did not end within 300 ms"), "{mechanism} {message}: {text}");
    assert!(matches!(error, RequestError::Disconnected { .. }), "{mechanism} {message}: {text}");
    ask(&network).await.unwrap_or_else(|error| panic!("{mechanism} {message}: {error}"));
    assert_eq!(lock(&world.seen).last(), Some(&ApiKey::Metadata));
}

#[tokio::test]
async fn a_byte_now_and_then_at_any_step_of_a_login_does_not_put_off_the_deadline() {
    for (mechanism, messages) in [("PLAIN", 2), ("SCRAM-SHA-256", 3)] {
        for message in 1..=messages {
            // An answer has more than ten bytes: some come before the deadline, and the last long after it.
            let script = Script { is_slow_at: Some((message, Duration::from_millis(100))), ..Script::default() };
            let (world, port) = World::start(script).await;
            login_is_late_once(&world, port, mechanism, message).await;
        }
    }
}

/// Waits until the client has logged so many requests of the kind.
async fn until_sent(log: &Log, name: &str, count: usize) {
    let mut sent = 0;
    let logged = async {
        while sent < count {
            let events = log.drain(false).events;
            sent += events.iter().filter(|event| event.message.contains(&format!("sent {name} "))).count();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), logged).await.expect("in time");
}

#[tokio::test]
async fn silence_at_any_step_of_a_login_in_a_session_ends_the_connection_and_what_waits_is_told() {
    let silent = async |mechanism: &str, message: usize| {
        let script =
            Script { lifetime_ms: 1_500, holds_metadata: true, is_silent_at: Some(message), ..Script::default() };
        let (world, port) = World::start(script).await;
        let timeout = ("request.timeout.ms", "2500");
        let (network, log) = network_with(port, mechanism, &[("sasl.password", PASSWORD), timeout]);
        let asking = || {
            let network = network.clone();
            tokio::spawn(async move { ask(&network).await.map(drop) })
        };
        // A long poll is in flight when it is time to log in again, and a request comes meanwhile.
        let polling = asking();
        until_sent(&log, "SaslHandshake", 2).await;
        let behind = asking();
        world.release.notify_one();
        polling.await.expect("joins").expect("the long poll is answered");
        let error = behind.await.expect("joins").expect_err("nothing is sent in a login that does not end");
        let is_told = matches!(error, RequestError::TimedOut { .. } | RequestError::Disconnected { .. });
        assert!(is_told, "{mechanism} {message}: {error}");
        world.release.notify_one();
        ask(&network).await.unwrap_or_else(|error| panic!("{mechanism} {message}: {error}"));
        assert_eq!(world.connections.load(std::sync::atomic::Ordering::Relaxed), 2);
    };
    // The first login has two messages with PLAIN, and three with SCRAM; what follows are those of the next.
    tokio::join!(
        silent("PLAIN", 3),
        silent("PLAIN", 4),
        silent("SCRAM-SHA-256", 4),
        silent("SCRAM-SHA-256", 5),
        silent("SCRAM-SHA-256", 6),
    );
}

#[tokio::test]
async fn an_answer_to_a_login_that_is_too_large_is_refused_before_any_of_it_is_read() {
    for length in [(512 << 10) + 1, i32::MAX, -1, 0] {
        for message in 1..=3 {
            let script = Script { says_length: Some((message, length)), ..Script::default() };
            let (_world, port) = World::start(script).await;
            let (network, _) = network_with(port, "SCRAM-SHA-512", &[("sasl.password", PASSWORD)]);
            let error = ask(&network).await.expect_err("no login");
            assert!(matches!(error, RequestError::Wire { .. }), "{message} {length}: {error}");
        }
    }
}

#[tokio::test]
async fn a_success_before_the_signature_of_the_broker_was_seen_is_none() {
    for bytes in ["", "v=AAAA", "v=", "r=more,s=c2FsdA==,i=4096", "e=none"] {
        let (world, port) = World::start(Script { succeeds_with: Some(bytes), ..Script::default() }).await;
        let (network, _) = network_with(port, "SCRAM-SHA-256", &[("sasl.password", PASSWORD)]);
        let error = refused(&network).await;
        assert!(!lock(&world.seen).contains(&ApiKey::Metadata), "{bytes}: {error}");
    }
}

#[tokio::test]
async fn a_broker_that_offers_plain_alone_is_told_no_password() {
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let (world, port) = World::start(Script { offers_plain_alone: true, ..Script::default() }).await;
        let (network, _) = network_with(port, mechanism, &[("sasl.password", PASSWORD)]);
        let error = refused(&network).await.to_string();
        assert!(error.contains("it offers PLAIN. Set sasl.mechanism"), "{error}");
        assert!(!lock(&world.seen).contains(&ApiKey::SaslAuthenticate));
    }
}
