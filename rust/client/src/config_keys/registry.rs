//! The settings of a schema registry, by Confluent's names.

use super::{DAY_MS, Key, Kind, int, key};

pub(super) const KEYS: &[Key] = &[
    key(
        "schema.registry.url",
        &[],
        Kind::Text,
        "",
        "where monedula.Avro asks for schemas, by their ids and subjects: one or more URLs of a registry that speaks \
         Confluent's API, separated by commas and tried in this order",
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
