//! Builds the configuration of rustls from the settings and the files that they name.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use monedula_protocol::secret::Secret;
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, InconsistentKeys};
use x509_parser::prelude::{FromDer, X509Certificate};
use zeroize::Zeroizing;

use super::identities::Identities;
use super::material::{self, Entry, Material, Passwords, Problem};
use super::settings::{IdentitySources, LocatedMaterial, MaterialLocation, TlsSettings, Verification};
use super::verifier::Verifier;
use crate::config_values::ConfigError;
use crate::files;

/// Largest file with certificates or keys, in bytes. A bundle of all public authorities has a quarter of a megabyte.
pub(super) const MOST_BYTES: u64 = 16 << 20;

/// A text that is longer is no path of a file, in bytes.
const LONGEST_PATH: usize = 255;

/// The TLS configuration of new connections.
pub(super) struct Loaded {
    pub(super) config: Arc<ClientConfig>,
    /// The files that it is made from, as they were before they were read.
    pub(super) seen: Seen,
    pub(super) warnings: Vec<String>,
    /// Expiry of the first of the client's own certificates to expire.
    pub(super) certificate_expires: Option<SystemTime>,
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded").field("seen", &self.seen).finish_non_exhaustive()
    }
}

/// Files, each with the data that shows whether it has changed. The modification time has the resolution of the file
/// system's clock, so the content counts too. It is hashed only if the modification is recent, or if time or size
/// differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen(Vec<(PathBuf, Option<FileFingerprint>)>);

#[derive(Clone, Debug)]
struct FileFingerprint {
    changed_at: Option<SystemTime>,
    bytes: u64,
    hash: [u8; 32],
    /// True if the file was modified so recently that only its hash would show another change within the same tick of
    /// the clock.
    is_young: bool,
}

impl PartialEq for FileFingerprint {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

impl Eq for FileFingerprint {}

/// Changes within this time before a check may have the same modification time.
const YOUNG: std::time::Duration = std::time::Duration::from_secs(3);

impl FileFingerprint {
    /// The state of the file now; `None` if it cannot be read.
    fn of(path: &Path, known: Option<&Self>) -> Option<Self> {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        let (changed_at, bytes) = (metadata.modified().ok(), metadata.len());
        if let Some(known) = known.filter(|known| !known.is_young && known.changed_at.is_some())
            && (known.changed_at, known.bytes) == (changed_at, bytes)
        {
            return Some(known.clone());
        }
        let content = files::read(path, MOST_BYTES).ok()?;
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &content);
        let is_young = changed_at.is_none_or(|at| at.elapsed().is_ok_and(|age| age < YOUNG));
        Some(Self { changed_at, bytes, hash: digest.as_ref().try_into().ok()?, is_young })
    }
}

fn error(key: &str, what: impl std::fmt::Display) -> ConfigError {
    ConfigError { key: key.into(), message: format!("{key}: {what}") }
}

impl TlsSettings {
    /// The state of the settings' files now. Files in `known` are hashed again only if something points to a change.
    pub(super) fn look(&self, known: &Seen) -> Seen {
        let mut files = Vec::new();
        for source in self.sources() {
            if let MaterialLocation::Path(path) = &source.location {
                files.extend(files_of(path));
            }
        }
        let fingerprint = |path: PathBuf| {
            let known =
                known.0.iter().find(|(before, _)| *before == path).and_then(|(_, fingerprint)| fingerprint.as_ref());
            let fingerprint = FileFingerprint::of(&path, known);
            (path, fingerprint)
        };
        Seen(files.into_iter().map(fingerprint).collect())
    }

    fn sources(&self) -> impl Iterator<Item = &LocatedMaterial> {
        let identity = self.identity.iter().flat_map(|identity| std::iter::once(&identity.chain).chain(&identity.key));
        self.trust.iter().chain(identity).chain(&self.revoked)
    }

    /// Reads all files.
    ///
    /// # Errors
    /// The setting, the file, and what is wrong.
    pub(super) fn load(&self) -> Result<Loaded, ConfigError> {
        let seen = self.look(&Seen::default());
        let mut warnings = Vec::new();
        let provider = Arc::new(self.provider.clone());
        let trusted = match self.verification {
            Verification::Off => Vec::new(),
            _ => self.trusted(&mut warnings)?,
        };
        let revocations = self.revocations()?;
        let verifier = Verifier::new(&provider, trusted, revocations, self.verification).map_err(|Problem(what)| {
            error(self.trust.as_ref().map_or("ssl.truststore.location", |source| &source.key), what)
        })?;
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&self.versions)
            .map_err(|_| {
                let what = "none of the suites is for one of the versions (ssl.enabled.protocols)";
                error("ssl.cipher.suites", what)
            })?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let (config, certificate_expires) = match &self.identity {
            None => (builder.with_no_client_auth(), None),
            Some(sources) => {
                let identities = Identities(certified(sources, entries(sources)?, &provider)?);
                let expires = identities.first_expiry();
                (builder.with_client_cert_resolver(Arc::new(identities)), expires)
            }
        };
        Ok(Loaded { config: Arc::new(config), seen, warnings, certificate_expires })
    }

    /// The certificates that are trusted: those of the settings, else the system's.
    fn trusted(&self, warnings: &mut Vec<String>) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
        let Some(source) = &self.trust else { return system(warnings) };
        let passwords = Passwords { store: self.trust_password.as_ref().map(Secret::expose), ..Passwords::default() };
        let mut found = Vec::new();
        match &source.location {
            MaterialLocation::Path(path) if path.is_dir() => {
                for file in files_of(path) {
                    // A directory of certificates may have other files too, such as a README or CRLs.
                    if let Ok(material) = read(source, Some(&file), passwords) {
                        found.extend(material.all_certificates());
                    }
                }
            }
            _ => found = read(source, None, passwords)?.all_certificates(),
        }
        match found.is_empty() {
            true => Err(wrong(source, None, "there is no certificate in it")),
            false => Ok(found),
        }
    }

    fn revocations(&self) -> Result<Vec<CertificateRevocationListDer<'static>>, ConfigError> {
        let Some(source) = &self.revoked else { return Ok(Vec::new()) };
        let lists = read(source, None, Passwords::default())?.revocations;
        match lists.is_empty() {
            true => Err(wrong(source, None, "there is no revocation list (-----BEGIN X509 CRL-----) in it")),
            false => Ok(lists),
        }
    }
}

/// The system's authorities, or those that `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
fn system(warnings: &mut Vec<String>) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        let what = format!(
            "it is not set, and the system has no certificates of authorities ({}); give a file with them, or install the \
             system's (on Debian and Alpine the package ca-certificates)",
            if errors.is_empty() { "none were found".to_owned() } else { errors.join("; ") }
        );
        return Err(error("ssl.truststore.location", what));
    }
    warnings.extend(
        found.errors.iter().map(|failed| format!("not all of the system's authorities could be read: {failed}")),
    );
    Ok(found.certs)
}

/// The client's own keys, each with its certificate and chain; of a keystore there may be several.
fn entries(sources: &IdentitySources) -> Result<Vec<Entry>, ConfigError> {
    let passwords = Passwords {
        store: sources.store_password.as_ref().map(Secret::expose),
        key: sources.key_password.as_ref().map(Secret::expose),
    };
    let chain = read(&sources.chain, None, passwords)?;
    if chain.certificates.is_empty() && chain.entries.is_empty() {
        return Err(wrong(&sources.chain, None, "there is no certificate in it"));
    }
    if let Some(source) = &sources.key {
        let key = read(source, None, passwords)?.into_key();
        let key = key.ok_or_else(|| wrong(source, None, "there is no private key in it"))?;
        return Ok(vec![Entry { chain: chain.into_chain(), key }]);
    }
    let entries = chain.into_entries();
    match entries.is_empty() {
        true => Err(wrong(
            &sources.chain,
            None,
            "there is no private key in it; give a file with the certificate and the key, or the key's as ssl.key.location",
        )),
        false => Ok(entries),
    }
}

/// The first of the client's own keys that a registry can be shown, with its certificate and chain.
pub(super) fn usable_entry(
    sources: &IdentitySources,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), ConfigError> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let mut failure = None;
    for Entry { chain, key } in entries(sources)? {
        let usable = certified(sources, vec![Entry { chain: chain.clone(), key: key.clone_key() }], &provider);
        // The client of HTTP panics on a certificate that rustls itself does not take.
        let usable = usable.and_then(|_| {
            CertifiedKey::from_der(chain.clone(), key.clone_key(), &provider).map_err(|reason| {
                error(
                    &sources.chain.key,
                    format!(
                        "a registry is shown certificates of X.509 version 3 alone, and brokers others too: {reason}"
                    ),
                )
            })
        });
        match usable {
            Ok(_) => return Ok((chain, key)),
            Err(reason) => _ = failure.get_or_insert(reason),
        }
    }
    Err(failure.unwrap_or_else(|| wrong(&sources.chain, None, "there is no private key in it")))
}

/// The entries as rustls takes them. One that cannot be used is left out if there is another.
fn certified(
    sources: &IdentitySources,
    entries: Vec<Entry>,
    provider: &CryptoProvider,
) -> Result<Vec<Arc<CertifiedKey>>, ConfigError> {
    let (mut usable, mut failure) = (Vec::new(), None);
    for Entry { chain, key } in entries {
        match certified_key(chain, key, provider) {
            Ok(certified) => usable.push(Arc::new(certified)),
            Err(reason) => _ = failure.get_or_insert(reason),
        }
    }
    let of_key = &sources.key.as_ref().unwrap_or(&sources.chain).key;
    match failure.filter(|_| usable.is_empty()) {
        None => Ok(usable),
        Some(rustls::Error::InconsistentKeys(_)) => {
            let of = &sources.chain.key;
            Err(error(of_key, format!("the private key does not belong to the certificate of {of}")))
        }
        Some(reason) => Err(error(of_key, format!("the private key or its certificate cannot be used: {reason}"))),
    }
}

/// The files of a path: the file itself, or those in the directory in the order of their names.
fn files_of(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else { return vec![path.to_owned()] };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

fn read(source: &LocatedMaterial, file: Option<&Path>, passwords: Passwords<'_>) -> Result<Material, ConfigError> {
    let bytes = match (&source.location, file) {
        (MaterialLocation::Inline(text), _) if is_path(text) => {
            let what = format!(
                "it looks like the path of a file, which goes into {}; the PEM itself is expected",
                source.of_path()
            );
            return Err(wrong(source, None, what));
        }
        (MaterialLocation::Inline(text), _) => Zeroizing::new(text.expose().to_vec()),
        (MaterialLocation::Path(path), file) => {
            files::read(file.unwrap_or(path), MOST_BYTES).map_err(|failed| wrong(source, file, failed))?
        }
    };
    material::read(&bytes, source.format, passwords).map_err(|Problem(what)| wrong(source, file, what))
}

/// A key with its chain, whose first certificate must be that of the key. `CertifiedKey::from_der` would refuse
/// certificates of X.509 version 1, which brokers take.
fn certified_key(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, rustls::Error> {
    let certified = CertifiedKey::new(chain, provider.key_provider.load_private_key(key)?);
    let (_, own) =
        X509Certificate::from_der(certified.end_entity_cert()?).map_err(|_| CertificateError::BadEncoding)?;
    let belongs = certified.key.public_key().is_none_or(|public| public.as_ref() == own.public_key().raw);
    if belongs { Ok(certified) } else { Err(InconsistentKeys::KeyMismatch.into()) }
}

/// True if a text that should be PEM is the path of a file instead.
fn is_path(text: &Secret) -> bool {
    const BEGINNINGS: [&str; 5] = ["/", "./", "../", "~", "file:"];
    const ENDINGS: [&str; 7] = [".pem", ".crt", ".cer", ".key", ".p12", ".pfx", ".jks"];
    let Some(text) = text.expose_text().map(str::trim) else { return false };
    // The base64 of a certificate without its BEGIN and END may begin with a slash too, and is longer.
    text.len() <= LONGEST_PATH
        && !text.contains(['\n', '\r'])
        && !text.contains("-----")
        && (BEGINNINGS.iter().any(|begin| text.starts_with(begin)) || ENDINGS.iter().any(|end| text.ends_with(end)))
}

fn wrong(source: &LocatedMaterial, file: Option<&Path>, what: impl std::fmt::Display) -> ConfigError {
    match (&source.location, file) {
        (MaterialLocation::Inline(_), _) => error(&source.key, what),
        (MaterialLocation::Path(path), file) => {
            error(&source.key, format!("{}: {what}", file.unwrap_or(path).display()))
        }
    }
}

/// Adds certificates as authorities. Those that webpki does not accept are left out: one invalid certificate in a large
/// store must not make the rest unusable.
pub(super) fn roots(trusted: &[CertificateDer<'static>]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(trusted.iter().cloned());
    roots
}
