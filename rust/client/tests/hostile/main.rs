//! What a client reads before it is connected: keystores, truststores, PEM and `sasl.jaas.config`, with any bytes.
//! Reading ends in settings or an error, and allocates no more than the bytes pay for.
//!
//! The properties are fuzz targets as well:
//!
//! ```sh
//! cargo bolero test -p monedula-client --rustc-bootstrap --profile release --sanitizer NONE --test hostile spoilt_stores
//! ```
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::{Path, PathBuf};

use monedula_client::config::ClientConfig;

/// What settings with TLS cost by themselves: the configuration of rustls with its lists, and the table of settings.
const COST: usize = 2 << 20;
/// The most memory for each byte of a file, all allocations added up: base64, DER and decrypted copies.
const COST_PER_BYTE: usize = 200;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

/// An allocator that adds up the bytes that the current thread allocates.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, handed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

fn count(bytes: usize) {
    // A thread that ends may allocate after its thread locals are destroyed.
    let _ = ALLOCATED.try_with(|allocated| allocated.set(allocated.get() + bytes));
}

/// A file that each thread writes anew, removed at the end.
struct Store(PathBuf);

impl Store {
    fn new(test: &str) -> Self {
        Self(std::env::temp_dir().join(format!("monedula-hostile-{}-{test}", std::process::id())))
    }

    /// Reads the bytes as a keystore and as a truststore.
    fn feed(&self, bytes: &[u8]) {
        std::fs::write(&self.0, bytes).unwrap();
        let path = self.0.to_str().unwrap();
        // The truststore is there so that the system's, which may be large, is not read.
        let truststore = source("trust.p12");
        let own = [("ssl.truststore.location", truststore.to_str().unwrap()), ("ssl.truststore.password", "hunter2")];
        let keystore =
            [("ssl.keystore.location", path), ("ssl.keystore.password", "hunter2"), ("ssl.key.password", "hunter3")];
        parse(&[&own[..], &keystore].concat(), bytes.len());
        parse(&[("ssl.truststore.location", path), ("ssl.truststore.password", "hunter2")], bytes.len());
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

fn parse(settings: &[(&str, &str)], bytes: usize) {
    let all = [("bootstrap.servers", "localhost:9092"), ("security.protocol", "SSL")].into_iter();
    let before = ALLOCATED.get();
    let parsed = ClientConfig::parse(all.chain(settings.iter().copied()));
    let allocated = ALLOCATED.get() - before;
    drop(parsed);
    assert!(allocated <= COST + COST_PER_BYTE * bytes, "{allocated} bytes of memory for {bytes}");
}

#[test]
fn spoilt_stores() {
    let names = [
        "client.pem",
        "client.encrypted.pem",
        "client.java.p12",
        "client.openssl.p12",
        "client.jks",
        "trust.jks",
        "trust.p12",
    ];
    let seeds: Vec<Vec<u8>> = names.iter().map(|name| std::fs::read(source(name)).unwrap()).collect();
    let store = Store::new("spoilt");
    bolero::check!().with_iterations(300).with_type::<(u8, Vec<(u16, u8)>, u16)>().for_each(|(seed, changes, cut)| {
        let mut bytes = seeds[usize::from(*seed) % seeds.len()].clone();
        for (place, value) in changes {
            let place = usize::from(*place) % bytes.len();
            bytes[place] = *value;
        }
        if *cut != 0 {
            bytes.truncate(usize::from(*cut) % bytes.len());
        }
        store.feed(&bytes);
    });
}

/// A JKS may announce entries, certificates and keys of any length.
#[test]
fn any_bytes_behind_the_header_of_a_keystore() {
    let store = Store::new("any");
    bolero::check!().with_iterations(300).for_each(|bytes: &[u8]| {
        store.feed(bytes);
        store.feed(&[&[0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2], bytes].concat());
        // A sequence in DER of a length that is not there.
        store.feed(&[&[0x30, 0x84, 0x7f, 0xff, 0xff, 0xff], bytes].concat());
    });
}

#[test]
fn any_text_as_pem_and_as_jaas() {
    bolero::check!().with_iterations(300).with_type::<String>().for_each(|text: &String| {
        let pem = format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----");
        for text in [text, &pem] {
            parse(&[("ssl.ca.pem", text)], text.len());
        }
        let jaas = format!("org.apache.kafka.common.security.plain.PlainLoginModule required {text}");
        for text in [text, &jaas] {
            let login =
                [("security.protocol", "SASL_PLAINTEXT"), ("sasl.mechanism", "PLAIN"), ("sasl.jaas.config", text)];
            parse(&login, text.len());
        }
    });
}
