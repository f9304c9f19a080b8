//! Restarts of a broker with a data directory: acknowledged records survive, however the broker ended.

use std::fs;
use std::path::{Path, PathBuf};

use monedula_broker::BrokerError;
use monedula_broker::core::Core;
use monedula_broker::security::SecurityProtocol;
use monedula_broker::settings::Settings;
use monedula_protocol::api::Request;
use monedula_protocol::messages::alter_client_quotas::{
    AlterClientQuotasEntity, AlterClientQuotasEntry, AlterClientQuotasOp, AlterClientQuotasRequest,
};
use monedula_protocol::messages::create_topics::{CreatableTopic, CreateTopicsRequest};
use monedula_protocol::messages::delete_topics::DeleteTopicsRequest;
use monedula_protocol::messages::describe_client_quotas::DescribeClientQuotasRequest;
use monedula_protocol::records::BatchEncoder;
use serde_json::{Value, json};

use crate::helpers::*;
use crate::support::{Outcome, START_MS, World, topic};

/// A directory that is removed on drop.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("monedula-data-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings { data_dir: Some(self.0.clone()), ..Settings::default() }
    }

    /// All files in the directory, sorted by name.
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
    // A duplicate batch is answered with its first offset; the next sequence number is accepted.
    assert_eq!(produce(&mut world, &numbered).base_offset, 2);
    let next = encode(&fill(BatchEncoder::new().producer(5, 0, 1), &["d"]));
    assert_eq!(produce(&mut world, &next).base_offset, 3);
    assert_eq!(produce(&mut world, &batch(&[&"x".repeat(6000)])).error_code, 10);
    // A new topic gets a new id.
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
    let request = DeleteTopicsRequest { topic_names: vec![TOPIC], timeout_ms: 1000, ..Default::default() };
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
    // The partition's directory is created with its first record, so a file of its name makes that fail.
    let topic = directory.files().into_iter().find(|file| file.ends_with("topic.json")).unwrap();
    let in_the_way = topic.parent().unwrap().join("0");
    fs::write(&in_the_way, "").unwrap();
    let answer = produce(&mut world, &batch(&["a"]));
    assert_eq!((answer.error_code, answer.base_offset), (56, -1));
    assert_eq!(fetch(&mut world, 0).high_watermark, 0);
    fs::remove_file(&in_the_way).unwrap();
    assert_eq!(produce_values(&mut world, &["b"]), 0);
}

/// Sends a request while no file of a topic can be written, which closes the connection.
#[cfg(unix)]
fn call_without_topics<'q, R: Request<'q>>(directory: &TempDir, world: &mut World, request: &R, version: i16) {
    let topics = directory.0.join("topics");
    let away = directory.0.join("away");
    fs::rename(&topics, &away).unwrap();
    fs::write(&topics, "").unwrap();
    let connection = world.connect(1);
    world.send_on(connection, request, version);
    assert!(matches!(world.outcome(connection), Some(Outcome::Closed(_))));
    fs::remove_file(&topics).unwrap();
    fs::rename(&away, &topics).unwrap();
}

/// A client that asks again hears that the topics are there, or gone: so they have to be, after a restart too.
#[cfg(unix)]
#[test]
fn what_could_not_be_saved_of_several_topics_is_saved_with_the_next_request() {
    let directory = TempDir::new("unsaved");
    let names = ["a", "b", "c"];
    let there = |world: &mut World| names.map(|name| topic(world, 1, name).error_code == 0);
    let mut world = World::new(directory.settings());
    let new = |name| CreatableTopic { name, num_partitions: 1, replication_factor: 1, ..Default::default() };
    let create = CreateTopicsRequest { topics: names.map(new).into(), timeout_ms: 1000, ..Default::default() };
    call_without_topics(&directory, &mut world, &create, 7);
    assert_eq!(there(&mut world), [true; 3]);
    drop(world);
    let mut world = World::new(directory.settings());
    assert_eq!(there(&mut world), [true; 3]);
    let delete = DeleteTopicsRequest { topic_names: names.into(), timeout_ms: 1000, ..Default::default() };
    call_without_topics(&directory, &mut world, &delete, 5);
    assert_eq!(there(&mut world), [false; 3]);
    drop(world);
    assert_eq!(there(&mut World::new(directory.settings())), [false; 3]);
}

/// Starts a broker on a data directory without the file or directory `taken`. The start must fail with an error about
/// the path `told`. Returns the error's message.
#[track_caller]
fn start_without(directory: &TempDir, taken: &Path, told: &Path) -> String {
    let away = directory.0.with_extension("away");
    fs::rename(taken, &away).unwrap();
    let error = Core::new(directory.settings(), START_MS).unwrap_err();
    let BrokerError::Storage { path, problem } = error else { panic!("{error}") };
    assert_eq!(path, told);
    // The failed start changes nothing: with the file back the broker can start.
    fs::rename(&away, taken).unwrap();
    problem
}

#[test]
fn what_was_taken_out_of_the_directory_is_told() {
    let directory = TempDir::new("robbed");
    let mut settings = directory.settings();
    settings.kafka.set("log.segment.bytes", &batch(&["a"]).len().to_string()).unwrap();
    let mut world = World::new(settings.clone());
    let id = create(&mut world, TOPIC);
    for value in ["a", "b", "c", "d"] {
        produce_values(&mut world, &[value]);
    }
    world.control(json!({"command": "delete_records", "topic": TOPIC, "partition": 0, "before": 1}));
    world.control(json!({"command": "run_retention"}));
    drop(world);
    let hex: String = id.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let topic = directory.0.join("topics").join(hex);
    let log = topic.join("0");
    let segment = |offset: i64| log.join(format!("{offset:020}.log"));
    let missing = [
        (directory.0.join("broker.json"), None, "there are topics"),
        (directory.0.join("topics"), None, "a broker has run here before"),
        (topic.join("topic.json"), None, "the topic's partitions are there"),
        (topic.clone(), None, "which has a topic"),
        (log.clone(), None, "which has records of partition 0 of topic orders"),
        (segment(1), Some(segment(2)), "the files before it are missing"),
        (segment(2), Some(segment(3)), "the file before it goes up to 2"),
    ];
    for (taken, told, words) in missing {
        let problem = start_without(&directory, &taken, told.as_ref().unwrap_or(&taken));
        assert!(problem.contains(words), "{}: {problem}", taken.display());
    }
    let mut world = World::new(settings);
    assert_eq!(create(&mut world, TOPIC), id);
    let left: Vec<String> = all_records(&mut world, 1).into_iter().map(|(_, value)| value).collect();
    assert_eq!(left, ["b", "c", "d"]);
    // A log that was emptied on purpose goes on at its log start offset.
    drop(world);
    fs::remove_dir_all(&log).unwrap();
    fs::create_dir(&log).unwrap();
    let mut world = World::new(directory.settings());
    assert_eq!((list_offset(&mut world, -2, 0).1, produce_values(&mut world, &["e"])), (1, 1));
}

#[test]
fn a_topic_that_was_deleted_half_way_is_gone() {
    let directory = TempDir::new("half-deleted");
    let mut world = World::new(directory.settings());
    let id = create(&mut world, TOPIC);
    produce_values(&mut world, &["a"]);
    drop(world);
    let hex: String = id.0.iter().map(|byte| format!("{byte:02x}")).collect();
    fs::remove_file(directory.0.join("known").join(&hex)).unwrap();
    let topic = directory.0.join("topics").join(&hex);
    fs::rename(&topic, topic.with_extension("deleted")).unwrap();
    // The directory of a topic whose creation was interrupted has no partitions.
    fs::create_dir(directory.0.join("topics").join("0".repeat(31) + "7")).unwrap();
    let mut world = World::new(directory.settings());
    assert_ne!(create(&mut world, TOPIC), id);
    assert_eq!(fetch(&mut world, 0).high_watermark, 0);
    assert_eq!(fs::read_dir(directory.0.join("topics")).unwrap().count(), 1);
}

/// The settings of a broker where anna and ben log in, with an authorizer.
fn secured(directory: &TempDir) -> Settings {
    let mut settings = directory.settings();
    settings.security.protocol = SecurityProtocol::SaslPlaintext;
    settings.security.users = [("anna".to_owned(), "first".into()), ("ben".to_owned(), "other".into())].into();
    settings.set("super.users", "User:ANONYMOUS").unwrap();
    settings.set("authorizer.class.name", "StandardAuthorizer").unwrap();
    settings
}

fn acl() -> Value {
    json!({"resource_type": "TOPIC", "name": "orders", "pattern_type": "LITERAL", "principal": "User:anna", "host": "*",
        "operation": "READ", "permission": "ALLOW"})
}

#[test]
fn users_and_acls_outlive_the_broker() {
    let directory = TempDir::new("users");
    let mut world = World::new(secured(&directory));
    world.control(json!({"command": "set_password", "user": "anna", "password": "canary"}));
    world.control(json!({"command": "remove_user", "user": "ben"}));
    world.control(json!({"command": "set_password", "user": "eve", "password": "new"}));
    world.control(json!({"command": "create_acls", "acls": [acl()]}));
    drop(world);
    for file in directory.files() {
        let content = fs::read(&file).unwrap();
        assert!(!content.windows(6).any(|part| part == b"canary"), "{} has a password", file.display());
    }
    let mut world = World::new(secured(&directory));
    assert_eq!(world.control(json!({"command": "users"})), json!(["anna", "eve"]));
    assert_eq!(world.control(json!({"command": "acls"})), json!([acl()]));
    world.control(json!({"command": "delete_acls", "acls": [acl()]}));
    drop(world);
    let mut world = World::new(secured(&directory));
    assert_eq!(world.control(json!({"command": "acls"})), json!([]));
}

#[test]
fn quotas_outlive_the_broker() {
    let directory = TempDir::new("quotas");
    let entity = vec![AlterClientQuotasEntity { entity_type: "user", entity_name: Some("anna"), ..Default::default() }];
    let ops = vec![AlterClientQuotasOp { key: "producer_byte_rate", value: 1024.0, ..Default::default() }];
    let entries = vec![AlterClientQuotasEntry { entity, ops, ..Default::default() }];
    let mut world = World::new(directory.settings());
    let altered = world.call(1, &AlterClientQuotasRequest { entries, ..Default::default() }, 1);
    assert_eq!(altered.entries[0].error_code, 0);
    drop(world);
    let mut world = World::new(directory.settings());
    let described = world.call(1, &DescribeClientQuotasRequest::default(), 1);
    let entry = &described.entries.as_ref().unwrap()[0];
    assert_eq!((entry.entity[0].entity_name, entry.values[0].value), (Some("anna"), 1024.0));
}

#[cfg(unix)]
#[test]
fn only_its_owner_may_read_the_file_of_users() {
    use std::os::unix::fs::PermissionsExt;
    let directory = TempDir::new("private");
    World::new(secured(&directory)).control(json!({"command": "users"}));
    let mode = fs::metadata(directory.0.join("security")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_file_of_users_that_is_gone_or_damaged_keeps_the_broker_from_starting() {
    let directory = TempDir::new("unsafe");
    World::new(secured(&directory)).control(json!({"command": "set_password", "user": "eve", "password": "new"}));
    let file = directory.0.join("security");
    let problem = start_without(&directory, &file, &file);
    assert!(problem.contains("users, ACLs, client quotas and delegation tokens"), "{problem}");
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(&file, &bytes).unwrap();
    let error = Core::new(directory.settings(), START_MS).unwrap_err();
    let BrokerError::Storage { path, problem } = error else { panic!("{error}") };
    assert_eq!(path, file);
    assert!(problem.contains("does not fit its checksum"), "{problem}");
    // The error says what to do, and that helps.
    fs::remove_file(&file).unwrap();
    fs::remove_file(directory.0.join("known").join("security")).unwrap();
    Core::new(directory.settings(), START_MS).unwrap();
}
