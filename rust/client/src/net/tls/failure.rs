//! Errors of an encrypted connection: one side refused the other, which another attempt does not change, or the
//! connection broke.

use std::io;

use rustls::pki_types::{ServerName, UnixTime};
use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};
use x509_parser::time::ASN1Time;

use crate::error::{AuthenticationError, RequestError};

/// The error of a handshake that failed. `first_bytes` are the first bytes that the broker sent.
pub(super) fn of_handshake(broker: &str, error: &io::Error, first_bytes: &[u8]) -> RequestError {
    let disconnected = |reason: String| RequestError::Disconnected { broker: broker.to_owned(), reason };
    let Some(inner) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else {
        return disconnected(match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
                if first_bytes.is_empty() =>
            {
                "the broker closed the connection when it was to be encrypted: this port may be one without TLS \
                 (check security.protocol and the port)"
                    .into()
            }
            io::ErrorKind::UnexpectedEof => "the broker closed the connection during the TLS handshake".into(),
            _ => format!("the TLS handshake failed: {error}"),
        });
    };
    match inner {
        Error::InvalidMessage(_) => match not_tls(first_bytes) {
            Some((key, reason)) => {
                RequestError::OtherProtocol { broker: broker.to_owned(), key, reason: reason.into() }
            }
            None => {
                disconnected("what the broker sent is no message of TLS; it may have been changed on its way".into())
            }
        },
        Error::InvalidCertificate(error) => refused(broker, of_certificate(error)),
        Error::AlertReceived(alert) => match of_alert(*alert) {
            Some(reason) => refused(broker, reason),
            None => disconnected(format!("the broker ended the TLS handshake ({alert:?})")),
        },
        Error::PeerIncompatible(reason) => refused(broker, incompatible(reason)),
        Error::NoCertificatesPresented => refused(broker, "the broker has no certificate".into()),
        other => disconnected(format!("the TLS handshake failed: {other}")),
    }
}

/// The error of a refusal that arrives after the handshake: in TLS 1.3 the client's handshake ends before the broker
/// has checked the client's certificate, and a refusal arrives with the first read. `None` for any other error.
pub(crate) fn alert_after_handshake(broker: &str, error: &io::Error) -> Option<RequestError> {
    match error.get_ref()?.downcast_ref::<Error>()? {
        Error::AlertReceived(alert) => of_alert(*alert).map(|reason| refused(broker, reason)),
        _ => None,
    }
}

fn refused(broker: &str, reason: String) -> RequestError {
    AuthenticationError { broker: broker.to_owned(), mechanism: "TLS".into(), reason }.into()
}

/// The setting that is wrong if these are the first bytes, and why; `None` if they are those of TLS.
fn not_tls(first_bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    match first_bytes {
        [b'H', b'T', b'T', b'P', ..] => {
            Some(("bootstrap.servers", "an HTTP server without TLS answers here, and no broker; check the address"))
        }
        // The kinds of records, and the versions that they name.
        [0x14..=0x17, 3, 0..=4, ..] => None,
        _ => Some((
            "security.protocol",
            "what answers here does not speak TLS: this port is one without it; set PLAINTEXT or SASL_PLAINTEXT, or use the \
             port that has TLS",
        )),
    }
}

/// The meaning of the broker's alert; `None` if another attempt may succeed.
fn of_alert(alert: AlertDescription) -> Option<String> {
    use AlertDescription as Alert;
    let reason = match alert {
        Alert::CertificateRequired | Alert::NoCertificate => {
            "the broker asks for a certificate of the client's: give ssl.keystore.location, or ssl.certificate.location and \
             ssl.key.location"
        }
        Alert::BadCertificate => {
            "the broker did not take the client's certificate, or got none: check ssl.keystore.location (or \
             ssl.certificate.location), and that its authority is in the broker's truststore"
        }
        Alert::UnknownCA | Alert::CertificateUnknown => {
            "the broker does not know the authority of the client's certificate, or does not take the certificate for another \
             reason, which its log has"
        }
        Alert::CertificateExpired => "the client's certificate has expired, says the broker: renew it",
        Alert::CertificateRevoked => "the client's certificate is revoked, says the broker",
        Alert::UnsupportedCertificate => {
            "the broker does not take the kind of the client's certificate; it may not be one for clients (extended key usage)"
        }
        Alert::DecryptError => {
            "the broker could not verify a signature of the client's: the client's certificate may come from another authority \
             than the one of the same name in the broker's truststore"
        }
        Alert::AccessDenied => "the broker took the client's certificate, and denies access with it",
        Alert::HandshakeFailure | Alert::ProtocolVersion | Alert::InsufficientSecurity => {
            "the broker ended the handshake: it has no version of TLS (1.2 or 1.3) or no cipher suite in common with the \
             client, or wants a certificate of the client's (ssl.keystore.location)"
        }
        Alert::UnrecognisedName => "the broker knows no host of the name that was dialled; check the address",
        _ => return None,
    };
    Some(reason.into())
}

fn incompatible(reason: &PeerIncompatible) -> String {
    format!(
        "the broker and the client have no encryption in common ({reason:?}); the client speaks TLS 1.2 and 1.3 with ECDHE and \
         AES-GCM or ChaCha20 (ssl.enabled.protocols, ssl.cipher.suites)"
    )
}

/// The fault of the broker's certificate, and advice about it.
fn of_certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::NotValidForNameContext { expected, presented } => of_names(expected, presented),
        CertificateError::NotValidForName => "the broker's certificate is not for the name that was dialled".into(),
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("the broker's certificate has expired on {}: it has to be renewed there", date(*not_after))
        }
        CertificateError::NotValidYetContext { not_before, .. } => format!(
            "the broker's certificate is not valid before {}: check the clock of this machine",
            date(*not_before)
        ),
        CertificateError::UnknownIssuer => {
            "the broker's certificate comes from no authority that is trusted: give that authority's certificate, or the \
             broker's own, in ssl.truststore.location (ssl.ca.location)"
                .into()
        }
        CertificateError::BadSignature => {
            "the broker's certificate, or its handshake, is signed by another key than it should be: the authority of the same \
             name in ssl.truststore.location (ssl.ca.location) may be an older one"
                .into()
        }
        CertificateError::InvalidPurposeContext { .. } | CertificateError::InvalidPurpose => {
            "the broker's certificate is not one for servers (its extended key usage lacks serverAuth)".into()
        }
        CertificateError::Revoked => "the broker's certificate is revoked (ssl.crl.location)".into(),
        CertificateError::UnknownRevocationStatus => {
            "no list in ssl.crl.location is about the authority of the broker's certificate".into()
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "the broker's certificate, or one of its chain, is signed in a way that is not taken: SHA-1, RSA with less than 2048 \
             bits, or an uncommon curve"
                .into()
        }
        // Other errors are recognised by the name in their debug text, such as CaUsedAsEndEntity of webpki: rustls has
        // no variant for them.
        other => {
            let words = format!("{other:?}");
            match words.contains("CaUsedAsEndEntity") {
                true => "the broker's certificate is an authority's own, such as a self-signed one, and does not stand in the \
                         truststore: add it to ssl.truststore.location (ssl.ca.location)"
                    .into(),
                false => format!("the broker's certificate cannot be verified: {other}"),
            }
        }
    }
}

fn of_names(expected: &ServerName<'_>, presented: &[String]) -> String {
    // rustls writes DnsName("a.example") and IpAddress(127.0.0.1).
    let plain = |name: &String| {
        let inner = name.split_once('(').and_then(|(_, inner)| inner.strip_suffix(')')).unwrap_or(name);
        inner.trim_matches('"').to_owned()
    };
    let expected = expected.to_str();
    let names: Vec<String> = presented.iter().map(plain).collect();
    match names.is_empty() {
        true => format!(
            "the broker's certificate names no host at all (subject alternative names), only {expected} would do: a name in \
             the subject (CN) does not count. It has to be issued anew, or ssl.endpoint.identification.algorithm=none takes it \
             for any host"
        ),
        false => format!(
            "the broker's certificate is for {}, not for {expected}, which was dialled: use one of these names in \
             bootstrap.servers and advertised.listeners, or have the certificate issued for {expected} too",
            names.join(", ")
        ),
    }
}

fn date(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    ASN1Time::from_timestamp(seconds).map_or_else(|_| format!("{seconds} s after 1970"), |time| time.to_string())
}
