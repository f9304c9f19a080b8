//! The settings of SASL.

use super::{Key, SettingKind, flag, int, key, secret, text};

pub(super) const KEYS: &[Key] = &[
    text(
        "sasl.mechanism",
        "how to log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM or GSSAPI (Kerberos); to be set where \
         security.protocol is SASL_PLAINTEXT or SASL_SSL. The client never takes another one than this",
    )
    .aliased(&[("sasl.mechanisms", 1)]),
    text("sasl.username", "the user, for PLAIN and SCRAM"),
    secret("sasl.password", "the user's password, taken as it is, for PLAIN and SCRAM"),
    secret(
        "sasl.jaas.config",
        "the same as Java's clients have it: a login module with its options, such as \
         org.apache.kafka.common.security.scram.ScramLoginModule required username=\"...\" password=\"...\"; Its option \
         tokenauth=true logs in with a delegation token. Nothing is loaded",
    ),
    key(
        "sasl.login.callback.handler.class",
        SettingKind::Choice(&[
            "",
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
            "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
            "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler",
        ]),
        "",
        "taken where it is Java's own class for OAUTHBEARER, which is built in here, or Google's, which means \
         sasl.oauthbearer.metadata.authentication.type=gcp_metadata; nothing is loaded",
    ),
    key(
        "sasl.client.callback.handler.class",
        SettingKind::Choice(&["", "software.amazon.msk.auth.iam.IAMClientCallbackHandler"]),
        "",
        "taken where it is the class for AWS_MSK_IAM, which is built in here; nothing is loaded",
    ),
    key(
        "sasl.login.refresh.window.factor",
        SettingKind::Text,
        "0.8",
        "the next token is fetched after this share of a token's life, 0.5 to 1.0",
    ),
    key(
        "sasl.login.refresh.window.jitter",
        SettingKind::Text,
        "0.05",
        "and up to this share of its life later, at random, 0.0 to 0.25",
    ),
    key(
        "sasl.login.refresh.min.period.seconds",
        int(0, 900),
        "60",
        "the shortest time between two tokens, s, unless their life is too short for it",
    ),
    key(
        "sasl.login.refresh.buffer.seconds",
        int(0, 3600),
        "300",
        "how long before the end of a token the next one is fetched at the latest, s, unless its life is too short for it",
    ),
    key("sasl.login.retry.backoff.ms", int(1, 3_600_000), "100", "first wait after a token could not be fetched, ms"),
    key(
        "sasl.login.connect.timeout.ms",
        int(1, 3_600_000),
        "10000",
        "how long the connection to the token endpoint may take, ms",
    ),
    key("sasl.login.read.timeout.ms", int(1, 3_600_000), "10000", "how long its answer may take, ms"),
    text(
        "sasl.oauthbearer.token.endpoint.url",
        "where tokens come from: the https: URL of an identity provider's token endpoint, or file:///path of a token \
         that is kept fresh by someone else, and read again before its end",
    ),
    flag(
        "sasl.oauthbearer.allow.plain.http",
        "false",
        "whether the token endpoint may be an http: URL, over which everybody on the way can read the secret and the token",
    ),
    text(
        "sasl.oauthbearer.client.credentials.client.id",
        "the client's id at the identity provider (grant client_credentials)",
    )
    .aliased(&[("sasl.oauthbearer.client.id", 1)]),
    secret(
        "sasl.oauthbearer.client.credentials.client.secret",
        "the client's secret at the identity provider",
    )
    .aliased(&[("sasl.oauthbearer.client.secret", 1)]),
    text(
        "sasl.oauthbearer.token.provider",
        "in Python, a function or an object with a method token(), sync or async, that brings tokens: it returns the token, or \
         (token, expiry in seconds since 1970[, principal[, extensions]])",
    )
    .aliased(&[("sasl.oauth.token.provider", 1), ("oauth.cb", 1)]),
    text(
        "sasl.oauthbearer.config",
        "what such a function is called with, if it takes an argument; or what a cloud is asked for, as name=value,name=value: \
         query=resource=...&client_id=... of azure_imds, region=...,audience=... of aws_iam",
    ),
    key(
        "sasl.oauthbearer.metadata.authentication.type",
        SettingKind::Choice(&["none", "azure_imds", "aws_iam", "gcp_metadata"]),
        "none",
        "the cloud that vouches for this machine, and is asked for tokens: azure_imds for a managed identity of Azure, aws_iam \
         for a web identity token of AWS STS, gcp_metadata for a service account of Google's Managed Kafka. Amazon MSK is \
         sasl.mechanism=AWS_MSK_IAM",
    ),
    secret(
        "sasl.oauthbearer.proxy.url",
        "the proxy that token endpoints are asked through, as proxy.url, or direct for none; without it, that of proxy.url, or \
         else of the environment (ALL_PROXY, HTTPS_PROXY, HTTP_PROXY, NO_PROXY). Metadata services are asked directly",
    ),
    text("sasl.oauthbearer.scope", "the scope to ask for"),
    text("sasl.oauthbearer.extensions", "SASL extensions to send with a token, as name=value,name=value (KIP-342)"),
    flag(
        "sasl.oauthbearer.header.urlencode",
        "false",
        "whether id and secret are URL-encoded in the header, as RFC 6749 says; few providers want it",
    ),
    key(
        "sasl.oauthbearer.method",
        SettingKind::Choice(&["default", "oidc"]),
        "default",
        "librdkafka's name for where tokens come from; with a token endpoint it is oidc in either case",
    ),
    key(
        "sasl.oauthbearer.jwt.retriever.class",
        SettingKind::Choice(&[
            "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
            "org.apache.kafka.common.security.oauthbearer.ClientCredentialsJwtRetriever",
            "org.apache.kafka.common.security.oauthbearer.FileJwtRetriever",
            "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever",
        ]),
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        "Java's classes, which are built in here: JwtBearerJwtRetriever means the grant jwt-bearer. Nothing is loaded",
    ),
    key(
        "sasl.oauthbearer.grant.type",
        SettingKind::Choice(&["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"]),
        "client_credentials",
        "what is shown to the token endpoint: the client's id with a secret, or with an assertion if sasl.oauthbearer.assertion.* \
         say how to make one (KIP-1258); or an assertion of somebody for whom the client acts (RFC 7523)",
    ),
    text("sasl.oauthbearer.assertion.file", "file with an assertion that someone else keeps fresh"),
    text("sasl.oauthbearer.assertion.private.key.file", "PEM file with the private key that signs the assertion"),
    secret("sasl.oauthbearer.assertion.private.key.pem", "the same as text"),
    secret("sasl.oauthbearer.assertion.private.key.passphrase", "password of that key, if it is encrypted (PKCS#8)"),
    key(
        "sasl.oauthbearer.assertion.algorithm",
        SettingKind::Choice(&["RS256", "ES256"]),
        "RS256",
        "how the assertion is signed",
    ),
    text(
        "sasl.oauthbearer.assertion.template.file",
        "JSON file with what else the assertion has, as {\"header\": {\"kid\": ...}, \"payload\": {...}}",
    )
    .aliased(&[("sasl.oauthbearer.assertion.jwt.template.file", 1)]),
    text(
        "sasl.oauthbearer.assertion.claim.aud",
        "claim aud of the assertion; none, with client_credentials: the URL of the token endpoint",
    ),
    text(
        "sasl.oauthbearer.assertion.claim.iss",
        "claim iss of the assertion; none, with client_credentials: the client's id",
    ),
    text(
        "sasl.oauthbearer.assertion.claim.sub",
        "claim sub of the assertion; none, with client_credentials: the client's id",
    ),
    key("sasl.oauthbearer.assertion.claim.exp.seconds", int(1, 86_400), "300", "how long an assertion is valid, s"),
    key(
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        int(0, 3_600),
        "60",
        "since when it has been valid when it is made, s: room for clocks that differ",
    ),
    flag("sasl.oauthbearer.assertion.claim.jti.include", "false", "whether each assertion has an id of its own"),
    text(
        "https.ca.location",
        "PEM file with the authorities that the certificate of the token endpoint must come from; none: the system's",
    ),
    text("https.ca.pem", "the same as text"),
    key("sasl.login.retry.backoff.max.ms", int(1, 3_600_000), "10000", "longest such wait, ms"),
    text(
        "sasl.kerberos.service.name",
        "the first part of the brokers' principal, such as kafka of kafka/broker.example@REALM; none: that",
    ),
    text(
        "sasl.kerberos.principal",
        "who logs in by GSSAPI; none: the principal of the ticket cache, or the first of the keytab",
    ),
    text(
        "sasl.kerberos.keytab",
        "file with the principal's key, with which the client gets tickets itself; none: those of the ticket cache \
         (KRB5CCNAME), as kinit leaves them",
    ),
    text("sasl.kerberos.kinit.cmd", "taken, and not run: no process is started for tickets"),
    key(
        "sasl.kerberos.ticket.renew.window.factor",
        SettingKind::Text,
        "0.8",
        "with a keytab, new tickets are got for the first login after this share of their life, 0 to 1",
    ),
    key(
        "sasl.kerberos.ticket.renew.jitter",
        SettingKind::Text,
        "0.05",
        "and up to this share of their life later, at random, 0 to 1",
    ),
    key(
        "sasl.kerberos.min.time.before.relogin",
        int(0, 86_400_000),
        "60000",
        "how long the KDC is not asked again after it gave no new tickets while the old ones are valid, ms",
    ),
];
