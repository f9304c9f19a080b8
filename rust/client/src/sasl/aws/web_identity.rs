//! JWTs of AWS's security token service that other parties verify (`GetWebIdentityToken`), for clusters outside AWS
//! that trust an account's issuer, by the settings that Confluent's clients have for them.

use std::sync::Arc;

use monedula_protocol::secret::Secret;

use super::credentials::{ADVICE, CredentialSource};
use super::sts::{Sts, element, milliseconds};
use crate::config_values::{ConfigError, ConfigValues};
use crate::sasl::clouds::{CONFIG, pairs, variable};
use crate::sasl::jwt;
use crate::sasl::settings::error;
use crate::sasl::token::{Token, TokenError, TokenSource};

/// Bounds of a token's life, in seconds.
const LIFETIME_SECONDS: std::ops::RangeInclusive<u32> = 60..=3600;

#[derive(Debug)]
struct WebIdentitySource {
    credentials: CredentialSource,
    sts: Sts,
    parameters: Vec<(String, String)>,
    extensions: Vec<(String, String)>,
}

pub(in crate::sasl) fn source(
    values: &ConfigValues,
    extensions: &[(String, String)],
) -> Result<Arc<dyn TokenSource>, ConfigError> {
    let wrong = |what: String| error(values, CONFIG, format!("{CONFIG}: {what}"));
    let (mut region, mut audience, mut endpoint) = (None, None, None);
    let (mut algorithm, mut life, mut tags) = ("ES384".to_owned(), "300".to_owned(), Vec::new());
    for (name, value) in pairs(values)? {
        match (name.as_str(), name.strip_prefix("tag_")) {
            ("region", _) => region = Some(value),
            ("audience", _) => audience = Some(value),
            ("sts_endpoint", _) => endpoint = Some(value),
            ("signing_algorithm", _) => algorithm = value,
            ("duration_seconds", _) => life = value,
            // Logging is that of this client.
            ("aws_debug", _) => {}
            (_, Some(tag)) => tags.push((tag.to_owned(), value)),
            _ => {
                return Err(wrong(format!(
                    "{name:?} means nothing to aws_iam; it takes region, audience, signing_algorithm, duration_seconds, \
                     sts_endpoint and tag_..."
                )));
            }
        }
    }
    let audience = audience.ok_or_else(|| wrong("audience is missing: whom the token is for".into()))?;
    let region = region.or_else(|| variable("AWS_REGION")).or_else(|| variable("AWS_DEFAULT_REGION"));
    let region = region.ok_or_else(|| wrong("region is missing: that of AWS's security token service".into()))?;
    if !["ES384", "RS256"].contains(&algorithm.as_str()) {
        return Err(wrong(format!("signing_algorithm={algorithm:?}: expected ES384 or RS256")));
    }
    if !life.parse().is_ok_and(|seconds| LIFETIME_SECONDS.contains(&seconds)) {
        return Err(wrong(format!("duration_seconds={life:?}: expected a whole number from 60 to 3600")));
    }
    let mut parameters = vec![
        ("Audience.member.1".into(), audience),
        ("SigningAlgorithm".into(), algorithm),
        ("DurationSeconds".into(), life),
    ];
    for (index, (tag, value)) in tags.into_iter().enumerate() {
        parameters.push((format!("Tags.member.{}.Key", index + 1), tag));
        parameters.push((format!("Tags.member.{}.Value", index + 1), value));
    }
    let credentials = CredentialSource::of(values, &region)?;
    let sts = Sts::of(values, &region, endpoint)?;
    Ok(Arc::new(WebIdentitySource { credentials, sts, parameters, extensions: extensions.to_vec() }))
}

impl TokenSource for WebIdentitySource {
    fn fetch(&self) -> Result<Token, TokenError> {
        let credentials = self.credentials.fetch()?;
        let parameters: Vec<_> = self.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let answer = self.sts.call("GetWebIdentityToken", &parameters, Some(&credentials))?;
        let token =
            element(&answer, "WebIdentityToken").filter(|token| token.bytes().all(|byte| byte.is_ascii_graphic()));
        let lacking = || TokenError::Failed(format!("{} answered without a WebIdentityToken", self.sts.place()));
        let token = token.filter(|token| !token.is_empty()).ok_or_else(lacking)?;
        let expires_at_ms = element(&answer, "Expiration").map(milliseconds).or_else(|| jwt::expires_at_ms(token));
        let expires_at_ms = expires_at_ms.unwrap_or_default();
        Ok(Token { value: Secret::from(token), expires_at_ms, extensions: self.extensions.clone() })
    }

    fn advice(&self) -> &'static str {
        ADVICE
    }
}
