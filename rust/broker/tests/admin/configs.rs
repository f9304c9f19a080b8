//! Configs of topics, brokers and groups.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::describe_configs::DescribeConfigsResult;

use crate::helpers::{
    BROKER, Change, GROUP, TOPIC, alter, alter_or_validate, configured, create, describe, described, topic,
};
use crate::support::World;

#[test]
fn a_topics_configs_are_described_with_where_they_come_from() {
    let mut world = World::with(1, &[("log.retention.bytes", "5")]);
    create(&mut world, vec![configured("a", &[("retention.ms", Some("7")), ("max.message.bytes", Some("9"))])]);
    let keys = ["retention.ms", "max.message.bytes", "retention.bytes", "min.insync.replicas", "flush.ms", "nothing"];
    let result = describe(&mut world, TOPIC, "a", &keys);
    let synonyms =
        |all: &[(&str, i8)]| all.iter().map(|(name, source)| ((*name).to_owned(), *source)).collect::<Vec<_>>();
    let expected = [
        ("flush.ms", ("9223372036854775807".to_owned(), 5, vec![])),
        ("max.message.bytes", ("9".to_owned(), 1, synonyms(&[("max.message.bytes", 1), ("message.max.bytes", 5)]))),
        (
            "min.insync.replicas",
            ("1".to_owned(), 3, synonyms(&[("min.insync.replicas", 3), ("min.insync.replicas", 5)])),
        ),
        ("retention.bytes", ("5".to_owned(), 4, synonyms(&[("log.retention.bytes", 4), ("log.retention.bytes", 5)]))),
        ("retention.ms", ("7".to_owned(), 1, synonyms(&[("retention.ms", 1)]))),
    ];
    let names: Vec<&str> = result.configs.iter().map(|config| config.name).collect();
    assert_eq!(names, expected.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    assert_eq!(described(&result), expected.map(|(_, described)| described));
    assert_eq!(result.configs.iter().map(|config| config.config_type).collect::<Vec<_>>(), [5, 3, 3, 5, 5]);
    assert_eq!(describe(&mut world, TOPIC, "a", &[]).configs.len(), 37);
    let error = |result: DescribeConfigsResult<'_>| (result.error_code, result.error_message.map(str::to_owned));
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    assert_eq!(error(describe(&mut world, TOPIC, "b", &[])), (unknown, Some(String::new())));
    assert_eq!(error(describe(&mut world, TOPIC, "b c", &[])).0, ErrorCode::InvalidTopicException.code());
}

#[test]
fn a_topics_configs_change_one_by_one() {
    use ErrorCode::{InvalidConfig, InvalidRequest, UnknownServerError, UnknownTopicOrPartition};
    let mut world = World::default();
    create(&mut world, vec![topic("a", 1, 1)]);
    let value = |world: &mut World, name: &'static str| described(&describe(world, TOPIC, "a", &[name]))[0].0.clone();
    assert_eq!(alter(&mut world, TOPIC, "a", &[("retention.ms", 0, Some("5"))]), (0, None));
    assert_eq!(value(&mut world, "retention.ms"), "5");
    assert_eq!(
        alter(&mut world, TOPIC, "a", &[("retention.ms", 1, None), ("cleanup.policy", 2, Some("compact"))]),
        (0, None)
    );
    assert_eq!(value(&mut world, "retention.ms"), "604800000");
    assert_eq!(value(&mut world, "cleanup.policy"), "delete,compact");
    assert_eq!(alter(&mut world, TOPIC, "a", &[("cleanup.policy", 3, Some("delete"))]), (0, None));
    assert_eq!(value(&mut world, "cleanup.policy"), "compact");
    assert_eq!(alter_or_validate(&mut world, TOPIC, "a", &[("retention.ms", 0, Some("5"))], true), (0, None));
    assert_eq!(value(&mut world, "retention.ms"), "604800000");
    let refusals: [(&str, &[Change<'_>], ErrorCode, &str); 9] = [
        (
            "a",
            &[("retention.ms", 2, Some("5"))],
            InvalidConfig,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        ("a", &[("foo", 3, Some("5"))], InvalidConfig, "Can't SUBTRACT to key foo because its type is not LIST."),
        (
            "a",
            &[("retention.ms", 0, Some("5")), ("retention.ms", 1, None)],
            InvalidRequest,
            "Error due to duplicate config keys",
        ),
        ("a", &[("retention.ms", 0, None)], InvalidRequest, "Null value not supported for : retention.ms"),
        (
            "a",
            &[("cleanup.policy", 2, Some("bogus"))],
            InvalidConfig,
            "Invalid value bogus for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ("a", &[("foo", 0, Some("5"))], InvalidConfig, "Unknown topic config name: foo"),
        ("b", &[("retention.ms", 0, Some("5"))], UnknownTopicOrPartition, "The topic 'b' does not exist."),
        ("", &[("retention.ms", 0, Some("5"))], InvalidRequest, "Default topic resources are not allowed."),
        ("a", &[("retention.ms", 7, Some("5"))], UnknownServerError, ""),
    ];
    for (name, changes, error, words) in refusals {
        let words = Some(words.to_owned()).filter(|words| !words.is_empty());
        assert_eq!(alter(&mut world, TOPIC, name, changes), (error.code(), words), "{name} {changes:?}");
    }
    assert_eq!(alter(&mut world, 99, "a", &[]), (InvalidRequest.code(), Some("Unknown resource type 99".to_owned())));
}

#[test]
fn brokers_settings_change_while_they_run_if_they_may() {
    use ErrorCode::{InvalidConfig, InvalidRequest};
    let mut world = World::with(2, &[]);
    create(&mut world, vec![topic("a", 1, 1)]);
    assert_eq!(alter(&mut world, BROKER, "", &[("log.retention.bytes", 0, Some("1000"))]), (0, None));
    assert_eq!(alter(&mut world, BROKER, "1", &[("log.retention.ms", 0, Some("7000"))]), (0, None));
    let bytes = describe(&mut world, TOPIC, "a", &["retention.bytes"]);
    let synonyms = vec![("log.retention.bytes".to_owned(), 3), ("log.retention.bytes".to_owned(), 5)];
    assert_eq!(described(&bytes), [("1000".to_owned(), 3, synonyms)]);
    let own = describe(&mut world, BROKER, "1", &["log.retention.ms", "num.partitions"]);
    assert_eq!(
        described(&own),
        [
            ("7000".to_owned(), 2, vec![("log.retention.ms".to_owned(), 2)]),
            ("1".to_owned(), 5, vec![("num.partitions".to_owned(), 5)]),
        ]
    );
    assert_eq!(own.configs.iter().map(|config| config.read_only).collect::<Vec<_>>(), [false, true]);
    let names =
        |result: &DescribeConfigsResult<'_>| result.configs.iter().map(|c| c.name.to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&describe(&mut world, BROKER, "", &[])), ["log.retention.bytes", "min.insync.replicas"]);
    assert_eq!(alter(&mut world, BROKER, "1", &[("log.retention.ms", 1, None)]), (0, None));
    assert_eq!(described(&describe(&mut world, BROKER, "1", &["log.retention.ms"]))[0].0, "null");
    let refusals: [(&str, Change<'_>, ErrorCode, &str); 8] = [
        (
            "1",
            ("num.partitions", 0, Some("7")),
            InvalidRequest,
            "Cannot update these configs dynamically: [num.partitions]",
        ),
        (
            "",
            ("num.partitions", 0, Some("7")),
            InvalidRequest,
            "Cannot update these configs dynamically: [num.partitions]",
        ),
        (
            "1",
            ("log.retention.ms", 0, Some("x")),
            InvalidRequest,
            "Invalid value x for configuration log.retention.ms: Not a number of type LONG",
        ),
        (
            "1",
            ("message.max.bytes", 0, Some("-1")),
            InvalidRequest,
            "Invalid value -1 for configuration message.max.bytes: Value must be at least 0",
        ),
        ("2", ("log.retention.ms", 0, Some("1")), InvalidRequest, "Unexpected broker id, expected 1, but received 2"),
        ("x", ("log.retention.ms", 0, Some("1")), InvalidRequest, "Node id must be an integer, but it is: x"),
        (
            "",
            ("min.insync.replicas", 1, None),
            InvalidConfig,
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        ),
        (
            "1",
            ("min.insync.replicas", 0, Some("1")),
            InvalidConfig,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        ),
    ];
    for (node, change, error, words) in refusals {
        let outcome = alter(&mut world, BROKER, node, &[change]);
        assert_eq!(outcome, (error.code(), Some(words.to_owned())), "{node} {change:?}");
    }
    let other = describe(&mut world, BROKER, "2", &[]);
    let words = "Unexpected broker id, expected 1 or empty string, but received 2";
    assert_eq!((other.error_code, other.error_message), (InvalidRequest.code(), Some(words)));
}

#[test]
fn groups_have_configs_within_the_brokers_limits() {
    let mut world = World::default();
    assert_eq!(alter(&mut world, GROUP, "g", &[("consumer.session.timeout.ms", 0, Some("50000"))]), (0, None));
    let session = describe(&mut world, GROUP, "g", &["consumer.session.timeout.ms"]);
    let synonyms =
        vec![("consumer.session.timeout.ms".to_owned(), 8), ("group.consumer.session.timeout.ms".to_owned(), 5)];
    assert_eq!(described(&session), [("50000".to_owned(), 8, synonyms)]);
    let least = "must be greater than or equal to group.consumer.min";
    let most = "must be less than or equal to group.consumer.max";
    for (name, value, words) in [
        ("consumer.session.timeout.ms", "100", format!("consumer.session.timeout.ms {least}.session.timeout.ms")),
        ("consumer.session.timeout.ms", "70000", format!("consumer.session.timeout.ms {most}.session.timeout.ms")),
        (
            "consumer.heartbeat.interval.ms",
            "100",
            format!("consumer.heartbeat.interval.ms {least}.heartbeat.interval.ms"),
        ),
        ("foo", "100", "Unknown group config name: foo".to_owned()),
    ] {
        let outcome = alter(&mut world, GROUP, "g", &[(name, 0, Some(value))]);
        assert_eq!(outcome, (ErrorCode::InvalidConfig.code(), Some(words)));
    }
    let words = "Default group resources are not allowed.".to_owned();
    let outcome = alter(&mut world, GROUP, "", &[("consumer.session.timeout.ms", 0, Some("50000"))]);
    assert_eq!(outcome, (ErrorCode::InvalidRequest.code(), Some(words)));
}
