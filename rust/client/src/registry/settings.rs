//! The settings of a registry.

use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use monedula_protocol::base64;
use monedula_protocol::secret::Secret;
use ureq::http::Uri;

use super::SchemaRegistry;
use super::http::{Http, Url};
use super::registering::Registering;
use crate::config_values::{ConfigError, Values};
use crate::files;
use crate::net::tls::certificates;
use crate::sasl::{Timeouts, agent};

const URL: &str = "schema.registry.url";
const USER_INFO: &str = "schema.registry.basic.auth.user.info";
const TOKEN: &str = "schema.registry.bearer.auth.token";
const CA: &str = "schema.registry.ssl.ca.location";

/// Largest file with authorities, in bytes.
const MAX_AUTHORITIES_BYTES: u64 = 16 << 20;

/// The registry that the settings name, if they name one.
pub(crate) fn registry(values: &Values) -> Result<Option<Arc<SchemaRegistry>>, ConfigError> {
    let Some(urls) = values.given(URL) else { return Ok(None) };
    let authorization = authorization(values)?;
    let urls: Vec<Url> = urls
        .split(',')
        .map(str::trim)
        .filter(|url| !url.is_empty())
        .map(|url| self::url(values, url, authorization.as_ref()))
        .collect::<Result<_, _>>()?;
    if urls.is_empty() {
        return Err(wrong(values, URL, "has no URL in it"));
    }
    let timeout = values.millis("schema.registry.request.timeout.ms");
    let has_tls = urls.iter().any(|url| url.url.starts_with("https:"));
    let authorities = match values.given(CA) {
        Some(path) => {
            let read = files::read(Path::new(&path), MAX_AUTHORITIES_BYTES);
            let found = read.and_then(|pem| certificates(&pem));
            Some(found.map_err(|reason| wrong(values, CA, &format!("{path}: {reason}")))?)
        }
        // Those of the system are not read for nothing.
        None => (!has_tls).then(Vec::new),
    };
    let http = Http {
        agent: agent(Timeouts { connect: timeout, read: timeout }, authorities),
        urls,
        retries: values.int("schema.registry.max.retries") as u32,
        wait: values.millis("schema.registry.retries.wait.ms").max(Duration::from_millis(1)),
        max_wait: values.millis("schema.registry.retries.max.wait.ms"),
    };
    Ok(Some(Arc::new(SchemaRegistry::new(http, Registering::of(values)?))))
}

/// The header `Authorization` of the settings.
fn authorization(values: &Values) -> Result<Option<Secret>, ConfigError> {
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

/// A URL; a user and password in it go into the header. No message has the URL as it was given: a password may be in it.
fn url(values: &Values, given: &str, authorization: Option<&Secret>) -> Result<Url, ConfigError> {
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
        Some(_) if authorization.is_some() => {
            return Err(wrong(
                values,
                URL,
                "has a user in it, and another setting says who asks too; give one of them",
            ));
        }
        Some(user) => Some(basic(&decoded(user))),
        None => authorization.cloned(),
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

/// Without the escapes of a URL.
fn decoded(text: &str) -> Vec<u8> {
    let (mut decoded, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = (byte == b'%').then(|| after.get(..2)).flatten();
        let escaped = escaped.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        decoded.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    decoded
}

fn wrong(values: &Values, key: &str, what: &str) -> ConfigError {
    let name = values.name_of(key);
    ConfigError { key: name.into(), message: format!("{name} {what}") }
}
