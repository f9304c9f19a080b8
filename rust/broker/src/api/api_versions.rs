//! ApiVersions, versions 0-5: exactly what is implemented.
//!
//! As in Kafka, Produce is listed from version 0 on although it is spoken from 3 on: librdkafka takes a broker without version 0
//! for one that knows no compression (KIP-896). Features are told as far as they are true here: those that clients act upon.
//!
//! From version 5 on a client may say which cluster and node it means; if that is another, it shall bootstrap again (KIP-1242).
//!
//! A version from the future is answered in version 0 with UNSUPPORTED_VERSION and the versions of this API alone (KIP-511).

use monedula_protocol::api::ApiKey;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame::encode_response;
use monedula_protocol::messages::api_versions::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};

use super::{IMPLEMENTED, Mentions};
use crate::core::{Answer, Call, Core};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &ApiVersionsRequest<'_>) -> Answer {
    if call.version >= 3 && !(is_name(request.client_software_name) && is_name(request.client_software_version)) {
        return call.answer::<ApiVersionsRequest<'_>>(&refuse(request, ErrorCode::InvalidRequest));
    }
    if let Err(error) = check_meant(core, call, request) {
        return call.answer::<ApiVersionsRequest<'_>>(&refuse(request, error));
    }
    let offered = |&(key, ..): &(ApiKey, i16, i16)| {
        let (min, max) = core.offered(key)?;
        Some(api(key, if key == ApiKey::Produce { 0 } else { min }, max))
    };
    let features = features(core);
    // Up to version 3 a feature's lowest version cannot be 0, so those are left out.
    let told = features.iter().filter(|feature| call.version >= 4 || feature.min > 0);
    call.answer::<ApiVersionsRequest<'_>>(&ApiVersionsResponse {
        api_keys: IMPLEMENTED.iter().filter_map(offered).collect(),
        supported_features: told
            .map(|&Feature { name, min: min_version, max: max_version }| SupportedFeatureKey {
                name,
                min_version,
                max_version,
                ..Default::default()
            })
            .collect(),
        finalized_features_epoch: FEATURES_EPOCH,
        finalized_features: features
            .iter()
            .map(|&Feature { name, max, .. }| FinalizedFeatureKey {
                name,
                max_version_level: max,
                min_version_level: max,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    })
}

/// Whether the client means this very node. It gives both cluster and node, or neither; below version 5 neither.
fn check_meant(core: &Core, call: &Call<'_>, request: &ApiVersionsRequest<'_>) -> Result<(), ErrorCode> {
    match (request.cluster_id, request.node_id) {
        (None, -1) => Ok(()),
        (None, _) | (Some(_), -1) => Err(ErrorCode::InvalidRequest),
        (Some(cluster_id), node_id) if cluster_id == core.settings.cluster_id && node_id == call.node.0 => Ok(()),
        _ => Err(ErrorCode::RebootstrapRequired),
    }
}

/// Features never change here.
const FEATURES_EPOCH: i64 = 1;

/// A feature with the versions that are supported; the highest is finalized.
pub(super) struct Feature {
    pub(super) name: &'static str,
    pub(super) min: i16,
    pub(super) max: i16,
}

/// What Kafka 4.4.0 has finalized. What the settings take from an API they take from its feature.
pub(super) fn features(core: &Core) -> Vec<Feature> {
    let mut features = vec![Feature { name: "metadata.version", min: 7, max: 33 }];
    if core.offered(ApiKey::ConsumerGroupHeartbeat).is_some() {
        features.push(Feature { name: "group.version", min: 0, max: 1 });
    }
    // Every transaction in an epoch of its own (KIP-890) takes the fifth version of its end.
    let raises_epoch = core.offered(ApiKey::EndTxn).is_some_and(|(_, max)| max >= 5);
    features.push(Feature { name: "transaction.version", min: 0, max: if raises_epoch { 2 } else { 1 } });
    features
}

pub(super) fn refuse<'a>(_request: &ApiVersionsRequest<'_>, error: ErrorCode) -> ApiVersionsResponse<'a> {
    ApiVersionsResponse { error_code: error.code(), ..Default::default() }
}

pub(super) fn mentions<'a>(_request: &ApiVersionsRequest<'a>) -> Mentions<'a> {
    Mentions::default()
}

/// The answer to a version that is not offered.
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

/// KIP-511's rule for what a client may call itself: `[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?`.
fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.into_iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
        && bytes.iter().all(|&byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}
