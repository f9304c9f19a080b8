//! Tokens for Google's Managed Service for Apache Kafka, from the metadata server of Compute Engine, GKE and Cloud Run:
//! an access token in an envelope that names the service account.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use monedula_protocol::base64;
use monedula_protocol::sasl::readable;
use monedula_protocol::secret::Secret;
use serde_json::json;

use super::clouds::{check_endpoint, metadata_agent, variable};
use super::jwt::part;
use super::oidc::{Grant, OidcSource, shown};
use super::token::{Token, TokenError, TokenSource};
use crate::config_values::{ConfigError, ConfigValues};
use crate::wall_clock::now_ms;

const URL: &str = "sasl.oauthbearer.token.endpoint.url";
const HOST: &str = "metadata.google.internal";
const ACCOUNT_PATH: &str = "computeMetadata/v1/instance/service-accounts/default";
const ADVICE: &str =
    "Check that this machine or pod has a service account, and that GCE_METADATA_HOST is right if it is set";

/// Longest name of an account, in bytes.
const MAX_EMAIL_BYTES: u64 = 1 << 10;

#[derive(Debug)]
struct GoogleSource {
    access: OidcSource,
    /// The account that the settings or the environment name; `None` to ask for it.
    account: Option<String>,
    account_url: String,
}

pub(super) fn source(
    values: &ConfigValues,
    extensions: &[(String, String)],
) -> Result<Arc<dyn TokenSource>, ConfigError> {
    let host = match variable("GCE_METADATA_HOST") {
        Some(host) => {
            check_endpoint(values, "GCE_METADATA_HOST", &format!("http://{host}/"))?;
            host
        }
        None => HOST.into(),
    };
    let url = match values.given(URL) {
        Some(url) => {
            check_endpoint(values, URL, &url)?;
            url
        }
        None => format!("http://{host}/{ACCOUNT_PATH}/token"),
    };
    let access = OidcSource {
        agent: metadata_agent(values),
        url,
        grant: Grant::Metadata { headers: vec![("Metadata-Flavor", "Google".into())], advice: ADVICE },
        scope: None,
        extensions: extensions.to_vec(),
        is_reached: AtomicBool::new(false),
    };
    let account = variable("GOOGLE_MANAGED_KAFKA_AUTH_PRINCIPAL");
    Ok(Arc::new(GoogleSource { access, account, account_url: format!("http://{host}/{ACCOUNT_PATH}/email") }))
}

impl GoogleSource {
    fn account(&self) -> Result<String, TokenError> {
        if let Some(account) = &self.account {
            return Ok(account.clone());
        }
        let wrong = |what: &str| TokenError::Failed(format!("{}: {what}. {ADVICE}", shown(&self.account_url)));
        let request = self.access.agent.get(&self.account_url).header("Metadata-Flavor", "Google");
        let mut response = request.call().map_err(|error| wrong(&error.to_string()))?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(MAX_EMAIL_BYTES).read_to_vec();
        let body = body.map_err(|error| wrong(&error.to_string()))?;
        let account = readable(body.trim_ascii());
        match status {
            200 if !account.is_empty() => Ok(account),
            _ => Err(wrong(&format!("answered {status}, and not with the service account"))),
        }
    }
}

impl TokenSource for GoogleSource {
    fn fetch(&self) -> Result<Token, TokenError> {
        let account = self.account()?;
        let token = self.access.fetch()?;
        let claims = json!({
            "exp": token.expires_at_ms / 1000,
            "iat": now_ms() / 1000,
            "iss": "Google",
            "scope": "kafka",
            "sub": account,
        });
        let header = json!({"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"});
        let access = base64::encode_url_safe(token.value.expose());
        let value = Secret::from(format!("{}.{}.{access}", part(&header), part(&claims)));
        Ok(Token { value, ..token })
    }

    fn advice(&self) -> &'static str {
        ADVICE
    }
}
