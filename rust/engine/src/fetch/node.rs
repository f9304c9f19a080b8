//! The state of one broker: what is fetched from it, its session, and when the next fetch may go.

use std::collections::BTreeSet;

use monedula_protocol::types::Uuid;

use super::AssignmentId;
use super::partition::PartitionState;
use super::session::Session;
use crate::Now;

/// The number of brokers that have something to fetch. Memory for fetches is divided by them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Brokers with a partition whose log holds more than was fetched, or whose end is not known yet.
    pub behind: usize,
    /// Brokers all of whose partitions are fetched to their ends: a fetch from these waits for records to come.
    pub caught_up: usize,
    /// Nodes of `caught_up` without a fetch in flight.
    pub caught_up_unasked: usize,
}

/// The state of one broker.
#[derive(Debug, Default)]
pub(super) struct FetchNode {
    pub(super) session: Session,
    /// Partitions fetched from here.
    pub(super) members: BTreeSet<AssignmentId>,
    /// Members whose log holds more than was fetched, or whose end is not known yet.
    behind: BTreeSet<AssignmentId>,
    /// Members whose topic id is not known.
    unnamed: BTreeSet<AssignmentId>,
    /// Partitions whose entry in the session may have to change.
    pub(super) dirty: BTreeSet<AssignmentId>,
    /// The number of the last request.
    pub(super) asked: u64,
    pub(super) sent_at: Option<Now>,
    pub(super) by_topic_id: bool,
    pub(super) attempts: u32,
    pub(super) retry_at: Now,
    /// Lookups in flight for partitions led here: the first fetch waits for them until `hold_until`.
    pub(super) lookups: u32,
    pub(super) hold_until: Now,
}

impl FetchNode {
    /// The partition is fetched from here; called again after each change of its state.
    pub(super) fn add(&mut self, id: AssignmentId, state: &PartitionState) {
        self.members.insert(id);
        self.dirty.insert(id);
        note(&mut self.behind, id, state.is_behind());
        note(&mut self.unnamed, id, state.topic_id == Uuid::ZERO);
    }

    /// The partition is not fetched from here any more.
    pub(super) fn remove(&mut self, id: AssignmentId) {
        self.members.remove(&id);
        self.behind.remove(&id);
        self.unnamed.remove(&id);
        self.dirty.insert(id);
    }

    pub(super) fn is_behind(&self) -> bool {
        !self.behind.is_empty()
    }

    pub(super) fn knows_topic_ids(&self) -> bool {
        self.unnamed.is_empty()
    }

    /// Tells whether a fetch may go to it.
    pub(super) fn is_ready(&self, now: Now) -> bool {
        self.wake_at().is_some_and(|at| at <= now)
    }

    /// From when on a fetch may go to it; `None` if there is nothing to fetch, or a fetch is in flight.
    pub(super) fn wake_at(&self) -> Option<Now> {
        let held_until = if self.lookups > 0 { self.hold_until } else { Now::ZERO };
        (self.sent_at.is_none() && !self.members.is_empty()).then(|| self.retry_at.max(held_until))
    }
}

fn note(set: &mut BTreeSet<AssignmentId>, id: AssignmentId, is_in: bool) {
    if is_in {
        set.insert(id);
    } else {
        set.remove(&id);
    }
}
