//! Share sessions: a node remembers the partitions that a member of a share group fetches.
//!
//! A session belongs to a group, a member and a node, and ends with the connection that opened it. Each ShareFetch and
//! ShareAcknowledge has the epoch that follows on the one before, so that only one of them is under way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use crate::cluster::NodeId;
use crate::request::ConnectionId;

/// The epoch of a request that opens a session.
pub(crate) const INITIAL_EPOCH: i32 = 0;
/// The epoch of a request that closes a session.
pub(crate) const FINAL_EPOCH: i32 = -1;

/// The identity of a session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionKey {
    pub(crate) node: NodeId,
    pub(crate) group: Arc<str>,
    pub(crate) member: Arc<str>,
}

#[derive(Debug)]
struct ShareSession {
    /// The epoch of the next request.
    epoch: i32,
    connection: ConnectionId,
    /// In the order in which they were added.
    partitions: Vec<(Uuid, i32)>,
    /// Partitions that no response has had yet: they are in the next one in any case.
    unanswered: BTreeSet<(Uuid, i32)>,
}

/// The partitions that a request adds to a session, and those that it removes.
#[derive(Debug, Default)]
pub(crate) struct SessionTopics {
    pub(crate) added: Vec<(Uuid, i32)>,
    pub(crate) forgotten: Vec<(Uuid, i32)>,
}

/// All share sessions of the cluster.
#[derive(Debug, Default)]
pub(crate) struct ShareSessions(BTreeMap<SessionKey, ShareSession>);

impl ShareSessions {
    /// Checks that a request may use the session.
    ///
    /// # Errors
    /// INVALID_REQUEST for acknowledgements with the epoch 0, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH,
    /// SHARE_SESSION_LIMIT_REACHED where a node has as many sessions as it may.
    pub(crate) fn check(&self, key: &SessionKey, epoch: i32, acknowledges: bool, most: i32) -> Result<(), ErrorCode> {
        let session = self.0.get(key);
        match (epoch, session) {
            (INITIAL_EPOCH, _) if acknowledges => Err(ErrorCode::InvalidRequest),
            (INITIAL_EPOCH, None) => {
                let open = self.0.keys().filter(|other| other.node == key.node).count();
                if open as i64 >= i64::from(most) { Err(ErrorCode::ShareSessionLimitReached) } else { Ok(()) }
            }
            (INITIAL_EPOCH, Some(_)) | (FINAL_EPOCH, Some(_)) => Ok(()),
            (_, None) => Err(ErrorCode::ShareSessionNotFound),
            (_, Some(session)) if session.epoch != epoch => Err(ErrorCode::InvalidShareSessionEpoch),
            _ => Ok(()),
        }
    }

    /// Opens the session, or continues it, with a request that was checked. Returns its partitions, beginning with
    /// another one each time so that none starves, and whether each has to be in the response.
    pub(crate) fn advance(
        &mut self,
        key: &SessionKey,
        epoch: i32,
        connection: ConnectionId,
        topics: &SessionTopics,
    ) -> Vec<((Uuid, i32), bool)> {
        let session = self.0.entry(key.clone()).or_insert_with(|| ShareSession {
            epoch: INITIAL_EPOCH,
            connection,
            partitions: Vec::new(),
            unanswered: BTreeSet::new(),
        });
        session.epoch = if epoch == i32::MAX { 1 } else { epoch + 1 };
        for partition in &topics.added {
            if !session.partitions.contains(partition) {
                session.partitions.push(*partition);
                session.unanswered.insert(*partition);
            }
        }
        session.partitions.retain(|partition| !topics.forgotten.contains(partition));
        let mut partitions = session.partitions.clone();
        let first = epoch as usize % partitions.len().max(1);
        partitions.rotate_left(first);
        let unanswered = std::mem::take(&mut session.unanswered);
        partitions.into_iter().map(|partition| (partition, unanswered.contains(&partition))).collect()
    }

    /// The partitions of a session.
    pub(crate) fn partitions(&self, key: &SessionKey) -> impl Iterator<Item = &(Uuid, i32)> {
        self.0.get(key).into_iter().flat_map(|session| &session.partitions)
    }

    /// Closes a session.
    pub(crate) fn close(&mut self, key: &SessionKey) {
        self.0.remove(key);
    }

    /// Closes the sessions of a connection that has ended.
    pub(crate) fn disconnected(&mut self, connection: ConnectionId) -> Vec<SessionKey> {
        let of = |(key, session): (&SessionKey, &ShareSession)| (session.connection == connection).then(|| key.clone());
        let closed: Vec<SessionKey> = self.0.iter().filter_map(of).collect();
        self.0.retain(|_, session| session.connection != connection);
        closed
    }
}
