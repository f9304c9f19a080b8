//! AWS's security token service (STS), of one region: actions as forms, answers in XML.

use std::io::ErrorKind;
use std::time::SystemTime;

use jiff::Timestamp;
use monedula_protocol::sasl::readable;
use monedula_protocol::secret::Secret;
use ureq::Agent;
use ureq::http::Uri;

use super::credentials::AwsCredentials;
use super::domain;
use super::sigv4::{Signer, query};
use crate::config_values::{ConfigError, ConfigValues};
use crate::sasl::clouds::{check_endpoint, variable};
use crate::sasl::oauth_settings::{PROXY, timeouts, token_agent};
use crate::sasl::oidc::{LOGIN_OF_PROXY, is_refused_by_proxy, shown, through_proxy};
use crate::sasl::token::TokenError;

const MAX_ANSWER_BYTES: u64 = 64 << 10;
const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";

/// Errors of STS that pass: others refuse the client for good.
const PASSING: [&str; 4] = ["IDPCommunicationError", "RequestLimitExceeded", "Throttling", "ThrottlingException"];

#[derive(Debug)]
pub(super) struct Sts {
    agent: Agent,
    url: String,
    region: String,
}

impl Sts {
    /// That of the region, or of the endpoint that is given, or that the environment names.
    pub(super) fn of(values: &ConfigValues, region: &str, endpoint: Option<String>) -> Result<Self, ConfigError> {
        let named = endpoint.or_else(|| variable("AWS_ENDPOINT_URL_STS")).or_else(|| variable("AWS_ENDPOINT_URL"));
        let url = named.unwrap_or_else(|| format!("https://sts.{region}.{}/", domain(region)));
        check_endpoint(values, "AWS_ENDPOINT_URL_STS", &url)?;
        Ok(Self { agent: token_agent(values, timeouts(values), PROXY)?, url, region: region.to_owned() })
    }

    /// The answer to an action, signed with these credentials, or with none.
    pub(super) fn call(
        &self,
        action: &str,
        parameters: &[(&str, &str)],
        credentials: Option<&AwsCredentials>,
    ) -> Result<Secret, TokenError> {
        let mut form = vec![("Action", action), ("Version", "2011-06-15")];
        form.extend(parameters);
        let form = Secret::from(query(form));
        let mut request = self.agent.post(&self.url).header("Content-Type", FORM);
        if let Some(credentials) = credentials {
            let uri: Uri = self.url.parse().unwrap_or_default();
            let host = uri.authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default();
            let at = amazon_time(SystemTime::now());
            let signer = Signer { credentials, region: &self.region, service: "sts", at: &at };
            let mut headers = vec![("content-type", FORM), ("host", host.as_str()), ("x-amz-date", at.as_str())];
            headers.extend(signer.session_token().map(|token| ("x-amz-security-token", token)));
            let authorization = signer.authorization(("POST", uri.path(), ""), &headers, form.expose());
            for (name, value) in headers.iter().filter(|(name, _)| name.starts_with("x-amz-")) {
                request = request.header(*name, *value);
            }
            request = request.header("Authorization", authorization.expose_text().unwrap_or_default());
        }
        let failed = |error: ureq::Error| self.failed(action, &error);
        let mut response = request.send(form.expose()).map_err(failed)?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec().map_err(failed)?;
        let answer = Secret::from(body);
        if status == 200 {
            return Ok(answer);
        }
        let (code, message) = (element(&answer, "Code"), element(&answer, "Message"));
        let [code, message] = [code, message].map(|text| readable(text.unwrap_or_default().as_bytes()));
        let said = format!("{} answered {status} to {action}: {code} {message}", self.place());
        match status {
            400..=499 if status != 429 && !PASSING.contains(&code.as_str()) => Err(TokenError::Refused(said)),
            _ => Err(TokenError::Failed(said)),
        }
    }

    fn failed(&self, action: &str, error: &ureq::Error) -> TokenError {
        let proxy = through_proxy(&self.agent, &self.url);
        let is_refused = is_refused_by_proxy(&self.agent, error);
        let hint = match error {
            _ if is_refused => LOGIN_OF_PROXY,
            ureq::Error::Io(error) if error.kind() == ErrorKind::UnexpectedEof => "; the connection was closed",
            _ => "",
        };
        let reason = format!("{} ({action}): {error}{hint}{proxy}", self.place());
        if is_refused { TokenError::Refused(reason) } else { TokenError::Failed(reason) }
    }

    /// The credentials in an answer.
    pub(super) fn credentials(&self, answer: &Secret) -> Result<AwsCredentials, TokenError> {
        let text = |name: &str| {
            let lacking = || TokenError::Failed(format!("{} answered without {name}", self.place()));
            element(answer, name).filter(|text| !text.is_empty()).ok_or_else(lacking)
        };
        Ok(AwsCredentials {
            access_key_id: text("AccessKeyId")?.to_owned(),
            secret_access_key: text("SecretAccessKey")?.into(),
            session_token: Some(text("SessionToken")?.into()),
            expires_at_ms: milliseconds(text("Expiration")?),
        })
    }

    /// Its URL, for messages.
    pub(super) fn place(&self) -> String {
        shown(&self.url)
    }
}

/// The text of an element that has no other in it: keys and tokens, which have no escapes.
pub(super) fn element<'a>(answer: &'a Secret, name: &str) -> Option<&'a str> {
    let (_, after) = answer.expose_text()?.split_once(&format!("<{name}>"))?;
    Some(after.split_once(&format!("</{name}>"))?.0.trim())
}

/// A time as AWS's signatures have it.
pub(super) fn amazon_time(time: SystemTime) -> String {
    Timestamp::try_from(time).unwrap_or_default().strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// The milliseconds since 1970 of a time in RFC 3339. One that cannot be read has passed.
pub(super) fn milliseconds(time: &str) -> i64 {
    time.parse::<Timestamp>().map_or(0, |time| time.as_millisecond())
}
