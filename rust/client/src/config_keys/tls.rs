//! The settings of TLS.

use super::{Key, SettingKind, key};

pub(super) const KEYS: &[Key] = &[
    key(
        "ssl.truststore.location",
        &[("ssl.ca.location", 1)],
        SettingKind::Text,
        "",
        "file with the certificates of the authorities that brokers' certificates must come from, as PEM, PKCS#12 or JKS, or a \
         directory of PEM files; none: the system's authorities. A broker's own certificate may stand in it too",
    ),
    key(
        "ssl.truststore.certificates",
        &[("ssl.ca.pem", 1)],
        SettingKind::Text,
        "",
        "the certificates themselves, as PEM, instead of a file",
    ),
    key("ssl.truststore.password", &[], SettingKind::Secret, "", "password of the file, where it is PKCS#12 or JKS"),
    key(
        "ssl.truststore.type",
        &[],
        SettingKind::Choice(&["", "PEM", "PKCS12", "JKS"]),
        "",
        "PEM, PKCS12 or JKS; not needed, since the content shows it, and an error if the content is something else",
    ),
    key(
        "ssl.keystore.location",
        &[],
        SettingKind::Text,
        "",
        "file with the client's certificate, its chain and its private key, as PKCS#12, JKS or PEM",
    ),
    key("ssl.keystore.password", &[], SettingKind::Secret, "", "password of the file"),
    key(
        "ssl.keystore.type",
        &[],
        SettingKind::Choice(&["", "PEM", "PKCS12", "JKS"]),
        "",
        "PEM, PKCS12 or JKS; not needed, since the content shows it, and an error if the content is something else",
    ),
    key(
        "ssl.keystore.certificate.chain",
        &[("ssl.certificate.pem", 1)],
        SettingKind::Text,
        "",
        "the client's certificate, followed by those of its intermediate authorities, as PEM",
    ),
    key("ssl.keystore.key", &[("ssl.key.pem", 1)], SettingKind::Secret, "", "the client's private key, as PEM"),
    key(
        "ssl.certificate.location",
        &[],
        SettingKind::Text,
        "",
        "PEM file with the client's certificate, followed by those of its intermediate authorities",
    ),
    key("ssl.key.location", &[], SettingKind::Text, "", "PEM file with the client's private key"),
    key(
        "ssl.key.password",
        &[],
        SettingKind::Secret,
        "",
        "password of an encrypted private key (PEM with PKCS#8, or JKS)",
    ),
    key(
        "ssl.endpoint.identification.algorithm",
        &[],
        SettingKind::Text,
        "https",
        "https: a broker's certificate must be for the name or address that was dialled; none, or empty: it may be for any",
    ),
    key(
        "enable.ssl.certificate.verification",
        &[],
        SettingKind::Bool,
        "true",
        "false takes every certificate, and with it anybody who intercepts the connection",
    ),
    key(
        "ssl.enabled.protocols",
        &[],
        SettingKind::Text,
        "TLSv1.2,TLSv1.3",
        "versions of TLS: TLSv1.2, TLSv1.3 or both",
    ),
    key(
        "ssl.protocol",
        &[],
        SettingKind::Choice(&["TLS", "TLSv1.2", "TLSv1.3"]),
        "TLS",
        "Java's older way to say which version: TLSv1.2 or TLSv1.3 is like ssl.enabled.protocols with that one alone",
    ),
    key(
        "ssl.cipher.suites",
        &[],
        SettingKind::Text,
        "",
        "cipher suites, by IANA's names (Java's) or OpenSSL's, separated by commas or colons; none: all that rustls has, which \
         are AES-GCM and ChaCha20 with ECDHE",
    ),
    key(
        "ssl.curves.list",
        &[],
        SettingKind::Text,
        "",
        "groups for the key exchange, the preferred first, such as X25519:P-256; none: X25519MLKEM768 (post-quantum), X25519, \
         P-256, P-384. Without the first one the client's first message fits one packet",
    ),
    key(
        "ssl.crl.location",
        &[],
        SettingKind::Text,
        "",
        "PEM file with certificate revocation lists; a broker's certificate that one lists, or that none is about, is refused",
    ),
];
