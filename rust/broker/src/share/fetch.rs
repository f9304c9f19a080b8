//! A ShareFetch that is being carried out.

use std::sync::Arc;

use super::{Acquired, Acquisition, ShareKey};
use crate::cluster::NodeId;
use crate::error::ApiError;
use crate::fetching::Waiting;
use crate::log::Chunk;
use crate::request::Ticket;

#[derive(Debug)]
pub(crate) struct ShareFetch {
    pub(crate) ticket: Ticket,
    pub(crate) node: NodeId,
    pub(crate) group: Arc<str>,
    /// The time at which it is answered, with or without records.
    pub(crate) due_ms: i64,
    pub(crate) min_bytes: u64,
    pub(crate) max_bytes: usize,
    pub(crate) acquisition: Acquisition,
    pub(crate) wanted: Vec<ShareWanted>,
}

/// A partition of a ShareFetch.
#[derive(Debug)]
pub(crate) struct ShareWanted {
    pub(crate) key: ShareKey,
    /// `None` if no topic has the id.
    pub(crate) topic: Option<Arc<str>>,
    /// False if it is in the request for its acknowledgements alone.
    pub(crate) fetches: bool,
    /// True if it is in the response even without records.
    pub(crate) answered: bool,
    /// The error of a client that may not read the topic, or of a fault.
    pub(crate) refused: Option<ApiError>,
    /// The outcome of its acknowledgements, if it has any.
    pub(crate) acknowledged: Option<Result<(), ApiError>>,
}

/// The result of a ShareFetch for one partition.
#[derive(Debug, Default)]
pub(crate) struct ShareFetched {
    pub(crate) error: Option<ApiError>,
    pub(crate) acquired: Vec<Acquired>,
    pub(crate) chunk: Chunk,
}

impl Waiting for ShareFetch {
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
        self.wanted.iter().map(|wanted| (wanted.topic.as_ref(), wanted.key.partition))
    }
}
