//! Compares the partitioners with Kafka's and librdkafka's: `tests/golden/partitions.jsonl` has their partitions for
//! the same keys.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use monedula_engine::produce::{Partitioner, partition_of};
use monedula_protocol::base64;
use serde_json::Value;

/// Java's partitioner by its name in the golden file, then all of librdkafka's except the random one.
fn partitioners() -> Vec<(&'static str, Partitioner)> {
    let theirs = Partitioner::NAMES.into_iter().filter(|(_, partitioner)| *partitioner != Partitioner::Random);
    [("java", Partitioner::default())].into_iter().chain(theirs).collect()
}

#[test]
fn keys_are_where_java_and_librdkafka_put_them() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/partitions.jsonl");
    let text = std::fs::read_to_string(path).expect("golden file");
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let head = lines.next().expect("a first line");
    let counts: Vec<u32> = serde_json::from_value(head["counts"].clone()).unwrap();
    let mut compared = 0;
    for line in lines {
        let key = line["key"].as_str().map(|text| base64::decode(text).unwrap());
        for (name, partitioner) in partitioners() {
            let theirs: Option<Vec<i32>> = serde_json::from_value(line[name].clone()).unwrap();
            let ours: Option<Vec<i32>> =
                counts.iter().map(|count| partitioner.partition(key.as_deref(), *count)).collect();
            assert_eq!(ours, theirs, "{name} of {key:?} among {counts:?}");
            compared += 1;
        }
    }
    assert!(compared > 1500, "{compared} lines are not the golden file");
}

#[test]
fn random_draws_whatever_the_key_is() {
    for key in [None, Some(&b""[..]), Some(b"key")] {
        assert_eq!(Partitioner::Random.hash(key), None);
    }
}

#[test]
fn a_topic_without_partitions_has_none_for_a_key() {
    assert_eq!(Partitioner::Murmur2.partition(Some(b"key"), 0), None);
    assert_eq!(partition_of(7, 0), None);
}

#[test]
fn partitioners_are_found_by_their_names_only() {
    for (name, partitioner) in Partitioner::NAMES {
        assert_eq!(Partitioner::by_name(name), Some(partitioner));
    }
    assert_eq!(Partitioner::by_name("Murmur2"), None);
}
