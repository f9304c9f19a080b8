//! The settings of a registry.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use monedula_protocol::base64;
use monedula_protocol::secret::Secret;
use rustls::pki_types::PrivateKeyDer;
use ureq::http::Uri;
use ureq::tls::{Certificate, ClientCert, PrivateKey};

use super::SchemaRegistry;
use super::authorization::{Authorization, Tokens};
use super::http::{Http, Url};
use super::reaching::Reaching;
use super::registering::Registering;
use crate::config_values::{ConfigError, ConfigValues, url_decoded};
use crate::net::proxy::http_proxy;
use crate::net::tls::{certificates_in, registry_identity};
use crate::sasl::{Timeouts, agent, client_credentials, token_agent};

const URL: &str = "schema.registry.url";
const USER_INFO: &str = "schema.registry.basic.auth.user.info";
const TOKEN: &str = "schema.registry.bearer.auth.token";
const CA: &str = "schema.registry.ssl.ca.location";
const CERTIFICATE: &str = "schema.registry.ssl.certificate.location";
const KEY: &str = "schema.registry.ssl.key.location";
const ISSUER: &str = "schema.registry.bearer.auth.issuer.endpoint.url";
const CLIENT_ID: &str = "schema.registry.bearer.auth.client.id";
const CLIENT_SECRET: &str = "schema.registry.bearer.auth.client.secret";
const PROXY: &str = "schema.registry.proxy.url";
const SOURCE: &str = "schema.registry.bearer.auth.credentials.source";

/// Headers of Confluent's cloud, and the settings that they have their values of.
const CLOUD: [(&str, &str); 2] = [
    ("target-sr-cluster", "schema.registry.bearer.auth.logical.cluster"),
    ("Confluent-Identity-Pool-Id", "schema.registry.bearer.auth.identity.pool.id"),
];

/// The registry that the settings name, if they name one.
pub(crate) fn registry(values: &ConfigValues) -> Result<Option<Arc<SchemaRegistry>>, ConfigError> {
    let Some(urls) = values.given(URL) else { return without_url(values).map(|()| None) };
    let timeout = values.millis("schema.registry.request.timeout.ms");
    let timeouts = Timeouts::of_whole(timeout);
    let authorization = authorization(values, timeouts)?;
    let urls: Vec<Url> = urls
        .split(',')
        .map(str::trim)
        .filter(|url| !url.is_empty())
        .map(|url| self::url(values, url, &authorization))
        .collect::<Result<_, _>>()?;
    if urls.is_empty() {
        return Err(wrong(values, URL, "has no URL in it"));
    }
    let has_tls = urls.iter().any(|url| url.url.starts_with("https:"));
    let authorities = match values.given(CA) {
        Some(path) => Some(certificates_in(&path).map_err(|reason| wrong(values, CA, &reason))?),
        // The system's are not read for nothing.
        None => (!has_tls).then(Vec::new),
    };
    let http = Http {
        agent: agent(timeouts, authorities, identity(values, has_tls)?, http_proxy(values, PROXY)?),
        urls,
        retries: values.int("schema.registry.max.retries") as u32,
        wait: values.millis("schema.registry.retries.wait.ms").max(Duration::from_millis(1)),
        max_wait: values.millis("schema.registry.retries.max.wait.ms"),
        headers: cloud_headers(values)?,
        reaching: Reaching::default(),
    };
    Ok(Some(Arc::new(SchemaRegistry::new(http, Registering::of(values)?))))
}

/// Refuses settings that say who asks where nobody is asked: a URL that is misspelt would be missed much later.
fn without_url(values: &ConfigValues) -> Result<(), ConfigError> {
    const WHO: [&str; 8] = [USER_INFO, TOKEN, ISSUER, CLIENT_ID, CLIENT_SECRET, CA, CERTIFICATE, PROXY];
    match WHO.into_iter().find(|key| values.given(key).is_some() || values.secret(key).is_some()) {
        Some(key) => Err(wrong(values, key, "is for a schema registry, and schema.registry.url does not name one")),
        None => Ok(()),
    }
}

fn identity(values: &ConfigValues, has_tls: bool) -> Result<Option<ClientCert>, ConfigError> {
    let Some((chain, key)) = registry_identity(values)? else { return Ok(None) };
    if !has_tls {
        return Err(wrong(values, URL, "has no https URL, over which the client's certificate would be shown"));
    }
    let chain: Vec<_> = chain.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect();
    // A key is taken as PEM only.
    let label = match &key {
        PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
        PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
        _ => "PRIVATE KEY",
    };
    let encoded = Secret::from(base64::encode(key.secret_der()));
    let text = encoded.expose_text().unwrap_or_default();
    let pem = Secret::from(format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n"));
    let key = PrivateKey::from_pem(pem.expose())
        .map_err(|reason| wrong(values, KEY, &format!("cannot be used: {reason}")))?;
    Ok(Some(ClientCert::new_with_certs(&chain, key)))
}

fn cloud_headers(values: &ConfigValues) -> Result<Vec<(&'static str, String)>, ConfigError> {
    let mut headers = Vec::new();
    for (header, key) in CLOUD {
        match values.given(key) {
            Some(value) if is_token(&value) => headers.push((header, value)),
            Some(_) => {
                return Err(wrong(values, key, "is no id: there are blanks or other letters in it that none has"));
            }
            None => {}
        }
    }
    Ok(headers)
}

fn authorization(values: &ConfigValues, timeouts: Timeouts) -> Result<Authorization, ConfigError> {
    if let Some(tokens) = tokens(values, timeouts)? {
        let other = [USER_INFO, TOKEN].into_iter().find(|key| values.secret(key).is_some());
        return match other {
            Some(key) => {
                let also = format!("and {} say two things about who asks; give one of them", values.name_of(ISSUER));
                Err(wrong(values, key, &also))
            }
            None => Ok(Authorization::Tokens(Arc::new(tokens))),
        };
    }
    Ok(fixed(values)?.map_or(Authorization::None, Authorization::Fixed))
}

fn tokens(values: &ConfigValues, timeouts: Timeouts) -> Result<Option<Tokens>, ConfigError> {
    let source = values.text(SOURCE);
    let Some(url) = values.given(ISSUER) else {
        let alone = [CLIENT_ID, CLIENT_SECRET].into_iter().find(|key| values.is_given(key));
        return match alone.or_else(|| (source == "OAUTHBEARER").then_some(SOURCE)) {
            Some(key) => Err(wrong(values, key, &format!("needs {ISSUER}, the URL of the token endpoint"))),
            None => Ok(None),
        };
    };
    if source == "STATIC_TOKEN" {
        return Err(wrong(values, SOURCE, &format!("is STATIC_TOKEN, and {ISSUER} is for OAUTHBEARER")));
    }
    let missing = |key: &str| {
        let message = format!("{key} is missing, which {} needs", values.name_of(ISSUER));
        ConfigError { key: key.into(), message }
    };
    let id = values.given(CLIENT_ID).ok_or_else(|| missing(CLIENT_ID))?;
    let secret = values.secret(CLIENT_SECRET).ok_or_else(|| missing(CLIENT_SECRET))?;
    let scope = values.given("schema.registry.bearer.auth.scope");
    let agent = token_agent(values, timeouts, PROXY)?;
    let source = client_credentials(values, agent, (ISSUER, url), (id, secret), scope)?;
    Ok(Some(Tokens::new(source)))
}

/// The header of a user and password, or of a token, that settings have.
fn fixed(values: &ConfigValues) -> Result<Option<Secret>, ConfigError> {
    match (values.secret(USER_INFO), values.secret(TOKEN)) {
        (Some(_), Some(_)) => {
            let also = format!("and {} say two things about who asks; give one of them", values.name_of(USER_INFO));
            Err(wrong(values, TOKEN, &also))
        }
        (Some(pair), None) if !pair.expose().contains(&b':') => {
            Err(wrong(values, USER_INFO, "has no colon in it; expected user:password"))
        }
        (Some(pair), None) => Ok(Some(basic(pair.expose()))),
        (None, Some(token)) => match token.expose_text().map(str::trim).filter(|token| is_token(token)) {
            Some(token) => Ok(Some(Secret::from(format!("Bearer {token}")))),
            None => Err(wrong(values, TOKEN, "is no token: there are blanks or other bytes in it that none has")),
        },
        (None, None) => Ok(None),
    }
}

fn is_token(token: &str) -> bool {
    token.bytes().all(|byte| byte.is_ascii_graphic())
}

fn basic(pair: &[u8]) -> Secret {
    Secret::from(format!("Basic {}", base64::encode(pair)))
}

/// A URL, whose user and password go into the header. No message has it as it was given: a password may be in it.
fn url(values: &ConfigValues, given: &str, authorization: &Authorization) -> Result<Url, ConfigError> {
    let expected = "is no URL; expected https://host:port or http://host:port";
    let parsed = given.parse::<Uri>().map_err(|_| wrong(values, URL, expected))?;
    let (Some(scheme @ ("http" | "https")), Some(authority)) = (parsed.scheme_str(), parsed.authority()) else {
        return Err(wrong(values, URL, expected));
    };
    if authority.host().is_empty() {
        return Err(wrong(values, URL, expected));
    }
    let (user, host) = match authority.as_str().rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority.as_str()),
    };
    let own = match user {
        Some(_) if !matches!(authorization, Authorization::None) => {
            return Err(wrong(
                values,
                URL,
                "has a user in it, and another setting says who asks too; give one of them",
            ));
        }
        Some(user) => Authorization::Fixed(basic(&url_decoded(user))),
        None => authorization.clone(),
    };
    if user.is_none() && given.contains('@') {
        let escaped = "has an @ behind its host; in a user and password of a URL, / stands as %2F, ? as %3F, # as %23";
        return Err(wrong(values, URL, escaped));
    }
    let port = host.strip_prefix(authority.host()).and_then(|port| port.strip_prefix(':'));
    if port.is_some_and(|port| port.parse::<NonZeroU16>().is_err()) {
        return Err(wrong(values, URL, "has a port that is no number from 1 to 65535"));
    }
    if parsed.query().is_some() {
        return Err(wrong(values, URL, "has a query (?), which the requests to a registry have no place for"));
    }
    let path = parsed.path().trim_end_matches('/');
    Ok(Url { url: format!("{scheme}://{host}{path}"), authorization: own })
}

fn wrong(values: &ConfigValues, key: &str, what: &str) -> ConfigError {
    let name = values.name_of(key);
    ConfigError { key: name.into(), message: format!("{name} {what}") }
}
