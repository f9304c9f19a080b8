//! The effects of faults on the bytes of an answer.

use bytes::{Bytes, BytesMut};
use monedula_protocol::api::{ApiKey, Request};
use monedula_protocol::frame::{decode_response, encode_response};
use monedula_protocol::messages::api_versions::ApiVersionsRequest;
use monedula_protocol::messages::produce::ProduceRequest;
use monedula_protocol::messages::sasl_authenticate::{SaslAuthenticateRequest, SaslAuthenticateResponse};
use monedula_protocol::types::SecretBytes;

use super::{Effect, ScramLie};
use crate::request::{Action, Answer, Current, Wire};

/// The size of a frame's length field.
const LENGTH_BYTES: usize = 4;

/// Applies an effect to an answer. Instructions to the connection, such as fragmentation, are added to `wire`.
pub(super) fn change(
    action: Action,
    what: &Effect,
    instead: Option<Answer>,
    wire: &mut Wire,
    current: Option<Current>,
) -> Action {
    match (what, action) {
        (Effect::Close, _) => Action::Close("a fault closes it".to_owned()),
        (Effect::Reset, _) => Action::Reset,
        (Effect::Drop, Action::Send(_)) => Action::Nothing,
        (Effect::Error { .. }, action @ Action::Send(_)) => match instead {
            Some(Answer::Now(pieces)) => Action::Send(pieces),
            _ => action,
        },
        (Effect::Truncate { bytes }, action) => {
            wire.cut_after = Some(*bytes);
            action
        }
        (Effect::Fragment { bytes, pause_ms }, action) => {
            wire.fragment = Some((*bytes, *pause_ms));
            action
        }
        (Effect::Corrupt { offset, bytes }, Action::Send(pieces)) => Action::Send(corrupt(&pieces, *offset, *bytes)),
        (Effect::Scram { lie, iterations }, Action::Send(pieces)) => {
            let changed = current.and_then(|current| scram(&pieces, *lie, *iterations, current));
            Action::Send(changed.map_or(pieces, |frame| vec![frame.into()]))
        }
        (Effect::Throttle { ms }, Action::Send(pieces)) => {
            wire.pause_ms = u64::try_from(*ms).unwrap_or_default();
            Action::Send(current.map_or_else(|| pieces.clone(), |current| throttled(&pieces, *ms, current)))
        }
        (_, action) => action,
    }
}

/// Flips all bits of some bytes behind the length field.
fn corrupt(pieces: &[Bytes], offset: Option<usize>, bytes: usize) -> Vec<Bytes> {
    let mut frame = BytesMut::from(pieces.concat().as_slice());
    let body = frame.len().saturating_sub(LENGTH_BYTES);
    let first = offset.unwrap_or(body - body / 4);
    for byte in frame.iter_mut().skip(LENGTH_BYTES.saturating_add(first)).take(bytes) {
        *byte = !*byte;
    }
    vec![frame.freeze()]
}

/// Changes the SCRAM message in an answer to SaslAuthenticate; `None` if it has none of the fields in question.
fn scram(pieces: &[Bytes], lie: Option<ScramLie>, iterations: Option<u64>, current: Current) -> Option<Vec<u8>> {
    if current.key != ApiKey::SaslAuthenticate {
        return None;
    }
    let frame = pieces.concat();
    let response = decode_response::<SaslAuthenticateRequest<'_>>(frame.get(LENGTH_BYTES..)?, current.version).ok()?;
    let message = std::str::from_utf8(response.auth_bytes.expose()).ok()?;
    let change = |field: &str| match (field.split_at_checked(2)?, lie, iterations) {
        // Another signature of the same length.
        (("v=", signature), Some(ScramLie::WrongSignature), _) => Some(format!("v={}", reversed(signature))),
        (("v=", _), Some(ScramLie::NoSignature), _) => None,
        (("r=", nonce), Some(ScramLie::ForeignNonce), _) => Some(format!("r={}", reversed(nonce))),
        (("i=", _), _, Some(iterations)) => Some(format!("i={iterations}")),
        _ => Some(field.to_owned()),
    };
    let changed = message.split(',').filter_map(change).collect::<Vec<_>>().join(",");
    let auth_bytes = SecretBytes::new(changed.as_bytes());
    let response = SaslAuthenticateResponse { auth_bytes, ..response };
    encode_response::<SaslAuthenticateRequest<'_>>(&response, current.version, current.correlation_id).ok()
}

/// A text with its letters and digits in reverse order, and the rest behind them: base64 stays base64.
fn reversed(text: &str) -> String {
    let data = text.trim_end_matches('=');
    data.chars().rev().chain(text[data.len()..].chars()).collect()
}

/// Writes the throttle time into an answer, if its version has that field.
fn throttled(pieces: &[Bytes], ms: i32, current: Current) -> Vec<Bytes> {
    let mut frame = BytesMut::from(pieces.concat().as_slice());
    // In these answers the field comes after arrays and before tagged fields, so they must be decoded and encoded
    // again.
    let rewritten = match current.key {
        ApiKey::Produce => rewritten::<ProduceRequest<'_>>(&frame, current, |response| response.throttle_time_ms = ms),
        ApiKey::ApiVersions if current.version >= 1 => {
            rewritten::<ApiVersionsRequest<'_>>(&frame, current, |response| response.throttle_time_ms = ms)
        }
        _ => None,
    };
    if let Some(rewritten) = rewritten {
        return vec![rewritten.into()];
    }
    if let Some(at) = throttle_place(current)
        && let Some(place) = frame.get_mut(at..at + 4)
    {
        place.copy_from_slice(&ms.to_be_bytes());
    }
    vec![frame.freeze()]
}

/// Decodes an answer, changes it, and encodes it again; `None` if it cannot be decoded, such as an answer to an unknown
/// version.
fn rewritten<'q, R: Request<'q>>(
    frame: &[u8],
    current: Current,
    change: impl for<'r> FnOnce(&mut R::Response<'r>),
) -> Option<Vec<u8>> {
    let mut response = decode_response::<R>(frame.get(LENGTH_BYTES..)?, current.version).ok()?;
    change(&mut response);
    encode_response::<R>(&response, current.version, current.correlation_id).ok()
}

/// The position of the throttle time in an answer; `None` if its version has none. In most answers it is the first
/// field.
fn throttle_place(current: Current) -> Option<usize> {
    use ApiKey as Key;
    let Current { key, version, flexible, .. } = current;
    let header = if flexible { 5 } else { 4 };
    let first = LENGTH_BYTES + header;
    let since = match key {
        Key::Produce | Key::ApiVersions => return None,
        // The time comes after the error code.
        Key::OffsetDelete => return Some(first + 2),
        Key::JoinGroup | Key::ListOffsets | Key::CreateTopics | Key::OffsetForLeaderEpoch => 2,
        Key::Metadata | Key::OffsetCommit | Key::OffsetFetch => 3,
        Key::Fetch
        | Key::FindCoordinator
        | Key::Heartbeat
        | Key::LeaveGroup
        | Key::SyncGroup
        | Key::DescribeGroups
        | Key::ListGroups
        | Key::DeleteTopics => 1,
        _ => 0,
    };
    (version >= since).then_some(first)
}

#[cfg(test)]
mod tests {
    use monedula_protocol::messages::api_versions::{ApiVersion, ApiVersionsResponse, FinalizedFeatureKey};
    use monedula_protocol::messages::produce::{NodeEndpoint, ProduceResponse};

    use super::*;

    fn slowed<'q, R: Request<'q>>(key: ApiKey, version: i16, response: &R::Response<'_>) -> Bytes {
        let flexible = version >= R::FLEXIBLE_FROM;
        let current = Current { key, version, correlation_id: 7, flexible };
        let frame = encode_response::<R>(response, version, 7).unwrap();
        throttled(&[frame.into()], 250, current).concat().into()
    }

    #[test]
    fn the_throttle_time_is_told_also_before_tagged_fields() {
        for version in [3, 8, 9, 13] {
            let mut node_endpoints = vec![NodeEndpoint { node_id: 2, host: "there", port: 9, ..Default::default() }];
            node_endpoints.retain(|_| version >= 10);
            let response = ProduceResponse { node_endpoints, ..Default::default() };
            let frame = slowed::<ProduceRequest<'_>>(ApiKey::Produce, version, &response);
            let told = decode_response::<ProduceRequest<'_>>(&frame[4..], version);
            assert_eq!(told, Ok(ProduceResponse { throttle_time_ms: 250, ..response }), "version {version}");
        }
        let response = ApiVersionsResponse {
            api_keys: vec![ApiVersion::default()],
            finalized_features: vec![FinalizedFeatureKey { name: "group.version", ..Default::default() }],
            ..Default::default()
        };
        let frame = slowed::<ApiVersionsRequest<'_>>(ApiKey::ApiVersions, 4, &response);
        let told = decode_response::<ApiVersionsRequest<'_>>(&frame[4..], 4);
        assert_eq!(told, Ok(ApiVersionsResponse { throttle_time_ms: 250, ..response }));
    }

    #[test]
    fn corruption_keeps_the_length() {
        let pieces = [Bytes::from_static(&[0, 0, 0, 8, 1, 2]), Bytes::from_static(&[3, 4, 5, 6, 7, 8])];
        assert_eq!(corrupt(&pieces, Some(1), 2).concat(), [0, 0, 0, 8, 1, !2, !3, 4, 5, 6, 7, 8]);
        assert_eq!(corrupt(&pieces, None, 1).concat(), [0, 0, 0, 8, 1, 2, 3, 4, 5, 6, !7, 8]);
        assert_eq!(corrupt(&pieces, Some(99), 1).concat(), pieces.concat());
    }
}
