//! The settings of a schema registry, by Confluent's names.

use super::{DAY_MS, Key, Kind, int, key};

pub(super) const KEYS: &[Key] = &[
    key(
        "schema.registry.url",
        &[],
        Kind::Text,
        "",
        "where monedula.Avro asks for schemas, by their ids and subjects, and registers those that rows are written with: \
         one or more URLs of a registry that speaks Confluent's API, separated by commas and tried in this order",
    ),
    key(
        "schema.registry.basic.auth.user.info",
        &[("basic.auth.user.info", 1)],
        Kind::Secret,
        "",
        "user:password for the registry",
    ),
    key(
        "schema.registry.basic.auth.credentials.source",
        &[("basic.auth.credentials.source", 1)],
        Kind::Choice(&["", "USER_INFO", "URL"]),
        "",
        "taken as Confluent's clients have it, and not needed: user and password are taken from where they are",
    ),
    key(
        "schema.registry.bearer.auth.token",
        &[("bearer.auth.token", 1)],
        Kind::Secret,
        "",
        "a bearer token for the registry",
    ),
    key(
        "schema.registry.bearer.auth.credentials.source",
        &[("bearer.auth.credentials.source", 1)],
        Kind::Choice(&["", "STATIC_TOKEN"]),
        "",
        "taken as Confluent's clients have it, and not needed: only a fixed token is supported",
    ),
    key(
        "schema.registry.ssl.ca.location",
        &[],
        Kind::Text,
        "",
        "PEM file of the authorities that sign the registry's certificate; empty: the system's",
    ),
    key(
        "schema.registry.request.timeout.ms",
        &[],
        int(1, DAY_MS),
        "10000",
        "longest wait for a connection to the registry, and for its answer, ms",
    ),
    key(
        "schema.registry.max.retries",
        &[],
        int(0, 100),
        "3",
        "how often the registry is asked again where it does not answer, or answers 408, 429 or 500 to 599",
    ),
    key(
        "schema.registry.retries.wait.ms",
        &[],
        int(0, DAY_MS),
        "1000",
        "longest wait before the registry is asked again; the time is drawn at random, and this doubles each time, ms",
    ),
    key("schema.registry.retries.max.wait.ms", &[], int(0, DAY_MS), "20000", "what that is doubled up to, ms"),
];

/// Of producers, which register schemas.
pub(super) const WRITING: &[Key] = &[
    key(
        "auto.register.schemas",
        &[],
        Kind::Bool,
        "true",
        "whether a schema that rows are written with is registered if the registry does not have it; if not, it must be there",
    ),
    key(
        "use.latest.version",
        &[],
        Kind::Bool,
        "false",
        "whether rows are written with the newest schema of the subject, in place of the given one",
    ),
    key(
        "normalize.schemas",
        &[],
        Kind::Bool,
        "false",
        "whether the registry normalizes schemas before it compares them with those that it has",
    ),
    key(
        "key.subject.name.strategy",
        &[],
        Kind::Choice(STRATEGIES),
        "TopicNameStrategy",
        "what the subject of the schema of keys is made of: t-key of topic t, or the name of the schema's record",
    ),
    key(
        "value.subject.name.strategy",
        &[],
        Kind::Choice(STRATEGIES),
        "TopicNameStrategy",
        "what the subject of the schema of values is made of: t-value of topic t, or the name of the schema's record",
    ),
];

/// With the names of Java's classes.
const STRATEGIES: &[&str] = &[
    "TopicNameStrategy",
    "RecordNameStrategy",
    "TopicRecordNameStrategy",
    "io.confluent.kafka.serializers.subject.TopicNameStrategy",
    "io.confluent.kafka.serializers.subject.RecordNameStrategy",
    "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy",
];
