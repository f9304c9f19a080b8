//! Tokens of Azure's managed identities, from the metadata service of a virtual machine (IMDS), or from that of App
//! Service, Functions and Container Apps, which the environment names.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use monedula_protocol::secret::Secret;

use super::clouds::{CONFIG, TYPE, check_endpoint, metadata_agent, pairs, variable};
use super::oidc::{Grant, OidcSource, encoded};
use super::settings::error;
use super::token::TokenSource;
use crate::config_values::{ConfigError, ConfigValues};

const URL: &str = "sasl.oauthbearer.token.endpoint.url";
const SCOPE: &str = "sasl.oauthbearer.scope";
const IMDS: &str = "http://169.254.169.254/metadata/identity/oauth2/token";
const IMDS_VERSION: &str = "2018-02-01";
/// The version of the service that `IDENTITY_ENDPOINT` names.
const APP_SERVICE_VERSION: &str = "2019-08-01";

const ADVICE: &str = "Check that this machine has a managed identity, and resource and client_id in \
                      sasl.oauthbearer.config (or sasl.oauthbearer.scope and sasl.oauthbearer.client.id)";

pub(super) fn source(
    values: &ConfigValues,
    extensions: &[(String, String)],
) -> Result<Arc<dyn TokenSource>, ConfigError> {
    let mut query = query(values)?;
    let version = |query: &mut Vec<String>, version: &str| {
        if !query.iter().any(|parameter| parameter.starts_with("api-version=")) {
            query.insert(0, format!("api-version={version}"));
        }
    };
    let (url, header) = match (values.given(URL), variable("IDENTITY_ENDPOINT"), variable("IDENTITY_HEADER")) {
        (Some(url), ..) => {
            check_endpoint(values, URL, &url)?;
            (url, ("Metadata", Secret::from("true")))
        }
        (None, Some(endpoint), Some(header)) => {
            check_endpoint(values, "IDENTITY_ENDPOINT", &endpoint)?;
            query.retain(|parameter| !parameter.starts_with("api-version="));
            version(&mut query, APP_SERVICE_VERSION);
            (endpoint, ("X-IDENTITY-HEADER", Secret::from(header)))
        }
        _ => (IMDS.to_owned(), ("Metadata", Secret::from("true"))),
    };
    let url = if url.contains('?') {
        query.insert(0, url);
        query.join("&")
    } else {
        if !query.iter().any(|parameter| parameter.starts_with("resource=")) {
            let message = format!("{TYPE}=azure_imds needs the resource that tokens are for, in {SCOPE} or {CONFIG}");
            return Err(error(values, SCOPE, message));
        }
        version(&mut query, IMDS_VERSION);
        format!("{url}?{}", query.join("&"))
    };
    Ok(Arc::new(OidcSource {
        agent: metadata_agent(values),
        url,
        grant: Grant::Metadata { headers: vec![header], advice: ADVICE },
        scope: None,
        extensions: extensions.to_vec(),
        is_reached: AtomicBool::new(false),
    }))
}

/// The parameters of the request: those of `sasl.oauthbearer.config`, as librdkafka has them (`query=`, and `params=`
/// in its examples), else of the scope and the client's id.
fn query(values: &ConfigValues) -> Result<Vec<String>, ConfigError> {
    let mut query = Vec::new();
    for (name, value) in pairs(values)? {
        match name.as_str() {
            "query" | "params" => query.extend(value.split('&').filter(|part| !part.is_empty()).map(str::to_owned)),
            _ => {
                let message = format!("{CONFIG}: {name:?} means nothing to azure_imds; it takes query=resource=...");
                return Err(error(values, CONFIG, message));
            }
        }
    }
    let has = |query: &[String], name: &str| query.iter().any(|parameter| parameter.starts_with(name));
    if let Some(scope) = values.given(SCOPE).filter(|_| !has(&query, "resource=")) {
        query.push(format!("resource={}", encoded(scope.strip_suffix("/.default").unwrap_or(&scope))));
    }
    let id = values.given("sasl.oauthbearer.client.credentials.client.id");
    if let Some(id) = id.filter(|_| !["client_id=", "mi_res_id=", "object_id="].iter().any(|name| has(&query, name))) {
        query.push(format!("client_id={}", encoded(&id)));
    }
    Ok(query)
}
