//! ApiVersions, versions 0-5: lists exactly the APIs and versions that this broker offers.
//!
//! As in Kafka, Produce is listed from version 0 on although versions below 3 are not supported: librdkafka concludes
//! from a missing version 0 that the broker knows no compression (KIP-896). Of Kafka's features those are listed
//! that this broker has; they cannot be changed at runtime.
//!
//! From version 5 on, a client can name the cluster and node that it means to reach; if this is another one, it gets
//! REBOOTSTRAP_REQUIRED (KIP-1242).
//!
//! A request of an unknown higher version is answered in version 0, with UNSUPPORTED_VERSION and the versions of
//! ApiVersions alone (KIP-511).
//!
//! Not implemented: the feature `streams.version`, whose groups are not offered.

use monedula_protocol::api::ApiKey;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame::encode_response;
use monedula_protocol::messages::api_versions::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};

use super::{Handled, IMPLEMENTED};
use crate::core::Core;
use crate::request::{Answer, Call};
use crate::security::Login;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &ApiVersionsRequest<'_>) -> Handled {
    if call.version >= 3 && !(is_name(request.client_software_name) && is_name(request.client_software_version)) {
        return Err(ErrorCode::InvalidRequest);
    }
    check_meant(core, call, request)?;
    // After the versions, a client that has to log in begins to.
    if let Some(Login::Start) = core.peers.login(call.ticket.connection) {
        core.peers.set_login(call.ticket.connection, Login::Versions);
    }
    let offered = |&(key, ..): &(ApiKey, i16, i16)| {
        let (min, max) = core.offered(key)?;
        Some(api(key, if key == ApiKey::Produce { 0 } else { min }, max))
    };
    let features = features(core);
    // Up to version 3 a supported feature cannot have the minimum 0, so such features are left out.
    let told = features.iter().filter(|feature| call.version >= 4 || feature.min > 0);
    Ok(call.answer::<ApiVersionsRequest<'_>>(&ApiVersionsResponse {
        api_keys: IMPLEMENTED.iter().filter_map(offered).collect(),
        supported_features: told
            .map(|&Feature { name, min: min_version, max: max_version, .. }| SupportedFeatureKey {
                name,
                min_version,
                max_version,
                ..Default::default()
            })
            .collect(),
        finalized_features_epoch: FEATURES_EPOCH,
        finalized_features: features
            .iter()
            .filter(|feature| feature.level > 0)
            .map(|&Feature { name, level, .. }| FinalizedFeatureKey {
                name,
                max_version_level: level,
                min_version_level: level,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }))
}

/// Checks that the client means this cluster and node. It names both or neither; below version 5 neither.
///
/// # Errors
/// INVALID_REQUEST if only one of them is given, REBOOTSTRAP_REQUIRED for another cluster or node.
fn check_meant(core: &Core, call: &Call<'_>, request: &ApiVersionsRequest<'_>) -> Result<(), ErrorCode> {
    match (request.cluster_id, request.node_id) {
        (None, -1) => Ok(()),
        (None, _) | (Some(_), -1) => Err(ErrorCode::InvalidRequest),
        (Some(cluster_id), node_id) if cluster_id == core.settings.cluster_id && node_id == call.node.0 => Ok(()),
        _ => Err(ErrorCode::RebootstrapRequired),
    }
}

/// Constant, because features cannot be changed at runtime.
const FEATURES_EPOCH: i64 = 1;

pub(super) struct Feature {
    pub(super) name: &'static str,
    pub(super) min: i16,
    pub(super) max: i16,
    /// The finalized version; 0 if the feature is not in use.
    pub(super) level: i16,
}

impl Feature {
    /// A feature whose highest version is finalized.
    fn highest(name: &'static str, min: i16, max: i16) -> Self {
        Self { name, min, max, level: max }
    }
}

/// The features as Kafka 4.4.0 finalizes them. Where `max_versions` of the settings removes an API or its newest
/// versions, the feature that needs them is missing or lower.
pub(super) fn features(core: &Core) -> Vec<Feature> {
    let mut features = vec![Feature::highest("metadata.version", 7, 33)];
    if core.offered(ApiKey::ConsumerGroupHeartbeat).is_some() {
        features.push(Feature::highest("group.version", 0, 1));
    }
    // transaction.version 2 (KIP-890: every transaction has an epoch of its own) needs version 5 of EndTxn.
    let raises_epoch = core.offered(ApiKey::EndTxn).is_some_and(|(_, max)| max >= 5);
    features.push(Feature::highest("transaction.version", 0, if raises_epoch { 2 } else { 1 }));
    if core.offered(ApiKey::ShareFetch).is_some() {
        features.push(Feature::highest("share.version", 0, 2));
    }
    // Features of Kafka 4: eligible leader replicas (KIP-966), and a quorum whose voters do not change (KIP-853).
    if raises_epoch {
        features.push(Feature::highest("eligible.leader.replicas.version", 0, 1));
        features.push(Feature { name: "kraft.version", min: 0, max: 1, level: 0 });
    }
    features
}

/// The response to an unsupported version of ApiVersions (KIP-511).
pub(super) fn unsupported(call: &Call<'_>) -> Answer {
    let own = IMPLEMENTED.iter().filter(|(key, ..)| *key == ApiKey::ApiVersions);
    let response = ApiVersionsResponse {
        error_code: ErrorCode::UnsupportedVersion.code(),
        api_keys: own.map(|&(key, min, max)| api(key, min, max)).collect(),
        ..Default::default()
    };
    match encode_response::<ApiVersionsRequest<'_>>(&response, 0, call.ticket.correlation_id) {
        Ok(frame) => Answer::Now(vec![frame.into()]),
        Err(error) => Answer::Close(error.to_string()),
    }
}

fn api<'a>(key: ApiKey, min_version: i16, max_version: i16) -> ApiVersion<'a> {
    ApiVersion { api_key: key.code(), min_version, max_version, ..Default::default() }
}

/// True if a client's software name or version is valid (KIP-511): `[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?`.
fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.into_iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
        && bytes.iter().all(|&byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}
