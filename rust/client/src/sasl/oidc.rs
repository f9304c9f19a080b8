//! Tokens from the token endpoint of an identity provider: client credentials (RFC 6749), with a secret or an assertion
//! (RFC 7523, KIP-1258), and JWT bearer (RFC 7523); and from the metadata service of a cloud, which knows who asks.
//!
//! Requests use TLS unless a setting allows otherwise, follow no redirect, have deadlines, and read no more than the
//! largest token.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use monedula_protocol::base64;
use monedula_protocol::sasl::readable;
use monedula_protocol::secret::Secret;
use rustls::CertificateError;
use rustls::pki_types::CertificateDer;
use serde_json::{Map, Value};
use ureq::http::Response;
use ureq::tls::{Certificate, ClientCert, RootCerts, TlsConfig};
use ureq::typestate::WithoutBody;
use ureq::{Agent, Body, RequestBuilder};

use super::assertion::Assertion;
use super::jwt;
use super::sources::OPAQUE_LIFE_MS;
use super::token::{Token, TokenError, TokenSource};
use crate::wall_clock::now_ms;

const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// Reaction of brokers to a request of HTTP.
const NO_ANSWER: &str = "the connection was closed before an answer came; the URL may lead to a broker's port, where that of the \
                         identity provider's token endpoint is expected";

#[derive(Debug)]
pub(super) struct OidcSource {
    pub(super) agent: Agent,
    pub(super) url: String,
    pub(super) grant: Grant,
    pub(super) scope: Option<String>,
    pub(super) extensions: Vec<(String, String)>,
    /// True if it has ever answered.
    pub(super) is_reached: AtomicBool,
}

#[derive(Debug)]
pub(super) enum Grant {
    ClientCredentials {
        id: String,
        secret: Secret,
        /// True if id and secret are form-encoded before they go into the header, as RFC 6749 requires and few
        /// providers expect.
        url_encode: bool,
    },
    /// An assertion in place of the secret (`private_key_jwt`).
    ClientAssertion {
        id: Option<String>,
        assertion: Assertion,
    },
    JwtBearer(Assertion),
    /// A metadata service, which is asked with these headers and answers to this machine alone.
    Metadata {
        headers: Vec<(&'static str, Secret)>,
        /// Advice where it does not answer.
        advice: &'static str,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) connect: Duration,
    pub(crate) read: Duration,
    /// Limit of the whole request, to the last byte of the answer.
    pub(crate) whole: Duration,
}

impl Timeouts {
    /// Timeouts from two settings, one of which limits connecting.
    pub(crate) fn of_parts(connect: Duration, read: Duration) -> Self {
        Self { connect, read, whole: connect + read }
    }

    /// Timeouts from one setting that limits the whole request.
    pub(crate) fn of_whole(whole: Duration) -> Self {
        Self { connect: whole, read: whole, whole }
    }
}

/// An HTTP client for the endpoint, or for another server. `authorities` are those that it trusts, `None` the system's;
/// it shows `identity`, and asks through `proxy`.
pub(crate) fn agent(
    timeouts: Timeouts,
    authorities: Option<Vec<CertificateDer<'static>>>,
    identity: Option<ClientCert>,
    proxy: Option<ureq::Proxy>,
) -> Agent {
    let certificates = authorities.unwrap_or_else(|| rustls_native_certs::load_native_certs().certs);
    let roots: Vec<Certificate<'static>> =
        certificates.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect();
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::from(roots))
        .client_cert(identity)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .proxy(proxy)
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_idle_connections(0)
        .timeout_resolve(Some(timeouts.connect))
        .timeout_connect(Some(timeouts.connect))
        .timeout_recv_response(Some(timeouts.read))
        .timeout_global(Some(timeouts.whole))
        .user_agent(concat!("monedula/", env!("CARGO_PKG_VERSION")))
        .build();
    config.new_agent()
}

/// Advice where a proxy asks for another login, or for one at all.
pub(super) const LOGIN_OF_PROXY: &str = ": the proxy wants another user and password; correct them in its URL";

/// The proxy through which a client asks, as the end of an error: errors of the proxy look like those of the server.
/// Empty without one.
pub(crate) fn through_proxy(agent: &Agent, url: &str) -> String {
    let Some(proxy) = agent.config().proxy() else { return String::new() };
    if url.parse().is_ok_and(|uri| proxy.is_no_proxy(&uri)) {
        return String::new();
    }
    let (protocol, host, port) = (proxy.protocol().to_string().to_ascii_lowercase(), proxy.host(), proxy.port());
    match proxy.is_from_env() {
        true => format!(
            "; the environment names a proxy, {protocol}://{host}:{port} (ALL_PROXY, HTTPS_PROXY or HTTP_PROXY): is this \
             server to be asked through it? NO_PROXY names hosts that are not"
        ),
        false => format!("; asked through the proxy {protocol}://{host}:{port}"),
    }
}

/// A URL as it may stand in messages: without user and password, and without its query, in which some services have a
/// key.
pub(super) fn shown(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

/// True if a proxy did not take the user and password, which it would not the next time.
pub(crate) fn is_refused_by_proxy(agent: &Agent, error: &ureq::Error) -> bool {
    match error {
        ureq::Error::ConnectProxyFailed(reason) => ["401", "407"].iter().any(|status| reason.contains(status)),
        ureq::Error::Io(error) => agent.config().proxy().is_some() && error.kind() == ErrorKind::PermissionDenied,
        _ => false,
    }
}

impl TokenSource for OidcSource {
    fn fetch(&self) -> Result<Token, TokenError> {
        let mut response = self.ask()?;
        self.is_reached.store(true, Ordering::Relaxed);
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec();
        let body = body.map_err(|error| self.failed(&error))?;
        match status {
            200..=299 => self.token(&body),
            300..=399 => Err(TokenError::Refused(format!(
                "{} answered with a redirect ({status}), which is not followed: give the URL that it leads to",
                self.place()
            ))),
            429 | 500.. => Err(TokenError::Failed(format!("{} answered {status}", self.place()))),
            // Azure's is not there for a moment while it is updated.
            404 | 410 if matches!(self.grant, Grant::Metadata { .. }) => {
                Err(TokenError::Failed(format!("{} answered {status}", self.place())))
            }
            _ => Err(TokenError::Refused(format!("{} answered {status}{}", self.place(), reason(&body)))),
        }
    }

    fn advice(&self) -> &'static str {
        match &self.grant {
            Grant::Metadata { advice, .. } => advice,
            Grant::ClientAssertion { .. } => {
                "Check the client's id and scope, the URL of the token endpoint, and that the identity provider knows the \
                 key of sasl.oauthbearer.assertion.*"
            }
            _ => "Check the client's id, secret and scope, and the URL of the token endpoint",
        }
    }
}

impl OidcSource {
    fn place(&self) -> String {
        shown(&self.url)
    }

    /// Sends the request that the grant wants.
    fn ask(&self) -> Result<Response<Body>, TokenError> {
        let answered = if let Grant::Metadata { headers, .. } = &self.grant {
            let request = self.agent.get(&self.url);
            let with = |request: RequestBuilder<WithoutBody>, (name, value): &(&str, Secret)| {
                request.header(*name, value.expose_text().unwrap_or_default())
            };
            headers.iter().fold(request, with).call()
        } else {
            let (form, authorization) = self.request()?;
            let mut request = self.agent.post(&self.url).header("Accept", "application/json");
            if let Some(authorization) = &authorization {
                request = request.header("Authorization", authorization.expose_text().unwrap_or_default());
            }
            request.content_type("application/x-www-form-urlencoded").send(form.expose())
        };
        answered.map_err(|error| self.failed(&error))
    }

    /// The error of a request that was not answered. A certificate that is refused at the first request is a mistake in
    /// the settings; later, it may be replaced while the last token is still valid.
    fn failed(&self, error: &ureq::Error) -> TokenError {
        let advice =
            if let Grant::Metadata { advice, .. } = &self.grant { format!(". {advice}") } else { String::new() };
        let proxy = through_proxy(&self.agent, &self.url);
        let said = |reason: &str| format!("{}: {reason}{advice}{proxy}", self.place());
        if is_refused_by_proxy(&self.agent, error) {
            return TokenError::Refused(said(&format!("{error}{LOGIN_OF_PROXY}")));
        }
        let (inner, kind) = match error {
            ureq::Error::Rustls(inner) => (Some(inner), None),
            ureq::Error::Io(error) => {
                (error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()), Some(error.kind()))
            }
            _ => (None, None),
        };
        match (inner, kind) {
            (Some(rustls::Error::InvalidCertificate(problem)), _) => {
                let reason = said(&of_certificate(problem));
                match self.is_reached.load(Ordering::Relaxed) {
                    true => TokenError::Failed(reason),
                    false => TokenError::Refused(reason),
                }
            }
            (Some(rustls::Error::InvalidMessage(_)), _) => {
                TokenError::Failed(said("what answers there does not speak TLS; check the URL and its port"))
            }
            (_, Some(ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)) => {
                TokenError::Failed(said(NO_ANSWER))
            }
            _ if matches!(error, ureq::Error::Protocol(_)) => {
                TokenError::Failed(said(&format!("what answers there does not speak HTTP ({error}); check the URL")))
            }
            _ => TokenError::Failed(said(&error.to_string())),
        }
    }

    /// The form and the header `Authorization`.
    fn request(&self) -> Result<(Secret, Option<Secret>), TokenError> {
        let mut form = match &self.grant {
            Grant::ClientCredentials { .. } => "grant_type=client_credentials".to_owned(),
            Grant::ClientAssertion { id, assertion } => {
                let assertion = assertion.make().map_err(TokenError::Failed)?;
                let kind = encoded("urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
                let id = id.as_ref().map(|id| format!("&client_id={}", encoded(id))).unwrap_or_default();
                format!(
                    "grant_type=client_credentials{id}&client_assertion_type={kind}&client_assertion={}",
                    encoded(assertion.trim())
                )
            }
            Grant::JwtBearer(assertion) => {
                let assertion = assertion.make().map_err(TokenError::Failed)?;
                format!(
                    "grant_type={}&assertion={}",
                    encoded("urn:ietf:params:oauth:grant-type:jwt-bearer"),
                    encoded(assertion.trim())
                )
            }
            Grant::Metadata { .. } => String::new(),
        };
        if let Some(scope) = &self.scope {
            form = format!("{form}&scope={}", encoded(scope));
        }
        let authorization = match &self.grant {
            Grant::ClientCredentials { id, secret, url_encode } => {
                let secret = secret.expose_text().unwrap_or_default();
                let pair = match url_encode {
                    true => format!("{}:{}", encoded(id), encoded(secret)),
                    false => format!("{id}:{secret}"),
                };
                Some(Secret::from(format!("Basic {}", base64::encode(Secret::from(pair).expose()))))
            }
            Grant::ClientAssertion { .. } | Grant::JwtBearer(_) | Grant::Metadata { .. } => None,
        };
        Ok((form.into(), authorization))
    }

    fn token(&self, body: &[u8]) -> Result<Token, TokenError> {
        let wrong = |what: &str| TokenError::Failed(format!("{} answered {what}", self.place()));
        let answer: Map<String, Value> =
            serde_json::from_slice(body).map_err(|_| wrong("with something else than JSON"))?;
        let token = ["access_token", "id_token"].iter().find_map(|key| answer.get(*key)?.as_str());
        let token =
            token.map(str::trim).filter(|token| !token.is_empty()).ok_or_else(|| wrong("without an access_token"))?;
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Refused(format!(
                "{} answered with an access_token that is none: there are line breaks, blanks or other bytes in it that no \
                 token has",
                self.place()
            )));
        }
        // The provider's `expires_in` counts before the token's own claim, since a token may be opaque. Some providers
        // write the number as text, and Azure's App Service has `expires_on`, since 1970, alone.
        let number = |name: &str| {
            let seconds = answer.get(name).and_then(|value| match value {
                Value::String(text) => text.trim().parse::<f64>().ok(),
                value => value.as_f64(),
            });
            seconds.filter(|seconds| *seconds > 0.0).map(|seconds| (seconds * 1000.0) as i64)
        };
        let by_answer = number("expires_in").map(|life_ms| now_ms().saturating_add(life_ms));
        let by_answer = by_answer.or_else(|| number("expires_on"));
        let expires_at_ms =
            by_answer.or_else(|| jwt::expires_at_ms(token)).unwrap_or_else(|| now_ms() + OPAQUE_LIFE_MS);
        Ok(Token { value: token.into(), expires_at_ms, extensions: self.extensions.clone() })
    }
}

/// The fault of the endpoint's certificate, and advice about it.
fn of_certificate(problem: &CertificateError) -> String {
    match problem {
        CertificateError::UnknownIssuer => {
            "the endpoint's certificate comes from no authority that is trusted: give that authority's certificate in \
             https.ca.location"
                .into()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the endpoint's certificate has expired".into()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the endpoint's certificate is not valid yet: check the clock of this machine".into()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the endpoint's certificate is not for the host in the URL".into()
        }
        other => format!("the endpoint's certificate cannot be verified: {other}"),
    }
}

/// The endpoint's reason for the refusal (RFC 6749, section 5.2).
fn reason(body: &[u8]) -> String {
    let answer: Map<String, Value> = serde_json::from_slice(body).unwrap_or_default();
    let text = |key: &str| answer.get(key).and_then(Value::as_str).map(|text| readable(text.as_bytes()));
    match (text("error"), text("error_description")) {
        (Some(error), Some(description)) => format!(": {error} ({description})"),
        (Some(error), None) => format!(": {error}"),
        _ => String::new(),
    }
}

/// Form encoding: everything but letters, digits and `-._~*` in hexadecimal.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' | b'*' => encoded.push(char::from(byte)),
            b' ' => encoded.push('+'),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
#[path = "oidc_tests.rs"]
mod tests;
