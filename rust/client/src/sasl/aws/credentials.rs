//! AWS credentials, from where AWS's own libraries find them in a container or an instance: the environment, a token of
//! Kubernetes (IRSA), the endpoint of ECS or of EKS Pod Identity, the instance (IMDSv2).

use std::path::PathBuf;

use monedula_protocol::secret::Secret;
use serde_json::{Map, Value};
use ureq::Agent;

use super::sts::{Sts, milliseconds};
use crate::config_values::{ConfigError, ConfigValues};
use crate::sasl::clouds::{check_endpoint, is_local, metadata_agent, variable};
use crate::sasl::oauth_settings::{PROXY, timeouts, token_agent};
use crate::sasl::oidc::shown;
use crate::sasl::sources::read_small;
use crate::sasl::token::TokenError;

const ECS: &str = "http://169.254.170.2";
const FULL_URI: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
const IMDS: &str = "http://169.254.169.254";
const IMDS_IPV6: &str = "http://[fd00:ec2::254]";
const IMDS_ENDPOINT: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
/// Time for which a token of the instance's service is asked; it is used for two requests.
const IMDS_TOKEN_SECONDS: &str = "60";

const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// Advice where there are no credentials.
pub(super) const ADVICE: &str = "Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_WEB_IDENTITY_TOKEN_FILE and \
                                 AWS_ROLE_ARN, or that the container or instance has a role; for a profile, \
                                 pip install monedula[aws] and set AWS_PROFILE";

/// A key pair, with a session token if it is temporary.
#[derive(Clone, Debug)]
pub(super) struct AwsCredentials {
    pub(super) access_key_id: String,
    pub(super) secret_access_key: Secret,
    pub(super) session_token: Option<Secret>,
    /// Expiry, in milliseconds since 1970; `i64::MAX` for keys that have none.
    pub(super) expires_at_ms: i64,
}

/// A role that is assumed with other credentials.
#[derive(Debug)]
pub(super) struct Role {
    pub(super) arn: String,
    pub(super) session_name: String,
    pub(super) external_id: Option<String>,
    pub(super) sts: Sts,
}

/// The place of the credentials. They are read anew for each token, since all but those of the environment change.
#[derive(Debug)]
pub(super) enum CredentialSource {
    Environment(AwsCredentials),
    WebIdentity {
        file: PathBuf,
        role: Role,
    },
    Container {
        agent: Agent,
        url: String,
        token: Option<Secret>,
        token_file: Option<PathBuf>,
    },
    Instance {
        agent: Agent,
        endpoint: String,
    },
    /// The environment says that the instance is not to be asked.
    Missing,
}

/// The name of a role's session: the same for all tokens, because Kafka refuses re-authentication as another principal,
/// and the name is part of it.
pub(super) fn session_name() -> String {
    variable("AWS_ROLE_SESSION_NAME").unwrap_or_else(|| format!("monedula-{}", std::process::id()))
}

impl CredentialSource {
    /// The first place that the environment names, in the order of AWS's libraries.
    pub(super) fn of(values: &ConfigValues, region: &str) -> Result<Self, ConfigError> {
        if let (Some(id), Some(key)) = (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
            return Ok(Self::Environment(AwsCredentials {
                access_key_id: id,
                secret_access_key: key.into(),
                session_token: variable("AWS_SESSION_TOKEN").map(Secret::from),
                expires_at_ms: i64::MAX,
            }));
        }
        if let (Some(file), Some(arn)) = (variable("AWS_WEB_IDENTITY_TOKEN_FILE"), variable("AWS_ROLE_ARN")) {
            let sts = Sts::of(values, region, None)?;
            let role = Role { arn, session_name: session_name(), external_id: None, sts };
            return Ok(Self::WebIdentity { file: file.into(), role });
        }
        let relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").map(|path| format!("{ECS}{path}"));
        if let Some(url) = relative.or_else(|| variable(FULL_URI)) {
            check_endpoint(values, FULL_URI, &url)?;
            let is_link = url.parse().is_ok_and(|uri: ureq::http::Uri| uri.host().is_some_and(is_local));
            let agent = if is_link { metadata_agent(values) } else { token_agent(values, timeouts(values), PROXY)? };
            let token = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(Secret::from);
            let token_file = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").map(PathBuf::from);
            return Ok(Self::Container { agent, url, token, token_file });
        }
        if variable("AWS_EC2_METADATA_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return Ok(Self::Missing);
        }
        let is_ipv6 =
            variable("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE").is_some_and(|mode| mode.eq_ignore_ascii_case("ipv6"));
        let endpoint = variable(IMDS_ENDPOINT).unwrap_or_else(|| (if is_ipv6 { IMDS_IPV6 } else { IMDS }).into());
        check_endpoint(values, IMDS_ENDPOINT, &endpoint)?;
        Ok(Self::Instance { agent: metadata_agent(values), endpoint: endpoint.trim_end_matches('/').to_owned() })
    }

    /// The credentials as they are now. May block.
    pub(super) fn fetch(&self) -> Result<AwsCredentials, TokenError> {
        match self {
            Self::Environment(credentials) => Ok(credentials.clone()),
            Self::WebIdentity { file, role } => {
                let token = read_small(file, "the web identity token").map_err(TokenError::Failed)?;
                let parameters = [
                    ("RoleArn", role.arn.as_str()),
                    ("RoleSessionName", role.session_name.as_str()),
                    ("WebIdentityToken", token.trim()),
                ];
                role.sts.credentials(&role.sts.call("AssumeRoleWithWebIdentity", &parameters, None)?)
            }
            Self::Container { agent, url, token, token_file } => {
                let token = match token_file {
                    Some(file) => {
                        let text =
                            read_small(file, "the container's authorization token").map_err(TokenError::Failed)?;
                        Some(Secret::from(text.trim()))
                    }
                    None => token.clone(),
                };
                let headers: Vec<_> = token.iter().map(|token| ("Authorization", token)).collect();
                of_json(&shown(url), &answered(agent, url, &headers)?)
            }
            Self::Instance { agent, endpoint } => of_instance(agent, endpoint),
            Self::Missing => Err(TokenError::Refused("no AWS credentials are in the environment".into())),
        }
    }
}

impl Role {
    /// The credentials of the role, for which these stand.
    pub(super) fn assume(&self, credentials: &AwsCredentials) -> Result<AwsCredentials, TokenError> {
        let mut parameters = vec![("RoleArn", self.arn.as_str()), ("RoleSessionName", self.session_name.as_str())];
        parameters.extend(self.external_id.as_ref().map(|id| ("ExternalId", id.as_str())));
        self.sts.credentials(&self.sts.call("AssumeRole", &parameters, Some(credentials))?)
    }
}

fn of_instance(agent: &Agent, endpoint: &str) -> Result<AwsCredentials, TokenError> {
    let url = format!("{endpoint}/latest/api/token");
    let request = agent.put(&url).header("X-aws-ec2-metadata-token-ttl-seconds", IMDS_TOKEN_SECONDS);
    let token = body(&shown(&url), request.send_empty())?;
    let headers = [("X-aws-ec2-metadata-token", &token)];
    let url = format!("{endpoint}/latest/meta-data/iam/security-credentials/");
    let roles = answered(agent, &url, &headers)?;
    let role = roles.expose_text().and_then(|text| text.lines().next()).map(str::trim).filter(|name| !name.is_empty());
    let role = role.ok_or_else(|| TokenError::Failed(format!("{} answered with no role. {ADVICE}", shown(&url))))?;
    let url = format!("{url}{role}");
    of_json(&shown(&url), &answered(agent, &url, &headers)?)
}

fn answered(agent: &Agent, url: &str, headers: &[(&str, &Secret)]) -> Result<Secret, TokenError> {
    let request = headers
        .iter()
        .fold(agent.get(url), |request, (name, value)| request.header(*name, value.expose_text().unwrap_or_default()));
    body(&shown(url), request.call())
}

/// The body of an answer, of which errors say that it came from `place`.
fn body(place: &str, answered: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Secret, TokenError> {
    let failed = |error: ureq::Error| TokenError::Failed(format!("{place}: {error}. {ADVICE}"));
    let mut response = answered.map_err(failed)?;
    let status = response.status().as_u16();
    let body = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec().map_err(failed)?;
    match status {
        200 => Ok(body.into()),
        _ => Err(TokenError::Failed(format!("{place} answered {status}. {ADVICE}"))),
    }
}

/// The credentials in an answer of a container's or an instance's service.
fn of_json(place: &str, answer: &Secret) -> Result<AwsCredentials, TokenError> {
    let lacking = |what: &str| TokenError::Failed(format!("{place} answered without {what}. {ADVICE}"));
    let answer: Map<String, Value> = serde_json::from_slice(answer.expose()).map_err(|_| lacking("JSON"))?;
    let text = |name: &str| answer.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    Ok(AwsCredentials {
        access_key_id: text("AccessKeyId").ok_or_else(|| lacking("AccessKeyId"))?.to_owned(),
        secret_access_key: text("SecretAccessKey").ok_or_else(|| lacking("SecretAccessKey"))?.into(),
        session_token: text("Token").map(Secret::from),
        expires_at_ms: text("Expiration").map_or(i64::MAX, milliseconds),
    })
}
