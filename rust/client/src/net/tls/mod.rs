//! TLS: settings (`settings`), certificates and keys from the places that they name (`load`, `material` and the
//! formats), verification of a broker's certificate (`verifier`), choice of the client's (`identities`), the encrypted
//! connection (`stream`), and its errors (`failure`).
//!
//! Files are read when the client is created, and for a new connection again if they have changed since. A certificate
//! and its key are two files, which cannot be replaced at the same moment. If they do not belong together, or cannot be
//! read, new connections use the ones that were read before.

mod failure;
mod identities;
mod jks;
mod load;
mod material;
mod pem;
mod pkcs12;
mod pkcs8;
mod settings;
mod stream;
mod verifier;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub(crate) use self::failure::alert_after_handshake;
use self::load::{Loaded, Seen};
use self::material::{Format, Material, Passwords, Problem};
use self::settings::TlsSettings;
use self::stream::Wire;
pub(crate) use self::stream::{CutRecord, TlsReadHalf, TlsWriteHalf, split};
use crate::blocking;
use crate::config_values::{ConfigError, ConfigValues};
use crate::error::RequestError;
use crate::files;
use crate::lock::lock;
use crate::log::{Log, kinds};

pub(crate) type TlsStream = tokio_rustls::client::TlsStream<Wire>;

/// The settings of a client's TLS connections, and the certificates and keys that were read from their files.
#[derive(Debug)]
pub struct Tls {
    settings: TlsSettings,
    state: Mutex<TlsState>,
    /// Held by the thread that looks at the files: where a file system does not answer, one thread waits for it.
    reading: Arc<tokio::sync::Mutex<()>>,
    /// Time for which a new connection waits for that thread, before it takes what was read before.
    patience: Duration,
}

/// The certificate, with its chain, and the key that a schema registry is shown, if settings name them.
///
/// # Errors
/// If they cannot be read or used.
pub(crate) fn registry_identity(
    values: &ConfigValues,
) -> Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>, ConfigError> {
    settings::identity_for_registry(values)?.map(|sources| load::usable_entry(&sources)).transpose()
}

#[derive(Debug)]
struct TlsState {
    loaded: Loaded,
    /// The state of the files when they could not be used: the warning about them is logged once.
    unusable: Option<Seen>,
}

impl Tls {
    /// Reads the files that the settings name. Without TLS it returns `None`, and warns of settings that have no
    /// effect.
    pub(crate) fn of(
        values: &ConfigValues,
        is_used: bool,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Self>, ConfigError> {
        if !is_used {
            let given: Vec<&str> = values.given_under("ssl.").chain(values.given_under("enable.ssl.")).collect();
            if !given.is_empty() {
                let protocol = values.text("security.protocol");
                warnings.push(format!(
                    "without effect under security.protocol={protocol}: {}; TLS is security.protocol=SSL or SASL_SSL",
                    given.join(", ")
                ));
            }
            return Ok(None);
        }
        let settings = TlsSettings::parse(values, warnings)?;
        let loaded = settings.load()?;
        warnings.extend(loaded.warnings.iter().cloned());
        let patience = values.millis("socket.connection.setup.timeout.ms") / 2;
        let state = Mutex::new(TlsState { loaded, unusable: None });
        Ok(Some(Self { settings, state, reading: Arc::default(), patience }))
    }

    /// Encrypts a connection to the broker of this name.
    ///
    /// # Errors
    /// A final error if one side refused the other's certificate, or they have no cipher suite or version in common;
    /// otherwise the error of a broken connection.
    pub(crate) async fn connect(
        self: &Arc<Self>,
        (host, port): (&str, u16),
        stream: TcpStream,
        buffer_bytes: usize,
        log: &Log,
    ) -> Result<TlsStream, RequestError> {
        let broker = format!("{host}:{port}");
        let name = server_name(host).ok_or_else(|| RequestError::Disconnected {
            broker: broker.clone(),
            reason: format!("{host} is neither a name nor an address that a certificate could be for"),
        })?;
        let config = self.current(log).await;
        let handshake = TlsConnector::from(config).connect(name, Wire::new(stream, buffer_bytes)).into_fallible().await;
        handshake.map_err(|(error, wire)| failure::of_handshake(&broker, &error, wire.first_bytes()))
    }

    /// Expiry of the client's own certificate, as of the last connection: files are read again for each.
    pub(crate) fn certificate_expires(&self) -> Option<SystemTime> {
        lock(&self.state).loaded.certificate_expires
    }

    /// The TLS configuration for the files as they are now, or as they were before if they cannot be read in time. A
    /// thread that may block reads the files.
    async fn current(self: &Arc<Self>, log: &Log) -> Arc<rustls::ClientConfig> {
        let (this, its_log) = (self.clone(), log.clone());
        let fresh = async {
            let turn = self.reading.clone().lock_owned().await;
            let reload = move || {
                let config = this.reload(&its_log);
                drop(turn);
                config
            };
            blocking::run(reload).await
        };
        match tokio::time::timeout(self.patience, fresh).await {
            Ok(Ok(config)) => return config,
            Ok(Err(_)) => {}
            Err(_) => log.record(&kinds::CERTIFICATES_UNREAD, || {
                let after = self.patience.as_millis();
                format!(
                    "the files of certificates and keys could not be read within {after} ms; what was read before is used"
                )
            }),
        }
        lock(&self.state).loaded.config.clone()
    }

    fn reload(&self, log: &Log) -> Arc<rustls::ClientConfig> {
        let (known, unusable) = {
            let state = lock(&self.state);
            (state.loaded.seen.clone(), state.unusable.clone())
        };
        let seen = self.settings.look(&known);
        if seen != known && unusable.as_ref() != Some(&seen) {
            match self.settings.load() {
                Ok(loaded) => {
                    log.record(&kinds::CERTIFICATES_CHANGED, || {
                        "certificates or keys have changed and are used from now on".to_owned()
                    });
                    *lock(&self.state) = TlsState { loaded, unusable: None };
                }
                Err(error) => {
                    log.record(&kinds::CERTIFICATES_UNUSABLE, || {
                        format!(
                            "certificates or keys have changed and cannot be used, those from before still are: {error}"
                        )
                    });
                    lock(&self.state).unusable = Some(seen);
                }
            }
        }
        lock(&self.state).loaded.config.clone()
    }
}

/// The private key of a PEM, for other purposes than TLS. `setting` is the one that has its password.
///
/// # Errors
/// Problem, for the error.
pub(crate) fn private_key(
    pem: &[u8],
    password: Option<&[u8]>,
    setting: &str,
) -> Result<PrivateKeyDer<'static>, String> {
    let passwords = Passwords { key: password, store: None };
    let found = material::read(pem, Some(Format::Pem), passwords).map(Material::into_key);
    match found {
        Ok(Some(key)) => Ok(key),
        Ok(None) => Err("there is no private key in it".into()),
        Err(Problem(what)) => Err(what.replace("ssl.key.password", setting)),
    }
}

/// The certificates of a PEM, for other purposes than TLS with brokers.
///
/// # Errors
/// Problem, for the error.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = material::read(pem, Some(Format::Pem), Passwords::default()).map_err(|Problem(what)| what)?;
    let certificates = found.all_certificates();
    if certificates.is_empty() { Err("there is no certificate in it".into()) } else { Ok(certificates) }
}

/// As [`certificates`], of a file.
///
/// # Errors
/// Problem, with the path.
pub(crate) fn certificates_in(path: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = files::read(Path::new(path), load::MOST_BYTES).and_then(|pem| certificates(&pem));
    read.map_err(|reason| format!("{path}: {reason}"))
}

/// Name or address that a broker's certificate must be for. A name is sent to the broker as well (SNI), an address is
/// not; the dot at the end of a fully qualified name is in neither.
fn server_name(host: &str) -> Option<ServerName<'static>> {
    ServerName::try_from(host.strip_suffix('.').unwrap_or(host).to_owned()).ok()
}

#[cfg(test)]
mod attack_tests;
#[cfg(test)]
mod keystore_tests;
#[cfg(test)]
pub(in crate::net) mod test_support;
#[cfg(test)]
mod tests;
