//! What faults do to the bytes of an answer.

use bytes::{Bytes, BytesMut};
use monedula_protocol::api::ApiKey;

use super::Effect;
use crate::core::{Action, Answer, Current, Wire};

/// Bytes of a frame's length.
const LENGTH_BYTES: usize = 4;

/// An answer after an effect; what the connection is to do with it goes into `wire`.
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
        (Effect::Throttle { ms }, Action::Send(pieces)) => {
            wire.pause_ms = u64::try_from(*ms).unwrap_or_default();
            Action::Send(current.map_or_else(|| pieces.clone(), |current| throttled(&pieces, *ms, current)))
        }
        (_, action) => action,
    }
}

/// Flips all bits of some bytes behind the length.
fn corrupt(pieces: &[Bytes], offset: Option<usize>, bytes: usize) -> Vec<Bytes> {
    let mut frame = BytesMut::from(pieces.concat().as_slice());
    let body = frame.len().saturating_sub(LENGTH_BYTES);
    let first = offset.unwrap_or(body - body / 4);
    for byte in frame.iter_mut().skip(LENGTH_BYTES.saturating_add(first)).take(bytes) {
        *byte = !*byte;
    }
    vec![frame.freeze()]
}

/// Writes the throttle time into an answer, where the version has one in a place that is known without decoding.
fn throttled(pieces: &[Bytes], ms: i32, current: Current) -> Vec<Bytes> {
    let mut frame = BytesMut::from(pieces.concat().as_slice());
    if let Some(at) = throttle_place(current, frame.len())
        && let Some(place) = frame.get_mut(at..at + 4)
    {
        place.copy_from_slice(&ms.to_be_bytes());
    }
    vec![frame.freeze()]
}

/// Where the throttle time stands. It is the first field of most answers from their second or third kind on.
fn throttle_place(current: Current, length: usize) -> Option<usize> {
    use ApiKey as Key;
    let Current { key, version, flexible, .. } = current;
    let header = if flexible && key != Key::ApiVersions { 5 } else { 4 };
    let first = LENGTH_BYTES + header;
    let since = match key {
        // Behind everything else but the tagged fields, which are none unless a leader moved or features are told.
        Key::Produce => return (version >= 1).then(|| length - 4 - usize::from(flexible)),
        Key::ApiVersions => return (1..=2).contains(&version).then(|| length - 4),
        // Behind the error.
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
    use super::*;

    #[test]
    fn corruption_keeps_the_length() {
        let pieces = [Bytes::from_static(&[0, 0, 0, 8, 1, 2]), Bytes::from_static(&[3, 4, 5, 6, 7, 8])];
        assert_eq!(corrupt(&pieces, Some(1), 2).concat(), [0, 0, 0, 8, 1, !2, !3, 4, 5, 6, 7, 8]);
        assert_eq!(corrupt(&pieces, None, 1).concat(), [0, 0, 0, 8, 1, 2, 3, 4, 5, 6, !7, 8]);
        assert_eq!(corrupt(&pieces, Some(99), 1).concat(), pieces.concat());
    }
}
