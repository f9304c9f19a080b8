//! The settings of a schema registry, by Confluent's names.

use super::{DAY_MS, Key, SettingKind, flag, int, key, secret, text};

pub(super) const KEYS: &[Key] = &[
    text(
        "schema.registry.url",
        "where monedula.Avro asks for schemas, by their ids and subjects, and registers those that rows are written with: \
         one or more URLs of a registry that speaks Confluent's API, separated by commas and tried in this order",
    ),
    secret("schema.registry.basic.auth.user.info", "user:password for the registry")
        .aliased(&[("basic.auth.user.info", 1)]),
    key(
        "schema.registry.basic.auth.credentials.source",
        SettingKind::Choice(&["", "USER_INFO", "URL"]),
        "",
        "taken as Confluent's clients have it, and not needed: user and password are taken from where they are",
    )
    .aliased(&[("basic.auth.credentials.source", 1)]),
    secret("schema.registry.bearer.auth.token", "a bearer token for the registry").aliased(&[("bearer.auth.token", 1)]),
    key(
        "schema.registry.bearer.auth.credentials.source",
        SettingKind::Choice(&["", "STATIC_TOKEN", "OAUTHBEARER"]),
        "",
        "taken as Confluent's clients have it, and not needed: OAUTHBEARER is meant where an issuer is given",
    )
    .aliased(&[("bearer.auth.credentials.source", 1)]),
    text(
        "schema.registry.bearer.auth.issuer.endpoint.url",
        "https URL of an identity provider's token endpoint, from which the registry's tokens come (OAuth 2.0, client \
         credentials); its authorities are https.ca.location",
    )
    .aliased(&[("bearer.auth.issuer.endpoint.url", 1)]),
    text("schema.registry.bearer.auth.client.id", "the client's id at the identity provider")
        .aliased(&[("bearer.auth.client.id", 1)]),
    secret("schema.registry.bearer.auth.client.secret", "the client's secret at the identity provider")
        .aliased(&[("bearer.auth.client.secret", 1)]),
    text("schema.registry.bearer.auth.scope", "the scope that is asked for; several with blanks between them")
        .aliased(&[("bearer.auth.scope", 1)]),
    text(
        "schema.registry.bearer.auth.logical.cluster",
        "Confluent Cloud: the id of the registry's logical cluster, lsrc-..., sent with each request",
    )
    .aliased(&[("bearer.auth.logical.cluster", 1)]),
    text(
        "schema.registry.bearer.auth.identity.pool.id",
        "Confluent Cloud: the id of the identity pool, pool-..., sent with each request",
    )
    .aliased(&[("bearer.auth.identity.pool.id", 1)]),
    secret(
        "schema.registry.proxy.url",
        "the proxy that the registry and its identity provider are asked through, as proxy.url, or direct for none; without \
         it, that of proxy.url, or else of the environment (ALL_PROXY, HTTPS_PROXY, HTTP_PROXY, NO_PROXY)",
    ),
    text(
        "schema.registry.ssl.ca.location",
        "PEM file of the authorities that sign the registry's certificate; empty: the system's",
    ),
    text(
        "schema.registry.ssl.certificate.location",
        "PEM file with the client's certificate for the registry, followed by those of its intermediate authorities",
    ),
    text(
        "schema.registry.ssl.key.location",
        "PEM file with the private key of that certificate; not needed where it stands in the same file",
    ),
    secret("schema.registry.ssl.key.password", "password of that key, if it is encrypted"),
    text(
        "schema.registry.ssl.keystore.location",
        "in place of these two, a file with the certificate, its chain and its key, as PKCS#12, JKS or PEM",
    ),
    secret("schema.registry.ssl.keystore.password", "password of the keystore"),
    key(
        "schema.registry.request.timeout.ms",
        int(1, DAY_MS),
        "10000",
        "longest time of one attempt to ask the registry: to connect, and for the whole answer, ms",
    ),
    key(
        "schema.registry.max.retries",
        int(0, 100),
        "3",
        "how often the registry is asked again where it does not answer, or answers 408, 429 or 500 to 599",
    ),
    key(
        "schema.registry.retries.wait.ms",
        int(0, DAY_MS),
        "1000",
        "longest wait before the registry is asked again; the time is drawn at random, and this doubles each time, ms",
    ),
    key("schema.registry.retries.max.wait.ms", int(0, DAY_MS), "20000", "what that is doubled up to, ms"),
    key(
        "key.subject.name.strategy",
        SettingKind::Choice(STRATEGIES),
        "TopicNameStrategy",
        "what the subject of the schema of keys is made of: t-key of topic t, or the name of the schema's record; with \
         AssociatedNameStrategy it is the one that the registry associates with the topic",
    ),
    key(
        "value.subject.name.strategy",
        SettingKind::Choice(STRATEGIES),
        "TopicNameStrategy",
        "what the subject of the schema of values is made of: t-value of topic t, or the name of the schema's record; with \
         AssociatedNameStrategy it is the one that the registry associates with the topic",
    ),
    text(
        "subject.name.strategy.kafka.cluster.id",
        "for AssociatedNameStrategy: the id of the cluster whose topics are meant; empty: of any cluster",
    ),
    key(
        "subject.name.strategy.fallback.type",
        SettingKind::Choice(&["TOPIC", "RECORD", "TOPIC_RECORD", "NONE"]),
        "TOPIC",
        "for AssociatedNameStrategy: what the subject of a topic without an association is made of; NONE: it is refused",
    ),
];

/// Settings of producers, which register schemas.
pub(super) const WRITING: &[Key] = &[
    flag(
        "auto.register.schemas",
        "true",
        "whether a schema that rows are written with is registered if the registry does not have it; if not, it must be there",
    ),
    flag(
        "use.latest.version",
        "false",
        "whether rows are written with the newest schema of the subject, in place of the given one",
    ),
    flag(
        "normalize.schemas",
        "false",
        "whether the registry normalizes schemas before it compares them with those that it has",
    ),
];

/// With the names of Java's classes.
const STRATEGIES: &[&str] = &[
    "TopicNameStrategy",
    "RecordNameStrategy",
    "TopicRecordNameStrategy",
    "AssociatedNameStrategy",
    "io.confluent.kafka.serializers.subject.TopicNameStrategy",
    "io.confluent.kafka.serializers.subject.RecordNameStrategy",
    "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy",
    "io.confluent.kafka.serializers.subject.AssociatedNameStrategy",
];
