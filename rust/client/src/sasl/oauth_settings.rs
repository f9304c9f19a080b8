//! The settings of OAUTHBEARER, and the source of tokens that they name.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use monedula_protocol::secret::Secret;
use rustls::pki_types::CertificateDer;
use serde_json::{Map, Value};
use ureq::Agent;
use ureq::http::Uri;

use super::assertion::{Assertion, Claims, SigningKey};
use super::clouds;
use super::jaas::Jaas;
use super::jwt::{Algorithm, PASSPHRASE};
use super::oidc::{Grant, OidcSource, Timeouts, agent};
use super::settings::error;
use super::sources::{FileSource, UnsecuredSource};
use super::token::TokenSource;
use crate::config_values::{ConfigError, ConfigValues};
use crate::net::proxy::http_proxy;
use crate::net::tls::{certificates, certificates_in};

const URL: &str = "sasl.oauthbearer.token.endpoint.url";
const PROVIDER: &str = "sasl.oauthbearer.token.provider";
const CLIENT_ID: &str = "sasl.oauthbearer.client.credentials.client.id";
const CLIENT_SECRET: &str = "sasl.oauthbearer.client.credentials.client.secret";
const ASSERTION_FILE: &str = "sasl.oauthbearer.assertion.file";
const KEY_FILE: &str = "sasl.oauthbearer.assertion.private.key.file";
const KEY_PEM: &str = "sasl.oauthbearer.assertion.private.key.pem";
/// The setting of the proxy to token endpoints.
pub(super) const PROXY: &str = "sasl.oauthbearer.proxy.url";
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// The token source that the settings name, if they name one.
pub(super) fn source(values: &ConfigValues, jaas: Option<&Jaas>) -> Result<Option<Arc<dyn TokenSource>>, ConfigError> {
    let extensions = extensions(values, jaas)?;
    if values.is_given(PROVIDER) {
        let message = format!("{PROVIDER} is a function or object of Python, and no text");
        return Err(error(values, PROVIDER, message));
    }
    if let Some(source) = clouds::source(values, &extensions)? {
        return Ok(Some(source));
    }
    let Some(url) = values.given(URL) else {
        return Ok(unsecured(jaas, extensions));
    };
    if let Some(path) = url.strip_prefix("file:") {
        // file:/path and file:///path are the same.
        let path = PathBuf::from(format!("/{}", path.trim_start_matches('/')));
        return Ok(Some(Arc::new(FileSource { path, extensions })));
    }
    check_url(values, URL, &url)?;
    let agent = token_agent(values, timeouts(values), PROXY)?;
    let from_jaas = |option: &str| jaas.and_then(|jaas| jaas.text(option)).map(str::to_owned);
    let scope = values.given("sasl.oauthbearer.scope").or_else(|| from_jaas("scope"));
    let id = values.given(CLIENT_ID).or_else(|| from_jaas("clientId"));
    let grant = match (is_jwt_bearer(values), has_assertion(values)) {
        (true, _) => Grant::JwtBearer(assertion(values, Map::new())?),
        // As in Java, an assertion counts before a secret (KIP-1258).
        (false, true) => Grant::ClientAssertion { assertion: assertion(values, of_client(id.as_deref(), &url))?, id },
        (false, false) => {
            let secret = values.secret(CLIENT_SECRET).or_else(|| from_jaas("clientSecret").map(Secret::from));
            let missing = |key: &str| error(values, key, format!("{key} is missing, which {URL} needs"));
            Grant::ClientCredentials {
                id: id.ok_or_else(|| missing(CLIENT_ID))?,
                secret: secret.ok_or_else(|| {
                    let instead = "or sasl.oauthbearer.assertion.* in its place";
                    error(values, CLIENT_SECRET, format!("{CLIENT_SECRET} is missing, which {URL} needs, {instead}"))
                })?,
                url_encode: values.bool("sasl.oauthbearer.header.urlencode"),
            }
        }
    };
    Ok(Some(Arc::new(OidcSource { agent, url, grant, scope, extensions, is_reached: AtomicBool::new(false) })))
}

/// The claims of a client's assertion where no setting has others: issuer and subject are the client, and the audience
/// is the token endpoint (RFC 7523, section 3).
fn of_client(id: Option<&str>, url: &str) -> Map<String, Value> {
    let claims = [("aud", Some(url)), ("iss", id), ("sub", id)].into_iter();
    claims.filter_map(|(name, text)| Some((name.to_owned(), text?.into()))).collect()
}

pub(super) fn timeouts(values: &ConfigValues) -> Timeouts {
    Timeouts::of_parts(values.millis("sasl.login.connect.timeout.ms"), values.millis("sasl.login.read.timeout.ms"))
}

/// An HTTP client for token endpoints, which goes through the proxy of the setting `proxy`.
///
/// # Errors
/// If the authorities or the proxy that the settings name cannot be used.
pub(crate) fn token_agent(values: &ConfigValues, timeouts: Timeouts, proxy: &str) -> Result<Agent, ConfigError> {
    Ok(agent(timeouts, authorities(values)?, None, http_proxy(values, proxy)?))
}

/// Tokens of a token endpoint for another server than the brokers, by client credentials.
///
/// # Errors
/// If the URL is none, or is open to everybody on the way.
pub(crate) fn client_credentials(
    values: &ConfigValues,
    agent: Agent,
    (key, url): (&str, String),
    (id, secret): (String, Secret),
    scope: Option<String>,
) -> Result<Arc<dyn TokenSource>, ConfigError> {
    check_url(values, key, &url)?;
    let grant = Grant::ClientCredentials { id, secret, url_encode: values.bool("sasl.oauthbearer.header.urlencode") };
    let (extensions, is_reached) = (Vec::new(), AtomicBool::new(false));
    Ok(Arc::new(OidcSource { agent, url, grant, scope, extensions, is_reached }))
}

fn has_assertion(values: &ConfigValues) -> bool {
    values.given(ASSERTION_FILE).or_else(|| values.given(KEY_FILE)).is_some() || values.secret(KEY_PEM).is_some()
}

fn is_jwt_bearer(values: &ConfigValues) -> bool {
    values.text("sasl.oauthbearer.grant.type") == JWT_BEARER
        || values.text("sasl.oauthbearer.jwt.retriever.class").ends_with(".JwtBearerJwtRetriever")
}

/// Checks that a URL has the right scheme and no password in it, which errors and logs would show.
pub(super) fn check_url(values: &ConfigValues, key: &str, url: &str) -> Result<(), ConfigError> {
    let wrong = |what: &str| Err(error(values, key, format!("{} {what}", values.name_of(key))));
    let Ok(parsed) = url.parse::<Uri>() else {
        return wrong("is no URL");
    };
    if parsed.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return wrong("has a user or password in it; give the client's id and secret by their settings");
    }
    match parsed.scheme_str() {
        Some("https") => Ok(()),
        Some("http") if values.bool("sasl.oauthbearer.allow.plain.http") => Ok(()),
        Some("http") => wrong(
            "is an http: URL, over which everybody on the way can read the secret and the token; use https:, or set sasl.oauthbearer.allow.plain.http=true",
        ),
        _ => wrong("is neither an https: nor a file: URL"),
    }
}

/// The authorities of the token endpoint that the settings name.
fn authorities(values: &ConfigValues) -> Result<Option<Vec<CertificateDer<'static>>>, ConfigError> {
    let wrong = |key: &str, reason: String| error(values, key, format!("{}: {reason}", values.name_of(key)));
    match (values.given("https.ca.location"), values.given("https.ca.pem")) {
        (Some(_), Some(_)) => {
            let message = "https.ca.location and https.ca.pem say the same; give one of them".to_owned();
            Err(error(values, "https.ca.pem", message))
        }
        (Some(path), None) => certificates_in(&path).map(Some).map_err(|reason| wrong("https.ca.location", reason)),
        (None, Some(pem)) => certificates(pem.as_bytes()).map(Some).map_err(|reason| wrong("https.ca.pem", reason)),
        (None, None) => Ok(None),
    }
}

/// The assertion of the settings; `defaults` are claims that count where they have none.
fn assertion(values: &ConfigValues, defaults: Map<String, Value>) -> Result<Assertion, ConfigError> {
    let given = |claim: &str| values.given(&format!("sasl.oauthbearer.assertion.claim.{claim}"));
    let (key, key_setting) = match (values.given(ASSERTION_FILE), values.given(KEY_FILE), values.secret(KEY_PEM)) {
        (Some(file), None, None) => return Ok(Assertion::File(file.into())),
        (None, Some(file), None) => (SigningKey::File(file.into()), KEY_FILE),
        (None, None, Some(pem)) => (SigningKey::Text(pem), KEY_PEM),
        _ => {
            let message = format!("an assertion is made of one of {ASSERTION_FILE}, {KEY_FILE} and {KEY_PEM}");
            return Err(error(values, ASSERTION_FILE, message));
        }
    };
    let es256 = values.text("sasl.oauthbearer.assertion.algorithm") == "ES256";
    let assertion = Assertion::Signed {
        algorithm: if es256 { Algorithm::Es256 } else { Algorithm::Rs256 },
        key,
        passphrase: values.secret(PASSPHRASE),
        template: values.given("sasl.oauthbearer.assertion.template.file").map(PathBuf::from),
        claims: Claims {
            defaults,
            audience: given("aud"),
            issuer: given("iss"),
            subject: given("sub"),
            lifetime_seconds: values.int("sasl.oauthbearer.assertion.claim.exp.seconds"),
            not_before_seconds: values.int("sasl.oauthbearer.assertion.claim.nbf.seconds"),
            has_id: values.bool("sasl.oauthbearer.assertion.claim.jti.include"),
        },
    };
    // So that a wrong path or password shows at once; files are read again for each assertion.
    assertion.make().map_err(|reason| error(values, key_setting, format!("{key_setting}: {reason}")))?;
    Ok(assertion)
}

fn unsecured(jaas: Option<&Jaas>, extensions: Vec<(String, String)>) -> Option<Arc<dyn TokenSource>> {
    let jaas = jaas?;
    let claims: Vec<(String, String)> =
        jaas.prefixed("unsecuredLoginStringClaim_").map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    if claims.is_empty() {
        return None;
    }
    let lifetime = jaas.text("unsecuredLoginLifetimeSeconds").and_then(|text| text.parse().ok());
    Some(Arc::new(UnsecuredSource { claims, lifetime_seconds: lifetime.unwrap_or(3600), extensions }))
}

fn extensions(values: &ConfigValues, jaas: Option<&Jaas>) -> Result<Vec<(String, String)>, ConfigError> {
    let mut extensions: Vec<(String, String)> = Vec::new();
    if let Some(jaas) = jaas {
        extensions.extend(jaas.prefixed("extension_").map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    let key = "sasl.oauthbearer.extensions";
    for pair in values.text(key).split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(error(values, key, format!("{key}: {pair:?} has no =; expected name=value,name=value")));
        };
        extensions.push((name.to_owned(), value.to_owned()));
    }
    for (name, value) in &extensions {
        let is_name = !name.is_empty() && name != "auth" && name.bytes().all(|byte| byte.is_ascii_alphabetic());
        if !is_name || value.is_empty() || value.bytes().any(|byte| !matches!(byte, 0x20..=0x7e)) {
            let message = format!(
                "{key}: {name:?} is a name of letters with a value of printable ASCII characters, and not auth"
            );
            return Err(error(values, key, message));
        }
    }
    Ok(extensions)
}
