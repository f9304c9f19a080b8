//! Bytes that no broker should send: they may cause an error, but not cost more memory than a multiple of their number.
//!
//! Properties over arbitrary bytes are fuzz targets as well:
//!
//! ```sh
//! cargo bolero test -p monedula-protocol --rustc-bootstrap --profile release --sanitizer NONE arbitrary_bytes
//! ```
//!
//! A plain `cargo test` runs their corpus in `__fuzz__`, and random bytes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/allocations.rs"]
mod allocations;
#[allow(dead_code, reason = "the golden tests read the rest")]
mod support;

use std::sync::OnceLock;

use allocations::allocated_by;
use monedula_protocol::api::Message;
use monedula_protocol::error::WireError;
use monedula_protocol::frame::{correlation_id, decode_request_header, decode_response};
use monedula_protocol::messages::{self, fetch, metadata};
use monedula_protocol::sasl::oauthbearer::{Extensions, TokenRefusal};
use monedula_protocol::sasl::scram::{ScramCredential, ScramHash};
use monedula_protocol::sasl::{
    Accounts, Authenticated, ClientExchange, Credentials, ExchangeStep, Mechanism, ServerExchange,
};
use monedula_protocol::secret::Secret;
use monedula_protocol::wire::{Reader, Writer};
use support::GoldenCase;

/// Memory that one byte of a frame may cost, in bytes, all allocations added up. The most expensive structures are
/// OffsetFetchRequestGroup and ListedGroup, with three bytes on the wire and 88 in memory, in an array that doubles as
/// it grows: in total up to four times its items.
const COST_PER_BYTE: usize = 120;
/// Memory that any frame may cost: one item in each array around the place of the fault.
const COST_PER_FRAME: usize = 1024;

fn check_budget(allocated: usize, bytes: &[u8], place: &str) {
    let budget = COST_PER_BYTE * bytes.len() + COST_PER_FRAME;
    assert!(allocated <= budget, "{place}: {allocated} bytes allocated for a frame of {}", bytes.len());
}

/// Decoding of one message type.
struct Decoder {
    name: &'static str,
    first: i16,
    last: i16,
    /// Decodes within the budget. Decoded messages must encode, and decode again to the same message.
    decode: fn(&[u8], i16) -> bool,
}

macro_rules! decoders {
    ($($test:ident: $module:ident::$message:ident, $versions:expr, $flexible:expr;)*) => {
        const DECODERS: &[Decoder] = &[
            $(Decoder {
                name: stringify!($message),
                first: *$versions.start(),
                last: *$versions.end(),
                decode: |bytes, version| {
                    let read = |bytes| messages::$module::$message::decode(&mut Reader::new(bytes), version);
                    let (result, allocated) = allocated_by(|| read(bytes));
                    check_budget(allocated, bytes, stringify!($message));
                    let Ok(message) = result else {
                        return false;
                    };
                    let mut writer = Writer::new();
                    message.encode(&mut writer, version).unwrap();
                    let written = writer.into_bytes();
                    let again = messages::$module::$message::decode(&mut Reader::new(&written), version);
                    match message == message.clone() {
                        true => assert_eq!(again.as_ref(), Ok(&message)),
                        // Compared as text, since a message with a NaN is not equal to itself.
                        false => assert_eq!(format!("{:?}", again.unwrap()), format!("{message:?}")),
                    }
                    true
                },
            },)*
        ];
    };
}

for_each_message!(decoders);

fn golden() -> &'static [(&'static Decoder, GoldenCase)] {
    static GOLDEN: OnceLock<Vec<(&Decoder, GoldenCase)>> = OnceLock::new();
    GOLDEN.get_or_init(|| {
        let of = |decoder: &'static Decoder| support::cases(decoder.name).into_iter().map(move |case| (decoder, case));
        DECODERS.iter().flat_map(of).collect()
    })
}

/// Input: two bytes choose message and version, the others are the message. The corpus holds golden messages.
#[test]
fn arbitrary_bytes() {
    bolero::check!().with_iterations(20_000).for_each(|input: &[u8]| {
        if let [message, version, bytes @ ..] = input {
            let decoder = &DECODERS[usize::from(*message) % DECODERS.len()];
            let versions = decoder.last - decoder.first + 1;
            (decoder.decode)(bytes, decoder.first + i16::from(*version) % versions);
        }
    });
}

/// Input: two bytes choose a golden message; each four bytes after them overwrite, insert, remove or repeat in it.
#[test]
fn mutated_golden_bytes() {
    bolero::check!().with_iterations(20_000).for_each(|input: &[u8]| {
        let Some((&[high, low], edits)) = input.split_first_chunk() else {
            return;
        };
        let choice = usize::from(u16::from_be_bytes([high, low])) % golden().len();
        let (decoder, case) = &golden()[choice];
        let mut bytes = case.bytes.to_vec();
        for &[operation, high, low, value] in edits.as_chunks().0 {
            let at = usize::from(u16::from_be_bytes([high, low])) % (bytes.len() + 1);
            match operation % 5 {
                0 if at < bytes.len() => bytes[at] = value,
                1 if at < bytes.len() => bytes[at] ^= 1 << (value % 8),
                2 => bytes.insert(at, value),
                3 => drop(bytes.drain(at..bytes.len().min(at + usize::from(value)))),
                _ => bytes.extend_from_within(at..),
            }
            bytes.truncate(1 << 14);
        }
        (decoder.decode)(&bytes, case.version);
    });
}

/// Whole frames, as client and as broker.
#[test]
fn arbitrary_frames() {
    bolero::check!().with_iterations(20_000).for_each(|input: &[u8]| {
        let (_, allocated) = allocated_by(|| {
            let _ = correlation_id(input);
            let _ = decode_request_header(input);
        });
        check_budget(allocated, input, "decode_request_header");
        let version = input.first().map_or(0, |byte| i16::from(*byte) % 20);
        let (_, allocated) = allocated_by(|| {
            let _ = decode_response::<fetch::FetchRequest<'_>>(input, version);
        });
        check_budget(allocated, input, "decode_response");
    });
}

/// Accounts that refuse every login.
struct Nobody;

impl Accounts for Nobody {
    fn has_password(&self, _username: &str, _password: &Secret) -> bool {
        false
    }

    fn scram_credential(&self, _hash: ScramHash, _username: &str) -> Option<ScramCredential> {
        None
    }

    fn delegation_token(&self, _hash: ScramHash, _token_id: &str) -> Option<(ScramCredential, Authenticated)> {
        None
    }

    fn check_token(&self, _token: &str, _extensions: &Extensions) -> Result<Authenticated, TokenRefusal> {
        Err(TokenRefusal::status("invalid_token"))
    }
}

/// Messages before authentication, to client and broker.
#[test]
fn arbitrary_sasl_messages() {
    bolero::check!().with_iterations(20_000).for_each(|input: &[u8]| {
        for mechanism in Mechanism::ALL {
            let Some(mut server) = ServerExchange::new(mechanism, [0; 24]) else { continue };
            let (_, allocated) = allocated_by(|| server.step(input, &Nobody));
            check_budget(allocated, input, mechanism.name());
        }
        let (hash, username, password) = (ScramHash::Sha256, "user".to_owned(), "password".into());
        let credentials = Credentials::Scram { hash, username, password, delegation_token: false };
        let (mut client, _) = ClientExchange::start(&credentials, [0; 24]).unwrap();
        // Valid nonce for these random bytes, so that the rest is parsed.
        let message = [b"r=".as_slice(), &[b'A'; 32], input].concat();
        let (step, allocated) = allocated_by(|| client.step(&message));
        assert!(!matches!(step, Ok(ExchangeStep::Done)));
        check_budget(allocated, &message, "SCRAM, client");
    });
}

/// Lengths, counts and varints at their extremes, at every place of a full message in every version.
#[test]
fn extreme_numbers_everywhere() {
    const EXTREMES: &[&[u8]] = &[
        &[0x7f, 0xff, 0xff, 0xff],
        &[0x80, 0x00, 0x00, 0x00],
        &[0xff, 0xff, 0xff, 0xfe],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0x7f, 0xff],
        &[0x00],
    ];
    let full = golden().iter().filter(|(_, case)| ["populated", "tagged"].contains(&case.name.as_str()));
    for (decoder, case) in full {
        for at in 0..case.bytes.len() {
            for extreme in EXTREMES {
                let mut hostile = case.bytes.to_vec();
                let end = hostile.len().min(at + extreme.len());
                hostile[at..end].copy_from_slice(&extreme[..end - at]);
                (decoder.decode)(&hostile, case.version);
            }
        }
    }
}

fn decode(name: &str, bytes: &[u8], version: i16) -> bool {
    let decoder = DECODERS.iter().find(|decoder| decoder.name == name).unwrap();
    (decoder.decode)(bytes, version)
}

/// Counts that the remaining bytes could hold are still not trusted for memory: an array with a broken first item must
/// have reserved no more than the frame's own size.
#[test]
fn an_array_that_breaks_at_once_costs_no_more_than_its_frame() {
    // MetadataRequest 9: 32,767 topics, the first with a name that ends in the middle of a character.
    let mut frame = vec![0x80, 0x80, 0x02, 2, 0xc3];
    frame.resize(1 << 17, 0);
    let read = || metadata::MetadataRequest::decode(&mut Reader::new(&frame), 9);
    let (result, allocated) = allocated_by(read);
    assert!(matches!(result, Err(WireError::InvalidUtf8 { .. })), "{result:?}");
    assert!(allocated <= frame.len(), "{allocated} bytes allocated for {}", frame.len());
}

/// Most expensive frames: arrays of the smallest items, as many as fit.
#[test]
fn the_smallest_items_stay_within_the_budget() {
    const ITEMS: usize = 100_000;
    let varint = |mut value: usize| {
        let mut bytes = Vec::new();
        while value >= 0x80 {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    };
    // MetadataRequest 9: topics with empty names and no tags, then the three flags and the tags.
    let mut topics = varint(ITEMS + 1);
    topics.extend([1, 0].repeat(ITEMS));
    topics.extend([0; 4]);
    assert!(decode("MetadataRequest", &topics, 9));
    // OffsetFetchRequest 8: groups with empty names, no topics and no tags, then the flag and the tags.
    let mut groups = varint(ITEMS + 1);
    groups.extend([1, 1, 0].repeat(ITEMS));
    groups.extend([0; 2]);
    assert!(decode("OffsetFetchRequest", &groups, 8));
    // ListGroupsResponse 3: the throttle time and the error, groups of empty strings without tags, then the tags.
    let mut groups = vec![0; 6];
    groups.extend(varint(ITEMS + 1));
    groups.extend([1, 1, 0].repeat(ITEMS));
    groups.push(0);
    assert!(decode("ListGroupsResponse", &groups, 3));
    // ResponseHeader 1: empty tagged fields.
    let mut tags = vec![0; 4];
    tags.extend(varint(ITEMS));
    (0..ITEMS).for_each(|tag| tags.extend([varint(tag), vec![0]].concat()));
    assert!(decode("ResponseHeader", &tags, 1));
}
