//! A broker on a data directory: what it acknowledged is there when it starts again, however it ended.

use std::fs;
use std::path::PathBuf;

use monedula_broker::BrokerError;
use monedula_broker::core::Core;
use monedula_broker::settings::Settings;
use monedula_protocol::records::BatchEncoder;
use serde_json::json;

use crate::helpers::*;
use crate::support::{START_MS, World};

/// A directory that is gone with the value.
struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("monedula-data-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn settings(&self) -> Settings {
        Settings { data_dir: Some(self.0.clone()), ..Settings::default() }
    }

    /// The files below, by name.
    fn files(&self) -> Vec<PathBuf> {
        let mut directories = vec![self.0.clone()];
        let mut files = Vec::new();
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
                match entry.file_type().unwrap().is_dir() {
                    true => directories.push(entry.path()),
                    false => files.push(entry.path()),
                }
            }
        }
        files.sort();
        files
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn topics_and_records_outlive_the_broker() {
    let directory = TempDir::new("records");
    let mut world = World::new(directory.settings());
    world.control(json!({"command": "create_topic", "topic": TOPIC, "partitions": 2,
        "config": {"retention.ms": "-1", "max.message.bytes": "5000"}}));
    let id = create(&mut world, TOPIC);
    produce_values(&mut world, &["a", "b"]);
    let numbered = encode(&fill(BatchEncoder::new().producer(5, 0, 0), &["c"]));
    assert_eq!(produce(&mut world, &numbered).base_offset, 2);
    world.control(json!({"command": "delete_records", "topic": TOPIC, "partition": 0, "before": 1}));
    world.control(json!({"command": "truncate", "topic": TOPIC, "partition": 0, "offset": 3}));
    drop(world);

    let mut world = World::new(directory.settings());
    assert_eq!(create(&mut world, TOPIC), id);
    assert_eq!((list_offset(&mut world, -2, 0).1, list_offset(&mut world, -1, 0).1), (1, 3));
    assert_eq!(records(&fetch(&mut world, 1))[1..], [(1, "b".to_owned()), (2, "c".to_owned())]);
    // What came before comes again with its offset; what comes next goes on.
    assert_eq!(produce(&mut world, &numbered).base_offset, 2);
    let next = encode(&fill(BatchEncoder::new().producer(5, 0, 1), &["d"]));
    assert_eq!(produce(&mut world, &next).base_offset, 3);
    assert_eq!(produce(&mut world, &batch(&[&"x".repeat(6000)])).error_code, 10);
    // A topic made now has an id that was not given out before.
    assert_ne!(create(&mut world, "another"), id);
}

#[test]
fn a_deleted_topic_leaves_nothing() {
    use monedula_protocol::messages::delete_topics::DeleteTopicsRequest;
    let directory = TempDir::new("deleted");
    let mut world = World::new(directory.settings());
    create(&mut world, TOPIC);
    produce_values(&mut world, &["a"]);
    let with_log = directory.files();
    assert!(with_log.iter().any(|file| file.extension().is_some_and(|end| end == "log")), "{with_log:?}");
    let request = DeleteTopicsRequest { topic_names: vec![TOPIC], ..Default::default() };
    assert_eq!(world.call(1, &request, 5).responses[0].error_code, 0);
    let left: Vec<_> = directory.files().iter().map(|file| file.file_name().unwrap().to_owned()).collect();
    assert_eq!(left, ["broker.json", "lock"]);
    drop(world);
    let mut world = World::new(directory.settings());
    create(&mut world, TOPIC);
    assert_eq!(fetch(&mut world, 0).high_watermark, 0);
}

#[test]
fn a_directory_has_one_broker_at_a_time() {
    let directory = TempDir::new("locked");
    let world = World::new(directory.settings());
    let error = Core::new(directory.settings(), START_MS).unwrap_err();
    assert!(error.to_string().contains("another broker uses this data directory"), "{error}");
    drop(world);
    Core::new(directory.settings(), START_MS).unwrap();
}

#[test]
fn damage_keeps_the_broker_from_starting() {
    let directory = TempDir::new("damaged");
    let mut world = World::new(directory.settings());
    create(&mut world, TOPIC);
    produce_values(&mut world, &["a"]);
    produce_values(&mut world, &["b"]);
    drop(world);
    let log = directory.files().into_iter().find(|file| file.extension().is_some_and(|end| end == "log")).unwrap();
    let mut bytes = fs::read(&log).unwrap();
    bytes[40] ^= 1;
    fs::write(&log, bytes).unwrap();
    let error = Core::new(directory.settings(), START_MS).unwrap_err();
    let BrokerError::Storage { path, problem } = error else { panic!("{error}") };
    assert_eq!(path, log);
    assert!(problem.contains("damaged at byte 0, where offset 0 should be"), "{problem}");
}

#[cfg(unix)]
#[test]
fn what_cannot_be_written_is_not_acknowledged() {
    let directory = TempDir::new("unwritable");
    let mut world = World::new(directory.settings());
    create(&mut world, TOPIC);
    // The partition's directory is made with its first record: a file in its place is in the way.
    let topic = directory.files().into_iter().find(|file| file.ends_with("topic.json")).unwrap();
    let in_the_way = topic.parent().unwrap().join("0");
    fs::write(&in_the_way, "").unwrap();
    let answer = produce(&mut world, &batch(&["a"]));
    assert_eq!((answer.error_code, answer.base_offset), (56, -1));
    assert_eq!(fetch(&mut world, 0).high_watermark, 0);
    fs::remove_file(&in_the_way).unwrap();
    assert_eq!(produce_values(&mut world, &["b"]), 0);
}
