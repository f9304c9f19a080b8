//! What a client reads before it is connected: keystores, truststores, PEM and `sasl.jaas.config`, with any bytes.
//! Reading ends in settings or an error, and allocates no more than the bytes pay for.
//!
//! The properties are fuzz targets as well:
//!
//! ```sh
//! cargo bolero test -p monedula-client --rustc-bootstrap --profile release --sanitizer NONE --test hostile spoilt_stores
//! ```
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../../protocol/tests/support/allocations.rs"]
mod allocations;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use allocations::allocated_meanwhile;
use monedula_client::config::{ClientConfig, ConfigError};

/// What settings with TLS cost by themselves: the configuration of rustls with its lists, and the table of settings.
const COST: usize = 128 << 10;
/// The most memory for each byte of a file, all allocations added up: base64, DER and decrypted copies.
const COST_PER_BYTE: usize = 64;

/// The client reads files on a thread of its own, so the bytes of all threads are counted, and tests run one by one.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that a test writes again and again. It is removed at the end.
struct Store(PathBuf);

impl Store {
    fn new(test: &str) -> Self {
        Self(std::env::temp_dir().join(format!("monedula-hostile-{}-{test}", std::process::id())))
    }

    /// Reads the bytes as a keystore, and as a truststore.
    fn feed(&self, bytes: &[u8], key_password: &str) -> [Result<ClientConfig, ConfigError>; 2] {
        std::fs::write(&self.0, bytes).unwrap();
        let path = self.0.to_str().unwrap();
        let trusted = source("trust.jks");
        let mut keystore = vec![
            // So that the system's authorities, which may be many, are not read.
            ("ssl.truststore.location", trusted.to_str().unwrap()),
            ("ssl.keystore.location", path),
            ("ssl.keystore.password", "hunter2"),
        ];
        keystore.extend((!key_password.is_empty()).then_some(("ssl.key.password", key_password)));
        let truststore = [("ssl.truststore.location", path), ("ssl.truststore.password", "hunter2")];
        let cost = bytes.len() + std::fs::metadata(&trusted).unwrap().len() as usize;
        [parse("SSL", &keystore, cost), parse("SSL", &truststore, bytes.len())]
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/net/tls/keystores").join(name)
}

fn parse(protocol: &str, settings: &[(&str, &str)], bytes: usize) -> Result<ClientConfig, ConfigError> {
    let all = [("bootstrap.servers", "localhost:9092"), ("security.protocol", protocol)].into_iter();
    let (parsed, allocated) = allocated_meanwhile(|| ClientConfig::parse(all.chain(settings.iter().copied())));
    assert!(allocated <= COST + COST_PER_BYTE * bytes, "{allocated} bytes of memory for {bytes}");
    parsed
}

/// Stores with the password of their keys.
const STORES: [(&str, &str); 5] = [
    ("client.pem", ""),
    ("client.encrypted.pem", "hunter2"),
    ("client.java.p12", "hunter2"),
    ("client.openssl.p12", "hunter2"),
    ("client.jks", "hunter3"),
];

#[test]
fn whole_stores_are_read_within_the_same_limits() {
    let _turn = turn();
    let store = Store::new("whole");
    for (name, key_password) in STORES {
        let [keystore, _] = store.feed(&std::fs::read(source(name)).unwrap(), key_password);
        // Its certificate is of X.509 version 1, which brokers take.
        assert!(keystore.is_ok(), "{name}: {:?}", keystore.err());
    }
    for name in ["trust.jks", "trust.p12"] {
        let [_, truststore] = store.feed(&std::fs::read(source(name)).unwrap(), "");
        assert!(truststore.is_ok(), "{name}: {:?}", truststore.err());
    }
}

#[test]
fn spoilt_stores() {
    let _turn = turn();
    let seeds = STORES.map(|(name, password)| (std::fs::read(source(name)).unwrap(), password));
    let store = Store::new("spoilt");
    bolero::check!().with_iterations(200).with_type::<(u8, Vec<(u16, u8)>, u16)>().for_each(|(seed, changes, cut)| {
        let (mut bytes, password) = seeds[usize::from(*seed) % seeds.len()].clone();
        for (place, value) in changes {
            let place = usize::from(*place) % bytes.len();
            bytes[place] = *value;
        }
        if *cut != 0 {
            bytes.truncate(usize::from(*cut) % bytes.len());
        }
        let _ = store.feed(&bytes, password);
    });
}

/// A JKS may announce entries, certificates and keys of any length, and so may the DER of a PKCS#12.
#[test]
fn any_bytes_behind_the_header_of_a_keystore() {
    let _turn = turn();
    let store = Store::new("any");
    bolero::check!().with_iterations(200).for_each(|bytes: &[u8]| {
        let _ = store.feed(bytes, "");
        let _ = store.feed(&[&[0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2], bytes].concat(), "");
        let _ = store.feed(&[&[0x30, 0x84, 0x7f, 0xff, 0xff, 0xff], bytes].concat(), "");
    });
}

#[test]
fn any_text_as_pem_and_as_jaas() {
    let _turn = turn();
    bolero::check!().with_iterations(200).with_type::<String>().for_each(|text: &String| {
        let pem = format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----");
        let jaas = format!("org.apache.kafka.common.security.plain.PlainLoginModule required {text}");
        // Without any text the system's authorities are read, which may be many.
        for text in [text, &pem].into_iter().filter(|text| !text.trim().is_empty()) {
            let _ = parse("SSL", &[("ssl.ca.pem", text)], text.len());
        }
        for text in [text, &jaas] {
            let login = [("sasl.mechanism", "PLAIN"), ("sasl.jaas.config", text)];
            let _ = parse("SASL_PLAINTEXT", &login, text.len());
        }
    });
}
