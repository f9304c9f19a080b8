//! Choice of the client's certificate that is shown to a broker that asks for one.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The client's certificates: one, or all those of a keystore.
///
/// The broker gets the first that an authority has issued which it names, as from Java's clients. Where none is, or it
/// names none, it gets the first all the same: brokers name their authorities, but need not name all (librdkafka#4900).
#[derive(Debug)]
pub(super) struct Identities(pub(super) Vec<Arc<CertifiedKey>>);

impl Identities {
    /// Expiry of the first of them to expire; those that cannot be read as X.509 are left out.
    pub(super) fn first_expiry(&self) -> Option<SystemTime> {
        let own = self.0.iter().filter_map(|certified| certified.cert.first());
        own.filter_map(|certificate| {
            let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
            let seconds = u64::try_from(parsed.validity().not_after.timestamp()).ok()?;
            UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
        })
        .min()
    }
}

impl ResolvesClientCert for Identities {
    fn resolve(&self, named: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let usable = || self.0.iter().filter(|certified| certified.key.choose_scheme(schemes).is_some());
        usable().find(|certified| is_issued_by(certified, named)).or_else(|| usable().next()).cloned()
    }

    fn has_certs(&self) -> bool {
        !self.0.is_empty()
    }
}

/// True if one of the authorities with these names, in DER, has issued a certificate of the chain.
fn is_issued_by(certified: &CertifiedKey, named: &[&[u8]]) -> bool {
    certified.cert.iter().any(|certificate| {
        X509Certificate::from_der(certificate).is_ok_and(|(_, parsed)| named.contains(&parsed.issuer().as_raw()))
    })
}
