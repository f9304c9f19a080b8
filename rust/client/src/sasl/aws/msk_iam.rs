//! `AWS_MSK_IAM` of Amazon MSK: OAUTHBEARER with a presigned URL as the token, as Amazon's signers for other languages
//! make it.

use std::sync::Arc;
use std::time::SystemTime;

use monedula_protocol::base64;
use monedula_protocol::secret::Secret;
use regex::Regex;

use super::credentials::{ADVICE, CredentialSource, Role, session_name};
use super::domain;
use super::sigv4::{EMPTY_HASH, Signer};
use super::sts::{Sts, amazon_time};
use crate::config_values::{ConfigError, ConfigValues};
use crate::sasl::clouds::variable;
use crate::sasl::jaas::Jaas;
use crate::sasl::settings::error;
use crate::sasl::token::{Token, TokenError, TokenSource};
use crate::wall_clock::now_ms;

const LIFETIME_SECONDS: u32 = 900;

/// Options of Amazon's `IAMLoginModule`.
const OPTIONS: [&str; 6] =
    ["awsDebugCreds", "awsProfileName", "awsRoleArn", "awsRoleExternalId", "awsRoleSessionName", "awsStsRegion"];

#[derive(Debug)]
struct MskIamSource {
    region: String,
    credentials: CredentialSource,
    role: Option<Role>,
}

/// A source without a region: the settings are wrong, unless other code signs in its place.
#[derive(Debug)]
struct WithoutRegion;

impl TokenSource for WithoutRegion {
    fn fetch(&self) -> Result<Token, TokenError> {
        Err(TokenError::Refused(NO_REGION.into()))
    }

    fn check(&self) -> Result<(), ConfigError> {
        Err(ConfigError { key: "sasl.mechanism".into(), message: NO_REGION.into() })
    }
}

const NO_REGION: &str = "sasl.mechanism=AWS_MSK_IAM: bootstrap.servers does not show the region; set AWS_REGION";

pub(in crate::sasl) fn source(values: &ConfigValues, jaas: Option<&Jaas>) -> Result<Arc<dyn TokenSource>, ConfigError> {
    let option = |name: &str| jaas.and_then(|jaas| jaas.text(name)).map(str::to_owned);
    let wrong = |what: String| error(values, "sasl.jaas.config", format!("sasl.jaas.config: {what}"));
    if let Some((unknown, _)) = jaas.iter().flat_map(|jaas| jaas.prefixed("")).find(|(name, _)| !OPTIONS.contains(name))
    {
        return Err(wrong(format!("{unknown} is no option of IAMLoginModule; it has {}", OPTIONS.join(", "))));
    }
    let Some(region) = region(values) else { return Ok(Arc::new(WithoutRegion)) };
    let role = match option("awsRoleArn") {
        Some(arn) => Some(Role {
            arn,
            session_name: option("awsRoleSessionName").unwrap_or_else(session_name),
            external_id: option("awsRoleExternalId"),
            sts: Sts::of(values, option("awsStsRegion").as_deref().unwrap_or(&region), None)?,
        }),
        None => None,
    };
    // A profile is botocore's, whose signer is put in the place of this one.
    let credentials = match option("awsProfileName") {
        Some(_) => CredentialSource::Missing,
        None => CredentialSource::of(values, &region)?,
    };
    Ok(Arc::new(MskIamSource { region, credentials, role }))
}

/// The region of the cluster, by the brokers' names, else by the environment.
fn region(values: &ConfigValues) -> Option<String> {
    let address =
        Regex::new(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.(?:vpce\.)?amazonaws\.com(?:\.cn)?(?::|$)").ok()?;
    let servers = values.text("bootstrap.servers");
    let mut named = servers.split(',').filter_map(|server| address.captures(server.trim())?.get(1));
    let named = named.next().map(|region| region.as_str().to_owned());
    named.or_else(|| variable("AWS_REGION")).or_else(|| variable("AWS_DEFAULT_REGION"))
}

impl TokenSource for MskIamSource {
    fn fetch(&self) -> Result<Token, TokenError> {
        let mut credentials = self.credentials.fetch()?;
        if let Some(role) = &self.role {
            credentials = role.assume(&credentials)?;
        }
        let at_ms = now_ms();
        let at = amazon_time(SystemTime::now());
        let signer = Signer { credentials: &credentials, region: &self.region, service: "kafka-cluster", at: &at };
        let host = format!("kafka.{}.{}", self.region, domain(&self.region));
        let action = [("Action", "kafka-cluster:Connect")];
        let query = signer.presigned_query(&host, "/", &action, (LIFETIME_SECONDS, EMPTY_HASH));
        let url = Secret::from(format!("https://{host}/?{query}&User-Agent=monedula"));
        let value = Secret::from(base64::encode_url_safe(url.expose()));
        // The URL is of no use once the credentials that signed it have expired.
        let expires_at_ms = credentials.expires_at_ms.min(at_ms + i64::from(LIFETIME_SECONDS) * 1000);
        Ok(Token { value, expires_at_ms, extensions: Vec::new() })
    }

    fn advice(&self) -> &'static str {
        ADVICE
    }
}
