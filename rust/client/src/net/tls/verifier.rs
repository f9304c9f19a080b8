//! Verifies the certificates of brokers with webpki: chain, dates and, unless `ssl.endpoint.identification.algorithm`
//! is empty, the host name. As in Java, a certificate that is itself in the truststore is trusted too.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::load::roots;
use super::material::Problem;
use super::settings::Verification;

#[derive(Debug)]
pub(super) struct Verifier {
    /// `None` if nothing is verified.
    webpki: Option<Arc<WebPkiServerVerifier>>,
    /// The certificates in the truststore. webpki refuses an authority's certificate as that of a broker
    /// (CaUsedAsEndEntity), and a self-signed certificate usually is an authority's. Java accepts every certificate
    /// that is in the truststore.
    trusted: Vec<CertificateDer<'static>>,
    verification: Verification,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    pub(super) fn new(
        provider: &Arc<CryptoProvider>,
        trusted: Vec<CertificateDer<'static>>,
        revocations: Vec<CertificateRevocationListDer<'static>>,
        verification: Verification,
    ) -> Result<Self, Problem> {
        let algorithms = provider.signature_verification_algorithms;
        let webpki = match verification {
            Verification::Off => None,
            _ => Some(webpki(provider, &trusted, revocations)?),
        };
        Ok(Self { webpki, trusted, verification, algorithms })
    }

    /// Checks a certificate that is in the truststore: its host name and its dates. It needs no chain.
    fn verify_trusted(
        &self,
        certificate: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        check_dates(certificate, now)?;
        if self.verification == Verification::Full {
            verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
        }
        Ok(ServerCertVerified::assertion())
    }
}

fn webpki(
    provider: &Arc<CryptoProvider>,
    trusted: &[CertificateDer<'static>],
    revocations: Vec<CertificateRevocationListDer<'static>>,
) -> Result<Arc<WebPkiServerVerifier>, Problem> {
    let roots = roots(trusted);
    if roots.is_empty() {
        return Err(Problem::new("none of its certificates can be read as X.509 version 3"));
    }
    let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .with_crls(revocations)
        .only_check_end_entity_revocation();
    builder.build().map_err(|error| Problem(format!("the revocation lists cannot be used: {error}")))
}

fn check_dates(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), CertificateError> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let time = |time: x509_parser::time::ASN1Time| {
        UnixTime::since_unix_epoch(std::time::Duration::from_secs(time.timestamp().max(0).unsigned_abs()))
    };
    let (not_before, not_after) = (time(parsed.validity().not_before), time(parsed.validity().not_after));
    if now < not_before {
        return Err(CertificateError::NotValidYetContext { time: now, not_before });
    }
    if now > not_after {
        return Err(CertificateError::ExpiredContext { time: now, not_after });
    }
    Ok(())
}

fn is_about_the_name(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidCertificate(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. })
    )
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(webpki) = &self.webpki else { return Ok(ServerCertVerified::assertion()) };
        match webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // webpki checks the name last: all else was right.
            Err(error) if self.verification == Verification::AnyName && is_about_the_name(&error) => {
                Ok(ServerCertVerified::assertion())
            }
            // A certificate that is revoked, expired or for another name stays refused, with the error that says so.
            Err(Error::InvalidCertificate(
                CertificateError::Other(_) | CertificateError::UnknownIssuer | CertificateError::InvalidPurpose,
            )) if self.trusted.iter().any(|trusted| trusted == end_entity) => {
                self.verify_trusted(end_entity, server_name, now)
            }
            outcome => outcome,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
