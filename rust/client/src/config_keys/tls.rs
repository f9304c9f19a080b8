//! The settings of TLS.

use super::{Key, SettingKind, flag, key, secret, text};

pub(super) const KEYS: &[Key] = &[
    text(
        "ssl.truststore.location",
        "file with the certificates of the authorities that brokers' certificates must come from, as PEM, PKCS#12 or JKS, or a \
         directory of PEM files; none: the system's authorities. A broker's own certificate may stand in it too",
    )
    .aliased(&[("ssl.ca.location", 1)]),
    text(
        "ssl.truststore.certificates",
        "the certificates themselves, as PEM, instead of a file",
    )
    .aliased(&[("ssl.ca.pem", 1)]),
    secret("ssl.truststore.password", "password of the file, where it is PKCS#12 or JKS"),
    key(
        "ssl.truststore.type",
        SettingKind::Choice(&["", "PEM", "PKCS12", "JKS"]),
        "",
        "PEM, PKCS12 or JKS; not needed, since the content shows it, and an error if the content is something else",
    ),
    text(
        "ssl.keystore.location",
        "file with the client's certificate, its chain and its private key, as PKCS#12, JKS or PEM",
    ),
    secret("ssl.keystore.password", "password of the file"),
    key(
        "ssl.keystore.type",
        SettingKind::Choice(&["", "PEM", "PKCS12", "JKS"]),
        "",
        "PEM, PKCS12 or JKS; not needed, since the content shows it, and an error if the content is something else",
    ),
    text(
        "ssl.keystore.certificate.chain",
        "the client's certificate, followed by those of its intermediate authorities, as PEM",
    )
    .aliased(&[("ssl.certificate.pem", 1)]),
    secret("ssl.keystore.key", "the client's private key, as PEM").aliased(&[("ssl.key.pem", 1)]),
    text(
        "ssl.certificate.location",
        "PEM file with the client's certificate, followed by those of its intermediate authorities",
    ),
    text("ssl.key.location", "PEM file with the client's private key"),
    secret("ssl.key.password", "password of an encrypted private key (PEM with PKCS#8, or JKS)"),
    key(
        "ssl.endpoint.identification.algorithm",
        SettingKind::Text,
        "https",
        "https: a broker's certificate must be for the name or address that was dialled; none, or empty: it may be for any",
    ),
    flag(
        "enable.ssl.certificate.verification",
        "true",
        "false takes every certificate, and with it anybody who intercepts the connection",
    ),
    key("ssl.enabled.protocols", SettingKind::Text, "TLSv1.2,TLSv1.3", "versions of TLS: TLSv1.2, TLSv1.3 or both"),
    key(
        "ssl.protocol",
        SettingKind::Choice(&["TLS", "TLSv1.2", "TLSv1.3"]),
        "TLS",
        "Java's older way to say which version: TLSv1.2 or TLSv1.3 is like ssl.enabled.protocols with that one alone",
    ),
    text(
        "ssl.cipher.suites",
        "cipher suites, by IANA's names (Java's) or OpenSSL's, separated by commas or colons; none: all that rustls has, which \
         are AES-GCM and ChaCha20 with ECDHE",
    ),
    text(
        "ssl.curves.list",
        "groups for the key exchange, the preferred first, such as X25519:P-256; none: X25519MLKEM768 (post-quantum), X25519, \
         P-256, P-384. Without the first one the client's first message fits one packet",
    ),
    text(
        "ssl.crl.location",
        "PEM file with certificate revocation lists; a broker's certificate that one lists, or that none is about, is refused",
    ),
];
