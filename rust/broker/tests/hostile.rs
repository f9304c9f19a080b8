//! Invalid frames to a broker with topics and groups: each gets an answer or closes its connection. None causes a
//! panic, or allocations out of proportion to its size.
//!
//! The properties are fuzz targets as well:
//!
//! ```sh
//! cargo bolero test -p monedula-broker --rustc-bootstrap --profile release --sanitizer NONE --test hostile mutated_requests
//! ```
//!
//! In a plain `cargo test` they run their corpus in `__fuzz__`, and random bytes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../protocol/tests/support/allocations.rs"]
mod allocations;
mod support;

use std::path::Path;
use std::sync::OnceLock;

use allocations::allocated_by;
use bytes::Bytes;
use monedula_protocol::api::{ApiKey, supported};
use monedula_protocol::base64;
use serde_json::{Value, json};
use support::World;

/// The limit on the sum of all allocations for a frame, in bytes. It must allow for creating the internal topics on
/// first use; `COST_PER_BYTE`, for each byte of the frame, must allow for decompressing batches.
const COST_PER_FRAME: usize = 32 << 20;
const COST_PER_BYTE: usize = 4096;

/// A cluster with topics, and with few partitions of the internal topics, so that groups and transactions share them.
fn world() -> World {
    let mut world =
        World::with(2, &[("offsets.topic.num.partitions", "2"), ("transaction.state.log.num.partitions", "2")]);
    for topic in ["orders", "t"] {
        world.control(json!({"command": "create_topic", "topic": topic, "partitions": 3}));
    }
    world
}

fn feed(world: &mut World, frame: Vec<u8>) {
    let (length, connection) = (frame.len(), world.connect(1));
    let ((), allocated) = allocated_by(|| world.send_frame(connection, Bytes::from(frame)));
    assert!(allocated <= COST_PER_FRAME + COST_PER_BYTE * length, "{allocated} bytes for a frame of {length}");
}

/// Every golden request as a frame without its length field.
fn golden() -> &'static [Vec<u8>] {
    static GOLDEN: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    GOLDEN.get_or_init(|| supported().iter().flat_map(|(key, ..)| of(*key)).collect())
}

fn of(key: ApiKey) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let text = std::fs::read_to_string(folder.join(format!("{key}Request.jsonl"))).unwrap();
    let frame = |line: &str| {
        let case: Value = serde_json::from_str(line).unwrap();
        let body = base64::decode(case["bytes"].as_str()?)?;
        let version = case["version"].as_i64().unwrap() as i16;
        let mut frame = [key.code().to_be_bytes(), version.to_be_bytes()].concat();
        frame.extend([0, 0, 0, 9, 0, 1, b'c']);
        frame.extend((version >= key.flexible_from()).then_some(0));
        frame.extend(body);
        Some(frame)
    };
    text.lines().filter_map(frame).collect()
}

fn edit(frame: &mut Vec<u8>, edits: &[u8]) {
    for &[operation, high, low, value] in edits.as_chunks().0 {
        let at = usize::from(u16::from_be_bytes([high, low])) % (frame.len() + 1);
        match operation % 5 {
            0 if at < frame.len() => frame[at] = value,
            1 if at < frame.len() => frame[at] ^= 1 << (value % 8),
            2 => frame.insert(at, value),
            3 => drop(frame.drain(at..frame.len().min(at + usize::from(value)))),
            _ => frame.extend_from_within(at..),
        }
        frame.truncate(1 << 14);
    }
}

#[test]
fn arbitrary_frames() {
    let mut fed = world();
    let world = std::panic::AssertUnwindSafe(std::cell::RefCell::new(&mut fed));
    bolero::check!().with_iterations(20_000).for_each(|input: &[u8]| feed(&mut world.borrow_mut(), input.to_vec()));
}

/// Each ten bytes of the input select a golden request (two bytes) and edit it twice. All requests go to the same
/// cluster, then time passes.
#[test]
fn mutated_requests() {
    bolero::check!().with_iterations(3_000).for_each(|input: &[u8]| {
        let mut world = world();
        for &[high, low, ref edits @ ..] in
            &input.as_chunks::<10>().0[..input.len().div_ceil(10).saturating_sub(1).min(16)]
        {
            let choice = usize::from(u16::from_be_bytes([high, low])) % golden().len();
            let mut frame = golden()[choice].clone();
            edit(&mut frame, edits);
            feed(&mut world, frame);
        }
        world.advance(120_000);
    });
}

/// Sends every golden request unchanged, one after the other, then with extreme numbers at every position.
#[test]
fn extreme_numbers_everywhere() {
    const EXTREMES: &[&[u8]] =
        &[&[0x7f, 0xff, 0xff, 0xff], &[0x80, 0, 0, 0], &[0xff, 0xff, 0xff, 0xff, 0x0f], &[0x7f, 0xff], &[0]];
    let mut whole = world();
    for frame in golden() {
        feed(&mut whole, frame.clone());
    }
    whole.advance(3_600_000);
    for frame in golden() {
        let mut world = world();
        for at in 4..frame.len() {
            for extreme in EXTREMES {
                let mut hostile = frame.clone();
                let end = hostile.len().min(at + extreme.len());
                hostile[at..end].copy_from_slice(&extreme[..end - at]);
                feed(&mut world, hostile);
            }
        }
        world.advance(60_000);
    }
}
