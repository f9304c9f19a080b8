//! Settings: names, values, and what contradicts itself.

use super::*;
use crate::KEYS;

fn parse(given: &[(&str, &str)]) -> Result<ClientConfig, ConfigError> {
    let servers = ("bootstrap.servers", "localhost:9092");
    ClientConfig::parse(std::iter::once(servers).chain(given.iter().copied()))
}

#[test]
fn what_means_nothing_under_the_protocol_of_the_group_is_warned_of() {
    let assignors = [("partition.assignment.strategy", "range"), ("group.remote.assignor", "uniform")];
    for (protocol, warned) in [
        ("classic", "group.remote.assignor means nothing"),
        ("consumer", "partition.assignment.strategy means nothing"),
    ] {
        let given = [("group.id", "etl"), ("group.protocol", protocol), assignors[0], assignors[1]];
        let warnings = parse(&given).expect("they are taken").warnings;
        assert!(matches!(&warnings[..], [one] if one.starts_with(warned)), "{warnings:?}");
    }
    let given = [("group.id", "etl"), ("group.protocol", "auto"), assignors[0], assignors[1]];
    assert_eq!(parse(&given).expect("either may come").warnings, [""; 0]);
}

fn message(given: &[(&str, &str)]) -> String {
    parse(given).expect_err("must be refused").message
}

#[test]
fn the_defaults_parse_and_every_key_takes_its_own_default() {
    parse(&[]).expect("defaults");
    for key in KEYS.iter().filter(|key| key.name != "bootstrap.servers") {
        let default = key.default.expect("all but bootstrap.servers have one");
        parse(&[(key.name, default)]).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn names_of_java_and_librdkafka_and_underscores_mean_the_same() {
    for name in ["fetch.max.wait.ms", "fetch.wait.max.ms", "fetch_max_wait_ms"] {
        assert_eq!(parse(&[(name, "42")]).expect(name).fetch_max_wait, Duration::from_millis(42));
    }
    assert_eq!(parse(&[("queued.max.messages.kbytes", "65536")]).expect("kbytes").queued_max_bytes, 64 << 20);
}

#[test]
fn an_unknown_key_names_the_nearest() {
    let text = message(&[("fetch.mn.bytes", "1")]);
    assert_eq!(text, "fetch.mn.bytes is no setting that this client knows; did you mean fetch.min.bytes?");
    assert!(message(&[("zzzzzz", "1")]).contains("config_keys()"));
    // By its letters the keystore would be, where the client's own certificate is.
    let text = message(&[("schema.registry.ssl.truststore.location", "/x")]);
    assert!(text.contains("schema.registry.ssl.ca.location") && !text.contains("keystore"), "{text}");
}

#[test]
fn values_out_of_bounds_name_the_bounds() {
    assert!(message(&[("fetch.min.bytes", "-1")]).contains("a whole number from 1 to"));
    assert!(message(&[("check.crcs", "maybe")]).contains("true or false"));
    assert!(message(&[("auto.offset.reset", "newest")]).contains("earliest"));
}

#[test]
fn a_reset_by_duration_is_taken_as_java_reads_it() {
    let reset = |value| parse(&[("auto.offset.reset", value)]).map(|config| config.reset);
    let week = ResetPolicy::ByDuration(Duration::from_secs(7 * 86_400));
    assert_eq!(reset("by_duration:P7D"), Ok(week));
    assert_eq!(reset("BY_DURATION:p7d"), Ok(week));
    assert_eq!(reset("by_duration:PT0.5S"), Ok(ResetPolicy::ByDuration(Duration::from_millis(500))));
    for (value, why) in [
        ("by_duration", "such as by_duration:P7D"),
        ("by_duration:7d", "such as by_duration:P7D"),
        ("by_duration:-P7D", "a negative one would be in the future"),
        ("by_duration:P99999999999999999D", "that is too long"),
    ] {
        let told = message(&[("auto.offset.reset", value)]);
        assert!(told.contains(why) && told.contains(value), "{told}");
    }
}

#[test]
fn the_same_setting_under_two_names_is_refused() {
    assert!(message(&[("fetch.max.wait.ms", "1"), ("fetch.wait.max.ms", "2")]).contains("same setting"));
}

#[test]
fn another_protocol_than_the_one_of_the_setting_is_never_taken_silently() {
    let ssl = ClientConfig::parse([("bootstrap.servers", "SSL://h:1")]);
    assert!(ssl.expect_err("ssl").message.contains("security.protocol=PLAINTEXT"));
    let servers = ("bootstrap.servers", "SSL://h:1, ssl://i:2");
    let given = ClientConfig::parse([servers, ("security.protocol", "ssl")]).expect("the same protocol");
    assert_eq!(given.bootstrap_servers, [("h".to_owned(), 1), ("i".to_owned(), 2)]);
}

#[test]
fn settings_of_tls_without_tls_are_warned_of() {
    let warnings = parse(&[("ssl.ca.location", "/x"), ("ssl.key.password", "s")]).expect("taken").warnings;
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(warning.contains("ssl.ca.location, ssl.key.password") && warning.contains("security.protocol=SSL"));
}

#[test]
fn addresses_are_checked() {
    let servers = |text| ClientConfig::parse([("bootstrap.servers", text)]).map(|config| config.bootstrap_servers);
    let pair = |host: &str, port| (host.to_owned(), port);
    assert_eq!(servers("a:1, b:2"), Ok(vec![pair("a", 1), pair("b", 2)]));
    assert_eq!(servers("[::1]:9092"), Ok(vec![pair("::1", 9092)]));
    for wrong in ["", "host", "host:0", "host:99999", ":1", "h:x"] {
        assert!(servers(wrong).expect_err(wrong).message.contains("host:port"), "{wrong}");
    }
}

#[test]
fn settings_that_contradict_each_other_are_refused_with_the_numbers() {
    let text = message(&[("request.timeout.ms", "400"), ("fetch.max.wait.ms", "500")]);
    assert!(text.contains("400") && text.contains("500"));
    let text = message(&[("receive.message.max.bytes", "1000000")]);
    for part in ["receive.message.max.bytes (1000000)", "fetch.max.bytes (8388608)"] {
        assert!(text.contains(part), "{text}");
    }
    let fetches = |fetch| parse(&[("receive.message.max.bytes", "1000000"), ("fetch.max.bytes", fetch)]);
    assert!(fetches("999489").is_err() && fetches("999488").is_ok());
    // An admin client sends no fetches.
    let servers = ("bootstrap.servers", "localhost:9092");
    assert!(ClientConfig::parse_admin([servers, ("receive.message.max.bytes", "1024")]).is_ok());
}

#[test]
fn assignors_go_by_their_names_and_by_java_s_classes() {
    let names = |text| parse(&[("partition.assignment.strategy", text)]).map(|config| config.assignment_strategy);
    assert_eq!(parse(&[]).expect("defaults").assignment_strategy, ["cooperative-sticky"]);
    assert_eq!(names("range,roundrobin"), Ok(vec!["range".into(), "roundrobin".into()]));
    let java = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor, StickyAssignor";
    assert_eq!(names(java), Ok(vec!["cooperative-sticky".into(), "sticky".into()]));
    for name in monedula_engine::assign::BUILTIN {
        assert_eq!(names(name), Ok(vec![(*name).into()]));
    }
    for wrong in ["", "rnage", "deferred,range", "sticky,incremental", "range,range", "range,RangeAssignor"] {
        assert!(names(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn what_is_left_for_later_has_its_settings() {
    let pace = |settings: &[(&str, &str)]| parse(settings).map(|config| config.pace);
    assert_eq!(pace(&[]), Ok(Pace::default()));
    let all = pace(&[
        ("scheduled.rebalance.max.delay.ms", "60000"),
        ("group.initial.rebalance.delay.ms", "3000"),
        ("max.moves.per.round", "5"),
        ("round.interval.ms", "250"),
    ]);
    let ms = Duration::from_millis;
    let expected = Pace { max_delay: ms(60_000), initial_delay: ms(3000), max_moves: Some(5), round_interval: ms(250) };
    assert_eq!(all, Ok(expected));
    for wrong in [("max.moves.per.round", "-1"), ("round.interval.ms", "0"), ("scheduled.rebalance.max.delay.ms", "x")]
    {
        assert!(message(&[wrong]).contains(wrong.0), "{wrong:?}");
    }
    let text = message(&[("partition.assignment.strategy", "deferred,range")]);
    assert!(text.contains("deferred") && text.contains("range") && text.contains("cooperative-sticky"), "{text}");
}

#[test]
fn timing_that_cannot_work_is_refused_with_the_numbers() {
    let text = message(&[("session.timeout.ms", "3000"), ("heartbeat.interval.ms", "3000")]);
    assert!(text.contains("3000 ms") && text.contains("heartbeat.interval.ms"), "{text}");
}

#[test]
fn automatic_commits_can_be_turned_off_and_counted() {
    let defaults = parse(&[]).expect("defaults");
    assert_eq!((defaults.auto_commit_interval, defaults.auto_commit_records), (Some(Duration::from_secs(5)), None));
    let counted = parse(&[("auto.commit.records", "7")]).expect("settings");
    assert_eq!(counted.auto_commit_records, Some(7));
    let off = parse(&[("auto.commit.records", "7"), ("enable.auto.commit", "false")]).expect("settings");
    assert_eq!((off.auto_commit_interval, off.auto_commit_records), (None, None));
}
