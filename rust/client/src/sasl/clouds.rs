//! The cloud that vouches for a client: which one, by `sasl.oauthbearer.metadata.authentication.type`, with what
//! `sasl.oauthbearer.config` says about it. Metadata services are asked directly, through no proxy.

use std::net::IpAddr;
use std::sync::Arc;

use ureq::Agent;
use ureq::http::Uri;

use super::oauth_settings::{check_url, timeouts};
use super::oidc::agent;
use super::settings::error;
use super::token::TokenSource;
use super::{aws, azure, google};
use crate::config_values::{ConfigError, ConfigValues};

/// The setting that names the cloud.
pub(super) const TYPE: &str = "sasl.oauthbearer.metadata.authentication.type";

/// The setting with what a cloud is asked for.
pub(super) const CONFIG: &str = "sasl.oauthbearer.config";

/// The class of Google's library for Java.
const GOOGLE_HANDLER: &str = "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler";

/// The token source of the cloud that the settings name, if they name one.
pub(super) fn source(
    values: &ConfigValues,
    extensions: &[(String, String)],
) -> Result<Option<Arc<dyn TokenSource>>, ConfigError> {
    match values.text(TYPE).as_str() {
        "azure_imds" => azure::source(values, extensions).map(Some),
        "aws_iam" => aws::web_identity(values, extensions).map(Some),
        "gcp_metadata" => google::source(values, extensions).map(Some),
        _ if values.text("sasl.login.callback.handler.class") == GOOGLE_HANDLER => {
            google::source(values, extensions).map(Some)
        }
        _ => Ok(None),
    }
}

/// An HTTP client for a metadata service, whose answers are for this machine alone: it goes through no proxy.
pub(super) fn metadata_agent(values: &ConfigValues) -> Agent {
    agent(timeouts(values), Some(Vec::new()), None, None)
}

/// Pairs of `sasl.oauthbearer.config`, as librdkafka has it: `name=value,name=value`, where `\,` is a comma in a value.
pub(super) fn pairs(values: &ConfigValues) -> Result<Vec<(String, String)>, ConfigError> {
    let text = values.text(CONFIG).replace("\\,", "\0");
    let parts = text.split(',').map(|part| part.replace('\0', ",")).filter(|part| !part.trim().is_empty());
    let pair = |part: String| match part.split_once('=') {
        Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
        None => Err(error(values, CONFIG, format!("{CONFIG}: {part:?} has no =; expected name=value,name=value"))),
    };
    parts.map(pair).collect()
}

/// Checks the URL of a server that is asked for credentials: https, or http on this machine or its own network link,
/// where nobody else is on the way.
pub(super) fn check_endpoint(values: &ConfigValues, key: &str, url: &str) -> Result<(), ConfigError> {
    match url.parse::<Uri>() {
        Ok(uri) if uri.scheme_str() == Some("http") && uri.host().is_some_and(is_local) => Ok(()),
        _ => check_url(values, key, url),
    }
}

pub(super) fn is_local(host: &str) -> bool {
    match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_link_local(),
        // AWS's addresses on the link are of fd00:ec2::/32.
        Ok(IpAddr::V6(address)) => address.is_loopback() || address.segments()[..2] == [0xfd00, 0x0ec2],
        Err(_) => host == "localhost",
    }
}

/// A variable of the environment that is not empty.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}
