//! Logins by second that the broker takes: raw connections that log in one after the other, each with a handshake, two
//! messages of SCRAM and their answers. The client's proofs need no PBKDF2, because each thread derives its keys once.
//!
//! `cargo run --release -p monedula-broker --example login_throughput [SCRAM-SHA-256|SCRAM-SHA-512|PLAIN] [threads]`
#![allow(clippy::unwrap_used, reason = "a tool for developers")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use monedula_broker::security::{Mechanism, SecurityProtocol};
use monedula_broker::server::{Broker, Clock};
use monedula_broker::settings::Settings;
use monedula_protocol::api::Request;
use monedula_protocol::frame::{decode_response, encode_request};
use monedula_protocol::messages::sasl_authenticate::SaslAuthenticateRequest;
use monedula_protocol::messages::sasl_handshake::SaslHandshakeRequest;
use monedula_protocol::sasl::scram::{ScramHash, ScramKeys};
use monedula_protocol::sasl::{ClientExchange, Credentials, ExchangeStep};
use monedula_protocol::types::SecretBytes;

const DURATION: Duration = Duration::from_secs(5);

fn main() {
    let mechanism = std::env::args().nth(1).unwrap_or_else(|| "SCRAM-SHA-256".to_owned());
    let mechanism = Mechanism::from_name(&mechanism).unwrap();
    let threads: usize = std::env::args().nth(2).map_or(4, |count| count.parse().unwrap());
    let mut settings = Settings::default();
    settings.security.protocol = SecurityProtocol::SaslPlaintext;
    settings.security.users = [("anna".to_owned(), "secret".into())].into();
    let broker = Broker::start(settings, Clock::system()).unwrap();
    let address = broker.addresses()[0].1;
    let started = Instant::now();
    let working: Vec<_> = (0..threads)
        .map(|_| std::thread::spawn(move || log_in_until(address, mechanism, started + DURATION)))
        .collect();
    let logins: usize = working.into_iter().map(|thread| thread.join().unwrap()).sum();
    println!("{mechanism}: {:.0} logins/s by {threads} threads", logins as f64 / started.elapsed().as_secs_f64());
}

fn credentials(mechanism: Mechanism) -> Credentials {
    let (username, password) = ("anna".to_owned(), "secret".into());
    let hash = match mechanism {
        Mechanism::Plain => return Credentials::Plain { username, password },
        Mechanism::ScramSha512 => ScramHash::Sha512,
        _ => ScramHash::Sha256,
    };
    Credentials::Scram { hash, username, password, delegation_token: false }
}

fn log_in_until(address: SocketAddr, mechanism: Mechanism, end: Instant) -> usize {
    let credentials = credentials(mechanism);
    let mut keys = None;
    let mut logins = 0;
    while Instant::now() < end {
        log_in(address, &credentials, &mut keys, logins as u64);
        logins += 1;
    }
    logins
}

fn log_in(address: SocketAddr, credentials: &Credentials, keys: &mut Option<Arc<ScramKeys>>, number: u64) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let handshake = SaslHandshakeRequest { mechanism: credentials.mechanism().name(), ..Default::default() };
    ask(&mut stream, &handshake, 1);
    let mut nonce = [0; 24];
    nonce[..8].copy_from_slice(&number.to_be_bytes());
    let (mut client, mut message) = ClientExchange::start(credentials, nonce).unwrap();
    loop {
        let request = SaslAuthenticateRequest { auth_bytes: SecretBytes::new(message.expose()), ..Default::default() };
        let frame = ask(&mut stream, &request, 2);
        let answer = decode_response::<SaslAuthenticateRequest<'_>>(&frame, 2).unwrap();
        assert_eq!(answer.error_code, 0, "{answer:?}");
        let step = match client.step(answer.auth_bytes.expose()).unwrap() {
            ExchangeStep::Derive(work) => {
                client.derived(Arc::clone(keys.get_or_insert_with(|| Arc::new(work.run())))).unwrap()
            }
            step => step,
        };
        match step {
            ExchangeStep::Send(next) => message = next,
            _ => return,
        }
    }
}

/// Sends a request. Returns its answer without the length.
fn ask<'q, R: Request<'q>>(stream: &mut TcpStream, request: &R, version: i16) -> Vec<u8> {
    stream.write_all(&encode_request(request, version, 1, Some("bench")).unwrap()).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame).unwrap();
    frame
}
