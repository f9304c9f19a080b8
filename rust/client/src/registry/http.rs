//! Requests to a registry: its URLs in turn, with credentials, deadlines, a bound for answers, and retries.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use monedula_protocol::secret::Secret;
use rustls::AlertDescription;
use serde_json::{Map, Value};
use ureq::{Agent, RequestBuilder};

use super::authorization::Authorization;
use super::reaching::Reaching;
use crate::sasl::{TokenError, is_refused_by_proxy, through_proxy};

/// Largest answer, in bytes. Registries themselves take schemas of 1 MB.
const MAX_ANSWER_BYTES: u64 = 16 << 20;

/// Media type of a body.
const JSON: &str = "application/vnd.schemaregistry.v1+json";

/// Longest text of a registry in a message, in characters: that a schema is not compatible has reasons.
const MAX_TEXT: usize = 2_000;

/// Hint where an answer is not one of a registry.
const IS_ONE: &str = "; is schema.registry.url that of a registry?";

const NO_TOKEN: &str = "no token for the registry";

#[derive(Debug)]
pub(super) struct Http {
    pub(super) agent: Agent,
    /// URL without a slash at the end, and without user and password.
    pub(super) urls: Vec<Url>,
    pub(super) retries: u32,
    pub(super) wait: Duration,
    pub(super) max_wait: Duration,
    /// Headers beside `Authorization`, as Confluent's cloud has them.
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) reaching: Reaching,
}

#[derive(Debug)]
pub(super) struct Url {
    pub(super) url: String,
    pub(super) authorization: Authorization,
}

/// Reason that a request brought nothing.
#[derive(Debug)]
pub(super) enum Failure {
    NotFound(String),
    /// The schema is not compatible with those that are there.
    Incompatible(String),
    /// Anything else.
    Other(String),
}

impl Failure {
    pub(super) fn why(self) -> String {
        match self {
            Self::NotFound(why) | Self::Incompatible(why) | Self::Other(why) => why,
        }
    }
}

/// Reason that one attempt brought nothing.
enum Attempt {
    /// Failure that asking again would not change.
    Final(Failure),
    /// Refusal by a registry of what was sent.
    Refused(String),
    /// The next URL, or the same one later, may answer.
    Again(String),
    /// The next URL may answer. This one will not, however often it is asked.
    Useless(String),
}

impl Http {
    /// The JSON object at this path.
    pub(super) fn get(&self, path: &str) -> Result<Map<String, Value>, Failure> {
        match self.request(path, None)? {
            Value::Object(answer) => Ok(answer),
            _ => Err(Failure::Other(format!("{path}: the answer is no JSON object{IS_ONE}"))),
        }
    }

    /// The JSON object that is answered to a JSON text.
    pub(super) fn post(&self, path: &str, posted: &str) -> Result<Map<String, Value>, Failure> {
        match self.request(path, Some(posted))? {
            Value::Object(answer) => Ok(answer),
            _ => Err(Failure::Other(format!("{path}: the answer is no JSON object{IS_ONE}"))),
        }
    }

    /// The JSON at this path, or what is answered to a JSON text that is posted there. Each URL is tried; then all of
    /// them again, after a wait, as often as the settings say.
    pub(super) fn request(&self, path: &str, posted: Option<&str>) -> Result<Value, Failure> {
        let (started, question) = (Instant::now(), self.reaching.ask());
        for retry in 0..=self.retries {
            let (mut failed, mut may_answer) = (Vec::new(), false);
            for url in &self.urls {
                match url.request(self, path, posted) {
                    Ok(answer) => {
                        self.reaching.answered();
                        return Ok(answer);
                    }
                    Err(Attempt::Refused(why)) => {
                        self.reaching.answered();
                        return Err(Failure::Other(why));
                    }
                    Err(Attempt::Final(failure)) => {
                        match &failure {
                            Failure::NotFound(_) | Failure::Incompatible(_) => self.reaching.answered(),
                            Failure::Other(why) => question.failed(why),
                        }
                        return Err(failure);
                    }
                    Err(Attempt::Again(why)) => {
                        may_answer = true;
                        failed.push(why);
                    }
                    Err(Attempt::Useless(why)) => failed.push(why),
                }
            }
            if retry == self.retries || !may_answer {
                let (attempts, seconds) = (retry + 1, started.elapsed().as_secs_f64());
                let proxy = self.urls.first().map(|url| through_proxy(&self.agent, &url.url)).unwrap_or_default();
                let why = failed.join("; ");
                let advice = advice(&why);
                let why = format!("{why} (attempts: {attempts}, in {seconds:.1} s); {advice}{proxy}");
                question.failed(&why);
                return Err(Failure::Other(why));
            }
            // From the first attempt on, or a silent registry would look like a topic without records for all of them.
            question.failed(&failed.join("; "));
            std::thread::sleep(self.pause(retry));
        }
        Err(Failure::Other("no URL is given".into()))
    }

    fn with_headers<B>(&self, request: RequestBuilder<B>, authorization: Option<&Secret>) -> RequestBuilder<B> {
        let request = request.header("Accept", "application/vnd.schemaregistry.v1+json, application/json");
        let request = self.headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
        match authorization {
            Some(authorization) => request.header("Authorization", authorization.expose_text().unwrap_or_default()),
            None => request,
        }
    }

    /// The time before the next attempt: up to twice as long each time, at random, so that clients come one by one.
    fn pause(&self, retry: u32) -> Duration {
        let longest = self.wait.saturating_mul(1 << retry.min(16)).min(self.max_wait);
        let draw = RandomState::new().hash_one(retry);
        longest.mul_f64((draw >> 11) as f64 / (1_u64 << 53) as f64)
    }
}

impl Url {
    /// One attempt, or two where the registry does not take a token any more.
    fn request(&self, http: &Http, path: &str, posted: Option<&str>) -> Result<Value, Attempt> {
        let header = self.header()?;
        match self.ask(http, path, posted, header.as_ref()) {
            Err((401, _)) if self.authorization.refused(header.as_ref()) => {
                let header = self.header()?;
                self.ask(http, path, posted, header.as_ref()).map_err(|(_, attempt)| attempt)
            }
            answer => answer.map_err(|(_, attempt)| attempt),
        }
    }

    fn header(&self) -> Result<Option<Secret>, Attempt> {
        self.authorization.header().map_err(|error| match error {
            TokenError::Failed(why) => Attempt::Again(format!("{NO_TOKEN}: {why}")),
            TokenError::Refused(why) => Attempt::Final(Failure::Other(format!(
                "{NO_TOKEN}: {why}; check schema.registry.bearer.auth.client.id, its secret and scope, and \
                 schema.registry.bearer.auth.issuer.endpoint.url"
            ))),
        })
    }

    /// The answer, or the status, 0 without one, and what follows from it.
    fn ask(
        &self,
        http: &Http,
        path: &str,
        posted: Option<&str>,
        header: Option<&Secret>,
    ) -> Result<Value, (u16, Attempt)> {
        let url = format!("{}{path}", self.url);
        let agent = &http.agent;
        let failed = |error: ureq::Error| match error {
            // Which of the parts of a request took too long says nothing to the user.
            ureq::Error::Timeout(_) => {
                Attempt::Again(format!("{url} did not answer within schema.registry.request.timeout.ms"))
            }
            error if is_of_tls(&error) || is_refused_by_proxy(agent, &error) => {
                Attempt::Useless(format!("{url}: {error}"))
            }
            // A registry that refuses the client's certificate may have closed before the second write of what is
            // posted, which fails then, with the alert unread. A request of one write reads it.
            error if posted.is_some() && is_cut(&error) && url.starts_with("https:") => {
                match http.with_headers(agent.get(&url), header).call() {
                    Err(told) if is_of_tls(&told) => Attempt::Useless(format!("{url}: {told}")),
                    _ => Attempt::Again(format!("{url}: {error}")),
                }
            }
            error => Attempt::Again(format!("{url}: {error}")),
        };
        let mut response = match posted {
            None => http.with_headers(agent.get(&url), header).call(),
            Some(body) => http.with_headers(agent.post(&url), header).header("Content-Type", JSON).send(body),
        }
        .map_err(|error| (0, failed(error)))?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec();
        let body = body.map_err(|error| match error {
            ureq::Error::BodyExceedsLimit(limit) => {
                (0, Attempt::Final(Failure::Other(format!("{url} answered more than {limit} bytes"))))
            }
            error => (0, failed(error)),
        })?;
        let said = || format!("{url} answered {status}{}", reason(&body));
        let other = |advice: &str| Err(Attempt::Final(Failure::Other(format!("{}{advice}", said()))));
        let answer = match status {
            200..=299 => serde_json::from_slice(&body).map_err(|_| {
                Attempt::Final(Failure::Other(format!("{url} answered with something else than JSON{IS_ONE}")))
            }),
            // Without an error code of the registry's own, the path itself is unknown there: 404 alone is the code of
            // the web server within it.
            404 if error_code(&body).is_some_and(|code| (40_400..40_500).contains(&code)) => {
                Err(Attempt::Final(Failure::NotFound(said())))
            }
            404 => other(IS_ONE),
            409 => Err(Attempt::Final(Failure::Incompatible(said()))),
            401 | 403 => other(self.authorization.advice()),
            300..=399 => other(", a redirect, which is not followed: give the URL that it leads to"),
            408 | 429 | 500.. => Err(Attempt::Again(said())),
            _ => Err(Attempt::Refused(said())),
        };
        answer.map_err(|attempt| (status, attempt))
    }
}

/// True if one side refused the other's certificate or encryption, which another attempt does not change.
fn is_of_tls(error: &ureq::Error) -> bool {
    let inner = match error {
        ureq::Error::Rustls(inner) => Some(inner),
        ureq::Error::Io(error) => error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()),
        _ => None,
    };
    match inner {
        Some(rustls::Error::AlertReceived(alert)) => !matches!(
            alert,
            AlertDescription::CloseNotify | AlertDescription::InternalError | AlertDescription::UserCanceled
        ),
        Some(
            rustls::Error::InvalidCertificate(_)
            | rustls::Error::InvalidMessage(_)
            | rustls::Error::NoCertificatesPresented
            | rustls::Error::PeerIncompatible(_),
        ) => true,
        _ => false,
    }
}

/// True if the other side has closed the connection while a request was sent.
fn is_cut(error: &ureq::Error) -> bool {
    matches!(error, ureq::Error::Io(error)
        if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted))
}

/// Words of a registry that does not take the client's certificate.
const CLIENT_REFUSED: [&str; 7] = [
    "alert: UnknownCA",
    "alert: BadCertificate",
    "alert: CertificateExpired",
    "alert: CertificateRevoked",
    "alert: CertificateUnknown",
    "alert: UnsupportedCertificate",
    "alert: AccessDenied",
];

/// Advice where no answer came, by the error.
pub(super) fn advice(why: &str) -> &'static str {
    if why.contains(NO_TOKEN) {
        "check schema.registry.bearer.auth.issuer.endpoint.url, and that the identity provider is up"
    } else if why.contains("CONNECT proxy failed") || why.contains("password authentication failed") {
        "check schema.registry.proxy.url, or the setting or variable that names the proxy in its place"
    } else if why.contains("received corrupt message") {
        "what answers there does not speak TLS: check the port in schema.registry.url, and whether it is http: there"
    } else if why.contains("UnknownIssuer") {
        "give the certificate of the authority that signs the registry's in schema.registry.ssl.ca.location"
    } else if why.contains("CertificateRequired") {
        "the registry asks for a certificate of the client: give schema.registry.ssl.certificate.location, or \
         schema.registry.ssl.keystore.location"
    } else if CLIENT_REFUSED.iter().any(|alert| why.contains(alert)) {
        "the registry does not take the client's certificate: check schema.registry.ssl.certificate.location, or \
         schema.registry.ssl.keystore.location, and the authorities that the registry knows"
    } else if why.contains("alert: HandshakeFailure") {
        "the registry may ask for a certificate of the client, schema.registry.ssl.certificate.location, or have no \
         encryption in common with it"
    } else if why.contains("certificate expired") || why.contains("certificate not valid yet") {
        "the registry's certificate is not valid at this time: it is to be renewed, or the clock here to be set"
    } else if why.contains("certificate not valid for name") {
        "the registry's certificate is that of another host: give a name that it has in schema.registry.url"
    } else {
        "check schema.registry.url, and that the registry is up"
    }
}

/// A text of the registry, as it may stand in a message.
pub(super) fn readable(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(MAX_TEXT).collect()
}

fn error_code(body: &[u8]) -> Option<i64> {
    let answer: Map<String, Value> = serde_json::from_slice(body).ok()?;
    answer.get("error_code")?.as_i64()
}

fn reason(body: &[u8]) -> String {
    let answer: Map<String, Value> = serde_json::from_slice(body).unwrap_or_default();
    let message = answer.get("message").and_then(Value::as_str).map(readable);
    match (error_code(body), message) {
        (Some(code), Some(message)) => format!(": {code} {message}"),
        (None, Some(message)) => format!(": {message}"),
        (Some(code), None) => format!(": {code}"),
        (None, None) => String::new(),
    }
}
