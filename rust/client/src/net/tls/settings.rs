//! The settings of TLS, with their values checked; what they name is read by [`super::load`].

use std::path::PathBuf;

use monedula_protocol::secret::Secret;
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

use super::material::Format;
use crate::config_values::{ConfigError, ConfigValues};

/// Place of certificates or of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MaterialLocation {
    /// A file, or a directory of files.
    Path(PathBuf),
    /// The setting itself.
    Inline(Secret),
}

/// A location, with the setting that names it.
#[derive(Clone, Debug)]
pub(super) struct LocatedMaterial {
    pub(super) key: String,
    pub(super) location: MaterialLocation,
    /// The format that the user names.
    pub(super) format: Option<Format>,
}

impl LocatedMaterial {
    /// The setting that names a file, where this one has the PEM itself.
    pub(super) fn of_path(&self) -> &'static str {
        match self.key.replace('_', ".").as_str() {
            "ssl.truststore.certificates" | "ssl.ca.pem" => "ssl.truststore.location (ssl.ca.location)",
            "ssl.keystore.certificate.chain" | "ssl.certificate.pem" => "ssl.certificate.location",
            _ => "ssl.key.location",
        }
    }
}

/// The places of the client's own certificate and key: one place with both, or two.
#[derive(Clone, Debug)]
pub(super) struct IdentitySources {
    pub(super) chain: LocatedMaterial,
    /// `None` if the chain's place has the key too.
    pub(super) key: Option<LocatedMaterial>,
    pub(super) store_password: Option<Secret>,
    pub(super) key_password: Option<Secret>,
}

/// Checks of a broker's certificate (`ssl.endpoint.identification.algorithm`,
/// `enable.ssl.certificate.verification`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verification {
    /// The certificate's chain, its dates and its host name.
    Full,
    /// The certificate's chain and its dates.
    AnyName,
    Off,
}

#[derive(Debug)]
pub(super) struct TlsSettings {
    /// `None` for the system's authorities.
    pub(super) trust: Option<LocatedMaterial>,
    pub(super) trust_password: Option<Secret>,
    pub(super) identity: Option<IdentitySources>,
    pub(super) revoked: Option<LocatedMaterial>,
    pub(super) verification: Verification,
    pub(super) versions: Vec<&'static SupportedProtocolVersion>,
    pub(super) provider: CryptoProvider,
}

impl TlsSettings {
    pub(super) fn parse(values: &ConfigValues, warnings: &mut Vec<String>) -> Result<Self, ConfigError> {
        let trust = one_of(values, &["ssl.truststore.location"], &["ssl.truststore.certificates"])?;
        Ok(Self {
            trust: with_format(values, trust, "ssl.truststore.type")?,
            trust_password: values.secret("ssl.truststore.password"),
            identity: identity(values)?,
            revoked: one_of(values, &["ssl.crl.location"], &[])?,
            verification: verification(values, warnings)?,
            versions: versions(values)?,
            provider: provider(values, warnings)?,
        })
    }
}

fn error(values: &ConfigValues, key: &str, what: impl std::fmt::Display) -> ConfigError {
    let name = values.name_of(key);
    ConfigError { key: name.into(), message: format!("{name}: {what}") }
}

/// The one of these settings that is set; an error if several are.
fn one_of(
    values: &ConfigValues,
    paths: &[&'static str],
    inline: &[&'static str],
) -> Result<Option<LocatedMaterial>, ConfigError> {
    let of_path = |&key: &&'static str| Some((key, MaterialLocation::Path(values.given(key)?.into())));
    let of_inline = |&key: &&'static str| {
        let text = values.secret(key).or_else(|| values.given(key).map(Secret::from))?;
        Some((key, MaterialLocation::Inline(text)))
    };
    let mut found = paths.iter().filter_map(of_path).chain(inline.iter().filter_map(of_inline));
    let Some((key, location)) = found.next() else { return Ok(None) };
    if let Some((other, _)) = found.next() {
        return Err(error(values, key, format!("{} says the same; give one of them", values.name_of(other))));
    }
    Ok(Some(LocatedMaterial { key: values.name_of(key).into(), location, format: None }))
}

fn with_format(
    values: &ConfigValues,
    source: Option<LocatedMaterial>,
    key: &str,
) -> Result<Option<LocatedMaterial>, ConfigError> {
    let format = match values.text(key).as_str() {
        "PEM" => Some(Format::Pem),
        "PKCS12" => Some(Format::Pkcs12),
        "JKS" => Some(Format::Jks),
        _ => None,
    };
    Ok(source.map(|source| LocatedMaterial { format, ..source }))
}

fn identity(values: &ConfigValues) -> Result<Option<IdentitySources>, ConfigError> {
    let store_password = values.secret("ssl.keystore.password");
    let key_password = values.secret("ssl.key.password");
    let chain_keys = ["ssl.keystore.location", "ssl.certificate.location"];
    let chain = one_of(values, &chain_keys, &["ssl.keystore.certificate.chain"])?;
    let key = one_of(values, &["ssl.key.location"], &["ssl.keystore.key"])?;
    let Some(chain) = chain else {
        return match key {
            Some(key) => Err(error(
                values,
                &key.key,
                "a key needs its certificate: give ssl.certificate.location (or ssl.keystore.certificate.chain)",
            )),
            None => Ok(None),
        };
    };
    if key.is_none() && !values.text("ssl.keystore.certificate.chain").is_empty() {
        return Err(error(values, "ssl.keystore.certificate.chain", "the key is missing: give ssl.keystore.key"));
    }
    let chain = with_format(values, Some(chain), "ssl.keystore.type")?;
    Ok(chain.map(|chain| IdentitySources { chain, key, store_password, key_password }))
}

/// The places of the certificate and key that a schema registry is shown.
pub(super) fn identity_for_registry(values: &ConfigValues) -> Result<Option<IdentitySources>, ConfigError> {
    let chain_keys = ["schema.registry.ssl.keystore.location", "schema.registry.ssl.certificate.location"];
    let chain = one_of(values, &chain_keys, &[])?;
    let key = one_of(values, &["schema.registry.ssl.key.location"], &[])?;
    match (chain, key) {
        (None, Some(key)) => {
            Err(error(values, &key.key, "a key needs its certificate: give schema.registry.ssl.certificate.location"))
        }
        (None, None) => Ok(None),
        (Some(chain), key) => Ok(Some(IdentitySources {
            chain,
            key,
            store_password: values.secret("schema.registry.ssl.keystore.password"),
            key_password: values.secret("schema.registry.ssl.key.password"),
        })),
    }
}

fn verification(values: &ConfigValues, warnings: &mut Vec<String>) -> Result<Verification, ConfigError> {
    let key = "ssl.endpoint.identification.algorithm";
    if !values.bool("enable.ssl.certificate.verification") {
        let name = values.name_of("enable.ssl.certificate.verification");
        warnings.push(format!(
            "{name}=false: certificates of brokers are not verified, and whoever intercepts the connection can read and change \
             everything, passwords too"
        ));
        return Ok(Verification::Off);
    }
    match values.text(key).to_ascii_lowercase().as_str() {
        "https" => Ok(Verification::Full),
        "none" | "" => Ok(Verification::AnyName),
        other => Err(error(values, key, format!("{other:?} is not known; expected https, none or nothing"))),
    }
}

fn versions(values: &ConfigValues) -> Result<Vec<&'static SupportedProtocolVersion>, ConfigError> {
    let key = "ssl.enabled.protocols";
    let text = match values.text("ssl.protocol").as_str() {
        "TLS" => values.text(key),
        _ if values.is_given(key) => values.text(key),
        one => one.to_owned(),
    };
    let mut versions = Vec::new();
    for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let version = match name {
            "TLSv1.2" => &rustls::version::TLS12,
            "TLSv1.3" => &rustls::version::TLS13,
            _ => return Err(error(values, key, format!("{name} is not supported; TLSv1.2 and TLSv1.3 are"))),
        };
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    match versions.is_empty() {
        true => Err(error(values, key, "no version is left; expected TLSv1.2, TLSv1.3 or both")),
        false => Ok(versions),
    }
}

fn provider(values: &ConfigValues, warnings: &mut Vec<String>) -> Result<CryptoProvider, ConfigError> {
    let mut provider = aws_lc_rs::default_provider();
    if let Some(text) = values.given("ssl.cipher.suites") {
        provider.cipher_suites = chosen(values, "ssl.cipher.suites", &text, &suites(), warnings)?;
    }
    if let Some(text) = values.given("ssl.curves.list") {
        provider.kx_groups = chosen(values, "ssl.curves.list", &text, &groups(), warnings)?;
    }
    Ok(provider)
}

/// The known names in a list. Unknown ones are only warned of, because a list says what may be used, not what must.
fn chosen<T: Copy>(
    values: &ConfigValues,
    key: &str,
    text: &str,
    known: &[(&[&str], T)],
    warnings: &mut Vec<String>,
) -> Result<Vec<T>, ConfigError> {
    let (mut chosen, mut unknown) = (Vec::new(), Vec::new());
    for name in text.split([',', ':', ';', ' ']).filter(|name| !name.is_empty()) {
        match known.iter().find(|(names, _)| names.iter().any(|known| known.eq_ignore_ascii_case(name))) {
            Some((_, one)) => chosen.push(*one),
            None => unknown.push(name),
        }
    }
    let all = || known.iter().map(|(names, _)| names[0]).collect::<Vec<_>>().join(", ");
    if chosen.is_empty() {
        return Err(error(values, key, format!("nothing of {text:?} is supported; there are {}", all())));
    }
    if !unknown.is_empty() {
        let (name, unknown) = (values.name_of(key), unknown.join(", "));
        warnings.push(format!("{name}: {unknown} is not supported and left out; there are {}", all()));
    }
    Ok(chosen)
}

/// Cipher suites by the names of IANA, then of OpenSSL.
fn suites() -> [(&'static [&'static str], SupportedCipherSuite); 9] {
    use aws_lc_rs::cipher_suite as suite;
    [
        (&["TLS_AES_256_GCM_SHA384"], suite::TLS13_AES_256_GCM_SHA384),
        (&["TLS_AES_128_GCM_SHA256"], suite::TLS13_AES_128_GCM_SHA256),
        (&["TLS_CHACHA20_POLY1305_SHA256"], suite::TLS13_CHACHA20_POLY1305_SHA256),
        (
            &["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"],
            suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        ),
        (
            &["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"],
            suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        ),
        (
            &["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"],
            suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        ),
        (
            &["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"],
            suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        ),
        (
            &["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"],
            suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        ),
        (
            &["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"],
            suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        ),
    ]
}

/// Curves by the names of OpenSSL, then of Java.
fn groups() -> [(&'static [&'static str], &'static dyn SupportedKxGroup); 6] {
    use aws_lc_rs::kx_group as group;
    [
        (&["X25519MLKEM768"], group::X25519MLKEM768),
        (&["X25519"], group::X25519),
        (&["P-256", "prime256v1", "secp256r1"], group::SECP256R1),
        (&["P-384", "secp384r1"], group::SECP384R1),
        (&["P-256MLKEM768", "SecP256r1MLKEM768"], group::SECP256R1MLKEM768),
        (&["MLKEM768"], group::MLKEM768),
    ]
}
