//! Incremental fetch sessions (KIP-227), the client's side: one for each broker fetched from.

use std::collections::BTreeMap;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use super::AssignmentId;

/// A partition as the broker remembers it in a session; a change of any of it must be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionPartition {
    /// The id of the reading that asked: an answer for another one is not ours any more.
    pub reading_id: u64,
    /// Topic that the broker knows the partition by: another id is another partition to it.
    pub topic_id: Uuid,
    /// Offset asked for.
    pub offset: i64,
    /// Leader epoch known when asking, -1 unknown.
    pub leader_epoch: i32,
    /// Epoch of the record before `offset`, -1 unknown.
    pub offset_epoch: i32,
    /// Cap of this partition's bytes in one answer.
    pub max_bytes: i32,
}

impl SessionPartition {
    /// Tells whether a change has to be sent. The reading's id is the client's own, and never sent.
    fn differs(&self, other: &Self) -> bool {
        Self { reading_id: 0, ..*self } != Self { reading_id: 0, ..*other }
    }
}

/// The request that a session wants sent next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SessionRequest {
    /// Session id, 0 for none yet.
    pub(super) session_id: i32,
    /// 0 asks for a new session, n > 0 is the n-th request of this one.
    pub(super) epoch: i32,
    /// Set for a full request: the answer then covers just the partitions that it names.
    pub(super) full: bool,
    /// Partitions to add or change.
    pub(super) send: Vec<(AssignmentId, SessionPartition)>,
    /// Partitions that the broker may forget, with the topic ids that it knows them by.
    pub(super) forget: Vec<(AssignmentId, Uuid)>,
}

/// One broker's session. Changes take effect only when the broker acknowledged the request that carried them:
/// a request that was lost must leave no trace here.
#[derive(Clone, Debug, Default)]
pub(super) struct Session {
    id: i32,
    epoch: i32,
    known: BTreeMap<AssignmentId, SessionPartition>,
    in_flight: Option<SessionRequest>,
}

impl Session {
    /// Tells whether the next request has to name every partition.
    pub(super) fn wants_full(&self) -> bool {
        self.epoch == 0
    }

    /// The latest entry for `id`, including that of the request in flight.
    pub(super) fn asked(&self, id: AssignmentId) -> Option<SessionPartition> {
        let in_flight = self.in_flight.as_ref();
        let sent = in_flight.and_then(|request| {
            let at = request.send.binary_search_by_key(&id, |(id, _)| *id).ok()?;
            Some(request.send[at].1)
        });
        sent.or_else(|| self.known.get(&id).copied())
    }

    /// Builds the next request. `wanted` holds every fetchable partition if [`Self::wants_full`], else those
    /// whose state may have changed, in the order of their ids: `None` for one that is not to be fetched here
    /// (any more).
    pub(super) fn request(
        &mut self,
        wanted: impl Iterator<Item = (AssignmentId, Option<SessionPartition>)>,
    ) -> &SessionRequest {
        let full = self.wants_full();
        let mut request = SessionRequest { session_id: self.id, epoch: self.epoch, full, ..Default::default() };
        for (id, sent) in wanted {
            match sent {
                Some(sent) if full || self.known.get(&id).is_none_or(|known| known.differs(&sent)) => {
                    request.send.push((id, sent));
                }
                Some(sent) => {
                    self.known.insert(id, sent);
                }
                None if full => {}
                None => request.forget.extend(self.known.get(&id).map(|known| (id, known.topic_id))),
            }
        }
        self.in_flight.insert(request)
    }

    /// The broker took the request in flight and answered with `session_id`.
    pub(super) fn acknowledged(&mut self, session_id: i32) {
        let Some(request) = self.in_flight.take() else { return };
        if request.full {
            self.known.clear();
        }
        for (id, _) in &request.forget {
            self.known.remove(id);
        }
        self.known.extend(request.send);
        self.id = session_id;
        self.epoch = match session_id {
            // The broker keeps no session for us (its cache is full): every request is a full one.
            0 => 0,
            _ => request.epoch.checked_add(1).unwrap_or(1),
        };
    }

    /// The request in flight failed with a session's error, or never got an answer.
    pub(super) fn failed(&mut self, error: Option<ErrorCode>) {
        self.in_flight = None;
        self.known.clear();
        // Epoch 0 with an id closes that session and opens another (KIP-227). An id that the broker does not
        // know any more must not be sent.
        self.epoch = 0;
        if error == Some(ErrorCode::FetchSessionIdNotFound) {
            self.id = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Uuid = Uuid([1; 16]);

    fn sent(offset: i64) -> SessionPartition {
        SessionPartition { reading_id: 1, topic_id: ID, offset, leader_epoch: 0, offset_epoch: -1, max_bytes: 100 }
    }

    fn ask(session: &mut Session, wanted: &[(AssignmentId, Option<i64>)]) -> SessionRequest {
        session.request(wanted.iter().map(|&(id, offset)| (id, offset.map(sent)))).clone()
    }

    fn opened() -> Session {
        let mut session = Session::default();
        ask(&mut session, &[(1, Some(10)), (2, Some(20))]);
        session.acknowledged(77);
        session
    }

    #[test]
    fn the_first_request_is_full_and_later_ones_carry_changes_only() {
        let mut session = Session::default();
        let first = ask(&mut session, &[(1, Some(10)), (2, Some(20))]);
        assert!(first.full && first.session_id == 0 && first.epoch == 0 && first.send.len() == 2);
        session.acknowledged(77);
        let second = ask(&mut session, &[(1, Some(11)), (2, Some(20))]);
        assert_eq!((second.session_id, second.epoch, second.full), (77, 1, false));
        assert_eq!(second.send, vec![(1, sent(11))]);
        assert!(second.forget.is_empty());
    }

    #[test]
    fn a_partition_no_longer_wanted_is_forgotten_once() {
        let mut session = opened();
        assert_eq!(ask(&mut session, &[(2, None)]).forget, vec![(2, ID)]);
        session.acknowledged(77);
        assert!(ask(&mut session, &[(2, None)]).forget.is_empty());
    }

    #[test]
    fn a_lost_request_leaves_no_trace_and_reopens_under_the_old_id() {
        let mut session = opened();
        ask(&mut session, &[(1, Some(11))]);
        session.failed(None);
        let next = ask(&mut session, &[(1, Some(11)), (2, Some(20))]);
        assert_eq!((next.session_id, next.epoch, next.full, next.send.len()), (77, 0, true, 2));
    }

    #[test]
    fn an_evicted_session_is_reopened_without_its_id() {
        let mut session = opened();
        ask(&mut session, &[(1, Some(11))]);
        session.failed(Some(ErrorCode::FetchSessionIdNotFound));
        let next = ask(&mut session, &[(1, Some(11)), (2, Some(20))]);
        assert_eq!((next.session_id, next.epoch), (0, 0));
    }

    #[test]
    fn a_refused_session_stays_full() {
        let mut session = Session::default();
        ask(&mut session, &[(1, Some(10))]);
        session.acknowledged(0);
        let next = ask(&mut session, &[(1, Some(10))]);
        assert!(next.full && next.epoch == 0 && next.send.len() == 1);
    }

    #[test]
    fn the_epoch_wraps_to_one_and_never_to_zero() {
        let mut session = opened();
        session.epoch = i32::MAX;
        ask(&mut session, &[]);
        session.acknowledged(77);
        assert_eq!(ask(&mut session, &[]).epoch, 1);
    }

    #[test]
    fn a_new_span_at_the_same_offset_is_known_without_being_sent() {
        let mut session = opened();
        let moved = SessionPartition { reading_id: 2, ..sent(10) };
        let request = session.request([(1, Some(moved))].into_iter()).clone();
        assert!(request.send.is_empty());
        assert_eq!(session.asked(1), Some(moved));
    }
}
