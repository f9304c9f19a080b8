//! Fetching: what a request wants, sessions that remember it, fetches that wait, and answers without copies.
//!
//! `api/fetch.rs` makes a [`Fetch`] of a request. It is answered at once, or parked until there is enough, something changed,
//! or the client's time is over.

mod answer;
mod parked;
mod read;
mod session;

use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use crate::cluster::NodeId;
use crate::core::{Answer, Core, Ticket};
use crate::log::{Aborted, Chunk};

pub(crate) use parked::Parked;
pub(crate) use session::{Sessions, Use};

/// A fetch on its way.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) ticket: Ticket,
    pub(crate) node: NodeId,
    pub(crate) max_wait_ms: i32,
    pub(crate) min_bytes: u64,
    pub(crate) max_bytes: usize,
    pub(crate) isolation: Isolation,
    /// The replica that asks, if it is not a client.
    pub(crate) replica: Option<NodeId>,
    /// The client's rack, where the version has one.
    pub(crate) rack: Option<Arc<str>>,
    pub(crate) session: Use,
    pub(crate) wanted: Vec<Wanted>,
}

/// Up to where is read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// The end of the log: replicas.
    LogEnd,
    /// What is committed to the replicas.
    Uncommitted,
    /// What no open transaction can change.
    Committed,
}

/// A partition to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// `None` for an id that names no topic.
    pub(crate) topic: Option<Arc<str>>,
    /// Zero where the request names topics by name.
    pub(crate) topic_id: Uuid,
    pub(crate) index: i32,
    pub(crate) fetch_offset: i64,
    pub(crate) max_bytes: i32,
    pub(crate) current_leader_epoch: i32,
    pub(crate) last_fetched_epoch: i32,
    /// The error that a fault wants.
    pub(crate) fault: Option<ErrorCode>,
}

/// What a partition is answered with.
#[derive(Clone, Debug)]
pub(crate) struct Fetched {
    pub(crate) topic: Option<Arc<str>>,
    pub(crate) topic_id: Uuid,
    pub(crate) index: i32,
    pub(crate) error: ErrorCode,
    pub(crate) high_watermark: i64,
    pub(crate) last_stable_offset: i64,
    pub(crate) log_start_offset: i64,
    pub(crate) diverging: Option<(i32, i64)>,
    /// The leader and its epoch, where the node asked is not.
    pub(crate) current_leader: Option<(i32, i32)>,
    pub(crate) aborted: Option<Vec<Aborted>>,
    pub(crate) preferred: Option<NodeId>,
    pub(crate) chunk: Chunk,
}

impl Fetched {
    pub(crate) fn failed(wanted: &Wanted, error: ErrorCode) -> Self {
        Self {
            topic: wanted.topic.clone(),
            topic_id: wanted.topic_id,
            index: wanted.index,
            error,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            diverging: None,
            current_leader: None,
            aborted: None,
            preferred: None,
            chunk: Chunk::default(),
        }
    }
}

/// Everything about fetching that outlives a request.
#[derive(Debug, Default)]
pub(crate) struct Fetching {
    pub(crate) sessions: Sessions,
    pub(crate) parked: Parked,
}

impl Core {
    /// Answers a fetch, or parks it.
    pub(crate) fn fetch(&mut self, fetch: Fetch) -> Answer {
        let fetched = self.read_all(&fetch);
        let ready = fetch.max_wait_ms <= 0
            || fetch.wanted.is_empty()
            || fetched.iter().map(|one| one.chunk.bytes as u64).sum::<u64>() >= fetch.min_bytes
            || fetched
                .iter()
                .any(|one| one.error != ErrorCode::None || one.diverging.is_some() || one.preferred.is_some());
        if !ready {
            self.park(fetch);
            return Answer::Later;
        }
        self.fetch_answer(fetch, fetched)
    }

    /// The partitions that a session of a node remembers.
    pub(crate) fn session_partitions(&self, node: NodeId, session: i32) -> Vec<(Arc<str>, i32)> {
        let name = |wanted: &Wanted| match &wanted.topic {
            Some(topic) => Some((Arc::clone(topic), wanted.index)),
            None => Some((self.topics.name_of(wanted.topic_id)?, wanted.index)),
        };
        self.fetching.sessions.remembered(node, session).filter_map(name).collect()
    }

    /// The answer, after which the session remembers what was told.
    fn fetch_answer(&mut self, fetch: Fetch, fetched: Vec<Fetched>) -> Answer {
        let (error, session_id, fetched) = self.fetching.sessions.answered(
            fetch.node,
            &fetch.session,
            &fetch.wanted,
            fetched,
            self.settings.kafka.max_incremental_fetch_session_cache_slots.max(0) as usize,
            self.now_ms,
            &mut self.draw,
        );
        let endpoints = match fetch.ticket.version {
            16.. => self.endpoints(fetched.iter().filter_map(|one| one.current_leader)),
            _ => Vec::new(),
        };
        Answer::Now(answer::encode(fetch.ticket, error, session_id, &fetched, &endpoints))
    }
}
