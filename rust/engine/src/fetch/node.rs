//! A broker, as far as fetching from it goes.

use std::collections::BTreeSet;

use monedula_protocol::types::Uuid;

use super::AssignmentId;
use super::partition::PartitionState;
use super::session::Session;
use crate::Now;

/// How many brokers there is something to fetch from: what memory for fetches is divided by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Brokers with a partition of which more is there than was fetched, or of which that is not known yet.
    pub behind: usize,
    /// Brokers all of whose partitions are fetched to their ends: a fetch from these waits for records to come.
    pub caught_up: usize,
    /// Those of them that no fetch is under way to.
    pub caught_up_unasked: usize,
}

#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) session: Session,
    /// Partitions fetched from here.
    pub(super) members: BTreeSet<AssignmentId>,
    /// Members of which more is there than was fetched, or of which that is not known yet.
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
    /// Lookups under way for partitions led here: the first fetch waits for them a moment, or it would be a long
    /// poll without them.
    pub(super) lookups: u32,
    pub(super) hold_until: Now,
}

impl Node {
    /// Notes that the partition is fetched from this broker, and how it stands.
    pub(super) fn take(&mut self, id: AssignmentId, state: &PartitionState) {
        self.members.insert(id);
        self.dirty.insert(id);
        note(&mut self.behind, id, state.is_behind());
        note(&mut self.unnamed, id, state.topic_id == Uuid::ZERO);
    }

    /// The partition is not fetched from here any more.
    pub(super) fn give_up(&mut self, id: AssignmentId) {
        self.members.remove(&id);
        self.behind.remove(&id);
        self.unnamed.remove(&id);
        self.dirty.insert(id);
    }

    pub(super) fn is_behind(&self) -> bool {
        !self.behind.is_empty()
    }

    /// Whether every topic id is known.
    pub(super) fn knows_topic_ids(&self) -> bool {
        self.unnamed.is_empty()
    }

    pub(super) fn is_ready(&self, now: Now) -> bool {
        let held = self.lookups > 0 && self.hold_until > now;
        self.sent_at.is_none() && !self.members.is_empty() && self.retry_at <= now && !held
    }
}

fn note(set: &mut BTreeSet<AssignmentId>, id: AssignmentId, is_in: bool) {
    if is_in {
        set.insert(id);
    } else {
        set.remove(&id);
    }
}
