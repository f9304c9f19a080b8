//! The settings of a schema registry, by Confluent's names.

use super::{DAY_MS, Key, SettingKind, int, key};

pub(super) const KEYS: &[Key] = &[
    key(
        "schema.registry.url",
        &[],
        SettingKind::Text,
        "",
        "where monedula.Avro asks for schemas, by their ids and subjects, and registers those that rows are written with: \
         one or more URLs of a registry that speaks Confluent's API, separated by commas and tried in this order",
    ),
    key(
        "schema.registry.basic.auth.user.info",
        &[("basic.auth.user.info", 1)],
        SettingKind::Secret,
        "",
        "user:password for the registry",
    ),
    key(
        "schema.registry.basic.auth.credentials.source",
        &[("basic.auth.credentials.source", 1)],
        SettingKind::Choice(&["", "USER_INFO", "URL"]),
        "",
        "taken as Confluent's clients have it, and not needed: user and password are taken from where they are",
    ),
    key(
        "schema.registry.bearer.auth.token",
        &[("bearer.auth.token", 1)],
        SettingKind::Secret,
        "",
        "a bearer token for the registry",
    ),
    key(
        "schema.registry.bearer.auth.credentials.source",
        &[("bearer.auth.credentials.source", 1)],
        SettingKind::Choice(&["", "STATIC_TOKEN", "OAUTHBEARER"]),
        "",
        "taken as Confluent's clients have it, and not needed: OAUTHBEARER is meant where an issuer is given",
    ),
    key(
        "schema.registry.bearer.auth.issuer.endpoint.url",
        &[("bearer.auth.issuer.endpoint.url", 1)],
        SettingKind::Text,
        "",
        "https URL of an identity provider's token endpoint, from which the registry's tokens come (OAuth 2.0, client \
         credentials); its authorities are https.ca.location",
    ),
    key(
        "schema.registry.bearer.auth.client.id",
        &[("bearer.auth.client.id", 1)],
        SettingKind::Text,
        "",
        "the client's id at the identity provider",
    ),
    key(
        "schema.registry.bearer.auth.client.secret",
        &[("bearer.auth.client.secret", 1)],
        SettingKind::Secret,
        "",
        "the client's secret at the identity provider",
    ),
    key(
        "schema.registry.bearer.auth.scope",
        &[("bearer.auth.scope", 1)],
        SettingKind::Text,
        "",
        "the scope that is asked for; several with blanks between them",
    ),
    key(
        "schema.registry.bearer.auth.logical.cluster",
        &[("bearer.auth.logical.cluster", 1)],
        SettingKind::Text,
        "",
        "Confluent Cloud: the id of the registry's logical cluster, lsrc-..., sent with each request",
    ),
    key(
        "schema.registry.bearer.auth.identity.pool.id",
        &[("bearer.auth.identity.pool.id", 1)],
        SettingKind::Text,
        "",
        "Confluent Cloud: the id of the identity pool, pool-..., sent with each request",
    ),
    key(
        "schema.registry.ssl.ca.location",
        &[],
        SettingKind::Text,
        "",
        "PEM file of the authorities that sign the registry's certificate; empty: the system's",
    ),
    key(
        "schema.registry.ssl.certificate.location",
        &[],
        SettingKind::Text,
        "",
        "PEM file with the client's certificate for the registry, followed by those of its intermediate authorities",
    ),
    key(
        "schema.registry.ssl.key.location",
        &[],
        SettingKind::Text,
        "",
        "PEM file with the private key of that certificate; not needed where it stands in the same file",
    ),
    key("schema.registry.ssl.key.password", &[], SettingKind::Secret, "", "password of that key, if it is encrypted"),
    key(
        "schema.registry.ssl.keystore.location",
        &[],
        SettingKind::Text,
        "",
        "in place of these two, a file with the certificate, its chain and its key, as PKCS#12, JKS or PEM",
    ),
    key("schema.registry.ssl.keystore.password", &[], SettingKind::Secret, "", "password of the keystore"),
    key(
        "schema.registry.request.timeout.ms",
        &[],
        int(1, DAY_MS),
        "10000",
        "longest time of one attempt to ask the registry: to connect, and for the whole answer, ms",
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
        SettingKind::Bool,
        "true",
        "whether a schema that rows are written with is registered if the registry does not have it; if not, it must be there",
    ),
    key(
        "use.latest.version",
        &[],
        SettingKind::Bool,
        "false",
        "whether rows are written with the newest schema of the subject, in place of the given one",
    ),
    key(
        "normalize.schemas",
        &[],
        SettingKind::Bool,
        "false",
        "whether the registry normalizes schemas before it compares them with those that it has",
    ),
    key(
        "key.subject.name.strategy",
        &[],
        SettingKind::Choice(STRATEGIES),
        "TopicNameStrategy",
        "what the subject of the schema of keys is made of: t-key of topic t, or the name of the schema's record",
    ),
    key(
        "value.subject.name.strategy",
        &[],
        SettingKind::Choice(STRATEGIES),
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
