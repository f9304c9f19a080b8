//! ApiVersions, versions 0-4: exactly what is implemented.
//!
//! A version from the future is answered in version 0 with UNSUPPORTED_VERSION and the versions of this API alone (KIP-511).

use monedula_protocol::api::ApiKey;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame::encode_response;
use monedula_protocol::messages::api_versions::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse};

use super::{IMPLEMENTED, Mentions};
use crate::core::{Answer, Call, Core};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &ApiVersionsRequest<'_>) -> Answer {
    if call.version >= 3 && !(is_name(request.client_software_name) && is_name(request.client_software_version)) {
        return call.answer::<ApiVersionsRequest<'_>>(&refuse(request, ErrorCode::InvalidRequest));
    }
    let offered = |&(key, ..): &(ApiKey, i16, i16)| core.offered(key).map(|(min, max)| api(key, min, max));
    let api_keys = IMPLEMENTED.iter().filter_map(offered).collect();
    call.answer::<ApiVersionsRequest<'_>>(&ApiVersionsResponse { api_keys, ..Default::default() })
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
