//! TLS of the nodes' listeners: the certificate that they present, whether they ask for the client's, and the principal
//! that follows from it.

use std::sync::Arc;

use monedula_protocol::secret::Secret;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::shared::Entrance;
use crate::BrokerError;
use crate::core::Core;
use crate::security::{Certificates, ClientAuth, Flaw, subject};

/// The beginning of encrypted connections; that of others, if there is no listener with TLS.
///
/// # Errors
/// [`BrokerError::Command`] if TLS cannot be set up.
pub(super) fn entrance(core: &Core) -> Result<Entrance, BrokerError> {
    match core.settings.security.has_tls() {
        true => Ok(Entrance::Tls(acceptor(core, Flaw::None, core.settings.security.client_auth)?)),
        false => Ok(Entrance::Plain),
    }
}

/// Makes a TLS configuration, with a certificate that has this flaw.
///
/// # Errors
/// [`BrokerError::Command`] if the broker has no TLS.
pub(super) fn acceptor(core: &Core, flaw: Flaw, client_auth: ClientAuth) -> Result<TlsAcceptor, BrokerError> {
    let certificates = core.security.certificates()?;
    let issued = certificates.server(flaw)?;
    let chain = chain(&issued.chain_pem)?;
    let key = key(&issued.key_pem)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?;
    let config = match client_auth {
        ClientAuth::None => config.with_no_client_auth(),
        wanted => {
            let verifier = WebPkiClientVerifier::builder_with_provider(roots(certificates)?.into(), provider);
            let verifier = match wanted {
                ClientAuth::Requested => verifier.allow_unauthenticated(),
                _ => verifier,
            };
            config.with_client_cert_verifier(verifier.build().map_err(|error| failed(&error))?)
        }
    };
    let config = config.with_single_cert(chain, key).map_err(|error| failed(&error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn failed(error: &dyn std::error::Error) -> BrokerError {
    BrokerError::Command(format!("TLS cannot be set up: {error}"))
}

fn chain(pem: &str) -> Result<Vec<CertificateDer<'static>>, BrokerError> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().map_err(|error| failed(&error))
}

fn key(pem: &Secret) -> Result<PrivateKeyDer<'static>, BrokerError> {
    PrivateKeyDer::from_pem_slice(pem.expose()).map_err(|error| failed(&error))
}

fn roots(certificates: &Certificates) -> Result<RootCertStore, BrokerError> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(certificates.ca_pem())? {
        roots.add(certificate).map_err(|error| failed(&error))?;
    }
    Ok(roots)
}

/// The subject of the client's certificate; `None` if it presented none.
pub(super) fn client_subject(stream: &TlsStream<impl AsyncRead + AsyncWrite + Unpin>) -> Option<String> {
    let certificate = stream.get_ref().1.peer_certificates()?.first()?;
    subject(certificate)
}
