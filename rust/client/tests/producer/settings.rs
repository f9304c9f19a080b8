//! Settings of a producer: their effects, and values that are refused.

use monedula_client::config::ConfigError;
use monedula_client::producer::ProducerConfig;
use monedula_engine::produce::Acks;
use monedula_protocol::compression::Compression;

use crate::support::{World, delivered, send};

fn parse(given: &[(&str, &str)]) -> Result<ProducerConfig, ConfigError> {
    ProducerConfig::parse([("bootstrap.servers", "h:1")].into_iter().chain(given.iter().copied()))
}

fn message(given: &[(&str, &str)]) -> String {
    parse(given).expect_err("must be refused").message
}

#[test]
fn the_defaults_are_java_s_but_for_the_batch() {
    let config = parse(&[]).expect("defaults");
    assert_eq!((config.acks, config.idempotent, config.codec), (Acks::All, true, Compression::None));
    assert_eq!((config.max_in_flight, config.retries), (5, i32::MAX as u32));
    assert_eq!((config.delivery_timeout.as_millis(), config.linger.as_millis()), (120_000, 5));
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
}

#[test]
fn names_of_librdkafka_mean_the_same() {
    let config = parse(&[
        ("message.timeout.ms", "60000"),
        ("queue.buffering.max.ms", "7"),
        ("queue.buffering.max.kbytes", "65536"),
        ("compression.codec", "zstd"),
        ("max.in.flight", "3"),
        ("request.required.acks", "-1"),
    ]);
    let config = config.expect("settings");
    assert_eq!((config.delivery_timeout.as_secs(), config.linger.as_millis()), (60, 7));
    assert_eq!((config.buffer_memory, config.codec, config.max_in_flight), (64 << 20, Compression::Zstd, 3));
    assert_eq!(config.level, Some(3));
}

#[test]
fn what_rules_idempotence_out_is_refused_where_it_was_asked_for_and_told_where_not() {
    let text = message(&[("enable.idempotence", "true"), ("acks", "1")]);
    assert!(text.contains("acks=1") && text.contains("acks=all"), "{text}");
    let text = message(&[("enable.idempotence", "true"), ("max.in.flight", "6")]);
    assert!(text.contains("=6") && text.contains("at most 5"), "{text}");
    assert!(message(&[("transactional.id", "t"), ("enable.idempotence", "false")]).contains("transactional.id=t"));
    let config = parse(&[("acks", "1")]).expect("settings");
    assert!(!config.idempotent && config.warnings[0].contains("goes on without idempotence"), "{:?}", config.warnings);
}

#[test]
fn contradictions_name_both_numbers_and_doubtful_settings_are_told() {
    let text = message(&[("delivery.timeout.ms", "1000"), ("request.timeout.ms", "2000"), ("linger.ms", "7")]);
    assert!(text.contains("1000") && text.contains("7 + 2000"), "{text}");
    let text = message(&[("buffer.memory", "100000"), ("max.request.size", "1048576")]);
    assert!(text.contains("100000") && text.contains("1048576"), "{text}");
    assert!(message(&[("compression.type", "gzip"), ("compression.level", "12")]).contains("1 to 9"));
    let config = parse(&[("enable.idempotence", "false")]).expect("settings");
    assert!(config.warnings[0].contains("max.in.flight.requests.per.connection=5"), "{:?}", config.warnings);
    let config = parse(&[("delivery.timeout.ms", "1000")]).expect("the other timeout was not given");
    assert!(config.client.request_timeout < config.delivery_timeout);
}

#[test]
fn settings_of_a_consumer_are_taken_with_a_word() {
    let config = parse(&[("group.id", "g"), ("auto.offset.reset", "earliest")]).expect("settings");
    assert!(config.warnings[0].contains("group.id is a setting of consumers"), "{:?}", config.warnings);
    assert!(message(&[("lingr.ms", "1")]).contains("linger.ms"));
}

// req: S170
#[test]
fn acks_go_out_as_they_are_set() {
    let world = World::new(&["events:1"], 1);
    for (acks, first) in [("all", Some(0)), ("1", Some(1)), ("0", None)] {
        let producer = world.producer(&[("acks", acks)]);
        assert_eq!(delivered(&send(&producer, "events", None, acks)).offset, first);
    }
    assert_eq!(world.read("events", 0, 3).len(), 3);
}
