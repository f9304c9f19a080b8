//! Fetch requests: the partitions that they read, sessions (KIP-227), waiting fetches, and responses without copies of
//! records.
//!
//! `api/fetch.rs` turns a request into a [`Fetch`]. It is answered at once, or parked until enough bytes can be read, a
//! partition changes so that it must be answered, or the wait time of the request is over.

mod answer;
mod parked;
mod read;
mod session;

use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use crate::cluster::NodeId;
use crate::log::{Aborted, Chunk};
use crate::request::Ticket;

pub(crate) use answer::encode;
pub(crate) use parked::{Parked, Waiting};
pub(crate) use read::FetchReader;
pub(crate) use session::{SessionUse, Sessions};

/// A Fetch request that is being carried out.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) ticket: Ticket,
    pub(crate) node: NodeId,
    /// The time at which it is answered, whether or not there are enough bytes.
    pub(crate) due_ms: i64,
    pub(crate) min_bytes: u64,
    pub(crate) max_bytes: usize,
    pub(crate) isolation: Isolation,
    /// The follower that sent the request; `None` for a client.
    pub(crate) replica: Option<NodeId>,
    /// The client's rack; `None` below version 11.
    pub(crate) rack: Option<Arc<str>>,
    pub(crate) session: SessionUse,
    pub(crate) wanted: Vec<Wanted>,
}

impl Waiting for Fetch {
    fn ticket(&self) -> Ticket {
        self.ticket
    }

    fn due_ms(&self) -> i64 {
        self.due_ms
    }

    fn min_bytes(&self) -> u64 {
        self.min_bytes
    }

    fn partitions(&self) -> impl Iterator<Item = (Option<&Arc<str>>, i32)> {
        self.wanted.iter().map(|wanted| (wanted.topic.as_ref(), wanted.index))
    }
}

/// The offset up to which a fetch reads.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// Reads to the log end offset: for followers.
    LogEnd,
    /// Reads to the high watermark: READ_UNCOMMITTED.
    Uncommitted,
    /// Reads to the last stable offset: READ_COMMITTED.
    Committed,
}

/// A partition to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// `None` if no topic has the id.
    pub(crate) topic: Option<Arc<str>>,
    /// Zero if the request identifies topics by name.
    pub(crate) topic_id: Uuid,
    pub(crate) index: i32,
    pub(crate) fetch_offset: i64,
    pub(crate) max_bytes: i32,
    pub(crate) current_leader_epoch: i32,
    pub(crate) last_fetched_epoch: i32,
    /// The error of a client that may not read the topic, or of a fault.
    pub(crate) refused: Option<ErrorCode>,
}

/// The result of a fetch for one partition.
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
    /// The leader and its epoch, if the node is not the leader (KIP-951).
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
