//! Reads certificates and keys from the bytes of a file or setting, in any of the formats.

use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use super::{jks, pem, pkcs12};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Pem,
    Pkcs12,
    Jks,
    /// One certificate, or one private key, in DER.
    Der,
}

impl Format {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pem => "PEM",
            Self::Pkcs12 => "PKCS#12",
            Self::Jks => "JKS",
            Self::Der => "DER",
        }
    }

    /// Recognizes the format by the content.
    fn of(bytes: &[u8]) -> Result<Self, Problem> {
        match bytes {
            [] => Err(Problem::new("it is empty")),
            [0xfe, 0xed, 0xfe, 0xed, ..] => Ok(Self::Jks),
            [0xce, 0xce, 0xce, 0xce, ..] => Err(Problem::new(
                "it is a JCEKS keystore, which is not supported: convert it with keytool -importkeystore -srckeystore OLD \
                 -srcstoretype JCEKS -destkeystore NEW.p12 -deststoretype PKCS12",
            )),
            // PKCS#12 is a sequence that begins with the version, 3. A certificate begins with another sequence.
            [0x30, ..] if pkcs12::is_one(bytes) => Ok(Self::Pkcs12),
            [0x30, ..] => Ok(Self::Der),
            _ if pem::is_one(bytes) => Ok(Self::Pem),
            _ => Err(Problem::new("it is neither PEM (-----BEGIN CERTIFICATE-----), nor PKCS#12, nor JKS")),
        }
    }
}

/// Fault of certificates or keys. The text has none of their bytes; the caller adds the setting and the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem(pub(super) String);

impl Problem {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// The passwords of a keystore and its key. A password that is not UTF-8 counts as absent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passwords<'p> {
    pub(super) store: Option<&'p [u8]>,
    pub(super) key: Option<&'p [u8]>,
}

/// A private key with its chain, the key's own certificate first.
pub(super) struct Entry {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

/// Content of a file or setting.
#[derive(Default)]
pub(super) struct Material {
    /// All certificates of PEM; of a keystore those that stand alone.
    pub(super) certificates: Vec<CertificateDer<'static>>,
    /// The first private key of PEM.
    pub(super) key: Option<PrivateKeyDer<'static>>,
    /// The private keys of a keystore.
    pub(super) entries: Vec<Entry>,
    pub(super) revocations: Vec<CertificateRevocationListDer<'static>>,
}

impl Material {
    /// All certificates, those of the entries too: what is trusted of a truststore.
    pub(super) fn all_certificates(self) -> Vec<CertificateDer<'static>> {
        let of_entries = self.entries.into_iter().flat_map(|entry| entry.chain);
        self.certificates.into_iter().chain(of_entries).collect()
    }

    /// The chain of a client's certificate whose key stands elsewhere.
    pub(super) fn into_chain(mut self) -> Vec<CertificateDer<'static>> {
        match self.entries.is_empty() {
            true => self.certificates,
            false => self.entries.swap_remove(0).chain,
        }
    }

    /// A private key whose certificate stands elsewhere.
    pub(super) fn into_key(mut self) -> Option<PrivateKeyDer<'static>> {
        self.key.or_else(|| (!self.entries.is_empty()).then(|| self.entries.swap_remove(0).key))
    }

    pub(super) fn into_entries(self) -> Vec<Entry> {
        match self.key {
            Some(key) => vec![Entry { chain: self.certificates, key }],
            None => self.entries,
        }
    }
}

/// Reads the bytes in the format that they show.
///
/// # Errors
/// Problem, and advice about it; also if the format is not the one that the user `expects`.
pub(super) fn read(bytes: &[u8], expects: Option<Format>, passwords: Passwords<'_>) -> Result<Material, Problem> {
    let format = Format::of(bytes)?;
    if let Some(expected) = expects.filter(|&expected| expected != format) {
        let (is, said) = (format.name(), expected.name());
        return Err(Problem(format!(
            "it is {is}, and its type is said to be {said}; leave the type out, or correct it"
        )));
    }
    match format {
        Format::Pem => pem::read(bytes, passwords),
        Format::Pkcs12 => pkcs12::read(bytes, passwords),
        Format::Jks => jks::read(bytes, passwords),
        Format::Der => Ok(Material { certificates: vec![CertificateDer::from(bytes.to_vec())], ..Material::default() }),
    }
}
