//! The log messages about requests and answers.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use log::{LevelFilter, Log, Metadata, Record};
use monedula_protocol::messages::api_versions::ApiVersionsRequest;
use monedula_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use serde_json::json;
use support::World;

thread_local! {
    static LINES: RefCell<Vec<(log::Level, String)>> = const { RefCell::new(Vec::new()) };
}

struct Lines;

impl Log for Lines {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        LINES.with_borrow_mut(|lines| lines.push((record.level(), record.args().to_string())));
    }

    fn flush(&self) {}
}

/// One test at a time: there is one logger and one level for all threads.
fn logger() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    // It is set already if another test was first.
    let _ = log::set_logger(&Lines);
    guard
}

fn metadata(world: &mut World, topics: &[&'static str]) {
    let topic = |name: &&'static str| MetadataRequestTopic { name: Some(name), ..Default::default() };
    let topics = Some(topics.iter().map(topic).collect());
    let request = MetadataRequest { topics, allow_auto_topic_creation: false, ..Default::default() };
    world.call(1, &request, 12);
}

#[test]
fn an_answer_is_told_with_its_errors() {
    let _one = logger();
    log::set_max_level(LevelFilter::Debug);
    let mut world = World::default();
    world.control(json!({"command": "create_topic", "topic": "there", "partitions": 1}));
    LINES.take();
    metadata(&mut world, &["there", "missing", "a b", "gone"]);
    let lines = LINES.take();
    let answer = &lines.last().unwrap().1;
    assert!(answer.ends_with(" bytes, INVALID_TOPIC_EXCEPTION, 2 UNKNOWN_TOPIC_OR_PARTITION"), "{answer}");
}

#[test]
fn a_fault_that_takes_effect_is_told() {
    let _one = logger();
    log::set_max_level(LevelFilter::Debug);
    let mut world = World::default();
    world.control(json!({"command": "create_topic", "topic": "there", "partitions": 1}));
    let error = json!({"effect": "error", "error": "LEADER_NOT_AVAILABLE"});
    world.control(json!({"command": "fault", "fault": {"when": {"topic": "there"}, "what": error, "count": 1}}));
    world.control(json!({"command": "fault", "fault": {"when": {"apis": ["Metadata"]}}}));
    LINES.take();
    metadata(&mut world, &["there"]);
    let texts: Vec<String> = LINES.take().into_iter().map(|(_, text)| text).collect();
    let told: Vec<&String> = texts.iter().filter(|text| text.starts_with("fault ")).collect();
    let [fault] = told[..] else { panic!("an observer has no effect: {texts:?}") };
    assert!(fault.starts_with("fault 1 takes effect on Metadata v12, correlation id 1 of connection "), "{fault}");
    assert!(fault.contains("LEADER_NOT_AVAILABLE"), "{fault}");
    assert!(texts.last().unwrap().ends_with(" bytes, LEADER_NOT_AVAILABLE"), "{texts:?}");
}

#[test]
fn the_last_requests_are_kept_with_what_became_of_them() {
    let _one = logger();
    let mut world = World::default();
    let fault = json!({"when": {"apis": ["Metadata"]}, "what": {"effect": "close"}, "count": 1});
    world.control(json!({"command": "fault", "fault": fault}));
    let connection = world.connect(1);
    let topics = Some(vec![MetadataRequestTopic { name: Some("missing"), ..Default::default() }]);
    let request = MetadataRequest { topics, allow_auto_topic_creation: false, ..Default::default() };
    world.send_on(connection, &request, 12);
    metadata(&mut world, &["missing"]);
    let requests = world.control(json!({"command": "requests"}));
    let [closed, answered] = &requests.as_array().unwrap()[..] else { panic!("{requests}") };
    assert_eq!(
        (&closed["ended"], &closed["faults"], &closed["bytes"]),
        (&json!("a fault closes it"), &json!([1]), &json!(null))
    );
    assert_eq!((&answered["api"], &answered["faults"]), (&json!("Metadata"), &json!([])));
    assert_eq!(answered["errors"], json!({"UNKNOWN_TOPIC_OR_PARTITION": 1}));
    // Only so many are kept.
    (0..200).for_each(|_| metadata(&mut world, &["missing"]));
    assert_eq!(world.control(json!({"command": "requests"})).as_array().unwrap().len(), 100);
}

// req: S106
#[test]
fn requests_and_answers_are_told_at_debug_and_their_bytes_at_trace_only() {
    let _one = logger();
    let lines_at = |level: LevelFilter| {
        log::set_max_level(level);
        let mut world = World::default();
        LINES.take();
        world.call(1, &ApiVersionsRequest::default(), 1);
        LINES.take()
    };
    assert_eq!(lines_at(LevelFilter::Info), []);
    let debug = lines_at(LevelFilter::Debug);
    let texts: Vec<&str> = debug.iter().map(|(_, text)| text.as_str()).collect();
    let [request, answer] = texts[..] else { panic!("{texts:?}") };
    assert_eq!(request, "node 1: ApiVersions v1, correlation id 1, client \"test\" at 127.0.0.1: 14 bytes");
    assert!(answer.starts_with("node 1: answer to ApiVersions v1, correlation id 1, client \"test\": "), "{answer}");
    assert!(answer.ends_with(" bytes"), "{answer}");
    let trace = lines_at(LevelFilter::Trace);
    let hex: Vec<_> = trace.iter().filter(|(level, _)| *level == log::Level::Trace).collect();
    // The request: key 18, version 1, correlation id 1, the client id.
    assert!(hex[0].1.ends_with(": 0012000100000001000474657374"), "{}", hex[0].1);
    assert_eq!((trace.len(), hex.len()), (4, 2));
}
