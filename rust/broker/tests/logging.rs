//! The log messages about requests and answers.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::cell::RefCell;

use log::{LevelFilter, Log, Metadata, Record};
use monedula_protocol::messages::api_versions::ApiVersionsRequest;
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

// seed: S106
#[test]
fn requests_and_answers_are_told_at_debug_and_their_bytes_at_trace_only() {
    log::set_logger(&Lines).unwrap();
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
