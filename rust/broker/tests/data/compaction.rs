//! Automatic compaction of logs: when it runs, and which records it removes.

use monedula_protocol::records::{BatchEncoder, NewRecord};
use serde_json::json;

use crate::helpers::*;
use crate::restarts::TempDir;
use crate::support::World;

const BACKOFF_MS: i64 = 15_000;
const COMPACT: (&str, &str) = ("log.cleanup.policy", "compact");
/// The number of records of [`put`] that fit into a segment.
const PER_SEGMENT: usize = 10;

/// A batch with one record, always of the same size.
fn record(timestamp_ms: i64, key: u32) -> Vec<u8> {
    let mut encoder = BatchEncoder::new();
    let key = format!("{key:04}");
    encoder.append(NewRecord { timestamp_ms, key: Some(key.as_bytes()), value: Some(b"x"), headers: &[] });
    encode(&encoder)
}

fn put(world: &mut World, key: u32) {
    let batch = record(world.now_ms, key);
    assert_eq!(produce(world, &batch).error_code, 0);
}

/// A world with one topic, which is compacted and has ten records in a segment.
fn compacted(settings: &[(&str, &str)]) -> World {
    let segment_bytes = (PER_SEGMENT * record(0, 0).len()).to_string();
    let all: Vec<_> = settings.iter().copied().chain([COMPACT, ("log.segment.bytes", &segment_bytes)]).collect();
    world_with(1, &all)
}

fn left(world: &mut World) -> Vec<i64> {
    all_records(world, 0).into_iter().map(|(offset, _)| offset).collect()
}

#[test]
fn of_one_keys_records_the_last_stays_and_the_last_segment() {
    let mut world = compacted(&[]);
    (0..200).for_each(|_| put(&mut world, 7));
    world.advance(BACKOFF_MS - 1);
    assert_eq!(left(&mut world).len(), 200);
    world.advance(1);
    // Of the 19 closed segments only the last record is left. The active segment is not compacted.
    assert_eq!(left(&mut world), (189..200).collect::<Vec<_>>());
    // Without new records there is no further compaction.
    world.advance(24 * 3_600_000);
    assert_eq!(left(&mut world), (189..200).collect::<Vec<_>>());
    assert_eq!((list_offset(&mut world, -2, 0).1, list_offset(&mut world, -1, 0).1), (0, 200));
}

#[test]
fn a_topic_that_is_not_compacted_and_a_cleaner_that_is_off_keep_all() {
    for setting in [("log.cleanup.policy", "delete"), ("log.cleaner.enable", "false")] {
        let segment_bytes = (PER_SEGMENT * record(0, 0).len()).to_string();
        let mut world = world_with(1, &[COMPACT, ("log.segment.bytes", &segment_bytes), setting]);
        (0..50).for_each(|_| put(&mut world, 7));
        world.advance(10 * BACKOFF_MS);
        assert_eq!(left(&mut world).len(), 50, "{setting:?}");
    }
}

#[test]
fn too_small_a_part_that_is_new_is_not_looked_at() {
    let mut world = compacted(&[]);
    (0..101).for_each(|key| put(&mut world, key));
    world.advance(BACKOFF_MS);
    assert_eq!(left(&mut world).len(), 101);
    // Ten segments are clean. Ten dirty ones are half of the log, and the ratio must exceed one half.
    (0..100).for_each(|_| put(&mut world, 0));
    world.advance(10 * BACKOFF_MS);
    assert_eq!(left(&mut world).len(), 201);
    (0..10).for_each(|_| put(&mut world, 0));
    world.advance(BACKOFF_MS);
    assert_eq!(left(&mut world).len(), 99 + 1 + 1 + 1);
    // A smaller ratio takes effect as soon as it is set.
    (0..20).for_each(|_| put(&mut world, 1));
    world.advance(10 * BACKOFF_MS);
    assert_eq!(left(&mut world).len(), 122);
    world.alter_topic(TOPIC, &[("min.cleanable.dirty.ratio", "0.01")]);
    world.advance(BACKOFF_MS);
    assert!(left(&mut world).len() < 122, "{:?}", left(&mut world));
}

#[test]
fn what_has_waited_for_the_longest_lag_is_compacted_whatever_part_it_is() {
    // The dirty ratio cannot exceed 1, so this setting disables compaction by ratio.
    let never = ("log.cleaner.min.cleanable.ratio", "1");
    let mut world = compacted(&[never]);
    (0..25).for_each(|_| put(&mut world, 7));
    world.advance(24 * 3_600_000);
    assert_eq!(left(&mut world).len(), 25);
    let mut world = compacted(&[never, ("log.cleaner.max.compaction.lag.ms", "3600000")]);
    (0..25).for_each(|_| put(&mut world, 7));
    world.advance(3_600_000);
    assert_eq!(left(&mut world).len(), 25);
    world.advance(1);
    assert_eq!(left(&mut world), (19..25).collect::<Vec<_>>());
    // The first record that is younger by the maximum lag closes the active segment.
    put(&mut world, 7);
    world.advance(BACKOFF_MS);
    assert_eq!(left(&mut world), [24, 25]);
}

#[test]
fn what_is_younger_than_the_shortest_lag_stays() {
    let mut world = compacted(&[("log.cleaner.min.compaction.lag.ms", "3600000")]);
    (0..20).for_each(|_| put(&mut world, 7));
    world.advance(1_800_000);
    (0..20).for_each(|_| put(&mut world, 7));
    assert_eq!(left(&mut world).len(), 40);
    world.advance(1_799_999);
    assert_eq!(left(&mut world).len(), 40);
    // With time the first segments reach the minimum lag, and later the others.
    world.advance(1 + BACKOFF_MS);
    assert_eq!(left(&mut world), (19..40).collect::<Vec<_>>());
    world.advance(1_800_000);
    assert_eq!(left(&mut world), (29..40).collect::<Vec<_>>());
}

#[test]
fn a_tombstone_goes_in_a_round_after_its_retention() {
    let retention_ms = (BACKOFF_MS + 1).to_string();
    let mut world = compacted(&[("log.cleaner.delete.retention.ms", &retention_ms)]);
    let mut encoder = BatchEncoder::new();
    encoder.append(NewRecord { timestamp_ms: world.now_ms, key: Some(b"gone"), value: None, headers: &[] });
    put(&mut world, 1);
    assert_eq!(produce(&mut world, &encode(&encoder)).error_code, 0);
    let fill = |world: &mut World| (0..30).for_each(|_| put(world, 2));
    fill(&mut world);
    world.advance(BACKOFF_MS);
    assert_eq!(left(&mut world)[..2], [0, 1]);
    // A compaction just before the retention ends keeps the tombstone. The cleaner backs off while the log is filled,
    // so that it takes all the records in one round.
    fill(&mut world);
    world.advance(BACKOFF_MS);
    assert_eq!(left(&mut world)[..2], [0, 1]);
    fill(&mut world);
    world.advance(BACKOFF_MS);
    assert_eq!(left(&mut world)[0], 0);
    assert!(!left(&mut world).contains(&1));
}

#[test]
fn a_policy_and_a_backoff_that_are_set_later_hold_from_then_on() {
    let segment_bytes = (PER_SEGMENT * record(0, 0).len()).to_string();
    let mut world = world_with(1, &[("log.segment.bytes", &segment_bytes)]);
    (0..25).for_each(|_| put(&mut world, 7));
    world.advance(3_600_000);
    assert_eq!(left(&mut world).len(), 25);
    world.alter_topic(TOPIC, &[("cleanup.policy", "compact")]);
    world.advance(BACKOFF_MS);
    assert_eq!(left(&mut world), (19..25).collect::<Vec<_>>());
    world.alter_broker(&[("log.cleaner.backoff.ms", "200")]);
    (0..20).for_each(|_| put(&mut world, 7));
    world.advance(200);
    assert_eq!(left(&mut world), (39..45).collect::<Vec<_>>());
}

#[test]
fn a_log_in_files_is_compacted_and_read_again_after_a_restart() {
    let directory = TempDir::new("compaction");
    let mut settings = directory.settings();
    let segment_bytes = (PER_SEGMENT * record(0, 0).len()).to_string();
    for (name, value) in [COMPACT, ("log.segment.bytes", &segment_bytes)] {
        settings.kafka.set(name, value).unwrap();
    }
    let mut world = World::new(settings.clone());
    create(&mut world, TOPIC);
    (0..200).for_each(|_| put(&mut world, 7));
    world.advance(BACKOFF_MS);
    assert_eq!(left(&mut world), (189..200).collect::<Vec<_>>());
    drop(world);
    let mut world = World::new(settings);
    assert_eq!(left(&mut world), (189..200).collect::<Vec<_>>());
    world.advance(10 * BACKOFF_MS);
    assert_eq!(left(&mut world), (189..200).collect::<Vec<_>>());
    // The boundary between clean and dirty records is kept in memory only, so after a restart the whole log is
    // compacted once more.
    world.control(json!({"command": "compact", "topic": TOPIC}));
    assert_eq!(left(&mut world), [199]);
}
